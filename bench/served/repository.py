# SPDX-License-Identifier: Apache-2.0
"""The temporary Triton repository of a run: stanzas of config.pbtxt, and the floor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from ge_core.serving import pbtxt
from ge_core.serving.model_config import Bound, tensor_entry

FLOOR_MODEL = Path(__file__).with_name("floor_model.py")


def tensors(field: str, specs: list, batched: bool) -> str:
    """Return one ``input`` or ``output`` stanza for the session's tensor specs; a batched model leaves axis 0 out."""
    return pbtxt.tensors(field, [tensor_entry(Bound(spec.name, spec), batched) for spec in specs]) + "\n"


def parameters(values: Mapping[str, str]) -> str:
    """Return the ``parameters`` lines of these values."""
    return pbtxt.parameters(values) + "\n" if values else ""


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
        f'name: {pbtxt.quoted(name)}\nbackend: "python"\nmax_batch_size: {max_batch_size}\n'
        + tensors("input", session.get_inputs(), max_batch_size > 0)
        + tensors("output", session.get_outputs(), max_batch_size > 0)
        + "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
        + parameters({"outputs": json.dumps(shapes)}),
        encoding="utf-8",
    )
    shutil.copy(FLOOR_MODEL, folder / "1" / "model.py")
