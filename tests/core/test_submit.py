# SPDX-License-Identifier: Apache-2.0
"""Futures, several devices, budgets, recovery and closing."""

import concurrent.futures
import contextlib
import functools
import gc
import json
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from oms import write_synthetic

import ge_core
from ge_core import batching
from ge_core.engine import engine_of
from ge_core_pyx import acl, slot
from ge_core_pyx.arrays import OutputTarget


@pytest.fixture(scope="module")
def om(tmp_path_factory):
    path = tmp_path_factory.mktemp("oms") / "m.om"
    return write_synthetic(path, [("x", "float32", (-1, 6))], [("y", "float32", (-1, 3))], batch=[1, 2, 4])


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    return write_slow(tmp_path_factory.mktemp("oms"), 150_000)


def write_slow(folder, exec_us):
    inputs, outputs = [("x", "float32", (-1, 2))], [("y", "float32", (-1, 2))]
    return write_synthetic(folder / f"slow_{exec_us}.om", inputs, outputs, batch=[1, 4], exec_us=exec_us)


def patient(test):
    """For what happens while `slow` runs: a busy host may come too late to see it, and tries ever slower models."""

    @functools.wraps(test)
    def tried(slow, **fixtures):
        for exec_us in (1_200_000, 10_000_000):
            try:
                return test(slow=slow, **fixtures)
            except (AssertionError, pytest.fail.Exception):
                slow = write_slow(slow.path.parent, exec_us)
        return test(slow=slow, **fixtures)

    return tried


def same(got, expected):
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_futures_in_any_order(om):
    with ge_core.InferenceSession(om.path, slots=4) as session:
        requests = [om.random(rows, seed=rows) for rows in (1, 3, 4, 2)]
        futures = [session.submit(feeds) for feeds in requests]
        for index in (2, 0, 3, 1):
            same(futures[index].result(), om.expected(requests[index]))
            same(futures[index].result(), om.expected(requests[index]))
            assert futures[index].done() and futures[index].exception() is None
        assert session.stats()["slots_free"] == 4


@patient
def test_the_caller_may_change_its_arrays_after_submit(slow):
    with ge_core.InferenceSession(slow.path) as session:
        feeds = slow.random(2)
        expected = slow.expected({"x": feeds["x"].copy()})
        future = session.submit(feeds, ["y"])
        feeds["x"][:] = 0
        assert not future.done()
        same(future.result(), expected)


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_long_request_is_cut_and_pipelined_over_the_slots(om, slots):
    with ge_core.InferenceSession(om.path, slots=slots) as session:
        for rows in (5, 8, 17, 30):
            feeds = om.random(rows, seed=rows)
            same(session.submit(feeds).result(), om.expected(feeds))
            same(session.run(None, feeds), om.expected(feeds))
        assert session.stats()["slots_free"] == slots


def test_long_requests_from_many_threads_do_not_starve_each_other(om):
    with ge_core.InferenceSession(om.path, slots=2) as session:
        errors = []

        def client(seed):
            try:
                for turn in range(10):
                    feeds = om.random(3 + (seed * 7 + turn) % 20, seed=seed * 50 + turn)
                    same(session.submit(feeds).result(timeout=300), om.expected(feeds))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not errors


@patient
def test_submit_waits_for_a_slot_only_so_long(slow):
    with ge_core.InferenceSession(slow.path, submit_timeout_ms=20) as session:
        future = session.submit(slow.random(1))
        with pytest.raises(TimeoutError, match="no free slot within 20 ms"):
            session.submit(slow.random(1))
        same(future.result(), slow.expected(slow.random(1)))


@patient
def test_a_result_that_is_not_there_yet_can_be_asked_for_again(slow):
    with ge_core.InferenceSession(slow.path, execute_timeout_ms=60_000) as session:
        feeds = slow.random(3)
        future = session.submit(feeds)
        with pytest.raises(TimeoutError, match="no result within 10 ms; the request is still running"):
            future.result(timeout=0.01)
        same(future.result(timeout=60), slow.expected(feeds))


def test_a_future_that_dies_gives_its_slot_back(slow):
    with ge_core.InferenceSession(slow.path, submit_timeout_ms=60_000) as session:
        session.submit(slow.random(1))
        gc.collect()
        feeds = slow.random(2, seed=5)
        same(session.run(None, feeds), slow.expected(feeds))


def test_closing_waits_for_futures_or_cancels_them(slow):
    for wait in (True, False):
        session = ge_core.InferenceSession(slow.path, slots=2)
        feeds = slow.random(2)
        future = session.submit(feeds)
        session.close(wait=wait)
        if wait:
            same(future.result(), slow.expected(feeds))
        else:
            with pytest.raises(concurrent.futures.CancelledError, match="was closed"):
                future.result()
        assert future.done()
        assert not any(acl.live_handles().values())


def test_closing_while_other_threads_run(slow):
    session = ge_core.InferenceSession(slow.path)
    feeds = slow.random(1)
    results = []
    thread = threading.Thread(target=lambda: results.append(session.run(None, feeds)))
    thread.start()
    time.sleep(0.05)
    session.close()
    thread.join()
    same(results[0], slow.expected(feeds))
    assert not any(acl.live_handles().values())


def test_wrong_requests_hold_no_slot(om):
    with ge_core.InferenceSession(om.path) as session:
        for _ in range(3):
            with pytest.raises(ValueError, match="got float64"):
                session.submit({"x": np.zeros((1, 6))})
            with pytest.raises(ValueError, match="no output 'z'"):
                session.submit(om.random(1), ["z"])
        assert session.stats()["slots_free"] == 1


@pytest.mark.parametrize("entry", ["aclrtMemcpyAsync", "aclmdlExecuteAsync", "aclrtSynchronizeStream"])
def test_a_failed_part_fails_its_request_alone(stand_in, om, entry):
    with ge_core.InferenceSession(om.path, slots=2) as session:
        feeds = om.random(11)
        with stand_in.failing(entry, 507015, kth=3), pytest.raises(ge_core.AclError, match="507015"):
            session.submit(feeds).result()
        # 507015 is an error of the device itself: the session stops, and says so.
        with pytest.raises(ge_core.NotRunningError, match="507015"):
            session.run(None, feeds)
    with ge_core.InferenceSession(om.path, slots=2) as session:
        with stand_in.failing(entry, 507011, kth=3), pytest.raises(ge_core.AclError, match="507011"):
            session.submit(feeds).result()
        same(session.run(None, feeds), om.expected(feeds))
        assert session.stats()["slots_free"] == 2


@patient
def test_recover_rebuilds_what_timed_out_and_refuses_what_is_lost(stand_in, slow):
    with ge_core.InferenceSession(slow.path, execute_timeout_ms=40) as session:
        with pytest.raises(ge_core.AclTimeoutError):
            session.run(None, slow.random(1))
        with pytest.raises(ge_core.NotRunningError, match="no longer runs after a device error"):
            session.run(None, slow.random(1))
        session.recover()
        assert session.stats()["unhealthy"] is None
        assert session.stats()["slots_free"] == 1
        assert slot.release_abandoned() == 0
        with stand_in.failing("aclmdlExecuteAsync", 507901), pytest.raises(ge_core.AclError):
            session.run(None, slow.random(1))
        with pytest.raises(ge_core.UnsupportedError, match="End the process"):
            session.recover()


def test_waits_that_fail_do_not_mean_that_the_work_ended(stand_in, slow):
    """A model that still runs is not unloaded, nor is its memory given back: no_leaks counts releases that fail."""
    session = ge_core.InferenceSession(slow.path)
    waits = [("aclrtSynchronizeStream", 1), *(("aclrtSynchronizeStreamWithTimeout", kth) for kth in range(1, 5))]
    with contextlib.ExitStack() as injected:
        for entry, kth in waits:
            injected.enter_context(stand_in.injecting(entry, kth=kth, code=507011))
        with pytest.raises(ge_core.AclError, match="aclrtSynchronizeStream returned 507011"):
            session.run(None, slow.random(1))
    session.close()
    while slot.release_abandoned():
        time.sleep(0.01)


@patient
def test_start_and_wait_overlap_two_borrowed_batches(slow):
    with ge_core.InferenceSession(slow.path, slots=2) as session:
        first, second = session.borrow(1), session.borrow(2)
        a, b = slow.random(1, seed=1), slow.random(2, seed=2)
        first.write("x", 0, a["x"])
        second.write("x", 0, b["x"])
        first.start()
        second.start()
        with pytest.raises(TimeoutError):
            second.wait(0.001)
        second.wait()
        first.wait()
        same(first.outputs.values(), slow.expected(a))
        same(second.outputs.values(), slow.expected(b))
        first.close()
        second.close()


def test_the_budget_is_what_the_device_then_holds(stand_in, tmp_path):
    """Peak device and pinned memory equal the printed budget within 1 %."""
    for number, (shape, batch, weights, work) in enumerate(
        [((3, 224, 224), [1, 4, 8], 5 << 20, 3 << 20), ((16,), [1], 0, 0), ((3, 64, 64), None, 100_000, 9_000_000)]
    ):
        om = write_synthetic(
            tmp_path / f"{number}.om", [("x", "float32", (-1 if batch else 2, *shape))],
            [("y", "float32", (-1 if batch else 2, 1000)), ("z", "float32", (-1 if batch else 2, 7))],
            batch=batch, weight_bytes=weights, work_bytes=work,
        )  # fmt: skip
        for slots in (1, 3):
            before = stand_in.counter("bytes.device"), stand_in.counter("bytes.pinned")
            with ge_core.InferenceSession(om.path, slots=slots) as session:
                device = stand_in.counter("bytes.device") - before[0]
                pinned = stand_in.counter("bytes.pinned") - before[1]
                assert session.budget.device_bytes == pytest.approx(device, rel=0.01)
                assert session.budget.pinned_bytes == pytest.approx(pinned, rel=0.01)
                assert session.stats()["device_bytes"] == session.budget.device_bytes
                assert session.stats()["pinned_bytes"] == session.budget.pinned_bytes
            assert (stand_in.counter("bytes.device"), stand_in.counter("bytes.pinned")) == before


def in_child(code, **config):
    import subprocess
    import sys
    from pathlib import Path

    environ = os.environ | {"GE_CORE_CPU_CONFIG": json.dumps(config)}
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environ, capture_output=True, text=True, timeout=300
    )


def test_a_model_that_does_not_fit_is_refused_with_the_sum(tmp_path):
    om = write_synthetic(
        tmp_path / "big.om", [("x", "float32", (-1, 1000))], [("y", "float32", (-1, 1000))], batch=[64],
        weight_bytes=40 << 20, work_bytes=10 << 20,
    )  # fmt: skip
    code = (
        "import ge_core\nfrom ge_core_pyx import acl\n"
        f"ge_core.InferenceSession({str(om.path)!r}, slots=1).close()\n"
        "try:\n"
        f"    ge_core.InferenceSession({str(om.path)!r}, slots=4)\n"
        "except ge_core.DeviceMemoryError as error:\n"
        "    assert isinstance(error, MemoryError)\n"
        "    print(error)\n"
        "assert not any(acl.live_handles().values())\n"
    )
    result = in_child(code, hbm_bytes=64 << 20)
    assert result.returncode == 0, result.stderr
    for part in ("weights 44,040,192 + 4 slot(s)", "work 12,582,912", "of 67,108,864 bytes are free", "fewer slots"):
        assert part in result.stdout


def test_several_devices_share_the_work(tmp_path):
    om = write_synthetic(
        tmp_path / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 4))], batch=[1, 2], exec_us=20_000
    )
    code = f"""
import sys; sys.path.insert(0, "tests/support")
import numpy as np, ge_core, time
from ge_core.compiler import synthetic
from ge_core_pyx import om
manifest = om.read_manifest({str(om.path)!r})
with ge_core.InferenceSession({str(om.path)!r}, device_ids=[0, 1, 2, 3]) as session:
    assert session.stats()["slots"] == 4
    x = np.arange(44, dtype=np.float32).reshape(11, 4)
    (y,) = session.run(None, {{"x": x}})
    for row in range(11):
        want = synthetic.run(manifest, {{"x": x[row:row + 1]}})["y"]
        assert (y[row] == want[0]).all(), row
    futures = [session.submit({{"x": x[:1]}}) for _ in range(4)]
    assert session.stats()["slots_free"] == 0
    [future.result() for future in futures]
for ids in ([], [0, 0], [9], [0, 1, 2, 3, 4]):
    try:
        ge_core.InferenceSession({str(om.path)!r}, device_ids=ids)
    except ValueError as error:
        print(error)
"""
    result = in_child(code, devices=4)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "at least one, each once" in lines[0] and "at least one, each once" in lines[1]
    assert "device_id must be 0..3 (4 device(s) visible), got 9" in lines[2] and "got 4" in lines[3]


def test_a_lost_device_leaves_the_others_serving(tmp_path):
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 4))], batch=[1, 2])
    code = f"""
import sys; sys.path.insert(0, "tests/support")
import numpy as np, ge_core
from stand_in import StandIn
x = np.ones((1, 4), np.float32)
with ge_core.InferenceSession({str(om.path)!r}, device_ids=[0, 1]) as session:
    with StandIn().failing("aclmdlExecuteAsync", 507901):
        try:
            session.run(None, {{"x": x}})
        except ge_core.AclError as error:
            assert error.code == 507901
    for _ in range(10):
        session.run(None, {{"x": x}})
    assert session.stats()["slots"] == 1 and session.stats()["unhealthy"] is None
"""
    result = in_child(code, devices=2)
    assert result.returncode == 0, result.stderr


def test_a_plan_by_time_uses_the_cheapest_gears(om):
    with ge_core.InferenceSession(om.path, gear_plan="time", gear_times_ms=[1, 5, 6]) as session:
        for rows, executions in [(1, 1), (2, 2), (3, 3), (4, 4), (9, 9)]:
            before = session.stats()["executions"]
            feeds = om.random(rows, seed=rows)
            (got,) = session.run(None, feeds)
            assert session.stats()["executions"] - before == executions
            alone = np.concatenate([om.expected({"x": feeds["x"][i : i + 1]})[0] for i in range(rows)])
            np.testing.assert_array_equal(got, alone)
    with ge_core.InferenceSession(om.path, gear_plan="time") as session:
        session.run(None, om.random(3))
    with pytest.raises(ValueError, match=r"one positive number per gear \(1, 2, 4\), got \[1\]"):
        ge_core.InferenceSession(om.path, gear_plan="time", gear_times_ms=[1])


@pytest.mark.parametrize(
    ("gears", "times", "rows", "sizes"),
    [
        ([1, 4, 8], [10, 11, 22], 5, [4, 1]),
        ([1, 4, 8], [10, 11, 12], 5, [5]),
        ([1, 4, 8], [1, 100, 100], 3, [1, 1, 1]),
        ([2, 8], [1, 10], 5, [2, 2, 1]),
        ([8], [1], 3, [3]),
    ],
)
def test_split_tables(gears, times, rows, sizes):
    assert batching.split_table(gears, times)[rows] == sizes


def test_registered_memory_is_read_in_place(stand_in, om):
    memory = np.zeros((4, 6), np.float32)
    with ge_core.InferenceSession(om.path) as session:
        with engine_of(session).register_memory(memory) as registration:
            assert registration.direct
            memory[:] = np.arange(24).reshape(4, 6)
            same(session.run(None, {"x": memory}), om.expected({"x": memory}))
            same(session.run(None, {"x": memory[:2]}), om.expected({"x": memory[:2]}))
            same(session.run(None, {"x": memory[1:4]}), om.expected({"x": memory[1:4]}))  # padded: the plain path
            other = memory + 1
            same(session.run(None, {"x": other}), om.expected({"x": other}))
        same(session.run(None, {"x": memory}), om.expected({"x": memory}))
    with pytest.raises(ValueError):
        frozen = memory.copy()
        frozen.flags.writeable = False
        with ge_core.InferenceSession(om.path) as session:
            engine_of(session).register_memory(frozen)


@patient
def test_an_interrupted_result_can_be_asked_again(slow):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with ge_core.InferenceSession(slow.path, slots=1) as session:
            future = session.submit(slow.random(6))
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                future.result()
            same(future.result(), slow.expected(slow.random(6)))
            assert session.stats()["slots_free"] == 1
    finally:
        signal.signal(signal.SIGALRM, before)


class TestLaunchedInPlace:
    """Batches whose requests and answers lie in registered memory."""

    @pytest.fixture
    def session(self, om):
        with ge_core.InferenceSession(om.path, slots=1) as session:
            yield session

    @staticmethod
    def answer(session, rows, puts, targets, gets):
        """What launch and collect leave in `targets`, and the copies queued."""
        engine_of(session).launch(rows, puts).collect([(0, OutputTarget(targets), *get) for get in gets])
        return targets

    def test_the_device_reads_and_writes_there(self, stand_in, om, session):
        memory = np.zeros(1000, np.uint8)
        inputs = np.frombuffer(memory, np.float32, 24, 4).reshape(4, 6)  # at odd places too
        outputs = np.frombuffer(memory, np.float32, 12, 504).reshape(4, 3)
        inputs[:] = om.random(4)["x"]
        (expected,) = om.expected({"x": inputs})
        with engine_of(session).register_memory(memory):
            pinned = session.borrow(4)  # what passes through it is seen there
            pinned.inputs["x"][:] = 7
            pinned.close()
            self.answer(session, 4, [(engine_of(session).request_inputs([inputs]), 0, 0, 4)], outputs, [(0, 4, 0)])
            np.testing.assert_array_equal(outputs, expected)
            with session.borrow(4) as pinned:
                assert (pinned.inputs["x"] == 7).all()
                assert not np.array_equal(pinned.outputs["y"], expected)
        self.answer(session, 4, [(engine_of(session).request_inputs([inputs + 1]), 0, 0, 4)], outputs, [(0, 4, 0)])
        np.testing.assert_array_equal(outputs, om.expected({"x": inputs + 1})[0])

    def test_rows_of_several_requests_go_to_their_answers(self, om, session):
        memory = np.zeros((8, 3), np.float32)
        requests = [om.random(rows, seed=rows)["x"] for rows in (1, 2)]
        (expected,) = om.expected({"x": np.concatenate(requests)})
        with engine_of(session).register_memory(memory):
            puts = [
                (engine_of(session).request_inputs([requests[0]]), 0, 0, 1),
                (engine_of(session).request_inputs([requests[1]]), 1, 0, 2),
            ]
            self.answer(session, 3, puts, memory, [(0, 1, 5), (1, 2, 0)])
        np.testing.assert_array_equal(memory[[5, 0, 1]], expected)
        assert not memory[[2, 3, 4, 6, 7]].any()

    def test_one_answer_elsewhere_and_all_pass_through_pinned_memory(self, om, session):
        registered, elsewhere = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
        feed = om.random(4)
        with engine_of(session).register_memory(registered):
            batch = engine_of(session).launch(4, [(engine_of(session).request_inputs([feed["x"]]), 0, 0, 4)])
            batch.collect([(0, OutputTarget(registered), 0, 2, 0), (0, OutputTarget(elsewhere), 2, 2, 0)])
        same([registered, elsewhere], np.split(om.expected(feed)[0], 2))

    def test_whoever_waits_finds_the_outputs_in_pinned_memory(self, om, session):
        feed = om.random(3)
        put = (engine_of(session).request_inputs([feed["x"]]), 0, 0, 3)
        with engine_of(session).register_memory(np.zeros(64, np.uint8)), engine_of(session).launch(3, [put]) as batch:
            batch.wait()
            same([batch.outputs["y"]], om.expected(feed))
            batch.inputs["x"][:] += 1
            batch.start()
            batch.wait()
            same([batch.outputs["y"]], om.expected({"x": feed["x"] + 1}))

    def test_a_closed_batch_collects_nothing(self, om, session):
        with engine_of(session).register_memory(np.zeros(64, np.uint8)):
            batch = engine_of(session).launch(3, [(engine_of(session).request_inputs([om.random(3)["x"]]), 0, 0, 3)])
            batch.close()
            for call in (lambda: batch.collect([]), batch.wait):
                with pytest.raises(RuntimeError, match="the batch is closed"):
                    call()
            same(session.run(None, om.random(2)), om.expected(om.random(2)))

    def test_rows_that_do_not_fit_write_nothing(self, om, session):
        memory = np.zeros((4, 3), np.float32)
        with engine_of(session).register_memory(memory):
            put = (engine_of(session).request_inputs([om.random(4)["x"]]), 0, 0, 4)
            for get in ((0, 4, 1), (1, 4, 0), (-1, 2, 0)):
                with pytest.raises(ValueError, match="do not fit"):
                    self.answer(session, 4, [put], memory, [get])
            assert not memory.any()
            self.answer(session, 4, [put], memory, [(0, 4, 0)])
        same([memory], om.expected(om.random(4)))

    @pytest.mark.parametrize("kth", [1, 2])
    def test_a_failed_copy_is_an_error_and_the_session_goes_on(self, stand_in, om, session, kth):
        memory = np.zeros((4, 3), np.float32)
        with engine_of(session).register_memory(memory):
            put = (engine_of(session).request_inputs([om.random(4)["x"]]), 0, 0, 4)
            with stand_in.failing("aclrtMemcpyAsync", 107003, kth), pytest.raises(ge_core.AclError):
                self.answer(session, 4, [put], memory, [(0, 4, 0)])
            self.answer(session, 4, [put], memory, [(0, 4, 0)])
        same([memory], om.expected(om.random(4)))

    def test_whoever_collects_late_still_gets_a_copy_that_takes_a_while(self, stand_in, om):
        memory = np.zeros((4, 3), np.float32)
        with (
            ge_core.InferenceSession(om.path, execute_timeout_ms=200) as session,
            engine_of(session).register_memory(memory),
        ):
            engine_of(session).sample_stages(1)
            batch = engine_of(session).launch(4, [(engine_of(session).request_inputs([om.random(4)["x"]]), 0, 0, 4)])
            time.sleep(0.25)  # another batch may be awaited first
            with stand_in.injecting("aclrtMemcpyAsync", effect="delay", delay_us=20_000):
                batch.collect([(0, OutputTarget(memory), 0, 4, 0)])
            (stages,) = engine_of(session).stage_samples()
        same([memory], om.expected(om.random(4)))
        assert stages["d2h_us"] >= 20_000

    def test_memory_that_the_device_may_still_write_to_stays(self, stand_in, om):
        memory = np.zeros((4, 3), np.float32)
        with (
            ge_core.InferenceSession(om.path, execute_timeout_ms=50) as session,
            engine_of(session).register_memory(memory),
        ):
            target = OutputTarget(memory)
            alive = weakref.ref(memory)
            with stand_in.injecting("aclmdlExecuteAsync", kth=1, effect="delay", delay_us=1_000_000):
                batch = engine_of(session).launch(
                    4, [(engine_of(session).request_inputs([om.random(4)["x"]]), 0, 0, 4)]
                )
                with pytest.raises(ge_core.AclTimeoutError):
                    batch.collect([(0, target, 0, 4, 0)])
            assert target.pending_copies == 1
        del target, memory, batch
        gc.collect()
        assert alive() is not None  # though the registration, the session and all names of it are gone
        while slot.release_abandoned():
            time.sleep(0.05)


def test_stages_are_timed_on_request(slow):
    with ge_core.InferenceSession(slow.path, slots=2) as session:
        session.run(None, slow.random(1))
        assert engine_of(session).stage_samples() == []
        engine_of(session).sample_stages(2)
        for _ in range(4):
            session.run(None, slow.random(3))
        session.submit(slow.random(9)).result()
        with session.borrow(4) as batch:
            batch.run()
            batch.start()
            batch.wait()
        samples = engine_of(session).stage_samples()
        assert engine_of(session).stage_samples() == []
        assert 3 <= len(samples) <= 5
        for sample in samples:
            assert sample["gear"] in (1, 4) and 1 <= sample["rows"] <= 4
            assert all(sample[name] >= 0 for name in ("gather_ns", "submit_ns", "wait_ns", "scatter_ns"))
            assert sample["execute_us"] >= 149_000
            assert sample["h2d_us"] >= 0 and sample["d2h_us"] >= 0
            assert sample["submit_ns"] + sample["wait_ns"] >= 149_000_000
        engine_of(session).sample_stages(0)
        session.run(None, slow.random(1))
        assert engine_of(session).stage_samples() == []


def test_device_usage():
    usage = ge_core.device_usage()
    assert 0 < usage["memory_free"] <= usage["memory_total"]
    assert set(usage) == {"cube_percent", "vector_percent", "aicpu_percent", "memory_free", "memory_total"}


def test_an_error_that_done_met_is_still_the_result(stand_in, om):
    with ge_core.InferenceSession(om.path, slots=2) as session:
        feeds = om.random(3)
        with stand_in.injecting("aclrtMemcpyAsync", kth=2, effect="task", code=507011):
            future = session.submit(feeds)
            while not future.done():
                time.sleep(0.001)
            with pytest.raises(ge_core.AclError, match="507011"):
                future.result()
        same(session.run(None, feeds), om.expected(feeds))


@pytest.mark.parametrize("engines", [1, 2])
def test_a_device_runs_as_many_models_at_once_as_it_has_engines(slow, engines):
    """Of two that are submitted together, the device's clock shows that one waits, or that none does.

    Five times, because a busy host may submit the second when the first is over.
    """
    code = (
        "import ge_core, numpy as np\n"
        "from ge_core.engine import engine_of\n"
        f"session = ge_core.InferenceSession({str(slow.path)!r}, slots=2)\n"
        "engine_of(session).sample_stages(1)\n"
        "longest = []\n"
        "for _ in range(5):\n"
        "    futures = [session.submit({'x': np.zeros((1, 2), np.float32)}) for _ in range(2)]\n"
        "    [future.result() for future in futures]\n"
        "    longest.append(max(stage['execute_us'] for stage in engine_of(session).stage_samples()))\n"
        "print(sorted(longest)[2])\n"
    )
    result = in_child(code, compute_engines=engines, hbm_bytes=(5 << 30) + 4096 * os.getpid())
    assert (result.returncode, result.stderr) == (0, "")
    took_us = float(result.stdout)
    assert took_us > 200_000 if engines == 1 else took_us < 200_000


def test_a_number_of_engines_that_no_device_has_is_refused():
    result = in_child("import ge_core; ge_core.runtime_info()", compute_engines=17)
    assert "compute_engines" in result.stderr and result.returncode == 1


def test_what_a_killed_process_had_queued_does_not_keep_the_device(tmp_path):
    long = write_synthetic(tmp_path / "long.om", [("x", "float32", (1, 2))], [("y", "float32", (1, 2))], exec_us=60e6)
    short = write_synthetic(tmp_path / "short.om", [("x", "float32", (1, 2))], [("y", "float32", (1, 2))], exec_us=1000)
    code = (
        "import os, signal, subprocess, sys, time\n"
        "import numpy as np, ge_core\n"
        "x = {'x': np.zeros((1, 2), np.float32)}\n"
        "if len(sys.argv) > 1:\n"
        f"    future = ge_core.InferenceSession({str(long.path)!r}).submit(x)\n"
        "    print('queued', flush=True)\n"
        "    time.sleep(60)\n"
        f"session = ge_core.InferenceSession({str(short.path)!r}, execute_timeout_ms=20_000)\n"
        "session.run(None, x)\n"
        "other = subprocess.Popen([sys.executable, '-c', os.environ['CODE'], 'child'], stdout=subprocess.PIPE)\n"
        "assert other.stdout.readline() == b'queued\\n'\n"
        "time.sleep(0.2)\n"
        "other.send_signal(signal.SIGKILL)\n"
        "other.wait()\n"
        "session.run(None, x)\n"
    )
    os.environ["CODE"] = code
    try:
        result = in_child(code, hbm_bytes=(3 << 30) + 4096 * os.getpid())
    finally:
        del os.environ["CODE"]
    assert (result.returncode, result.stderr) == (0, "")
