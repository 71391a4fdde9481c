# SPDX-License-Identifier: Apache-2.0
"""The bench's JSON object: records, the device they were taken on, the host and the versions."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

import ge_core

SCHEMA = 1
PATHS = (
    "c", "c-pinned", "ctypes", "malloc-per-call", "direct", "borrow", "triton", "triton-plain", "floor",
)  # fmt: skip
TRANSPORTS = ("grpc", "http", "grpc+shm", "http+shm")


@dataclass(frozen=True)
class Record:
    """One measured row. Times in microseconds, sizes in bytes per call; `timing` says what decides the time.

    `transport` is None outside Triton, `p99_us` is None below 100 samples. `samples_ns` are the times that the
    percentiles are of, in the order in which they were taken; they are no part of the JSON object.
    """

    bench: str
    path: str
    transport: str | None
    model: str
    batch: int
    concurrency: int
    slots: int | None
    instances: int | None
    bytes_in: int
    bytes_out: int
    timing: str
    n: int
    p50_us: float
    p90_us: float
    p95_us: float
    p99_us: float | None
    mean_us: float
    rows_per_s: float
    stable: bool
    device: dict
    host: dict
    versions: dict
    samples_ns: Sequence[int] = field(default=(), repr=False, compare=False)

    def __post_init__(self):
        if self.path not in PATHS:
            raise ValueError(f"path {self.path!r} is none of {', '.join(PATHS)}")
        if self.transport is not None and self.transport not in TRANSPORTS:
            raise ValueError(f"transport {self.transport!r} is none of {', '.join(TRANSPORTS)}")
        if not self.device.get("kind") or not self.device.get("name"):
            raise ValueError("a record must name its device: kind and name")

    def to_dict(self) -> dict:
        fields = asdict(replace(self, samples_ns=()))
        del fields["samples_ns"]
        return fields

    @property
    def label(self) -> str:
        where = f"{self.path} {self.transport}" if self.transport else self.path
        return f"{self.bench} {where} {self.model} batch {self.batch} concurrency {self.concurrency}"


@dataclass(frozen=True)
class Limit:
    """A limit of the project's goals: `value` must not exceed `limit`, or, with `at_least`, not stay below it.

    `stable` says whether the rows that the value comes from are.
    """

    id: str
    value: float
    limit: float
    stable: bool = True
    at_least: bool = False

    @property
    def ok(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass
class Report:
    """Everything one run measured."""

    records: list[Record] = field(default_factory=list)
    summary: dict = field(default_factory=dict)
    limits: list[Limit] = field(default_factory=list)

    @classmethod
    def merged(cls, reports: list[Report]) -> Report:
        """Return the reports of several benches as one."""
        joined = cls()
        for report in reports:
            joined.records += report.records
            for part, found in report.summary.items():
                joined.summary[part] = [*joined.summary.get(part, ()), *found] if isinstance(found, list) else found
            joined.limits += report.limits
        return joined

    def to_dict(self) -> dict:
        return {
            "schema": SCHEMA,
            "records": [record.to_dict() for record in self.records],
            "summary": self.summary,
            "limits": [
                {"id": x.id, "value": x.value, "limit": x.limit, "at_least": x.at_least, "ok": x.ok}
                for x in self.limits
            ],
        }

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    def write_samples(self, path: Path) -> None:
        """Write an npz with one int64 array per record, in nanoseconds, in the order in which they were taken.

        An array's name is the record's number in the JSON object, from 000 on, and what it is.
        """
        samples = {
            f"{number:03} {x.label}": np.asarray(x.samples_ns, np.int64) for number, x in enumerate(self.records)
        }
        with path.open("wb") as file:
            np.savez_compressed(file, **samples)

    def exit_code(self, check: bool) -> int:
        """Return 0, or with `check` 3 if a limit is missed, else 4 if a row that a limit is judged by is unstable.

        Without limits every row counts.
        """
        if not check:
            return 0
        if not all(limit.ok for limit in self.limits):
            return 3
        return 0 if all(item.stable for item in self.limits or self.records) else 4


def device(runtime: str, *ids: int) -> dict:
    """Name the device and the `ids` that are used; an AclLoadError says what was tried when there is none."""
    info = ge_core.runtime_info(runtime)
    return {
        "kind": info.kind,
        "name": info.label,
        "soc": info.soc_name,
        "cann": info.cann_version,
        "library": list(info.libraries),
        "ids": list(ids),
    }


def host() -> dict:
    """Describe the machine the bench runs on."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def versions(**more: str | None) -> dict:
    """Return the versions of Python and of the packages that take part; absent ones are left out."""
    found = {"python": platform.python_version()}
    for package in ("numpy", "tritonclient", "openvino", "onnxruntime", "nvidia-pytriton"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    found.update({name: version for name, version in more.items() if version})
    return found
