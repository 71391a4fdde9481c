# SPDX-License-Identifier: Apache-2.0
"""What a served model checks, says and counts, without a server."""

import json
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from oms import Om, write_synthetic
from pb_utils import PbUtils, TritonError, TritonModelException
from served import Served, model_config
from stand_in import HBM_BYTES

import ge_core
from ge_core import serving
from ge_core.serving import shm_space
from ge_core.serving.monitoring import golden, host_limits, load_report, metrics, warmup
from ge_core.serving.monitoring.golden import GoldenError
from ge_core.serving.monitoring.health import Health
from ge_core.serving.monitoring.metrics import Publisher, Sample
from ge_core.serving.options import ServingOptions
from ge_core_pyx import om as om_file

ROWS = [("ids", "int64", (-1, 6))], [("n:0:scores", "float32", (-1, 5)), ("m:0:label", "int32", (-1,))]


@pytest.fixture
def om(tmp_path):
    return write_synthetic(tmp_path / "m.om", *ROWS, batch=(1, 2, 4))


@pytest.fixture
def session(om):
    with ge_core.InferenceSession(om.path, runtime="cpu") as opened:
        yield opened


class TestGolden:
    def write(self, om, rows=3, **changes):
        feeds = om.random(rows)
        scores, label = om.expected(feeds)
        arrays = {"input.ids": feeds["ids"], "output.scores": scores, "output.label": label} | changes
        path = om.path.with_suffix(".npz")
        np.savez(path, **{key: array for key, array in arrays.items() if array is not None})
        return path

    @pytest.mark.parametrize("rows", [1, 3, 9])
    def test_right_outputs_pass_with_figures(self, om, session, rows):
        text = golden.check(self.write(om, rows), session)
        assert text.startswith("scores: largest difference 0, cosine 1.000000; label: largest difference 0")

    def test_an_output_that_is_off_by_a_hundredth_fails_and_says_by_how_much(self, om, session):
        scores = om.expected(om.random(3))[0].copy()
        scores[1, 2] += 0.01
        with pytest.raises(GoldenError, match=r"scores: largest difference 0\.01, cosine 0\.99.*up to 0\.001"):
            golden.check(self.write(om, **{"output.scores": scores}), session)
        assert "0.01" in golden.check(self.write(om, **{"output.scores": scores, "tolerance": 0.02}), session)

    def test_the_cosine_is_a_limit_of_its_own(self, om, session):
        scores = -om.expected(om.random(3))[0]
        path = self.write(om, **{"output.scores": scores, "tolerance": 10})
        with pytest.raises(GoldenError, match=r"cosine -1\.000000"):
            golden.check(path, session)
        assert golden.check(self.write(om, **{"output.scores": scores, "tolerance": 10, "cosine": -1}), session)

    def test_only_listed_outputs_are_compared(self, om, session):
        assert "scores" not in golden.check(self.write(om, **{"output.scores": None}), session)

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"output.more": np.zeros(1)}, "no output 'more'; this model has input.ids, output.scores, output.label"),
            ({"ids": np.zeros(1)}, "'ids' is neither input.NAME, output.NAME, tolerance nor cosine"),
            ({"output.scores": None, "output.label": None}, "no array output.NAME"),
            ({"input.ids": np.zeros((3, 6), np.int32)}, "ids"),
            ({"output.scores": np.zeros((2, 5), np.float32)}, r"scores \[3, 5\] instead of \[2, 5\]"),
        ],
    )
    def test_a_file_that_does_not_fit_says_what_would(self, om, session, changes, says):
        with pytest.raises(GoldenError, match=says):
            golden.check(self.write(om, **changes), session)

    def test_a_file_that_is_none_is_named(self, om, session):
        with pytest.raises(GoldenError, match=r"m\.om cannot be read as \.npz|m\.om"):
            golden.check(om.path, session)

    @pytest.mark.parametrize(
        ("got", "expected", "largest", "cosine"),
        [
            ([np.nan, 1], [np.nan, 1], 0.0, 1.0),
            ([np.inf, 1], [np.inf, 1], 0.0, 1.0),
            ([np.nan, 1], [2, 1], np.inf, 0.0),
            ([0, 0], [0, 0], 0.0, 1.0),
            ([0, 0], [0, 1], 1.0, 0.0),
            ([3, 4], [4, 3], 1.0, 0.96),
        ],
    )
    def test_figures(self, got, expected, largest, cosine):
        figures = golden.compare("y", np.array(got, np.float32), np.array(expected, np.float32))
        assert figures.max_abs == largest
        assert figures.cosine == pytest.approx(cosine)


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestHealth:
    def fail(self, session, om):
        with pytest.raises(RuntimeError) as caught:
            session.run(None, om.random(1))
        return caught.value

    def test_an_error_that_the_session_survives_changes_nothing(self, om, session, stand_in):
        said = []
        health = Health(session, said.append)
        with stand_in.failing("aclmdlExecuteAsync", 107003):
            health.failed(self.fail(session, om))
        assert (health.reason, health.restart_needed, said) == (None, False, [])

    def test_a_time_limit_refuses_until_the_work_ended_and_then_serves_again(self, om, stand_in):
        said = []
        with ge_core.InferenceSession(om.path, runtime="cpu", execute_timeout_ms=200) as session:
            health = Health(session, said.append)
            fault = {"entry": "aclmdlExecuteAsync", "kth": 1, "effect": "delay", "delay_us": 1_500_000}
            assert stand_in._library.acl_cpu_inject(json.dumps(fault).encode()) == 0
            try:
                error = self.fail(session, om)
                assert isinstance(error, TimeoutError)
                health.failed(error)
                health.failed(error)
                assert "asked again" in health.reason
                assert not health.restart_needed
                wait_until(lambda: health.reason is None)
                np.testing.assert_array_equal(session.run(None, om.random(2))[0], om.expected(om.random(2))[0])
            finally:
                health.close()
        assert [text.split()[0:2] for text in said] == [["answers", "UNAVAILABLE"], ["answers", "again,"]]

    def test_a_slot_that_a_time_limit_took_comes_back_while_the_others_serve(self, om, stand_in):
        said = []
        with ge_core.InferenceSession(om.path, runtime="cpu", slots=2, execute_timeout_ms=50) as session:
            health = Health(session, said.append)
            with stand_in.injecting("aclmdlExecuteAsync", effect="delay", delay_us=400_000):
                health.failed(self.fail(session, om))
            assert health.reason is None and session.stats()["slots"] == 1
            np.testing.assert_array_equal(session.run(None, om.random(2))[0], om.expected(om.random(2))[0])
            wait_until(lambda: session.stats()["slots"] == 2)
            health.close()
        assert said == []

    def test_an_error_that_poisons_the_device_asks_for_a_new_process(
        self, om, session, stand_in, tmp_path, monkeypatch
    ):
        monkeypatch.setenv("GE_CORE_LOST_WORKERS", str(tmp_path / "lost"))
        (tmp_path / "lost").mkdir()
        said = []
        health = Health(session, said.append)
        with stand_in.failing("aclrtSynchronizeStream", 507014):
            health.failed(self.fail(session, om))
        health.close()
        assert health.restart_needed
        assert [file.name for file in (tmp_path / "lost").iterdir()] == [str(os.getpid())]
        assert "507014" in health.reason and "unload and load the model" in health.reason
        assert len(said) == 1

    def test_closing_ends_the_attempts(self, om):
        class Stuck:
            def stats(self):
                return {"unhealthy": "stuck", "slots": 1}

            def recover(self):
                raise ge_core.UnsupportedError("not yet")

        health = Health(Stuck(), lambda text: None)
        health.failed(RuntimeError("x"))
        health.close()
        assert "stuck" in health.reason
        assert not [thread for thread in threading.enumerate() if thread.name == "ge_core recovery"]


class Metric:
    def __init__(self, family, labels):
        self.value, self.calls = 0, 0
        family.series[tuple(sorted(labels.items()))] = self

    def increment(self, by):
        assert by >= 0
        self.value += by
        self.calls += 1

    def set(self, value):
        self.value = value
        self.calls += 1


def with_metrics():
    """PbUtils with a MetricFamily whose families are kept in `.families`."""
    pb_utils = PbUtils()
    pb_utils.families = {}
    pb_utils.TritonModelException = TritonModelException

    class MetricFamily:
        COUNTER, GAUGE = "counter", "gauge"

        def __init__(self, name, description, kind):
            assert description
            self.kind, self.series = kind, {}
            pb_utils.families[name] = self

        def Metric(self, labels):  # noqa: N802  Triton's name
            return Metric(self, labels)

    pb_utils.MetricFamily = MetricFamily
    return pb_utils


class TestMetrics:
    def test_series_follow_what_is_collected_and_what_stays_equal_costs_nothing(self):
        pb_utils, values = with_metrics(), {"ge_rows_total": 3, "ge_healthy": 1}
        publisher = Publisher(pb_utils, {"model": "m"}, lambda: [Sample(*item) for item in values.items()])
        publisher.publish()
        publisher.publish()
        rows, healthy = (pb_utils.families[name].series[("model", "m"),] for name in values)
        assert (rows.value, rows.calls, healthy.value, healthy.calls) == (3, 1, 1, 1)
        values.update(ge_rows_total=10, ge_healthy=0)
        publisher.publish()
        assert (rows.value, healthy.value) == (10, 0)
        kinds = {name: family.kind for name, family in pb_utils.families.items()}
        assert kinds == {"ge_rows_total": "counter", "ge_healthy": "gauge"}
        publisher.close()

    def test_a_server_without_metrics_is_no_error(self):
        pb_utils = with_metrics()

        def refuse(**arguments):
            raise TritonModelException("metrics not supported")

        refuse.GAUGE = refuse.COUNTER = 0
        pb_utils.MetricFamily = refuse
        publisher = Publisher(pb_utils, {}, lambda: [Sample("ge_healthy", 1)])
        assert not publisher.start()
        publisher.close()
        assert pb_utils.Logger.lines == ["GE Backend: no ge_ metrics: metrics not supported"]

    def test_a_session_in_figures(self, om, session):
        session.run(None, om.random(4))
        figures = metrics.SessionFigures(session)  # counts from now on
        for rows in (1, 3, 3):
            session.run(None, om.random(rows))
        samples = {(sample.name, *sample.labels.values()): sample.value for sample in figures.samples()}
        assert samples["ge_rows_total",] == 7
        assert samples["ge_padded_rows_total",] == 2
        assert [samples["ge_executions_total", gear] for gear in "124"] == [1, 0, 2]
        assert samples["ge_batches_in_flight",] == 0
        assert samples["ge_device_memory_used_bytes", "0"] >= samples["ge_model_device_bytes",] > 0
        assert samples["ge_device_memory_total_bytes", "0"] == HBM_BYTES
        assert 0 <= samples["ge_device_utilization_percent", "0"] <= 100
        assert {key[0] for key in samples} <= metrics.COUNTERS.keys() | metrics.GAUGES.keys()

    def test_stages_of_every_so_manyth_batch_are_summed(self, tmp_path):
        om = write_synthetic(tmp_path / "slow.om", *ROWS, batch=(1, 2, 4), exec_us=500)
        with ge_core.InferenceSession(om.path, runtime="cpu") as session:
            figures = metrics.SessionFigures(session)
            for _ in range(2 * metrics.TIMED_EVERY):
                session.run(None, om.random(1))
            samples = {(sample.name, *sample.labels.values()): sample.value for sample in figures.samples()}
        assert samples["ge_timed_batches_total",] == 2
        assert samples["ge_stage_seconds_total", "execute"] >= 2 * 500e-6

    def test_gears_of_several_numbers_are_one_label(self, tmp_path):
        session = SimpleNamespace(
            stats=lambda: {
                "rows": 0, "padded_rows": 0, "slots": 1, "slots_free": 1, "device_bytes": 0, "pinned_bytes": 0,
                "executions_by_gear": {"(224, 448)": 2},
            },
            _engine=SimpleNamespace(sample_stages=lambda every: None, stage_samples=list, contexts=()),
            description=SimpleNamespace(runtime="cpu"),
        )  # fmt: skip
        samples = [sample for sample in metrics.SessionFigures(session).samples() if sample.labels.get("gear")]
        assert samples == [Sample("ge_executions_total", 0, {"gear": "224x448"})]


def make(folder, kind):
    """A small om of each kind."""
    gears = {"batch": [1, 2], "image_size": [[2, 3], [4, 5]], "dims": [[1, 3], [2, 6]]}.get(kind)
    shape = {"static": (2, 3), "batch": (-1, 3), "image_size": (1, -1, -1), "dims": (-1, -1), "range": (-1, 3)}[kind]
    ranges = {"x": [[1, 8], [3, 3]]} if kind == "range" else None
    fixed = {"image_size": [[1, 2, 3], [1, 4, 5]], "dims": [[1, 3], [2, 6]], "batch": [[1, 3], [2, 3]]}.get(kind)
    output = {"name": "y", "dtype": "float32", "shape": list(shape), "tensor": "y"}
    if fixed:
        output["gear_shapes"] = fixed
    manifest = {
        "schema": 1, "generator": "tests", "soc": "Ascend910B3", "name": kind, "kind": "synthetic",
        "inputs": [{"name": "x", "dtype": "float32", "shape": list(shape), "format": "ND", "tensor": "x"}],
        "outputs": [output], "gears": gears and {"kind": kind, "values": gears}, "ranges": ranges, "exec_us": None,
        "weight_bytes": 0, "work_bytes": 0,
    }  # fmt: skip
    om_file.write(folder / f"{kind}.om", manifest)
    return Om(folder / f"{kind}.om", manifest)


KINDS = {"static": ["2"], "batch": ["1", "2"], "image_size": ["2x3", "4x5"], "dims": ["1x3", "2x6"], "range": ["1x3"]}


@pytest.mark.parametrize("kind", KINDS)
def test_warming_up_runs_every_gear(tmp_path, kind):
    with ge_core.InferenceSession(make(tmp_path, kind).path, runtime="cpu") as session:
        times = warmup.warm_up(session)
        assert list(times) == KINDS[kind]
        assert all(time > 0 for time in times.values())
        assert session.stats()["executions"] == 2 * len(times)


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_says_what_runs_where(tmp_path, monkeypatch, kind):
    om = make(tmp_path, kind)
    monkeypatch.setenv(host_limits.MASK, "3,5")
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        config = {"name": "m", "max_batch_size": 2}
        lines = [load_report.summary(session, config, ServingOptions(), {"1": 1.234})]
        lines += load_report.table(session, config, {"1": 1.234}, [("a", "note")])
    text = "\n".join(lines)
    assert all(line.startswith("GE Backend: 'm' ") for line in lines)
    assert "cpu (the CPU implementation of AscendCL, no NPU), device 0 (physical 3, ASCEND_RT_VISIBLE_DEVICES=" in text
    for part in (f"serves {om.path} (Ascend910B3) on", "model made by tests", "x: float32[", "1: 1.23 ms", " note"):
        assert part in text
    assert {"image_size": "image_size gears 2x3, 4x5", "range": "range of shapes"}.get(kind, kind) in lines[0]
    assert all(text.count(part) == 1 for part in (str(om.path), "Ascend910B3", "ASCEND_RT_VISIBLE_DEVICES"))


def description_of(**fields):
    return SimpleNamespace(**{"gears": (1, 2, 4), "gear_kind": "batch", **fields})


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"max_batch_size": 8}, ["merges up to 8 rows"]),
        ({"max_batch_size": 8, "dynamic_batching": {}}, []),
        ({"max_batch_size": 1}, []),
        ({"max_batch_size": 0, "dynamic_batching": {}}, ["cannot merge anything"]),
        ({"max_batch_size": 8, "dynamic_batching": {"max_queue_delay_microseconds": "500"}}, ["500 is added"]),
        ({"max_batch_size": 8, "dynamic_batching": {"preferred_batch_size": [2, 3]}}, ["batch_size 3 is no gear"]),
        ({"max_batch_size": 8, "dynamic_batching": {"priority_levels": "2"}}, ["priority_levels make", "1,075 ms"]),
        (
            {"max_batch_size": 8, "dynamic_batching": {"default_queue_policy": {"max_queue_size": 16}}},
            ["default_queue_policy make"],
        ),
        (
            {"max_batch_size": 8, "dynamic_batching": {"default_queue_policy": {"timeout_action": "REJECT"}}},
            [],
        ),
        ({"max_batch_size": 1, "response_cache": {"enable": True}}, ["--cache-config=local"]),
    ],
)  # fmt: skip
def test_hints_name_what_hurts_with_its_measured_effect(config, says):
    hints = list(load_report.hints(config, description_of(), 1))
    assert len(hints) == bool(says)
    for text in says:
        assert text in hints[0]


@pytest.mark.parametrize(("ragged", "count"), [([True, True], 0), ([True, False], 1)])
def test_other_lengths_in_one_call_need_a_word_in_every_input(ragged, count):
    inputs = [{"name": str(number), "allow_ragged_batch": value} for number, value in enumerate(ragged)]
    config = {"max_batch_size": 4, "dynamic_batching": {}, "input": inputs}
    hints = list(load_report.hints(config, SimpleNamespace(gear_kind="dims", gears=((1, 128), (4, 128))), 1))
    assert len(hints) == count and all("allow_ragged_batch: true" in hint for hint in hints)


def test_instances_that_share_a_device_are_told_of_slots():
    (hint,) = load_report.hints({"max_batch_size": 1}, description_of(), 3)
    assert "3 instances share a device" in hint and "`slots`" in hint


def test_an_om_outside_the_model_folder_names_the_file_to_touch(tmp_path):
    inside = tmp_path / "m" / "1" / "model.om"
    assert load_report.outside_hint(inside, inside.parent) is None
    hint = load_report.outside_hint(tmp_path / "other.om", inside.parent)
    assert f"touch {tmp_path}/m/1/reload" in hint


@pytest.mark.parametrize(
    ("mask", "physical", "problem"),
    [
        ("4,5", (4, 5), None),
        ("4", (4,), None),
        ("4, 5", (4,), "' 5' is not a number"),
        ("4,x,5", (4,), "'x' is not a number"),
        ("5,4", (5,), "4 does not ascend"),
        ("5,5", (5,), "5 does not ascend"),
        ("", (), "'' is not a number"),
    ],
)
def test_the_device_mask_as_the_runtime_reads_it(mask, physical, problem):
    read = host_limits.read_mask(mask)
    assert read.physical == physical
    assert problem is None if read.problem is None else problem in read.problem


@pytest.mark.parametrize(
    ("ids", "mask", "text"),
    [
        ([1], "4,5", "device 1 (physical 5, ASCEND_RT_VISIBLE_DEVICES=4,5)"),
        ([0, 1], "4,5", "devices 0, 1 (physical 4, 5, ASCEND_RT_VISIBLE_DEVICES=4,5)"),
        ([1], "", "device 1"),
        ([0, 2], "4,5", "devices 0, 2"),
    ],
)
def test_devices_in_words(ids, mask, text):
    assert host_limits.devices_text(ids, {host_limits.MASK: mask}) == text


def test_a_mask_that_means_less_than_it_says_is_warned_of():
    assert host_limits.mask_warning({host_limits.MASK: "4,5"}) is None
    assert "ascending ids without blanks" in host_limits.mask_warning({host_limits.MASK: "4, 5"})


def test_device_memory_of_all_instances_against_what_is_free():
    text, fits = host_limits.memory_text(1, 3 << 30, 2, 8 << 30, 32 << 30)
    assert fits
    assert "2 instance(s) on device 1 × 3,221,225,472 bytes = 6,442,450,944; 8,589,934,592 of" in text
    text, fits = host_limits.memory_text(1, 3 << 30, 3, 8 << 30, 32 << 30)
    assert not fits
    assert "lower instance_group's count" in text


def test_instances_that_can_never_be_on_a_device_together_are_refused(om, session):
    need = session.stats()["device_bytes"]
    count = HBM_BYTES // need + 1
    served = Served(om, parameters={"warmup": "false"})
    served.model.close()
    served.config["instance_group"][0]["count"] = count - 1
    serving.load(served.pb_utils, served.arguments(0)).close()
    served.config["instance_group"][0]["count"] = count
    says = (
        f"{count} instance.s. on device 0 × {need:,} bytes = {count * need:,}, and the device has {HBM_BYTES:,} bytes"
    )
    for instance in (0, 5):
        with pytest.raises(MemoryError, match=says):
            serving.load(served.pb_utils, served.arguments(instance))


@pytest.mark.parametrize(
    ("parameters", "runtime", "environ", "warned"),
    [
        ({"EXECUTION_ENV_PATH": "/env"}, "npu", {}, True),
        ({"EXECUTION_ENV_PATH": "/env"}, "npu", {"ASCEND_OPP_PATH": "/usr/local/Ascend/opp"}, False),
        ({"EXECUTION_ENV_PATH": "/env"}, "cpu", {}, False),
        ({}, "npu", {}, False),
    ],
)
def test_an_environment_whose_script_was_not_run_is_told(parameters, runtime, environ, warned):
    text = host_limits.environment_warning(parameters, runtime, environ)
    assert (text is not None and "source CANN's set_env.sh" in text) == warned


def test_shared_memory_with_the_flags_to_set():
    need = shm_space.pool_need([3 * 1024 * 1024 * 4 * 16, 1000], 1, 16)
    assert 200 << 20 < need < 300 << 20
    text, well = shm_space.pool_text(need, 2, shm_space.PoolSettings(), 64 << 20)
    assert not well
    assert "docker run --shm-size=640m or more" in text
    assert "--backend-config=python,shm-default-byte-size=262144000" in text
    text, well = shm_space.pool_text(1000, 2, shm_space.PoolSettings(), 64 << 20)
    assert well
    assert "--" not in text.replace("----", "")


def test_pool_settings_come_from_the_servers_command_line(tmp_path):
    assert shm_space.pool_settings(os.getpid()) == shm_space.PoolSettings()
    assert shm_space.pool_settings(2**22 + 1) == shm_space.PoolSettings()
    assert shm_space.space(tmp_path / "none") is None


def served_with_metrics(folder):
    """A model that Triton loads with metrics on, and the calls that its series saw."""
    om = write_synthetic(folder / "1" / "m.om", *ROWS, batch=(1, 2, 4))
    one = Served.__new__(Served)
    one.om, one.pb_utils = om, with_metrics()
    names = [{"name": name, "data_type": "TYPE_INVALID"} for name in ("scores", "label")]
    one.config = model_config(parameters={"runtime": "cpu"}, max_batch_size=4, output=names)
    one.model = serving.load(one.pb_utils, one.arguments(0))
    families = one.pb_utils.families

    def calls():
        return sum(metric.calls for family in families.values() for metric in family.series.values())

    return one, calls


def test_requests_touch_no_metric_and_closing_ends_the_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics.Publisher.__init__, "__defaults__", (3600.0,))
    (tmp_path / "1").mkdir()
    one, calls = served_with_metrics(tmp_path)
    before = calls()
    assert before > 0
    feeds = one.om.random(2)
    for _ in range(20):
        one.ask(feeds)
    (refused,) = one.ask({"ids": feeds["ids"][:, :2]})
    assert "ids" in refused.message()
    assert calls() == before
    assert one.model.is_ready()
    one.model.close()
    one.model.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ge_core")]


def test_errors_are_counted_by_code_and_a_lost_device_refuses(tmp_path, stand_in):
    (tmp_path / "1").mkdir()
    one, _ = served_with_metrics(tmp_path)
    feeds = one.om.random(2)
    one.ask({"ids": feeds["ids"][:, :2]})
    with stand_in.failing("aclmdlExecuteAsync", 107003):
        one.ask(feeds)
    with stand_in.failing("aclmdlExecuteAsync", 507015):
        one.ask(feeds)
    (refused,) = one.ask(feeds)
    assert refused.code() == TritonError.UNAVAILABLE
    assert "Only a new process ends this" in refused.message()
    assert not one.model.is_ready()
    one.model.monitor.publish()
    families = one.pb_utils.families
    counts = {dict(key)["code"]: metric.value for key, metric in families["ge_errors_total"].series.items()}
    assert counts == {"RequestError": 1, "107003": 1, "507015": 1, "NotRunningError": 1}
    values = {name: [metric.value for metric in families[name].series.values()] for name in families}
    assert (values["ge_healthy"], values["ge_restart_needed"]) == ([0], [1])
    (labels,) = families["ge_healthy"].series
    assert dict(labels) == {"model": "m", "version": "1", "instance": "m_0", "pid": str(os.getpid())}
    one.model.close()
