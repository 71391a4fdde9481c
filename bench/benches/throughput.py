# SPDX-License-Identifier: Apache-2.0
"""``python -m bench throughput``: what several slots and devices give, and whether memory stays as it is.

The stand-in sleeps through modelled times, so a configuration of four devices needs no four cores.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ge_core
from bench.measure import child, cpu_counters, records, stats
from bench.measure.progress import Progress
from bench.measure.records import Limit, Record, Report
from bench.measure.verify import check_outputs
from bench.models import presets
from bench.paths import calling
from bench.paths.calling import mixed_sizes
from bench.paths.clients import Endpoint
from bench.paths.load_generator import Completions, LoadGenerator
from bench.served import settings
from bench.served.server import serve_explicit
from bench.served.settings import Setting
from ge_core.server.tritonserver import ServerError
from ge_core.serving.loading import tune_allocator
from ge_core_pyx import locate

ENGINES_CONFIG = {"h2d": {"latency_us": 1000}, "exec_us": 2000, "d2h": {"latency_us": 1000}}
ENGINES_TIMING = "h2d 1 ms, execution 2 ms, d2h 1 ms"
BOUND_ROWS_PER_S = 500.0  # one row per execution of 2 ms, the longest of the three
SLOTS = (1, 2, 3)
CLIENTS, TRANSPORT = 16, "grpc+shm"
DEVICES_CONFIG = {"devices": 4, "exec_us": 5000}
DEVICES_TIMING = "execution 5 ms"
STABLE_WITHIN = 0.02
ROW = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 16]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 16]}],
}
MIXED = {
    "batches": {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [-1, 256]}],
        "outputs": [
            {"name": "y", "dtype": "float32", "shape": [-1, 64]},
            {"name": "z", "dtype": "int64", "shape": [-1]},
        ],
        "dynamic_batch_size": [1, 4, 8],
    },
    "dims": {
        "inputs": [{"name": "x", "dtype": "float16", "shape": [1, -1]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [1, -1], "gear_shapes": [[1, 16], [1, 512], [1, 4096]]}],
        "dynamic_dims": [[16], [512], [4096]],
    },
}


@dataclass(frozen=True)
class Plan:
    """How much is measured: batches per configuration, repeated while unstable, and requests of the memory test."""

    batches: int = 800
    attempts: int = 4
    requests: int = 100_000
    settled: int = 1000


QUICK = Plan(batches=400, attempts=3)


def throughput(
    model: Path | None = None,
    runtime: str | None = None,
    device_id: int = 0,
    plan: Plan | None = None,
    progress: Progress | None = None,
) -> tuple[Report, list[str]]:
    """Measure slots, devices and memory; returns the report and remarks for the reader.

    With `model` on the device as it is, without limits for rows/s; else on the stand-in with times of its own.
    """
    runtime = locate.runtime_name(runtime)
    if model is None and runtime == "npu":
        raise presets.UnavailableError(
            "the times of this bench are settings of the cpu runtime; on an NPU add --model OM to measure that instead"
        )
    plan, progress = plan or Plan(), progress or Progress(print)
    om = model and str(model.resolve())
    common = {"model": om, "runtime": runtime}
    size = {"batches": plan.batches, "attempts": plan.attempts}
    report = Report()
    summary: dict = {}

    def measure(name: str, arguments: dict, config: dict) -> dict:
        with progress.part(f"throughput: {name}"):
            found = child.measure(f"throughput.measure_{name}", {**common, **arguments}, None if om else config)
        shared: dict = {"host": records.host(), "versions": records.versions(ge_core=ge_core.__version__)}
        report.records += [Record(bench="throughput", **row, **shared) for row in found.pop("rows", ())]
        return found

    summary["slots"] = measure("slots", {"device_id": device_id, **size}, ENGINES_CONFIG)
    summary["devices"] = measure("devices", size, DEVICES_CONFIG)
    refused = summary["slots"].pop("no_triton")
    remarks = [f"throughput has nothing through Triton, and no G8b: {refused}"] if refused else []
    arguments = {"device_id": device_id, "requests": plan.requests, "settled": plan.settled}
    summary["memory"] = measure("memory", arguments, {})
    summary["device"] = summary["memory"].pop("device")
    report.summary = {"throughput": summary}
    report.limits = limits(summary)
    return report, remarks


def measure_slots(model: str | None, runtime: str, device_id: int, batches: int, attempts: int) -> dict:
    """Measure `submit` with 1, 2 and 3 slots, in turn with the last clients of Triton (runs in a child)."""
    with _case(model, runtime) as case:
        timing = case.timing if model else ENGINES_TIMING
        rows = []
        for count in SLOTS[:-1]:
            rows += _rates(case, runtime, timing, batches, attempts, count, [device_id])
        with _triton(case, runtime, device_id) as (endpoint, no_triton):
            rows += _rates(case, runtime, timing, batches, attempts, SLOTS[-1], [device_id], endpoint)
    return {
        "rows": rows,
        "timing": timing,
        "bound_rows_per_s": None if model else BOUND_ROWS_PER_S,
        "rates": [{name: row[name] for name in ("path", "slots", "rows_per_s", "stable")} for row in rows],
        "no_triton": no_triton,
    }


def measure_devices(model: str | None, runtime: str, batches: int, attempts: int) -> dict:
    """Measure one session over one device and over all, two slots each so that no device waits for the host (child)."""
    with _case(model, runtime) as case:
        timing = case.timing if model else DEVICES_TIMING
        counts = sorted({1, ge_core.runtime_info(runtime).device_count})
        rows = []
        for most in counts:
            rows += _rates(case, runtime, timing, batches * most, attempts, 2, list(range(most)))
    rates = [
        {"devices": most, "slots": 2, "rows_per_s": row["rows_per_s"], "stable": row["stable"]}
        for most, row in zip(counts, rows, strict=True)
    ]
    return {"rows": rows, "timing": timing, "rates": rates}


@contextlib.contextmanager
def _case(model: str | None, runtime: str) -> Iterator[presets.Case]:
    with tempfile.TemporaryDirectory(prefix="ge_core_bench_") as folder:
        if model is not None:
            yield presets.om_case(Path(model).stem, Path(model), runtime)
        else:
            yield presets.synthetic_case("row", Path(folder), ROW)


@contextlib.contextmanager
def _triton(case: presets.Case, runtime: str, device_id: int) -> Iterator[tuple[Endpoint | None, str | None]]:
    """Serve the case with as many slots as `submit` has at most; yields where, or None and why there is no server."""
    with tempfile.TemporaryDirectory(prefix="ge_core_bench_") as name, contextlib.ExitStack() as stack:
        setting = Setting(slots=SLOTS[-1], delay_us=None, first_device=device_id)
        with ge_core.InferenceSession(case.om, runtime=runtime, device_id=device_id) as session:
            settings.add_model(
                Path(name), case.name, settings.config_text(case.name, case.om, runtime, session, setting)
            )
        try:
            server = stack.enter_context(serve_explicit(Path(name), runtime))
        except ServerError as error:
            yield None, str(error)
        else:
            stack.enter_context(server.loaded(case.name))
            yield server.endpoint, None


def _rates(
    case: presets.Case,
    runtime: str,
    timing: str,
    batches: int,
    attempts: int,
    slots: int,
    device_ids: list[int],
    endpoint: Endpoint | None = None,
) -> list[dict]:
    """Keep every slot busy until `batches` are done, again while unstable; returns the record's row.

    With `endpoint` clients of Triton do the same, in turn, and there is a second row.
    """
    in_flight = slots * len(device_ids)
    with contextlib.ExitStack() as stack:
        session = ge_core.InferenceSession(case.om, runtime=runtime, device_ids=device_ids, slots=slots)
        stack.callback(session.close)
        rows = session.description.max_rows
        feeds = [case.rows(rows, first) for first in range(presets.ROWS if case.splittable else 1)]
        expected = [session.run(None, inputs) for inputs in feeds]
        exact = case.timing.startswith("declared")
        runs: dict[tuple, Callable[[], Completions]] = {
            ("direct", None): lambda: keep_in_flight(session, feeds, expected, in_flight, batches, exact)
        }
        if endpoint is not None:
            clients = LoadGenerator(case, endpoint, case.name, TRANSPORT, session, CLIENTS, rows or 1)
            stack.callback(clients.close)
            runs["triton", TRANSPORT] = lambda: clients.saturated(batches)
        completions = most_stable(runs, attempts)
    burst = len(device_ids)
    return [
        {
            "path": path,
            "transport": transport,
            "model": case.name,
            "batch": rows or 1,
            "concurrency": CLIENTS if transport else in_flight,
            "slots": slots,
            "instances": 1 if transport else None,
            "bytes_in": sum(array.nbytes for array in feeds[0].values()),
            "bytes_out": sum(array.nbytes for array in expected[0]),
            "timing": timing,
            **stats.summarize(found.elapsed_ns),
            "samples_ns": found.elapsed_ns,
            "rows_per_s": round((rows or 1) * found.rate(1 if transport else burst), 3),
            "stable": stats.is_stable(stats.concurrent_windows(found.finished_ns, found.elapsed_ns)),
            "device": records.device(runtime, *device_ids),
        }
        for (path, transport), found in completions.items()
    ]


def most_stable(runs: Mapping[tuple, Callable[[], Completions]], attempts: int) -> dict[tuple, Completions]:
    """Repeat all `runs`, in turn, until the windows of each agree to 2 %, and return the most stable turn.

    It is chosen by its stability, never by its rate.
    """
    best, least = {}, float("inf")
    for _ in range(attempts):
        attempt = {name: run() for name, run in runs.items()}
        differ = max(
            stats.spread(stats.concurrent_windows(found.finished_ns, found.elapsed_ns)) for found in attempt.values()
        )
        if differ < least:
            best, least = attempt, differ
        if least <= STABLE_WITHIN:
            break
    return best


def keep_in_flight(
    session, feeds: Sequence[dict], expected: Sequence[list], in_flight: int, count: int, exact: bool
) -> Completions:
    """Submit `count` requests, never more than `in_flight` at once, and await them in order.

    Request i has ``feeds[i % len(feeds)]``; the first values of its outputs are compared with
    the expected ones, and all values of the last requests.
    """
    heads = [[array.reshape(-1)[:16] for array in arrays] for arrays in expected]
    waiting: collections.deque = collections.deque()
    finished: list[int] = []
    elapsed: list[int] = []

    def finish_oldest() -> None:
        number, begun, future = waiting.popleft()
        outputs = future.result()
        finished.append(time.perf_counter_ns())
        elapsed.append(finished[-1] - begun)
        place, what = number % len(feeds), f"submit, request {number}"
        check_outputs(heads[place], [array.reshape(-1)[:16] for array in outputs], what, exact)
        if number >= count - in_flight:
            check_outputs(expected[place], outputs, what, exact)

    for number in range(count):
        if len(waiting) == in_flight:
            finish_oldest()
        begun = time.perf_counter_ns()
        waiting.append((number, begun, session.submit(feeds[number % len(feeds)])))
    while waiting:
        finish_oldest()
    return Completions(finished, elapsed)


def measure_memory(model: str | None, runtime: str, device_id: int, requests: int, settled: int) -> dict:
    """Make requests of mixed sizes; compare the memory held after all with that after `settled` (runs in a child)."""
    tune_allocator()
    choose = random.Random(0)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ge_core_bench_")))
        if model is None:
            cases = [presets.synthetic_case(name, folder, description) for name, description in MIXED.items()]
        else:
            cases = [presets.om_case(Path(model).stem, Path(model), runtime)]
        sessions, ways = [], []
        for case in cases:
            session = ge_core.InferenceSession(case.om, runtime=runtime, device_id=device_id, slots=2)
            sessions.append(stack.enter_context(session))
            ways += [(call, mixed_sizes(case, session)) for _, call in calling.call_styles(session)]
        device = records.device(runtime, device_id)
        held = []
        begun = time.perf_counter()
        for number in range(requests):
            call, feeds = choose.choice(ways)
            call(choose.choice(feeds))
            if number + 1 in (settled, requests):
                held.append(_memory_in_use(sessions, device["library"]))
        seconds = time.perf_counter() - begun
    return {
        "device": device,
        "requests": requests,
        "settled": settled,
        "requests_per_s": round(requests / seconds, 1),
        "growth_bytes": {name: held[-1][name] - held[0][name] for name in held[0]},
        "held_bytes": held[-1],
    }


def _memory_in_use(sessions: Sequence, libraries: Sequence[str]) -> dict[str, int]:
    """Return bytes resident in this process and on the device, the sessions' and the CPU implementation's count."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    stated = [session.stats() for session in sessions]
    held = {
        "resident": resident,
        "device": sum(each["device_bytes"] for each in stated),
        "pinned": sum(each["pinned_bytes"] for each in stated),
    }
    counted = cpu_counters.counters(libraries)
    return held | ({f"counted_{name}": counted["bytes"][name] for name in ("device", "pinned")} if counted else {})


def limits(summary: dict) -> list[Limit]:
    """Return G8a, G8b and G9 where the stand-in's times are this bench's own, and G10."""
    found = []
    slots, devices, grown = summary["slots"], summary["devices"]["rates"], summary["memory"]["growth_bytes"]
    if slots["bound_rows_per_s"] is not None:
        most, *served = (rate for rate in slots["rates"] if rate["slots"] == SLOTS[-1])
        value = round(most["rows_per_s"] / slots["bound_rows_per_s"], 4)
        found.append(Limit(f"G8a: rows/s, {most['slots']} slots / engine bound", value, 0.98, most["stable"], True))
        for rate in served:
            value = round(rate["rows_per_s"] / most["rows_per_s"], 4)
            what = f"G8b: rows/s of {CLIENTS} Triton clients, {rate['slots']} slots / G8a's rows/s"
            found.append(Limit(what, value, 0.98, rate["stable"] and most["stable"], True))
        value = round(devices[-1]["rows_per_s"] / devices[0]["rows_per_s"], 4)
        stable = all(rate["stable"] for rate in devices)
        found.append(Limit(f"G9: rows/s, {devices[-1]['devices']} devices / 1", value, 3.9, stable, True))
    found.append(Limit("G10: resident memory grown by, MiB", round(grown["resident"] / 2**20, 3), 5.0))
    changed = max(abs(grown[name]) for name in ("device", "counted_device") if name in grown)
    found.append(Limit("G10: device bytes changed by", changed, 0))
    return found
