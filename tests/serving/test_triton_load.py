# SPDX-License-Identifier: Apache-2.0
"""Eight clients with a thousand requests each, both ways to answer: every row is right, also during reloads."""

import json
import shutil
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from oms import write_synthetic
from triton_helpers import TRANSPORTS, Caller, add_model

import ge_core
from ge_core.server import tritonserver
from ge_core.server.tritonserver import ServerError, TritonServer
from ge_core.serving.model_config import config_pbtxt

INPUTS = [("ids", "int64", (-1, 6)), ("mask", "float32", (-1, 2))]
OUTPUTS = [("y", "float32", (-1, 5)), ("z", "int32", (-1, 1))]
CLIENTS, REQUESTS, MOST = 8, 1000, 4
MODES = {
    "returned": "",
    "sender": "".join(
        f'parameters: [ {{ key: "{key}" value: {{ string_value: "{value}" }} }} ]\n'
        for key, value in (("responses", "sender"), ("slots", "2"))
    ),
}


class Load:
    """A server with one model for each way to answer, and 512 rows with their answers."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        om = self.om(0)
        self.rows = om.random(512)
        self.answers = dict(zip(("y", "z"), om.expected(self.rows), strict=True))

    def om(self, version):
        """The same function in another file."""
        return write_synthetic(self.folder / "m.om", INPUTS, OUTPUTS, batch=(1, 2, 4, 8), weight_bytes=4096 * version)

    def client(self, model, number, transport):
        """A thousand requests of 1 to 4 random rows; how many rows they were."""
        rng = np.random.default_rng(number)
        asked = 0
        with closing(Caller(self.server, model, transport, self.most, self.answers)) as caller:
            for _ in range(REQUESTS):
                chosen = rng.integers(0, 512, rng.integers(1, MOST + 1))
                got = caller.infer({name: array[chosen] for name, array in self.rows.items()})
                for name, array in got.items():
                    np.testing.assert_array_equal(array, self.answers[name][chosen])
                asked += len(chosen)
        return asked

    @property
    def most(self):
        return {name: array[:MOST] for name, array in self.rows.items()}

    def run(self, model, transports):
        """Rows asked for by eight clients that use the transports in turn."""
        with ThreadPoolExecutor(CLIENTS) as clients:
            runs = [
                clients.submit(self.client, model, number, transports[number % len(transports)])
                for number in range(CLIENTS)
            ]
            return sum(run.result() for run in runs)

    def post(self, path):
        request = urllib.request.Request(f"http://{self.server.http}{path}", data=b"{}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def reload(self, model, version):
        shutil.copy(self.om(version).path, self.folder / "models" / model / "1" / "model.om")
        self.post(f"/v2/repository/models/{model}/load")

    def inferences(self, model):
        with urllib.request.urlopen(f"http://{self.server.http}/v2/models/{model}/stats", timeout=10) as answer:
            stats = json.load(answer)["model_stats"][0]
        return stats["inference_count"], stats["inference_stats"]["fail"]["count"]


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    try:
        tritonserver.find()
    except ServerError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("load")
    om = write_synthetic(folder / "m.om", INPUTS, OUTPUTS, batch=(1, 2, 4, 8))
    for model, more in MODES.items():
        config = config_pbtxt(ge_core.describe_model(om.path, "cpu"), model) + more + "dynamic_batching { }\n"
        add_model(folder / "models", model, config, om.path)
    arguments = ["--model-control-mode=explicit", "--disable-auto-complete-config"]
    arguments += [f"--load-model={model}" for model in MODES]
    with TritonServer(folder / "models", runtime="cpu", arguments=arguments) as server:
        yield Load(server, folder)


@pytest.mark.parametrize(
    "transport", ["grpc", *(pytest.param(other, marks=pytest.mark.slow) for other in ("http", "grpc+shm"))]
)
@pytest.mark.parametrize("model", MODES)
def test_every_row_of_eight_thousand_requests_is_right(load, model, transport):
    before, _ = load.inferences(model)
    asked = load.run(model, [transport])
    count, failed = load.inferences(model)
    assert (count - before, failed) == (asked, 0)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODES)
def test_every_row_is_right_and_no_request_fails_while_the_model_is_reloaded(load, model):
    ended, reloads = threading.Event(), []

    def reload():
        while not ended.is_set():
            load.reload(model, len(reloads) + 1)
            reloads.append(model)

    with ThreadPoolExecutor(1) as reloading:
        loop = reloading.submit(reload)
        try:
            assert load.run(model, TRANSPORTS) > CLIENTS * REQUESTS
        finally:
            ended.set()
        loop.result()
    assert reloads
