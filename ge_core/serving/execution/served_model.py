# SPDX-License-Identifier: Apache-2.0
"""A loaded model as Triton's model.py holds it, put together from the parts of this folder."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ge_core.engine import engine_of
from ge_core.serving.execution.failures import Failures
from ge_core.serving.execution.planning import Planner
from ge_core.serving.execution.requests import RequestReader
from ge_core.serving.execution.responses import OutputTensorPool, ResponseBuilder, served_outputs
from ge_core.serving.execution.returned import ReturningHandler
from ge_core.serving.execution.running import BatchRunner, Runner
from ge_core.serving.execution.sender import DevicePace, NoPace, SendingHandler
from ge_core.serving.model_config import Binding
from ge_core.serving.monitoring.monitor import Monitor
from ge_core.serving.options import ServingOptions


class ServedModel:
    """One instance of a served model.

    Attributes
    ----------
    session : ge_core.InferenceSession
    monitor : Monitor
    tensors : OutputTensorPool
    responses : str
        ``returned`` or ``sender``.
    """

    def __init__(
        self,
        session,
        monitor: Monitor,
        tensors: OutputTensorPool,
        handler: ReturningHandler | SendingHandler,
        responses: str,
        resources: ExitStack,
    ):
        self.session, self.monitor, self.tensors, self.responses = session, monitor, tensors, responses
        self._handler, self._resources = handler, resources

    def execute(self, requests: Sequence) -> list | None:
        """Answer Triton's requests: one pb_utils.InferenceResponse each, or None where they are sent later.

        Raises nothing: whatever goes wrong is an error response.
        """
        return self._handler.execute(requests)

    def is_ready(self) -> bool:
        """Whether requests can run now. From any thread; never blocks."""
        return self.monitor.is_ready()

    def close(self) -> None:
        """Send what is in flight, then free the device. Calling it again does nothing."""
        self._resources.close()


def assemble(
    pb_utils,
    session,
    binding: Binding,
    planner: Planner,
    settings: ServingOptions,
    monitor: Monitor,
    resources: ExitStack,
    wrap_runner: Callable[[Runner], BatchRunner] | None = None,
) -> ServedModel:
    """Put a served model together.

    Parameters
    ----------
    pb_utils : module
    session : ge_core.InferenceSession
    binding : Binding
    planner : Planner
    settings : ServingOptions
    monitor : Monitor
    resources : ExitStack
        Has what is to be closed with the model; taken over when all is well.
    wrap_runner : callable, optional
        See `ge_core.serving.load`.
    """
    engine, slots = engine_of(session), settings.slots * len(session.device_ids)
    outputs = served_outputs(session.description, binding)
    register = engine.register_memory if settings.register_memory else None
    tensors = OutputTensorPool(pb_utils, outputs, register=register)
    resources.callback(tensors.close)
    if register is not None and not tensors.in_place:
        pb_utils.Logger.log_warn(
            "GE Backend: register_memory: this runtime cannot pin Triton's shared memory (aclrtHostRegisterV2, "
            "CANN 9); requests and answers are copied as without it"
        )
    failures = Failures(pb_utils, monitor)
    reader = RequestReader(session, binding, failures, tensors.share if tensors.in_place else None)
    responses = ResponseBuilder(pb_utils, outputs, tensors, failures)
    plain = Runner(engine, responses, failures)
    runner: BatchRunner = plain if wrap_runner is None else wrap_runner(plain)
    handler: ReturningHandler | SendingHandler
    if settings.responses == "sender":
        pace = DevicePace() if len(session.device_ids) == 1 else NoPace()
        handler = SendingHandler(pb_utils, reader, planner, runner, responses, tensors, failures, slots, pace)
        resources.callback(handler.close)
    else:
        handler = ReturningHandler(reader, planner, runner, responses, tensors, failures, slots)
    return ServedModel(session, monitor, tensors, handler, settings.responses, resources.pop_all())
