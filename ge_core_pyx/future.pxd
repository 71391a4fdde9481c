# SPDX-License-Identifier: Apache-2.0
from libc.stdint cimport int64_t

from ge_core_pyx.acl cimport aclError
from ge_core_pyx.executor cimport Executor
from ge_core_pyx.slot cimport Execution, Slot


cdef class SubmittedChunk:
    cdef readonly Slot slot
    cdef Execution execution
    cdef tuple crop_shapes             # whole outputs cut back to these shapes; None: as they are


cdef class Submission:
    cdef Executor executor
    cdef list chunks                   # in flight, in the order they were started
    cdef list arrays                   # the outputs; None: of shapes that are known when the device is done
    cdef list wanted
    cdef object error, lock
    cdef object __weakref__

    cdef int settle(self, int64_t timeout_ms) except -1
    cdef aclError _complete(self, SubmittedChunk chunk, int64_t timeout_ms) except? -1


cdef Submission submitted(Executor executor, list wanted)
cdef object future_of(Submission submission)
