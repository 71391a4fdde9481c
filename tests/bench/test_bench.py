# SPDX-License-Identifier: Apache-2.0
"""The bench: its statistics on known samples and a virtual clock, its records, and one tiny live run."""

import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tritonclient.utils import InferenceServerException

import ge_core
from bench.benches import latency, latency_rounds, overhead, prepare, throughput
from bench.measure import child, cpu_counters, records, stats, verify
from bench.measure.progress import Progress
from bench.models import networks, presets
from bench.paths import c_path, calling, clients, load_generator
from bench.report import tables
from bench.served import server
from ge_core.engine import engine_of

QUIET = Progress(lambda line: None)
ROOT = Path(__file__).resolve().parents[2]
DEVICE = {"kind": "cpu", "name": "CPU implementation of AscendCL (not an NPU)", "soc": "Ascend910B3"}


def record(**changes) -> records.Record:
    values = dict.fromkeys(("p50_us", "p90_us", "p95_us", "mean_us", "rows_per_s"), 1.0)
    values |= dict.fromkeys(("batch", "concurrency", "slots", "bytes_in", "bytes_out", "n"), 1)
    values |= {"bench": "latency", "path": "direct", "transport": None, "model": "m", "instances": None}
    values |= {"timing": "computed", "p99_us": None, "stable": True, "device": DEVICE, "host": {}, "versions": {}}
    return records.Record(**{**values, **changes})


class VirtualClock:
    """A clock in nanoseconds that only moves when told to."""

    def __init__(self):
        self.now_ns = 0
        self.slept_s = []

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_ns += round(seconds * 1e9)

    def work(self, us: float):
        def function():
            self.now_ns += round(us * 1e3)

        return function


def test_summary_of_known_samples():
    fields = stats.summarize([us * 1000 for us in range(1, 102)])
    assert fields == {"n": 101, "p50_us": 51.0, "p90_us": 91.0, "p95_us": 96.0, "p99_us": 100.0, "mean_us": 51.0}


def test_percentile_interpolates_between_ranks_in_any_order():
    assert stats.percentile([40, 10, 30, 20], 50) == 25.0
    assert stats.percentile([0, 100], 90) == pytest.approx(90.0)
    assert stats.percentile([7], 99) == 7.0


@pytest.mark.parametrize(("count", "known"), [(99, False), (100, True)])
def test_p99_needs_a_hundred_samples(count, known):
    assert (stats.summarize([1000] * count)["p99_us"] is not None) == known


def test_steady_samples_are_stable():
    assert stats.is_stable(stats.sequential_windows([1000, 1010, 990] * 30))


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        ([1000] * 30 + [1050] * 30 + [1120] * 30, "latency drifts up by 12 %"),
        ([1000] * 60 + [1000, 1000, 1600] * 10, "every third call of the last window is slow: throughput falls"),
        ([1200] * 30 + [1000] * 60, "the first window was not warm"),
    ],
)
def test_drift_and_jitter_are_unstable(samples, what):
    assert not stats.is_stable(stats.sequential_windows(samples)), what


def test_windows_say_throughput_and_latency():
    assert stats.sequential_windows([1_000_000] * 2 + [2_000_000] * 2 + [4_000_000] * 2) == [
        (1000.0, 1000.0),
        (500.0, 2000.0),
        (250.0, 4000.0),
    ]


def test_concurrent_windows_count_completions_per_second():
    finished = [i * 1_000_000 for i in range(31)]
    assert stats.concurrent_windows(finished, [5_000_000] * 31) == [(1000.0, 5000.0)] * 3


def test_rate_counts_whole_bursts_only():
    bursts = [t for batch in range(5) for t in [batch * 200_000_000] * 8]
    assert stats.completion_rate(bursts, 8) == pytest.approx(40.0)
    assert stats.completion_rate([*bursts, 1_000_000_000], 8) == pytest.approx(40.0)
    with pytest.raises(ValueError, match="at least 16 completions"):
        stats.completion_rate(bursts[:15], 8)


def test_gap_is_taken_pair_by_pair():
    c = [1000 * us for us in (100, 200, 300, 400, 500)]
    triton = [1000 * us for us in (110, 220, 330, 440, 550)]
    gap = stats.paired_gap(triton, c)
    assert gap.gap_us == 30.0
    assert gap.p10_us == pytest.approx(14.0)
    assert gap.p90_us == pytest.approx(46.0)
    with pytest.raises(ValueError, match="5 and 4"):
        stats.paired_gap(triton, c[:4])


def test_interleave_times_calls_without_their_pauses():
    clock = VirtualClock()
    calls = {
        "c": stats.Call(stats.timed(clock.work(100), clock)),
        "triton": stats.Call(stats.timed(clock.work(250), clock)),
        "floor": stats.Call(stats.timed(clock.work(70), clock), every=2, pause_s=0.078),
    }
    samples = stats.interleave(calls, 10, sleep=clock.sleep)
    assert samples == {"c": [100_000] * 10, "triton": [250_000] * 10, "floor": [70_000] * 5}
    assert clock.slept_s == [0.078] * 5
    assert clock.now_ns == 10 * 350_000 + 5 * 78_070_000


def test_interleave_spreads_drift_over_all_calls():
    clock = VirtualClock()
    order = []

    def drifting(name):
        def function():
            order.append(name)
            clock.now_ns += 1000 + 10 * len(order)

        return stats.Call(stats.timed(function, clock))

    samples = stats.interleave({name: drifting(name) for name in "abc"}, 200, sleep=clock.sleep)
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert len({tuple(order[i : i + 3]) for i in range(0, 600, 3)}) == 6
    assert abs(stats.paired_gap(samples["a"], samples["b"]).gap_us) < 0.05


def test_turns_share_the_calls_and_count_wall_clock():
    clock = VirtualClock()
    sizes = []

    def path(us, idle_us):
        def run(count):
            sizes.append(count)
            clock.now_ns += round(count * (us + idle_us) * 1e3)
            return [us * 1000] * count

        return run

    paths = {"c": stats.turns_of(path(100, 0), clock), "direct": stats.turns_of(path(100, 25), clock)}
    found = stats.alternate(paths, 25, 6)
    assert sizes == [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5]
    assert [turn.wall_ns for turn in found["direct"]] == [500_000] * 5 + [625_000]
    assert [len(turn.elapsed_ns) for turn in found["c"]] == [4, 4, 4, 4, 4, 5]
    assert (stats.rate(found["c"]), stats.rate(found["direct"])) == (10_000.0, 8_000.0)
    assert stats.turn_windows(found["direct"]) == [(8_000.0, 100.0)] * 3


def test_turns_make_windows_of_their_rates():
    turns = [stats.Turn([1000] * 10, wall_ns) for wall_ns in (10_000, 10_000, 12_000, 12_000, 10_000, 10_000)]
    assert [round(rate) for rate, _ in stats.turn_windows(turns)] == [1_000_000, 833_333, 1_000_000]
    assert not stats.is_stable(stats.turn_windows(turns))
    assert stats.is_stable(stats.turn_windows(turns[:2] + turns[4:]))
    assert len(stats.turn_windows(turns[:2])) == 2


@pytest.mark.parametrize(
    ("plan", "round_s", "smallest", "rounds"),
    [
        (latency_rounds.QUICK, 0.64, True, 100),  # the llama7b preset's batch 1: enough for a p99
        (latency_rounds.QUICK, 0.64, False, 16),
        (latency_rounds.QUICK, 0.1, False, 40),
        (latency_rounds.QUICK, 0.001, True, 2000),
        (latency_rounds.QUICK, 5.0, True, 16),
        (latency_rounds.Plan(), 0.001, False, 5000),
        (latency_rounds.Plan(), 2.0, False, 100),
    ],
)
def test_rounds_fit_the_time(plan, round_s, smallest, rounds):
    assert plan.rounds(round_s, smallest) == rounds


def test_record_names_known_paths_and_its_device():
    assert record(transport="grpc+shm", path="floor").transport == "grpc+shm"
    with pytest.raises(ValueError, match="'fast' is none of c, c-pinned"):
        record(path="fast")
    with pytest.raises(ValueError, match="'udp' is none of grpc, http"):
        record(transport="udp")
    with pytest.raises(ValueError, match="must name its device"):
        record(device={"kind": "cpu", "name": ""})


def test_ratio_is_of_medians_with_its_spread_over_blocks():
    c = [10_000] * 100 + [20_000] * 100 + [10_000] * 100
    ours = [11_000] * 100 + [21_000] * 100 + [12_000] * 100
    ratio = stats.paired_ratio(ours, c)
    assert ratio.ratio == 1.2
    assert (ratio.ratio_p10, ratio.ratio_p90) == (pytest.approx(1.06), pytest.approx(1.18))
    assert ratio.apart_us == 2.0
    assert (ratio.apart_p10_us, ratio.apart_p90_us) == (pytest.approx(1.0), pytest.approx(1.8))
    assert stats.paired_ratio(ours[:3], c[:3]).ratio_p90 == pytest.approx(1.1)
    with pytest.raises(ValueError, match="300 and 3"):
        stats.paired_ratio(ours, c[:3])


@pytest.mark.parametrize(
    ("levels", "most", "taken", "asked"),
    [
        ([100, 130, 131, 129, 500], 9, [130, 131, 129], 4),
        ([100, 150, 110, 115, 200, 90], 6, [150, 110, 115], 6),
        ([100, 150], 1, None, 3),
    ],
)
def test_windows_are_taken_until_three_agree_or_the_most_even_ones(levels, most, taken, asked):
    levels = [*levels, 150]
    count = []

    def window():
        count.append(levels[len(count)])
        return {"c": [count[-1]] * 10, "direct": [1000] * 10}

    windows = stats.until_stable(window, most)
    assert len(count) == asked
    assert [part["c"][0] for part in windows] == (taken or [100, 150, 150])


def test_a_turn_is_chosen_by_evenness_and_not_by_rate():
    fast = [0, 1, 2, 3, 5, 7, 9]
    even = [0, 4, 8, 12, 16, 20, 24]
    made = []

    def run_of(turns):
        def run():
            made.append(turns[len(made) // 2])
            return load_generator.Completions([1_000_000 * t for t in made[-1]], [1000] * 7)

        return run

    runs = {"direct": run_of([fast, even, fast]), "triton": run_of([even, even, fast])}
    taken = throughput.most_stable(runs, 3)
    assert {name: found.finished_ns[-1] for name, found in taken.items()} == {
        "direct": 24_000_000,
        "triton": 24_000_000,
    }
    assert len(made) == 4
    made.clear()
    taken = throughput.most_stable(runs, 1)
    assert {name: found.finished_ns[-1] for name, found in taken.items()} == {"direct": 9_000_000, "triton": 24_000_000}


def test_report_has_the_documented_form(tmp_path):
    report = records.Report(
        [record(samples_ns=[1, 2])],
        {"models": []},
        [records.Limit("G6a", 0.93, 1.0), records.Limit("G7", 0.9, 0.99, at_least=True)],
    )
    report.write(tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert list(written) == ["schema", "records", "summary", "limits"]
    assert written["schema"] == 1
    fields = "bench path transport model batch concurrency slots instances bytes_in bytes_out timing n p50_us p90_us "
    fields += "p95_us p99_us mean_us rows_per_s stable device host versions"
    assert " ".join(written["records"][0]) == fields
    assert written["limits"] == [
        {"id": "G6a", "value": 0.93, "limit": 1.0, "at_least": False, "ok": True},
        {"id": "G7", "value": 0.9, "limit": 0.99, "at_least": True, "ok": False},
    ]


@pytest.mark.parametrize(
    ("limit", "stable", "code"), [(1.0, True, 0), (0.5, True, 3), (0.5, False, 3), (1.0, False, 4)]
)
def test_exit_codes(limit, stable, code):
    report = records.Report([record(stable=False)], {}, [records.Limit("G6a", 0.9, limit, stable)])
    assert report.exit_code(check=True) == code
    assert report.exit_code(check=False) == 0


@pytest.mark.parametrize(("value", "ok"), [(0.97, False), (0.98, True), (1.2, True)])
def test_a_limit_may_be_a_lower_one(value, ok):
    assert records.Limit("G8a", value, 0.98, at_least=True).ok is ok


def test_percentiles_can_be_taken_again_from_the_samples(tmp_path):
    times = [np.random.default_rng(seed).integers(1000, 90_000_000, 250).tolist() for seed in (0, 1)]
    rows = [record(batch=seed + 1, samples_ns=times[seed], **stats.summarize(times[seed])) for seed in (0, 1)]
    report = records.Report(rows)
    report.write_samples(tmp_path / "samples.npz")
    written = report.to_dict()["records"]
    with np.load(tmp_path / "samples.npz") as samples:
        assert samples.files == [f"00{n} latency direct m batch {n + 1} concurrency 1" for n in (0, 1)]
        for row, name in zip(written, samples.files, strict=True):
            assert samples[name].dtype == np.int64
            assert samples[name].tolist() == times[row["batch"] - 1]
            for q in (50, 90, 95, 99):
                assert row[f"p{q}_us"] == pytest.approx(np.percentile(samples[name], q) / 1e3, abs=2e-3)
    assert "samples_ns" not in written[0]


def test_reports_join():
    joined = records.Report.merged(
        [
            records.Report([record()], {"overhead": {}}, [records.Limit("G1", 1, 2)]),
            records.Report([record(bench="throughput")], {"throughput": {}}, [records.Limit("G9", 4, 3.9)]),
        ]
    )
    assert [r.bench for r in joined.records] == ["latency", "throughput"]
    assert list(joined.summary) == ["overhead", "throughput"]
    assert [limit.id for limit in joined.limits] == ["G1", "G9"]


def test_without_limits_every_row_must_be_stable():
    assert records.Report([record()], {}, []).exit_code(check=True) == 0
    assert records.Report([record(), record(stable=False)], {}, []).exit_code(check=True) == 4


def test_limits_of_the_llama_preset():
    rows = [
        {"batch": 1, "transport": "grpc+shm", "gap_us": 800.0, "gap_to_floor": 0.8, "stable": True},
        {"batch": 8, "transport": "http+shm", "gap_us": 1150.0, "gap_to_floor": 0.9, "stable": False},
        {"batch": 4, "transport": "grpc", "gap_us": 9000.0, "gap_to_floor": 0.9, "stable": True},
        {"batch": 2, "transport": "grpc+shm", "gap_us": 1.0, "gap_to_floor": 0.1, "stable": True},
        {"batch": 4, "transport": "grpc+shm"},
    ]
    loaded = {"direct_path": "c", "direct_rows_per_s": 36.0, "triton_rows_per_s": 35.5, "stable": True}
    loaded |= {"clients": 16, "batch": 8}
    found = latency.limits("llama7b", rows, loaded)
    assert [(limit.id.split(":")[0], limit.value, limit.limit, limit.ok, limit.stable) for limit in found] == [
        ("G6a batch 1", 0.8, 1.0, True, True),
        ("G6b batch 8", 1.15, 1.1, False, False),
        ("G7", 0.9861, 0.99, False, True),
    ]
    assert found[-1].id == "G7: rows/s of 16 clients, better of the two ways / c with batch 8"
    assert latency.limits("llama7b", [], loaded | {"direct_path": "direct"}) == []


def test_limits_of_the_image_preset():
    rows = [
        {"batch": 1, "transport": "grpc", "gap_us": 800.0, "gap_to_floor": 0.8, "stable": True},
        {"batch": 1, "transport": "http", "gap_us": 900.0, "gap_to_floor": 1.01, "stable": False},
        {"batch": 1, "transport": "http+shm", "gap_us": 900.0, "gap_to_floor": 0.9, "stable": True},
        {"batch": 1, "transport": "grpc+shm"},
    ]
    found = latency.limits("image", rows, {})
    assert [(limit.id.rpartition(" ")[2], limit.value, limit.limit, limit.ok, limit.stable) for limit in found] == [
        ("grpc", 0.8, 1.0, True, True),
        ("http", 1.01, 1.0, False, False),
    ]
    assert latency.limits("resnet50", rows, {}) == []


def test_the_image_preset_has_the_sizes_of_its_limit_and_names_the_hand_off(tmp_path):
    options = prepare.Options(presets=("image",))
    ((label, (case,)),) = prepare.compile_cases(options, "cpu", {"soc": "Ascend910B3"}, tmp_path, QUIET)
    with ge_core.InferenceSession(case.om, runtime="cpu") as session:
        outputs = session.run(None, case.rows(1))
    assert (label, case.name, case.timing) == ("image", "image", f"declared 0 ms; {cpu_counters.HAND_OFF}")
    assert (sum(a.nbytes for a in case.rows(1).values()), sum(a.nbytes for a in outputs)) == (602_112, 4_000)
    with pytest.raises(presets.UnavailableError, match="preset image is a synthetic model"):
        next(prepare.compile_cases(options, "npu", {"soc": ""}, tmp_path, QUIET))


def test_a_wrong_answer_is_told():
    right = [np.zeros((2, 3), np.float32)]
    near, far = [right[0] + np.float32(5e-4)], [right[0] + np.float32(2e-3)]
    verify.check_outputs(right, near, "triton", exact=False)
    with pytest.raises(verify.WrongOutputError, match=r"triton, output 0: must be equal bit for bit"):
        verify.check_outputs(right, near, "triton", exact=True)
    with pytest.raises(verify.WrongOutputError, match=r"within 0\.001, differs by 0\.002"):
        verify.check_outputs(right, far, "triton", exact=False)
    with pytest.raises(verify.WrongOutputError, match=r"expected float32 \(2, 3\), got float32 \(1, 3\)"):
        verify.check_outputs(right, [right[0][:1]], "triton", exact=False)
    with pytest.raises(verify.WrongOutputError, match="differs by nan"):
        verify.check_outputs(right, [right[0] * np.nan], "triton", exact=False)


def test_cases_give_different_rows_and_wrap():
    case = presets.Case("m", Path("m.om"), {"x": np.arange(32).reshape(16, 2)}, True, "computed")
    assert case.rows(3, 15)["x"].tolist() == [[30, 31], [0, 1], [2, 3]]
    assert case.rows(3)["x"].flags.c_contiguous
    whole = presets.Case("m", Path("m.om"), {"x": np.arange(6).reshape(2, 3)}, False, "computed")
    assert whole.rows(1, 5)["x"].shape == (2, 3)


@pytest.mark.parametrize("part", ["cls", "rec"])
def test_text_lines_are_what_pp_ocr_expects(part):
    pytest.importorskip("PIL")
    pytest.importorskip("matplotlib")
    lines = presets.text_lines(part)
    assert lines.shape == (16, 3, 48, presets.OCR_WIDTHS[part])
    assert lines.dtype == np.float32
    assert lines.min() == -1.0
    assert lines.max() == 1.0
    assert len({line.tobytes() for line in lines}) == 16
    assert np.array_equal(lines[:, 0], lines[:, 1])


def test_without_a_compiler_the_reason_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(c_path.CPathError, match="'no-such-compiler' is not on PATH"):
        c_path.compile_library(tmp_path)
    monkeypatch.setenv("CC", "false")
    with pytest.raises(c_path.CPathError, match=r"false could not compile c_path\.c"):
        c_path.compile_library(tmp_path)


def test_c_copies_outputs_back_as_one_piece_over_small_gaps_only():
    assert c_path.merge_copies([(0, 100)]) == [(0, 100)]
    assert c_path.merge_copies([(0, 100), (128, 40)]) == [(0, 168)]
    assert c_path.merge_copies([(0, 100), (8192, 40), (8256, 8)]) == [(0, 100), (8192, 72)]


def test_a_c_path_keeps_the_memory_it_writes_to(tmp_path):
    try:
        library = c_path.compile_library(tmp_path)
    except c_path.CPathError as reason:
        pytest.skip(str(reason))
    case = presets.synthetic_case("image", tmp_path, overhead.static_description("image"))
    with ge_core.InferenceSession(case.om, runtime="cpu") as session:
        inputs = case.rows(1)
        (expected,) = session.run(None, inputs)
        calls = {}
        for path in c_path.PATHS:
            output = np.empty_like(expected)
            calls[path] = c_path.CPath(library, engine_of(session).native_handles(1), inputs, {"y": output}).once(path)
            kept = weakref.ref(output)
            del output
            assert calls[path]() > 0
            assert kept() is not None
            assert np.array_equal(kept(), expected) == (path != "c-pinned")


def test_c_runs_gears_of_any_axis(tmp_path):
    try:
        library = c_path.compile_library(tmp_path)
    except c_path.CPathError as reason:
        pytest.skip(str(reason))
    om = presets.synthetic_case("dims", tmp_path, throughput.MIXED["dims"]).om
    cases = networks.gear_cases("dims", om, "cpu")
    assert [case.name for case in cases] == ["dims_16", "dims_512", "dims_4096"]
    with ge_core.InferenceSession(om, runtime="cpu") as session:
        for case in cases:
            (expected,) = session.run(None, case.rows(1))
            output = np.empty_like(expected)
            c_path.CPath(library, calling.native_handles(session, case.rows(1)), case.rows(1), {"y": output}).once()()
            assert np.array_equal(output, expected)


def test_other_settings_in_the_server_are_refused():
    child = subprocess.Popen(
        [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '60'])"],
        env={"PATH": os.environ["PATH"], "GE_CORE_RUNTIME": "cpu", "GE_CORE_CPU_CONFIG": '{"exec_us": 5}'},
        start_new_session=True,
    )
    try:
        while not (workers := server.children(child.pid)):
            pass
        assert len(workers) == 1
        server.check_environment(child.pid, {"GE_CORE_RUNTIME": "cpu", "GE_CORE_CPU_CONFIG": '{"exec_us": 5}'})
        with pytest.raises(server.DifferentDeviceError, match=r"GE_CORE_CPU_CONFIG is .* in worker .* and None here"):
            server.check_environment(child.pid, {"GE_CORE_RUNTIME": "cpu"})
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def bench_command(*arguments: str, **environ: str) -> subprocess.CompletedProcess:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GE_CORE_")}
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_only_what_is_built_is_listed():
    done = bench_command("--help")
    assert done.returncode == 0
    commands = "latency overhead throughput stages load advice all truth report compare"
    assert re.findall(r"^│ (\w+) ", done.stdout, re.MULTILINE) == commands.split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--batches", "0"), "expected whole numbers above 0"),
        (("--transports", "grpc,udp"), "'udp' is none of grpc"),
        (("--preset", "resnet"), "'resnet' is none of llama7b, ocr"),
        (("--json", "/no/such/folder/out.json"), "/no/such/folder is no folder"),
    ],
)
def test_wrong_options_are_refused(arguments, message):
    done = bench_command("latency", *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [("latency",), ("overhead", "--model", "any.om")])
def test_without_an_npu_and_without_cpu_asked_for_nothing_runs(arguments):
    done = bench_command(*arguments, "--quick", GE_CORE_ACL_LIBRARY="/no/such/libascendcl.so")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "/no/such/libascendcl.so" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["overhead", "throughput"])
def test_on_an_npu_a_real_om_is_asked_for(name):
    done = bench_command(name, "--runtime", "npu")
    assert done.returncode == 1
    assert "on an NPU add --model OM" in done.stderr


TINY = latency_rounds.Plan(
    seconds=0.1,
    p99_seconds=0,
    min_rounds=4,
    max_rounds=6,
    load_seconds=0,
    load_batches=6,
    warm_up=2,
    floor_every=2,
    preview_rounds=2,
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """The report of a tiny run of all paths on two models: one of two gears, one that cannot be cut by rows."""
    folder = tmp_path_factory.mktemp("bench")
    tiny = presets.synthetic_case(
        "tiny",
        folder,
        {
            "inputs": [
                {"name": "x", "dtype": "int32", "shape": [-1, 8]},
                {"name": "y", "dtype": "float32", "shape": [-1, 3]},
            ],
            "outputs": [
                {"name": "a", "dtype": "float32", "shape": [-1, 5]},
                {"name": "b", "dtype": "int64", "shape": [-1, 2, 2]},
            ],
            "dynamic_batch_size": [1, 2],
            "exec_us": [3000, 4000],
        },
    )
    whole = presets.synthetic_case(
        "whole",
        folder,
        {
            "inputs": [
                {"name": "x", "dtype": "float32", "shape": [3, 8]},
                {"name": "mask", "dtype": "bool", "shape": [5]},
            ],
            "outputs": [{"name": "y", "dtype": "int8", "shape": [7]}],
            "exec_us": 1000,
        },
    )
    lines, shown = [], []
    options = prepare.Options(presets=(), runtime="cpu", batches=(1, 2, 4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "compile_cases", lambda *arguments: [("both", [tiny, whole])])
        report, remarks = latency.latency(options, Progress(lines.append, shown.append), TINY)
    assert not list(Path("/dev/shm").glob(f"ge_core_bench_{os.getpid()}_*"))
    (section,) = shown
    assert section.title == "tiny"
    assert section.blocks[0].header == ("p50 latency", "batch 1", "batch 2")
    assert [row[0] for row in section.blocks[0].rows] == ["direct AscendCL", "Triton (grpc+shm)"]
    return report, remarks, lines


def test_live_run_measures_every_path(live):
    report, _, lines = live
    c = ["c", "c-pinned"] if "c" in {r.path for r in report.records} else []
    ways = [(path, None) for path in [*c, "direct"]]
    ways += [(path, transport) for path in ("triton", "floor") for transport in records.TRANSPORTS]
    for model, batches in (("tiny", {1, 2}), ("whole", {1})):
        mine = [r for r in report.records if r.model == model and r.bench == "latency"]
        plain = [("triton-plain", transport) for transport in records.TRANSPORTS] if model == "tiny" else []
        assert {r.batch for r in mine} == batches
        for batch in batches:
            found = [(r.path, r.transport) for r in mine if r.batch == batch]
            assert sorted(found, key=str) == sorted([*ways, *plain], key=str)
    assert any("tiny batch 2" in line for line in lines)
    used = [(one["bench"], one["model"], one["devices"][0]["device"]) for one in report.summary["usage"]]
    assert used == [("latency, most rows/s", "tiny", 0), ("latency, most rows/s", "whole", 0)]


def test_live_records_are_complete(live):
    report, _, _ = live
    for r in report.records:
        assert r.device["kind"] == "cpu"
        assert "CPU implementation of AscendCL" in r.device["name"]
        assert "not an NPU" in r.device["name"]
        assert r.p50_us <= r.p90_us <= r.p95_us
        assert r.p99_us is None or r.n >= 100
        assert r.rows_per_s > 0
        assert (len(r.samples_ns), r.p50_us) == (r.n, pytest.approx(np.percentile(r.samples_ns, 50) / 1e3, abs=2e-3))
        assert r.host["cores"] >= 1
        assert {"ge_core", "python", "numpy", "tritonclient", "tritonserver"} <= set(r.versions)
        if r.model == "tiny":
            assert r.bytes_in == r.batch * (8 * 4 + 3 * 4)
            assert r.bytes_out == r.batch * (5 * 4 + 4 * 8)
            wanted = "ms pause before each call" if r.path == "floor" else "declared 3/4 ms"
            assert wanted in r.timing
        else:
            assert (r.bytes_in, r.bytes_out) == (3 * 8 * 4 + 5, 7)
            assert r.timing.startswith("no model" if r.path == "floor" else "declared 1 ms")
    json.dumps(report.to_dict())


@pytest.mark.parametrize(
    ("model", "number", "rows", "slots"),
    [("tiny", 0, 2, {"returned": 1, "sender": 2}), ("whole", 1, 1, {"returned": 1})],
)
def test_live_run_counts_clients_and_back_to_back_batches(live, model, number, rows, slots):
    report, _, _ = live
    mine = [r for r in report.records if r.bench == "throughput" and r.model == model]
    (direct,) = (r for r in mine if r.path == "direct")
    assert (direct.concurrency, direct.batch, direct.n) == (1, rows, TINY.load_batches)
    ways = {r.timing.rpartition("responses ")[2]: r for r in mine if r.path == "triton"}
    assert {way: r.slots for way, r in ways.items()} == slots
    for r in ways.values():
        assert (r.transport, r.concurrency, r.batch, r.n) == ("grpc+shm", 16, 1, TINY.load_batches * rows)
    summary = report.summary["models"][number]
    assert summary["model"] == model
    found = summary["load"]
    assert {way: one["rows_per_s"] for way, one in found["ways"].items()} == {
        way: r.rows_per_s for way, r in ways.items()
    }
    assert found["triton_rows_per_s"] == ways[found["responses"]].rows_per_s == max(r.rows_per_s for r in ways.values())
    assert {(row["batch"], row["transport"]) for row in summary["gaps"]} == {
        (batch, transport) for batch in range(1, rows + 1) for transport in records.TRANSPORTS
    }


def test_ocr_preset_reads_real_text_lines(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    if importlib.util.find_spec("rapidocr_onnxruntime") is None:
        pytest.skip("rapidocr-onnxruntime is not installed")
    case = presets.ocr_case("cls", "cpu", "Ascend910B3", tmp_path)
    assert case.timing == "computed"
    inputs = case.rows(3)
    with ge_core.InferenceSession(case.om, runtime="cpu") as session:
        directions = session.run(None, inputs)
    verify.check_outputs(case.reference(inputs), directions, "cls", exact=False)
    assert directions[0].argmax(axis=1).tolist() == [0, 1, 0]


def test_live_tables_name_the_device_and_fit_a_hundred_columns(live):
    report, remarks, _ = live
    out = Console(file=io.StringIO(), width=100, highlight=False)
    report.limits.append(records.Limit("G6a", 0.9, 1.0))
    tables.show(out, report, remarks, check=True)
    text = out.file.getvalue()
    assert "tiny on CPU implementation of AscendCL (imitates" in text
    short, detail = text.index("direct AscendCL"), text.index("details in ms")
    assert short < text.index("Triton (grpc+shm)") < detail
    assert all(f"triton {transport}" in text[detail:] for transport in records.TRANSPORTS)
    assert "G6a" in text
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"(?<![\dp.])\w*…(?!\d|p|-)", text), "a cell is cut off"


class RegionServer:
    """The part of a server that a region needs: refuses the n-th, and says it is in use so many times."""

    def __init__(self, refuses: int | None = None, in_use: int = 0, error: str = "'r' is in use", status: str = "x"):
        self.refuses, self.in_use, self.error, self.status = refuses, in_use, error, status
        self.registered, self.asked, self.closed = [], 0, False

    def __call__(self, url):
        return self

    def register_system_shared_memory(self, name, key, size):
        if len(self.registered) == self.refuses:
            raise ConnectionError("refused")
        assert Path(f"/dev/shm{key}").stat().st_size == size
        self.registered.append(name)

    def unregister_system_shared_memory(self, name):
        self.asked += 1
        if self.in_use:
            self.in_use -= 1
            raise InferenceServerException(self.error, self.status)
        self.registered.remove(name)

    def close(self):
        self.closed = True


def regions(monkeypatch, server: RegionServer) -> clients.SharedMemoryRegions:
    monkeypatch.setattr(clients.tritonclient.grpc, "InferenceServerClient", server)
    request = clients.Request("m", {"x": np.zeros((1, 4), np.float32)}, {"y": ((1, 2), np.dtype(np.float32))})
    try:
        return clients.SharedMemoryRegions(clients.Endpoint("127.0.0.1:1", "127.0.0.1:1"), request)
    finally:
        assert not list(Path("/dev/shm").glob(f"ge_core_bench_{os.getpid()}_*"))


@pytest.mark.parametrize("number", [0, 1])
def test_a_refused_region_leaves_nothing_behind(monkeypatch, number):
    server = RegionServer(refuses=number)
    with pytest.raises(ConnectionError, match="refused"):
        regions(monkeypatch, server)
    assert (server.registered, server.asked, server.closed) == ([], number, True)


def test_a_region_in_use_is_asked_for_again(monkeypatch):
    server = RegionServer(in_use=3)
    regions(monkeypatch, server).close()
    assert (server.registered, server.asked, server.closed) == ([], 5, True)


@pytest.mark.parametrize(("error", "wait_s"), [("'r' is in use", -1.0), ("no such right", 60.0)])
def test_a_region_that_stays_is_told_and_the_other_goes(monkeypatch, error, wait_s):
    monkeypatch.setattr(clients, "RELEASED_WITHIN_S", wait_s)
    server = RegionServer(error=error)
    both = regions(monkeypatch, server)
    server.in_use = 1
    with pytest.raises(clients.RegionError, match=f"{both.input_region}: {error}"):
        both.close()
    assert (server.registered, server.closed) == ([both.input_region], True)


def test_regions_go_with_their_server(monkeypatch):
    server = RegionServer(error="no connection", status="StatusCode.UNAVAILABLE")
    both = regions(monkeypatch, server)
    server.in_use = 2
    both.close()
    assert (server.asked, server.closed) == (2, True)


SECOND_DEVICE = """
import json, sys
from pathlib import Path
import ge_core
from bench.benches import latency, prepare
from bench.benches.latency_rounds import Plan
from bench.measure.progress import Progress
from bench.models import presets
from ge_core.engine import engine_of
from ge_core_pyx.memory import DeviceBuffer

folder = Path(sys.argv[1])
model = {"dynamic_batch_size": [1, 2], "inputs": [{"name": "x", "dtype": "int8", "shape": [-1, 8]}]}
case = presets.synthetic_case("m", folder, model | {"outputs": [{"name": "y", "dtype": "int8", "shape": [-1, 4]}]})
first = ge_core.InferenceSession(case.om, runtime="cpu", device_id=0)
(context,) = engine_of(first).contexts
free, _ = context.memory_info()
kept = DeviceBuffer(context, free - 4096)  # nothing else fits on the first device
plan = Plan(
    seconds=0, p99_seconds=0, min_rounds=2, max_rounds=2, load_seconds=0, load_batches=3, warm_up=1, windows=3
)
options = prepare.Options((), case.om, "cpu", 1, (1, 2), ("http+shm",))
report, _ = latency.latency(options, Progress(lambda line: None), plan)
print(json.dumps([[r.bench, r.path, r.batch, r.slots, r.device["ids"]] for r in report.records]))
"""


@pytest.mark.slow
def test_triton_serves_on_the_device_that_is_measured(tmp_path):
    settings = {"devices": 2, "hbm_bytes": (1 << 27) + 256 * os.getpid()}  # devices that no other process uses
    config = {"GE_CORE_RUNTIME": "cpu", "GE_CORE_CPU_CONFIG": json.dumps(settings)}
    done = subprocess.run(
        [sys.executable, "-c", SECOND_DEVICE, str(tmp_path)],
        cwd=ROOT, env=os.environ | config, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert {tuple(ids) for *_, ids in rows} == {(1,)}
    served = [row[:4] for row in rows if row[1].startswith("triton")]
    assert served == [
        ["latency", "triton", 1, 1],
        ["latency", "triton-plain", 1, 1],
        ["latency", "triton", 2, 1],
        ["latency", "triton-plain", 2, 1],
        ["throughput", "triton", 1, 1],
        ["throughput", "triton", 1, 2],
        ["throughput", "triton-plain", 1, 1],
    ]


# ---- overhead and throughput ----

RATIO = {"ratio_p10": 1.0, "ratio_p90": 1.1, "apart_p10_us": 0.1, "apart_p90_us": 2.0}


def summary_of(model: str, **paths: tuple[float, float, bool]) -> dict:
    rows = [
        {"path": path, "to": "c", "ratio": ratio, "apart_us": apart, "stable": stable, **RATIO}
        for path, (ratio, apart, stable) in paths.items()
    ]
    return {"model": model, "ratios": rows}


def test_limits_of_the_overhead():
    image = summary_of("image", direct=(1.04, 1.5, True), borrow=(1.015, 3.0, False), ctypes=(9.0, 9.0, True))
    small = summary_of("small", direct=(1.5, 4.5, True), borrow=(9.0, 9.0, True))
    counts = [{"allocations_per_request": 0.0}, {"allocations_per_request": 0.5}]
    found = overhead.limits([image, small], counts)
    assert [(limit.id[:2], limit.value, limit.limit, limit.ok, limit.stable) for limit in found] == [
        ("G1", 1.04, 1.05, True, True),
        ("G2", 1.015, 1.02, True, False),
        ("G3", 4.5, 4.0, False, True),
        ("G4", 0.5, 0, False, True),
    ]


@pytest.mark.parametrize(
    ("ratio", "apart", "value", "ok"), [(1.03, 0.9, 0.9, True), (1.03, 1.1, 1.03, False), (1.0, 2.0, 1.0, True)]
)
def test_a_borrowed_batch_may_be_close_in_either_way(ratio, apart, value, ok):
    (limit,) = overhead.limits([summary_of("image", borrow=(ratio, apart, True))], None)
    assert (limit.value, limit.ok) == (value, ok)


def test_limits_of_the_throughput():
    known = (("direct", 1, 240.0), ("direct", 2, 470.0), ("direct", 3, 480.0), ("triton", 3, 470.4))
    rates = [{"path": path, "slots": n, "rows_per_s": rate, "stable": path == "direct"} for path, n, rate in known]
    devices = [{"devices": n, "slots": 2, "rows_per_s": rate, "stable": n == 4} for n, rate in ((1, 200.0), (4, 798.0))]
    summary = {
        "slots": {"bound_rows_per_s": 500.0, "rates": rates},
        "devices": {"rates": devices},
        "memory": {"growth_bytes": {"resident": 3 << 20, "device": 0, "counted_device": -64}},
    }
    found = throughput.limits(summary)
    assert [(limit.id.split(":")[0], limit.value, limit.ok, limit.stable) for limit in found] == [
        ("G8a", 0.96, False, True),
        ("G8b", 0.98, True, False),
        ("G9", 3.99, True, False),
        ("G10", 3.0, True, True),
        ("G10", 64, False, True),
    ]
    summary["slots"]["bound_rows_per_s"] = None
    assert [limit.id.split(":")[0] for limit in throughput.limits(summary)] == ["G10", "G10"]


def test_allocations_are_counted_apart_from_other_calls():
    before = {"aclrtMalloc": 2, "aclrtMemcpyAsync": 5}
    after = {
        "aclrtMalloc": 2,
        "aclrtMemcpyAsync": 9,
        "aclrtMallocHost": 1,
        "aclmdlCreateDataset": 2,
        "aclCreateDataBuffer": 3,
        "aclCreateTensorDesc": 1,
        "aclrtCreateStream": 7,
        "aclrtFree": 4,
    }
    called = cpu_counters.called_since(before, after)
    assert "aclrtMalloc" not in called
    assert called["aclrtMemcpyAsync"] == 4
    assert cpu_counters.allocations(called) == 7


def test_a_part_of_a_run_says_its_estimate_and_its_time():
    lines = []
    with Progress(lines.append).part("compiling", 12.3):
        pass
    assert lines[0] == "compiling, about 12 s"
    assert re.fullmatch(r"  took 0\.\d s", lines[1])


def test_an_error_in_a_child_is_told():
    with pytest.raises(child.ChildError, match=r"no/such\.om") as caught:
        child.measure("overhead.count_allocations", {"model": "/no/such.om", "runtime": "cpu", "device_id": 0})
    assert "Traceback" in caught.value.details


@pytest.fixture(scope="module")
def live_overhead():
    plan = overhead.Plan(rounds=5, windows=3, warm_up=2)
    return overhead.overhead(runtime="cpu", plan=plan, progress=QUIET)


def test_live_overhead_compares_every_path(live_overhead):
    report, remarks = live_overhead
    has_c = not remarks
    paths = (
        ["c", "c-pinned", "ctypes", "malloc-per-call", "direct", "borrow"] if has_c else ["ctypes", "direct", "borrow"]
    )
    assert [(r.model, r.path) for r in report.records] == [(m, path) for m in ("image", "small") for path in paths]
    assert {(r.model, r.bytes_in, r.bytes_out) for r in report.records} == {
        ("image", 602_112, 4_000),
        ("small", 4_096, 4_096),
    }
    for r in report.records:
        assert (r.bench, r.n, r.slots, r.batch) == ("overhead", 15, 1, 1)
        assert (len(r.samples_ns), r.p50_us) == (r.n, pytest.approx(np.percentile(r.samples_ns, 50) / 1e3, abs=2e-3))
        assert r.device["kind"] == "cpu"
        assert r.timing == "declared 0 ms; stream workers sleep until work comes (futex)"
        assert {"ge_core", "python", "numpy"} <= set(r.versions)
    if has_c:
        for summary in report.summary["overhead"]["models"]:
            assert [(row["path"], row["to"]) for row in summary["ratios"]] == list(overhead.PAIRS)
        assert [limit.id[:2] for limit in report.limits] == ["G1", "G2", "G3", "G4"]
    json.dumps(report.to_dict())


def test_live_overhead_counts_no_allocations_and_the_calls_it_should(live_overhead):
    report, _ = live_overhead
    counted = report.summary["overhead"]["allocations"]
    assert [(row["model"], row["path"]) for row in counted] == [
        (model, path) for model in ("small", "gears") for path in ("run", "submit", "borrow")
    ]
    for row in counted:
        assert row["allocations_per_request"] == 0
        calls = row["calls_per_request"]
        assert calls["aclrtMemcpyAsync"] == 2 * calls["aclmdlExecuteAsync"]
        assert calls["aclrtSynchronizeStream"] == calls["aclmdlExecuteAsync"] >= 1


@pytest.mark.parametrize(
    ("model", "batch", "nbytes"),
    [(throughput.MIXED["batches"], 8, 8 * 256 * 4), (throughput.MIXED["dims"], 1, 4096 * 2)],
)
def test_overhead_of_any_om_is_that_of_its_largest_gear_and_has_no_limits(tmp_path, model, batch, nbytes):
    case = presets.synthetic_case("any", tmp_path, model)
    plan = overhead.Plan(rounds=2, windows=3, warm_up=1)
    report, _ = overhead.overhead(case.om, "cpu", plan=plan, progress=QUIET)
    assert report.limits == []
    assert {(r.model, r.batch, r.bytes_in) for r in report.records} == {("any", batch, nbytes)}
    assert {row["allocations_per_request"] for row in report.summary["overhead"]["allocations"]} == {0}


@pytest.fixture(scope="module")
def live_throughput():
    plan = throughput.Plan(batches=12, attempts=1, requests=60, settled=40)
    report, remarks = throughput.throughput(runtime="cpu", plan=plan, progress=QUIET)
    assert remarks == []
    return report


def test_live_throughput_measures_slots_and_devices(live_throughput):
    found = [(r.path, r.slots, len(r.device["ids"]), r.concurrency, r.n, r.timing) for r in live_throughput.records]
    engines, execution = "h2d 1 ms, execution 2 ms, d2h 1 ms", "execution 5 ms"
    assert found == [
        ("direct", 1, 1, 1, 12, engines),
        ("direct", 2, 1, 2, 12, engines),
        ("direct", 3, 1, 3, 12, engines),
        ("triton", 3, 1, 16, 13, engines),
        ("direct", 2, 1, 2, 12, execution),
        ("direct", 2, 4, 8, 48, execution),
    ]
    assert all(r.rows_per_s > 0 and "not an NPU" in r.device["name"] for r in live_throughput.records)
    assert all(len(r.samples_ns) == r.n for r in live_throughput.records)
    memory = live_throughput.summary["throughput"]["memory"]
    assert (memory["requests"], memory["settled"]) == (60, 40)
    assert memory["growth_bytes"]["counted_device"] == memory["growth_bytes"]["device"] == 0
    assert memory["held_bytes"]["counted_device"] == memory["held_bytes"]["device"] > 0
    assert [limit.id.split(":")[0] for limit in live_throughput.limits] == ["G8a", "G8b", "G9", "G10", "G10"]
    json.dumps(live_throughput.to_dict())


@pytest.mark.slow
def test_throughput_of_any_om_judges_memory_alone(tmp_path):
    case = presets.synthetic_case("any", tmp_path, throughput.MIXED["dims"])
    plan = throughput.Plan(batches=6, attempts=1, requests=20, settled=10)
    report, _ = throughput.throughput(case.om, "cpu", plan=plan, progress=QUIET)
    assert [(r.path, r.slots, r.batch, r.timing) for r in report.records] == [
        (path, slots, 1, "declared 0 ms")
        for path, slots in (("direct", 1), ("direct", 2), ("direct", 3), ("triton", 3), ("direct", 2))
    ]
    assert [limit.id.split(":")[0] for limit in report.limits] == ["G10", "G10"]
    tables.show(Console(file=io.StringIO()), report, [], check=True)


def test_overhead_and_throughput_tables_fit_and_show_limits(live_overhead, live_throughput):
    out = Console(file=io.StringIO(), width=tables.PIPE_WIDTH, highlight=False)
    report = records.Report.merged([live_overhead[0], live_throughput])
    tables.show(out, report, [], check=True)
    text = out.file.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= tables.PIPE_WIDTH
    assert "allocations per request of gears: run 0, submit 0, borrow 0" in text
    assert "image on CPU implementation of AscendCL" in text
    assert "stream workers sleep until work comes" in text
    assert "4 device(s), 2 slots each" in text
    assert "G10" in text
    assert "≥ 0.98" in text
    assert not re.search(r"(?<![\dp.])\w*…(?!\d|p|-)", text), "a cell is cut off"
