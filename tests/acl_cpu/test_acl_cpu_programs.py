# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of ge_core, on the folder that ``ge-core cpu-runtime`` prints; several on one device."""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ge_core.compiler import compile_model
from ge_core_pyx import locate
from ge_core_pyx.abi import xlist

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests/acl_cpu/programs"
HOOKS = {"acl_cpu_counter", "acl_cpu_counters_json", "acl_cpu_fail", "acl_cpu_inject", "acl_cpu_reset_counters"}
LINKS = {
    "8.1": ("8.1", ["-lascendcl"]),
    "9": ("9", ["-lascendcl"]),
    "9 split": ("9", ["-lacl_rt", "-lacl_mdl"]),
}

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
pytestmark = pytest.mark.skipif(os.environ.get("GE_CORE_RUNTIME") == "npu", reason="needs the CPU implementation")


def clean_environ(**more):
    """The environment of a user who knows AscendCL only."""
    unwanted = ("GE_CORE_", "LD_", "PYTHON")
    return {key: value for key, value in os.environ.items() if not key.startswith(unwanted)} | more


def printed_folder(api):
    command = [sys.executable, "-c", "from ge_core.cli import app; app()", "cpu-runtime", "--api", api]
    environ = clean_environ(PYTHONPATH=str(ROOT))
    return Path(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip())


def build(source, target, link):
    api, libraries = LINKS[link]
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'ge_core_pyx/abi'}"]
    subprocess.run([*command, source, "-o", target, f"-L{locate.cpu_folder(api)}", *libraries, "-pthread"], check=True)
    return target


# --- exports ----------------------------------------------------------------------------------------------------------


def exported(library):
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return dict(reversed(line.split()[1:3]) for line in symbols.stdout.splitlines() if re.search(r" [TWVDB] acl", line))


def rows(releases, libraries):
    return {row.name for row in xlist.functions() if row.release in releases and row.library in libraries}


@pytest.mark.parametrize(
    "library, releases, groups, hooks",
    [
        ("8.1/libascendcl.so", {"V8"}, {"RT", "MDL"}, HOOKS),
        ("9/libacl_rt.so", {"V8", "V9"}, {"RT"}, HOOKS),
        ("9/libacl_mdl.so", {"V8", "V9"}, {"MDL"}, set()),
        ("9/libascendcl.so", {"V8", "V9"}, {"RT", "MDL"}, set()),
    ],
)
def test_each_library_exports_what_its_release_does(library, releases, groups, hooks):
    path = locate.cpu_folder(library.split("/")[0]) / library.split("/")[1]
    assert set(exported(path)) == rows(releases, groups) | hooks


def test_what_no_server_library_exports_is_absent():
    absent = {
        *("aclrtCreateStreamConfigHandle", "aclrtDestroyStreamConfigHandle", "aclrtSetStreamConfigOpt"),
        *("aclrtCreateStreamV2", "aclrtSubscribeHostFunc", "aclrtProcessHostFunc", "aclrtUnSubscribeHostFunc"),
        *("aclmdlExecuteAsyncV2", "aclmdlQueryExeOMDesc", "aclmdlLoadFromModel"),
    }
    for library in (ROOT / "ge_core_pyx/acl_cpu/lib").glob("*/*.so"):
        assert not absent & set(exported(library)), library
        assert not any(hasattr(ctypes.CDLL(str(library)), name) for name in absent), library


def test_the_three_libraries_of_release_9_are_one():
    folder = locate.cpu_folder("9")
    whole, runtime, models = (
        ctypes.CDLL(str(folder / name)) for name in ("libascendcl.so", "libacl_rt.so", "libacl_mdl.so")
    )
    for library, name in ((runtime, "aclInit"), (models, "aclmdlCreateDesc")):
        addresses = {ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value for loaded in (whole, library)}
        assert len(addresses) == 1, name


CLOSED = """
import _ctypes, ctypes, sys
library = ctypes.CDLL(sys.argv[1])
assert library.aclrtSetDevice(0) == 0
stream, memory = ctypes.c_void_p(), ctypes.c_void_p()
assert library.aclrtCreateStream(ctypes.byref(stream)) == 0
assert library.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(64), 0) == 0
for _ in range(1000):
    library.aclrtMemsetAsync(memory, ctypes.c_size_t(64), 1, ctypes.c_size_t(64), stream)
_ctypes.dlclose(library._handle)
assert library.aclrtSynchronizeStream(stream) == 0
"""


@pytest.mark.parametrize("library", ["8.1/libascendcl.so", "9/libacl_rt.so", "9/libascendcl.so"])
def test_a_library_that_was_closed_stays(library):
    command = [sys.executable, "-c", CLOSED, ROOT / "ge_core_pyx/acl_cpu/lib" / library]
    subprocess.run(command, env=clean_environ(), check=True, timeout=600)


# --- a program of the usual shape -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """An om with a real graph, an input for it, and what onnxruntime makes of it."""
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(3)
    weights = {"w": rng.normal(size=(8, 3, 3, 3)), "m": rng.normal(size=(8, 10))}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "m"], ["l"]),
            helper.make_node("Softmax", ["l"], ["probabilities"], axis=1),
        ],
        "classifier",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("probabilities", onnx.TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(array.astype("f4"), name) for name, array in weights.items()],
    )
    folder = tmp_path_factory.mktemp("classifier")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "classifier.onnx")
    compile_model(folder / "classifier.onnx", folder / "classifier.om", runtime="cpu")
    image = rng.normal(size=(1, 3, 32, 32)).astype("f4")
    (folder / "image").write_bytes(image.tobytes())
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return folder, session.run(None, {"image": image})[0]


@needs_compiler
@pytest.mark.parametrize("link", list(LINKS))
def test_a_program_of_the_usual_shape(classifier, tmp_path, link):
    folder, expected = classifier
    program = build(PROGRAMS / "classify.cpp", tmp_path / "classify", link)
    environ = clean_environ(LD_LIBRARY_PATH=str(printed_folder(LINKS[link][0])))
    for mode in ("sync", "async"):
        command = [program, folder / "classifier.om", folder / "image", tmp_path / mode, mode]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=6000)
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"Ascend910B3 image 1 3 32 32 -> \w+:0:probabilities\n", done.stdout)
        got = np.fromfile(tmp_path / mode, "f4").reshape(1, 10)
        np.testing.assert_allclose(got, expected, atol=1e-5)


@needs_compiler
def test_a_program_linked_for_8_runs_on_9(classifier, tmp_path):
    folder, expected = classifier
    program = build(PROGRAMS / "classify.cpp", tmp_path / "classify", "8.1")
    command = [program, folder / "classifier.om", folder / "image", tmp_path / "out"]
    environ = clean_environ(LD_LIBRARY_PATH=str(printed_folder("9")))
    subprocess.run(command, env=environ, check=True, capture_output=True, timeout=6000)
    np.testing.assert_allclose(np.fromfile(tmp_path / "out", "f4").reshape(1, 10), expected, atol=1e-5)


@pytest.mark.parametrize("api", locate.APIS)
def test_the_printed_folder_knows_openvino(api):
    pytest.importorskip("openvino")
    recorded = Path((printed_folder(api) / "openvino.path").read_text().strip())
    assert any(recorded.rglob("libopenvino_c.so*"))


# --- several processes on one device ----------------------------------------------------------------------------------


class Shared:
    """A process of tests/acl_cpu/programs/share.cpp."""

    def __init__(self, program, **config):
        environ = clean_environ(LD_LIBRARY_PATH=str(locate.cpu_folder("9")), GE_CORE_CPU_CONFIG=json.dumps(config))
        self.process = subprocess.Popen(
            [program], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answers(self):
        return [int(word) for word in self.process.stdout.readline().split()]

    def ask(self, line):
        self.tell(line)
        (answer,) = self.answers()
        return answer

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def share_program(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    return build(PROGRAMS / "share.cpp", tmp_path_factory.mktemp("share") / "share", "9")


@pytest.fixture
def share(share_program):
    """Starts processes on a device of their own: its size names it."""
    started = []

    def start(hbm_bytes, **config):
        started.append(Shared(share_program, hbm_bytes=hbm_bytes, **config))
        return started[-1]

    yield start
    for shared in started:
        shared.end()


def test_the_second_process_is_refused_what_the_first_holds(share):
    size = (64 << 20) + 4096 * (os.getpid() % 1000)
    first, second = share(size), share(size)
    assert first.ask(f"hold {48 << 20}") == 0
    assert second.ask("used") == (48 << 20) + 4096
    assert second.ask(f"hold {32 << 20}") == 207001
    assert second.ask(f"hold {8 << 20}") == 0
    assert first.ask("release") == 0
    assert second.ask(f"hold {32 << 20}") == 0


def leftovers():
    return {path.name for path in Path("/dev/shm").iterdir() if "ge_core_cpu" in path.name}


def test_a_killed_process_gives_its_memory_back(share):
    size = (64 << 20) + 4096 * (1000 + os.getpid() % 1000)
    before = leftovers()
    first, second = share(size), share(size)
    assert first.ask(f"hold {48 << 20}") == 0
    assert second.ask(f"hold {32 << 20}") == 207001
    first.process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while second.ask("used") > 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert second.ask(f"hold {48 << 20}") == 0
    second.process.send_signal(signal.SIGKILL)
    second.process.wait()
    third = share(size)
    assert third.ask("used") == 0
    assert leftovers() == before


def test_processes_share_one_engine(share):
    """Two processes get one device's throughput together, not two: 40 copies of 10 ms take 400 ms of its time."""
    size = (256 << 20) + 4096 * (os.getpid() % 1000)
    config = {"h2d": {"gbps": 0.1}}
    both = share(size, **config), share(size, **config)
    for shared in both:
        shared.tell("copy 1000000 20")
    begun, ended = zip(*(shared.answers() for shared in both), strict=True)
    assert max(ended) - min(begun) >= 400_000


# --- what is written about it -----------------------------------------------------------------------------------------


def test_the_readme_is_up_to_date():
    command = [sys.executable, ROOT / "ge_core_pyx/acl_cpu/readme.py", "--check"]
    assert subprocess.run(command).returncode == 0, "run ge_core_pyx/acl_cpu/readme.py"


def test_the_readme_lists_every_entry_point_once():
    text = (ROOT / "ge_core_pyx/acl_cpu/README.md").read_text().split("## Entry points\n")[1]
    listed = re.findall(r"`(acl\w+)`(?: 9)?(?: \||,)", text)
    assert sorted(listed) == sorted(rows({"V8", "V9"}, {"RT", "MDL"}))


def test_info_shows_the_counters():
    command = [sys.executable, "-c", "from ge_core.cli import app; app()", "info", "--json"]
    environ = clean_environ(PYTHONPATH=str(ROOT), GE_CORE_RUNTIME="cpu")
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    counters = json.loads(done.stdout)["counters"]
    assert counters["calls"]["aclInit"] == 1
    assert counters["calls"]["aclrtGetMemInfo"] >= 1
    kinds = "stream event context model dataset data_buffer tensor_desc desc device_memory host_memory"
    assert set(counters["live"]) == set(kinds.split())
    for moment in ("bytes", "peak"):
        assert set(counters[moment]) == {"device", "pinned"}
