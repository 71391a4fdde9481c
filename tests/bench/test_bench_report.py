# SPDX-License-Identifier: Apache-2.0
"""The bench's report, comparison, stages, load and advice: their arithmetic on recorded figures, and tiny live runs."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import ge_core
from bench.benches import advice, load, prepare, stages
from bench.benches.advice import Gear
from bench.measure import usage
from bench.measure.progress import Progress
from bench.models import networks, presets
from bench.paths import load_generator
from bench.report import build, compare, document, plots
from bench.report.document import Code, Document, Plot, Section, Table, Text
from bench.served import server, settings, stage_clock
from bench.served.settings import Setting
from bench.served.stage_clock import FIELDS

QUIET = Progress(lambda line: None)
ROOT = Path(__file__).resolve().parents[2]
CPU = {"kind": "cpu", "name": "CPU implementation of AscendCL (not an NPU)", "soc": "Ascend910B3", "cann": None}
NPU = {"kind": "npu", "name": "Ascend910B3", "soc": "Ascend910B3", "cann": "8.1"}
HOST = {"cpu": "some CPU", "cores": 2, "machine": "x86_64", "kernel": "6", "memory_bytes": 2**33, "load_average": [1]}


def record(**changes) -> dict:
    values = {"bench": "latency", "path": "triton", "transport": "http", "model": "m", "batch": 1, "concurrency": 1}
    values |= {"slots": 1, "instances": 1, "bytes_in": 8, "bytes_out": 8, "timing": "declared 5 ms", "n": 200}
    values |= {"p50_us": 5000.0, "p90_us": 5100.0, "p95_us": 5200.0, "p99_us": 5300.0, "mean_us": 5010.0}
    values |= {"rows_per_s": 200.0, "stable": True, "device": CPU, "host": HOST, "versions": {"ge_core": "1"}}
    return values | changes


def gap(**changes) -> dict:
    values = {"batch": 1, "transport": "http", "stable": True, "floor_us": 900.0, "gap_us": 800.0, "gap_to_floor": 0.9}
    return values | {"gap_p10_us": 700.0, "gap_p90_us": 900.0, "triton_minus_direct_us": 810.0} | changes


def content(**changes) -> dict:
    """A whole report with every part."""
    model = {"model": "m", "device": CPU["name"], "timing": "declared 5 ms", "batches": [1], "transport": "http"}
    model |= {"direct_path": "c", "gaps": [gap()], "remarks": ["a remark"]}
    model |= {"load": {"direct_rows_per_s": 210.0, "triton_rows_per_s": 195.0}}
    figures = {"requests_per_s": 190.0, "n": 99, "p50_us": 6000.0, "p90_us": 7000.0, "p95_us": 8000.0, "p99_us": None}
    figures |= {"mean_us": 6100.0, "stable": True}
    parts = [{"name": name, "us": us, "source": "s"} for name, us in (("client encode", 10.0), ("execute", 4900.0))]
    stage = {"model": "m", "batch": 1, "transport": "http", "device": CPU["name"], "timing": "declared 5 ms", "n": 64}
    stage |= {"sampled": 8, "stages": parts, "sum_us": 4910.0, "total_us": 4900.0, "apart": 0.002, "adds_up": True}
    loaded = {"model": "m", "device": CPU["name"], "timing": "t", "transport": "http", "rows": 1, "limit_ms": 20.0}
    loaded |= {"closed": [{"clients": 1, **figures}], "open": [{"rate": 100.0, "ok": True, **figures}]}
    loaded |= {"highest_rate": 100.0, "too_much": 120.0}
    loaded["settings"] = [
        {"label": "one", "clients": 4, **figures},
        {"label": "two <b>", "refused": "slots: no & why"},
    ]
    advised = {"model": "m", "device": CPU["name"], "timing": "t", "transport": "http", "goal": "throughput"}
    advised |= {"p99_ms": 50.0, "gears": [{"rows": 1, "run_ms": 5.0, "engine_ms": 4.9}], "overhead_ms": 0.4}
    advised |= {
        "stanza": "dynamic_batching { }\n",
        "reasons": ["because"],
        "expected": {"latency_ms": 10, "rows_per_s": 9},
    }
    advised |= {name: {"label": name, "clients": 4, **figures} for name in ("default", "advised")}
    device = {
        "device": 0,
        "samples": 9,
        "cube_mean": 80.0,
        "cube_max": 100,
        "memory_used_max": 2**20,
        "memory_total": 2**30,
    }
    summary = {"device": CPU["name"], "models": [model], "stages": [stage], "load": [loaded], "advice": [advised]}
    summary["usage"] = [{"bench": "load", "model": "m", "devices": [device]}]
    records = [record(path="c", transport=None), record(path="direct", transport=None), record()]
    records += [record(path="floor", timing="no model, 5.0 ms pause before each call")]
    limits = [
        {"id": "G6a", "value": 0.9, "limit": 1.0, "at_least": False, "ok": True},
        {"id": "G6b", "value": 2.0, "limit": 1.1, "ok": False},  # of an older version
        {"id": "G7", "value": 0.995, "limit": 0.99, "at_least": True, "ok": True},
    ]
    return {"schema": 1, "records": records, "summary": summary, "limits": limits} | changes


# Plots


@pytest.mark.parametrize(
    ("low", "high", "about", "expected"),
    [(0, 10, 5, [0, 2, 4, 6, 8, 10]), (0, 0.9, 4, [0, 0.5]), (0, 300, 6, [0, 50, 100, 150, 200, 250, 300])],
)
def test_ticks_are_round(low, high, about, expected):
    assert plots.ticks(low, high, about) == expected


def test_log_ticks():
    assert plots.log_ticks(0.9, 60) == [1, 2, 5, 10, 20, 50]
    assert plots.log_ticks(1, 100_000) == [1, 10, 100, 1000, 10_000, 100_000]


def widths(svg: str) -> list[float]:
    return [float(width) for width in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="1[34]"', svg)]


def test_bars_are_as_long_as_their_values():
    drawn = widths(plots.bars([("g", "a", 10, 10, 10), ("g", "b", 5, 4, 6), ("h", "a", -1, 0, 0)], "ms", "l"))
    assert drawn[0] == pytest.approx(2 * drawn[1], abs=0.2)
    assert drawn[2] == 1


def test_a_waterfall_starts_each_step_where_the_last_ended():
    svg = plots.waterfall([("a", 10.0), ("b", 30.0), ("c", 20.0)], "µs", "l")
    placed = [(float(x), float(w)) for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg)]
    for (x, width), (after, _) in itertools.pairwise(placed):
        assert after == pytest.approx(x + width, abs=0.2)
    assert placed[1][1] == pytest.approx(3 * placed[0][1], abs=0.5)
    assert "shorter" not in svg


def test_a_waterfall_shortens_a_step_that_would_hide_the_others():
    svg = plots.waterfall([("a", 10.0), ("execute", 78000.0), ("b", 30.0)], "µs", "l")
    drawn = widths(svg)
    assert drawn[1] == pytest.approx(drawn[0] + drawn[2], abs=0.5)
    assert "one step is drawn shorter than it is" in svg
    assert "78,000" in svg


# Documents

DOCUMENT = Document(
    "title & more",
    "subtitle",
    [
        Section(
            "part <one>",
            "some device",
            [
                Text("plain | text"),
                Text("careful", "warning"),
                Table(("", "x"), [("group",), ("row | a", "1"), ("row b", "2")], strong=(2,)),
                Code("lines {\n}\n"),
                Plot("drawing", lambda width: f"<svg viewBox='0 0 {width} 1'></svg>"),
            ],
        )
    ],
    "not an NPU",
    [("cpu", "some <cpu>")],
)


def test_markdown():
    assert document.markdown(DOCUMENT).splitlines() == [
        *("# title & more", "", "subtitle", "", "> **not an NPU**", "", "## part <one> on some device", ""),
        *("plain | text", "", "**careful**", ""),
        *("|  | x |", "| --- | ---: |", "| **group** |  |", "| row \\| a | 1 |", "| **row b** | **2** |", ""),
        *("```", "lines {", "}", "```", "", "## What was measured on what", ""),
        *("|  |  |", "| --- | --- |", "| cpu | some <cpu> |"),
    ]


class Balanced(HTMLParser):
    """Checks that tags are closed in order; collects what refers to something outside."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.outside, self.tags = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        named = [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.outside += [value for value in named if not value.startswith("data:")]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_one_page_with_both_widths():
    text = document.html(DOCUMENT)
    page = Balanced(text)
    assert page.outside == []
    assert "script" not in page.tags
    assert "@import" not in text
    assert "url(" not in text
    assert "<h2>part &lt;one&gt;<small>some device</small></h2>" in text
    assert f"viewBox='0 0 {plots.WIDE} 1'" in text
    assert f"viewBox='0 0 {plots.NARROW} 1'" in text


def test_every_section_of_a_report_names_its_device():
    shown = build.build_document(content())
    assert shown.warning == build.CPU_WARNING
    titles = [section.title for section in shown.sections]
    assert titles[0] == "m"
    assert titles[1:] == [
        *("Limits", "m: details", "Stages: m, http", "Load: m", "Advice: m", "What the device said of itself"),
    ]
    assert all(section.device == CPU["name"] for section in shown.sections)
    short = shown.sections[0].blocks[0]
    assert short.header == ("p50 latency", "batch 1", "most requests/s")
    assert short.rows == [("direct AscendCL", "5.000 ms", "210.0"), ("Triton (http)", "5.000 ms", "195.0")]
    for form in (document.html(shown), document.markdown(shown)):
        assert "not on an NPU" in form
        assert "some CPU, 2 cores" in form
    Balanced(document.html(shown))
    on_npu = [{**each, "device": NPU} for each in content()["records"]]
    assert build.build_document(content(records=on_npu)).warning is None


def test_a_report_may_hold_less():
    bare = {"schema": 1, "records": [], "summary": {}, "limits": []}
    assert build.build_document(bare).sections == []
    no_c = content()
    no_c["summary"]["models"][0] |= {
        "direct_path": "direct",
        "gaps": [{"batch": 1, "transport": "http", "triton_minus_direct_us": 5.0}],
    }
    assert "direct AscendCL" in document.markdown(build.build_document(no_c))


def test_reports_are_put_together():
    other = content(limits=[])
    with pytest.raises(build.UnreadableError, match="the latency of m is in two of the files"):
        build.merge([content(), other])
    del other["summary"]["models"]
    both = build.merge([content(), other])
    assert len(both["records"]) == 8
    assert len(both["summary"]["load"]) == 2
    assert both["summary"]["device"] == CPU["name"]
    assert [limit["id"] for limit in both["limits"]] == ["G6a", "G6b", "G7"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot be read as JSON"), ("[]", "got list"), ('{"schema": 9}', "expected schema 1, got 9")],
)
def test_other_files_are_refused(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(build.UnreadableError, match=message):
        build.read(tmp_path / "a.json")


# Comparison


def verdicts(a: dict, b: dict, **changes) -> dict[str, str]:
    found = compare.compare(a, b, ("a.json", "b.json"), **changes)
    return {change.what: change.verdict for change in found.rows + found.gaps}


def one(**changes) -> dict:
    return {"schema": 1, "records": [record(**changes)], "summary": {}, "limits": []}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"p50_us": 5200.0, "p90_us": 5300.0}, ""),
        ({"p50_us": 5400.0, "p90_us": 5500.0}, "slower"),
        ({"p50_us": 4600.0, "p90_us": 4700.0}, "faster"),
        ({"p50_us": 5400.0, "p90_us": 9000.0}, ""),  # uncertain
        ({"p50_us": 5400.0, "p90_us": 9000.0, "n": 20_000}, "slower"),  # less so with more samples
        ({"p50_us": 9000.0, "p90_us": 9100.0, "stable": False}, "not judged"),
    ],
)
def test_a_change_must_exceed_the_spread(changes, verdict):
    assert list(verdicts(one(), one(**changes)).values()) == [verdict]


def test_the_allowance_is_three_standard_errors_and_the_drift():
    found = compare.compare(one(), one(), ("a", "b"), drift=0.02)
    error = 1.2533 * (100 / 1.2816) / 200**0.5
    assert found.rows[0].allowance == pytest.approx(3 * 2**0.5 * error + 100)


def test_a_report_says_how_it_was_asked_for(monkeypatch):
    monkeypatch.setenv("GE_CORE_CPU_CONFIG", "{}")
    monkeypatch.setenv("GE_CORE_OPENVINO", "/home/me/openvino")
    told = prepare.invocation(["latency", "--quick"])
    assert (told["arguments"], told["environment"]["GE_CORE_CPU_CONFIG"]) == (["latency", "--quick"], "{}")
    assert told["environment"]["GE_CORE_OPENVINO"] == "openvino"  # others need not know where
    assert prepare.invocation(["--json", "/home/me/a.json", "--html=/home/me/b.html"])["arguments"] == [
        "--json",
        "a.json",
        "--html=b.html",
    ]
    told["environment"] = {"GE_CORE_RUNTIME": "cpu"}
    a = content()
    a["summary"]["runs"] = [told]
    both = build.build_document(build.merge([a, one() | {"summary": {"runs": [told]}}]))
    assert both.facts[-2:] == [("command", "GE_CORE_RUNTIME=cpu python -m bench latency --quick")] * 2


def test_limits_show_their_direction_alone_and_compared():
    a, b = content(), content()
    b["limits"] = [{**b["limits"][2], "value": 0.9, "ok": False}, {**b["limits"][1], "value": 1.0, "ok": True}]
    (section,) = (one for one in build.build_document(a).sections if one.title == "Limits")
    assert section.blocks[0].rows == [
        ("G6a", "0.900", "≤ 1", "ok"),
        ("G6b", "2.000", "1.1", "missed"),
        ("G7", "0.995", "≥ 0.99", "ok"),
    ]
    (section,) = (s for s in compare.compare(a, b, ("a", "b")).document.sections if s.title == "Limits")
    assert section.blocks[0].rows == [
        ("G7", "0.995", "0.900", "≥ 0.99", "now missed"),
        ("G6b", "2.000", "1.000", "1.1", "now ok"),
    ]
    assert section.blocks[0].strong == (0, 1)


def test_gaps_and_rates_are_compared():
    a, b = content(), content()
    b["summary"]["models"][0]["gaps"] = [gap(gap_us=1400.0, gap_p10_us=1300.0, gap_p90_us=1500.0)]
    b["summary"]["load"][0] |= {"highest_rate": 150.0, "too_much": 160.0}
    b["records"].append(record(bench="throughput", rows_per_s=150.0, concurrency=16))
    a["records"].append(record(bench="throughput", rows_per_s=200.0, concurrency=16))
    found = verdicts(a, b)
    assert found["m batch 1, http"] == "slower"
    assert found["load: m, highest rate within the limit: rows/s"] == "faster"
    assert found["throughput: m batch 1, 16 clients, triton http: rows/s"] == "slower"
    assert found["latency: m batch 1, floor* http"] == ""


def test_floors_match_whatever_their_pause():
    a = one(path="floor", timing="no model, 78.1 ms pause before each call")
    b = one(path="floor", timing="no model, 80.2 ms pause before each call")
    assert list(verdicts(a, b).values()) == [""]
    with pytest.raises(ValueError, match="no row in common"):
        verdicts(a, one(path="floor", timing="no model"))


def test_other_devices_and_models_are_told():
    a = one()
    elsewhere = {"device": NPU, "host": {**HOST, "cpu": "another"}, "versions": {"ge_core": "2"}}
    b = one(p50_us=100.0, **elsewhere)
    b["records"].append(record(model="other", **elsewhere))
    found = compare.compare(a, b, ("a.json", "b.json"))
    assert not found.comparable
    assert [change.verdict for change in found.rows] == ["not judged"]
    told = "\n".join(found.differences)
    assert f"device: A {CPU['name']} (cpu); B Ascend910B3 (npu)" in told
    assert "no row is judged" in told
    assert "CPU: A some CPU; B another" in told
    assert "ge_core: A 1; B 2" in told
    assert "only in B: other" in told
    assert (found.exit_code(check=False), found.exit_code(check=True)) == (0, 4)
    other = compare.compare(one(), one(timing="declared 9 ms"), ("a", "b"))
    assert "m: execution time in A declared 5 ms; in B declared 9 ms: not the same model" in other.differences


@pytest.mark.parametrize(
    ("p50", "stable", "code"), [(5000.0, True, 0), (6000.0, True, 3), (6000.0, False, 4), (4000.0, True, 0)]
)
def test_exit_codes_of_compare(tmp_path, p50, stable, code):
    for name, values in (("a", one()), ("b", one(p50_us=p50, p90_us=p50 + 100, stable=stable))):
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
    arguments = ("compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--html", str(tmp_path / "out.html"))
    done = bench_command(*arguments, "--check")
    assert done.returncode == code, done.stderr
    assert "on CPU implementation of AscendCL" in " ".join(done.stdout.split())
    Balanced((tmp_path / "out.html").read_text())


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


def test_a_report_is_shown_and_written(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(content()))
    shown = bench_command("report", str(tmp_path / "a.json"))
    assert shown.returncode == 0, shown.stderr
    assert "Triton (http)" in shown.stdout
    wrote = bench_command("report", str(tmp_path / "a.json"), "--markdown", str(tmp_path / "a.md"))
    assert wrote.returncode == 0
    assert "| Triton (http) | 5.000 ms | 195.0 |" in (tmp_path / "a.md").read_text()
    (tmp_path / "b.json").write_text("nothing")
    failed = bench_command("report", str(tmp_path / "b.json"))
    assert failed.returncode == 1
    assert "cannot be read as JSON" in failed.stderr
    assert "Traceback" not in failed.stderr


# Stages

MEAN = {"encode": 10_000, "exchange": 900_000, "decode": 5000, "success": 700_000, "queue": 20_000}
MEAN |= {"compute_input": 30_000, "compute_infer": 600_000, "compute_output": 40_000}
MODEL = {"run": 415_000, "span": 450_000}
STEPS = {"gather": 15_000, "h2d": 60_000, "execute": 250_000, "d2h": 40_000, "scatter": 4000}


def test_stages_add_up():
    parts = {stage.name: stage.us for stage in stages.breakdown({**MEAN, **MODEL, **STEPS}, stub_input=0.25)}
    assert list(parts.items()) == [
        *(("client encode", 10), ("network", 200), ("queue", 20), ("server input", 30), ("stub input", 37.5)),
        *(("gather", 15), ("H2D", 60), ("execute", 250), ("D2H", 40), ("launch and wake-up", 46), ("scatter", 4)),
        *(("model's Python", 35), ("stub output", 112.5), ("server output", 40), ("server, other", 10)),
        ("client decode", 5),
    ]
    assert sum(parts.values()) == 915


def test_stages_without_events_or_traces_add_up_too():
    parts = {stage.name: stage.us for stage in stages.breakdown({**MEAN, **MODEL})}
    assert (parts["stub"], parts["run"]) == (150, 415)
    assert sum(parts.values()) == 915
    copies = {"gather": 15_000, "scatter": 4000}
    parts = {stage.name: stage.us for stage in stages.breakdown({**MEAN, **MODEL, **copies})}
    assert (parts["gather"], parts["H2D, execute, D2H"], parts["scatter"]) == (15, 396, 4)
    assert sum(parts.values()) == 915


def test_a_run_is_split_by_the_cores_sample():
    sample = {"begin_ns": 1200, "gather_ns": 300, "submit_ns": 50, "wait_ns": 4000, "scatter_ns": 0}
    sample |= {"h2d_us": 0.5, "execute_us": 3.0, "d2h_us": None}
    assert stage_clock.steps(sample, began=1000, ended=6000) == {
        "h2d": 500,
        "execute": 3000,
        "d2h": 0,
        "gather": 500,
        "scatter": 450,
    }


def recorded(plain_ns: float = 915_000, **slow) -> tuple[list[dict], np.ndarray]:
    """Four blocks of two requests; `slow` adds nanoseconds to a figure of every one."""
    mean = {**MEAN, **MODEL, **STEPS}
    mean = {name: value + slow.get(name, 0) for name, value in mean.items()}
    blocks, log = [], np.zeros((8, len(FIELDS)), np.int64)
    for number in range(4):
        block = {name: mean[name] for name in MEAN}
        block |= {"total": mean["encode"] + mean["exchange"] + mean["decode"], "plain": plain_ns}
        blocks.append(block | {"first": 2 * number, "count": 2})
    for number, row in enumerate(log):
        sample = {"begin": 1000 * number, "end": 1000 * number + mean["span"], "run": mean["run"]}
        sample |= {"sampled": number % 2} | {name: mean[name] * (number % 2) for name in STEPS}
        row[:] = [sample[field] for field in FIELDS]
    return blocks, log


def test_clocks_are_put_together():
    found = stages.combine(*recorded(), stub_input=0.5)
    assert (found["n"], found["sampled"], found["sum_us"], found["total_us"]) == (8, 4, 915, 915)
    assert (found["apart"], found["adds_up"]) == (0, True)
    assert not stages.combine(*recorded(plain_ns=860_000))["adds_up"]


@pytest.mark.parametrize(
    ("stage", "slow"),
    [
        ("client encode", {"encode": 10**6}),
        ("client decode", {"decode": 10**6}),
        ("network", {"exchange": 10**6}),
        ("queue", dict.fromkeys(("queue", "success", "exchange"), 10**6)),
        ("server input", dict.fromkeys(("compute_input", "success", "exchange"), 10**6)),
        ("stub", dict.fromkeys(("compute_infer", "success", "exchange"), 10**6)),
        ("gather", dict.fromkeys(("gather", "run", "span", "compute_infer", "success", "exchange"), 10**6)),
        ("H2D", dict.fromkeys(("h2d", "run", "span", "compute_infer", "success", "exchange"), 10**6)),
        ("scatter", dict.fromkeys(("scatter", "run", "span", "compute_infer", "success", "exchange"), 10**6)),
        ("D2H", dict.fromkeys(("d2h", "run", "span", "compute_infer", "success", "exchange"), 10**6)),
        ("launch and wake-up", dict.fromkeys(("run", "span", "compute_infer", "success", "exchange"), 10**6)),
        ("model's Python", dict.fromkeys(("span", "compute_infer", "success", "exchange"), 10**6)),
        ("server output", dict.fromkeys(("compute_output", "success", "exchange"), 10**6)),
    ],
)
def test_a_slow_stage_shows_in_that_stage_alone(stage, slow):
    before = {each["name"]: each["us"] for each in stages.combine(*recorded())["stages"]}
    after = {each["name"]: each["us"] for each in stages.combine(*recorded(**slow))["stages"]}
    changed = {name: round(after[name] - before[name], 3) for name in after if after[name] != before[name]}
    assert changed == {stage: 1000}


def test_a_hiccup_of_one_block_does_not_count():
    blocks, log = recorded()
    blocks[2] |= {"exchange": 90_000_000, "total": 90_015_000}
    assert stages.combine(blocks, log)["sum_us"] == 915


def test_a_log_that_lacks_executions_is_an_error():
    blocks, log = recorded()
    with pytest.raises(RuntimeError, match="fewer executions"):
        stages.combine(blocks, np.where(np.arange(8)[:, None] == 7, 0, log))


def test_traces_split_the_time_between_server_and_model():
    def stamps(number, **names):
        return [{"id": number, "timestamps": [{"name": name, "ns": ns}]} for name, ns in names.items()]

    events = [
        *stamps(2, REQUEST_START=900, COMPUTE_INPUT_END=1000, COMPUTE_OUTPUT_START=1900),
        *stamps(1, COMPUTE_INPUT_END=100, COMPUTE_OUTPUT_START=600, REQUEST_END=700),
        {"id": 1, "model_name": "m"},
        *stamps(3, REQUEST_START=2000),  # not finished
    ]
    traces = stages.read_traces(events)
    assert [trace["COMPUTE_INPUT_END"] for trace in traces] == [100, 1000]
    log = np.array([[130, 510, *[0] * (len(FIELDS) - 2)], [1030, 1810, *[0] * (len(FIELDS) - 2)]])
    assert stages.stub_input(traces, log) == pytest.approx(0.25)
    assert stages.stub_input(traces, log[:1]) is None
    assert stages.stub_input(traces, log + 10_000) is None
    assert stages.stub_input([], log) is None


# Load


def test_arrivals_are_poisson_at_the_rate():
    due = load.arrivals_ns(200.0, 4000)
    gaps = np.diff(due, prepend=0) / 1e9
    assert due[-1] == pytest.approx(4000 / 200 * 1e9)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)  # of an exponential distribution
    assert np.array_equal(due, load.arrivals_ns(200.0, 4000))


def test_waiting_at_one_server():
    assert load.single_server_latency_ns([0, 10, 20, 500], 100).tolist() == [100, 190, 280, 100]
    assert load.single_server_latency_ns([0, 10, 20, 500], 100, 7).tolist() == [107, 197, 287, 107]


def test_waiting_agrees_with_queueing_theory():
    latency = load.single_server_latency_ns(load.arrivals_ns(50.0, 200_000), 10e6)  # half busy
    assert latency.mean() == pytest.approx(10e6 + 0.5 * 10e6 / (2 * 0.5), rel=0.03)


def test_the_highest_rate_is_found_by_halving():
    asked = []

    def meets(rate):
        asked.append(rate)
        return rate <= 70

    assert load.highest_rate(meets, [20, 60, 100], 3) == (70, 75)
    assert asked == [20, 60, 100, 80, 70, 75]
    assert load.highest_rate(lambda rate: False, [20, 60], 3) == (None, 20)
    assert load.highest_rate(lambda rate: True, [20, 60], 3) == (60, None)


def test_points_say_rate_and_tail():
    taken = load_generator.Completions([i * 10**7 for i in range(1, 201)], [5_000_000] * 200)
    figures = load.summarize(taken, 1)
    assert (figures["requests_per_s"], figures["p99_us"], figures["stable"]) == (100.0, 5000.0, True)
    assert load.tail_us(figures) == 5000.0
    assert load.tail_us({"p95_us": 7.0, "p99_us": None}) == 7.0
    growing = load_generator.Completions(taken.finished_ns, [5_000_000 + i * 10**6 for i in range(200)])
    assert not load.summarize(growing, 1)["stable"]


def test_one_thing_is_changed_at_a_time():
    plan = load.Plan(devices=2, slots=2, instances=3, delays_us=(500,))
    assert load.settings_to_try(Setting(), plan) == [
        *(Setting(instances=2), Setting(instances=3), Setting(instances=2, devices=2), Setting(slots=2)),
        *(Setting(delay_us=None), Setting(delay_us=500)),
    ]
    assert Setting(delay_us=500) not in load.settings_to_try(Setting(delay_us=None), plan)


def test_devices_are_added_to_the_stand_ins_settings(monkeypatch, tmp_path):
    monkeypatch.setenv(load.CPU_CONFIG, '{"exec_us": 5}')
    load.configure_devices("cpu", 3)
    assert json.loads(os.environ[load.CPU_CONFIG]) == {"devices": 3, "exec_us": 5}
    (tmp_path / "config.json").write_text('{"devices": 8}')
    monkeypatch.setenv(load.CPU_CONFIG, str(tmp_path / "config.json"))
    load.configure_devices("cpu", 3)
    assert json.loads(os.environ[load.CPU_CONFIG]) == {"devices": 8}
    monkeypatch.setenv(load.CPU_CONFIG, "{}")
    load.configure_devices("npu", 3)
    assert os.environ[load.CPU_CONFIG] == "{}"


# Settings and advice


def test_stanzas():
    assert Setting().stanza() == "instance_group [ { kind: KIND_CPU count: 1 } ]\ndynamic_batching { }\n"
    everything = Setting(4, 2, 2, 700, (4, 8), 1, 8)
    assert everything.stanza().splitlines() == [
        "max_batch_size: 8",
        "instance_group [ { kind: KIND_CPU count: 4 } ]",
        "dynamic_batching { max_queue_delay_microseconds: 700 preferred_batch_size: [ 4, 8 ] }",
        'parameters: [ { key: "device_ids" value: { string_value: "1,2" } } ]',
        'parameters: [ { key: "slots" value: { string_value: "2" } } ]',
        'parameters: [ { key: "responses" value: { string_value: "sender" } } ]',
    ]
    assert "dynamic_batching" not in Setting(delay_us=None).stanza()
    assert Setting().stanza(whole=True).splitlines()[2:] == [
        'parameters: [ { key: "device_ids" value: { string_value: "0" } } ]',
        'parameters: [ { key: "slots" value: { string_value: "1" } } ]',
        'parameters: [ { key: "responses" value: { string_value: "returned" } } ]',
        'parameters: [ { key: "register_memory" value: { string_value: "false" } } ]',
    ]
    assert str(everything) == "4 instances, 2 devices, 2 slots, batcher, delay 700 µs"


LLAMA = [Gear(1, 78.5, 78.0), Gear(4, 146.5, 145.0), Gear(8, 223.0, 220.0)]


def test_advice_for_the_lowest_latency():
    found = advice.advise(LLAMA, 0.8, "latency")
    assert found.setting == Setting(delay_us=None)
    assert (found.rows, found.latency_ms) == (1, 79.3)


def test_advice_for_the_most_rows():
    found = advice.advise(LLAMA, 0.8, "throughput")
    assert found.rows == 8
    assert found.setting == Setting(delay_us=11150)
    assert found.rows_per_s == pytest.approx(8e3 / 223.8, abs=0.01)


def test_advice_keeps_a_limit():
    found = advice.advise(LLAMA, 0.8, "throughput", p99_ms=320.0)
    assert (found.rows, found.setting.rows, found.setting.instances) == (4, 4, 1)
    assert found.latency_ms == pytest.approx(145 + 146.5 + 0.8)
    assert found.latency_ms + found.setting.delay_us / 1e3 <= 320.0
    with pytest.raises(ValueError, match=r"no batch keeps a p99 of 100 ms .* needs about 165\.6 ms"):
        advice.advise(LLAMA, 0.8, "throughput", p99_ms=100.0)


def test_advice_overlaps_what_leaves_the_device_idle():
    found = advice.advise([Gear(1, 4.0, 2.0), Gear(4, 5.0, 3.0)], 1.0, "throughput")
    assert (found.rows, found.setting.instances) == (4, 2)
    assert found.rows_per_s == pytest.approx(4e3 / 3.0, abs=0.01)
    alone = advice.advise([Gear(1, 4.0, 2.0), Gear(4, 5.0, 3.0)], 1.0, "throughput", p99_ms=10.0)
    assert alone.setting.instances == 1
    whole = advice.advise([Gear(1, 4.0, 2.0)], 1.0, "throughput", batcher=False)
    assert whole.setting == Setting(instances=3, delay_us=None)


def test_preferred_sizes_only_where_padding_is_dear():
    assert advice.preferred_rows(LLAMA) == ()
    assert advice.preferred_rows([Gear(1, 1.0, 1.0), Gear(4, 4.0, 4.0), Gear(8, 8.0, 8.0)]) == (4, 8)
    assert advice.preferred_rows([Gear(8, 8.0, 8.0)]) == ()


# What the device says


def test_utilisation_is_put_together():
    samples = [
        {"cube_percent": 3, "vector_percent": None, "used": 100, "total": 1000},
        {"cube_percent": 50, "vector_percent": None, "used": 300, "total": 1000},
        {"cube_percent": 100, "vector_percent": None},
    ]
    found = usage.summarize_samples([*samples, samples[1]])
    assert found == {
        "samples": 3,
        "cube_mean": 66.7,
        "cube_max": 100,
        "memory_used_max": 300,
        "memory_total": 1000,
    }


# Models


def test_resnet_has_the_size_of_resnet50_and_the_small_one_computes(tmp_path):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path = networks.resnet50(tmp_path / "small.onnx", size=32, layers=((8, 1, 1), (16, 2, 2)), classes=10)
    onnx.checker.check_model(str(path))
    x = np.random.default_rng(0).random((2, 3, 32, 32)).astype(np.float32)
    (y,) = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"input": x})
    assert y.shape == (2, 10)
    assert np.isfinite(y).all()
    assert 0.01 < y.std() < 100
    weights = sum(np.prod(w.dims) for w in onnx.load(networks.resnet50(tmp_path / "whole.onnx")).graph.initializer)
    assert 25.4e6 < weights < 25.7e6


def test_bert_masks_and_has_one_case_per_gear(tmp_path):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    path = networks.bert_base(tmp_path / "small.onnx", layers=1, tokens=50)
    onnx.checker.check_model(str(path))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ids, mask = np.arange(12, dtype=np.int64).reshape(2, 6), np.ones((2, 6), np.int64)
    (whole,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
    assert whole.shape == (2, 6, 768)
    mask[:, 4:] = 0
    (masked,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
    (short,) = session.run(None, {"input_ids": ids[:, :4], "attention_mask": mask[:, :4]})
    assert np.abs(masked[:, :4] - short).max() < 1e-3
    om = networks.compile_model(
        path,
        tmp_path / "small",
        runtime="cpu",
        framework=5,
        input_format="ND",
        input_shape="input_ids:-1,-1;attention_mask:-1,-1",
        dynamic_dims="1,8,1,8;2,4,2,4",
    ).path
    cases = networks.gear_cases("small", om, "cpu")
    assert [(case.name, case.rows(1)["input_ids"].shape) for case in cases] == [
        ("small_1x8", (1, 8)),
        ("small_2x4", (2, 4)),
    ]
    with ge_core.InferenceSession(om, runtime="cpu") as session:
        assert session.run(None, cases[1].rows(1))[0].shape == (2, 4, 768)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.zeros((2, 3), np.float32)}, "must hold x; it holds y"),
        ({"x": np.zeros((2, 4), np.float32)}, r"expected float32 \(rows, 3\), got float32 \(2, 4\)"),
        ({"x": np.zeros((2, 3))}, r"got float64 \(2, 3\)"),
        ({"x": np.zeros((0, 3), np.float32)}, r"got float32 \(0, 3\)"),
    ],
)
def test_given_inputs_must_fit(tmp_path, arrays, message):
    case = presets.Case("m", Path("m.om"), {"x": np.zeros((16, 3), np.float32)}, True, "computed")
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(presets.UnavailableError, match=message):
        networks.given_inputs(case, tmp_path / "in.npz")


def test_given_inputs_are_repeated(tmp_path):
    case = presets.Case("m", Path("m.om"), {"x": np.zeros((16, 3), np.float32)}, True, "computed")
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=given)
    assert networks.given_inputs(case, tmp_path / "in.npz").rows(3)["x"].tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    whole = replace(case, splittable=False, inputs={"x": np.zeros((2, 3), np.float32)})
    assert networks.given_inputs(whole, tmp_path / "in.npz").rows(1)["x"].tolist() == given.tolist()
    with pytest.raises(presets.UnavailableError, match="cannot be read as npz"):
        networks.given_inputs(case, tmp_path / "none.npz")


# Live runs

TINY = {
    "name": "tiny",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [-1, 8]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [-1, 4]}],
    "dynamic_batch_size": [1, 2],
    "exec_us": [1000, 1500],
}


@pytest.mark.slow
def test_a_planted_slow_copy_shows_in_its_stage(tmp_path):
    om = presets.synthetic_case("tiny", tmp_path, TINY).om
    arguments = (
        "stages",
        "--model",
        om,
        "--batches",
        "2",
        "--transports",
        "http",
        "--quick",
        "--json",
        tmp_path / "out.json",
    )
    slow = json.dumps({"d2h": {"latency_us": 30_000}, "hbm_bytes": 3 << 30})  # a device that no other process uses
    done = bench_command(*map(str, arguments), GE_CORE_RUNTIME="cpu", GE_CORE_CPU_CONFIG=slow)
    assert done.returncode == 0, done.stderr
    written = build.read(tmp_path / "out.json")
    (found,) = written["summary"]["stages"]
    us = {stage["name"]: stage["us"] for stage in found["stages"]}
    assert max(us, key=us.get) == "D2H"
    assert us["D2H"] >= 30_000
    assert us["execute"] >= 1500
    assert {"stub input", "stub output", "queue", "network", "gather"} <= us.keys()
    assert found["sampled"] > 0
    assert sum(us.values()) == pytest.approx(found["sum_us"])
    (device,) = written["summary"]["usage"][0]["devices"]
    assert device["samples"] > 0
    assert device["memory_used_max"] > 0
    assert [(r["bench"], r["path"], r["batch"], r["bytes_out"]) for r in written["records"]] == [
        ("stages", "triton", 2, 32)
    ]
    assert "Stages: tiny, http on CPU implementation of AscendCL" in " ".join(done.stdout.split())


PLAN = load.Plan(
    seconds=0.2,
    min_requests=20,
    max_requests=40,
    clients=(1, 4),
    rates=(0.3, 0.9),
    bisections=1,
    slots=2,
    instances=2,
    delays_us=(300,),
)


@pytest.mark.slow
def test_load_measures_every_point(tmp_path):
    case = presets.synthetic_case("tiny", tmp_path, TINY)
    options = prepare.Options((), case.om, "cpu", transports=("http+shm",))
    found, _ = load.load(options, PLAN, 500.0, QUIET)
    (loaded,) = found.summary["load"]
    assert [point["clients"] for point in loaded["closed"]] == [1, 4]
    assert all(20 <= point["n"] <= 40 for point in loaded["closed"])
    assert len(loaded["open"]) >= 2
    assert loaded["limit_ms"] == 500.0
    tried = [setting["label"] for setting in loaded["settings"]]
    assert tried == [
        "1 instance, 1 device, 1 slot, batcher, delay 0 µs",
        "2 instances, 1 device, 1 slot, batcher, delay 0 µs",
        "1 instance, 1 device, 2 slots, batcher, delay 0 µs",
        "1 instance, 1 device, 1 slot, no batcher",
        "1 instance, 1 device, 1 slot, batcher, delay 300 µs",
    ]
    measured = [setting for setting in loaded["settings"] if "refused" not in setting]
    assert all(setting["requests_per_s"] > 0 for setting in measured)
    refused = [setting["refused"] for setting in loaded["settings"] if "refused" in setting]
    assert all("slots" in reason or "responses" in reason for reason in refused)
    assert {r.bench for r in found.records} == {"load"}
    assert all(r.device["kind"] == "cpu" for r in found.records)
    Balanced(document.html(build.build_document(found.to_dict())))


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "limit"), [("throughput", None), ("throughput", 400.0), ("latency", None)])
def test_suggested_settings_load(tmp_path, goal, limit):
    case = presets.synthetic_case("tiny", tmp_path, TINY)
    options = prepare.Options((), case.om, "cpu", transports=("http+shm",))
    found, _ = advice.advice(options, goal, limit, PLAN, QUIET)
    (advised,) = found.summary["advice"]
    assert [gear["rows"] for gear in advised["gears"]] == [1, 2]
    assert all(gear["run_ms"] >= gear["engine_ms"] >= 1 for gear in advised["gears"])
    assert advised["advised"]["n"] >= 20
    assert advised["stanza"].count("instance_group") == 1
    assert ("dynamic_batching" in advised["stanza"]) == (goal == "throughput")


def test_refused_settings_say_why(tmp_path):
    case = presets.synthetic_case("tiny", tmp_path, TINY)
    repository = tmp_path / "repository"
    with ge_core.InferenceSession(case.om, runtime="cpu") as session:
        settings.add_model(repository, "bad", settings.config_text("bad", case.om, "cpu", session, Setting(rows=7)))
    with (
        server.serve_explicit(repository, "cpu") as running,
        pytest.raises(server.ModelRefusedError, match=r"max_batch_size 7 .* at most 2"),
        running.loaded("bad"),
    ):
        pass


# The page in a browser


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium on PATH (Debian: apt install chromium)")


@pytest.mark.parametrize(("width", "shown", "hidden"), [(1280, "wide", "narrow"), (390, "narrow", "wide")])
def test_the_page_in_a_browser(tmp_path, width, shown, hidden):
    page = tmp_path / "page.html"
    probe = """<script>
      const box = element => element.getBoundingClientRect();
      const drawn = kind => [...document.querySelectorAll(`.${kind} svg`)].filter(svg => box(svg).height > 40).length;
      const parts = [...document.querySelectorAll('body > *, section > *')];
      const over = parts.filter(part => box(part).right > innerWidth + 1).length;
      const scroll = document.documentElement.scrollWidth;
      document.title = JSON.stringify({wide: drawn('wide'), narrow: drawn('narrow'), over, scroll, inner: innerWidth});
    </script>"""
    text = document.html(build.build_document(content()))
    page.write_text(text.replace("</body>", probe + "</body>"))
    done = subprocess.run(
        [
            *(browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},2000", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr
    found = json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1])
    assert found[shown] == text.count(f'class="{shown}"') > 3
    assert found[hidden] == 0
    assert found["over"] == 0
    assert found["scroll"] <= found["inner"]
