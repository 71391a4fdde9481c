# SPDX-License-Identifier: Apache-2.0
"""A load generator: clients of one served model, each a thread, in a closed or an open loop."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.measure import stats
from bench.measure.verify import check_outputs
from bench.models.presets import Case
from bench.paths.clients import Client, Request, connect


@dataclass(frozen=True)
class Completions:
    """Finished requests in the order in which they ended: when each ended, and how long it took, in nanoseconds."""

    finished_ns: list[int]
    elapsed_ns: list[int]

    def rate(self, burst: int = 1) -> float:
        """Return requests per second; `burst` of them may end together."""
        return stats.completion_rate(self.finished_ns, min(burst, max(len(self.finished_ns) // 2, 1)))


class LoadGenerator:
    """Connections to one served model, each with a request of its own; every response is checked."""

    def __init__(self, case: Case, endpoint, model: str, transport: str, session, count: int, rows: int):
        self._what, self._exact = f"{model} over {transport}", case.timing.startswith("declared")
        self._names = [spec.name for spec in session.get_outputs()]
        self._clients: list[Client] = []
        self._expected: list[list[np.ndarray]] = []
        try:
            for number in range(count):
                inputs = case.rows(rows, number)
                expected = session.run(None, inputs)
                shapes = {name: (array.shape, array.dtype) for name, array in zip(self._names, expected, strict=True)}
                self._clients.append(connect(endpoint, Request(model, inputs, shapes), transport))
                self._expected.append(expected)
            for number, client in enumerate(self._clients):
                client.call()
                self._compare(number, client, whole=True)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for client in self._clients:
                stack.callback(client.close)

    def _compare(self, number: int, client: Client, whole: bool) -> None:
        expected, got = self._expected[number], [client.outputs[name] for name in self._names]
        if not whole:
            expected, got = ([array.reshape(-1)[:16] for array in arrays] for arrays in (expected, got))
        check_outputs(expected, got, f"{self._what}, client {number}", self._exact)

    def closed_loop(self, clients: int, seconds: float, min_requests: int, max_requests: int) -> Completions:
        """Let each of so many clients send its next request when the last one has ended.

        That for `seconds`, but at least `min_requests` and at most `max_requests` together. Blocks until all ended.
        """
        numbers = iter(range(max_requests))
        end_ns = time.perf_counter_ns() + round(seconds * 1e9)
        lock = threading.Lock()

        def next_due() -> int | None:
            with lock:
                number = next(numbers, None)
            now = time.perf_counter_ns()
            return None if number is None or (now >= end_ns and number >= min_requests) else now

        return self._drive(clients, next_due)

    def saturated(self, count: int, burst: int = 1) -> Completions:
        """Run a closed loop of all clients; returns one completion and the `count` after it.

        Requests end in bursts of `burst`. Counting starts after one request of each client, in whole bursts, and ends
        before the clients do, so that all clients are busy while it counts.
        """
        clients = len(self._clients)
        first = -(-clients // burst) * burst - 1
        total = first + 1 + count + clients
        done = self.closed_loop(clients, 0.0, total, total)
        counted = slice(first, first + count + 1)
        return Completions(done.finished_ns[counted], done.elapsed_ns[counted])

    def turn(self, count: int, burst: int) -> stats.Turn:
        """Return `saturated` as a turn of `stats.alternate`."""
        done = self.saturated(count, burst)
        return stats.Turn(done.elapsed_ns[1:], done.finished_ns[-1] - done.finished_ns[0])

    def open_loop(self, due_ns: np.ndarray) -> Completions:
        """Send a request at each of the times, in ns from now, whatever the server does.

        A request that is due while every connection is busy waits for one, and that counts as its latency.
        """
        start = time.perf_counter_ns() + 20_000_000
        times = iter(due_ns.tolist())
        lock = threading.Lock()

        def next_due() -> int | None:
            with lock:
                due = next(times, None)
            return None if due is None else start + due

        return self._drive(len(self._clients), next_due)

    def _drive(self, clients: int, next_due: Callable[[], int | None]) -> Completions:
        done: list[tuple[int, int]] = []
        failures: list[BaseException] = []

        def client(number: int) -> None:
            client = self._clients[number]
            try:
                while not failures and (due := next_due()) is not None:
                    if (wait_ns := due - time.perf_counter_ns()) > 0:
                        time.sleep(wait_ns / 1e9)
                    client.call()
                    end = time.perf_counter_ns()
                    done.append((end, end - due))
                    self._compare(number, client, whole=False)
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
        return Completions([end for end, _ in done], [elapsed for _, elapsed in done])
