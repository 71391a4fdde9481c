# SPDX-License-Identifier: Apache-2.0
"""``python -m bench advice``: from measured gear times to batcher, slots and instances for a goal, and the stanza.

The model is simple. A batch of b rows runs T(b) from the host's view, of which the device executes E(b); a request pays
Triton's overhead O on top. With k batches in flight a request that arrives at a busy device waits for those k, then
runs: k E(b) + T(b) + O. A new batch starts every max(E(b), (T(b) + O) / k).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import ge_core
from bench.benches import load, prepare
from bench.measure import records, stats
from bench.measure.progress import Progress
from bench.measure.records import Record, Report
from bench.models.presets import Case
from bench.paths.load_generator import LoadGenerator
from bench.served import settings
from bench.served.server import serve_explicit
from bench.served.settings import Setting
from ge_core.engine import engine_of
from ge_core.serving.loading import tune_allocator
from ge_core_pyx import locate

GOALS = ("latency", "throughput")
MIN_CUT_GAIN = 0.10  # how much faster a batch split into gears must be than one padded up, for preferred sizes
MIN_RATE_GAIN = 0.02  # more rows/s than this must come from more instances or larger batches, or they are not suggested
MAX_INSTANCES = 3
LIMIT_MARGIN = 0.95  # of the limit: what the model of the times must keep
SAMPLES, SAMPLE_SECONDS = 40, 3.0
CLIENTS = 32


@dataclass(frozen=True)
class Gear:
    """Measured times of one gear, in milliseconds: the whole run, and what its longest step (execution) takes."""

    rows: int
    run_ms: float
    engine_ms: float


@dataclass(frozen=True)
class Advice:
    """What to set, what it should give, and why.

    `latency_ms` is for a busy server (goal throughput) or one client (goal latency), `rows_per_s` the most.
    """

    goal: str
    setting: Setting
    rows: int
    latency_ms: float
    rows_per_s: float
    reasons: tuple[str, ...]


def advise(
    gears: list[Gear], overhead_ms: float, goal: str, p99_ms: float | None = None, batcher: bool = True
) -> Advice:
    """Suggest settings.

    Parameters
    ----------
    gears : list of Gear
        By rising rows.
    overhead_ms : float
        What a request through Triton takes longer than the run, with nothing else to do.
    goal : {"latency", "throughput"}
        The lowest latency of a request, or the most rows per second under `p99_ms`.
    p99_ms : float, optional
        None: any.
    batcher : bool
        False for a model that cannot be split by rows.

    Raises
    ------
    ValueError
        No gear keeps the limit; the text says what would.
    """
    if goal == "latency":
        first = gears[0]
        latency = first.run_ms + overhead_ms
        reason = "each request runs at once and alone: a batcher's hand-off, or another's batch, would only add time"
        rate = first.rows * 1e3 / latency
        return Advice(goal, Setting(delay_us=None), first.rows, round(latency, 3), round(rate, 3), (reason,))
    choices = [(gear, count) for gear in gears for count in range(1, MAX_INSTANCES + 1)]
    kept = [choice for choice in choices if p99_ms is None or busy_ms(*choice, overhead_ms) <= p99_ms * LIMIT_MARGIN]
    if not kept:
        needed = min(busy_ms(*choice, overhead_ms) for choice in choices) / LIMIT_MARGIN
        raise ValueError(
            f"no batch keeps a p99 of {p99_ms:g} ms on a busy server: the smallest needs about {needed:.1f} ms, "
            "with the wait for the batch before it. Raise the limit, or keep the load so low that none waits "
            "(goal latency)"
        )
    most = max(rows_per_s(*choice, overhead_ms) for choice in kept)
    # The simplest of those that are as good: fewer instances, then smaller batches.
    good = [choice for choice in kept if rows_per_s(*choice, overhead_ms) >= most * (1 - MIN_RATE_GAIN)]
    best, count = min(good, key=lambda choice: (choice[1], choice[0].rows))
    setting, reasons = _setting(gears, best, count, overhead_ms, p99_ms, batcher)
    latency, rate = busy_ms(best, count, overhead_ms), rows_per_s(best, count, overhead_ms)
    return Advice(goal, setting, best.rows, round(latency, 3), round(rate, 3), tuple(reasons))


def busy_ms(gear: Gear, instances: int, overhead_ms: float) -> float:
    """Return how long a request takes that arrives when a batch of each instance has just started."""
    return instances * gear.engine_ms + gear.run_ms + overhead_ms


def rows_per_s(gear: Gear, instances: int, overhead_ms: float) -> float:
    """Return the rows per second of a busy device."""
    return gear.rows * 1e3 / max(gear.engine_ms, (gear.run_ms + overhead_ms) / instances)


def _setting(gears, best: Gear, count: int, overhead_ms, p99_ms, batcher) -> tuple[Setting, list[str]]:
    reasons = [f"batches of {best.rows} on {count} instance{'s' if count > 1 else ''} give the most rows/s"]
    if p99_ms is not None:
        reasons[0] += f" of what answers within {p99_ms:g} ms when it must wait for batches in flight"
    idle = max(1 - best.engine_ms / (best.run_ms + overhead_ms), 0.0)
    reasons.append(f"with one batch at a time the device would wait for the host {idle:.1%} of the time")
    if not batcher or best.rows == 1:
        return Setting(instances=count, delay_us=None), reasons
    slack_ms = np.inf if p99_ms is None else p99_ms * LIMIT_MARGIN - busy_ms(best, count, overhead_ms)
    delay_us = int(min(slack_ms, best.run_ms / 20) * 1e3)
    reasons.append(
        f"waiting up to {delay_us} µs (at most a twentieth of a run) fills batches when requests come thinly; "
        "while the device is busy they fill by themselves"
    )
    preferred = preferred_rows([gear for gear in gears if gear.rows <= best.rows])
    if preferred:
        reasons.append("batches between two gears would be padded, and cost more than batches that fit")
    rows = best.rows if best.rows < gears[-1].rows else None
    return Setting(instances=count, delay_us=delay_us, preferred=preferred, rows=rows), reasons


def preferred_rows(gears: list[Gear]) -> tuple[int, ...]:
    """Return the gears' rows where a batch between two gears runs faster split into gears than padded; else nothing."""
    for lower, upper in itertools.pairwise(gears):
        for rows in range(lower.rows + 1, upper.rows):
            left, cut_ms = rows, 0.0
            for gear in reversed([gear for gear in gears if gear.rows <= lower.rows]):
                cut_ms += left // gear.rows * gear.run_ms
                left %= gear.rows
            if left == 0 and cut_ms < upper.run_ms * (1 - MIN_CUT_GAIN):
                return tuple(gear.rows for gear in gears if gear.rows > 1)
    return ()


def gear_times(session, case: Case) -> list[Gear]:
    """Measure every gear of an idle session; a model without rows has one."""
    found = []
    engine_of(session).sample_stages(1)
    description = session.description
    by_batch = description.gear_kind == "batch" and description.max_rows
    for rows in description.gears if by_batch else (max(description.max_rows, 1),):
        inputs = case.rows(rows)
        once = stats.timed(functools.partial(session.run, None, inputs))
        first_s = min(once(), once()) / 1e9
        engine_of(session).stage_samples()
        count = max(5, min(SAMPLES, int(SAMPLE_SECONDS / first_s)))
        times = [once() for _ in range(count)]
        engine = [
            sample["execute_us"] for sample in engine_of(session).stage_samples() if sample["execute_us"] is not None
        ]
        run_ms = stats.percentile(times, 50) / 1e6
        found.append(Gear(rows, round(run_ms, 4), round(float(np.median(engine)) / 1e3 if engine else run_ms, 4)))
    engine_of(session).sample_stages(0)
    return found


def advice(
    options: prepare.Options, goal: str, p99_ms: float | None, plan: load.Plan, progress: Progress
) -> tuple[Report, list[str]]:
    """Measure gears and Triton's overhead, suggest, and measure the suggestion beside the default settings."""
    runtime = locate.runtime_name(options.runtime)
    device = records.device(runtime, options.device_id)
    tune_allocator()
    report = Report(summary={"device": device["name"], "advice": []})
    with prepare.workspace() as folder:
        for label, cases in prepare.compile_cases(options, runtime, device, folder, progress):
            for case in cases:
                found = _advise_model(
                    options, goal, p99_ms, plan, runtime, device, case, folder / label, report, progress
                )
                report.summary["advice"].append(found)
    return report, []


def _advise_model(
    options: prepare.Options,
    goal: str,
    p99_ms: float | None,
    plan: load.Plan,
    runtime: str,
    device: dict,
    case: Case,
    folder: Path,
    report: Report,
    progress: Progress,
) -> dict:
    repository = folder / f"{case.name}_advice"
    repository.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        session = ge_core.InferenceSession(case.om, runtime=runtime, device_id=options.device_id)
        stack.callback(session.close)
        with progress.part(f"{case.name}: time of each gear"):
            gears = gear_times(session, case)
        static = session.description.gear_kind == "static"
        rows = session.description.max_rows if static and case.splittable else 1
        default = Setting(delay_us=None, first_device=options.device_id)
        plain = f"{case.name}_plain"
        settings.add_model(repository, plain, settings.config_text(plain, case.om, runtime, session, default))
        server = stack.enter_context(serve_explicit(repository, runtime))
        common = {
            "device": device,
            "host": records.host(),
            "versions": records.versions(ge_core=ge_core.__version__, tritonserver=server.version),
        }
        transport = options.transports[0]

        def measure(setting: Setting, entry: str, clients: int) -> dict:
            min_requests = max(plan.min_requests, 2 * clients)
            max_requests = max(plan.max_requests, min_requests)
            with (
                progress.part(f"{case.name}: {setting}: {clients} clients", plan.seconds),
                server.loaded(entry),
                contextlib.closing(
                    LoadGenerator(case, server.endpoint, entry, transport, session, clients, rows)
                ) as generator,
            ):
                completions = generator.closed_loop(clients, plan.seconds, min_requests, max_requests)
            figures = load.summarize(completions, min(clients, max(session.description.max_rows, 1)))
            more = {**common, "samples_ns": completions.elapsed_ns}
            report.records.append(_record(case, session, rows, transport, setting, clients, figures, more))
            return {"setting": asdict(setting), "label": str(setting), "clients": clients, **figures}

        alone = measure(default, plain, 1)
        overhead_ms = max(alone["p50_us"] / 1e3 - gears[0].run_ms, 0.0)
        found = advise(gears, overhead_ms, goal, p99_ms, case.splittable and not static)
        suggested = Setting(**{**asdict(found.setting), "first_device": options.device_id})
        entry = f"{case.name}_advised"
        settings.add_model(repository, entry, settings.config_text(entry, case.om, runtime, session, suggested))
        # Enough for every batch in flight and one that waits.
        clients = 1 if goal == "latency" else max(1, min(CLIENTS, found.rows // rows * (suggested.instances + 1)))
        return {
            "model": case.name,
            "device": device["name"],
            "timing": case.timing,
            "transport": transport,
            "goal": goal,
            "p99_ms": p99_ms,
            "gears": [asdict(gear) for gear in gears],
            "overhead_ms": round(overhead_ms, 3),
            "stanza": suggested.stanza(),
            "reasons": list(found.reasons),
            "expected": {"latency_ms": found.latency_ms, "rows_per_s": found.rows_per_s},
            "default": measure(default, plain, clients),
            "advised": measure(suggested, entry, clients),
        }


def _record(
    case: Case, session, rows: int, transport: str, setting: Setting, clients: int, figures: Mapping, common: Mapping
) -> Record:
    inputs = case.rows(rows)
    names = ("n", "p50_us", "p90_us", "p95_us", "p99_us", "mean_us", "stable")
    return Record(
        bench="advice",
        path="triton",
        transport=transport,
        model=case.name,
        batch=rows,
        concurrency=clients,
        slots=setting.slots,
        instances=setting.instances,
        bytes_in=sum(array.nbytes for array in inputs.values()),
        bytes_out=sum(array.nbytes for array in session.run(None, inputs)),
        timing=f"{case.timing}; {setting}",
        rows_per_s=round(figures["requests_per_s"] * rows, 3),
        **{name: figures[name] for name in names},
        **common,
    )
