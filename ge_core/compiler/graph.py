"""ONNX (or the description of a synthetic model) to om: through ATC for an NPU, here for the CPU implementation.

Options carry ATC's names and follow ATC's rules, so that a command line works unchanged for both runtimes. For the CPU
runtime each option is honoured, accepted with a note that it has no effect, or refused with the reason; none is dropped
in silence.
"""

from __future__ import annotations

import difflib
import importlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ge_core._version import __version__
from ge_core.compiler.atc import options as atc
from ge_core.compiler.atc.options import AtcError, CompileError, Dim, Shape
from ge_core_pyx import dtypes, locate, om
from ge_core_pyx.errors import ModelFileError, UnsupportedError

__all__ = ["AtcError", "CompileError", "Compiled", "compile_model"]

Report = Callable[[str], None]


@dataclass(frozen=True)
class Compiled:
    """What :func:`compile_model` made.

    Attributes
    ----------
    path : Path
        The om file.
    nbytes : int
        Its size.
    manifest : dict or None
        What the om says of itself (see :func:`ge_core_pyx.om.read_manifest`); None when ATC made it.
    notes : list of str
        Options without effect, and what else the caller should know.
    """

    path: Path
    nbytes: int
    manifest: dict[str, Any] | None
    notes: list[str] = field(default_factory=list)


def compile_model(
    model: str | os.PathLike,
    output: str | os.PathLike,
    *,
    runtime: str | None = None,
    report: Report = lambda line: None,
    **options: Any,
) -> Compiled:
    """Compile a model to an om file.

    Parameters
    ----------
    model : path
        An ONNX file (external data is embedded; 2 GiB in all at most), or, for the CPU runtime, a JSON file that
        describes a synthetic model::

            {"inputs":  [{"name": "input_ids", "dtype": "int64", "shape": [-1, 16]}],
             "outputs": [{"name": "logits", "dtype": "float32", "shape": [-1, 16, 32000]}],
             "dynamic_batch_size": [1, 4, 8],
             "exec_us": [78000, 145000, 220000],
             "weight_bytes": 0, "work_bytes": 0, "soc": "Ascend910B3", "name": "llama7b"}

        Only `inputs` and `outputs` are required. Gears: at most one of `dynamic_batch_size` (a list of numbers, -1 in
        dim 0), `dynamic_image_size` (a list of [height, width], -1 in dims 2 and 3) and `dynamic_dims` (a list of lists
        with one number for each -1, in order over all inputs). Each -1 of an output takes the gear's numbers in order;
        where that does not fit, the output lists its shapes: ``"gear_shapes": [[1, 7], [4, 9]]``. `exec_us` is the
        execution time in microseconds, one number or one for each gear. Each output row is a function of the bytes of
        the same input row, see :mod:`ge_core.compiler.synthetic`.
    output : path
        Where to write; ``.om`` is added unless it is there.
    runtime : {"npu", "cpu"}, optional
        Default: the environment's ``GE_CORE_RUNTIME``, else "npu".
    report : callable
        Receives notes and the summary, line by line.
    **options
        ATC's options by their names, e.g. ``input_shape="x:-1,3,224,224", dynamic_batch_size="1,2,4,8"``.

    Returns
    -------
    Compiled

    Raises
    ------
    CompileError
        An unknown or refused option, options that exclude each other, a model they do not fit.
    ModelFileError
        The model file is missing or not what it should be.
    UnsupportedError
        No atc for runtime "npu"; a missing package (onnx, openvino) for runtime "cpu".
    AtcError
        ATC failed.
    """
    given = {name: str(value) for name, value in options.items() if value is not None}
    given |= {"model": os.fspath(model), "output": os.fspath(output)}
    runtime = locate.runtime_name(runtime)
    if runtime == "npu":
        path = atc.run_atc(given)
        return Compiled(path, path.stat().st_size if path.exists() else 0, None)
    return _compile_for_cpu(given, report)


# --- the CPU runtime --------------------------------------------------------------------------------------------------


def _compile_for_cpu(options: dict[str, str], report: Report) -> Compiled:
    notes = atc.check_options(options)
    path = atc.output_path(options["output"])
    source = Path(options["model"])
    soc = options.get("soc_version", atc.DEFAULT_SOC)
    if not re.fullmatch(r"Ascend\w+", soc):
        raise CompileError(
            f"--soc_version: expected a name like {atc.DEFAULT_SOC} (`npu-smi info` shows it), got {soc!r}"
        )
    if _first_bytes(source).lstrip()[:1] == b"{":
        manifest, onnx = _describe_synthetic(source, options), None
    else:
        manifest, onnx = _Graph(source, options, notes).compile(soc)
    manifest["name"] = manifest["name"] or path.stem.encode("utf-8", "replace").decode()
    try:
        nbytes = om.write(path, manifest, onnx)
    except ValueError as error:
        raise CompileError(f"--model={source}: {error}") from None
    except OSError as error:
        raise CompileError(f"--output={path}: cannot write the file: {error.strerror or error}") from None
    manifest = om.read_manifest(path)
    _report(path, nbytes, manifest, [] if options.get("log") in ("error", "null") else notes, report)
    return Compiled(path, nbytes, manifest, notes)


def _first_bytes(source: Path) -> bytes:
    """Refuses what is neither ONNX nor JSON, by name."""
    try:
        # A device has no end, a pipe can be read only once.
        if source.exists() and not source.is_file() and not source.is_dir():
            raise ModelFileError(f"--model={source}: expected an ONNX file, got something that is not a regular file")
        with source.open("rb") as file:
            raw = file.read(256)
    except FileNotFoundError:
        raise ModelFileError(f"--model={source}: expected a file, found nothing there; check the path") from None
    except OSError as error:
        raise ModelFileError(f"--model={source}: expected a readable file: {error.strerror}") from None
    what = None
    if not raw:
        what = "an empty file"
    elif raw.startswith(om.MAGIC):
        what = "an om, which is compiled already"
    elif raw.startswith(b"version https://git-lfs"):
        what = "a git-lfs pointer; fetch the file itself with `git lfs pull`"
    elif raw.startswith(b"PK\x03\x04"):
        what = "a ZIP archive (a PyTorch checkpoint?); export the model with torch.onnx.export first"
    if what:
        raise ModelFileError(f"--model={source}: expected an ONNX file, got {what}")
    return raw


def _manifest(kind: str, soc: str, inputs: list, outputs: list, **rest: Any) -> dict[str, Any]:
    defaults = {"gears": None, "ranges": None, "exec_us": None, "weight_bytes": 0, "work_bytes": 0, "name": ""}
    head = {"schema": om.SCHEMA, "generator": f"ge_core {__version__}", "soc": soc, "kind": kind}
    return {**head, "inputs": inputs, "outputs": outputs, **defaults, **rest}


def _gears_entry(kind: str, gears: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    return {"kind": kind, "values": [gear[0] if kind == "batch" else list(gear) for gear in gears]}


def _report(path: Path, nbytes: int, manifest: dict[str, Any], notes: list[str], report: Report) -> None:
    for note in notes:
        report(f"note: {note}")
    for title, tensors in (("inputs", manifest["inputs"]), ("outputs", manifest["outputs"])):
        for tensor in tensors:
            report(f"{title:8}{tensor['name']}  {tensor['dtype']}  [{atc.shape_text(tensor['shape'])}]")
            title = ""
    if gears := manifest["gears"]:
        rows = gears["values"] if gears["kind"] == "batch" else map(atc.gear_text, gears["values"])
        separator = "," if gears["kind"] == "batch" else ";"
        report(f"{'gears':8}{gears['kind']}  {separator.join(map(str, rows))}")
    for name, bounds in (manifest["ranges"] or {}).items():
        report(f"{'ranges':8}{name}  {','.join(f'{a}~{b}' if a != b else str(a) for a, b in bounds)}")
    report(f"{'om':8}{path}  {nbytes:,} bytes  {manifest['soc']}, for the cpu runtime")
    report("ATC run success (the CPU implementation's compiler; this om does not run on an NPU)")


# --- ONNX graphs ------------------------------------------------------------------------------------------------------

_PROTOBUF_LIMIT = (1 << 31) - 1
_LARGEST_TENSORS = 1 << 60
_OPENVINO_NAMES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "boolean": "bool",
    **{f"{sign}{bits}": f"{name}{bits}" for sign, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
}


def _import(name: str):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"compiling ONNX for the cpu runtime needs the package {name} ({error}); install ge_core[cpu]"
        ) from None


class _Graph:
    """One ONNX file on its way into an om."""

    def __init__(self, source: Path, options: Mapping[str, str], notes: list[str]):
        self.onnx = _import("onnx")
        self.source, self.options, self.notes = source, options, notes
        self.changed = False
        framework = options.get("framework", "5")
        if framework != "5":
            kind = atc.FRAMEWORKS.get(framework)
            what = f"{kind} models are not supported by the cpu runtime" if kind else "there is no such framework"
            raise CompileError(f"--framework={framework}: {what}; export the model to ONNX and use --framework=5")
        self.proto = self._load()
        graph = self.proto.graph
        constants = {tensor.name for tensor in graph.initializer}
        constants |= {tensor.values.name for tensor in graph.sparse_initializer}
        self.inputs = [value for value in graph.input if value.name not in constants]

    def _load(self):
        onnx = self.onnx
        try:
            proto = onnx.load(str(self.source), load_external_data=False)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelFileError(f"--model={self.source}: expected an ONNX file, cannot parse it: {reason}") from None
        for what, there in (("graph with outputs", proto.graph.output), ("model with an opset", proto.opset_import)):
            if not there:
                raise ModelFileError(f"--model={self.source}: expected an ONNX {what}, got none; export it again")
        if proto.functions:
            proto = _import("onnx.inliner").inline_local_functions(proto)
            self.changed = True
        external = [tensor for tensor in _tensors(proto.graph) if tensor.data_location == onnx.TensorProto.EXTERNAL]
        try:
            nbytes = self.source.stat().st_size + sum(self._external_nbytes(tensor) for tensor in external)
        except ValueError as error:
            raise ModelFileError(f"--model={self.source}: cannot read its external data: {error}") from None
        if nbytes > _PROTOBUF_LIMIT:
            raise CompileError(
                f"--model={self.source}: expected at most 2 GiB of graph and weights in all, got {nbytes:,} bytes; the "
                f"cpu runtime embeds them in one ONNX message. Split the model or convert the weights to FP16"
            )
        if external:
            try:
                onnx.load_external_data_for_model(proto, str(self.source.parent))
            except Exception as error:
                raise ModelFileError(f"--model={self.source}: cannot read its external data: {error}") from None
            self.changed = True
        return proto

    def _external_nbytes(self, tensor) -> int:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if "length" in entries:
            return int(entries["length"])
        return math.prod(tensor.dims) * self.onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize

    def compile(self, soc: str) -> tuple[dict[str, Any], Any]:
        """The manifest and the ONNX model, as the path of a file or as bytes."""
        names = self._select_outputs()
        self._drop_unused_inputs()
        self._keep_names()
        self._cast_inputs()
        self._cast_outputs(names)
        self._copy_inputs()
        openvino = _import("openvino")
        content = self.proto.SerializeToString() if self.changed else None
        weight_bytes = sum(tensor.ByteSize() for tensor in _tensors(self.proto.graph))
        used = {value.name for value in self.proto.graph.input}
        inputs = [value for value in self.inputs if value.name in used]
        declared = {value.name: (self._dtype(value), self._declared(value)) for value in inputs}
        tensors = [value.name for value in self.proto.graph.output]
        self.proto = None
        try:
            model = openvino.Core().read_model(content if self.changed else str(self.source))
        except RuntimeError as error:
            raise CompileError(f"--model={self.source}: OpenVINO cannot read this graph: {_reason(error)}") from None
        kept = {name for port in (*model.inputs, *model.outputs) for name in port.get_names()}
        for name in (*declared, *tensors):
            if name not in kept:
                raise CompileError(f"tensor {name!r} gets lost in OpenVINO; end the graph elsewhere with --out_nodes")
        shapes, option, gears = self._plan({name: shape for name, (_, shape) in declared.items()}, soc)
        layout = self.options.get("input_format", "NCHW")
        inputs = [
            {
                "name": name,
                "dtype": dtype,
                "shape": [dim if isinstance(dim, int) else -1 for dim in shapes[name]],
                "format": "NCHW" if layout == "NCHW" and len(shapes[name]) == 4 else "ND",
                "tensor": name,
            }
            for name, (dtype, _) in declared.items()
        ]
        outputs = [
            {"name": full, "dtype": _openvino_dtype(full, port), "shape": [], "tensor": tensor}
            for full, tensor, port in zip(names, tensors, model.outputs, strict=True)
        ]
        self._note_arithmetic({tensor["dtype"] for tensor in (*inputs, *outputs)})
        rest: dict[str, Any] = {"weight_bytes": weight_bytes}
        if option:
            kind = atc.GEAR_OPTIONS[option]
            rest["gears"] = _gears_entry(kind, gears)
            found = [self._infer(openvino, model, atc.gear_shapes(kind, gear, shapes), outputs, gear) for gear in gears]
            for output, rows in zip(outputs, zip(*found, strict=True), strict=True):
                self._refuse_dynamic(output, rows, option)
                output["gear_shapes"] = [list(row) for row in rows]
                output["shape"] = [dims[0] if len({*dims}) == 1 else -1 for dims in zip(*rows, strict=True)]
        else:
            for output, shape in zip(outputs, self._infer(openvino, model, shapes, outputs), strict=True):
                output["shape"] = shape
            if any(-1 in tensor["shape"] for tensor in (*inputs, *outputs)):
                rest["ranges"] = {name: [_bounds(dim) for dim in shape] for name, shape in shapes.items()}
        rest["work_bytes"] = _largest_nbytes(inputs, outputs, rest.get("gears"))
        return _manifest("graph", soc, inputs, outputs, **rest), content if self.changed else self.source

    # Names and types.

    def _dtype(self, value) -> str:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise CompileError(f"input {value.name!r}: expected a tensor, got {kind or 'nothing'}; change the graph")
        code = value.type.tensor_type.elem_type
        try:
            return dtypes.by_onnx(code).name
        except KeyError:
            name = self.onnx.TensorProto.DataType.Name(code)
            raise CompileError(f"input {value.name!r}: type {name} is not supported; cast it in the graph") from None

    @staticmethod
    def _declared(value) -> list[int | str] | None:
        """Numbers, and the names of the other dims ("?" without one); None when the rank is unknown."""
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            return None
        return [dim.dim_value if dim.dim_value > 0 else dim.dim_param or "?" for dim in tensor.shape.dim]

    def _producers(self) -> dict[str, tuple[str, int]]:
        """Node name and output index behind each tensor; a node without a name gets one from its type and position."""
        found = {value.name: (value.name, 0) for value in (*self.proto.graph.input, *self.proto.graph.initializer)}
        for number, node in enumerate(self.proto.graph.node):
            for index, tensor in enumerate(node.output):
                found[tensor] = (node.name or f"{node.op_type}_{number}", index)
        found.pop("", None)  # an optional output that is left out
        return found

    def _select_outputs(self) -> list[str]:
        """Applies --out_nodes; returns the full name of each output."""
        graph, producers = self.proto.graph, self._producers()
        if wanted := self.options.get("out_nodes"):
            places = {f"{node}:{index}": tensor for tensor, (node, index) in producers.items()}
            places |= {f"{place}:{tensor}": tensor for place, tensor in places.items()}
            chosen = []
            for item in [part.strip() for part in wanted.split(";") if part.strip()]:
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
                values = [known.get(name) or self.onnx.ValueInfoProto(name=name) for name in chosen]
                del graph.output[:]
                graph.output.extend(values)
                self.changed = True
        names = []
        for value in graph.output:
            if value.name not in producers:
                raise ModelFileError(f"--model={self.source}: output {value.name!r} is made by no node")
            node, index = producers[value.name]
            names.append(f"{node}:{index}:{value.name}")
            if names.count(names[-1]) > 1:
                raise ModelFileError(f"--model={self.source}: output {value.name!r} is listed twice; export it again")
        return names

    def _drop_unused_inputs(self) -> None:
        graph = self.proto.graph
        used = _reads(graph) | {value.name for value in graph.output}
        unused = [value for value in self.inputs if value.name not in used]
        for value in unused:
            graph.input.remove(value)
            self.notes.append(f"input {value.name!r} is not used by the graph and is left out")
            self.changed = True
        if len(unused) == len(self.inputs):
            raise CompileError(f"--model={self.source}: expected a graph with inputs, got none that is used")

    def _keep_names(self) -> None:
        """OpenVINO drops nodes that compute nothing together with a tensor's name; it keeps both for an Identity."""
        graph = self.proto.graph
        used = _reads(graph) | {value.name for value in graph.output}
        for node in graph.node:
            single = node.op_type in ("Max", "Mean", "Min", "Sum") and len(node.input) == 1
            inference = node.op_type == "Dropout" and not any(node.input[2:]) and used.isdisjoint(node.output[1:])
            if node.domain in ("", "ai.onnx") and (single or inference):
                node.op_type = "Identity"
                del node.attribute[:], node.input[1:], node.output[1:]
                self.changed = True

    def _copy_inputs(self) -> None:
        """An output that is an input becomes a copy of it, because each has its own memory in an om."""
        graph = self.proto.graph
        inputs = {value.name for value in graph.input}
        for value in graph.output:
            if value.name in inputs:
                copy = f"{value.name}/output"
                graph.node.append(
                    self.onnx.helper.make_node("Identity", [value.name], [copy], f"{value.name}/Identity")
                )
                value.name = copy
                self.changed = True

    def _cast_inputs(self) -> None:
        """Applies --input_fp16_nodes: a Cast behind each named input."""
        graph, onnx = self.proto.graph, self.onnx
        wanted = [part.strip() for part in self.options.get("input_fp16_nodes", "").split(";") if part.strip()]
        inputs = {value.name: value for value in self.inputs}
        for name in wanted:
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
        """Applies --output_type: a Cast before each output whose type differs."""
        text = self.options.get("output_type")
        if not text:
            return
        graph, onnx = self.proto.graph, self.onnx
        types = self._output_types(text, names)
        known = self._output_dtypes()
        for value in graph.output:
            want = types.get(value.name)
            if want is None or known.get(value.name) == want:
                continue
            row = next(row for row in dtypes.TABLE if row.name == want)
            inner = f"{value.name}/{want}"
            graph.node.append(onnx.helper.make_node("Cast", [value.name], [inner], f"{value.name}/Cast", to=row.onnx))
            value.name = inner
            value.type.tensor_type.elem_type = row.onnx
            self.changed = True

    def _output_types(self, text: str, names: Sequence[str]) -> dict[str, str]:
        tensors = [value.name for value in self.proto.graph.output]
        if ":" not in text:
            return dict.fromkeys(tensors, _output_type(text))
        if "out_nodes" not in self.options:
            raise CompileError(f"--output_type={text}: types of single outputs need --out_nodes")
        aliases: dict[str, str] = {}
        for tensor, full in zip(tensors, names, strict=True):
            aliases |= {tensor: tensor, full: tensor, full.removesuffix(f":{tensor}"): tensor}
        types = {}
        for part in [part.strip() for part in text.split(";") if part.strip()]:
            name, _, kind = part.rpartition(":")
            if name not in aliases:
                raise CompileError(f"--output_type: no output {name!r}; the outputs are {', '.join(names)}")
            types[aliases[name]] = _output_type(kind)
        return types

    def _output_dtypes(self) -> dict[str, str]:
        values = {value.name: value.type.tensor_type.elem_type for value in self.proto.graph.output}
        return {name: dtypes.by_onnx(code).name for name, code in values.items() if code in _ONNX_CODES}

    def _note_arithmetic(self, dtypes: set[str]) -> None:
        for dtype, other in (("int64", "int32"), ("uint64", "int32"), ("uint32", "int32"), ("float64", "float32")):
            if dtype in dtypes:
                self.notes.append(f"the cpu runtime computes {dtype} as {other}: what does not fit comes out wrong")

    # Shapes.

    def _plan(self, declared: dict[str, list | None], soc: str) -> tuple[dict[str, Shape], str, list[tuple[int, ...]]]:
        """Shapes of the inputs, and the gear option (or "") with its gears in ascending order."""
        options = self.options
        dynamic = [name for name in atc.GEAR_OPTIONS if options.get(name)]
        exclusive = dynamic + (["input_shape_range"] if options.get("input_shape_range") else [])
        if len(exclusive) > 1:
            raise CompileError(
                f"{' and '.join(f'--{name}' for name in exclusive)} exclude each other; give one of them"
            )
        text = options.get("input_shape", "")
        if options.get("input_shape_range"):
            if text:
                self.notes.append("--input_shape has no effect: --input_shape_range takes its place")
            text = re.sub(r"[\[\]]", "", options["input_shape_range"])
        given = atc.parse_input_shape(text) if text else {}
        if isinstance(given, list):
            if len(given) > len(declared):
                raise CompileError(f"--input_shape: expected at most {len(declared)} shapes, got {len(given)}")
            given = dict(zip(declared, given, strict=False))
        shapes = self._merge(given, declared)
        if not dynamic:
            return shapes, "", []
        (option,) = dynamic
        if any(isinstance(dim, tuple) for shape in shapes.values() for dim in shape):
            raise CompileError(
                f"--{option} and ranges in --input_shape exclude each other; use -1 for what gears decide"
            )
        layout = options.get("input_format", "NCHW")
        if option == "dynamic_dims" and layout != "ND":
            raise CompileError(f"--dynamic_dims needs --input_format=ND, got {layout}")
        if option == "dynamic_image_size" and layout != "NCHW":
            raise CompileError(f"--dynamic_image_size needs --input_format=NCHW, got {layout}")
        gears = atc.parse_gears(option, options[option])
        atc.check_gears(option, gears, soc)
        atc.check_placement(option, gears, shapes)
        return shapes, option, sorted(gears)

    def _merge(self, given: dict[str, Shape], declared: dict[str, list | None]) -> dict[str, Shape]:
        every = [value.name for value in self.inputs]
        for name in given:
            if name not in every:
                near = difflib.get_close_matches(name, every, 1)
                advice = f"did you mean {near[0]!r}?" if near else "names must match exactly"
                raise CompileError(
                    f"--input_shape: the graph has no input {name!r}, only {', '.join(map(repr, every))}; {advice}"
                )
        shapes: dict[str, Shape] = {}
        for name, shape in declared.items():
            if name in given:
                if shape is not None and len(given[name]) != len(shape):
                    raise CompileError(
                        f"--input_shape: expected {len(shape)} dims for {name!r} as in the graph "
                        f"({atc.shape_text(shape)}), got {len(given[name])}: {atc.shape_text(given[name])}"
                    )
                shapes[name] = given[name]
            elif shape is None or any(isinstance(dim, str) for dim in shape):
                raise CompileError(self._missing(declared, given, name))
            else:
                shapes[name] = shape
        return shapes

    @staticmethod
    def _missing(declared: dict[str, list | None], given: dict[str, Shape], name: str) -> str:
        lines = []
        for other, shape in declared.items():
            if other in given:
                lines.append(f"{other}:{atc.shape_text(given[other])}")
            else:
                dims = ["?"] if shape is None else ["?" if isinstance(dim, str) else str(dim) for dim in shape]
                lines.append(f"{other}:{','.join(dims)}")
        shape = declared[name]
        what = "unknown" if shape is None else f"[{', '.join(map(str, shape))}]"
        return (
            f'input {name!r} has the shape {what} in the graph; add --input_shape="{";".join(lines)}" with a number '
            f"for each '?', or -1 together with --dynamic_batch_size, --dynamic_image_size or --dynamic_dims, or a "
            f"range"
        )

    def _infer(
        self, openvino, model, shapes: Mapping[str, Sequence[Dim]], outputs: list[dict], gear: tuple[int, ...] = ()
    ) -> list[list[int]]:
        """The outputs' shapes, -1 for what stays unknown, when the inputs have these shapes."""
        sized = model.clone()
        try:
            sized.reshape(
                {name: openvino.PartialShape([_openvino_dim(openvino, dim) for dim in s]) for name, s in shapes.items()}
            )
        except RuntimeError as error:
            at = f" at gear {atc.gear_text(gear)}" if gear else ""
            raise CompileError(
                f"the graph does not take {atc.shapes_text(shapes)}{at}: {_reason(error)}; change "
                f"--input_shape or the graph"
            ) from None
        found = []
        for output, port in zip(outputs, sized.outputs, strict=True):
            if port.partial_shape.rank.is_dynamic:
                raise CompileError(
                    f"output {output['name']!r}: its number of dims depends on the data, which is not supported"
                )
            found.append([dim.get_length() if dim.is_static else -1 for dim in port.partial_shape])
        return found

    @staticmethod
    def _refuse_dynamic(output: dict, rows: Sequence[Sequence[int]], option: str) -> None:
        for row in rows:
            if -1 in row or len(row) != len(rows[0]):
                raise CompileError(
                    f"--{option}: output {output['name']!r} has the shape [{atc.shape_text(row)}], which depends on "
                    f"the data; gears need fixed shapes. Use --out_nodes to end the graph earlier, or ranges"
                )


_ONNX_CODES = {row.onnx for row in dtypes.TABLE}


def _reason(error: Exception) -> str:
    """The most telling line of an OpenVINO message, which begins with source files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Exception from", "Check '"))]
    return (telling or lines or [type(error).__name__])[-1][:300].rstrip(".")


def _output_type(text: str) -> str:
    if text not in atc.OUTPUT_TYPES:
        raise CompileError(f"--output_type: expected one of {', '.join(atc.OUTPUT_TYPES)}, got {text!r}")
    return atc.OUTPUT_TYPES[text]


def _openvino_dim(openvino, dim: Dim):
    return openvino.Dimension(*dim) if isinstance(dim, tuple) else dim


def _openvino_dtype(name: str, port) -> str:
    text = port.element_type.to_string()
    if text not in _OPENVINO_NAMES:
        raise CompileError(f"output {name!r}: type {text} is not supported; cast it in the graph")
    return _OPENVINO_NAMES[text]


def _bounds(dim: Dim) -> list[int]:
    if isinstance(dim, tuple):
        return [*dim]
    return [1, -1] if dim == -1 else [dim, dim]


def _tensors(graph):
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


def _reads(graph) -> set[str]:
    """The names that the nodes of a graph and of its inner graphs read."""
    names = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            for inner in _inner_graphs(attribute):
                names |= _reads(inner) | {value.name for value in inner.output}
    return names


def _inner_graphs(attribute):
    return [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]


def _rename(graph, old: str, new: str) -> None:
    """Renames what the nodes of a graph and of their inner graphs read, unless an inner name hides `old`."""
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


def _largest_nbytes(inputs: list[dict], outputs: list[dict], gears: dict | None) -> int:
    """Bytes of all tensors at the largest gear; unknown dims count as 1."""
    total = 0
    for tensor in outputs:
        shapes = tensor.get("gear_shapes") or [tensor["shape"]]
        total += max(_nbytes(tensor, shape) for shape in shapes)
    named = {tensor["name"]: tensor["shape"] for tensor in inputs}
    values = [(value,) if isinstance(value, int) else tuple(value) for value in gears["values"]] if gears else [()]
    kind = gears["kind"] if gears else "batch"
    sized = [atc.gear_shapes(kind, gear, named) if gear else named for gear in values]
    total += max(sum(_nbytes(tensor, shapes[tensor["name"]]) for tensor in inputs) for shapes in sized)
    if total > _LARGEST_TENSORS:
        raise CompileError(f"inputs and outputs would take {total:,} bytes; give smaller shapes")
    return total


def _nbytes(tensor: dict, shape: Sequence[int]) -> int:
    return dtypes.by_name(tensor["dtype"]).itemsize * math.prod(abs(dim) for dim in shape)


# --- synthetic models -------------------------------------------------------------------------------------------------

_DESCRIPTION_KEYS = (
    *("inputs", "outputs", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "exec_us", "weight_bytes"),
    *("work_bytes", "soc", "name"),
)
_LARGEST_DESCRIPTION = 1 << 20
_GRAPH_ONLY = (
    *("input_shape", "input_shape_range", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "out_nodes"),
    *("output_type", "input_fp16_nodes"),
)


def _describe_synthetic(source: Path, options: Mapping[str, str]) -> dict[str, Any]:
    for name in _GRAPH_ONLY:
        if options.get(name):
            raise CompileError(f"--{name}: a synthetic model says this in {source} itself; leave the option out")
    if source.stat().st_size > _LARGEST_DESCRIPTION:
        raise ModelFileError(f"{source}: expected a description of at most {_LARGEST_DESCRIPTION:,} bytes")
    try:
        description = json.loads(source.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{source}: expected JSON that describes a synthetic model: {error}") from None
    try:
        return _synthetic_manifest(description, options.get("soc_version"))
    except ValueError as error:
        raise CompileError(f"{source}: {error}") from None


def _synthetic_manifest(description: Any, soc: str | None) -> dict[str, Any]:
    if unknown := sorted(set(description) - set(_DESCRIPTION_KEYS)):
        near = difflib.get_close_matches(unknown[0], _DESCRIPTION_KEYS, 1)
        advice = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_DESCRIPTION_KEYS)}"
        raise CompileError(f"unknown key {unknown[0]!r}; {advice}")
    soc = soc or description.get("soc", atc.DEFAULT_SOC)
    inputs = _description_tensors(description, "inputs", ("name", "dtype", "shape"))
    outputs = _description_tensors(description, "outputs", ("name", "dtype", "shape"), ("gear_shapes",))
    option, gears, order = _description_gears(description, inputs, str(soc))
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
    rest |= {"exec_us": exec_us, "gears": _gears_entry(kind, gears) if gears else None}
    manifest = _manifest("synthetic", soc, inputs, outputs, **rest)
    om.check_manifest(manifest)
    _largest_nbytes(inputs, outputs, manifest["gears"])
    _check_rows(manifest)
    return manifest


def _description_tensors(
    description: dict, group: str, required: Sequence[str], optional: Sequence[str] = ()
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


def _description_gears(description: dict, inputs: list[dict], soc: str) -> tuple[str, list[tuple[int, ...]], list[int]]:
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
        sample = {"dynamic_batch_size": "[1, 4, 8]", "dynamic_image_size": "[[224, 224], [448, 448]]"}
        raise CompileError(
            f"{option}: expected {sample.get(option, '[[1, 128], [4, 384]]')}, got {description[option]!r}"
        )
    gears = [tuple(value) for value in values]
    atc.check_gears(option, gears, soc)
    atc.check_placement(option, gears, shapes)
    order = sorted(range(len(gears)), key=gears.__getitem__)
    return option, [gears[at] for at in order], order


def _output_gear_shapes(
    tensor: dict, kind: str, gears: Sequence[tuple[int, ...]], explicit: Any, order: Sequence[int]
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
    return [atc.fill(tensor["shape"], list(gear)) for gear in gears]


def _check_rows(manifest: dict[str, Any]) -> None:
    """A synthetic output is made row by row, so its elements must divide by the rows."""
    from ge_core.compiler import synthetic

    for gear, rows in enumerate(synthetic.gear_rows(manifest)):
        for output in manifest["outputs"]:
            shape = output["gear_shapes"][gear] if manifest["gears"] else output["shape"]
            if math.prod(shape) % rows:
                raise CompileError(
                    f"output {output['name']!r}: expected a shape that divides by {rows} rows, got {shape}"
                )
