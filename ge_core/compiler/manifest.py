# SPDX-License-Identifier: Apache-2.0
"""What the manifests of graphs and of synthetic models have in common: the keys, gears, and the size of the tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ge_core._version import __version__
from ge_core.compiler import atc
from ge_core.compiler.errors import CompileError
from ge_core_pyx import dtypes, om

_LARGEST_NBYTES = 1 << 60  # of all tensors together


def new_manifest(
    kind: str, soc: str, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], **rest: Any
) -> dict[str, Any]:
    """A manifest with all the keys of :func:`ge_core_pyx.om.read_manifest`; those that `rest` lacks say "none"."""
    head = {"schema": om.SCHEMA, "generator": f"ge_core {__version__}", "soc": soc, "kind": kind}
    defaults = {"gears": None, "ranges": None, "exec_us": None, "weight_bytes": 0, "work_bytes": 0, "name": ""}
    return {**head, "inputs": inputs, "outputs": outputs, **defaults, **rest}


def gears_entry(kind: str, gears: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """The manifest's entry `gears`, whose batch gears are numbers and whose other gears are lists."""
    return {"kind": kind, "values": [gear[0] if kind == "batch" else list(gear) for gear in gears]}


def gears_of(manifest: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The gears of a manifest as tuples; an empty list when it has none."""
    values = manifest["gears"]["values"] if manifest["gears"] else []
    return [(value,) if isinstance(value, int) else tuple(value) for value in values]


def tensor_nbytes(manifest: Mapping[str, Any]) -> int:
    """Bytes of all inputs and outputs at the largest gear; unknown dims count as 1.

    Raises
    ------
    CompileError
        They are more than any machine has.
    """
    total = 0
    for tensor in manifest["outputs"]:
        shapes = tensor.get("gear_shapes") or [tensor["shape"]]
        total += max(_nbytes(tensor, shape) for shape in shapes)
    total += max(sum(map(_nbytes, manifest["inputs"], shapes)) for shapes in input_shapes(manifest))
    if total > _LARGEST_NBYTES:
        raise CompileError(f"inputs and outputs would take {total:,} bytes; give smaller shapes")
    return total


def input_shapes(manifest: Mapping[str, Any]) -> list[list[list[int]]]:
    """The shapes of all inputs at each gear; one entry, with -1 for unknown dims, when there are no gears."""
    shapes = {tensor["name"]: tensor["shape"] for tensor in manifest["inputs"]}
    if not manifest["gears"]:
        return [list(shapes.values())]
    kind = manifest["gears"]["kind"]
    return [list(atc.gear_shapes(kind, gear, shapes).values()) for gear in gears_of(manifest)]


def _nbytes(tensor: Mapping[str, Any], shape: Sequence[int]) -> int:
    return dtypes.by_name(tensor["dtype"]).itemsize * math.prod(abs(dim) for dim in shape)
