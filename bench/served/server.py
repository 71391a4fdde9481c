"""The Triton server of a run, and the proof that it and this process see the same device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from bench.paths.clients import Endpoint
from ge_core.server.tritonserver import TritonServer
from ge_core_pyx.errors import GeCoreError

SHARED_SETTINGS = ("GE_CORE_RUNTIME", "GE_CORE_CPU_CONFIG", "GE_CORE_ACL_LIBRARY", "GE_CORE_OPENVINO")


class DifferentDeviceError(GeCoreError):
    """The server's workers and this process do not use the same device settings."""


@contextlib.contextmanager
def serve(repository: Path, runtime: str) -> Iterator[tuple[Endpoint, str]]:
    """Serve `repository` until the block ends; yields where, and Triton's version."""
    with TritonServer(repository, runtime=runtime) as server:
        check_settings(server.pid, {**os.environ, "GE_CORE_RUNTIME": runtime})
        yield Endpoint(http=server.http, grpc=server.grpc), server_version(Endpoint(server.http, server.grpc))


def server_version(endpoint: Endpoint) -> str:
    import tritonclient.http

    with contextlib.closing(tritonclient.http.InferenceServerClient(endpoint.http)) as client:
        return client.get_server_metadata()["version"]


def check_settings(server_pid: int, mine: dict[str, str]) -> None:
    """Raise DifferentDeviceError unless every worker of the server has this process's settings in its environment.

    A stand-in with another timing configuration on one side gives gaps that mean nothing, even negative ones.
    """
    for pid in children(server_pid):
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        theirs = dict(entry.decode(errors="surrogateescape").partition("=")[::2] for entry in entries if entry)
        for name in SHARED_SETTINGS:
            if theirs.get(name) != mine.get(name):
                raise DifferentDeviceError(
                    f"{name} is {theirs.get(name)!r} in worker {pid} of the server and {mine.get(name)!r} here; "
                    "both sides must use one device with one configuration"
                )


def children(parent: int) -> list[int]:
    """Return the process ids of the direct children of `parent`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry.name))
    return found
