# SPDX-License-Identifier: Apache-2.0
"""Responses sent when they are ready, through Triton's response senders: batches of several calls are in flight."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from ge_core.serving.execution.failures import Failures
from ge_core.serving.execution.planning import Planner
from ge_core.serving.execution.requests import RequestReader, RequestState
from ge_core.serving.execution.responses import OutputTensorPool, ResponseBuilder
from ge_core.serving.execution.running import BatchRunner, InFlightBatch

# How long before the device would be idle the next batch is asked for: its way through Triton and into a slot.
LEAD_S = 0.005
REMEMBERED = 16  # batches of each size


class Pace(Protocol):
    """When to ask Triton for the next batch."""

    def begin(self, size: object) -> None:
        """A batch of this size is about to be started."""

    def end(self, learn: bool) -> None:
        """The oldest batch is done; `learn`: without an error, so that its time tells about the next ones."""

    def wait(self) -> None:
        """Block until it is time to ask."""


class NoPace:
    """At once. For several devices, of which one may be idle at any time."""

    def begin(self, size: object) -> None:
        """Not needed."""

    def end(self, learn: bool) -> None:
        """Not needed."""

    def wait(self) -> None:
        """Returns at once."""


class DevicePace:
    """Shortly before one device runs out of work, told from the shortest times that the last batches of each size took.

    Not from all of them: where batches were finished late once, the ones behind seem to have taken no time.

    Parameters
    ----------
    changed : threading.Condition
        Waited on until the time has come or a batch is done.
    clock : callable
        Seconds.
    """

    def __init__(self, changed: threading.Condition | None = None, clock: Callable[[], float] = time.monotonic):
        self._changed, self._clock = changed or threading.Condition(), clock
        self._running: deque[tuple[object, float]] = deque()  # (size, begin), in the order they run
        self._last_end = 0.0
        self._durations: dict[object, deque[float]] = {}

    def begin(self, size: object) -> None:
        """See Pace."""
        with self._changed:
            self._running.append((size, self._clock()))

    def end(self, learn: bool) -> None:
        """See Pace."""
        with self._changed:
            size, began = self._running.popleft()
            now = self._clock()
            if learn:
                durations = self._durations.setdefault(size, deque(maxlen=REMEMBERED))
                durations.append(now - max(began, self._last_end))
            self._last_end = now
            self._changed.notify()

    def wait(self) -> None:
        """Block until LEAD_S before the running batches are expected to end; not at all where that is not known."""
        with self._changed:
            while self._running and (left := self._time_left()) > 0:
                self._changed.wait(left)

    def _time_left(self) -> float:
        sizes = [size for size, _ in self._running]
        if not all(size in self._durations for size in sizes):
            return 0
        end = max(self._running[0][1], self._last_end) + sum(min(self._durations[size]) for size in sizes)
        return end - LEAD_S - self._clock()


class SendingHandler:
    """Sends responses when they are ready, so that several batches are in flight in one process.

    `execute` starts the device and returns once there is a free slot for the next call, and not before the one device
    is about to be idle: so many batches are in flight, and Triton gathers the next one as late, and as full, as
    possible. One thread finishes the batches in the order they were started and sends their responses. Each request
    gets exactly one response, and `execute` raises nothing: Triton's server does not survive an exception out of
    `execute` after a response, nor a second look at an answered request.

    Parameters
    ----------
    pb_utils : module
    reader : RequestReader
    planner : Planner
    runner : BatchRunner
    responses : ResponseBuilder
    tensors : OutputTensorPool
    failures : Failures
    slots : int
        Batches in flight at once.
    pace : Pace
    """

    def __init__(
        self,
        pb_utils,
        reader: RequestReader,
        planner: Planner,
        runner: BatchRunner,
        responses: ResponseBuilder,
        tensors: OutputTensorPool,
        failures: Failures,
        slots: int,
        pace: Pace,
    ):
        self._logger, self._final_flag = pb_utils.Logger, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        self._reader, self._planner, self._runner = reader, planner, runner
        self._responses, self._tensors, self._failures, self._pace = responses, tensors, failures, pace
        self._running: SimpleQueue[InFlightBatch | None] = SimpleQueue()
        self._free = threading.Semaphore(slots - 1)  # the slot of the next call is taken already
        self._thread = threading.Thread(target=self._finish_all, name="ge_core responses", daemon=True)
        self._thread.start()

    def execute(self, requests: Sequence) -> None:
        """Starts the device; responses are sent when it is done. Blocks until a slot is free for the next call."""
        began, states = time.monotonic(), [RequestState(request) for request in requests]
        batches: list[InFlightBatch] = []
        try:
            for state in states:
                state.sender = state.request.get_response_sender()
            batches = self._planner.plan(self._reader.read(states))
        except Exception as error:
            self._failures.fail(states, error)
        for state in states:
            if state.error is not None:
                self._send(state)
        for batch in batches:
            self._pace.begin(batch.size)
            self._runner.start(batch, began)
            self._running.put(batch)
            self._free.acquire()
        if batches:
            self._pace.wait()

    def close(self) -> None:
        """Wait until the batches in flight are done and their responses sent. Calling it again does nothing."""
        self._running.put(None)
        self._thread.join()

    def _finish_all(self):
        while (batch := self._running.get()) is not None:
            self._runner.finish(batch)
            self._pace.end(learn=all(state.error is None for state in batch.states))
            for state in batch.states:
                if not state.pending_batches:
                    self._send(state)
            self._free.release()

    def _send(self, state: RequestState):
        outputs = state.outputs
        try:
            room = self._tensors.room(state.new_sizes)
            if room.problem and state.error is None:
                state.error = self._failures.unavailable(room.problem)
            response = self._responses.finished(state)
            if room.ample or state.error is not None:
                state.sender.send(response, self._final_flag)
            else:
                self._send_in_two(state.sender, response)
        except Exception as error:
            self._logger.log_error(f"GE Backend: an answer could not be sent: {type(error).__name__}: {error}")
        if outputs is not None:
            self._tensors.give_back(outputs)
        state.outputs = None
        state.release()

    def _send_in_two(self, sender, response):
        """Send a response and the final flag as two messages, where room is short.

        A failed send with the final flag leaves its client waiting for ever. Without it the flag can still follow, and
        Triton then tells the client that no answer came. Not for errors, of which gRPC clients would not hear.
        """
        try:
            sender.send(response, 0)
        finally:
            sender.send(flags=self._final_flag)
