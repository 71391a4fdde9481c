# SPDX-License-Identifier: Apache-2.0
"""The Triton servers of a run, and the check that they and this process use the same device settings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from bench.paths.clients import Endpoint
from ge_core.server.tritonserver import TritonServer
from ge_core_pyx.errors import GeCoreError

DEVICE_VARIABLES = ("GE_CORE_RUNTIME", "GE_CORE_CPU_CONFIG", "GE_CORE_ACL_LIBRARY", "GE_CORE_OPENVINO")


class DifferentDeviceError(GeCoreError):
    """The server's workers and this process do not use the same device settings."""


class ModelRefusedError(GeCoreError):
    """The server did not load a model; the text is its reason."""


@contextlib.contextmanager
def serve(repository: Path, runtime: str) -> Iterator[tuple[Endpoint, str]]:
    """Serve every model of `repository` until the block ends; yields the server's addresses and Triton's version."""
    with TritonServer(repository, runtime=runtime) as server:
        check_environment(server.pid, {**os.environ, "GE_CORE_RUNTIME": runtime})
        with contextlib.closing(tritonclient.http.InferenceServerClient(server.http)) as client:
            version = client.get_server_metadata()["version"]
        yield Endpoint(server.http, server.grpc), version


class ExplicitServer:
    """A running server that loads a model of its repository when asked to."""

    def __init__(self, server: TritonServer, environ: dict[str, str]):
        self._pid, self._environ = server.pid, environ
        self.endpoint = Endpoint(server.http, server.grpc)
        self.client = tritonclient.grpc.InferenceServerClient(server.grpc)
        self.version = self.client.get_server_metadata().version

    @contextlib.contextmanager
    def loaded(self, name: str) -> Iterator[None]:
        """Load a model until the block ends.

        Raises
        ------
        ModelRefusedError
            The server refused it.
        """
        try:
            self.client.load_model(name)
        except InferenceServerException as error:
            raise ModelRefusedError(_reason(str(error.message()))) from None
        try:
            check_environment(self._pid, self._environ)
            yield
        finally:
            self.client.unload_model(name)


def _reason(text: str) -> str:
    """Return what the model said in a server's message, without what the server and Python put around it."""
    return " ".join(text.partition("\n\nAt:")[0].rpartition("state: ")[2].split())


@contextlib.contextmanager
def serve_explicit(repository: Path, runtime: str, arguments: tuple[str, ...] = ()) -> Iterator[ExplicitServer]:
    """Run a server on `repository`, with no model loaded, until the block ends."""
    explicit = ("--model-control-mode=explicit", *arguments)
    with TritonServer(repository, runtime=runtime, arguments=explicit) as server:
        running = ExplicitServer(server, {**os.environ, "GE_CORE_RUNTIME": runtime})
        try:
            yield running
        finally:
            running.client.close()


def check_environment(server_pid: int, mine: dict[str, str]) -> None:
    """Raise DifferentDeviceError unless every worker of the server has this process's device settings.

    With another timing configuration of the CPU implementation on one side, the difference between the two says
    nothing, and may even be negative.
    """
    for pid in children(server_pid):
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        theirs = dict(entry.decode(errors="surrogateescape").partition("=")[::2] for entry in entries if entry)
        for name in DEVICE_VARIABLES:
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
