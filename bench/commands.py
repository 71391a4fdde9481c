# SPDX-License-Identifier: Apache-2.0
"""The commands of the bench. Modules are imported inside them, so that ``--help`` is quick."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.arguments import (
    Batches,
    Check,
    Debug,
    Device,
    Html,
    Inputs,
    Json,
    Markdown,
    Model,
    OnePreset,
    Preset,
    Quick,
    Runtime,
    Samples,
    Transports,
    folder_exists,
    latency_options,
    names,
    positive_integers,
)  # fmt: skip

if TYPE_CHECKING:
    from bench.measure.progress import Progress
    from bench.measure.records import Report

app = typer.Typer(
    name="python -m bench",
    help="Direct AscendCL and Triton side by side, measured in one run.",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


def _write(content, html: Path | None, markdown: Path | None) -> list[str]:
    """Write the forms asked for; returns a line for each."""
    from bench.report import document

    lines = []
    for path, form, what in ((html, document.html, "Page"), (markdown, document.markdown, "Markdown")):
        if path is not None:
            path.write_text(form(content), encoding="utf-8")
            lines.append(f"{what}: {path}")
    return lines


def _fail(error: Exception, debug: bool) -> None:
    """End with one line, or with `debug` with the traceback."""
    from bench.report import tables

    out = tables.progress_console()
    if debug:
        out.print(tables.escape_markup(getattr(error, "details", "")))
        raise error
    out.print(f"[bold red]error:[/bold red] {tables.escape_markup(str(error))}", soft_wrap=True)
    raise typer.Exit(1)


def _finish(
    measure: Callable[[Progress], tuple[Report, list[str]]],
    check: bool,
    json: Path | None,
    debug: bool,
    samples: Path | None = None,
    html: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Measure, write the files asked for, print the tables and exit."""
    from bench.benches import prepare
    from bench.measure.progress import Progress
    from bench.report import build, document, tables

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for path, hint in ((json, "--json"), (samples, "--samples"), (html, "--html"), (markdown, "--markdown")):
        folder_exists(path, hint)
    out, lines = tables.console(), tables.progress_console()
    progress = Progress(
        lambda line: lines.print(tables.escape_markup(line), style="dim"),
        lambda section: document.show(out, [section]),
    )
    try:
        with progress.part("the whole run"):
            report, remarks = measure(progress)
    except prepare.EXPECTED_ERRORS as error:
        _fail(error, debug)
    report.summary["runs"] = [prepare.invocation(sys.argv[1:])]
    if json is not None:
        report.write(json)
        remarks.append(f"All records: {json}")
    if samples is not None:
        report.write_samples(samples)
        remarks.append(f"All samples: {samples}")
    if html or markdown:
        remarks += _write(build.build_document(report.to_dict()), html, markdown)
    tables.show(out, report, remarks, check)
    raise typer.Exit(report.exit_code(check))


@app.command()
def latency(
    preset: Preset = None,
    model: Model = None,
    inputs: Inputs = None,
    runtime: Runtime = None,
    device: Device = 0,
    batches: Batches = "1,4,8",
    transports: Transports = "grpc,http,grpc+shm,http+shm",
    register_memory: Annotated[
        bool, typer.Option("--register-memory", help="Serve with register_memory: true, see docs/triton.md.")
    ] = False,
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    samples: Samples = None,
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """Latency of the same inference called directly and through Triton, and requests/s of 16 clients."""
    from bench.benches import latency

    options = latency_options(
        preset, model, runtime, device, batches, transports, quick, inputs, register_memory=register_memory
    )
    _finish(lambda progress: latency.latency(options, progress), check, json, debug, samples, html, markdown)


@app.command()
def overhead(
    model: Model = None,
    runtime: Runtime = None,
    device: Device = 0,
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    samples: Samples = None,
    debug: Debug = False,
) -> None:
    """What ge_core adds to the same AscendCL calls made from C, without Triton, and allocations per request."""
    from bench.benches import overhead

    plan = overhead.QUICK if quick else overhead.Plan()
    _finish(lambda progress: overhead.overhead(model, runtime, device, plan, progress), check, json, debug, samples)


@app.command()
def throughput(
    model: Model = None,
    runtime: Runtime = None,
    device: Device = 0,
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    samples: Samples = None,
    debug: Debug = False,
) -> None:
    """Rows/s of several slots and devices without Triton, and memory after many requests."""
    from bench.benches import throughput

    plan = throughput.QUICK if quick else throughput.Plan()
    _finish(lambda progress: throughput.throughput(model, runtime, device, plan, progress), check, json, debug, samples)


@app.command()
def stages(
    preset: Preset = None,
    model: Model = None,
    inputs: Inputs = None,
    runtime: Runtime = None,
    device: Device = 0,
    batches: Batches = "1,4,8",
    transports: Transports = "grpc,http,grpc+shm",
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    samples: Samples = None,
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """Where the time of a request goes, from the client to the device and back."""
    from bench.benches import stages

    plan = stages.QUICK if quick else stages.Plan()
    options = latency_options(preset, model, runtime, device, batches, transports, quick, inputs, "llama7b")
    _finish(lambda progress: stages.stages(options, plan, progress), check, json, debug, samples, html, markdown)


@app.command()
def load(
    preset: OnePreset = None,
    model: Model = None,
    inputs: Inputs = None,
    runtime: Runtime = None,
    device: Device = 0,
    transport: Annotated[str, typer.Option(help="The way to Triton.")] = "http+shm",
    limit_ms: Annotated[
        float | None, typer.Option(min=0.001, help="Latency to keep; default three runs of the largest batch.")
    ] = None,
    clients: Annotated[str | None, typer.Option(help="Numbers of clients, such as 1,4,16.")] = None,
    devices: Annotated[int, typer.Option(min=1, help="Try up to so many devices.")] = 1,
    instances: Annotated[int, typer.Option(min=1, help="Try up to so many instances.")] = 2,
    slots: Annotated[int, typer.Option(min=1, help="Try up to so many slots.")] = 2,
    delays: Annotated[str | None, typer.Option(help="Delays of the batcher to try, in µs.")] = None,
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    samples: Samples = None,
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """Requests/s and latency with more and more clients, with random arrivals, and with other settings."""
    from dataclasses import replace

    from bench.benches import load

    plan = replace(load.QUICK if quick else load.Plan(), devices=devices, instances=instances, slots=slots)
    if clients:
        plan = replace(plan, clients=positive_integers(clients, "--clients"))
    if delays:
        plan = replace(plan, delays_us=positive_integers(delays, "--delays"))
    options = latency_options(preset, model, runtime, device, "1", transport, quick, inputs, "llama7b")
    _finish(lambda progress: load.load(options, plan, limit_ms, progress), check, json, debug, samples, html, markdown)


@app.command()
def advice(
    preset: OnePreset = None,
    model: Model = None,
    inputs: Inputs = None,
    runtime: Runtime = None,
    device: Device = 0,
    transport: Annotated[str, typer.Option(help="The way to Triton.")] = "http+shm",
    goal: Annotated[str, typer.Option(help="latency, or throughput.")] = "throughput",
    p99_ms: Annotated[float | None, typer.Option(min=0.001, help="With throughput: the p99 to keep.")] = None,
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    samples: Samples = None,
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """Batcher, slots and instances for a goal, from measured times, as a stanza of config.pbtxt; and measured."""
    from bench.benches import advice, load

    (wanted,) = names(goal, advice.GOALS)[:1]
    plan = load.QUICK if quick else load.Plan()
    options = latency_options(preset, model, runtime, device, "1", transport, quick, inputs, "llama7b")
    _finish(
        lambda progress: advice.advice(options, wanted, p99_ms, plan, progress),
        check,
        json,
        debug,
        samples,
        html,
        markdown,
    )


@app.command("all")
def all_benches(
    preset: Preset = None,
    model: Model = None,
    runtime: Runtime = None,
    device: Device = 0,
    batches: Batches = "1,4,8",
    transports: Transports = "grpc,http,grpc+shm,http+shm",
    quick: Quick = False,
    check: Check = False,
    json: Json = None,
    samples: Samples = None,
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """overhead, throughput, latency and, over grpc+shm, stages (with --quick of the first batch), in one report."""
    from bench.benches.everything import everything

    options = latency_options(preset, model, runtime, device, batches, transports, quick, default="llama7b,image,ocr")
    few = batches.partition(",")[0] if quick else batches
    stage_options = latency_options(preset, model, runtime, device, few, "grpc+shm", quick, default="llama7b")
    _finish(lambda progress: everything(options, stage_options, progress), check, json, debug, samples, html, markdown)


@app.command()
def truth(runtime: Runtime = None, json: Json = None, debug: Debug = False) -> None:
    """The bench itself against a synthetic model whose times are known; exit 3 if a figure is off."""
    from bench.benches import truth

    _finish(lambda progress: truth.truth(runtime, progress), True, json, debug)


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(help="What --json wrote; several become one report.")],
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """Show what --json wrote, or write it as a page or as Markdown."""
    from bench.report import build, document, tables

    for path, hint in ((html, "--html"), (markdown, "--markdown")):
        folder_exists(path, hint)
    try:
        shown = build.build_document(build.merge([build.read(path) for path in files]))
    except build.UnreadableError as error:
        _fail(error, debug)
    out = tables.console()
    lines = _write(shown, html, markdown)
    if not lines:
        document.show(out, shown.sections)
    for line in lines:
        out.print(line)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="What --json wrote in the first run.")],
    b: Annotated[Path, typer.Argument(help="What --json wrote in the second run.")],
    drift: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="What the same machine may differ by from run to run, as a part.")
    ] = 0.05,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 3 if something is slower, 4 if a row could not be judged.")
    ] = False,
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """Two runs side by side: what changed beyond the spread."""
    from bench.report import build, document, tables
    from bench.report import compare as comparison

    for path, hint in ((html, "--html"), (markdown, "--markdown")):
        folder_exists(path, hint)
    try:
        found = comparison.compare(build.read(a), build.read(b), (a.name, b.name), drift)
    except (build.UnreadableError, ValueError) as error:
        _fail(error, debug)
    out = tables.console()
    document.show(out, found.document.sections)
    for line in _write(found.document, html, markdown):
        out.print(line)
    raise typer.Exit(found.exit_code(check))
