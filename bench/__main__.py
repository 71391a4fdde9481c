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


def _whole_numbers(text: str, param_hint: str) -> tuple[int, ...]:
    from bench.benches.load import numbers

    try:
        return numbers(text)
    except ValueError:
        message = f"expected whole numbers above 0 such as 1,4,16, got {text!r}"
        raise typer.BadParameter(message, param_hint=param_hint) from None


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


def _folder_exists(path: Path | None, param_hint: str) -> None:
    if path is not None and not path.resolve().parent.is_dir():
        raise typer.BadParameter(f"{path.resolve().parent} is no folder", param_hint=param_hint)


def _write(document, html: Path | None, markdown: Path | None) -> list[str]:
    """Write the forms asked for; returns a line for each."""
    from bench.report import document as forms

    lines = []
    for path, form, what in ((html, forms.html, "Page"), (markdown, forms.markdown, "Markdown")):
        if path is not None:
            path.write_text(form(document), encoding="utf-8")
            lines.append(f"{what}: {path}")
    return lines


def _fail(error: Exception, debug: bool) -> None:
    """End with one line, or with `debug` with the traceback."""
    from bench.report import tables

    progress = tables.progress_console()
    if debug:
        progress.print(tables.plain(getattr(error, "details", "")))
        raise error
    progress.print(f"[bold red]error:[/bold red] {tables.plain(str(error))}", soft_wrap=True)
    raise typer.Exit(1)


def _finish(
    measure: Callable,
    check: bool,
    json: Path | None,
    debug: bool,
    samples: Path | None = None,
    html: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Measure, write the files asked for, print the tables and exit."""
    from bench.benches import run
    from bench.report import pages as pages
    from bench.report import tables

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for path, hint in ((json, "--json"), (samples, "--samples"), (html, "--html"), (markdown, "--markdown")):
        _folder_exists(path, hint)
    progress = tables.progress_console()
    try:
        report, remarks = measure(lambda line: progress.print(line, style="dim"))
    except run.EXPECTED as error:
        _fail(error, debug)
    report.summary["runs"] = [run.told(sys.argv[1:])]
    if json is not None:
        report.write(json)
        remarks.append(f"All records: {json}")
    if samples is not None:
        report.write_samples(samples)
        remarks.append(f"All samples: {samples}")
    if html or markdown:
        remarks += _write(pages.document(report.to_dict()), html, markdown)
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
    inputs: Path | None = None,
    default: str = "llama7b,ocr",
    register_memory: bool = False,
):
    from bench.benches import run
    from bench.measure import records

    known = run.PRESETS + run.MORE_PRESETS
    return run.Options(
        presets=_names(preset or default, known) if preset or not model else (),
        model=model,
        runtime=runtime,
        device_id=device,
        batches=_batches(batches),
        transports=_names(transports, records.TRANSPORTS),
        quick=quick,
        inputs=inputs,
        register_memory=register_memory,
    )


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
    from bench.benches import run

    options = _latency_options(
        preset, model, runtime, device, batches, transports, quick, inputs, register_memory=register_memory
    )
    _finish(lambda say: run.latency(options, say), check, json, debug, samples, html, markdown)


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
    _finish(lambda say: overhead.overhead(model, runtime, device, plan, say), check, json, debug, samples)


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
    _finish(lambda say: throughput.throughput(model, runtime, device, plan, say), check, json, debug, samples)


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
    options = _latency_options(preset, model, runtime, device, batches, transports, quick, inputs, "llama7b")
    _finish(lambda say: stages.stages(options, plan, say), check, json, debug, samples, html, markdown)


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
        plan = replace(plan, clients=_whole_numbers(clients, "--clients"))
    if delays:
        plan = replace(plan, delays_us=_whole_numbers(delays, "--delays"))
    options = _latency_options(preset, model, runtime, device, "1", transport, quick, inputs, "llama7b")
    _finish(lambda say: load.load(options, plan, limit_ms, say), check, json, debug, samples, html, markdown)


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

    (wanted,) = _names(goal, advice.GOALS)[:1]
    plan = load.QUICK if quick else load.Plan()
    options = _latency_options(preset, model, runtime, device, "1", transport, quick, inputs, "llama7b")
    _finish(lambda say: advice.advice(options, wanted, p99_ms, plan, say), check, json, debug, samples, html, markdown)


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
    samples: Samples = None,
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """overhead, throughput, latency and, over grpc+shm, stages (with --quick of the first batch), in one report."""
    from bench.benches import overhead, run, stages, throughput
    from bench.measure.records import Report

    own = "llama7b,image,ocr"
    options = _latency_options(preset, model, runtime, device, batches, transports, quick, None, own)
    few = batches.partition(",")[0] if quick else batches
    inside = _latency_options(preset, model, runtime, device, few, "grpc+shm", quick, None, "llama7b")

    def measure(say: Callable[[str], None]) -> tuple[Report, list[str]]:
        # Latency late: it leaves this process with a device, a server's clients and the heap of both behind.
        parts = [
            overhead.overhead(model, runtime, device, overhead.QUICK if quick else overhead.Plan(), say),
            throughput.throughput(model, runtime, device, throughput.QUICK if quick else throughput.Plan(), say),
            run.latency(options, say),
            stages.stages(inside, stages.QUICK if quick else stages.Plan(), say),
        ]
        return Report.joined([report for report, _ in parts]), [line for _, remarks in parts for line in remarks]

    _finish(measure, check, json, debug, samples, html, markdown)


@app.command()
def truth(runtime: Runtime = None, json: Json = None, debug: Debug = False) -> None:
    """The bench itself against a synthetic model whose times are known; exit 3 if a figure is off."""
    from bench.benches import truth

    _finish(lambda say: truth.truth(runtime, say), True, json, debug)


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(help="What --json wrote; several become one report.")],
    html: Html = None,
    markdown: Markdown = None,
    debug: Debug = False,
) -> None:
    """Show what --json wrote, or write it as a page or as Markdown."""
    from bench.report import document as forms
    from bench.report import pages as pages
    from bench.report import tables

    for path, hint in ((html, "--html"), (markdown, "--markdown")):
        _folder_exists(path, hint)
    try:
        shown = pages.document(pages.joined([pages.read(path) for path in files]))
    except pages.UnreadableError as error:
        _fail(error, debug)
    out = tables.console()
    lines = _write(shown, html, markdown)
    if not lines:
        forms.show(out, shown.sections)
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
    from bench.report import compare as pairs
    from bench.report import document as forms
    from bench.report import pages as pages
    from bench.report import tables

    for path, hint in ((html, "--html"), (markdown, "--markdown")):
        _folder_exists(path, hint)
    try:
        found = pairs.compare(pages.read(a), pages.read(b), (a.name, b.name), drift)
    except (pages.UnreadableError, ValueError) as error:
        _fail(error, debug)
    out = tables.console()
    forms.show(out, found.document.sections)
    for line in _write(found.document, html, markdown):
        out.print(line)
    raise typer.Exit(found.exit_code(check))


if __name__ == "__main__":
    app()
