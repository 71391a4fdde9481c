# SPDX-License-Identifier: Apache-2.0
"""Running batches on slots: the slots of a session, the one sequence of a batch, and recovery after errors."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, api, check, refuse_fork
from ge_core_pyx.arrays cimport buffers, release_buffers
from ge_core_pyx.device cimport Context
from ge_core_pyx.future cimport Submission, SubmittedChunk, future_of, submitted
from ge_core_pyx.range_slot cimport RangeSlot
from ge_core_pyx.requests cimport ModelInterface, RequestInputs, bits_of
from ge_core_pyx.slot cimport (
    AWAITED,
    BEGUN,
    GATHERED,
    SCATTERED,
    SUBMITTED,
    Execution,
    Gear,
    OutputCopy,
    Slot,
    StageSample,
    Tensor,
)
from ge_core_pyx.slot_pool cimport (
    SlotPool,
    Waiter,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)

import threading
import time
import weakref

from ge_core_pyx import budget as budgets
from ge_core_pyx import errors, model
from ge_core_pyx import slot as slots_module

cdef extern from *:
    """
    static inline void ge_core_add(long long *counter, long long value) {
      __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
    }
    """
    void ge_core_add(long long* counter, long long value) noexcept nogil

cdef int MOST_SAMPLES = 4096
cdef int SIGNAL_CHECK_MS = 100         # how often a thread that waits for a slot lets Python handle signals
cdef object _open = weakref.WeakSet()  # executors, for the operator time limit they share
cdef int _device_limit = 0             # that limit in ms as it was set last; 0: the device's largest


@cython.final
cdef class DeviceSlots:
    """One device of a session: its context, its slots, and the weights they share."""

    def __cinit__(self, Context context):
        self.context = context
        self.slots = []


@cython.final
cdef class Executor:
    """One model on one or more devices, and the calls that run on it. Any thread may call.

    Parameters
    ----------
    runtime : Runtime
    device_ids : sequence of int
    path : str
        The om; every slot loads it, those of one device share one copy of the weights.
    slots : int
        Batches that may be in flight at once, per device.
    submit_timeout_ms : int
        How long a call waits for a free slot; -1 waits for ever.
    execute_timeout_ms : int
        How long one execution may take, waiting for its turn on the device included; -1: as long as it takes.

    Raises
    ------
    DeviceMemoryError
        The model does not fit; nothing is left behind.
    """

    def __init__(
        self, runtime, device_ids, str path not None, int slots=1, int submit_timeout_ms=-1, int execute_timeout_ms=-1,
    ):
        pthread_mutex_init(&self.sample_mutex, NULL)
        self.path = path
        self.slots_per_device = slots
        self.submit_timeout_ms = submit_timeout_ms
        self.execute_timeout_ms = execute_timeout_ms
        self.repair = threading.Lock()
        self.learnt_sizes = {}
        self.registered = []
        self.pool = SlotPool(len(device_ids), slots)
        self.devices = [DeviceSlots(Context(runtime, device_id)) for device_id in device_ids]
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self):
        cdef DeviceSlots device
        cdef Slot slot
        context = (<DeviceSlots>self.devices[0]).context
        self.description = model.describe(context, self.path)
        if len(self.description.reserved) > bool(self.description.gears):
            raise errors.UnsupportedError(
                f"{self.path} was compiled with dynamic AIPP, whose parameters ge_core has no way to take yet; compile "
                "it with static AIPP"
            )
        if self.description.gear_kind != "range":
            self.sizes = model.query_size(context, self.path)
            self.budget = budgets.budget(self.description, self.sizes, self.slots_per_device)
            for device in self.devices:
                available, total = device.context.memory_info()
                if self.budget.device_bytes > available:
                    raise errors.DeviceMemoryError(
                        f"{self.path} needs {self.budget} on device {device.context.device_id}, where {available:,} of "
                        f"{total:,} bytes are free: use fewer slots, smaller gears, or another device"
                    )
        for index in range(len(self.devices)):
            for _ in range(self.slots_per_device):
                self._add_slot(index)
        slot = (<DeviceSlots>self.devices[0]).slots[0]
        self.description = slot.description
        self.by_rows = self.description.max_rows > 0
        self.interface = ModelInterface(self.description, slot.gear_shapes)
        self.n_gears = slot.n_gears
        self.executions = <long long*>calloc(slot.n_gears, sizeof(long long))
        if self.executions == NULL:
            raise MemoryError()
        _open.add(self)
        _set_device_limit()

    def execute_limit(self) -> int:
        return self.execute_timeout_ms

    def _new_slot(self, Context context, weights):
        if self.description.gear_kind == "range":
            return RangeSlot(context, self.path, self.execute_timeout_ms, self.learnt_sizes)
        return Slot(context, self.path, self.sizes, weights, self.execute_timeout_ms)

    def _add_slot(self, int index):
        cdef DeviceSlots device = self.devices[index]
        cdef Slot slot = self._new_slot(device.context, device.weights)
        if self.closed:                # while it was built
            slot.close()
            return
        slot.device = index
        if self.interface is not None:
            slot.set_pads(self.interface.pads)
        device.weights = slot.model.weights
        device.slots.append(slot)
        self.pool.give(<void*>slot, index)

    # ---- the sequence of a batch ----

    cdef void* acquire_slot(self, int64_t timeout_ms) noexcept nogil:
        """A slot of its own for the caller, a borrowed reference; NULL: none within the time, or `refusing`.

        For threads that Python does not know; others call acquire(), which handles signals while it waits.
        """
        cdef Waiter waiter
        cdef void* slot
        while not self.refusing:
            slot = self.pool.join(&waiter)
            if slot == NULL:
                slot = self.pool.wait(&waiter, timeout_ms)
            if slot == NULL:
                slot = self.pool.leave(&waiter)
            if slot == NULL:
                return NULL
            if self._settled(<Slot>slot):
                return slot
        return NULL

    cdef int gear_for(self, Slot slot, size_t rows) noexcept nogil:
        """The smallest gear that holds `rows`; the largest when none does."""
        cdef int i
        for i in range(slot.n_gears):
            if slot.gears[i].rows >= rows:
                return i
        return slot.n_gears - 1

    cdef aclError launch(self, Slot slot, Execution* execution) noexcept nogil:
        """Begin the batch: copy the inputs, queue its execution, count it. Does not wait for the device."""
        cdef size_t gear_rows = slot.gears[execution.gear].rows
        cdef aclError rc
        if slot.in_flight:
            rc = slot.finish(-1)
            if rc != 0:
                return rc
        slot.begin()
        rc = slot.start(execution)
        ge_core_add(&self.executions[execution.gear], 1)
        ge_core_add(&self.rows_run, execution.rows)
        if gear_rows > execution.rows > 0:
            ge_core_add(&self.rows_padded, gear_rows - execution.rows)
        return rc

    cdef aclError complete(
        self, Slot slot, Execution* execution, int64_t timeout_ms, OutputCopy* copies, int count
    ) noexcept nogil:
        """Wait for the batch, copy its outputs to where they are wanted, keep its times if it is a timed one."""
        cdef StageSample sample
        cdef aclError rc = slot.finish(timeout_ms)
        if rc != 0:
            return rc
        slot.scatter(copies, count)
        if slot.sampling:
            slot.mark(SCATTERED)
            slot.sampling = False
            slot.read_sample(execution, &sample)
            self._keep_sample(&sample)
        return 0

    cdef void release(self, Slot slot) noexcept nogil:
        """The slot is the next caller's. One that failed() retired stays away."""
        if slot.failed or self.pool.give(<void*>slot, slot.device):
            return
        with gil:
            self._discard(slot)

    def _discard(self, Slot slot):
        """A slot comes back after its session was closed, or its device became unhealthy."""
        cdef DeviceSlots device = self.devices[slot.device]
        cdef Slot kept = slot          # see _survived
        if self.pool.give(<void*>kept, kept.device):       # recover() was quicker
            return
        if not self.closed:
            device.slots.remove(kept)
        _close_quietly(kept)
        if self.closed:
            self._close_contexts()

    cdef bint _settled(self, Slot slot) noexcept nogil:
        """Wait for what a future that died left running on a slot. False: that failed and the slot is gone."""
        cdef aclError rc
        if not slot.in_flight:
            return True
        rc = slot.finish(-1)
        if rc == 0:
            return True
        with gil:
            return self._survived(slot, rc)

    cdef bint _survived(self, Slot slot, aclError rc) noexcept:
        """failed(), for the error of a result that nobody waits for. False: the slot was retired."""
        cdef Slot kept = slot          # the caller's reference is borrowed from a list that failed() takes it out of
        try:
            self.failed(kept, rc)
        except Exception:
            pass
        return not kept.failed

    # ---- slots ----

    cdef Slot take(self):
        """A free slot; None when all are busy. Does not wait for one."""
        cdef void* found
        cdef bint settled
        while True:
            if acl.forked or self.refusing:
                self._refuse()
            found = self.pool.take()
            if found == NULL:
                return None
            if not (<Slot>found).in_flight:
                return <Slot>found
            with nogil:
                settled = self._settled(<Slot>found)
            if settled:
                return <Slot>found

    cdef Slot acquire(self):
        """A free slot; waits for one, first come first served, at most the session's submit_timeout_ms."""
        cdef Slot slot = self.take()
        return self._wait() if slot is None else slot

    def _wait(self):
        cdef Waiter waiter
        cdef int64_t left
        cdef void* found
        cdef bint settled
        deadline = None if self.submit_timeout_ms < 0 else time.monotonic() + self.submit_timeout_ms / 1000
        while True:
            found = self.pool.join(&waiter)
            if found == NULL:
                try:
                    while found == NULL:
                        left = SIGNAL_CHECK_MS
                        if deadline is not None:
                            left = max(0, min(left, <int64_t>((deadline - time.monotonic()) * 1000 + 0.999)))
                        if acl.forked or self.refusing:
                            self._refuse()
                        if left == 0:
                            self._refuse_to_wait()
                        with nogil:
                            found = self.pool.wait(&waiter, left)
                        PyErr_CheckSignals()
                        if found == NULL:
                            self._give_up_failed()
                except BaseException:
                    if found == NULL:
                        found = self.pool.leave(&waiter)
                    if found != NULL:
                        self.release(<Slot>found)
                    raise
            with nogil:
                settled = self._settled(<Slot>found)
            if settled:
                return <Slot>found

    def _give_up_failed(self):
        """Futures that failed and that nobody asks give their slots to those who wait."""
        for device in self.devices:
            for slot in list((<DeviceSlots>device).slots):
                submission = (<Slot>slot).submission()
                if submission is not None:
                    submission.give_up_failed()

    def _refuse_to_wait(self):
        count = self.slots_per_device * len(self.devices)
        raise TimeoutError(
            f"no free slot within {self.submit_timeout_ms} ms: all {count} are in flight or held by borrowed batches; "
            "raise slots or submit_timeout_ms, or close batches and drop their views"
        )

    def _refuse(self):
        refuse_fork()
        if self.closed:
            raise RuntimeError(f"the session of {self.path} is closed")
        raise errors.NotRunningError(
            f"the session of {self.path} no longer runs after a device error: {self.unhealthy}. Call recover(), or "
            "close it and open a new one; if that fails too, end the process."
        )

    cdef int failed(self, Slot slot, aclError rc) except -1:
        """After a failed call: keep the slot if only the call was refused, else retire it; raise the error.

        The caller must have a reference of its own to the slot.
        """
        cdef bint idle, refused
        cdef int limit = slots_module.DRAIN_MS
        error = slot.error
        slot.error = None
        if error is None:
            try:
                check(rc, slot.call)
            except errors.AclError as caught:
                error = caught
        if rc == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT:
            limit = 0                  # its own limit has passed already
        with nogil:
            idle = slot.drained(limit)
        broken = isinstance(error, errors.AclError) and not isinstance(error, (errors.AclValueError, MemoryError))
        refused = idle and not broken
        if not refused:
            slot.failed = True
            self._retire(slot, idle, error)
        raise error

    def _retire(self, Slot slot, bint idle, error):
        """Take a slot out for good, and put a new one in its place where the error allows that."""
        cdef DeviceSlots device = self.devices[slot.device]
        self.repairing += 1
        self.repair.acquire()          # recover() in another thread counts the slots too
        try:
            device.slots.remove(slot)
            if not idle:
                slots_module.abandon(slot)
                if not device.slots:
                    device.unhealthy = str(error)
            elif getattr(error, "code", 0) in errors.STICKY:
                device.sticky = True
                device.unhealthy = str(error)
                _close_quietly(slot)   # the device is gone: what it held went with it
            else:
                try:
                    slot.close()
                    self._add_slot(slot.device)
                except (errors.AclError, MemoryError) as second:
                    device.unhealthy = f"{error}; then {second}"
            if device.unhealthy is not None:
                self.pool.set_open(slot.device, False)     # no new work for this device
                for other in self._free_slots(slot.device):
                    device.slots.remove(other)
                    _close_quietly(other)
        finally:
            self.repair.release()
            self._repaired()
        self.refusing = self.closed or self.unhealthy is not None
        if self.refusing:
            self.pool.wake_all()

    def _free_slots(self, int device):
        """The free slots of a device, taken out."""
        cdef void* found = self.pool.drain(device)
        slots = []
        while found != NULL:
            slots.append(<Slot>found)
            found = self.pool.drain(device)
        return slots

    cdef int _repaired(self) except -1:
        """What close() had to leave to a repair that was under way."""
        self.repairing -= 1
        if self.closed:
            self._close_contexts()
        return 0

    @property
    def unhealthy(self):
        """Why no call can run: the error of a device, once every device has one; else None."""
        cdef DeviceSlots device
        texts = [device.unhealthy for device in self.devices]
        return None if None in texts else "; ".join(texts)

    def recover(self):
        """Make unhealthy devices work again where AscendCL allows it; see InferenceSession.recover."""
        refuse_fork()
        if self.closed:
            self._refuse()
        self.repairing += 1
        self.repair.acquire()
        try:
            self._recover()
        finally:
            self.repair.release()
            self._repaired()

    def _recover(self):
        cdef DeviceSlots device
        slots_module.release_abandoned()
        for index, device in enumerate(self.devices):
            if device.unhealthy is None and len(device.slots) == self.slots_per_device:
                continue
            if device.sticky:
                raise errors.UnsupportedError(
                    f"device {device.context.device_id} reported {device.unhealthy}: nothing inside this process is "
                    "known to repair that. End the process and start it again; if a new one fails at once, reset the "
                    "device with `npu-smi set -t reset`."
                )
            if device.context.abandoned_slots:
                raise errors.UnsupportedError(
                    f"work on device {device.context.device_id} has still not ended ({device.unhealthy}); try again "
                    "later, or end the process"
                )
            if not self.closed:
                self.pool.set_open(index, True)
            while len(device.slots) < self.slots_per_device and not self.closed:
                self._add_slot(index)
            device.unhealthy = None
        self.refusing = self.closed

    # ---- requests ----

    def run(self, names, inputs):
        """See InferenceSession.run."""
        cdef Py_buffer* views
        cdef Py_ssize_t rows
        cdef int filled = 0
        if acl.forked or self.refusing:
            self._refuse()
        wanted = self.interface.wanted(names)
        views = buffers(self.interface.n_inputs)
        try:
            self.interface.views(inputs, views, &filled)
            if self.by_rows and self.interface.split_table is None:
                rows = self.interface.rows_of(views)
                if rows <= self.interface.max_rows:
                    arrays = self._run_at_once(views, rows)
                    return arrays if wanted is None else [arrays[i] for i in wanted]
            return self._submit(views, wanted).result()
        finally:
            release_buffers(views, filled)

    def submit(self, names, inputs):
        """See InferenceSession.submit."""
        cdef Py_buffer* views
        cdef int filled = 0
        if acl.forked or self.refusing:
            self._refuse()
        wanted = self.interface.wanted(names)
        if type(inputs) is RequestInputs:
            return self._submit((<RequestInputs>inputs).views, wanted)
        views = buffers(self.interface.n_inputs)
        try:
            self.interface.views(inputs, views, &filled)
            return self._submit(views, wanted)
        finally:
            release_buffers(views, filled)

    cdef object _submit(self, Py_buffer* views, list wanted):
        if self.by_rows:
            return self._submit_rows(views, self.interface.rows_of(views), wanted)
        return self._submit_whole(views, wanted)

    cdef list _run_at_once(self, Py_buffer* views, Py_ssize_t rows):
        """One batch that fits a gear, from start to end in one block without the GIL."""
        cdef list arrays = self.interface.empty_outputs(rows)
        cdef int filled = 0
        cdef Execution execution
        cdef Py_buffer* targets
        cdef Tensor* tensor
        cdef aclError rc
        cdef Slot slot
        if rows == 0:
            return arrays
        targets = buffers(self.interface.n_outputs)
        slot = self.acquire()
        try:
            execution = Execution(self.gear_for(slot, rows), rows, 0, views, False, True)
            execution.in_place = self.find_registered(slot, execution.gear, views)
            for array in arrays:
                PyObject_GetBuffer(
                    array if self.interface.plain else bits_of(array), &targets[filled], PyBUF_WRITABLE
                )
                tensor = &slot.gears[execution.gear].outputs[filled]
                slot.copies[filled] = OutputCopy(
                    <char*>targets[filled].buf, tensor.offset, execution.rows * tensor.row_nbytes
                )
                filled += 1
            with nogil:
                rc = self.launch(slot, &execution)
                if rc == 0:
                    rc = self.complete(slot, &execution, -1, slot.copies, filled)
            if rc != 0:
                self.failed(slot, rc)
        finally:
            self.release(slot)
            release_buffers(targets, filled)
        return arrays

    cdef object _submit_rows(self, Py_buffer* views, Py_ssize_t rows, list wanted):
        """Chunks of the request on as many slots as are free; the oldest is awaited when none is."""
        cdef Submission submission = submitted(self, wanted)
        cdef SubmittedChunk chunk
        cdef Slot slot
        cdef Py_ssize_t first = 0
        cdef aclError rc
        submission.arrays = self.interface.empty_outputs(rows)
        for count in self.interface.split(rows):
            slot = self.take()
            while slot is None and submission.chunks:
                submission.settle(-1)
                slot = self.take()
            if slot is None:
                slot = self._wait()
            chunk = SubmittedChunk.__new__(SubmittedChunk)
            chunk.slot = slot
            chunk.execution = Execution(self.gear_for(slot, count), count, first, views, False, True)
            slot.submission = weakref.ref(submission)
            with nogil:
                rc = self.launch(slot, &chunk.execution)
            chunk.execution.views = NULL
            if rc != 0:
                try:
                    self.failed(slot, rc)
                finally:
                    self.release(slot)
            submission.chunks.append(chunk)
            first += count
        return future_of(submission)

    cdef object _submit_whole(self, Py_buffer* views, list wanted):
        """A request of a model that cannot be cut by rows: of one gear's shapes, padded to one, or of a range."""
        cdef Submission submission = submitted(self, wanted)
        cdef SubmittedChunk chunk = SubmittedChunk.__new__(SubmittedChunk)
        cdef tuple shapes = self.interface.shapes_of(views)
        cdef Slot slot
        cdef aclError rc
        gear, chunk.crop_shapes = self.interface.place(shapes)
        chunk.execution = Execution(gear, 0, 0, NULL, False, True)
        if chunk.crop_shapes is None:
            chunk.execution.views = views
        if self.interface.gear_shapes and chunk.crop_shapes is None:
            submission.arrays = self.interface.empty_whole(gear)
        chunk.slot = slot = self.acquire()
        try:
            if isinstance(slot, RangeSlot):
                (<RangeSlot>slot).prepare(shapes)
            if chunk.crop_shapes is not None:
                self.interface.pad(slot, gear, views, shapes)
            with nogil:
                rc = self.launch(slot, &chunk.execution)
            chunk.execution.views = NULL
            if rc != 0:
                self.failed(slot, rc)
        except BaseException:
            self.release(slot)
            raise
        submission.chunks.append(chunk)
        slot.submission = weakref.ref(submission)
        return future_of(submission)

    def request_inputs(self, list values, bint rows=False) -> RequestInputs:
        """See Engine.request_inputs."""
        return RequestInputs.__new__(RequestInputs, self.interface.layouts, values, rows or self.by_rows)

    # ---- registered memory ----

    cdef bint is_registered(self, size_t address, size_t nbytes) noexcept:
        """Whether the device may read and write there."""
        return any(first <= address and address + nbytes <= last for first, last in self.registered)

    cdef bint find_registered(self, Slot slot, int gear, Py_buffer* views) noexcept:
        """Whether every input fills its gear and lies in registered memory; then `slot.sources` has the addresses."""
        cdef int i
        if not self.registered:
            return False
        for i in range(slot.n_inputs):
            if <size_t>views[i].len != slot.gears[gear].inputs[i].nbytes:
                return False
            if not self.is_registered(<size_t>views[i].buf, views[i].len):
                return False
            slot.sources[i] = views[i].buf
        return True

    # ---- settings and figures ----

    def set_padding(self, dict output_axes, dict pad_values):
        """See ModelInterface.set_padding."""
        cdef DeviceSlots device
        self.interface.set_padding(output_axes, pad_values)
        for device in self.devices:
            for slot in device.slots:
                slot.set_pads(self.interface.pads)

    def sample_stages(self, int every):
        """See Engine.sample_stages."""
        cdef DeviceSlots device
        if self.samples == NULL:
            self.samples = <StageSample*>calloc(MOST_SAMPLES, sizeof(StageSample))
            if self.samples == NULL:
                raise MemoryError()
        for device in self.devices:
            for slot in device.slots:
                slot.sample(every)

    cdef void _keep_sample(self, StageSample* sample) noexcept nogil:
        pthread_mutex_lock(&self.sample_mutex)
        self.samples[(self.first_sample + self.n_samples) % MOST_SAMPLES] = sample[0]
        if self.n_samples < MOST_SAMPLES:
            self.n_samples += 1
        else:
            self.first_sample = (self.first_sample + 1) % MOST_SAMPLES
        pthread_mutex_unlock(&self.sample_mutex)

    def stage_samples(self) -> list:
        """See Engine.stage_samples."""
        cdef StageSample sample
        cdef bint found = True
        samples = []
        while found:
            pthread_mutex_lock(&self.sample_mutex)
            found = self.n_samples > 0
            if found:
                sample = self.samples[self.first_sample]
                self.first_sample = (self.first_sample + 1) % MOST_SAMPLES
                self.n_samples -= 1
            pthread_mutex_unlock(&self.sample_mutex)
            if found:
                samples.append(self._sample_dict(&sample))
        return samples

    cdef dict _sample_dict(self, StageSample* sample):
        cdef int64_t* at = sample.moments
        gears = self.description.gears
        device_us = [None if sample.device_ms[i] < 0 else sample.device_ms[i] * 1e3 for i in range(3)]
        return {
            "rows": sample.rows,
            "gear": gears[sample.gear] if gears else self.description.max_rows,
            "begin_ns": at[<int>BEGUN],
            "gather_ns": at[<int>GATHERED] - at[<int>BEGUN],
            "submit_ns": at[<int>SUBMITTED] - at[<int>GATHERED],
            "wait_ns": at[<int>AWAITED] - at[<int>SUBMITTED],
            "scatter_ns": at[<int>SCATTERED] - at[<int>AWAITED],
            "h2d_us": device_us[0],
            "execute_us": device_us[1],
            "d2h_us": device_us[2],
        }

    def handles(self, size_t rows, shapes=None) -> dict:
        """See Engine.native_handles."""
        cdef Slot slot
        cdef Gear* gear
        cdef int index
        if acl.forked or self.refusing:
            self._refuse()
        slot = (<DeviceSlots>self.devices[0]).slots[0]
        index = self.gear_for(slot, rows) if self.by_rows else slot.n_gears - 1
        inputs, outputs = self.description.inputs, self.description.outputs
        if shapes is not None:
            index = self.interface.gear_of(tuple([tuple(shapes[spec.name]) for spec in inputs]))
        gear = &slot.gears[index]
        if slot.current != index:
            with slot.context.bound():
                rc = slot._set_gear(index)
                check(rc, slot.call)
        return {
            "context": <size_t>slot.context.handle,
            "stream": <size_t>slot.stream.handle,
            "model_id": slot.model.id,
            "input_dataset": <size_t>gear.input,
            "output_dataset": <size_t>gear.output,
            "pinned_in": slot.pinned_input.address,
            "device_in": slot.device_input.address,
            "device_out": slot.device_output.address,
            "pinned_out": slot.pinned_output.address,
            "in_nbytes": gear.input_nbytes,
            "out_nbytes": gear.output_nbytes,
            "inputs": [(spec.name, gear.inputs[i].offset, gear.inputs[i].nbytes) for i, spec in enumerate(inputs)],
            "outputs": [(spec.name, gear.outputs[i].offset, gear.outputs[i].nbytes) for i, spec in enumerate(outputs)],
            "library": list(slot.context.runtime.files),
        }

    def stats(self) -> dict:
        """Counts since the session was opened, and the bytes it holds."""
        cdef DeviceSlots device
        slots = [slot for device in self.devices for slot in device.slots]
        weights = [device.weights.nbytes for device in self.devices if device.weights is not None]
        gears = self.description.gears or ((self.description.max_rows,) if self.description.max_rows else ("whole",))
        executions = [self.executions[i] for i in range(self.n_gears)]
        return {
            "executions": sum(executions),
            "executions_by_gear": dict(zip(map(str, gears), executions)),
            "rows": self.rows_run,
            "padded_rows": self.rows_padded,
            "slots": len(slots),
            "slots_free": self.pool.count(),
            "device_bytes": sum(map(budgets.charged, weights)) + sum(slot.device_bytes for slot in slots),
            "pinned_bytes": sum(slot.pinned_bytes for slot in slots),
            "unhealthy": self.unhealthy,
        }

    def _close_contexts(self):
        cdef DeviceSlots device
        if self.repairing:
            return
        for device in self.devices:
            device.slots = [slot for slot in device.slots if not slot.closed]
            if not device.slots and not device.context.abandoned_slots:
                device.weights = None
                device.context.close()

    def close(self, wait=True):
        """See InferenceSession.close."""
        cdef DeviceSlots device
        cdef Slot slot
        if self.closed:
            return
        self.closed = self.refusing = True
        _set_device_limit()
        for slot in [slot for device in self.devices for slot in device.slots]:
            submission = slot.submission()
            if submission is not None:
                submission.close(wait)
        first = None
        for index in range(len(self.devices)):
            self.pool.set_open(index, False)
            for slot in self._free_slots(index):
                try:
                    slot.close()
                except errors.AclError as error:
                    first = first or error
        self.pool.wake_all()
        self._close_contexts()
        if first is not None:
            raise first

    def __dealloc__(self):
        free(self.executions)
        free(self.samples)
        pthread_mutex_destroy(&self.sample_mutex)


def _set_device_limit():
    """Set the device's own operator limit, of which a process has one: the largest of the open sessions' limits.

    0, where a session has none, is the largest that the device knows (CANN 8.5, aclrtSetOpExecuteTimeOutWithMs).
    """
    global _device_limit
    limits = [executor.execute_limit() for executor in _open if not executor.closed]
    wanted = max(limits) if limits and min(limits) > 0 else 0
    if wanted != _device_limit:
        _device_limit = wanted
        api.aclrtSetOpExecuteTimeOutWithMs(wanted)


def _close_quietly(slot):
    try:
        slot.close()
    except errors.AclError:
        pass                           # its device failed before
