"""Output tensors that live on between requests, inside Triton's shared memory where that can be proven.

Triton's worker copies a tensor into its shared-memory pool when it is first sent, and leaves it there. A tensor kept
after that is sent again without the copy: what is written through its DLPack pointer is what the client gets. This is
how the worker works, not what it promises, so each tensor is looked at after its first send: only one whose memory lies
in the pool, with our shape and dtype, is written there. All others get a tensor of their own for each answer.
"""

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ge_core_pyx import dtypes, feeds

KEEP_NBYTES = 64 << 20
CHECK_NBYTES = 64 << 10  # an answer that takes more new shared memory than this is checked for room first
SPARE_NBYTES = 1 << 20
_SHM = "/dev/shm/"


class Output(NamedTuple):
    """One output that is served."""

    name: str  # the client's
    index: int  # the model's
    dtype: str
    row_shape: tuple[int, ...]
    multiple: int  # its rows per row of the batch


class Kept:
    """A tensor of one output for a number of rows, and the memory its rows are copied into. `sent`: at least once."""

    __slots__ = ("array", "nbytes", "output", "pooled", "rows", "sent", "target", "tensor")

    def __init__(self, output: Output, rows: int):
        self.output, self.rows = output, rows
        shape = (rows * output.multiple, *output.row_shape)
        self.array = np.empty(shape, dtypes.by_name(output.dtype).numpy or "uint16")
        self.nbytes = self.array.nbytes
        self.target = feeds.Target(self.array)
        self.tensor = None
        self.sent = self.pooled = False


class Answers:
    """The output tensors of one served model. `take` and `give` may run on different threads.

    Parameters
    ----------
    pb_utils : module
    outputs : sequence of Output
    keep_nbytes : int
        How much memory tensors that wait for their next use may hold.
    """

    def __init__(self, pb_utils, outputs: Sequence[Output], keep_nbytes: int = KEEP_NBYTES):
        self._tensor = pb_utils.Tensor
        self._outputs = {output.name: output for output in outputs}
        self._all = tuple(outputs)
        self._free: OrderedDict[tuple[str, int], list[Kept]] = OrderedDict()
        self._free_nbytes, self._keep_nbytes = 0, keep_nbytes
        self._lock = threading.Lock()
        self._pool = Pool()

    def wanted(self, names) -> Sequence[Output]:
        """The served outputs among `names`."""
        if len(names) >= len(self._all):
            return self._all
        return [output for output in self._all if output.name in names]

    def take(self, output: Output, rows: int) -> Kept:
        """A tensor for the next answer; nobody else has it until it is given back."""
        with self._lock:
            free = self._free.get((output.name, rows))
            kept = free.pop() if free else None
            if kept is not None:
                self._free_nbytes -= kept.nbytes
        if kept is None:
            kept = Kept(output, rows)
            kept.tensor = self.tensor(output, kept.array)
        elif kept.sent and not kept.pooled:
            self._look(kept)
        return kept

    def give(self, kept: Kept) -> None:
        """Back for the next answer."""
        key = (kept.output.name, kept.rows)
        with self._lock:
            self._free.setdefault(key, []).append(kept)
            self._free.move_to_end(key)
            self._free_nbytes += kept.nbytes
            while self._free_nbytes > self._keep_nbytes:
                oldest, free = next(iter(self._free.items()))
                if free:
                    self._free_nbytes -= free.pop(0).nbytes
                else:
                    del self._free[oldest]

    def tensor(self, output: Output, array: np.ndarray):
        """A new Triton tensor over an array; NumPy has no bfloat16, whose bits travel as uint16."""
        if output.dtype == "bfloat16":
            return self._tensor.from_dlpack(output.name, feeds.to_capsule(array.view(np.uint16), "bfloat16"))
        return self._tensor(output.name, array)

    def _look(self, kept: Kept) -> None:
        target = feeds.Target(kept.tensor.to_dlpack())
        same = target.dtype == kept.output.dtype and target.shape == kept.array.shape
        if same and self._pool.holds(target.address, target.nbytes):
            kept.target, kept.array, kept.pooled = target, None, True
        else:
            kept.tensor, kept.sent = self.tensor(kept.output, kept.array), False

    def lacks_room(self, kept: Sequence[Kept]) -> str:
        """Why an answer that takes new shared memory would fail; empty when it would not."""
        needed = sum(one.nbytes for one in kept if not one.pooled)
        return self._pool.lacks(needed) if needed > CHECK_NBYTES else ""


class Pool:
    """The worker's shared-memory region, as the process itself sees it."""

    def __init__(self):
        self._ranges: list[tuple[int, int]] = []

    def holds(self, address: int, nbytes: int) -> bool:
        """Whether memory lies inside a mapping of the region."""
        if not self._inside(address, nbytes):
            self._ranges = _mappings(region())
        return self._inside(address, nbytes)

    def _inside(self, address, nbytes):
        return any(first <= address and address + nbytes <= last for first, last in self._ranges)

    def lacks(self, nbytes: int) -> str:
        status = os.statvfs(_SHM)
        free = status.f_bavail * status.f_frsize
        if nbytes + SPARE_NBYTES <= free:
            return ""
        own = getattr(sys.modules.get("c_python_backend_utils"), "shared_memory", None)
        if own is not None and 2 * nbytes <= own.free_memory():
            return ""
        return (
            f"the answer needs {nbytes:,} bytes of shared memory and /dev/shm has {free:,}; start the container with a "
            "larger --shm-size"
        )


def region() -> Path | None:
    """The file of the worker's shared-memory region: the command line names it. None outside of a worker."""
    for argument in Path("/proc/self/cmdline").read_bytes().split(b"\0")[1:]:
        name = os.fsdecode(argument).removeprefix("/")
        if name and "/" not in name and Path(_SHM, name).is_file():
            return Path(_SHM, name)
    return None


def _mappings(file: Path | None) -> list[tuple[int, int]]:
    if file is None:
        return []
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, _, _, _, *path = line.split(maxsplit=5)
        if path == [str(file)] and access.startswith("rw"):
            found.append(tuple(int(address, 16) for address in span.split("-")))
    return found
