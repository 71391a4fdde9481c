# SPDX-License-Identifier: Apache-2.0
"""``python -m bench stages``: where each microsecond of a request goes, from the client to the device and back.

Three clocks take part: the client's own, the server's inference statistics, and the clock inside the served model
(`bench.served.stage_clock`), whose device times the core takes from events. What lies between the server and the
model is split into the way there and the way back by tracing some more requests, where the server can trace. One client
sends one request after another.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tritonclient.utils import InferenceServerException

import ge_core
from bench.benches import prepare
from bench.measure import records, stats
from bench.measure.progress import Progress
from bench.measure.records import Record, Report
from bench.measure.usage import Sampler
from bench.measure.verify import check_outputs
from bench.models.presets import Case
from bench.paths.clients import Request, connect
from bench.served import settings, stage_clock
from bench.served.server import serve_explicit
from ge_core.serving.loading import tune_allocator
from ge_core_pyx import locate

TRANSPORTS = ("grpc", "http", "grpc+shm")
CLIENT = ("encode", "exchange", "decode")
SERVER = ("success", "queue", "compute_input", "compute_infer", "compute_output")
SUM_TOLERANCE = 0.05
WARM_UP = stage_clock.EVERY
TRACED = 12


@dataclass(frozen=True)
class Plan:
    """How much is measured per model, batch and transport: requests within `seconds`, in `blocks`."""

    seconds: float = 20.0
    min_requests: int = 64
    max_requests: int = 1600
    blocks: int = 16

    def per_block(self, call_s: float) -> int:
        """Return the requests of a block, of calls of `call_s` seconds."""
        wanted = int(self.seconds / (2 * call_s))
        return max(1, min(self.max_requests, max(self.min_requests, wanted)) // self.blocks)


QUICK = Plan(seconds=4, min_requests=32, max_requests=400, blocks=8)


@dataclass(frozen=True)
class Stage:
    """A part of a request: mean microseconds, and where the figure comes from."""

    name: str
    us: float
    source: str


def interquartile_mean(blocks: Sequence[Mapping[str, float]], key: str = "total") -> dict[str, float]:
    """Return the mean of each figure over the middle half of the blocks, ordered by `key`.

    The same blocks are used for every figure, so that the parts still add up to their sum; a block that the machine
    disturbed is left out.
    """
    ordered = sorted(blocks, key=lambda block: block[key])
    quarter = len(ordered) // 4
    kept = ordered[quarter : len(ordered) - quarter]
    return {name: float(np.mean([block[name] for block in kept])) for name in kept[0]}


def breakdown(mean: Mapping[str, float], stub_input: float | None = None) -> list[Stage]:
    """Split a request into stages.

    Parameters
    ----------
    mean : mapping
        Mean nanoseconds: `encode`, `exchange`, `decode` of the client; the server's `SERVER`; `span` and `run` of
        the served model, and, where the core took them, `stage_clock.STEPS`, parts of `run`.
    stub_input : float, optional
        Which part of the worker process's own time lies before the model is called; None: not known.
    """
    stub = mean["compute_infer"] - mean["span"]
    parts: list[tuple[str, float, str]] = [
        ("client encode", mean["encode"], "client"),
        ("network", mean["exchange"] - mean["success"], "client − server: the client's library, sockets, the endpoint"),
        ("queue", mean["queue"], "server"),
        ("server input", mean["compute_input"], "server: into the worker's shared memory"),
    ]
    if stub_input is None:
        parts.append(("stub", stub, "server − model: hand-off to the worker and back, its copies"))
    else:
        parts.append(("stub input", stub * stub_input, "server − model: hand-off to the worker, its copies"))
    if "execute" in mean:
        steps = sum(mean[key] for key in stage_clock.STEPS)
        parts.append(("gather", mean["gather"], "core: into pinned memory"))
        parts += [(name, mean[key], "device events") for name, key in DEVICE_STAGES]
        parts.append(("launch and wake-up", mean["run"] - steps, "run − its other parts; the model's Python meanwhile"))
        parts.append(("scatter", mean["scatter"], "core: out of pinned memory"))
    elif "gather" in mean:  # a runtime without events, or a model that takes no time by them
        copies = mean["gather"] + mean["scatter"]
        parts.append(("gather", mean["gather"], "core: into pinned memory"))
        parts.append(("H2D, execute, D2H", mean["run"] - copies, "run − its other parts"))
        parts.append(("scatter", mean["scatter"], "core: out of pinned memory"))
    else:
        parts.append(("run", mean["run"], "model: from the copy into pinned memory to the copy out of it"))
    parts.append(("model's Python", mean["span"] - mean["run"], "model − run"))
    if stub_input is not None:
        parts.append(("stub output", stub * (1 - stub_input), "server − model: its copies, hand-off back"))
    inside = mean["queue"] + mean["compute_input"] + mean["compute_infer"] + mean["compute_output"]
    parts += [
        ("server output", mean["compute_output"], "server"),
        ("server, other", mean["success"] - inside, "server: what its parts leave"),
        ("client decode", mean["decode"], "client"),
    ]
    return [Stage(name, round(ns / 1e3, 3), source) for name, ns, source in parts]


DEVICE_STAGES = (("H2D", "h2d"), ("execute", "execute"), ("D2H", "d2h"))


def stages(options: prepare.Options, plan: Plan, progress: Progress) -> tuple[Report, list[str]]:
    """Measure every model of `options`; returns the report and remarks for the reader."""
    runtime = locate.runtime_name(options.runtime)
    device = records.device(runtime, options.device_id)
    tune_allocator()
    report = Report(summary={"device": device["name"], "stages": [], "usage": []})
    with prepare.workspace() as folder:
        for label, cases in prepare.compile_cases(options, runtime, device, folder, progress):
            for case in cases:
                _measure(options, plan, runtime, device, folder / label, case, report, progress)
    return report, []


def _measure(
    options: prepare.Options,
    plan: Plan,
    runtime: str,
    device: dict,
    folder: Path,
    case: Case,
    report: Report,
    progress: Progress,
) -> None:
    repository = folder / f"{case.name}_stages"
    repository.mkdir(parents=True)
    clocked = f"{case.name}_clocked"
    log = repository / clocked / "1" / stage_clock.LOG
    with contextlib.ExitStack() as stack:
        session = ge_core.InferenceSession(case.om, runtime=runtime, device_id=options.device_id)
        stack.callback(session.close)
        setting = settings.Setting(first_device=options.device_id, delay_us=None)
        worker = {"model.py": stage_clock.WORKER.format(root=str(Path(__file__).resolve().parents[2]))}
        settings.add_model(repository, case.name, settings.config_text(case.name, case.om, runtime, session, setting))
        text = settings.config_text(clocked, case.om, runtime, session, setting, backend="python")
        settings.add_model(repository, clocked, text, worker)
        stage_clock.open_log(log, "w+")
        trace = folder / f"{case.name}_trace"
        arguments = ("--trace-config", f"triton,file={trace}", "--trace-config", "rate=0")
        with progress.part(f"{case.name}: starting Triton"):
            server = stack.enter_context(serve_explicit(repository, runtime, arguments))
            for name in (case.name, clocked):
                stack.enter_context(server.loaded(name))
        common = {
            "device": device,
            "host": records.host(),
            "versions": records.versions(ge_core=ge_core.__version__, tritonserver=server.version),
        }
        logged = 0  # rows of the log that belong to earlier probes
        for batch in prepare.batch_sizes(session.description, options.batches):
            expected = session.run(None, case.rows(batch))
            for transport in options.transports:
                probe = Probe(case, server, session, clocked, batch, transport, expected, logged)
                with contextlib.closing(probe), Sampler(runtime, (options.device_id,)) as usage:
                    blocks, plain = probe.measure(plan, progress)
                    before = probe.executions
                    traces = probe.trace(trace)
                rows = stage_clock.open_log(log, "r")[logged : logged + probe.executions]
                logged += probe.executions
                found = {**probe.what, **probe.sizes, "device": device["name"], "timing": case.timing}
                found |= combine(blocks, rows[:before], stub_input(traces, rows[before:]))
                report.summary["stages"].append(found)
                report.summary["usage"].append({"bench": "stages", "model": case.name, **usage.summary()})
                report.records.append(_record(case, batch, transport, plain, probe.sizes, common))


def _record(case: Case, batch: int, transport: str, plain: list[int], sizes: dict, common: dict) -> Record:
    fields = {
        **sizes,
        **stats.summarize(plain),
        "samples_ns": plain,
        "rows_per_s": round(batch * 1e9 / float(np.mean(plain)), 3),
        "stable": stats.is_stable(stats.sequential_windows(plain)),
        "timing": case.timing,
        "concurrency": 1,
        "slots": 1,
        "instances": 1,
    }
    return Record("stages", "triton", transport, case.name, batch, **fields, **common)


class Probe:
    """One client that sends the same request to the model as it is served and to the one with clocks, in turn."""

    def __init__(
        self, case: Case, server, session, clocked: str, batch: int, transport: str, expected: list, before: int = 0
    ):
        inputs = case.rows(batch)
        self._names = [spec.name for spec in session.get_outputs()]
        shapes = {name: (array.shape, array.dtype) for name, array in zip(self._names, expected, strict=True)}
        self._server, self._clocked, self._expected = server, clocked, expected
        self._exact = case.timing.startswith("declared")
        self.what = {"model": case.name, "batch": batch, "transport": transport}
        self._plain, self._timed = (
            connect(server.endpoint, Request(model, inputs, shapes), transport) for model in (case.name, clocked)
        )
        self._before, self.executions = before, 0
        self.sizes = {
            "bytes_in": sum(array.nbytes for array in inputs.values()),
            "bytes_out": sum(array.nbytes for array in expected),
        }

    def close(self) -> None:
        self._plain.close()
        self._timed.close()

    def measure(self, plan: Plan, progress: Progress) -> tuple[list[dict], list[int]]:
        """Return the means of each block in nanoseconds, and every time of the model as it is served."""
        call_s = self._warm_up()
        count = plan.per_block(call_s)
        what = "{model} batch {batch} over {transport}".format(**self.what)
        blocks: list[dict] = []
        plain: list[int] = []
        estimate_s = 2 * plan.blocks * count * call_s
        with progress.part(f"{what}: {plan.blocks} blocks of {count} requests", estimate_s):
            for _ in range(plan.blocks):
                block, plain_times = self._measure_block(count)
                blocks.append(block)
                plain += plain_times
        check_outputs(
            self._expected, [self._timed.outputs[name] for name in self._names], f"{what}: with clocks", self._exact
        )
        return blocks, plain

    def _measure_block(self, count: int) -> tuple[dict, list[int]]:
        before = self._statistics()
        timed, plain = [], []
        for _ in range(count):
            plain.append(self._call_plain())
            timed.append(self._call_timed())
        first, self.executions = self.executions, self.executions + count
        after = self._statistics()
        means = dict(zip(CLIENT, np.mean(timed, axis=0).tolist(), strict=True))
        served = after["count"] - before["count"]
        means |= {name: (after[name] - before[name]) / served for name in SERVER}
        means |= {"total": sum(means[name] for name in CLIENT)}
        means |= {"plain": float(np.mean(plain)), "first": first, "count": count}
        return means, plain

    def _warm_up(self) -> float:
        for _ in range(WARM_UP):
            call_ns = self._call_plain()
            self._call_timed()
        self.executions += WARM_UP
        return call_ns / 1e9

    def _call_plain(self) -> int:
        start = time.perf_counter_ns()
        self._plain.call()
        return time.perf_counter_ns() - start

    def _call_timed(self) -> tuple[int, int, int]:
        client = self._timed
        start = time.perf_counter_ns()
        message = client.encode()
        sent = time.perf_counter_ns()
        response = client.exchange(message)
        received = time.perf_counter_ns()
        client.decode(response)
        return sent - start, received - sent, time.perf_counter_ns() - received

    def _statistics(self) -> dict[str, int]:
        """Return the server's sums over all finished requests; it adds a request shortly after its response."""
        for _ in range(100):
            statistics = self._server.client.get_inference_statistics(self._clocked, as_json=True)
            found = statistics["model_stats"][0]["inference_stats"]
            count = int(found["success"].get("count", 0))
            if count >= self._before + self.executions:
                break
            time.sleep(0.01)
        return {"count": count} | {name: int(found[name].get("ns", 0)) for name in SERVER}

    def trace(self, file: Path) -> list[dict[str, int]]:
        """Send some requests that the server traces; returns its time stamps of each, none if it cannot trace."""
        values = {"trace_rate": "1", "trace_level": ["TIMESTAMPS"], "trace_count": str(TRACED)}
        with contextlib.suppress(InferenceServerException):
            self._server.client.update_trace_settings(self._clocked, values)
            for _ in range(TRACED):
                self._call_timed()
            self.executions += TRACED
            self._server.client.update_trace_settings(self._clocked, {"trace_rate": "0"})
        newest = max(file.parent.glob(f"{file.name}*"), key=lambda path: path.stat().st_mtime_ns, default=None)
        if newest is None:
            return []
        with contextlib.suppress(ValueError):
            return read_traces(json.loads(newest.read_text(encoding="utf-8")))
        return []


def read_traces(events: Sequence[Mapping]) -> list[dict[str, int]]:
    """Gather Triton's trace events: for each request its time stamps by name, in the order the model was reached."""
    traces: dict[int, dict[str, int]] = {}
    for event in events:
        for stamp in event.get("timestamps", ()):
            traces.setdefault(event["id"], {})[stamp["name"]] = stamp["ns"]
    reached = [stamps for stamps in traces.values() if {"COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"} <= stamps.keys()]
    return sorted(reached, key=lambda stamps: stamps["COMPUTE_INPUT_END"])


def stub_input(traces: Sequence[Mapping[str, int]], log: np.ndarray) -> float | None:
    """Return which part of the time between server and model is spent before the model is called; None: not known."""
    if not traces or len(traces) != len(log):
        return None
    before = [row[0] - stamps["COMPUTE_INPUT_END"] for stamps, row in zip(traces, log, strict=True)]
    after = [stamps["COMPUTE_OUTPUT_START"] - row[1] for stamps, row in zip(traces, log, strict=True)]
    if min(before + after) < 0:  # the clocks differ
        return None
    return float(np.median(before) / (np.median(before) + np.median(after)))


def combine(blocks: list[dict], log: np.ndarray, stub_input: float | None = None) -> dict:
    """Return stages, their sum, the total without clocks, and by how much they differ, of blocks and the model's log.

    Parameters
    ----------
    blocks : list of dict
        As `Probe.measure` returns them; `first` and `count` say which rows of `log` are a block's.
    log : ndarray, shape (executions, len(stage_clock.FIELDS))
    stub_input : float, optional
        See `breakdown`.
    """
    column = {name: number for number, name in enumerate(stage_clock.FIELDS)}
    whole = []
    for block in blocks:
        rows = log[block["first"] : block["first"] + block["count"]].astype(np.float64)
        if not rows[:, column["end"]].all():
            raise RuntimeError("the served model's log has fewer executions than requests were answered")
        whole.append(
            {
                **block,
                "run": rows[:, column["run"]].mean(),
                "span": (rows[:, column["end"]] - rows[:, column["begin"]]).mean(),
            }
        )
    mean = interquartile_mean(whole)
    sampled = log[log[:, column["sampled"]] == 1].astype(np.float64)
    if len(sampled):
        timed = stage_clock.STEPS if sampled[:, column["execute"]].any() else ("gather", "scatter")
        mean |= {key: float(np.median(sampled[:, column[key]])) for key in timed}
    parts = breakdown(mean, stub_input)
    total = sum(stage.us for stage in parts)
    plain, lowest = mean["plain"] / 1e3, min(stage.us for stage in parts)
    return {
        "n": sum(block["count"] for block in blocks),
        "sampled": len(sampled),
        "stages": [asdict(stage) for stage in parts],
        "sum_us": round(total, 3),
        "total_us": round(plain, 3),
        "apart": round(total / plain - 1, 4),
        "adds_up": abs(total / plain - 1) <= SUM_TOLERANCE and lowest >= -SUM_TOLERANCE * plain,
    }
