"""``python -m bench latency``: direct AscendCL and Triton, call by call in one run, and rows/s of 16 clients."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bench.measure import stats
from bench.measure.answers import agree
from bench.measure.loops import Clients
from bench.measure.records import Limit, Record, Report
from bench.models.presets import Case
from bench.paths import calling
from bench.paths.c_path import CPath
from bench.paths.clients import Endpoint, Request, connect
from bench.served.settings import Setting

CLIENTS = 16
WAYS = {"returned": 1, "sender": 2}  # to answer, and the slots of each: Triton gathers the next batch meanwhile
COLD_FROM_S = 0.002
WARM_S, WARM_ROUNDS = 0.02, 20  # a window of the warm-up: so many calls as this takes, and so many at most
HOT_TRANSPORTS = ("grpc", "http", "grpc+shm")
LLAMA_GAP_LIMITS_MS = {1: 0.9, 4: 1.1, 8: 1.1}


@dataclass(frozen=True)
class Plan:
    """How much is measured. `seconds` bounds one model and batch, but at least `min_rounds` are made.

    The smallest batch gets 100 rounds, enough for its p99, unless they would take longer than `first_seconds`. Cold
    floors are taken every `floor_every`-th round, because each costs a pause as long as the model's execution. Where
    they need none, the rounds are three of at most `windows` windows. The warm-up is at most `warm_up` windows.
    """

    seconds: float = 90.0
    first_seconds: float = 180.0
    min_rounds: int = 100
    max_rounds: int = 5000
    floor_every: int = 1
    windows: int = 9
    load_seconds: float = 20.0
    load_batches: int = 60
    load_turns: int = 6
    warm_up: int = 10
    more: bool = True  # also c-pinned and triton-plain

    def rounds(self, round_s: float, smallest: bool) -> int:
        wanted = max(self.min_rounds, min(self.max_rounds, int(self.seconds / round_s)))
        if smallest and stats.P99_SAMPLES * round_s <= self.first_seconds:
            wanted = max(wanted, min(stats.P99_SAMPLES, self.max_rounds))
        return wanted


QUICK = Plan(
    seconds=6,
    first_seconds=75,
    min_rounds=16,
    max_rounds=2000,
    floor_every=2,
    windows=4,
    load_seconds=2,
    load_batches=20,
    load_turns=3,
    warm_up=3,
    more=False,
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
    first_ns = stats.timed(lambda: bench.session.run(None, inputs))()
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
            c = CPath(bench.c_library, calling.handles(bench.session, inputs), inputs, buffers)
            add(("c", None), c.once(), lambda: list(buffers.values()))
            if plan.more:
                add(("c-pinned", None), c.once("c-pinned"), lambda: list(buffers.values()))
        direct: list[np.ndarray] = []

        def run_direct() -> None:
            direct[:] = bench.session.run(None, inputs)

        add(("direct", None), stats.timed(run_direct), lambda: direct)
        shapes = {name: (array.shape, array.dtype) for name, array in zip(names, expected, strict=True)}
        served = {"triton": case.name, "floor": f"{case.name}_floor"}
        if plan.more and case.splittable:
            served["triton-plain"] = f"{case.name}_plain"
        for transport in bench.transports:
            for path, model in served.items():
                caller = connect(bench.endpoint, Request(model, inputs, shapes), transport)
                stack.callback(caller.close)
                add(
                    (path, transport),
                    stats.timed(caller.call),
                    lambda caller=caller: [caller.outputs[name] for name in names],
                )

        size = max(1, min(WARM_ROUNDS, int(WARM_S * 1e9 / first_ns)))
        hot = {key: stats.Call(run) for key, run in runs.items()}
        windows = stats.until_stable(lambda: stats.interleave(hot, size), plan.warm_up)
        warm = {key: stats.percentile([ns for window in windows for ns in window[key]], 50) / 1e9 for key in runs}
        _check_answers(case, batch, expected, answers, exact)
        execution_s = warm[("c", None)] if ("c", None) in warm else warm[("direct", None)]
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
            "samples_ns": elapsed,
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


def entries(case: Case, device_id: int, register_memory: bool) -> dict[str, Setting]:
    """The entries of a model: one without the batcher; if it can be cut by rows, one with it for each of `WAYS`."""
    alone = Setting(delay_us=None, first_device=device_id, register_memory=register_memory)
    ways = {f"{case.name}_{way}": replace(alone, delay_us=0, slots=slots) for way, slots in WAYS.items()}
    return {case.name: alone} | (ways if case.splittable else {})


def plain_entries(case: Case, device_id: int) -> dict[str, Setting]:
    """The entries of ``triton-plain``, whose model joins rows: without the batcher, and with it."""
    alone = Setting(delay_us=None, first_device=device_id)
    names = {f"{case.name}_plain": alone, f"{case.name}_plain_batched": replace(alone, delay_us=0)}
    return names if case.splittable else {}


def load(bench: Bench, rows: int, transport: str) -> dict:
    """Measure rows/s in turns: back to back batches of `rows` in this process, and 16 Triton clients of one row each.

    The clients use the entries with Triton's dynamic batcher, of each way to answer; a model that cannot be cut by rows
    has none, and its clients send the whole input.
    """
    case, plan = bench.case, bench.plan
    inputs = case.rows(rows)
    expected = bench.session.run(None, inputs)
    names = [spec.name for spec in bench.session.get_outputs()]
    once = stats.timed(lambda: bench.session.run(None, inputs))
    batches = max(plan.load_batches, min(int(plan.load_seconds * 1e9 / once()), 100 * plan.load_batches))
    ways = {way: f"{case.name}_{way}" for way in WAYS} if case.splittable else {"returned": case.name}
    plain = {"triton-plain": f"{case.name}_plain_batched"} if plan.more and case.splittable else {}
    bench.say(f"{case.name}: {batches} batches of {rows} back to back, in turn with {CLIENTS} clients over {transport}")
    with contextlib.ExitStack() as stack:
        paths: dict[str, Callable[[int], stats.Turn]] = {}
        if bench.c_library is not None:
            buffers = {name: np.empty_like(array) for name, array in zip(names, expected, strict=True)}
            paths["c"] = stats.turns_of(
                CPath(bench.c_library, calling.handles(bench.session, inputs), inputs, buffers).run
            )
        paths["direct"] = stats.turns_of(lambda count: [once() for _ in range(count)])
        for way, entry in (ways | plain).items():
            clients = Clients(case, bench.endpoint, entry, transport, bench.session, CLIENTS, 1)
            stack.callback(clients.close)
            paths[way] = lambda count, clients=clients: clients.turn(count * rows, rows)
        taken = stats.alternate(paths, batches, plan.load_turns)

    found: dict[str, dict] = {}
    for path, turns in taken.items():
        served = path not in ("c", "direct")
        each = 1 if served else rows  # rows of a call
        elapsed = [ns for turn in turns for ns in turn.elapsed_ns]
        fields = {
            "bytes_in": sum(array.nbytes for array in inputs.values()) * each // rows,
            "bytes_out": sum(array.nbytes for array in expected) * each // rows,
            **stats.summarize(elapsed),
            "samples_ns": elapsed,
            "rows_per_s": round(each * stats.rate(turns), 3),
            "stable": stats.is_stable(stats.turn_windows(turns)),
        }
        found[path] = {"rows_per_s": fields["rows_per_s"], "stable": fields["stable"]}
        more: dict = {"concurrency": CLIENTS} if served else {}
        if path in ways:
            more |= {"slots": WAYS[path], "timing": f"{case.timing}; responses {path}"}
        name, over = "triton" if path in ways else path, transport if served else None
        bench.record("throughput", name, over, each, fields, **more)
    direct_path, best = "c" if "c" in found else "direct", max(ways, key=lambda way: found[way]["rows_per_s"])
    return {
        "direct_path": direct_path,
        "direct_rows_per_s": found[direct_path]["rows_per_s"],
        "session_rows_per_s": found["direct"]["rows_per_s"],
        "triton_rows_per_s": found[best]["rows_per_s"],
        "responses": best,
        "stable": found[direct_path]["stable"] and found[best]["stable"],
        "ways": {way: found[way] for way in ways},
        "transport": transport,
        "clients": CLIENTS,
        "batch": rows,
    }


def limits(model: str, rows: list[dict], loaded: dict) -> list[Limit]:
    """The limits that a preset decides: ``llama7b`` G6a, G6b and G7, ``image`` G5."""
    if model == "image":
        judged = {row["transport"]: row for row in rows if "gap_us" in row and row["transport"] in HOT_TRANSPORTS}
        return [
            Limit(f"G5: gap / floor, 602,112 B in, 4,000 B out, {over}", row["gap_to_floor"], 1.0, row["stable"])
            for over, row in judged.items()
        ]
    return [*_llama_gap_limits(rows), *_llama_load_limits(loaded)] if model == "llama7b" else []


def _llama_gap_limits(rows: list[dict]) -> list[Limit]:
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


def _llama_load_limits(loaded: dict) -> list[Limit]:
    if loaded["direct_path"] != "c":
        return []
    what = f"G7: rows/s of {loaded['clients']} clients, better of the two ways / c with batch {loaded['batch']}"
    value = round(loaded["triton_rows_per_s"] / loaded["direct_rows_per_s"], 4)
    return [Limit(what, value, 0.99, loaded["stable"], at_least=True)]
