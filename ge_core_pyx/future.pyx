# SPDX-License-Identifier: Apache-2.0
"""A submitted request and its results."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyObject_GetBuffer
from libc.stdint cimport int64_t

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclError, refuse_fork, usable
from ge_core_pyx.arrays cimport buffers, release_buffers, view_of
from ge_core_pyx.executor cimport Executor
from ge_core_pyx.range_slot cimport RangeSlot
from ge_core_pyx.requests cimport bits_of
from ge_core_pyx.slot cimport Gear, OutputCopy, Slot, Tensor

import concurrent.futures
import threading
import time

from ge_core_pyx import errors


def timeout_to_ms(timeout):
    """Seconds as whole milliseconds; None, for ever, is -1."""
    if timeout is None:
        return -1
    if not isinstance(timeout, (int, float)) or timeout != timeout:
        raise TypeError(f"timeout: expected seconds or None, got {timeout!r}")
    return max(0, round(min(timeout, 1e9) * 1000))


cdef Submission submitted(Executor executor, list wanted):
    """A request of which nothing runs yet."""
    cdef Submission submission = Submission.__new__(Submission)
    submission.executor = executor
    submission.chunks = []
    submission.wanted = wanted
    submission.lock = threading.Lock()
    return submission


cdef object future_of(Submission submission):
    return Future(submission)


@cython.final
cdef class SubmittedChunk:
    """One execution of a request."""


@cython.final
cdef class Submission:
    """What a future knows of its executions. It keeps their slots until they were settled or it died."""

    cdef int settle(self, int64_t timeout_ms) except -1:
        """Await the oldest chunk, copy its outputs and give its slot back. On an error, give the others back too."""
        cdef SubmittedChunk chunk = self.chunks[0]
        cdef Slot slot = chunk.slot
        cdef aclError rc = self._complete(chunk, timeout_ms)
        if rc == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT and timeout_ms >= 0 and not slot.expired():
            raise TimeoutError(f"no result within {timeout_ms} ms; the request is still running")
        try:
            if rc != 0:
                self.executor.failed(slot, rc)
            if self.arrays is None:
                self.arrays = self._whole(chunk)
        except Exception as error:     # after an interrupt result() can be asked again
            self.error = error
            for chunk in self.chunks:  # the others' work ends by itself; whoever takes the slot next awaits it
                self.executor.release(chunk.slot)
            self.chunks = []
            raise
        self.chunks.pop(0)
        self.executor.release(slot)
        return 0

    cdef aclError _complete(self, SubmittedChunk chunk, int64_t timeout_ms) except? -1:
        """Wait for a chunk and copy its outputs into the arrays, where there are any yet."""
        cdef Slot slot = chunk.slot
        cdef Gear* gear = &slot.gears[chunk.execution.gear]
        cdef size_t first = chunk.execution.first, rows = chunk.execution.rows
        cdef Py_buffer* targets = buffers(slot.n_outputs)
        cdef Tensor* tensor
        cdef int filled = 0
        cdef aclError rc
        try:
            for array in self.arrays or ():
                PyObject_GetBuffer(bits_of(array), &targets[filled], PyBUF_WRITABLE)
                tensor = &gear.outputs[filled]
                slot.copies[filled] = OutputCopy(
                    <char*>targets[filled].buf + first * tensor.row_nbytes, tensor.offset,
                    rows * tensor.row_nbytes if rows != 0 else tensor.nbytes,
                )
                filled += 1
            with nogil:
                rc = self.executor.complete(slot, &chunk.execution, timeout_ms, slot.copies, filled)
        finally:
            release_buffers(targets, filled)
        return rc

    def _whole(self, SubmittedChunk chunk):
        """Copies of whole outputs: of a range model, or cut back to the shapes that the request asks for."""
        cdef Slot slot = chunk.slot
        cdef Gear* gear = &slot.gears[chunk.execution.gear]
        if isinstance(slot, RangeSlot):
            shapes = (<RangeSlot>slot).output_shapes
        else:
            shapes = slot.gear_shapes[chunk.execution.gear][1]
        arrays = []
        for i, (shape, dtype) in enumerate(zip(shapes, self.executor.interface.output_dtypes)):
            array = view_of(None, <char*>slot.pinned_output.ptr + gear.outputs[i].offset, shape, dtype, True)
            if chunk.crop_shapes is not None:
                array = array[tuple(map(slice, chunk.crop_shapes[i]))]
            arrays.append(array.copy())
        return arrays

    def complete(self, timeout=None):
        """Wait until nothing is in flight any more, at most `timeout` seconds; `outcome` is known then.

        Raises
        ------
        TimeoutError
            Not done yet; ask again.
        """
        limit_ms = timeout_to_ms(timeout)
        deadline = None if limit_ms < 0 else time.monotonic() + limit_ms / 1000
        if not self.lock.acquire(timeout=-1 if limit_ms < 0 else min(limit_ms / 1000, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"no result within {timeout} s; another thread is waiting for it")
        try:
            while self.chunks:
                refuse_fork()
                left = -1 if deadline is None else max(0, round((deadline - time.monotonic()) * 1000))
                try:
                    self.settle(left)
                except BaseException as error:
                    if error is not self.error:            # a time limit or an interrupt: the request goes on
                        raise
        finally:
            self.lock.release()

    @property
    def outcome(self) -> tuple:
        """(outputs, None), or (None, the error)."""
        if self.error is not None:
            return None, self.error
        return (self.arrays if self.wanted is None else [self.arrays[i] for i in self.wanted]), None

    def ended(self) -> bool:
        """Whether complete() would return at once. Does not block."""
        cdef SubmittedChunk chunk
        return all(chunk.slot.done() for chunk in list(self.chunks))

    def give_up_failed(self):
        """Settle a request whose work failed, so that those who wait for its slots get them. Does not block."""
        cdef SubmittedChunk chunk
        if not self.lock.acquire(blocking=False):
            return                     # a thread is waiting for the result
        try:
            if self.chunks:
                chunk = self.chunks[0]
                if chunk.slot.has_failed():
                    try:
                        self.settle(-1)
                    except Exception:
                        pass           # `outcome` has it
        finally:
            self.lock.release()

    def close(self, wait):
        """The session is being closed: get the result now, or give it up (unless a thread is waiting for it)."""
        cdef SubmittedChunk chunk
        if not self.lock.acquire(blocking=wait):
            return
        try:
            if wait:
                try:
                    while self.chunks:
                        self.settle(-1)
                except errors.AclError:
                    pass               # `outcome` has it
            elif self.chunks:
                self.error = concurrent.futures.CancelledError(f"the session of {self.executor.path} was closed")
                chunks, self.chunks = self.chunks, []
                for chunk in chunks:
                    self.executor.release(chunk.slot)
        finally:
            self.lock.release()

    def __dealloc__(self):
        cdef SubmittedChunk chunk
        if self.chunks and usable():
            for chunk in self.chunks:
                self.executor.release(chunk.slot)


class Future(concurrent.futures.Future):
    """A submitted request, with the semantics of `concurrent.futures.Future`; `asyncio.wrap_future` takes it too.

    It keeps its slots until result() or exception() returned, it failed, or it died. The thread that asks for the
    result waits for the device itself. Only for callbacks and for `concurrent.futures.wait` a thread is started, which
    does so instead. What runs on a device cannot be cancelled: cancel() returns False.
    """

    def __init__(self, submission):
        self._submission, self._watched = submission, False
        super().__init__()
        self._state = concurrent.futures._base.RUNNING

    def result(self, timeout=None) -> list:
        """Wait for the outputs.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None waits for ever (or the session's execute_timeout_ms).

        Returns
        -------
        list of ndarray
            As run() returns them.

        Raises
        ------
        TimeoutError
            Not done yet; ask again.
        AclError
            The device failed. CancelledError: the session was closed with wait=False.
        """
        self._finish(timeout)
        return super().result(0)

    def exception(self, timeout=None):
        """The error of the request, None when it has none; waits as result() does."""
        self._finish(timeout)
        return super().exception(0)

    def done(self) -> bool:
        """Whether result() would return at once. Does not block."""
        return super().done() or self._submission.ended()

    def running(self) -> bool:
        """Whether the request is still on a device. Does not block."""
        return not self.done()

    def add_done_callback(self, callback):
        """Call `callback(future)` when the request is done; at once, in this thread, if it is done already."""
        super().add_done_callback(callback)
        self._watch()

    @property
    def _waiters(self):
        """The standard library's wait() and as_completed() append to it: then someone has to wait for the device."""
        self._watch()
        return self._list_of_waiters

    @_waiters.setter
    def _waiters(self, waiters):
        self._list_of_waiters = waiters

    def _watch(self):
        if self._watched or super().done():
            return
        self._watched = True
        threading.Thread(target=_finish, args=(self,), name="ge_core future", daemon=True).start()

    def _finish(self, timeout=None):
        if super().done():
            return
        self._submission.complete(timeout)
        outputs, error = self._submission.outcome
        try:
            if error is None:
                self.set_result(outputs)
            else:
                self.set_exception(error)
        except concurrent.futures.InvalidStateError:
            pass                       # another thread has just set it


def _finish(future):
    future._finish()
