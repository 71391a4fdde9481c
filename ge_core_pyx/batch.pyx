# SPDX-License-Identifier: Apache-2.0
"""A borrowed slot, its pinned memory as arrays."""

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclrtContext, usable
from ge_core_pyx.arrays cimport InputLayout, OutputTarget, view_of
from ge_core_pyx.executor cimport Executor
from ge_core_pyx.range_slot cimport RangeSlot
from ge_core_pyx.requests cimport RequestInputs
from ge_core_pyx.slot cimport Execution, Gear, OutputCopy, Slot, Tensor

import operator

from ge_core_pyx.arrays import numpy_dtype
from ge_core_pyx.future import timeout_to_ms
from ge_core_pyx.requests import listed


@cython.final
cdef class Lease:
    """Keeps a slot out of the pool; it goes back when the last object that refers to this one dies."""

    cdef Executor executor
    cdef Slot slot

    def __cinit__(self, Executor executor, Slot slot):
        self.executor = executor
        self.slot = slot

    def __dealloc__(self):
        if self.slot is not None and usable():
            self.executor.release(self.slot)


@cython.final
cdef class Batch:
    """One borrowed slot: fill `inputs`, `run()`, read `outputs`, all in pinned memory and without a copy.

    Attributes
    ----------
    rows : int
        0 for a model that is not cut by rows.
    inputs, outputs : dict of name → ndarray, shape (rows, …)
        Views of the slot's pinned memory; outputs are read-only and lease the result of the last run(). The slot goes
        back to the session when the batch is closed and the last view has died: nobody else overwrites a view.
    """

    cdef Executor executor
    cdef Lease lease
    cdef Slot slot
    cdef Execution execution
    cdef readonly Py_ssize_t rows
    cdef dict _inputs, _outputs
    cdef bint stays                    # the outputs are left on the device until collect() says where they go

    def __cinit__(self, Executor executor not None, rows, shapes, int gear=-1):
        cdef Py_ssize_t largest = executor.description.max_rows
        if rows is not None:
            rows = operator.index(rows)
        if gear >= 0:
            self._take(executor, rows, gear)
            return
        if shapes is not None:
            self._by_shapes(executor, rows, shapes)
            return
        if largest == 0:
            if rows is not None:
                raise ValueError(f"rows cannot be chosen: {executor.description.not_rows}")
            if executor.description.gear_kind != "static":
                raise ValueError(f"say which shapes to borrow for: {executor.description.not_rows}")
            rows = 0
        elif rows is None:
            rows = largest
        elif not 1 <= rows <= largest:
            raise ValueError(f"rows must be 1..{largest}, got {rows}")
        self._take(executor, rows, -1)

    cdef int _take(self, Executor executor, Py_ssize_t rows, int gear) except -1:
        self.executor = executor
        self.rows = rows
        self.slot = executor.acquire()
        self.lease = Lease.__new__(Lease, executor, self.slot)
        if gear >= self.slot.n_gears or gear >= 0 and rows > <Py_ssize_t>self.slot.gears[gear].rows:
            raise ValueError(f"gear number {gear} of {executor.path} does not lease {rows} rows")
        if gear < 0:
            gear = executor.gear_for(self.slot, rows)
        self.execution = Execution(gear, rows, 0, NULL, False, True)
        return 0

    def _by_shapes(self, Executor executor, rows, shapes):
        specs = executor.description.inputs
        if rows is not None or not hasattr(shapes, "keys") or set(shapes) != {spec.name for spec in specs}:
            raise ValueError(f"expected either rows, or the shape of each of {listed(specs)}; got {rows} and {shapes}")
        try:
            wanted = tuple(tuple(operator.index(dim) for dim in shapes[spec.name]) for spec in specs)
        except TypeError:
            raise ValueError(f"expected a shape of integers for each input, got {shapes}") from None
        for spec, shape in zip(specs, wanted):
            if len(shape) != len(spec.shape):
                raise ValueError(f"input {spec.name!r}: expected {spec}, got {list(shape)}")
        gear, crop_shapes = executor.interface.place(wanted)
        if crop_shapes is not None:
            raise ValueError(f"no gear has exactly the shapes {list(wanted)}; borrow one that exists, or use run()")
        self._take(executor, 0, gear)
        if isinstance(self.slot, RangeSlot):
            (<RangeSlot>self.slot).prepare(wanted)

    cdef int alive(self) except -1:
        if self.lease is None:
            raise RuntimeError("the batch is closed")
        return 0

    cdef tuple _shape(self, shape):
        """Of this batch's rows, for a tensor of this shape in the whole gear."""
        return (shape[0] * self.rows // self._gear().rows, *shape[1:]) if self.rows else tuple(shape)

    cdef Gear* _gear(self) noexcept:
        return &self.slot.gears[self.execution.gear]

    @property
    def inputs(self) -> dict:
        self.alive()
        if self._inputs is None:
            if isinstance(self.slot, RangeSlot):
                shapes = (<RangeSlot>self.slot).shapes
            else:
                shapes = self.slot.gear_shapes[self.execution.gear][0]
            self._inputs = {
                spec.name: view_of(
                    self.lease, <char*>self.slot.pinned_input.ptr + self._gear().inputs[i].offset,
                    self._shape(shapes[i]), numpy_dtype(spec), False,
                )
                for i, spec in enumerate(self.executor.description.inputs)
            }
        return self._inputs

    @property
    def outputs(self) -> dict:
        self.alive()
        if self._outputs is None:
            if isinstance(self.slot, RangeSlot):
                shapes = (<RangeSlot>self.slot).output_shapes
                if shapes is None:
                    raise RuntimeError("the shapes of the outputs are known after run()")
            else:
                shapes = self.slot.gear_shapes[self.execution.gear][1]
            self._outputs = {
                spec.name: view_of(
                    self.lease, <char*>self.slot.pinned_output.ptr + self._gear().outputs[i].offset,
                    self._shape(shapes[i]), self.executor.interface.output_dtypes[i], True,
                )
                for i, spec in enumerate(self.executor.interface.outputs)
            }
        return self._outputs

    def write(self, str name not None, Py_ssize_t row, value):
        """Copy an array of n rows into rows [row, row + n) of an input, without the GIL.

        Parameters
        ----------
        name : str
        row : int
        value : ndarray, shape (n, …)
            The input's dtype; made contiguous first where it is not. For a model without rows: the whole tensor, row 0.

        Raises
        ------
        ValueError
            Wrong name, dtype or shape, or rows outside the batch.
        """
        cdef InputLayout layout
        cdef Py_buffer view
        cdef Tensor* tensor
        cdef char* target
        self.alive()
        index = self.executor.interface.input_index.get(name)
        if index is None:
            raise ValueError(f"no input {name!r}; this model has {listed(self.executor.description.inputs)}")
        layout = self.executor.interface.layouts[index]
        layout.view(value, &view)
        try:
            tensor = &self._gear().inputs[<int>index]
            target = <char*>self.slot.pinned_input.ptr + tensor.offset
            if self.rows == 0:
                if row != 0 or view.len != <Py_ssize_t>tensor.nbytes:
                    raise ValueError(
                        f"input {name!r}: expected {layout.spec} at row 0, got {view.len} bytes at row {row}"
                    )
            else:
                layout.check_row(&view)
                if row < 0 or row > self.rows - view.shape[0]:
                    raise ValueError(
                        f"input {name!r}: {view.shape[0]} rows from row {row} on are outside this batch of {self.rows}"
                    )
                target += row * tensor.row_nbytes
            with nogil:
                memcpy(target, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def put(self, RequestInputs inputs, Py_ssize_t row=0, Py_ssize_t first=0, Py_ssize_t count=-1):
        """Copy rows [first, first + count) of a request into rows [row, row + count) of all inputs, without the GIL.

        Parameters
        ----------
        inputs : RequestInputs
            Of this model's `Engine.request_inputs`.
        row, first : int
        count : int
            Default: all of the request's rows. For a model without rows leave all three out.

        Raises
        ------
        ValueError
            Rows outside the request or the batch, or shapes that are not this batch's.
        """
        cdef Slot slot = self.slot
        cdef Gear* gear
        cdef Tensor* tensor
        cdef size_t row_nbytes
        cdef int i
        self.alive()
        gear = self._gear()
        if inputs is None or inputs.filled != slot.n_inputs or (inputs.rows == 0) != (self.rows == 0):
            raise ValueError("the request was not made for this batch's model")
        if count == -1:
            count = inputs.rows
        if row < 0 or first < 0 or count < 0 or count > inputs.rows - first or count > self.rows - row:
            raise ValueError(
                f"{count} rows from row {first} on of a request of {inputs.rows} do not fit from row {row} on in a "
                f"batch of {self.rows}"
            )
        if self.rows == 0:
            for i in range(slot.n_inputs):
                if inputs.views[i].len != <Py_ssize_t>gear.inputs[i].nbytes:
                    raise ValueError(f"the request's shapes {inputs.shapes} are not this batch's")
        with nogil:
            for i in range(slot.n_inputs):
                tensor = &gear.inputs[i]
                row_nbytes = tensor.row_nbytes
                memcpy(
                    <char*>slot.pinned_input.ptr + tensor.offset + row * row_nbytes,
                    <char*>inputs.views[i].buf + first * row_nbytes,
                    count * row_nbytes if self.rows != 0 else tensor.nbytes,
                )

    cdef OutputCopy _copy(
        self, int index, OutputTarget target, Py_ssize_t row, Py_ssize_t count, Py_ssize_t at
    ) except *:
        """What get() copies."""
        cdef Tensor* tensor
        cdef size_t nbytes = 0
        cdef bint fits
        self.alive()
        if target is None or not 0 <= index < self.slot.n_outputs:
            raise ValueError(f"output {index} into {target}: this model has {self.slot.n_outputs} outputs")
        tensor = &self._gear().outputs[index]
        if count == -1:
            count = self.rows
        # Compared by differences and quotients: sums and products of a caller's numbers may wrap.
        fits = 0 <= count <= self.rows and 0 <= row <= self.rows - count and at >= 0
        if fits:
            nbytes = count * tensor.row_nbytes if self.rows != 0 else tensor.nbytes
            fits = nbytes <= <size_t>target.nbytes and (
                at == 0 or tensor.row_nbytes == 0 or <size_t>at <= (target.nbytes - nbytes) // tensor.row_nbytes
            )
        if not fits:
            raise ValueError(
                f"output {index}: {count} rows from row {row} on of a batch of {self.rows} do not fit from row {at} on "
                f"in {target.nbytes} bytes"
            )
        return OutputCopy(target.ptr + at * tensor.row_nbytes, tensor.offset + row * tensor.row_nbytes, nbytes)

    def get(self, int index, OutputTarget target, Py_ssize_t row=0, Py_ssize_t count=-1, Py_ssize_t at=0):
        """Copy rows [row, row + count) of an output into a target, there from row `at` on, without the GIL.

        Parameters
        ----------
        index : int
            Of the output, as the model lists them.
        target : OutputTarget
        row, at : int
        count : int
            Default: all of the batch's rows. For a model without rows leave all three out.

        Raises
        ------
        ValueError
            Rows outside the batch or the target.
        """
        cdef OutputCopy copy = self._copy(index, target, row, count, at)
        cdef char* source = <char*>self.slot.pinned_output.ptr + copy.offset
        with nogil:
            memcpy(copy.target, source, copy.nbytes)

    def collect(self, gets):
        """Wait, copy what each (index, target, row, count, at) of `gets` says, as get() does, and close.

        The slot is free for others afterwards. The device itself writes into the targets of a launched batch where all
        of them lie in registered memory. After an error it may do so later still: `OutputTarget.pending_copies` says of
        which.
        """
        cdef OutputCopy* copies = NULL
        cdef int count = len(gets)
        try:
            self.alive()
            copies = <OutputCopy*>PyMem_Malloc(max(count, 1) * sizeof(OutputCopy))
            if copies == NULL:
                raise MemoryError()
            for i, (index, target, row, rows, at) in enumerate(gets):
                copies[i] = self._copy(index, target, row, rows, at)
            if self.stays and self._fetch(gets, copies):
                self._await(-1, NULL, 0)
                for _, target, *_ in gets:
                    (<OutputTarget>target).pending_copies -= 1
            else:
                self._await(-1, copies, count)
            self.slot.keep = None
        finally:
            PyMem_Free(copies)
            self.close()

    cdef bint _fetch(self, gets, OutputCopy* copies) except -1:
        """Queue the copy of the outputs that launch() left on the device; whether it goes straight to the targets."""
        cdef Slot slot = self.slot
        cdef aclrtContext previous
        cdef aclError rc = 0
        cdef int i, count = len(gets)
        cdef bint in_place = count != 0
        self.stays = False
        slot.restart_limit()
        for i in range(count):
            in_place = in_place and self.executor.is_registered(<size_t>copies[i].target, copies[i].nbytes)
        if in_place:
            slot.keep = (slot.keep, gets)
            for i in range(count):
                (<OutputTarget>gets[i][1]).pending_copies += 1
                if rc == 0:
                    with nogil:
                        rc = slot.fetch(copies[i].target, copies[i].offset, copies[i].nbytes)
        else:
            with nogil:
                rc = slot.context.enter(&previous)
                if rc == 0:
                    rc = slot.copy_back(self.execution.gear, self.execution.rows)
                slot._record(3)
                slot.context.leave(previous)
        if rc != 0:
            self._fail(rc)
        return in_place

    cdef int _start(self, RequestInputs inputs=None, size_t first=0, bint copy_back=True) except -1:
        """Queue the batch: from the pinned input, or from rows `first` on of a request."""
        cdef Slot slot = self.slot
        cdef aclError rc
        self.alive()
        if acl.forked or self.executor.refusing:
            self.executor._refuse()
        if isinstance(slot, RangeSlot):
            self._outputs = None
        self.stays = not copy_back
        self.execution.copy_back = copy_back
        self.execution.first = first
        self.execution.in_place = False
        self.execution.views = NULL
        if inputs is not None:
            self.execution.views = inputs.views
            if first == 0 and self.executor.find_registered(slot, self.execution.gear, inputs.views):
                self.execution.in_place = True
                slot.keep = inputs
        with nogil:
            rc = self.executor.launch(slot, &self.execution)
        self.execution.views = NULL
        if rc != 0:
            self._fail(rc)
        return 0

    cdef int _await(self, int64_t timeout_ms, OutputCopy* copies, int count) except -1:
        """Wait for what _start() queued, and copy the outputs to where they are wanted."""
        cdef Slot slot = self.slot
        cdef aclError rc = 0
        with nogil:
            if slot.in_flight:
                rc = self.executor.complete(slot, &self.execution, timeout_ms, copies, count)
            else:
                slot.scatter(copies, count)
        if rc == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT and timeout_ms >= 0 and not slot.expired():
            raise TimeoutError(f"the batch is not done within {timeout_ms} ms")
        if rc != 0:
            self._fail(rc)
        return 0

    def _fail(self, aclError rc):
        cdef Slot slot = self.slot
        try:
            self.executor.failed(slot, rc)
        finally:
            self.close()

    def run(self):
        """Execute on what the inputs lease now; rows up to the gear are padded. Blocks, without the GIL.

        Raises
        ------
        AclError
            The device failed; the batch is closed then.
        """
        self._start()
        self._await(-1, NULL, 0)

    def start(self):
        """Queue the execution and return; the inputs must not change before wait()."""
        self._start()

    def wait(self, timeout=None):
        """Wait for start().

        Parameters
        ----------
        timeout : float, optional
            Seconds; TimeoutError when the batch is not done by then (it goes on; ask again).
        """
        cdef int64_t timeout_ms = timeout_to_ms(timeout)
        self.alive()
        if self.stays:
            self._fetch((), NULL)
        self._await(timeout_ms, NULL, 0)

    def close(self):
        """End the loan; views that still live keep the slot until they die. Calling it again does nothing."""
        self._inputs = self._outputs = None
        self.slot = None
        self.lease = None

    def __enter__(self):
        self.alive()
        return self

    def __exit__(self, *exception):
        self.close()


def launch(Executor executor not None, Py_ssize_t rows, puts, int gear=-1) -> Batch:
    """See Engine.launch."""
    cdef Batch batch = Batch.__new__(Batch, executor, rows, None, gear)
    cdef RequestInputs inputs
    cdef bint copy_back = not executor.registered
    try:
        if len(puts) == 1:
            inputs, row, first, count = puts[0]
            if inputs is None:
                raise ValueError("launch: expected RequestInputs, got None")
            if row == 0 and count == rows and 0 <= first <= inputs.rows - count:
                batch._start(inputs, first, copy_back)    # which may copy and send it in pieces
                return batch
        for inputs, row, first, count in puts:
            batch.put(inputs, row, first, count)
        batch._start(None, 0, copy_back)
    except BaseException:
        batch.close()
        raise
    return batch
