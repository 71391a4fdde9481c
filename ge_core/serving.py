"""Triton requests → rows → responses. Speaks to Triton through the `pb_utils` module that is passed in."""

import ctypes
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ge_core import isolated, operations, options, triton_config
from ge_core.batching import Part, plan
from ge_core.session import InferenceSession
from ge_core_pyx import dtypes
from ge_core_pyx.errors import AclError, UnsupportedError


def complete_config(pb_utils, config, defaults: str | os.PathLike | None = None):
    """For auto_complete_config: fills the model configuration from the om, or refuses it.

    Runs in a process that Triton throws away, so the om is described by a child process.

    Parameters
    ----------
    pb_utils : module
        triton_python_backend_utils.
    config : pb_utils.ModelConfig
        Completed in place and returned.
    defaults : path, optional
        A defaults.json, see `ge_core.options.parse`.

    Raises
    ------
    ValueError
        Parameters, model file or configuration that do not fit; the message says what would.
    """
    content = config.as_dict()
    settings = options.parse(_parameters(content), defaults=defaults)
    om = find_om(settings, Path(pb_utils.get_model_dir()))
    triton_config.complete(content, isolated.describe(om, settings.runtime))
    return config


def load(pb_utils, args: Mapping[str, str], defaults: str | os.PathLike | None = None) -> "ServedModel":
    """For initialize: opens the om on this instance's device, checks the configuration, warms up and logs one line.

    Parameters
    ----------
    pb_utils : module
    args : mapping of str to str
        What Triton passes to initialize.
    defaults : path, optional

    Raises
    ------
    ValueError, RuntimeError, OSError
        The load is refused; nothing stays open.
    """
    refuse_numpy_2(pb_utils)
    tune_allocator()
    config = json.loads(args["model_config"])
    settings = options.parse(_parameters(config), defaults=defaults)
    om = find_om(settings, Path(args["model_repository"]) / args["model_version"])
    instance, count = instance_of(config, args["model_instance_name"])
    devices = options.devices_of(settings.device_ids, instance, count)
    if len(devices) > 1:
        raise ValueError(
            f"device_ids: this instance would own devices {', '.join(map(str, devices))}, and an instance runs on one; "
            f"set instance_group's count to {len(settings.device_ids)}"
        )
    limits = {"execute_timeout_ms": settings.execute_timeout_ms, "submit_timeout_ms": settings.submit_timeout_ms}
    session = InferenceSession(om, runtime=settings.runtime, device_id=devices[0], **limits)
    try:
        model = ServedModel(pb_utils, session, triton_config.bind(config, session.description))
        warm_up_ms = model.warm_up() if settings.warmup else None
        _log_load(pb_utils.Logger, config, session, warm_up_ms)
        model.operations = operations.begin(pb_utils, args, settings, session, instance)
    except BaseException:
        session.close()
        raise
    return model


def find_om(settings: options.ServingOptions, version_folder: Path) -> Path:
    """The om to serve: `om_model_path`, else the one ``.om`` of the version folder.

    Raises
    ------
    ValueError
        None, several, or a file that does not exist.
    """
    if settings.om_model_path:
        om = version_folder / settings.om_model_path
        if not om.is_file():
            raise ValueError(f"om_model_path {settings.om_model_path!r}: there is no file {om}")
    else:
        oms = sorted(version_folder.glob("*.om"))
        if len(oms) != 1:
            found = ", ".join(path.name for path in oms) or "none"
            raise ValueError(
                f"expected one .om in {version_folder}, found {found}; parameter om_model_path can name one"
            )
        om = oms[0]
    return om


def instance_of(config: Mapping, instance_name: str) -> tuple[int, int]:
    """(number of this instance, number of instances) over all instance groups of a model."""
    before, found = 0, 0
    for group in config.get("instance_group", ()):
        name, _, index = instance_name.rpartition("_")
        if name == group["name"] and index.isdigit():
            found = before + int(index)
        before += group["count"]
    return found, max(before, 1)


def refuse_numpy_2(pb_utils) -> None:
    """NumPy 2 arrays become empty tensors, silently, in Python backends built before it; their API shows their age."""
    if int(np.__version__.split(".")[0]) >= 2 and not hasattr(pb_utils.InferenceResponse, "parameters"):
        raise RuntimeError(
            f"this Triton's Python backend answers with empty tensors under NumPy {np.__version__}; "
            "run `pip install 'numpy<2'` for its Python, or use Triton 25.02 or newer"
        )


def tune_allocator() -> None:
    """Keeps freed memory in the process: otherwise glibc returns and faults in again each batch of input copies."""
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(m_mmap_threshold, 1 << 30)
        mallopt(m_trim_threshold, 2**31 - 1)
        mallopt(m_top_pad, 64 << 20)


class RequestError(ValueError):
    """A request that does not fit the model; its sender is told."""


class _Call(NamedTuple):
    """One accepted request. `rows` is None for a model that cannot be cut by rows."""

    position: int  # of its response
    arrays: list[np.ndarray]  # in the order of the model's inputs
    rows: int | None
    wanted: set[str]  # names of outputs


class ServedModel:
    """Answers Triton's requests with one session.

    Answers are views of the session's pinned output: Triton copies them after `execute` returned and before it calls
    again, so the batch behind them stays until the next call. A model without rows runs request by request.

    Parameters
    ----------
    pb_utils : module
    session : ge_core.InferenceSession
    binding : ge_core.triton_config.Binding
    """

    def __init__(self, pb_utils, session, binding: triton_config.Binding):
        self._tensor, self._response, self._error = pb_utils.Tensor, pb_utils.InferenceResponse, pb_utils.TritonError
        self._log = pb_utils.Logger
        self._session = session
        self.operations: operations.Operations | None = None  # of a model that `load` made
        self._held = None
        description = session.description
        self._by_rows = description.max_rows > 0
        self._gears = tuple(description.gears) if description.gear_kind == "batch" else (description.max_rows,)
        self._skip = int(self._by_rows)  # leading dims of a request that are free
        self._inputs = tuple(
            (bound.name, np.dtype(dtypes.by_name(bound.spec.dtype).numpy), bound.spec.shape[self._skip :], bound.spec)
            for bound in binding.inputs
        )
        self._input_names = tuple(bound.spec.name for bound in binding.inputs)
        multiples = dict(zip((spec.name for spec in description.outputs), description.row_multiples, strict=True))
        self._outputs = tuple((bound.name, bound.spec.name, multiples[bound.spec.name]) for bound in binding.outputs)

    def warm_up(self) -> float:
        """Runs every gear once on zeros, so that a model which cannot run fails at load. Blocks; milliseconds taken."""
        began = time.perf_counter()
        if self._by_rows:
            for gear in self._gears:
                with self._session.borrow(gear) as batch:
                    batch.run()
        elif not self._session.description.gears:
            self._session.run(None, {spec.name: np.zeros(spec.shape, dtype) for _, dtype, _, spec in self._inputs})
        return (time.perf_counter() - began) * 1e3

    def execute(self, requests: Sequence) -> list:
        """One response for each request, in order; whatever goes wrong is an error response, never an exception."""
        if self.operations is not None and (reason := self.operations.refusing):
            return [self._failure(reason, self._error.UNAVAILABLE) for _ in requests]
        try:
            return self._answer(requests)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            self._log.log_error(f"GE Backend: {message}")
            return [self._failure(message, self._error.INTERNAL) for _ in requests]

    def is_ready(self) -> bool:
        """Whether requests can run now. From any thread; never blocks."""
        return self.operations is None or self.operations.is_ready()

    def close(self) -> None:
        """Frees the device. Calling it again does nothing."""
        if self.operations is not None:
            self.operations.close()
        self._release()
        self._session.close()

    def _borrow(self, rows: int):
        """The batch for so many rows: the last call's one if it had as many, which spares its views."""
        if self._held is None or self._held.rows != rows:
            self._release()
            self._held = self._session.borrow(rows)
        return self._held

    def _release(self):
        if self._held is not None:
            held, self._held = self._held, None
            held.close()

    def _answer(self, requests):
        responses, calls, rows = [None] * len(requests), [], 0
        for position, request in enumerate(requests):
            try:
                call = self._read(position, request)
            except RequestError as error:
                responses[position] = self._failure(str(error), self._error.INVALID_ARG)
            else:
                calls.append(call)
                rows += call.rows or 0
        if not self._by_rows:
            self._run_each(calls, responses)
        elif rows > self._gears[-1]:
            self._run_parts(calls, responses)
        elif calls:
            self._run_together(calls, rows, responses)
        return responses

    def _read(self, position, request) -> _Call:
        given = {tensor.name(): tensor for tensor in request.inputs()}
        arrays, rows, skip = [], None, self._skip
        for name, dtype, dims, spec in self._inputs:
            tensor = given.get(name)
            if tensor is None:
                raise RequestError(f"input '{name}' is missing; expected {self._expected(spec)}")
            array = _array(tensor, name)
            shape = array.shape
            if array.dtype != dtype or (shape[skip:] != dims and not _fits(shape[skip:], dims)) or len(shape) < skip:
                raise RequestError(f"input '{name}': expected {self._expected(spec)}, got {_came(array)}")
            if skip and shape[0] != rows:
                if rows is not None or not shape[0]:
                    wanted = f"{rows} rows as in '{self._inputs[0][0]}'" if rows else "at least 1 row"
                    raise RequestError(f"input '{name}': expected {wanted}, got {_came(array)}")
                rows = shape[0]
            arrays.append(array)
        if len(given) != len(arrays):
            known = [name for name, *_ in self._inputs]
            extra = ", ".join(f"'{name}'" for name in given if name not in known)
            raise RequestError(f"input {extra} is not one of this model's: {', '.join(known)}")
        return _Call(position, arrays, rows, request.requested_output_names())

    def _run_together(self, calls: list[_Call], total: int, responses: list):
        """The usual case: one execution, each request a range of its rows, answered by views.

        The responses are made before the run, so that nothing but returning them is left to do after it.
        """
        try:
            batch, row = self._borrow(total), 0
            for position, arrays, rows, wanted in calls:
                for name, array in zip(self._input_names, arrays, strict=True):
                    batch.write(name, row, array)
                outputs, tensors = batch.outputs, []
                for name, own_name, multiple in self._outputs:
                    if name in wanted:
                        array = outputs[own_name]
                        if rows != total:
                            array = array[row * multiple : (row + rows) * multiple]
                        tensors.append(self._tensor(name, array))
                responses[position] = self._response(tensors)
                row += rows
            batch.run()
        except Exception as error:
            self._fail(calls, error, responses)
            self._release()

    def _run_parts(self, calls: list[_Call], responses: list):
        """More rows than the largest gear: several executions, their rows copied into arrays of the requests' own."""
        self._release()
        results: list[dict] = [{} for _ in calls]
        for execution in plan([call.rows for call in calls], self._gears):
            try:
                with self._session.borrow(execution.rows) as batch:
                    for number, start, row, count in execution.parts:
                        for name, array in zip(self._input_names, calls[number].arrays, strict=True):
                            batch.write(name, row, array[start : start + count])
                    batch.run()
                    for part in execution.parts:
                        self._copy_out(batch.outputs, part, calls[part.request], results[part.request])
            except Exception as error:
                self._fail([calls[part.request] for part in execution.parts], error, responses)
        for call, result in zip(calls, results, strict=True):
            if responses[call.position] is None:
                responses[call.position] = self._response([self._tensor(*item) for item in result.items()])

    def _copy_out(self, outputs, part: Part, call: _Call, result: dict):
        for name, own_name, multiple in self._outputs:
            if name in call.wanted:
                array = outputs[own_name][part.row * multiple : (part.row + part.count) * multiple]
                if name not in result:
                    result[name] = np.empty((call.rows * multiple, *array.shape[1:]), array.dtype)
                result[name][part.start * multiple : (part.start + part.count) * multiple] = array

    def _run_each(self, calls: list[_Call], responses: list):
        """A model without rows: each request is an execution; the session copies its outputs out."""
        for call in calls:
            wanted = [output for output in self._outputs if output[0] in call.wanted]
            try:
                feeds = dict(zip(self._input_names, call.arrays, strict=True))
                arrays = self._session.run([own_name for _, own_name, _ in wanted], feeds)
            except Exception as error:
                self._fail([call], error, responses)
            else:
                tensors = [self._tensor(name, array) for (name, _, _), array in zip(wanted, arrays, strict=True)]
                responses[call.position] = self._response(tensors)

    def _fail(self, calls: Sequence[_Call], error: Exception, responses: list):
        self._log.log_error(f"GE Backend: {len(calls)} request(s) failed: {type(error).__name__}: {error}")
        for call in calls:
            responses[call.position] = self._failure(str(error), self._code(error))
        if self.operations is not None:
            self.operations.failed(error, len(calls), type(error).__name__)

    def _code(self, error: Exception) -> int:
        if isinstance(error, TimeoutError | MemoryError | UnsupportedError):
            return self._error.UNAVAILABLE  # UnsupportedError: the session closed itself after a device error
        if isinstance(error, ValueError) and not isinstance(error, AclError):
            return self._error.INVALID_ARG
        return self._error.INTERNAL

    def _failure(self, message: str, code: int):
        return self._response(output_tensors=[], error=self._error(message, code))

    def _expected(self, spec) -> str:
        dims = ["rows", *spec.shape[1:]] if self._by_rows else spec.shape
        text = ", ".join("?" if dim is None else str(dim) for dim in dims)
        return f"{dtypes.by_name(spec.dtype).triton} [{text}]"


def _fits(shape: tuple[int, ...], dims: tuple[int | None, ...]) -> bool:
    """Whether a shape agrees with dims of which some are open; the session checks those against its gears."""
    return len(shape) == len(dims) and all(dim is None or dim == size for size, dim in zip(shape, dims, strict=True))


def _array(tensor, name: str) -> np.ndarray:
    try:
        return tensor.as_numpy()
    except Exception:  # of a type that the stub alone knows; BF16 has no array
        raise RequestError(
            f"input '{name}': BF16 is not taken; send FP32 or FP16 as the model's metadata says"
        ) from None


def _came(array: np.ndarray) -> str:
    name = "BYTES" if array.dtype.kind in "OSU" else dtypes.by_numpy(array.dtype).triton
    return f"{name} {list(array.shape)}"


def _parameters(config: Mapping) -> dict[str, str]:
    return {key: value["string_value"] for key, value in config.get("parameters", {}).items()}


def _log_load(logger, config: Mapping, session, warm_up_ms: float | None) -> None:
    description, stats = session.description, session.stats()
    runtime = (
        "cpu (the CPU implementation of AscendCL, no NPU)" if description.runtime == "cpu" else description.runtime
    )
    gears = f"{description.gear_kind} gears {', '.join(map(str, description.gears))}" if description.gears else "static"
    warm_up = f"warmed up in {warm_up_ms:.1f} ms" if warm_up_ms is not None else "not warmed up"
    logger.log_info(
        f"GE Backend: '{config['name']}' serves {description.path} ({description.soc}) on runtime {runtime}, device "
        f"{session.device_id}; {gears}; max_batch_size {config['max_batch_size']}; {stats['device_bytes']:,} bytes of "
        f"device memory, {stats['pinned_bytes']:,} bytes pinned; {warm_up}"
    )
    for sentence in options.unknown_environment(os.environ):
        logger.log_warn(f"GE Backend: {sentence}")
