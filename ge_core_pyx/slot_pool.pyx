# SPDX-License-Identifier: Apache-2.0
"""The free slots of a session and the threads that wait for one, in C fields: no call here needs the GIL.

Slots are borrowed pointers; `executor.Device.slots` keeps the objects alive. A slot that comes back goes to whoever has
waited longest, and never to a thread that asks later.
"""

cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <time.h>

    static inline void ge_core_cond_init(pthread_cond_t *cond) {
      pthread_condattr_t attributes;
      pthread_condattr_init(&attributes);
      pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
      pthread_cond_init(cond, &attributes);
      pthread_condattr_destroy(&attributes);
    }

    typedef struct timespec ge_core_time;

    static inline ge_core_time ge_core_deadline(int64_t timeout_ms) {
      ge_core_time t;
      clock_gettime(CLOCK_MONOTONIC, &t);
      t.tv_sec += timeout_ms / 1000;
      t.tv_nsec += timeout_ms % 1000 * 1000000;
      if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
      }
      return t;
    }
    """
    ctypedef struct ge_core_time:
        pass
    void ge_core_cond_init(pthread_cond_t* cond) noexcept nogil
    ge_core_time ge_core_deadline(int64_t timeout_ms) noexcept nogil

cdef extern from "<pthread.h>" nogil:
    int pthread_cond_destroy(pthread_cond_t* cond)
    int pthread_cond_wait(pthread_cond_t* cond, pthread_mutex_t* mutex)
    int pthread_cond_timedwait(pthread_cond_t* cond, pthread_mutex_t* mutex, ge_core_time* until)
    int pthread_cond_signal(pthread_cond_t* cond)


@cython.final
cdef class SlotPool:
    """Free slots of several devices.

    Parameters
    ----------
    devices : int
    capacity : int
        Slots of each device, at most.
    """

    def __cinit__(self, int devices, int capacity):
        cdef int device
        pthread_mutex_init(&self.mutex, NULL)
        self.n_devices, self.capacity = devices, capacity
        self.free = <void***>calloc(devices, sizeof(void**))
        self.n_free = <int*>calloc(devices, sizeof(int))
        self.open = <bint*>calloc(devices, sizeof(bint))
        if self.free == NULL or self.n_free == NULL or self.open == NULL:
            raise MemoryError()
        for device in range(devices):
            self.free[device] = <void**>calloc(capacity, sizeof(void*))
            if self.free[device] == NULL:
                raise MemoryError()
            self.open[device] = True

    cdef void* _pop(self) noexcept nogil:
        """A free slot of the device that has the most of them; NULL when all are busy. The mutex is held."""
        cdef int device, best = 0
        for device in range(1, self.n_devices):
            if self.n_free[device] > self.n_free[best]:
                best = device
        if self.n_free[best] == 0:
            return NULL
        self.n_free[best] -= 1
        return self.free[best][self.n_free[best]]

    cdef void* take(self) noexcept nogil:
        """A free slot, or NULL. Does not wait."""
        cdef void* slot
        pthread_mutex_lock(&self.mutex)
        slot = self._pop()
        pthread_mutex_unlock(&self.mutex)
        return slot

    cdef void* join(self, Waiter* waiter) noexcept nogil:
        """A free slot; or NULL, and the waiter stands in the queue until wait() returns a slot or leave() is called."""
        cdef void* slot
        pthread_mutex_lock(&self.mutex)
        slot = self._pop()
        if slot == NULL:
            waiter.slot = waiter.next = NULL
            waiter.woken = False
            ge_core_cond_init(&waiter.changed)
            if self.last == NULL:
                self.first = waiter
            else:
                self.last.next = waiter
            self.last = waiter
        pthread_mutex_unlock(&self.mutex)
        return slot

    cdef void* wait(self, Waiter* waiter, int64_t timeout_ms) noexcept nogil:
        """The slot that the waiter was given; NULL after `timeout_ms` (-1: no limit) or wake_all()."""
        cdef ge_core_time until
        cdef void* slot
        cdef int rc = 0
        if timeout_ms >= 0:
            until = ge_core_deadline(timeout_ms)
        pthread_mutex_lock(&self.mutex)
        while waiter.slot == NULL and not waiter.woken and rc == 0:
            if timeout_ms < 0:
                rc = pthread_cond_wait(&waiter.changed, &self.mutex)
            else:
                rc = pthread_cond_timedwait(&waiter.changed, &self.mutex, &until)
        waiter.woken = False
        slot = waiter.slot
        pthread_mutex_unlock(&self.mutex)
        if slot != NULL:
            pthread_cond_destroy(&waiter.changed)
        return slot

    cdef void* leave(self, Waiter* waiter) noexcept nogil:
        """End waiting. A slot that came meanwhile is returned: the caller must give it back."""
        cdef Waiter* before = NULL
        cdef Waiter* one
        pthread_mutex_lock(&self.mutex)
        one = self.first
        while one != NULL and one != waiter:
            before, one = one, one.next
        if one != NULL:
            self._unlink(before, one)
        pthread_mutex_unlock(&self.mutex)
        pthread_cond_destroy(&waiter.changed)
        return waiter.slot

    cdef void _unlink(self, Waiter* before, Waiter* waiter) noexcept nogil:
        if before == NULL:
            self.first = waiter.next
        else:
            before.next = waiter.next
        if self.last == waiter:
            self.last = before

    cdef bint give(self, void* slot, int device) noexcept nogil:
        """A slot becomes free: it goes to the first waiter, else onto the stack. False: its device takes none back."""
        cdef Waiter* waiter
        cdef bint taken
        pthread_mutex_lock(&self.mutex)
        taken = self.open[device] and (self.first != NULL or self.n_free[device] < self.capacity)
        if taken and self.first != NULL:
            waiter = self.first
            self._unlink(NULL, waiter)
            waiter.slot = slot
            pthread_cond_signal(&waiter.changed)
        elif taken:
            self.free[device][self.n_free[device]] = slot
            self.n_free[device] += 1
        pthread_mutex_unlock(&self.mutex)
        return taken

    cdef void* drain(self, int device) noexcept nogil:
        """One free slot of this device, for closing; NULL when there is none."""
        cdef void* slot = NULL
        pthread_mutex_lock(&self.mutex)
        if self.n_free[device] > 0:
            self.n_free[device] -= 1
            slot = self.free[device][self.n_free[device]]
        pthread_mutex_unlock(&self.mutex)
        return slot

    cdef void set_open(self, int device, bint open) noexcept nogil:
        """Whether slots of this device come back from now on."""
        pthread_mutex_lock(&self.mutex)
        self.open[device] = open
        pthread_mutex_unlock(&self.mutex)

    cdef void wake_all(self) noexcept nogil:
        """Every waiter returns from wait() without a slot, and looks whether waiting still makes sense."""
        cdef Waiter* waiter
        pthread_mutex_lock(&self.mutex)
        waiter = self.first
        while waiter != NULL:
            waiter.woken = True
            pthread_cond_signal(&waiter.changed)
            waiter = waiter.next
        pthread_mutex_unlock(&self.mutex)

    cdef int count(self) noexcept nogil:
        """How many slots are free."""
        cdef int device, total = 0
        pthread_mutex_lock(&self.mutex)
        for device in range(self.n_devices):
            total += self.n_free[device]
        pthread_mutex_unlock(&self.mutex)
        return total

    def __dealloc__(self):
        cdef int device
        if self.free != NULL:
            for device in range(self.n_devices):
                free(self.free[device])
        free(self.free)
        free(self.n_free)
        free(self.open)
        pthread_mutex_destroy(&self.mutex)
