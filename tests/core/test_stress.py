# SPDX-License-Identifier: Apache-2.0
"""Many threads, models, closes and faults at once: nothing wrong, nothing lost, nothing left. And leaving the process.

``GE_CORE_STRESS_S`` is how long the storm lasts (default 12 seconds).
"""

import concurrent.futures
import faulthandler
import gc
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import faults
import pytest

import ge_core
from ge_core_pyx import acl, slot

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
THREADS = 16
# Not of the device itself: after those a session only says so, and there would be nothing left to stress.
CODES = (507011, 207001, 100000)
ENTRIES = ("aclrtMemcpyAsync", "aclmdlExecuteAsync", "aclrtSynchronizeStream", "aclrtSynchronizeStreamWithTimeout")
LOADING = ("aclrtMalloc", "aclrtMallocHost", "aclmdlLoadFromFileWithMem", "aclmdlLoadFromFile", "aclmdlGetDesc")


class Storm:
    """Threads that use, close and reopen a few sessions they share, while calls of AscendCL fail now and then."""

    def __init__(self, models, seed):
        self.models = models
        self.seed = seed
        self.sessions = [self.open(model) for model in models]
        self.done = Counter()
        self.wrong = []
        self.over = threading.Event()

    @staticmethod
    def open(model):
        return ge_core.InferenceSession(
            model.path, runtime="cpu", slots=3, submit_timeout_ms=60_000, execute_timeout_ms=60_000
        )

    def use(self, rng, session, model):
        index = rng.randrange(3)
        feeds = model.requests[index]
        how = rng.choice(("run", "submit", "drop", "borrow", "keep", "stats"))
        if how == "run":
            model.check(session.run(None, feeds), index)
        elif how == "submit":
            model.check(session.submit(feeds).result(timeout=60), index)
        elif how == "drop":
            session.submit(feeds)
        elif how == "stats":
            assert session.stats()["slots"] <= 3
        else:
            with model.borrow(session, index) as batch:
                for name, array in feeds.items():
                    batch.inputs[name][...] = array
                batch.run()
                outputs = list(batch.outputs.values())
            if how == "keep":  # the views outlive the batch, and perhaps the session
                time.sleep(0.001)
            model.check(outputs, index)
        return how

    def client(self, seed):
        rng = random.Random(seed)
        while not self.over.is_set():
            number = rng.randrange(len(self.models))
            session, model = self.sessions[number], self.models[number]
            try:
                if rng.random() < 0.02:
                    session.close(wait=rng.random() < 0.5)
                    self.sessions[number] = self.open(model)  # another thread may do the same: one of the two is lost
                    self.done["close"] += 1
                else:
                    self.done[self.use(rng, session, model)] += 1
            except Exception as error:
                self.done[type(error).__name__] += 1
                if not tolerable(error):
                    self.wrong.append(error)
                if isinstance(error, ge_core.NotRunningError):
                    self.recover(session)

    def recover(self, session):
        try:
            session.recover()
            self.done["recover"] += 1
        except Exception as error:
            if not tolerable(error):
                self.wrong.append(error)

    def faulty(self):
        hooks, rng = faults.Faults(), random.Random(self.seed)
        while not self.over.wait(0.01):
            entry = rng.choice(ENTRIES if rng.random() < 0.8 else LOADING)
            hooks.inject(entry=entry, kth=rng.randrange(1, 50), code=rng.choice(CODES))
        for entry in ENTRIES + LOADING:
            hooks.clear(entry)

    def rage(self, seconds):
        threads = [threading.Thread(target=self.client, args=(self.seed + i,)) for i in range(THREADS)]
        threads.append(threading.Thread(target=self.faulty))
        [thread.start() for thread in threads]
        time.sleep(seconds)
        self.over.set()
        [thread.join(300) for thread in threads]
        assert not any(thread.is_alive() for thread in threads)
        for session in self.sessions:
            session.close()
        self.sessions.clear()


def tolerable(error):
    """An injected fault, or a session that another thread closed."""
    if isinstance(error, ge_core.AclError):
        return error.code in CODES and "injected fault" in error.message
    if isinstance(error, concurrent.futures.CancelledError):
        return True
    if isinstance(error, ge_core.NotRunningError):  # the slot that would replace a failed one failed too
        return faults.UNHEALTHY in str(error) and "injected fault" in str(error)
    return isinstance(error, RuntimeError) and "is closed" in str(error)


def main(folder):
    """The storm; silent when nothing went wrong."""
    faulthandler.enable()
    hooks = faults.Faults()
    models = [faults.Model(Path(folder), kind) for kind in faults.KINDS]
    before = hooks.counters()
    storm = Storm(models, seed=int(os.environ.get("GE_CORE_SEED", "1")))
    storm.rage(float(os.environ.get("GE_CORE_STRESS_S", "12")))
    for error in storm.wrong[:3]:
        traceback.print_exception(error)
    assert {"run", "submit", "drop", "borrow", "keep", "close", "AclError"} <= set(storm.done), storm.done
    del storm
    gc.collect()
    assert slot.release_abandoned() == 0
    assert not any(acl.live_handles().values()), acl.live_handles()
    assert acl.failed_release_count() == 0, acl.first_failed_releases()
    after = hooks.counters()
    assert (after["live"], after["bytes"]) == (before["live"], before["bytes"]), after


@pytest.mark.slow
def test_a_storm(tmp_path):
    """In a process of its own: a crash is then a failed test."""
    limit = 400 + float(os.environ.get("GE_CORE_STRESS_S", "12"))
    command = [sys.executable, "-W", "error", __file__, tmp_path]
    environ = os.environ | {"PYTHONPATH": str(SUPPORT)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=limit)
    assert (done.returncode, done.stdout, done.stderr[:6000]) == (0, "", "")


# What a program may have open when it ends; none may be noticed.
ENDINGS = {
    "sessions": "sessions = [open() for _ in range(3)]; sessions[0].run(None, feeds)",
    "pending futures": "session = open(); futures = [session.submit(feeds) for _ in range(2)]",
    "a pending future alone": "future = open().submit(feeds)",
    "borrowed views": "session = open(); batch = session.borrow(**loan); x = batch.inputs['x']; batch.start()",
    "a view alone": "batch = open().borrow(**loan); batch.run(); y = batch.outputs['y']; del batch",
    "a cycle": "session = open(); session.me = [session, session.submit(feeds)]",
    "threads that run": """
session = open()
def client():
    while True:
        session.run(None, feeds)
threads = [threading.Thread(target=client, daemon=True) for _ in range(4)]
[thread.start() for thread in threads]
time.sleep(0.1)
""",
    "a thread that waits": """
session = open()
kept = [session.submit(feeds) for _ in range(2)]
threading.Thread(target=lambda: session.run(None, feeds), daemon=True).start()
time.sleep(0.05)
""",
    "an exception": "session = open(); future = session.submit(feeds); raise SystemExit(0)",
    "registered memory": "session = open(); memory = engine_of(session).register_memory(np.zeros(64, np.uint8))",
    "a close at exit": "import atexit; session = open(); atexit.register(session.close); f = session.submit(feeds)",
    "work that hangs": "hooks.inject(entry='aclmdlExecuteAsync', effect='hang'); f = open().submit(feeds)",
}
PROGRAM = """
import sys, threading, time
from pathlib import Path
sys.path.insert(0, {tests!r})
import numpy as np
import faults, ge_core
from ge_core.engine import engine_of
model = faults.Model(Path({folder!r}), {kind!r})
hooks = faults.Faults()
feeds = model.requests[0]
loan = {{"rows": 3}} if {kind!r} == "batch" else {{"shapes": {{name: x.shape for name, x in feeds.items()}}}}
open = lambda: ge_core.InferenceSession(model.path, runtime="cpu", slots=2)
hooks.inject(entry="aclmdlExecuteAsync", effect="delay", delay_us=100_000)
"""


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["batch", "unbounded"])
def test_leaving_is_silent_and_quick(tmp_path, kind, ending):
    code = PROGRAM.format(tests=str(SUPPORT), folder=str(tmp_path), kind=kind) + ENDINGS[ending]
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


if __name__ == "__main__":
    main(sys.argv[1])
