# SPDX-License-Identifier: Apache-2.0
"""Most rows/s of one model: batches back to back in this process, in turns with 16 clients of Triton."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from bench.benches.latency_rounds import ModelRun
from bench.measure import stats
from bench.models.presets import Case
from bench.paths.load_generator import LoadGenerator
from bench.served.settings import Setting

CLIENTS = 16
# Values of the parameter `responses`, and the slots of each: with two, Triton gathers the next batch meanwhile.
RESPONSE_MODES = {"returned": 1, "sender": 2}


def served_models(case: Case, device_id: int, register_memory: bool) -> dict[str, Setting]:
    """Return the names and settings under which a model is served.

    One without the batcher; if it can be split by rows, one with the batcher for each of `RESPONSE_MODES`.
    """
    alone = Setting(delay_us=None, first_device=device_id, register_memory=register_memory)
    if not case.splittable:
        return {case.name: alone}
    batched = {f"{case.name}_{mode}": replace(alone, delay_us=0, slots=slots) for mode, slots in RESPONSE_MODES.items()}
    return {case.name: alone} | batched


def plain_models(case: Case, device_id: int) -> dict[str, Setting]:
    """Return the same of ``triton-plain``, which joins rows itself: without the batcher, and with it."""
    alone = Setting(delay_us=None, first_device=device_id)
    names = {f"{case.name}_plain": alone, f"{case.name}_plain_batched": replace(alone, delay_us=0)}
    return names if case.splittable else {}


def measure(run: ModelRun, rows: int, transport: str) -> dict:
    """Measure rows/s in turns: back to back batches of `rows` in this process, and 16 Triton clients of one row each.

    The clients use the models with Triton's dynamic batcher, of each response mode; a model that cannot be split by
    rows has none, and its clients send the whole input.
    """
    case, plan = run.case, run.plan
    inputs = case.rows(rows)
    expected = run.session.run(None, inputs)
    once = stats.timed(lambda: run.session.run(None, inputs))
    batch_s = once() / 1e9
    batches = max(plan.load_batches, min(int(plan.load_seconds / batch_s), 100 * plan.load_batches))
    modes = {mode: f"{case.name}_{mode}" for mode in RESPONSE_MODES} if case.splittable else {"returned": case.name}
    plain = {"triton-plain": f"{case.name}_plain_batched"} if plan.extra_paths and case.splittable else {}
    served = modes | plain

    def turns_of_clients(model: str) -> Callable[[int], stats.Turn]:
        clients = LoadGenerator(case, run.endpoint, model, transport, run.session, CLIENTS, 1)
        stack.callback(clients.close)
        return lambda count: clients.turn(count * rows, rows)

    directly = 1 if run.c_library is None else 2
    # Clients are busy before and after the counted batches.
    busy = batches + plan.load_turns * -(-2 * CLIENTS // rows) + 2 * CLIENTS
    estimate_s = batch_s * (directly * batches + len(served) * busy)
    what = f"{case.name}: {batches} batches of {rows} back to back, in turn with {CLIENTS} clients over {transport}"
    with run.progress.part(what, estimate_s), contextlib.ExitStack() as stack:
        paths: dict[str, Callable[[int], stats.Turn]] = {}
        if run.c_library is not None:
            paths["c"] = stats.turns_of(run.c_path(inputs, expected).run)
        paths["direct"] = stats.turns_of(lambda count: [once() for _ in range(count)])
        paths |= {path: turns_of_clients(model) for path, model in served.items()}
        turns_by_path = stats.alternate(paths, batches, plan.load_turns)

    found: dict[str, dict] = {}
    for path, turns in turns_by_path.items():
        call_rows = 1 if path in served else rows
        elapsed = [ns for turn in turns for ns in turn.elapsed_ns]
        fields = {
            "bytes_in": sum(array.nbytes for array in inputs.values()) * call_rows // rows,
            "bytes_out": sum(array.nbytes for array in expected) * call_rows // rows,
            **stats.summarize(elapsed),
            "samples_ns": elapsed,
            "rows_per_s": round(call_rows * stats.rate(turns), 3),
            "stable": stats.is_stable(stats.turn_windows(turns)),
        }
        found[path] = {"rows_per_s": fields["rows_per_s"], "stable": fields["stable"]}
        more: dict = {"concurrency": CLIENTS} if path in served else {}
        if path in modes:
            more |= {"slots": RESPONSE_MODES[path], "timing": f"{case.timing}; responses {path}"}
        name, over = "triton" if path in modes else path, transport if path in served else None
        run.record("throughput", name, over, call_rows, fields, **more)
    direct_path, best = "c" if "c" in found else "direct", max(modes, key=lambda mode: found[mode]["rows_per_s"])
    return {
        "direct_path": direct_path,
        "direct_rows_per_s": found[direct_path]["rows_per_s"],
        "session_rows_per_s": found["direct"]["rows_per_s"],
        "triton_rows_per_s": found[best]["rows_per_s"],
        "responses": best,
        "stable": found[direct_path]["stable"] and found[best]["stable"],
        "ways": {mode: found[mode] for mode in modes},
        "transport": transport,
        "clients": CLIENTS,
        "batch": rows,
    }
