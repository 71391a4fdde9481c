# SPDX-License-Identifier: Apache-2.0
"""The model half of the CPU implementation of AscendCL, through its C ABI: rules case by case, and real graphs."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import acl_cpu_oms
import numpy as np
import pytest
from acl_cpu_oms import SLOW, container, manifest

from ge_core_pyx import om

ROOT = Path(__file__).parents[2]
CONFORMANCE = ROOT / "tests/acl_cpu/conformance"
SOURCES = sorted(CONFORMANCE.glob("mdl_*.cpp"))
# (CPU_ or nothing, name)
CASES = [case for source in SOURCES for case in re.findall(r"^(CPU_)?CASE\((\w+)", source.read_text(), re.M)]
ON_NPU = os.environ.get("GE_CORE_RUNTIME") == "npu"


pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


@pytest.fixture(scope="session")
def objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conformance")
    jobs = []
    for source in SOURCES:
        command = ["g++", "-std=c++17", "-O1", "-c", f"-I{ROOT / 'ge_core_pyx/abi'}", str(source)]
        jobs.append(subprocess.Popen([*command, "-o", str(folder / f"{source.stem}.o")]))
    assert [job.wait() for job in jobs] == [0] * len(jobs)
    return sorted(folder.glob("*.o"))


@pytest.fixture(scope="session", params=["8.1", "9"])
def program(request, objects):
    """The conformance program, linked as any AscendCL program is."""
    libraries = ROOT / "ge_core_pyx/acl_cpu/lib" / request.param
    names = ["-lascendcl"] if request.param == "8.1" else ["-lacl_rt", "-lacl_mdl"]
    if ON_NPU:
        libraries = Path(os.environ["ASCEND_HOME_PATH"]) / "lib64"
        if not all((libraries / f"lib{name[2:]}.so").exists() for name in names):
            pytest.skip(f"this CANN has no {' '.join(names)}")
    target = objects[0].parent / f"conformance-{request.param}"
    command = ["g++", *map(str, objects), f"-L{libraries}", *names, f"-Wl,-rpath,{libraries}", "-pthread"]
    subprocess.run([*command, "-o", str(target)], check=True)
    return target


def call(program, *args, **more):
    environ = os.environ | {"GE_CORE_OPENVINO": openvino_folder()} | more
    environ.pop("GE_CORE_CPU_CONFIG", None)
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=600, env=environ)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}"
    return done.stdout


def openvino_folder():
    try:
        import openvino
    except ImportError:
        return ""
    return str(Path(openvino.__file__).parent)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oms")
    acl_cpu_oms.write(folder)
    return folder


@pytest.fixture(scope="session")
def graphs(tmp_path_factory):
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("graphs")
    acl_cpu_oms.write_graphs(folder, "npu" if ON_NPU else "cpu")
    return folder


@pytest.mark.skipif(ON_NPU, reason="needs the CPU implementation")
@pytest.mark.parametrize("case", [name for _, name in CASES])
def test_case(program, models, case):
    call(program, case, models)


@pytest.mark.skipif(not ON_NPU and not openvino_folder(), reason="needs OpenVINO")
@pytest.mark.parametrize("case", [name for cpu_only, name in CASES if not cpu_only])
def test_case_with_graphs(program, graphs, case):
    """What holds on any AscendCL, on the NPU where there is one: real graphs, and nothing of the stand-in's."""
    call(program, case, graphs, GE_CORE_CONFORMANCE_GRAPHS="1")


def test_every_case_is_named_once(program):
    listed = [line.split("\t")[0] for line in call(program, "--list").splitlines()]
    names = [name for _, name in CASES]
    assert sorted(listed) == sorted(names)
    assert len(set(names)) == len(names)


def test_what_is_not_supported_says_so():
    """Exactly these entry points of the model library are absent, and each leaves a reason."""
    library = ctypes.CDLL(str(ROOT / "ge_core_pyx/acl_cpu/lib/9/libacl_mdl.so"))
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    symbols = subprocess.run(["nm", "-D", "--defined-only", library._name], capture_output=True, text=True, check=True)
    absent = re.findall(r" W (acl\w+)", symbols.stdout)
    others = [
        "aclmdlCreateAndGetOpDesc",
        "aclmdlLoadFromFileWithQ",
        "aclmdlLoadFromMemWithQ",
        "aclmdlSetExternalWeightAddress",
    ]
    assert [name for name in absent if not name.startswith("aclmdlBundle")] == others
    for name in absent:
        assert getattr(library, name)() == (0 if name == "aclmdlBundleCreateQueryInfo" else 207000), name
        assert name.encode() in library.aclGetRecentErrMsg(), name


SOURCE = {"dtype": "float32", "format": "NCHW", "shape": [1, 3, 6, 6]}
AIPP = {"mode": "static", "format": "RGB888_U8", "source": SOURCE}


@pytest.mark.parametrize(
    "aipp, text",
    [
        ([], "expected an object that names inputs"),
        ({"y": AIPP}, "y|expected names of inputs"),
        ({"x": AIPP | {"mode": "none"}}, "mode: expected 'static' or 'dynamic'"),
        ({"x": AIPP | {"format": "RAW10"}}, "format"),
        ({"x": AIPP | {"format": "XRGB8888_U8"}}, "uint8 images"),
        ({"x": AIPP | {"format": "YUV420SP_U8"}}, "uint8 images"),
        ({"x": AIPP | {"source": SOURCE | {"shape": [1, 3, -1, 6]}}}, "source"),
        ({"x": AIPP | {"source": SOURCE | {"format": "ND"}}}, "source.*format"),
        ({"x": AIPP | {"crop": [1, 2, 3]}}, "crop: expected 4 numbers"),
        ({"x": AIPP | {"mean": [0, 0, 0, 256]}}, "mean"),
        ({"x": AIPP | {"ax_swap": 1}}, "ax_swap: expected true or false"),
        ({"x": AIPP | {"blur": 1}}, "unknown key 'blur'"),
        ({"x": {"mode": "static"}}, "missing"),
    ],
)
def test_bad_aipp_is_refused_by_both_readers(program, tmp_path, aipp, text):
    image = manifest([("x", "uint8", [1, 8, 8, 3])], [("y", "float32", [1, 4])])
    with pytest.raises(ValueError, match=text):
        om.check_manifest(image | {"aipp": aipp})
    path = tmp_path / "wrong.om"
    path.write_bytes(container(json.dumps(image | {"aipp": aipp}).encode()))
    assert "[545001]" in refusal(program, path)
    om.write(path, image | {"aipp": {"x": AIPP}})
    assert om.read_manifest(path)["aipp"] == {"x": AIPP}


def test_aipp_goes_with_batch_gears_of_synthetic_models_only():
    image = manifest([("x", "uint8", [1, 8, 8, 3])], [("y", "float32", [1, 4])], aipp={"x": AIPP})
    om.check_manifest(image)
    with pytest.raises(ValueError, match="images are not preprocessed"):
        om.check_manifest(image | {"kind": "graph"})
    with pytest.raises(ValueError, match="batch gears or none"):
        om.check_manifest(image | {"ranges": {"x": [[1, 1], [8, 8], [8, 8], [3, 3]]}})


# --- real graphs ------------------------------------------------------------------------------------------------------

onnx_needed = pytest.mark.skipif(not openvino_folder(), reason="needs OpenVINO")


def graph(nodes, inputs, outputs, constants=None):
    """ONNX bytes; inputs and outputs are (name, dtype, shape) rows."""
    from onnx import TensorProto, helper, numpy_helper

    def info(name, dtype, shape):
        code = TensorProto.BFLOAT16 if dtype == "bfloat16" else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, code, [None if dim == -1 else dim for dim in shape])

    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes],
            "graph",
            [info(*row) for row in inputs],
            [info(*row) for row in outputs],
            [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    return model.SerializeToString()


def expected(onnx, feeds):
    import onnxruntime

    return onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"]).run(None, feeds)


def execute(program, path, arrays, outputs, *options):
    """Run an om through the conformance program: raw bytes of each of the `outputs` outputs."""
    folder = path.parent
    files = []
    for number, array in enumerate(arrays):
        files.append(folder / f"{path.stem}.in{number}")
        files[-1].write_bytes(np.ascontiguousarray(array).tobytes())
    results = [folder / f"{path.stem}.out{number}" for number in range(outputs)]
    call(program, "run", path, *options, *files, "--", *results)
    return [result.read_bytes() for result in results]


CNN = ([("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1]}), ("Relu", ["c"], ["r"]),
        ("GlobalAveragePool", ["r"], ["p"]), ("Flatten", ["p"], ["f"]), ("MatMul", ["f", "m"], ["y"])])  # fmt: skip


def cnn(batch, height=8, width=8):
    rng = np.random.default_rng(0)
    constants = {"w": rng.normal(size=(4, 3, 3, 3)).astype("f4"), "m": rng.normal(size=(4, 10)).astype("f4")}
    rows = [("x", "float32", [batch, 3, height, width])], [("y", "float32", [batch, 10])]
    return graph(CNN, *rows, constants), rows


@onnx_needed
def test_a_static_graph_equals_onnxruntime(program, tmp_path):
    onnx, (inputs, outputs) = cnn(2)
    om.write(tmp_path / "cnn.om", manifest(inputs, outputs, kind="graph", format="NCHW"), onnx)
    x = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype("f4")
    (got,) = execute(program, tmp_path / "cnn.om", [x], 1)
    np.testing.assert_allclose(np.frombuffer(got, "f4").reshape(2, 10), expected(onnx, {"x": x})[0], atol=1e-5)


@onnx_needed
@pytest.mark.parametrize("batch", [1, 4])
def test_a_graph_with_batch_gears_equals_onnxruntime(program, tmp_path, batch):
    onnx, (inputs, outputs) = cnn(-1)
    gears, shapes = {"kind": "batch", "values": [1, 4]}, [[[1, 10], [4, 10]]]
    description = manifest(inputs, outputs, gears, shapes=shapes, kind="graph", format="NCHW")
    om.write(tmp_path / "cnn.om", description, onnx)
    x = np.random.default_rng(1).normal(size=(batch, 3, 8, 8)).astype("f4")
    (got,) = execute(program, tmp_path / "cnn.om", [x], 1, "--batch", batch)
    np.testing.assert_allclose(np.frombuffer(got, "f4").reshape(batch, 10), expected(onnx, {"x": x})[0], atol=1e-5)


@onnx_needed
def test_a_graph_with_ranges_equals_onnxruntime(program, tmp_path):
    onnx, (inputs, outputs) = cnn(-1, -1, -1)
    description = manifest(
        inputs, outputs, ranges={"x": [[1, 8], [3, 3], [4, 64], [4, -1]]}, kind="graph", format="NCHW"
    )
    om.write(tmp_path / "cnn.om", description, onnx)
    x = np.random.default_rng(1).normal(size=(3, 3, 9, 70)).astype("f4")
    (got,) = execute(program, tmp_path / "cnn.om", [x], 1, "--shape", "3,3,9,70")
    np.testing.assert_allclose(np.frombuffer(got, "f4").reshape(3, 10), expected(onnx, {"x": x})[0], atol=1e-5)


@onnx_needed
def test_a_graph_whose_output_shape_the_data_decides(program, tmp_path):
    onnx = graph([("NonZero", ["x"], ["y"])], [("x", "float32", [-1])], [("y", "int64", [1, -1])])
    description = manifest([("x", "float32", [-1])], [("y", "int64", [1, -1])], ranges={"x": [[1, 100]]}, kind="graph")
    om.write(tmp_path / "nonzero.om", description, onnx)
    x = np.float32([0, 1, 0, 0, 2, 3])
    (got,) = execute(program, tmp_path / "nonzero.om", [x], 1, "--shape", "6")
    assert np.frombuffer(got, "i8").tolist() == [1, 4, 5]


@onnx_needed
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8"])
def test_arithmetic_in_every_data_type(program, tmp_path, dtype):
    rows = [("a", dtype, [2, 5]), ("b", dtype, [2, 5])], [("y", dtype, [2, 5])]
    onnx = graph([("Add", ["a", "b"], ["y"])], *rows)
    om.write(tmp_path / "add.om", manifest(*rows, kind="graph"), onnx)
    a, b = np.arange(10).reshape(2, 5).astype(dtype), np.arange(10, 20).reshape(2, 5).astype(dtype)
    (got,) = execute(program, tmp_path / "add.om", [a, b], 1)
    assert np.frombuffer(got, dtype).reshape(2, 5).tolist() == (a + b).tolist()


@onnx_needed
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
                                   "uint16", "uint32", "uint64", "bool"])  # fmt: skip
def test_values_of_every_data_type_pass_unchanged(program, tmp_path, dtype):
    rows = [("x", dtype, [2, 3])], [("y", dtype, [3, 2])]
    onnx = graph([("Transpose", ["x"], ["y"])], *rows)
    om.write(tmp_path / "transpose.om", manifest(*rows, kind="graph"), onnx)
    x = np.array([[0, 1, 100], [3, 1, 0]]).astype(dtype)
    (got,) = execute(program, tmp_path / "transpose.om", [x], 1)
    assert np.frombuffer(got, dtype).reshape(3, 2).tolist() == x.T.tolist()


@onnx_needed
def test_float32_is_not_computed_in_bfloat16(program, tmp_path):
    rng = np.random.default_rng(0)
    rows = [("a", "float32", [64, 512]), ("b", "float32", [512, 64])], [("y", "float32", [64, 64])]
    onnx = graph([("MatMul", ["a", "b"], ["y"])], *rows)
    om.write(tmp_path / "matmul.om", manifest(*rows, kind="graph"), onnx)
    a, b = rng.normal(size=(64, 512)).astype("f4"), rng.normal(size=(512, 64)).astype("f4")
    (got,) = execute(program, tmp_path / "matmul.om", [a, b], 1)
    np.testing.assert_allclose(np.frombuffer(got, "f4").reshape(64, 64), a.astype("f8") @ b.astype("f8"), atol=1e-3)


def refusal(program, path):
    done = subprocess.run([program, "run", path, "--"], capture_output=True, text=True, timeout=600,
                          env=os.environ | {"GE_CORE_OPENVINO": openvino_folder()})  # fmt: skip
    assert done.returncode == 1
    return done.stderr


@onnx_needed
@pytest.mark.parametrize(
    "inputs, outputs, message",
    [
        ([("a", "float16", [2])], [("y", "float32", [2])], "a: the manifest declares float16, the graph has float32"),
        ([("a", "float32", [2])], [("y", "int64", [2])], "y: the manifest declares int64, the graph has float32"),
        ([("b", "float32", [2])], [("y", "float32", [2])], "find the graph's input b"),
        ([("a", "float32", [2])], [("y", "float32", [3])], r"declares the shape \[3\], the graph gives \[2\]"),
        ([("a", "float32", [2])] * 2, [("y", "float32", [2])], "declares 2 inputs, the graph has 1"),
    ],
)
def test_a_manifest_that_contradicts_its_graph(program, tmp_path, inputs, outputs, message):
    onnx = graph([("Relu", ["a"], ["y"])], [("a", "float32", [2])], [("y", "float32", [2])])
    description = manifest(inputs, outputs, kind="graph")
    for number, tensor in enumerate(description["inputs"]):
        tensor["name"] = f"{tensor['name']}{number or ''}"
    om.write(tmp_path / "wrong.om", description, onnx)
    assert re.search(message, refusal(program, tmp_path / "wrong.om"))


@onnx_needed
def test_a_graph_that_is_no_onnx(program, tmp_path):
    om.write(tmp_path / "noise.om", SLOW | {"kind": "graph"}, b"this is no graph" * 10)
    assert "OpenVINO cannot read the ONNX graph" in refusal(program, tmp_path / "noise.om")


@pytest.mark.slow
@onnx_needed
def test_damage_is_an_error_and_never_a_crash(tmp_path):
    onnx, (inputs, outputs) = cnn(2)
    path = tmp_path / "cnn.om"
    om.write(path, manifest(inputs, outputs, kind="graph", format="NCHW"), onnx)
    python(f"""
raw, start = bytearray(open({str(path)!r}, "rb").read()), {path.stat().st_size - len(onnx)}
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
def load(at):
    raw[at] ^= 1 << at % 8
    model = ctypes.c_uint32()
    code = acl.aclmdlLoadFromMem((ctypes.c_char * len(raw)).from_buffer(raw), len(raw), ctypes.byref(model))
    raw[at] ^= 1 << at % 8
    return acl.aclmdlUnload(model) if code == 0 else code
for at in range(start, len(raw)):
    assert load(at) == 545003, at
    assert b"the file is damaged, copy or compile it again" in acl.aclGetRecentErrMsg()
codes = [load(at) for at in range(start)]
assert codes[:8] == [145006] * 8 and set(codes[264:]) <= {{0, 145006, 507008, 545001, 545002, 545003}}, codes
""")


@onnx_needed
def test_a_manifest_without_a_checksum_loads(program, tmp_path):
    onnx = graph([("Relu", ["a"], ["y"])], [("a", "float32", [2])], [("y", "float32", [2])])
    om.write(tmp_path / "relu.om", manifest([("a", "float32", [2])], [("y", "float32", [2])], kind="graph"), onnx)
    raw = (tmp_path / "relu.om").read_bytes()
    at = raw.index(b',"onnx_crc32":"')
    end = raw.index(b'"}', at) + 1
    (tmp_path / "relu.om").write_bytes(raw[:at] + b" " * (end - at) + raw[end:])
    (got,) = execute(program, tmp_path / "relu.om", [np.float32([-1, 2])], 1)
    assert np.frombuffer(got, "f4").tolist() == [0, 2]


def test_openvino_that_is_not_there(program, tmp_path):
    om.write(tmp_path / "graph.om", SLOW | {"kind": "graph"}, b"anything")
    done = subprocess.run([program, "run", tmp_path / "graph.om", "--"], capture_output=True, text=True, timeout=600,
                          env=os.environ | {"GE_CORE_OPENVINO": str(tmp_path / "nothing")})  # fmt: skip
    assert done.returncode == 1
    assert f"GE_CORE_OPENVINO={tmp_path / 'nothing'}: expected libopenvino_c.so" in done.stderr


def python(script):
    script = SCRIPT_HEAD.format(library=str(ROOT / "ge_core_pyx/acl_cpu/lib/8.1/libascendcl.so")) + script
    environ = os.environ | {"GE_CORE_OPENVINO": openvino_folder()}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, env=environ)
    assert done.returncode == 0, done.stderr


SCRIPT_HEAD = """
import ctypes
acl = ctypes.CDLL({library!r})
assert acl.aclInit(None) == 0 and acl.aclrtSetDevice(0) == 0
def load(path):
    model = ctypes.c_uint32()
    assert acl.aclmdlLoadFromFile(path.encode(), ctypes.byref(model)) == 0
    return model
"""


@onnx_needed
def test_loads_of_one_file_share_its_weights(tmp_path):
    rows = [("x", "float32", [1, 2048])], [("y", "float32", [1, 2048])]
    weights = np.random.default_rng(0).normal(size=(2048, 2048)).astype("f4")  # 16 MiB
    onnx = graph([("MatMul", ["x", "w"], ["y"])], *rows, {"w": weights})
    om.write(tmp_path / "large.om", manifest(*rows, kind="graph"), onnx)
    python(f"""
def resident_mib():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
models = [load({str(tmp_path / "large.om")!r})]
before = resident_mib()
models += [load({str(tmp_path / "large.om")!r}) for _ in range(4)]
assert resident_mib() - before < 16
assert len({{model.value for model in models}}) == 5
assert [acl.aclmdlUnload(model) for model in models] == [0] * 5
""")


@onnx_needed
def test_it_lives_beside_the_openvino_package(tmp_path):
    onnx, (inputs, outputs) = cnn(2)
    om.write(tmp_path / "cnn.om", manifest(inputs, outputs, kind="graph", format="NCHW"), onnx)
    python(f"""
model = load({str(tmp_path / "cnn.om")!r})
import numpy as np, openvino
from openvino import opset13
x = opset13.parameter([2], np.float32)
compiled = openvino.Core().compile_model(openvino.Model([opset13.relu(x)], [x]), "CPU")
assert compiled([np.float32([-1, 1])])[0].tolist() == [0, 1]
again = load({str(tmp_path / "cnn.om")!r})
assert [acl.aclmdlUnload(model), acl.aclmdlUnload(again)] == [0, 0]
""")
