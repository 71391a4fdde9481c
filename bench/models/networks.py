# SPDX-License-Identifier: Apache-2.0
"""Presets of real arithmetic with made-up weights: networks of the size and shape of ResNet-50 and BERT-base.

The weights are random, seeded and scaled so that values stay finite; what they compute means nothing, what they cost
does. The graphs are built with the onnx package and compiled like any other model, with ATC on an NPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

import ge_core
from bench.models import presets
from bench.models.presets import ROWS, Case, UnavailableError
from ge_core.compiler import compile_model
from ge_core_pyx import model as om_model

OPSET = 17
RESNET_GEARS = (1, 4, 8)
RESNET_LAYERS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # channels, blocks, stride of the first
BERT_GEARS = ((1, 128), (1, 384), (4, 128))  # rows and tokens
BERT_LAYERS, BERT_WIDTH, BERT_HEADS, BERT_TOKENS = 12, 768, 12, 30522
LONGEST = 512


class Graph:
    """Builds an ONNX graph node by node; every method returns the name of its output."""

    def __init__(self, seed: int = 0):
        if importlib.util.find_spec("onnx") is None:
            raise UnavailableError(
                "the presets resnet50 and bert_base are built with the package onnx: pip install onnx"
            )
        import onnx

        self.onnx, self._random = onnx, np.random.default_rng(seed)
        self.nodes: list = []
        self.weights: list = []

    def constant(self, array: np.ndarray | np.floating) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, *shape: int, scale: float) -> str:
        return self.constant(self._random.standard_normal(shape, np.float32) * np.float32(scale))

    def add(self, kind: str, *inputs: str, **attributes) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def convolution(self, x: str, inside: int, out: int, size: int, stride: int, gain: float = 1.0) -> str:
        """A convolution with its bias, the batch normalisation folded in."""
        weight = self.weight(out, inside, size, size, scale=gain * (2.0 / (inside * size * size)) ** 0.5)
        bias = self.weight(out, scale=0.01)
        pads = [size // 2] * 4
        return self.add("Conv", x, weight, bias, kernel_shape=[size, size], strides=[stride, stride], pads=pads)

    def linear(self, x: str, inside: int, out: int, gain: float = 1.0) -> str:
        product = self.add("MatMul", x, self.weight(inside, out, scale=gain * inside**-0.5))
        return self.add("Add", product, self.weight(out, scale=0.01))

    def normalized(self, x: str, width: int) -> str:
        ones, zeros = self.constant(np.ones(width, np.float32)), self.constant(np.zeros(width, np.float32))
        return self.add("LayerNormalization", x, ones, zeros, axis=-1, epsilon=1e-5)

    def save(self, path: Path, inputs: Mapping[str, tuple], outputs: Mapping[str, tuple], results: list[str]) -> None:
        """Write the model; `inputs` and `outputs` map names to (ONNX type, shape), `results` are their tensors."""
        helper = self.onnx.helper
        ends = [helper.make_node("Identity", [t], [name]) for t, name in zip(results, outputs, strict=True)]
        values = [
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in side.items()]
            for side in (inputs, outputs)
        ]
        graph = helper.make_graph([*self.nodes, *ends], path.stem, *values, initializer=self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        self.onnx.save(model, path)


def resnet50(path: Path, size: int = 224, layers=RESNET_LAYERS, classes: int = 1000) -> Path:
    """Write a network with ResNet-50's layers: 25.6 million weights, 4.1 billion multiplications per image of 224."""
    graph = Graph()
    x = graph.add("Relu", graph.convolution("input", 3, 64, 7, 2))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inside = 64
    for channels, blocks, first_stride in layers:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = graph.add("Relu", graph.convolution(x, inside, channels, 1, 1))
            y = graph.add("Relu", graph.convolution(y, channels, channels, 3, stride))
            y = graph.convolution(y, channels, 4 * channels, 1, 1, gain=0.3)
            if block == 0:
                x = graph.convolution(x, inside, 4 * channels, 1, stride)
            inside = 4 * channels
            x = graph.add("Relu", graph.add("Add", x, y))
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    x = graph.linear(x, inside, classes)
    float32 = graph.onnx.TensorProto.FLOAT
    graph.save(path, {"input": (float32, ["n", 3, size, size])}, {"logits": (float32, ["n", classes])}, [x])
    return path


def bert_base(path: Path, layers: int = BERT_LAYERS, tokens: int = BERT_TOKENS) -> Path:
    """Write an encoder with BERT-base's layers: 109 million weights; its two inputs are (rows, tokens)."""
    graph = Graph()
    width, heads = BERT_WIDTH, BERT_HEADS
    each = width // heads
    integers = lambda *values: graph.constant(np.array(values, np.int64))  # noqa: E731
    embedded = graph.add("Gather", graph.weight(tokens, width, scale=0.02), "input_ids", axis=0)
    length = graph.add("Slice", graph.add("Shape", "input_ids"), integers(1), integers(2))
    places = graph.weight(LONGEST, width, scale=0.02)
    places = graph.add("Slice", places, integers(0), length, integers(0))
    x = graph.normalized(graph.add("Add", embedded, places), width)
    mask = graph.add("Cast", "attention_mask", to=graph.onnx.TensorProto.FLOAT)
    mask = graph.add("Sub", mask, graph.constant(np.float32(1)))
    mask = graph.add("Mul", graph.add("Unsqueeze", mask, integers(1, 2)), graph.constant(np.float32(10_000)))
    split, joined = integers(0, 0, heads, each), integers(0, 0, width)
    shrink = graph.constant(np.float32(each**-0.5))
    for _ in range(layers):
        q, k, v = (graph.add("Reshape", graph.linear(x, width, width), split) for _ in range(3))
        q, v = (graph.add("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        scores = graph.add("MatMul", q, graph.add("Transpose", k, perm=[0, 2, 3, 1]))
        scores = graph.add("Add", graph.add("Mul", scores, shrink), mask)
        mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)
        mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        x = graph.normalized(graph.add("Add", x, graph.linear(mixed, width, width)), width)
        inner = graph.linear(x, width, 4 * width)
        half = graph.add("Mul", inner, graph.constant(np.float32(0.5)))
        error = graph.add("Erf", graph.add("Mul", inner, graph.constant(np.float32(2**-0.5))))
        gelu = graph.add("Mul", half, graph.add("Add", error, graph.constant(np.float32(1))))
        x = graph.normalized(graph.add("Add", x, graph.linear(gelu, 4 * width, width)), width)
    int64, float32 = graph.onnx.TensorProto.INT64, graph.onnx.TensorProto.FLOAT
    shape = ["n", "s"]
    inputs = {"input_ids": (int64, shape), "attention_mask": (int64, shape)}
    graph.save(path, inputs, {"hidden": (float32, [*shape, width])}, [x])
    return path


def resnet50_cases(runtime: str, soc: str, folder: Path) -> list[Case]:
    """Compile the ResNet-50-sized network with batch gears."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx = resnet50(folder / "resnet50.onnx")
    om = compile_model(
        onnx,
        folder / "resnet50",
        runtime=runtime,
        framework=5,
        input_shape="input:-1,3,224,224",
        dynamic_batch_size=",".join(map(str, RESNET_GEARS)),
        soc_version=soc,
    ).path
    return [presets.om_case("resnet50", om, runtime)]


def bert_base_cases(runtime: str, soc: str, folder: Path) -> list[Case]:
    """Compile the BERT-base-sized network with gears of rows and tokens; each gear is a case of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx = bert_base(folder / "bert_base.onnx")
    om = compile_model(
        onnx,
        folder / "bert_base",
        runtime=runtime,
        framework=5,
        input_format="ND",
        input_shape="input_ids:-1,-1;attention_mask:-1,-1",
        dynamic_dims=";".join(f"{n},{s},{n},{s}" for n, s in BERT_GEARS),
        soc_version=soc,
    ).path
    return gear_cases("bert_base", om, runtime)


def gear_cases(name: str, om: Path, runtime: str) -> list[Case]:
    """Describe an om with gears other than of the batch: one case for each gear, with random inputs of its shapes."""
    description = ge_core.describe_model(om, runtime)
    timing = presets.timing_of(om, runtime)
    cases = []
    for gear in description.gears:
        shapes = om_model.input_shapes(description, gear)
        inputs = presets.random_inputs(description.inputs, shapes=shapes)
        if "attention_mask" in inputs:
            inputs["attention_mask"] = np.ones_like(inputs["attention_mask"])
        dims = (gear,) if isinstance(gear, int) else gear
        if len(set(dims)) < len(dims):  # of several inputs with the same dims: each once
            dims = tuple(dict.fromkeys(dims))
        cases.append(Case(f"{name}_{'x'.join(map(str, dims))}", om, inputs, False, timing))
    return cases


PRESETS: dict[str, Callable[[str, str, Path], list[Case]]] = {"resnet50": resnet50_cases, "bert_base": bert_base_cases}


def given_inputs(case: Case, path: Path) -> Case:
    """Return the case with inputs from an npz file instead of random ones.

    Parameters
    ----------
    case : Case
    path : Path
        One array for each input of the model, by name. Where the model can be split by rows there may be any number of
        rows: they are repeated, or shortened, to `ROWS`. Else the arrays are the whole input.

    Raises
    ------
    UnavailableError
        Not such a file, a missing or unknown name, another dtype or shape.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{path} cannot be read as npz: {error}") from None
    if arrays.keys() != case.inputs.keys():
        raise UnavailableError(f"{path} must hold {', '.join(case.inputs)}; it holds {', '.join(arrays) or 'nothing'}")
    for name, wanted in case.inputs.items():
        given = arrays[name]
        fits = given.ndim == wanted.ndim and (not case.splittable or given.shape[1:] == wanted.shape[1:])
        if given.dtype != wanted.dtype or not fits or not given.size:
            shape = ", ".join(map(str, ("rows", *wanted.shape[1:]) if case.splittable else wanted.shape))
            raise UnavailableError(
                f"{path}, {name!r}: expected {wanted.dtype} ({shape}), got {given.dtype} {given.shape}"
            )  # fmt: skip
    if case.splittable:
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) > 1:
            raise UnavailableError(f"{path}: the inputs have different numbers of rows: {counts}")
        arrays = {name: np.resize(array, (ROWS, *array.shape[1:])) for name, array in arrays.items()}
    return replace(case, inputs=arrays)
