"""Which rows run together in which gear. Pure planning: no arrays, no device."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """`count` rows of one request inside one execution."""

    request: int  # position of the request in the call
    start: int  # the first of its rows in this part
    row: int  # where that row lies in the execution
    count: int  # type: ignore[assignment]  # hides tuple.count


class Execution(NamedTuple):
    """One run of the model: `rows` rows in a gear that holds them; the gear's other rows are padding."""

    gear: int
    rows: int
    parts: list[Part]


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
    """Packs requests into executions, in order.

    A request that fits the largest gear is never torn apart; a longer one is cut at the largest gear, and its remainder
    runs together with what follows.

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
    parts: list[Part] = []
    used = 0

    def flush():
        nonlocal parts, used
        executions.append(Execution(smallest_gear(used, gears), used, parts))
        parts, used = [], 0

    for request, count in enumerate(rows):
        start = 0
        if used + count > largest and used:
            flush()
        while count > largest:
            parts.append(Part(request, start, 0, largest))
            used = largest
            flush()
            start += largest
            count -= largest
        parts.append(Part(request, start, used, count))
        used += count
    if parts:
        flush()
    return executions


def plan_by_cuts(rows: Sequence[int], gears: Sequence[int], cuts: Sequence[Sequence[int]]) -> list[Execution]:
    """Cuts all rows of a call into the executions that `cuts` says, requests torn apart where they must be.

    Parameters
    ----------
    rows : sequence of int
        Rows of each request, each at least 1.
    gears : sequence of int
        Batch gears, ascending.
    cuts : sequence of sequence of int
        From `cuts()`.
    """
    full, rest = divmod(sum(rows), gears[-1])
    executions, request, start = [], 0, 0
    for size in [*list(cuts[gears[-1]]) * full, *cuts[rest]]:
        parts, row = [], 0
        while row < size:
            count = min(size - row, rows[request] - start)
            parts.append(Part(request, start, row, count))
            row += count
            start += count
            if start == rows[request]:
                request, start = request + 1, 0
        executions.append(Execution(smallest_gear(size, gears), size, parts))
    return executions


def cuts(gears: Sequence[int], times: Sequence[float]) -> list[list[int]]:
    """The cheapest ways to run a number of rows, by the time each gear takes.

    Parameters
    ----------
    gears : sequence of int
        Batch gears, ascending.
    times : sequence of float
        What one execution of each costs.

    Returns
    -------
    list of list of int
        Entry n: the rows of each execution that n rows are cut into (n up to the largest gear), largest first.
    """
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for rows in range(1, gears[-1] + 1):
        best.append(
            min(
                (cost + best[rows - part][0], [part, *best[rows - part][1]])
                for gear, cost in zip(gears, times, strict=True)
                for part in [min(gear, rows)]
            )
        )
    return [sorted(parts, reverse=True) for _, parts in best]


class Group(NamedTuple):
    """The gears of one trailing shape (all dims but axis 0, of all tensors)."""

    rows: list[int]  # ascending
    gears: list[int]  # which entry of the shapes each is
    outputs: list[tuple[int, ...]]  # what one row of the batch is in each output: its rows, and their trailing shape

    def output_shapes(self, rows: int) -> tuple[tuple[int, ...], ...]:
        return tuple((rows * multiple, *trailing) for multiple, *trailing in self.outputs)


def trailing(shapes: Sequence[Sequence[int]]) -> tuple:
    """What requests must share to be rows of one execution."""
    return tuple(tuple(shape[1:]) for shape in shapes)


def groups(shapes: Sequence[tuple], outputs: Sequence[str]) -> dict[tuple, Group]:
    """Gears by trailing shape, for a model whose user says that axis 0 is the batch.

    Parameters
    ----------
    shapes : sequence of (input shapes, output shapes)
        Of each gear; the inputs of one agree in axis 0.
    outputs : sequence of str
        Names.

    Raises
    ------
    ValueError
        An output whose axis 0 is not one multiple of the batch at every gear; names it.
    """
    found: dict[tuple, Group] = {}
    multiples: list[int] = []
    for gear, (ins, outs) in sorted(enumerate(shapes), key=lambda one: one[1][0][0][0]):
        rows = ins[0][0]
        own = [shape[0] // rows if shape and shape[0] % rows == 0 else 0 for shape in outs]
        multiples = multiples or own
        ends = [(multiple, *shape[1:]) for multiple, shape in zip(own, outs, strict=True)]
        group = found.setdefault(trailing(ins), Group([], [], ends))
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
    return found
