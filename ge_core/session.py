"""InferenceSession: an om, opened on a device, run on arrays."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from ge_core_pyx import device, errors, executor, model, om


@dataclass(frozen=True)
class RuntimeInfo:
    """What runs in this process; see runtime_info()."""

    kind: str
    libraries: tuple[str, ...]
    cann_version: str
    soc_name: str
    device_count: int

    @property
    def label(self) -> str:
        """The device in words; the CPU implementation is never mistaken for an NPU."""
        if self.kind == "cpu":
            return f"CPU implementation of AscendCL (imitates {self.soc_name}; not an NPU)"
        return f"NPU {self.soc_name}"


def runtime_info(runtime: str | None = None) -> RuntimeInfo:
    """Open the runtime, if the process has not yet, and say what it is.

    Parameters
    ----------
    runtime : str, optional
        ``npu`` or ``cpu``; default GE_CORE_RUNTIME, else ``npu``.

    Raises
    ------
    AclLoadError
        No usable library or device; the text names what was tried and how to ask for the CPU implementation.
    """
    opened = device.open_runtime(runtime)
    return RuntimeInfo(opened.kind, opened.files, opened.cann_version(), opened.soc_name, opened.device_count)


@dataclass(frozen=True)
class ModelDescription(model.Description):
    """What an om declares (reserved inputs hidden), and which file and runtime said so."""

    path: str
    runtime: str
    soc: str

    def to_dict(self) -> dict:
        """Plain types for JSON; unknown dims are -1."""
        result = asdict(self)
        for tensors in (result["inputs"], result["outputs"]):
            for tensor in tensors:
                tensor["shape"] = [-1 if dim is None else dim for dim in tensor["shape"]]
        return result

    @classmethod
    def from_dict(cls, values: dict) -> "ModelDescription":
        """The inverse of to_dict()."""
        values = {key: _tuples(value) for key, value in values.items()}
        for key in ("inputs", "outputs"):
            values[key] = tuple(
                model.TensorSpec(**tensor | {"shape": tuple(None if dim == -1 else dim for dim in tensor["shape"])})
                for tensor in values[key]
            )
        return cls(**values)


def _tuples(value):
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _checked(path: os.PathLike | str, runtime: str) -> str:
    """The absolute path, after the checks that AscendCL does badly: what is there, and whom it was made for."""
    absolute = os.path.abspath(os.fspath(path))
    _inside_roots(absolute)
    om.check(absolute, runtime)
    return absolute


def _inside_roots(path: str) -> None:
    roots = os.environ.get("GE_CORE_MODEL_ROOTS")
    if not roots:
        return
    real = Path(path).resolve()
    if not any(real.is_relative_to(Path(root).resolve()) for root in roots.split(os.pathsep) if root):
        raise errors.ModelFileError(f"{path} is outside the folders that GE_CORE_MODEL_ROOTS allows ({roots})")


def describe_model(path: os.PathLike | str, runtime: str | None = None, device_id: int = 0) -> ModelDescription:
    """Read what an om declares without loading it onto the device. Blocks while the file is read.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, or made for the other runtime.
    AclLoadError, AclError
        No runtime, or AscendCL refused the file.
    """
    opened = device.open_runtime(runtime)
    absolute = _checked(path, opened.kind)
    context = device.Context(opened, device_id)
    try:
        declared = model.describe(context, absolute)
    finally:
        context.close()
    return _described(declared, absolute, opened)


def _described(declared, path, opened):
    return ModelDescription(
        *(getattr(declared, name) for name in declared.__dataclass_fields__), path, opened.kind, opened.soc_name
    )


class InferenceSession:
    """An om, loaded on a device with all its memory. Any thread may call; the GIL is free while the device works.

    Parameters
    ----------
    path : path-like
        A compiled ``.om``.
    runtime : str, optional
        ``npu`` or ``cpu``; default GE_CORE_RUNTIME, else ``npu``. Never chosen by what the machine has.
    device_id : int
        Logical device id.
    slots : int
        Batches in flight at once; each loads the model again, all share its weights.
    submit_timeout_ms : int, optional
        How long a call waits for a free slot; None waits for ever.
    execute_timeout_ms : int, optional
        How long one execution may take; None waits for ever. After it the slot is given up.

    Raises
    ------
    ModelFileError
        The file cannot be served, and why.
    AclLoadError, AclError
        No runtime, or a call of AscendCL failed (AclMemoryError when the device is full).
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
        device_id: int = 0,
        slots: int = 1,
        submit_timeout_ms: int | None = None,
        execute_timeout_ms: int | None = None,
    ):
        _positive("slots", slots)
        opened = device.open_runtime(runtime)
        absolute = _checked(path, opened.kind)
        self._executor = executor.Executor(
            opened,
            device_id,
            absolute,
            slots,
            _timeout("submit_timeout_ms", submit_timeout_ms),
            _timeout("execute_timeout_ms", execute_timeout_ms),
        )
        self.description = _described(self._executor.description, absolute, opened)
        self.device_id = device_id

    def get_inputs(self) -> list[model.TensorSpec]:
        """The model's inputs (name, dtype, shape with None for what gears decide)."""
        return list(self.description.inputs)

    def get_outputs(self) -> list[model.TensorSpec]:
        """The model's outputs (name, dtype, shape with None for what gears decide)."""
        return list(self.description.outputs)

    def run(self, output_names, inputs: dict) -> list:
        """Run on host arrays and return arrays that the caller owns. Blocks until the device is done.

        Parameters
        ----------
        output_names : sequence of str, or None
            Which outputs, in which order; None for all.
        inputs : dict of name → array
            Each of the model's dtype and of shape (rows, …). Contiguous NumPy arrays are copied once, into pinned
            memory; other layouts and byte orders, DLPack objects and buffers are made contiguous first. Rows beyond
            the largest gear are run in parts, fewer are padded with zeros up to a gear; a static om takes exactly its
            own number.

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

    def borrow(self, rows: int | None = None) -> executor.Batch:
        """Borrow a slot: fill pinned views, run, read pinned views, without a copy.

        Parameters
        ----------
        rows : int, optional
            Rows of the batch, at most the largest gear (the default); fewer are padded up to a gear.
        """
        return self._executor.borrow(rows)

    def native_handles(self, rows: int) -> dict:
        """Addresses for calls of AscendCL from outside on this session's stream; the session must not run meanwhile."""
        return self._executor.handles(rows)

    def stats(self) -> dict:
        """Executions, rows, padded rows, slots, and bytes of device and pinned memory held."""
        return self._executor.stats()

    def close(self) -> None:
        """Give everything back; a batch in flight is awaited where it runs. Again: nothing happens."""
        self._executor.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return f"<InferenceSession {self.description.path} on {self.description.runtime}:{self.device_id}>"


def _positive(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


def _timeout(name, value):
    if value is None:
        return -1
    _positive(name, value)
    return value
