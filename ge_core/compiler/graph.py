# SPDX-License-Identifier: Apache-2.0
"""One ONNX graph on its way into an om: loaded whole, changed as ATC's options ask, and what it says of its tensors."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ge_core.compiler import atc
from ge_core.compiler.errors import CompileError
from ge_core.compiler.optional import import_optional
from ge_core.compiler.shape_options import DeclaredShape
from ge_core_pyx import dtypes
from ge_core_pyx.errors import ModelFileError

_PROTOBUF_LIMIT = (1 << 31) - 1


class OnnxGraph:
    """An ONNX model in memory, with its external data.

    Parameters
    ----------
    source : Path
        The ONNX file.
    options : mapping of str to str
        ATC's options by name.
    notes : list of str
        Receives what the caller should know of changes to the graph.

    Attributes
    ----------
    changed : bool
        Whether it differs from the file, so that the file itself cannot go into the om.

    Raises
    ------
    CompileError
        A framework that is not ONNX, or more than 2 GiB in all.
    ModelFileError
        Not an ONNX file, or external data that cannot be read.
    UnsupportedError
        The package onnx is not installed.
    """

    def __init__(self, source: Path, options: Mapping[str, str], notes: list[str]):
        self._onnx: Any = import_optional("onnx")
        self._source, self._options, self._notes = source, options, notes
        self.changed = False
        framework = options.get("framework", "5")
        if framework != "5":
            kind = atc.FRAMEWORKS.get(framework)
            what = f"{kind} models are not supported by the cpu runtime" if kind else "there is no such framework"
            raise CompileError(f"--framework={framework}: {what}; export the model to ONNX and use --framework=5")
        self._proto = self._load()
        graph = self._proto.graph
        constants = {tensor.name for tensor in graph.initializer}
        constants |= {tensor.values.name for tensor in graph.sparse_initializer}
        self._inputs = [value for value in graph.input if value.name not in constants]

    def apply_options(self) -> list[str]:
        """Change the graph as the options ask, and where the om could not hold it otherwise.

        Returns
        -------
        list of str
            The full name of each output, ``node:index:tensor``.

        Raises
        ------
        CompileError
            An option that does not fit the graph, or a graph of which no input is used.
        ModelFileError
            An output that no node makes, or that is listed twice.
        """
        names = self._select_outputs()
        self._drop_unused_inputs()
        self._keep_names()
        self._cast_inputs()
        self._cast_outputs(names)
        self._copy_inputs()
        return names

    def serialize(self) -> bytes:
        """The ONNX model as bytes."""
        return self._proto.SerializeToString()

    def weight_nbytes(self) -> int:
        """Bytes of all stored tensors, as they are in the file."""
        return sum(tensor.ByteSize() for tensor in _tensors(self._proto.graph))

    def all_inputs(self) -> list[str]:
        """The names of all inputs of the file, also of those that the graph does not use."""
        return [value.name for value in self._inputs]

    def input_dtypes(self) -> dict[str, str]:
        """The data type of each input that the graph uses; CompileError for one that is not supported."""
        return {value.name: self._dtype(value) for value in self._used_inputs()}

    def input_shapes(self) -> dict[str, DeclaredShape]:
        """The shape that the graph declares for each input that it uses."""
        return {value.name: _declared_shape(value) for value in self._used_inputs()}

    def outputs(self) -> list[str]:
        """The names of the output tensors."""
        return [value.name for value in self._proto.graph.output]

    # --- loading ------------------------------------------------------------------------------------------------------

    def _load(self) -> Any:
        onnx = self._onnx
        try:
            proto = onnx.load(str(self._source), load_external_data=False)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelFileError(f"--model={self._source}: expected an ONNX file, cannot parse it: {reason}") from None
        for what, there in (("graph with outputs", proto.graph.output), ("model with an opset", proto.opset_import)):
            if not there:
                raise ModelFileError(f"--model={self._source}: expected an ONNX {what}, got none; export it again")
        if proto.functions:
            proto = import_optional("onnx.inliner").inline_local_functions(proto)
            self.changed = True
        external = [tensor for tensor in _tensors(proto.graph) if tensor.data_location == onnx.TensorProto.EXTERNAL]
        try:
            nbytes = self._source.stat().st_size + sum(self._external_nbytes(tensor) for tensor in external)
        except ValueError as error:
            raise ModelFileError(f"--model={self._source}: cannot read its external data: {error}") from None
        if nbytes > _PROTOBUF_LIMIT:
            raise CompileError(
                f"--model={self._source}: expected at most 2 GiB of graph and weights in all, got {nbytes:,} bytes; "
                f"the cpu runtime embeds them in one ONNX message. Split the model or convert the weights to FP16"
            )
        if external:
            try:
                onnx.load_external_data_for_model(proto, str(self._source.parent))
            except Exception as error:
                raise ModelFileError(f"--model={self._source}: cannot read its external data: {error}") from None
            self.changed = True
        return proto

    def _external_nbytes(self, tensor: Any) -> int:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if "length" in entries:
            return int(entries["length"])
        return math.prod(tensor.dims) * self._onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize

    # --- data types ---------------------------------------------------------------------------------------------------

    def _used_inputs(self) -> list[Any]:
        used = {value.name for value in self._proto.graph.input}
        return [value for value in self._inputs if value.name in used]

    def _dtype(self, value: Any) -> str:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise CompileError(f"input {value.name!r}: expected a tensor, got {kind or 'nothing'}; change the graph")
        code = value.type.tensor_type.elem_type
        try:
            return dtypes.by_onnx(code).name
        except KeyError:
            name = self._onnx.TensorProto.DataType.Name(code)
            raise CompileError(f"input {value.name!r}: type {name} is not supported; cast it in the graph") from None

    # --- changes ------------------------------------------------------------------------------------------------------

    def _producers(self) -> dict[str, tuple[str, int]]:
        """Node name and output index behind each tensor; a node without a name gets one from its type and position."""
        found = {value.name: (value.name, 0) for value in (*self._proto.graph.input, *self._proto.graph.initializer)}
        for number, node in enumerate(self._proto.graph.node):
            for index, tensor in enumerate(node.output):
                found[tensor] = (node.name or f"{node.op_type}_{number}", index)
        found.pop("", None)  # an optional output that is left out
        return found

    def _select_outputs(self) -> list[str]:
        """Apply --out_nodes; return the full name of each output."""
        graph, producers = self._proto.graph, self._producers()
        if wanted := self._options.get("out_nodes"):
            places = {f"{node}:{index}": tensor for tensor, (node, index) in producers.items()}
            places |= {f"{place}:{tensor}": tensor for place, tensor in places.items()}
            chosen = []
            for item in _split(wanted):
                tensor = item if item in producers else places.get(item)
                if tensor is None:
                    near = difflib.get_close_matches(item, [*producers, *places], 3)
                    advice = f"did you mean {' or '.join(near)}?" if near else "expected node:index or a tensor's name"
                    raise CompileError(f"--out_nodes: the graph has no {item!r}; {advice}")
                if tensor in chosen:
                    raise CompileError(f"--out_nodes: expected every output once, got {item!r} twice")
                chosen.append(tensor)
            known = {value.name: value for value in graph.output}
            if chosen != [*known]:
                values = [known.get(name) or self._onnx.ValueInfoProto(name=name) for name in chosen]
                del graph.output[:]
                graph.output.extend(values)
                self.changed = True
        names = []
        for value in graph.output:
            if value.name not in producers:
                raise ModelFileError(f"--model={self._source}: output {value.name!r} is made by no node")
            node, index = producers[value.name]
            names.append(f"{node}:{index}:{value.name}")
            if names.count(names[-1]) > 1:
                raise ModelFileError(f"--model={self._source}: output {value.name!r} is listed twice; export it again")
        return names

    def _drop_unused_inputs(self) -> None:
        graph = self._proto.graph
        used = _reads(graph) | {value.name for value in graph.output}
        unused = [value for value in self._inputs if value.name not in used]
        for value in unused:
            graph.input.remove(value)
            self._notes.append(f"input {value.name!r} is not used by the graph and is left out")
            self.changed = True
        if len(unused) == len(self._inputs):
            raise CompileError(f"--model={self._source}: expected a graph with inputs, got none that is used")

    def _keep_names(self) -> None:
        """OpenVINO drops nodes that compute nothing together with a tensor's name; it keeps both for an Identity."""
        graph = self._proto.graph
        used = _reads(graph) | {value.name for value in graph.output}
        for node in graph.node:
            of_one_input = node.op_type in ("Max", "Mean", "Min", "Sum") and len(node.input) == 1
            idle_dropout = node.op_type == "Dropout" and not any(node.input[2:]) and used.isdisjoint(node.output[1:])
            if node.domain in ("", "ai.onnx") and (of_one_input or idle_dropout):
                node.op_type = "Identity"
                del node.attribute[:], node.input[1:], node.output[1:]
                self.changed = True

    def _copy_inputs(self) -> None:
        """An output that is an input becomes a copy of it, because each has its own memory in an om."""
        graph = self._proto.graph
        inputs = {value.name for value in graph.input}
        for value in graph.output:
            if value.name in inputs:
                copy = f"{value.name}/output"
                graph.node.append(
                    self._onnx.helper.make_node("Identity", [value.name], [copy], f"{value.name}/Identity")
                )
                value.name = copy
                self.changed = True

    def _cast_inputs(self) -> None:
        """Apply --input_fp16_nodes: a Cast behind each named input."""
        graph, onnx = self._proto.graph, self._onnx
        inputs = {value.name: value for value in self._inputs}
        for name in _split(self._options.get("input_fp16_nodes", "")):
            if name not in inputs:
                raise CompileError(f"--input_fp16_nodes: the graph has no input {name!r}, only {', '.join(inputs)}")
            tensor = inputs[name].type.tensor_type
            if self._dtype(inputs[name]) == "float16":
                continue
            if self._dtype(inputs[name]) != "float32":
                raise CompileError(
                    f"--input_fp16_nodes: expected a FP32 input, {name!r} is {self._dtype(inputs[name])}"
                )
            inner = f"{name}/float32"
            _rename(graph, name, inner)
            cast = onnx.helper.make_node("Cast", [name], [inner], f"{name}/Cast", to=onnx.TensorProto.FLOAT)
            graph.node.insert(0, cast)
            tensor.elem_type = onnx.TensorProto.FLOAT16
            self.changed = True

    def _cast_outputs(self, names: Sequence[str]) -> None:
        """Apply --output_type: a Cast before each output whose type differs."""
        text = self._options.get("output_type")
        if not text:
            return
        graph, onnx = self._proto.graph, self._onnx
        types = self._output_types(text, names)
        known = self._output_dtypes()
        for value in graph.output:
            want = types.get(value.name)
            if want is None or known.get(value.name) == want:
                continue
            row = dtypes.by_name(want)
            inner = f"{value.name}/{want}"
            graph.node.append(onnx.helper.make_node("Cast", [value.name], [inner], f"{value.name}/Cast", to=row.onnx))
            value.name = inner
            value.type.tensor_type.elem_type = row.onnx
            self.changed = True

    def _output_types(self, text: str, names: Sequence[str]) -> dict[str, str]:
        tensors = [value.name for value in self._proto.graph.output]
        if ":" not in text:
            return dict.fromkeys(tensors, _output_type(text))
        if "out_nodes" not in self._options:
            raise CompileError(f"--output_type={text}: types of single outputs need --out_nodes")
        aliases: dict[str, str] = {}
        for tensor, full in zip(tensors, names, strict=True):
            aliases |= {tensor: tensor, full: tensor, full.removesuffix(f":{tensor}"): tensor}
        types = {}
        for item in _split(text):
            name, _, kind = item.rpartition(":")
            if name not in aliases:
                raise CompileError(f"--output_type: no output {name!r}; the outputs are {', '.join(names)}")
            types[aliases[name]] = _output_type(kind)
        return types

    def _output_dtypes(self) -> dict[str, str]:
        """The data types of the outputs, without those that the graph does not say."""
        names = {row.onnx: row.name for row in dtypes.TABLE}
        values = {value.name: value.type.tensor_type.elem_type for value in self._proto.graph.output}
        return {tensor: names[code] for tensor, code in values.items() if code in names}


def _declared_shape(value: Any) -> DeclaredShape:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [dim.dim_value if dim.dim_value > 0 else dim.dim_param or "?" for dim in tensor.shape.dim]


def _split(text: str) -> list[str]:
    """The items of an option's value, which semicolons separate."""
    return [item.strip() for item in text.split(";") if item.strip()]


def _output_type(text: str) -> str:
    if text not in atc.OUTPUT_TYPES:
        raise CompileError(f"--output_type: expected one of {', '.join(atc.OUTPUT_TYPES)}, got {text!r}")
    return atc.OUTPUT_TYPES[text]


def _tensors(graph: Any) -> Iterator[Any]:
    """Every tensor stored in a graph: initializers, constants, and those of inner graphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from attribute.tensors
            if attribute.HasField("t"):
                yield attribute.t
            for inner in _inner_graphs(attribute):
                yield from _tensors(inner)


def _reads(graph: Any) -> set[str]:
    """The names that the nodes of a graph and of its inner graphs read."""
    names = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            for inner in _inner_graphs(attribute):
                names |= _reads(inner) | {value.name for value in inner.output}
    return names


def _inner_graphs(attribute: Any) -> list[Any]:
    return [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]


def _rename(graph: Any, old: str, new: str) -> None:
    """Rename what the nodes of a graph and of their inner graphs read, unless an inner name hides `old`."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name == old:
                node.input[index] = new
        for attribute in node.attribute:
            for inner in _inner_graphs(attribute):
                if old not in {value.name for value in inner.input}:
                    _rename(inner, old, new)
                for value in inner.output:
                    if value.name == old:
                        value.name = new
