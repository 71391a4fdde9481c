# SPDX-License-Identifier: Apache-2.0
"""What every bench with a model needs first: options, a temporary folder, and the compiled models."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ge_core
from bench.benches import overhead
from bench.measure import records
from bench.measure.progress import Progress
from bench.models import networks, presets
from bench.models.presets import GEARS, Case, UnavailableError
from ge_core_pyx.errors import GeCoreError

PRESETS = ("llama7b", "ocr")
MORE_PRESETS = ("image", *networks.PRESETS)
EXPECTED_ERRORS = (GeCoreError, ValueError)  # errors whose text is enough; others show their traceback


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
    inputs: Path | None = None
    register_memory: bool = False


def invocation(arguments: Sequence[str]) -> dict:
    """Return how the bench was started: the command line, and the environment variables that ge_core reads.

    Paths are cut to their last part, because reports are given to others.
    """
    environ = {name: _file_name(value) for name, value in sorted(os.environ.items()) if name.startswith("GE_CORE_")}
    return {"arguments": list(map(_file_name, arguments)), "environment": environ}


def _file_name(text: str) -> str:
    """Cut an absolute path, alone or behind ``--option=``, to its last part."""
    option, equals, value = text.rpartition("=")
    return option + equals + os.path.basename(value) if os.path.isabs(value) else text


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """Yield a folder for the models and model repositories of a run; it is deleted after the run."""
    with tempfile.TemporaryDirectory(prefix="ge_core_bench_") as name:
        if " " in name:
            raise UnavailableError(f"Triton's workers cannot start from {name}; set TMPDIR to a path without spaces")
        yield Path(name)


def compile_cases(
    options: Options, runtime: str, device: dict, folder: Path, progress: Progress
) -> Iterator[tuple[str, list[Case]]]:
    """Yield each preset's name with its models, compiled into `folder`; the models of a preset share one server."""
    if options.model is not None and options.presets not in ((), ("llama7b",)):
        raise UnavailableError(
            "--model goes alone, or with --preset llama7b to measure a real LLaMA om under that name"
        )
    if options.model is not None:
        name = options.presets[0] if options.presets else re.sub(r"\W+", "_", options.model.stem, flags=re.ASCII)
        case = presets.om_case(name, options.model, runtime)
        yield name, [networks.given_inputs(case, options.inputs) if options.inputs else case]
        return
    if options.inputs is not None:
        raise UnavailableError("--inputs goes with --model")
    for preset in options.presets:
        with progress.part(f"{preset}: compiling"):
            cases = _compile_preset(preset, runtime, device["soc"], folder)
        yield preset, cases


def _compile_preset(preset: str, runtime: str, soc: str, folder: Path) -> list[Case]:
    if preset == "llama7b":
        return [presets.llama_case(runtime, folder)]
    if preset == "image":
        return [overhead.image_case(runtime, folder)]
    if preset in networks.PRESETS:
        return networks.PRESETS[preset](runtime, soc, folder / f"{preset}_models")
    return [presets.ocr_case(part, runtime, soc, folder) for part in presets.OCR_FILES]


def batch_sizes(description: ge_core.ModelDescription, wanted: tuple[int, ...]) -> list[int]:
    """Return which of the `wanted` batch sizes a model takes; a static om takes its own batch size only."""
    if description.max_rows == 0:
        return [1]
    if description.gear_kind == "static":
        return [description.max_rows]
    batches = [batch for batch in wanted if batch <= description.max_rows]
    if not batches:
        raise UnavailableError(f"{description.path} takes at most {description.max_rows} rows; choose --batches")
    return batches
