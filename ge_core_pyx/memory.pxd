# SPDX-License-Identifier: Apache-2.0
from ge_core_pyx.acl cimport Kind, aclError
from ge_core_pyx.device cimport Context


cdef class Memory:
    cdef void* ptr
    cdef Kind kind
    cdef readonly size_t nbytes
    cdef readonly Context context

    cdef aclError _release(self) noexcept


cdef class DeviceBuffer(Memory):
    pass


cdef class PinnedBuffer(Memory):
    pass


cdef class HostRegistration:
    cdef Py_buffer view
    cdef bint pinned, held
    cdef tuple span
    cdef list contexts, ranges

    cdef void _release(self) noexcept


cpdef size_t padded(size_t nbytes) noexcept nogil
