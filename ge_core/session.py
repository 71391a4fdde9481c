# SPDX-License-Identifier: Apache-2.0
"""InferenceSession: an om, opened on a device, run on arrays."""

import operator
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ge_core import batching
from ge_core.description import checked_path, described
from ge_core.engine import Engine
from ge_core_pyx import batch, device, executor, future, model


class InferenceSession:
    """An om, loaded on a device with all its memory. Any thread may call; the GIL is free while the device works.

    Parameters
    ----------
    path : path-like
        A compiled ``.om``.
    runtime : str, optional
        ``npu`` or ``cpu``; default GE_CORE_RUNTIME, else ``npu``. Never chosen by what the machine has.
    device_id : int, optional
        Logical device id; default 0.
    device_ids : sequence of int, optional
        Several devices instead of one: each loads the model, a request goes to the least loaded.
    slots : int
        Batches in flight at once, per device; each loads the model again, those of a device share its weights.
    submit_timeout_ms : int, optional
        How long a call waits for a free slot; None waits for ever.
    execute_timeout_ms : int, optional
        How long one execution may take, its turn on the device included; None waits for ever. After it the slot is
        given up. Also sets the device's own operator time limit, which is one for the process.
    output_axes : mapping, optional
        For gears of other axes than the batch: ``{output: {axis: (input, axis)}}`` says which axis of an output grows
        with which axis of an input. Inputs between gears are then padded up to one and the outputs cut back.
    pad_value : number or mapping of input name to number
        What padded places hold; default 0.
    gear_plan : str
        ``smallest`` (default): a request runs in the smallest gear that holds it. ``time``: it is cut into the gears
        with the least predicted time, from `gear_times_ms` or times measured when the session opens.
    gear_times_ms : sequence of float, optional
        One execution time per gear, for ``gear_plan="time"``.

    Attributes
    ----------
    description : ModelDescription
    budget : ge_core_pyx.budget.Budget
        Bytes taken on each device; None for range models, which grow.
    output_axes : dict
        As given, by the names of get_outputs() and get_inputs().

    Raises
    ------
    ModelFileError
        The file cannot be served, and why.
    DeviceMemoryError
        The model does not fit; the text has the sum.
    AclLoadError, AclError
        No runtime, or a call of AscendCL failed.
    UnsupportedError
        The om is of a kind that this release does not run.

    Examples
    --------
    >>> with ge_core.InferenceSession("model.om", runtime="cpu") as session:
    ...     (logits,) = session.run(None, {"input": x})
    """

    def __init__(
        self,
        path: os.PathLike | str,
        *,
        runtime: str | None = None,
        device_id: int | None = None,
        device_ids: Sequence[int] | None = None,
        slots: int = 1,
        submit_timeout_ms: int | None = None,
        execute_timeout_ms: int | None = None,
        output_axes: Mapping[str, Mapping[int, tuple[str, int]]] | None = None,
        pad_value: float | Mapping[str, float] = 0,
        gear_plan: str = "smallest",
        gear_times_ms: Sequence[float] | None = None,
    ):
        slots = _integer("slots", slots)
        ids = _devices(device_id, device_ids)
        if gear_plan not in ("smallest", "time"):
            raise ValueError(f"gear_plan must be 'smallest' or 'time', got {gear_plan!r}")
        limits = (
            _timeout("submit_timeout_ms", submit_timeout_ms),
            _timeout("execute_timeout_ms", execute_timeout_ms),
        )
        opened = device.open_runtime(runtime)
        absolute = checked_path(path, opened.kind)
        self._executor = executor.Executor(opened, ids, absolute, slots, *limits)
        self._engine = Engine(self._executor)
        try:
            self.description = described(self._executor.description, absolute, opened)
            self.output_axes, pads = _padding(self.description, output_axes, pad_value)
            self._executor.set_padding(self.output_axes, pads)
            if gear_plan == "time":
                self._plan_by_time(gear_times_ms)
        except BaseException:
            self.close()
            raise
        self.budget = self._executor.budget
        self.device_ids = ids
        self.device_id = ids[0]

    def _plan_by_time(self, times):
        gears: Any = self.description.gears  # sizes of the batch, where the kind is batch
        if self.description.gear_kind != "batch" or not self.description.max_rows:
            raise ValueError(
                f"gear_plan 'time' needs an om with batch gears; this one has {self.description.gear_kind} shapes"
            )
        if times is None:
            times = [self._time(rows) for rows in gears]
        elif len(times) != len(gears) or min(times) <= 0:
            raise ValueError(f"gear_times_ms must be one positive number per gear {gears}, got {list(times)}")
        table = batching.split_table(gears, times)
        self._executor.interface.set_split_table(table)
        self._engine.split_table = table

    def _time(self, rows, repeats=3):
        with self.borrow(rows) as borrowed:
            borrowed.run()
            best = float("inf")
            for _ in range(repeats):
                began = time.perf_counter()
                borrowed.run()
                best = min(best, time.perf_counter() - began)
        return best * 1e3

    def get_inputs(self) -> list[model.TensorSpec]:
        """The model's inputs (name, dtype, shape with None for what gears or ranges decide)."""
        return list(self.description.inputs)

    def get_outputs(self) -> list[model.TensorSpec]:
        """The model's outputs (name, dtype, shape with None for what gears or ranges decide)."""
        return list(self.description.outputs)

    def run(self, output_names: Sequence[str] | str | None, inputs: Mapping[str, Any]) -> list[np.ndarray]:
        """Run on host arrays and return arrays that the caller owns. Blocks until the device is done.

        Parameters
        ----------
        output_names : sequence of str, or None
            Which outputs, in which order; None for all.
        inputs : dict of name → array
            Each of the model's dtype and of shape (rows, …). Contiguous NumPy arrays are copied once, into pinned
            memory; other layouts and byte orders, DLPack objects and buffers are made contiguous first. Rows beyond
            the largest gear are run in parts, on as many slots as are free; fewer are padded with zeros up to a gear;
            a static om takes exactly its own number.

        Raises
        ------
        ValueError
            A wrong name, dtype or shape; the text says what was expected and what came.
        TimeoutError
            No free slot in time, or (AclTimeoutError) the device did not answer in time.
        AclError
            The device failed.
        """
        return self._executor.run(output_names, inputs)

    def submit(self, inputs: Mapping[str, Any], output_names: Sequence[str] | str | None = None) -> future.Future:
        """Copy the inputs into a free slot, queue the execution and return; `future.result()` waits for the outputs.

        Blocks while no slot is free, at most `submit_timeout_ms`. A future keeps its slot until result() returned or
        the future died, so results must be taken. Arguments and errors are those of run().
        """
        return self._executor.submit(output_names, inputs)

    def borrow(self, rows: int | None = None, shapes: Mapping[str, Sequence[int]] | None = None) -> batch.Batch:
        """Borrow a slot: fill pinned views, run, read pinned views, without a copy.

        Parameters
        ----------
        rows : int, optional
            Rows of the batch, at most the largest gear (the default); fewer are padded up to a gear.
        shapes : mapping of input name to shape, optional
            Instead of rows, for models with other gears or ranges.
        """
        return batch.Batch(self._executor, rows, shapes)

    def recover(self) -> None:
        """After a device error made the session unhealthy: rebuild its slots, where AscendCL allows that.

        Waits up to 2 s for the work that failed to end.

        Raises
        ------
        UnsupportedError
            The work that failed has not ended yet, or the device's error is one after which the process must end.
        """
        self._executor.recover()

    def stats(self) -> dict:
        """Executions (by gear), rows, padded rows, slots, health, and bytes of device and pinned memory held."""
        return self._executor.stats()

    def close(self, wait: bool = True) -> None:
        """Give everything back; later calls raise. Again: nothing happens.

        Parameters
        ----------
        wait : bool
            True: futures in flight get their results first. False: their result() raises CancelledError. A borrowed
            batch, or a run() in another thread, keeps its slot until it ends.
        """
        self._executor.close(wait)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        ids = ",".join(map(str, self.device_ids))
        return f"<InferenceSession {self.description.path} on {self.description.runtime}:{ids}>"


def _integer(name, value, lowest=1):
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not lowest <= number < 2**31:
        wanted = "a positive integer" if lowest else "an integer from 0,"
        raise ValueError(f"{name} must be {wanted} below 2**31, got {value!r}")
    return number


def _timeout(name, value):
    return -1 if value is None else _integer(name, value)


def _devices(device_id, device_ids):
    if device_ids is None:
        return (0 if device_id is None else _integer("device_id", device_id, 0),)
    ids = tuple(_integer("device_ids", value, 0) for value in device_ids)
    if device_id is not None or not ids or len(set(ids)) != len(ids):
        raise ValueError(
            f"give device_id or device_ids (at least one, each once), got device_id={device_id!r}, device_ids={ids}"
        )
    return ids


def _padding(description, output_axes, pad_value):
    """(output axes by output name, pad values by input name), checked against the model."""
    inputs = {name: spec for spec in description.inputs for name in (spec.name, spec.full_name)}
    outputs = {name: spec for spec in description.outputs for name in (spec.name, spec.full_name)}
    axes: dict[str, dict[int, tuple[str, int]]] = {}
    mappings = output_axes or {}
    if not isinstance(mappings, Mapping) or not all(isinstance(mapping, Mapping) for mapping in mappings.values()):
        raise ValueError(f"output_axes: expected {{output: {{axis: (input, axis)}}}}, got {output_axes!r}")
    for name, mapping in mappings.items():
        if name not in outputs:
            raise ValueError(
                f"output_axes: no output {name!r}; this model has {', '.join(map(str, description.outputs))}"
            )
        axes[outputs[name].name] = {}
        for axis, (source, source_axis) in mapping.items():
            spec = inputs.get(source)
            if spec is None or not 0 <= source_axis < len(spec.shape) or not 0 <= axis < len(outputs[name].shape):
                raise ValueError(
                    f"output_axes: axis {axis} of {outputs[name]} cannot follow axis {source_axis} of {source!r}; "
                    f"this model has {', '.join(map(str, description.inputs))}"
                )
            axes[outputs[name].name][axis] = (spec.name, source_axis)
    values = dict(pad_value) if hasattr(pad_value, "items") else {spec.name: pad_value for spec in description.inputs}
    unknown = [name for name in values if name not in inputs]
    if unknown:
        raise ValueError(
            f"pad_value: no input {unknown[0]!r}; this model has {', '.join(map(str, description.inputs))}"
        )
    for value in values.values():
        try:
            float(value)
        except (TypeError, ValueError):
            raise ValueError(f"pad_value: expected a number, or {{input: number}}, got {value!r}") from None
    return axes, {inputs[name].name: value for name, value in values.items()}
