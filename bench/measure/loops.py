"""Clients of one entry, driven by threads: each sends its next request when the last is answered, or at given times."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.measure import stats
from bench.measure.answers import agree
from bench.models.presets import Case
from bench.paths.clients import Request, connect


@dataclass(frozen=True)
class Taken:
    """Answers in order of their end: when each ended, and how long it took, in nanoseconds."""

    finished_ns: list[int]
    elapsed_ns: list[int]

    def per_s(self, burst: int = 1) -> float:
        """Answers per second; `burst` of them may come together."""
        return stats.completion_rate(self.finished_ns, min(burst, max(len(self.finished_ns) // 2, 1)))


class Clients:
    """Connections to one entry, each with a request of its own, whose answers are checked."""

    def __init__(self, case: Case, endpoint, entry: str, transport: str, session, count: int, rows: int):
        self._what, self._exact = f"{entry} over {transport}", case.timing.startswith("declared")
        self._names = [spec.name for spec in session.get_outputs()]
        self._callers, self._wanted = [], []
        try:
            for number in range(count):
                inputs = case.rows(rows, number)
                expected = session.run(None, inputs)
                shapes = {name: (array.shape, array.dtype) for name, array in zip(self._names, expected, strict=True)}
                self._callers.append(connect(endpoint, Request(entry, inputs, shapes), transport))
                self._wanted.append(expected)
            for number, caller in enumerate(self._callers):
                caller.call()
                self._compare(number, caller, whole=True)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for caller in self._callers:
                stack.callback(caller.close)

    def _compare(self, number: int, caller, whole: bool) -> None:
        wanted, got = self._wanted[number], [caller.outputs[name] for name in self._names]
        if not whole:
            wanted, got = ([array.reshape(-1)[:16] for array in arrays] for arrays in (wanted, got))
        agree(wanted, got, f"{self._what}, client {number}", self._exact)

    def closed(self, clients: int, seconds: float, least: int, most: int) -> Taken:
        """Let so many clients send one request after another: for `seconds`, but from `least` to `most` requests."""
        numbers = iter(range(most))
        end_ns = time.perf_counter_ns() + round(seconds * 1e9)
        lock = threading.Lock()

        def next_due() -> int | None:
            with lock:
                number = next(numbers, None)
            now = time.perf_counter_ns()
            return None if number is None or (now >= end_ns and number >= least) else now

        return self._drive(clients, next_due)

    def busy(self, count: int, burst: int = 1) -> Taken:
        """Let all clients send one request after another; returns one answer, and the `count` after it.

        Answers come in bursts of `burst`. Counting starts when there are as many as there are clients, in whole bursts,
        and ends before the clients do, so that all are busy all the time.
        """
        clients = len(self._callers)
        first = -(-clients // burst) * burst - 1
        total = first + 1 + count + clients
        taken = self.closed(clients, 0.0, total, total)
        counted = slice(first, first + count + 1)
        return Taken(taken.finished_ns[counted], taken.elapsed_ns[counted])

    def turn(self, count: int, burst: int) -> stats.Turn:
        """Let all clients be `busy`."""
        taken = self.busy(count, burst)
        return stats.Turn(taken.elapsed_ns[1:], taken.finished_ns[-1] - taken.finished_ns[0])

    def open(self, due_ns: np.ndarray) -> Taken:
        """Send a request at each of the times, counted from now, over as many connections as there are."""
        start = time.perf_counter_ns() + 20_000_000
        times = iter(due_ns.tolist())
        lock = threading.Lock()

        def next_due() -> int | None:
            with lock:
                due = next(times, None)
            return None if due is None else start + due

        return self._drive(len(self._callers), next_due)

    def _drive(self, clients: int, next_due: Callable[[], int | None]) -> Taken:
        done: list[tuple[int, int]] = []
        failures: list[BaseException] = []

        def client(number: int) -> None:
            caller = self._callers[number]
            try:
                while not failures and (due := next_due()) is not None:
                    if (early := due - time.perf_counter_ns()) > 0:
                        time.sleep(early / 1e9)
                    caller.call()
                    end = time.perf_counter_ns()
                    done.append((end, end - due))
                    self._compare(number, caller, whole=False)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as interruption:
            failures.append(interruption)
            for thread in threads:
                thread.join()
            raise
        if failures:
            raise failures[0]
        done.sort()
        return Taken([end for end, _ in done], [elapsed for _, elapsed in done])
