"""Batches on the device: started with the rows of their requests, finished with the rows of their responses."""

import time
from collections.abc import Sequence
from typing import Any

from ge_core.batching import Part
from ge_core.engine import Engine
from ge_core.serving.execution.failures import CancelledError, Failures
from ge_core.serving.execution.requests import RequestState
from ge_core.serving.execution.responses import ResponseBuilder

# Requests that waited longer inside execute are asked whether they are cancelled, which costs 50 us each.
CANCEL_CHECK_AFTER_S = 0.005
SMALLEST_GEAR = -1  # the smallest one that holds the rows


class InFlightBatch:
    """One execution of the model, planned or running.

    Attributes
    ----------
    rows : int
        0 for a whole request.
    gear : int
        Which entry of `Engine.gear_shapes`, or SMALLEST_GEAR.
    slices : sequence of (RequestState, Part)
        Whose rows it holds, and which.
    active : sequence of (RequestState, Part)
        `slices` without those that were dropped before it started.
    error : Exception or None
        What kept it from starting.
    """

    __slots__ = ("_work", "active", "error", "gear", "rows", "slices")

    def __init__(self, rows: int, slices: Sequence[tuple[RequestState, Part]], gear: int = SMALLEST_GEAR):
        self.rows, self.gear, self.slices = rows, gear, slices
        self.active = slices
        self.error: Exception | None = None
        self._work: Any = None
        for state, _ in slices:
            state.pending_batches += 1

    @property
    def size(self) -> tuple:
        """Batches of equal size take equal time."""
        return self.rows, self.gear

    def start(self, engine: Engine, responses: ResponseBuilder) -> None:
        """Copy the rows in and start the device, then prepare the responses. Blocks until a slot is free."""
        puts = [(state.inputs, part.row, part.start, part.count) for state, part in self.active]
        self._work = engine.launch(self.rows, puts, self.gear)
        for state, _ in self.active:
            if state.response is None:
                responses.prepare(state)

    def finish(self, responses: ResponseBuilder) -> None:
        """Wait for the device and copy the rows out."""
        copies: list[tuple] = []
        for state, part in self.active:
            copies += state.outputs.copies(part)
        self._work.collect(copies)

    def stop(self, error: Exception) -> None:
        """It did not start: keep why, and free its slot."""
        self.error = error
        if self._work is not None:
            self._work.close()

    def drop_failed(self) -> None:
        """Before it starts: take out the rows of requests that have an error."""
        active: list[tuple[RequestState, Part]] = []
        self.rows = 0
        for state, part in self.slices:
            if state.error is None:
                active.append((state, part._replace(row=self.rows)))
                self.rows += part.count
        self.active = active


class InFlightRequest(InFlightBatch):
    """One whole request whose output shapes are known only after it has run."""

    __slots__ = ()

    def __init__(self, state: RequestState):
        super().__init__(0, ((state, Part(0, 0, 0, 0)),))

    def start(self, engine: Engine, responses: ResponseBuilder) -> None:
        """Copy the inputs in and start the device. Blocks until a slot is free."""
        ((state, _),) = self.slices
        self._work = engine.submit(state.inputs)

    def finish(self, responses: ResponseBuilder) -> None:
        """Wait for the device, then make the response over its outputs."""
        arrays = self._work.result()
        for state, _ in self.slices:
            responses.set_arrays(state, arrays)


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
            self._failures.fail((state for state, _ in batch.active), error)
        finally:
            for state, _ in batch.slices:
                state.pending_batches -= 1

    def _drop_cancelled(self, batch: InFlightBatch):
        """None of the batch's requests is answered yet: asking an answered one kills Triton."""
        for state, _ in batch.slices:
            asked = getattr(state.request, "is_cancelled", None)  # not before 23.10
            if state.error is None and asked is not None and asked():
                cause = CancelledError("the request was cancelled before it ran")
                state.error = self._failures.report(cause, state.request)
        if any(state.error is not None for state, _ in batch.slices):
            batch.drop_failed()
