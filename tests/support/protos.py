# SPDX-License-Identifier: Apache-2.0
"""Small ONNX graphs and descriptions as protos, for tests of the compiler and the command."""

import numpy as np
import onnx
from onnx import TensorProto, helper

F, H, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(a, n) for n, a in weights])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(proto)
    return proto


def linear(batch="n", kind=F):
    """x [batch, 4] times w: y [batch, 3]; the initializer w is a graph input too."""
    weight = np.arange(12, dtype=np.float32 if kind == F else np.float16).reshape(4, 3)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")
    inputs = [tensor("x", kind, [batch, 4]), tensor("w", kind, [4, 3])]
    return model([node], inputs, [tensor("y", kind, [batch, 3])], [("w", weight)])


def conv(batch="n", height="h", width="w"):
    """An image network with two outputs, nodes without names."""
    weight = np.ones((2, 3, 3, 3), np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "k"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["features"]),
        helper.make_node("GlobalAveragePool", ["features"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["scores"]),
    ]
    outputs = [tensor("scores", F, ["b", 2]), tensor("features", F, ["b", 2, "fh", "fw"])]
    return model(nodes, [tensor("image", F, [batch, 3, height, width])], outputs, [("k", weight)])


def tokens():
    """Two int64 inputs of unknown batch and length; the output has another order of dims."""
    nodes = [
        helper.make_node("Add", ["ids", "mask"], ["sum"], name="add"),
        helper.make_node("Transpose", ["sum"], ["t"], name="swap", perm=[1, 0]),
    ]
    shape = ["batch", "length"]
    return model(nodes, [tensor("ids", I64, shape), tensor("mask", I64, shape)], [tensor("t", I64, ["u", "v"])])


LLAMA = {
    "inputs": [{"name": "input_ids", "dtype": "int64", "shape": [-1, 16]}],
    "outputs": [{"name": "logits", "dtype": "float32", "shape": [-1, 16, 32000]}],
    "dynamic_batch_size": [8, 1, 4],
    "exec_us": [220000, 78000, 145000],
}
