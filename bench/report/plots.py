# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG text: no library, no script; colours come from the page's CSS, so that light and dark both work.

Each function takes the width it is drawn for; a page holds one drawing for wide screens and one for phones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = 6  # classes c0 … c5 of the page's CSS
CHARACTER = 6.6  # width of an average character of the page's 12 px font
WIDE, NARROW = 880, 340


@dataclass(frozen=True)
class Series:
    """One line of a `lines` plot: points (x, y), and how it is drawn."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    dashed: bool = False


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, roughly `count` of them."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten from `low` to `high`; powers alone over many decades."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1,) if last - first > 3 else (1, 2, 5)
    found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def number(value: float) -> str:
    """Write an axis number without needless digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1 else f"{value:g}"


def _legend(width: float, top: float, names: Sequence[tuple[str, int]]) -> tuple[list[str], float]:
    """Return the parts of a legend that wraps at `width`, and where it ends."""
    parts, x, y = [], 8.0, top
    for name, colour in names:
        needed = 18 + len(name) * CHARACTER + 14
        if x + needed > width and x > 8:
            x, y = 8.0, y + 18
        parts.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="11" height="11" rx="2" class="f{colour}"/>')
        parts.append(_text(x + 16, y, name))
        x += needed
    return parts, y + 10


def bars(
    rows: Sequence[tuple[str, str, float, float, float]],
    unit: str,
    label: str,
    width: float = WIDE,
    format_value: Callable[[float], str] = number,
) -> str:
    """Draw horizontal bars in groups, each with a whisker.

    Parameters
    ----------
    rows : sequence of (group, name, value, low, high)
        Rows of one group stand together under its name; a name keeps its colour. `low` and `high` are the ends of
        the whisker.
    unit : str
        Of the axis.
    format_value : callable
        Writes the value beside its bar.
    """
    names = list(dict.fromkeys(name for _, name, *_ in rows))
    legend, top = _legend(width, 14, [(name, i % COLOURS) for i, name in enumerate(names)])
    right, left, height = 64, 8.0, 17
    maximum = max((max(value, high) for *_, value, _, high in rows), default=1.0) or 1.0
    scale = (width - left - right) / maximum
    parts, y, group_before = list(legend), top, None
    for group, name, value, low, high in rows:
        if group != group_before:
            y += 22
            parts.append(_text(left, y - 5, group, kind="strong"))
            group_before = group
        tooltip = escape(f"{group}, {name}: {format_value(value)} {unit}")
        parts.append(
            f'<rect x="{left}" y="{y:.1f}" width="{max(value * scale, 1):.1f}" height="{height - 4}" rx="2" '
            f'class="f{names.index(name) % COLOURS}"><title>{tooltip}</title></rect>'
        )
        middle = y + (height - 4) / 2
        if high > low:
            parts.append(_line(left + low * scale, middle, left + high * scale, middle, "whisker"))
        parts.append(_text(left + max(value, high) * scale + 5, y + height - 6, format_value(value), kind="small"))
        y += height
    y += 6
    for value in ticks(0, maximum, 4 if width < 500 else 6):
        x = left + value * scale
        parts.insert(0, _line(x, top + 4, x, y, "grid"))
        parts.append(_text(x, y + 14, number(value), "middle", "small"))
    parts.append(_text(width - 4, y + 14, unit, "end", "small"))
    return _svg(width, y + 22, label, parts)


def waterfall(steps: Sequence[tuple[str, float]], unit: str, label: str, width: float = WIDE) -> str:
    """Draw steps one after another along time, each from where the one before ended, with its value.

    A step that is much longer than all others together is drawn shortened, with a break, so that the others show.
    """
    names_width = max((len(name) for name, _ in steps), default=1) * CHARACTER + 14
    values = [max(value, 0.0) for _, value in steps]
    rest = sum(values) - max(values, default=0.0)
    broken = max(values, default=0.0) > 3 * rest > 0
    drawn = [rest if broken and value == max(values) else value for value in values]
    left, right, height = names_width, 68, 20
    scale = (width - left - right) / (sum(drawn) or 1.0)
    parts, x, y = [], left, 8.0
    for step_number, ((name, value), shown) in enumerate(zip(steps, drawn, strict=True)):
        bar_width = max(shown * scale, 1.5)
        parts.append(_text(left - 8, y + 13, name, "end"))
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar_width:.1f}" height="{height - 6}" rx="2" '
            f'class="f{_stage_colour(name)}">'
            f"<title>{escape(f'{name}: {value:,.1f} {unit}')}</title></rect>"
        )
        if broken and value == max(values):
            middle = x + bar_width / 2
            for shift in (-4, 3):
                parts.append(_line(middle + shift - 3, y + height - 3, middle + shift + 3, y - 3, "break"))
        text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
        parts.append(_text(x + bar_width + 5, y + 12, text, kind="small"))
        if step_number + 1 < len(steps):
            parts.append(_line(x + shown * scale, y + height - 6, x + shown * scale, y + height, "grid"))
        x += shown * scale
        y += height
    tail = f"{unit}; one step is drawn shorter than it is" if broken else unit
    parts.append(_text(width - 4, y + 12, tail, "end", "small"))
    return _svg(width, y + 20, label, parts)


STAGE_COLOURS = {"client": 0, "network": 1, "server": 2, "queue": 2, "stub": 3}
DEVICE = ("H2D", "execute", "D2H", "H2D, execute, D2H", "run")


def _stage_colour(name: str) -> int:
    """Return the colour of a stage: one for each place where time is spent."""
    return 5 if name in DEVICE else STAGE_COLOURS.get(name.replace(",", "").split()[0], 4)


def lines(
    series: Sequence[Series],
    x_name: str,
    y_name: str,
    label: str,
    width: float = WIDE,
    limit: tuple[str, float] | None = None,
    log_y: bool = True,
) -> str:
    """Draw lines with points over a linear x axis from 0; `limit` is a named horizontal line."""
    height, left, right, bottom = (320.0 if width > 500 else 260.0), 54.0, 14.0, 42.0
    legend, top = _legend(width, 14, [(one.name, one.colour) for one in series])
    points = [point for one in series for point in one.points]
    ys = [y for _, y in points] + ([limit[1]] if limit else [])
    high_x = max(x for x, _ in points) * 1.04 or 1.0
    if log_y:
        low_y, high_y = min(ys) / 1.25, max(ys) * 1.25
        place = lambda y: top + (height - bottom - top) * (math.log(high_y / y) / math.log(high_y / low_y))  # noqa: E731
        marks = log_ticks(low_y, high_y)
    else:
        low_y, high_y = 0.0, max(ys) * 1.08 or 1.0
        place = lambda y: top + (height - bottom - top) * (1 - y / high_y)  # noqa: E731
        marks = ticks(low_y, high_y)
    across = lambda x: left + (width - left - right) * x / high_x  # noqa: E731
    parts = list(legend)
    for value in marks:
        parts.append(_line(left, place(value), width - right, place(value), "grid"))
        parts.append(_text(left - 6, place(value) + 4, number(value), "end", "small"))
    for value in ticks(0, high_x, 4 if width < 500 else 8):
        parts.append(_line(across(value), height - bottom, across(value), height - bottom + 4, "axis"))
        parts.append(_text(across(value), height - bottom + 17, number(value), "middle", "small"))
    parts.append(_line(left, height - bottom, width - right, height - bottom, "axis"))
    parts.append(_text(width - right, height - 6, x_name, "end", "small"))
    parts.append(_text(4, height - 6, f"↑ {y_name}", kind="small"))
    if limit:
        parts.append(_line(left, place(limit[1]), width - right, place(limit[1]), "limit"))
        parts.append(_text(left + 6, place(limit[1]) - 5, limit[0], kind="small"))
    for one in series:
        path = " ".join(f"{across(x):.1f},{place(y):.1f}" for x, y in one.points)
        dash = ' stroke-dasharray="5 4"' if one.dashed else ""
        parts.append(f'<polyline points="{path}" class="s{one.colour}"{dash}/>')
        for x, y in one.points:
            tooltip = escape(f"{one.name}: {number(round(x, 3))} {x_name}, {number(round(y, 3))} {y_name}")
            parts.append(
                f'<circle cx="{across(x):.1f}" cy="{place(y):.1f}" r="3.5" class="f{one.colour}">'
                f"<title>{tooltip}</title></circle>"
            )
    return _svg(width, height, label, parts)
