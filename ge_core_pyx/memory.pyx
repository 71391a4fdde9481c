"""Device memory and pinned host memory: the only place that allocates either."""

cimport cython

from libc.string cimport memset

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, aclrtContext, api, check, live, usable


cdef size_t padded(size_t nbytes) noexcept nogil:
    """Bytes a tensor takes inside a larger block: rounded up to 32, 32 to spare for prefetching kernels, next at 64."""
    return ((nbytes + 31) // 32 * 32 + 32 + 63) // 64 * 64


@cython.final
@cython.no_gc_clear                    # __dealloc__ needs the context
cdef class DeviceBuffer:
    """`nbytes` bytes of device memory, 64-byte aligned, contents undefined; freed by close() or when collected.

    Freeing does not wait for queued work that uses the memory.
    """

    def __cinit__(self, Context context not None, size_t nbytes):
        cdef aclrtContext previous
        cdef aclError rc
        if nbytes == 0:
            raise ValueError("nbytes must be positive, got 0")
        self.context = context
        with nogil:
            rc = context.enter(&previous)
            if rc == 0:
                rc = api.aclrtMalloc(&self.ptr, nbytes, acl.ACL_MEM_MALLOC_HUGE_FIRST)
            context.leave(previous)
        check(rc, b"aclrtMalloc")
        self.nbytes = nbytes
        live[<int>acl.DEVICE_BUFFER] += 1

    cdef aclError _release(self) noexcept:
        cdef void* ptr = self.ptr
        cdef aclrtContext previous
        cdef aclError rc
        if ptr == NULL:
            return 0
        self.ptr = NULL
        self.nbytes = 0
        with nogil:                    # free takes a driver lock that a thread waiting for the GIL may hold
            rc = self.context.enter(&previous)
            if rc == 0:
                rc = api.aclrtFree(ptr)
            self.context.leave(previous)
        acl.released(acl.DEVICE_BUFFER, rc)
        return rc

    @property
    def address(self) -> int:
        return <size_t>self.ptr

    def close(self):
        """Free the memory now. Again: nothing happens."""
        check(self._release(), b"aclrtFree")

    def __dealloc__(self):
        if self.ptr != NULL and usable():
            self._release()


@cython.final
@cython.no_gc_clear                    # __dealloc__ needs the context
cdef class PinnedBuffer:
    """`nbytes` bytes of page-locked host memory, 64-byte aligned, zeroed; freed by close() or when collected."""

    def __cinit__(self, Context context not None, size_t nbytes):
        cdef aclrtContext previous
        cdef aclError rc
        if nbytes == 0:
            raise ValueError("nbytes must be positive, got 0")
        self.context = context
        with nogil:
            rc = context.enter(&previous)
            if rc == 0:
                rc = api.aclrtMallocHost(&self.ptr, nbytes)
            context.leave(previous)
        check(rc, b"aclrtMallocHost")
        self.nbytes = nbytes
        live[<int>acl.PINNED_BUFFER] += 1
        with nogil:
            memset(self.ptr, 0, nbytes)

    cdef aclError _release(self) noexcept:
        cdef void* ptr = self.ptr
        cdef aclrtContext previous
        cdef aclError rc
        if ptr == NULL:
            return 0
        self.ptr = NULL
        self.nbytes = 0
        with nogil:
            rc = self.context.enter(&previous)
            if rc == 0:
                rc = api.aclrtFreeHost(ptr)
            self.context.leave(previous)
        acl.released(acl.PINNED_BUFFER, rc)
        return rc

    @property
    def address(self) -> int:
        return <size_t>self.ptr

    def close(self):
        """Free the memory now; views of it must be gone. Again: nothing happens."""
        check(self._release(), b"aclrtFreeHost")

    def __dealloc__(self):
        if self.ptr != NULL and usable():
            self._release()
