from ge_core_pyx.acl cimport aclError
from ge_core_pyx.device cimport Context


cdef class DeviceBuffer:
    cdef void* ptr
    cdef readonly size_t nbytes
    cdef readonly Context context

    cdef aclError _release(self) noexcept


cdef class PinnedBuffer:
    cdef void* ptr
    cdef readonly size_t nbytes
    cdef readonly Context context

    cdef aclError _release(self) noexcept


cdef size_t padded(size_t nbytes) noexcept nogil
