# SPDX-License-Identifier: Apache-2.0
"""From the JSON description of a synthetic model to the manifest of its om; see :func:`compile_model` for the keys."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ge_core.compiler import atc, synthetic
from ge_core.compiler.errors import CompileError
from ge_core.compiler.manifest import gears_entry, new_manifest, tensor_nbytes
from ge_core_pyx import om
from ge_core_pyx.errors import ModelFileError

_KEYS = (
    *("inputs", "outputs", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "exec_us", "weight_bytes"),
    *("work_bytes", "soc", "name"),
)
_LARGEST_DESCRIPTION = 1 << 20
_GRAPH_OPTIONS = (
    *("input_shape", "input_shape_range", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "out_nodes"),
    *("output_type", "input_fp16_nodes"),
)
_GEARS_EXAMPLES = {
    "dynamic_batch_size": "[1, 4, 8]",
    "dynamic_image_size": "[[224, 224], [448, 448]]",
    "dynamic_dims": "[[1, 128], [4, 384]]",
}


def compile_description(source: Path, options: Mapping[str, str]) -> dict[str, Any]:
    """Make the manifest of a synthetic model.

    Parameters
    ----------
    source : Path
        The JSON file.
    options : mapping of str to str
        ATC's options by name; those that describe a graph are refused.

    Returns
    -------
    dict
        See :func:`ge_core_pyx.om.read_manifest`.

    Raises
    ------
    CompileError
        An option that is of no use here, or a description that contradicts itself.
    ModelFileError
        The file is too long, or is not JSON.
    """
    for name in _GRAPH_OPTIONS:
        if options.get(name):
            raise CompileError(f"--{name}: a synthetic model says this in {source} itself; leave the option out")
    if source.stat().st_size > _LARGEST_DESCRIPTION:
        raise ModelFileError(f"{source}: expected a description of at most {_LARGEST_DESCRIPTION:,} bytes")
    try:
        description = json.loads(source.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{source}: expected JSON that describes a synthetic model: {error}") from None
    try:
        return _manifest(description, options.get("soc_version"))
    except ValueError as error:
        raise CompileError(f"{source}: {error}") from None


def _manifest(description: Any, soc: str | None) -> dict[str, Any]:
    if unknown := sorted(set(description) - set(_KEYS)):
        near = difflib.get_close_matches(unknown[0], _KEYS, 1)
        advice = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_KEYS)}"
        raise CompileError(f"unknown key {unknown[0]!r}; {advice}")
    soc = soc or description.get("soc", atc.DEFAULT_SOC)
    inputs = _tensors(description, "inputs", ("name", "dtype", "shape"))
    outputs = _tensors(description, "outputs", ("name", "dtype", "shape"), ("gear_shapes",))
    option, gears, order = _gears(description, inputs, str(soc))
    kind = atc.GEAR_OPTIONS.get(option, "")
    for tensor in inputs:
        tensor |= {"format": "NCHW" if len(tensor["shape"]) == 4 else "ND", "tensor": tensor["name"]}
    for tensor in outputs:
        explicit = tensor.pop("gear_shapes", None)
        if gears:
            tensor["gear_shapes"] = _output_gear_shapes(tensor, kind, gears, explicit, order)
        elif explicit is not None or -1 in tensor["shape"]:
            raise CompileError(f"output {tensor['name']!r}: -1 and gear_shapes need gears (dynamic_batch_size, ...)")
        tensor["tensor"] = tensor["name"]
        if ":" not in tensor["name"]:
            tensor["name"] = f"{tensor['name']}:0:{tensor['name']}"
    exec_us = description.get("exec_us")
    if isinstance(exec_us, list) and len(exec_us) == len(order):
        exec_us = [exec_us[at] for at in order]
    rest = {key: description[key] for key in ("weight_bytes", "work_bytes", "name") if key in description}
    rest |= {"exec_us": exec_us, "gears": gears_entry(kind, gears) if gears else None}
    manifest = new_manifest("synthetic", soc, inputs, outputs, **rest)
    om.check_manifest(manifest)
    tensor_nbytes(manifest)  # raises when they are too large
    _check_rows(manifest)
    return manifest


def _tensors(
    description: dict[str, Any], group: str, required: Sequence[str], optional: Sequence[str] = ()
) -> list[dict[str, Any]]:
    tensors = description.get(group)
    if not isinstance(tensors, list) or not tensors:
        raise CompileError(f'{group}: expected a list like [{{"name": "x", "dtype": "float32", "shape": [1, 8]}}]')
    for number, tensor in enumerate(tensors):
        keys = set(tensor) if isinstance(tensor, dict) else set()
        if not set(required) <= keys <= {*required, *optional}:
            got = ", ".join(map(str, tensor)) if keys else repr(tensor)
            raise CompileError(f"{group}[{number}]: expected the keys {', '.join(required)}, got {got}")
        if not isinstance(tensor["name"], str):
            raise CompileError(f"{group}[{number}].name: expected a string, got {tensor['name']!r}")
        if not isinstance(tensor["shape"], list) or not all(type(dim) is int and dim >= -1 for dim in tensor["shape"]):
            raise CompileError(f"{group}[{number}].shape: expected numbers >= 0, or -1, got {tensor['shape']!r}")
    return [dict(tensor) for tensor in tensors]


def _gears(
    description: dict[str, Any], inputs: list[dict[str, Any]], soc: str
) -> tuple[str, list[tuple[int, ...]], list[int]]:
    """The gear option or "", its gears in ascending order, and where each of them stood in the description."""
    given = [name for name in atc.GEAR_OPTIONS if description.get(name) is not None]
    shapes = {str(tensor["name"]): tensor["shape"] for tensor in inputs}
    if len(given) > 1:
        raise CompileError(f"{' and '.join(given)} exclude each other; give one of them")
    if not given:
        if any(-1 in shape for shape in shapes.values()):
            raise CompileError(f"-1 in {atc.shapes_text(shapes)} needs gears: add dynamic_batch_size or another")
        return "", [], []
    (option,) = given
    values = description[option]
    if option == "dynamic_batch_size" and isinstance(values, list):
        values = [[value] for value in values]
    if not isinstance(values, list) or not all(
        isinstance(value, list) and value and all(type(number) is int for number in value) for value in values
    ):
        raise CompileError(f"{option}: expected {_GEARS_EXAMPLES[option]}, got {description[option]!r}")
    gears = [tuple(value) for value in values]
    atc.check_gears(option, gears, soc)
    atc.check_placement(option, gears, shapes)
    order = sorted(range(len(gears)), key=gears.__getitem__)
    return option, [gears[at] for at in order], order


def _output_gear_shapes(
    tensor: dict[str, Any], kind: str, gears: Sequence[tuple[int, ...]], explicit: Any, order: Sequence[int]
) -> list[list[int]]:
    unknown = tensor["shape"].count(-1)
    if explicit is not None:
        if not isinstance(explicit, list) or len(explicit) != len(gears):
            raise CompileError(f"output {tensor['name']!r}: expected {len(gears)} gear_shapes, got {explicit!r}")
        return [explicit[at] for at in order]
    if kind == "batch" and unknown == 1 and tensor["shape"][0] != -1:
        raise CompileError(
            f"output {tensor['name']!r}: expected -1 in dim 0, got {tensor['shape']}; or add gear_shapes"
        )
    if unknown not in (0, len(gears[0])):
        raise CompileError(
            f"output {tensor['name']!r}: expected {len(gears[0])} times -1 (or none), got {tensor['shape']}; or add "
            f"gear_shapes with one shape for each gear"
        )
    return [atc.fill_dims(tensor["shape"], gear) for gear in gears]


def _check_rows(manifest: dict[str, Any]) -> None:
    """A synthetic output is made row by row, so its elements must divide by the rows."""
    for gear, rows in enumerate(synthetic.gear_rows(manifest)):
        for output in manifest["outputs"]:
            shape = output["gear_shapes"][gear] if manifest["gears"] else output["shape"]
            if math.prod(shape) % rows:
                raise CompileError(
                    f"output {output['name']!r}: expected a shape that divides by {rows} rows, got {shape}"
                )
