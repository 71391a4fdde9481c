# SPDX-License-Identifier: Apache-2.0
"""Batches run by a plain pthread that Python does not know; test_without_gil.py compiles this."""

from ge_core_pyx.acl cimport aclError
from ge_core_pyx.executor cimport Executor
from ge_core_pyx.slot cimport Execution, OutputCopy, Slot, Tensor

cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t* thread, void* attributes, void* (*run)(void*) noexcept nogil, void* argument)
    int pthread_join(pthread_t thread, void** result)


cdef struct Work:
    void* executor
    Py_buffer* inputs
    char* output
    size_t rows
    int batches, done
    aclError rc


cdef void* _run(void* argument) noexcept nogil:
    cdef Work* work = <Work*>argument
    cdef Execution execution
    cdef OutputCopy copy
    cdef Tensor* tensor
    cdef void* slot
    while work.done < work.batches and work.rc == 0:
        slot = (<Executor>work.executor).acquire_slot(-1)
        if slot == NULL:
            work.rc = -1
            break
        execution.gear = (<Executor>work.executor).gear_for(<Slot>slot, work.rows)
        execution.rows, execution.first = work.rows, 0
        execution.views, execution.in_place, execution.copy_back = work.inputs, False, True
        tensor = &(<Slot>slot).gears[execution.gear].outputs[0]
        copy.target = work.output + work.done * work.rows * tensor.row_nbytes
        copy.offset, copy.nbytes = tensor.offset, work.rows * tensor.row_nbytes
        work.rc = (<Executor>work.executor).launch(<Slot>slot, &execution)
        if work.rc == 0:
            work.rc = (<Executor>work.executor).complete(<Slot>slot, &execution, -1, &copy, 1)
        (<Executor>work.executor).release(<Slot>slot)
        if work.rc == 0:
            work.done += 1
    return NULL


def run(
    Executor executor not None, const unsigned char[::1] inputs, unsigned char[::1] output, size_t rows, int batches,
    bint keep_gil=True,
):
    """Run `batches` batches of one input on a thread while this one keeps the GIL, or not; (batches done, code)."""
    cdef Py_buffer view
    cdef Work work
    cdef pthread_t thread
    view.buf = <void*>&inputs[0]
    work.executor, work.inputs, work.output = <void*>executor, &view, <char*>&output[0]
    work.rows, work.batches, work.done, work.rc = rows, batches, 0, 0
    if pthread_create(&thread, NULL, _run, &work) != 0:
        raise MemoryError("pthread_create failed")
    if keep_gil:
        pthread_join(thread, NULL)
    else:                                  # a failure needs it
        with nogil:
            pthread_join(thread, NULL)
    return work.done, work.rc
