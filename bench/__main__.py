"""The command line of the bench."""

from __future__ import annotations

import signal
import sys
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


@app.callback()
def main() -> None:
    """Keep `latency` a subcommand, whatever number of them there is."""


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


@app.command()
def latency(
    preset: Annotated[str | None, typer.Option(help="llama7b, ocr or both: llama7b,ocr (the default).")] = None,
    model: Annotated[Path | None, typer.Option(help="An om to measure, with random inputs.")] = None,
    runtime: Annotated[str | None, typer.Option(help="npu or cpu; default GE_CORE_RUNTIME, else npu.")] = None,
    device: Annotated[int, typer.Option(help="Device number.")] = 0,
    batches: Annotated[str, typer.Option(help="Rows per request.")] = "1,4,8",
    transports: Annotated[str, typer.Option(help="Ways to Triton.")] = "grpc,http,grpc+shm,http+shm",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples: some minutes in all.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 3 if a limit is missed, 4 if a row is unstable.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write all records to this file.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Latency of the same inference called directly and through Triton, and requests/s of 16 clients."""
    from bench import records, run, tables

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if json is not None and not json.resolve().parent.is_dir():
        raise typer.BadParameter(f"{json.resolve().parent} is no folder", param_hint="--json")
    presets = _names(preset, run.PRESETS) if preset else () if model else run.PRESETS
    options = run.Options(
        presets=presets,
        model=model,
        runtime=runtime,
        device_id=device,
        batches=_batches(batches),
        transports=_names(transports, records.TRANSPORTS),
        quick=quick,
    )
    progress = tables.progress_console()
    try:
        report, remarks = run.latency(options, lambda line: progress.print(line, style="dim"))
    except run.EXPECTED as error:
        if debug:
            raise
        progress.print(f"[bold red]error:[/bold red] {tables.plain(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from None
    if json is not None:
        report.write(json)
        remarks.append(f"All records: {json}")
    tables.show(tables.console(), report, remarks, check)
    raise typer.Exit(report.exit_code(check))


if __name__ == "__main__":
    app()
