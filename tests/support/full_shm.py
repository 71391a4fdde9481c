# SPDX-License-Identifier: Apache-2.0
"""A server whose /dev/shm is too small for some answers: test_triton_operations.py runs it in a mount namespace.

unshare -m sh -c "mount -t tmpfs -o size=24m tmpfs /dev/shm && exec pytest tests/support/full_shm.py"
"""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from oms import write_synthetic
from triton_helpers import add_model, client, infer
from tritonclient.utils import InferenceServerException

from ge_core.server.tritonserver import TritonServer

ROOT = Path(__file__).parents[2]
RETURNED = 'backend: "{}"\nparameters: [ {{ key: "runtime" value: {{ string_value: "cpu" }} }} ]\n'
SENDER = RETURNED + 'parameters: [ {{ key: "responses" value: {{ string_value: "sender" }} }} ]\n'
# The room is not looked at beforehand, as if another process had taken it since.
BLIND = "\nfrom ge_core.serving import shm_space\n\nshm_space.SPARE_NBYTES = -(1 << 60)\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("full")
    om = write_synthetic(folder / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 1 << 19))], batch=(1, 16))
    add_model(folder / "models", "returned", RETURNED.format("ge"), om.path)
    add_model(folder / "models", "sender", SENDER.format("ge"), om.path)
    add_model(folder / "models", "blind", SENDER.format("python"), om.path)
    code = folder / "models" / "blind" / "1" / "model.py"
    shutil.copy(ROOT / "triton_model" / "1" / "model.py", code)
    code.write_text(code.read_text() + BLIND)
    with TritonServer(folder / "models", runtime="cpu", exit_timeout_s=5) as server:
        yield server, om
        assert server.stop() == 0, server.log


@pytest.mark.parametrize("transport", ["grpc", "http"])
@pytest.mark.parametrize(
    ("model", "statuses", "says"),
    [
        ("returned", ("StatusCode.UNAVAILABLE", "503"), "larger --shm-size"),
        ("sender", ("StatusCode.UNAVAILABLE", "503"), "larger --shm-size"),
        ("blind", ("StatusCode.INTERNAL", "500"), "expected a single response, got 0"),
    ],
)
def test_an_answer_without_room_is_an_error_and_the_next_one_is_right(served, model, statuses, says, transport):
    server, om = served
    small, large = om.random(1), om.random(16)
    with closing(client(server, transport)) as connection:
        for _ in range(3):
            with pytest.raises(InferenceServerException, match=says) as caught:
                infer(connection, model, large, ["y"], transport)
            assert caught.value.status() in statuses
            np.testing.assert_array_equal(infer(connection, model, small, ["y"], transport)[0], om.expected(small)[0])
