# SPDX-License-Identifier: Apache-2.0
"""How a model is served: instances, devices, slots and Triton's dynamic batcher, as a stanza of config.pbtxt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.served.repository import parameters, tensors
from ge_core.serving.pbtxt import quoted


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
        """Return its lines of config.pbtxt; unless `whole`, parameters with their default value are left out."""
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


def config_text(name: str, om: Path, runtime: str, session, setting: Setting, backend: str = "ge") -> str:
    """Return the config.pbtxt of `om` served as `setting` says, spelled out, so that no environment changes it."""
    description = session.description
    return (
        f"name: {quoted(name)}\nbackend: {quoted(backend)}\n"
        + tensors("input", session.get_inputs(), description.max_rows > 0)
        + tensors("output", session.get_outputs(), description.max_rows > 0)
        + replace(setting, rows=setting.rows or description.max_rows or None).stanza(whole=True)
        + parameters({"om_model_path": str(om.resolve()), "runtime": runtime})
    )


def add_model(repository: Path, name: str, text: str, files: Mapping[str, str | bytes] | None = None) -> None:
    """Write one model folder: its config.pbtxt and the `files` of its version folder."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(text, encoding="utf-8")
    for file, content in (files or {}).items():
        (version / file).write_bytes(content.encode() if isinstance(content, str) else content)
