"""What a served model needs of its machine: devices, device memory, shared memory; and the setting that gives it."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ge_core_pyx import errors

MASK = "ASCEND_RT_VISIBLE_DEVICES"
MIB = 1 << 20
POOL_OVERHEAD, TENSOR_OVERHEAD, FRAGMENTATION = 64 << 10, 150, 1.3
_SHM = Path("/dev/shm")
_LESS = "lower instance_group's count or slots, compile smaller gears, or add device_ids"


class Mask(NamedTuple):
    """ASCEND_RT_VISIBLE_DEVICES as the runtime reads it: `physical` ids in order, up to the first bad entry."""

    physical: tuple[int, ...]
    problem: str | None


def read_mask(text: str) -> Mask:
    """Parses the mask strictly; the runtime itself ignores a bad entry and all after it without a word."""
    physical: list[int] = []
    for entry in text.split(","):
        if not (entry.isascii() and entry.isdigit()):
            return Mask(tuple(physical), f"{text!r}: {entry!r} is not a number, and it and all after it are ignored")
        if physical and int(entry) <= physical[-1]:
            return Mask(tuple(physical), f"{text!r}: {entry} does not ascend, and it and all after it are ignored")
        physical.append(int(entry))
    return Mask(tuple(physical), None)


def device_text(device_id: int, environ: Mapping[str, str]) -> str:
    """A device's logical id, and its physical one where a mask renumbers."""
    mask = environ.get(MASK)
    physical = read_mask(mask).physical if mask else ()
    if device_id < len(physical):
        return f"device {device_id} (physical {physical[device_id]}, {MASK}={mask})"
    return f"device {device_id}"


def mask_warning(environ: Mapping[str, str]) -> str | None:
    """A sentence about a mask that means less than it says."""
    mask = environ.get(MASK)
    problem = read_mask(mask).problem if mask else None
    return f"{MASK} {problem}; give ascending ids without blanks, for example 0,1" if problem else None


def environment_warning(parameters: Mapping[str, str], runtime: str, environ: Mapping[str, str]) -> str | None:
    """A sentence about an environment whose script was not run: Triton does not from 25.09 on."""
    if runtime != "npu" or "EXECUTION_ENV_PATH" not in parameters or "ASCEND_OPP_PATH" in environ:
        return None
    return (
        "has EXECUTION_ENV_PATH, and ASCEND_OPP_PATH is not set: Triton 25.09 and newer do not run the environment's "
        "activate script; source CANN's set_env.sh before the server starts"
    )


def memory_text(device_id: int, need: int, instances: int, free: int, total: int) -> tuple[str, bool]:
    """(sentence, whether it fits) for `instances` of a model on one device.

    Parameters
    ----------
    need : int
        Bytes of one instance.
    free, total : int
        Bytes of the device, before this instance took its own.
    """
    fits = need * instances <= free
    text = f"{_sum(device_id, need, instances)}; {free:,} of {total:,} bytes were free when this one began to load"
    return text if fits else f"{text}: {_LESS}", fits


def check_memory(device_id: int, need: int, instances: int, total: int) -> None:
    """Refuses instances that cannot be on a device together whatever else is: what is free may change, its size not.

    Raises
    ------
    DeviceMemoryError
        With the sum, and what to change.
    """
    if need * instances > total:
        raise errors.DeviceMemoryError(
            f"{_sum(device_id, need, instances)}, and the device has {total:,} bytes in all: {_LESS}"
        )


def _sum(device_id, need, instances):
    return f"{instances} instance(s) on device {device_id} × {need:,} bytes = {need * instances:,}"


class Pool(NamedTuple):
    """Settings of the Python backend's shared-memory pools, one per instance; bytes."""

    initial: int = MIB
    growth: int = MIB


def pool_settings(server_pid: int) -> Pool:
    """What the server was started with; Triton hands no backend setting to a Python model."""
    try:
        line = Path(f"/proc/{server_pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return Pool()
    found = dict(re.findall(r"python,shm-(default|growth)-byte-size=(\d+)", line))
    return Pool(int(found.get("default", MIB)), int(found.get("growth", MIB)))


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


def free_shared_memory(folder: Path = _SHM) -> int | None:
    """Free bytes of /dev/shm; None where there is none."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def pool_text(need: int, instances: int, pool: Pool, free: int | None) -> tuple[str, bool]:
    """(sentence, whether all is well) about the shared memory of a model's instances, with the flags to set."""
    advised = _up(need, MIB)
    text = (
        f"{instances} instance(s) × up to {need:,} bytes; pools begin at {pool.initial:,} bytes and grow by "
        f"{pool.growth:,}"
    )
    well = True
    if free is not None and need * instances > free + pool.initial * instances:
        well = False
        size = _up(int(1.25 * need * instances), 64 * MIB) // MIB
        text += f"; /dev/shm has {free:,} bytes free, which is too few: docker run --shm-size={size}m or more"
    if need > pool.initial:
        text += f"; to spare the first requests the growing: --backend-config=python,shm-default-byte-size={advised}"
    return text, well


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
