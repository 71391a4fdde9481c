# SPDX-License-Identifier: Apache-2.0
"""The adapter between Triton and a session, without a server: rows, answers, refusals, device faults."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import graphs
import numpy as np
import pytest
from oms import write_synthetic
from pb_utils import InferenceRequest, PbUtils, Pool, TritonError
from served import Served, answer, model_config

import ge_core
from ge_core import serving
from ge_core.engine import engine_of
from ge_core.serving import instances, loading, shm_space
from ge_core.serving.execution import failures, running, sender, shared_memory
from ge_core.serving.execution.responses import Output, OutputTensorPool
from ge_core.serving.options import ServingOptions
from ge_core_pyx import slot
from ge_core_pyx.arrays import OutputTarget


def assert_right(om, feeds, answers):
    for feed, outputs in zip(feeds, answers, strict=True):
        for expected, got in zip(om.expected(feed), outputs.values(), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.fixture
def folder(tmp_path):
    version = tmp_path / "1"
    version.mkdir()
    return version


@pytest.fixture
def gears(folder):
    """Two inputs, two outputs, batches 1, 2, 4, 8."""
    return write_synthetic(
        folder / "gears.om",
        [("ids", "int64", (-1, 6)), ("mask", "float32", (-1, 2, 3))],
        [("scores", "float32", (-1, 5)), ("labels", "int32", (-1,))],
        batch=(1, 2, 4, 8),
    )


@pytest.fixture
def static(folder):
    return write_synthetic(folder / "static.om", [("x", "float32", (4, 3))], [("y", "float16", (4, 2))])


@pytest.fixture
def served(request):
    """A factory of Served that closes what it made."""
    made = []

    def make(om, **fields):
        made.append(Served(om, **fields))
        return made[-1]

    yield make
    for one in made:
        one.model.close()


def test_one_request_gets_its_rows(gears, served):
    feeds = gears.random(3)
    assert_right(gears, [feeds], served(gears).ask(feeds))


def test_requests_of_one_call_run_together_and_get_their_own_rows(gears, served):
    one = served(gears)
    feeds = [gears.random(rows, seed=rows) for rows in (1, 2, 1, 3, 1)]
    before = one.model.session.stats()["executions"]
    assert_right(gears, feeds, one.ask(*feeds))
    assert one.model.session.stats()["executions"] == before + 1


def test_more_rows_than_the_largest_gear_are_cut_and_put_together(gears, served):
    one = served(gears)
    before = one.model.session.stats()["executions"]
    feeds = [gears.random(20), gears.random(3, seed=1), gears.random(6, seed=2)]
    assert_right(gears, feeds, one.ask(*feeds))
    assert one.model.session.stats()["executions"] == before + 4


def test_call_after_call_uses_the_one_slot(gears, served):
    one = served(gears)
    for seed in range(5):
        feeds = [gears.random(1 + seed, seed=seed)]
        assert_right(gears, feeds, one.ask(*feeds))
    assert one.model.session.stats()["slots"] == 1


def test_a_static_model_pads_fewer_rows(static, served):
    one = served(static)
    whole = static.random(4)
    feeds = [{"x": whole["x"][:1]}, {"x": whole["x"][1:3]}]
    first, second = one.ask(*feeds)
    padded = np.zeros((4, 3), np.float32)
    padded[:3] = whole["x"][:3]
    (expected,) = static.expected({"x": padded})
    np.testing.assert_array_equal(first["y"], expected[:1])
    np.testing.assert_array_equal(second["y"], expected[1:3])


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """A worker's shared-memory region, and what the worker does with an answer's tensors."""
    pool = Pool(tmp_path / "region")
    monkeypatch.setattr(shared_memory, "region_file", lambda: pool.path)
    return pool


class TestKeptTensors:
    def rounds(self, one, om, pool, count=4):
        """The tensor objects of so many answers; every answer is right."""
        seen = []
        for seed in range(count):
            feeds = om.random(2, seed=seed)
            (response,) = one.model.execute([one.request(feeds)])
            for tensor in response.output_tensors():
                tensor.send(pool)
            seen.append(response.output_tensors())
            np.testing.assert_array_equal(seen[-1][0].bits(), om.expected(feeds)[0])
        return seen

    def test_in_the_pool_they_are_sent_again(self, gears, served, pool):
        seen = self.rounds(served(gears), gears, pool)
        assert all(tensors[0] is seen[0][0] and tensors[1] is seen[0][1] for tensors in seen)
        assert seen[0][0].sends == 4

    def test_elsewhere_each_answer_has_its_own(self, gears, served, pool):
        seen = self.rounds(served(gears), gears, None)
        assert len({id(tensors[0]) for tensors in seen}) == 4

    def test_of_another_shape_they_are_left_alone(self, gears, served, pool):
        one = served(gears)
        first = self.rounds(one, gears, pool, 1)[0][0]
        first._array = first._array.reshape(-1)
        assert self.rounds(one, gears, pool, 1)[0][0] is not first

    def test_two_requests_of_a_call_never_share_one(self, gears, served, pool):
        one = served(gears)
        for seed in range(3):
            feeds = [gears.random(1, seed=2 * seed), gears.random(1, seed=2 * seed + 1)]
            responses = one.model.execute([one.request(feed) for feed in feeds])
            for response in responses:
                for tensor in response.output_tensors():
                    tensor.send(pool)
            for feed, response in zip(feeds, responses, strict=True):
                np.testing.assert_array_equal(response.output_tensors()[0].bits(), gears.expected(feed)[0])

    def test_unused_ones_hold_a_bounded_amount(self):
        outputs = (Output("y", 0, "float32", (5,), 1),)
        pool = OutputTensorPool(PbUtils(), outputs, keep_nbytes=200)
        for rows in (1, 2, 3, 4, 5, 6, 7, 8, 1):
            taken = pool.take(outputs, rows)
            assert pool.free_nbytes + taken.nbytes == pool.nbytes <= 200 + rows * 20
            pool.give_back(taken)

    def test_unused_ones_are_given_up_where_room_is_short(self, monkeypatch):
        outputs = (Output("y", 0, "float32", (5,), 1),)
        pool = OutputTensorPool(PbUtils(), outputs)
        used = [pool.take(outputs, rows) for rows in (1, 2, 3)]
        pool.give_back(used[0])
        found = iter([shm_space.Room(False, "too little"), shm_space.SHORT])
        monkeypatch.setattr(shm_space, "room", lambda need: next(found))
        assert pool.room([1]) == shm_space.SHORT
        assert pool.free_nbytes == 0
        assert pool.nbytes == used[1].nbytes + used[2].nbytes

    def test_those_of_failed_executions_are_used_again(self, gears, served, stand_in):
        one = served(gears)
        for _ in range(3):
            with stand_in.failing("aclrtSynchronizeStream", 107003):
                assert one.ask(gears.random(2))[0].code() == TritonError.INTERNAL
        assert one.model.tensors.nbytes == 2 * (5 * 4 + 4)  # of one response

    def test_the_device_writes_there_itself_where_it_may(self, gears, served, pool, stand_in):
        one = served(gears, parameters={"register_memory": "true"})
        assert one.model.tensors.in_place
        seen = self.rounds(one, gears, pool, 2)
        queued = stand_in.counter("calls.aclrtMemcpyAsync")
        seen += self.rounds(one, gears, pool)
        assert stand_in.counter("calls.aclrtMemcpyAsync") - queued == 4 * (1 + 2)  # the inputs, and each output
        assert all(tensors[0] is seen[0][0] for tensors in seen)
        requests = [gears.random(rows, seed=rows) for rows in (3, 9)]
        assert_right(gears, requests, one.ask(*requests))
        one.model.close()
        assert not one.model.tensors.in_place

    def test_one_that_the_device_may_still_write_into_is_not_used_again(self, gears, pool, stand_in):
        limits = {"register_memory": "true", "slots": "2", "execute_timeout_ms": "200"}
        one, feeds = Served(gears, parameters=limits), gears.random(2)

        def tensors(one):
            responses = one.model.execute([one.request(feeds), one.request(feeds)])
            for tensor in (sent := [tensor for response in responses for tensor in response.output_tensors()]):
                tensor.send(pool)
            return sent

        kept = tensors(one)
        assert {*map(id, tensors(one))} == {*map(id, kept)}
        with stand_in.injecting("aclmdlExecuteAsync", effect="delay", delay_us=400_000):
            assert tensors(one) == []
        again = tensors(one)
        assert len(again) == len(kept) and {*map(id, again)}.isdisjoint(map(id, kept))
        assert one.model.tensors.nbytes == 2 * 2 * (5 * 4 + 4)  # of two responses
        one.model.close()
        del one, kept, again
        while slot.release_abandoned():
            time.sleep(0.01)

    def test_a_runtime_that_cannot_pin_it_is_said_and_copies(self, gears, served, pool, stand_in):
        with stand_in.failing("aclrtHostRegisterV2", 200001):
            one = served(gears, parameters={"register_memory": "true"})
        assert any("cannot pin Triton's shared memory" in line for line in one.pb_utils.Logger.lines)
        self.rounds(one, gears, pool)

    def test_the_region_is_the_one_the_command_line_names(self, tmp_path, monkeypatch):
        assert shared_memory.region_file() is None
        assert shared_memory.SharedRegion().holds(OutputTarget(np.empty(1))) is False


def test_max_batch_size_0_takes_whole_shapes(static, served):
    one = served(static, input=[{"name": "x", "data_type": "TYPE_FP32", "dims": [4, 3]}])
    assert one.config["max_batch_size"] == 0
    assert one.config["output"] == [{"name": "y", "data_type": "TYPE_FP16", "dims": [4, 2]}]
    feeds = [static.random(4), static.random(4, seed=1)]
    assert_right(static, feeds, one.ask(*feeds))


def test_a_model_without_rows_runs_request_by_request(folder, served):
    om = write_synthetic(
        folder / "m.om", [("x", "float32", (2, 3)), ("scale", "float32", (1,))], [("y", "float32", (5,))]
    )
    one = served(om)
    assert one.config["max_batch_size"] == 0
    feeds = [om.random(0), om.random(0, seed=1)]
    assert_right(om, feeds, one.ask(*feeds))
    good, bad, good_too = one.ask(feeds[0], {**feeds[0], "x": np.zeros((3, 3), np.float32)}, feeds[1])
    assert_right(om, feeds, [good, good_too])
    assert bad.code() == TritonError.INVALID_ARG
    assert bad.message() == "input 'x': expected FP32 [2, 3], got FP32 [3, 3]"


def test_only_requested_outputs_are_returned(gears, served):
    one = served(gears)
    (response,) = one.model.execute([one.request(gears.random(1), wanted=["labels"])])
    assert list(answer(response)) == ["labels"]


def test_the_configuration_may_use_full_names_and_leave_outputs_out(folder, served):
    outputs = [("n:0:y", "float32", (-1, 2)), ("n:1:z", "float32", (-1,))]
    om = write_synthetic(folder / "m.om", [("x", "float32", (-1, 2))], outputs, batch=(1, 2))
    one = served(om, output=[{"name": "n:0:y", "data_type": "TYPE_FP32", "dims": [2]}])
    (answers,) = one.ask(om.random(2))
    assert list(answers) == ["n:0:y"]
    np.testing.assert_array_equal(answers["n:0:y"], om.expected(om.random(2))[0])


BAD = [
    (lambda f: {**f, "ids": f["ids"].astype(np.int32)}, "input 'ids': expected INT64 [rows, 6], got INT32 [2, 6]"),
    (lambda f: {**f, "ids": f["ids"][:, :5]}, "input 'ids': expected INT64 [rows, 6], got INT64 [2, 5]"),
    (lambda f: {**f, "mask": f["mask"][0, 0]}, "input 'mask': expected FP32 [rows, 2, 3], got FP32 [3]"),
    (lambda f: {**f, "mask": f["mask"][:1]}, "input 'mask': expected 2 rows as in 'ids', got FP32 [1, 2, 3]"),
    (lambda f: {"ids": f["ids"]}, "input 'mask' is missing; expected FP32 [rows, 2, 3]"),
    (lambda f: {**f, "extra": f["ids"]}, "input 'extra' is not one of this model's: ids, mask"),
    (lambda f: {**f, "ids": np.array([b"a"], object)}, "input 'ids': expected INT64 [rows, 6], got BYTES [1]"),
    (
        lambda f: {name: array[:0] for name, array in f.items()},
        "input 'ids': expected at least 1 row, got INT64 [0, 6]",
    ),
    (
        lambda f: {**f, "mask": (np.zeros(f["mask"].shape, np.uint16), "bfloat16")},
        "input 'mask': expected FP32 [rows, 2, 3], got BF16 [2, 2, 3]",
    ),
]


@pytest.mark.parametrize(("spoil", "says"), BAD)
def test_a_bad_request_is_told_and_its_mates_are_answered(gears, served, spoil, says):
    one = served(gears)
    good = [gears.random(2), gears.random(1, seed=1)]
    first, bad, last = one.ask(good[0], spoil(gears.random(2, seed=2)), good[1])
    assert (bad.code(), bad.message()) == (TritonError.INVALID_ARG, says)
    assert_right(gears, good, [first, last])


def test_each_failure_is_logged_with_the_id_of_its_request(gears, served, stand_in):
    one = served(gears)
    requests = [one.request(feeds) for feeds in (gears.random(1), {}, gears.random(2))]
    for request, number in zip(requests, ("first", "second" * 1000, ""), strict=True):
        request.id = number
    one.pb_utils.Logger.lines.clear()
    with stand_in.failing("aclmdlExecuteAsync", 107003):
        one.model.execute(requests)
    lines = one.pb_utils.Logger.lines
    assert lines[0].startswith(f"GE Backend: request {('second' * 1000)[:200]} failed: input 'ids' is missing")
    assert lines[1].startswith("GE Backend: request first failed: aclmdlExecuteAsync returned 107003")
    assert lines[2].startswith("GE Backend: request without id failed: aclmdlExecuteAsync returned 107003")
    assert len(lines) == 3


def test_a_flood_of_failures_does_not_flood_the_log(monkeypatch):
    log, now = PbUtils().Logger, [100.0]
    failed = failures.FailureLog(log)
    monkeypatch.setattr(failures.time, "monotonic", lambda: now[0])
    for _ in range(failures.LINES_PER_S + 7):
        failed.log(InferenceRequest({}, []), "no")
    assert len(log.lines) == failures.LINES_PER_S
    now[0] += 1
    failed.log(InferenceRequest({}, []), "no")
    assert log.lines[-2:] == [
        "GE Backend: 7 more requests failed meanwhile",
        "GE Backend: request without id failed: no",
    ]


def test_what_no_release_can_do_is_unsupported(gears, served, monkeypatch):
    one = served(gears)

    def launch(*arguments):
        raise ge_core.UnsupportedError("AscendCL gave no shape")

    monkeypatch.setattr(engine_of(one.model.session), "launch", launch)
    (error,) = one.ask(gears.random(1))
    assert (error.code(), error.message()) == (TritonError.UNSUPPORTED, "AscendCL gave no shape")


def test_bad_requests_alone_touch_no_device(gears, served):
    one = served(gears)
    before = one.model.session.stats()["executions"]
    (bad,) = one.ask({})
    assert bad.code() == TritonError.INVALID_ARG
    assert one.model.session.stats()["executions"] == before
    assert one.model.execute([]) == []


@pytest.mark.parametrize("entry", ["aclrtMemcpyAsync", "aclmdlExecuteAsync", "aclrtSynchronizeStream"])
def test_a_device_error_is_an_answer_and_the_model_comes_back(gears, served, stand_in, entry):
    one = served(gears)
    feeds = gears.random(2)
    with stand_in.failing(entry, 107003):
        failed = one.ask(feeds, feeds)
    assert [error.code() for error in failed] == [TritonError.INTERNAL] * 2
    assert all(entry in error.message() and "Traceback" not in error.message() for error in failed)
    assert any(entry in line for line in one.pb_utils.Logger.lines)
    assert_right(gears, [feeds], one.ask(feeds))


def test_a_time_limit_is_unavailable(gears, served, stand_in):
    one = served(gears)
    with stand_in.failing("aclrtMemcpyAsync", 507046):  # the first call: nothing is left running on the device
        (failed,) = one.ask(gears.random(1))
    assert failed.code() == TritonError.UNAVAILABLE


def test_one_failed_execution_of_several_fails_its_own_requests(gears, served, stand_in):
    one = served(gears)
    feeds = [gears.random(8), gears.random(8, seed=1)]
    with stand_in.failing("aclmdlExecuteAsync", 107003, kth=2):
        first, second = one.ask(*feeds)
    assert_right(gears, feeds[:1], [first])
    assert second.code() == TritonError.INTERNAL


def test_a_request_that_failed_in_several_executions_failed_once(gears, served, monkeypatch):
    one = served(gears)

    def launch(*arguments):
        raise TimeoutError("no free slot")

    monkeypatch.setattr(engine_of(one.model.session), "launch", launch)
    (error,) = one.ask(gears.random(20))
    assert error.code() == TritonError.UNAVAILABLE
    assert sum("request without id failed: no free slot" in line for line in one.pb_utils.Logger.lines) == 1


def test_nothing_is_raised_out_of_execute(gears, served):
    one = served(gears)

    class Broken:
        def inputs(self):
            raise RuntimeError("broken")

    (response,) = one.model.execute([Broken()])
    assert (response.error().code(), response.error().message()) == (TritonError.INTERNAL, "RuntimeError: broken")


def test_loading_says_in_one_line_what_runs_where(gears, served):
    one = served(gears)
    line, *more = one.pb_utils.Logger.lines
    assert line.startswith(f"GE Backend: 'm' serves {gears.path} (Ascend910B3) on runtime cpu (the CPU implementation")
    assert "device 0; batch gears 1, 2, 4, 8; max_batch_size 8; 1 slot(s), responses returned;" in line
    assert "every gear warmed up" in line
    assert any("`dynamic_batching { }` merges up to 8 rows" in other for other in more)


def test_warming_up_runs_each_gear_and_can_be_left_out(gears, served):
    assert served(gears).model.session.stats()["executions"] == 8
    assert served(gears, parameters={"warmup": "false"}).model.session.stats()["executions"] == 0


def test_a_model_that_cannot_run_fails_to_load(gears, served, stand_in):
    with stand_in.failing("aclmdlExecuteAsync", 500001), pytest.raises(RuntimeError, match="aclmdlExecuteAsync"):
        served(gears)


def test_initialize_compares_by_itself_when_auto_complete_is_off(gears):
    one = Served.__new__(Served)
    one.om, one.pb_utils = gears, PbUtils()
    one.config = model_config(parameters={"runtime": "cpu"}, max_batch_size=16)
    with pytest.raises(ValueError, match=r"max_batch_size 16 in config\.pbtxt, at most 8 in the om"):
        serving.load(one.pb_utils, one.arguments(0))


def test_numpy_2_is_refused_where_the_stub_cannot_take_it(monkeypatch):
    monkeypatch.setattr(np, "__version__", "2.1.0")
    old, new = PbUtils(), PbUtils()
    new.InferenceResponse = type("InferenceResponse", (), {"parameters": None})
    loading.refuse_numpy_2(new)
    with pytest.raises(RuntimeError, match="numpy<2"):
        loading.refuse_numpy_2(old)


class TestTemplate:
    """The model.py that calls load()."""

    def warnings(self, one, *defaults, instance=0, **options):
        one.pb_utils.Logger.lines.clear()
        serving.load(one.pb_utils, one.arguments(instance), *defaults, **options).close()
        return [line for line in one.pb_utils.Logger.lines if "older than the installed ge_core" in line]

    def test_an_older_copy_works_and_the_log_says_what_to_do(self, gears, served, folder):
        (line,) = self.warnings(served(gears))
        assert f"is served by {folder / 'model.py'}, which is older" in line
        assert line.endswith("replace it by triton_model/1/model.py of this release")

    def test_an_older_backend_names_the_command(self, gears, served, tmp_path):
        (line,) = self.warnings(served(gears), tmp_path / "backends" / "ge" / "defaults.json")
        assert line.endswith(f"run `ge-core install-backend {tmp_path / 'backends'}` again")

    def test_only_the_first_instance_says_it_and_nobody_of_a_present_one(self, gears, served):
        assert self.warnings(served(gears, count=2), instance=1) == []
        assert self.warnings(served(gears), template=loading.TEMPLATE) == []

    @pytest.mark.parametrize("path", ["triton_model/1/model.py", "ge_core/serving/backend/model.py"])
    def test_both_templates_are_present_ones(self, path):
        text = (Path(__file__).parents[2] / path).read_text()
        assert f"\nTEMPLATE = {loading.TEMPLATE} " in text and "template=TEMPLATE)" in text


def test_a_runner_can_be_wrapped_for_measurements(gears, served):
    seen = []

    class Recorder:
        def __init__(self, runner):
            self.runner = runner

        def start(self, batch, began):
            seen.append("start")
            self.runner.start(batch, began)

        def finish(self, batch):
            self.runner.finish(batch)
            seen.append("finish")

    one = served(gears)
    one.model.close()
    one.model = serving.load(one.pb_utils, one.arguments(0), wrap_runner=Recorder)
    assert_right(gears, [gears.random(2)], one.ask(gears.random(2)))
    assert seen == ["start", "finish"]


class TestModelFile:
    def test_the_one_om_of_the_version_folder(self, folder):
        (folder / "any.om").touch()
        assert loading.find_om(ServingOptions(), folder) == folder / "any.om"

    def test_none_or_several_are_listed(self, folder):
        with pytest.raises(ValueError, match=r"expected one .om in .*, found none"):
            loading.find_om(ServingOptions(), folder)
        (folder / "b.om").touch()
        (folder / "a.om").touch()
        with pytest.raises(ValueError, match=r"found a.om, b.om; parameter om_model_path"):
            loading.find_om(ServingOptions(), folder)

    def test_a_parameter_names_it_from_the_version_folder_or_absolutely(self, folder, tmp_path):
        (tmp_path / "model.om").touch()
        relative, absolute = (
            ServingOptions(om_model_path="../model.om"),
            ServingOptions(om_model_path=f"{tmp_path}/model.om"),
        )
        assert loading.find_om(relative, folder).samefile(tmp_path / "model.om")
        assert loading.find_om(absolute, folder) == tmp_path / "model.om"
        with pytest.raises(ValueError, match=r"om_model_path 'no.om': there is no file .*1/no.om"):
            loading.find_om(ServingOptions(om_model_path="no.om"), folder)

    def test_roots_limit_where_it_may_lie(self, gears, served, monkeypatch, tmp_path):
        monkeypatch.setenv("GE_CORE_MODEL_ROOTS", str(tmp_path / "elsewhere"))
        with pytest.raises(ValueError, match="outside the folders that GE_CORE_MODEL_ROOTS allows"):
            served(gears)


class Clock:
    """A clock, and a condition whose waits turn it forward."""

    def __init__(self):
        self.time, self.waits = 0.0, []

    def now(self):
        return self.time

    def wait(self, seconds):
        self.waits.append(round(seconds, 6))
        self.time += seconds

    def notify(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class TestSender:
    """Answers through response senders."""

    @pytest.fixture
    def sender(self, served):
        return lambda om, slots=2, **fields: served(
            om, **fields | {"parameters": {"responses": "sender", "slots": str(slots)} | fields.get("parameters", {})}
        )

    def ask(self, one, *feeds):
        requests = [one.request(feed) for feed in feeds]
        assert one.model.execute(requests) is None
        answers = [request.sender.answers.get(timeout=300) for request in requests]
        assert all(request.sender.answers.empty() for request in requests)
        return answers

    def test_every_request_gets_its_rows(self, gears, sender):
        one = sender(gears)
        for seed in range(20):
            feeds = [gears.random(rows, seed=seed * 10 + rows) for rows in (1, 3, 2)]
            assert_right(gears, feeds, self.ask(one, *feeds))

    def test_batches_of_several_calls_are_in_flight_at_once(self, folder, sender):
        om = write_synthetic(folder / "m.om", [("x", "float32", (1, 3))], [("y", "float32", (1, 2))], exec_us=30_000)
        one = sender(om, slots=3)
        feeds = [om.random(1, seed=seed) for seed in range(3)]
        requests = [one.request(feed) for feed in feeds]
        for request in requests[:2]:
            one.model.execute([request])  # returns: there is room for a third
        assert all(request.sender.answers.empty() for request in requests)
        one.model.execute(requests[2:])  # waits until the first is answered
        assert not requests[0].sender.answers.empty()
        assert_right(om, feeds, [request.sender.answers.get(timeout=300) for request in requests])

    def test_the_next_call_is_taken_shortly_before_the_device_is_idle(self):
        clock = Clock()
        pace = sender.DevicePace(clock, clock.now)
        pace.begin(8)
        pace.wait()  # how long it takes is not known yet
        clock.time = 0.3
        pace.end(learn=True)
        for began in (0.3, 0.31):
            clock.time = began
            pace.begin(8)
        pace.wait()
        assert clock.waits == [0.585] and clock.time == pytest.approx(0.9 - sender.LEAD_S)
        clock.time = 0.5
        pace.end(learn=True)  # 0.2 s: from now on that is the shortest
        pace.wait()
        assert clock.waits[1:] == [0.195]
        pace.end(learn=False)  # a failure says nothing about how long it takes
        pace.begin(8)
        pace.begin(1)
        pace.wait()
        assert len(clock.waits) == 2  # of one row nothing is known

    def test_a_batch_that_seemed_to_take_no_time_is_forgotten(self):
        clock = Clock()
        pace = sender.DevicePace(clock, clock.now)

        def asks_to_wait():
            clock.waits.clear()
            pace.begin(8)
            pace.wait()
            return bool(clock.waits)

        pace.begin(8)
        pace.end(learn=True)  # finished together with the one before it
        for _ in range(sender.REMEMBERED):
            assert not asks_to_wait()
            clock.time += 0.02
            pace.end(learn=True)
        assert asks_to_wait()

    def test_rows_beyond_the_largest_gear_are_one_answer(self, gears, sender):
        feeds = [gears.random(20), gears.random(3, seed=1)]
        assert_right(gears, feeds, self.ask(sender(gears), *feeds))

    def test_a_bad_request_is_told_at_once_and_its_mates_are_answered(self, gears, sender):
        good = gears.random(2)
        first, bad, last = self.ask(sender(gears), good, {}, good)
        assert bad.code() == TritonError.INVALID_ARG
        assert_right(gears, [good, good], [first, last])

    @pytest.mark.parametrize("entry", ["aclrtMemcpyAsync", "aclmdlExecuteAsync", "aclrtSynchronizeStream"])
    def test_a_device_error_is_one_answer_each(self, gears, sender, stand_in, entry):
        one = sender(gears)
        feeds = gears.random(2)
        with stand_in.failing(entry, 107003):
            failed = self.ask(one, feeds, feeds)
        assert [error.code() for error in failed] == [TritonError.INTERNAL] * 2
        assert_right(gears, [feeds], self.ask(one, feeds))

    def test_an_answer_that_shared_memory_has_no_room_for_is_an_error(self, gears, sender, monkeypatch):
        monkeypatch.setattr(shm_space, "SPARE_NBYTES", 1 << 60)
        (failed,) = self.ask(sender(gears), gears.random(1))
        assert failed.code() == TritonError.UNAVAILABLE
        assert "--shm-size" in failed.message()

    def test_room_counts_whole_steps_of_the_region_for_each_tensor(self, monkeypatch):
        region = shared_memory.SharedRegion()
        free = SimpleNamespace(f_bavail=200, f_blocks=200, f_frsize=1 << 20)
        monkeypatch.setattr(shm_space.os, "statvfs", lambda folder: free)
        assert region.room([1, 1 << 20]) == shm_space.AMPLE  # 1 + 2 MiB
        free.f_bavail = 66
        assert region.room([1, 1 << 20]) == shm_space.SHORT
        free.f_bavail = 3
        room = region.room([1, 1 << 20])
        assert not room.ample and room.problem.startswith(
            "the answer needs 3,145,728 bytes of shared memory and /dev/shm has 3,145,728"
        )
        own = SimpleNamespace(shared_memory=SimpleNamespace(free_memory=lambda: 4 << 20))
        monkeypatch.setitem(sys.modules, "c_python_backend_utils", own)
        assert region.room([1, 1 << 20]) == shm_space.SHORT  # it may be in pieces
        assert region.room([]) == shm_space.AMPLE

    @pytest.mark.parametrize("ample", [0, 1 << 60])
    def test_an_answer_that_cannot_be_sent_stops_nobody(self, gears, sender, monkeypatch, ample):
        monkeypatch.setattr(shm_space, "AMPLE_NBYTES", ample)
        one = sender(gears)
        request = one.request(gears.random(1))
        request.sender.fails = True
        one.model.execute([request])
        assert_right(gears, [gears.random(2)], self.ask(one, gears.random(2)))
        assert any("could not be sent" in line for line in one.pb_utils.Logger.lines)
        if ample:  # room was short: the client is told all the same
            assert request.sender.answers.get(timeout=0).message() == "expected a single response, got 0"

    def test_nothing_is_raised_out_of_execute(self, gears, sender):
        one = sender(gears)
        request = one.request(gears.random(1))
        request.inputs = None
        one.model.execute([request])
        assert request.sender.answers.get(timeout=300).code() == TritonError.INTERNAL

    def test_closing_waits_for_what_is_in_flight(self, gears, sender):
        one = sender(gears)
        request = one.request(gears.random(1))
        one.model.execute([request])
        one.model.close()
        assert_right(gears, [gears.random(1)], [request.sender.answers.get(timeout=0)])


def image(height, width):
    return {"image": np.random.default_rng(height).standard_normal((1, 2, height, width), np.float32)}


def sequence(batch, length):
    return {"ids": np.random.default_rng(length).integers(0, 20, (batch, length))}


def asked(one, responses, *feeds):
    """Answers of one call, whichever way they come."""
    return received(one, responses, [one.request(feed) for feed in feeds])


def received(one, responses, requests):
    returned = one.model.execute(requests)
    if responses == "sender":
        return [request.sender.answers.get(timeout=300) for request in requests]
    return [answer(response) for response in returned]


def assert_close(answers, expected):
    for got, wanted in zip(answers.values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-4, rtol=1e-4)


class TestKinds:
    """Models whose rows are not the whole story."""

    def test_bfloat16_comes_and_goes_as_its_bits(self, folder, served):
        om = write_synthetic(
            folder / "m.om", [("x", "bfloat16", (-1, 6))], [("y", "bfloat16", (-1, 4))], batch=(1, 2, 4)
        )
        one = served(om)
        assert one.config["input"][0]["data_type"] == one.config["output"][0]["data_type"] == "TYPE_BF16"
        for seed in range(3):
            feeds = om.random(3, seed=seed)
            (answers,) = one.ask({"x": (feeds["x"], "bfloat16")})
            np.testing.assert_array_equal(answers["y"], om.expected(feeds)[0])

    def test_a_range_model_answers_each_shape(self, folder, served):
        graph = graphs.sequence(folder, ranges="1~4,2~16")
        one = served(graph, parameters={"slots": "2"})
        assert one.config["max_batch_size"] == 0
        feeds = [sequence(1, 2), sequence(4, 16), sequence(2, 7)]
        for feed, answers in zip(feeds, one.ask(*feeds), strict=True):
            assert_close(answers, graph.reference(feed))
        (bad,) = one.ask(sequence(5, 2))
        assert (bad.code(), "1~4" in bad.message()) == (TritonError.INVALID_ARG, True)

    @pytest.mark.parametrize("responses", ["returned", "sender"])
    def test_image_sizes_of_one_call_run_side_by_side_and_are_padded_where_declared(self, folder, served, responses):
        graph = graphs.convolution(folder, gears="8,8;20,12")
        axes = "map:2=image:2,map:3=image:3"
        one = served(graph, parameters={"slots": "2", "output_axes": axes, "responses": responses})
        feeds = [image(8, 8), image(20, 12), image(7, 5), image(8, 8)]
        answers = asked(one, responses, *feeds)
        for number in (0, 1, 3):
            assert_close(answers[number], graph.reference(feeds[number]))
        assert answers[2]["map"].shape[2:] == (7, 5)

    @pytest.mark.parametrize("responses", ["returned", "sender"])
    def test_requests_of_a_call_are_grouped_by_trailing_shape(self, folder, served, responses):
        graph = graphs.sequence(folder, gears="1,4;4,4;2,8;4,16")
        one = served(graph, max_batch_size=4, parameters={"responses": responses, "pad_value": "3"})
        assert one.config["input"] == [{"name": "ids", "data_type": "TYPE_INT64", "dims": [-1]}]
        assert one.config["output"] == [{"name": "hidden", "data_type": "TYPE_FP32", "dims": [-1, 4]}]
        feeds = [sequence(*shape) for shape in [(1, 4), (2, 8), (1, 4), (1, 16), (1, 4), (3, 8)]]
        before = one.model.session.stats()
        for feed, answers in zip(feeds, asked(one, responses, *feeds), strict=True):
            assert_close(answers, graph.reference(feed))
        after = one.model.session.stats()
        ran = {gear: after["executions_by_gear"][gear] - count for gear, count in before["executions_by_gear"].items()}
        assert ran == {"(1, 4)": 0, "(4, 4)": 1, "(2, 8)": 3, "(4, 16)": 1}
        assert (after["rows"] - before["rows"], after["padded_rows"] - before["padded_rows"]) == (9, 1 + 1 + 3)
        good, bad, good_too = asked(one, responses, feeds[0], sequence(1, 5), feeds[1])
        assert_close(good, graph.reference(feeds[0]))
        assert_close(good_too, graph.reference(feeds[1]))
        assert (bad.code(), "takes input shapes" in bad.message()) == (TritonError.INVALID_ARG, True)

    def test_requests_between_gears_run_alone_where_padding_was_declared(self, folder, served):
        graph = graphs.sequence(folder, gears="1,4;4,4;2,8")
        with pytest.raises(ValueError, match=r"axis 0 must follow axis 0 .* nothing says so of hidden"):
            served(graph, max_batch_size=4, parameters={"output_axes": "hidden:1=ids:1"})
        one = served(graph, max_batch_size=4, parameters={"output_axes": "hidden:0=ids:0,hidden:1=ids:1"})
        feeds = [sequence(1, 4), sequence(1, 3), sequence(2, 4), sequence(2, 5)]
        for feed, answers in zip(feeds, one.ask(*feeds), strict=True):
            assert_close(answers, graph.reference(feed))

    @pytest.mark.parametrize("responses", ["returned", "sender"])
    def test_a_request_that_waited_is_asked_whether_it_is_cancelled(self, folder, served, responses, monkeypatch):
        graph = graphs.sequence(folder, gears="4,4;4,8;4,16")
        one = served(graph, max_batch_size=4, parameters={"responses": responses})
        feeds = [sequence(*shape) for shape in [(1, 4), (1, 8), (2, 8), (3, 16)]]

        def ask(after_s):
            monkeypatch.setattr(running, "CANCEL_CHECK_AFTER_S", after_s)
            before = one.model.session.stats()
            requests = [one.request(feed) for feed in feeds]
            requests[1].cancelled = requests[3].cancelled = True
            answers = received(one, responses, requests)
            after = one.model.session.stats()
            return requests, answers, [after[key] - before[key] for key in ("executions", "rows")]

        requests, answers, ran = ask(3600)
        assert ([request.asked for request in requests], ran) == ([0, 0, 0, 0], [3, 7])
        for feed, got in zip(feeds, answers, strict=True):
            assert_close(got, graph.reference(feed))
        requests, answers, ran = ask(-1)
        assert ([request.asked for request in requests], ran) == ([1, 1, 1, 1], [2, 3])
        for number in (0, 2):
            assert_close(answers[number], graph.reference(feeds[number]))
        for number in (1, 3):
            assert answers[number].code() == TritonError.CANCELLED

    def test_servers_that_cannot_tell_of_cancelled_requests_are_not_asked(self, folder, served, monkeypatch):
        monkeypatch.setattr(running, "CANCEL_CHECK_AFTER_S", -1)
        monkeypatch.delattr(InferenceRequest, "is_cancelled")
        graph = graphs.sequence(folder, gears="4,4;4,8")
        (answers,) = served(graph, max_batch_size=4).ask(sequence(1, 4))
        assert_close(answers, graph.reference(sequence(1, 4)))

    def test_an_output_that_does_not_follow_the_batch_is_told_at_load(self, folder, served):
        mean = graphs.helper.make_node("ReduceMean", ["x"], ["y"], "mean", axes=[0], keepdims=1)
        tensors = [("x", "float32", ["n", "s"])], [("y", "float32", [1, "s"])]
        options = {"input_shape": "x:-1,-1", "dynamic_dims": "1,4;4,4", "input_format": "ND"}
        graph = graphs.Graph(folder, [mean], *tensors, **options)
        with pytest.raises(ValueError, match=r"output 'y' is \[1, 4\] for inputs \[4, 4\].*; use max_batch_size: 0"):
            served(graph, max_batch_size=4)
        assert served(graph).config["max_batch_size"] == 0

    def test_images_of_one_size_run_together_where_the_om_has_rows_for_them(self, folder, served):
        graph = graphs.convolution(folder, gears="8,8;20,12", images=4)
        one = served(graph, max_batch_size=4)
        before = one.model.session.stats()["executions"]
        images = [image(8, 8)["image"], image(20, 12)["image"], np.repeat(image(8, 8)["image"], 2, axis=0)]
        answers = one.ask(*({"image": rows} for rows in images))
        assert one.model.session.stats()["executions"] == before + 2
        for rows, got in zip(images, answers, strict=True):
            whole = np.concatenate([rows, np.zeros((4 - len(rows), *rows.shape[1:]), np.float32)])
            assert_close(got, [expected[: len(rows)] for expected in graph.reference({"image": whole})])

    def test_whole_tensors_are_kept_too(self, folder, served, pool):
        graph = graphs.sequence(folder, gears="1,4;2,8")
        one = served(graph)
        seen = {}
        for shape in [(1, 4), (2, 8), (1, 4), (2, 8)]:
            feeds = sequence(*shape)
            (response,) = one.model.execute([one.request(feeds)])
            (tensor,) = response.output_tensors()
            tensor.send(pool)
            np.testing.assert_allclose(tensor.bits(), graph.reference(feeds)[0], atol=1e-4, rtol=1e-4)
            assert seen.setdefault(shape, tensor) is tensor

    def test_wider_integers_are_converted_if_they_fit(self, folder, served):
        om = write_synthetic(folder / "m.om", [("x", "int32", (-1, 3))], [("y", "float32", (-1, 2))], batch=(1, 2))
        one = served(om, input=[{"name": "x", "data_type": "TYPE_INT64"}], parameters={"cast_inputs": "checked"})
        assert one.config["input"] == [{"name": "x", "data_type": "TYPE_INT64", "dims": [3]}]
        x = np.array([[1, -2, 2**31 - 1]])
        good, bad = one.ask({"x": x}, {"x": x + 1})
        np.testing.assert_array_equal(good["y"], om.expected({"x": x.astype(np.int32)})[0])
        assert bad.code() == TritonError.INVALID_ARG
        assert bad.message().startswith("input 'x': 2147483648 does not fit INT32, which the om takes")

    def test_wider_floats_too(self, folder, served):
        om = write_synthetic(folder / "m.om", [("x", "float16", (-1, 3))], [("y", "float32", (-1, 2))], batch=(1, 2))
        one = served(om, input=[{"name": "x", "data_type": "TYPE_FP32"}], parameters={"cast_inputs": "checked"})
        x = np.array([[1, np.inf, np.nan]], np.float32)
        good, bad = one.ask({"x": x}, {"x": np.array([[1, 2, 1e6]], np.float32)})
        np.testing.assert_array_equal(good["y"], om.expected({"x": x.astype(np.float16)})[0])
        assert "1000000.0 does not fit FP16" in bad.message()

    def test_padded_rows_hold_the_declared_value(self, folder, served):
        om = write_synthetic(
            folder / "m.om", [("x", "int32", (4, 3)), ("h", "bfloat16", (4, 1))], [("y", "float32", (4, 2))]
        )
        one = served(om, parameters={"pad_value": "x=-7,h=1.5"})
        whole = om.random(4)
        feeds = {"x": whole["x"][:3], "h": (whole["h"][:3], "bfloat16")}
        (answers,) = one.ask(feeds)
        whole["x"][3], whole["h"][3] = -7, 0x3FC0
        np.testing.assert_array_equal(answers["y"], om.expected(whole)[0][:3])

    def test_gears_chosen_by_time_cut_a_call(self, folder, served, monkeypatch):
        om = write_synthetic(folder / "m.om", [("x", "float32", (-1, 3))], [("y", "float32", (-1, 2))], batch=(1, 4, 8))
        monkeypatch.setattr(ge_core.InferenceSession, "_time", lambda session, rows: {1: 1.0, 4: 2.0, 8: 50.0}[rows])
        one = served(om, parameters={"gear_plan": "time"})
        request, reads = one.request(om.random(3)), []
        inputs = request.inputs
        request.inputs = lambda: reads.append(1) or inputs()
        one.model.execute([request])
        assert len(reads) == 1
        before = one.model.session.stats()["executions_by_gear"]["4"]
        feeds = [om.random(3), om.random(5, seed=1)]
        assert_right(om, feeds, one.ask(*feeds))
        assert one.model.session.stats()["executions_by_gear"]["4"] == before + 2


@pytest.mark.parametrize(
    ("name", "found"),
    [("m_0", (0, 5)), ("m_1", (1, 5)), ("big_one_0", (2, 5)), ("big_one_2", (4, 5)), ("other", (0, 5))],
)
def test_instances_count_over_all_groups(name, found):
    groups = [{"name": "m", "count": 2}, {"name": "big_one", "count": 3}]
    assert instances.find({"instance_group": groups}, name, (0,)) == instances.Instance(*found, (0,))
