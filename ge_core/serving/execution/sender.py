"""Answers through Triton's response senders: several batches in flight in one process."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue

from ge_core.serving import model_config
from ge_core.serving.execution.returned import Answer, Flight, ServedModel

# How long before the device would be idle the next batch is asked for: its way through Triton and into a slot.
LEAD_S = 0.005
REMEMBERED = 16  # batches of each size


class Pace:
    """When the device runs out of work, from the shortest times that the last batches of each size took.

    Not of all: where answers were collected late once, the batches behind it seem to have taken no time.
    """

    def __init__(self):
        self._changed = threading.Condition()
        self._running: deque[tuple[object, float]] = deque()  # (size, begin), in the order they run
        self._ended = 0.0
        self._took: dict[object, deque[float]] = {}

    def begin(self, flight: Flight) -> None:
        """A batch is about to be started."""
        with self._changed:
            self._running.append(((flight.rows, flight.gear), time.monotonic()))

    def end(self, learn: bool) -> None:
        """The oldest batch is done; `learn`: as it should be."""
        with self._changed:
            size, began = self._running.popleft()
            now = time.monotonic()
            if learn:
                took = self._took.setdefault(size, deque(maxlen=REMEMBERED))
                took.append(now - max(began, self._ended))
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
        end = max(self._running[0][1], self._ended) + sum(min(self._took[size]) for size in sizes)
        return end - LEAD_S - time.monotonic()


class SendingModel(ServedModel):
    """Answers through Triton's response senders, so that several batches are in flight in one process.

    `execute` starts the device and returns once there is a free slot for the next call, and not before the one device
    is about to be idle: so many batches are in flight, and Triton gathers the next one as late, and as full, as
    possible. One thread waits for the batches in the order they were started and sends their answers. Each request gets
    exactly one answer, and `execute` raises nothing: Triton's server does not survive an exception out of `execute`
    after an answer, nor a second look at an answered request.
    """

    def __init__(self, pb_utils, session, binding: model_config.Binding, slots: int = 1, register: bool = False):
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
