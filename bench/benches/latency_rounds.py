# SPDX-License-Identifier: Apache-2.0
"""Latency of one model: every path is called once in each round, directly, through Triton, and a floor."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import ge_core
from bench.measure import stats
from bench.measure.progress import Progress
from bench.measure.records import Record, Report
from bench.measure.verify import check_outputs
from bench.models.presets import Case
from bench.paths import calling
from bench.paths.c_path import CPath
from bench.paths.clients import Endpoint, Request, connect
from bench.report.build import ms
from bench.report.document import Section, Table, Text

COLD_FLOOR_FROM_S = 0.002  # execution time from which a floor waits before each call
WARM_UP_WINDOW_S, WARM_UP_WINDOW_ROUNDS = 0.02, 20  # a window of the warm-up ends at whichever comes first

PathKey = tuple[str, str | None]  # path and transport, as in a record


@dataclass(frozen=True)
class Plan:
    """How much is measured. `seconds` bounds one model and batch, but at least `min_rounds` are made.

    The smallest batch gets 100 rounds, enough for its p99, unless they would take longer than `p99_seconds`. Cold
    floors are measured in every `floor_every`-th round, because each costs a pause as long as the model's execution.
    Where they need no pause, the rounds are three of at most `windows` windows. The warm-up is at most `warm_up`
    windows. `preview_rounds`: rounds of a first small table of the first model; 0: none. `extra_paths`: c-pinned and
    triton-plain too.
    """

    seconds: float = 90.0
    p99_seconds: float = 180.0
    min_rounds: int = 100
    max_rounds: int = 5000
    floor_every: int = 1
    windows: int = 9
    load_seconds: float = 20.0
    load_batches: int = 60
    load_turns: int = 6
    warm_up: int = 10
    preview_rounds: int = 0
    extra_paths: bool = True

    def rounds(self, round_s: float, smallest: bool) -> int:
        """Return how many rounds of `round_s` seconds are made; `smallest`: at the smallest batch."""
        wanted = max(self.min_rounds, min(self.max_rounds, int(self.seconds / round_s)))
        if smallest and stats.P99_SAMPLES * round_s <= self.p99_seconds:
            wanted = max(wanted, min(stats.P99_SAMPLES, self.max_rounds))
        return wanted


QUICK = Plan(
    seconds=4,
    p99_seconds=75,
    min_rounds=16,
    max_rounds=2000,
    floor_every=3,
    windows=4,
    load_seconds=2,
    load_batches=20,
    load_turns=3,
    warm_up=3,
    preview_rounds=7,
    extra_paths=False,
)


@dataclass
class ModelRun:
    """One open session and one running server for the same model, and what is common to all its records."""

    case: Case
    session: ge_core.InferenceSession
    endpoint: Endpoint
    c_library: ctypes.CDLL | None
    transports: tuple[str, ...]
    plan: Plan
    common: dict
    report: Report
    progress: Progress

    @property
    def exact(self) -> bool:
        """Whether outputs must be equal bit for bit."""
        return self.case.timing.startswith("declared")

    def output_names(self) -> list[str]:
        """Return the names of the model's outputs in their order."""
        return [spec.name for spec in self.session.get_outputs()]

    def c_path(self, inputs: dict, expected: Sequence[np.ndarray]) -> CPath:
        """Return the path `c` for these inputs, with output arrays of its own."""
        assert self.c_library is not None
        outputs = {name: np.empty_like(array) for name, array in zip(self.output_names(), expected, strict=True)}
        return CPath(self.c_library, calling.native_handles(self.session, inputs), inputs, outputs)

    def record(self, bench: str, path: str, transport: str | None, batch: int, fields: dict, **more) -> None:
        """Add one record; `fields` holds the statistics, `more` replaces defaults."""
        values = {
            "timing": self.case.timing,
            "concurrency": 1,
            "slots": 1 if path != "floor" else None,
            "instances": 1 if transport else None,
            **self.common,
            **more,
        }
        self.report.records.append(Record(bench, path, transport, self.case.name, batch, **fields, **values))


@dataclass(frozen=True)
class CallPath:
    """One way to make the call: `call` returns its nanoseconds, `outputs` the arrays of the last call."""

    call: Callable[[], int]
    outputs: Callable[[], list[np.ndarray]]


def measure(run: ModelRun, batches: list[int]) -> list[dict]:
    """Measure all paths at each batch; returns one summary row per batch and transport."""
    return [row for batch in batches for row in _measure_batch(run, batch, batch == min(batches))]


def preview(run: ModelRun, batches: list[int], transport: str) -> Section:
    """Measure a few rounds of `c` (else `direct`) and Triton alone; returns the short table for a first look."""
    rounds = run.plan.preview_rounds
    rows: dict[str, list[str]] = {}
    with run.progress.part(f"{run.case.name}: {rounds} rounds for a first table"):
        for batch in batches:
            inputs = run.case.rows(batch)
            expected = run.session.run(None, inputs)
            with contextlib.ExitStack() as stack:
                paths = _open_paths(run, stack, inputs, expected, (transport,))
                direct: PathKey = ("c", None) if ("c", None) in paths else ("direct", None)
                labels = {direct: "direct AscendCL", ("triton", transport): f"Triton ({transport})"}
                calls = {key: stats.Call(paths[key].call) for key in labels}
                stats.interleave(calls, 1)
                samples = stats.interleave(calls, rounds)
                _check_outputs(run, batch, expected, {key: paths[key] for key in labels})
            for key, label in labels.items():
                rows.setdefault(label, [label]).append(f"{ms(stats.percentile(samples[key], 50) / 1e3)} ms")
    header = ("p50 latency", *(f"batch {batch}" for batch in batches))
    note = Text(f"A first look: {rounds} calls each. The tables of the whole run follow.", "note")
    table = Table(header, list(rows.values()), short=True)
    return Section(run.case.name, run.common["device"]["name"], [table, note])


def _open_paths(
    run: ModelRun, stack: contextlib.ExitStack, inputs: dict, expected: list[np.ndarray], transports: Sequence[str]
) -> dict[PathKey, CallPath]:
    """Prepare every path for these inputs; `stack` closes their connections."""
    case, names = run.case, run.output_names()
    paths: dict[PathKey, CallPath] = {}
    if run.c_library is not None:
        c = run.c_path(inputs, expected)
        for path in ("c", "c-pinned") if run.plan.extra_paths else ("c",):
            paths[path, None] = CallPath(c.once(path), lambda: list(c.outputs.values()))
    direct: list[np.ndarray] = []

    def run_direct() -> None:
        direct[:] = run.session.run(None, inputs)

    paths["direct", None] = CallPath(stats.timed(run_direct), lambda: direct)
    shapes = {name: (array.shape, array.dtype) for name, array in zip(names, expected, strict=True)}
    served = {"triton": case.name, "floor": f"{case.name}_floor"}
    if run.plan.extra_paths and case.splittable:
        served["triton-plain"] = f"{case.name}_plain"

    def through_triton(model: str, transport: str) -> CallPath:
        client = connect(run.endpoint, Request(model, inputs, shapes), transport)
        stack.callback(client.close)
        return CallPath(stats.timed(client.call), lambda: [client.outputs[name] for name in names])

    for transport in transports:
        for path, model in served.items():
            paths[path, transport] = through_triton(model, transport)
    return paths


def _measure_batch(run: ModelRun, batch: int, smallest: bool) -> list[dict]:
    case, plan = run.case, run.plan
    inputs = case.rows(batch)
    first_ns = stats.timed(lambda: run.session.run(None, inputs))()
    expected = run.session.run(None, inputs)
    if case.reference is not None:
        what = f"{case.name} batch {batch}: direct against the reference"
        check_outputs(case.reference(inputs), expected, what, exact=False)

    with contextlib.ExitStack() as stack:
        paths = _open_paths(run, stack, inputs, expected, run.transports)
        medians_s = _warm_up(plan, paths, first_ns)
        _check_outputs(run, batch, expected, paths)
        execution_s = medians_s.get(("c", None), medians_s["direct", None])
        pause_s = execution_s if execution_s >= COLD_FLOOR_FROM_S else 0.0
        calls = {
            key: stats.Call(path.call, plan.floor_every, pause_s)
            if key[0] == "floor" and pause_s
            else stats.Call(path.call)
            for key, path in paths.items()
        }
        round_s = sum((medians_s[key] + call.pause_s) / call.every for key, call in calls.items())
        rounds = plan.rounds(round_s, smallest)
        with run.progress.part(f"{case.name} batch {batch}: {rounds} rounds of {len(calls)} calls", rounds * round_s):
            if pause_s:
                samples = stats.interleave(calls, rounds)
            else:
                size = -(-rounds // stats.WINDOWS)
                windows = stats.until_stable(lambda: stats.interleave(calls, size), plan.windows)
                samples = {key: [ns for window in windows for ns in window[key]] for key in calls}
        _check_outputs(run, batch, expected, paths)

    sizes = {
        "bytes_in": sum(array.nbytes for array in inputs.values()),
        "bytes_out": sum(array.nbytes for array in expected),
    }
    for (name, transport), elapsed in samples.items():
        fields = {
            **sizes,
            **stats.summarize(elapsed),
            "samples_ns": elapsed,
            "rows_per_s": round(batch * 1e9 / float(np.mean(elapsed)), 3),
            "stable": stats.is_stable(stats.sequential_windows(elapsed)),
        }
        more = {}
        if name == "floor":
            more["timing"] = f"no model, {pause_s * 1e3:.1f} ms pause before each call" if pause_s else "no model"
        run.record("latency", name, transport, batch, fields, **more)
    return [_summary(batch, transport, samples, pause_s) for transport in run.transports]


def _warm_up(plan: Plan, paths: dict[PathKey, CallPath], first_ns: int) -> dict[PathKey, float]:
    """Call all paths until their times are stable; returns the median of each in seconds."""
    rounds = max(1, min(WARM_UP_WINDOW_ROUNDS, int(WARM_UP_WINDOW_S * 1e9 / first_ns)))
    calls = {key: stats.Call(path.call) for key, path in paths.items()}
    windows = stats.until_stable(lambda: stats.interleave(calls, rounds), plan.warm_up)
    return {key: stats.percentile([ns for window in windows for ns in window[key]], 50) / 1e9 for key in paths}


def _check_outputs(run: ModelRun, batch: int, expected: list, paths: dict[PathKey, CallPath]) -> None:
    for (name, transport), path in paths.items():
        right = [np.zeros_like(array) for array in expected] if name == "floor" else expected
        where = f"{name} over {transport}" if transport else name
        check_outputs(right, path.outputs(), f"{run.case.name} batch {batch}: {where} against direct", run.exact)


def _summary(batch: int, transport: str, samples: dict[PathKey, list[int]], pause_s: float) -> dict:
    triton, direct = samples["triton", transport], samples["direct", None]
    floor_us = stats.percentile(samples["floor", transport], 50) / 1e3
    keys: tuple[PathKey, ...] = (("triton", transport), ("floor", transport), ("c", None))
    compared = [samples[key] for key in keys if key in samples]
    row = {
        "batch": batch,
        "transport": transport,
        "stable": all(stats.is_stable(stats.sequential_windows(elapsed)) for elapsed in compared),
        "triton_minus_direct_us": round(stats.paired_gap(triton, direct).gap_us, 3),
        "floor_us": round(floor_us, 3),
        "floor_pause_ms": round(pause_s * 1e3, 3),
    }
    if ("c", None) in samples:
        gap = stats.paired_gap(triton, samples["c", None])
        row |= {
            "gap_us": round(gap.gap_us, 3),
            "gap_p10_us": round(gap.p10_us, 3),
            "gap_p90_us": round(gap.p90_us, 3),
            "gap_to_floor": round(gap.gap_us / floor_us, 4),
        }
    return row
