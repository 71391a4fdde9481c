# SPDX-License-Identifier: Apache-2.0
"""The oms that the conformance cases name. ``python tests/support/acl_cpu_oms.py FOLDER`` writes them."""

import struct
import sys
from pathlib import Path

import numpy as np

from ge_core_pyx import om

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
          "uint64", "bool")  # fmt: skip


def tensors(rows, **rest):
    return [
        {"name": name, "dtype": dtype, "shape": list(shape), "tensor": name.split(":")[-1]} | rest
        for name, dtype, shape in rows
    ]


def manifest(inputs, outputs, gears=None, ranges=None, format="ND", shapes=None, **rest):
    """`shapes`: for each output one shape per gear."""
    outputs = tensors(outputs)
    for output, gear_shapes in zip(outputs, shapes or (), strict=False):
        output["gear_shapes"] = gear_shapes
    return {
        "schema": 1, "generator": "tests", "soc": "Ascend910B3", "name": "model", "kind": "synthetic",
        "inputs": tensors(inputs, format=format), "outputs": outputs, "gears": gears, "ranges": ranges,
        "exec_us": None, "weight_bytes": 0, "work_bytes": 0,
    } | rest  # fmt: skip


STATIC = manifest([("a", "float32", [2, 3]), ("b", "int64", [2])],
                  [("add:0:y", "float32", [2, 5]), ("z", "int32", [2, 1])])  # fmt: skip
SLOW = manifest([("x", "float32", [4])], [("y", "float32", [1, 4])])
WIDE = manifest([("x", "uint8", [1, 100_001])], [("y", "float32", [1, 1000])])
BATCH = manifest(
    [("x", "float32", [-1, 3, 8, 8])], [("node:0:y", "float32", [-1, 10])],
    {"kind": "batch", "values": [1, 2, 4, 8]}, shapes=[[[1, 10], [2, 10], [4, 10], [8, 10]]], format="NCHW",
)  # fmt: skip
MODELS = {
    "static": STATIC,
    "soc310": STATIC | {"soc": "Ascend310P3"},
    "soc_family": STATIC | {"soc": "Ascend910B1"},
    "weights": STATIC | {"weight_bytes": 4096, "work_bytes": 8192},
    "heavy": STATIC | {"weight_bytes": 2 << 20},
    "slow": SLOW | {"exec_us": 50_000},
    "endless": SLOW | {"exec_us": 1e9},
    "small": manifest([("x", "uint8", [1, 40]), ("n", "int32", [1, 4])], [("y", "float32", [1, 8])]),
    "wide": WIDE,
    "weights_wide": WIDE,
    "batch": BATCH,
    "slow_batch": manifest(
        [("x", "int8", [-1, 2])], [("y", "int8", [-1])], {"kind": "batch", "values": [1, 2]},
        shapes=[[[1], [2]]], exec_us=[10_000, 60_000],
    ),
    "image": manifest(
        [("x", "uint8", [1, 3, -1, -1])], [("y", "float32", [1, -1, -1])],
        {"kind": "image_size", "values": [[32, 32], [64, 48]]}, shapes=[[[1, 8, 8], [1, 16, 12]]], format="NCHW",
    ),
    "dims": manifest(
        [("ids", "int64", [-1, -1]), ("mask", "int64", [-1, -1])], [("y", "float16", [-1, -1, 4])],
        {"kind": "dims", "values": [[1, 16, 1, 16], [2, 32, 2, 32]]}, shapes=[[[1, 16, 4], [2, 32, 4]]],
    ),
    "range": manifest(
        [("x", "float32", [-1, 3, -1])], [("y", "float32", [-1, 7]), ("n", "int32", [4])],
        ranges={"x": [[1, 8], [3, 3], [1, 100]]},
    ),
    "open": manifest([("x", "float32", [-1])], [("y", "float32", [-1])], ranges={"x": [[1, -1]]}),
    "slow_range": manifest(
        [("x", "float32", [-1])], [("y", "float32", [-1, 3])], ranges={"x": [[1, 8]]}, exec_us=40_000,
    ),
    "scalar": manifest([("s", "float32", [])], [("y", "float64", [])]),
    "zero": manifest([("x", "float32", [0, 4]), ("n", "int8", [5])], [("y", "float32", [0, 2]), ("z", "uint8", [3])]),
    "dtypes": manifest([(f"in_{dtype}", dtype, [2, 7]) for dtype in DTYPES],
                       [(f"out_{dtype}", dtype, [2, 33]) for dtype in DTYPES]),
    "aipp_static": manifest(
        [("yuv", "uint8", [2, 12, 10, 1]), ("xrgb", "uint8", [2, 8, 10, 4])], [("y", "float32", [2, 4])],
        aipp={
            "yuv": {
                "mode": "static", "format": "YUV420SP_U8", "crop": [1, 2, 6, 4], "rbuv_swap": True,
                "source": {"dtype": "float16", "format": "NCHW", "shape": [2, 3, 4, 6]},
                "matrix": [256, 0, 359, 256, -88, -183, 256, 454, 0], "input_bias": [0, 128, 128],
                "mean": [104, 117, 123, 0], "min": [0, 0, 0, 0], "var_reci": [0.5, 0.5, 0.5, 1],
            },
            "xrgb": {
                "mode": "static", "format": "XRGB8888_U8", "ax_swap": True,
                "source": {"dtype": "float32", "format": "NHWC", "shape": [2, 8, 10, 3]},
            },
        },
    ),
    "aipp_dynamic": manifest(
        [("image", "uint8", [-1, 8, 8, 3]), ("n", "int16", [-1])], [("y", "float32", [-1, 4])],
        {"kind": "batch", "values": [1, 4]}, shapes=[[[1, 4], [4, 4]]],
        aipp={"image": {"mode": "dynamic", "format": "RGB888_U8",
                        "source": {"dtype": "float32", "format": "NCHW", "shape": [-1, 3, 6, 6]}}},
    ),
    "long": manifest([("i" * 150, "float32", [2])], [("o" * 150, "float32", [2])]),
}  # fmt: skip


def patched(raw, offset, layout, *values):
    raw = bytearray(raw)
    struct.pack_into(layout, raw, offset, *values)
    return bytes(raw)


def container(text, partition=1000):
    table = struct.pack("<I4x", 1) + struct.pack("<I4xQQ", partition, 0, len(text))
    header = bytearray(256)
    header[:4] = b"IMOD"
    struct.pack_into("<II", header, 4, 256, 0x20000000)
    struct.pack_into("<I3s", header, 156, 1, b"CPU")
    struct.pack_into("<Q", header, 184, len(table) + len(text))
    return bytes(header) + table + text


def table32(raw):
    """The same om with the table of old files."""
    text = raw[256 + 8 + 24 :]
    table = struct.pack("<IIII", 1, 1000, 0, len(text))
    header = patched(patched(raw[:256], 184, "<Q", 0), 76, "<I", len(table) + len(text))
    return header + table + text


def damage(folder):
    """What is no om for any AscendCL."""
    good = (folder / "static.om").read_bytes()
    damaged = {
        "empty": b"",
        "short": good[:100],
        "magic": b"XMOD" + good[4:],
        "truncated": good[:-10],
        "longer": good + b"more",
        "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "zip": b"PK\x03\x04" + bytes(300),
    }
    for name, raw in damaged.items():
        (folder / f"{name}.om").write_bytes(raw)


def write(folder):
    """Every om that the cases name, sound ones and damaged ones."""
    for name, description in MODELS.items():
        om.write(folder / f"{name}.om", description)
    damage(folder)
    good = (folder / "static.om").read_bytes()
    huge = (folder / "wide.om").read_bytes()[256 + 32 :].replace(b"100001", b"9007199254740992,9007199254740992")
    damaged = {
        "npu": patched(good, 160, "20s", b"8.1.RC1"),
        "bundle": patched(good, 82, "B", 5),
        "table": patched(good, 256 + 8 + 8, "<QQ", 10, len(good)),
        "count": patched(good, 256, "<I", 0xFFFFFFFF),
        "no_manifest": container(b"anything", 1001),
        "bad_json": container(b'{"schema": 1,'),
        "deep_json": container(b"[" * 100_000),
        "unknown_key": container(good[256 + 32 :].replace(b'"name":"model"', b'"name":"model","surprise":1', 1)),
        "nul_name": container(good[256 + 32 :].replace(b'"name":"a"', b'"name":"a\\u0000b"', 1)),
        "huge": container(huge),
        "table32": table32(good),
    }
    for name, raw in damaged.items():
        (folder / f"{name}.om").write_bytes(raw)


# --- graphs with the same inputs and outputs, for an AscendCL that has no synthetic models ----------------------------


def node(op, inputs, output, name=None, **attributes):
    from onnx import helper

    return helper.make_node(op, inputs, [output], name or f"make_{output}", **attributes)


def sums(source, output, columns, code, name=None):
    """`output` [n, columns] of element type `code`: in each column the sum of a row of `source`."""
    steps = [
        node("Cast", [source], f"{output}_f", to=1),
        node("Flatten", [f"{output}_f"], f"{output}_rows", axis=1),
        node("ReduceSum", [f"{output}_rows", "one"], f"{output}_sum", keepdims=1),
        node("MatMul", [f"{output}_sum", f"{output}_ones"], f"{output}_wide"),
        node("Cast", [f"{output}_wide"], output, name, to=code),
    ]
    return steps, {f"{output}_ones": np.ones((1, columns), "f4"), "one": np.array([1])}


def graph_of(name):
    """(nodes, constants, options of the compiler) for one of MODELS."""
    if name in ("static", "weights"):
        left, right = sums("a", "y", 5, 1, "add"), sums("c", "z", 1, 6)
        column = node("Reshape", ["b", "column"], "c")
        return [column, *left[0], *right[0]], left[1] | right[1] | {"column": np.array([2, 1])}, {}
    if name == "slow":
        return [node("Reshape", ["x", "row"], "y")], {"row": np.array([1, 4])}, {}
    if name in ("wide", "weights_wide"):
        return *sums("x", "y", 1000, 1), {}
    if name == "batch":
        options = {"input_shape": "x:-1,3,8,8", "input_format": "NCHW", "dynamic_batch_size": "1,2,4,8"}
        return *sums("x", "y", 10, 1, "node"), options
    if name == "image":
        nodes = [
            node("Cast", ["x"], "f", to=1),
            node("AveragePool", ["f"], "p", kernel_shape=[4, 4], strides=[4, 4]),
            node("ReduceSum", ["p", "one"], "y", keepdims=0),
        ]
        options = {"input_shape": "x:1,3,-1,-1", "input_format": "NCHW", "dynamic_image_size": "32,32;64,48"}
        return nodes, {"one": np.array([1])}, options
    if name == "dims":
        nodes = [
            node("Add", ["ids", "mask"], "s"),
            node("Cast", ["s"], "f", to=1),
            node("Unsqueeze", ["f", "last"], "u"),
            node("MatMul", ["u", "ones"], "w"),
            node("Cast", ["w"], "y", to=10),
        ]
        options = {"input_shape": "ids:-1,-1;mask:-1,-1", "input_format": "ND", "dynamic_dims": "1,16,1,16;2,32,2,32"}
        return nodes, {"last": np.array([2]), "ones": np.ones((1, 4), "f4")}, options
    if name == "range":
        nodes, constants = sums("x", "y", 7, 1)
        nodes += [
            node("ReduceSum", ["x"], "all", keepdims=0),
            node("Mul", ["all", "four"], "n_f"),
            node("Cast", ["n_f"], "n", to=6),
        ]
        return nodes, constants | {"four": np.ones(4, "f4")}, {"input_shape": "x:1~8,3,1~100", "input_format": "ND"}
    if name == "open":
        return [node("Relu", ["x"], "y")], {}, {"input_shape": "x:-1", "input_format": "ND"}
    if name == "scalar":
        return [node("Cast", ["s"], "y", to=11)], {}, {}
    raise KeyError(name)


GRAPHS = ("static", "weights", "slow", "wide", "weights_wide", "batch", "image", "dims", "range", "open", "scalar")


def write_graphs(folder, runtime):
    """What `write` writes, as far as an NPU has it: the models of GRAPHS as real graphs, and damaged ones."""
    import onnx
    from onnx import helper, numpy_helper

    from ge_core.compiler import compile_model

    for name in GRAPHS:
        nodes, constants, options = graph_of(name)

        def info(tensor):
            shape = [None if dim == -1 else dim for dim in tensor["shape"]]
            code = helper.np_dtype_to_tensor_dtype(np.dtype(tensor["dtype"]))
            return helper.make_tensor_value_info(tensor["tensor"], code, shape)

        graph = helper.make_graph(
            nodes,
            name,
            [info(tensor) for tensor in MODELS[name]["inputs"]],
            [info(tensor) for tensor in MODELS[name]["outputs"]],
            [numpy_helper.from_array(array, constant) for constant, array in constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, folder / f"{name}.onnx")
        compile_model(
            folder / f"{name}.onnx", folder / f"{name}.om", runtime=runtime, **{"input_format": "ND"} | options
        )
    damage(folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
