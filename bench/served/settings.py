"""How a model is served: instances, devices, slots and Triton's dynamic batcher, as a stanza of config.pbtxt."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from bench.paths.clients import Endpoint
from bench.served.repository import parameters, tensors
from bench.served.server import check_settings
from ge_core.server.tritonserver import TritonServer
from ge_core_pyx.errors import GeCoreError


class RefusedError(GeCoreError):
    """The server did not load a model with these settings; the text is its reason."""


@dataclass(frozen=True)
class Setting:
    """One way to serve a model.

    Attributes
    ----------
    instances : int
        Triton instances, each a process with its own copy of the model.
    devices, first_device : int
        How many devices the instances share, and the number of the first.
    slots : int
        Batches in flight in each instance.
    delay_us : int or None
        How long the dynamic batcher waits for more requests, in microseconds; None: no batcher.
    preferred : tuple of int
        Rows at which it does not wait.
    rows : int or None
        The most rows of a batch; None: as many as the om takes.
    register_memory : bool
        Whether devices read and write Triton's shared memory themselves.
    """

    instances: int = 1
    devices: int = 1
    slots: int = 1
    delay_us: int | None = 0
    preferred: tuple[int, ...] = ()
    first_device: int = 0
    rows: int | None = None
    register_memory: bool = False

    def __str__(self) -> str:
        batcher = "no batcher" if self.delay_us is None else f"batcher, delay {self.delay_us} µs"
        parts = (("instance", self.instances), ("device", self.devices), ("slot", self.slots))
        return ", ".join([*(f"{n} {name}{'s' if n > 1 else ''}" for name, n in parts), batcher])

    def values(self) -> dict[str, str]:
        """Return the model's parameters; several slots go with responses that are sent."""
        return {
            "device_ids": ",".join(str(self.first_device + number) for number in range(self.devices)),
            "slots": str(self.slots),
            "responses": "sender" if self.slots > 1 else "returned",
            "register_memory": "true" if self.register_memory else "false",
        }

    def stanza(self, whole: bool = False) -> str:
        """Return the lines of config.pbtxt that ask for it; without `whole`, parameters' defaults are left out."""
        lines = [f"max_batch_size: {self.rows}"] if self.rows else []
        lines += [f"instance_group [ {{ kind: KIND_CPU count: {self.instances} }} ]"]
        if self.delay_us is not None:
            inside = f"max_queue_delay_microseconds: {self.delay_us} " if self.delay_us else ""
            if self.preferred:
                inside += f"preferred_batch_size: [ {', '.join(map(str, self.preferred))} ] "
            lines.append(f"dynamic_batching {{ {inside}}}")
        plain = {} if whole else Setting().values()
        values = {name: value for name, value in self.values().items() if value != plain.get(name)}
        return "\n".join(lines) + "\n" + parameters(values)


def config(name: str, om: Path, runtime: str, session, setting: Setting, backend: str = "ge") -> str:
    """Return the config.pbtxt of `om` served as `setting` says, spelled out, so that no environment changes it."""
    description = session.description
    return (
        f'name: "{name}"\nbackend: "{backend}"\n'
        + tensors("input", session.get_inputs(), description.max_rows > 0)
        + tensors("output", session.get_outputs(), description.max_rows > 0)
        + replace(setting, rows=setting.rows or description.max_rows or None).stanza(whole=True)
        + parameters({"om_model_path": str(om.resolve()), "runtime": runtime})
    )


def add(repository: Path, name: str, text: str, files: dict[str, str | bytes] | None = None) -> None:
    """Write one entry: its config.pbtxt and the `files` of its version folder."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(text, encoding="utf-8")
    for file, content in (files or {}).items():
        (version / file).write_bytes(content.encode() if isinstance(content, str) else content)


class Server:
    """A running server that loads entries of its repository when asked to."""

    def __init__(self, server: TritonServer, environ: dict[str, str]):
        self._server, self._environ = server, environ
        self.endpoint = Endpoint(server.http, server.grpc)
        self.client = tritonclient.grpc.InferenceServerClient(server.grpc)
        self.version = self.client.get_server_metadata().version

    @contextlib.contextmanager
    def loaded(self, name: str) -> Iterator[None]:
        """Load an entry until the block ends.

        Raises
        ------
        RefusedError
            The server refused it.
        """
        try:
            self.client.load_model(name)
        except InferenceServerException as error:
            raise RefusedError(_reason(str(error.message()))) from None
        try:
            check_settings(self._server.pid, self._environ)
            yield
        finally:
            self.client.unload_model(name)


def _reason(text: str) -> str:
    """What the model said in a server's message, without what the server and Python put around it."""
    return " ".join(text.partition("\n\nAt:")[0].rpartition("state: ")[2].split())


@contextlib.contextmanager
def serve(repository: Path, runtime: str, arguments: tuple[str, ...] = ()) -> Iterator[Server]:
    """Run a server on `repository`, with nothing loaded, until the block ends."""
    explicit = ("--model-control-mode=explicit", *arguments)
    with TritonServer(repository, runtime=runtime, arguments=explicit) as server:
        running = Server(server, {**os.environ, "GE_CORE_RUNTIME": runtime})
        try:
            yield running
        finally:
            running.client.close()
