# SPDX-License-Identifier: Apache-2.0
"""The bench's terminal tables: readable at 100 columns, on a terminal and in a pipe."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.measure.records import Record, Report
from bench.report import build, document

WIDTH = 100
PIPE_WIDTH = 120  # the tables fit 100 columns; a pipe has room for unusually large figures


def console() -> Console:
    """Return the console for results: at least 100 columns wide, also where there is no terminal."""
    out = Console(file=sys.stdout, highlight=False)
    width = max(out.width, WIDTH) if out.is_terminal else PIPE_WIDTH
    return Console(file=sys.stdout, highlight=False, width=width)


def progress_console() -> Console:
    """Return the console for progress and errors: stderr, so that a pipe gets the tables alone."""
    return Console(stderr=True, highlight=False)


def escape_markup(text: str) -> str:
    """Escape rich's markup."""
    return escape(text)


def short_table(summary: dict, records: list[Record]) -> Table:
    """Return one model's short table: direct AscendCL and Triton, latency per batch and most requests/s."""
    batches = summary["batches"]
    load = summary["load"]
    p50 = {
        (r.path, r.transport, r.batch): r.p50_us
        for r in records
        if r.bench == "latency" and r.model == summary["model"]
    }
    table = Table(box=box.SIMPLE_HEAVY)
    table.add_column("p50 latency", no_wrap=True)
    for batch in batches:
        table.add_column(f"batch {batch}", justify="right", no_wrap=True)
    table.add_column("most requests/s", justify="right", no_wrap=True)
    transport = summary["transport"]
    rows = (
        ("direct AscendCL", summary["direct_path"], None, "direct_rows_per_s"),
        (f"Triton ({transport})", "triton", transport, "triton_rows_per_s"),
    )
    for label, path, over, rate in rows:
        cells = [f"{build.ms(p50[path, over, batch])} ms" for batch in batches]
        table.add_row(label, *cells, build.rate(load[rate]))
    return table


def detail_table(summary: dict, records: list[Record]) -> Table:
    """Return all rows of one model: percentiles in ms, rows/s, the gap to `c` with its spread, and gap / floor."""
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    table.add_column("", no_wrap=True)
    for heading in ("n", "p50", "p90", "p95", "p99", "mean", "rows/s", "gap", "p10…p90", "/floor", "-direct"):
        table.add_column(heading, justify="right", no_wrap=True)
    gaps = {(row["batch"], row["transport"]): row for row in summary["gaps"]}
    own_records = [record for record in records if record.model == summary["model"]]
    for batch in summary["batches"]:
        table.add_section()
        table.add_row(f"[bold]batch {batch}[/bold]")
        for record in (r for r in own_records if r.bench == "latency" and r.batch == batch):
            gap = gaps.get((batch, record.transport), {}) if record.path == "triton" else {}
            table.add_row(*_cells(record), *_gap_cells(gap))
    table.add_section()
    table.add_row("[bold]most rows/s[/bold]")
    for record in (r for r in own_records if r.bench == "throughput"):
        table.add_row(*_cells(record))
    return table


def _cells(record: Record) -> list[str]:
    if record.bench == "throughput":
        clients = f"{_short_name(record.path)} ×{record.concurrency}{', sent' if (record.slots or 1) > 1 else ''}"
        name = clients if record.transport else f"{record.path}, batch {record.batch}"
    else:
        path = "floor*" if record.path == "floor" and "pause" in record.timing else _short_name(record.path)
        name = f"{path} {record.transport or ''}".rstrip()
    times = [build.ms(value) for value in (record.p50_us, record.p90_us, record.p95_us, record.p99_us, record.mean_us)]
    return [name + ("" if record.stable else "~"), str(record.n), *times, build.rate(record.rows_per_s)]


def _short_name(path: str) -> str:
    return path.removeprefix("triton-")


def _gap_cells(gap: dict) -> list[str]:
    if not gap:
        return []
    to_direct = build.ms(gap["triton_minus_direct_us"])
    if "gap_us" not in gap:
        return ["", "", "", to_direct]
    spread = f"{build.ms(gap['gap_p10_us'])}…{build.ms(gap['gap_p90_us'])}"
    return [build.ms(gap["gap_us"]), spread, f"{gap['gap_to_floor']:.2f}", to_direct]


NOTES = (
    "c: AscendCL calls from C. direct: InferenceSession.run. floor: a Triton model that does nothing.",
    "gap: p50 of Triton minus p50 of c. p10…p90: of the differences, pair by pair. /floor: gap / floor.",
    "floor*: each call after a pause as long as the model's execution. p99 –: fewer than 100 samples.",
    "-direct: p50 of Triton minus p50 of direct. http+shm: the bench's lean client.",
    "plain: triton-plain, a Triton model written the usual way (NumPy joins rows, synchronous calls).",
    "~ unstable: three windows differ by over 10 %. ×16: clients of one row, over {transport}; sent: with",
    "responses sender and two slots.",
)


def microseconds(us: float | None) -> str:
    return "–" if us is None else f"{us:.2f}" if abs(us) < 100 else f"{us:,.0f}"


def overhead_table(summary: dict, records: list[Record]) -> Table:
    """Return every path of one model in µs, and how it compares with its counterpart in C."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("", no_wrap=True)
    for heading in ("n", "p50", "p90", "p99", "mean", "compared", "p50 / p50", "p10…p90", "µs apart"):
        table.add_column(heading, justify="right", no_wrap=True)
    ratios = {row["path"]: row for row in summary["ratios"]}
    for record in (r for r in records if r.bench == "overhead" and r.model == summary["model"]):
        times = [microseconds(us) for us in (record.p50_us, record.p90_us, record.p99_us, record.mean_us)]
        cells = [record.path + ("" if record.stable else "~"), str(record.n), *times]
        if row := ratios.get(record.path):
            cells += [
                f"with {row['to']}",
                f"{row['ratio']:.3f}",
                f"{row['ratio_p10']:.3f}…{row['ratio_p90']:.3f}",
                f"{row['apart_us']:+.2f}",
            ]
        table.add_row(*cells)
    return table


def throughput_table(summary: dict, records: list[Record]) -> Table:
    """Return rows/s of slots and devices."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("", "times"):
        table.add_column(heading, justify="left", no_wrap=True)
    for heading in ("rows/s", "compared"):
        table.add_column(heading, justify="right", no_wrap=True)
    bound = summary["slots"]["bound_rows_per_s"]
    for rate in summary["slots"]["rates"]:
        compared = f"{rate['rows_per_s'] / bound:.3f} of the engine bound {bound:g}" if bound else ""
        where = ", Triton" if rate["path"] == "triton" else ""
        _rate_row(table, rate, f"{rate['slots']} slot(s){where}", summary["slots"]["timing"], compared)
    one = summary["devices"]["rates"][0]["rows_per_s"]
    for rate in summary["devices"]["rates"]:
        name = f"{rate['devices']} device(s), {rate['slots']} slots each"
        _rate_row(table, rate, name, summary["devices"]["timing"], f"{rate['rows_per_s'] / one:.3f} × one device")
    return table


def _rate_row(table: Table, rate: dict, name: str, timing: str, compared: str) -> None:
    table.add_row(name + ("" if rate["stable"] else "~"), timing, build.rate(rate["rows_per_s"]), compared)


UNSTABLE_NOTE = "~ unstable: three windows differ by over 10 %. p99 –: fewer than 100 samples."
OVERHEAD_NOTES = (
    "direct: InferenceSession.run. borrow: batch.run() of a borrowed batch. c, c-pinned: the AscendCL calls from C.",
    "ctypes: the same calls from Python. Compared paths alternate call by call on one stream.",
    "malloc-per-call: the official GE backend's copy pattern (allocate, copy synchronously from pageable memory,",
    "execute, copy back, free) in C, and nothing more of that backend.",
    UNSTABLE_NOTE,
)


def show_overhead(out: Console, report: Report) -> None:
    summary = report.summary["overhead"]
    for model in summary["models"]:
        sizes = f"{model['bytes_in']:,} B in, {model['bytes_out']:,} B out"
        out.print(f"{model['model']} on {model['device']['name']}: {sizes}, in µs", style="bold")
        if model["hand_off"]:
            out.print(f"  hand-off to the device: {model['hand_off']}", style="dim")
        out.print(overhead_table(model, report.records))
    for line in OVERHEAD_NOTES:
        out.print(line, style="dim")
    counted = summary["allocations"] or ()
    for model in dict.fromkeys(row["model"] for row in counted):
        ways = [f"{row['path']} {row['allocations_per_request']:g}" for row in counted if row["model"] == model]
        out.print(f"allocations per request of {model}: {', '.join(ways)}")


def show_throughput(out: Console, report: Report) -> None:
    summary = report.summary["throughput"]
    out.print(f"rows/s on {summary['device']['name']}", style="bold")
    out.print(throughput_table(summary, report.records))
    held, grown, memory = summary["memory"]["held_bytes"], summary["memory"]["growth_bytes"], summary["memory"]
    out.print(f"after {memory['requests']:,} requests of mixed sizes (and since request {memory['settled']:,}):")
    out.print(
        f"  {held['resident'] / 2**20:.1f} MiB resident ({grown['resident'] / 2**20:+.2f}), {held['device']:,} bytes "
        f"on the device ({grown['device']:+,}), {held['pinned']:,} pinned ({grown['pinned']:+,})"
    )
    out.print(UNSTABLE_NOTE, style="dim")


def show_latency(out: Console, report: Report) -> None:
    """Print the short table of every model, then every detail table."""
    models = report.summary["models"]
    for summary in models:
        out.print(f"{summary['model']} on {summary['device']}", style="bold")
        out.print(short_table(summary, report.records))
        for line in summary["remarks"]:
            out.print(f"  {line}", style="dim")
        out.print()
    for summary in models:
        out.print(f"{summary['model']} on {summary['device']}: details in ms", style="bold")
        out.print(detail_table(summary, report.records))
    for line in NOTES:
        out.print(line.format(transport=models[0]["transport"]), style="dim")


def show_sections(out: Console, report: Report) -> None:
    """Print stages, load, advice and the use of the device, with the sections of `bench.report.build`."""
    summary = report.summary
    loads = map(build.load_section, summary.get("load", ()))
    advised = map(build.advice_section, summary.get("advice", ()))
    document.show(out, [*build.stages_sections(summary), *loads, *advised, *build.usage_sections(summary)])


PARTS = {"models": show_latency, "overhead": show_overhead, "throughput": show_throughput}


def show(out: Console, report: Report, remarks: list[str], check: bool) -> None:
    """Print the tables of every bench in the report, with `check` the limits, and the remarks."""
    for part, show_part in PARTS.items():
        if part in report.summary:
            out.print()
            show_part(out, report)
    show_sections(out, report)
    if check and report.limits:
        out.print("\nlimits", style="bold")
        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("", "measured", "limit", ""):
            table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
        for limit in report.limits:
            verdict = ("ok" if limit.ok else "[bold]missed[/bold]") + ("" if limit.stable else " ~")
            sign = "≥" if limit.at_least else "≤"
            table.add_row(limit.id, f"{limit.value:.3f}", f"{sign} {limit.limit:g}", verdict)
        out.print(table)
    for line in remarks:
        out.print(line)
