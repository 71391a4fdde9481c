# SPDX-License-Identifier: Apache-2.0
"""Bringing the dead workers of a tritonserver back: Triton 2.51 neither restarts them nor says that they are gone."""

import http.client
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ge_core.server.probe import ask
from ge_core.server.tritonserver import STUB, TritonServer

PERIOD_S = 1.0
LOAD_LIMIT_S = 300
UNLOAD_LIMIT_S = 10
LEAVE_LIMIT_S = 10  # for a worker to end once its model was loaded anew
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
CALM_S = 600  # after so long without trouble a model's pauses begin anew


class Worker(NamedTuple):
    """A process that runs one instance of a model."""

    model: str
    version: str
    pid: int


class RestartNeeded(Exception):  # noqa: N818  an outcome, not an error
    """The server cannot be helped by loading a model again."""


class Supervisor:
    """Looks after one running server. `watch` blocks; everything happens in its thread.

    A model is loaded again when fewer workers live than it has instances, twice in a row, and when one of its
    instances reports (by a file in the server's `lost`) a device error that only a new process ends.

    Parameters
    ----------
    server : TritonServer
        Started.
    say : callable
        Receives one sentence for each thing found and done.
    """

    def __init__(self, server: TritonServer, say: Callable[[str], None]):
        self._server, self._say = server, say
        self._suspects: set[str] = set()
        self._pauses: dict[str, float] = {}
        self._next: dict[str, float] = {}
        self._leaving: dict[int, float] = {}
        self._owed: list[str] = []  # unloaded here and not loaded yet; Triton's index does not tell them apart

    def watch(self, period_s: float = PERIOD_S) -> int:
        """Looks every `period_s` until the server ends; its exit code.

        Raises
        ------
        RestartNeeded
            A model needs a new worker and the server does not load models on demand, or gave no answer in time.
        """
        while (code := self._server.wait(period_s)) is None:
            with suppress(OSError, http.client.HTTPException, ValueError):  # busy or just ending: look again later
                self.look()
        return code

    def look(self) -> list[str]:
        """One look; the models that were loaded again."""
        self._end_leaving()
        ready = self._ready()
        self._owed = [name for name in self._owed if name not in ready]
        helped = [name for name in list(self._owed) if self._due(name) and self._load(name)]
        lost = self._lost() & set(ready)
        missing = {name for name, versions in ready.items() if self._dead(name, versions)}
        again, self._suspects = missing & self._suspects, missing
        for name in sorted(lost | again):
            if not self._due(name):
                continue
            reason = "its device is lost to its process" if name in lost else "a worker of it is dead"
            self._say(f"model {name}: {reason}; loading it again")
            self.reload(name, ready)
            helped.append(name)
            self._suspects.discard(name)
        return helped

    def reload(self, name: str, ready: dict[str, list[str]]) -> None:
        """Unloads and loads a model, and what its unloading took along (ensembles)."""
        old = [worker.pid for worker in self._workers() if worker.model == name]
        self._owed += [name, *(other for other in ready if other != name)]
        status, answer = self._order(name, "unload")
        if status != 200:
            raise RestartNeeded(f"model {name} cannot be loaded again: {answer.decode()}")
        try:
            deadline = time.monotonic() + UNLOAD_LIMIT_S
            while name in (still := self._ready()) and time.monotonic() < deadline:
                time.sleep(0.05)
            self._owed = [model for model in self._owed if model == name or model not in still]
            for model in list(self._owed):
                self._load(model)
        finally:
            self._leaving |= dict.fromkeys(old, time.monotonic() + LEAVE_LIMIT_S)

    def _load(self, name: str) -> bool:
        self._pause(name)
        status, answer = self._order(name, "load")
        if status == 200:
            self._owed.remove(name)
            self._say(f"model {name}: serves again")
        else:
            self._say(f"model {name} did not load, and is tried again: {answer.decode()}")
        return status == 200

    def _order(self, name: str, order: str) -> tuple[int, bytes]:
        try:
            return self._post(f"/v2/repository/models/{name}/{order}", LOAD_LIMIT_S)
        except TimeoutError:
            raise RestartNeeded(f"no answer to the {order} of model {name} within {LOAD_LIMIT_S} s") from None

    def _workers(self) -> list[Worker]:
        """The living workers, without those of models that were unloaded."""
        return [worker for worker in live_workers(self._server.pid) if worker.pid not in self._leaving]

    def _end_leaving(self) -> None:
        """Workers that outlive their model, because Triton waits for a dead one beside them, still hold the device."""
        alive = {worker.pid for worker in live_workers(self._server.pid)}
        self._leaving = {pid: until for pid, until in self._leaving.items() if pid in alive}
        for pid, until in self._leaving.items():
            if time.monotonic() > until:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _due(self, name: str) -> bool:
        return time.monotonic() >= self._next.get(name, 0.0)

    def _pause(self, name: str) -> None:
        """A model that keeps failing is loaded ever more seldom."""
        now = time.monotonic()
        pause = self._pauses.get(name, FIRST_PAUSE_S)
        if now - self._next.get(name, now) > CALM_S:
            pause = FIRST_PAUSE_S
        self._next[name] = now + pause
        self._pauses[name] = min(2 * pause, LONGEST_PAUSE_S)

    def _ready(self) -> dict[str, list[str]]:
        """Versions that Triton calls ready, by model."""
        status, answer = self._post("/v2/repository/index", 10)
        found: dict[str, list[str]] = {}
        for entry in json.loads(answer) if status == 200 else ():
            if entry.get("state") == "READY":
                found.setdefault(entry["name"], []).append(entry["version"])
        return found

    def _lost(self) -> set[str]:
        """Models with a living worker that asks for its end."""
        alive = {worker.pid for worker in live_workers(self._server.pid)}
        lost = {int(file.name): file for file in self._server.lost.iterdir()}
        for pid in lost.keys() - alive:  # another process may come to have its pid
            lost[pid].unlink()
        return {worker.model for worker in self._workers() if worker.pid in lost}

    def _dead(self, name: str, versions: list[str]) -> bool:
        workers = Counter(worker.version for worker in self._workers() if worker.model == name)
        for version in versions:
            status, answer = ask(self._server.http, "GET", f"/v2/models/{name}/versions/{version}/config", 10)
            if status == 200 and workers[version] < instances(json.loads(answer)):
                return True
        return False

    def _post(self, path: str, limit_s: float) -> tuple[int, bytes]:
        return ask(self._server.http, "POST", path, limit_s)


def instances(config: dict) -> int:
    """How many workers a model has; none if it is not of the Python backend or of a backend made of Python."""
    if config.get("backend") != "python" and config.get("runtime") != "model.py":
        return 0
    return sum(group["count"] for group in config["instance_group"])


def live_workers(server_pid: int) -> list[Worker]:
    """The living workers of a server. A dead one that was not collected has no command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, IndexError, ValueError):
            if entry.name.isdigit():
                arguments = (entry / "cmdline").read_bytes().decode().split("\0")
                # argv of a worker: stub, <model>/<version>/<file>, region, sizes, pid of the server, …
                if arguments[0].endswith(STUB) and arguments[5] == str(server_pid):
                    model, version = Path(arguments[1]).parts[-3:-1]
                    found.append(Worker(model, version, int(entry.name)))
    return found
