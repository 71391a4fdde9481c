# SPDX-License-Identifier: Apache-2.0
"""What clients are told about requests that failed, and the log of them."""

import threading
import time
from collections.abc import Iterable

from ge_core.serving.monitoring.monitor import Monitor
from ge_core_pyx.errors import AclError, GeCoreError, NotRunningError, UnsupportedError

LINES_PER_S = 20  # of the log; each holds its request up for 50 us
_ID_CHARACTERS = 200  # of a request's id in the log; over HTTP a client may send megabytes


class CancelledError(GeCoreError):
    """Its client does not want the answer any more."""


class FailureLog:
    """A line in the log for each failed request, with its id; so many of them a second, then how many more there were.

    Parameters
    ----------
    logger : pb_utils.Logger
    """

    def __init__(self, logger):
        self._logger, self._lock = logger, threading.Lock()
        self._second, self._lines, self._left_out = 0.0, 0, 0

    def log(self, request, text: str) -> None:
        """Log that a request failed, and why."""
        try:
            number = request.request_id()[:_ID_CHARACTERS]
        except Exception:  # whatever is wrong with it, its client gets an answer
            number = ""
        with self._lock:
            now, left_out = time.monotonic(), 0
            if now - self._second >= 1:
                self._second, self._lines, left_out, self._left_out = now, 0, self._left_out, 0
            self._lines += 1
            if self._lines > LINES_PER_S:
                self._left_out += 1
                return
        if left_out:
            self._logger.log_error(f"GE Backend: {left_out} more requests failed meanwhile")
        self._logger.log_error(f"GE Backend: request {number or 'without id'} failed: {text}")


class Failures:
    """Turns exceptions into Triton's errors. Any thread may call.

    Parameters
    ----------
    pb_utils : module
    monitor : Monitor
        Is told of each failure.
    """

    def __init__(self, pb_utils, monitor: Monitor):
        self._error, self._log, self._monitor = pb_utils.TritonError, FailureLog(pb_utils.Logger), monitor

    def report(self, error: Exception, request):
        """The pb_utils.TritonError that a request's client gets. The failure is logged and counted."""
        self._monitor.failed(error)
        if isinstance(error, NotRunningError) and (reason := self._monitor.refusing):
            return self.unavailable(reason)  # logged when it began
        text, code = str(error), self._code(error)
        if code == self._error.INTERNAL and not isinstance(error, AclError):
            text = f"{type(error).__name__}: {error}"
        self._log.log(request, text)
        return self._error(text, code)

    def fail(self, states: Iterable, error: Exception) -> None:
        """Give an error to those requests (`RequestState`) that have none yet."""
        for state in states:
            if state.error is None:
                state.error = self.report(error, state.request)

    def unavailable(self, text: str):
        """A pb_utils.TritonError: not now, perhaps later."""
        return self._error(text, self._error.UNAVAILABLE)

    def internal(self, text: str):
        """A pb_utils.TritonError: something that must not happen."""
        return self._error(text, self._error.INTERNAL)

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
