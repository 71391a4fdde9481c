# SPDX-License-Identifier: Apache-2.0
"""The shared-memory region of Triton's worker, as the worker itself sees it: where it is mapped, and how full it is."""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ge_core.serving import shm_space
from ge_core_pyx.arrays import OutputTarget

_MESSAGE_NBYTES = 64 << 10  # what a response takes of the region beside its tensors, by far


class SharedRegion:
    """The region of this worker. Its mappings are looked for when a tensor lies in none of those that are known.

    Parameters
    ----------
    register : callable, optional
        `Engine.register_memory`. It is given each mapping of the region, so that devices can read and write there.
    """

    def __init__(self, register: Callable | None = None):
        self._register = register
        self._registrations: dict[int, Any] = {}  # by the first address of a mapping
        self._ranges: list[tuple[int, int]] = []
        self._settings = shm_space.pool_settings(os.getppid())
        self._file: Path | None = None
        if register is not None:
            self._map()

    @property
    def pinned(self) -> bool:
        """Whether devices can read and write in all of it."""
        return bool(self._registrations) and all(one.direct for one in self._registrations.values())

    def holds(self, target: OutputTarget) -> bool:
        """Whether a tensor's memory lies inside a mapping of the region."""
        if not self._inside(target):
            self._map()
        return self._inside(target)

    def follow(self, address: int) -> None:
        """Look for new mappings if no known one has this address and the region has grown beyond those known."""
        if self._file is None or any(first <= address < last for first, last in self._ranges):
            return
        if self._file.stat().st_size > max((last - first for first, last in self._ranges), default=0):
            self._map()

    def room(self, sizes: Sequence[int]) -> shm_space.Room:
        """Whether there is shared memory for a response with new tensors of these sizes, in bytes."""
        worker = getattr(sys.modules.get("c_python_backend_utils"), "shared_memory", None)
        inside = worker is not None and 2 * sum(sizes) + _MESSAGE_NBYTES <= worker.free_memory()
        if inside and not sizes:
            return shm_space.AMPLE
        found = shm_space.room(self._settings.growth_for(sizes))
        # The region has enough free memory, but perhaps not in one piece.
        return shm_space.SHORT if inside and found.problem else found

    def close(self) -> None:
        """End the registrations. Calling it again does nothing."""
        for registration in self._registrations.values():
            registration.close()
        self._registrations.clear()
        self._register = None

    def _map(self):
        self._file = self._file or region_file()
        self._ranges = _mappings(self._file)
        if self._register is None:
            return
        for first, last in self._ranges:
            if first not in self._registrations:
                self._registrations[first] = self._register((ctypes.c_char * (last - first)).from_address(first))

    def _inside(self, target):
        return any(first <= target.address and target.address + target.nbytes <= last for first, last in self._ranges)


def region_file() -> Path | None:
    """The file of the worker's shared-memory region, which its command line names. None outside of a worker."""
    for argument in Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:]:
        name = os.fsdecode(argument).removeprefix("/")
        if name and "/" not in name and (shm_space.FOLDER / name).is_file():
            return shm_space.FOLDER / name
    return None


def _mappings(file: Path | None) -> list[tuple[int, int]]:
    if file is None:
        return []
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, _, _, _, *path = line.split(maxsplit=5)
        if path == [str(file)] and access.startswith("rw"):
            first, _, last = span.partition("-")
            found.append((int(first, 16), int(last, 16)))
    return found
