# SPDX-License-Identifier: Apache-2.0
"""Which rows run together in which gear. Pure planning: no arrays, no device."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class RowSlice(NamedTuple):
    """`rows` consecutive rows of one request inside one execution."""

    request: int  # position of the request in the call
    start: int  # the first of these rows in the request
    row: int  # where that row is in the execution
    rows: int


class Execution(NamedTuple):
    """One run of the model: `rows` rows in a gear that holds them; the gear's other rows are padding."""

    gear: int
    rows: int
    slices: list[RowSlice]


def smallest_gear(rows: int, gears: Sequence[int]) -> int:
    """The smallest gear that holds `rows`, the largest one if none does.

    Parameters
    ----------
    rows : int
    gears : sequence of int
        Ascending, at least one.
    """
    return gears[min(bisect_left(gears, rows), len(gears) - 1)]


def plan(rows: Sequence[int], gears: Sequence[int]) -> list[Execution]:
    """Pack requests into executions, in order.

    A request that fits into the largest gear stays in one execution. A longer one fills the largest gear as often as it
    can, and its remaining rows run together with the requests that follow.

    Parameters
    ----------
    rows : sequence of int
        Rows of each request, each at least 1.
    gears : sequence of int
        Batch gears, ascending.

    Returns
    -------
    list of Execution
        Every row of every request exactly once.
    """
    largest = gears[-1]
    executions: list[Execution] = []
    slices: list[RowSlice] = []
    used = 0

    def end_execution() -> None:
        nonlocal slices, used
        executions.append(Execution(smallest_gear(used, gears), used, slices))
        slices, used = [], 0

    for request, left in enumerate(rows):
        start = 0
        if used + left > largest and used:
            end_execution()
        while left > largest:
            slices.append(RowSlice(request, start, 0, largest))
            used = largest
            end_execution()
            start += largest
            left -= largest
        slices.append(RowSlice(request, start, used, left))
        used += left
    if slices:
        end_execution()
    return executions


def plan_by_split_table(rows: Sequence[int], gears: Sequence[int], table: Sequence[Sequence[int]]) -> list[Execution]:
    """Split all rows of a call into the executions that cost least; a request may be in several of them.

    Parameters
    ----------
    rows : sequence of int
        Rows of each request, each at least 1.
    gears : sequence of int
        Batch gears, ascending.
    table : sequence of sequence of int
        From :func:`split_table`, for the same gears.

    Returns
    -------
    list of Execution
        Every row of every request exactly once, in order.
    """
    full, rest = divmod(sum(rows), gears[-1])
    executions: list[Execution] = []
    request, start = 0, 0
    for size in [*list(table[gears[-1]]) * full, *table[rest]]:
        slices: list[RowSlice] = []
        row = 0
        while row < size:
            count = min(size - row, rows[request] - start)
            slices.append(RowSlice(request, start, row, count))
            row += count
            start += count
            if start == rows[request]:
                request, start = request + 1, 0
        executions.append(Execution(smallest_gear(size, gears), size, slices))
    return executions


def split_table(gears: Sequence[int], times: Sequence[float]) -> list[list[int]]:
    """The cheapest ways to run a number of rows, by the time that each gear takes.

    Parameters
    ----------
    gears : sequence of int
        Batch gears, ascending.
    times : sequence of float
        What one execution of each gear costs, in any unit.

    Returns
    -------
    list of list of int
        Entry n, for n up to the largest gear: the rows of each execution when n rows are to run, largest first.
    """
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for rows in range(1, gears[-1] + 1):
        best.append(
            min(
                (cost + best[rows - first][0], [first, *best[rows - first][1]])
                for gear, cost in zip(gears, times, strict=True)
                for first in [min(gear, rows)]
            )
        )
    return [sorted(sizes, reverse=True) for _, sizes in best]


class GearGroup(NamedTuple):
    """The gears whose tensors have the same shapes but for axis 0."""

    rows: list[int]  # of each gear, ascending
    gears: list[int]  # which entry of the shapes each gear is
    outputs: list[tuple[int, ...]]  # of each output: its rows for one row of the batch, and its trailing shape

    def output_shapes(self, rows: int) -> tuple[tuple[int, ...], ...]:
        """The shape of each output for so many rows of the batch."""
        return tuple((rows * multiple, *shape) for multiple, *shape in self.outputs)


def trailing_shapes(shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The shapes without axis 0: what requests must share to be rows of one execution."""
    return tuple(tuple(shape[1:]) for shape in shapes)


def group_gears(shapes: Sequence[tuple], outputs: Sequence[str]) -> dict[tuple, GearGroup]:
    """Group gears by the trailing shapes of their inputs, for a model whose user says that axis 0 is the batch.

    Parameters
    ----------
    shapes : sequence of (input shapes, output shapes)
        Of each gear; the inputs of one agree in axis 0.
    outputs : sequence of str
        Names.

    Returns
    -------
    dict of trailing shapes to GearGroup

    Raises
    ------
    ValueError
        An output whose axis 0 is not the same multiple of the batch at every gear; names it.
    """
    groups: dict[tuple, GearGroup] = {}
    multiples: list[int] = []
    for gear, (ins, outs) in sorted(enumerate(shapes), key=lambda one: one[1][0][0][0]):
        rows = ins[0][0]
        own = [shape[0] // rows if shape and shape[0] % rows == 0 else 0 for shape in outs]
        multiples = multiples or own
        ends = [(multiple, *shape[1:]) for multiple, shape in zip(own, outs, strict=True)]
        group = groups.setdefault(trailing_shapes(ins), GearGroup([], [], ends))
        for name, shape, multiple, end, same, first in zip(
            outputs, outs, own, ends, group.outputs, multiples, strict=True
        ):
            if not multiple or multiple != first or end != same:
                given = ", ".join(str(list(one)) for one in ins)
                raise ValueError(
                    f"output {name!r} is {list(shape)} for inputs {given}: it cannot be cut by rows, as its axis 0 is "
                    "not the same multiple of the batch at every gear, or other axes grow with the batch"
                )
        group.rows.append(rows)
        group.gears.append(gear)
    return groups
