# SPDX-License-Identifier: Apache-2.0
from ge_core_pyx.acl cimport aclError
from ge_core_pyx.slot cimport Slot


cdef class RangeSlot(Slot):
    cdef dict learnt_sizes             # input shapes → output bytes, learnt by running; shared by the slots of a model
    cdef bint bounded                  # every output's bound is small enough to be allocated at load
    cdef bint learning                 # the batch in flight runs synchronously, to learn its output sizes
    cdef tuple shapes                  # of its inputs
    cdef list least, capacities, output_shapes
    cdef object requests, answered, thread
    cdef aclError result

    cdef int prepare(self, tuple shapes) except -1
    cdef int _grow(self, list nbytes) except -1
    cdef int _fetch_output(self, int index, void* source) except -1
