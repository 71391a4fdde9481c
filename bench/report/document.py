# SPDX-License-Identifier: Apache-2.0
"""A report as sections of text, tables, plots and code, and its forms: terminal, Markdown, one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from rich import box
from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table as RichTable

from bench.report.plots import NARROW, WIDE


@dataclass(frozen=True)
class Text:
    """A paragraph; `kind` may be ``note`` or ``warning``."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table: the first column is left, the others right unless named in `left`.

    A row with one cell is a heading inside the table. `strong` holds the numbers of rows that stand out.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: tuple[int, ...] = (0,)
    strong: tuple[int, ...] = ()
    short: bool = False


@dataclass(frozen=True)
class Plot:
    """A drawing: `draw` takes a width and returns SVG; terminals and Markdown leave it out."""

    title: str
    draw: Callable[[float], str]


@dataclass(frozen=True)
class Code:
    """Text to copy as it stands."""

    text: str


Block = Text | Table | Plot | Code


@dataclass(frozen=True)
class Section:
    """A part of a report; `device` is the label of the device its figures come from."""

    title: str
    device: str | None
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A whole report. `warning` stands above everything else."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    warning: str | None = None
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)


def show(out: Console, sections: Sequence[Section]) -> None:
    """Print sections to a terminal, without plots."""
    for section in sections:
        out.print()
        out.print(plain(_heading(section)), style="bold")
        for block in section.blocks:
            if isinstance(block, Table):
                out.print(_rich(block))
            elif isinstance(block, Code):
                out.print(plain(block.text.rstrip()), soft_wrap=True)
            elif isinstance(block, Text):
                style = {"note": "dim", "warning": "bold"}.get(block.kind, "")
                out.print(plain(block.text), style=style, soft_wrap=not block.kind)


def _heading(section: Section) -> str:
    return f"{section.title} on {section.device}" if section.device else section.title


def _rich(block: Table) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAVY if block.short else box.SIMPLE_HEAD, padding=(0, 1))
    for number, name in enumerate(block.header):
        table.add_column(plain(name), justify="left" if number in block.left else "right", overflow="fold")
    for number, row in enumerate(block.rows):
        if len(row) == 1 < len(block.header):
            table.add_section()
            table.add_row(f"[bold]{plain(row[0])}[/bold]")
        else:
            table.add_row(*map(plain, row), style="bold" if number in block.strong else None)
    return table


def markdown(document: Document) -> str:
    """Write a document as Markdown, without plots."""
    lines = [f"# {document.title}", "", document.subtitle, ""]
    if document.warning:
        lines += [f"> **{document.warning}**", ""]
    for section in document.sections:
        lines += [f"## {_heading(section)}", ""]
        for block in section.blocks:
            if isinstance(block, Table):
                lines += _markdown_table(block)
            elif isinstance(block, Code):
                lines += ["```", block.text.rstrip(), "```"]
            elif isinstance(block, Text):
                lines.append(f"**{block.text}**" if block.kind == "warning" else block.text)
            else:
                continue
            lines.append("")
    if document.facts:
        lines += ["## What was measured on what", ""]
        lines += _markdown_table(Table(("", ""), document.facts, (0, 1)))
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(block: Table) -> list[str]:
    def row(cells: Sequence[str]) -> str:
        padded = [*cells, *[""] * (len(block.header) - len(cells))]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in padded) + " |"

    marks = ["---" if number in block.left else "---:" for number in range(len(block.header))]
    lines = [row(block.header), row(marks)]
    for number, cells in enumerate(block.rows):
        strong = number in block.strong or len(cells) == 1 < len(block.header)
        lines.append(row([f"**{cell}**" if strong and cell else cell for cell in cells]))
    return lines


CSS = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2330; --soft: #5b6575; --line: #d9dee6; --card: #f6f8fa;
  --warn: #8a4b00; --warnback: #fff3dc; --limit: #c22f2f;
  --c0: #2f6fbb; --c1: #d9822b; --c2: #2a8f6f; --c3: #8e5bb5; --c4: #7a8594; --c5: #c2457a; }
@media (prefers-color-scheme: dark) { :root { --page: #14181f; --ink: #e6eaf0; --soft: #9aa5b5; --line: #333c49;
  --card: #1c222c; --warn: #ffce85; --warnback: #3a2c10; --limit: #ff7b72;
  --c0: #6aa8f0; --c1: #f0a860; --c2: #56c7a2; --c3: #bd93e0; --c4: #98a3b3; --c5: #ee7fae; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1000px; padding: 1.5rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h2 small { display: block; font-size: .8rem; font-weight: normal; color: var(--soft); }
p { margin: .5rem 0; } .note, figcaption, .sub { color: var(--soft); font-size: .87rem; }
.warning { background: var(--warnback); color: var(--warn); padding: .6rem .8rem; border-radius: 6px;
  font-weight: 600; }
.scroll { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: .87rem; }
table.short { font-size: 1rem; } th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; text-align: right; vertical-align: bottom; }
td { text-align: right; white-space: nowrap; } th.l, td.l { text-align: left; }
td.wrap { white-space: normal; min-width: 12rem; }
td:first-child, th:first-child { position: sticky; left: 0; background: var(--page); }
tr.group td { font-weight: 600; padding-top: .8rem; } tr.strong td { font-weight: 600; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  overflow-x: auto; font-size: .85rem; }
figure { margin: 1rem 0; } svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
svg text.small { fill: var(--soft); font-size: 11px; } svg text.strong { font-weight: 600; }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.whisker { stroke: var(--ink); stroke-width: 1.5; opacity: .6; }
.limit { stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 6 4; }
.break { stroke: var(--page); stroke-width: 3; }
polyline { fill: none; stroke-width: 2; }
.narrow { display: none; }
@media (max-width: 620px) { body { padding: 1rem .75rem 3rem; } .wide { display: none; } .narrow { display: block; }
  h1 { font-size: 1.3rem; } table.short { font-size: .76rem; } table.short th, table.short td { padding: .3rem .25rem; }
  th, td { padding: .3rem .4rem; } td:first-child { white-space: normal; min-width: 6.2rem; }
  table.short td:first-child { min-width: 0; } td.l:not(:first-child) { white-space: normal; min-width: 10rem; } }
""" + "".join(
    f".f{number} {{ fill: var(--c{number}); }} .s{number} {{ stroke: var(--c{number}); }}\n" for number in range(6)
)


def html(document: Document) -> str:
    """Write a document as one HTML page that needs nothing else, with every plot for wide screens and for phones."""
    parts = [f"<h1>{escape(document.title)}</h1>", f'<p class="sub">{escape(document.subtitle)}</p>']
    if document.warning:
        parts.append(f'<p class="warning">{escape(document.warning)}</p>')
    for section in document.sections:
        device = f"<small>{escape(section.device)}</small>" if section.device else ""
        parts.append(f"<section><h2>{escape(section.title)}{device}</h2>")
        parts += map(_html_block, section.blocks)
        parts.append("</section>")
    if document.facts:
        parts.append("<section><h2>What was measured on what</h2>")
        parts.append(_html_table(Table(("", ""), document.facts, (0, 1))))
        parts.append("</section>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(document.title)}</title><style>{CSS}</style></head>\n<body>'
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _html_block(block: Block) -> str:
    if isinstance(block, Table):
        return _html_table(block)
    if isinstance(block, Code):
        return f"<pre>{escape(block.text.rstrip())}</pre>"
    if isinstance(block, Text):
        return f'<p class="{block.kind}">{escape(block.text)}</p>'
    drawings = "".join(
        f'<div class="{kind}">{block.draw(width)}</div>' for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )
    return f"<figure><figcaption>{escape(block.title)}</figcaption>{drawings}</figure>"


def _html_table(block: Table) -> str:
    def cell(tag: str, number: int, text: str) -> str:
        kinds = ["l"] if number in block.left else []
        kinds += ["wrap"] if len(text) > 60 else []
        return f'<{tag} class="{" ".join(kinds)}">{escape(text)}</{tag}>' if kinds else f"<{tag}>{escape(text)}</{tag}>"

    lines = [f'<div class="scroll"><table{" class=short" if block.short else ""}>']
    if any(block.header):
        head = "".join(cell("th", number, text) for number, text in enumerate(block.header))
        lines.append(f"<thead><tr>{head}</tr></thead>")
    lines.append("<tbody>")
    for number, row in enumerate(block.rows):
        if len(row) == 1 < len(block.header):
            lines.append(f'<tr class="group"><td class="l" colspan="{len(block.header)}">{escape(row[0])}</td></tr>')
        else:
            kind = ' class="strong"' if number in block.strong else ""
            lines.append(f"<tr{kind}>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>")
    return "".join([*lines, "</tbody></table></div>"])
