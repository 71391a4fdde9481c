# SPDX-License-Identifier: Apache-2.0
"""One batch in flight: a loaded model, a stream, and memory and datasets made beforehand."""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclmdlIODims, aclrtContext, api, check
from ge_core_pyx.device cimport Context, Event, Stream
from ge_core_pyx.memory cimport DeviceBuffer, PinnedBuffer, padded
from ge_core_pyx.model cimport Dataset, Model

import math
from dataclasses import replace

from ge_core_pyx import errors, model
from ge_core_pyx.budget import block_nbytes, charged, gear_block_nbytes

DRAIN_MS = 2000                        # how long a failed slot's stream may take to end its queued work
cdef int DRAIN_WAITS = 8
cdef int MOST_DIMS = 128              # of an aclmdlIODims
cdef size_t PIECE_NBYTES = 256 << 10   # inputs of two such pieces or more are copied piece by piece
cdef size_t FIRST_NBYTES = 96 << 10

KINDS = {"static": STATIC, "batch": BATCH, "image_size": IMAGE_SIZE, "dims": DIMS, "range": RANGE}
cdef object _nobody = type(None)       # called, it returns None
cdef list _abandoned = []              # slots whose device work never ended: freeing their memory could corrupt it


def abandon(slot) -> None:
    """Keep a slot that the device may still be using for the life of the process."""
    _abandoned.append(slot)
    slot.context.abandoned_slots += 1


def release_abandoned() -> int:
    """Close the abandoned slots whose device work has ended since; how many are left."""
    slots = _abandoned[:]
    _abandoned.clear()
    for slot in slots:
        slot.context.abandoned_slots -= 1
        slot.close()
    return len(_abandoned)


@cython.no_gc_clear                    # the order of release is close()'s
cdef class Slot:
    """A static or gear model: everything for each of its gears is made at load.

    The inputs of a gear lie in one block (one copy to the device). Outputs keep the places of the largest gear at
    every gear, because AscendCL asks for output buffers of that size.
    """

    def __init__(self, Context context not None, str path not None, sizes, DeviceBuffer weights, int timeout_ms):
        cdef int i
        self.context = context
        self.submission = _nobody
        self.timeout_ms = timeout_ms
        self.current = -1
        self.model = Model(context, path, sizes, weights)
        self.stream = Stream(context)
        description = self.model.description
        self.description = description
        self.kind = <GearKind><int>KINDS[description.gear_kind]
        self.n_inputs = len(description.inputs)
        self.n_outputs = len(description.outputs)
        self.n_gears = max(len(description.gears), 1)
        self.datasets = []
        self.gear_shapes = []
        self.pads = <uint64_t*>PyMem_Calloc(max(self.n_inputs, 1), sizeof(uint64_t))
        self.sources = <void**>PyMem_Calloc(max(self.n_inputs, 1), sizeof(void*))
        self.copies = <OutputCopy*>PyMem_Calloc(max(self.n_outputs, 1), sizeof(OutputCopy))
        self.gears = <Gear*>PyMem_Calloc(self.n_gears, sizeof(Gear))
        if self.pads == NULL or self.sources == NULL or self.copies == NULL or self.gears == NULL:
            raise MemoryError()
        for i in range(self.n_gears):
            self.gears[i].inputs = <Tensor*>PyMem_Calloc(max(self.n_inputs, 1), sizeof(Tensor))
            self.gears[i].outputs = <Tensor*>PyMem_Calloc(max(self.n_outputs, 1), sizeof(Tensor))
            if self.gears[i].inputs == NULL or self.gears[i].outputs == NULL:
                raise MemoryError()
        self._prepare(description)

    def _prepare(self, description):
        inputs, outputs = block_nbytes(description.inputs), block_nbytes(description.outputs)
        self.pinned_input = PinnedBuffer(self.context, inputs)
        self.device_input = DeviceBuffer(self.context, inputs)
        self.device_output = DeviceBuffer(self.context, outputs)
        self.pinned_output = PinnedBuffer(self.context, outputs)
        if description.gears:
            self.gear_memory = DeviceBuffer(self.context, gear_block_nbytes(description, self.model.gear_nbytes()))
        with self.context.bound():
            for i, gear in enumerate(description.gears or (None,)):
                self._prepare_gear(i, gear)

    cdef int _prepare_gear(self, int index, size) except -1:
        cdef Gear* gear = &self.gears[index]
        cdef Dataset inputs = Dataset(self.device_input), outputs = Dataset(self.device_output)
        cdef size_t offset = 0, gear_nbytes = self.model.gear_nbytes(), needed = 0
        cdef aclError rc
        description = self.description
        shapes = model.input_shapes(description, size)
        rows = shapes[0][0] if description.max_rows else 0
        if self.kind == DIMS or self.kind == IMAGE_SIZE:       # whoever launches rows of it knows that they are rows
            rows = model.common_rows(shapes)
        gear.rows = rows
        if self.kind == BATCH:
            gear.sizes[0] = size
        elif self.kind == IMAGE_SIZE:
            gear.sizes[0], gear.sizes[1] = size
        elif self.kind == DIMS:
            if sum(map(len, shapes)) > MOST_DIMS:
                raise errors.UnsupportedError(
                    f"{self.model.path}: the inputs have {sum(map(len, shapes))} dims together; AscendCL's "
                    f"aclmdlSetInputDynamicDims takes at most {MOST_DIMS} (ACL_MAX_DIM_CNT)"
                )
            gear.dims = <aclmdlIODims*>PyMem_Calloc(1, sizeof(aclmdlIODims))
            if gear.dims == NULL:
                raise MemoryError()
            for dim in (dim for shape in shapes for dim in shape):
                gear.dims.dims[gear.dims.dimCount] = dim
                gear.dims.dimCount += 1
        for i, (spec, shape) in enumerate(zip(description.inputs, shapes, strict=True)):
            nbytes = math.prod(shape) * spec.itemsize
            gear.inputs[i] = Tensor(offset, nbytes, nbytes // rows if rows else 0)
            inputs.add(<char*>self.device_input.ptr + offset, nbytes)
            gear.input_nbytes = offset + nbytes
            offset += padded(nbytes)
        if size is not None:
            inputs.add(<char*>self.gear_memory.ptr + index * padded(gear_nbytes), gear_nbytes)
        offset = 0
        for i, spec in enumerate(description.outputs):
            outputs.add(<char*>self.device_output.ptr + offset, spec.nbytes)
            gear.outputs[i].offset = offset
            offset += padded(spec.nbytes)
        gear.input = inputs.handle
        gear.output = outputs.handle
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
                for p in range(self.n_gears):
                    self.gears[p].rows = 0
            gear.outputs[i].nbytes = nbytes
            gear.outputs[i].row_nbytes = nbytes // rows if rows else 0
            gear.output_nbytes = gear.outputs[i].offset + nbytes
            needed += nbytes
        gear.adjacent = self.n_outputs == 1 or needed * 2 > gear.output_nbytes
        self.gear_shapes.append((tuple(shapes), tuple(output_shapes)))
        return 0

    cdef aclError _set_gear(self, int index) noexcept nogil:
        """A blocking copy on the device: only when the gear changes."""
        cdef Gear* gear = &self.gears[index]
        cdef size_t gear_input = self.model.gear_input
        cdef aclError rc = 0
        self.current = -1
        if self.kind == BATCH:
            self.call = b"aclmdlSetDynamicBatchSize"
            rc = api.aclmdlSetDynamicBatchSize(self.model.id, gear.input, gear_input, gear.sizes[0])
        elif self.kind == IMAGE_SIZE:
            self.call = b"aclmdlSetDynamicHWSize"
            rc = api.aclmdlSetDynamicHWSize(self.model.id, gear.input, gear_input, gear.sizes[0], gear.sizes[1])
        elif self.kind == DIMS:
            self.call = b"aclmdlSetInputDynamicDims"
            rc = api.aclmdlSetInputDynamicDims(self.model.id, gear.input, gear_input, gear.dims)
        if rc == 0:
            self.current = index
        return rc

    def sample(self, int every):
        """Time every n-th batch from now on; 0: none."""
        if every and self.event_objects is None:
            try:
                self.event_objects = [Event(self.context) for _ in range(4)]
            except errors.AclError:
                self.event_objects = []    # host times alone
            for i, event in enumerate(self.event_objects):
                self.events[i] = (<Event>event).handle
            self.has_events = len(self.event_objects) == 4
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
        if self.sampling and self.has_events:
            api.aclrtRecordEvent(self.events[event], self.stream.handle)

    cdef void read_sample(self, Execution* execution, StageSample* sample) noexcept nogil:
        """The times of the batch that has just ended."""
        cdef aclrtContext previous
        cdef int i
        sample.gear, sample.rows = execution.gear, execution.rows
        for i in range(<int>MOMENTS):
            sample.moments[i] = self.moments[i]
        for i in range(3):
            sample.device_ms[i] = -1
        if self.has_events and self.context.enter(&previous) == 0:
            for i in range(3):
                if api.aclrtEventElapsedTime(&sample.device_ms[i], self.events[i], self.events[i + 1]) != 0:
                    sample.device_ms[i] = -1
                    api.aclGetRecentErrMsg()
            self.context.leave(previous)

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

    cdef void _pad_rows(self, Gear* gear, size_t rows) noexcept nogil:
        """Fill the pinned input from `rows` up to the gear."""
        cdef Tensor* tensor
        cdef int i
        if not 0 < rows < gear.rows:
            return
        for i in range(self.n_inputs):
            tensor = &gear.inputs[i]
            self.fill(
                i, <char*>self.pinned_input.ptr + tensor.offset + rows * tensor.row_nbytes,
                (gear.rows - rows) * tensor.row_nbytes,
            )

    cdef aclError _copy_in(self, Gear* gear, Execution* execution) noexcept nogil:
        """Copy the rows of the caller's arrays into pinned memory, pad them up to the gear, and queue their copy to the
        device.

        A large block goes in pieces, the first a small one: the device copies one while the host copies the next.
        """
        cdef size_t pieces = gear.input_nbytes // PIECE_NBYTES
        cdef size_t piece, sent = 0, done, count, nbytes
        cdef Tensor* tensor
        cdef char* pinned
        cdef char* source
        cdef aclError rc = 0
        cdef int i
        pieces = 1 if pieces == 0 else 4 if pieces > 4 else pieces
        piece = gear.input_nbytes + 64 if pieces == 1 else FIRST_NBYTES
        for i in range(self.n_inputs):
            tensor = &gear.inputs[i]
            pinned = <char*>self.pinned_input.ptr + tensor.offset
            source = <char*>execution.views[i].buf + execution.first * tensor.row_nbytes
            nbytes = tensor.nbytes if execution.rows == 0 else execution.rows * tensor.row_nbytes
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
                    piece = (gear.input_nbytes // (pieces - 1) + 64) // 64 * 64
            if nbytes < tensor.nbytes:
                self.fill(i, pinned + nbytes, tensor.nbytes - nbytes)
        if sent < gear.input_nbytes:
            rc = self._to_device(sent, gear.input_nbytes - sent)
        return rc

    cdef aclError _read_in_place(self, Gear* gear) noexcept nogil:
        """Queue the copy of registered memory to the device."""
        cdef Tensor* tensor
        cdef aclError rc
        cdef int i
        self.call = b"aclrtMemcpyAsync"
        for i in range(self.n_inputs):
            tensor = &gear.inputs[i]
            if tensor.nbytes == 0:
                continue
            rc = api.aclrtMemcpyAsync(
                <char*>self.device_input.ptr + tensor.offset, self.device_input.nbytes - tensor.offset,
                self.sources[i], tensor.nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE, self.stream.handle,
            )
            if rc != 0:
                return rc
        return 0

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
        cdef Gear* gear = &self.gears[index]
        cdef Tensor* tensor
        cdef size_t nbytes
        cdef aclError rc = 0
        cdef int i
        self.call = b"aclrtMemcpyAsync"
        if gear.adjacent:
            tensor = &gear.outputs[self.n_outputs - 1]
            nbytes = tensor.offset + (rows * tensor.row_nbytes if rows != 0 else tensor.nbytes)
            if nbytes != 0:
                rc = api.aclrtMemcpyAsync(
                    self.pinned_output.ptr, self.pinned_output.nbytes, self.device_output.ptr, nbytes,
                    acl.ACL_MEMCPY_DEVICE_TO_HOST, self.stream.handle,
                )
            return rc
        for i in range(self.n_outputs):    # a small gear of several outputs: only the valid part of each
            tensor = &gear.outputs[i]
            nbytes = rows * tensor.row_nbytes if rows != 0 else tensor.nbytes
            if rc == 0 and nbytes != 0:
                rc = api.aclrtMemcpyAsync(
                    <char*>self.pinned_output.ptr + tensor.offset, self.pinned_output.nbytes - tensor.offset,
                    <char*>self.device_output.ptr + tensor.offset, nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST,
                    self.stream.handle,
                )
        return rc

    cdef aclError start(self, Execution* execution) noexcept nogil:
        """Queue a batch on the stream: inputs → device → model → pinned output. Does not wait for any of it.

        Without `copy_back` the outputs stay on the device for fetch() or copy_back().
        """
        cdef Gear* gear = &self.gears[execution.gear]
        cdef aclrtContext previous
        cdef aclError rc
        self.call = b"aclrtSetCurrentContext"
        rc = self.context.enter(&previous)
        if rc != 0:
            return rc
        if self.timeout_ms >= 0:
            self.started_ns = ge_core_now_ns()
        if self.current != execution.gear:
            rc = self._set_gear(execution.gear)
        if rc == 0:
            self.in_flight = True
            self._record(0)
            if execution.in_place:
                rc = self._read_in_place(gear)
            elif execution.views != NULL:
                rc = self._copy_in(gear, execution)
            else:
                self._pad_rows(gear, execution.rows)
                if gear.input_nbytes != 0:
                    rc = self._to_device(0, gear.input_nbytes)
        self.mark(GATHERED)
        self._record(1)
        if rc == 0:
            self.call = b"aclmdlExecuteAsync"
            rc = api.aclmdlExecuteAsync(self.model.id, gear.input, gear.output, self.stream.handle)
        self._record(2)
        if rc == 0 and execution.copy_back:
            rc = self.copy_back(execution.gear, execution.rows)
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

    cdef void scatter(self, OutputCopy* copies, int count) noexcept nogil:
        """Copy parts of the pinned output to where they are wanted."""
        cdef int i
        for i in range(count):
            memcpy(copies[i].target, <char*>self.pinned_output.ptr + copies[i].offset, copies[i].nbytes)

    cdef bint expired(self) noexcept nogil:
        """Whether the batch in flight has used up the slot's own limit."""
        return self.timeout_ms >= 0 and (ge_core_now_ns() - self.started_ns) // 1000000 >= self.timeout_ms

    def restart_limit(self):
        """Work that is queued now gets the whole limit, if all before it has ended: whoever collects may come late."""
        if self.timeout_ms >= 0 and self.done():
            self.started_ns = ge_core_now_ns()

    cdef bint has_failed(self):
        """Whether the work in flight has ended with an error. Does not block."""
        return self.done() and self.noticed != 0

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
            *self.datasets, *(self.event_objects or ()), self.model, self.stream,
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
        if self.gears != NULL:
            for i in range(self.n_gears):
                PyMem_Free(self.gears[i].inputs)
                PyMem_Free(self.gears[i].outputs)
                PyMem_Free(self.gears[i].dims)
            PyMem_Free(self.gears)
        PyMem_Free(self.pads)
        PyMem_Free(self.sources)
        PyMem_Free(self.copies)
