# SPDX-License-Identifier: Apache-2.0
"""The command: what it prints, where, and with which exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from npu_oms import npu_om
from oms import write_synthetic
from protos import LLAMA, linear
from stand_in import HBM_BYTES
from typer.testing import CliRunner

import ge_core
from ge_core.cli import app, cpu_runtime, doctor
from ge_core_pyx import locate, om

ROOT = Path(__file__).parents[2]


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def succeed(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments, code=1):
    """The one line on stderr of a command that fails."""
    result = call(*arguments)
    assert result.exit_code == code
    assert result.stdout == "" and result.stderr.count("\n") == 1 and result.stderr.startswith("error: ")
    return result.stderr.removeprefix("error: ").rstrip("\n")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Two inputs, two outputs, batch gears 1, 2 and 4."""
    path = tmp_path_factory.mktemp("cli") / "toy.om"
    inputs = [("ids", "int64", (-1, 4)), ("scale", "float32", (-1,))]
    return write_synthetic(path, inputs, [("logits", "float32", (-1, 3)), ("mask", "bool", (-1, 2))], batch=[1, 2, 4])


def test_importing_ge_core_costs_little():
    code = "import sys, ge_core; print([n for n in ('typer', 'rich', 'onnx', 'openvino') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_command_imports_nothing_heavy():
    code = "import sys, ge_core.cli; print([n for n in ('onnx', 'openvino', 'rich.table') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_version():
    assert succeed("--version") == f"ge-core {ge_core.__version__}\n"


def test_names_that_the_terminal_cannot_show(tmp_path):
    code = f"from ge_core.cli import app; app(['inspect', {str(tmp_path / 'модель.om')!r}])"
    environ = os.environ | {"PYTHONIOENCODING": "ascii"}
    write_synthetic(tmp_path / "модель.om", [("x", "float32", (1,))], [("y", "float32", (1,))])
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and r"\u043c\u043e\u0434\u0435\u043b\u044c.om" in done.stdout


def test_help_lists_every_command():
    text = succeed("--help")
    for name in ("compile", "inspect", "info", "run", "config", "doctor", "cpu-runtime", "serve", "install-backend"):
        assert f"\n  {name} " in text
    assert succeed() == text


# --- errors -----------------------------------------------------------------------------------------------------------


def test_errors_are_one_line():
    text = "/nowhere.om: expected an om file, found nothing there; check the path"
    assert fail("inspect", "/nowhere.om") == text
    assert fail("config", "/nowhere.om") == text
    assert fail("run", "/nowhere.om").endswith(text)
    assert fail("inspect", code=2).lower() == "missing argument 'model'."
    assert fail("inspekt", code=2).startswith("No such command 'inspekt'.")


def test_debug_shows_the_traceback():
    for arguments in (["--debug", "inspect", "/nowhere.om"], ["inspect", "/nowhere.om", "--debug"]):
        result = call(*arguments)
        assert result.exit_code == 1 and "Traceback (most recent call last)" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("error: /nowhere.om: expected an om file")


# --- compile ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def onnx_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(linear().SerializeToString())
    return tmp_path / "model.onnx"


def test_an_atc_line_from_a_tutorial(onnx_file):
    line = ["--model=model.onnx", "--framework=5", "--output=model", "--soc_version=Ascend910", "--input_shape=x:1,4"]
    out = succeed("compile", *line, "--log=error", "--precision_mode=force_fp16")
    assert out.splitlines()[:2] == ["inputs  x  float32  [1,4]", "outputs fc:0:y  float32  [1,3]"]
    assert "ATC run success" in out
    assert om.read_manifest("model.om")["soc"] == "Ascend910"


def test_the_spelling_with_spaces_and_hyphens(onnx_file):
    line = ["--model", "model.onnx", "--output", "m", "--input-shape", "x:-1,4", "--dynamic-batch-size", "1,2,4,8"]
    assert "gears   batch  1,2,4,8" in succeed("compile", *line)
    assert om.read_manifest("m.om")["gears"]["values"] == [1, 2, 4, 8]
    assert "ATC run success" in succeed("compile", "model.onnx", "-o", "n", "--input_shape", "x:2,4", "--runtime=cpu")


def test_compile_errors(onnx_file):
    assert (
        fail("compile", "--model=model.onnx") == "--output is missing; for example: --model=model.onnx --output=model"
    )
    unknown = fail("compile", "--model=model.onnx", "--output=m", "--input_shap=x:1,4")
    assert unknown == "--input_shap: unknown option; did you mean --input_shape?"
    assert 'add --input_shape="x:?,4"' in fail("compile", "--model=model.onnx", "--output=m")
    assert "runtime must be 'npu' or 'cpu', got 'gpu'" in fail("compile", "model.onnx", "-o", "m", "--runtime=gpu")
    assert not Path("m.om").exists()


def test_compile_help_names_every_option():
    text = succeed("compile", "--help")
    from ge_core.compiler.atc import OPTIONS

    assert all(f"--{name}" in text for name in OPTIONS)
    assert call("compile").exit_code == 1


def test_compile_for_npu_keeps_atcs_exit_code(fake_atc, monkeypatch):
    monkeypatch.chdir(fake_atc)
    (fake_atc / "code").write_text("17")
    assert call("compile", "--runtime=npu", "--model=m.onnx", "--output=m").exit_code == 17


# --- inspect and config -----------------------------------------------------------------------------------------------


def test_inspect_json(toy):
    found = json.loads(succeed("inspect", toy.path, "--json"))
    assert (found["header"]["is_cpu"], found["header"]["name"]) == (True, "toy")
    assert [part["name"] for part in found["partitions"]] == ["CPU_MANIFEST"]
    assert (found["model"]["gear_kind"], found["model"]["gears"], found["model"]["max_rows"]) == ("batch", [1, 2, 4], 4)
    shapes = {item["name"]: (item["dtype"], item["shape"]) for item in found["model"]["inputs"]}
    assert shapes == {"ids": ("int64", [-1, 4]), "scale": ("float32", [-1])}
    assert found["note"] is None and found["manifest"] == toy.manifest


def test_inspect_table(toy):
    words = succeed("inspect", toy.path).split()
    assert {"batch", "gears", "logits", "int64", "CPU_MANIFEST", "Ascend910B3"} <= set(words)


def test_inspect_of_an_npu_om_needs_no_npu(tmp_path):
    path = tmp_path / "npu.om"
    path.write_bytes(npu_om([(0, b"graph"), (1, b"weights")], kind=5, encrypted=1))
    code = f"from ge_core.cli import app; app(['inspect', {str(path)!r}, '--json'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["header"]["model_kind"], found["header"]["encrypted"]) == ("bundle", True)
    assert [(part["name"], part["nbytes"]) for part in found["partitions"]] == [("MODEL_DEF", 5), ("WEIGHTS", 7)]
    assert found["model"] is None and found["note"].startswith("inputs and outputs are not shown: ")


def test_config(toy):
    assert succeed("config", toy.path, "--name", "toy", "--om-model-path", "/models/toy.om").splitlines() == [
        'name: "toy"',
        'backend: "ge"',
        "max_batch_size: 4",
        "input [",
        '  { name: "ids", data_type: TYPE_INT64, dims: [4] },',
        '  { name: "scale", data_type: TYPE_FP32, dims: [1], reshape: { shape: [] } }',
        "]",
        "output [",
        '  { name: "logits", data_type: TYPE_FP32, dims: [3] },',
        '  { name: "mask", data_type: TYPE_BOOL, dims: [2] }',
        "]",
        'parameters: [ { key: "om_model_path" value: { string_value: "/models/toy.om" } } ]',
        "# This om runs on the CPU implementation of AscendCL: start the server with GE_CORE_RUNTIME=cpu.",
    ]
    quoted = succeed("config", toy.path, "--name", 'a "b"\\')
    assert quoted.startswith(r'name: "a \"b\"\\"')
    assert fail("config", toy.path, "--backend=c") == "--backend: expected ge or python, got 'c'"


# --- run --------------------------------------------------------------------------------------------------------------


def test_run_on_files(toy, tmp_path):
    feeds = toy.random(3)
    np.save(tmp_path / "ids.npy", feeds["ids"])
    np.savez(tmp_path / "scale.npz", scale=feeds["scale"])
    arguments = [
        "--input",
        f"ids={tmp_path}/ids.npy",
        "--input",
        tmp_path / "scale.npz",
        "--output",
        tmp_path / "o.npz",
    ]
    found = json.loads(succeed("run", toy.path, *arguments, "--repeat", 3, "--json"))
    logits, mask = toy.expected(feeds)
    with np.load(tmp_path / "o.npz") as written:
        assert (written["logits"] == logits).all() and (written["mask"] == mask).all()
    assert found["inputs"] == {"ids": [3, 4], "scale": [3]} and found["random"] == []
    assert [(row["name"], row["dtype"], row["shape"]) for row in found["outputs"]] == [
        ("logits", "float32", [3, 3]),
        ("mask", "bool", [3, 2]),
    ]
    assert found["outputs"][0]["max"] == pytest.approx(float(logits.max()))
    assert found["latency"]["n"] == 3 and found["device"].startswith("CPU implementation of AscendCL")


def test_run_on_random_data(toy, tmp_path):
    assert json.loads(succeed("run", toy.path, "--repeat=1", "--json"))["inputs"] == {"ids": [1, 4], "scale": [1]}
    first = json.loads(succeed("run", toy.path, "--rows=4", "--repeat=1", "--json"))
    again = json.loads(succeed("run", toy.path, "--rows=4", "--repeat=1", "--json"))
    assert first["inputs"] == {"ids": [4, 4], "scale": [4]} and first["outputs"] == again["outputs"]
    np.save(tmp_path / "ids.npy", np.zeros((2, 4), np.int64))
    mixed = json.loads(succeed("run", toy.path, "--input", f"ids={tmp_path}/ids.npy", "--repeat=1", "--json"))
    assert (mixed["inputs"], mixed["random"]) == ({"ids": [2, 4], "scale": [2]}, ["scale"])


def test_run_on_bfloat16(tmp_path):
    toy = write_synthetic(tmp_path / "b.om", [("x", "bfloat16", (-1, 3))], [("y", "bfloat16", (-1, 5))], batch=[1, 2])
    feeds = toy.random(2)
    np.save(tmp_path / "x.npy", feeds["x"])
    arguments = ["--input", tmp_path / "x.npy", "--output", tmp_path / "y.npz", "--repeat=1", "--json"]
    (found,) = json.loads(succeed("run", toy.path, *arguments))["outputs"]
    assert found["dtype"] == "bfloat16" and 0 <= found["min"] <= found["mean"] <= found["max"] < 1
    with np.load(tmp_path / "y.npz") as written:
        assert written["y"].tolist() == toy.expected(feeds)[0].tolist()
    assert json.loads(succeed("run", toy.path, "--repeat=1", "--json"))["random"] == ["x"]


def test_run_prints_tables(toy):
    text = succeed("run", toy.path, "--rows=2", "--repeat=2")
    assert {"logits", "mask", "random", "[2,", "4]"} <= set(text.split()) and "latency on CPU implementation" in text


def test_run_of_a_real_graph(onnx_file, tmp_path):
    succeed("compile", "model.onnx", "-o", "m", "--input_shape=x:-1,4", "--dynamic_batch_size=1,2,4")
    np.save("x.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
    succeed("run", "m.om", "--input", "x.npy", "--output", "y.npz")
    with np.load("y.npz") as written:
        expected = np.arange(12, dtype=np.float32).reshape(3, 4) @ np.arange(12, dtype=np.float32).reshape(4, 3)
        assert np.abs(written["y"] - expected).max() <= 1e-3


def test_run_errors(toy, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 4), np.int64))
    np.savez(tmp_path / "two.npz", ids=np.zeros((2, 4), np.int64), other=np.zeros(2))
    (tmp_path / "bad.npy").write_bytes(b"no array")
    a, two = tmp_path / "a.npy", tmp_path / "two.npz"
    assert "expected NAME=" in fail("run", toy.path, "--input", a)
    assert "the om has no input 'idz', only ids, scale" in fail("run", toy.path, "--input", f"idz={a}")
    assert "the om has no input 'other'" in fail("run", toy.path, "--input", two)
    assert "has 2 arrays; give the file without NAME=" in fail("run", toy.path, "--input", f"ids={two}")
    assert "input 'ids' is given twice" in fail("run", toy.path, "--input", f"ids={a}", "--input", f"ids={a}")
    assert "none.npy does not exist" in fail("run", toy.path, "--input", "ids=none.npy")
    assert "expected a .npy or .npz file" in fail("run", toy.path, "--input", f"ids={tmp_path}/bad.npy")
    assert "does not exist; create it first" in fail("run", toy.path, "--output", tmp_path / "none" / "o.npz")
    np.save(a, np.zeros((2, 5), np.int64))
    assert "ids" in fail("run", toy.path, "--input", f"ids={a}")


def test_run_refuses_what_cannot_be_read_or_written(toy, tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 no archive")
    np.savez(tmp_path / "objects.npz", ids=np.array([{}], object))
    assert "expected a .npy or .npz file" in fail("run", toy.path, "--input", f"ids={tmp_path}/bad.npz")
    assert "expected a .npy or .npz file" in fail("run", toy.path, "--input", tmp_path / "objects.npz")
    assert fail("run", toy.path, "--input=ids=") == "--input ids=: expected NAME=file.npy, or file.npz"
    assert "expected the path of a file, got a folder" in fail("run", toy.path, "--output", tmp_path)
    full = fail("run", toy.path, "--output=/dev/full", "--repeat=1")
    assert full == "--output=/dev/full: cannot write the file: No space left on device"
    for rows in (10**13, 10**20):
        assert fail("run", toy.path, f"--rows={rows}") == f"input 'ids': no memory for random data [{rows}, 4]"
    assert "--seed" in fail("run", toy.path, "--seed=-1", code=2)


def test_run_saves_outputs_of_any_name(tmp_path):
    names = ["file", "args", "allow_pickle", "/layer/out:0", "выход"]
    toy = write_synthetic(tmp_path / "n.om", [("x", "float32", (2, 3))], [(name, "float32", (2, 1)) for name in names])
    feeds = toy.random(2)
    np.save(tmp_path / "x.npy", feeds["x"])
    succeed("run", toy.path, "--input", tmp_path / "x.npy", "--output", tmp_path / "o.npz", "--repeat=1")
    with np.load(tmp_path / "o.npz") as written:
        assert sorted(array.tolist() for array in written.values()) == sorted(a.tolist() for a in toy.expected(feeds))
        assert len(written.files) == len(names)


# --- info, doctor, cpu-runtime ----------------------------------------------------------------------------------------


def test_info(toy):
    found = json.loads(succeed("info", "--json"))
    assert (found["kind"], found["soc_name"], found["device_count"]) == ("cpu", "Ascend910B3", 1)
    assert found["devices"][0]["id"] == 0 and found["devices"][0]["total_bytes"] == HBM_BYTES
    assert found["counters"]["calls"]["aclInit"] >= 1
    assert "CPU implementation of AscendCL" in succeed("info")


def checks(*arguments):
    result = call("doctor", "--json", *arguments)
    found = json.loads(result.stdout)
    assert found["ok"] == (result.exit_code == 0)
    return found["ok"], {check["what"]: check for check in found["checks"]}


def test_doctor_on_cpu():
    ok, found = checks()
    assert ok and found["AscendCL"]["state"] == found["OpenVINO"]["state"] == "found"
    assert found["SoC"]["found"] == "Ascend910B3"
    assert "everything needed is there" in succeed("doctor")


def test_doctor_names_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("GE_CORE_OPENVINO", str(tmp_path))
    monkeypatch.setenv("GE_CORE_CPU_CONFIG", "{nothing")
    ok, found = checks()
    assert not ok and found["OpenVINO"]["state"] == found["GE_CORE_CPU_CONFIG"]["state"] == "missing"
    assert found["OpenVINO"]["remedy"] == "correct GE_CORE_OPENVINO"


@pytest.mark.skipif(Path("/dev/davinci_manager").exists(), reason="this machine has an NPU driver")
def test_doctor_where_there_is_no_npu():
    ok, found = checks("--runtime=npu")
    missing = {what for what, check in found.items() if check["state"] == "missing"}
    assert not ok and {"AscendCL", "/dev/davinci<N>", "/dev/davinci_manager", "/dev/devmm_svm"} <= missing
    assert found["/dev/hisi_hdc"]["remedy"] == "docker run --device=/dev/hisi_hdc"


@pytest.mark.parametrize(
    "mask, state, text",
    [
        ("0,2,5", "found", "device 0 is 0, device 1 is 2, device 2 is 5"),
        ("0, 1", "missing", "' 1' is not a number"),
        ("1,0", "missing", "0 does not ascend"),
        ("1,1", "missing", "1 does not ascend"),
        ("", "missing", "'' is not a number"),
    ],
)
def test_visible_devices(mask, state, text):
    found = doctor.visible_devices(mask)
    assert found[0] == state and text in found[1]


def test_orphan_regions(tmp_path):
    orphans = [tmp_path / "triton_python_backend_shm_region_1", tmp_path / "ge_core_17_0123abcd_x"]
    used, foreign = tmp_path / "triton_python_backend_shm_region_2", tmp_path / "ge_core_device"
    for path in (*orphans, used, foreign):
        path.write_bytes(bytes(4096))
    mapped = np.memmap(used, mode="r")
    assert doctor.orphan_regions(tmp_path) == sorted(orphans)
    del mapped


@pytest.mark.parametrize("api, names", [("8.1", {"libascendcl.so"}), ("9", {"libacl_rt.so", "libacl_mdl.so"})])
def test_cpu_runtime_prints_a_folder(api, names):
    (line,) = succeed("cpu-runtime", "--api", api).splitlines()
    folder = Path(line)
    assert names <= {path.name for path in folder.iterdir()}
    noted = Path((folder / "openvino.path").read_text().rstrip("\n"))
    assert list(noted.glob("libopenvino_c.so*"))


def test_cpu_runtime_in_a_folder_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    note, installed = cpu_runtime._note, locate.cpu_folder("9")
    monkeypatch.setattr(cpu_runtime, "_note", lambda folder, text: folder != installed and note(folder, text))
    folder = Path(succeed("cpu-runtime").rstrip("\n"))
    assert folder == tmp_path / "ge_core" / "cpu-runtime" / "9"
    assert {"libacl_rt.so", "libacl_mdl.so", "openvino.path"} <= set(os.listdir(folder))
    assert (folder / "libacl_rt.so").read_bytes() == (installed / "libacl_rt.so").read_bytes()
    assert succeed("cpu-runtime") == f"{folder}\n"


def test_cpu_runtime_of_another_release():
    assert fail("cpu-runtime", "--api=7") == "api must be one of 8.1, 9, got '7'"


def test_synthetic_model_from_a_description(tmp_path):
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA | {"exec_us": 0}))
    assert "gears   batch  1,4,8" in succeed("compile", tmp_path / "llama.json", "-o", tmp_path / "llama")
    found = json.loads(succeed("run", tmp_path / "llama.om", "--rows=2", "--repeat=1", "--json"))
    assert found["outputs"][0]["shape"] == [2, 16, 32000]
