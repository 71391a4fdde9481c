# SPDX-License-Identifier: Apache-2.0
"""A slot for models whose shapes are known only with the request."""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclrtStream, aclTensorDesc, api, check
from ge_core_pyx.device cimport Context
from ge_core_pyx.memory cimport DeviceBuffer, PinnedBuffer, padded
from ge_core_pyx.model cimport Dataset
from ge_core_pyx.slot cimport Execution, Gear, Slot, Tensor, ge_core_now_ns

import math
import queue
import threading

from ge_core_pyx import dtypes, errors

# An output whose bound is below this is given its memory at load; a larger or unknown one grows as it is learnt.
cdef size_t BOUNDED_NBYTES = 16 << 20
cdef int MOST_LEARNT = 4096            # input shapes whose output sizes are remembered


@cython.final
@cython.no_gc_clear
cdef class RangeSlot(Slot):
    """A model whose shapes are known only with the request.

    AscendCL walks such a graph on the host inside aclmdlExecuteAsync, so a thread of the slot's own calls it: time
    limits hold and other slots go on. Memory grows to what the requests needed so far. An output of unknown size is run
    synchronously once, which lets AscendCL allocate it, and asynchronously with the size learnt for these input shapes.
    """

    def __init__(self, Context context, str path, int timeout_ms, dict learnt_sizes):
        self.learnt_sizes = learnt_sizes
        Slot.__init__(self, context, path, None, None, timeout_ms)

    def sample(self, int every):
        """The stages of a range model run on the slot's own thread and are not timed."""

    def _prepare(self, description):
        cdef Dataset inputs = Dataset(None), outputs = Dataset(None)
        cdef Gear* gear = &self.gears[0]
        for _ in description.inputs:
            inputs.add(NULL, 0)
        for _ in description.outputs:
            outputs.add(NULL, 0)
        self.datasets = [inputs, outputs]
        gear.input = inputs.handle
        gear.output = outputs.handle
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
        cdef Gear* gear = &self.gears[0]
        cdef aclTensorDesc* desc
        cdef int64_t dims[128]
        cdef size_t offset = 0
        cdef int i, d
        cdef aclError rc
        self.shapes = shapes
        for i, (spec, shape) in enumerate(zip(self.description.inputs, shapes, strict=True)):
            nbytes = math.prod(shape) * spec.itemsize
            gear.inputs[i] = Tensor(offset, nbytes, 0)
            gear.input_nbytes = offset + nbytes
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
                    inputs.buffer(i), <char*>self.device_input.ptr + gear.inputs[i].offset, gear.inputs[i].nbytes
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
        learnt = self.learnt_sizes.get(shapes)
        self._grow(self.least if learnt is None else learnt)
        self.learning = learnt is None and not self.bounded
        return 0

    cdef int _grow(self, list nbytes) except -1:
        """Room for outputs of these sizes, never less than before."""
        cdef Dataset outputs = self.datasets[1]
        cdef Gear* gear = &self.gears[0]
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
            gear.outputs[i].offset = offset
            check(
                api.aclUpdateDataBuffer(
                    outputs.buffer(i), <char*>self.device_output.ptr + offset, self.capacities[i]
                ),
                b"aclUpdateDataBuffer",
            )
            offset += padded(self.capacities[i])
        return 0

    cdef aclError start(self, Execution* execution) noexcept nogil:
        """Hand the batch to the slot's thread. Takes the GIL for a moment."""
        cdef int i
        if execution.views != NULL:
            for i in range(self.n_inputs):
                memcpy(
                    <char*>self.pinned_input.ptr + self.gears[0].inputs[i].offset, execution.views[i].buf,
                    self.gears[0].inputs[i].nbytes,
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

    cdef bint has_failed(self):
        return self.answered.is_set() and self.result != 0

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
        cdef Gear* gear = &self.gears[0]
        cdef aclrtStream stream = self.stream.handle
        cdef aclError rc = 0
        cdef int i
        with self.context.bound():
            with nogil:
                if gear.input_nbytes != 0:
                    rc = api.aclrtMemcpyAsync(
                        self.device_input.ptr, self.device_input.nbytes, self.pinned_input.ptr, gear.input_nbytes,
                        acl.ACL_MEMCPY_HOST_TO_DEVICE, stream,
                    )
            check(rc, b"aclrtMemcpyAsync")
            if learning:
                self._learn()
            else:
                with nogil:
                    rc = api.aclmdlExecuteAsync(self.model.id, gear.input, gear.output, stream)
                check(rc, b"aclmdlExecuteAsync")
                self._read_shapes()
                for i in range(self.n_outputs):
                    self._fetch_output(i, <char*>self.device_output.ptr + gear.outputs[i].offset)
                with nogil:
                    rc = api.aclrtSynchronizeStream(stream)
                check(rc, b"aclrtSynchronizeStream")

    def _read_shapes(self):
        cdef Gear* gear = &self.gears[0]
        cdef aclTensorDesc* desc
        cdef int64_t size
        cdef int i
        shapes = []
        for i, spec in enumerate(self.description.outputs):
            desc = api.aclmdlGetDatasetTensorDesc(gear.output, i)
            if desc == NULL:
                raise errors.UnsupportedError(f"{self.model.path}: AscendCL gave no shape for output {spec.name!r}")
            shape = []
            if api.aclGetTensorDescNumDims(desc) != <size_t>len(spec.shape):
                raise acl.failure(acl.ACL_ERROR_FAILURE, b"aclGetTensorDescNumDims")
            for d in range(len(spec.shape)):
                check(api.aclGetTensorDescDimV2(desc, d, &size), b"aclGetTensorDescDimV2")
                shape.append(size)
            gear.outputs[i].nbytes = math.prod(shape) * spec.itemsize
            shapes.append(tuple(shape))
        self.output_shapes = shapes

    cdef int _fetch_output(self, int index, void* source) except -1:
        cdef Tensor* tensor = &self.gears[0].outputs[index]
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
        cdef Gear* gear = &self.gears[0]
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
                rc = api.aclmdlExecute(self.model.id, gear.input, gear.output)
            allocated = [<size_t>api.aclGetDataBufferAddr(outputs.buffer(i)) for i in range(self.n_outputs)]
            check(rc, b"aclmdlExecute")
            self._read_shapes()
            sizes = [gear.outputs[i].nbytes for i in range(self.n_outputs)]
            self._grow(sizes)
            for i in range(self.n_outputs):
                if sizes[i] and not allocated[i]:
                    raise acl.failure(acl.ACL_ERROR_FAILURE, b"aclGetDataBufferAddr")
                self._fetch_output(i, <void*><size_t>allocated[i])
            with nogil:
                rc = api.aclrtSynchronizeStream(self.stream.handle)
            check(rc, b"aclrtSynchronizeStream")
            self._remember(sizes)
        finally:
            for address in allocated:
                if address:
                    api.aclrtFree(<void*><size_t>address)

    def _remember(self, sizes):
        """Output sizes for these input shapes; of the shapes seen longest ago they are forgotten."""
        while len(self.learnt_sizes) >= MOST_LEARNT:
            self.learnt_sizes.pop(next(iter(self.learnt_sizes)), None)
        self.learnt_sizes[self.shapes] = sizes

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
