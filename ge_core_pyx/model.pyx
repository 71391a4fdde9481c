# SPDX-License-Identifier: Apache-2.0
"""Models: what an om declares, loading it, its gears, and the datasets that carry its tensors."""

cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport (
    aclDataBuffer,
    aclError,
    aclmdlBatch,
    aclmdlDesc,
    aclmdlHW,
    aclmdlIODims,
    aclmdlIODimsRange,
    aclrtContext,
    api,
    check,
    live,
    usable,
)
from ge_core_pyx.device cimport Context
from ge_core_pyx.memory cimport DeviceBuffer

import math
import os
from dataclasses import dataclass

from ge_core_pyx import dtypes, errors

cdef extern from *:
    """
    #define GE_CORE_ANY_INPUT ((size_t)-1)
    """
    const size_t GE_CORE_ANY_INPUT


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    Attributes
    ----------
    name : str
        The public name: of ``node:0:tensor`` the last part, else the node's.
    full_name : str
        The name inside the om.
    dtype : str
        NumPy's name of the type; ``bfloat16`` is the one NumPy lacks.
    shape : tuple of (int or None)
        None where gears or ranges decide.
    nbytes : int
        Bytes at the largest gear; 0 where the om does not bound it.
    """

    name: str
    full_name: str
    dtype: str
    shape: tuple
    nbytes: int

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return dtypes.by_name(self.dtype).itemsize

    def __str__(self):
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]"


@dataclass(frozen=True)
class Description:
    """What an om declares, reserved inputs hidden.

    Attributes
    ----------
    inputs, outputs : tuple of TensorSpec
    gear_kind : str
        ``static``, ``batch``, ``image_size``, ``dims`` or ``range``.
    gears : tuple
        Batch sizes; or (height, width) pairs; or for ``dims`` the values of the dynamic dims in order over all inputs.
    max_rows : int
        Rows along axis 0 of the largest gear; 0 when the model's tensors cannot be cut by rows.
    not_rows : str
        Why max_rows is 0: the tensor that cannot be cut, in words.
    row_multiples : tuple of int
        Per output, how many of its rows along axis 0 belong to one row of the batch.
    reserved : tuple of str
        Names of inputs that AscendCL adds and ge_core fills.
    ranges : tuple
        For range models, per input the (lowest, highest) size of each dim; highest None: unbounded.
    """

    inputs: tuple
    outputs: tuple
    gear_kind: str
    gears: tuple
    max_rows: int
    not_rows: str
    row_multiples: tuple
    reserved: tuple
    ranges: tuple


cdef str _text(const char* text):
    return "" if text == NULL else text.decode("utf-8", "replace")


cdef tuple _shape(aclmdlIODims* dims):
    return tuple(None if dims.dims[i] < 0 else dims.dims[i] for i in range(<int64_t>dims.dimCount))


def public_name(full_name: str) -> str:
    """``node:0:tensor`` → ``tensor``; ``node:0`` → ``node``; a plain name as it is (ATC's naming of outputs)."""
    head, _, last = full_name.rpartition(":")
    if not head:
        return full_name
    if last.isdigit() and ":" not in head:
        return head
    return last or head


def _public_names(full_names):
    names = [public_name(name) for name in full_names]
    for name in names:
        if names.count(name) > 1:      # config and API would be ambiguous
            return list(full_names)
    return names


cdef str _dtype(int code, str what):
    try:
        return dtypes.by_acl(code).name
    except KeyError:
        raise errors.UnsupportedError(f"{what} has AscendCL data type {code}, which ge_core does not serve") from None


cdef int _believe(bint plausible, const char* call) except -1:
    """AscendCL's getters answer 0, "" or -1 on failure: where that cannot be the truth, it is an error."""
    if not plausible:
        raise acl.failure(acl.ACL_ERROR_FAILURE, call)
    return 0


cdef tuple _read_inputs(aclmdlDesc* desc):
    """(specs, names of reserved inputs)."""
    cdef aclmdlIODims dims
    cdef size_t i, count
    cdef const char* text
    specs, reserved = [], []
    api.aclGetRecentErrMsg()           # drop what is older
    count = api.aclmdlGetNumInputs(desc)
    if count == 0:
        text = api.aclGetRecentErrMsg()
        _believe(text == NULL, b"aclmdlGetNumInputs")
    for i in range(count):
        name = _text(api.aclmdlGetInputNameByIndex(desc, i))
        _believe(bool(name), b"aclmdlGetInputNameByIndex")
        if name in (_text(acl.ACL_DYNAMIC_TENSOR_NAME), _text(acl.ACL_DYNAMIC_AIPP_NAME)):
            reserved.append(name)
            continue
        check(api.aclmdlGetInputDimsV2(desc, i, &dims), b"aclmdlGetInputDimsV2")
        dtype = _dtype(api.aclmdlGetInputDataType(desc, i), f"input {name!r}")
        spec = TensorSpec(name, name, dtype, _shape(&dims), api.aclmdlGetInputSizeByIndex(desc, i))
        _believe(_holds(spec), b"aclmdlGetInputSizeByIndex")
        specs.append(spec)
    return specs, reserved


def _holds(spec) -> bool:
    """Whether the bytes are enough for the dims, as far as those are known."""
    return None in spec.shape or spec.nbytes >= math.prod(spec.shape) * spec.itemsize


cdef list _read_outputs(aclmdlDesc* desc):
    cdef aclmdlIODims dims
    cdef size_t i, count = api.aclmdlGetNumOutputs(desc)
    _believe(count != 0, b"aclmdlGetNumOutputs")
    full_names = [_text(api.aclmdlGetOutputNameByIndex(desc, i)) for i in range(count)]
    _believe(all(full_names), b"aclmdlGetOutputNameByIndex")
    specs = []
    for i, (name, full_name) in enumerate(zip(_public_names(full_names), full_names, strict=True)):
        check(api.aclmdlGetOutputDims(desc, i, &dims), b"aclmdlGetOutputDims")
        dtype = _dtype(api.aclmdlGetOutputDataType(desc, i), f"output {full_name!r}")
        spec = TensorSpec(name, full_name, dtype, _shape(&dims), api.aclmdlGetOutputSizeByIndex(desc, i))
        _believe(_holds(spec), b"aclmdlGetOutputSizeByIndex")
        specs.append(spec)
    return specs


cdef tuple _read_gears(aclmdlDesc* desc, list inputs, list outputs, list reserved):
    cdef aclmdlBatch batch
    cdef aclmdlHW* sizes
    cdef aclmdlIODims* dims
    cdef size_t count = 0, i
    if _text(acl.ACL_DYNAMIC_TENSOR_NAME) not in reserved:
        dynamic = any(None in spec.shape for spec in [*inputs, *outputs])
        return ("range", ()) if dynamic else ("static", ())
    check(api.aclmdlGetDynamicBatch(desc, &batch), b"aclmdlGetDynamicBatch")
    if batch.batchCount > 0:
        return "batch", tuple(sorted(batch.batch[i] for i in range(batch.batchCount)))
    sizes = <aclmdlHW*>malloc(sizeof(aclmdlHW))
    try:
        check(api.aclmdlGetDynamicHW(desc, GE_CORE_ANY_INPUT, sizes), b"aclmdlGetDynamicHW")
        if sizes.hwCount > 0:
            return "image_size", tuple((sizes.hw[i][0], sizes.hw[i][1]) for i in range(sizes.hwCount))
    finally:
        free(sizes)
    check(api.aclmdlGetInputDynamicGearCount(desc, GE_CORE_ANY_INPUT, &count), b"aclmdlGetInputDynamicGearCount")
    _believe(count != 0, b"aclmdlGetInputDynamicGearCount")
    dims = <aclmdlIODims*>malloc(count * sizeof(aclmdlIODims))
    try:
        check(api.aclmdlGetInputDynamicDims(desc, GE_CORE_ANY_INPUT, dims, count), b"aclmdlGetInputDynamicDims")
        declared = [dim for spec in inputs for dim in spec.shape]
        return "dims", tuple(
            tuple(dims[gear].dims[i] for i, dim in enumerate(declared) if dim is None) for gear in range(count)
        )
    finally:
        free(dims)


cdef tuple _read_ranges(aclmdlDesc* desc):
    cdef aclmdlIODimsRange* found = <aclmdlIODimsRange*>malloc(sizeof(aclmdlIODimsRange))
    ranges = []
    if found == NULL:
        raise MemoryError()
    try:
        for i in range(api.aclmdlGetNumInputs(desc)):
            check(api.aclmdlGetInputDimsRange(desc, i, found), b"aclmdlGetInputDimsRange")
            ranges.append(tuple(
                (found.range[d][0], None if found.range[d][1] < 0 else found.range[d][1])
                for d in range(<int64_t>found.rangeCount)
            ))
    finally:
        free(found)
    return tuple(ranges)


def _rows(inputs, outputs, gear_kind, gears):
    """(max_rows, why not, row multiples): whether axis 0 of every tensor is the batch."""
    none = (0, (1,) * len(outputs))
    if gear_kind not in ("static", "batch"):
        return none[0], f"the om has {gear_kind} gears" if gears else "the om has a range of shapes", none[1]
    if not inputs:
        return none[0], "the om has no inputs", none[1]
    first = inputs[0]
    rows = max(gears) if gear_kind == "batch" else (first.shape[0] if first.shape else 0)
    for spec in inputs:
        own = spec.shape[0] if spec.shape else 0
        if (own is not None) if gear_kind == "batch" else (own != rows or rows == 0):
            return none[0], f"input {spec} has no batch axis of {rows} rows", none[1]
    multiples = []
    for spec in outputs:
        row = math.prod(spec.shape[1:]) * spec.itemsize if spec.shape and None not in spec.shape[1:] else 0
        length = spec.nbytes // row if row else (spec.shape[0] or 0 if spec.shape else 0)
        if length == 0 or length % rows:
            return none[0], f"output {spec} has {length} rows along axis 0, no multiple of the batch {rows}", none[1]
        multiples.append(length // rows)
    return rows, "", tuple(multiples)


cdef object _read(aclmdlDesc* desc):
    inputs, reserved = _read_inputs(desc)
    outputs = _read_outputs(desc)
    gear_kind, gears = _read_gears(desc, inputs, outputs, reserved)
    if gears:                          # the largest gear bounds every tensor
        _believe(all(spec.nbytes or 0 in spec.shape for spec in inputs), b"aclmdlGetInputSizeByIndex")
        _believe(all(spec.nbytes or 0 in spec.shape for spec in outputs), b"aclmdlGetOutputSizeByIndex")
    max_rows, not_rows, multiples = _rows(inputs, outputs, gear_kind, gears)
    ranges = _read_ranges(desc) if gear_kind == "range" else ()
    return Description(
        tuple(inputs), tuple(outputs), gear_kind, gears, max_rows, not_rows, multiples, tuple(reserved), ranges
    )


def describe(Context context not None, path) -> Description:
    """What the om at `path` declares; the model is not loaded. Blocks while the file is read.

    Raises
    ------
    AclError
        AscendCL cannot read the file.
    """
    cdef aclmdlDesc* desc
    encoded = os.fsencode(path)
    cdef const char* c_path = encoded
    cdef aclError rc
    with context.bound():
        desc = api.aclmdlCreateDesc()
        if desc == NULL:
            raise MemoryError("aclmdlCreateDesc returned NULL")
        try:
            with nogil:
                rc = api.aclmdlGetDescFromFile(desc, c_path)
            check(rc, b"aclmdlGetDescFromFile")
            return _read(desc)
        finally:
            api.aclmdlDestroyDesc(desc)


def input_shapes(description, gear) -> tuple:
    """The inputs' shapes at one of the description's gears (None: a model without gears)."""
    if description.gear_kind == "batch":
        return tuple(tuple(gear if dim is None else dim for dim in spec.shape) for spec in description.inputs)
    values = iter(())
    shapes = []
    for spec in description.inputs:
        if description.gear_kind == "image_size" and None in spec.shape:
            values = iter(gear)
        elif description.gear_kind == "dims" and not shapes:
            values = iter(gear)
        shapes.append(tuple(next(values) if dim is None else dim for dim in spec.shape))
    return tuple(shapes)


def common_rows(shapes) -> int:
    """Dim 0 of all these shapes; 0 where they differ."""
    first = {shape[0] if shape else 0 for shape in shapes}
    return first.pop() if len(first) == 1 else 0


def query_size(Context context not None, path) -> tuple:
    """(work, weight) bytes that one load of the om needs on the device; not for range models."""
    cdef size_t work = 0, weight = 0
    cdef aclError rc
    encoded = os.fsencode(path)
    cdef const char* c_path = encoded
    with context.bound():
        with nogil:
            rc = api.aclmdlQuerySize(c_path, &work, &weight)
        check(rc, b"aclmdlQuerySize")
    return work, weight


@cython.final
@cython.no_gc_clear                    # __dealloc__ frees what `buffers` lists
cdef class Dataset:
    """An aclmdlDataset and the data buffers in it, in the order of the model's tensors."""

    def __cinit__(self, owner):
        self.owner = owner
        self.buffers = []
        self.handle = api.aclmdlCreateDataset()
        if self.handle == NULL:
            raise MemoryError("aclmdlCreateDataset returned NULL")
        live[<int>acl.DATASET] += 1

    cdef int add(self, void* ptr, size_t nbytes) except -1:
        cdef aclDataBuffer* buffer = api.aclCreateDataBuffer(ptr, nbytes)
        if buffer == NULL:
            raise MemoryError("aclCreateDataBuffer returned NULL")
        live[<int>acl.DATA_BUFFER] += 1
        self.buffers.append(<size_t>buffer)
        check(api.aclmdlAddDatasetBuffer(self.handle, buffer), b"aclmdlAddDatasetBuffer")
        return 0

    cdef aclDataBuffer* buffer(self, int index):
        return <aclDataBuffer*><size_t>self.buffers[index]

    cdef aclError _release(self) noexcept:
        cdef aclError rc = 0
        if self.handle == NULL:
            return 0
        rc = api.aclmdlDestroyDataset(self.handle)
        acl.released(acl.DATASET, rc)
        self.handle = NULL
        for address in self.buffers:
            acl.released(acl.DATA_BUFFER, api.aclDestroyDataBuffer(<aclDataBuffer*><size_t>address))
        self.buffers = []
        return rc

    def close(self):
        """Destroy the dataset and its data buffers; the memory they point to is not theirs."""
        check(self._release(), b"aclmdlDestroyDataset")

    def __dealloc__(self):
        if self.handle != NULL and usable():
            self._release()


@cython.final
@cython.no_gc_clear                    # __dealloc__ needs the context
cdef class Model:
    """One load of an om on one device. One at a time may run; load again to run two at once.

    Parameters
    ----------
    context : Context
        Load, execution and unload happen in it.
    path : str
    sizes : (int, int), optional
        Work and weight bytes from query_size(); the memory is then ge_core's. None for range models, which AscendCL
        gives memory of its own.
    weights : DeviceBuffer, optional
        Weight memory of another load of the same file, shared with it.
    """

    def __cinit__(self, Context context not None, str path not None, sizes=None, DeviceBuffer weights=None):
        cdef size_t work_nbytes, weight_nbytes
        cdef void* work_ptr = NULL
        cdef void* weight_ptr = NULL
        cdef aclError rc
        encoded = os.fsencode(path)
        cdef const char* c_path = encoded
        self.context = context
        self.path = path
        with context.bound():
            if sizes is None:
                with nogil:
                    rc = api.aclmdlLoadFromFile(c_path, &self.id)
                check(rc, b"aclmdlLoadFromFile")
            else:
                work_nbytes, weight_nbytes = sizes
                if work_nbytes:
                    self.work = DeviceBuffer(context, work_nbytes)
                    work_ptr = self.work.ptr
                if weight_nbytes:
                    self.weights = weights if weights is not None else DeviceBuffer(context, weight_nbytes)
                    weight_ptr = self.weights.ptr
                with nogil:
                    rc = api.aclmdlLoadFromFileWithMem(
                        c_path, &self.id, work_ptr, work_nbytes, weight_ptr, weight_nbytes
                    )
                check(rc, b"aclmdlLoadFromFileWithMem")
            self.loaded = True
            live[<int>acl.MODEL] += 1
            self.desc = api.aclmdlCreateDesc()
            if self.desc == NULL:
                raise MemoryError("aclmdlCreateDesc returned NULL")
            check(api.aclmdlGetDesc(self.desc, self.id), b"aclmdlGetDesc")
            self.description = _read(self.desc)
            self.gear_input = len(self.description.inputs)     # reserved inputs come last

    @property
    def model_id(self) -> int:
        return self.id

    def gear_nbytes(self) -> int:
        """Device bytes of the reserved gear input; 0 for a model without gears."""
        if not self.description.reserved:
            return 0
        nbytes = api.aclmdlGetInputSizeByIndex(self.desc, self.gear_input)
        _believe(nbytes != 0, b"aclmdlGetInputSizeByIndex")
        return nbytes

    def output_shapes(self) -> list:
        """The outputs' shapes at the gear that was set last (context bound by the caller)."""
        cdef aclmdlIODims dims
        cdef size_t i
        shapes = []
        for i in range(len(self.description.outputs)):
            if self.description.gear_kind == "static":
                check(api.aclmdlGetOutputDims(self.desc, i, &dims), b"aclmdlGetOutputDims")
            else:
                check(api.aclmdlGetCurOutputDims(self.desc, i, &dims), b"aclmdlGetCurOutputDims")
            shapes.append(_shape(&dims))
        return shapes

    cdef aclError _release(self) noexcept:
        cdef aclrtContext previous
        cdef aclError rc
        if not self.loaded:
            return 0
        self.loaded = False
        with nogil:
            rc = self.context.enter(&previous)
            if rc == 0:
                rc = api.aclmdlUnload(self.id)
            self.context.leave(previous)
        acl.released(acl.MODEL, rc)
        if self.desc != NULL:
            api.aclmdlDestroyDesc(self.desc)
            self.desc = NULL
        return rc

    def close(self):
        """Unload and give work memory back; nothing of it may be queued. Calling it again does nothing.

        Weight memory goes with the last load that shares it.
        """
        work, self.work, self.weights = self.work, None, None
        try:
            check(self._release(), b"aclmdlUnload")
        finally:
            if work is not None:
                work.close()

    def __dealloc__(self):
        if self.loaded and usable():
            self._release()
