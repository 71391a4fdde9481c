# SPDX-License-Identifier: Apache-2.0
"""DLPack capsules: what they hold, and new ones over arrays whose type NumPy does not have."""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from ge_core_pyx import dtypes

cdef int64_t MOST_NBYTES = <int64_t>1 << 62


cdef bint on_host(int device_type) noexcept:
    """Whether the host can read memory of a DLPack device type: CPU, and pinned memory of CUDA and ROCm."""
    return device_type in (1, 3, 11)


cdef int check_dims(ge_dl_tensor* tensor) except -1:
    """A ValueError for a tensor that no memory can hold: negative dims, or more bytes than can be addressed."""
    cdef int64_t nbytes = (tensor.dtype.bits + 7) // 8
    cdef int i
    for i in range(tensor.ndim):
        if tensor.shape[i] < 0:
            raise ValueError(f"expected dims of 0 or more in a DLPack tensor, got {tensor.shape[i]}")
        if tensor.shape[i] != 0 and nbytes > MOST_NBYTES // tensor.shape[i]:
            raise ValueError(f"expected a DLPack tensor below 2**62 bytes, got {tensor.shape[i]} × {nbytes} or more")
        nbytes *= tensor.shape[i]
    return 0


cdef str type_name(ge_dl_tensor* tensor):
    code = (tensor.dtype.code, tensor.dtype.bits)
    return next((row.name for row in dtypes.TABLE if row.dlpack == code), None)


def tensor_type(capsule) -> tuple:
    """(dtype name or None, shape) of the tensor in a DLPack capsule."""
    cdef ge_dl_managed* managed = <ge_dl_managed*>PyCapsule_GetPointer(capsule, b"dltensor")
    cdef int i
    return type_name(&managed.tensor), tuple(managed.tensor.shape[i] for i in range(managed.tensor.ndim))


cdef void _delete(ge_dl_managed* managed) noexcept with gil:
    Py_DECREF(<object>managed.manager)
    PyMem_Free(managed)


cdef void _delete_unused(object capsule) noexcept:
    cdef ge_dl_managed* managed
    if PyCapsule_IsValid(capsule, b"dltensor"):    # whoever consumed it renamed it, and calls the deleter
        managed = <ge_dl_managed*>PyCapsule_GetPointer(capsule, b"dltensor")
        managed.deleter(managed)


def to_capsule(array, str dtype not None):
    """A DLPack capsule over a C-contiguous array whose bits are of another type: NumPy has no bfloat16.

    Parameters
    ----------
    array : ndarray
        Held until the consumer of the capsule is done.
    dtype : str
        A name of `ge_core_pyx.dtypes` with the array's itemsize.
    """
    cdef Py_ssize_t ndim = array.ndim
    cdef ge_dl_managed* managed
    cdef int64_t* shape
    if not array.flags.c_contiguous or array.itemsize != dtypes.by_name(dtype).itemsize:
        raise ValueError(f"expected a C-contiguous array with the itemsize of {dtype}, got {array.dtype}")
    managed = <ge_dl_managed*>PyMem_Malloc(sizeof(ge_dl_managed) + ndim * sizeof(int64_t))
    if managed == NULL:
        raise MemoryError()
    shape = <int64_t*>(managed + 1)
    for i, dim in enumerate(array.shape):
        shape[i] = dim
    managed.tensor.data = <void*><size_t>array.ctypes.data
    managed.tensor.device.device_type = 1
    managed.tensor.device.device_id = 0
    managed.tensor.ndim = ndim
    managed.tensor.dtype.code, managed.tensor.dtype.bits = dtypes.by_name(dtype).dlpack
    managed.tensor.dtype.lanes = 1
    managed.tensor.shape = shape
    managed.tensor.strides = NULL
    managed.tensor.byte_offset = 0
    managed.deleter = _delete
    Py_INCREF(array)
    managed.manager = <void*>array
    return PyCapsule_New(managed, b"dltensor", _delete_unused)
