# SPDX-License-Identifier: Apache-2.0
"""Shared memory of Triton's Python backend in /dev/shm: how much a model needs, and how much is left."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path("/dev/shm")
MIB = 1 << 20
SPARE_NBYTES = 1 << 20  # with less than this left after a response, it is not sent
AMPLE_NBYTES = 64 << 20  # with this left after a response, nothing can go wrong
# Of a pool, measured: its own data, what each tensor takes beside its bytes, and what is lost between tensors.
POOL_OVERHEAD, TENSOR_OVERHEAD, FRAGMENTATION = 64 << 10, 150, 1.3


class Space(NamedTuple):
    """Bytes of /dev/shm."""

    free: int
    total: int


class Room(NamedTuple):
    """Whether there is shared memory for a response: ample, or short, or too little; then `problem` says so."""

    ample: bool
    problem: str = ""


AMPLE, SHORT = Room(True), Room(False)


class PoolSettings(NamedTuple):
    """Settings of the Python backend's shared-memory pools, one per instance; bytes."""

    initial: int = MIB
    growth: int = MIB

    def growth_for(self, sizes: Sequence[int]) -> int:
        """Bytes that a full pool grows by for tensors of these sizes: whole steps for each tensor."""
        return sum(self.growth * (nbytes // self.growth + 1) for nbytes in sizes)


def pool_settings(server_pid: int) -> PoolSettings:
    """What the server was started with; Triton hands no backend setting to a Python model."""
    try:
        line = Path(f"/proc/{server_pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return PoolSettings()
    found = dict(re.findall(r"python,shm-(default|growth)-byte-size=(\d+)", line))
    return PoolSettings(int(found.get("default", MIB)), int(found.get("growth", MIB)))


def space(folder: Path = FOLDER) -> Space | None:
    """Bytes of /dev/shm; None if there is none."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return Space(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)


def room(need: int) -> Room:
    """Whether /dev/shm has `need` bytes for a response."""
    there = space()
    free = there.free if there else 0
    if need + SPARE_NBYTES <= free:
        return AMPLE if need + AMPLE_NBYTES <= free else SHORT
    return Room(
        False,
        f"the answer needs {need:,} bytes of shared memory and /dev/shm has {free:,}; start the container with a "
        "larger --shm-size",
    )


def pool_need(tensor_nbytes: Sequence[int], batches: int, requests: int) -> int:
    """Bytes of one instance's pool at its fullest.

    Parameters
    ----------
    tensor_nbytes : sequence of int
        Of each input and output, at the largest batch.
    batches : int
        Batches that an instance may hold at once.
    requests : int
        Most requests of one batch: each has tensors of its own.
    """
    tensors = sum(tensor_nbytes) + len(tensor_nbytes) * requests * TENSOR_OVERHEAD
    return int(POOL_OVERHEAD + batches * tensors * FRAGMENTATION)


def pool_text(need: int, instances: int, pool: PoolSettings, free: int | None) -> tuple[str, bool]:
    """(sentence, whether there is enough) about the shared memory of a model's instances, with the flags to set."""
    advised = _up(need, MIB)
    text = (
        f"{instances} instance(s) × up to {need:,} bytes; pools begin at {pool.initial:,} bytes and grow by "
        f"{pool.growth:,}"
    )
    enough = True
    if free is not None and need * instances > free + pool.initial * instances:
        enough = False
        size = _up(int(1.25 * need * instances), 64 * MIB) // MIB
        text += f"; /dev/shm has {free:,} bytes free, which is too few: docker run --shm-size={size}m or more"
    if need > pool.initial:
        text += f"; to spare the first requests the growing: --backend-config=python,shm-default-byte-size={advised}"
    return text, enough


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
