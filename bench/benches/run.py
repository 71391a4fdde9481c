"""From options to a report: prepares models, sessions and one server per preset, and measures."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ge_core
from bench.benches import latency as measure
from bench.benches import overhead
from bench.measure import records
from bench.measure.records import Report
from bench.measure.usage import Sampler
from bench.models import networks, presets
from bench.models.presets import GEARS, Case, NotHereError
from bench.paths import c_path
from bench.served import settings
from bench.served.repository import add_floor
from bench.served.server import serve
from ge_core.compiler import AtcError
from ge_core.serving.loading import tune_allocator
from ge_core_pyx import locate
from ge_core_pyx.errors import GeCoreError

PRESETS = ("llama7b", "ocr")
MORE_PRESETS = ("image", *networks.PRESETS)
EXPECTED = (GeCoreError, AtcError, ValueError)
PLAIN_MODEL = Path(__file__).parents[1] / "served" / "plain_model.py"
LOAD_TRANSPORT = "grpc+shm"
REGISTERED = "Served with register_memory: the device itself reads and writes Triton's shared memory."


def told(arguments: Sequence[str]) -> dict:
    """What a report says of how it was asked for: the command line, and the environment that ge_core reads.

    Of paths only the last part: reports are for others to read.
    """
    environ = {name: _last(value) for name, value in sorted(os.environ.items()) if name.startswith("GE_CORE_")}
    return {"arguments": list(map(_last, arguments)), "environment": environ}


def _last(text: str) -> str:
    option, equals, value = text.rpartition("=")
    return option + equals + os.path.basename(value) if os.path.isabs(value) else text


@dataclass(frozen=True)
class Options:
    """What to measure, checked by the command line."""

    presets: tuple[str, ...]
    model: Path | None = None
    runtime: str | None = None
    device_id: int = 0
    batches: tuple[int, ...] = GEARS
    transports: tuple[str, ...] = records.TRANSPORTS
    quick: bool = False
    plan: measure.Plan | None = None
    inputs: Path | None = None
    register_memory: bool = False


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A folder for the models and repositories of a run, gone after it."""
    with tempfile.TemporaryDirectory(prefix="ge_core_bench_") as name:
        if " " in name:
            raise NotHereError(f"Triton's workers cannot start from {name}; set TMPDIR to a path without spaces")
        yield Path(name)


def latency(options: Options, say: Callable[[str], None]) -> tuple[Report, list[str]]:
    """Measure every model of `options`; returns the report and remarks for the reader."""
    runtime = locate.runtime_name(options.runtime)
    device = records.device(runtime, options.device_id)
    tune_allocator()
    report = Report(summary={"device": device["name"], "models": [], "usage": []})
    remarks = [REGISTERED] if options.register_memory else []
    with workspace() as folder:
        try:
            library = c_path.compile_library(folder)
        except c_path.CPathError as reason:
            library = None
            remarks.append(f"No c rows: {reason}. The short table shows direct instead, and there is no gap.")
        for label, cases in groups(options, runtime, device, folder, say):
            for summary in _measure_group(options, runtime, device, folder / label, cases, library, report, say):
                report.summary["models"].append(summary)
    return report, remarks


def groups(
    options: Options, runtime: str, device: dict, folder: Path, say: Callable[[str], None]
) -> Iterator[tuple[str, list[Case]]]:
    """Yield each preset's name with its models, compiled into `folder`; each group gets one server."""
    if options.model is not None and options.presets not in ((), ("llama7b",)):
        raise NotHereError("--model goes alone, or with --preset llama7b to measure a real LLaMA om under that name")
    if options.model is not None:
        name = options.presets[0] if options.presets else re.sub(r"\W+", "_", options.model.stem, flags=re.ASCII)
        case = presets.om_case(name, options.model, runtime)
        yield name, [networks.given_inputs(case, options.inputs) if options.inputs else case]
        return
    if options.inputs is not None:
        raise NotHereError("--inputs goes with --model")
    for preset in options.presets:
        say(f"{preset}: compiling")
        if preset == "llama7b":
            yield preset, [presets.llama_case(runtime, folder)]
        elif preset == "image":
            yield preset, [overhead.image_case(runtime, folder)]
        elif preset in networks.PRESETS:
            yield preset, networks.PRESETS[preset](runtime, device["soc"], folder / f"{preset}_models")
        else:
            yield preset, [presets.ocr_case(part, runtime, device["soc"], folder) for part in presets.OCR_FILES]


def batches_of(description: ge_core.ModelDescription, wanted: tuple[int, ...]) -> list[int]:
    """Return which of the `wanted` numbers of rows a model takes; a static om takes its own number alone."""
    if description.max_rows == 0:
        return [1]
    if description.gear_kind == "static":
        return [description.max_rows]
    batches = [batch for batch in wanted if batch <= description.max_rows]
    if not batches:
        raise NotHereError(f"{description.path} takes at most {description.max_rows} rows; choose --batches")
    return batches


def _measure_group(
    options: Options,
    runtime: str,
    device: dict,
    folder: Path,
    cases: list[Case],
    library: ctypes.CDLL | None,
    report: Report,
    say: Callable[[str], None],
) -> Iterator[dict]:
    repository = folder / "repository"
    repository.mkdir(parents=True)
    plan = options.plan or (measure.QUICK if options.quick else measure.Plan())
    with contextlib.ExitStack() as stack:
        prepared = []
        for case in cases:
            session = ge_core.InferenceSession(case.om, runtime=runtime, device_id=options.device_id)
            stack.callback(session.close)
            batches = batches_of(session.description, options.batches)
            outputs = {batch if case.splittable else 0: session.run(None, case.rows(batch)) for batch in batches}
            most = session.description.max_rows if case.splittable else 0
            add_floor(repository, f"{case.name}_floor", most, session, outputs)
            for entry, setting in measure.entries(case, options.device_id, options.register_memory).items():
                settings.add(repository, entry, settings.config(entry, case.om, runtime, session, setting))
            plain = measure.plain_entries(case, options.device_id) if plan.more else {}
            for entry, setting in plain.items():
                text = settings.config(entry, case.om, runtime, session, setting, "python")
                settings.add(repository, entry, text, {"model.py": PLAIN_MODEL.read_bytes()})
            prepared.append((case, session, batches))
        say(f"{', '.join(case.name for case in cases)}: starting Triton")
        endpoint, triton = stack.enter_context(serve(repository, runtime))
        common = {
            "device": device,
            "host": records.host(),
            "versions": records.versions(ge_core=ge_core.__version__, tritonserver=triton),
        }
        for case, session, batches in prepared:
            bench = measure.Bench(case, session, endpoint, library, options.transports, plan, common, report, say)
            found = _measure_model(bench, batches)
            if options.model is None:  # the limits are those of the bench's own models
                report.limits += measure.limits(case.name, found["gaps"], found["load"])
            yield found


def _measure_model(bench: measure.Bench, batches: list[int]) -> dict:
    case, transports = bench.case, bench.transports
    transport = LOAD_TRANSPORT if LOAD_TRANSPORT in transports else transports[0]
    gaps = measure.latency(bench, batches)
    with Sampler(bench.common["device"]["kind"], bench.common["device"]["ids"]) as usage:
        loaded = measure.load(bench, bench.session.description.max_rows or 1, transport)
    bench.report.summary["usage"].append({"bench": "latency, most rows/s", "model": case.name, **usage.summary()})
    return {
        "model": case.name,
        "device": bench.common["device"]["name"],
        "timing": case.timing,
        "batches": batches,
        "transport": transport,
        "direct_path": "c" if bench.c_library is not None else "direct",
        "gaps": gaps,
        "load": loaded,
        "remarks": _remarks(case, bench.c_library is not None, loaded),
    }


def _remarks(case: Case, has_c: bool, loaded: dict) -> list[str]:
    called = "c, the AscendCL calls from C" if has_c else "direct, InferenceSession.run"
    batches = f"batches of {loaded['batch']} back to back" if case.splittable else "back to back"
    clients = f"{loaded['clients']} clients" + (" of one row and its batcher" if case.splittable else "")
    clients += f", responses {loaded['responses']}"
    time, _, hand_off = case.timing.partition("; ")
    return [
        f"execution time {time}; direct AscendCL is {called}",
        f"most requests/s: direct {batches}, Triton with {clients}",
        *([f"hand-off to the device: {hand_off}"] if hand_off else []),
    ]
