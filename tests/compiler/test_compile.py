# SPDX-License-Identifier: Apache-2.0
"""Compiling for the CPU runtime: ATC's rules, and interfaces that equal what onnxruntime computes."""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from protos import I64, LLAMA, F, conv, linear, model, tensor, tokens

from ge_core import InferenceSession
from ge_core.compiler import AtcError, CompileError, atc, compile_model
from ge_core_pyx import om
from ge_core_pyx.errors import ModelFileError, UnsupportedError


class Workshop:
    def __init__(self, folder):
        self.folder = folder

    def save(self, proto, name="m.onnx"):
        path = self.folder / name
        path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
        return path

    def compile(self, proto, **options):
        self.lines = []
        source = proto if isinstance(proto, Path) else self.save(proto)
        report = self.lines.append
        self.compiled = compile_model(source, self.folder / "out", runtime="cpu", report=report, **options)
        assert self.compiled.manifest == om.read_manifest(self.compiled.path)
        return self.compiled.manifest

    def refused(self, proto, text, error=CompileError, **options):
        with pytest.raises(error, match=text):
            self.compile(proto, **options)
        assert not (self.folder / "out.om").exists()

    def onnx_bytes(self):
        return om.read_partition(self.compiled.path, om.ONNX)


@pytest.fixture
def workshop(tmp_path):
    return Workshop(tmp_path)


def ran(proto, feeds):
    """onnxruntime's outputs by tensor name."""
    content = proto if isinstance(proto, bytes) else proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def check_against_onnxruntime(manifest, content):
    """Names, dtypes and the shapes of every gear are those that onnxruntime really gives."""
    gears = manifest["gears"]
    for number in range(len(gears["values"]) if gears else 1):
        value = gears["values"][number] if gears else []
        numbers = [value] if isinstance(value, int) else list(value)
        feeds = {}
        for item in manifest["inputs"]:
            left = numbers if gears and gears["kind"] == "dims" else list(numbers)
            shape = [left.pop(0) if dim == -1 else dim for dim in item["shape"]]
            feeds[item["tensor"]] = np.ones(shape, item["dtype"])
        results = ran(content, feeds)
        assert [item["tensor"] for item in manifest["outputs"]] == list(results)
        for item in manifest["outputs"]:
            result = results[item["tensor"]]
            assert item["dtype"] == result.dtype
            assert (item["gear_shapes"][number] if gears else item["shape"]) == list(result.shape)


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_static_model_needs_no_shape(workshop):
    proto = linear(batch=2)
    manifest = workshop.compile(proto, framework=5, soc_version="Ascend310P3")
    assert manifest["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 4], "format": "ND", "tensor": "x"}]
    assert manifest["outputs"] == [{"name": "fc:0:y", "dtype": "float32", "shape": [2, 3], "tensor": "y"}]
    assert (manifest["gears"], manifest["ranges"], manifest["exec_us"]) == (None, None, None)
    assert (manifest["soc"], manifest["name"], manifest["kind"]) == ("Ascend310P3", "out", "graph")
    assert manifest["work_bytes"] == 2 * 4 * 4 + 2 * 3 * 4
    assert workshop.onnx_bytes() == proto.SerializeToString()
    assert workshop.lines[-1].startswith("ATC run success")
    assert "inputs  x  float32  [2,4]" in workshop.lines
    check_against_onnxruntime(manifest, workshop.onnx_bytes())


def test_batch_gears(workshop):
    manifest = workshop.compile(conv(height=8, width=6), input_shape="image:-1,3,8,6", dynamic_batch_size="8,1,2")
    assert manifest["gears"] == {"kind": "batch", "values": [1, 2, 8]}
    assert manifest["inputs"][0]["shape"] == [-1, 3, 8, 6] and manifest["inputs"][0]["format"] == "NCHW"
    scores, features = manifest["outputs"]
    assert (scores["name"], scores["shape"], scores["gear_shapes"]) == (
        "Flatten_3:0:scores",
        [-1, 2],
        [[1, 2], [2, 2], [8, 2]],
    )
    assert (features["name"], features["shape"]) == ("Relu_1:0:features", [-1, 2, 4, 3])
    assert "gears   batch  1,2,8" in workshop.lines
    check_against_onnxruntime(manifest, workshop.onnx_bytes())


def test_image_size_gears(workshop):
    manifest = workshop.compile(conv(batch=2), input_shape="image:2,3,-1,-1", dynamic_image_size="16,8;8,8;9,7")
    assert manifest["gears"] == {"kind": "image_size", "values": [[8, 8], [9, 7], [16, 8]]}
    assert manifest["outputs"][1]["gear_shapes"] == [[2, 2, 4, 4], [2, 2, 5, 4], [2, 2, 8, 4]]
    assert manifest["outputs"][0]["shape"] == [2, 2] and manifest["outputs"][1]["shape"] == [2, 2, -1, 4]
    check_against_onnxruntime(manifest, workshop.onnx_bytes())


def test_dims_gears(workshop):
    manifest = workshop.compile(
        tokens(), input_format="ND", input_shape="ids:-1,-1;mask:-1,-1", dynamic_dims="4,384,4,384;1,128,1,128"
    )
    assert manifest["gears"] == {"kind": "dims", "values": [[1, 128, 1, 128], [4, 384, 4, 384]]}
    assert manifest["outputs"][0]["gear_shapes"] == [[128, 1], [384, 4]]
    check_against_onnxruntime(manifest, workshop.onnx_bytes())


def test_ranges(workshop):
    manifest = workshop.compile(conv(), input_shape="image:1~10,3,-1,32~64")
    assert manifest["ranges"] == {"image": [[1, 10], [3, 3], [1, -1], [32, 64]]}
    assert manifest["inputs"][0]["shape"] == [-1, 3, -1, -1] and manifest["gears"] is None
    assert [item["shape"] for item in manifest["outputs"]] == [[-1, 2], [-1, 2, -1, -1]]
    assert om.read_header(workshop.compiled.path).is_unknow_model


def test_older_spelling_of_ranges(workshop):
    manifest = workshop.compile(linear(), input_shape_range="x:[1~8,4]", input_shape="x:2,4")
    assert manifest["ranges"] == {"x": [[1, 8], [4, 4]]}
    assert workshop.compiled.notes == ["--input_shape has no effect: --input_shape_range takes its place"]


def test_shapes_by_position(workshop):
    assert workshop.compile(tokens(), input_shape="2,3;2,3")["outputs"][0]["shape"] == [3, 2]


def test_scalars_and_names_with_colons(workshop):
    node = helper.make_node("Mul", ["a:0", "s"], ["out:0"], name="mul")
    proto = model([node], [tensor("a:0", F, ["n"]), tensor("s", F, [])], [tensor("out:0", F, ["n"])])
    manifest = workshop.compile(proto, input_shape="a:0:3;s:")
    assert [(item["name"], item["shape"]) for item in manifest["inputs"]] == [("a:0", [3]), ("s", [])]
    assert (manifest["outputs"][0]["name"], manifest["outputs"][0]["shape"]) == ("mul:0:out:0", [3])
    check_against_onnxruntime(manifest, workshop.onnx_bytes())


def test_outputs_that_depend_on_the_data_make_a_range_model(workshop):
    proto = model(
        [helper.make_node("NonZero", ["x"], ["at"])], [tensor("x", F, [2, 3])], [tensor("at", I64, [2, "found"])]
    )
    manifest = workshop.compile(proto)
    assert manifest["outputs"][0]["shape"] == [2, -1] and manifest["ranges"] == {"x": [[2, 2], [3, 3]]}


def test_outputs_that_are_inputs_or_weights(workshop):
    proto = linear(batch=1)
    proto.graph.output.extend([tensor("x", F, [1, 4]), tensor("w", F, [4, 3])])
    manifest = workshop.compile(proto)
    assert [item["name"] for item in manifest["outputs"]] == ["fc:0:y", "x:0:x", "w:0:w"]
    check_against_onnxruntime(manifest, workshop.onnx_bytes())
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    with InferenceSession(workshop.compiled.path, runtime="cpu") as session:
        y, same, weight = session.run(None, {"x": x})
    assert same.tolist() == x.tolist() and y.tolist() == (x @ weight).tolist() == [[42.0, 48.0, 54.0]]


@pytest.mark.parametrize(
    "op, outputs", [("Dropout", ["d"]), ("Dropout", ["d", "mask"]), ("Sum", ["d"]), ("Max", ["d"])]
)
def test_tensors_around_nodes_that_compute_nothing_keep_their_names(workshop, op, outputs):
    nodes = [helper.make_node(op, ["x"], outputs), helper.make_node("Add", ["d", "d"], ["y"])]
    proto = model(nodes, [tensor("x", F, ["n", 4])], [tensor("y", F, ["n", 4]), tensor("d", F, ["n", 4])])
    manifest = workshop.compile(proto, input_shape="x:-1,4", dynamic_batch_size="1,2")
    assert [item["name"] for item in manifest["outputs"]] == ["Add_1:0:y", f"{op}_0:0:d"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with InferenceSession(workshop.compiled.path, runtime="cpu") as session:
        y, d = session.run(None, {"x": x})
    assert y.tolist() == (x + x).tolist() and d.tolist() == x.tolist()


def test_local_functions_are_inlined(workshop):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], opsets[:1]
    )
    node = helper.make_node("Twice", ["x"], ["y"], "double", domain="local")
    graph = helper.make_graph([node], "g", [tensor("x", F, [3])], [tensor("y", F, [3])])
    workshop.compile(helper.make_model(graph, functions=[twice], opset_imports=opsets, ir_version=8))
    feeds = {"x": np.array([1, 2, 3], np.float32)}
    assert ran(workshop.onnx_bytes(), feeds)["y"].tolist() == [2.0, 4.0, 6.0]


def test_types_that_are_computed_in_smaller_ones_are_noted(workshop):
    workshop.compile(tokens(), input_shape="ids:1,4;mask:1,4")
    assert workshop.compiled.notes == ["the cpu runtime computes int64 as int32: what does not fit comes out wrong"]
    workshop.compile(linear(batch=1))
    assert workshop.compiled.notes == []


def test_graphs_that_contradict_themselves(workshop):
    proto = linear(batch=1)
    proto.graph.output.append(proto.graph.output[0])
    workshop.refused(proto, "output 'y' is listed twice", ModelFileError)
    proto = linear(batch=1)
    del proto.opset_import[:]
    workshop.refused(proto, "expected an ONNX model with an opset, got none", ModelFileError)


def test_shapes_beyond_all_memory(workshop):
    workshop.refused(linear(), r"would take 2,8\d\d,.* bytes; give smaller shapes", input_shape=f"x:{10**17},4")
    add = helper.make_node("Add", ["x", "x"], ["y"])
    proto = model([add], [tensor("x", F, [1] * 129)], [tensor("y", F, [1] * 129)])
    workshop.refused(proto, "a list of at most 128 numbers")


def test_unused_inputs_are_left_out_and_named(workshop):
    proto = linear(batch=1)
    proto.graph.input.append(tensor("spare", I64, ["k"]))
    assert [item["name"] for item in workshop.compile(proto)["inputs"]] == ["x"]
    assert workshop.compiled.notes == ["input 'spare' is not used by the graph and is left out"]


@pytest.mark.parametrize(
    "kind, name",
    [
        *((TensorProto.FLOAT, "float32"), (TensorProto.FLOAT16, "float16"), (TensorProto.DOUBLE, "float64")),
        *((TensorProto.INT8, "int8"), (TensorProto.INT16, "int16"), (TensorProto.INT32, "int32")),
        *((TensorProto.INT64, "int64"), (TensorProto.UINT8, "uint8"), (TensorProto.UINT16, "uint16")),
        *((TensorProto.UINT32, "uint32"), (TensorProto.UINT64, "uint64"), (TensorProto.BOOL, "bool")),
    ],
)
def test_types_are_those_of_the_graph(workshop, kind, name):
    node = helper.make_node("Concat", ["a", "a"], ["b"], axis=0)
    proto = model([node], [tensor("a", kind, [2, 2])], [tensor("b", kind, [4, 2])])
    manifest = workshop.compile(proto)
    assert (manifest["inputs"][0]["dtype"], manifest["outputs"][0]["dtype"]) == (name, name)
    check_against_onnxruntime(manifest, workshop.onnx_bytes())


def test_bfloat16(workshop):
    proto = model(
        [helper.make_node("Reshape", ["a", "s"], ["b"])],
        [tensor("a", TensorProto.BFLOAT16, [2, 2])],
        [tensor("b", TensorProto.BFLOAT16, [4])],
        [("s", np.array([4]))],
    )
    manifest = workshop.compile(proto)
    assert (manifest["inputs"][0]["dtype"], manifest["outputs"][0]["dtype"]) == ("bfloat16", "bfloat16")


def test_out_nodes_choose_and_order_outputs(workshop):
    manifest = workshop.compile(conv(1, 8, 8), out_nodes="features;Conv_0:0")
    assert [item["name"] for item in manifest["outputs"]] == ["Relu_1:0:features", "Conv_0:0:c"]
    assert [item["shape"] for item in manifest["outputs"]] == [[1, 2, 4, 4], [1, 2, 4, 4]]
    assert manifest["outputs"][1]["dtype"] == "float32"


@pytest.mark.parametrize("kind, name", [("FP16", "float16"), ("UINT8", "uint8"), ("DOUBLE", "float64")])
def test_output_type_casts(workshop, kind, name):
    proto = linear(batch=1)
    manifest = workshop.compile(proto, output_type=kind)
    (output,) = manifest["outputs"]
    assert (output["name"], output["dtype"], output["tensor"]) == ("fc:0:y", name, f"y/{name}")
    feeds = {"x": np.array([[1, 2, 3, 4]], np.float32)}
    want = ran(proto, feeds)["y"].astype(name)
    assert (ran(workshop.onnx_bytes(), feeds)[f"y/{name}"] == want).all()


def test_output_type_that_is_there_already_changes_nothing(workshop):
    proto = linear(batch=1)
    workshop.compile(proto, output_type="FP32")
    assert workshop.onnx_bytes() == proto.SerializeToString()


def test_output_type_of_single_outputs(workshop):
    manifest = workshop.compile(conv(1, 8, 8), out_nodes="Flatten_3:0:scores;features", output_type="Flatten_3:0:FP16")
    assert [item["dtype"] for item in manifest["outputs"]] == ["float16", "float32"]


def test_input_fp16_nodes(workshop):
    proto = linear(batch=1)
    manifest = workshop.compile(proto, input_fp16_nodes="x")
    assert manifest["inputs"][0]["dtype"] == "float16" and manifest["outputs"][0]["dtype"] == "float32"
    feeds = {"x": np.array([[1, 2, 3, 4]], np.float16)}
    want = ran(proto, {"x": feeds["x"].astype(np.float32)})["y"]
    assert (ran(workshop.onnx_bytes(), feeds)["y"] == want).all()


def test_input_fp16_nodes_reach_inner_graphs(workshop):
    def branch(name, value):
        nodes = [
            helper.make_node("Constant", [], [f"{name}_c"], value_float=value),
            helper.make_node("Mul", ["x", f"{name}_c"], [name]),
        ]
        return helper.make_graph(nodes, name, [], [tensor(name, F, [2])])

    node = helper.make_node("If", ["flag"], ["y"], then_branch=branch("t", 2.0), else_branch=branch("e", 3.0))
    proto = model([node], [tensor("flag", TensorProto.BOOL, [1]), tensor("x", F, [2])], [tensor("y", F, [2])])
    workshop.compile(proto, input_fp16_nodes="x")
    feeds = {"flag": np.array([False]), "x": np.array([1, 2], np.float16)}
    assert ran(workshop.onnx_bytes(), feeds)["y"].tolist() == [3.0, 6.0]


def external(workshop, length=None):
    proto = linear(batch=1)
    path = workshop.folder / "ext.onnx"
    onnx.save(linear(batch=1), path, save_as_external_data=True, location="ext.bin", size_threshold=0)
    if length is not None:
        stored = onnx.load(path, load_external_data=False)
        for entry in stored.graph.initializer[0].external_data:
            if entry.key == "length":
                entry.value = str(length)
        path.write_bytes(stored.SerializeToString())
    return proto, path


def test_external_data_is_embedded(workshop):
    proto, path = external(workshop)
    workshop.compile(path)
    (workshop.folder / "ext.bin").unlink()
    feeds = {"x": np.ones((1, 4), np.float32)}
    assert (ran(workshop.onnx_bytes(), feeds)["y"] == ran(proto, feeds)["y"]).all()


def test_external_data_that_is_missing(workshop):
    _, path = external(workshop)
    (workshop.folder / "ext.bin").unlink()
    workshop.refused(path, "cannot read its external data", ModelFileError)


@pytest.mark.parametrize("length", ["abc", -5])
def test_external_data_of_no_length(workshop, length):
    _, path = external(workshop, length)
    workshop.refused(path, "cannot read its external data", ModelFileError)


def test_more_than_two_gib_are_refused(workshop):
    _, path = external(workshop, 3 << 30)
    workshop.refused(path, r"expected at most 2 GiB of graph and weights in all, got 3,221,\d+,\d+ bytes")


def ocr(name):
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    if package is None:
        pytest.skip("rapidocr_onnxruntime is not installed")
    return Path(package.submodule_search_locations[0]) / "models" / name


@pytest.mark.parametrize(
    "file, width, shape",
    [("ch_ppocr_mobile_v2.0_cls_infer.onnx", 192, [2]), ("ch_PP-OCRv4_rec_infer.onnx", 320, [40, 6625])],
)
def test_ocr_models(workshop, file, width, shape):
    source = ocr(file)
    manifest = workshop.compile(source, input_shape=f"x:-1,3,48,{width}", dynamic_batch_size="1,2,4,8")
    (output,) = manifest["outputs"]
    assert output["shape"] == [-1, *shape] and output["gear_shapes"] == [[n, *shape] for n in (1, 2, 4, 8)]
    assert workshop.onnx_bytes() == source.read_bytes()
    assert manifest["weight_bytes"] > 100_000
    check_against_onnxruntime(manifest, source.read_bytes())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, text",
    [
        ({}, r"input 'image' has the shape \[n, 3, h, w\] in the graph; add --input_shape=\"image:\?,3,\?,\?\""),
        ({"input_shape": "imag:1,3,8,8"}, "the graph has no input 'imag', only 'image'; did you mean 'image'"),
        ({"input_shape": "image:1,3,8"}, r"expected 4 dims for 'image' as in the graph \(n,3,h,w\), got 3: 1,3,8"),
        ({"input_shape": "image:1,3,8,8;image:1,3,8,8"}, "input 'image' is given twice"),
        ({"input_shape": "image:1,3,8,a"}, "expected numbers >= 0, -1 or ranges like 1~10, got 'a'"),
        ({"input_shape": "image:1,3,8,-2"}, "got '-2'"),
        ({"input_shape": "image:1,3,8,8.0"}, "got '8.0'"),
        ({"input_shape": "image:1,3,8,9~8"}, "expected a range with lower <= upper, got '9~8'"),
        ({"input_shape": "1,3,8,8;image:1,3,8,8"}, "expected \"name:1,3,224,224\", got '1,3,8,8'"),
        ({"input_shape": ":1,3,8,8"}, 'expected "name:1,3,224,224"'),
        ({"input_shape": ";"}, "got nothing"),
        ({"input_shape": "image:1,4,8,8"}, 'the graph does not take "image:1,4,8,8": .*channel'),
        ({"input_shape": "image:-1,3,8,8", "dynamic_batch_size": "1"}, "expected 2 to 100 gears, got 1; for one size"),
        ({"input_shape": "image:-1,3,8,8", "dynamic_batch_size": ",".join(map(str, range(1, 102)))}, "got 101"),
        ({"input_shape": "image:-1,3,8,8", "dynamic_batch_size": "1,2,1"}, "expected every gear once, got 1 twice"),
        ({"input_shape": "image:-1,3,8,8", "dynamic_batch_size": "0,2"}, "expected numbers >= 1, got 0"),
        ({"input_shape": "image:-1,3,8,8", "dynamic_batch_size": "1;2"}, 'expected numbers as in "1,2,4,8"'),
        ({"input_shape": "image:1,3,8,8", "dynamic_batch_size": "1,2"}, "expected -1 in the shape of an input"),
        ({"input_shape": "image:-1,3,-1,8", "dynamic_batch_size": "1,2"}, "expected -1 in dim 0 only, got"),
        ({"input_shape": "image:1~4,3,8,8", "dynamic_batch_size": "1,2"}, "and ranges in --input_shape exclude"),
        (
            {"input_shape": "image:1,3,-1,8", "dynamic_image_size": "8,8;9,9"},
            "expected -1 in H and W only of a 4-D input",
        ),
        (
            {"input_shape": "image:1,3,-1,-1", "dynamic_image_size": "8;9"},
            r"expected 2 number\(s\) in each gear, got 8",
        ),
        (
            {"input_shape": "image:1,3,-1,-1", "dynamic_image_size": "8,8;9,9", "input_format": "ND"},
            "--dynamic_image_size needs --input_format=NCHW, got ND",
        ),
        ({"input_shape": "image:-1,3,8,8", "dynamic_dims": "1;2"}, "--dynamic_dims needs --input_format=ND, got NCHW"),
        (
            {"input_shape": "image:-1,3,-1,8", "dynamic_dims": "1;2", "input_format": "ND"},
            r"expected 2 number\(s\) in each gear, one for each -1 of \"image:-1,3,-1,8\", got 1",
        ),
        (
            {"input_shape": "image:-1,3,8,8", "dynamic_batch_size": "1,2", "dynamic_dims": "1;2"},
            "--dynamic_batch_size and --dynamic_dims exclude each other",
        ),
        (
            {"input_shape_range": "image:[1~2,3,8,8]", "dynamic_batch_size": "1,2"},
            "--dynamic_batch_size and --input_shape_range exclude each other",
        ),
        ({"out_nodes": "Relu_1:1"}, "the graph has no 'Relu_1:1'; did you mean .*Relu_1:0"),
        ({"out_nodes": "scores;Flatten_3:0"}, "expected every output once, got 'Flatten_3:0' twice"),
        ({"output_type": "FP33"}, "expected one of FP32, .*got 'FP33'"),
        ({"output_type": "scores:FP16"}, "types of single outputs need --out_nodes"),
        ({"output_type": "x:0:FP16", "out_nodes": "scores"}, "no output 'x:0'; the outputs are Flatten_3:0:scores"),
        ({"input_fp16_nodes": "imagex"}, "the graph has no input 'imagex', only image"),
        ({"framework": 0}, "--framework=0: Caffe models are not supported by the cpu runtime"),
        ({"framework": 3}, "--framework=3: TensorFlow models"),
        ({"framework": 9}, "--framework=9: there is no such framework"),
        ({"mode": 1}, "--mode=1 is not supported by the cpu runtime: om to JSON: use `ge-core inspect"),
        ({"mode": 7}, "no such mode"),
        ({"soc_version": "910"}, "expected a name like Ascend910B3 .*got '910'"),
        ({"input_format": "NHWC"}, "--input_format: expected one of NCHW, NCDHW, ND, got 'NHWC'"),
        ({"insert_op_conf": "aipp.cfg"}, "--insert_op_conf is not supported by the cpu runtime: AIPP"),
        ({"weight": "m.caffemodel"}, "--weight is not supported by the cpu runtime: it belongs to Caffe"),
        ({"is_input_adjust_hw_layout": "false,true"}, "has no NC1HWC0 layout"),
        ({"precision_mode": "fp16"}, "--precision_mode: expected one of force_fp16"),
        ({"precision_mode": "force_fp16", "precision_mode_v2": "fp16"}, "exclude each other"),
        ({"log": "loud"}, "--log: expected one of default, debug"),
        ({"dynamic_batch_sizes": "1,2"}, "unknown option; did you mean --dynamic_batch_size"),
        ({"zzzzzz": "1"}, "--zzzzzz: unknown option; `ge-core compile --help` lists the options"),
    ],
)
def test_options_that_do_not_fit(workshop, options, text):
    workshop.refused(conv(), text, **options)


def test_gears_with_outputs_that_depend_on_the_data(workshop):
    proto = model(
        [helper.make_node("NonZero", ["x"], ["at"])], [tensor("x", F, ["n", 3])], [tensor("at", I64, [2, "found"])]
    )
    workshop.refused(
        proto, r"output 'NonZero_0:0:at' has the shape \[2,-1\]", input_shape="x:-1,3", dynamic_batch_size="1,2"
    )


def test_types_without_a_place(workshop):
    node = helper.make_node("Identity", ["a"], ["b"])
    proto = model([node], [tensor("a", TensorProto.STRING, [1])], [tensor("b", TensorProto.STRING, [1])])
    workshop.refused(proto, "input 'a': type STRING is not supported; cast it in the graph")
    sequence = helper.make_tensor_sequence_value_info("a", F, [1])
    proto = model([node], [sequence], [helper.make_tensor_sequence_value_info("b", F, [1])])
    workshop.refused(proto, "input 'a': expected a tensor, got sequence_type")


def test_operators_that_openvino_lacks(workshop):
    node = helper.make_node("Mystery", ["x"], ["y"], domain="my.own")
    graph = helper.make_graph([node], "g", [tensor("x", F, [1])], [tensor("y", F, [1])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]
    workshop.refused(
        helper.make_model(graph, opset_imports=opsets, ir_version=8), "OpenVINO cannot read this graph: .*"
    )


@pytest.mark.parametrize(
    "content, text",
    [
        (b"", "got an empty file"),
        (b"IMOD" + bytes(300), "got an om, which is compiled already"),
        (b"version https://git-lfs.github.com/spec/v1\n", "got a git-lfs pointer"),
        (b"PK\x03\x04rest", r"got a ZIP archive \(a PyTorch checkpoint"),
        (b"\x89PNG\r\n", "expected an ONNX file, cannot parse it"),
        (b"\x08\x08", "expected an ONNX graph with outputs, got none"),
    ],
)
def test_files_that_are_no_models(workshop, content, text):
    workshop.refused(workshop.save(content), text, ModelFileError)


def test_model_that_is_not_there(workshop):
    workshop.refused(workshop.folder / "none.onnx", "expected a file, found nothing there", ModelFileError)
    workshop.refused(workshop.folder, "expected a readable file: Is a directory", ModelFileError)
    os.mkfifo(workshop.folder / "pipe")
    for endless in (Path("/dev/zero"), workshop.folder / "pipe"):
        workshop.refused(endless, "got something that is not a regular file", ModelFileError)


def test_places_for_the_output(workshop):
    source = workshop.save(linear(batch=1))
    compiled = compile_model(source, workshop.folder / "a.om", runtime="cpu")
    assert compiled.path == workshop.folder / "a.om" and compiled.nbytes == compiled.path.stat().st_size
    assert compile_model(source, workshop.folder / "v1.2", runtime="cpu").path == workshop.folder / "v1.2.om"
    latin = workshop.folder / os.fsdecode(b"mod\xe8le")
    assert compile_model(source, latin, runtime="cpu").path == latin.with_suffix(".om")
    assert om.read_manifest(latin.with_suffix(".om"))["name"] == "mod?le"
    with pytest.raises(CompileError, match=r"got a folder; add a name: .*/model"):
        compile_model(source, workshop.folder, runtime="cpu")
    with pytest.raises(CompileError, match="got a folder"):
        compile_model(source, str(workshop.folder / "new") + "/", runtime="cpu")
    with pytest.raises(CompileError, match="cannot be a path: File name too long"):
        compile_model(source, workshop.folder / ("m" * 300), runtime="cpu")
    with pytest.raises(CompileError, match=r"the folder .*none does not exist; create it first"):
        compile_model(source, workshop.folder / "none" / "m", runtime="cpu")


# --- the command line -------------------------------------------------------------------------------------------------


def test_every_spelling_of_a_command_line():
    line = ["--model=m.onnx", "--output", "out", "-soc_version=Ascend910", "--input-shape", "x:-1,3", "--mode", "0"]
    assert atc.parse_arguments(line) == {
        "model": "m.onnx",
        "output": "out",
        "soc_version": "Ascend910",
        "input_shape": "x:-1,3",
        "mode": "0",
    }
    assert atc.parse_arguments(["m.onnx", "-o", "out"]) == {"model": "m.onnx", "output": "out"}
    assert atc.parse_arguments(["--input_shape", "-1,3,8"]) == {"input_shape": "-1,3,8"}
    assert atc.parse_arguments(["--model=a", "--model=a"]) == {"model": "a"}
    assert atc.parse_arguments(["--input_shape=a=b:1"]) == {"input_shape": "a=b:1"}
    assert atc.parse_arguments(["--raw_ge_options_ignore_unsupported"]) == {"raw_ge_options_ignore_unsupported": "true"}


@pytest.mark.parametrize(
    "line, text",
    [
        (["--model"], "--model: expected a value"),
        (["--model", "--output=x"], "--model: expected a value"),
        (["--model=a", "--model=b"], "--model: expected one value, got 'a' and 'b'"),
        (["a.onnx", "b.onnx"], "expected options after the model, got 'b.onnx'"),
    ],
)
def test_command_lines_that_cannot_be_read(line, text):
    with pytest.raises(CompileError, match=text):
        atc.parse_arguments(line)


def test_every_option_has_a_treatment_and_a_reason():
    assert {row.treatment for row in atc.OPTIONS.values()} == {atc.HONOURED, atc.IGNORED, atc.REFUSED}
    assert all(row.help for row in atc.OPTIONS.values())


def test_options_without_effect_are_noted_once(workshop):
    options = {"precision_mode_v2": "origin", "external_weight": "1", "op_debug_level": "0", "weight": None}
    workshop.compile(linear(batch=1), is_output_adjust_hw_layout="false", **options)
    notes = [line for line in workshop.lines if line.startswith("note: ")]
    assert notes == [
        "note: --precision_mode_v2 has no effect: the cpu runtime computes in the types of the graph",
        "note: --external_weight has no effect: weights stay inside an om of the cpu runtime",
        "note: --op_debug_level has no effect: it debugs NPU code",
    ]
    workshop.compile(linear(batch=1), log="error", **options)
    assert not [line for line in workshop.lines if line.startswith("note: ")]
    assert len(workshop.compiled.notes) == 3


def test_input_shape_syntax():
    assert atc.parse_input_shape("a:1, 3 ,224;b:;c:1~10,2~-1,5~5;") == {
        "a": [1, 3, 224],
        "b": [],
        "c": [(1, 10), (2, -1), 5],
    }
    assert atc.parse_input_shape("pre:fix:0:1,2") == {"pre:fix:0": [1, 2]}
    assert atc.parse_input_shape("-1,2~3;4") == [[-1, (2, 3)], [4]]


# --- ATC itself -------------------------------------------------------------------------------------------------------


def test_npu_runs_atc_with_the_same_options(fake_atc, capfd):
    (fake_atc / "code").write_text("0")
    compiled = compile_model("m.onnx", fake_atc / "m.om", runtime="npu", input_shape="x:1,3", unheard_of="1")
    assert (fake_atc / "arguments").read_text().splitlines() == [
        *("--framework=5", "--input_shape=x:1,3", "--unheard_of=1", "--model=m.onnx", f"--output={fake_atc}/m")
    ]
    assert capfd.readouterr().out == "ATC speaks\n"
    assert (compiled.path, compiled.manifest) == (fake_atc / "m.om", None)


def test_npu_keeps_the_exit_code(fake_atc):
    (fake_atc / "code").write_text("42")
    with pytest.raises(AtcError, match="atc failed with exit code 42") as caught:
        compile_model("m.onnx", fake_atc / "m", runtime="npu")
    assert caught.value.exit_code == 42


def test_npu_without_atc(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GE_CORE_RUNTIME", "npu")
    with pytest.raises(
        UnsupportedError, match=r"expected ATC on PATH, found none; source CANN's set_env.sh, or .*=cpu"
    ):
        compile_model("m.onnx", tmp_path / "m")


# --- synthetic models -------------------------------------------------------------------------------------------------


def describe(workshop, description):
    return workshop.save(json.dumps(description).encode(), "m.json")


def test_synthetic_batch_gears(workshop):
    manifest = workshop.compile(describe(workshop, LLAMA), soc_version="Ascend910")
    assert (manifest["kind"], manifest["soc"], manifest["name"]) == ("synthetic", "Ascend910", "out")
    assert manifest["gears"] == {"kind": "batch", "values": [1, 4, 8]}
    assert manifest["exec_us"] == [78000, 145000, 220000]
    assert manifest["inputs"][0] == LLAMA["inputs"][0] | {"format": "ND", "tensor": "input_ids"}
    assert manifest["outputs"] == [
        {
            "name": "logits:0:logits",
            "dtype": "float32",
            "shape": [-1, 16, 32000],
            "tensor": "logits",
            "gear_shapes": [[1, 16, 32000], [4, 16, 32000], [8, 16, 32000]],
        }
    ]
    assert [part.type for part in om.read_partitions(workshop.compiled.path)] == [om.MANIFEST]


def test_synthetic_keys_are_taken_over(workshop):
    description = {
        "inputs": [{"name": "x", "dtype": "uint8", "shape": [2, 3, 4, 4]}, {"name": "s", "dtype": "bool", "shape": []}],
        "outputs": [{"name": "n:1:y", "dtype": "bfloat16", "shape": [2, 8]}],
        "exec_us": 12.5,
        "weight_bytes": 1000,
        "work_bytes": 10,
        "soc": "Ascend310P3",
        "name": "toy",
    }
    manifest = workshop.compile(describe(workshop, description))
    assert {key: manifest[key] for key in ("exec_us", "weight_bytes", "work_bytes", "soc", "name", "gears")} == {
        "exec_us": 12.5,
        "weight_bytes": 1000,
        "work_bytes": 10,
        "soc": "Ascend310P3",
        "name": "toy",
        "gears": None,
    }
    assert [item["format"] for item in manifest["inputs"]] == ["NCHW", "ND"]
    assert manifest["outputs"][0]["name"] == "n:1:y"


def test_synthetic_image_size_and_dims(workshop):
    image = {
        "inputs": [{"name": "x", "dtype": "uint8", "shape": [1, 3, -1, -1]}],
        "outputs": [
            {"name": "y", "dtype": "float32", "shape": [1, -1, -1]},
            {"name": "n", "dtype": "float32", "shape": [1, -1], "gear_shapes": [[1, 99], [1, 11]]},
        ],
        "dynamic_image_size": [[448, 224], [224, 224]],
    }
    y, n = workshop.compile(describe(workshop, image))["outputs"]
    assert y["gear_shapes"] == [[1, 224, 224], [1, 448, 224]]
    assert n["gear_shapes"] == [[1, 11], [1, 99]]
    dims = {
        "inputs": [{"name": "a", "dtype": "int32", "shape": [-1, -1]}, {"name": "b", "dtype": "int32", "shape": [-1]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [7]}],
        "dynamic_dims": [[4, 384, 4], [1, 128, 1]],
    }
    manifest = workshop.compile(describe(workshop, dims))
    assert manifest["gears"] == {"kind": "dims", "values": [[1, 128, 1], [4, 384, 4]]}


def without(key):
    return {name: value for name, value in LLAMA.items() if name != key}


@pytest.mark.parametrize(
    "description, text",
    [
        (LLAMA | {"exec": 1}, "unknown key 'exec'; did you mean 'exec_us'"),
        (without("outputs"), "outputs: expected a list like"),
        (without("dynamic_batch_size"), "needs gears: add dynamic_batch_size"),
        (LLAMA | {"dynamic_dims": [[1], [2]]}, "dynamic_batch_size and dynamic_dims exclude each other"),
        (LLAMA | {"dynamic_batch_size": "1,2"}, r"dynamic_batch_size: expected \[1, 4, 8\], got '1,2'"),
        (LLAMA | {"dynamic_batch_size": [1, "2"]}, r"dynamic_batch_size: expected \[1, 4, 8\]"),
        (LLAMA | {"dynamic_batch_size": [4]}, "expected 2 to 100 gears, got 1"),
        (LLAMA | {"exec_us": [1, 2]}, "exec_us: expected null, microseconds"),
        (LLAMA | {"exec_us": -1}, "exec_us: expected null, microseconds"),
        (LLAMA | {"weight_bytes": "1"}, "weight_bytes: expected a number of bytes"),
        (LLAMA | {"inputs": [{"name": "x", "dtype": "int64"}]}, r"inputs\[0\]: expected the keys name, dtype, shape"),
        (LLAMA | {"inputs": [{"name": "x", "dtype": "int65", "shape": [-1]}]}, "dtype: expected one of float32"),
        (LLAMA | {"inputs": [{"name": "x", "dtype": "int64", "shape": [1.5]}]}, r"inputs\[0\].shape: expected numbers"),
        (LLAMA | {"inputs": LLAMA["inputs"] * 2}, "every name once"),
        (LLAMA | {"inputs": [{"name": "x", "dtype": "int64", "shape": [-1, 2**60]}]}, "would take .* bytes; give sm"),
        (
            LLAMA | {"inputs": [{"name": "a\0b", "dtype": "int64", "shape": [-1]}]},
            "name: expected a name, got 'a.x00b'",
        ),
        (
            LLAMA | {"outputs": [{"name": "\ud800", "dtype": "int64", "shape": [-1]}]},
            "name: expected a name, got '.ud800",
        ),
        (LLAMA | {"outputs": [{"name": 4, "dtype": "int8", "shape": [-1]}]}, r"outputs\[0\].name: expected a string"),
        (
            LLAMA | {"outputs": [{"name": "y", "dtype": "int8", "shape": [2, -1]}]},
            r"expected -1 in dim 0, got \[2, -1\]",
        ),
        (
            LLAMA | {"outputs": [{"name": "y", "dtype": "int8", "shape": [3]}]},
            "expected a shape that divides by 4 rows",
        ),
        (
            LLAMA | {"outputs": [{"name": "y", "dtype": "int8", "shape": [-1], "gear_shapes": [[1]]}]},
            "expected 3 gear_shapes",
        ),
        (
            {
                "inputs": [{"name": "x", "dtype": "int8", "shape": [1]}],
                "outputs": [{"name": "y", "dtype": "int8", "shape": [-1]}],
            },
            "-1 and gear_shapes need gears",
        ),
    ],
)
def test_descriptions_that_do_not_fit(workshop, description, text):
    workshop.refused(describe(workshop, description), text)


def test_descriptions_that_are_no_json(workshop):
    workshop.refused(
        workshop.save(b"{nothing", "m.json"), "expected JSON that describes a synthetic model", ModelFileError
    )
    path = describe(workshop, LLAMA)
    workshop.refused(path, "--input_shape: a synthetic model says this in", input_shape="input_ids:1,16")
