# SPDX-License-Identifier: Apache-2.0
"""Utilisation and memory of devices during a run, sampled by a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from ge_core_pyx import device
from ge_core_pyx.errors import AclError

INTERVAL_S = 0.2
UNITS = ("cube", "vector", "aicpu")


class Sampler:
    """Samples devices from `with` to the end of its block.

    Parameters
    ----------
    runtime : str
        ``npu`` or ``cpu``; the process's one.
    devices : sequence of int
    interval_s : float
        Seconds between samples.
    """

    def __init__(self, runtime: str, devices: Sequence[int], interval_s: float = INTERVAL_S):
        self._runtime, self._devices, self._interval_s = device.open_runtime(runtime), tuple(devices), interval_s
        self._samples: dict[int, list[dict]] = {number: [] for number in self._devices}
        self._ended = threading.Event()

    def __enter__(self) -> Sampler:
        self._contexts = {number: device.Context(self._runtime, number) for number in self._devices}
        self._sample()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._ended.set()
        self._thread.join()
        self._sample()
        for context in self._contexts.values():
            context.close()

    def _loop(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._sample()

    def _sample(self) -> None:
        for number, context in self._contexts.items():
            sample: dict = dict(self._runtime.utilization(number))
            with contextlib.suppress(AclError):
                free, total = context.memory_info()
                sample |= {"used": total - free, "total": total}
            self._samples[number].append(sample)

    def summary(self) -> dict:
        """Return per device the mean and highest utilisation in per cent, and the most memory in use in bytes."""
        return {"devices": [{"device": number, **summarize_samples(taken)} for number, taken in self._samples.items()]}


def summarize_samples(samples: Sequence[dict]) -> dict:
    """Return the summary of one device's samples; the first one only starts the counting of utilisation."""
    found: dict = {"samples": len(samples) - 1}
    for name in UNITS:
        values = [sample[key] for sample in samples[1:] if sample.get(key := f"{name}_percent") is not None]
        if values:
            found |= {f"{name}_mean": round(sum(values) / len(values), 1), f"{name}_max": max(values)}
    used = [sample["used"] for sample in samples if "used" in sample]
    if used:
        found |= {"memory_used_max": max(used), "memory_total": samples[-1]["total"]}
    return found
