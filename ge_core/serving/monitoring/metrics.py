# SPDX-License-Identifier: Apache-2.0
"""Figures of a served model on Triton's own metrics endpoint, published by a slow thread away from the requests."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ge_core.engine import engine_of
from ge_core_pyx import device
from ge_core_pyx.errors import AclError

PERIOD_S = 2.0
TIMED_EVERY = 64  # batches; timing one costs four events on the device's stream
_PAUSE_S = 0.002  # between two calls into Triton, each of which holds the interpreter for about 40 us

COUNTERS = {
    "ge_rows_total": "Rows that clients asked for",
    "ge_padded_rows_total": "Rows of padding that were executed beside them",
    "ge_executions_total": "Executions, by gear",
    "ge_errors_total": "Requests answered with an error, by code: AscendCL's number, else the error's class",
    "ge_timed_batches_total": f"Batches whose stages were timed: every {TIMED_EVERY}th",
    "ge_stage_seconds_total": "Seconds that the timed batches took on the device, by stage: h2d, execute, d2h",
}
GAUGES = {
    "ge_batches_in_flight": "Batches that are being answered now",
    "ge_healthy": "1 while requests are served, 0 while they are answered UNAVAILABLE",
    "ge_restart_needed": "1 after a device error that only a new process ends",
    "ge_model_device_bytes": "Device memory that this instance holds",
    "ge_model_pinned_bytes": "Page-locked host memory that this instance holds",
    "ge_device_memory_used_bytes": "Device memory in use, of all processes",
    "ge_device_memory_total_bytes": "Device memory",
    "ge_device_utilization_percent": "Use of the device's cube cores, where the runtime tells",
}


class Sample(NamedTuple):
    """The present value of one series; counters since the model was loaded."""

    name: str
    value: float
    labels: Mapping[str, str] = {}


class Publisher:
    """Keeps Triton's metrics equal to what `collect` returns. Close it before the model goes.

    No two processes may use the same labels: Triton's server counts the users of a series for each process alone, frees
    the series with the first one that lets go, and crashes when another one writes to it.

    Parameters
    ----------
    pb_utils : module
        triton_python_backend_utils.
    labels : mapping of str to str
        On every series: model, version, instance, pid.
    collect : callable
        Returns the samples. Called every `period_s`, from this thread only.
    period_s : float
    """

    def __init__(
        self, pb_utils, labels: Mapping[str, str], collect: Callable[[], Iterable[Sample]], period_s: float = PERIOD_S
    ):
        self._pb_utils, self._labels, self._collect, self._period_s = pb_utils, labels, collect, period_s
        self._families: dict[str, Any] = {}
        self._metrics: dict[tuple, Any] = {}
        self._published: dict[tuple, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ge_core metrics", daemon=True)

    def start(self) -> bool:
        """Publishes once, so that all series exist, and starts the thread. False: the server's metrics are off."""
        try:
            self.publish()
        except self._pb_utils.TritonModelException as error:
            self._pb_utils.Logger.log_info(f"GE Backend: no ge_ metrics: {error}")
            self._forget()
            return False
        self._thread.start()
        return True

    def close(self) -> None:
        """Publishes the last values and takes the series away. Calling it again does nothing."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._forget()

    def publish(self) -> None:
        """Brings every series up to date; those that did not change cost nothing."""
        for sample in self._collect():
            key = (sample.name, *sorted(sample.labels.items()))
            before = self._published.get(key)
            if sample.value == before:
                continue
            metric = self._metrics.get(key)
            if metric is None:
                metric = self._metrics[key] = self._family(sample.name).Metric(labels={**self._labels, **sample.labels})
            if sample.name in GAUGES:
                metric.set(sample.value)
            else:
                metric.increment(sample.value - (before or 0))
            self._published[key] = sample.value
            self._ended.wait(_PAUSE_S)

    def _family(self, name: str):
        if name not in self._families:
            family = self._pb_utils.MetricFamily
            kind, text = (family.GAUGE, GAUGES[name]) if name in GAUGES else (family.COUNTER, COUNTERS[name])
            self._families[name] = family(name=name, description=text, kind=kind)
        return self._families[name]

    def _run(self) -> None:
        while not self._ended.wait(self._period_s):
            try:
                self.publish()
            except Exception as error:  # a thread's end would be silent; figures must never end a model
                self._pb_utils.Logger.log_warn(f"GE Backend: metrics stop: {type(error).__name__}: {error}")
                return

    def _forget(self) -> None:
        self._metrics.clear()
        self._families.clear()


class SessionFigures:
    """What a session counts from now on and what its devices say, as samples.

    Parameters
    ----------
    session : ge_core.InferenceSession
        Its stage clock is switched on.
    """

    def __init__(self, session):
        self._session = session
        self._runtime = device.open_runtime(session.description.runtime)
        self._before = session.stats()  # the warm-up is nobody's request
        self._timed = 0
        self._stages_us = dict.fromkeys(("h2d", "execute", "d2h"), 0.0)
        self.time_stages()

    def time_stages(self) -> None:
        """Switches the stage clock on; once more after errors, for the slots that replaced failed ones."""
        engine_of(self._session).sample_stages(TIMED_EVERY)

    def samples(self) -> Iterator[Sample]:
        """The present values. Devices are asked: milliseconds."""
        stats, before = self._session.stats(), self._before
        yield Sample("ge_rows_total", stats["rows"] - before["rows"])
        yield Sample("ge_padded_rows_total", stats["padded_rows"] - before["padded_rows"])
        yield Sample("ge_batches_in_flight", stats["slots"] - stats["slots_free"])
        yield Sample("ge_model_device_bytes", stats["device_bytes"])
        yield Sample("ge_model_pinned_bytes", stats["pinned_bytes"])
        for gear, count in stats["executions_by_gear"].items():
            label = gear.strip("()").replace(", ", "x")
            yield Sample("ge_executions_total", count - before["executions_by_gear"][gear], {"gear": label})
        yield from self._timed_stages()
        for context in engine_of(self._session).contexts:
            yield from self._device(context)

    def _timed_stages(self) -> Iterator[Sample]:
        for batch in engine_of(self._session).stage_samples():
            self._timed += 1
            for stage in self._stages_us:
                self._stages_us[stage] += batch[f"{stage}_us"] or 0.0
        yield Sample("ge_timed_batches_total", self._timed)
        for stage, total_us in self._stages_us.items():
            yield Sample("ge_stage_seconds_total", total_us / 1e6, {"stage": stage})

    def _device(self, context) -> Iterator[Sample]:
        labels = {"device": str(context.device_id)}
        with suppress(AclError):  # a lost device has no figures; ge_healthy says so
            free, total = context.memory_info()
            yield Sample("ge_device_memory_used_bytes", total - free, labels)
            yield Sample("ge_device_memory_total_bytes", total, labels)
            cube = self._runtime.utilization(context.device_id)["cube_percent"]
            if cube is not None:
                yield Sample("ge_device_utilization_percent", cube, labels)
