# SPDX-License-Identifier: Apache-2.0
"""Which rows of the requests of a call run together: chosen once at load, from the model and its configuration."""

from collections.abc import Sequence
from typing import Protocol

from ge_core.batching import Execution, GearGroup, group_gears, plan, plan_by_split_table, trailing_shapes
from ge_core.engine import engine_of
from ge_core.serving.execution.requests import RequestState
from ge_core.serving.execution.running import (
    SMALLEST_GEAR,
    InFlightBatch,
    MergedRows,
    UnknownOutputRequest,
    WholeRequest,
)
from ge_core.serving.model_config import Binding, ConfigError


class Planner(Protocol):
    """Plans the batches of a call."""

    def plan(self, states: Sequence[RequestState]) -> list[InFlightBatch]:
        """The batches of these requests, whose inputs are read: every row exactly once."""


class SmallestGearPlanner:
    """For models cut by rows: whole requests together, in the smallest gear that holds them.

    Parameters
    ----------
    gears : sequence of int
        Batch sizes, ascending.
    """

    def __init__(self, gears: Sequence[int]):
        self._gears = gears

    def plan(self, states: Sequence[RequestState]) -> list[InFlightBatch]:
        """See Planner."""
        if len(states) == 1 and states[0].rows <= self._gears[-1]:  # nothing to plan, and the most usual call
            return [WholeRequest(states[0])]
        return [_batch(execution, states) for execution in plan([state.rows for state in states], self._gears)]


class SplitTablePlanner:
    """For models cut by rows with ``gear_plan: time``: the rows of a call cut as a table says.

    Parameters
    ----------
    gears : sequence of int
        Batch sizes, ascending.
    table : sequence of sequence of int
        `Engine.split_table`.
    """

    def __init__(self, gears: Sequence[int], table: Sequence[Sequence[int]]):
        self._gears, self._table = gears, table

    def plan(self, states: Sequence[RequestState]) -> list[InFlightBatch]:
        """See Planner."""
        rows = [state.rows for state in states]
        return [_batch(execution, states) for execution in plan_by_split_table(rows, self._gears, self._table)]


class ShapePlanner:
    """For all other models: requests of one trailing shape together where there is a group for it, else one by one.

    Parameters
    ----------
    gear_shapes : sequence of (input shapes, output shapes)
        Of each gear; none for range models.
    grouped : mapping of trailing shape to GearGroup
        From `ge_core.batching.group_gears`; empty where the configuration does not say that axis 0 is the batch.
    """

    def __init__(self, gear_shapes: Sequence[tuple], grouped: dict[tuple, GearGroup]):
        self._groups = grouped
        self._gears = {inputs: (gear, outputs) for gear, (inputs, outputs) in enumerate(gear_shapes)}

    def plan(self, states: Sequence[RequestState]) -> list[InFlightBatch]:
        """See Planner."""
        batches: list[InFlightBatch] = []
        together: dict[int, tuple[GearGroup, list[RequestState]]] = {}
        for state in states:
            shapes = state.inputs.shapes if state.inputs is not None else ()
            if group := self._groups.get(trailing_shapes(shapes)):
                state.output_shapes = group.output_shapes(state.rows)
                together.setdefault(id(group), (group, []))[1].append(state)
            else:
                batches.append(self._one_request(state, shapes))
        for group, members in together.values():
            for execution in plan([state.rows for state in members], group.rows):
                batches.append(_batch(execution, members, group.gears[group.rows.index(execution.gear)]))
        return batches

    def _one_request(self, state: RequestState, shapes: tuple) -> InFlightBatch:
        state.rows = 0
        if shapes not in self._gears:
            return UnknownOutputRequest(state)
        gear, state.output_shapes = self._gears[shapes]
        return WholeRequest(state, gear)


def _batch(execution: Execution, states: Sequence[RequestState], gear: int = SMALLEST_GEAR) -> InFlightBatch:
    return MergedRows(execution.rows, [(states[row_slice.request], row_slice) for row_slice in execution.slices], gear)


def planner_of(session, binding: Binding) -> Planner:
    """The planner of an opened model.

    Raises
    ------
    ConfigError
        The configuration asks for batches of a model whose outputs cannot be cut by rows.
    """
    description, engine = session.description, engine_of(session)
    if description.max_rows == 0:
        return ShapePlanner(engine.gear_shapes, _groups(session) if binding.max_batch_size else {})
    gears = tuple(description.gears) if description.gear_kind == "batch" else (description.max_rows,)
    if engine.split_table is not None:
        return SplitTablePlanner(gears, engine.split_table)
    return SmallestGearPlanner(gears)


def _groups(session) -> dict[tuple, GearGroup]:
    """Gears by trailing shape, for a model that is cut by rows because its configuration says so."""
    outputs = [spec.name for spec in session.description.outputs]
    try:
        found = group_gears(engine_of(session).gear_shapes, outputs)
    except ValueError as error:
        raise ConfigError(f"max_batch_size above 0: {error}; use max_batch_size: 0") from None
    loose = [name for name in outputs if session.output_axes and 0 not in session.output_axes.get(name, ())]
    if loose:
        raise ConfigError(
            "max_batch_size above 0 with output_axes: axis 0 must follow axis 0 of an input in each output, and "
            f"nothing says so of {', '.join(loose)}"
        )
    return found
