# SPDX-License-Identifier: Apache-2.0
"""Operating models in a real tritonserver: figures, versions, ensembles, reloads, device faults, dead workers."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest
import tritonclient.grpc as grpc
from oms import write_shaped, write_synthetic
from stand_in import HBM_BYTES
from triton_helpers import add_model, ask, client, infer
from tritonclient.utils import InferenceServerException

import ge_core
from ge_core.server import tritonserver
from ge_core.server.probe import probe
from ge_core.server.supervisor import Supervisor, live_workers
from ge_core.server.tritonserver import ServerError, TritonServer
from ge_core.serving.model_config import config_pbtxt

ROOT = Path(__file__).parents[2]
INPUTS = [("x", "float32", (-1, 3))]
GEARS = (1, 2, 4)
BLS = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            inner = pb_utils.InferenceRequest(
                model_name="plain", requested_output_names=["y"], inputs=request.inputs()
            ).exec()
            responses.append(pb_utils.InferenceResponse(inner.output_tensors(), error=inner.error()))
        return responses
"""
ENSEMBLE = """\
platform: "ensemble"
max_batch_size: 4
input [ { name: "x", data_type: TYPE_FP32, dims: [3] } ]
output [ { name: "z", data_type: TYPE_FP32, dims: [2] } ]
ensemble_scheduling { step [
  { model_name: "plain", model_version: -1,
    input_map { key: "x" value: "x" }, output_map { key: "y" value: "between" } },
  { model_name: "second", model_version: -1,
    input_map { key: "x" value: "between" }, output_map { key: "y" value: "z" } }
] }
"""
WARM = """\
model_warmup [ { name: "zeros", batch_size: 2,
  inputs { key: "x", value: { data_type: TYPE_FP32, dims: [3], zero_data: true } } } ]
"""


WAITING = """\
backend: "ge"
max_batch_size: 2
input [ { name: "x", data_type: TYPE_FP32, dims: [-1], allow_ragged_batch: true } ]
output [ { name: "y", data_type: TYPE_FP32, dims: [-1] } ]
dynamic_batching { preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 4000000 }
"""


def parameter(key, value):
    return f'parameters: [ {{ key: "{key}" value: {{ string_value: "{value}" }} }} ]\n'


class Repository:
    """A repository that grows during the module, and the settings of the devices under it."""

    def __init__(self, folder):
        self.models, self.oms, self.device = folder / "models", folder / "oms", folder / "device.json"
        self.oms.mkdir()
        self.models.mkdir()
        self.faults()

    def faults(self, *faults):
        """What the devices of workers do that start from now on."""
        self.device.write_text(json.dumps({"hbm_bytes": HBM_BYTES, "faults": list(faults)}))

    def om(self, name, outputs=3, **rest):
        return write_synthetic(self.oms / f"{name}.om", INPUTS, [("y", "float32", (-1, outputs))], batch=GEARS, **rest)

    def add(self, name, more="", om=None, copy=True):
        """A model with a whole configuration, because the server of this module completes none."""
        om = om or self.om(name)
        described = ge_core.describe_model(om.path, "cpu")
        config = config_pbtxt(described, name, None if copy else str(om.path)) + more
        add_model(self.models, name, config, om.path if copy else None)
        return om


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("operations"))


@pytest.fixture(scope="module")
def server(repository):
    try:
        installation = tritonserver.find()
    except ServerError as error:
        pytest.skip(str(error))
    arguments = ["--model-control-mode=explicit", "--disable-auto-complete-config"]
    caches = installation.binary.parents[1] / "caches"
    if caches.is_dir():
        arguments += [f"--cache-directory={caches}", "--cache-config=local,size=1048576"]
    environ = {"GE_CORE_CPU_CONFIG": str(repository.device)}
    with TritonServer(
        repository.models, runtime="cpu", arguments=arguments, environ=environ, exit_timeout_s=4
    ) as running:
        yield running


def post(server, path, body=b"{}"):
    request = urllib.request.Request(f"http://{server.http}{path}", data=body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"{}")


def load(server, *models):
    for model in models:
        post(server, f"/v2/repository/models/{model}/load")


def unload(server, *models):
    for model in models:
        post(server, f"/v2/repository/models/{model}/unload")
    wait_until(lambda: not {worker.model for worker in live_workers(server.pid)} & set(models))


def wait_until(condition, limit_s=120):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def metrics(server, model):
    """{(name, further labels…): value} of one model, summed over its instances."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for name, labels, value in re.findall(r"^(ge_\w+)\{([^}]*)\} (\S+)$", text, re.M):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if labels.pop("model") == model:
            for own in ("version", "instance", "pid"):
                labels.pop(own)
            key = (name, *labels.values())
            found[key] = found.get(key, 0) + float(value)
    return found


def lines(server, model):
    return [line for line in server.log.splitlines() if f"GE Backend: '{model}'" in line]


def assert_answers(server, om, model, rows=2, seed=0):
    feeds = om.random(rows, seed)
    np.testing.assert_array_equal(ask(server, model, feeds, ["y"])[0], om.expected(feeds)[0])


def refused(server, om, model):
    """(status, message) of a request that fails."""
    with pytest.raises(InferenceServerException) as caught:
        ask(server, model, om.random(1), ["y"])
    assert "Traceback" not in caught.value.message()
    return caught.value.status().removeprefix("StatusCode."), caught.value.message()


def test_figures_are_right_under_concurrency(server, repository):
    om = repository.add("counted", "instance_group [ { count: 2, kind: KIND_CPU } ]\ndynamic_batching { }\n" + WARM)
    load(server, "counted")
    warm = {("ge_executions_total", "2"): 2, ("ge_rows_total",): 4}  # Triton's own warm-up, of both instances
    wait_until(lambda: warm.items() <= metrics(server, "counted").items())
    before = metrics(server, "counted")

    def one(number):
        asked = 0
        with closing(client(server, "grpc")) as connection:
            for round_ in range(25):
                feeds = om.random(1 + (number + round_) % 4, number * 100 + round_)
                asked += len(feeds["x"])
                np.testing.assert_array_equal(infer(connection, "counted", feeds, ["y"])[0], om.expected(feeds)[0])
        return asked

    with ThreadPoolExecutor(8) as clients:
        asked = sum(clients.map(one, range(8)))

    def settled():
        """The series are published one after the other: right means that they agree in the end."""
        after = metrics(server, "counted")
        since = {key: after[key] - before[key] for key in before if key[0].endswith("_total")}
        executed = sum(gear * since["ge_executions_total", str(gear)] for gear in GEARS)
        return since["ge_rows_total",] == asked and executed == asked + since["ge_padded_rows_total",]

    wait_until(settled)
    after = metrics(server, "counted")
    assert after["ge_batches_in_flight",] <= 2
    assert (after["ge_healthy",], after["ge_restart_needed",]) == (2, 0)
    assert after["ge_device_memory_total_bytes", "0"] == 2 * HBM_BYTES
    assert after["ge_device_memory_used_bytes", "0"] > after["ge_model_device_bytes",] > 0
    unload(server, "counted")
    wait_until(lambda: metrics(server, "counted") == {})


def test_loading_shows_a_table_once_and_the_hints(server, repository):
    assert sum("serves" in line for line in lines(server, "counted")) == 2
    for row in ("CANN", "file", "input", "output", "budget", "gear times", "device memory"):
        assert sum(f"'counted' {row} " in line for line in lines(server, "counted")) == 1, row
    assert any("2 instances share a device" in line for line in lines(server, "counted"))


def test_a_golden_file_lets_a_model_in_or_keeps_it_out(server, repository):
    om = repository.add("golden", parameter("golden", "golden.npz"))
    feeds = om.random(3)
    (expected,) = om.expected(feeds)
    path = repository.models / "golden" / "1" / "golden.npz"
    np.savez(path, **{"input.x": feeds["x"], "output.y": expected + np.float32(0.01)})
    with pytest.raises(urllib.error.HTTPError) as caught:
        load(server, "golden")
    with caught.value as answer:
        error = json.load(answer)["error"]
    assert re.search(r"y: largest difference 0\.01, cosine 0\.99\d+ \(allowed: difference up to 0\.001", error), error
    np.savez(path, **{"input.x": feeds["x"], "output.y": expected})
    load(server, "golden")
    assert_answers(server, om, "golden")
    assert any("golden" in line and "largest difference 0," in line for line in lines(server, "golden"))
    unload(server, "golden")


def test_versions_live_side_by_side(server, repository):
    first = repository.add("versions", "version_policy: { specific { versions: [1, 3] } }\n")
    third = repository.om("versions_3", weight_bytes=4096)
    for version, om in (("2", first), ("3", third)):
        (repository.models / "versions" / version).mkdir()
        shutil.copy(om.path, repository.models / "versions" / version / "model.om")
    load(server, "versions")
    feeds = first.random(2)
    with closing(grpc.InferenceServerClient(server.grpc)) as connection:
        for version, om in (("1", first), ("3", third), ("", third)):
            tensor = grpc.InferInput("x", [2, 3], "FP32")
            tensor.set_data_from_numpy(feeds["x"])
            result = connection.infer("versions", [tensor], model_version=version)
            np.testing.assert_array_equal(result.as_numpy("y"), om.expected(feeds)[0])
        assert not connection.is_model_ready("versions", "2")
    unload(server, "versions")


def test_ensembles_and_calls_from_other_models(server, repository):
    om = repository.add("plain")
    second = repository.add("second", om=repository.om("second", outputs=2))
    add_model(repository.models, "ensemble", ENSEMBLE)
    calling = config_pbtxt(ge_core.describe_model(om.path, "cpu"), "calling", backend="python")
    add_model(repository.models, "calling", calling)
    (repository.models / "calling" / "1" / "model.py").write_text(BLS)
    load(server, "plain", "second", "ensemble", "calling")
    for rows in (1, 3):
        feeds = om.random(rows)
        (between,) = om.expected(feeds)
        np.testing.assert_array_equal(ask(server, "ensemble", feeds, ["z"])[0], second.expected({"x": between})[0])
        np.testing.assert_array_equal(ask(server, "calling", feeds, ["y"])[0], between)
    unload(server, "calling", "ensemble", "second")


def test_the_response_cache_answers_the_second_time(server, repository, tmp_path):
    if not any("--cache-config" in argument for argument in server.command_line(tmp_path)):
        pytest.skip("this tritonserver has no local cache")
    om = repository.add("cached", "response_cache { enable: true }\n")
    load(server, "cached")
    for _ in range(3):
        assert_answers(server, om, "cached")
    with urllib.request.urlopen(f"http://{server.http}/v2/models/cached/stats", timeout=10) as answer:
        stats = json.load(answer)["model_stats"][0]["inference_stats"]
    assert (stats["cache_miss"]["count"], stats["cache_hit"]["count"]) == (1, 2)
    unload(server, "cached")


def free_memory(repository):
    """Of device 0 as the workers see it: asked by a process with their settings."""
    code = "import ge_core; print(ge_core.device_usage(0, 'cpu')['memory_free'])"
    environ = os.environ | {"GE_CORE_CPU_CONFIG": str(repository.device)}
    child = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(child.stdout)


def test_reloading_takes_the_new_om_and_unloading_gives_every_byte_back(server, repository):
    unload(server, *{worker.model for worker in live_workers(server.pid)})
    before = free_memory(repository)
    om = repository.add("reloaded", om=repository.om("reloaded", weight_bytes=8 << 20))
    load(server, "reloaded")
    taken = before - free_memory(repository)
    assert taken > 8 << 20
    for round_ in range(3):
        om = repository.om(f"reloaded_{round_}", weight_bytes=8 << 20, exec_us=round_)
        shutil.copy(om.path, repository.models / "reloaded" / "1" / "model.om")
        load(server, "reloaded")
        assert_answers(server, om, "reloaded", seed=round_)
    wait_until(lambda: before - free_memory(repository) == taken)
    unload(server, "reloaded")
    wait_until(lambda: free_memory(repository) == before)


def test_an_om_outside_the_model_folder_is_loaded_again_after_a_touch(server, repository):
    repository.add("outside", om=repository.om("outside"), copy=False)
    load(server, "outside")
    marker = repository.models / "outside" / "1" / "reload"
    assert any(f"`touch {marker}`" in line for line in lines(server, "outside"))
    (before,) = worker_pids(server, "outside")
    om = repository.om("outside", weight_bytes=4096)
    load(server, "outside")
    assert worker_pids(server, "outside") == [before]
    marker.touch()
    load(server, "outside")
    wait_until(lambda: before not in worker_pids(server, "outside"))
    assert_answers(server, om, "outside")
    unload(server, "outside")


def test_a_device_error_is_counted_and_the_next_request_works(server, repository):
    om = repository.om("error")
    stages = {"h2d": "aclrtMemcpyAsync", "execute": "aclmdlExecuteAsync", "d2h": "aclrtSynchronizeStream"}
    for stage, entry in stages.items():
        repository.faults({"entry": entry, "kth": 1, "effect": "call", "code": 107003})
        repository.add(f"error_{stage}", parameter("warmup", "false"), om)
    load_all = [f"error_{stage}" for stage in stages]
    for stage, entry in stages.items():
        repository.faults({"entry": entry, "kth": 1, "effect": "call", "code": 107003})
        load(server, f"error_{stage}")
        status, message = refused(server, om, f"error_{stage}")
        assert (status, entry in message) == ("INTERNAL", True), message
        assert_answers(server, om, f"error_{stage}")
    repository.faults()
    for model in load_all:
        wait_until(lambda model=model: metrics(server, model).get(("ge_errors_total", "107003")) == 1)
    unload(server, *load_all)


@pytest.mark.slow
def test_every_client_is_answered_when_shared_memory_is_full():
    mount = "mount -t tmpfs -o size=24m tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no mount namespace of its own for a small /dev/shm")
    line = f"{mount} && exec {shlex.quote(sys.executable)} -m pytest -q -p no:cacheprovider tests/support/full_shm.py"
    child = subprocess.run(["unshare", "-m", "sh", "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout[-8000:]
    assert re.search(r"^6 passed", child.stdout, re.M), child.stdout


@pytest.mark.parametrize("responses", ["returned", pytest.param("sender", marks=pytest.mark.slow)])
def test_a_request_that_is_cancelled_while_another_runs_is_not_run(server, repository, responses):
    gears = {"kind": "dims", "values": [[2, 4], [2, 8]]}
    tensors = [("x", "float32", [-1, -1])], [("y", "float32", [-1, -1])]
    om = write_shaped(repository.oms / f"waiting_{responses}.om", *tensors, gears, exec_us=[2_000_000, 10_000])
    model = f"waiting_{responses}"
    add_model(
        repository.models, model, WAITING + parameter("warmup", "false") + parameter("responses", responses), om.path
    )
    load(server, model)
    answers = SimpleQueue()
    with closing(grpc.InferenceServerClient(server.grpc)) as connection:
        calls = []
        # The second completes the batch, and is to be in the model when it is cancelled; the first one takes 2 s.
        for length, pause_s in ((4, 0.3), (8, 1)):
            tensor = grpc.InferInput("x", [1, length], "FP32")
            tensor.set_data_from_numpy(np.ones((1, length), np.float32))
            calls.append(
                connection.async_infer(model, [tensor], lambda result, error, n=length: answers.put((n, result, error)))
            )
            time.sleep(pause_s)
        calls[1].cancel()
        length, _, error = answers.get(timeout=120)
        assert (length, error.status()) == (8, "StatusCode.CANCELLED")
        length, result, _ = answers.get(timeout=120)
        np.testing.assert_array_equal(result.as_numpy("y"), om.expected({"x": np.ones((2, 4), np.float32)})[0][:1])
    wait_until(lambda: metrics(server, model).get(("ge_errors_total", "CancelledError")) == 1)
    wait_until(lambda: metrics(server, model)["ge_rows_total",] == 1)
    ran = {gear: metrics(server, model)["ge_executions_total", gear] for gear in ("2x4", "2x8")}
    assert ran == {"2x4": 1, "2x8": 0}
    assert probe(server.http, model).ready
    unload(server, model)


def test_a_time_limit_refuses_at_once_and_ends_by_itself(server, repository):
    more = parameter("warmup", "false") + parameter("execute_timeout_ms", "100")
    om = repository.add("slow", more)
    repository.faults({"entry": "aclmdlExecuteAsync", "kth": 1, "effect": "delay", "delay_us": 2_000_000})
    load(server, "slow")
    repository.faults()
    began = time.monotonic()
    answers = [refused(server, om, "slow") for _ in range(3)]
    assert [status for status, _ in answers] == ["UNAVAILABLE"] * 3
    assert "The device is being asked again" in answers[2][1]
    if time.monotonic() - began < 1.5:
        assert not probe(server.http, "slow").ready
    wait_until(lambda: probe(server.http, "slow").ready)
    assert_answers(server, om, "slow")
    assert any("answers again, after" in line for line in lines(server, "slow"))
    unload(server, "slow")


def test_a_lost_device_is_told_and_the_supervisor_brings_a_new_worker(server, repository):
    om = repository.add("lost", parameter("warmup", "false"))
    repository.faults({"entry": "aclrtSynchronizeStream", "kth": 1, "effect": "call", "code": 507014})
    load(server, "lost")
    repository.faults()
    refused(server, om, "lost")
    for _ in range(2):
        status, message = refused(server, om, "lost")
        assert (status, "unload and load the model" in message) == ("UNAVAILABLE", True), message
    assert not probe(server.http, "lost").ready
    wait_until(lambda: metrics(server, "lost")["ge_restart_needed",] == 1)
    assert metrics(server, "lost")["ge_healthy",] == 0
    said = []
    assert Supervisor(server, said.append).look() == ["lost"]
    assert said[0].startswith("model lost: its device is lost to its process")
    assert_answers(server, om, "lost")
    wait_until(lambda: metrics(server, "lost")["ge_restart_needed",] == 0)  # once the old worker has gone
    unload(server, "lost")


def test_a_killed_worker_is_seen_and_replaced(server, repository):
    om = repository.add("killed", "instance_group [ { count: 2, kind: KIND_CPU } ]\n")
    load(server, "killed")
    said = []
    supervisor = Supervisor(server, said.append)
    assert probe(server.http, "killed").ready
    assert supervisor.look() == supervisor.look() == []
    for pid in worker_pids(server, "killed"):
        os.kill(pid, signal.SIGKILL)
    assert not probe(server.http, "killed").ready
    assert supervisor.look() == []  # once may be a model that is just being changed
    assert supervisor.look() == ["killed"]
    assert said == [
        "model killed: a worker of it is dead; loading it again",
        "model killed: serves again",
    ]
    assert probe(server.http, "killed").ready
    assert_answers(server, om, "killed")


def worker_pids(server, model):
    return [worker.pid for worker in live_workers(server.pid) if worker.model == model]
