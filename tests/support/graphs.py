# SPDX-License-Identifier: Apache-2.0
"""Small real ONNX graphs, compiled for the CPU implementation; onnxruntime has the right answers."""

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from ge_core.compiler import compile_model
from ge_core_pyx import dtypes


class Graph:
    """An ONNX graph on disk, its om, and what onnxruntime makes of the same inputs."""

    def __init__(self, folder, nodes, inputs, outputs, constants=(), **options):
        def infos(rows):
            return [
                helper.make_tensor_value_info(name, dtypes.by_name(dtype).onnx, shape) for name, dtype, shape in rows
            ]

        initializers = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
        graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        self.inputs = inputs
        onnx.save(model, folder / "g.onnx")
        compile_model(folder / "g.onnx", folder / "g.om", runtime="cpu", **options)
        self.path = folder / "g.om"
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        settings.log_severity_level = 3
        self._reference = onnxruntime.InferenceSession(folder / "g.onnx", settings, providers=["CPUExecutionProvider"])

    def reference(self, feeds):
        return self._reference.run(None, feeds)


def random_array(rng, dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        return rng.integers(0, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def convolution(folder, gears=None, ranges=None, images=1):
    """Fully convolutional: any image size, and a pooled vector."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["map"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("ReduceMean", ["map"], ["mean"], "mean", axes=[2, 3], keepdims=0),
    ]
    options = {"input_shape": f"image:{ranges}"} if ranges else {}
    if gears:
        options = {"input_shape": f"image:{images},2,-1,-1", "dynamic_image_size": gears}
    return Graph(
        folder, nodes, [("image", "float32", [images, 2, "h", "w_"])],
        [("map", "float32", [images, 3, "h", "w_"]), ("mean", "float32", [images, 3])],
        {"w": rng.standard_normal((3, 2, 3, 3)).astype("float32")}, **options,
    )  # fmt: skip


def sequence(folder, gears=None, ranges=None):
    """Token ids to a vector per token, each token for itself, so that padding cannot leak."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["embedded"], "embed"),
        helper.make_node("MatMul", ["embedded", "w"], ["hidden"], "project"),
    ]
    options = {"input_shape": f"ids:{ranges}"} if ranges else {}
    if gears:
        options = {"input_shape": "ids:-1,-1", "dynamic_dims": gears, "input_format": "ND"}
    return Graph(
        folder, nodes, [("ids", "int64", ["n", "s"])], [("hidden", "float32", ["n", "s", 4])],
        {"table": rng.standard_normal((20, 6)).astype("float32"), "w": rng.standard_normal((6, 4)).astype("float32")},
        **options,
    )  # fmt: skip


def nonzero(folder):
    """An output whose size only the data decides."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"], "find")]
    return Graph(
        folder, nodes, [("x", "float32", ["n", "m"])], [("places", "int64", [2, "k"])], input_shape="x:1~64,1~64"
    )


def scalars(folder):
    """A scalar input and a scalar output."""
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["y"], "scale"),
        helper.make_node("ReduceSum", ["y"], ["total"], "sum", keepdims=0),
    ]
    return Graph(
        folder,
        nodes,
        [("x", "float32", [2, 3]), ("s", "float32", [])],
        [("y", "float32", [2, 3]), ("total", "float32", [])],
    )


def fixed_nonzero(folder):
    """Fixed inputs, and still an output that only the data sizes."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"], "find")]
    return Graph(folder, nodes, [("x", "float32", [3, 4])], [("places", "int64", [2, "k"])])
