# SPDX-License-Identifier: Apache-2.0
"""What an om declares, read without loading it onto a device."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from ge_core_pyx import device, errors, model, om


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


def checked_path(path: os.PathLike | str, runtime: str) -> str:
    """The absolute path, after the checks that AscendCL does badly: what is there, and whom it was made for."""
    absolute = os.path.abspath(os.fsdecode(path))
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
    absolute = checked_path(path, opened.kind)
    context = device.Context(opened, device_id)
    try:
        declared = model.describe(context, absolute)
    finally:
        context.close()
    return described(declared, absolute, opened)


def described(declared: model.Description, path: str, opened: device.Runtime) -> ModelDescription:
    """What AscendCL declared of an om, with the file and the runtime that said so."""
    values = {name: getattr(declared, name) for name in declared.__dataclass_fields__}
    return ModelDescription(**values, path=path, runtime=opened.kind, soc=opened.soc_name)
