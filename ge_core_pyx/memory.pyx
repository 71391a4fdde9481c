# SPDX-License-Identifier: Apache-2.0
"""Device memory and pinned host memory: the only place that allocates either."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memset

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclrtContext, api, check, live, usable
from ge_core_pyx.device cimport Context, give_back


cpdef size_t padded(size_t nbytes) noexcept nogil:
    """Bytes a tensor takes inside a larger block: rounded up to 32, 32 to spare for prefetching kernels, next at 64."""
    return ((nbytes + 31) // 32 * 32 + 32 + 63) // 64 * 64


cdef int allocate(Memory memory, acl.Kind kind, Context context, size_t nbytes) except -1:
    cdef aclrtContext previous
    cdef aclError rc
    if nbytes == 0:
        raise ValueError("nbytes must be positive, got 0")
    memory.context = context
    memory.kind = kind
    with nogil:
        rc = context.enter(&previous)
        if rc == 0:
            if kind == acl.DEVICE_BUFFER:
                rc = api.aclrtMalloc(&memory.ptr, nbytes, acl.ACL_MEM_MALLOC_HUGE_FIRST)
            else:
                rc = api.aclrtMallocHost(&memory.ptr, nbytes)
        context.leave(previous)
    check(rc, b"aclrtMalloc" if kind == acl.DEVICE_BUFFER else b"aclrtMallocHost")
    memory.nbytes = nbytes
    live[<int>kind] += 1
    return 0


@cython.no_gc_clear                    # __dealloc__ needs the context
cdef class Memory:
    """What DeviceBuffer and PinnedBuffer share: one block, freed by close() or when collected."""

    cdef aclError _release(self) noexcept:
        cdef void* ptr = self.ptr
        self.ptr = NULL
        self.nbytes = 0
        if self.kind == acl.DEVICE_BUFFER:
            return give_back(self.context, self.kind, api.aclrtFree, ptr)
        return give_back(self.context, self.kind, api.aclrtFreeHost, ptr)

    @property
    def address(self) -> int:
        return <size_t>self.ptr

    def close(self):
        """Free the memory now; nothing queued and no view may use it. Calling it again does nothing."""
        check(self._release(), b"aclrtFree" if self.kind == acl.DEVICE_BUFFER else b"aclrtFreeHost")

    def __dealloc__(self):
        if self.ptr != NULL and usable():
            self._release()


@cython.final
@cython.no_gc_clear
cdef class DeviceBuffer(Memory):
    """`nbytes` bytes of device memory, 64-byte aligned, contents undefined. Freeing does not wait for queued work."""

    def __cinit__(self, Context context not None, size_t nbytes):
        allocate(self, acl.DEVICE_BUFFER, context, nbytes)


@cython.final
@cython.no_gc_clear
cdef class PinnedBuffer(Memory):
    """`nbytes` bytes of page-locked host memory, 64-byte aligned, zeroed."""

    def __cinit__(self, Context context not None, size_t nbytes):
        allocate(self, acl.PINNED_BUFFER, context, nbytes)
        with nogil:
            memset(self.ptr, 0, nbytes)


@cython.final
cdef class HostRegistration:
    """Host memory of the caller that devices may read and write directly, until close() or the death of this object.

    Parameters
    ----------
    contexts : sequence of Context
        Of the devices.
    array : writable C-contiguous buffer
    ranges : list
        While the memory is registered this has its (first address, address after the last).
    """

    def __cinit__(self, contexts, array, list ranges not None):
        cdef aclError rc
        PyObject_GetBuffer(array, &self.view, PyBUF_WRITABLE)
        self.held = True
        self.contexts = list(contexts)
        self.ranges = ranges
        with self.contexts[0].bound():
            rc = api.aclrtHostRegisterV2(self.view.buf, self.view.len, acl.ACL_HOST_REG_PINNED)
            if rc != 0:
                api.aclGetRecentErrMsg()
        self.pinned = rc == 0
        self.span = (<size_t>self.view.buf, <size_t>self.view.buf + self.view.len)
        if self.pinned:
            ranges.append(self.span)

    @property
    def direct(self) -> bool:
        """Whether the runtime pinned the memory; if not, what lies there takes the plain path with one copy."""
        return self.pinned

    cdef void _release(self) noexcept:
        if self.pinned and any(context.abandoned_slots for context in self.contexts):
            return                     # the device may still be reading or writing there
        if self.pinned:
            self.pinned = False
            self.ranges.remove(self.span)
            try:
                with self.contexts[0].bound():
                    api.aclrtHostUnregister(self.view.buf)
            except Exception:
                pass                   # a context that is closed holds no registration
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)

    def close(self):
        """Unregister; no request that reads the memory may be running. Calling it again does nothing."""
        self._release()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._release()

    def __dealloc__(self):
        if self.held and usable():
            self._release()
