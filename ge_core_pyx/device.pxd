# SPDX-License-Identifier: Apache-2.0
from ge_core_pyx cimport acl
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
    cdef public int abandoned_slots    # whose work never ended: memory they use must stay
    cdef object __weakref__

    cdef aclError enter(self, aclrtContext* previous) noexcept nogil
    cdef void leave(self, aclrtContext previous) noexcept nogil
    cdef aclError _release(self) noexcept


# Gives one object back with its context bound, counts it, and tells AscendCL's answer.
cdef aclError give_back(Context context, acl.Kind kind, aclError (*call)(void*) noexcept nogil, void* handle) noexcept


cdef class Stream:
    cdef aclrtStream handle
    cdef readonly Context context

    cdef aclError _release(self) noexcept


cdef class Event:
    cdef aclrtEvent handle
    cdef readonly Context context

    cdef aclError _release(self) noexcept


cpdef Runtime open_runtime(kind=*)
