# SPDX-License-Identifier: Apache-2.0
"""Responses that each call returns."""

import time
from collections.abc import Sequence

from ge_core.serving.execution.failures import Failures
from ge_core.serving.execution.planning import Planner
from ge_core.serving.execution.requests import RequestReader, RequestState
from ge_core.serving.execution.responses import OutputTensorPool, OutputTensors, ResponseBuilder
from ge_core.serving.execution.running import BatchRunner


class ReturningHandler:
    """Answers the requests of a call before the call returns.

    Parameters
    ----------
    reader : RequestReader
    planner : Planner
    runner : BatchRunner
    responses : ResponseBuilder
    tensors : OutputTensorPool
    failures : Failures
    slots : int
        Batches in flight at once.
    """

    def __init__(
        self,
        reader: RequestReader,
        planner: Planner,
        runner: BatchRunner,
        responses: ResponseBuilder,
        tensors: OutputTensorPool,
        failures: Failures,
        slots: int,
    ):
        self._reader, self._planner, self._runner = reader, planner, runner
        self._responses, self._tensors, self._failures, self._slots = responses, tensors, failures, slots
        self._returned: list[OutputTensors] = []  # by the last call: Triton copies them before it calls again

    def execute(self, requests: Sequence) -> list:
        """One response for each request, in order; whatever goes wrong is an error response, never an exception."""
        for outputs in self._returned:
            self._tensors.give_back(outputs)
        self._returned.clear()
        began, states = time.monotonic(), [RequestState(request) for request in requests]
        try:
            batches = self._planner.plan(self._reader.read(states))
            for number, batch in enumerate(batches):
                if number >= self._slots:
                    self._runner.finish(batches[number - self._slots])
                self._runner.start(batch, began)
            for batch in batches[-self._slots :]:
                self._runner.finish(batch)
        except Exception as error:
            self._failures.fail(states, error)
        responses: list = []
        sizes: list[int] = []
        for state in states:
            sizes += state.new_sizes
            if sizes and state.error is None and (problem := self._tensors.room(sizes).problem):
                state.error = self._failures.unavailable(problem)
            responses.append(self._responses.finished(state))
            if state.outputs is not None:
                self._returned.append(state.outputs)
        return responses
