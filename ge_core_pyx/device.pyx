# SPDX-License-Identifier: Apache-2.0
"""The runtime of this process, device contexts and streams."""

cimport cython
from libc.stdint cimport uint32_t

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclCANNPackageVersion, api, check, live, refuse_fork, usable

from ge_core_pyx import acl as acl_module
from ge_core_pyx import errors

cdef Runtime _runtime = None


@cython.final
cdef class Runtime:
    """AscendCL, opened and initialised in this process. Made by open_runtime()."""

    def cann_version(self) -> str:
        """CANN's version where the library tells (8.1 and newer), else the API's own; empty when neither is known."""
        cdef aclCANNPackageVersion version
        cdef int major = 0, minor = 0, patch = 0
        if api.aclsysGetCANNVersion(acl.ACL_PKG_NAME_CANN, &version) == 0:
            return version.version.decode("utf-8", "replace")
        api.aclGetRecentErrMsg()       # drop the text of the call that failed
        if api.aclrtGetVersion(&major, &minor, &patch) == 0:
            return f"API {major}.{minor}.{patch}"
        return ""

    def utilization(self, int device_id) -> dict:
        """Percent of the device's cube, vector and AI CPU units in use; None for what it does not have or tell."""
        cdef acl.aclrtUtilizationInfo info
        info.utilizationExtend = NULL
        names = ("cube_percent", "vector_percent", "aicpu_percent")
        if api.aclrtGetDeviceUtilizationRate(device_id, &info) != 0:
            api.aclGetRecentErrMsg()
            return dict.fromkeys(names)
        values = (info.cubeUtilization, info.vectorUtilization, info.aicpuUtilization)
        return {name: None if value < 0 else value for name, value in zip(names, values, strict=True)}

    def __repr__(self):
        return f"<Runtime {self.kind}: {self.soc_name}, {self.device_count} device(s), {self.files[0]}>"


cpdef Runtime open_runtime(kind=None):
    """Open and initialise AscendCL once per process.

    Parameters
    ----------
    kind : str, optional
        ``npu`` or ``cpu``; default GE_CORE_RUNTIME, else ``npu``. Never chosen by what the machine has.

    Raises
    ------
    AclLoadError
        No usable library, no device, or the other runtime is in use already.
    """
    global _runtime
    cdef uint32_t count = 0
    cdef aclError rc
    cdef const char* soc
    cdef Runtime runtime
    name, files = acl_module.open_library(kind)
    refuse_fork()
    if _runtime is not None:
        return _runtime
    runtime = Runtime.__new__(Runtime)
    with nogil:
        rc = api.aclInit(NULL)
    if rc != acl.ACL_ERROR_REPEAT_INITIALIZE:      # another user of the process was first: not ours to finalize
        check(rc, b"aclInit")
        runtime.owns_init = True
    with nogil:
        rc = api.aclrtGetDeviceCount(&count)
    if rc != 0 or count == 0:
        try:
            check(rc, b"aclrtGetDeviceCount")
            reason = "it reports no device"
        except errors.AclError as error:
            reason = str(error)
        raise errors.AclLoadError(
            f"{files[0]} is there but no {name.upper()} answers: {reason} Run `ge-core doctor`; on a machine without "
            "an NPU ask for the CPU implementation with runtime='cpu' or GE_CORE_RUNTIME=cpu."
        )
    soc = api.aclrtGetSocName()
    runtime.kind = name
    runtime.files = files
    runtime.device_count = count
    runtime.soc_name = "" if soc == NULL else soc.decode()
    _runtime = runtime
    return runtime


@cython.final
@cython.no_gc_clear                    # __dealloc__ uses the runtime's table
cdef class Context:
    """An AscendCL context of its own on one device. Binding it to a thread never outlives a call.

    Parameters
    ----------
    runtime : Runtime
    device_id : int
        Logical id, 0 ≤ device_id < runtime.device_count; ValueError otherwise.
    """

    def __cinit__(self, Runtime runtime not None, int device_id):
        cdef aclrtContext previous = NULL
        if not 0 <= device_id < runtime.device_count:
            raise ValueError(
                f"device_id must be 0..{runtime.device_count - 1} ({runtime.device_count} device(s) visible), "
                f"got {device_id}"
            )
        self.runtime = runtime
        self.device_id = device_id
        with nogil:
            if api.aclrtGetCurrentContext(&previous) != 0:
                api.aclGetRecentErrMsg()
            check(api.aclrtCreateContext(&self.handle, device_id), b"aclrtCreateContext")
            self.leave(previous)
        live[<int>acl.CONTEXT] += 1

    cdef aclError enter(self, aclrtContext* previous) noexcept nogil:
        """Bind this context to the calling thread; hand `previous` to leave()."""
        previous[0] = NULL
        if api.aclrtGetCurrentContext(previous) != 0:
            api.aclGetRecentErrMsg()   # a thread without a context is no error: drop the text about it
        if previous[0] == self.handle:
            return 0
        return api.aclrtSetCurrentContext(self.handle)

    cdef void leave(self, aclrtContext previous) noexcept nogil:
        # A thread that had none keeps ours: AscendCL cannot unbind. A context that died meanwhile is no error.
        if previous != NULL and previous != self.handle:
            api.aclrtSetCurrentContext(previous)

    cdef aclError _release(self) noexcept:
        cdef aclrtContext handle = self.handle
        cdef aclError rc
        if handle == NULL:
            return 0
        self.handle = NULL
        with nogil:
            rc = api.aclrtDestroyContext(handle)
        acl.released(acl.CONTEXT, rc)
        return rc

    def bound(self):
        """A context manager for code off the hot path: this context bound to the calling thread, then given back."""
        return _Bound(self)

    def memory_info(self) -> tuple:
        """(free, total) bytes of the device's memory, all processes counted."""
        cdef size_t free = 0, total = 0
        with self.bound():
            check(api.aclrtGetMemInfo(acl.ACL_HBM_MEM, &free, &total), b"aclrtGetMemInfo")
        return free, total

    def close(self):
        """Destroy the context; everything made in it must be closed before. Calling it again does nothing."""
        check(self._release(), b"aclrtDestroyContext")

    def __dealloc__(self):
        if self.handle != NULL and usable():
            self._release()


@cython.final
cdef class _Bound:
    cdef Context context
    cdef aclrtContext previous

    def __cinit__(self, Context context):
        self.context = context

    def __enter__(self):
        refuse_fork()
        if self.context.handle == NULL:
            raise RuntimeError("the device context is closed")
        check(self.context.enter(&self.previous), b"aclrtSetCurrentContext")

    def __exit__(self, *exception):
        self.context.leave(self.previous)


cdef aclError give_back(Context context, acl.Kind kind, aclError (*call)(void*) noexcept nogil, void* handle) noexcept:
    cdef aclrtContext previous
    cdef aclError rc
    if handle == NULL:
        return 0
    with nogil:                        # the driver may take a lock that a thread waiting for the GIL holds
        rc = context.enter(&previous)
        if rc == 0:
            rc = call(handle)
        context.leave(previous)
    acl.released(kind, rc)
    return rc


@cython.final
@cython.no_gc_clear                    # __dealloc__ needs the context
cdef class Stream:
    """A stream of a context, made for fast launches and fast synchronise where the device supports it."""

    def __cinit__(self, Context context not None):
        cdef aclrtContext previous
        cdef aclError rc
        self.context = context
        with nogil:
            rc = context.enter(&previous)
            if rc == 0:
                rc = api.aclrtCreateStreamWithConfig(
                    &self.handle, 0, acl.ACL_STREAM_FAST_LAUNCH | acl.ACL_STREAM_FAST_SYNC
                )
                if rc != 0:            # chips without these flags
                    rc = api.aclrtCreateStream(&self.handle)
            context.leave(previous)
        check(rc, b"aclrtCreateStream")
        live[<int>acl.STREAM] += 1

    cdef aclError _release(self) noexcept:
        cdef aclrtStream handle = self.handle
        self.handle = NULL
        return give_back(self.context, acl.STREAM, api.aclrtDestroyStream, handle)

    def close(self):
        """Destroy the stream, after its queued work (blocks). Calling it again does nothing."""
        check(self._release(), b"aclrtDestroyStream")

    def __dealloc__(self):
        if self.handle != NULL and usable():
            self._release()


@cython.final
@cython.no_gc_clear                    # __dealloc__ needs the context
cdef class Event:
    """An event that keeps the time, to be recorded again and again."""

    def __cinit__(self, Context context not None):
        self.context = context
        with context.bound():
            check(
                api.aclrtCreateEventExWithFlag(&self.handle, acl.ACL_EVENT_TIME_LINE), b"aclrtCreateEventExWithFlag"
            )
        live[<int>acl.EVENT] += 1

    cdef aclError _release(self) noexcept:
        cdef aclrtEvent handle = self.handle
        self.handle = NULL
        return give_back(self.context, acl.EVENT, api.aclrtDestroyEvent, handle)

    def close(self):
        """Destroy the event. Calling it again does nothing."""
        check(self._release(), b"aclrtDestroyEvent")

    def __dealloc__(self):
        if self.handle != NULL and usable():
            self._release()
