# SPDX-License-Identifier: Apache-2.0
from libc.stdint cimport int64_t


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_mutex_init(pthread_mutex_t* mutex, void* attributes)
    int pthread_mutex_destroy(pthread_mutex_t* mutex)
    int pthread_mutex_lock(pthread_mutex_t* mutex)
    int pthread_mutex_unlock(pthread_mutex_t* mutex)


cdef struct Waiter:
    void* slot                         # what it was given; NULL while it waits
    bint woken                         # by wake_all: look again whether waiting still makes sense
    pthread_cond_t changed
    Waiter* next


cdef class SlotPool:
    cdef pthread_mutex_t mutex
    cdef int n_devices, capacity
    cdef void*** free                  # per device: a stack
    cdef int* n_free
    cdef bint* open                    # per device: whether slots may come back
    cdef Waiter* first
    cdef Waiter* last

    cdef void* _pop(self) noexcept nogil
    cdef void _unlink(self, Waiter* before, Waiter* waiter) noexcept nogil
    cdef void* take(self) noexcept nogil
    cdef void* join(self, Waiter* waiter) noexcept nogil
    cdef void* wait(self, Waiter* waiter, int64_t timeout_ms) noexcept nogil
    cdef void* leave(self, Waiter* waiter) noexcept nogil
    cdef bint give(self, void* slot, int device) noexcept nogil
    cdef void* drain(self, int device) noexcept nogil
    cdef void set_open(self, int device, bint open) noexcept nogil
    cdef void wake_all(self) noexcept nogil
    cdef int count(self) noexcept nogil
