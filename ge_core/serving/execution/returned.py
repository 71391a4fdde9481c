"""Triton requests → rows → executions → responses, each call's before it returns."""

import time
from collections import deque
from collections.abc import Sequence

from ge_core.batching import RowSlice, group_gears, plan, plan_by_split_table, trailing_shapes
from ge_core.engine import engine_of
from ge_core.serving import model_config
from ge_core.serving.execution.requests import Reader
from ge_core.serving.execution.responses import Answers, Output, Reply
from ge_core.serving.monitoring import monitor
from ge_core_pyx import watchdog
from ge_core_pyx.errors import AclError, NotRunningError, UnsupportedError

# Requests that waited longer inside execute are asked whether they are cancelled, which costs 50 us each.
ASK_AFTER_S = 0.005


class CancelledError(Exception):
    """Its client does not want the answer any more."""


class Answer:
    """One request on its way: its inputs until they are copied, and the response that is being filled."""

    feed = reply = response = sender = error = None
    rows = 0
    shapes = None  # of all outputs, where rows alone do not say
    sizes: Sequence[int] = ()  # bytes of the tensors of an answer without a reply
    parts = 0  # executions that its rows are still awaited from

    def __init__(self, request):
        self.request = request

    @property
    def new_sizes(self) -> Sequence[int]:
        """Bytes of each tensor that takes new shared memory."""
        return self.sizes if self.reply is None else self.reply.sizes


class Flight:
    """One execution: whose rows it holds, and what runs it."""

    work = None  # a Batch, a Future, or the error that kept it from starting

    def __init__(self, rows: int, parts: Sequence[tuple[Answer, RowSlice]], gear: int | None = -1):
        self.rows, self.parts = rows, parts
        self.gear = gear  # which one; -1: by rows; None: of a whole request whose answer has a shape known only later
        self.live = parts  # without those of requests that need no answer any more
        for answer, _ in parts:
            answer.parts += 1


class ServedModel:
    """Answers Triton's requests with one session, each call's before it returns.

    Output tensors are taken and responses made while the device works, so that after it ends nothing is left to do but
    to copy rows and return. Triton copies answers after `execute` returned and before it calls again.

    Parameters
    ----------
    pb_utils : module
    session : ge_core.InferenceSession
    binding : ge_core.serving.model_config.Binding
    slots : int
        Executions in flight at once.
    register : bool
        Whether devices read requests and write answers in Triton's shared memory where the runtime can pin that.
    """

    def __init__(self, pb_utils, session, binding: model_config.Binding, slots: int = 1, register: bool = False):
        self._response, self._error = pb_utils.InferenceResponse, pb_utils.TritonError
        self._log, self._failures = pb_utils.Logger, monitor.FailureLog(pb_utils.Logger)
        self._session, self._engine, self._slots = session, engine_of(session), slots
        self.operations: monitor.Operations | None = None  # of a model that `load` made
        description = session.description
        self._by_rows = description.max_rows > 0
        self._gears = tuple(description.gears) if description.gear_kind == "batch" else (description.max_rows,)
        self._shapes = self._engine.gear_shapes  # of models without rows that every gear has, the rest of it all
        self._gear_of = {inputs: gear for gear, (inputs, _) in enumerate(self._shapes)}
        self._groups = {}
        if binding.max_batch_size and not self._by_rows:
            self._groups = self._group(session)
        places = {spec.name: place for place, spec in enumerate(description.outputs)}
        outputs = [self._output(bound, places) for bound in binding.outputs]
        self._answers = Answers(pb_utils, outputs, register=self._engine.register_memory if register else None)
        if register and not self._answers.in_place:
            self._log.log_warn(
                "GE Backend: register_memory: this runtime cannot pin Triton's shared memory (aclrtHostRegisterV2, "
                "CANN 9); requests and answers are copied as without it"
            )
        self._reader = Reader(session, binding, self._answers.share if self._answers.in_place else None)
        self._sent: list[Reply] = []  # Triton may still be reading these
        for context in self._engine.contexts:
            watchdog.guard(context)

    def _group(self, session) -> dict:
        """Gears by trailing shape, for a model that is cut by rows because its configuration says so."""
        outputs = [spec.name for spec in session.description.outputs]
        try:
            found = group_gears(self._shapes, outputs)
        except ValueError as error:
            raise model_config.ConfigError(f"max_batch_size above 0: {error}; use max_batch_size: 0") from None
        loose = [name for name in outputs if session.output_axes and 0 not in session.output_axes.get(name, ())]
        if loose:
            raise model_config.ConfigError(
                "max_batch_size above 0 with output_axes: axis 0 must follow axis 0 of an input in each output, and "
                f"nothing says so of {', '.join(loose)}"
            )
        return found

    def _output(self, bound, places) -> Output:
        place = places[bound.spec.name]
        multiple = self._session.description.row_multiples[place]
        return Output(bound.name, place, bound.spec.dtype, bound.spec.shape[1:], multiple)

    def execute(self, requests: Sequence) -> list | None:
        """One response for each request, in order; whatever goes wrong is an error response, never an exception."""
        if len(requests) == 1 and self._by_rows and (response := self._alone(requests[0])) is not None:
            return [response]
        began = time.monotonic()
        answers = [Answer(request) for request in requests]
        try:
            flights: deque[Flight] = deque()
            for flight in self._plan(self._read(answers)):
                if len(flights) == self._slots:
                    self._land(flights.popleft())
                flights.append(self._start(flight, began))
            while flights:
                self._land(flights.popleft())
        except Exception as error:
            self._fail(answers, error)
        responses, sizes = [], []
        for answer in answers:
            sizes += answer.new_sizes
            if sizes and answer.error is None and (lacks := self._answers.room(sizes)[1]):
                answer.error = self._error(lacks, self._error.UNAVAILABLE)
            responses.append(self._final(answer))
            answer.request = answer.response = answer.feed = None  # Triton frees the inputs after it has answered
            if answer.reply is not None:
                self._sent.append(answer.reply)
        return responses

    def is_ready(self) -> bool:
        """Whether requests can run now. From any thread; never blocks."""
        return self.operations is None or self.operations.is_ready()

    def close(self) -> None:
        """Frees the device. Calling it again does nothing."""
        if self.operations is not None:
            self.operations.close()
        for context in self._engine.contexts:
            watchdog.release(context)
        self._answers.close()
        self._session.close()

    def _alone(self, request):
        """The answer of a request that came alone, in as few steps as there can be; None: it does not fit a gear."""
        try:
            feed = self._reader.read(request)
            rows = feed.rows
            if rows > self._gears[-1] or self._engine.split_table is not None:
                return None
            batch = self._engine.launch(rows, ((feed, 0, 0, rows),))
            reply, response = self._respond(request, rows, None)
            self._sent.append(reply)
            batch.collect(reply.gets)
        except Exception as error:
            return self._response(output_tensors=[], error=self._told(error, request))
        if reply.sizes and (lacks := self._answers.room(reply.sizes)[1]):
            return self._response(output_tensors=[], error=self._error(lacks, self._error.UNAVAILABLE))
        reply.sent = True
        return response

    def _respond(self, request, rows: int, shapes) -> tuple[Reply, object]:
        """(what the rows are to be copied into, the response over it); made while the device works."""
        if self._sent:
            for reply in self._sent:
                self._answers.give(reply)
            self._sent.clear()
        reply = self._answers.take(self._answers.wanted(request), rows, shapes)
        return reply, self._response(reply.tensors)

    def _final(self, answer: Answer):
        """The response of an answer that no execution is awaited for; its tensors count as sent."""
        if answer.error is None and (answer.response is None or answer.parts):
            answer.error = self._error("the request was not answered", self._error.INTERNAL)
        if answer.error is not None:
            return self._response(output_tensors=[], error=answer.error)
        if answer.reply is not None:
            answer.reply.sent = True
        return answer.response

    def _read(self, answers: Sequence[Answer]) -> list[Answer]:
        """Those whose request fits the model; the others get their error."""
        good = []
        for answer in answers:
            try:
                answer.feed = self._reader.read(answer.request)
                answer.rows = answer.feed.rows
                good.append(answer)
            except Exception as error:
                answer.error = self._told(error, answer.request)
        return good

    def _plan(self, answers: Sequence[Answer]) -> list[Flight]:
        """Which rows run together."""
        if not self._by_rows:
            return self._plan_shapes(answers)
        cuts = self._engine.split_table
        if len(answers) == 1 and answers[0].rows <= self._gears[-1] and cuts is None:
            return [Flight(answer.rows, ((answer, RowSlice(0, 0, 0, answer.rows)),)) for answer in answers]
        rows = [answer.rows for answer in answers]
        executions = plan(rows, self._gears) if cuts is None else plan_by_split_table(rows, self._gears, cuts)
        return [
            Flight(execution.rows, [(answers[part.request], part) for part in execution.slices])
            for execution in executions
        ]

    def _plan_shapes(self, answers: Sequence[Answer]) -> list[Flight]:
        """Requests of one trailing shape run together where the model may be cut by rows, all others by themselves."""
        flights, together = [], {}
        for answer in answers:
            shapes = answer.feed.shapes
            if group := self._groups.get(trailing_shapes(shapes)):
                answer.shapes = group.output_shapes(answer.rows)
                together.setdefault(id(group), (group, []))[1].append(answer)
            else:
                gear, answer.rows = self._gear_of.get(shapes), 0
                if gear is not None:
                    answer.shapes = self._shapes[gear][1]
                flights.append(Flight(0, ((answer, RowSlice(0, 0, 0, 0)),), gear))
        for group, members in together.values():
            for execution in plan([answer.rows for answer in members], group.rows):
                gear = group.gears[group.rows.index(execution.gear)]
                parts = [(members[part.request], part) for part in execution.slices]
                flights.append(Flight(execution.rows, parts, gear))
        return flights

    def _start(self, flight: Flight, began: float) -> Flight:
        """Copies the rows in and starts the device; waits for a free slot. An error is kept in the flight."""
        try:
            if time.monotonic() - began > ASK_AFTER_S:
                self._drop_cancelled(flight)
            if not flight.live:
                return flight
            if flight.gear is None:
                ((answer, _),) = flight.live
                flight.work = self._engine.submit(answer.feed)
                return flight
            puts = [(answer.feed, part.row, part.start, part.rows) for answer, part in flight.live]
            flight.work = self._engine.launch(flight.rows, puts, flight.gear)
            self._prepare(flight)
        except Exception as error:
            if flight.work is not None:
                flight.work.close()
            flight.work = error
        return flight

    def _drop_cancelled(self, flight: Flight) -> None:
        """Takes out what needs no answer any more. None of its requests is answered yet: asking later kills Triton."""
        for answer, _ in flight.parts:
            asked = getattr(answer.request, "is_cancelled", None)  # not before 23.10
            if answer.error is None and asked is not None and asked():
                answer.error = self._told(CancelledError("the request was cancelled before it ran"), answer.request)
        live = [(answer, part) for answer, part in flight.parts if answer.error is None]
        if len(live) < len(flight.parts):
            flight.live, flight.rows = [], 0
            for answer, part in live:
                flight.live.append((answer, part._replace(row=flight.rows)))
                flight.rows += part.rows

    def _prepare(self, flight: Flight):
        for answer, _ in flight.live:
            if answer.response is None:
                answer.reply, answer.response = self._respond(answer.request, answer.rows, answer.shapes)

    def _land(self, flight: Flight) -> None:
        """Waits for the device and copies the rows out. Whatever happens, the flight's parts are no longer awaited."""
        try:
            if isinstance(flight.work, Exception):
                raise flight.work
            if not flight.live:
                return
            if flight.gear is None:
                self._take_arrays(flight)
            else:
                self._copy_rows(flight)
        except Exception as error:
            self._fail([answer for answer, _ in flight.live], error)
        finally:
            for answer, _ in flight.parts:
                answer.parts -= 1

    def _copy_rows(self, flight: Flight):
        flight.work.collect([get for answer, part in flight.live for get in answer.reply.gets_of(part)])

    def _take_arrays(self, flight: Flight):
        arrays = flight.work.result()
        for answer, _ in flight.live:
            outputs = self._answers.wanted(answer.request)
            tensors = [self._answers.tensor(output, arrays[output.index]) for output in outputs]
            answer.sizes = [arrays[output.index].nbytes for output in outputs]
            answer.response = self._response(tensors)

    def _fail(self, answers: Sequence[Answer], error: Exception):
        for answer in answers:
            if answer.error is None:
                answer.error = self._told(error, answer.request)

    def _told(self, error: Exception, request):
        """An error as the client is told it; logged with the request's id."""
        if self.operations is not None:
            self.operations.failed(error)
            if isinstance(error, NotRunningError) and (reason := self.operations.refusing):
                return self._error(reason, self._error.UNAVAILABLE)  # logged when it began
        text, code = str(error), self._code(error)
        if code == self._error.INTERNAL and not isinstance(error, AclError):
            text = f"{type(error).__name__}: {error}"
        self._failures.log(request, text)
        return self._error(text, code)

    def _code(self, error: Exception) -> int:
        if isinstance(error, CancelledError):
            return self._error.CANCELLED
        if isinstance(error, TimeoutError | MemoryError | NotRunningError):
            return self._error.UNAVAILABLE
        if isinstance(error, UnsupportedError):
            return self._error.UNSUPPORTED
        if isinstance(error, ValueError) and not isinstance(error, AclError):
            return self._error.INVALID_ARG
        return self._error.INTERNAL
