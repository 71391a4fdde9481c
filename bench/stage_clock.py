"""The clocks inside a served model: a Triton model that answers as ge_core's does and notes when it does what.

Only the bench's `stages` serves it. Times are nanoseconds and go to a file beside the model, one row of `FIELDS` for
each execution; `begin` and `end` are CLOCK_MONOTONIC, which perf_counter_ns reads in every process.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

STEPS = ("h2d", "execute", "d2h", "gather", "scatter")  # of sampled executions alone
FIELDS = ("begin", "end", "write", "run", "sampled", *STEPS)
ROWS = 1 << 16
LOG = "stages.bin"
EVERY = 8  # executions from one that the core times to the next: such a one costs some µs more
WORKER = """import asyncio  # noqa: F401
import sys

sys.path.insert(0, {root!r})
from bench.stage_clock import model

TritonPythonModel = model(__file__)
"""


def open_log(path: Path, mode: str) -> np.ndarray:
    """Map the log: int64, shape (ROWS, len(FIELDS)); rows of zeros are not written yet."""
    return np.memmap(path, np.int64, mode, shape=(ROWS, len(FIELDS)))


class Timed:
    """A session, or a batch borrowed from one, that adds up how long its writing and running take."""

    def __init__(self, inner, now: dict[str, int]):
        self._inner, self._now = inner, now

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def borrow(self, *arguments, **keywords) -> Timed:
        return Timed(self._inner.borrow(*arguments, **keywords), self._now)

    def write(self, *arguments):
        return self._time("write", self._inner.write, arguments)

    def run(self, *arguments):
        return self._time("run", self._inner.run, arguments)

    def _time(self, what: str, function, arguments):
        start = time.perf_counter_ns()
        result = function(*arguments)
        self._now[what] += time.perf_counter_ns() - start
        return result


def steps(sample: dict) -> dict[str, int]:
    """Take the `STEPS` out of a sample of InferenceSession.stages(), in nanoseconds."""
    device = {name: round((sample[f"{name}_us"] or 0) * 1e3) for name in STEPS[:3]}
    return device | {name: sample[f"{name}_ns"] for name in STEPS[3:]}


def model(path: str) -> type:
    """Return the class that Triton's Python backend loads from the model.py at `path`."""
    import triton_python_backend_utils as pb_utils

    from ge_core import serving

    log = Path(path).with_name(LOG)

    class TritonPythonModel:
        def initialize(self, args):
            self._log, self._row = open_log(log, "r+"), 0
            self._now = dict.fromkeys(FIELDS, 0)
            self._model = serving.load(pb_utils, args)
            self._session = self._model._session
            self._session.sample_stages(EVERY)
            self._model._session = Timed(self._session, self._now)

        def execute(self, requests):
            begin = time.perf_counter_ns()
            self._now.update(dict.fromkeys(FIELDS, 0))
            responses = self._model.execute(requests)
            end = time.perf_counter_ns()
            self._now.update({"begin": begin, "end": end})
            if (self._row + 1) % EVERY == 0 and (samples := self._session.stages()):
                self._now.update(steps(samples[-1]), sampled=1)
            self._log[self._row % ROWS] = [self._now[field] for field in FIELDS]
            self._row += 1
            return responses

        def finalize(self):
            self._model.close()

    return TritonPythonModel
