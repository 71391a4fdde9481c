# SPDX-License-Identifier: Apache-2.0
"""The clocks inside a served model: a Triton model that answers as ge_core's does and notes when it does what.

Only the bench's `stages` serves it. Times are nanoseconds and go to a file beside the model, one row of `FIELDS` for
each execution; `begin` and `end` are CLOCK_MONOTONIC, which perf_counter_ns reads in every process.
"""

from __future__ import annotations

import time
from collections import deque
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


class TimedRunner:
    """Runs batches as a served model's `Runner` does and notes when a batch is begun and when its rows are there."""

    def __init__(self, runner, now: dict[str, int]):
        self._runner, self._now = runner, now
        self._began: deque[int] = deque()  # of the batches in flight, which are finished in order

    def start(self, batch, began: float) -> None:
        self._began.append(time.perf_counter_ns())
        self._runner.start(batch, began)

    def finish(self, batch) -> None:
        self._runner.finish(batch)
        began, ended = self._began.popleft(), time.perf_counter_ns()
        self._now["run"] += ended - began
        self._now.update(began=began, ended=ended)


def steps(sample: dict, began: int, ended: int) -> dict[str, int]:
    """Split a run from `began` to `ended` by a sample of Engine.stage_samples(), in nanoseconds.

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
    from ge_core.serving.loading import TEMPLATE

    log = Path(path).with_name(LOG)

    class TritonPythonModel:
        def initialize(self, args):
            self._log, self._row = open_log(log, "r+"), 0
            self._now = dict.fromkeys(FIELDS, 0)
            self._model = serving.load(
                pb_utils, args, template=TEMPLATE, wrap_runner=lambda runner: TimedRunner(runner, self._now)
            )
            if self._model.responses == "sender":
                self._model.close()
                raise ValueError('the clocks time `responses: "returned"` alone: a sent answer outlasts its execution')
            self._engine = engine_of(self._model.session)
            self._engine.sample_stages(EVERY)

        def execute(self, requests):
            begin = time.perf_counter_ns()
            self._now.update(dict.fromkeys(FIELDS, 0))
            responses = self._model.execute(requests)
            end = time.perf_counter_ns()
            self._now.update({"begin": begin, "end": end})
            if (self._row + 1) % EVERY == 0 and (samples := self._engine.stage_samples()):
                self._now.update(steps(samples[-1], self._now["began"], self._now["ended"]), sampled=1)
            self._log[self._row % ROWS] = [self._now[field] for field in FIELDS]
            self._row += 1
            return responses

        def finalize(self):
            self._model.close()

    return TritonPythonModel
