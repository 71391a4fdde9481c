"""A borrowed slot, its pinned memory as arrays; and host memory of the caller that devices read in place."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclrtContext, api, usable
from ge_core_pyx.arrays cimport InputLayout, OutputTarget, view_of
from ge_core_pyx.executor cimport Device, Executor
from ge_core_pyx.requests cimport RequestInputs
from ge_core_pyx.slot cimport AWAITED, Copy, Plan, RangeSlot, Slot, Tensor

import operator

from ge_core_pyx import slot as slots_module
from ge_core_pyx.arrays import numpy_dtype
from ge_core_pyx.executor import listed, whole_ms


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
cdef class Registration:
    """Host memory of the caller that devices may read and write directly, until close() or the death of this object."""

    cdef Executor executor
    cdef Py_buffer view
    cdef bint pinned, held
    cdef tuple span
    cdef object contexts

    def __cinit__(self, Executor executor, array):
        cdef aclError rc
        PyObject_GetBuffer(array, &self.view, PyBUF_WRITABLE)
        self.held = True
        self.executor = executor
        self.contexts = [(<Device>device).context for device in executor.devices]
        with self.contexts[0].bound():
            rc = api.aclrtHostRegisterV2(self.view.buf, self.view.len, acl.ACL_HOST_REG_PINNED)
            if rc != 0:
                api.aclGetRecentErrMsg()
        self.pinned = rc == 0
        self.span = (<size_t>self.view.buf, <size_t>self.view.buf + self.view.len)
        if self.pinned:
            executor.registered.append(self.span)

    @property
    def direct(self) -> bool:
        """Whether the runtime pinned the memory; if not, what lies there takes the plain path with one copy."""
        return self.pinned

    cdef void _release(self) noexcept:
        if self.pinned and any(slots_module.abandoned(context) for context in self.contexts):
            return                     # the device may still be reading or writing there
        if self.pinned:
            self.pinned = False
            self.executor.registered.remove(self.span)
            try:
                with self.contexts[0].bound():
                    api.aclrtHostUnregister(self.view.buf)
            except Exception:
                pass                   # a context that is closed holds no registration
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)

    def close(self):
        """Unregister; no request that reads the memory may be running. Again: nothing happens."""
        self._release()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._release()

    def __dealloc__(self):
        if self.held and usable():
            self._release()


@cython.final
cdef class Batch:
    """One borrowed slot: fill `inputs`, `run()`, read `outputs`, all in pinned memory and without a copy.

    Attributes
    ----------
    rows : int
        0 for a model that is not cut by rows.
    inputs, outputs : dict of name → ndarray, shape (rows, …)
        Views of the slot's pinned memory; outputs are read-only and hold the result of the last run(). The slot goes
        back to the session when the batch is closed and the last view has died: nobody else overwrites a view.
    """

    cdef Executor executor
    cdef Lease hold
    cdef Slot slot
    cdef int plan
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
        self.hold = Lease.__new__(Lease, executor, self.slot)
        self.plan = executor.plan_for(self.slot, rows) if gear < 0 else gear
        if gear >= self.slot.n_plans or gear >= 0 and rows > <Py_ssize_t>self.slot.plans[gear].rows:
            raise ValueError(f"gear number {gear} of {executor.path} does not hold {rows} rows")
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
        plan, cut = executor._place(wanted)
        if cut is not None:
            raise ValueError(f"no gear has exactly the shapes {list(wanted)}; borrow one that exists, or use run()")
        self._take(executor, 0, plan)
        if isinstance(self.slot, RangeSlot):
            (<RangeSlot>self.slot).prepare(wanted)

    cdef int alive(self) except -1:
        if self.hold is None:
            raise RuntimeError("the batch is closed")
        return 0

    cdef tuple _shape(self, shape):
        """Of this batch's rows, for a tensor of this shape in the whole gear."""
        return (shape[0] * self.rows // self.slot.plans[self.plan].rows, *shape[1:]) if self.rows else tuple(shape)

    @property
    def inputs(self) -> dict:
        self.alive()
        if self._inputs is None:
            if isinstance(self.slot, RangeSlot):
                shapes = (<RangeSlot>self.slot).shapes
            else:
                shapes = self.slot.gears[self.plan][0]
            self._inputs = {
                spec.name: view_of(
                    self.hold, <char*>self.slot.pinned_input.ptr + self.slot.plans[self.plan].inputs[i].offset,
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
                shapes = self.slot.gears[self.plan][1]
            self._outputs = {
                spec.name: view_of(
                    self.hold, <char*>self.slot.pinned_output.ptr + self.slot.plans[self.plan].outputs[i].offset,
                    self._shape(shapes[i]), self.executor.output_dtypes[i], True,
                )
                for i, spec in enumerate(self.executor.output_specs)
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
        cdef InputLayout source
        cdef Py_buffer view
        cdef Tensor* tensor
        cdef char* target
        self.alive()
        index = self.executor.input_index.get(name)
        if index is None:
            raise ValueError(f"no input {name!r}; this model has {listed(self.executor.description.inputs)}")
        source = self.executor.layouts[index]
        source.view(value, &view)
        try:
            tensor = &self.slot.plans[self.plan].inputs[<int>index]
            target = <char*>self.slot.pinned_input.ptr + tensor.offset
            if self.rows == 0:
                if row != 0 or view.len != <Py_ssize_t>tensor.nbytes:
                    raise ValueError(
                        f"input {name!r}: expected {source.spec} at row 0, got {view.len} bytes at row {row}"
                    )
            else:
                source.check_row(&view)
                if row < 0 or row > self.rows - view.shape[0]:
                    raise ValueError(
                        f"input {name!r}: {view.shape[0]} rows from row {row} on are outside this batch of {self.rows}"
                    )
                target += row * tensor.row_nbytes
            with nogil:
                memcpy(target, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def put(self, RequestInputs feed, Py_ssize_t row=0, Py_ssize_t first=0, Py_ssize_t count=-1):
        """Copy rows [first, first + count) of a request into rows [row, row + count) of all inputs, without the GIL.

        Parameters
        ----------
        feed : RequestInputs
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
        cdef Plan* plan
        cdef Tensor* tensor
        cdef size_t row_nbytes
        cdef int i
        self.alive()
        plan = &slot.plans[self.plan]
        if feed is None or feed.filled != slot.n_inputs or (feed.rows == 0) != (self.rows == 0):
            raise ValueError("the request was not made for this batch's model")
        if count < 0:
            count = feed.rows
        if row < 0 or first < 0 or first + count > feed.rows or row + count > self.rows:
            raise ValueError(
                f"rows {first}..{first + count} of a request of {feed.rows} do not fit from row {row} on in a batch of "
                f"{self.rows}"
            )
        if self.rows == 0:
            for i in range(slot.n_inputs):
                if feed.views[i].len != <Py_ssize_t>plan.inputs[i].nbytes:
                    raise ValueError(f"the request's shapes {feed.shapes} are not this batch's")
        with nogil:
            for i in range(slot.n_inputs):
                tensor = &plan.inputs[i]
                row_nbytes = tensor.row_nbytes
                memcpy(
                    <char*>slot.pinned_input.ptr + tensor.offset + row * row_nbytes,
                    <char*>feed.views[i].buf + first * row_nbytes,
                    count * row_nbytes if self.rows != 0 else tensor.nbytes,
                )

    cdef Copy _copy(self, int index, OutputTarget target, Py_ssize_t row, Py_ssize_t count, Py_ssize_t at) except *:
        """What get() copies."""
        cdef Tensor* tensor
        cdef size_t nbytes, offset
        self.alive()
        if target is None or not 0 <= index < self.slot.n_outputs:
            raise ValueError(f"output {index} into {target}: this model has {self.slot.n_outputs} outputs")
        tensor = &self.slot.plans[self.plan].outputs[index]
        if count < 0:
            count = self.rows
        nbytes = count * tensor.row_nbytes if self.rows != 0 else tensor.nbytes
        offset = at * tensor.row_nbytes
        if row < 0 or at < 0 or row + count > self.rows or <Py_ssize_t>(offset + nbytes) > target.nbytes:
            raise ValueError(
                f"output {index}: rows {row}..{row + count} of a batch of {self.rows} do not fit from row {at} on in "
                f"{target.nbytes} bytes"
            )
        return Copy(target.ptr + offset, tensor.offset + row * tensor.row_nbytes, nbytes)

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
        cdef Copy copy = self._copy(index, target, row, count, at)
        cdef char* source = <char*>self.slot.pinned_output.ptr + copy.offset
        with nogil:
            memcpy(copy.target, source, copy.nbytes)

    def collect(self, gets):
        """wait(), get() for each tuple of its arguments in `gets`, close(): the slot is free for others afterwards.

        The device itself writes into the targets of a launched batch where all of them lie in registered memory. After
        an error it may do so later still: `OutputTarget.pending_copies` says of which.
        """
        cdef Slot slot = self.slot
        cdef bint in_place = False
        try:
            if self.stays:
                in_place = self._fetch(gets)
            self.wait()
            for index, target, row, count, at in gets:
                if in_place:
                    (<OutputTarget>target).pending_copies -= 1
                else:
                    self.get(index, target, row, count, at)
            slot.keep = None
        finally:
            self.close()

    cdef bint _fetch(self, gets) except -1:
        """Queue the copy of the outputs that launch() left on the device; whether it goes straight to the targets."""
        cdef Slot slot = self.slot
        cdef Copy copy
        cdef aclrtContext previous
        cdef aclError rc = 0
        cdef bint in_place = len(gets) != 0
        self.alive()
        self.stays = False
        slot.restart_limit()
        for index, target, row, count, at in gets:
            copy = self._copy(index, target, row, count, at)
            in_place = in_place and self.executor.is_registered(<size_t>copy.target, copy.nbytes)
        if in_place:
            slot.keep = (slot.keep, gets)
            for index, target, row, count, at in gets:
                copy = self._copy(index, target, row, count, at)
                (<OutputTarget>target).pending_copies += 1
                if rc == 0:
                    with nogil:
                        rc = slot.fetch(copy.target, copy.offset, copy.nbytes)
        else:
            with nogil:
                rc = slot.context.enter(&previous)
                if rc == 0:
                    rc = slot.copy_back(self.plan, self.rows)
                slot._record(3)
                slot.context.leave(previous)
        if rc != 0:
            self._fail(rc)
        return in_place

    cdef int _start(self, bint finish, RequestInputs feed=None, size_t first=0, bint back=True) except -1:
        """Queue the batch: from the pinned input, or from rows `first` on of a request. `back`: see Slot.start."""
        cdef Slot slot = self.slot
        cdef Plan* plan
        cdef Py_buffer* views = NULL
        cdef void** sources = NULL
        cdef void* addresses[128]
        cdef size_t rows = self.rows
        cdef aclError rc = 0
        cdef int i
        self.alive()
        if acl.forked or self.executor.refusing:
            self.executor._refuse()
        plan = &slot.plans[self.plan]
        self.stays = not back
        if feed is not None:
            views = feed.views
            if first == 0 and self.executor.registered and self.executor._sources(slot, self.plan, views, addresses):
                sources = addresses
                slot.keep = feed
        with nogil:
            if slot.in_flight:
                rc = slot.finish(-1)
            slot.begin()
            if 0 < rows < plan.rows and views == NULL:
                for i in range(slot.n_inputs):
                    slot.fill(
                        i, <char*>slot.pinned_input.ptr + plan.inputs[i].offset + rows * plan.inputs[i].row_nbytes,
                        (plan.rows - rows) * plan.inputs[i].row_nbytes,
                    )
            if rc == 0:
                rc = slot.start(self.plan, rows, views if sources == NULL else NULL, first, sources, back)
            if rc == 0 and finish:
                rc = slot.finish(-1)
        self.executor._count(slot, self.plan, rows)
        if rc != 0:
            self._fail(rc)
        if finish and slot.sampling:
            slot.mark(AWAITED)
            self.executor._sample(slot, self.plan, rows)
        return 0

    def _fail(self, aclError rc):
        cdef Slot slot = self.slot
        try:
            self.executor.failed(slot, rc)
        finally:
            self.close()

    def run(self):
        """Execute on what the inputs hold now; rows up to the gear are zeros. Blocks, without the GIL.

        Raises
        ------
        AclError
            The device failed; the batch is closed then.
        """
        if isinstance(self.slot, RangeSlot):
            self._outputs = None
        self._start(True)

    def start(self):
        """Queue the execution and return; the inputs must not change before wait()."""
        if isinstance(self.slot, RangeSlot):
            self._outputs = None
        self._start(False)

    def wait(self, timeout=None):
        """Wait for start().

        Parameters
        ----------
        timeout : float, optional
            Seconds; TimeoutError when the batch is not done by then (it goes on; ask again).
        """
        cdef Slot slot = self.slot
        cdef int64_t timeout_ms = whole_ms(timeout)
        cdef aclError rc = 0
        self.alive()
        if self.stays:
            self._fetch(())
        with nogil:
            if slot.in_flight:
                rc = slot.finish(timeout_ms)
        if rc == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT and timeout_ms >= 0 and not slot.expired():
            raise TimeoutError(f"the batch is not done within {timeout} s")
        if rc != 0:
            self._fail(rc)
        if slot.sampling:
            self.executor._sample(slot, self.plan, self.rows)

    def close(self):
        """End the loan; views that still live keep the slot until they die. Again: nothing happens."""
        self._inputs = self._outputs = None
        self.slot = None
        self.hold = None

    def __enter__(self):
        self.alive()
        return self

    def __exit__(self, *exception):
        self.close()


def launch(Executor executor not None, Py_ssize_t rows, puts, int gear=-1) -> Batch:
    """See Engine.launch."""
    cdef Batch batch = Batch.__new__(Batch, executor, rows, None, gear)
    cdef RequestInputs feed
    cdef bint back = not executor.registered
    try:
        if len(puts) == 1:
            feed, row, first, count = puts[0]
            if row == 0 and count == rows and first + count <= feed.rows:
                batch._start(False, feed, first, back)    # which may copy and send it in pieces
                return batch
        for feed, row, first, count in puts:
            batch.put(feed, row, first, count)
        batch._start(False, None, 0, back)
    except BaseException:
        batch.close()
        raise
    return batch
