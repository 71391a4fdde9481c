# SPDX-License-Identifier: Apache-2.0
"""The one table of data types: AscendCL's, NumPy's, Triton's, ONNX's and DLPack's names for the same bytes."""

from typing import NamedTuple


class DType(NamedTuple):
    name: str
    acl: int  # aclDataType
    itemsize: int  # bytes
    buffer_formats: str  # struct characters that mean this type on LP64 Linux
    triton: str  # without TYPE_
    onnx: int  # onnx.TensorProto.DataType
    dlpack: tuple[int, int]  # (type code, bits)

    @property
    def numpy(self) -> str | None:
        """NumPy's own name, None for bfloat16, which NumPy lacks (there its bits travel as uint16)."""
        return None if self.name == "bfloat16" else self.name


TABLE = (
    DType("float32", 0, 4, "f", "FP32", 1, (2, 32)),
    DType("float16", 1, 2, "e", "FP16", 10, (2, 16)),
    DType("int8", 2, 1, "b", "INT8", 3, (0, 8)),
    DType("int32", 3, 4, "i", "INT32", 6, (0, 32)),
    DType("uint8", 4, 1, "B", "UINT8", 2, (1, 8)),
    DType("int16", 6, 2, "h", "INT16", 5, (0, 16)),
    DType("uint16", 7, 2, "H", "UINT16", 4, (1, 16)),
    DType("uint32", 8, 4, "I", "UINT32", 12, (1, 32)),
    DType("int64", 9, 8, "lq", "INT64", 7, (0, 64)),
    DType("uint64", 10, 8, "LQ", "UINT64", 13, (1, 64)),
    DType("float64", 11, 8, "d", "FP64", 11, (2, 64)),
    DType("bool", 12, 1, "?", "BOOL", 9, (6, 8)),
    DType("bfloat16", 27, 2, "", "BF16", 16, (4, 16)),
)

_BY_NAME = {dtype.name: dtype for dtype in TABLE}
_BY_ACL = {dtype.acl: dtype for dtype in TABLE}
_BY_TRITON = {dtype.triton: dtype for dtype in TABLE}
_BY_ONNX = {dtype.onnx: dtype for dtype in TABLE}


def by_name(name: str) -> DType:
    """Raises KeyError for a name that is not in the table."""
    return _BY_NAME[name]


def by_acl(code: int) -> DType:
    """Raises KeyError for an aclDataType that no tensor of a served model can have (strings, 4-bit, complex, fp8)."""
    return _BY_ACL[code]


def by_triton(name: str) -> DType:
    """`name` with or without ``TYPE_``; KeyError for one that is not in the table."""
    return _BY_TRITON[name.removeprefix("TYPE_")]


def by_onnx(code: int) -> DType:
    """KeyError for an ONNX type that is not in the table."""
    return _BY_ONNX[code]
