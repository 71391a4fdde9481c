"""The clocks inside a served model: a Triton model that answers as ge_core's does and notes when it does what.

Only the bench's `stages` serves it. Times are nanoseconds and go to a file beside the model, one row of `FIELDS` for
each execution; `begin` and `end` are CLOCK_MONOTONIC, which perf_counter_ns reads in every process.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import numpy as np

from ge_core.engine import engine_of

STEPS = ("h2d", "execute", "d2h", "gather", "scatter")  # of sampled executions alone
FIELDS = ("begin", "end", "run", "sampled", *STEPS)
ROWS = 1 << 16
LOG = "stages.bin"
EVERY = 8  # executions from one that the core times to the next: such a one costs some µs more
WORKER = """import asyncio  # noqa: F401
import sys

sys.path.insert(0, {root!r})
from bench.served.stage_clock import model

TritonPythonModel = model(__file__)
"""


def open_log(path: Path, mode: Literal["r", "r+", "w+"]) -> np.ndarray:
    """Map the log: int64, shape (ROWS, len(FIELDS)); rows of zeros are not written yet."""
    return np.memmap(path, np.int64, mode, shape=(ROWS, len(FIELDS)))


class Timed:
    """A session, or a batch or future of one, that notes when work is begun and when its answer is there.

    Both ways of a served model are timed: `launch` … `collect` of rows, and `submit` … `result` of a model without.
    """

    def __init__(self, inner, now: dict[str, int], began: int = 0):
        self._inner, self._now, self._began = inner, now, began

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def launch(self, *arguments) -> Timed:
        began = time.perf_counter_ns()
        return Timed(self._inner.launch(*arguments), self._now, began)

    def submit(self, *arguments) -> Timed:
        began = time.perf_counter_ns()
        return Timed(self._inner.submit(*arguments), self._now, began)

    def collect(self, gets) -> None:
        self._inner.collect(gets)
        self._note()

    def result(self, *arguments) -> list:
        arrays = self._inner.result(*arguments)
        self._note()
        return arrays

    def _note(self) -> None:
        ended = time.perf_counter_ns()
        self._now["run"] += ended - self._began
        self._now.update(began=self._began, ended=ended)


def steps(sample: dict, began: int, ended: int) -> dict[str, int]:
    """Split a run from `began` to `ended` by a sample of InferenceSession.stages(), in nanoseconds.

    `gather` is what comes before the device is asked, copies into pinned memory above all, `scatter` what comes after
    it is done.
    """
    device = {name: round((sample[f"{name}_us"] or 0) * 1e3) for name in STEPS[:3]}
    asked = sample["begin_ns"] + sample["gather_ns"]
    return device | {"gather": asked - began, "scatter": ended - asked - sample["submit_ns"] - sample["wait_ns"]}


def model(path: str) -> type:
    """Return the class that Triton's Python backend loads from the model.py at `path`."""
    import triton_python_backend_utils as pb_utils

    from ge_core import serving
    from ge_core.serving.execution.sender import SendingModel

    log = Path(path).with_name(LOG)

    class TritonPythonModel:
        def initialize(self, args):
            self._log, self._row = open_log(log, "r+"), 0
            self._now = dict.fromkeys(FIELDS, 0)
            self._model = serving.load(pb_utils, args)
            if isinstance(self._model, SendingModel):
                self._model.close()
                raise ValueError('the clocks time `responses: "returned"` alone: a sent answer outlasts its execution')
            self._session = self._model._session
            engine_of(self._session).sample_stages(EVERY)
            self._model._session = Timed(self._session, self._now)

        def execute(self, requests):
            begin = time.perf_counter_ns()
            self._now.update(dict.fromkeys(FIELDS, 0))
            responses = self._model.execute(requests)
            end = time.perf_counter_ns()
            self._now.update({"begin": begin, "end": end})
            if (self._row + 1) % EVERY == 0 and (samples := engine_of(self._session).stage_samples()):
                self._now.update(steps(samples[-1], self._now["began"], self._now["ended"]), sampled=1)
            self._log[self._row % ROWS] = [self._now[field] for field in FIELDS]
            self._row += 1
            return responses

        def finalize(self):
            self._model.close()

    return TritonPythonModel
