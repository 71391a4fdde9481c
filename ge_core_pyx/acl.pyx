# SPDX-License-Identifier: Apache-2.0
"""AscendCL through dlopen: the table of entry points, checked calls, and counts of the native objects in use."""

import os
import sys

from ge_core_pyx import errors, locate

cdef extern from "dlfcn.h" nogil:
    ctypedef struct Dl_info:
        const char* dli_fname
    void* dlopen(const char* path, int mode)
    void* dlsym(void* handle, const char* name)
    char* dlerror()
    int dladdr(void* address, Dl_info* info)
    int RTLD_NOW, RTLD_LOCAL, RTLD_NOLOAD

cdef extern from "acl_table.h" nogil:
    const char* acl_table_bind(acl_table* table, void** libraries, int count)
    const char* acl_error_name(aclError code)

KIND_NAMES = ("context", "stream", "event", "device_buffer", "pinned_buffer", "model", "dataset", "data_buffer")

_opened = None                         # (kind, files) once a library is bound
cdef long failed_releases = 0
cdef list _first_failed = []


def _mark_forked():
    global forked
    forked = _opened is not None       # a child of a process that never opened AscendCL may open it


os.register_at_fork(after_in_child=_mark_forked)


cdef int check(aclError rc, const char* call) except -1 nogil:
    if rc == 0:
        return 0
    with gil:
        raise failure(rc, call)


cdef object failure(aclError rc, const char* call):
    """The exception for a call that failed, with the library's own text."""
    cdef const char* message = api.aclGetRecentErrMsg()
    cdef const char* name = acl_error_name(rc)
    return errors.from_code(
        rc,
        None if name == NULL else name.decode(),
        call.decode(),
        "" if message == NULL else message.decode("utf-8", "replace"),
    )


cdef int refuse_fork() except -1:
    if forked:
        raise errors.UnsupportedError(
            "this process was forked after AscendCL was opened, and AscendCL does not survive a fork: "
            "start workers with multiprocessing's 'spawn' method, or open the session in the child only"
        )
    return 0


cdef bint usable() noexcept:
    """False where a destructor must do nothing: in a forked child, and while the interpreter goes down."""
    return not forked and not sys.is_finalizing()


cdef void released(Kind kind, aclError rc) noexcept:
    global failed_releases
    live[<int>kind] -= 1
    if rc != 0:                        # a destructor cannot raise
        failed_releases += 1
        if len(_first_failed) < 8:
            _first_failed.append((KIND_NAMES[<int>kind], rc))


def live_handles() -> dict:
    """Native objects held by ge_core in this process, by kind."""
    return {KIND_NAMES[kind]: live[kind] for kind in range(<int>KINDS)}


def failed_release_count() -> int:
    """How many destructors were answered with an error code so far."""
    return failed_releases


def first_failed_releases() -> list:
    """(kind, error code) of the first of them."""
    return list(_first_failed)


cdef list _load(candidate, list tried):
    """dlopen the files of one candidate; the handles that opened, as addresses."""
    cdef void* handle
    cdef list handles = []
    for file in candidate.files:
        path = os.fsencode(file)
        # An image that is already loaded (torch_npu may have brought it) must stay the only one.
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)
        if handle == NULL:
            handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)
        if handle == NULL:
            reason = dlerror().decode("utf-8", "replace")
            if "/" not in file or os.path.exists(file) or len(candidate.files) == 1:
                tried.append(reason)
            continue
        handles.append(<size_t>handle)
    if not handles and "/" in candidate.files[0] and len(candidate.files) > 1:
        tried.append(f"{os.path.dirname(candidate.files[0])}: not there ({candidate.why})")
    return handles


cdef bytes _file_of(void* symbol):
    cdef Dl_info info
    return info.dli_fname if dladdr(symbol, &info) != 0 and info.dli_fname != NULL else b"?"


def open_library(runtime: str | None = None) -> tuple:
    """Open AscendCL for that runtime (None: GE_CORE_RUNTIME, else ``npu``); later calls answer at once.

    Returns
    -------
    (str, tuple of str)
        The runtime and the files the entry points came from.

    Raises
    ------
    AclLoadError
        Nothing usable was found (the text names all that was tried), or the process already uses the other runtime.
    """
    global api, _opened
    cdef void* handles[8]
    cdef acl_table table
    cdef const char* missing
    cdef int count
    kind = locate.runtime_name(runtime)
    if _opened is not None:
        if _opened[0] != kind:
            raise errors.AclLoadError(
                f"this process already uses the {_opened[0]!r} runtime ({_opened[1][0]}); "
                f"one process can use one: start another for {kind!r}"
            )
        return _opened
    refuse_fork()
    if kind == "cpu":
        locate.prepare_cpu()
    tried = []
    for candidate in locate.candidates(kind):
        found = _load(candidate, tried)
        if not found:
            continue
        count = len(found)
        for i in range(count):
            handles[i] = <void*><size_t>found[i]
        missing = acl_table_bind(&table, handles, count)
        first = _file_of(dlsym(handles[0], b"aclInit")).decode() if missing == NULL else candidate.files[0]
        if missing != NULL:
            tried.append(f"{candidate.files[0]} ({candidate.why}) lacks {missing.decode()}")
            continue
        is_cpu = any(dlsym(handles[i], locate.CPU_MARKER.encode()) != NULL for i in range(count))
        if is_cpu != (kind == "cpu"):
            what = "the CPU implementation of AscendCL" if is_cpu else "a real AscendCL"
            tried.append(f"{first} is {what}, but the runtime asked for is {kind!r}")
            continue
        files = {_file_of(<void*>table.aclInit), _file_of(<void*>table.aclmdlExecuteAsync)}
        api = table
        _opened = (kind, tuple(sorted(os.fsdecode(file) for file in files)))
        return _opened
    remedy = (
        "correct GE_CORE_ACL_LIBRARY"
        if os.environ.get("GE_CORE_ACL_LIBRARY")
        else "reinstall ge_core, whose wheel carries it"
        if kind == "cpu"
        else "install CANN and source its set_env.sh, or set GE_CORE_ACL_LIBRARY; on a machine without an NPU ask for "
        "the CPU implementation with runtime='cpu' or GE_CORE_RUNTIME=cpu"
    )
    raise errors.AclLoadError(
        f"no AscendCL library for runtime {kind!r}; tried: {'; '.join(tried)}. To fix it: {remedy}."
    )
