# SPDX-License-Identifier: Apache-2.0
"""What a served model needs of its machine: devices, device memory, an environment; and the setting that gives it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ge_core_pyx import errors

MASK = "ASCEND_RT_VISIBLE_DEVICES"
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


def devices_text(device_ids: Sequence[int], environ: Mapping[str, str]) -> str:
    """Devices by their logical ids, and by their physical ones where a mask renumbers."""
    text = f"device{'s' if len(device_ids) > 1 else ''} {', '.join(map(str, device_ids))}"
    mask = environ.get(MASK)
    physical = read_mask(mask).physical if mask else ()
    if max(device_ids) < len(physical):
        text += f" (physical {', '.join(str(physical[number]) for number in device_ids)}, {MASK}={mask})"
    return text


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
