"""The bench's terminal tables: readable at 100 columns, on a terminal and in a pipe."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.records import Record, Report

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


def plain(text: str) -> str:
    """Escape rich's markup."""
    return escape(text)


def milliseconds(us: float | None) -> str:
    if us is None:
        return "–"
    size = abs(us)
    return f"{us / 1e3:.{3 if size < 10_000 else 2 if size < 100_000 else 1}f}"


def number(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def short_table(summary: dict, records: list[Record]) -> Table:
    """One model's table as people know it: direct AscendCL and Triton, latency per batch and most requests/s."""
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
        cells = [f"{milliseconds(p50[path, over, batch])} ms" for batch in batches]
        table.add_row(label, *cells, number(load[rate]))
    return table


def detail_table(summary: dict, records: list[Record]) -> Table:
    """All rows of one model: percentiles in ms, rows/s, the gap to `c` with its spread, and gap / floor."""
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    table.add_column("", no_wrap=True)
    for heading in ("n", "p50", "p90", "p95", "p99", "mean", "rows/s", "gap", "p10…p90", "/floor", "-direct"):
        table.add_column(heading, justify="right", no_wrap=True)
    gaps = {(row["batch"], row["transport"]): row for row in summary["gaps"]}
    mine = [record for record in records if record.model == summary["model"]]
    for batch in summary["batches"]:
        table.add_section()
        table.add_row(f"[bold]batch {batch}[/bold]")
        for record in (r for r in mine if r.bench == "latency" and r.batch == batch):
            gap = gaps.get((batch, record.transport), {}) if record.path == "triton" else {}
            table.add_row(*_cells(record), *_gap_cells(gap))
    table.add_section()
    table.add_row("[bold]most rows/s[/bold]")
    for record in (r for r in mine if r.bench == "throughput"):
        table.add_row(*_cells(record))
    return table


def _cells(record: Record) -> list[str]:
    if record.bench == "throughput":
        name = f"{record.path} ×{record.concurrency}" if record.transport else f"{record.path}, batch {record.batch}"
    else:
        path = "floor*" if record.path == "floor" and "pause" in record.timing else record.path
        name = f"{path} {record.transport or ''}".rstrip()
    times = [
        milliseconds(value) for value in (record.p50_us, record.p90_us, record.p95_us, record.p99_us, record.mean_us)
    ]
    return [name + ("" if record.stable else "~"), str(record.n), *times, number(record.rows_per_s)]


def _gap_cells(gap: dict) -> list[str]:
    if not gap:
        return []
    to_direct = milliseconds(gap["triton_minus_direct_us"])
    if "gap_us" not in gap:
        return ["", "", "", to_direct]
    spread = f"{milliseconds(gap['gap_p10_us'])}…{milliseconds(gap['gap_p90_us'])}"
    return [milliseconds(gap["gap_us"]), spread, f"{gap['gap_to_floor']:.2f}", to_direct]


NOTES = (
    "c: AscendCL calls from C. direct: InferenceSession.run. floor: a Triton model that does nothing.",
    "gap: p50 of Triton minus p50 of c. p10…p90: of the differences, pair by pair. /floor: gap / floor.",
    "floor*: each call after a pause as long as the model's execution. p99 –: fewer than 100 samples.",
    "-direct: p50 of Triton minus p50 of direct. http+shm: the bench's lean client.",
    "~ unstable: three windows differ by over 10 %. ×16: clients of one row, over {transport}.",
)


def show(out: Console, report: Report, remarks: list[str], check: bool) -> None:
    """Print the short table of every model, then every detail table, with `check` the limits, and the remarks."""
    models = report.summary["models"]
    out.print()
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
    if check and report.limits:
        out.print("\nlimits", style="bold")
        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("", "measured", "limit", ""):
            table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
        for limit in report.limits:
            table.add_row(
                limit.id, f"{limit.value:.2f}", f"≤ {limit.limit:.2f}", "ok" if limit.ok else "[bold]missed[/bold]"
            )
        out.print(table)
    for line in remarks:
        out.print(line)
