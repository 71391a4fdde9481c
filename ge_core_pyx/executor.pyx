"""Running batches on slots: from the caller's arrays to a device and back, at once or several in flight."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyObject_GetBuffer
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, api, check, refuse_fork, usable
from ge_core_pyx.arrays cimport InputLayout, buffers, release_buffers, view_of
from ge_core_pyx.device cimport Context
from ge_core_pyx.requests cimport RequestInputs
from ge_core_pyx.slot cimport SCATTERED, Plan, RangeSlot, Slot, Tensor

import collections
import concurrent.futures
import math
import threading
import time
import weakref

import numpy as np

from ge_core_pyx import errors, model
from ge_core_pyx import slot as slots_module
from ge_core_pyx.arrays import numpy_dtype

cdef object _empty = np.empty
cdef object _open = weakref.WeakSet()  # executors, for the operator time limit they share


cdef void copy_out(Slot slot, int index, Py_buffer* targets, size_t first, size_t rows) noexcept nogil:
    cdef Tensor* tensor
    cdef int i
    for i in range(slot.n_outputs):
        tensor = &slot.plans[index].outputs[i]
        memcpy(
            <char*>targets[i].buf + first * tensor.row_nbytes, <char*>slot.pinned_output.ptr + tensor.offset,
            rows * tensor.row_nbytes,
        )


def pad_bits(spec, value) -> int:
    """A pad value of an input's type, repeated to 8 bytes; a ValueError when the type cannot hold it."""
    name = "float32" if spec.dtype == "bfloat16" else spec.dtype
    try:
        with np.errstate(over="raise", invalid="raise"):
            element = np.array([value]).astype(name)
    except FloatingPointError:
        element = None
    if element is None or (element.dtype.kind in "iub" and element[0] != value):
        raise ValueError(f"pad_value: {value} is no {spec.dtype}, the type of input {spec.name!r}")
    raw = element.tobytes()[2:] if spec.dtype == "bfloat16" else element.tobytes()
    return int.from_bytes(raw * (8 // len(raw)), "little")


cdef tuple shape_of(Py_buffer* view):
    return tuple(view.shape[d] for d in range(view.ndim))


@cython.final
cdef class Device:
    """One device of a session: its context, its slots, and the weights they share."""

    def __cinit__(self, Context context):
        self.context = context
        self.slots = []
        self.free = []


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
        self.path = path
        self.slots_per_device = slots
        self.submit_timeout_ms = submit_timeout_ms
        self.execute_timeout_ms = execute_timeout_ms
        self.condition = threading.Condition()
        self.repair = threading.Lock()
        self.known = {}
        self.samples = collections.deque(maxlen=4096)
        self.registered = []
        self.output_axes = {}
        self.pads = []
        self.devices = [Device(Context(runtime, device_id)) for device_id in device_ids]
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self):
        cdef Device device
        cdef Slot slot
        context = (<Device>self.devices[0]).context
        self.description = model.describe(context, self.path)
        if len(self.description.reserved) > bool(self.description.gears):
            raise errors.UnsupportedError(
                f"{self.path} was compiled with dynamic AIPP, whose parameters ge_core has no way to take yet; compile "
                "it with static AIPP"
            )
        if self.description.gear_kind != "range":
            self.sizes = model.query_size(context, self.path)
            self.budget = slots_module.budget(self.description, self.sizes, self.slots_per_device)
            for device in self.devices:
                free, total = device.context.memory_info()
                if self.budget.device_bytes > free:
                    raise errors.DeviceMemoryError(
                        f"{self.path} needs {self.budget} on device {device.context.device_id}, where {free:,} of "
                        f"{total:,} bytes are free: use fewer slots, smaller gears, or another device"
                    )
        for index in range(len(self.devices)):
            for _ in range(self.slots_per_device):
                self._add_slot(index)
        slot = (<Device>self.devices[0]).slots[0]
        self.description = slot.description
        self.by_rows = self.description.max_rows > 0
        self.layouts = [InputLayout(spec) for spec in self.description.inputs]
        self.output_specs = self.description.outputs
        self.output_dtypes = [numpy_dtype(spec) for spec in self.output_specs]
        self.plain = all(spec.dtype != "bfloat16" for spec in self.output_specs)
        self.input_index = _index(self.description.inputs)
        self.output_index = _index(self.output_specs)
        self.max_rows = self.description.max_rows
        self.exact_rows = self.max_rows > 0 and self.description.gear_kind == "static"
        self.multiples = list(self.description.row_multiples)
        self.shaped_rows = -1
        self.plans_by_shapes = {gear[0]: i for i, gear in enumerate(slot.gears)}
        self.executions = [0] * slot.n_plans
        _open.add(self)
        limits = [executor.execute_limit() for executor in _open if not executor.closed]
        if min(limits) > 0:            # the device's own limit is one for the process
            api.aclrtSetOpExecuteTimeOutWithMs(max(limits))

    def execute_limit(self) -> int:
        return self.execute_timeout_ms

    def _add_slot(self, int index):
        cdef Device device = self.devices[index]
        cdef Slot slot = slots_module.make(
            device.context, self.path, self.description, self.sizes, device.weights, self.execute_timeout_ms, self.known
        )
        if self.closed:                # while it was built
            slot.close()
            return
        slot.device = index
        slot.set_pads(self.pads)
        device.weights = slot.model.weights
        device.slots.append(slot)
        device.free.append(slot)

    # ---- slots ----

    cdef Slot take(self):
        """A free slot of the device with the most of them; None when all are busy."""
        cdef Device device, best
        cdef Slot slot
        cdef aclError rc
        while True:
            best = self.devices[0]
            if len(self.devices) > 1:
                for device in self.devices:
                    if len(device.free) > len(best.free):
                        best = device
            if not best.free:
                return None
            slot = best.free.pop()
            if not slot.in_flight:
                return slot
            with nogil:                # the future that started it died: let it end first
                rc = slot.finish(-1)
            if rc == 0:
                return slot
            try:
                self.failed(slot, rc)
            except Exception:          # the error of a result that nobody waits for
                if self.refusing:
                    self._refuse()
            if not slot.failed:
                return slot

    cdef Slot acquire(self):
        if acl.forked or self.refusing:
            self._refuse()
        slot = self.take()
        return self._wait() if slot is None else slot

    def _refuse(self):
        refuse_fork()
        if self.closed:
            raise RuntimeError(f"the session of {self.path} is closed")
        raise errors.NotRunningError(
            f"the session of {self.path} no longer runs after a device error: {self.unhealthy}. Call recover(), or "
            "close it and open a new one; if that fails too, end the process."
        )

    def _wait(self):
        cdef Slot slot
        deadline = None if self.submit_timeout_ms < 0 else time.monotonic() + self.submit_timeout_ms / 1000
        with self.condition:
            self.waiters += 1
            try:
                while True:
                    if acl.forked or self.refusing:
                        self._refuse()
                    slot = self.take()
                    if slot is not None:
                        return slot
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        count = self.slots_per_device * len(self.devices)
                        raise TimeoutError(
                            f"no free slot within {self.submit_timeout_ms} ms: all {count} are in flight or held by "
                            "borrowed batches; raise slots or submit_timeout_ms, or close batches and drop their views"
                        )
                    self.condition.wait(left)
            finally:
                self.waiters -= 1

    cdef void release(self, Slot slot) noexcept:
        cdef Device device
        if slot.failed:
            return                     # retired: failed() replaced it
        if self.closed:
            slot.close()
            self._close_contexts()
            return
        device = <Device>self.devices[slot.device]
        if device.unhealthy is not None:
            device.slots.remove(slot)
            _close_quietly(slot)
            return
        device.free.append(slot)
        if self.waiters:
            with self.condition:
                self.condition.notify()

    cdef int failed(self, Slot slot, aclError rc) except -1:
        """After a failed call: keep the slot if only the call was refused, else retire it; raise the error."""
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
        cdef Device device = self.devices[slot.device]
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
                while device.free:     # no new work for this device
                    other = device.free.pop()
                    device.slots.remove(other)
                    _close_quietly(other)
        finally:
            self.repair.release()
            self._repaired()
        self.refusing = self.closed or self.unhealthy is not None
        with self.condition:
            self.condition.notify_all()

    cdef int _repaired(self) except -1:
        """What close() had to leave to a repair that was under way."""
        self.repairing -= 1
        if self.closed:
            self._close_contexts()
        return 0

    @property
    def unhealthy(self):
        """Why no call can run: the error of a device, once every device has one; else None."""
        cdef Device device
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
        with self.condition:
            self.condition.notify_all()

    def _recover(self):
        cdef Device device
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
            if slots_module.abandoned(device.context):
                raise errors.UnsupportedError(
                    f"work on device {device.context.device_id} has still not ended ({device.unhealthy}); try again "
                    "later, or end the process"
                )
            while len(device.slots) < self.slots_per_device and not self.closed:
                self._add_slot(index)
            device.unhealthy = None
        self.refusing = self.closed

    # ---- requests ----

    cdef int _views(self, dict feeds, Py_buffer* views, int* filled) except -1:
        """A C-contiguous view of every input, of the right dtype and rank."""
        cdef InputLayout source
        if len(feeds) != len(self.layouts):
            self._refuse_names(feeds)
        for source in self.layouts:
            value = feeds.get(source.name)
            if value is None:
                value = feeds.get(source.full_name)
                if value is None:
                    self._refuse_names(feeds)
            source.view(value, &views[filled[0]])
            filled[0] += 1
        return 0

    cdef Py_ssize_t _rows_of(self, Py_buffer* views) except -1:
        """The rows of a request, the same for every input."""
        cdef InputLayout source
        cdef int i = 0
        for source in self.layouts:
            source.check_row(&views[i])
            if views[i].shape[0] != views[0].shape[0]:
                raise ValueError(
                    f"input {source.name!r} has {views[i].shape[0]} rows, but {(<InputLayout>self.layouts[0]).name!r} has "
                    f"{views[0].shape[0]}; all inputs of a call have the same number of rows"
                )
            i += 1
        if self.exact_rows and views[0].shape[0] != self.max_rows:
            raise ValueError(
                f"this static om takes exactly {self.max_rows} row(s) per run, got {views[0].shape[0]}; "
                "pad them, or compile batch gears"
            )
        return views[0].shape[0]

    cdef list _arrays(self, Py_ssize_t rows):
        cdef int i
        cdef list arrays = [], shapes
        if rows != self.shaped_rows:
            shapes = [
                (rows * self.multiples[i], *self.output_specs[i].shape[1:]) for i in range(len(self.output_specs))
            ]
            self.shapes, self.shaped_rows = shapes, rows
        else:
            shapes = self.shapes
        for i in range(len(shapes)):
            arrays.append(_empty(shapes[i], self.output_dtypes[i]))
        return arrays

    def _wanted(self, names):
        if names is None:
            return None
        if isinstance(names, str):
            names = [names]
        wanted = []
        for name in names:
            index = self.output_index.get(name)
            if index is None:
                raise ValueError(f"no output {name!r}; this model has {listed(self.output_specs)}")
            wanted.append(index)
        return wanted

    def _refuse_names(self, feeds):
        specs = self.description.inputs
        known = {name for spec in specs for name in (spec.name, spec.full_name)}
        unknown = [name for name in feeds if name not in known]
        missing = [spec.name for spec in specs if feeds.get(spec.name) is None and feeds.get(spec.full_name) is None]
        problems = [f"unknown input {name!r}" for name in unknown] + [f"missing input {name!r}" for name in missing]
        raise ValueError(f"{'; '.join(problems) or 'an input is given twice'}; this model has {listed(specs)}")

    def run(self, names, inputs):
        """See InferenceSession.run."""
        cdef dict feeds = inputs if type(inputs) is dict else _mapping(inputs)
        cdef Py_buffer* views
        cdef Py_ssize_t rows
        cdef int filled = 0
        if acl.forked or self.refusing:
            self._refuse()
        wanted = self._wanted(names)
        views = buffers(len(self.layouts))
        try:
            self._views(feeds, views, &filled)
            if self.max_rows == 0:
                return self._submit_whole(views, wanted).result()
            rows = self._rows_of(views)
            if rows <= self.max_rows and self.split_table is None:
                arrays = self._run_part(views, rows)
                return arrays if wanted is None else [arrays[i] for i in wanted]
            return self._submit_rows(views, rows, wanted).result()
        finally:
            release_buffers(views, filled)

    def submit(self, names, inputs):
        """See InferenceSession.submit."""
        cdef dict feeds
        cdef Py_buffer* views
        cdef int filled = 0
        if acl.forked or self.refusing:
            self._refuse()
        wanted = self._wanted(names)
        if type(inputs) is RequestInputs:
            views = (<RequestInputs>inputs).views
            if self.description.max_rows == 0:
                return self._submit_whole(views, wanted)
            return self._submit_rows(views, self._rows_of(views), wanted)
        feeds = inputs if type(inputs) is dict else _mapping(inputs)
        views = buffers(len(self.layouts))
        try:
            self._views(feeds, views, &filled)
            if self.max_rows == 0:
                return self._submit_whole(views, wanted)
            return self._submit_rows(views, self._rows_of(views), wanted)
        finally:
            release_buffers(views, filled)

    cdef object _run_part(self, Py_buffer* views, Py_ssize_t rows):
        """One batch that fits a gear, from start to end in one block without the GIL."""
        cdef Slot slot
        cdef int plan, n_outputs = len(self.output_specs), filled = 0
        cdef void** sources
        cdef void* addresses[128]
        cdef aclError rc
        cdef Py_buffer* targets
        arrays = self._arrays(rows)
        if rows == 0:
            return arrays
        targets = buffers(n_outputs)
        slot = self.acquire()
        try:
            for array in arrays:
                PyObject_GetBuffer(array if self.plain else _bits(array), &targets[filled], PyBUF_WRITABLE)
                filled += 1
            plan = self.plan_for(slot, rows)
            sources = addresses if self.registered and self._sources(slot, plan, views, addresses) else NULL
            with nogil:
                slot.begin()
                rc = slot.start(plan, rows, views if sources == NULL else NULL, 0, sources, True)
                if rc == 0:
                    rc = slot.finish(-1)
                if rc == 0:
                    copy_out(slot, plan, targets, 0, rows)
            self._count(slot, plan, rows)
            if slot.sampling and rc == 0:
                self._sample(slot, plan, rows)
            if rc != 0:
                self.failed(slot, rc)
        finally:
            self.release(slot)
            release_buffers(targets, filled)
        return arrays

    cdef int _count(self, Slot slot, int plan, size_t rows) except -1:
        self.executions[plan] += 1
        self.rows_run += rows
        if slot.plans[plan].rows > rows > 0:
            self.rows_padded += slot.plans[plan].rows - rows
        return 0

    cdef int _sample(self, Slot slot, int plan, size_t rows) except -1:
        """Keep the times of the batch that just ended."""
        slot.mark(SCATTERED)
        slot.sampling = False
        gears = self.description.gears
        self.samples.append({"rows": rows, "gear": gears[plan] if gears else slot.plans[plan].rows, **slot.stages()})
        return 0

    def sample_stages(self, int every):
        """See Engine.sample_stages."""
        cdef Device device
        for device in self.devices:
            for slot in device.slots:
                slot.sample(every)

    def stage_samples(self) -> list:
        """See Engine.stage_samples."""
        taken = []
        while self.samples:
            taken.append(self.samples.popleft())
        return taken

    cdef int plan_for(self, Slot slot, size_t rows) noexcept:
        """The smallest gear that holds `rows`; the largest when none does."""
        cdef int i
        for i in range(slot.n_plans):
            if slot.plans[i].rows >= rows:
                return i
        return slot.n_plans - 1

    cdef Future _submit_rows(self, Py_buffer* views, Py_ssize_t rows, list wanted):
        """Parts of the request on as many slots as are free; the oldest is awaited when none is."""
        cdef Future future = Future.__new__(Future)
        cdef Part part
        cdef Slot slot
        cdef Py_ssize_t first = 0
        cdef aclError rc
        future.executor = self
        future.parts = []
        future.arrays = self._arrays(rows)
        future.wanted = wanted
        future.lock = threading.Lock()
        for count in self._cut(rows):
            slot = self.take()
            while slot is None and future.parts:
                future.settle(-1)
                slot = self.take()
            if slot is None:
                slot = self._wait()
            part = Part.__new__(Part)
            part.slot = slot
            slot.future = weakref.ref(future)
            part.plan = self.plan_for(slot, count)
            part.first = first
            part.rows = count
            with nogil:
                slot.begin()
                rc = slot.start(part.plan, part.rows, views, part.first, NULL, True)
            self._count(slot, part.plan, part.rows)
            if rc != 0:
                try:
                    self.failed(slot, rc)
                finally:
                    self.release(slot)
            future.parts.append(part)
            first += count
        return future

    def _cut(self, Py_ssize_t rows):
        """How many rows each execution of a request takes."""
        cdef Py_ssize_t largest = self.max_rows
        full, rest = divmod(rows, largest)
        if self.split_table is not None:
            return self.split_table[largest] * full + self.split_table[rest]
        return [largest] * full + ([rest] if rest else [])

    def set_padding(self, dict output_axes, dict pad_values):
        """Which output axis follows which input axis, and what padded places of the inputs hold."""
        cdef Device device
        self.output_axes = output_axes
        self.pads = [pad_bits(spec, pad_values.get(spec.name, 0)) for spec in self.description.inputs]
        for device in self.devices:
            for slot in device.slots:
                slot.set_pads(self.pads)

    def set_split_table(self, table):
        """`table[n]`: the executions that n rows, up to the largest gear, are cut into; None: one, the smallest."""
        self.split_table = table

    cdef Future _submit_whole(self, Py_buffer* views, list wanted):
        """A request of a model that cannot be cut by rows: of one gear's shapes, padded to one, or of a range."""
        cdef Future future = Future.__new__(Future)
        cdef Part part = Part.__new__(Part)
        cdef Slot slot
        cdef aclError rc
        cdef int i
        shapes = tuple(shape_of(&views[i]) for i in range(len(self.layouts)))
        part.plan, part.cut = self._place(shapes)
        slot = self.acquire()
        part.slot = slot
        try:
            if isinstance(slot, RangeSlot):
                (<RangeSlot>slot).prepare(shapes)
            if part.cut is not None:
                self._pad(slot, part.plan, views, shapes)
            with nogil:
                rc = slot.start(part.plan, 0, views if part.cut is None else NULL, 0, NULL, True)
            self._count(slot, part.plan, 0)
            if rc != 0:
                self.failed(slot, rc)
        except BaseException:
            self.release(slot)
            raise
        future.executor = self
        future.parts = [part]
        future.wanted = wanted
        future.lock = threading.Lock()
        slot.future = weakref.ref(future)
        return future

    def _place(self, shapes):
        """(plan, shapes the outputs are cut back to) for a request of these input shapes."""
        cdef Slot slot
        description = self.description
        if description.gear_kind == "range":
            for spec, shape, limits in zip(description.inputs, shapes, description.ranges):
                for size, (low, high) in zip(shape, limits):
                    if size < low or (high is not None and size > high):
                        text = ", ".join(f"{a}~{'' if b is None else b}" if a != b else str(a) for a, b in limits)
                        raise ValueError(
                            f"input {spec.name!r}: expected {spec.dtype}[{text}], got {spec.dtype}{list(shape)}"
                        )
            return 0, None
        plan = self.plans_by_shapes.get(shapes)
        if plan is not None:
            return plan, None
        slot = next(slot for device in self.devices for slot in device.slots)
        gears = [gear[0] for gear in slot.gears]
        if self.output_axes:
            fitting = [
                (sum(map(math.prod, gear)), i) for i, gear in enumerate(gears)
                if all(a <= b for shape, full in zip(shapes, gear) for a, b in zip(shape, full))
            ]
            if fitting:
                plan = min(fitting)[1]
                return plan, self._cut_shapes(shapes, gears[plan], slot.gears[plan][1])
        known = " or ".join(str(list(gear)) for gear in gears)
        why = "none is as large" if self.output_axes else "declare output_axes to have it padded"
        if description.gear_kind in ("static", "batch"):
            why = description.not_rows
        raise ValueError(f"the om takes input shapes {known}, got {list(shapes)} ({why})")

    def _cut_shapes(self, shapes, gear, output_shapes):
        inputs = {spec.name: (shape, full) for spec, shape, full in zip(self.description.inputs, shapes, gear)}
        cut = []
        for spec, full in zip(self.output_specs, output_shapes):
            result = list(full)
            for axis, (name, input_axis) in self.output_axes.get(spec.name, {}).items():
                shape, padded_shape = inputs[name]
                result[axis] = full[axis] * shape[input_axis] // padded_shape[input_axis]
            cut.append(tuple(result))
        return tuple(cut)

    cdef int _pad(self, Slot slot, int plan, Py_buffer* views, shapes) except -1:
        cdef int i
        for i, (spec, shape) in enumerate(zip(self.description.inputs, shapes)):
            full = slot.gears[plan][0][i]
            dtype = np.dtype(spec.dtype if spec.dtype != "bfloat16" else "uint16")
            target = view_of(slot, <char*>slot.pinned_input.ptr + slot.plans[plan].inputs[i].offset, full, dtype, False)
            source = view_of(slot, views[i].buf, shape, dtype, True)
            target[...] = np.frombuffer(self.pads[i].to_bytes(8, "little"), dtype, 1)[0]
            target[tuple(map(slice, shape))] = source
        return 0

    cdef bint _sources(self, Slot slot, int plan, Py_buffer* views, void** sources) noexcept:
        """Whether every input fills its gear and lies in registered memory, so that the device can read it in place."""
        cdef int i
        for i in range(slot.n_inputs):
            if <size_t>views[i].len != slot.plans[plan].inputs[i].nbytes:
                return False
            if not self.is_registered(<size_t>views[i].buf, views[i].len):
                return False
            sources[i] = views[i].buf
        return True

    cdef bint is_registered(self, size_t address, size_t nbytes) noexcept:
        """Whether the device may read and write there."""
        return any(first <= address and address + nbytes <= last for first, last in self.registered)

    def request_inputs(self, list values, bint rows=False) -> RequestInputs:
        """See Engine.request_inputs."""
        return RequestInputs.__new__(RequestInputs, self.layouts, values, rows or self.by_rows)

    def handles(self, size_t rows, shapes=None) -> dict:
        """Addresses of the first slot for calls from outside (the bench's C path); keep the session idle meanwhile."""
        cdef Slot slot
        if acl.forked or self.refusing:
            self._refuse()
        slot = (<Device>self.devices[0]).slots[0]
        cdef int plan = self.plan_for(slot, rows) if self.max_rows > 0 else slot.n_plans - 1
        if shapes is not None:
            asked = tuple(tuple(shapes[spec.name]) for spec in self.description.inputs)
            if asked not in self.plans_by_shapes:
                known = " or ".join(str(list(gear)) for gear in self.plans_by_shapes) or "none of a range"
                raise ValueError(f"shapes: expected the input shapes of a gear, {known}, got {list(asked)}")
            plan = self.plans_by_shapes[asked]
        cdef Plan* p = &slot.plans[plan]
        if slot.current != plan:
            with slot.context.bound():
                rc = slot._set_gear(plan)
                check(rc, slot.call)
        return {
            "context": <size_t>slot.context.handle,
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
            "library": list(slot.context.runtime.files),
        }

    def stats(self) -> dict:
        """Counts since the session was opened, and the bytes it holds."""
        cdef Device device
        slots = [slot for device in self.devices for slot in device.slots]
        weights = [device.weights.nbytes for device in self.devices if device.weights is not None]
        gears = self.description.gears or ((self.description.max_rows,) if self.description.max_rows else ("whole",))
        return {
            "executions": sum(self.executions),
            "executions_by_gear": dict(zip(map(str, gears), self.executions)),
            "rows": self.rows_run,
            "padded_rows": self.rows_padded,
            "slots": len(slots),
            "slots_free": sum(len(device.free) for device in self.devices),
            "device_bytes": sum(map(slots_module.charged, weights)) + sum(slot.device_bytes for slot in slots),
            "pinned_bytes": sum(slot.pinned_bytes for slot in slots),
            "unhealthy": self.unhealthy,
        }

    def _close_contexts(self):
        cdef Device device
        if self.repairing:
            return
        for device in self.devices:
            device.slots = [slot for slot in device.slots if not slot.closed]
            if not device.slots and not slots_module.abandoned(device.context):
                device.weights = None
                device.context.close()

    def close(self, wait=True):
        """See InferenceSession.close."""
        cdef Device device
        cdef Future future
        cdef Slot slot
        if self.closed:
            return
        self.closed = self.refusing = True
        for slot in [slot for device in self.devices for slot in device.slots]:
            future = None if slot.future is None else slot.future()
            if future is not None:
                future._closing(wait)
        with self.condition:
            self.condition.notify_all()
        first = None
        for device in self.devices:
            while device.free:
                try:
                    device.free.pop().close()
                except errors.AclError as error:
                    first = first or error
        self._close_contexts()
        if first is not None:
            raise first


def _close_quietly(slot):
    try:
        slot.close()
    except errors.AclError:
        pass                           # its device failed before


def _mapping(inputs):
    if not hasattr(inputs, "keys"):
        raise TypeError(f"expected a mapping of input name to array, got {type(inputs).__name__}")
    return {name: inputs[name] for name in inputs.keys()}


def whole_ms(timeout):
    """A time limit in whole milliseconds; -1: none."""
    if timeout is None:
        return -1
    if not isinstance(timeout, (int, float)) or timeout != timeout:
        raise TypeError(f"timeout: expected seconds or None, got {timeout!r}")
    return max(0, round(min(timeout, 1e9) * 1000))


cdef object _bits(array):
    """bfloat16 arrays lend no buffer: their bits do."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _index(specs):
    index = {}
    for i, spec in enumerate(specs):
        index[spec.full_name] = i
        index[spec.name] = i
    return index


def listed(specs):
    return ", ".join(str(spec) for spec in specs) or "none"


@cython.final
cdef class Part:
    """One execution of a request."""


@cython.final
cdef class Future:
    """A submitted request. It keeps its slots until result() returned or it died."""

    cdef int settle(self, int64_t timeout_ms) except -1:
        """Await the oldest part, copy its rows out and give its slot back. On an error, give the others back too."""
        cdef Part part = self.parts[0]
        cdef Slot slot = part.slot
        cdef aclError rc
        with nogil:
            rc = slot.finish(timeout_ms)
        if rc == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT and timeout_ms >= 0 and not slot.expired():
            raise TimeoutError(f"no result within {timeout_ms} ms; the request is still running")
        try:
            if rc != 0:
                self.executor.failed(slot, rc)
            if part.rows == 0:
                self.arrays = self._whole(part)
            else:
                self._copy_rows(part)
        except Exception as error:     # after an interrupt result() can be asked again
            self.error = error
            for part in self.parts:    # the others' work ends by itself; whoever takes the slot next awaits it
                self.executor.release(part.slot)
            self.parts = []
            raise
        self.parts.pop(0)
        self.executor.release(slot)
        return 0

    cdef int _copy_rows(self, Part part) except -1:
        cdef Slot slot = part.slot
        cdef Py_buffer* targets = buffers(slot.n_outputs)
        cdef int filled = 0
        try:
            for array in self.arrays:
                PyObject_GetBuffer(_bits(array), &targets[filled], PyBUF_WRITABLE)
                filled += 1
            with nogil:
                copy_out(slot, part.plan, targets, part.first, part.rows)
            if slot.sampling:
                self.executor._sample(slot, part.plan, part.rows)
        finally:
            release_buffers(targets, filled)
        return 0

    def _whole(self, Part part):
        cdef Slot slot = part.slot
        cdef Plan* plan = &slot.plans[part.plan]
        if isinstance(slot, RangeSlot):
            shapes = (<RangeSlot>slot).output_shapes
        else:
            shapes = slot.gears[part.plan][1]
        arrays = []
        for i, (shape, dtype) in enumerate(zip(shapes, self.executor.output_dtypes)):
            array = view_of(None, <char*>slot.pinned_output.ptr + plan.outputs[i].offset, shape, dtype, True)
            if part.cut is not None:
                array = array[tuple(map(slice, part.cut[i]))]
            arrays.append(array.copy())
        return arrays

    def result(self, timeout=None) -> list:
        """Wait for the outputs.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None waits for ever (or the session's execute_timeout_ms).

        Returns
        -------
        list of ndarray
            As run() returns them.

        Raises
        ------
        TimeoutError
            Not done yet; ask again.
        AclError
            The device failed. CancelledError: the session was closed with wait=False.
        """
        limit_ms = whole_ms(timeout)
        deadline = None if limit_ms < 0 else time.monotonic() + limit_ms / 1000
        if not self.lock.acquire(timeout=-1 if limit_ms < 0 else min(limit_ms / 1000, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"no result within {timeout} s; another thread is waiting for it")
        try:
            while self.parts:
                refuse_fork()
                left = -1 if deadline is None else max(0, round((deadline - time.monotonic()) * 1000))
                self.settle(left)
            if self.error is not None:
                raise self.error
            return self.arrays if self.wanted is None else [self.arrays[i] for i in self.wanted]
        finally:
            self.lock.release()

    def exception(self, timeout=None):
        """The error of the request, None when it has none; waits as result() does."""
        try:
            self.result(timeout)
        except Exception as error:
            if error is self.error:
                return error
            raise
        return None

    def done(self) -> bool:
        """Whether result() would return at once. Does not block."""
        cdef Part part
        return all(part.slot.done() for part in list(self.parts))

    def _closing(self, wait):
        """The session is being closed: get the result now, or give it up (unless a thread is waiting for it)."""
        cdef Part part
        if not self.lock.acquire(blocking=wait):
            return
        try:
            if wait:
                try:
                    while self.parts:
                        self.settle(-1)
                except errors.AclError:
                    pass               # result() raises it
            elif self.parts:
                self.error = concurrent.futures.CancelledError(f"the session of {self.executor.path} was closed")
                parts, self.parts = self.parts, []
                for part in parts:
                    self.executor.release(part.slot)
        finally:
            self.lock.release()

    def __dealloc__(self):
        cdef Part part
        if self.parts and usable():
            for part in self.parts:
                self.executor.release(part.slot)
