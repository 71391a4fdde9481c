"""Where a batch's rows come from and go to: the inputs of a request, and the memory its outputs are copied into."""

cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t

from ge_core_pyx.arrays cimport Source, buffers, on_host, release_buffers
from ge_core_pyx.dlpack cimport ge_dl_managed, ge_dl_tensor

from ge_core_pyx import dtypes


@cython.final
cdef class Feed:
    """The inputs of one request, checked against a model's and held, without a copy, until this dies.

    Parameters
    ----------
    sources : list of Source
        The model's inputs.
    values : list
        One array, buffer or DLPack capsule for each, of its dtype. A capsule is looked into, not consumed.
    by_rows : bool
        Whether the model is cut by rows: then every dim but the first must be the model's.

    Attributes
    ----------
    rows : int
        0 for a model that is not cut by rows.

    Raises
    ------
    ValueError
        A wrong dtype, rank, dim or number of rows.
    """

    def __cinit__(self, list sources not None, list values not None, bint by_rows):
        cdef Source source
        cdef Py_buffer* view
        cdef int i, count = len(sources)
        if len(values) != count:
            raise ValueError(f"expected {count} inputs, got {len(values)}")
        self.views = buffers(count)
        for i in range(count):
            source = <Source>sources[i]
            view = &self.views[i]
            source.view(values[i], view)
            self.filled += 1
            if by_rows:
                source.check_row(view)
                if view.shape[0] != self.views[0].shape[0] or view.shape[0] == 0:
                    raise ValueError(
                        f"input {source.name!r}: expected {self.views[0].shape[0] or 'some'} rows, got {view.shape[0]}"
                    )
        if by_rows and self.filled:
            self.rows = self.views[0].shape[0]

    @property
    def address(self) -> int:
        """Where the first input begins."""
        return <size_t>self.views[0].buf if self.filled else 0

    @property
    def shapes(self) -> tuple:
        """The shape of each input."""
        cdef int i, d
        return tuple(tuple(self.views[i].shape[d] for d in range(self.views[i].ndim)) for i in range(self.filled))

    def __dealloc__(self):
        if self.views != NULL:
            release_buffers(self.views, self.filled)


@cython.final
cdef class Target:
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
    awaited : int
        Copies that a device was to write here and is not known to have ended: with any, do not use the memory again.
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


cdef str type_name(ge_dl_tensor* tensor):
    code = (tensor.dtype.code, tensor.dtype.bits)
    return next((row.name for row in dtypes.TABLE if row.dlpack == code), None)


def came(capsule) -> tuple:
    """(dtype name or None, shape) of the tensor in a DLPack capsule."""
    cdef ge_dl_managed* managed = <ge_dl_managed*>PyCapsule_GetPointer(capsule, b"dltensor")
    cdef int i
    return type_name(&managed.tensor), tuple(managed.tensor.shape[i] for i in range(managed.tensor.ndim))


cdef void _forget(ge_dl_managed* managed) noexcept with gil:
    Py_DECREF(<object>managed.manager)
    PyMem_Free(managed)


cdef void _unused(object capsule) noexcept:
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
    managed.deleter = _forget
    Py_INCREF(array)
    managed.manager = <void*>array
    return PyCapsule_New(managed, b"dltensor", _unused)
