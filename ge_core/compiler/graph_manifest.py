# SPDX-License-Identifier: Apache-2.0
"""From an ONNX file to the manifest and the ONNX model of its om."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ge_core.compiler import atc
from ge_core.compiler.atc import Shape
from ge_core.compiler.errors import CompileError
from ge_core.compiler.graph import OnnxGraph
from ge_core.compiler.inference import InferenceModel
from ge_core.compiler.manifest import gears_entry, new_manifest, tensor_nbytes
from ge_core.compiler.shape_options import dim_range, resolve_shapes

_COMPUTED_AS = {"int64": "int32", "uint64": "int32", "uint32": "int32", "float64": "float32"}


def compile_graph(
    source: Path, options: Mapping[str, str], soc: str, notes: list[str]
) -> tuple[dict[str, Any], bytes | Path]:
    """Make the manifest of an ONNX graph, and the ONNX model for its om.

    Parameters
    ----------
    source : Path
        The ONNX file.
    options : mapping of str to str
        ATC's options by name.
    soc : str
        What the om is for.
    notes : list of str
        Receives what the caller should know.

    Returns
    -------
    manifest : dict
        See :func:`ge_core_pyx.om.read_manifest`.
    onnx : bytes or Path
        `source` itself when the options change nothing in the graph.

    Raises
    ------
    CompileError, ModelFileError, UnsupportedError
        See :func:`ge_core.compiler.compile_model`.
    """
    graph = OnnxGraph(source, options, notes)
    names = graph.apply_options()
    content = graph.serialize() if graph.changed else source
    weight_nbytes, graph_inputs, tensors = graph.weight_nbytes(), graph.all_inputs(), graph.outputs()
    input_dtypes, declared = graph.input_dtypes(), graph.input_shapes()
    del graph  # a large one is not in memory twice
    model = InferenceModel(content, source)
    model.check_tensors([*declared, *tensors])
    shapes, option, gears = resolve_shapes(declared, graph_inputs, options, soc, notes)
    inputs = _inputs(input_dtypes, shapes, options.get("input_format", "NCHW"))
    outputs: list[dict[str, Any]] = [
        {"name": name, "dtype": dtype, "shape": [], "tensor": tensor}
        for name, dtype, tensor in zip(names, model.output_dtypes(names), tensors, strict=True)
    ]
    dtypes = {tensor["dtype"] for tensor in (*inputs, *outputs)}
    for dtype, other in _COMPUTED_AS.items():
        if dtype in dtypes:
            notes.append(f"the cpu runtime computes {dtype} as {other}: what does not fit comes out wrong")
    rest: dict[str, Any] = {"weight_bytes": weight_nbytes}
    if option:
        rest["gears"] = gears_entry(atc.GEAR_OPTIONS[option], gears)
        _infer_gears(model, outputs, shapes, option, gears)
    else:
        for output, shape in zip(outputs, model.output_shapes(shapes, names), strict=True):
            output["shape"] = shape
        if any(-1 in tensor["shape"] for tensor in (*inputs, *outputs)):
            rest["ranges"] = {name: [dim_range(dim) for dim in shape] for name, shape in shapes.items()}
    manifest = new_manifest("graph", soc, inputs, outputs, **rest)
    manifest["work_bytes"] = tensor_nbytes(manifest)
    return manifest, content


def _inputs(dtypes: Mapping[str, str], shapes: Mapping[str, Shape], layout: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "dtype": dtype,
            "shape": [dim if isinstance(dim, int) else -1 for dim in shapes[name]],
            "format": "NCHW" if layout == "NCHW" and len(shapes[name]) == 4 else "ND",
            "tensor": name,
        }
        for name, dtype in dtypes.items()
    ]


def _infer_gears(
    model: InferenceModel,
    outputs: Sequence[dict[str, Any]],
    shapes: Mapping[str, Shape],
    option: str,
    gears: Sequence[tuple[int, ...]],
) -> None:
    """Write each output's shapes at all gears into its entry of the manifest, and -1 where they differ."""
    kind, names = atc.GEAR_OPTIONS[option], [output["name"] for output in outputs]
    by_gear = [model.output_shapes(atc.gear_shapes(kind, gear, shapes), names, gear) for gear in gears]
    for output, rows in zip(outputs, zip(*by_gear, strict=True), strict=True):
        for row in rows:
            if -1 in row or len(row) != len(rows[0]):
                raise CompileError(
                    f"--{option}: output {output['name']!r} has the shape [{atc.shape_text(row)}], which depends on "
                    f"the data; gears need fixed shapes. Use --out_nodes to end the graph earlier, or ranges"
                )
        output["gear_shapes"] = [list(row) for row in rows]
        output["shape"] = [dims[0] if len({*dims}) == 1 else -1 for dims in zip(*rows, strict=True)]
