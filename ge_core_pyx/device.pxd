from ge_core_pyx.acl cimport aclError, aclrtContext, aclrtEvent, aclrtStream


cdef class Runtime:
    cdef readonly str kind
    cdef readonly tuple files
    cdef readonly int device_count
    cdef readonly str soc_name
    cdef readonly bint owns_init


cdef class Context:
    cdef aclrtContext handle
    cdef readonly Runtime runtime
    cdef readonly int device_id
    cdef object __weakref__

    cdef aclError enter(self, aclrtContext* previous) noexcept nogil
    cdef void leave(self, aclrtContext previous) noexcept nogil
    cdef aclError _release(self) noexcept


cdef class Stream:
    cdef aclrtStream handle
    cdef readonly Context context

    cdef aclError _release(self) noexcept


cdef class Event:
    cdef aclrtEvent handle
    cdef readonly Context context

    cdef aclError _release(self) noexcept


cpdef Runtime open_runtime(kind=*)
