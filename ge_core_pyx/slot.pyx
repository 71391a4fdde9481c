"""One batch in flight: a loaded model, a stream, and memory and datasets made beforehand."""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclmdlIODims, aclrtContext, aclrtStream, aclTensorDesc, api, check
from ge_core_pyx.device cimport Context, Event, Stream
from ge_core_pyx.memory cimport DeviceBuffer, PinnedBuffer, padded
from ge_core_pyx.model cimport Dataset, Model

import math
import queue
import threading
from dataclasses import replace

from ge_core_pyx import dtypes, errors, model

cdef extern from *:
    """
    #include <time.h>
    static inline int64_t ge_core_now_ns(void) {
      struct timespec t;
      clock_gettime(CLOCK_MONOTONIC, &t);
      return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    """
    int64_t ge_core_now_ns() noexcept nogil

DRAIN_MS = 2000                        # how long a failed slot's stream may take to end its queued work
cdef int DRAIN_WAITS = 8
# An output whose bound is below this is given its memory at load; a larger or unknown one grows as it is learnt.
cdef size_t BOUNDED_NBYTES = 16 << 20
cdef size_t PIECE_NBYTES = 256 << 10   # inputs of two such pieces or more are copied piece by piece
cdef size_t FIRST_NBYTES = 96 << 10

KINDS = {"static": STATIC, "batch": BATCH, "image_size": IMAGE_SIZE, "dims": DIMS, "range": RANGE}
cdef list _abandoned = []              # slots whose device work never ended: freeing their memory could corrupt it


def abandon(slot) -> None:
    """Keep a slot that the device may still be using for the life of the process."""
    _abandoned.append(slot)


def abandoned(context) -> bool:
    """Whether slots of this context were abandoned."""
    return any(slot.context is context for slot in _abandoned)


def release_abandoned() -> int:
    """Close the abandoned slots whose device work has ended since; how many are left."""
    slots = _abandoned[:]
    _abandoned.clear()
    for slot in slots:
        slot.close()
    return len(_abandoned)


class Budget:
    """Bytes that a session takes on one device, known before anything is allocated (range models: grow afterwards).

    Attributes
    ----------
    weights, work, buffers : int
        Device bytes: shared by the slots; of each slot's model; of each slot's inputs and outputs.
    pinned : int
        Page-locked host bytes of each slot.
    slots : int
    """

    def __init__(self, weights, work, buffers, pinned, slots):
        self.weights, self.work, self.buffers, self.pinned, self.slots = weights, work, buffers, pinned, slots

    @property
    def device_bytes(self) -> int:
        """All of one device's memory."""
        return self.weights + self.slots * (self.work + self.buffers)

    @property
    def pinned_bytes(self) -> int:
        return self.slots * self.pinned

    def __str__(self):
        return (
            f"{self.device_bytes:,} bytes of device memory (weights {self.weights:,} + {self.slots} slot(s) × "
            f"(work {self.work:,} + inputs and outputs {self.buffers:,})), {self.pinned_bytes:,} bytes pinned"
        )


cpdef size_t charged(size_t nbytes) noexcept:
    """What aclrtMalloc takes for `nbytes`: 32 to spare, then whole pages, 2 MiB ones above 1 MiB (HUGE_FIRST)."""
    cdef size_t total = (nbytes + 63) // 32 * 32
    cdef size_t page = 4096 if total <= 1 << 20 else 2 << 20
    return (total + page - 1) // page * page if nbytes else 0


def _block(specs) -> int:
    return max(sum(padded(spec.nbytes) for spec in specs), 64)


def _gear_block(description, gear_nbytes) -> int:
    return len(description.gears) * padded(gear_nbytes)


def budget(description, sizes, slots) -> Budget:
    """What `slots` slots of a static or gear model take; `sizes` from model.query_size()."""
    inputs, outputs = _block(description.inputs), _block(description.outputs)
    buffers = charged(inputs) + charged(outputs)
    if description.gears:
        values = {"batch": 1, "image_size": 2}.get(description.gear_kind)
        if values is None:
            values = sum(len(spec.shape) for spec in description.inputs)
        buffers += charged(_gear_block(description, 8 * values))
    return Budget(charged(sizes[1]), charged(sizes[0]), buffers, inputs + outputs, slots)


def make(context, path, description, sizes, weights, timeout_ms, known):
    """A Slot, or a RangeSlot for a range model (whose slots share what they learn in `known`)."""
    if description.gear_kind == "range":
        return RangeSlot(context, path, None, None, timeout_ms, known)
    return Slot(context, path, sizes, weights, timeout_ms)


@cython.no_gc_clear                    # the order of release is close()'s
cdef class Slot:
    """A static or gear model: one plan per gear, all made at load.

    The inputs of a gear lie in one block (one copy to the device). Outputs keep the places of the largest gear at
    every gear, because AscendCL asks for output buffers of that size.
    """

    def __init__(self, Context context not None, str path not None, sizes, DeviceBuffer weights, int timeout_ms):
        cdef int i
        self.context = context
        self.timeout_ms = timeout_ms
        self.current = -1
        self.model = Model(context, path, sizes, weights)
        self.stream = Stream(context)
        description = self.model.description
        self.description = description
        self.kind = <GearKind><int>KINDS[description.gear_kind]
        self.n_inputs = len(description.inputs)
        self.n_outputs = len(description.outputs)
        self.n_plans = max(len(description.gears), 1)
        self.datasets = []
        self.gears = []
        self.plans = <Plan*>PyMem_Calloc(self.n_plans, sizeof(Plan))
        if self.plans == NULL:
            raise MemoryError()
        for i in range(self.n_plans):
            self.plans[i].inputs = <Tensor*>PyMem_Calloc(max(self.n_inputs, 1), sizeof(Tensor))
            self.plans[i].outputs = <Tensor*>PyMem_Calloc(max(self.n_outputs, 1), sizeof(Tensor))
            if self.plans[i].inputs == NULL or self.plans[i].outputs == NULL:
                raise MemoryError()
        self._prepare(description)

    def _prepare(self, description):
        inputs, outputs = _block(description.inputs), _block(description.outputs)
        self.pinned_input = PinnedBuffer(self.context, inputs)
        self.device_input = DeviceBuffer(self.context, inputs)
        self.device_output = DeviceBuffer(self.context, outputs)
        self.pinned_output = PinnedBuffer(self.context, outputs)
        if description.gears:
            self.gear_memory = DeviceBuffer(self.context, _gear_block(description, self.model.gear_nbytes()))
        with self.context.bound():
            for i, gear in enumerate(description.gears or (None,)):
                self._plan(i, gear)

    cdef int _plan(self, int index, gear) except -1:
        cdef Plan* plan = &self.plans[index]
        cdef Dataset inputs = Dataset(self.device_input), outputs = Dataset(self.device_output)
        cdef size_t offset = 0, gear_nbytes = self.model.gear_nbytes(), needed = 0
        cdef aclError rc
        description = self.description
        shapes = model.input_shapes(description, gear)
        rows = shapes[0][0] if description.max_rows else 0
        if self.kind == DIMS or self.kind == IMAGE_SIZE:       # whoever launches rows of it knows that they are rows
            rows = model.common_rows(shapes)
        plan.rows = rows
        if self.kind == BATCH:
            plan.gear[0] = gear
        elif self.kind == IMAGE_SIZE:
            plan.gear[0], plan.gear[1] = gear
        elif self.kind == DIMS:
            plan.dims = <aclmdlIODims*>PyMem_Calloc(1, sizeof(aclmdlIODims))
            if plan.dims == NULL:
                raise MemoryError()
            for dim in (dim for shape in shapes for dim in shape):
                plan.dims.dims[plan.dims.dimCount] = dim
                plan.dims.dimCount += 1
        for i, (spec, shape) in enumerate(zip(description.inputs, shapes, strict=True)):
            nbytes = math.prod(shape) * spec.itemsize
            plan.inputs[i] = Tensor(offset, nbytes, nbytes // rows if rows else 0)
            inputs.add(<char*>self.device_input.ptr + offset, nbytes)
            plan.input_nbytes = offset + nbytes
            offset += padded(nbytes)
        if gear is not None:
            inputs.add(<char*>self.gear_memory.ptr + index * padded(gear_nbytes), gear_nbytes)
        offset = 0
        for i, spec in enumerate(description.outputs):
            outputs.add(<char*>self.device_output.ptr + offset, spec.nbytes)
            plan.outputs[i].offset = offset
            offset += padded(spec.nbytes)
        plan.input = inputs.handle
        plan.output = outputs.handle
        self.datasets += [inputs, outputs]
        rc = self._set_gear(index)
        check(rc, self.call)
        output_shapes = self.model.output_shapes()
        for i, (spec, shape) in enumerate(zip(description.outputs, output_shapes, strict=True)):
            nbytes = math.prod(shape) * spec.itemsize
            if description.max_rows and (not shape or shape[0] != rows * description.row_multiples[i]):
                # What the file alone could not tell: it can be run, but not cut by rows.
                reason = (
                    f"output {spec.name!r} has shape {shape} at batch gear {rows}, not {rows} × "
                    f"{description.row_multiples[i]} rows along axis 0 as its largest gear has"
                )
                self.description = replace(description, max_rows=0, not_rows=reason)
                for p in range(self.n_plans):
                    self.plans[p].rows = 0
            plan.outputs[i].nbytes = nbytes
            plan.outputs[i].row_nbytes = nbytes // rows if rows else 0
            plan.output_nbytes = plan.outputs[i].offset + nbytes
            needed += nbytes
        plan.adjacent = self.n_outputs == 1 or needed * 2 > plan.output_nbytes
        self.gears.append((tuple(shapes), tuple(output_shapes)))
        return 0

    cdef aclError _set_gear(self, int index) noexcept nogil:
        """A blocking copy on the device: only when the gear changes."""
        cdef Plan* plan = &self.plans[index]
        cdef size_t gear_input = self.model.gear_input
        cdef aclError rc = 0
        self.current = -1
        if self.kind == BATCH:
            self.call = b"aclmdlSetDynamicBatchSize"
            rc = api.aclmdlSetDynamicBatchSize(self.model.id, plan.input, gear_input, plan.gear[0])
        elif self.kind == IMAGE_SIZE:
            self.call = b"aclmdlSetDynamicHWSize"
            rc = api.aclmdlSetDynamicHWSize(self.model.id, plan.input, gear_input, plan.gear[0], plan.gear[1])
        elif self.kind == DIMS:
            self.call = b"aclmdlSetInputDynamicDims"
            rc = api.aclmdlSetInputDynamicDims(self.model.id, plan.input, gear_input, plan.dims)
        if rc == 0:
            self.current = index
        return rc

    def sample(self, int every):
        """Time every n-th batch from now on; 0: none."""
        if every and self.events is None:
            try:
                self.events = [Event(self.context) for _ in range(4)]
            except errors.AclError:
                self.events = []       # host times alone
        self.sample_every = every

    cdef void begin(self) noexcept nogil:
        """A batch begins: decide whether it is timed."""
        if self.sample_every != 0:
            self.batches += 1
            self.sampling = self.batches % self.sample_every == 0
            self.mark(BEGUN)
        else:
            self.sampling = False

    cdef void mark(self, Moment moment) noexcept nogil:
        if self.sampling:
            self.moments[<int>moment] = ge_core_now_ns()

    cdef void _record(self, int event) noexcept nogil:
        if self.sampling:
            with gil:
                if self.events:
                    api.aclrtRecordEvent((<Event>self.events[event]).handle, self.stream.handle)

    def stages(self) -> dict:
        """The times of the batch that ended last; device times None where the runtime has no events."""
        cdef float ms = 0
        device = [None, None, None]
        if self.events:
            with self.context.bound():
                for i in range(3):
                    first, last = self.events[i], self.events[i + 1]
                    if api.aclrtEventElapsedTime(&ms, (<Event>first).handle, (<Event>last).handle) == 0:
                        device[i] = ms * 1e3
                    else:
                        api.aclGetRecentErrMsg()
        return {
            "begin_ns": self.moments[<int>BEGUN],
            "gather_ns": self.moments[<int>GATHERED] - self.moments[<int>BEGUN],
            "submit_ns": self.moments[<int>SUBMITTED] - self.moments[<int>GATHERED],
            "wait_ns": self.moments[<int>AWAITED] - self.moments[<int>SUBMITTED],
            "scatter_ns": self.moments[<int>SCATTERED] - self.moments[<int>AWAITED],
            "h2d_us": device[0],
            "execute_us": device[1],
            "d2h_us": device[2],
        }

    cdef aclError _to_device(self, size_t offset, size_t nbytes) noexcept nogil:
        self.call = b"aclrtMemcpyAsync"
        return api.aclrtMemcpyAsync(
            <char*>self.device_input.ptr + offset, self.device_input.nbytes - offset,
            <char*>self.pinned_input.ptr + offset, nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE, self.stream.handle,
        )

    cdef void fill(self, int i, char* place, size_t nbytes) noexcept nogil:
        """Padded places of input `i`, whole elements of it."""
        cdef size_t done = 0
        if self.pads[i] == 0:
            memset(place, 0, nbytes)
            return
        while done < nbytes:
            memcpy(place + done, &self.pads[i], min(nbytes - done, sizeof(uint64_t)))
            done += sizeof(uint64_t)

    def set_pads(self, pads):
        """What padded places hold: 8 bytes for each input, its pad value again and again."""
        for i, pad in enumerate(pads):
            self.pads[i] = pad

    cdef aclError _feed(self, Plan* plan, size_t rows, Py_buffer* views, size_t first) noexcept nogil:
        """Copy rows [first, first + rows) of the caller's arrays (rows 0: all) into pinned memory and queue their
        copy to the device; rows up to the gear become zeros.

        A large block goes in pieces, the first a small one: the device copies one while the host copies the next.
        """
        cdef size_t pieces = plan.input_nbytes // PIECE_NBYTES
        cdef size_t piece, sent = 0, done, count, nbytes
        cdef Tensor* tensor
        cdef char* pinned
        cdef char* source
        cdef aclError rc = 0
        cdef int i
        pieces = 1 if pieces == 0 else 4 if pieces > 4 else pieces
        piece = plan.input_nbytes + 64 if pieces == 1 else FIRST_NBYTES
        for i in range(self.n_inputs):
            tensor = &plan.inputs[i]
            pinned = <char*>self.pinned_input.ptr + tensor.offset
            source = <char*>views[i].buf + first * tensor.row_nbytes
            nbytes = tensor.nbytes if rows == 0 else rows * tensor.row_nbytes
            done = 0
            while done < nbytes:
                count = min(nbytes - done, sent + piece - tensor.offset - done)
                memcpy(pinned + done, source + done, count)
                done += count
                if tensor.offset + done >= sent + piece:
                    rc = self._to_device(sent, tensor.offset + done - sent)
                    if rc != 0:
                        return rc
                    sent = tensor.offset + done
                    piece = (plan.input_nbytes // (pieces - 1) + 64) // 64 * 64
            if nbytes < tensor.nbytes:
                self.fill(i, pinned + nbytes, tensor.nbytes - nbytes)
        if sent < plan.input_nbytes:
            rc = self._to_device(sent, plan.input_nbytes - sent)
        return rc

    cdef aclError fetch(self, char* target, size_t offset, size_t nbytes) noexcept nogil:
        """Queue the copy of bytes of the device output into pinned memory, the caller's too."""
        cdef aclrtContext previous
        cdef aclError rc
        self.call = b"aclrtSetCurrentContext"
        rc = self.context.enter(&previous)
        if rc == 0 and nbytes != 0:
            self.call = b"aclrtMemcpyAsync"
            rc = api.aclrtMemcpyAsync(
                target, nbytes, <char*>self.device_output.ptr + offset, nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST,
                self.stream.handle,
            )
        self._record(3)
        self.context.leave(previous)
        return rc

    cdef aclError copy_back(self, int index, size_t rows) noexcept nogil:
        """Queue the copy of `rows` of the outputs (0: all) into the pinned output; the context is bound."""
        cdef Plan* plan = &self.plans[index]
        cdef Tensor* tensor
        cdef size_t nbytes
        cdef aclError rc = 0
        cdef int i
        self.call = b"aclrtMemcpyAsync"
        if plan.adjacent:
            tensor = &plan.outputs[self.n_outputs - 1]
            nbytes = tensor.offset + (rows * tensor.row_nbytes if rows != 0 else tensor.nbytes)
            if nbytes != 0:
                rc = api.aclrtMemcpyAsync(
                    self.pinned_output.ptr, self.pinned_output.nbytes, self.device_output.ptr, nbytes,
                    acl.ACL_MEMCPY_DEVICE_TO_HOST, self.stream.handle,
                )
            return rc
        for i in range(self.n_outputs):    # a small gear of several outputs: only the valid part of each
            tensor = &plan.outputs[i]
            nbytes = rows * tensor.row_nbytes if rows != 0 else tensor.nbytes
            if rc == 0 and nbytes != 0:
                rc = api.aclrtMemcpyAsync(
                    <char*>self.pinned_output.ptr + tensor.offset, self.pinned_output.nbytes - tensor.offset,
                    <char*>self.device_output.ptr + tensor.offset, nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST,
                    self.stream.handle,
                )
        return rc

    cdef aclError start(
        self, int index, size_t rows, Py_buffer* views, size_t first, void** sources, bint back
    ) noexcept nogil:
        """Queue a batch on the stream: inputs → device → model → pinned output; does not wait.

        The inputs are the caller's arrays (`views`, see _feed), or pinned memory of the caller (`sources`), or, with
        neither, what is in the pinned input already. `rows` of the outputs are copied back (0: all), unless `back` is
        false: then they stay on the device for fetch().
        """
        cdef Plan* plan = &self.plans[index]
        cdef Tensor* tensor
        cdef aclrtContext previous
        cdef aclrtStream stream = self.stream.handle
        cdef aclError rc
        cdef int i
        self.call = b"aclrtSetCurrentContext"
        rc = self.context.enter(&previous)
        if rc != 0:
            return rc
        if self.timeout_ms >= 0:
            self.started_ns = ge_core_now_ns()
        if self.current != index:
            rc = self._set_gear(index)
        if rc == 0:
            self.in_flight = True
            self._record(0)
            if views != NULL:
                rc = self._feed(plan, rows, views, first)
            elif sources != NULL:
                for i in range(self.n_inputs):
                    tensor = &plan.inputs[i]
                    if rc == 0 and tensor.nbytes != 0:
                        self.call = b"aclrtMemcpyAsync"
                        rc = api.aclrtMemcpyAsync(
                            <char*>self.device_input.ptr + tensor.offset, self.device_input.nbytes - tensor.offset,
                            sources[i], tensor.nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream,
                        )
            elif plan.input_nbytes != 0:
                rc = self._to_device(0, plan.input_nbytes)
        self.mark(GATHERED)
        self._record(1)
        if rc == 0:
            self.call = b"aclmdlExecuteAsync"
            rc = api.aclmdlExecuteAsync(self.model.id, plan.input, plan.output, stream)
        self._record(2)
        if rc == 0 and back:
            rc = self.copy_back(index, rows)
        self._record(3)
        self.mark(SUBMITTED)
        self.context.leave(previous)
        return rc

    cdef aclError finish(self, int64_t timeout_ms) noexcept nogil:
        """Wait for what start() queued: at most `timeout_ms` (-1: the slot's own limit, counted from start())."""
        cdef aclrtContext previous
        cdef int64_t left
        cdef aclError rc
        self.call = b"aclrtSetCurrentContext"
        rc = self.context.enter(&previous)
        if rc != 0:
            return rc
        if timeout_ms < 0 and self.timeout_ms < 0:
            self.call = b"aclrtSynchronizeStream"
            rc = api.aclrtSynchronizeStream(self.stream.handle)
        else:
            left = timeout_ms
            if self.timeout_ms >= 0:
                left = self.timeout_ms - (ge_core_now_ns() - self.started_ns) // 1000000
                if left < 0:
                    left = 0
                if 0 <= timeout_ms < left:
                    left = timeout_ms
            self.call = b"aclrtSynchronizeStreamWithTimeout"
            rc = api.aclrtSynchronizeStreamWithTimeout(self.stream.handle, <int>min(left, <int64_t>0x7fffffff))
        if rc == 0:
            self.in_flight = False
            rc, self.noticed = self.noticed, 0
            if rc != 0:
                self.call = b"aclrtStreamQuery"
        self.mark(AWAITED)
        self.context.leave(previous)
        return rc

    def expired(self) -> bool:
        """Whether the batch in flight has used up the slot's own limit."""
        return self.timeout_ms >= 0 and (ge_core_now_ns() - self.started_ns) // 1000000 >= self.timeout_ms

    def restart_limit(self):
        """Work that is queued now gets the whole limit, if all before it has ended: whoever collects may come late."""
        if self.timeout_ms >= 0 and self.done():
            self.started_ns = ge_core_now_ns()

    def done(self) -> bool:
        """Whether the stream has nothing left to do. Does not block."""
        cdef acl.aclrtStreamStatus status = acl.ACL_STREAM_STATUS_NOT_READY
        cdef aclrtContext previous
        cdef aclError rc
        with nogil:
            rc = self.context.enter(&previous)
            if rc == 0:
                rc = api.aclrtStreamQuery(self.stream.handle, &status)
            self.context.leave(previous)
        if rc != 0:
            self.noticed = rc          # asking took the stream's error away
        return rc != 0 or status == acl.ACL_STREAM_STATUS_COMPLETE

    cdef bint drained(self, int timeout_ms) noexcept nogil:
        """True when nothing of this slot is queued or running on the device any more."""
        cdef aclrtContext previous
        cdef aclError rc = self.context.enter(&previous)
        cdef bint idle = False
        cdef int wait
        if rc == 0:
            # A wait may report the error of a task that failed, and say nothing about what is queued behind it. Where
            # all of them fail the device is lost and runs nothing any more.
            for wait in range(DRAIN_WAITS):
                rc = api.aclrtSynchronizeStreamWithTimeout(self.stream.handle, timeout_ms if wait == 0 else 0)
                if rc == 0 or rc == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT:
                    break
            idle = rc != acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
        if idle:
            self.in_flight = False
            self.noticed = 0
        self.context.leave(previous)
        return idle

    @property
    def device_bytes(self) -> int:
        """Device memory held by this slot alone."""
        owned = (self.device_input, self.device_output, self.gear_memory, self.model.work)
        return sum(charged(buffer.nbytes) for buffer in owned if buffer is not None)

    @property
    def pinned_bytes(self) -> int:
        return sum(buffer.nbytes for buffer in (self.pinned_input, self.pinned_output) if buffer is not None)

    @property
    def closed(self) -> bool:
        return self.stream is None

    def close(self):
        """Give everything back. A slot that the device may still be using is left alone for the life of the process."""
        cdef bint idle
        cdef int timeout_ms = DRAIN_MS
        if self.closing:
            return
        self.closing = True
        with nogil:
            idle = self.drained(timeout_ms)
        if not idle:
            self.closing = False
            abandon(self)
            return
        first = None
        for owned in (
            *self.datasets, *(self.events or ()), self.model, self.stream,
            self.pinned_input, self.device_input, self.device_output, self.pinned_output, self.gear_memory,
        ):
            try:
                if owned is not None:
                    owned.close()
            except errors.AclError as error:
                first = first or error     # the rest must still be given back
        self.stream = None
        if first is not None:
            raise first

    def __dealloc__(self):
        cdef int i
        if self.plans != NULL:
            for i in range(self.n_plans):
                PyMem_Free(self.plans[i].inputs)
                PyMem_Free(self.plans[i].outputs)
                PyMem_Free(self.plans[i].dims)
            PyMem_Free(self.plans)


@cython.final
@cython.no_gc_clear
cdef class RangeSlot(Slot):
    """A model whose shapes are known only with the request.

    AscendCL walks such a graph on the host inside aclmdlExecuteAsync, so a thread of the slot's own calls it: time
    limits hold and other slots go on. Memory grows to what the requests needed so far. An output of unknown size is run
    synchronously once, which lets AscendCL allocate it, and asynchronously with the size learnt for these input shapes.
    """

    def __init__(self, Context context, str path, sizes, DeviceBuffer weights, int timeout_ms, dict known):
        self.known = known
        Slot.__init__(self, context, path, None, None, timeout_ms)

    def sample(self, int every):
        """The stages of a range model run on the slot's own thread and are not timed."""

    def _prepare(self, description):
        cdef Dataset inputs = Dataset(None), outputs = Dataset(None)
        cdef Plan* plan = &self.plans[0]
        for _ in description.inputs:
            inputs.add(NULL, 0)
        for _ in description.outputs:
            outputs.add(NULL, 0)
        self.datasets = [inputs, outputs]
        plan.input = inputs.handle
        plan.output = outputs.handle
        self.current = 0
        self.bounded = all(0 < spec.nbytes <= BOUNDED_NBYTES for spec in description.outputs)
        self.least = [spec.nbytes if spec.nbytes <= BOUNDED_NBYTES else 0 for spec in description.outputs]
        self.capacities = []
        self._grow(self.least)
        self.requests = queue.SimpleQueue()
        self.answered = threading.Event()
        self.thread = threading.Thread(target=_serve, args=(self.requests,), name="ge_core range model", daemon=True)
        self.thread.start()

    cdef int prepare(self, tuple shapes) except -1:
        """Make room for a batch of these input shapes and tell AscendCL of them."""
        cdef Dataset inputs = self.datasets[0]
        cdef Plan* plan = &self.plans[0]
        cdef aclTensorDesc* desc
        cdef int64_t dims[128]
        cdef size_t offset = 0
        cdef int i, d
        cdef aclError rc
        self.shapes = shapes
        for i, (spec, shape) in enumerate(zip(self.description.inputs, shapes, strict=True)):
            nbytes = math.prod(shape) * spec.itemsize
            plan.inputs[i] = Tensor(offset, nbytes, 0)
            plan.input_nbytes = offset + nbytes
            offset += padded(nbytes)
        if self.device_input is None or self.device_input.nbytes < offset:
            pinned, device = self.pinned_input, self.device_input
            self.pinned_input = self.device_input = None       # after a failure the next request tries again
            _close_all(pinned, device)
            pinned = PinnedBuffer(self.context, max(offset, 64))
            self.device_input = DeviceBuffer(self.context, max(offset, 64))
            self.pinned_input = pinned
        with self.context.bound():
            for i, (spec, shape) in enumerate(zip(self.description.inputs, shapes, strict=True)):
                rc = api.aclUpdateDataBuffer(
                    inputs.buffer(i), <char*>self.device_input.ptr + plan.inputs[i].offset, plan.inputs[i].nbytes
                )
                check(rc, b"aclUpdateDataBuffer")
                if None not in spec.shape:
                    continue
                for d in range(<int>len(shape)):
                    dims[d] = shape[d]
                desc = api.aclCreateTensorDesc(
                    dtypes.by_name(spec.dtype).acl, len(shape), dims, acl.ACL_FORMAT_ND
                )
                if desc == NULL:
                    raise MemoryError("aclCreateTensorDesc returned NULL")
                rc = api.aclmdlSetDatasetTensorDesc(inputs.handle, desc, i)    # copies it
                api.aclDestroyTensorDesc(desc)
                check(rc, b"aclmdlSetDatasetTensorDesc")
        learnt = self.known.get(shapes)
        self._grow(self.least if learnt is None else learnt)
        self.learning = learnt is None and not self.bounded
        return 0

    cdef int _grow(self, list nbytes) except -1:
        """Room for outputs of these sizes, never less than before."""
        cdef Dataset outputs = self.datasets[1]
        cdef Plan* plan = &self.plans[0]
        cdef size_t offset = 0
        cdef int i
        wanted = nbytes
        if self.capacities:
            wanted = [max(old, new) for old, new in zip(self.capacities, nbytes, strict=True)]
        if wanted != self.capacities:
            pinned, device = self.pinned_output, self.device_output
            self.capacities = []       # after a failure the next request tries again
            self.pinned_output = self.device_output = None
            _close_all(pinned, device)
            total = sum(padded(capacity) for capacity in wanted)
            pinned = PinnedBuffer(self.context, total)
            self.device_output = DeviceBuffer(self.context, total)
            self.pinned_output = pinned
            self.capacities = wanted
        for i in range(self.n_outputs):
            plan.outputs[i].offset = offset
            check(
                api.aclUpdateDataBuffer(
                    outputs.buffer(i), <char*>self.device_output.ptr + offset, self.capacities[i]
                ),
                b"aclUpdateDataBuffer",
            )
            offset += padded(self.capacities[i])
        return 0

    cdef aclError start(
        self, int index, size_t rows, Py_buffer* views, size_t first, void** sources, bint back
    ) noexcept nogil:
        cdef int i
        if views != NULL:
            for i in range(self.n_inputs):
                memcpy(
                    <char*>self.pinned_input.ptr + self.plans[0].inputs[i].offset, views[i].buf,
                    self.plans[0].inputs[i].nbytes,
                )
        self.started_ns = ge_core_now_ns()
        self.in_flight = True
        with gil:
            self.answered.clear()
            self.requests.put(self)
        return 0

    cdef aclError finish(self, int64_t timeout_ms) noexcept nogil:
        cdef int64_t left = timeout_ms
        if self.timeout_ms >= 0:
            left = max(<int64_t>0, self.timeout_ms - (ge_core_now_ns() - self.started_ns) // 1000000)
            if 0 <= timeout_ms < left:
                left = timeout_ms
        with gil:
            if not self.answered.wait(None if left < 0 else left / 1000):
                self.call = b"aclmdlExecuteAsync"
                return acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
        self.in_flight = False
        return self.result

    def done(self) -> bool:
        return self.answered.is_set()

    cdef bint drained(self, int timeout_ms) noexcept nogil:
        with gil:
            if self.in_flight and not self.answered.wait(timeout_ms / 1000):
                return False
        return Slot.drained(self, timeout_ms)

    def answer(self):
        """Run the prepared batch (called by the slot's thread)."""
        self.error = None
        try:
            try:
                self._run(self.learning)
            except errors.AclError:
                # The outputs of this batch may be larger than those of an earlier one with the same input shapes.
                if self.learning or self.bounded:
                    raise
                self._run(True)
        except BaseException as error:     # whoever waits must learn of it
            self.error = error
        self.result = 0 if self.error is None else acl.ACL_ERROR_FAILURE
        self.answered.set()

    def _run(self, bint learning):
        cdef Plan* plan = &self.plans[0]
        cdef aclrtStream stream = self.stream.handle
        cdef aclError rc = 0
        cdef int i
        with self.context.bound():
            with nogil:
                if plan.input_nbytes != 0:
                    rc = api.aclrtMemcpyAsync(
                        self.device_input.ptr, self.device_input.nbytes, self.pinned_input.ptr, plan.input_nbytes,
                        acl.ACL_MEMCPY_HOST_TO_DEVICE, stream,
                    )
            check(rc, b"aclrtMemcpyAsync")
            if learning:
                self._learn()
            else:
                with nogil:
                    rc = api.aclmdlExecuteAsync(self.model.id, plan.input, plan.output, stream)
                check(rc, b"aclmdlExecuteAsync")
                self._read_shapes()
                for i in range(self.n_outputs):
                    self._fetch_output(i, <char*>self.device_output.ptr + plan.outputs[i].offset)
                with nogil:
                    rc = api.aclrtSynchronizeStream(stream)
                check(rc, b"aclrtSynchronizeStream")

    def _read_shapes(self):
        cdef Plan* plan = &self.plans[0]
        cdef aclTensorDesc* desc
        cdef int64_t size
        cdef int i
        shapes = []
        for i, spec in enumerate(self.description.outputs):
            desc = api.aclmdlGetDatasetTensorDesc(plan.output, i)
            if desc == NULL:
                raise errors.UnsupportedError(f"{self.model.path}: AscendCL gave no shape for output {spec.name!r}")
            shape = []
            if api.aclGetTensorDescNumDims(desc) != <size_t>len(spec.shape):
                raise acl.failure(acl.ACL_ERROR_FAILURE, b"aclGetTensorDescNumDims")
            for d in range(len(spec.shape)):
                check(api.aclGetTensorDescDimV2(desc, d, &size), b"aclGetTensorDescDimV2")
                shape.append(size)
            plan.outputs[i].nbytes = math.prod(shape) * spec.itemsize
            shapes.append(tuple(shape))
        self.output_shapes = shapes

    cdef int _fetch_output(self, int index, void* source) except -1:
        cdef Tensor* tensor = &self.plans[0].outputs[index]
        if tensor.nbytes != 0:
            check(
                api.aclrtMemcpyAsync(
                    <char*>self.pinned_output.ptr + tensor.offset, self.pinned_output.nbytes - tensor.offset,
                    source, tensor.nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST, self.stream.handle,
                ),
                b"aclrtMemcpyAsync",
            )
        return 0

    def _learn(self):
        """Let aclmdlExecute allocate the outputs itself, copy them back, free them, and remember their sizes."""
        cdef Plan* plan = &self.plans[0]
        cdef Dataset outputs = self.datasets[1]
        cdef aclError rc
        cdef int i
        with nogil:
            rc = api.aclrtSynchronizeStream(self.stream.handle)
        check(rc, b"aclrtSynchronizeStream")
        allocated = []
        try:
            for i in range(self.n_outputs):
                check(api.aclUpdateDataBuffer(outputs.buffer(i), NULL, 0), b"aclUpdateDataBuffer")
            with nogil:
                rc = api.aclmdlExecute(self.model.id, plan.input, plan.output)
            allocated = [<size_t>api.aclGetDataBufferAddr(outputs.buffer(i)) for i in range(self.n_outputs)]
            check(rc, b"aclmdlExecute")
            self._read_shapes()
            sizes = [plan.outputs[i].nbytes for i in range(self.n_outputs)]
            self._grow(sizes)
            for i in range(self.n_outputs):
                if sizes[i] and not allocated[i]:
                    raise acl.failure(acl.ACL_ERROR_FAILURE, b"aclGetDataBufferAddr")
                self._fetch_output(i, <void*><size_t>allocated[i])
            with nogil:
                rc = api.aclrtSynchronizeStream(self.stream.handle)
            check(rc, b"aclrtSynchronizeStream")
            self.known[self.shapes] = sizes
        finally:
            for address in allocated:
                if address:
                    api.aclrtFree(<void*><size_t>address)

    def close(self):
        """See Slot.close."""
        if self.thread is not None:
            self.requests.put(None)
            self.thread = None
        Slot.close(self)


def _close_all(*buffers):
    for buffer in buffers:
        if buffer is not None:
            buffer.close()


def _serve(requests):
    while True:
        slot = requests.get()
        if slot is None:
            return
        slot.answer()
        del slot
