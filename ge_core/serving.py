"""Triton requests → rows → responses. Speaks to Triton through the `pb_utils` module that is passed in."""

import ctypes
import gc
import json
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from ge_core import isolated, operations, options, resources, triton_config, warmup
from ge_core.batching import Part, groups, plan, plan_by_cuts, trailing
from ge_core.session import InferenceSession
from ge_core.triton_requests import Reader
from ge_core.triton_responses import Answers, Output, Reply, region
from ge_core_pyx import watchdog
from ge_core_pyx.errors import AclError, NotRunningError, UnsupportedError

# Requests that waited longer inside execute are asked whether they are cancelled, which costs 50 us each.
ASK_AFTER_S = 0.005


# How long before the device would be idle the next batch is asked for: its way through Triton and into a slot.
LEAD_S = 0.005


class CancelledError(Exception):
    """Its client does not want the answer any more."""


def complete_config(pb_utils, config, defaults: str | os.PathLike | None = None):
    """For auto_complete_config: fills the model configuration from the om, or refuses it.

    Runs in a process that Triton throws away, so the om is described by a child process.

    Parameters
    ----------
    pb_utils : module
        triton_python_backend_utils.
    config : pb_utils.ModelConfig
        Completed in place and returned.
    defaults : path, optional
        A defaults.json, see `ge_core.options.parse`.

    Raises
    ------
    ValueError
        Parameters, model file or configuration that do not fit; the message says what would.
    """
    content = config.as_dict()
    settings = options.parse(_parameters(content), defaults=defaults)
    om = find_om(settings, Path(pb_utils.get_model_dir()))
    triton_config.complete(content, isolated.describe(om, settings.runtime), settings.cast_inputs == "checked")
    return config


def load(pb_utils, args: Mapping[str, str], defaults: str | os.PathLike | None = None) -> "ServedModel":
    """For initialize: opens the om on this instance's device, checks the configuration, warms up and logs one line.

    Parameters
    ----------
    pb_utils : module
    args : mapping of str to str
        What Triton passes to initialize.
    defaults : path, optional

    Raises
    ------
    ValueError, RuntimeError, OSError
        The load is refused; nothing stays open.
    """
    refuse_numpy_2(pb_utils)
    tune_allocator()
    if (worker := region()) is not None:
        watchdog.start(worker)
    config = json.loads(args["model_config"])
    parameters = _parameters(config)
    settings = options.parse(parameters, defaults=defaults)
    if warning := resources.environment_warning(parameters, settings.runtime, os.environ):
        pb_utils.Logger.log_warn(f"GE Backend: '{config['name']}' {warning}")
    om = find_om(settings, Path(args["model_repository"]) / args["model_version"])
    instance, count = instance_of(config, args["model_instance_name"])
    devices = options.devices_of(settings.device_ids, instance, count)
    session = InferenceSession(
        om,
        runtime=settings.runtime,
        device_ids=devices,
        slots=settings.slots,
        submit_timeout_ms=settings.submit_timeout_ms,
        execute_timeout_ms=settings.execute_timeout_ms,
        output_axes=settings.output_axes,
        pad_value=settings.pad_value,
        gear_plan=settings.gear_plan,
    )
    served = session
    try:
        kind = SendingModel if settings.responses == "sender" else ServedModel
        binding = triton_config.bind(config, session.description, casts=settings.cast_inputs == "checked")
        served = kind(pb_utils, session, binding, settings.slots * len(devices), settings.register_memory)
        times = warmup.warm_up(session, settings.slots * len(devices)) if settings.warmup else {}
        _log_load(pb_utils.Logger, config, session, settings, times)
        served.operations = operations.begin(pb_utils, args, settings, session, instance, times)
    except BaseException:
        served.close()
        raise
    # What was made so far lives as long as the model: collections between requests need not look at it again.
    gc.collect()
    gc.freeze()
    return served


def find_om(settings: options.ServingOptions, version_folder: Path) -> Path:
    """The om to serve: `om_model_path`, else the one ``.om`` of the version folder.

    Raises
    ------
    ValueError
        None, several, or a file that does not exist.
    """
    if settings.om_model_path:
        om = version_folder / settings.om_model_path
        if not om.is_file():
            raise ValueError(f"om_model_path {settings.om_model_path!r}: there is no file {om}")
    else:
        oms = sorted(version_folder.glob("*.om"))
        if len(oms) != 1:
            found = ", ".join(path.name for path in oms) or "none"
            raise ValueError(
                f"expected one .om in {version_folder}, found {found}; parameter om_model_path can name one"
            )
        om = oms[0]
    return om


def instance_of(config: Mapping, instance_name: str) -> tuple[int, int]:
    """(number of this instance, number of instances) over all instance groups of a model."""
    before, found = 0, 0
    for group in config.get("instance_group", ()):
        name, _, index = instance_name.rpartition("_")
        if name == group["name"] and index.isdigit():
            found = before + int(index)
        before += group["count"]
    return found, max(before, 1)


def refuse_numpy_2(pb_utils) -> None:
    """NumPy 2 arrays become empty tensors, silently, in Python backends built before it; their API shows their age."""
    if int(np.__version__.split(".")[0]) >= 2 and not hasattr(pb_utils.InferenceResponse, "parameters"):
        raise RuntimeError(
            f"this Triton's Python backend answers with empty tensors under NumPy {np.__version__}; "
            "run `pip install 'numpy<2'` for its Python, or use Triton 25.02 or newer"
        )


def tune_allocator() -> None:
    """Keeps freed memory in the process: otherwise glibc returns and faults in again each batch of input copies."""
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(m_mmap_threshold, 1 << 30)
        mallopt(m_trim_threshold, 2**31 - 1)
        mallopt(m_top_pad, 64 << 20)


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

    def __init__(self, rows: int, parts: Sequence[tuple[Answer, Part]], gear: int | None = -1):
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
    binding : ge_core.triton_config.Binding
    slots : int
        Executions in flight at once.
    register : bool
        Whether devices read requests and write answers in Triton's shared memory where the runtime can pin that.
    """

    def __init__(self, pb_utils, session, binding: triton_config.Binding, slots: int = 1, register: bool = False):
        self._response, self._error = pb_utils.InferenceResponse, pb_utils.TritonError
        self._log, self._failures = pb_utils.Logger, operations.FailureLog(pb_utils.Logger)
        self._session, self._slots = session, slots
        self.operations: operations.Operations | None = None  # of a model that `load` made
        description = session.description
        self._by_rows = description.max_rows > 0
        self._gears = tuple(description.gears) if description.gear_kind == "batch" else (description.max_rows,)
        self._shapes = session.gear_shapes  # of models without rows that every gear has, the rest of it all
        self._gear_of = {inputs: gear for gear, (inputs, _) in enumerate(self._shapes)}
        self._groups = {}
        if binding.max_batch_size and not self._by_rows:
            self._groups = self._group(session)
        places = {spec.name: place for place, spec in enumerate(description.outputs)}
        outputs = [self._output(bound, places) for bound in binding.outputs]
        self._answers = Answers(pb_utils, outputs, register=session.register_memory if register else None)
        if register and not self._answers.in_place:
            self._log.log_warn(
                "GE Backend: register_memory: this runtime cannot pin Triton's shared memory (aclrtHostRegisterV2, "
                "CANN 9); requests and answers are copied as without it"
            )
        self._reader = Reader(session, binding, self._answers.share if self._answers.in_place else None)
        self._input_names = tuple(spec.name for spec in description.inputs)
        self._sent: list[Reply] = []  # Triton may still be reading these
        for context in session.contexts:
            watchdog.guard(context)

    def _group(self, session) -> dict:
        """Gears by trailing shape, for a model that is cut by rows because its configuration says so."""
        outputs = [spec.name for spec in session.description.outputs]
        try:
            found = groups(self._shapes, outputs)
        except ValueError as error:
            raise triton_config.ConfigError(f"max_batch_size above 0: {error}; use max_batch_size: 0") from None
        loose = [name for name in outputs if session.output_axes and 0 not in session.output_axes.get(name, ())]
        if loose:
            raise triton_config.ConfigError(
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
        for context in self._session.contexts:
            watchdog.release(context)
        self._answers.close()
        self._session.close()

    def _alone(self, request):
        """The answer of a request that came alone, in as few steps as there can be; None: it does not fit a gear."""
        try:
            feed = self._reader.read(request)
            rows = feed.rows
            if rows > self._gears[-1] or self._session.cuts is not None:
                return None
            batch = self._session.launch(rows, ((feed, 0, 0, rows),))
            reply, response = self._respond(request, rows, None)
            batch.collect(reply.gets)
        except Exception as error:
            return self._response(output_tensors=[], error=self._told(error, request))
        self._sent.append(reply)
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
        cuts = self._session.cuts
        if len(answers) == 1 and answers[0].rows <= self._gears[-1] and cuts is None:
            return [Flight(answer.rows, ((answer, Part(0, 0, 0, answer.rows)),)) for answer in answers]
        rows = [answer.rows for answer in answers]
        executions = plan(rows, self._gears) if cuts is None else plan_by_cuts(rows, self._gears, cuts)
        return [
            Flight(execution.rows, [(answers[part.request], part) for part in execution.parts])
            for execution in executions
        ]

    def _plan_shapes(self, answers: Sequence[Answer]) -> list[Flight]:
        """Requests of one trailing shape run together where the model may be cut by rows, all others by themselves."""
        flights, together = [], {}
        for answer in answers:
            shapes = answer.feed.shapes
            if group := self._groups.get(trailing(shapes)):
                answer.shapes = group.output_shapes(answer.rows)
                together.setdefault(id(group), (group, []))[1].append(answer)
            else:
                gear, answer.rows = self._gear_of.get(shapes), 0
                if gear is not None:
                    answer.shapes = self._shapes[gear][1]
                flights.append(Flight(0, ((answer, Part(0, 0, 0, 0)),), gear))
        for group, members in together.values():
            for execution in plan([answer.rows for answer in members], group.rows):
                gear = group.gears[group.rows.index(execution.gear)]
                parts = [(members[part.request], part) for part in execution.parts]
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
                flight.work = self._session.submit(answer.feed)
                return flight
            puts = [(answer.feed, part.row, part.start, part.count) for answer, part in flight.live]
            flight.work = self._session.launch(flight.rows, puts, flight.gear)
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
                flight.rows += part.count

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


class Pace:
    """When the device runs out of work, from the shortest times that batches of each size have taken so far."""

    def __init__(self):
        self._changed = threading.Condition()
        self._running: deque[tuple[object, float]] = deque()  # (size, begin), in the order they run
        self._ended = 0.0
        self._took: dict[object, float] = {}

    def begin(self, flight: Flight) -> None:
        """A batch is about to be started."""
        with self._changed:
            self._running.append(((flight.rows, flight.gear), time.monotonic()))

    def end(self, learn: bool) -> None:
        """The oldest batch is done; `learn`: as it should be."""
        with self._changed:
            size, began = self._running.popleft()
            now = time.monotonic()
            took = now - max(began, self._ended)
            if learn:
                self._took[size] = min(took, self._took.get(size, took))
            self._ended = now
            self._changed.notify()

    def wait(self) -> None:
        """Returns LEAD_S before the batches that run are expected to end; at once where that is not known."""
        with self._changed:
            while self._running and (left := self._left()) > 0:
                self._changed.wait(left)

    def _left(self) -> float:
        sizes = [size for size, _ in self._running]
        if not all(size in self._took for size in sizes):
            return 0
        end = max(self._running[0][1], self._ended) + sum(self._took[size] for size in sizes)
        return end - LEAD_S - time.monotonic()


class SendingModel(ServedModel):
    """Answers through Triton's response senders, so that several batches are in flight in one process.

    `execute` starts the device and returns once there is a free slot for the next call, and not before the one device
    is about to be idle: so many batches are in flight, and Triton gathers the next one as late, and as full, as
    possible. One thread waits for the batches in the order they were
    started and sends their answers. Each request gets exactly one answer, and `execute` raises nothing: Triton's server
    does not survive an exception out of `execute` after an answer, nor a second look at an answered request.
    """

    def __init__(self, pb_utils, session, binding: triton_config.Binding, slots: int = 1, register: bool = False):
        super().__init__(pb_utils, session, binding, slots, register)
        self._final_flag = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        self._flights: SimpleQueue[Flight | None] = SimpleQueue()
        self._free = threading.Semaphore(slots - 1)  # this call's slot is taken already
        self._pace = Pace() if len(session.device_ids) == 1 else None
        self._thread = threading.Thread(target=self._send_all, name="ge_core answers", daemon=True)
        self._thread.start()

    def execute(self, requests: Sequence) -> None:
        """Starts the device; answers are sent when it is done. Blocks until a slot is free for the next call."""
        began, answers, flights = time.monotonic(), [Answer(request) for request in requests], []
        try:
            for answer in answers:
                answer.sender = answer.request.get_response_sender()
            flights = self._plan(self._read(answers))
        except Exception as error:
            self._fail(answers, error)
        for answer in answers:
            if answer.error is not None:
                self._send(answer)
        for flight in flights:
            if self._pace is not None:
                self._pace.begin(flight)
            self._flights.put(self._start(flight, began))
            self._free.acquire()
        if flights and self._pace is not None:
            self._pace.wait()

    def close(self) -> None:
        """Waits for the answers in flight, then frees the device. Calling it again does nothing."""
        self._flights.put(None)
        self._thread.join()
        super().close()

    def _send_all(self):
        while (flight := self._flights.get()) is not None:
            self._land(flight)
            if self._pace is not None:
                self._pace.end(all(answer.error is None for answer, _ in flight.parts))
            for answer, _ in flight.parts:
                if not answer.parts:
                    self._send(answer)
            self._free.release()

    def _send(self, answer: Answer):
        reply = answer.reply
        try:
            ample, lacks = self._answers.room(answer.new_sizes)
            if lacks and answer.error is None:
                answer.error = self._error(lacks, self._error.UNAVAILABLE)
            response = self._final(answer)
            if ample or answer.error is not None:
                answer.sender.send(response, self._final_flag)
            else:
                self._send_in_two(answer.sender, response)
        except Exception as error:
            self._log.log_error(f"GE Backend: an answer could not be sent: {type(error).__name__}: {error}")
        if reply is not None:
            self._answers.give(reply)
        answer.request = answer.response = answer.feed = answer.reply = None

    def _send_in_two(self, sender, response):
        """A failed send with the final flag leaves its client waiting for ever; without it, the flag can still follow,
        and Triton then tells the client that no answer came. Another message, so only where room is short; and not for
        errors, of which gRPC clients would not hear.
        """
        try:
            sender.send(response, 0)
        finally:
            sender.send(flags=self._final_flag)


def _parameters(config: Mapping) -> dict[str, str]:
    return {key: value["string_value"] for key, value in config.get("parameters", {}).items()}


def _log_load(logger, config: Mapping, session, settings, times: Mapping[str, float]) -> None:
    description, stats = session.description, session.stats()
    runtime = (
        "cpu (the CPU implementation of AscendCL, no NPU)" if description.runtime == "cpu" else description.runtime
    )
    kind = "range of shapes" if description.gear_kind == "range" else "static"
    gears = f"{description.gear_kind} gears {', '.join(map(str, description.gears))}" if description.gears else kind
    ids = session.device_ids
    devices = f"device {ids[0]}" if len(ids) == 1 else f"devices {', '.join(map(str, ids))}"
    warm_up = "every gear warmed up" if times else "not warmed up"
    logger.log_info(
        f"GE Backend: '{config['name']}' serves {description.path} ({description.soc}) on runtime {runtime}, "
        f"{devices}; {gears}; max_batch_size {config['max_batch_size']}; {settings.slots} slot(s), responses "
        f"{settings.responses}; {stats['device_bytes']:,} bytes of device memory, {stats['pinned_bytes']:,} bytes "
        f"pinned; {warm_up}"
    )
    for sentence in options.unknown_environment(os.environ):
        logger.log_warn(f"GE Backend: {sentence}")
