# SPDX-License-Identifier: Apache-2.0
"""Triton's responses, and the output tensors in them, which are used again.

Triton's worker copies a tensor into its shared-memory region when it is first sent, and leaves it there. A tensor kept
after that is sent again without the copy: what is written through its DLPack pointer is what the client gets. This is
how the worker works, not what it promises, so each tensor is looked at after its first send: only one whose memory lies
in the region, with our shape and dtype, is written there. All others get a tensor of their own for each response.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge_core.batching import RowSlice
from ge_core.serving import shm_space
from ge_core.serving.execution.failures import Failures
from ge_core.serving.execution.shared_memory import SharedRegion
from ge_core.serving.model_config import Binding
from ge_core_pyx import dlpack, dtypes
from ge_core_pyx.arrays import OutputTarget
from ge_core_pyx.requests import RequestInputs

KEEP_NBYTES = 64 << 20


@dataclass(frozen=True)
class Output:
    """One output that is served."""

    name: str  # the client's
    index: int  # the model's
    dtype: str
    row_shape: tuple[int | None, ...]
    multiple: int  # its rows per row of the batch

    def shape(self, rows: int, shapes: Sequence | None) -> tuple[int, ...]:
        """For so many rows; of models whose trailing dims vary, what `shapes` of all outputs say."""
        if shapes is not None:
            return shapes[self.index]
        return (rows * self.multiple, *(dim or 0 for dim in self.row_shape))


def served_outputs(description, binding: Binding) -> tuple[Output, ...]:
    """The outputs that a configuration lists."""
    places = {spec.name: place for place, spec in enumerate(description.outputs)}
    return tuple(
        Output(bound.name, place, bound.spec.dtype, bound.spec.shape[1:], description.row_multiples[place])
        for bound in binding.outputs
        for place in [places[bound.spec.name]]
    )


class OutputTensors:
    """The output tensors of one response, and the memory that rows are copied into to get there.

    Attributes
    ----------
    tensors : list of pb_utils.Tensor
    new_sizes : list of int
        Bytes of the tensors that are not in Triton's shared memory yet.
    sent : bool
        Whether Triton has had the tensors at least once.
    in_region : bool
        Whether rows are copied straight into Triton's shared memory.
    all_copies : list of tuple
        Arguments of `Batch.collect` for a response that is a batch of its own.
    """

    sent = in_region = False

    def __init__(self, outputs: Sequence[Output], rows: int, shapes: Sequence | None, free: list["OutputTensors"]):
        self.outputs, self.rows, self.free = outputs, rows, free
        self.tensors: list = []
        self.arrays: list[np.ndarray] = [
            np.empty(one.shape(rows, shapes), dtypes.by_name(one.dtype).numpy or "uint16") for one in outputs
        ]
        self.new_sizes = [array.nbytes for array in self.arrays]
        self.nbytes = sum(self.new_sizes)
        self.copy_into([OutputTarget(array) for array in self.arrays])

    @property
    def pending_copies(self) -> bool:
        """Whether a device that failed or took too long may still write into them."""
        return any(target.pending_copies for _, target, *_ in self.all_copies)

    def copy_into(self, targets: Sequence[OutputTarget]) -> None:
        """Set where the rows are copied to."""
        places = zip(self.outputs, targets, strict=True)
        self.all_copies = [(output.index, target, 0, self.rows, 0) for output, target in places]

    def copies(self, row_slice: RowSlice) -> list[tuple]:
        """Arguments of `Batch.collect` for the rows of the response that are in one batch."""
        return [
            (index, target, row_slice.row, row_slice.rows, row_slice.start) for index, target, *_ in self.all_copies
        ]


class OutputTensorPool:
    """The output tensors of one served model. `take` and `give_back` may run on different threads.

    Parameters
    ----------
    pb_utils : module
    outputs : sequence of Output
    keep_nbytes : int
        How much memory all tensors may hold; more are made when needed, but not kept.
    register : callable, optional
        `Engine.register_memory`: for devices that write outputs into Triton's shared memory themselves.
    """

    def __init__(
        self, pb_utils, outputs: Sequence[Output], keep_nbytes: int = KEEP_NBYTES, register: Callable | None = None
    ):
        self._tensor = pb_utils.Tensor
        self._all = outputs
        self._free: dict[tuple, list[OutputTensors]] = {}  # by size (rows, or the shapes of all outputs) and outputs
        self._free_all: dict[object, list[OutputTensors]] = {}  # those with all outputs, by size
        self._nbytes, self._keep_nbytes = 0, keep_nbytes
        self._lock = threading.Lock()
        self._devices_write = register is not None
        self._region = SharedRegion(register)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, those that are in use included."""
        return self._nbytes

    @property
    def free_nbytes(self) -> int:
        """Bytes of the tensors that nobody uses."""
        with self._lock:
            lists = [*self._free.values(), *self._free_all.values()]
            return sum(outputs.nbytes for free in lists for outputs in free)

    @property
    def in_place(self) -> bool:
        """Whether devices write into Triton's shared memory themselves."""
        return self._region.pinned

    def take(self, outputs: Sequence[Output], rows: int, shapes: Sequence | None = None) -> OutputTensors:
        """Tensors for the next response; nobody else has them until they are given back.

        Parameters
        ----------
        outputs : sequence of Output
        rows : int
            0 for whole tensors.
        shapes : sequence of tuple, optional
            Of all the model's outputs in this response, where rows alone do not say.
        """
        size = rows if shapes is None else shapes
        with self._lock:
            free = self._free_all.get(size) if outputs is self._all else self._free.get((size, outputs))
            while free:
                taken = free.pop()
                if not (self._devices_write and taken.pending_copies):
                    if taken.sent and not taken.in_region:
                        self._move(taken)
                    return taken
                self._nbytes -= taken.nbytes
            return self._make(outputs, rows, shapes)

    def give_back(self, outputs: OutputTensors) -> None:
        """For the next response. Triton must have copied them, or must not have them."""
        outputs.free.append(outputs)

    def tensor(self, output: Output, array: np.ndarray):
        """A new Triton tensor over an array; NumPy has no bfloat16, whose bits travel as uint16."""
        if output.dtype == "bfloat16":
            return self._tensor.from_dlpack(output.name, dlpack.to_capsule(array.view(np.uint16), "bfloat16"))
        return self._tensor(output.name, array)

    def share(self, inputs: RequestInputs) -> None:
        """Let devices read a request that lies in what Triton's shared memory has grown by."""
        self._region.follow(inputs.address)

    def room(self, sizes: Sequence[int]) -> shm_space.Room:
        """Whether there is shared memory for new tensors of these sizes, in bytes.

        Before it is too little, the tensors that nobody uses are given up.
        """
        found = self._region.room(sizes)
        if found.problem:
            with self._lock:
                self._give_up(0)
            found = self._region.room(sizes)
        return found

    def close(self) -> None:
        """Ends the use of Triton's shared memory by devices. Calling it again does nothing."""
        self._region.close()

    def _make(self, outputs, rows, shapes) -> OutputTensors:
        size = rows if shapes is None else shapes
        key: Any = size if outputs is self._all else (size, outputs)
        free = (self._free_all if outputs is self._all else self._free).setdefault(key, [])
        made = OutputTensors(outputs, rows, shapes, free)
        self._renew(made)
        self._nbytes += made.nbytes
        self._give_up(self._keep_nbytes)
        return made

    def _give_up(self, nbytes: int) -> None:
        """Drop unused tensors until all together hold at most so much, or none is unused."""
        for lists in (self._free, self._free_all):
            for free in lists.values():
                while self._nbytes > nbytes and free:
                    self._nbytes -= free.pop().nbytes

    def _renew(self, made: OutputTensors):
        made.tensors = [self.tensor(*one) for one in zip(made.outputs, made.arrays, strict=True)]
        made.sent = False

    def _move(self, taken: OutputTensors) -> None:
        """After their first send: copy into the region from now on if the tensors are there, else make new ones."""
        targets = [OutputTarget(tensor.to_dlpack(), tensor) for tensor in taken.tensors]
        if all(
            target.dtype == output.dtype and target.shape == array.shape and self._region.holds(target)
            for target, output, array in zip(targets, taken.outputs, taken.arrays, strict=True)
        ):
            taken.copy_into(targets)
            taken.arrays, taken.in_region, taken.new_sizes = [], True, []
        else:
            self._renew(taken)


class ResponseBuilder:
    """Makes the responses of one served model.

    Parameters
    ----------
    pb_utils : module
    outputs : sequence of Output
    tensors : OutputTensorPool
        Of the same outputs.
    failures : Failures
    """

    def __init__(self, pb_utils, outputs: Sequence[Output], tensors: OutputTensorPool, failures: Failures):
        self._response, self._outputs = pb_utils.InferenceResponse, outputs
        self._single = len(outputs) == 1
        self._tensors, self._failures = tensors, failures

    def prepare(self, state) -> None:
        """Give a request (`RequestState`) its output tensors, whose rows come later, and the response over them."""
        state.outputs = outputs = self._tensors.take(self._requested(state.request), state.rows, state.output_shapes)
        state.new_sizes, state.response = outputs.new_sizes, self._response(outputs.tensors)

    def set_arrays(self, state, arrays: Sequence[np.ndarray]) -> None:
        """Give a request the response over new arrays, one for each of the model's outputs."""
        requested = self._requested(state.request)
        state.new_sizes = [arrays[output.index].nbytes for output in requested]
        state.response = self._response([self._tensors.tensor(output, arrays[output.index]) for output in requested])

    def finished(self, state):
        """The pb_utils.InferenceResponse to send for a request that no batch is awaited for; with its error, if any."""
        if state.error is None and (state.response is None or state.pending_batches):
            state.error = self._failures.internal("the request was not answered")
        if state.error is not None:
            return self._response(output_tensors=[], error=state.error)
        if state.outputs is not None:
            state.outputs.sent = True
        return state.response

    def _requested(self, request) -> Sequence[Output]:
        """The outputs that a request asks for; Triton has checked that they exist."""
        if self._single:
            return self._outputs
        names = request.requested_output_names()
        if len(names) == len(self._outputs):
            return self._outputs
        return tuple(output for output in self._outputs if output.name in names)
