# SPDX-License-Identifier: Apache-2.0
"""One scenario that uses all of a session, a fault injected anywhere in it, and a verdict on what came of it.

As a program, ``python faults.py EFFECT KIND``, it runs all cases of an effect that a process may not survive.
"""

import contextlib
import faulthandler
import gc
import json
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from oms import Om
from stand_in import StandIn

import ge_core
from ge_core.compiler import synthetic
from ge_core.engine import engine_of
from ge_core_pyx import acl, device, errors, om, slot
from ge_core_pyx.abi import xlist

ENTRIES = xlist.called_functions()
CODED = frozenset(row.name for row in xlist.functions() if row.result == "aclError")
# Called once per process: when the runtime opens, and by the watchdog just before it ends the process.
ONCE = ("aclInit", "aclrtGetDeviceCount", "aclrtGetSocName", "aclrtSynchronizeDeviceWithTimeout")
# Called after the other has failed.
INSTEAD = {
    "aclrtCreateStream": "aclrtCreateStreamWithConfig",
    "aclrtGetVersion": "aclsysGetCANNVersion",
}  # second tries
KINDS = ("static", "batch", "image_size", "dims", "range", "unbounded")
# The one object that is left because its release was refused.
KEPT = {
    "aclrtDestroyContext": "context", "aclrtDestroyStream": "stream", "aclrtFree": "device_memory",
    "aclrtFreeHost": "host_memory", "aclDestroyDataBuffer": "data_buffer", "aclDestroyTensorDesc": "tensor_desc",
    "aclmdlDestroyDesc": "desc", "aclmdlDestroyDataset": "dataset", "aclmdlUnload": "model",
    "aclrtDestroyEvent": "event",
    "aclGetDataBufferAddr": "device_memory",  # what AscendCL allocated, and did not say where
}  # fmt: skip
QUEUE = ("aclrtMemcpyAsync", "aclmdlExecuteAsync", "aclmdlExecute")  # whose work a stream does later
HANG_MS = 150
LIMIT_S = 120  # of a case that takes milliseconds
FAILURES = (ge_core.AclError, MemoryError, TimeoutError)
UNHEALTHY = "no longer runs after a device error"


class Model:
    """A synthetic om of one kind, three requests, and their answers."""

    def __init__(self, folder, kind):
        self.kind = kind
        self.path = folder / f"{kind}.om"
        gears, ranges, self.shapes = {
            "static": (None, None, [(4, 3), (4, 3), (4, 3)]),
            "batch": ([1, 2, 4], None, [(3, 3), (1, 3), (4, 3)]),
            "image_size": ([[2, 3], [4, 5]], None, [(1, 2, 3), (1, 4, 5), (1, 2, 3)]),
            "dims": ([[1, 3], [2, 6]], None, [(1, 3), (2, 6), (1, 3)]),
            "range": (None, {"x": [[1, 8], [3, 3]], "z": [[1, 8], [2, 2]]}, [(3, 3), (5, 3), (3, 3)]),
            "unbounded": (None, {"x": [[1, -1], [3, 3]], "z": [[1, -1], [2, 2]]}, [(3, 3), (5, 3), (3, 3)]),
        }[kind]
        first = {"static": 4, "image_size": 1}.get(kind, -1)
        rest = {"image_size": [-1, -1], "dims": [-1]}.get(kind, [3])

        def tensor(name, dtype, *shape):
            return {"name": name, "dtype": dtype, "shape": list(shape), "tensor": name}

        inputs = [tensor("x", "float32", first, *rest)]
        if kind != "dims":
            inputs.append(tensor("z", "int64", first, 2))
        outputs = [tensor("y", "float32", first, *rest), tensor("u", "int32", first, 5)]
        if kind == "range":  # outputs of known size
            outputs = [tensor("y", "float32", 2, 3), tensor("u", "int32", 5)]
        for output in outputs if gears else ():
            output["gear_shapes"] = [filled(output["shape"], gear) for gear in gears]
        manifest = {
            "schema": 1, "generator": "tests", "soc": "Ascend910B3", "name": kind, "kind": "synthetic",
            "inputs": [tensor | {"format": "ND"} for tensor in inputs], "outputs": outputs,
            "gears": gears and {"kind": kind, "values": gears}, "ranges": ranges, "exec_us": None,
            "weight_bytes": 0 if ranges else 4096, "work_bytes": 0 if ranges else 4096,
        }  # fmt: skip
        om.write(self.path, manifest)
        self.om = Om(self.path, manifest)
        self.requests = [self._request(seed) for seed in range(3)]
        self.answers = [self._answer(feeds) for feeds in self.requests]

    def _request(self, seed):
        shape, rng = self.shapes[seed], np.random.default_rng(seed)
        feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
        return feeds if self.kind == "dims" else feeds | {"z": rng.integers(0, 99, (shape[0], 2))}

    def _answer(self, feeds):
        if self.kind == "range":
            state = synthetic.states(list(feeds.values()), 1)
            return [synthetic.output(state, 0, (2, 3), "float32"), synthetic.output(state, 1, (5,), "int32")]
        if self.kind == "unbounded":
            rows = len(feeds["x"])
            state = synthetic.states(list(feeds.values()), rows)
            return [synthetic.output(state, 0, (rows, 3), "float32"), synthetic.output(state, 1, (rows, 5), "int32")]
        if self.kind in ("static", "batch"):
            return self.om.expected(feeds)
        return list(synthetic.run(self.om.manifest, feeds).values())

    def check(self, got, index):
        for one, other in zip(got, self.answers[index], strict=True):
            np.testing.assert_array_equal(one, other)

    def borrow(self, session, index):
        if self.kind in ("static", "batch"):
            return session.borrow(rows=self.shapes[index][0])
        return session.borrow(shapes={name: array.shape for name, array in self.requests[index].items()})


def filled(shape, gear):
    left = [gear] if isinstance(gear, int) else list(gear)
    return [left.pop(0) if dim == -1 else dim for dim in shape]


class Faults(StandIn):
    """The stand-in's hooks for faults of every effect."""

    def inject(self, **fault):
        assert self._library.acl_cpu_inject(json.dumps(fault).encode()) == 0

    def clear(self, entry):
        assert self._library.acl_cpu_fail(entry.encode(), 0, 0) == 0

    def reset_device(self):
        assert self._library.aclrtResetDeviceForce(0) == 0


@dataclass
class Outcome:
    """What a step came to; the exception itself would keep objects alive."""

    step: str
    kind: type | None = None
    code: int = 0
    call: str = ""
    text: str = ""
    trace: str = ""


class Scenario:
    """Every use of a session, in order. A step that fails does not end it."""

    STEPS = ("describe", "load", "run", "register", "submit", "drop", "long", "borrow", "stages", "close")

    def __init__(self, model, steps=STEPS, **options):
        self.model, self.steps, self.options = model, steps, options
        self.outcomes = []
        self.session = None

    def __call__(self):
        for step in self.steps:
            if step in ("describe", "load") or self.session is not None:
                self.step(step)
        if self.session is not None and self.outcomes[-1].kind:
            self.step("close")
        self.session = None

    def step(self, name):
        try:
            getattr(self, name)()
        except Exception as error:
            self.outcomes.append(
                Outcome(
                    name, type(error), getattr(error, "code", 0), getattr(error, "call", ""), str(error),
                    traceback.format_exc(),
                )
            )  # fmt: skip
            traceback.clear_frames(error.__traceback__)
        else:
            self.outcomes.append(Outcome(name))

    def describe(self):
        ge_core.runtime_info("cpu")
        device.open_runtime("cpu").utilization(0)
        ge_core.describe_model(self.model.path, "cpu")

    def load(self):
        self.session = ge_core.InferenceSession(self.model.path, runtime="cpu", slots=2, **self.options)

    def run(self):
        for index in (0, 1, 1):
            self.model.check(self.session.run(None, self.model.requests[index]), index)

    def register(self):
        memory = self.model.requests[2]["x"].copy()
        with engine_of(self.session).register_memory(memory):
            self.model.check(self.session.run(None, self.model.requests[2] | {"x": memory}), 2)

    def submit(self):
        futures = [self.session.submit(self.model.requests[index]) for index in (1, 0)]
        [future.done() for future in futures]
        self.model.check(futures[1].result(timeout=LIMIT_S), 0)
        self.model.check(futures[0].result(), 1)

    def drop(self):
        for index in (0, 1, 2):
            self.session.submit(self.model.requests[index])

    def long(self):
        if self.model.kind == "batch":
            feeds = self.model.om.random(11, seed=5)
            for one, other in zip(self.session.run(None, feeds), self.model.om.expected(feeds), strict=True):
                np.testing.assert_array_equal(one, other)

    def borrow(self):
        with self.model.borrow(self.session, 1) as batch:
            for wait in (True, False):
                for name, array in self.model.requests[1].items():
                    batch.write(name, 0, array)
                if wait:
                    batch.start()
                    batch.wait(LIMIT_S)
                else:
                    batch.run()
                self.model.check(list(batch.outputs.values()), 1)

    def stages(self):
        engine_of(self.session).sample_stages(1)
        self.model.check(self.session.run(None, self.model.requests[0]), 0)
        engine_of(self.session).stage_samples()
        engine_of(self.session).sample_stages(0)

    def close(self):
        self.session.close()


def within_limit(call):
    """Run `call` in a thread of its own; the stacks of all threads when it does not end."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if not thread.is_alive():
        return ""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return f"hangs:\n{file.read()}"


class Trial:
    """Runs scenarios with and without faults on one model."""

    def __init__(self, model, **options):
        self.model, self.options = model, options
        self.stand_in = Faults()
        # The stand-in forgets everything of a device with its last context, which would hide what a session left.
        self.keeper = device.Context(device.open_runtime("cpu"), 0)
        before = Counter(self.stand_in.counters()["calls"])
        self.clean(**options)
        self.calls = Counter(self.stand_in.counters()["calls"])
        self.calls.subtract(before)
        self.calls |= {entry: self.calls[first] for entry, first in INSTEAD.items()}

    def close(self):
        self.keeper.close()

    def held(self):
        """Every live object, of ge_core and of the stand-in."""
        if any(acl.live_handles().values()):
            gc.collect()
        counters = self.stand_in.counters()
        return acl.live_handles(), counters["live"], counters["bytes"]

    def clean(self, steps=Scenario.STEPS, **options):
        """A scenario without a fault: every step works and nothing is left."""
        scenario = Scenario(self.model, steps, **options)
        before = self.held()
        hangs = within_limit(scenario)
        wrong = [outcome.trace for outcome in scenario.outcomes if outcome.kind]
        assert not hangs and not wrong, hangs or wrong[0]
        assert self.held() == before

    def wrong(self, entry, kth, code, effect="call"):
        """Why the scenario with this fault did not end as it must; empty when it did."""
        scenario = Scenario(self.model, **self.options)
        before, failed = self.held(), acl.failed_release_count()
        if entry in INSTEAD:
            self.stand_in.inject(entry=INSTEAD[entry], kth=kth, code=code, effect=effect)
            kth = 1
        self.stand_in.inject(entry=entry, kth=kth, code=code, effect=effect)
        try:
            hangs = within_limit(scenario)
        finally:
            self.stand_in.clear(entry)
        if hangs:
            return hangs
        kept = KEPT.get(entry) if effect == "call" else None
        if effect == "device_lost":
            self.revive()
        problems = list(judged(scenario.outcomes, entry, code, effect))
        problems += abandoned()
        problems += left(before, self.held(), kept)
        if effect != "device_lost" and acl.failed_release_count() - failed > (kept is not None):
            problems.append(f"{acl.failed_release_count() - failed} releases failed")
        try:
            self.clean(("load", "run", "close"))
        except AssertionError as error:
            problems.append(f"the next session does not work: {error}")
        return "\n".join(problems)

    def revive(self):
        self.stand_in.reset_device()
        with contextlib.suppress(ge_core.AclError):  # it went with the reset
            self.keeper.close()
        self.keeper = device.Context(device.open_runtime("cpu"), 0)


def abandoned():
    """Slots that are still held after what they waited for must have ended."""
    deadline = time.monotonic() + 60
    while slot.release_abandoned() and time.monotonic() < deadline:
        time.sleep(0.01)
    if slot.release_abandoned():
        yield "a slot stays abandoned"


def judged(outcomes, entry, code, effect):
    """What is wrong with the outcomes of the steps."""
    told = False
    for outcome in outcomes:
        if outcome.kind is None:
            continue
        unhealthy = issubclass(outcome.kind, ge_core.NotRunningError) and UNHEALTHY in outcome.text
        if effect in ("call", "task"):
            if unhealthy and code in errors.STICKY and f"returned {code}" in outcome.text:
                continue
            if told:
                yield f"a second error, at {outcome.step}: {outcome.trace}"
            elif not expected(outcome, entry, code, effect):
                yield f"unexpected, at {outcome.step}: {outcome.trace}"
        elif effect == "delay" or not (
            unhealthy or issubclass(outcome.kind, (ge_core.AclError, MemoryError, TimeoutError))
        ):
            yield f"unexpected, at {outcome.step}: {outcome.trace}"
        told = True


def expected(outcome, entry, code, effect):
    """Whether the error is the injected one."""
    if entry in CODED:
        same = outcome.kind is type(errors.from_code(code, None, "")) and outcome.code == code
        return same and (outcome.call == entry or effect == "task")
    return issubclass(outcome.kind, (MemoryError, ge_core.UnsupportedError, ge_core.AclError))


def left(before, after, kept):
    """What lives that did not before, apart from one object of the kind `kept`."""
    for old, new in zip(before[:2], after[:2], strict=True):
        more = {name: new[name] - old[name] for name in new if new[name] != old[name]}
        if more and not (old is before[1] and more == {kept: 1}):
            yield f"left: {more}"
    if kept is None and before[2] != after[2]:
        yield f"bytes {before[2]} became {after[2]}"


def main(effect, kind, folder):
    """All cases of one effect on one kind; a line for each that is wrong."""
    faulthandler.dump_traceback_later(500, exit=True)
    model = Model(Path(folder), kind)
    limits = (HANG_MS, 5 * HANG_MS) if effect == "hang" else (10_000, 10_000)
    trial = Trial(model, execute_timeout_ms=limits[0], submit_timeout_ms=limits[1])
    entries = QUEUE if effect != "device_lost" else [entry for entry in ENTRIES if entry not in ONCE]
    for entry in entries:
        for kth in spread(trial.calls[entry], most=3 if effect == "device_lost" else 10):
            for code in (507011, 507015, 207001) if effect == "task" else (507011,):
                if wrong := trial.wrong(entry, kth, code, effect):
                    print(f"{entry}, call {kth}, {effect} {code}: {wrong}", flush=True)
    trial.close()


def spread(count, most):
    """1 … count, or `most` of them with both ends."""
    return sorted({round(1 + i * (count - 1) / max(min(count, most) - 1, 1)) for i in range(min(count, most))})


if __name__ == "__main__":
    main(*sys.argv[1:])
