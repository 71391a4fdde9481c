# SPDX-License-Identifier: Apache-2.0
from libc.stdint cimport int64_t

from ge_core_pyx.acl cimport aclError
from ge_core_pyx.device cimport Context
from ge_core_pyx.memory cimport DeviceBuffer
from ge_core_pyx.requests cimport ModelInterface
from ge_core_pyx.slot cimport Execution, OutputCopy, Slot, StageSample
from ge_core_pyx.slot_pool cimport SlotPool, pthread_mutex_t


cdef class DeviceSlots:
    cdef readonly Context context
    cdef readonly list slots
    cdef readonly DeviceBuffer weights
    cdef readonly str unhealthy
    cdef bint sticky


cdef class Executor:
    cdef readonly list devices
    cdef readonly str path
    cdef readonly object description, budget
    cdef readonly ModelInterface interface
    cdef readonly bint closed
    cdef readonly list registered      # memory of the caller that devices read: (first address, address after the last)
    cdef bint by_rows
    cdef bint refusing                 # closed, or no device is healthy: every call must say so
    cdef SlotPool pool
    cdef dict learnt_sizes             # see RangeSlot
    cdef object sizes
    cdef int repairing                 # slots are being built or closed: the contexts must stay
    cdef object repair                 # lock: one thread at a time changes which slots there are
    cdef int slots_per_device, submit_timeout_ms, execute_timeout_ms
    cdef int n_gears
    cdef long long* executions         # per gear
    cdef long long rows_run, rows_padded
    cdef pthread_mutex_t sample_mutex
    cdef StageSample* samples          # a ring of the newest
    cdef int n_samples, first_sample
    cdef object __weakref__

    # The sequence of a batch. No call of it needs the GIL for a static or gear model unless something fails.
    cdef void* acquire_slot(self, int64_t timeout_ms) noexcept nogil
    cdef aclError launch(self, Slot slot, Execution* execution) noexcept nogil
    cdef aclError complete(
        self, Slot slot, Execution* execution, int64_t timeout_ms, OutputCopy* copies, int count
    ) noexcept nogil
    cdef void release(self, Slot slot) noexcept nogil
    cdef int gear_for(self, Slot slot, size_t rows) noexcept nogil
    cdef int failed(self, Slot slot, aclError rc) except -1

    cdef Slot take(self)
    cdef Slot acquire(self)
    cdef bint _settled(self, Slot slot) noexcept nogil
    cdef bint _survived(self, Slot slot, aclError rc) noexcept
    cdef void _keep_sample(self, StageSample* sample) noexcept nogil
    cdef dict _sample_dict(self, StageSample* sample)
    cdef int _repaired(self) except -1
    cdef bint is_registered(self, size_t address, size_t nbytes) noexcept
    cdef bint find_registered(self, Slot slot, int gear, Py_buffer* views) noexcept
    cdef list _run_at_once(self, Py_buffer* views, Py_ssize_t rows)
    cdef object _submit(self, Py_buffer* views, list wanted)
    cdef object _submit_rows(self, Py_buffer* views, Py_ssize_t rows, list wanted)
    cdef object _submit_whole(self, Py_buffer* views, list wanted)
