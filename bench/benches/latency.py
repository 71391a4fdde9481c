# SPDX-License-Identifier: Apache-2.0
"""``python -m bench latency``: the same inference called directly and through Triton, and rows/s of 16 clients.

One server for each preset. What is measured per model is in `latency_rounds` and `latency_throughput`.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

import ge_core
from bench.benches import latency_rounds, latency_throughput, prepare
from bench.benches.latency_rounds import ModelRun, Plan
from bench.measure import records
from bench.measure.progress import Progress
from bench.measure.records import Limit, Report
from bench.measure.usage import Sampler
from bench.models.presets import Case
from bench.paths import c_path
from bench.served import settings
from bench.served.repository import add_floor
from bench.served.server import serve
from ge_core.serving.loading import tune_allocator
from ge_core_pyx import locate

PLAIN_MODEL = Path(__file__).parents[1] / "served" / "plain_model.py"
SHORT_TABLE_TRANSPORT = "grpc+shm"
HOT_TRANSPORTS = ("grpc", "http", "grpc+shm")
LLAMA_GAP_LIMITS_MS = {1: 0.9, 4: 1.1, 8: 1.1}
REGISTERED = "Served with register_memory: the device itself reads and writes Triton's shared memory."


def latency(options: prepare.Options, progress: Progress, plan: Plan | None = None) -> tuple[Report, list[str]]:
    """Measure every model of `options`; returns the report and remarks for the reader."""
    runtime = locate.runtime_name(options.runtime)
    device = records.device(runtime, options.device_id)
    tune_allocator()
    plan = plan or (latency_rounds.QUICK if options.quick else Plan())
    report = Report(summary={"device": device["name"], "models": [], "usage": []})
    remarks = [REGISTERED] if options.register_memory else []
    with prepare.workspace() as folder:
        try:
            library = c_path.compile_library(folder)
        except c_path.CPathError as reason:
            library = None
            remarks.append(f"No c rows: {reason}. The short table shows direct instead, and there is no gap.")
        for label, cases in prepare.compile_cases(options, runtime, device, folder, progress):
            first = not report.records
            for run, batches in _serve_preset(
                options, plan, runtime, device, folder / label, cases, library, report, progress
            ):
                if first and plan.preview_rounds and progress.show is not None:
                    progress.show(latency_rounds.preview(run, batches, _short_table_transport(run)))
                first = False
                summary = _measure_model(run, batches)
                report.summary["models"].append(summary)
                if options.model is None:  # the limits are those of the bench's own models
                    report.limits += limits(run.case.name, summary["gaps"], summary["load"])
    return report, remarks


def _serve_preset(
    options: prepare.Options,
    plan: Plan,
    runtime: str,
    device: dict,
    folder: Path,
    cases: list[Case],
    library: ctypes.CDLL | None,
    report: Report,
    progress: Progress,
) -> Iterator[tuple[ModelRun, list[int]]]:
    """Open and serve the models of a preset; yields what measures each, with its batch sizes."""
    repository = folder / "repository"
    repository.mkdir(parents=True)
    names = ", ".join(case.name for case in cases)
    with contextlib.ExitStack() as stack:
        prepared = []
        with progress.part(f"{names}: opening"):
            for case in cases:
                session = ge_core.InferenceSession(case.om, runtime=runtime, device_id=options.device_id)
                stack.callback(session.close)
                batches = prepare.batch_sizes(session.description, options.batches)
                _add_models(repository, case, session, batches, runtime, options, plan)
                prepared.append((case, session, batches))
        with progress.part(f"{names}: starting Triton"):
            endpoint, triton = stack.enter_context(serve(repository, runtime))
        common = {
            "device": device,
            "host": records.host(),
            "versions": records.versions(ge_core=ge_core.__version__, tritonserver=triton),
        }
        for case, session, batches in prepared:
            yield (
                ModelRun(case, session, endpoint, library, options.transports, plan, common, report, progress),
                batches,
            )


def _add_models(
    repository: Path,
    case: Case,
    session: ge_core.InferenceSession,
    batches: list[int],
    runtime: str,
    options: prepare.Options,
    plan: Plan,
) -> None:
    """Write the floor, the om with each of its settings and the plain models into the repository."""
    outputs = {batch if case.splittable else 0: session.run(None, case.rows(batch)) for batch in batches}
    max_batch_size = session.description.max_rows if case.splittable else 0
    add_floor(repository, f"{case.name}_floor", max_batch_size, session, outputs)
    served = latency_throughput.served_models(case, options.device_id, options.register_memory)
    for name, setting in served.items():
        settings.add_model(repository, name, settings.config_text(name, case.om, runtime, session, setting))
    plain = latency_throughput.plain_models(case, options.device_id) if plan.extra_paths else {}
    for name, setting in plain.items():
        text = settings.config_text(name, case.om, runtime, session, setting, "python")
        settings.add_model(repository, name, text, {"model.py": PLAIN_MODEL.read_bytes()})


def _short_table_transport(run: ModelRun) -> str:
    return SHORT_TABLE_TRANSPORT if SHORT_TABLE_TRANSPORT in run.transports else run.transports[0]


def _measure_model(run: ModelRun, batches: list[int]) -> dict:
    case, transport = run.case, _short_table_transport(run)
    gaps = latency_rounds.measure(run, batches)
    with Sampler(run.common["device"]["kind"], run.common["device"]["ids"]) as usage:
        load = latency_throughput.measure(run, run.session.description.max_rows or 1, transport)
    run.report.summary["usage"].append({"bench": "latency, most rows/s", "model": case.name, **usage.summary()})
    return {
        "model": case.name,
        "device": run.common["device"]["name"],
        "timing": case.timing,
        "batches": batches,
        "transport": transport,
        "direct_path": "c" if run.c_library is not None else "direct",
        "gaps": gaps,
        "load": load,
        "remarks": _remarks(case, run.c_library is not None, load),
    }


def _remarks(case: Case, has_c: bool, load: dict) -> list[str]:
    direct = "c, the AscendCL calls from C" if has_c else "direct, InferenceSession.run"
    batches = f"batches of {load['batch']} back to back" if case.splittable else "back to back"
    clients = f"{load['clients']} clients" + (" of one row and its batcher" if case.splittable else "")
    clients += f", responses {load['responses']}"
    time, _, hand_off = case.timing.partition("; ")
    return [
        f"execution time {time}; direct AscendCL is {direct}",
        f"most requests/s: direct {batches}, Triton with {clients}",
        *([f"hand-off to the device: {hand_off}"] if hand_off else []),
    ]


def limits(model: str, rows: list[dict], load: dict) -> list[Limit]:
    """Return the limits that a preset decides: ``llama7b`` G6a, G6b and G7, ``image`` G5."""
    if model == "image":
        judged = {row["transport"]: row for row in rows if "gap_us" in row and row["transport"] in HOT_TRANSPORTS}
        return [
            Limit(f"G5: gap / floor, 602,112 B in, 4,000 B out, {over}", row["gap_to_floor"], 1.0, row["stable"])
            for over, row in judged.items()
        ]
    return [*_llama_gap_limits(rows), *_llama_load_limits(load)] if model == "llama7b" else []


def _llama_gap_limits(rows: list[dict]) -> list[Limit]:
    judged = {
        (row["transport"], row["batch"]): row for row in rows if "gap_us" in row and row["batch"] in LLAMA_GAP_LIMITS_MS
    }
    found = []
    for (transport, batch), row in judged.items():
        if transport == "grpc+shm":
            name = f"G6a batch {batch}: gap / cold floor, grpc+shm"
            found.append(Limit(name, row["gap_to_floor"], 1.0, row["stable"]))
    for (transport, batch), row in judged.items():
        if transport == "http+shm":
            name = f"G6b batch {batch}: gap in ms, http+shm"
            found.append(Limit(name, round(row["gap_us"] / 1e3, 3), LLAMA_GAP_LIMITS_MS[batch], row["stable"]))
    return found


def _llama_load_limits(load: dict) -> list[Limit]:
    if load["direct_path"] != "c":
        return []
    name = f"G7: rows/s of {load['clients']} clients, better of the two ways / c with batch {load['batch']}"
    value = round(load["triton_rows_per_s"] / load["direct_rows_per_s"], 4)
    return [Limit(name, value, 0.99, load["stable"], at_least=True)]
