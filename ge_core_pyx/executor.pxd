from libc.stdint cimport int64_t

from ge_core_pyx.acl cimport aclError
from ge_core_pyx.device cimport Context
from ge_core_pyx.memory cimport DeviceBuffer
from ge_core_pyx.slot cimport Slot


cdef class Device:
    cdef readonly Context context
    cdef readonly list slots, free
    cdef readonly DeviceBuffer weights
    cdef readonly str unhealthy
    cdef bint sticky


cdef class Executor:
    cdef readonly list devices
    cdef readonly str path
    cdef readonly object description, budget
    cdef readonly bint closed
    cdef bint by_rows
    cdef list layouts, output_dtypes, split_table
    cdef tuple output_specs
    cdef dict input_index, output_index, plans_by_shapes, output_axes, known
    cdef object condition, sizes
    cdef int repairing                 # slots are being built or closed: the contexts must stay
    cdef object repair                 # lock: one thread at a time changes which slots there are
    cdef int waiters, slots_per_device, submit_timeout_ms, execute_timeout_ms
    cdef Py_ssize_t max_rows           # of the description
    cdef bint plain                    # every output dtype is one that NumPy has
    cdef bint exact_rows               # a static om: no other number of rows
    cdef list multiples                # of the description
    cdef Py_ssize_t shaped_rows        # what `shapes` is for
    cdef list shapes                   # of the outputs of the request before
    cdef bint refusing                 # closed, or no device is healthy: every call must say so
    cdef list registered               # pinned memory of the caller: (first address, address after the last)
    cdef long long rows_run, rows_padded
    cdef list pads                     # per input: 8 bytes of its pad value
    cdef list executions               # per plan
    cdef object samples                # of timed batches
    cdef object __weakref__

    cdef Slot take(self)
    cdef Slot acquire(self)
    cdef void release(self, Slot slot) noexcept
    cdef int failed(self, Slot slot, aclError rc) except -1
    cdef int _repaired(self) except -1
    cdef int plan_for(self, Slot slot, size_t rows) noexcept
    cdef int _sample(self, Slot slot, int plan, size_t rows) except -1
    cdef int _count(self, Slot slot, int plan, size_t rows) except -1
    cdef int _pad(self, Slot slot, int plan, Py_buffer* views, shapes) except -1
    cdef bint is_registered(self, size_t address, size_t nbytes) noexcept
    cdef bint _sources(self, Slot slot, int plan, Py_buffer* views, void** sources) noexcept
    cdef int _views(self, dict feeds, Py_buffer* views, int* filled) except -1
    cdef Py_ssize_t _rows_of(self, Py_buffer* views) except -1
    cdef list _arrays(self, Py_ssize_t rows)
    cdef object _run_part(self, Py_buffer* views, Py_ssize_t rows)
    cdef Future _submit_rows(self, Py_buffer* views, Py_ssize_t rows, list wanted)
    cdef Future _submit_whole(self, Py_buffer* views, list wanted)


cdef class Part:
    cdef readonly Slot slot
    cdef int plan
    cdef size_t first, rows            # rows 0: the whole tensors
    cdef tuple cut                     # whole outputs cut back to these shapes; None: as they are


cdef class Future:
    cdef Executor executor
    cdef list parts                    # in flight, in the order they were started
    cdef list arrays, wanted
    cdef object error, lock
    cdef object __weakref__

    cdef int settle(self, int64_t timeout_ms) except -1
    cdef int _copy_rows(self, Part part) except -1
