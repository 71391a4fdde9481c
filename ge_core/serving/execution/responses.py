"""Output tensors that live on between requests, inside Triton's shared memory where that can be proven.

Triton's worker copies a tensor into its shared-memory pool when it is first sent, and leaves it there. A tensor kept
after that is sent again without the copy: what is written through its DLPack pointer is what the client gets. This is
how the worker works, not what it promises, so each tensor is looked at after its first send: only one whose memory lies
in the pool, with our shape and dtype, is written there. All others get a tensor of their own for each answer.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ge_core.serving.monitoring import host_limits
from ge_core_pyx import dlpack, dtypes
from ge_core_pyx.arrays import OutputTarget
from ge_core_pyx.requests import RequestInputs

KEEP_NBYTES = 64 << 20
SPARE_NBYTES, AMPLE_NBYTES = 1 << 20, 64 << 20  # left of /dev/shm: too few to send; enough not to think about it
_MESSAGE_NBYTES = 64 << 10  # what an answer takes of the pool beside its tensors, by far
_SHM = "/dev/shm/"


class Output(NamedTuple):
    """One output that is served."""

    name: str  # the client's
    index: int  # the model's
    dtype: str
    row_shape: tuple[int | None, ...]
    multiple: int  # its rows per row of the batch

    def shape(self, rows: int, shapes: Sequence | None) -> tuple[int, ...]:
        """For so many rows; of models whose trailing dims vary, what `shapes` of all outputs say."""
        return (rows * self.multiple, *self.row_shape) if shapes is None else shapes[self.index]


class Reply:
    """The output tensors of one answer, and the memory that rows are copied into to get there.

    Attributes
    ----------
    tensors : list of pb_utils.Tensor
    gets : list of tuple
        For `Batch.collect`, when the answer is a batch of its own.
    sizes : list of int
        Bytes of the tensors that are not in the pool yet.
    sent : bool
        Whether Triton has had the tensors at least once.
    """

    sent = pooled = False

    def __init__(self, outputs: Sequence[Output], rows: int, shapes: Sequence | None, free: list["Reply"]):
        self.outputs, self.rows, self.free = outputs, rows, free
        self.arrays = [
            np.empty(one.shape(rows, shapes), dtypes.by_name(one.dtype).numpy or "uint16") for one in outputs
        ]
        self.sizes = [array.nbytes for array in self.arrays]
        self.nbytes = sum(self.sizes)
        self.aim([OutputTarget(array) for array in self.arrays])

    @property
    def awaited(self) -> bool:
        """Whether a device that failed or took too long may still write into it."""
        return any(target.pending_copies for _, target, *_ in self.gets)

    def aim(self, targets: Sequence[OutputTarget]) -> None:
        """Where the rows are copied to."""
        places = zip(self.outputs, targets, strict=True)
        self.gets = [(output.index, target, 0, self.rows, 0) for output, target in places]

    def gets_of(self, part) -> list:
        """For `Batch.collect`, when a part of a batch is a part of the answer."""
        return [(index, target, part.row, part.rows, part.start) for index, target, *_ in self.gets]


class Answers:
    """The output tensors of one served model. `take` and `give` may run on different threads.

    Parameters
    ----------
    pb_utils : module
    outputs : sequence of Output
    keep_nbytes : int
        How much memory replies may hold in all; more are made when needed, but not kept.
    register : callable, optional
        `InferenceSession.register_memory`: for devices that write answers into the pool themselves.
    """

    def __init__(
        self, pb_utils, outputs: Sequence[Output], keep_nbytes: int = KEEP_NBYTES, register: Callable | None = None
    ):
        self._tensor = pb_utils.Tensor
        self._all = tuple(outputs)
        self._single = len(outputs) == 1
        self._free: dict[tuple, list[Reply]] = {}  # by size (rows, or the shapes of all outputs) and outputs
        self._whole: dict[object, list[Reply]] = {}  # those with all outputs, by size
        self._nbytes, self._keep_nbytes = 0, keep_nbytes
        self._lock = threading.Lock()
        self._pool = Pool(register)

    def wanted(self, request) -> Sequence[Output]:
        """The outputs that a request asks for; Triton has checked that they exist."""
        if self._single:
            return self._all
        names = request.requested_output_names()
        if len(names) == len(self._all):
            return self._all
        return tuple(output for output in self._all if output.name in names)

    def take(self, outputs: Sequence[Output], rows: int, shapes: Sequence | None = None) -> Reply:
        """Tensors for the next answer; nobody else has them until they are given back.

        Parameters
        ----------
        outputs : sequence of Output
        rows : int
            0 for whole tensors.
        shapes : sequence of tuple, optional
            Of all the model's outputs in this answer, where rows alone do not say.
        """
        size = rows if shapes is None else shapes
        with self._lock:
            free = self._whole.get(size) if outputs is self._all else self._free.get((size, outputs))
            while free:
                reply = free.pop()
                if not reply.awaited:
                    if reply.sent and not reply.pooled:
                        self._look(reply)
                    return reply
                self._nbytes -= reply.nbytes
            return self._make(outputs, rows, shapes)

    def give(self, reply: Reply) -> None:
        """Back for the next answer."""
        reply.free.append(reply)

    def tensor(self, output: Output, array: np.ndarray):
        """A new Triton tensor over an array; NumPy has no bfloat16, whose bits travel as uint16."""
        if output.dtype == "bfloat16":
            return self._tensor.from_dlpack(output.name, dlpack.to_capsule(array.view(np.uint16), "bfloat16"))
        return self._tensor(output.name, array)

    @property
    def in_place(self) -> bool:
        """Whether devices write into the pool themselves."""
        return self._pool.pinned

    def share(self, feed: RequestInputs) -> None:
        """Lets devices read a request in what the pool has grown by."""
        self._pool.follow(feed.address)

    def close(self) -> None:
        """Lets go of the pool. Calling it again does nothing."""
        self._pool.close()

    def room(self, sizes: Sequence[int]) -> tuple[bool, str]:
        """Whether there is ample shared memory for new tensors of these sizes; and if there is too little, that.

        Before it is too little, the tensors that wait for other answers are given up.
        """
        found = self._pool.room(sizes)
        if found[1]:
            with self._lock:
                self._let_go(0)
            found = self._pool.room(sizes)
        return found

    def _make(self, outputs, rows, shapes):
        size = rows if shapes is None else shapes
        key, known = (size, self._whole) if outputs is self._all else ((size, outputs), self._free)
        reply = Reply(outputs, rows, shapes, known.setdefault(key, []))
        self._renew(reply)
        self._nbytes += reply.nbytes
        self._let_go(self._keep_nbytes)
        return reply

    def _let_go(self, nbytes: int) -> None:
        """Of waiting replies, until all hold at most so much or none waits."""
        for lists in (self._free, self._whole):
            for free in lists.values():
                while self._nbytes > nbytes and free:
                    self._nbytes -= free.pop().nbytes

    def _renew(self, reply):
        reply.tensors = [self.tensor(*one) for one in zip(reply.outputs, reply.arrays, strict=True)]
        reply.sent = False

    def _look(self, reply: Reply) -> None:
        """After their first send: into the pool with the copies if the tensors are there, else new ones."""
        targets = [OutputTarget(tensor.to_dlpack(), tensor) for tensor in reply.tensors]
        if all(
            target.dtype == output.dtype and target.shape == array.shape and self._pool.holds(target)
            for target, output, array in zip(targets, reply.outputs, reply.arrays, strict=True)
        ):
            reply.aim(targets)
            reply.arrays, reply.pooled, reply.sizes = None, True, []
        else:
            self._renew(reply)


class Pool:
    """The worker's shared-memory region, as the process itself sees it.

    Parameters
    ----------
    register : callable, optional
        Is given each mapping of the region, so that devices can read and write there: see
        `InferenceSession.register_memory`.
    """

    def __init__(self, register: Callable | None = None):
        self._register, self._registrations = register, {}
        self._ranges: list[tuple[int, int]] = []
        self._growth = host_limits.pool_settings(os.getppid()).growth
        self._region: Path | None = None
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
        """Looks for new mappings if the region has outgrown those that are known, and none has this address."""
        if any(first <= address < last for first, last in self._ranges):
            return
        if self._region.stat().st_size > max((last - first for first, last in self._ranges), default=0):
            self._map()

    def _map(self):
        self._region = self._region or region()
        self._ranges = _mappings(self._region)
        for first, last in self._ranges if self._register is not None else ():
            if first not in self._registrations:
                self._registrations[first] = self._register((ctypes.c_char * (last - first)).from_address(first))

    def close(self) -> None:
        """Ends the registrations. Calling it again does nothing."""
        for registration in self._registrations.values():
            registration.close()
        self._registrations, self._register = {}, None

    def _inside(self, target):
        return any(first <= target.address and target.address + target.nbytes <= last for first, last in self._ranges)

    def room(self, sizes: Sequence[int]) -> tuple[bool, str]:
        """See Answers.room. Each tensor that the region has no place for makes it grow by whole steps."""
        own = getattr(sys.modules.get("c_python_backend_utils"), "shared_memory", None)
        inside = own is not None and 2 * sum(sizes) + _MESSAGE_NBYTES <= own.free_memory()
        if inside and not sizes:
            return True, ""
        status = os.statvfs(_SHM)
        free = status.f_bavail * status.f_frsize
        need = sum(self._growth * (nbytes // self._growth + 1) for nbytes in sizes)
        if need + SPARE_NBYTES <= free:
            return need + AMPLE_NBYTES <= free, ""
        if inside:  # but perhaps not in one piece
            return False, ""
        return False, (
            f"the answer needs {need:,} bytes of shared memory and /dev/shm has {free:,}; start the container with a "
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
