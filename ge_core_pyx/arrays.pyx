# SPDX-License-Identifier: Apache-2.0
"""Callers' arrays as C buffers, and pinned memory as NumPy arrays. Knows no device."""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_WRITABLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from libc.stdint cimport int64_t

from ge_core_pyx.dlpack cimport ge_dl_managed, ge_dl_tensor, check_dims, on_host, type_name

import math

import numpy as np

from ge_core_pyx import dtypes

cdef extern from *:
    """
    /* A Py_buffer over a capsule's memory; it holds the capsule until PyBuffer_Release. */
    static inline void ge_core_fill(Py_buffer *view, PyObject *capsule, void *ptr, Py_ssize_t nbytes, int ndim,
                                    int64_t *shape) {
      Py_INCREF(capsule);
      *view = (Py_buffer){.buf = ptr, .obj = capsule, .len = nbytes, .ndim = ndim, .shape = (Py_ssize_t *)shape};
    }
    """
    void ge_core_fill(Py_buffer* view, object capsule, void* ptr, Py_ssize_t nbytes, int ndim, int64_t* shape)


cdef Py_buffer* buffers(int count) except NULL:
    cdef Py_buffer* result = <Py_buffer*>PyMem_Calloc(max(count, 1), sizeof(Py_buffer))
    if result == NULL:
        raise MemoryError()
    return result


cdef void release_buffers(Py_buffer* views, int count) noexcept:
    cdef int i
    for i in range(count):
        PyBuffer_Release(&views[i])
    PyMem_Free(views)


@cython.final
cdef class View:
    """A piece of memory as a buffer; it keeps `owner` alive while any array looks into it."""

    cdef object owner
    cdef void* ptr
    cdef Py_ssize_t nbytes
    cdef bint readonly

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.ptr, self.nbytes, self.readonly, flags)


cdef object view_of(owner, void* ptr, tuple shape, dtype, bint readonly):
    """An array over memory that `owner` keeps."""
    cdef View view = View.__new__(View)
    view.owner = owner
    view.ptr = ptr
    view.nbytes = math.prod(shape) * dtype.itemsize
    view.readonly = readonly
    return np.ndarray(shape, dtype, buffer=view)


@cython.final
cdef class _Imported:
    """A DLPack tensor whose memory is ours to look at until this dies."""

    cdef object capsule
    cdef ge_dl_managed* managed

    def __dealloc__(self):
        if self.managed != NULL and self.managed.deleter != NULL:
            self.managed.deleter(self.managed)


cdef object from_dlpack(value):
    """`value.__dlpack__()` as an array without a copy; bfloat16 as uint16, which numpy.from_dlpack cannot do."""
    return from_capsule(value.__dlpack__())


cdef object from_capsule(capsule):
    cdef _Imported owner = _Imported.__new__(_Imported)
    cdef ge_dl_managed* managed
    cdef ge_dl_tensor* tensor
    cdef Py_ssize_t itemsize, span = 1, i
    managed = <ge_dl_managed*>PyCapsule_GetPointer(capsule, b"dltensor")
    PyCapsule_SetName(capsule, b"used_dltensor")
    owner.managed = managed
    owner.capsule = capsule
    tensor = &managed.tensor
    if not on_host(tensor.device.device_type):
        raise ValueError(
            f"expected an array in host memory, got a DLPack tensor on device type {tensor.device.device_type}"
        )
    code = (tensor.dtype.code, tensor.dtype.bits)
    row = next((row for row in dtypes.TABLE if row.dlpack == code), None)
    if row is None or tensor.dtype.lanes != 1:
        raise ValueError(f"expected a DLPack type ge_core serves, got code {code[0]} with {code[1]} bits")
    check_dims(tensor)
    itemsize = row.itemsize
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None
    if tensor.strides != NULL:
        strides = tuple(tensor.strides[i] * itemsize for i in range(tensor.ndim))
        if any(stride < 0 for stride in strides):
            raise ValueError("expected a DLPack tensor without negative strides")
        span += sum((shape[i] - 1) * (strides[i] // itemsize) for i in range(tensor.ndim)) if 0 not in shape else -1
    else:
        span = math.prod(shape)
    dtype = np.dtype(row.numpy or "uint16")
    data = view_of(owner, <char*>tensor.data + tensor.byte_offset, (span,), dtype, True)
    array = np.ndarray(shape, dtype, buffer=data, strides=strides)
    return _Bits(array) if row.numpy is None else array


cdef class _Bits:
    """A bfloat16 array as its bits, told apart from an array of numbers."""

    cdef object array

    def __init__(self, array):
        self.array = array


def describe(array) -> str:
    """``float32[2, 3]``"""
    return f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"


cdef object contiguous(value, spec):
    """`value` as a C-contiguous array of exactly the spec's dtype in native byte order; copies only when it must."""
    bits = False
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        array = from_dlpack(value)
    elif PyCapsule_IsValid(value, b"dltensor"):
        array = from_capsule(value)
    else:
        array = np.asarray(value)
    if isinstance(array, _Bits):
        array, bits = (<_Bits>array).array, True
    if spec.dtype == "bfloat16":
        bits = bits or array.dtype.name in ("bfloat16", "uint16")
    elif bits:
        raise ValueError(f"input {spec.name!r}: expected {spec}, got bfloat16[{', '.join(map(str, array.shape))}]")
    if array.dtype.name != spec.dtype and not bits:
        raise ValueError(f"input {spec.name!r}: expected {spec}, got {describe(array)}")
    if not array.dtype.isnative or not array.flags.c_contiguous:
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    return array.view(np.uint16) if bits else array


def numpy_dtype(spec):
    """bfloat16 is ml_dtypes' where that is installed, else its bits as uint16."""
    if spec.dtype != "bfloat16":
        return np.dtype(spec.dtype)
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("uint16")
    return np.dtype(ml_dtypes.bfloat16)


@cython.final
cdef class InputLayout:
    """Name, dtype and shape of one of the model's inputs, as the hot path needs them."""

    def __cinit__(self, spec):
        cdef int i
        self.spec = spec
        self.name = spec.name
        self.full_name = spec.full_name
        self.bits = spec.dtype == "bfloat16"
        formats = dtypes.by_name(spec.dtype).buffer_formats or "H"
        self.formats[0] = ord(formats[0])
        self.formats[1] = ord(formats[len(formats) - 1])
        self.code, self.code_bits = dtypes.by_name(spec.dtype).dlpack
        self.itemsize = spec.itemsize
        self.ndim = len(spec.shape)
        for i in range(self.ndim):
            self.shape[i] = -1 if spec.shape[i] is None else spec.shape[i]

    cdef int view(self, value, Py_buffer* view) except -1:
        """A C-contiguous buffer of `value`; dtype and rank are right afterwards, dims are the caller's to check."""
        cdef bint fits = False
        if PyCapsule_IsValid(value, b"dltensor"):
            fits = self.view_capsule(value, view)
        elif type(value) is np.ndarray and not self.bits:
            try:
                PyObject_GetBuffer(value, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
                fits = view.format[1] == 0 and (view.format[0] == self.formats[0] or view.format[0] == self.formats[1])
                if not fits:
                    PyBuffer_Release(view)
            except (BufferError, ValueError):
                pass
        if not fits:
            PyObject_GetBuffer(contiguous(value, self.spec), view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        if view.ndim != self.ndim:
            self.refuse(view)
        return 0

    cdef bint view_capsule(self, capsule, Py_buffer* view) except *:
        """A contiguous host tensor of the right type as a buffer; the capsule stays as it is. False: it is another."""
        cdef ge_dl_managed* managed = <ge_dl_managed*>PyCapsule_GetPointer(capsule, b"dltensor")
        cdef ge_dl_tensor* tensor = &managed.tensor
        cdef Py_ssize_t nbytes = self.itemsize
        cdef int i
        if (
            tensor.dtype.code != self.code or tensor.dtype.bits != self.code_bits or tensor.dtype.lanes != 1
            or tensor.strides != NULL or not on_host(tensor.device.device_type)
        ):
            return False
        check_dims(tensor)
        for i in range(tensor.ndim):
            nbytes *= tensor.shape[i]
        ge_core_fill(view, capsule, <char*>tensor.data + tensor.byte_offset, nbytes, tensor.ndim, tensor.shape)
        return True

    cdef int check_row(self, Py_buffer* view) except -1:
        """Every dim after the first equals the model's, where that is known."""
        cdef int i
        for i in range(1, self.ndim):
            if view.shape[i] != self.shape[i] and self.shape[i] >= 0:
                self.refuse(view)
        return 0

    cdef int refuse(self, Py_buffer* view) except -1:
        """Release the view and say what was expected."""
        dims = ", ".join(str(view.shape[i]) for i in range(view.ndim))
        PyBuffer_Release(view)
        raise ValueError(f"input {self.name!r}: expected {self.spec}, got {self.spec.dtype}[{dims}]")


@cython.final
cdef class OutputTarget:
    """Writable, C-contiguous host memory of one output, held until this dies.

    Parameters
    ----------
    value : ndarray, or DLPack capsule
        A capsule is looked into, not consumed.
    owner : object, optional
        Whatever else keeps the memory alive.

    Attributes
    ----------
    address, nbytes : int
    pending_copies : int
        Copies by a device into this memory that are not known to have ended. While there are any, do not reuse it.
    dtype : str or None
        A name of `ge_core_pyx.dtypes`; None for a type that is not in it.
    shape : tuple of int

    Raises
    ------
    ValueError, BufferError
        Not such memory.
    """

    def __cinit__(self, value, owner=None):
        cdef ge_dl_managed* managed
        cdef ge_dl_tensor* tensor
        cdef int i
        self.owner = (value, owner)
        if not PyCapsule_IsValid(value, b"dltensor"):
            PyObject_GetBuffer(value, &self.view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)
            self.ptr = <char*>self.view.buf
            self.nbytes = self.view.len
            self.dtype = value.dtype.name
            self.shape = value.shape
            return
        managed = <ge_dl_managed*>PyCapsule_GetPointer(value, b"dltensor")
        tensor = &managed.tensor
        if not on_host(tensor.device.device_type) or tensor.strides != NULL or tensor.dtype.lanes != 1:
            raise ValueError("expected a contiguous DLPack tensor in host memory")
        check_dims(tensor)
        self.ptr = <char*>tensor.data + tensor.byte_offset
        self.dtype = type_name(tensor)
        self.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.nbytes = tensor.dtype.bits // 8
        for i in range(tensor.ndim):
            self.nbytes *= tensor.shape[i]

    @property
    def address(self) -> int:
        return <size_t>self.ptr

    def __dealloc__(self):
        PyBuffer_Release(&self.view)
