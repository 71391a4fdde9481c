"""``python -m bench latency``: direct AscendCL and Triton, call by call in one run, and rows/s of 16 clients."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bench import stats
from bench.answers import agree
from bench.c_path import CPath
from bench.clients import Endpoint, Request, connect
from bench.models import Case
from bench.records import Limit, Record, Report

CLIENTS = 16
COLD_FROM_S = 0.002
HOT_TRANSPORTS = ("grpc", "http", "grpc+shm")
LLAMA_GAP_LIMITS_MS = {1: 0.9, 4: 1.1, 8: 1.1}


@dataclass(frozen=True)
class Plan:
    """How much is measured. `seconds` bounds one model and batch, but at least `min_rounds` are made.

    The smallest batch gets 100 rounds, enough for its p99, unless they would take longer than `first_seconds`. Cold
    floors are taken every `floor_every`-th round, because each costs a pause as long as the model's execution. Of models
    that need none, whose calls are short, the rounds are three of at most `windows` windows.
    """

    seconds: float = 90.0
    first_seconds: float = 180.0
    min_rounds: int = 100
    max_rounds: int = 5000
    floor_every: int = 1
    windows: int = 9
    load_seconds: float = 20.0
    load_batches: int = 60
    warm_up: int = 10
    pinned: bool = True

    def rounds(self, round_s: float, smallest: bool) -> int:
        wanted = max(self.min_rounds, min(self.max_rounds, int(self.seconds / round_s)))
        if smallest and stats.P99_SAMPLES * round_s <= self.first_seconds:
            wanted = max(wanted, min(stats.P99_SAMPLES, self.max_rounds))
        return wanted


QUICK = Plan(
    seconds=10,
    first_seconds=75,
    min_rounds=20,
    max_rounds=2000,
    floor_every=2,
    windows=6,
    load_seconds=4,
    load_batches=20,
    warm_up=3,
    pinned=False,
)


@dataclass
class Bench:
    """One open session and one running server for the same model, and what is common to all its records."""

    case: Case
    session: object
    endpoint: Endpoint
    c_library: ctypes.CDLL | None
    transports: tuple[str, ...]
    plan: Plan
    common: dict
    report: Report
    say: Callable[[str], None]

    def record(self, bench: str, path: str, transport: str | None, batch: int, fields: dict, **more) -> None:
        """Add one record; `fields` holds the statistics, `more` replaces defaults."""
        values = {
            "timing": self.case.timing,
            "concurrency": 1,
            "slots": 1 if path != "floor" else None,
            "instances": 1 if transport else None,
            **self.common,
            **more,
        }
        self.report.records.append(Record(bench, path, transport, self.case.name, batch, **fields, **values))


def latency(bench: Bench, batches: list[int]) -> list[dict]:
    """Measure all paths at each batch; returns one summary row per batch and transport."""
    return [row for batch in batches for row in _one_batch(bench, batch, batch == min(batches))]


def _one_batch(bench: Bench, batch: int, smallest: bool) -> list[dict]:
    case, plan, exact = bench.case, bench.plan, bench.case.timing.startswith("declared")
    inputs = case.rows(batch)
    names = [spec.name for spec in bench.session.get_outputs()]
    expected = bench.session.run(None, inputs)
    if case.reference is not None:
        agree(case.reference(inputs), expected, f"{case.name} batch {batch}: direct against the reference", False)

    with contextlib.ExitStack() as stack:
        answers: dict[tuple, Callable[[], list[np.ndarray]]] = {}
        runs: dict[tuple, Callable[[], int]] = {}

        def add(key: tuple, run: Callable[[], int], outputs: Callable[[], list[np.ndarray]]) -> None:
            runs[key], answers[key] = run, outputs

        if bench.c_library is not None:
            buffers = {name: np.empty_like(array) for name, array in zip(names, expected, strict=True)}
            c = CPath(bench.c_library, bench.session.native_handles(batch), inputs, buffers)
            add(("c", None), c.once(), lambda: list(buffers.values()))
            if plan.pinned:
                add(("c-pinned", None), c.once("c-pinned"), lambda: list(buffers.values()))
        direct: list[np.ndarray] = []

        def run_direct() -> None:
            direct[:] = bench.session.run(None, inputs)

        add(("direct", None), stats.timed(run_direct), lambda: direct)
        shapes = {name: (array.shape, array.dtype) for name, array in zip(names, expected, strict=True)}
        for transport in bench.transports:
            for path, model in (("triton", case.name), ("floor", f"{case.name}_floor")):
                caller = connect(bench.endpoint, Request(model, inputs, shapes), transport)
                stack.callback(caller.close)
                add(
                    (path, transport),
                    stats.timed(caller.call),
                    lambda caller=caller: [caller.outputs[name] for name in names],
                )

        warm = {key: np.median([run() for _ in range(plan.warm_up)]) / 1e9 for key, run in runs.items()}
        _check_answers(case, batch, expected, answers, exact)
        execution_s = float(warm[("c", None)] if ("c", None) in warm else warm[("direct", None)])
        pause_s = execution_s if execution_s >= COLD_FROM_S else 0.0
        calls = {
            key: stats.Call(run, plan.floor_every, pause_s) if key[0] == "floor" and pause_s else stats.Call(run)
            for key, run in runs.items()
        }
        round_s = sum((warm[key] + call.pause_s) / call.every for key, call in calls.items())
        rounds = plan.rounds(round_s, smallest)
        bench.say(f"{case.name} batch {batch}: {rounds} rounds of {len(calls)} calls, about {rounds * round_s:.0f} s")
        if pause_s:
            samples = stats.interleave(calls, rounds)
        else:
            size = -(-rounds // stats.WINDOWS)
            windows = stats.until_stable(lambda: stats.interleave(calls, size), plan.windows)
            samples = {key: [ns for window in windows for ns in window[key]] for key in calls}
        _check_answers(case, batch, expected, answers, exact)

    sizes = {
        "bytes_in": sum(array.nbytes for array in inputs.values()),
        "bytes_out": sum(array.nbytes for array in expected),
    }
    for (path, transport), elapsed in samples.items():
        fields = {
            **sizes,
            **stats.summarize(elapsed),
            "rows_per_s": round(batch * 1e9 / float(np.mean(elapsed)), 3),
            "stable": stats.is_stable(stats.sequential_windows(elapsed)),
        }
        more = {}
        if path == "floor":
            more["timing"] = f"no model, {pause_s * 1e3:.1f} ms pause before each call" if pause_s else "no model"
        bench.record("latency", path, transport, batch, fields, **more)
    return [_summary(batch, transport, samples, pause_s) for transport in bench.transports]


def _check_answers(case: Case, batch: int, expected: list, answers: dict, exact: bool) -> None:
    for (path, transport), outputs in answers.items():
        wanted = [np.zeros_like(array) for array in expected] if path == "floor" else expected
        where = f"{path} over {transport}" if transport else path
        agree(wanted, outputs(), f"{case.name} batch {batch}: {where} against direct", exact)


def _summary(batch: int, transport: str, samples: dict, pause_s: float) -> dict:
    triton, direct = samples[("triton", transport)], samples[("direct", None)]
    floor_us = stats.percentile(samples[("floor", transport)], 50) / 1e3
    compared = [samples[key] for key in (("triton", transport), ("floor", transport), ("c", None)) if key in samples]
    row = {
        "batch": batch,
        "transport": transport,
        "stable": all(stats.is_stable(stats.sequential_windows(elapsed)) for elapsed in compared),
        "triton_minus_direct_us": round(stats.paired_gap(triton, direct).gap_us, 3),
        "floor_us": round(floor_us, 3),
        "floor_pause_ms": round(pause_s * 1e3, 3),
    }
    if ("c", None) in samples:
        gap = stats.paired_gap(triton, samples[("c", None)])
        row |= {
            "gap_us": round(gap.gap_us, 3),
            "gap_p10_us": round(gap.p10_us, 3),
            "gap_p90_us": round(gap.p90_us, 3),
            "gap_to_floor": round(gap.gap_us / floor_us, 4),
        }
    return row


def load(bench: Bench, rows: int, transport: str) -> dict:
    """Measure rows/s: back to back batches of `rows` in this process, and 16 Triton clients of one row each.

    The clients use the model's second entry, which has Triton's dynamic batcher; a model that cannot be cut by rows has
    none, and its clients send the whole input.
    """
    case, plan = bench.case, bench.plan
    inputs = case.rows(rows)
    expected = bench.session.run(None, inputs)
    names = [spec.name for spec in bench.session.get_outputs()]
    start = time.perf_counter()
    bench.session.run(None, inputs)
    batches = max(plan.load_batches, int(plan.load_seconds / (time.perf_counter() - start)))
    batches = min(batches, 100 * plan.load_batches)
    bench.say(f"{case.name}: {batches} batches of {rows} back to back, then {CLIENTS} clients over {transport}")
    sizes = {
        "bytes_in": sum(array.nbytes for array in inputs.values()),
        "bytes_out": sum(array.nbytes for array in expected),
    }
    paths: dict[str, Callable[[int], list[int]]] = {}
    if bench.c_library is not None:
        buffers = {name: np.empty_like(array) for name, array in zip(names, expected, strict=True)}
        paths["c"] = CPath(bench.c_library, bench.session.native_handles(rows), inputs, buffers).run
    once = stats.timed(lambda: bench.session.run(None, inputs))
    paths["direct"] = lambda count: [once() for _ in range(count)]
    rates: dict[str, float] = {}
    for path, (elapsed, wall_ns) in stats.alternate(paths, batches).items():
        rates[path] = rows * len(elapsed) * 1e9 / wall_ns
        fields = {
            **sizes,
            **stats.summarize(elapsed),
            "rows_per_s": round(rates[path], 3),
            "stable": stats.is_stable(stats.sequential_windows(elapsed)),
        }
        bench.record("throughput", path, None, rows, fields)

    finished, elapsed = closed_loop(bench, transport, batches * rows, rows)
    rates["triton"] = stats.completion_rate(finished, rows)
    fields = {
        "bytes_in": sizes["bytes_in"] // rows,
        "bytes_out": sizes["bytes_out"] // rows,
        **stats.summarize(elapsed),
        "rows_per_s": round(rates["triton"], 3),
        "stable": stats.is_stable(stats.concurrent_windows(finished, elapsed)),
    }
    bench.record("throughput", "triton", transport, 1, fields, concurrency=CLIENTS)
    return {
        "direct_path": "c" if "c" in rates else "direct",
        "direct_rows_per_s": round(rates.get("c", rates["direct"]), 3),
        "session_rows_per_s": round(rates["direct"], 3),
        "triton_rows_per_s": round(rates["triton"], 3),
        "transport": transport,
        "clients": CLIENTS,
        "batch": rows,
    }


def closed_loop(bench: Bench, transport: str, total: int, burst: int) -> tuple[list[int], list[int]]:
    """Let 16 clients, each with its own row, send one request after another until `total` are answered.

    Returns the times of completion, ordered, and each request's latency, in nanoseconds. Every answer's beginning is
    compared with the expected one, the first and the last of each client entirely.
    """
    case, exact = bench.case, bench.case.timing.startswith("declared")
    names = [spec.name for spec in bench.session.get_outputs()]
    expected = [bench.session.run(None, case.rows(burst, client)) for client in range(CLIENTS)]
    first_rows = [[array[: len(array) // burst] for array in outputs] for outputs in expected]
    done: list[tuple[int, int]] = []
    failures: list[BaseException] = []
    started = threading.Barrier(CLIENTS)
    left = threading.Semaphore(total + CLIENTS)

    def client(number: int, caller) -> None:
        what = f"{case.name}: client {number} of {CLIENTS} over {transport}"
        wanted = first_rows[number]
        heads = [array.reshape(-1)[:16] for array in wanted]
        try:
            caller.call()
            agree(wanted, [caller.outputs[name] for name in names], what, exact)
            started.wait(timeout=60)
            while not failures and left.acquire(blocking=False):
                begin = time.perf_counter_ns()
                caller.call()
                end = time.perf_counter_ns()
                done.append((end, end - begin))
                agree(heads, [caller.outputs[name].reshape(-1)[:16] for name in names], what, exact)
            agree(wanted, [caller.outputs[name] for name in names], what, exact)
        except BaseException as error:
            failures.append(error)
            started.abort()

    with _callers(bench, transport, names, first_rows) as callers:
        threads = [threading.Thread(target=client, args=item, daemon=True) for item in enumerate(callers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as interruption:
            failures.append(interruption)
            started.abort()
            for thread in threads:
                thread.join()
            raise
    if failures:
        raise next((error for error in failures if not isinstance(error, threading.BrokenBarrierError)), failures[0])
    done.sort()
    return [end for end, _ in done[:total]], [elapsed for _, elapsed in done[:total]]


@contextlib.contextmanager
def _callers(bench: Bench, transport: str, names: list[str], first_rows: list) -> Iterator[list]:
    with contextlib.ExitStack() as stack:
        callers = []
        model = f"{bench.case.name}_batched" if bench.case.splittable else bench.case.name
        for number, arrays in enumerate(first_rows):
            shapes = {name: (array.shape, array.dtype) for name, array in zip(names, arrays, strict=True)}
            request = Request(model, bench.case.rows(1, number), shapes)
            callers.append(connect(bench.endpoint, request, transport))
            stack.callback(callers[-1].close)
        yield callers


def limits(model: str, rows: list[dict]) -> list[Limit]:
    """The limits that the latency of a preset decides: ``llama7b`` G6a and G6b, ``image`` G5."""
    if model == "image":
        judged = {row["transport"]: row for row in rows if "gap_us" in row and row["transport"] in HOT_TRANSPORTS}
        return [
            Limit(f"G5: gap / floor, 602,112 B in, 4,000 B out, {over}", row["gap_to_floor"], 1.0, row["stable"])
            for over, row in judged.items()
        ]
    return _llama_limits(rows) if model == "llama7b" else []


def _llama_limits(rows: list[dict]) -> list[Limit]:
    judged = {
        (row["transport"], row["batch"]): row for row in rows if "gap_us" in row and row["batch"] in LLAMA_GAP_LIMITS_MS
    }
    found = []
    for (transport, batch), row in judged.items():
        if transport == "grpc+shm":
            what = f"G6a batch {batch}: gap / cold floor, grpc+shm"
            found.append(Limit(what, row["gap_to_floor"], 1.0, row["stable"]))
    for (transport, batch), row in judged.items():
        if transport == "http+shm":
            what = f"G6b batch {batch}: gap in ms, http+shm"
            found.append(Limit(what, round(row["gap_us"] / 1e3, 3), LLAMA_GAP_LIMITS_MS[batch], row["stable"]))
    return found
