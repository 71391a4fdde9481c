# SPDX-License-Identifier: Apache-2.0
"""Whether a served model can answer, and its way back after a device error."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ge_core_pyx.errors import STICKY

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
# Names a folder in which a worker that only a new process can replace leaves a file, called after its pid.
LOST_ENVIRONMENT = "GE_CORE_LOST_WORKERS"


class Health:
    """Follows a session: after an error that stopped it or took slots from it, asks it to recover until it does, from a
    thread.

    Parameters
    ----------
    session : ge_core.InferenceSession
    log : callable
        Receives one sentence each time the state changes.

    Attributes
    ----------
    reason : str or None
        Why no request can run now; None when they can. Reading it costs nothing.
    restart_needed : bool
        The device reported an error that, as far as is known, only a new process ends.
    """

    def __init__(self, session, log: Callable[[str], None]):
        self.reason: str | None = None
        self.restart_needed = False
        self._session, self._log = session, log
        self._slots = session.stats()["slots"]
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def failed(self, error: BaseException) -> None:
        """To be called after an execution failed. Returns at once; the session may be well, then nothing happens."""
        with self._lock:
            if self.reason is not None or self._ended.is_set():
                return
            stats = self._session.stats()
            unhealthy = stats["unhealthy"]
            if unhealthy is None:
                if stats["slots"] < self._slots:
                    self._ask()
                return
            if getattr(error, "code", None) in STICKY:
                self._lost(unhealthy)
                return
            self.reason = f"{unhealthy}. The device is being asked again"
            self._log(f"answers UNAVAILABLE for now: {self.reason}")
            self._ask()

    def close(self) -> None:
        """Ends the thread. Blocks for at most an attempt that is under way."""
        with self._lock:
            self._ended.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _ask(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._recover, name="ge_core recovery", daemon=True)
            self._thread.start()

    def _lost(self, why) -> None:
        self.restart_needed = True
        self.reason = f"{why}. Only a new process ends this: unload and load the model"
        self._log(f"does not answer any more: {self.reason}")
        if folder := os.environ.get(LOST_ENVIRONMENT):
            with suppress(OSError):
                Path(folder, str(os.getpid())).touch()

    def _recover(self) -> None:
        began, pause = time.monotonic(), FIRST_PAUSE_S
        while not self._ended.wait(pause):
            try:
                self._session.recover()
            except Exception as error:
                if getattr(error, "code", None) in STICKY:
                    with self._lock:
                        self._lost(error)
                    return
                pause = min(2 * pause, LONGEST_PAUSE_S)
            else:
                with self._lock:
                    if self._session.stats()["slots"] < self._slots:
                        continue  # it failed again meanwhile
                    refused, self.reason, self._thread = self.reason, None, None
                if refused:
                    self._log(f"answers again, after {time.monotonic() - began:.1f} s")
                return
