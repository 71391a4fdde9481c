# SPDX-License-Identifier: Apache-2.0
"""The supervisor and the probe against a server that plays tritonserver, and `ge-core serve` with a killed worker."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tritonclient.http as http
from oms import write_synthetic
from triton_helpers import add_model, infer

from ge_core.server import supervisor, tritonserver
from ge_core.server.probe import probe, zeros
from ge_core.server.supervisor import RestartNeeded, Supervisor, Worker, instances
from ge_core.server.tritonserver import ServerError

ROOT = Path(__file__).parents[2]


class FakeTriton:
    """Answers what the supervisor and the probe ask for; `answers` maps a path to (status, object)."""

    def __init__(self, lost):
        self.answers, self.asked, self.workers, self.lost = {}, [], [], lost
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                outer.asked.append((self.path, self.rfile.read(length)))
                status, content = outer.answer(self.path)
                body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http = f"127.0.0.1:{self.server.server_port}"
        self.pid = 1
        self.codes = []
        self.server.handle_error = lambda *arguments: None  # of clients that did not wait for their answer
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path):
        found = self.answers.get(path, (404, {"error": "unknown"}))
        return found() if callable(found) else found

    def wait(self, timeout_s):
        return self.codes.pop(0)

    def serve(self, model, backend="ge", count=1, state="READY"):
        """A model of which Triton says that it is ready."""
        config = {"backend": backend, "instance_group": [{"count": count}]}
        config |= {"runtime": "model.py"} if backend == "ge" else {}
        self.answers[f"/v2/models/{model}/versions/1/config"] = 200, config
        index = self.answers.setdefault("/v2/repository/index", (200, []))[1]
        index.append({"name": model, "version": "1", "state": state})

        def unload():
            index[:] = [entry for entry in index if entry["name"] != model]
            return 200, {}

        def load():
            index.append({"name": model, "version": "1", "state": "READY"})
            self.workers += [Worker(model, "1", 100 + number) for number in range(count)]
            return 200, {}

        self.answers[f"/v2/repository/models/{model}/unload"] = unload
        self.answers[f"/v2/repository/models/{model}/load"] = load


@pytest.fixture
def triton(monkeypatch, tmp_path):
    fake = FakeTriton(tmp_path)
    monkeypatch.setattr(supervisor, "live_workers", lambda pid: fake.workers)
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def test_instances_of_python_models_only():
    group = {"instance_group": [{"count": 2}, {"count": 1}]}
    assert instances({"backend": "python", **group}) == 3
    assert instances({"backend": "ge", "runtime": "model.py", **group}) == 3
    assert instances({"backend": "onnxruntime", "runtime": "", **group}) == 0
    assert instances({"platform": "ensemble"}) == 0


def test_a_model_with_all_its_workers_is_left_alone(triton):
    triton.serve("m", count=2)
    triton.serve("other", backend="onnxruntime")
    triton.workers = [Worker("m", "1", 7), Worker("m", "1", 8)]
    watching = Supervisor(triton, pytest.fail)
    assert watching.look() == watching.look() == []


def test_a_missing_worker_is_believed_the_second_time(triton):
    triton.serve("m", count=2)
    triton.workers = [Worker("m", "1", 7)]
    said = []
    watching = Supervisor(triton, said.append)
    assert [watching.look(), watching.look(), watching.look()] == [[], ["m"], []]
    assert said == ["model m: a worker of it is dead; loading it again", "model m: serves again"]


def test_what_went_with_a_model_is_loaded_too(triton):
    triton.serve("m")
    triton.serve("ensemble", backend="")
    unload = triton.answers["/v2/repository/models/m/unload"]

    def both():
        triton.answers["/v2/repository/index"][1].clear()
        return unload()

    triton.answers["/v2/repository/models/m/unload"] = both
    watching = Supervisor(triton, lambda text: None)
    watching.look()
    assert watching.look() == ["m"]
    loaded = [path for path, _ in triton.asked if path.endswith("/load")]
    assert loaded == ["/v2/repository/models/m/load", "/v2/repository/models/ensemble/load"]


def test_a_lost_device_is_believed_at_once_while_its_worker_lives(triton):
    triton.serve("m")
    triton.workers = [Worker("m", "1", 7)]
    watching = Supervisor(triton, lambda text: None)
    for pid, helped in ((99, []), (7, ["m"])):
        (triton.lost / str(pid)).touch()
        assert watching.look() == helped
    assert [file.name for file in triton.lost.iterdir()] == ["7"]  # it still ends
    triton.workers = [Worker("m", "1", 100)]
    assert watching.look() == [] == list(triton.lost.iterdir())


def test_workers_that_outlive_their_model_do_not_count_and_are_ended(triton, monkeypatch):
    killed, now = [], [1000.0]
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    monkeypatch.setattr(supervisor.os, "kill", lambda pid, number: killed.append((pid, number)))
    triton.serve("m", count=2)
    triton.workers = [Worker("m", "1", 7)]
    watching = Supervisor(triton, lambda text: None)
    watching.look()
    assert watching.look() == ["m"]
    triton.workers = [Worker("m", "1", 7), Worker("m", "1", 100)]  # 7 never ended; of the new two, one died
    now[0] += supervisor.FIRST_PAUSE_S + 1
    watching.look()
    assert (watching.look(), killed) == (["m"], [])
    now[0] += supervisor.LEAVE_LIMIT_S + 1
    watching.look()
    assert (7, signal.SIGKILL) in killed


def test_a_model_that_keeps_failing_is_loaded_ever_more_seldom(triton, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    triton.serve("m")
    triton.answers["/v2/repository/models/m/load"] = lambda: (
        triton.answers["/v2/repository/index"][1].append({"name": "m", "version": "1", "state": "READY"}) or (200, {})
    )
    watching = Supervisor(triton, lambda text: None)
    times = []
    while now[0] < 1200:
        if watching.look():
            times.append(now[0] - 1000)
        now[0] += 0.5
    pauses = np.diff(times)
    assert list(pauses[:4]) == sorted(pauses[:4]) and pauses[0] < 4
    assert max(pauses) <= supervisor.LONGEST_PAUSE_S + 1


def test_a_server_that_does_not_load_on_demand_must_be_started_again(triton):
    triton.serve("m")
    triton.answers["/v2/repository/models/m/unload"] = 400, {"error": "explicit model load / unload is not allowed"}
    triton.codes = [None, None, None]
    with pytest.raises(RestartNeeded, match=r"model m cannot be loaded again: .*not allowed"):
        Supervisor(triton, lambda text: None).watch(0)


def test_a_model_that_was_unloaded_is_loaded_though_triton_stopped_answering(triton, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    triton.serve("m")
    triton.serve("ensemble", backend="")
    unload, load = (triton.answers[f"/v2/repository/models/m/{order}"] for order in ("unload", "load"))
    index = triton.answers["/v2/repository/index"]

    def leave():  # the ensemble goes with it, and the next question fails
        index[1].clear()
        triton.answers["/v2/repository/index"] = 200, "no JSON"
        return unload()

    triton.answers["/v2/repository/models/m/unload"] = leave
    said = []
    watching = Supervisor(triton, said.append)
    assert watching.look() == []
    with pytest.raises(ValueError):
        watching.look()
    triton.answers["/v2/repository/index"] = index
    triton.answers["/v2/repository/models/m/load"] = 400, {"error": "no memory"}
    assert watching.look() == ["ensemble"]
    now[0] += supervisor.LONGEST_PAUSE_S
    triton.answers["/v2/repository/models/m/load"] = load
    assert watching.look() == ["m"]
    now[0] += supervisor.LONGEST_PAUSE_S
    assert watching.look() == watching.look() == []
    assert said == [
        "model m: a worker of it is dead; loading it again",
        'model m did not load, and is tried again: {"error": "no memory"}',
        "model ensemble: serves again",
        "model m: serves again",
    ]


@pytest.mark.parametrize("order", ["unload", "load"])
def test_a_server_that_leaves_an_order_unanswered_must_be_started_again(triton, monkeypatch, order):
    monkeypatch.setattr(supervisor, "LOAD_LIMIT_S", 0.2)
    triton.serve("m")
    over = threading.Event()
    triton.answers[f"/v2/repository/models/m/{order}"] = lambda: (over.wait(60), (200, {}))[1]
    watching = Supervisor(triton, lambda text: None)
    watching.look()
    with pytest.raises(RestartNeeded, match=f"no answer to the {order} of model m within 0.2 s"):
        watching.look()
    over.set()


def test_watching_ends_with_the_server(triton):
    triton.answers["/v2/repository/index"] = 500, "broken"
    triton.codes = [None, 3]
    assert Supervisor(triton, pytest.fail).watch(0) == 3


METADATA = {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["-1", "3"]}]}


@pytest.mark.parametrize(
    ("ready", "infer", "outcome"),
    [
        ((200, {}), (200, {}), (True, "answers")),
        ((200, {}), (400, {"error": "not these zeros"}), (True, "HTTP 400: not these zeros")),
        ((200, {}), (503, {"error": "the device"}), (False, "HTTP 503: the device")),
        ((200, {}), (500, {"error": "Stub process"}), (False, "HTTP 500: Stub process")),
        ((400, ""), (200, {}), (False, "not ready (HTTP 400)")),
    ],
)
def test_the_probe_asks_for_readiness_and_then_for_an_answer(triton, ready, infer, outcome):
    triton.answers |= {"/v2/models/m/ready": ready, "/v2/models/m": (200, METADATA), "/v2/models/m/infer": infer}
    assert probe(triton.http, "m") == outcome


def test_the_probe_of_a_server_that_is_not_there():
    (port,) = tritonserver.free_ports(1)
    outcome = probe(f"127.0.0.1:{port}", "m", 2)
    assert not outcome.ready and "does not answer" in outcome.text


def test_a_probe_sends_no_parameters_of_its_own():
    """Triton 26.05 refuses many names."""
    header = json.loads(zeros([{"name": "x", "datatype": "FP32", "shape": [-1, 2]}])[0])
    assert header["parameters"] == {"binary_data_output": True}
    assert header["inputs"][0]["parameters"] == {"binary_data_size": 8}


def test_zeros_for_every_type():
    inputs = [
        {"name": "x", "datatype": "FP32", "shape": [-1, 3]},
        {"name": "b", "datatype": "BF16", "shape": [2]},
        {"name": "s", "datatype": "BYTES", "shape": [-1]},
    ]
    header, body = zeros(inputs)
    sizes = [entry["parameters"]["binary_data_size"] for entry in json.loads(header)["inputs"]]
    assert sizes == [12, 4, 4]
    assert body == bytes(20)


@contextmanager
def serve(*arguments):
    """`ge-core serve` as a process; the lines of its log arrive in the list that the block gets."""
    ports = ["--port=0", "--grpc-port=0", "--metrics-port=0"]
    line = [sys.executable, "-c", "from ge_core.cli import app; app()", "serve", *map(str, arguments), *ports]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = []
    reader = threading.Thread(target=lambda: log.extend(iter(process.stderr.readline, "")), daemon=True)
    reader.start()
    try:
        yield process, log
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(60)
        reader.join()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.slow
def test_serve_brings_a_killed_worker_and_a_crashed_server_back(tmp_path):
    try:
        tritonserver.find()
    except ServerError as error:
        pytest.skip(str(error))
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (-1, 3))], [("y", "float32", (-1, 2))], batch=(1, 2))
    add_model(tmp_path / "models", "m", 'backend: "ge"\n', om.path)
    feeds = om.random(2)

    def answers(address):
        with closing(http.InferenceServerClient(address)) as connection:
            (got,) = infer(connection, "m", feeds, ["y"], "http")
        return np.array_equal(got, om.expected(feeds)[0])

    with serve(tmp_path / "models", "--runtime", "cpu", "--log-info=false", "--exit-timeout-secs=3") as (process, log):
        address = re.search(r"HTTP (127\.0\.0\.1:\d+)", process.stdout.readline())[1]
        server = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        assert answers(address)
        (worker,) = supervisor.live_workers(server)
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: any("model m: serves again" in line for line in log))
        assert answers(address)
        os.kill(server, signal.SIGKILL)
        assert address in process.stdout.readline()
        assert answers(address)
        assert any("tritonserver ended with code -9; starting the server again" in line for line in log)
        server = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        process.kill()  # whoever starts it again finds the ports and the device free
        wait_until(lambda: not Path(f"/proc/{server}").exists())


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
