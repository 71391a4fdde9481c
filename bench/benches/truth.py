# SPDX-License-Identifier: Apache-2.0
"""``python -m bench truth``: the bench itself, live, against a synthetic model whose times are known.

Copies and executions of the CPU implementation take what its configuration and the model declare, so the right value of
every figure is known. It may deviate by `RELATIVE_TOLERANCE`, or by `TOLERANCE_MS` if that is more. A machine that is
not quiet only adds time, so a part in which a figure deviates by more is measured again, at most `ATTEMPTS` times.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

import ge_core
from bench.benches import latency, load, prepare, stages
from bench.benches.latency_rounds import Plan
from bench.measure import stats
from bench.measure.progress import Progress
from bench.measure.records import Limit, Report
from bench.models import presets
from bench.paths.load_generator import LoadGenerator
from bench.served import settings
from bench.served.server import serve_explicit
from bench.served.settings import Setting
from ge_core_pyx import locate

RELATIVE_TOLERANCE, TOLERANCE_MS = 0.03, 0.3
H2D_MS, D2H_MS = 2.0, 1.0
EXEC_MS = {1: 20.0, 4: 35.0, 8: 50.0}
DEVICE_ID = 7  # one that hardly anything else on this machine uses at the same time
CPU_CONFIG = {"devices": DEVICE_ID + 1, "h2d": {"latency_us": H2D_MS * 1e3}, "d2h": {"latency_us": D2H_MS * 1e3}}
DESCRIPTION = {
    "name": "known",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [-1, 16]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": [-1, 16]}],
    "dynamic_batch_size": list(EXEC_MS),
    "exec_us": [ms * 1e3 for ms in EXEC_MS.values()],
}
LATENCY = Plan(seconds=8, p99_seconds=0, min_rounds=30, max_rounds=60, load_seconds=3, load_batches=40, warm_up=3)
ATTEMPTS = 3
BUSY = 0.6  # of the time, in the open loop
CLIENTS, OPEN_REQUESTS = 24, 200


def deviation(name: str, measured: float, known: float, unit: str = "ms") -> Limit:
    """Return by how much a figure is off, with what is allowed as the limit."""
    allowed = RELATIVE_TOLERANCE * known if unit != "ms" else max(RELATIVE_TOLERANCE * known, TOLERANCE_MS)
    what = f"{name}: {measured:.3f} {unit}, known {known:.3f}; off by"
    return Limit(what, round(abs(measured - known), 4), round(allowed, 4))


def truth(runtime: str | None, progress: Progress) -> tuple[Report, list[str]]:
    """Measure the known model with every bench and compare."""
    if locate.runtime_name(runtime) != "cpu":
        raise presets.UnavailableError("known times are settings of the cpu runtime; run this with --runtime cpu")
    os.environ[load.CPU_CONFIG] = json.dumps(CPU_CONFIG)
    with tempfile.TemporaryDirectory(prefix="ge_core_bench_") as name:
        case = presets.synthetic_case("known", Path(name), DESCRIPTION)
        options = prepare.Options((), case.om, "cpu", DEVICE_ID, tuple(EXEC_MS), ("http+shm",))
        joined = Report.merged([])

        def latencies() -> tuple[Report, list[Limit]]:
            report, _ = latency.latency(options, progress, LATENCY)
            return report, _latencies(report)

        def timed() -> tuple[Report, list[Limit]]:
            report, _ = stages.stages(options, stages.QUICK, progress)
            return report, _stages(report)

        for part in (latencies, timed, lambda: (Report(), _load(case, Path(name), progress))):
            for _ in range(ATTEMPTS):
                report, limits = part()
                if all(limit.ok for limit in limits):
                    break
            report.limits = limits
            joined = Report.merged([joined, report])
    return joined, []


def _latencies(report: Report) -> list[Limit]:
    found = []
    for record in report.records:
        whole = H2D_MS + EXEC_MS.get(record.batch, 0.0) + D2H_MS
        if record.bench == "latency" and record.path in ("c", "c-pinned", "direct"):
            found.append(deviation(f"{record.path} batch {record.batch}, p50", record.p50_us / 1e3, whole))
        elif record.bench == "throughput" and record.path in ("c", "direct"):
            rows_per_s = record.batch * 1e3 / whole
            found.append(
                deviation(f"{record.path} batch {record.batch}, back to back", record.rows_per_s, rows_per_s, "rows/s")
            )
    return found


def _stages(report: Report) -> list[Limit]:
    found = []
    for one in report.summary["stages"]:
        us = {stage["name"]: stage["us"] for stage in one["stages"]}
        for name, known in (("H2D", H2D_MS), ("execute", EXEC_MS[one["batch"]]), ("D2H", D2H_MS)):
            found.append(deviation(f"stage {name}, batch {one['batch']}", us.get(name, 0.0) / 1e3, known))
        limit = stages.SUM_TOLERANCE
        found.append(Limit(f"stages of batch {one['batch']}: sum / total, apart by", abs(one["apart"]), limit))
    return found


def _load(case: presets.Case, folder: Path, progress: Progress) -> list[Limit]:
    """Rows/s of a busy device, and random arrivals against the same arrivals at a server of one known time."""
    repository = Path(tempfile.mkdtemp(dir=folder))
    overlapped, single = Setting(instances=2, first_device=DEVICE_ID), Setting(delay_us=None, first_device=DEVICE_ID)
    largest = max(EXEC_MS)
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(ge_core.InferenceSession(case.om, runtime="cpu", device_id=DEVICE_ID))
        for entry, setting in (("overlapped", overlapped), ("single", single)):
            settings.add_model(repository, entry, settings.config_text(entry, case.om, "cpu", session, setting))
        server = stack.enter_context(serve_explicit(repository, "cpu"))
        with progress.part(f"known: {overlapped}, {CLIENTS} clients", 4), server.loaded("overlapped"):
            clients = LoadGenerator(case, server.endpoint, "overlapped", "http+shm", session, CLIENTS, 1)
            with contextlib.closing(clients):
                completions = clients.closed_loop(CLIENTS, 4.0, 20 * largest, 100 * largest)
        what = f"Triton, {CLIENTS} clients: execution is the bound"
        bound = largest * 1e3 / EXEC_MS[largest]
        found = [deviation(what, completions.rate(largest), bound, "rows/s")]
        with server.loaded("single"):
            clients = LoadGenerator(case, server.endpoint, "single", "http+shm", session, CLIENTS, 1)
            with contextlib.closing(clients):
                alone_ns = stats.percentile(clients.closed_loop(1, 2.0, 40, 100).elapsed_ns, 50)
                busy_ns = 1e9 / clients.closed_loop(4, 2.0, 60, 100).rate()
                due = load.arrivals_ns(BUSY * 1e9 / alone_ns, OPEN_REQUESTS)
                with progress.part(f"known: {OPEN_REQUESTS} requests at random, {BUSY:.0%} busy", due[-1] / 1e9):
                    measured = clients.open_loop(due).elapsed_ns
        known = load.single_server_latency_ns(due, busy_ns, alone_ns - busy_ns)
        for q in (50, 90):
            name = f"Triton, random arrivals at {BUSY:.0%}, p{q}"
            found.append(deviation(name, stats.percentile(measured, q) / 1e6, stats.percentile(known, q) / 1e6))
    return found
