# SPDX-License-Identifier: Apache-2.0
"""Arguments that the commands of the bench share: their types, and their text parsed and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bench.benches.prepare import Options

Preset = Annotated[
    str | None, typer.Option(help="llama7b,ocr (the default), one of them, image, resnet50 or bert_base.")
]  # fmt: skip
OnePreset = Annotated[str | None, typer.Option(help="llama7b (the default), ocr, image, resnet50, bert_base.")]
Model = Annotated[Path | None, typer.Option(help="An om to measure, with random inputs.")]
Inputs = Annotated[Path | None, typer.Option(help="An npz with the inputs of --model, by name.")]
Runtime = Annotated[str | None, typer.Option(help="npu or cpu; default GE_CORE_RUNTIME, else npu.")]
Device = Annotated[int, typer.Option(help="Device number.")]
Batches = Annotated[str, typer.Option(help="Rows per request.")]
Transports = Annotated[str, typer.Option(help="Ways to Triton.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer samples.")]
Check = Annotated[bool, typer.Option("--check", help="Exit 3 if a limit is missed, 4 if a row is unstable.")]
Json = Annotated[Path | None, typer.Option(help="Write all records to this file.")]
Samples = Annotated[Path | None, typer.Option(help="Write every sample of every record to this npz file, in ns.")]
Html = Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Write the report as Markdown to this file.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def names(text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Parse names separated by commas, each of them one of `allowed`."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if wrong := [name for name in found if name not in allowed]:
        raise typer.BadParameter(f"{wrong[0]!r} is none of {', '.join(allowed)}")
    return found


def positive_integers(text: str, param_hint: str) -> tuple[int, ...]:
    """Parse whole numbers above 0, separated by commas; returns them in rising order."""
    try:
        numbers = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        numbers = (0,)
    if numbers[0] < 1:
        raise typer.BadParameter(f"expected whole numbers above 0 such as 1,4,16, got {text!r}", param_hint=param_hint)
    return numbers


def folder_exists(path: Path | None, param_hint: str) -> None:
    """Check that a file can be written there."""
    if path is not None and not path.resolve().parent.is_dir():
        raise typer.BadParameter(f"{path.resolve().parent} is no folder", param_hint=param_hint)


def latency_options(
    preset: str | None,
    model: Path | None,
    runtime: str | None,
    device: int,
    batches: str,
    transports: str,
    quick: bool,
    inputs: Path | None = None,
    default: str = "llama7b,ocr",
    register_memory: bool = False,
) -> Options:
    """Return the options of a bench with models; `default`: the presets if neither `preset` nor `model` is given."""
    from bench.benches import prepare
    from bench.measure import records

    return prepare.Options(
        presets=names(preset or default, prepare.PRESETS + prepare.MORE_PRESETS) if preset or not model else (),
        model=model,
        runtime=runtime,
        device_id=device,
        batches=positive_integers(batches, "--batches"),
        transports=names(transports, records.TRANSPORTS),
        quick=quick,
        inputs=inputs,
        register_memory=register_memory,
    )
