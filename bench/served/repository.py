"""The temporary Triton repository of a run: stanzas of config.pbtxt, and the floor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tritonclient.utils import np_to_triton_dtype

FLOOR_MODEL = Path(__file__).with_name("floor_model.py")


def tensors(field: str, specs: list, batched: bool) -> str:
    """Return one ``input`` or ``output`` stanza for the session's tensor specs; a batched model leaves axis 0 out."""
    entries = []
    for spec in specs:
        shape = spec.shape[1:] if batched else spec.shape
        dims = ", ".join("-1" if dim is None else str(dim) for dim in shape)
        dtype = np_to_triton_dtype(np.dtype(spec.dtype))
        entries.append(
            f'  {{ name: "{spec.name}" data_type: TYPE_{dtype.replace("BYTES", "STRING")} dims: [ {dims} ] }}'
        )
    return f"{field} [\n" + ",\n".join(entries) + "\n]\n"


def parameters(values: Mapping[str, str]) -> str:
    quoted = {key: json.dumps(value) for key, value in values.items()}
    return "".join(
        f'parameters {{ key: "{key}" value {{ string_value: {value} }} }}\n' for key, value in quoted.items()
    )


def add_floor(repository: Path, name: str, max_batch_size: int, session, outputs: Mapping[int, list]) -> None:
    """Write the model folder of a floor.

    `outputs` maps a number of rows (0 for a model that cannot be split) to the arrays of a direct run, which give the
    floor its shapes.
    """
    names = [spec.name for spec in session.get_outputs()]
    shapes = {
        str(rows): [(name, str(array.dtype), array.shape) for name, array in zip(names, arrays, strict=True)]
        for rows, arrays in outputs.items()
    }
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        f'name: "{name}"\nbackend: "python"\nmax_batch_size: {max_batch_size}\n'
        + tensors("input", session.get_inputs(), max_batch_size > 0)
        + tensors("output", session.get_outputs(), max_batch_size > 0)
        + "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
        + parameters({"outputs": json.dumps(shapes)}),
        encoding="utf-8",
    )
    shutil.copy(FLOOR_MODEL, folder / "1" / "model.py")
