"""Running batches: slots with everything allocated beforehand, and the way from arrays to the device and back."""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_WRITABLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.string cimport memcpy, memset

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclrtContext, aclrtStream, api, check, refuse_fork, usable
from ge_core_pyx.device cimport Context, Stream
from ge_core_pyx.memory cimport DeviceBuffer, PinnedBuffer, padded
from ge_core_pyx.model cimport Dataset, Model

import math
import threading
import time

import numpy as np

from ge_core_pyx import dtypes, errors

cdef object _empty = np.empty
cdef list _abandoned = []              # slots whose device work never ended: freeing their memory could corrupt it
cdef int DRAIN_MS = 2000               # how long a failed slot's stream may take to end its queued work


@cython.final
@cython.no_gc_clear
cdef class Slot:
    """One in-flight batch: a loaded model, a stream, memory for the largest gear, and a plan per gear.

    The inputs of a gear lie in one block (one copy to the device). Outputs keep the places of the largest gear at
    every gear, because AscendCL asks for output buffers of that size.
    """

    def __cinit__(self, Context context not None, str path not None, DeviceBuffer weights=None, int timeout_ms=-1):
        cdef int i
        self.context = context
        self.timeout_ms = timeout_ms
        self.current = -1
        self.model = Model(context, path, weights)
        self.stream = Stream(context)
        description = self.model.description
        if description.gear_kind not in ("static", "batch") or len(description.reserved) > 1:
            raise errors.UnsupportedError(
                f"{path}: this release runs static and batch-gear oms; this one has {description.gear_kind} gears "
                f"{list(description.gears)} and the reserved inputs {list(description.reserved)}"
            )
        self.has_gears = description.gear_kind == "batch"
        self.n_inputs = len(description.inputs)
        self.n_outputs = len(description.outputs)
        self.n_plans = len(description.gears) if self.has_gears else 1
        input_block = sum(padded(spec.nbytes) for spec in description.inputs)
        output_block = sum(padded(spec.nbytes) for spec in description.outputs)
        self.pinned_input = PinnedBuffer(context, max(input_block, 64))
        self.device_input = DeviceBuffer(context, max(input_block, 64))
        self.device_output = DeviceBuffer(context, max(output_block, 64))
        self.pinned_output = PinnedBuffer(context, max(output_block, 64))
        if self.has_gears:
            self.gear_memory = DeviceBuffer(context, self.n_plans * padded(self.model.gear_nbytes()))
        self.datasets = []
        self.gears = []
        self.plans = <Plan*>PyMem_Calloc(self.n_plans, sizeof(Plan))
        if self.plans == NULL:
            raise MemoryError()
        with context.bound():
            for i in range(self.n_plans):
                self._plan(i, description)

    cdef int _plan(self, int index, description) except -1:
        cdef Plan* plan = &self.plans[index]
        cdef Dataset inputs = Dataset(self.device_input), outputs = Dataset(self.device_output)
        cdef size_t offset = 0, gear_nbytes = self.model.gear_nbytes()
        rows = description.gears[index] if self.has_gears else description.max_rows
        shapes = [tuple(rows if dim is None else dim for dim in spec.shape) for spec in description.inputs]
        plan.gear = rows
        plan.rows = rows if description.max_rows else 0
        plan.inputs = <Tensor*>PyMem_Calloc(max(self.n_inputs, 1), sizeof(Tensor))
        plan.outputs = <Tensor*>PyMem_Calloc(max(self.n_outputs, 1), sizeof(Tensor))
        if plan.inputs == NULL or plan.outputs == NULL:
            raise MemoryError()
        for i, (spec, shape) in enumerate(zip(description.inputs, shapes, strict=True)):
            nbytes = math.prod(shape) * spec.itemsize
            plan.inputs[i] = Tensor(offset, nbytes, nbytes // rows if description.max_rows else 0)
            inputs.add(<char*>self.device_input.ptr + offset, nbytes)
            plan.input_nbytes = offset + nbytes
            offset += padded(nbytes)
        offset = 0
        for i, spec in enumerate(description.outputs):
            outputs.add(<char*>self.device_output.ptr + offset, spec.nbytes)
            plan.outputs[i].offset = offset
            offset += padded(spec.nbytes)
        if self.has_gears:
            inputs.add(<char*>self.gear_memory.ptr + index * padded(gear_nbytes), gear_nbytes)
            check(self.model.set_batch(inputs, rows), b"aclmdlSetDynamicBatchSize")
            self.current = index
        output_shapes = self.model.output_shapes()
        for i, (spec, shape) in enumerate(zip(description.outputs, output_shapes, strict=True)):
            nbytes = math.prod(shape) * spec.itemsize
            expected = rows * description.row_multiples[i]
            if description.max_rows and (not shape or shape[0] != expected):
                raise errors.UnsupportedError(
                    f"{self.model.path}: output {spec.name!r} has shape {shape} at batch gear {rows}, expected "
                    f"{expected} rows along axis 0 as its largest gear has; such an om cannot be cut by rows"
                )
            plan.outputs[i].nbytes = nbytes
            plan.outputs[i].row_nbytes = nbytes // rows if description.max_rows else 0
            plan.output_nbytes = plan.outputs[i].offset + nbytes
        plan.input = inputs.handle
        plan.output = outputs.handle
        self.datasets += [inputs, outputs]
        self.gears.append((tuple(shapes), tuple(output_shapes)))
        return 0

    cdef aclError execute(self, int index, size_t rows) noexcept nogil:
        """Pinned input → device → model → pinned output, and wait. `rows` of the outputs are copied back (0: all)."""
        cdef Plan* plan = &self.plans[index]
        cdef Tensor* tensor
        cdef aclrtContext previous
        cdef aclrtStream stream = self.stream.handle
        cdef aclError rc
        cdef size_t nbytes
        cdef int i
        self.call = b"aclrtSetCurrentContext"
        rc = self.context.enter(&previous)
        if rc != 0:
            return rc
        if self.has_gears and self.current != index:
            self.call = b"aclmdlSetDynamicBatchSize"
            self.current = -1
            rc = api.aclmdlSetDynamicBatchSize(self.model.id, plan.input, self.n_inputs, plan.gear)
            if rc == 0:
                self.current = index
        if rc == 0 and plan.input_nbytes != 0:
            self.call = b"aclrtMemcpyAsync"
            rc = api.aclrtMemcpyAsync(
                self.device_input.ptr, self.device_input.nbytes, self.pinned_input.ptr, plan.input_nbytes,
                acl.ACL_MEMCPY_HOST_TO_DEVICE, stream,
            )
        if rc == 0:
            self.call = b"aclmdlExecuteAsync"
            rc = api.aclmdlExecuteAsync(self.model.id, plan.input, plan.output, stream)
        # At the largest gear the outputs are adjacent: one copy. At smaller ones only the valid part of each.
        for i in range(self.n_outputs - 1 if index == self.n_plans - 1 else 0, self.n_outputs):
            tensor = &plan.outputs[i]
            nbytes = rows * tensor.row_nbytes if rows != 0 else tensor.nbytes
            if rc != 0:
                break
            if index == self.n_plans - 1:
                nbytes += tensor.offset
                tensor = &plan.outputs[0]
            if nbytes != 0:
                self.call = b"aclrtMemcpyAsync"
                rc = api.aclrtMemcpyAsync(
                    <char*>self.pinned_output.ptr + tensor.offset, self.pinned_output.nbytes - tensor.offset,
                    <char*>self.device_output.ptr + tensor.offset, nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST, stream,
                )
        if rc == 0:
            if self.timeout_ms < 0:
                self.call = b"aclrtSynchronizeStream"
                rc = api.aclrtSynchronizeStream(stream)
            else:
                self.call = b"aclrtSynchronizeStreamWithTimeout"
                rc = api.aclrtSynchronizeStreamWithTimeout(stream, self.timeout_ms)
        self.context.leave(previous)
        return rc

    cdef bint drained(self, int timeout_ms) noexcept nogil:
        """True when nothing of this slot is queued or running on the device any more."""
        cdef aclrtContext previous
        cdef aclError rc = self.context.enter(&previous)
        if rc == 0:
            # The first wait may report the error of a task that failed; the second then finds an empty stream.
            rc = api.aclrtSynchronizeStreamWithTimeout(self.stream.handle, timeout_ms)
            if rc != 0:
                rc = api.aclrtSynchronizeStreamWithTimeout(self.stream.handle, 0)
        self.context.leave(previous)
        return rc == 0

    def close(self):
        """Give everything back. A slot that the device may still be using is left alone for the life of the process."""
        cdef bint idle
        if self.stream is None:
            return
        with nogil:
            idle = self.drained(DRAIN_MS)
        if not idle:
            _abandoned.append(self)
            return
        stream, self.stream = self.stream, None
        first = None
        for owned in (
            *self.datasets, self.model, stream,
            self.pinned_input, self.device_input, self.device_output, self.pinned_output, self.gear_memory,
        ):
            try:
                if owned is not None:
                    owned.close()
            except errors.AclError as error:
                first = first or error     # the rest must still be given back
        if first is not None:
            raise first

    def __dealloc__(self):
        cdef int i
        if self.plans != NULL:
            for i in range(self.n_plans):
                PyMem_Free(self.plans[i].inputs)
                PyMem_Free(self.plans[i].outputs)
            PyMem_Free(self.plans)


def release_abandoned() -> int:
    """Close the abandoned slots whose device work has ended since; how many are left."""
    slots = _abandoned[:]
    _abandoned.clear()
    for slot in slots:
        slot.close()
    return len(_abandoned)


@cython.final
cdef class Hold:
    """Keeps a slot out of the pool; it goes back when the last object that refers to this one dies."""

    def __cinit__(self, Executor executor, Slot slot):
        self.executor = executor
        self.slot = slot

    def __dealloc__(self):
        if self.slot is not None and usable():
            self.executor.release(self.slot)


@cython.final
@cython.no_gc_clear
cdef class View:
    """A piece of pinned memory as a buffer; it keeps the slot held while any array looks into it."""

    cdef Hold hold
    cdef void* ptr
    cdef Py_ssize_t nbytes
    cdef bint readonly

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.ptr, self.nbytes, self.readonly, flags)


cdef object _view(Hold hold, void* ptr, shape, dtype, bint readonly):
    cdef View view = View.__new__(View)
    view.hold = hold
    view.ptr = ptr
    view.nbytes = math.prod(shape) * dtype.itemsize
    view.readonly = readonly
    return np.ndarray(shape, dtype, buffer=view)


def _numpy_dtype(spec):
    """bfloat16 is ml_dtypes' where that is installed, else its bits as uint16."""
    if spec.dtype != "bfloat16":
        return np.dtype(spec.dtype)
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("uint16")
    return np.dtype(ml_dtypes.bfloat16)


def _describe(array) -> str:
    return f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"


cdef object _contiguous(value, spec):
    """`value` as a C-contiguous array of exactly the spec's dtype in native byte order; copies only when it must."""
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        array = np.asarray(value)
    bits = spec.dtype == "bfloat16" and array.dtype.name == "uint16"
    if array.dtype.name != spec.dtype and not bits:
        raise ValueError(f"input {spec.name!r}: expected {spec}, got {_describe(array)}")
    if not array.dtype.isnative or not array.flags.c_contiguous:
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    return array.view(np.uint16) if spec.dtype == "bfloat16" else array


@cython.final
cdef class Source:
    """What the hot path needs to know of one input."""

    cdef object spec
    cdef str name, full_name
    cdef char formats[2]
    cdef Py_ssize_t itemsize
    cdef int ndim
    cdef Py_ssize_t[128] shape         # -1 where gears decide

    def __cinit__(self, spec):
        cdef int i
        self.spec = spec
        self.name = spec.name
        self.full_name = spec.full_name
        formats = dtypes.by_name(spec.dtype).buffer_formats or "H"
        self.formats[0] = ord(formats[0])
        self.formats[1] = ord(formats[len(formats) - 1])
        self.itemsize = spec.itemsize
        self.ndim = len(spec.shape)
        for i in range(self.ndim):
            self.shape[i] = -1 if spec.shape[i] is None else spec.shape[i]

    cdef int view(self, value, Py_buffer* view) except -1:
        """A C-contiguous buffer of `value`; dtype and rank are right afterwards, dims are the caller's to check."""
        cdef bint fits = False
        if type(value) is np.ndarray and self.spec.dtype != "bfloat16":
            try:
                PyObject_GetBuffer(value, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
                fits = view.format[1] == 0 and (view.format[0] == self.formats[0] or view.format[0] == self.formats[1])
                if not fits:
                    PyBuffer_Release(view)
            except (BufferError, ValueError):
                pass
        if not fits:
            PyObject_GetBuffer(_contiguous(value, self.spec), view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        if view.ndim != self.ndim:
            self.refuse(view)
        return 0

    cdef int check_row(self, Py_buffer* view) except -1:
        """Every dim after the first equals the model's."""
        cdef int i
        for i in range(1, self.ndim):
            if view.shape[i] != self.shape[i]:
                self.refuse(view)
        return 0

    cdef int refuse(self, Py_buffer* view) except -1:
        dims = ", ".join(str(view.shape[i]) for i in range(view.ndim))
        PyBuffer_Release(view)
        raise ValueError(f"input {self.name!r}: expected {self.spec}, got {self.spec.dtype}[{dims}]")


@cython.final
cdef class Executor:
    """The slots of one model on one device, and the calls that run on them. Any thread may call.

    Parameters
    ----------
    runtime : Runtime
    device_id : int
    path : str
        The om; every slot loads it, all share one copy of the weights.
    slots : int
        Batches that may be in flight at once.
    submit_timeout_ms : int
        How long a call waits for a free slot; -1 waits for ever.
    execute_timeout_ms : int
        How long one execution may take; -1 waits for ever.
    """

    def __init__(
        self, runtime, device_id, str path not None, int slots=1, int submit_timeout_ms=-1, int execute_timeout_ms=-1
    ):
        cdef Slot slot
        self.context = Context(runtime, device_id)
        self.path = path
        self.submit_timeout_ms = submit_timeout_ms
        self.execute_timeout_ms = execute_timeout_ms
        self.condition = threading.Condition()
        self.slots = []
        self.free = []
        try:
            for _ in range(slots):
                self._add_slot()
        except BaseException:
            self.close()
            raise
        slot = self.slots[0]
        self.description = slot.model.description
        self.sources = [Source(spec) for spec in self.description.inputs]
        self.output_specs = self.description.outputs
        self.output_dtypes = [_numpy_dtype(spec) for spec in self.output_specs]
        self.input_index = _index(self.description.inputs)
        self.output_index = _index(self.output_specs)

    cdef int _add_slot(self) except -1:
        cdef Slot first = self.slots[0] if self.slots else None
        weights = None if first is None else first.model.weights
        cdef Slot slot = Slot(self.context, self.path, weights, self.execute_timeout_ms)
        self.slots.append(slot)
        self.free.append(slot)
        return 0

    cdef Slot acquire(self):
        if forked_or_closed(self):
            self._refuse()
        if self.free:
            return self.free.pop()
        return self._wait()

    def _refuse(self):
        refuse_fork()
        if self.closed:
            raise RuntimeError(f"the session of {self.path} is closed")
        raise errors.UnsupportedError(
            f"the session of {self.path} no longer runs after a device error: {self.unhealthy}. Close it and open a "
            "new one; if that fails too, end the process."
        )

    def _wait(self):
        deadline = None if self.submit_timeout_ms < 0 else time.monotonic() + self.submit_timeout_ms / 1000
        with self.condition:
            self.waiters += 1
            try:
                while not self.free:
                    if forked_or_closed(self):
                        self._refuse()
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise TimeoutError(
                            f"no free slot within {self.submit_timeout_ms} ms: all {len(self.slots)} are in flight or "
                            "held by borrowed batches; raise slots or submit_timeout_ms, or close batches and drop "
                            "their views"
                        )
                    self.condition.wait(left)
                if forked_or_closed(self):
                    self._refuse()
                return self.free.pop()
            finally:
                self.waiters -= 1

    cdef void release(self, Slot slot) noexcept:
        if slot.failed:
            return                     # retired: failed() replaced it
        if self.closed:
            slot.close()
            self._close_context()
            return
        self.free.append(slot)
        if self.waiters:
            with self.condition:
                self.condition.notify()

    cdef int failed(self, Slot slot, aclError rc) except -1:
        """Retire a slot whose execution failed, put a new one in its place, and raise."""
        slot.failed = True
        try:
            check(rc, slot.call)
        except errors.AclError as error:
            self._retire(slot, error)
            raise
        return 0

    def _retire(self, Slot slot, error):
        cdef bint idle
        with nogil:
            idle = slot.drained(0 if slot.timeout_ms >= 0 else DRAIN_MS)
        if slot in self.slots:
            self.slots.remove(slot)
        if not idle:
            _abandoned.append(slot)
        if not idle or error.code in errors.STICKY:
            self.unhealthy = str(error)
        try:
            if idle:
                slot.close()
            if self.unhealthy is None:
                self._add_slot()
        except errors.AclError as second:
            self.unhealthy = f"{error}; then {second}"
        with self.condition:
            self.condition.notify_all()

    cdef int plan_for(self, Slot slot, size_t rows) noexcept:
        """The smallest gear that holds `rows`; the largest when none does."""
        cdef int i
        for i in range(slot.n_plans):
            if slot.plans[i].rows >= rows:
                return i
        return slot.n_plans - 1

    cdef int exact_plan(self, Slot slot, Py_buffer* views) except -2:
        """For a model that cannot be cut by rows: the gear whose input shapes are the request's; -1: none."""
        shapes = tuple(
            tuple(views[i].shape[d] for d in range(views[i].ndim)) for i in range(slot.n_inputs)
        )
        for i, gear in enumerate(slot.gears):
            if gear[0] == shapes:
                return i
        return -1

    def run(self, wanted, dict feeds not None):
        """Run on host arrays; see InferenceSession.run."""
        cdef int n_inputs = len(self.sources), n = 0, i
        cdef Py_ssize_t rows = -1
        cdef Source source
        cdef Py_buffer* views = <Py_buffer*>PyMem_Calloc(max(n_inputs, 1), sizeof(Py_buffer))
        if views == NULL:
            raise MemoryError()
        try:
            if forked_or_closed(self):
                self._refuse()
            outputs = None if wanted is None else [self._output(name) for name in wanted]
            if len(feeds) != n_inputs:
                self._refuse_names(feeds)
            for source in self.sources:
                value = feeds.get(source.name)
                if value is None:
                    value = feeds.get(source.full_name)
                    if value is None:
                        self._refuse_names(feeds)
                source.view(value, &views[n])
                n += 1
            if not self.description.max_rows:
                return self._run_exact(views, outputs)
            for i in range(n):
                source = self.sources[i]
                source.check_row(&views[i])
                if rows < 0:
                    rows = views[i].shape[0]
                elif views[i].shape[0] != rows:
                    raise ValueError(
                        f"input {source.name!r} has {views[i].shape[0]} rows, but "
                        f"{(<Source>self.sources[0]).name!r} has {rows}; all inputs of a call have the same number of rows"
                    )
            return self._run_rows(views, rows, outputs)
        finally:
            for i in range(n):
                PyBuffer_Release(&views[i])
            PyMem_Free(views)

    def _output(self, name):
        try:
            return self.output_index[name]
        except (KeyError, TypeError):
            raise ValueError(f"no output {name!r}; this model has {_names(self.output_specs)}") from None

    def _refuse_names(self, feeds):
        specs = self.description.inputs
        known = {name for spec in specs for name in (spec.name, spec.full_name)}
        unknown = [name for name in feeds if name not in known]
        missing = [spec.name for spec in specs if feeds.get(spec.name) is None and feeds.get(spec.full_name) is None]
        problems = [f"unknown input {name!r}" for name in unknown] + [f"missing input {name!r}" for name in missing]
        raise ValueError(f"{'; '.join(problems) or 'an input is given twice'}; this model has {_names(specs)}")

    cdef list _run_rows(self, Py_buffer* views, Py_ssize_t rows, list wanted):
        cdef Slot slot
        cdef size_t done = 0, part
        cdef int plan, n_outputs = len(self.output_specs), i, n = 0
        cdef Py_ssize_t largest = self.description.max_rows
        cdef Py_buffer* targets
        cdef aclError rc = 0
        if self.description.gear_kind == "static" and rows != largest:
            raise ValueError(
                f"this static om takes exactly {largest} row(s) per run, got {rows}; pad them, or compile batch gears"
            )
        arrays = []
        for i in range(n_outputs):
            shape = self.output_specs[i].shape
            arrays.append(_empty((rows * self.description.row_multiples[i], *shape[1:]), self.output_dtypes[i]))
        if rows == 0:
            return arrays if wanted is None else [arrays[i] for i in wanted]
        targets = <Py_buffer*>PyMem_Calloc(n_outputs, sizeof(Py_buffer))
        if targets == NULL:
            raise MemoryError()
        slot = self.acquire()
        try:
            for i in range(n_outputs):
                array = arrays[i]
                if self.output_specs[i].dtype == "bfloat16":
                    array = array.view(np.uint16)
                PyObject_GetBuffer(array, &targets[i], PyBUF_WRITABLE)
                n += 1
            while done < <size_t>rows and rc == 0:
                part = min(<size_t>(rows - done), <size_t>largest)
                plan = self.plan_for(slot, part)
                with nogil:
                    rc = run_part(slot, plan, views, targets, done, part)
                self.executions += 1
                self.rows_run += part
                self.rows_padded += slot.plans[plan].rows - part
                done += part
            if rc != 0:
                self.failed(slot, rc)
        finally:
            self.release(slot)
            for i in range(n):
                PyBuffer_Release(&targets[i])
            PyMem_Free(targets)
        return arrays if wanted is None else [arrays[i] for i in wanted]

    cdef list _run_exact(self, Py_buffer* views, list wanted):
        cdef Slot slot = self.acquire()
        cdef Tensor* tensor
        cdef int plan, i
        cdef aclError rc
        try:
            plan = self.exact_plan(slot, views)
            if plan < 0:
                shapes = [tuple(views[i].shape[d] for d in range(views[i].ndim)) for i in range(slot.n_inputs)]
                raise ValueError(
                    f"the om takes input shapes {' or '.join(str(list(gear[0])) for gear in slot.gears)}, got {shapes} "
                    f"(its tensors cannot be cut by rows: {self.description.not_rows})"
                )
            with nogil:
                for i in range(slot.n_inputs):
                    tensor = &slot.plans[plan].inputs[i]
                    memcpy(<char*>slot.pinned_input.ptr + tensor.offset, views[i].buf, tensor.nbytes)
                rc = slot.execute(plan, 0)
            self.executions += 1
            if rc != 0:
                self.failed(slot, rc)
            hold = Hold.__new__(Hold, self, None)
            arrays = [
                _view(
                    hold, <char*>slot.pinned_output.ptr + slot.plans[plan].outputs[i].offset, shape,
                    self.output_dtypes[i], True,
                ).copy()
                for i, shape in enumerate(slot.gears[plan][1])
            ]
        finally:
            self.release(slot)
        return arrays if wanted is None else [arrays[i] for i in wanted]

    def borrow(self, rows=None):
        """A Batch of `rows` rows; see InferenceSession.borrow."""
        return Batch(self, rows)

    def handles(self, size_t rows) -> dict:
        """Addresses of the first slot for calls from outside (the bench's C path); keep the session idle meanwhile."""
        cdef Slot slot = self.slots[0]
        cdef int plan = self.plan_for(slot, rows)
        cdef Plan* p = &slot.plans[plan]
        if slot.has_gears and slot.current != plan:
            with self.context.bound():
                rc = api.aclmdlSetDynamicBatchSize(slot.model.id, p.input, slot.n_inputs, p.gear)
                check(rc, b"aclmdlSetDynamicBatchSize")
            slot.current = plan
        return {
            "context": <size_t>self.context.handle,
            "stream": <size_t>slot.stream.handle,
            "model_id": slot.model.id,
            "input_dataset": <size_t>p.input,
            "output_dataset": <size_t>p.output,
            "pinned_in": slot.pinned_input.address,
            "device_in": slot.device_input.address,
            "device_out": slot.device_output.address,
            "pinned_out": slot.pinned_output.address,
            "in_nbytes": p.input_nbytes,
            "out_nbytes": p.output_nbytes,
            "inputs": [(s.name, p.inputs[i].offset, p.inputs[i].nbytes) for i, s in enumerate(self.description.inputs)],
            "outputs": [(s.name, p.outputs[i].offset, p.outputs[i].nbytes) for i, s in enumerate(self.output_specs)],
            "library": list(self.context.runtime.files),
        }

    def stats(self) -> dict:
        """Counts since the session was opened, and the bytes it holds."""
        cdef Slot slot
        device = pinned = 0
        for slot in self.slots:
            device += slot.device_input.nbytes + slot.device_output.nbytes
            device += slot.gear_memory.nbytes if slot.gear_memory is not None else 0
            device += slot.model.work.nbytes if slot.model.work is not None else 0
            pinned += slot.pinned_input.nbytes + slot.pinned_output.nbytes
        slot = self.slots[0] if self.slots else None
        if slot is not None and slot.model.weights is not None:
            device += slot.model.weights.nbytes
        return {
            "executions": self.executions,
            "rows": self.rows_run,
            "padded_rows": self.rows_padded,
            "slots": len(self.slots),
            "slots_free": len(self.free),
            "device_bytes": device,
            "pinned_bytes": pinned,
            "unhealthy": self.unhealthy,
        }

    def _close_context(self):
        busy = [slot for slot in [*self.slots, *_abandoned] if slot.context is self.context and slot.stream is not None]
        if not busy:
            self.slots = []
            self.context.close()

    def close(self):
        """Close idle slots now and each busy one when its batch ends; later calls raise. Again: nothing happens."""
        if self.closed:
            return
        self.closed = True
        while self.free:
            self.free.pop().close()
        with self.condition:
            self.condition.notify_all()
        self._close_context()


cdef inline bint forked_or_closed(Executor executor) noexcept:
    return acl.forked or executor.closed or executor.unhealthy is not None


cdef aclError run_part(
    Slot slot, int index, Py_buffer* views, Py_buffer* targets, size_t first, size_t rows
) noexcept nogil:
    """Rows [first, first + rows) of the caller's arrays through one execution; rows up to the gear are zeros."""
    cdef Plan* plan = &slot.plans[index]
    cdef Tensor* tensor
    cdef char* pinned
    cdef aclError rc
    cdef int i
    for i in range(slot.n_inputs):
        tensor = &plan.inputs[i]
        pinned = <char*>slot.pinned_input.ptr + tensor.offset
        memcpy(pinned, <char*>views[i].buf + first * tensor.row_nbytes, rows * tensor.row_nbytes)
        if rows < plan.rows:
            memset(pinned + rows * tensor.row_nbytes, 0, (plan.rows - rows) * tensor.row_nbytes)
    rc = slot.execute(index, rows)
    if rc == 0:
        for i in range(slot.n_outputs):
            tensor = &plan.outputs[i]
            pinned = <char*>slot.pinned_output.ptr + tensor.offset
            memcpy(<char*>targets[i].buf + first * tensor.row_nbytes, pinned, rows * tensor.row_nbytes)
    return rc


def _index(specs):
    index = {}
    for i, spec in enumerate(specs):
        index[spec.full_name] = i
        index[spec.name] = i
    return index


def _names(specs):
    return ", ".join(str(spec) for spec in specs) or "none"


@cython.final
cdef class Batch:
    """One borrowed slot: fill `inputs`, `run()`, read `outputs`, all in pinned memory and without a copy.

    Attributes
    ----------
    rows : int
    inputs, outputs : dict of name → ndarray, shape (rows, …)
        Views of the slot's pinned memory; outputs are read-only and hold the result of the last run(). The slot goes
        back to the session when the batch is closed and the last view has died: nobody else overwrites a view.
    """

    cdef Executor executor
    cdef Hold hold
    cdef Slot slot
    cdef int plan
    cdef readonly Py_ssize_t rows
    cdef dict _inputs, _outputs

    def __cinit__(self, Executor executor not None, rows):
        cdef Py_ssize_t largest = executor.description.max_rows
        if largest == 0:
            if rows is not None:
                raise ValueError(f"rows cannot be chosen: {executor.description.not_rows}")
            if executor.description.gears:
                raise ValueError(f"a batch cannot be borrowed by rows: {executor.description.not_rows}; use run()")
            rows = 0
        elif rows is None:
            rows = largest
        elif not 1 <= rows <= largest:
            raise ValueError(f"rows must be 1..{largest}, got {rows}")
        self.executor = executor
        self.rows = rows
        self.slot = executor.acquire()
        self.hold = Hold.__new__(Hold, executor, self.slot)
        self.plan = executor.plan_for(self.slot, rows)

    cdef int alive(self) except -1:
        if self.hold is None:
            raise RuntimeError("the batch is closed")
        return 0

    cdef tuple _shape(self, shape, int multiple):
        return (self.rows * multiple, *shape[1:]) if self.rows else shape

    @property
    def inputs(self) -> dict:
        self.alive()
        if self._inputs is None:
            shapes = self.slot.gears[self.plan][0]
            self._inputs = {
                spec.name: _view(
                    self.hold, <char*>self.slot.pinned_input.ptr + self.slot.plans[self.plan].inputs[i].offset,
                    self._shape(shapes[i], 1), _numpy_dtype(spec), False,
                )
                for i, spec in enumerate(self.executor.description.inputs)
            }
        return self._inputs

    @property
    def outputs(self) -> dict:
        self.alive()
        if self._outputs is None:
            shapes = self.slot.gears[self.plan][1]
            self._outputs = {
                spec.name: _view(
                    self.hold, <char*>self.slot.pinned_output.ptr + self.slot.plans[self.plan].outputs[i].offset,
                    self._shape(shapes[i], self.executor.description.row_multiples[i]),
                    self.executor.output_dtypes[i], True,
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
        cdef Source source
        cdef Py_buffer view
        cdef Tensor* tensor
        cdef char* target
        self.alive()
        index = self.executor.input_index.get(name)
        if index is None:
            raise ValueError(f"no input {name!r}; this model has {_names(self.executor.description.inputs)}")
        source = self.executor.sources[index]
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
                for i in range(1, view.ndim):
                    if view.shape[i] != source.shape[i]:
                        dims = ", ".join(str(view.shape[d]) for d in range(view.ndim))
                        raise ValueError(f"input {name!r}: expected {source.spec}, got {source.spec.dtype}[{dims}]")
                if row < 0 or row + view.shape[0] > self.rows:
                    raise ValueError(
                        f"input {name!r}: rows {row}..{row + view.shape[0]} are outside this batch of {self.rows}"
                    )
                target += row * tensor.row_nbytes
            with nogil:
                memcpy(target, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def run(self):
        """Execute on what the inputs hold now; rows up to the gear are zeros. Blocks, without the GIL.

        Raises
        ------
        AclError
            The device failed; the batch is closed then.
        """
        cdef aclError rc
        cdef int i
        cdef Plan* plan
        cdef Slot slot = self.slot
        cdef size_t rows = self.rows
        self.alive()
        if forked_or_closed(self.executor):
            self.executor._refuse()
        plan = &slot.plans[self.plan]
        with nogil:
            if rows < plan.rows:
                for i in range(slot.n_inputs):
                    memset(
                        <char*>slot.pinned_input.ptr + plan.inputs[i].offset + rows * plan.inputs[i].row_nbytes, 0,
                        (plan.rows - rows) * plan.inputs[i].row_nbytes,
                    )
            rc = slot.execute(self.plan, rows)
        self.executor.executions += 1
        self.executor.rows_run += rows
        self.executor.rows_padded += plan.rows - rows
        if rc != 0:
            try:
                self.executor.failed(slot, rc)
            finally:
                self.close()

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
