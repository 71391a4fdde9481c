# SPDX-License-Identifier: Apache-2.0
"""``python -m bench load``: requests/s and latency with more and more clients, in a closed and an open loop.

Closed loop: each client sends its next request when the last one is answered. Open loop: requests arrive at random
(Poisson) at a given rate whatever the server does, and the latency of each counts from the moment it was due, so that
waiting is not forgotten. Everything is bounded in time and in number.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import ge_core
from bench.benches import prepare
from bench.measure import records, stats
from bench.measure.progress import Progress
from bench.measure.records import Record, Report
from bench.measure.usage import Sampler
from bench.models.presets import Case, UnavailableError
from bench.paths.load_generator import Completions, LoadGenerator
from bench.served import settings
from bench.served.server import ModelRefusedError, serve_explicit
from bench.served.settings import Setting
from ge_core.serving.loading import tune_allocator
from ge_core_pyx import locate

CPU_CONFIG = "GE_CORE_CPU_CONFIG"
MIN_COMPLETED_RATE = 0.95  # of the offered rate; below, requests pile up
LIMIT_RUNS = 3  # the default latency limit, in runs of the largest batch: one in flight, one's own, one to spare
RUNS = 5
MAX_IN_FLIGHT = 64  # the most requests that the open loop has in flight


@dataclass(frozen=True)
class Plan:
    """How much is measured. Each point takes about `seconds` and from `min_requests` to `max_requests` requests."""

    seconds: float = 8.0
    min_requests: int = 100
    max_requests: int = 20_000
    clients: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    rates: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
    bisections: int = 4
    devices: int = 1
    slots: int = 2
    instances: int = 2
    delays_us: tuple[int, ...] = (500, 2000)

    def count(self, per_s: float) -> int:
        """Return how many requests a point with so many per second has."""
        return max(self.min_requests, min(self.max_requests, int(self.seconds * per_s)))


QUICK = Plan(seconds=2.5, min_requests=30, clients=(1, 4, 16), rates=(0.3, 0.6, 0.9), bisections=2, delays_us=(1000,))


def arrivals_ns(rate: float, count: int, seed: int = 0) -> np.ndarray:
    """Return when `count` requests of a Poisson process of `rate` per second are due, in nanoseconds from 0."""
    gaps = np.random.default_rng(seed).exponential(1.0, count)
    gaps *= count / gaps.sum()  # few of them have another rate by chance
    return np.cumsum(gaps * 1e9 / rate).astype(np.int64)


def single_server_latency_ns(
    due_ns: Sequence[int] | np.ndarray, service_ns: float, around_ns: float = 0.0
) -> np.ndarray:
    """Return each request's latency at a server that takes one at a time, each `service_ns` long (Lindley).

    `around_ns` is what a request takes besides, on its way there and back, while the server serves others.
    """
    free, latency = 0.0, np.empty(len(due_ns))
    for number, due in enumerate(due_ns):
        free = max(free, float(due)) + service_ns
        latency[number] = free - due + around_ns
    return latency


def highest_rate(
    meets: Callable[[float], bool], rates: Sequence[float], bisections: int
) -> tuple[float | None, float | None]:
    """Return the highest rate that meets the limit and the lowest above it that does not, by trying and halving.

    None: not even the lowest of `rates` meets it, or even the highest does.
    """
    met = missed = None
    for rate in rates:
        if not meets(rate):
            missed = rate
            break
        met = rate
    if met is None or missed is None:
        return met, missed
    for _ in range(bisections):
        between = (met + missed) / 2
        if meets(between):
            met = between
        else:
            missed = between
    return met, missed


def summarize(completions: Completions, burst: int) -> dict:
    """Return the figures of one load: requests/s, percentiles, and whether they are stable."""
    return {
        "requests_per_s": round(completions.rate(burst), 3),
        **stats.summarize(completions.elapsed_ns),
        "stable": stats.is_stable(stats.concurrent_windows(completions.finished_ns, completions.elapsed_ns)),
    }


def tail_us(figures: dict) -> float:
    """Return the percentile that limits are judged by: p99, below 100 requests p95."""
    return figures["p95_us"] if figures["p99_us"] is None else figures["p99_us"]


def settings_to_try(first: Setting, plan: Plan) -> list[Setting]:
    """Return the settings to compare with the first, which has one of everything: each changes one thing."""
    found = [replace(first, instances=count) for count in range(2, plan.instances + 1)]
    found += [replace(first, instances=count, devices=count) for count in range(2, plan.devices + 1)]
    found += [replace(first, slots=count) for count in range(2, plan.slots + 1)]
    if first.delay_us is not None:
        found += [replace(first, delay_us=delay) for delay in (None, *plan.delays_us)]
    return found


def configure_devices(runtime: str, wanted: int) -> None:
    """Configure so many devices of the CPU implementation, unless its configuration has a number already.

    It must be called before a library is opened.
    """
    text = os.environ.get(CPU_CONFIG, "{}")
    if runtime == "cpu" and wanted > 1:
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        os.environ[CPU_CONFIG] = json.dumps({"devices": wanted, **json.loads(text)})


def load(options: prepare.Options, plan: Plan, limit_ms: float | None, progress: Progress) -> tuple[Report, list[str]]:
    """Measure every model of `options`; returns the report and remarks for the reader.

    `limit_ms` is the latency that the open loop must keep at its p99; None: of `LIMIT_RUNS`.
    """
    runtime = locate.runtime_name(options.runtime)
    configure_devices(runtime, options.device_id + plan.devices)
    devices = range(options.device_id, options.device_id + plan.devices)
    device = records.device(runtime, *devices)
    tune_allocator()
    if (here := ge_core.runtime_info(runtime).device_count) < (wanted := options.device_id + plan.devices):
        raise UnavailableError(f"device {wanted - 1} was asked for, and there are {here} devices")
    report = Report(summary={"device": device["name"], "load": [], "usage": []})
    with prepare.workspace() as folder:
        for label, cases in prepare.compile_cases(options, runtime, device, folder, progress):
            for case in cases:
                _LoadBench(options, plan, runtime, device, case, report, progress).measure(folder / label, limit_ms)
    return report, []


class _LoadBench:
    """Measures one model."""

    def __init__(
        self,
        options: prepare.Options,
        plan: Plan,
        runtime: str,
        device: dict,
        case: Case,
        report: Report,
        progress: Progress,
    ):
        self.options, self.plan, self.runtime, self.device = options, plan, runtime, device
        self.case, self.report, self.progress = case, report, progress
        self.transport = options.transports[0]

    def measure(self, folder: Path, limit_ms: float | None) -> None:
        """Measure closed and open loop and the other settings; adds records and a summary to the report."""
        case, plan = self.case, self.plan
        repository = folder / f"{case.name}_load"
        repository.mkdir(parents=True)
        summary = {"model": case.name, "device": self.device["name"], "timing": case.timing}
        with contextlib.ExitStack() as stack:
            session = ge_core.InferenceSession(case.om, runtime=self.runtime, device_id=self.options.device_id)
            stack.callback(session.close)
            self.session, self.burst = session, max(session.description.max_rows, 1)
            static = session.description.gear_kind == "static"
            self.rows = session.description.max_rows if static and case.splittable else 1
            batcher = case.splittable and not static
            first = Setting(delay_us=0 if batcher else None, first_device=self.options.device_id)
            tried = settings_to_try(first, plan)
            entries = {setting: f"{case.name}_{number}" for number, setting in enumerate([first, *tried])}
            for setting, entry in entries.items():
                text = settings.config_text(entry, case.om, self.runtime, session, setting)
                settings.add_model(repository, entry, text)
            with self.progress.part(f"{case.name}: starting Triton"):
                server = stack.enter_context(serve_explicit(repository, self.runtime))
            self.server = server
            self.common: dict = {
                "device": self.device,
                "host": records.host(),
                "versions": records.versions(ge_core=ge_core.__version__, tritonserver=server.version),
            }
            devices = range(self.options.device_id, self.options.device_id + plan.devices)
            usage = stack.enter_context(Sampler(self.runtime, devices))
            summary |= {"transport": self.transport, "setting": asdict(first), "rows": self.rows}
            with self._clients(entries[first], max(*plan.clients, MAX_IN_FLIGHT)) as clients:
                summary["closed"] = [self._closed(clients, first, count) for count in plan.clients]
                summary |= self._open(clients, first, summary["closed"], limit_ms)
            summary["settings"] = [
                {"setting": asdict(first), "label": str(first), **summary["closed"][-1]},
                *(self._try(setting, entries[setting], max(plan.clients)) for setting in tried),
            ]
        self.report.summary["load"].append(summary)
        self.report.summary["usage"].append({"bench": "load", "model": case.name, **usage.summary()})

    @contextlib.contextmanager
    def _clients(self, entry: str, count: int) -> Iterator[LoadGenerator]:
        with self.server.loaded(entry):
            clients = LoadGenerator(
                self.case, self.server.endpoint, entry, self.transport, self.session, count, self.rows
            )  # fmt: skip
            with contextlib.closing(clients):
                yield clients

    def _closed(self, clients: LoadGenerator, setting: Setting, count: int) -> dict:
        plan = self.plan
        min_requests = max(plan.min_requests, 2 * self.burst, 2 * count)
        max_requests = max(plan.max_requests, min_requests)
        with self.progress.part(f"{self.case.name}: {setting}: {count} clients", plan.seconds):
            completions = clients.closed_loop(count, plan.seconds, min_requests, max_requests)
        figures = {"clients": count, **summarize(completions, min(count, self.burst))}
        self._record(setting, count, figures, completions, "closed loop")
        return figures

    def _open(self, clients: LoadGenerator, setting: Setting, closed: list[dict], limit_ms: float | None) -> dict:
        if limit_ms is None:
            once = stats.timed(lambda: self.session.run(None, self.case.rows(self.burst)))
            runs_ms = LIMIT_RUNS * stats.percentile([once() for _ in range(RUNS)], 50) / 1e6
            limit_ms = float(f"{runs_ms:.2g}")  # so that two runs of the bench have one limit
        most = max(figures["requests_per_s"] for figures in closed)
        points: list[dict] = []

        def meets(rate: float) -> bool:
            due = arrivals_ns(rate, self.plan.count(rate))
            what = f"{self.case.name}: {setting}: {len(due)} requests at random, {rate:.1f} per second"
            with self.progress.part(what, len(due) / rate):
                completions = clients.open_loop(due)
            figures = {"rate": round(rate, 3), **summarize(completions, 1)}
            figures["stable"] = figures["requests_per_s"] >= MIN_COMPLETED_RATE * rate
            figures["ok"] = figures["stable"] and tail_us(figures) <= limit_ms * 1e3
            points.append(figures)
            self._record(setting, MAX_IN_FLIGHT, figures, completions, f"open loop, {rate:.1f} requests/s due")
            return figures["ok"]

        for rate in self.plan.rates:
            meets(rate * most)
        known = {one["rate"]: one["ok"] for one in points}
        met, missed = highest_rate(
            lambda rate: known[round(rate, 3)] if round(rate, 3) in known else meets(rate),
            [rate * most for rate in self.plan.rates],
            self.plan.bisections,
        )
        return {
            "open": sorted(points, key=lambda one: one["rate"]),
            "limit_ms": round(limit_ms, 3),
            "highest_rate": met and round(met, 3),
            "too_much": missed and round(missed, 3),
        }

    def _try(self, setting: Setting, entry: str, count: int) -> dict:
        what = {"setting": asdict(setting), "label": str(setting)}
        try:
            with self._clients(entry, count) as clients:
                return what | self._closed(clients, setting, count)
        except ModelRefusedError as refused:
            self.progress.print_line(f"{self.case.name}: {setting}: refused: {refused}")
            return what | {"refused": str(refused)}

    def _record(self, setting: Setting, concurrency: int, figures: dict, completions: Completions, how: str) -> None:
        inputs = self.case.rows(self.rows)
        names = ("n", "p50_us", "p90_us", "p95_us", "p99_us", "mean_us", "stable")
        fields = {name: figures[name] for name in names}
        self.report.records.append(
            Record(
                bench="load",
                path="triton",
                transport=self.transport,
                model=self.case.name,
                batch=self.rows,
                concurrency=concurrency,
                slots=setting.slots,
                instances=setting.instances,
                bytes_in=sum(array.nbytes for array in inputs.values()),
                bytes_out=sum(array.nbytes for array in self.session.run(None, inputs)),
                timing=f"{self.case.timing}; {how}; {setting}",
                rows_per_s=round(figures["requests_per_s"] * self.rows, 3),
                samples_ns=completions.elapsed_ns,
                **fields,
                **self.common,
            )
        )
