# SPDX-License-Identifier: Apache-2.0
"""``python -m bench overhead``: what ge_core adds to the same AscendCL calls made from C, without Triton.

Each pair of paths alternates call by call in one process, on the session's own stream.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import ge_core
from bench.measure import child, cpu_counters, records, stats
from bench.measure.progress import Progress
from bench.measure.records import Limit, Record, Report
from bench.measure.verify import check_outputs
from bench.models import presets
from bench.paths import c_path, calling
from bench.paths.ctypes_path import CtypesPath
from ge_core.serving.loading import tune_allocator
from ge_core_pyx import locate

PAIRS = (("direct", "c"), ("borrow", "c-pinned"), ("ctypes", "c"), ("malloc-per-call", "c"))
STATIC_SHAPES = {
    "image": ([1, 3, 224, 224], [1, 1000]),  # 602,112 bytes in, 4,000 out
    "small": ([1, 1024], [1, 1024]),
}
REQUESTS = 1000


@dataclass(frozen=True)
class Plan:
    """How much is measured: windows of `rounds` rounds until three agree, at most `windows`."""

    rounds: int = 4000
    windows: int = 30
    warm_up: int = 200


QUICK = Plan(rounds=1500, windows=10)


def overhead(
    model: Path | None = None,
    runtime: str | None = None,
    device_id: int = 0,
    plan: Plan | None = None,
    progress: Progress | None = None,
) -> tuple[Report, list[str]]:
    """Measure both static models, or one om with random inputs; returns the report and remarks for the reader."""
    runtime = locate.runtime_name(runtime)
    if model is None and runtime == "npu":
        raise presets.UnavailableError(
            "the models of this bench are synthetic ones of the cpu runtime; on an NPU add --model OM"
        )
    plan, progress = plan or Plan(), progress or Progress(print)
    report = Report()
    remarks: list[str] = []
    settings: dict | None = {} if model is None else None
    common = {"runtime": runtime, "device_id": device_id}
    summaries = []
    for name in STATIC_SHAPES if model is None else [str(model.resolve())]:
        with progress.part(f"overhead: {Path(name).stem}"):
            found = child.measure("overhead.measure_pairs", {"model": name, "plan": asdict(plan), **common}, settings)
        shared = {
            "device": found["device"],
            "host": records.host(),
            "versions": records.versions(ge_core=ge_core.__version__),
        }
        report.records += [Record(bench="overhead", **row, **shared) for row in found.pop("rows")]
        remarks += [remark for remark in found.pop("remarks") if remark not in remarks]
        summaries.append(found)
    om = model and str(model.resolve())
    with progress.part("overhead: allocations per request"):
        allocated = child.measure("overhead.count_allocations", {"model": om, **common}, settings)
    if allocated is None:
        remarks.append("G4 is not judged: allocations can only be counted on the CPU implementation of AscendCL.")
    report.summary = {"overhead": {"models": summaries, "allocations": allocated}}
    if model is None:
        report.limits = limits(summaries, allocated)
    return report, remarks


def measure_pairs(model: str, runtime: str, device_id: int, plan: Mapping) -> dict:
    """Measure all pairs on one model (runs in a child): one of `STATIC_SHAPES`, or the path of an om."""
    sizes_of_run = Plan(**plan)
    tune_allocator()
    remarks: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ge_core_bench_") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        case = (
            presets.synthetic_case(model, folder, static_description(model))
            if model in STATIC_SHAPES
            else presets.om_case(Path(model).stem, Path(model), runtime)
        )
        try:
            library = c_path.compile_library(folder)
        except c_path.CPathError as reason:
            library = None
            remarks.append(f"No c rows: {reason}. Nothing is compared.")
        session = stack.enter_context(ge_core.InferenceSession(case.om, runtime=runtime, device_id=device_id))
        rows = session.description.max_rows
        inputs = case.rows(rows)
        exact = case.timing.startswith("declared")
        device = records.device(runtime, device_id)
        expected = session.run(None, inputs)
        sizes = {
            "bytes_in": sum(array.nbytes for array in inputs.values()),
            "bytes_out": sum(array.nbytes for array in expected),
        }
        found: dict[str, dict] = {}
        ratios = []
        for pair in PAIRS:
            samples = _pair(session, library, pair, inputs, expected, sizes_of_run, exact)
            stable = {path: stats.is_stable(stats.sequential_windows(elapsed)) for path, elapsed in samples.items()}
            for path, elapsed in samples.items():
                found.setdefault(
                    path,
                    {
                        "path": path,
                        "transport": None,
                        "model": case.name,
                        "batch": rows or 1,
                        "concurrency": 1,
                        "slots": 1,
                        "instances": None,
                        "timing": _timing(case.timing, device),
                        **sizes,
                        **stats.summarize(elapsed),
                        "samples_ns": elapsed,
                        "rows_per_s": round((rows or 1) * 1e9 / float(np.mean(elapsed)), 3),
                        "stable": stable[path],
                    },
                )
            if len(samples) == 2:
                ratio = {
                    key: round(value, 4)
                    for key, value in asdict(stats.paired_ratio(samples[pair[0]], samples[pair[1]])).items()
                }
                ratios.append({"path": pair[0], "to": pair[1], **ratio, "stable": all(stable.values())})
    order = [path for path in records.PATHS if path in found]
    return {
        "model": case.name,
        **sizes,
        "device": device,
        "hand_off": cpu_counters.HAND_OFF if device["kind"] == "cpu" else None,
        "rows": [found[path] for path in order],
        "ratios": ratios,
        "remarks": remarks,
    }


def _timing(timing: str, device: dict) -> str:
    return f"{timing}; {cpu_counters.HAND_OFF}" if device["kind"] == "cpu" else timing


def static_description(name: str) -> dict:
    """Describe one of `STATIC_SHAPES`, a synthetic model without execution time."""
    tensors = zip(("inputs", "outputs"), "xy", STATIC_SHAPES[name], strict=True)
    return {field: [{"name": tensor, "dtype": "float32", "shape": shape}] for field, tensor, shape in tensors}


def image_case(runtime: str, folder: Path) -> presets.Case:
    """Compile the larger of `STATIC_SHAPES`, as a preset of other benches; its timing names the stand-in's hand-off."""
    if runtime == "npu":
        raise presets.UnavailableError(
            "the preset image is a synthetic model of the cpu runtime; on an NPU use --model OM"
        )
    case = presets.synthetic_case("image", folder, static_description("image"))
    return replace(case, timing=f"{case.timing}; {cpu_counters.HAND_OFF}")


def _pair(
    session, library, pair: tuple[str, str], inputs: dict, expected: list, plan: Plan, exact: bool
) -> dict[str, list[int]]:
    """Alternate the two paths of `pair`; those that need a C compiler are left out where there is none."""
    names = [spec.name for spec in session.get_outputs()]
    handles = calling.native_handles(session, inputs)
    calls: dict[str, Callable[[], int]] = {}
    results: dict[str, Callable[[], list[np.ndarray]]] = {}
    with contextlib.ExitStack() as stack:
        if "borrow" in pair:
            batch = stack.enter_context(calling.borrow(session, inputs))
            for name, array in inputs.items():
                batch.inputs[name][...] = array
            calls["borrow"] = stats.timed(batch.run)
            pinned = batch.outputs  # c-pinned leaves its outputs there too
            results = dict.fromkeys(pair, lambda: [pinned[name] for name in names])
        for path in pair:
            outputs = {name: np.empty_like(array) for name, array in zip(names, expected, strict=True)}
            if path == "direct":
                calls[path] = stats.timed(functools.partial(session.run, None, inputs))
                results[path] = functools.partial(session.run, None, inputs)
            elif path == "ctypes":
                calls[path] = CtypesPath(handles, inputs, outputs).once()
            elif path in c_path.PATHS and library is not None:
                calls[path] = c_path.CPath(library, handles, inputs, outputs).once(path)
            results.setdefault(path, functools.partial(list, outputs.values()))
        for call in calls.values():
            for _ in range(plan.warm_up):
                call()
        rounds = {path: stats.Call(call) for path, call in calls.items()}
        windows = stats.until_stable(lambda: stats.interleave(rounds, plan.rounds), plan.windows)
        for path, call in calls.items():
            call()
            check_outputs(expected, results[path](), f"{path} against direct", exact)
        return {path: [ns for window in windows for ns in window[path]] for path in calls}


def count_allocations(model: str | None, runtime: str, device_id: int, requests: int = REQUESTS) -> list[dict] | None:
    """Count allocations of warm sessions (runs in a child): of a static and a gear model, or of an om.

    Returns one row per model and way of calling, with the entry points called per request; None without counters.
    """
    with tempfile.TemporaryDirectory(prefix="ge_core_bench_") as name:
        folder = Path(name)
        if model is None:
            gears = {
                "inputs": [{"name": "x", "dtype": "float32", "shape": [-1, 64]}],
                "outputs": [{"name": "y", "dtype": "float32", "shape": [-1, 16]}],
                "dynamic_batch_size": [1, 4, 8],
            }
            cases = [
                presets.synthetic_case("small", folder, static_description("small")),
                presets.synthetic_case("gears", folder, gears),
            ]
        else:
            cases = [presets.om_case(Path(model).stem, Path(model), runtime)]
        if cpu_counters.counters(records.device(runtime)["library"]) is None:
            return None
        return [row for case in cases for row in _count_allocations(case, runtime, device_id, requests)]


def _count_allocations(case: presets.Case, runtime: str, device_id: int, requests: int) -> list[dict]:
    found = []
    with ge_core.InferenceSession(case.om, runtime=runtime, device_id=device_id) as session:
        libraries = records.device(runtime)["library"]
        feeds = calling.mixed_sizes(case, session)
        for path, call in calling.call_styles(session):
            for number in range(2 * len(feeds)):
                call(feeds[number % len(feeds)])
            before = cpu_counters.calls(libraries)
            for number in range(requests):
                call(feeds[number % len(feeds)])
            called = cpu_counters.called_since(before, cpu_counters.calls(libraries))
            if called.get("aclmdlExecuteAsync", 0) < requests:
                raise RuntimeError(f"{requests} requests were made, but the stand-in counted {called}")
            found.append(
                {
                    "model": case.name,
                    "path": path,
                    "requests": requests,
                    "allocations_per_request": cpu_counters.allocations(called) / requests,
                    "calls_per_request": {name: count / requests for name, count in sorted(called.items())},
                }
            )
    return found


def limits(summaries: list[dict], allocated: list[dict] | None) -> list[Limit]:
    """Return G1 to G3 from the ratios of the two static models, G4 from the counts."""
    found = []
    ratios = {(summary["model"], row["path"]): row for summary in summaries for row in summary["ratios"]}
    if row := ratios.get(("image", "direct")):
        found.append(Limit("G1: run / c, 602,112 B in, 4,000 B out", row["ratio"], 1.05, row["stable"]))
    if row := ratios.get(("image", "borrow")):
        if row["ratio"] <= 1.02 or row["apart_us"] > 1.0:
            found.append(Limit("G2: batch.run() / c-pinned, same sizes", row["ratio"], 1.02, row["stable"]))
        else:
            found.append(Limit("G2: batch.run() − c-pinned in µs, same sizes", row["apart_us"], 1.0, row["stable"]))
    if row := ratios.get(("small", "direct")):
        found.append(Limit("G3: run − c in µs, 4 KB in, 4 KB out", row["apart_us"], 4.0, row["stable"]))
    if allocated is not None:
        found.append(Limit("G4: allocations per request", max(row["allocations_per_request"] for row in allocated), 0))
    return found
