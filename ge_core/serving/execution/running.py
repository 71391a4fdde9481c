# SPDX-License-Identifier: Apache-2.0
"""Batches on the device: started with the rows of their requests, finished with the rows of their responses."""

import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from ge_core.batching import RowSlice
from ge_core.engine import Engine
from ge_core.serving.execution.failures import CancelledError, Failures
from ge_core.serving.execution.requests import RequestState
from ge_core.serving.execution.responses import ResponseBuilder

# Requests that waited longer inside execute are asked whether they are cancelled, which costs 50 us each.
CANCEL_CHECK_AFTER_S = 0.005
SMALLEST_GEAR = -1  # the smallest one that holds the rows


class InFlightBatch(ABC):
    """One execution of the model, planned or running.

    Attributes
    ----------
    states : sequence of RequestState
        The requests whose rows it holds, or held before `drop_failed`.
    active : bool
        Whether it holds any rows.
    error : Exception or None
        What kept it from starting.
    """

    states: Sequence[RequestState]
    active = True
    error: Exception | None = None
    _work: Any = None  # what `Engine` started

    @property
    @abstractmethod
    def size(self) -> Hashable:
        """Batches of equal size take equal time."""

    @abstractmethod
    def start(self, engine: Engine, responses: ResponseBuilder) -> None:
        """Copy the rows in and start the device, then prepare the responses. Blocks until a slot is free."""

    @abstractmethod
    def finish(self, responses: ResponseBuilder) -> None:
        """Wait for the device and copy the rows out."""

    @abstractmethod
    def drop_failed(self) -> None:
        """Before it starts: take out the rows of requests that have an error."""

    def stop(self, error: Exception) -> None:
        """It did not start: keep why, and free its slot."""
        self.error = error
        if self._work is not None:
            self._work.close()


class WholeRequest(InFlightBatch):
    """One request in a batch of its own.

    Parameters
    ----------
    state : RequestState
    gear : int
        Which entry of `Engine.gear_shapes`, or SMALLEST_GEAR.
    """

    def __init__(self, state: RequestState, gear: int = SMALLEST_GEAR):
        self._state, self._gear, self.states = state, gear, (state,)
        state.pending_batches = 1

    @property
    def size(self) -> Hashable:
        """See InFlightBatch."""
        return self._state.rows, self._gear

    def start(self, engine: Engine, responses: ResponseBuilder) -> None:
        """See InFlightBatch."""
        state = self._state
        self._work = engine.launch(state.rows, ((state.inputs, 0, 0, state.rows),), self._gear)
        responses.prepare(state)

    def finish(self, responses: ResponseBuilder) -> None:
        """See InFlightBatch."""
        self._work.collect(self._state.outputs.all_copies)

    def drop_failed(self) -> None:
        """See InFlightBatch."""
        self.active = self._state.error is None


class UnknownOutputRequest(WholeRequest):
    """One request whose output shapes are known only after it has run."""

    def start(self, engine: Engine, responses: ResponseBuilder) -> None:
        """Copy the inputs in and start the device. Blocks until a slot is free."""
        self._work = engine.submit(self._state.inputs)

    def finish(self, responses: ResponseBuilder) -> None:
        """Wait for the device, then make the response over its outputs."""
        responses.set_arrays(self._state, self._work.result())


class MergedRows(InFlightBatch):
    """Rows of several requests, or some of the rows of one.

    Parameters
    ----------
    rows : int
    slices : sequence of (RequestState, RowSlice)
        Whose rows it holds, and which.
    gear : int
        Which entry of `Engine.gear_shapes`, or SMALLEST_GEAR.
    """

    def __init__(self, rows: int, slices: Sequence[tuple[RequestState, RowSlice]], gear: int = SMALLEST_GEAR):
        self._rows, self._slices, self._gear = rows, slices, gear
        self.states = [state for state, _ in slices]
        for state in self.states:
            state.pending_batches += 1

    @property
    def size(self) -> Hashable:
        """See InFlightBatch."""
        return self._rows, self._gear

    def start(self, engine: Engine, responses: ResponseBuilder) -> None:
        """See InFlightBatch."""
        puts = [(state.inputs, row_slice.row, row_slice.start, row_slice.rows) for state, row_slice in self._slices]
        self._work = engine.launch(self._rows, puts, self._gear)
        for state, _ in self._slices:
            if state.response is None:
                responses.prepare(state)

    def finish(self, responses: ResponseBuilder) -> None:
        """See InFlightBatch."""
        copies: list[tuple] = []
        for state, row_slice in self._slices:
            copies += state.outputs.copies(row_slice)
        self._work.collect(copies)

    def drop_failed(self) -> None:
        """See InFlightBatch."""
        kept: list[tuple[RequestState, RowSlice]] = []
        self._rows = 0
        for state, row_slice in self._slices:
            if state.error is None:
                kept.append((state, row_slice._replace(row=self._rows)))
                self._rows += row_slice.rows
        self._slices, self.active = kept, bool(kept)


class BatchRunner(Protocol):
    """Starts and finishes batches: a `Runner`, or what a measurement puts around one."""

    def start(self, batch: InFlightBatch, began: float) -> None:
        """See Runner."""

    def finish(self, batch: InFlightBatch) -> None:
        """See Runner."""


class Runner:
    """Starts and finishes the batches of one served model.

    Parameters
    ----------
    engine : ge_core.engine.Engine
    responses : ResponseBuilder
    failures : Failures
    """

    def __init__(self, engine: Engine, responses: ResponseBuilder, failures: Failures):
        self._engine, self._responses, self._failures = engine, responses, failures

    def start(self, batch: InFlightBatch, began: float) -> None:
        """Start a batch without those of its requests that were cancelled. An error is kept for `finish`.

        Blocks until a slot is free. Output tensors are taken and responses made while the device works, so that after
        it ends nothing is left to do but to copy rows.

        Parameters
        ----------
        began : float
            When its requests came, on the clock `time.monotonic`.
        """
        try:
            if time.monotonic() - began > CANCEL_CHECK_AFTER_S:
                self._drop_cancelled(batch)
            if batch.active:
                batch.start(self._engine, self._responses)
        except Exception as error:
            batch.stop(error)

    def finish(self, batch: InFlightBatch) -> None:
        """Wait for a batch and copy its rows out; an error goes to its requests. They await this batch no more."""
        try:
            if batch.error is not None:
                raise batch.error
            if batch.active:
                batch.finish(self._responses)
        except Exception as error:
            batch.error = None
            self._failures.fail(batch.states, error)
        finally:
            for state in batch.states:
                state.pending_batches -= 1

    def _drop_cancelled(self, batch: InFlightBatch):
        """None of the batch's requests is answered yet: asking an answered one kills Triton."""
        for state in batch.states:
            asked = getattr(state.request, "is_cancelled", None)  # not before 23.10
            if state.error is None and asked is not None and asked():
                cause = CancelledError("the request was cancelled before it ran")
                state.error = self._failures.report(cause, state.request)
        if any(state.error is not None for state in batch.states):
            batch.drop_failed()
