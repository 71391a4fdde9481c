"""The command line of the bench."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="python -m bench",
    help="Direct AscendCL and Triton side by side, measured in one run.",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


def _names(text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if wrong := [name for name in names if name not in allowed]:
        raise typer.BadParameter(f"{wrong[0]!r} is none of {', '.join(allowed)}")
    return names


def _batches(text: str) -> tuple[int, ...]:
    try:
        batches = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        batches = (0,)
    if batches[0] < 1:
        raise typer.BadParameter(f"expected numbers of rows such as 1,4,8, got {text!r}")
    return batches


Preset = Annotated[str | None, typer.Option(help="llama7b, ocr or both: llama7b,ocr (the default).")]
Model = Annotated[Path | None, typer.Option(help="An om to measure, with random inputs.")]
Runtime = Annotated[str | None, typer.Option(help="npu or cpu; default GE_CORE_RUNTIME, else npu.")]
Device = Annotated[int, typer.Option(help="Device number.")]
Batches = Annotated[str, typer.Option(help="Rows per request.")]
Transports = Annotated[str, typer.Option(help="Ways to Triton.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer samples.")]
Check = Annotated[bool, typer.Option("--check", help="Exit 3 if a limit is missed, 4 if a row is unstable.")]
Json = Annotated[Path | None, typer.Option(help="Write all records to this file.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _finish(measure: Callable, check: bool, json: Path | None, debug: bool) -> None:
    """Measure, write the JSON, print the tables and exit."""
    from bench import run, tables

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if json is not None and not json.resolve().parent.is_dir():
        raise typer.BadParameter(f"{json.resolve().parent} is no folder", param_hint="--json")
    progress = tables.progress_console()
    try:
        report, remarks = measure(lambda line: progress.print(line, style="dim"))
    except run.EXPECTED as error:
        if debug:
            progress.print(tables.plain(getattr(error, "details", "")))
            raise
        progress.print(f"[bold red]error:[/bold red] {tables.plain(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from None
    if json is not None:
        report.write(json)
        remarks.append(f"All records: {json}")
    tables.show(tables.console(), report, remarks, check)
    raise typer.Exit(report.exit_code(check))


def _latency_options(
    preset: str | None,
    model: Path | None,
    runtime: str | None,
    device: int,
    batches: str,
    transports: str,
    quick: bool,
):
    from bench import records, run

    return run.Options(
        presets=_names(preset, run.PRESETS) if preset else () if model else run.PRESETS,
        model=model,
        runtime=runtime,
        device_id=device,
        batches=_batches(batches),
        transports=_names(transports, records.TRANSPORTS),
        quick=quick,
    )


@app.command()
def latency(
    preset: Preset = None,
    model: Model = None,
    runtime: Runtime = None,
    device: Device = 0,
    batches: Batches = "1,4,8",
    transports: Transports = "grpc,http,grpc+shm,http+shm",
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Latency of the same inference called directly and through Triton, and requests/s of 16 clients."""
    from bench import run

    options = _latency_options(preset, model, runtime, device, batches, transports, quick)
    _finish(lambda say: run.latency(options, say), check, json, debug)


@app.command()
def overhead(
    model: Model = None,
    runtime: Runtime = None,
    device: Device = 0,
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """What ge_core adds to the same AscendCL calls made from C, without Triton, and allocations per request."""
    from bench import overhead

    plan = overhead.QUICK if quick else overhead.Plan()
    _finish(lambda say: overhead.overhead(model, runtime, device, plan, say), check, json, debug)


@app.command()
def throughput(
    model: Model = None,
    runtime: Runtime = None,
    device: Device = 0,
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Rows/s of several slots and devices without Triton, and memory after many requests."""
    from bench import throughput

    plan = throughput.QUICK if quick else throughput.Plan()
    _finish(lambda say: throughput.throughput(model, runtime, device, plan, say), check, json, debug)


@app.command("all")
def everything(
    preset: Preset = None,
    model: Model = None,
    runtime: Runtime = None,
    device: Device = 0,
    batches: Batches = "1,4,8",
    transports: Transports = "grpc,http,grpc+shm,http+shm",
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    debug: Debug = False,
) -> None:
    """Every bench, one after another, in one report."""
    from bench import overhead, run, throughput
    from bench.records import Report

    options = _latency_options(preset, model, runtime, device, batches, transports, quick)

    def measure(say: Callable[[str], None]) -> tuple[Report, list[str]]:
        # Latency last: it leaves this process with a device, a server's clients and the heap of both behind.
        parts = [
            overhead.overhead(model, runtime, device, overhead.QUICK if quick else overhead.Plan(), say),
            throughput.throughput(model, runtime, device, throughput.QUICK if quick else throughput.Plan(), say),
            run.latency(options, say),
        ]
        return Report.joined([report for report, _ in parts]), [line for _, remarks in parts for line in remarks]

    _finish(measure, check, json, debug)


if __name__ == "__main__":
    app()
