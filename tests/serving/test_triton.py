# SPDX-License-Identifier: Apache-2.0
"""The backend in a real tritonserver: configurations, transports, batches, refusals, and a stop that leaves nothing."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import graphs
import numpy as np
import onnx
import onnxruntime
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from oms import write_synthetic
from onnx import TensorProto, helper, numpy_helper
from stand_in import HBM_BYTES
from triton_helpers import TRANSPORTS, add_model, ask, client, infer
from tritonclient.utils import InferenceServerException

import ge_core
from bench.models import presets
from ge_core.compiler import compile_model
from ge_core.server import tritonserver
from ge_core.server.tritonserver import ServerError, TritonServer

ROOT = Path(__file__).parents[2]

IMAGE = """\
backend: "ge"
max_batch_size: 8
input [ { name: "input", data_type: TYPE_FP32, dims: [3, 224, 224] } ]
output [ { name: "output", data_type: TYPE_FP32, dims: [1000] } ]
"""
LLAMA = """\
name: "llama_model"
backend: "ge"
max_batch_size: 8
input [ { name: "input_ids", data_type: TYPE_INT64, dims: [-1] } ]
output [ { name: "logits", data_type: TYPE_FP32, dims: [-1, 32000] } ]
parameters: [ { key: "om_model_path" value: { string_value: "LLAMA_OM" } } ]
"""
BERT = """\
name: "bert_model"
backend: "ge"
parameters: [ { key: "om_model_path" value: { string_value: "BERT_OM" } } ]
"""


MERGED = """\
backend: "ge"
dynamic_batching { max_queue_delay_microseconds: 2000 }
instance_group [ { count: 2, kind: KIND_CPU } ]
parameters: [ { key: "device_ids" value: { string_value: "0,1" } } ]
"""
SENT = """\
backend: "ge"
dynamic_batching { }
parameters: [
  { key: "responses" value: { string_value: "sender" } },
  { key: "slots" value: { string_value: "2" } },
  { key: "device_ids" value: { string_value: "0,1" } }
]
"""
PINNED = """\
backend: "ge"
max_batch_size: 8
dynamic_batching { }
parameters: [ { key: "register_memory" value: { string_value: "true" } } ]
"""
SIZES = """\
backend: "ge"
parameters: [
  { key: "slots" value: { string_value: "2" } },
  { key: "output_axes" value: { string_value: "map:2=image:2,map:3=image:3" } }
]
"""
LENGTHS = """\
backend: "ge"
max_batch_size: 4
input [ { name: "ids", data_type: TYPE_INT64, dims: [-1], allow_ragged_batch: true } ]
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 5000000 }
"""
WHOLE = """\
backend: "ge"
input [ { name: "x", data_type: TYPE_FP32, dims: [4, 3] } ]
"""
BATCH_ASKED = 'backend: "ge"\nmax_batch_size: 8\n'
PARAMETER = 'backend: "ge"\nparameters: [ {{ key: "{}" value: {{ string_value: "{}" }} }} ]\n'
BERT_OUTPUTS = ["pooled", "label"]
OUTPUTS = {"image": ["output"], "llama_model": ["logits"], "whole": ["y"]}
OUTPUTS |= dict.fromkeys(("bert_model", "merged", "pinned", "plain", "sent"), BERT_OUTPUTS)


def write_graph(path):
    """softmax(x @ w): a real graph, which OpenVINO computes in the server and onnxruntime in the test."""
    weights = np.random.default_rng(0).standard_normal((8, 5), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Softmax", ["xw"], ["y"])]
    shapes = {"x": ["n", 3, 8], "y": ["n", 3, 5]}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    graph = helper.make_graph(nodes, "graph", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Repository:
    """The oms, and a folder with one model of each kind; those in `good` load."""

    def __init__(self, folder):
        self.folder, oms = folder / "models", folder / "oms"
        oms.mkdir()
        gears = (1, 2, 4, 8)
        image = [("input", "float32", (-1, 3, 224, 224))], [("n:0:output", "float32", (-1, 1000))]
        llama = [("input_ids", "int64", (-1, 16))], [("n:0:logits", "float32", (-1, 16, 32000))]
        bert = (
            [(name, "int64", (-1, 32)) for name in ("input_ids", "attention_mask")],
            [("n:0:pooled", "float32", (-1, 8)), ("m:0:label", "int32", (-1,))],
        )
        self.oms = {
            "image": write_synthetic(oms / "image.om", *image, batch=gears),
            "llama_model": write_synthetic(oms / "llama.om", *llama, batch=(1, 4, 8)),
            "bert_model": write_synthetic(oms / "bert.om", *bert, batch=gears),
            "whole": write_synthetic(oms / "4.om", [("x", "float32", (4, 3))], [("n:0:y", "float16", (4, 2))]),
            "one": write_synthetic(oms / "1.om", [("x", "float32", (1, 3))], [("n:0:y", "float32", (1, 2))]),
        }
        self.oms |= dict.fromkeys(("merged", "pinned", "plain", "sent"), self.oms["bert_model"])
        self.oms["bf16"] = write_synthetic(
            oms / "bf16.om", [("x", "bfloat16", (-1, 6))], [("y", "bfloat16", (-1, 4))], batch=(1, 4)
        )
        sizes = oms / "sizes"
        sizes.mkdir()
        self.sizes = graphs.convolution(sizes, gears="8,8;20,12")
        lengths = oms / "lengths"
        lengths.mkdir()
        self.lengths = graphs.sequence(lengths, gears="1,4;4,4;2,8")
        self.graph = oms / "graph.onnx"
        write_graph(self.graph)
        compiled = compile_model(
            self.graph, oms / "graph.om", runtime="cpu", input_shape="x:-1,3,8", dynamic_batch_size="1,2,4"
        )

        self.add("image", IMAGE)
        self.add("llama_model", LLAMA.replace("LLAMA_OM", str(self.oms["llama_model"].path)), om=None)
        self.add("bert_model", self.bert, om=None)
        self.add("merged", MERGED)
        self.add("sent", SENT)
        self.add("pinned", PINNED)
        self.add("bf16", 'backend: "ge"\n')
        self.add("whole", WHOLE)
        add_model(self.folder, "sizes", SIZES, self.sizes.path)
        add_model(self.folder, "lengths", LENGTHS, self.lengths.path)
        add_model(self.folder, "graph", 'backend: "ge"\n', compiled.path)
        template = ROOT / "triton_model"
        self.add("plain", (template / "config.pbtxt").read_text())
        shutil.copy(template / "1" / "model.py", self.folder / "plain" / "1")
        self.ocr = {}
        if importlib.util.find_spec("rapidocr_onnxruntime") is not None:
            self.ocr = {part: presets.ocr_case(part, "cpu", "Ascend910B3", oms) for part in ("cls", "rec")}
        for part, case in self.ocr.items():
            add_model(self.folder, f"ocr_{part}", 'backend: "ge"\ndynamic_batching { }\n', case.om)
        self.good = sorted(path.name for path in self.folder.iterdir())

        self.add("batch_asked", BATCH_ASKED, "one")
        self.add("wrong_dims", IMAGE.replace("224, 224", "448, 448"), "image")
        self.add("no_om", BATCH_ASKED, om=None)
        self.add("typo", PARAMETER.format("device_id", "0"), "one")
        self.add("on_npu", PARAMETER.format("runtime", "npu"), "one")

    @property
    def bert(self):
        return BERT.replace("BERT_OM", str(self.oms["bert_model"].path))

    def add(self, name, config, om=""):
        add_model(self.folder, name, config, None if om is None else self.oms[om or name].path)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("triton"))


@pytest.fixture(scope="module")
def server(repository):
    try:
        tritonserver.find()
    except ServerError as error:
        pytest.skip(str(error))
    arguments = ["--model-control-mode=explicit", *(f"--load-model={name}" for name in repository.good)]
    environ = {"GE_CORE_CPU_CONFIG": json.dumps({"devices": 2, "hbm_bytes": HBM_BYTES})}
    with TritonServer(repository.folder, runtime="cpu", arguments=arguments, environ=environ) as running:
        yield running


def over_triton(array):
    """Triton has no tensor of one number per row: dims [1] stand for it."""
    return array if array.ndim > 1 else array[:, None]


def assert_right(om, feeds, answers):
    for expected, got in zip(om.expected(feeds), answers, strict=True):
        np.testing.assert_array_equal(got, over_triton(expected))


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("model", ["image", "llama_model", "bert_model", "merged", "pinned", "plain", "sent"])
def test_every_model_answers_with_its_rows(server, repository, model, rows):
    om = repository.oms[model]
    feeds = om.random(rows, seed=rows)
    assert_right(om, feeds, ask(server, model, feeds, OUTPUTS[model]))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("model", ["image", "bert_model", "pinned", "sent"])
def test_every_transport_equals_direct(server, repository, model, transport):
    om = repository.oms[model]
    feeds = om.random(4)
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        direct = session.run(OUTPUTS[model], feeds)
    outputs = {name: array.nbytes for name, array in zip(OUTPUTS[model], direct, strict=True)}
    for expected, got in zip(direct, ask(server, model, feeds, outputs, transport), strict=True):
        np.testing.assert_array_equal(got, over_triton(expected))


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_a_real_graph_computes_what_onnxruntime_does(server, repository, rows):
    x = np.random.default_rng(rows).standard_normal((rows, 3, 8), np.float32)
    expected = onnxruntime.InferenceSession(repository.graph).run(None, {"x": x})[0]
    (got,) = ask(server, "graph", {"x": x}, ["y"])
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.fixture(params=["cls", "rec"])
def ocr(request, repository):
    """The text-direction and the text-recognition model: (its name, lines of text, onnxruntime's answers)."""
    if not repository.ocr:
        pytest.skip("rapidocr-onnxruntime is not installed")
    case = repository.ocr[request.param]
    lines = case.rows(8)["x"]
    return case, lines, case.reference({"x": lines})[0]


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_text_lines_read_the_same_direct_through_triton_and_in_onnxruntime(server, ocr, rows):
    case, lines, expected = ocr
    feeds = {"x": lines[:rows]}
    with ge_core.InferenceSession(case.om, runtime="cpu") as session:
        direct = session.run(None, feeds)[0]
        output = session.get_outputs()[0].name
    np.testing.assert_allclose(direct, expected[:rows], rtol=0, atol=1e-3)
    for transport in ("grpc", "http"):
        (got,) = ask(server, case.name, feeds, [output], transport)
        np.testing.assert_allclose(got, expected[:rows], rtol=0, atol=1e-3)


def test_eight_clients_with_different_text_get_their_own(server, ocr):
    case, lines, expected = ocr
    output = ge_core.describe_model(case.om, "cpu").outputs[0].name

    def one(number):
        feeds = {"x": lines[number : number + 1]}
        with closing(client(server, "grpc")) as connection:
            return [infer(connection, case.name, feeds, [output])[0] for _ in range(5)]

    with ThreadPoolExecutor(8) as clients:
        for number, answers in enumerate(clients.map(one, range(8))):
            for got in answers:
                np.testing.assert_allclose(got, expected[number : number + 1], rtol=0, atol=1e-3)


def test_max_batch_size_0_answers_whole_shapes(server, repository):
    om = repository.oms["whole"]
    feeds = om.random(4)
    assert_right(om, feeds, ask(server, "whole", feeds, ["y"]))


def config_of(server, model):
    with urllib.request.urlopen(f"http://{server.http}/v2/models/{model}/config", timeout=10) as answer:
        return json.load(answer)


def test_what_the_configuration_leaves_out_comes_from_the_om(server):
    config = config_of(server, "bert_model")
    assert config["max_batch_size"] == 8
    assert "dynamic_batching" not in config
    tensors = {entry["name"]: (entry["data_type"], entry["dims"]) for entry in config["input"] + config["output"]}
    assert tensors == {
        "input_ids": ("TYPE_INT64", [32]),
        "attention_mask": ("TYPE_INT64", [32]),
        "pooled": ("TYPE_FP32", [8]),
        "label": ("TYPE_INT32", [1]),
    }
    assert config_of(server, "llama_model")["input"][0]["dims"] == [-1]


def test_the_log_names_file_runtime_and_device(server, repository):
    lines = [line for line in server.log.splitlines() if "GE Backend: 'merged' serves" in line]
    assert len(lines) == 2
    assert all("runtime cpu (the CPU implementation of AscendCL, no NPU)" in line for line in lines)
    assert sorted(re.search(r"device (\d)", line)[1] for line in lines) == ["0", "1"]


@pytest.mark.parametrize("model", ["merged", "sent", "pinned", "bert_model"])
def test_eight_clients_get_their_own_rows(server, repository, model):
    om, rounds = repository.oms[model], 40

    def one(number):
        rng = np.random.default_rng(number)
        transport = ("grpc", "http")[number % 2]
        with closing(client(server, transport)) as connection:
            for round_ in range(rounds):
                feeds = om.random(int(rng.integers(1, 5)), seed=number * rounds + round_)
                assert_right(om, feeds, infer(connection, model, feeds, OUTPUTS[model], transport))
        return rounds

    with ThreadPoolExecutor(8) as clients:
        assert sum(clients.map(one, range(8))) == 8 * rounds


def test_large_answers_of_changing_sizes_stay_right(server, repository):
    om = repository.oms["llama_model"]
    with closing(client(server, "grpc")) as connection:
        for round_, rows in enumerate([1, 1, 1, 8, 2, 8, 1, 4, 8, 3, 3, 3]):
            feeds = om.random(rows, seed=round_)
            outputs = {"logits": rows * 16 * 32000 * 4}
            assert_right(om, feeds, infer(connection, "llama_model", feeds, outputs, "grpc+shm"))


def test_bfloat16_travels_as_its_bits(server, repository):
    om = repository.oms["bf16"]
    with closing(client(server, "grpc")) as connection:
        for seed in range(3):
            feeds = om.random(3, seed=seed)
            tensor = grpc.InferInput("x", [3, 6], "BF16")
            tensor._raw_content = feeds["x"].tobytes()
            response = connection.infer("bf16", [tensor]).get_response()
            assert (response.outputs[0].datatype, list(response.outputs[0].shape)) == ("BF16", [3, 4])
            got = np.frombuffer(response.raw_output_contents[0], np.uint16).reshape(3, 4)
            np.testing.assert_array_equal(got, om.expected(feeds)[0])


def test_image_sizes_are_served_and_padded_where_that_was_declared(server, repository):
    rng = np.random.default_rng(0)
    for height, width in [(8, 8), (20, 12), (8, 8)]:
        feeds = {"image": rng.standard_normal((1, 2, height, width), np.float32)}
        got = ask(server, "sizes", feeds, ["map", "mean"])
        for one, expected in zip(got, repository.sizes.reference(feeds), strict=True):
            np.testing.assert_allclose(one, expected, rtol=0, atol=1e-4)
    (cut,) = ask(server, "sizes", {"image": rng.standard_normal((1, 2, 7, 5), np.float32)}, ["map"])
    assert cut.shape == (1, 3, 7, 5)
    assert "takes input shapes" in refused(
        server, "sizes", {"image": np.zeros((1, 2, 21, 5), np.float32)}, ["map"], "grpc"
    )


def test_requests_of_other_lengths_share_a_call_and_get_their_own_rows(server, repository):
    feeds = [{"ids": np.arange(number, number + length)[None]} for number, length in enumerate([4, 8, 4, 8])]
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda one: ask(server, "lengths", one, ["hidden"]), feeds))
    for one, (got,) in zip(feeds, answers, strict=True):
        np.testing.assert_allclose(got, repository.lengths.reference(one)[0], rtol=0, atol=1e-4)
    with urllib.request.urlopen(f"http://{server.http}/v2/models/lengths/stats", timeout=10) as answer:
        stats = json.load(answer)["model_stats"][0]
    assert (stats["inference_count"], stats["execution_count"]) == (4, 1)


def load_error(server, model):
    request = urllib.request.Request(f"http://{server.http}/v2/repository/models/{model}/load", data=b"{}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=300)
    with caught.value as answer:
        return json.load(answer)["error"]


STANZA = 'This would load:\nmax_batch_size: 1\ninput [\n  { name: "x", data_type: TYPE_FP32, dims: [3] }\n]'


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("batch_asked", ["max_batch_size 8 in config.pbtxt, at most 1 in the om (static, batch 1)", STANZA]),
        ("wrong_dims", ["dims [3, 448, 448] in config.pbtxt, [3, 224, 224] without the batch in the om"]),
        ("no_om", ["expected one .om in", "found none", "om_model_path"]),
        ("typo", ["unknown parameter 'device_id'; did you mean device_ids?"]),
        ("on_npu", ["npu", "GE_CORE_RUNTIME=cpu"]),
    ],
)
def test_a_load_that_cannot_work_is_refused_with_the_reason(server, model, says):
    error = load_error(server, model)
    for text in says:
        assert text in error


def refused(server, model, feeds, outputs, transport):
    with pytest.raises(InferenceServerException) as caught:
        ask(server, model, feeds, outputs, transport)
    assert caught.value.status() in ("StatusCode.INVALID_ARGUMENT", "400")
    assert "Traceback" not in caught.value.message()
    return caught.value.message()


@pytest.mark.parametrize("transport", ["grpc", "http"])
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: {"input_ids": f["input_ids"].astype(np.int32)}, ["input_ids", "INT32", "INT64"]),
        (
            lambda f: {"input_ids": f["input_ids"][:, :7]},
            ["'input_ids': expected INT64 [rows, 16], got INT64 [1, 7]"],
        ),
        (lambda f: {"ids": f["input_ids"]}, ["'ids'"]),
        (lambda f: {**f, "more": f["input_ids"]}, ["more"]),
    ],
)
def test_a_wrong_request_says_what_was_expected_and_what_came(server, repository, transport, spoil, says):
    om = repository.oms["llama_model"]
    good, answers = om.random(1), []
    with ThreadPoolExecutor(2) as others:
        answers += [others.submit(ask, server, "llama_model", good, ["logits"]) for _ in range(4)]
        message = refused(server, "llama_model", spoil(om.random(1, seed=1)), ["logits"], transport)
    for text in says:
        assert text in message
    for answer in answers:
        assert_right(om, good, answer.result())


def test_the_log_names_the_request_that_failed(server, repository):
    tensor = grpc.InferInput("input_ids", [1, 7], "INT64")
    tensor.set_data_from_numpy(np.zeros((1, 7), np.int64))
    with closing(client(server, "grpc")) as connection, pytest.raises(InferenceServerException):
        connection.infer("llama_model", [tensor], request_id="order-66")
    says = "request order-66 failed: input 'input_ids': expected INT64 [rows, 16], got INT64 [1, 7]"
    deadline = time.monotonic() + 120
    while says not in server.log and time.monotonic() < deadline:
        time.sleep(0.05)
    assert says in server.log


def test_a_missing_input_is_named(server, repository):
    feeds = repository.oms["bert_model"].random(1)
    del feeds["attention_mask"]
    assert "attention_mask" in refused(server, "bert_model", feeds, OUTPUTS["bert_model"], "grpc")


def test_only_the_requested_output_travels(server, repository):
    om = repository.oms["bert_model"]
    feeds = om.random(2)
    with closing(client(server, "grpc")) as connection:
        inputs = [grpc.InferInput(name, list(array.shape), "INT64") for name, array in feeds.items()]
        for tensor, array in zip(inputs, feeds.values(), strict=True):
            tensor.set_data_from_numpy(array)
        result = connection.infer("bert_model", inputs, outputs=[grpc.InferRequestedOutput("label")])
    assert [output.name for output in result.get_response().outputs] == ["label"]
    np.testing.assert_array_equal(result.as_numpy("label"), over_triton(om.expected(feeds)[1]))


@contextmanager
def command(*arguments):
    """`ge-core serve` as a process of its own; whatever happens in the block, it is told to stop and awaited."""
    ports = ["--port=0", "--grpc-port=0", "--metrics-port=0"]
    line = [sys.executable, "-c", "from ge_core.cli import app; app()", "serve", *map(str, arguments), *ports]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)


class TestCommand:
    """`ge-core serve` from outside."""

    def test_serves_until_it_is_told_to_stop_and_leaves_nothing(self, server, repository, tmp_path):
        add_model(tmp_path / "with space", "bert_model", repository.bert)
        with command(tmp_path / "with space", "--runtime", "cpu", "--log-info=false") as process:
            ready = process.stdout.readline()
            address = re.search(r"HTTP (127\.0\.0\.1:\d+), gRPC 127\.0\.0\.1:\d+, metrics http://127", ready)[1]
            om = repository.oms["bert_model"]
            feeds = om.random(2)
            with closing(http.InferenceServerClient(address)) as connection:
                assert_right(om, feeds, infer(connection, "bert_model", feeds, BERT_OUTPUTS, "http"))
            mark = f"ge_core_{process.pid}_"
            assert regions(mark) and processes(mark)
            process.send_signal(signal.SIGINT)
            output, log = process.communicate(timeout=300)
        assert (process.returncode, output[:9]) == (0, "Stopping;"), log
        assert regions(mark) == [] and processes(mark) == []

    def test_a_model_that_does_not_load_is_an_exit_code_and_one_line(self, server, repository, tmp_path):
        add_model(tmp_path, "batch_asked", BATCH_ASKED, repository.oms["one"].path)
        with command(tmp_path, "--runtime", "cpu") as process:
            output, log = process.communicate(timeout=300)
        assert (process.returncode, output) == (1, "")
        assert "max_batch_size 8 in config.pbtxt, at most 1 in the om (static, batch 1)" in log
        assert log.splitlines()[-1] == "error: tritonserver ended with code 1 before it was ready:"
        assert processes(f"ge_core_{process.pid}_") == []

    @pytest.mark.parametrize(
        ("prepare", "says"),
        [
            (lambda folder: folder / "none", "is not a folder"),
            (lambda folder: add_model(folder, "m", BATCH_ASKED) or folder / "m", "is a model folder"),
            (lambda folder: add_model(folder, "a b", BATCH_ASKED) or folder, "model folder 'a b'"),
        ],
    )
    def test_a_repository_that_cannot_be_served_is_one_line(self, tmp_path, prepare, says):
        with command(prepare(tmp_path), "--runtime", "cpu") as process:
            output, log = process.communicate(timeout=300)
        assert (process.returncode, output, len(log.splitlines())) == (1, "", 1)
        assert says in log


def regions(mark):
    return [name for name in os.listdir("/dev/shm") if mark in name]


def processes(mark):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.slow
def test_workers_of_a_killed_server_end_by_themselves(server, repository, tmp_path):
    """While they are at work, with both ways to answer: no process and no shared memory is left."""
    add_model(tmp_path, "sent", SENT.replace("0,1", "0"), repository.oms["sent"].path)
    add_model(tmp_path, "llama_model", LLAMA.replace("LLAMA_OM", str(repository.oms["llama_model"].path)))
    other = TritonServer(tmp_path, runtime="cpu").start()
    try:

        def work(number):
            model = ("sent", "llama_model")[number % 2]
            feeds = repository.oms[model].random(1)
            with suppress(InferenceServerException), closing(client(other, "grpc")) as connection:
                while True:
                    infer(connection, model, feeds, OUTPUTS[model])

        with ThreadPoolExecutor(4) as clients:
            done = [clients.submit(work, number) for number in range(4)]
            time.sleep(1)
            assert len(processes(other.prefix)) == 3
            os.kill(other.pid, signal.SIGKILL)
            for one in done:
                one.result(timeout=300)
        deadline = time.monotonic() + 120
        while (processes(other.prefix) or regions(other.prefix)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes(other.prefix) == [] and regions(other.prefix) == []
    finally:
        other.stop()


def test_the_server_of_this_module_stops_in_order_and_leaves_nothing(server):
    mark = server.prefix
    assert regions(mark)
    assert server.stop() == 0, server.log
    assert regions(mark) == [] and processes(mark) == []
