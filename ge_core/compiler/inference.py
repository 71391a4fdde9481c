# SPDX-License-Identifier: Apache-2.0
"""What OpenVINO says of an ONNX graph: the data types of its outputs, and their shapes for given input shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ge_core.compiler import atc
from ge_core.compiler.atc import Dim
from ge_core.compiler.errors import CompileError
from ge_core.compiler.optional import import_optional

_DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "boolean": "bool",
    **{f"{sign}{bits}": f"{name}{bits}" for sign, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
}


class InferenceModel:
    """A graph that OpenVINO has read.

    Parameters
    ----------
    content : bytes or Path
        The ONNX model, or its file.
    source : Path
        The user's file, for messages.

    Raises
    ------
    CompileError
        OpenVINO cannot read the graph.
    UnsupportedError
        OpenVINO is not installed.
    """

    def __init__(self, content: bytes | Path, source: Path):
        self._openvino: Any = import_optional("openvino")
        try:
            self._model = self._openvino.Core().read_model(str(content) if isinstance(content, Path) else content)
        except RuntimeError as error:
            raise CompileError(f"--model={source}: OpenVINO cannot read this graph: {_reason(error)}") from None

    def check_tensors(self, names: Sequence[str]) -> None:
        """Raise a CompileError for an input or output of the ONNX graph that OpenVINO no longer has."""
        model = self._model
        kept = {name for port in (*model.inputs, *model.outputs) for name in port.get_names()}
        for name in names:
            if name not in kept:
                raise CompileError(f"tensor {name!r} gets lost in OpenVINO; end the graph elsewhere with --out_nodes")

    def output_dtypes(self, names: Sequence[str]) -> list[str]:
        """The data type of each output; `names` are their full names, for messages."""
        found = []
        for name, port in zip(names, self._model.outputs, strict=True):
            text = port.element_type.to_string()
            if text not in _DTYPES:
                raise CompileError(f"output {name!r}: type {text} is not supported; cast it in the graph")
            found.append(_DTYPES[text])
        return found

    def output_shapes(
        self, shapes: Mapping[str, Sequence[Dim]], names: Sequence[str], gear: tuple[int, ...] = ()
    ) -> list[list[int]]:
        """The shape of each output, with -1 for what stays unknown.

        Parameters
        ----------
        shapes : mapping of str to shape
            Of each input.
        names : sequence of str
            The full names of the outputs, for messages.
        gear : tuple of int
            The gear that these shapes belong to, for messages.

        Raises
        ------
        CompileError
            The graph does not take these shapes, or the number of dims of an output depends on the data.
        """
        model = self._model.clone()
        try:
            model.reshape({name: self._partial_shape(shape) for name, shape in shapes.items()})
        except RuntimeError as error:
            at = f" at gear {atc.gear_text(gear)}" if gear else ""
            raise CompileError(
                f"the graph does not take {atc.shapes_text(shapes)}{at}: {_reason(error)}; change --input_shape or the "
                f"graph"
            ) from None
        found = []
        for name, port in zip(names, model.outputs, strict=True):
            if port.partial_shape.rank.is_dynamic:
                raise CompileError(f"output {name!r}: its number of dims depends on the data, which is not supported")
            found.append([dim.get_length() if dim.is_static else -1 for dim in port.partial_shape])
        return found

    def _partial_shape(self, shape: Sequence[Dim]) -> Any:
        dimension = self._openvino.Dimension
        return self._openvino.PartialShape([dimension(*dim) if isinstance(dim, tuple) else dim for dim in shape])


def _reason(error: Exception) -> str:
    """The line of an OpenVINO message that says what is wrong; it begins with source files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Exception from", "Check '"))]
    return (telling or lines or [type(error).__name__])[-1][:300].rstrip(".")
