# SPDX-License-Identifier: Apache-2.0
"""The container of an om file: header, partition tables and partitions, for NPU and CPU models alike.

Layout, little endian: a 256-byte header that begins with ``IMOD``; then, ``model_num`` times, a partition table and the
bytes of its partitions, whose offsets count from the end of the table. Old files (``model_length`` 0) have a 32-bit
table. Reading never loads more of a file than was asked for, and checks every number of the file before using it.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from ge_core_pyx.errors import ModelFileError

MAGIC = b"IMOD"
CPU_PLATFORM = "CPU"  # platform_version of an om for the CPU implementation of AscendCL
MANIFEST = 1000
ONNX = 1001
PIECE_NBYTES = 1 << 20  # of large partitions, which are read and written a piece at a time

_KINDS = {0: "IR", 1: "standard", 2: "tiny", 3: "flow", 4: "lite", 5: "bundle"}
_PARTITIONS = {
    0: "MODEL_DEF",
    1: "WEIGHTS",
    2: "TASK_INFO",
    3: "TBE_KERNELS",
    4: "CUST_AICPU",
    5: "SO_BINS",
    6: "FLOW_MODEL",
    7: "FLOW_SUBMODEL",
    8: "MODEL_INOUT_INFO",
    24: "BUNDLE_MODEL_INFO",
    25: "BUNDLE_MODEL_VAR_INFO",
    26: "CUSTOM_OPS",
    MANIFEST: "CPU_MANIFEST",
    ONNX: "CPU_ONNX",
}
_HEADER_NBYTES = 256
_VERSION = 0x20000000
_HEADER = struct.Struct("<4sII64sI4B32sI32sII20sB3xQBB62x")
_TABLE64 = struct.Struct("<I4x")
_ENTRY64 = struct.Struct("<I4xQQ")
_TABLE32 = struct.Struct("<I")
_ENTRY32 = struct.Struct("<III")
_MOST_PARTITIONS = 4096


@dataclass(frozen=True)
class OmHeader:
    """The header of an om file.

    Attributes
    ----------
    path : str
    file_nbytes, payload_nbytes : int
        Size of the file, and what the header says of it without the header itself; they are known to agree.
    table_bits : int
        64, or 32 for old files.
    version, ir_version, model_num, ops : int
    model_kind : str
        "IR", "standard", "tiny", "flow", "lite", "bundle" or "kind N".
    name, platform_version : str
    encrypted, is_unknow_model, need_check_os_cpu_info : bool
        `is_unknow_model` is set when shapes are ranges, known only at run time.
    """

    path: str
    file_nbytes: int
    payload_nbytes: int
    table_bits: int
    version: int
    ir_version: int
    model_num: int
    ops: int
    model_kind: str
    name: str
    platform_version: str
    encrypted: bool
    is_unknow_model: bool
    need_check_os_cpu_info: bool

    @property
    def is_cpu(self) -> bool:
        """Whether the file was compiled for the CPU implementation of AscendCL."""
        return self.platform_version == CPU_PLATFORM


@dataclass(frozen=True)
class Partition:
    """One partition: `offset` counts bytes from the start of the file, `model` is the index of its table."""

    type: int
    offset: int
    nbytes: int
    model: int = 0

    @property
    def name(self) -> str:
        return _PARTITIONS.get(self.type, f"type {self.type}")


def read_header(path: str | os.PathLike) -> OmHeader:
    """Read the 256-byte header of an om file, NPU or CPU, and check it against the size of the file.

    Raises
    ------
    ModelFileError
        Not a readable om file: missing, a folder, empty, truncated, a git-lfs pointer, an ONNX file or something else.
    """
    with OmFile(path) as file:
        return file.header


def read_partitions(path: str | os.PathLike) -> list[Partition]:
    """Read the partition tables of an om file; every partition returned lies inside the file.

    Raises
    ------
    ModelFileError
        As :func:`read_header`, and for a table or a partition that reaches beyond the file.
    """
    with OmFile(path) as file:
        return file.partitions()


def read_partition(path: str | os.PathLike, type: int) -> bytes:
    """Read the bytes of the first partition of this type.

    Raises
    ------
    ModelFileError
        As :func:`read_partitions`, and when there is no such partition.
    """
    with OmFile(path) as file:
        return file.read(type)


def is_cpu(path: str | os.PathLike) -> bool:
    """Whether this om was compiled for the CPU implementation of AscendCL. Raises as :func:`read_header`."""
    return read_header(path).is_cpu


class OmFile:
    """An om file that is open for reading; close it by a ``with`` statement.

    Parameters
    ----------
    path : path of an om file

    Attributes
    ----------
    header : OmHeader

    Raises
    ------
    ModelFileError
        As :func:`read_header`; the methods raise as :func:`read_partition`.
    """

    def __init__(self, path: str | os.PathLike):
        self._file = _open(path)
        try:
            self.header = _read_header(self._file, os.fspath(path))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> OmFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def partitions(self) -> list[Partition]:
        """All partitions, in the order of the tables."""
        header = self.header
        table, entry = (_TABLE64, _ENTRY64) if header.table_bits == 64 else (_TABLE32, _ENTRY32)
        found: list[Partition] = []
        start = _HEADER_NBYTES
        for model in range(max(header.model_num, 1)):
            where = f"{header.path}: partition table {model}"
            (count,) = table.unpack(self._read_at(start, table.size, where))
            if not 0 < count <= _MOST_PARTITIONS:
                raise ModelFileError(
                    f"{where}: expected 1 to {_MOST_PARTITIONS} partitions, got {count}; the file is damaged"
                )
            base = start + table.size + count * entry.size
            raw = self._read_at(start + table.size, count * entry.size, where)
            start = base
            for type, offset, nbytes in entry.iter_unpack(raw):
                if offset + nbytes > header.file_nbytes - base:
                    raise ModelFileError(
                        f"{where}: expected partition {_PARTITIONS.get(type, type)} inside the "
                        f"{header.file_nbytes - base} bytes after the table, got offset {offset} and size {nbytes}; "
                        f"the file is damaged"
                    )
                found.append(Partition(type, base + offset, nbytes, model))
                start = max(start, base + offset + nbytes)
        return found

    def find(self, type: int) -> Partition:
        """The first partition of this type."""
        partitions = self.partitions()
        for partition in partitions:
            if partition.type == type:
                return partition
        names = ", ".join(partition.name for partition in partitions)
        raise ModelFileError(f"{self.header.path}: expected partition {_PARTITIONS.get(type, type)}, got only {names}")

    def read(self, type: int, limit: int | None = None) -> bytes:
        """The bytes of the first partition of this type, which is refused when it has more than `limit` of them."""
        partition = self.find(type)
        if limit is not None and partition.nbytes > limit:
            raise ModelFileError(
                f"{self.header.path}: expected partition {partition.name} of at most {limit} bytes, got "
                f"{partition.nbytes}; the file is damaged"
            )
        return self._read_at(partition.offset, partition.nbytes, f"{self.header.path}: partition {partition.name}")

    def pieces(self, type: int) -> Iterator[bytes]:
        """The bytes of the first partition of this type, a piece at a time; fewer of them when the file has shrunk."""
        partition = self.find(type)
        self._file.seek(partition.offset)
        left = partition.nbytes
        while piece := self._file.read(min(left, PIECE_NBYTES)):
            left -= len(piece)
            yield piece

    def _read_at(self, offset: int, nbytes: int, where: str) -> bytes:
        self._file.seek(offset)
        raw = self._file.read(nbytes)
        if len(raw) != nbytes:
            raise ModelFileError(
                f"{where}: expected {nbytes} bytes at offset {offset}, got {len(raw)}; the file is truncated"
            )
        return raw


def pack_head(name: str, partitions: Sequence[tuple[int, int]], *, unknown_shapes: bool) -> bytes:
    """Header and partition table of a CPU om; the bytes of the partitions follow it, in the same order.

    Parameters
    ----------
    name : str
        What does not fit into 31 bytes is left out.
    partitions : sequence of (type, size in bytes)
    unknown_shapes : bool
        Whether shapes are ranges, known only at run time.
    """
    table, offset = _TABLE64.pack(len(partitions)), 0
    for type, nbytes in partitions:
        table += _ENTRY64.pack(type, offset, nbytes)
        offset += nbytes
    payload = len(table) + offset
    length = payload if payload < 1 << 32 else 0
    short = name.encode()[:31].decode("utf-8", "ignore").encode()
    header = _HEADER.pack(
        *(MAGIC, _HEADER_NBYTES, _VERSION, b"", length, 0, 0, 0, 0, short, 0, b"", 0, 1),
        *(CPU_PLATFORM.encode(), 0, payload, 0, unknown_shapes),
    )
    return header + table


def _open(path: str | os.PathLike) -> BinaryIO:
    name = os.fspath(path)
    try:
        # O_NONBLOCK: a FIFO must not hang the open; it has no effect on regular files.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ModelFileError(f"{name}: expected an om file, found nothing there; check the path") from None
    except OSError as error:
        raise ModelFileError(
            f"{name}: expected a readable om file, got {error.strerror}; check the path and its permissions"
        ) from None
    except ValueError as error:
        raise ModelFileError(f"{name!r}: expected the path of an om file, got {error}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "something that is not a regular file"
        raise ModelFileError(f"{name}: expected an om file, got {what}; name the .om file itself")
    return os.fdopen(descriptor, "rb")


def _read_header(file: BinaryIO, name: str) -> OmHeader:
    size = os.fstat(file.fileno()).st_size
    raw = file.read(_HEADER_NBYTES)
    if not raw:
        raise ModelFileError(f"{name}: expected an om file, got an empty file; copy or compile it again")
    if raw[:4] != MAGIC:
        raise ModelFileError(f"{name}: expected an om file, {_guess_content(raw)}")
    if len(raw) < _HEADER_NBYTES:
        raise ModelFileError(
            f"{name}: expected a header of {_HEADER_NBYTES} bytes, got {len(raw)} bytes in all; the file is "
            f"truncated, copy or compile it again"
        )
    fields: tuple[Any, ...] = _HEADER.unpack(raw)
    _, head_nbytes, version, _, length, encrypted, _, kind, _, model_name, ops, _, ir, model_num = fields[:14]
    platform, _, model_length, check_os, unknown = fields[14:]
    if head_nbytes != _HEADER_NBYTES:
        raise ModelFileError(
            f"{name}: expected a header size of {_HEADER_NBYTES}, got {head_nbytes}; the file is damaged"
        )
    payload = model_length or length
    if payload != size - _HEADER_NBYTES:
        verb = "truncated" if payload > size - _HEADER_NBYTES else "longer than its header says"
        raise ModelFileError(
            f"{name}: expected {_HEADER_NBYTES + payload} bytes, got {size}; the file is {verb}, copy or "
            f"compile it again"
        )
    return OmHeader(
        path=name,
        file_nbytes=size,
        payload_nbytes=payload,
        table_bits=64 if model_length else 32,
        version=version,
        ir_version=ir,
        model_num=model_num,
        ops=ops,
        model_kind=_KINDS.get(kind, f"kind {kind}"),
        name=_decode(model_name),
        platform_version=_decode(platform),
        encrypted=encrypted != 0,
        is_unknow_model=unknown != 0,
        need_check_os_cpu_info=check_os != 0,
    )


def _decode(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


def _guess_content(raw: bytes) -> str:
    """What a file that is no om seems to be, and what to do with it."""
    if raw.startswith(b"version https://git-lfs"):
        return "got a git-lfs pointer; fetch the file itself with `git lfs pull`"
    if raw.startswith(b"PK\x03\x04"):
        return "got a ZIP archive; if it is an OM2 model, compile it again as a plain om (other archives: unpack them)"
    if raw.lstrip()[:1] in (b"{", b"["):
        return "got JSON; if it describes a synthetic model, compile it with `ge-core compile`"
    # An ONNX ModelProto begins with ir_version (field 1, varint, a small number).
    if len(raw) > 2 and raw[0] == 0x08 and 0 < raw[1] < 0x20 and raw[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42):
        return "got what looks like an ONNX file; compile it with `ge-core compile`"
    return f"got a file that begins with {raw[:8]!r} instead of {MAGIC!r}; compile the model with `ge-core compile`"
