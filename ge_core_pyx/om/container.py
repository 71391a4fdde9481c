"""The om container: one strict reader for NPU and CPU models, and the writer for CPU models.

Layout, little endian: a 256-byte header that begins with ``IMOD``; then, ``model_num`` times, a partition table and the
partitions' bytes, whose offsets count from the end of their table. Old files (``model_length`` 0) have a 32-bit table.
A CPU model has ``platform_version`` "CPU", partition 1000 (the manifest, JSON) and, unless synthetic, 1001 (ONNX),
whose CRC-32 the manifest holds: a damaged graph can crash what reads it.
Nothing here reads more of a file than was asked for, and no number in a file is trusted before it was checked.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ge_core_pyx import dtypes
from ge_core_pyx.errors import ModelFileError

MAGIC = b"IMOD"
HEADER_NBYTES = 256
VERSION = 0x20000000
CPU_PLATFORM = "CPU"
MANIFEST = 1000
ONNX = 1001
SCHEMA = 1
KINDS = {0: "IR", 1: "standard", 2: "tiny", 3: "flow", 4: "lite", 5: "bundle"}
PARTITIONS = {
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
Onnx = bytes | memoryview | os.PathLike | str

GEAR_WIDTHS = {"batch": 1, "image_size": 2, "dims": None}

_HEADER = struct.Struct("<4sII64sI4B32sI32sII20sB3xQBB62x")
_TABLE64 = struct.Struct("<I4x")
_ENTRY64 = struct.Struct("<I4xQQ")
_TABLE32 = struct.Struct("<I")
_ENTRY32 = struct.Struct("<III")
_MOST_PARTITIONS = 4096
_LARGEST_MANIFEST = 64 << 20
_MOST_DIMS = 128  # ACL_MAX_DIM_CNT
_PIECE_NBYTES = 1 << 20


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
        return PARTITIONS.get(self.type, f"type {self.type}")


def read_header(path: str | os.PathLike) -> OmHeader:
    """Read the 256-byte header of an om file, NPU or CPU, and check it against the size of the file.

    Raises
    ------
    ModelFileError
        Not a readable om file: missing, a folder, empty, truncated, a git-lfs pointer, an ONNX file or something else.
    """
    with _open(path) as file:
        return _header(file, path)


def read_partitions(path: str | os.PathLike) -> list[Partition]:
    """Read the partition tables of an om file; every partition returned lies inside the file.

    Raises
    ------
    ModelFileError
        As :func:`read_header`, and for a table or a partition that reaches beyond the file.
    """
    with _open(path) as file:
        return _partitions(file, _header(file, path))


def read_partition(path: str | os.PathLike, type: int) -> bytes:
    """Read the bytes of the first partition of this type.

    Raises
    ------
    ModelFileError
        As :func:`read_partitions`, and when there is no such partition.
    """
    with _open(path) as file:
        header = _header(file, path)
        return _partition(file, header, type)


def is_cpu(path: str | os.PathLike) -> bool:
    """Whether this om was compiled for the CPU implementation of AscendCL. Raises as :func:`read_header`."""
    return read_header(path).is_cpu


def check(path: str | os.PathLike, runtime: str) -> OmHeader:
    """Read the header and refuse a model compiled for the other runtime, and a damaged one.

    Of a model for an NPU nothing but the header is read; of one for the CPU everything, a piece at a time.

    Parameters
    ----------
    path : path of an om file
    runtime : {"npu", "cpu"}

    Raises
    ------
    ModelFileError
        As :func:`read_header`, and when the file was compiled for the other runtime. For the CPU also as
        :func:`read_manifest`, and when the ONNX bytes are not those that were written.
    """
    with _open(path) as file:
        header = _header(file, path)
        _require(header, runtime)
        if header.is_cpu:
            _check_onnx(file, header, _manifest(file, header))
    return header


def read_manifest(path: str | os.PathLike) -> dict[str, Any]:
    """Read and check the manifest of a CPU om. The ONNX bytes are not read.

    Returns
    -------
    dict
        Keys: schema, generator, soc, name, kind, inputs, outputs, gears, ranges, exec_us, weight_bytes, work_bytes,
        aipp for models with image inputs, and onnx_crc32 (8 hexadecimal digits) for those with a graph, unless an older
        ge_core wrote them.

    Raises
    ------
    ModelFileError
        As :func:`read_partitions`, for an om compiled for an NPU, and for a manifest that is malformed, of another
        schema, or has keys this version does not know.
    """
    with _open(path) as file:
        header = _header(file, path)
        _require(header, "cpu")
        return _manifest(file, header)


def write(path: str | os.PathLike, manifest: dict[str, Any], onnx: Onnx | None = None) -> int:
    """Write a CPU om: whole, or not at all.

    Parameters
    ----------
    path : where to write; an existing file is replaced in one step
    manifest : see :func:`read_manifest`; its onnx_crc32 is computed here
    onnx : the ONNX model as a buffer, which is not copied, or the path of a file, which is copied file to file; None
        for a synthetic model

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    ValueError
        The manifest is malformed, or has ONNX bytes without being of kind "graph", or the other way round.
    OSError
        The file cannot be written.
    """
    check_manifest(manifest)
    if (onnx is None) != (manifest["kind"] == "synthetic"):
        raise ValueError(f"kind {manifest['kind']!r}: expected ONNX bytes for 'graph' and none for 'synthetic'")
    with _pieces(onnx) as (onnx_nbytes, pieces):
        text = _manifest_text(manifest, 0)
        parts = [(MANIFEST, len(text))] + ([(ONNX, onnx_nbytes)] if onnx is not None else [])
        table = _TABLE64.pack(len(parts))
        offset = 0
        for type, nbytes in parts:
            table += _ENTRY64.pack(type, offset, nbytes)
            offset += nbytes
        payload = len(table) + offset
        with _replacing(Path(path)) as file:
            file.write(_pack_header(manifest, payload) + table + text)
            crc = 0
            for piece in pieces:
                crc = zlib.crc32(piece, crc)
                file.write(piece)
            if file.tell() != HEADER_NBYTES + payload:
                raise OSError(f"{onnx!s}: the file changed while it was copied")
            file.seek(HEADER_NBYTES + len(table))
            file.write(_manifest_text(manifest, crc))
    return HEADER_NBYTES + payload


def check_manifest(manifest: Any) -> None:
    """Check a manifest of a CPU om. Raises ValueError naming the first thing that is wrong."""
    _keys("the manifest", manifest, _MANIFEST_KEYS, ("aipp", "onnx_crc32"))
    if manifest["schema"] != SCHEMA or manifest["schema"] is True:
        raise ValueError(f"manifest schema: expected {SCHEMA}, got {manifest['schema']!r}")
    for key in ("generator", "soc", "name"):
        _expect(_is_text(manifest[key]), key, "a string", manifest[key])
    _expect(manifest["kind"] in ("graph", "synthetic"), "kind", "'graph' or 'synthetic'", manifest["kind"])
    for key in ("weight_bytes", "work_bytes"):
        _expect(_is_int(manifest[key], 0), key, "a number of bytes >= 0", manifest[key])
    gears = _check_gears(manifest["gears"])
    _check_ranges(manifest)
    _expect(gears is None or manifest["ranges"] is None, "gears", "null when there are ranges", manifest["gears"])
    _check_tensors(manifest, gears)
    _check_exec_us(manifest["exec_us"], gears)
    if "aipp" in manifest:
        _check_aipp(manifest, gears)
    if "onnx_crc32" in manifest:
        crc = manifest["onnx_crc32"]
        ok = manifest["kind"] == "graph" and isinstance(crc, str) and re.fullmatch("[0-9a-f]{8}", crc) is not None
        _expect(ok, "onnx_crc32", "8 hexadecimal digits, in a manifest of kind 'graph'", crc)


# --- reading ----------------------------------------------------------------------------------------------------------


def _require(header: OmHeader, runtime: str) -> None:
    if header.is_cpu and runtime == "npu":
        raise ModelFileError(
            f"{header.path}: expected an om for an NPU, got one compiled for the CPU runtime; compile it with ATC "
            f"(`ge-core compile` with GE_CORE_RUNTIME=npu), or ask for the CPU: runtime='cpu' or GE_CORE_RUNTIME=cpu"
        )
    if not header.is_cpu and runtime == "cpu":
        raise ModelFileError(
            f"{header.path}: expected an om for the CPU runtime, got one compiled for an NPU; compile its ONNX file "
            f"with `ge-core compile` and GE_CORE_RUNTIME=cpu, or use the NPU: runtime='npu' or GE_CORE_RUNTIME=npu"
        )


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


def _header(file: BinaryIO, path: str | os.PathLike) -> OmHeader:
    name = os.fspath(path)
    size = os.fstat(file.fileno()).st_size
    raw = file.read(HEADER_NBYTES)
    if not raw:
        raise ModelFileError(f"{name}: expected an om file, got an empty file; copy or compile it again")
    if raw[:4] != MAGIC:
        raise ModelFileError(f"{name}: expected an om file, {_what_came(raw)}")
    if len(raw) < HEADER_NBYTES:
        raise ModelFileError(
            f"{name}: expected a header of {HEADER_NBYTES} bytes, got {len(raw)} bytes in all; the file is truncated, "
            f"copy or compile it again"
        )
    fields = _HEADER.unpack(raw)
    _, head_nbytes, version, _, length, encrypted, _, kind, _, model_name, ops, _, ir, model_num = fields[:14]
    platform, _, model_length, check_os, unknown = fields[14:]
    if head_nbytes != HEADER_NBYTES:
        raise ModelFileError(
            f"{name}: expected a header size of {HEADER_NBYTES}, got {head_nbytes}; the file is damaged"
        )
    payload = model_length or length
    if payload != size - HEADER_NBYTES:
        verb = "truncated" if payload > size - HEADER_NBYTES else "longer than its header says"
        raise ModelFileError(
            f"{name}: expected {HEADER_NBYTES + payload} bytes, got {size}; the file is {verb}, copy or "
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
        model_kind=KINDS.get(kind, f"kind {kind}"),
        name=_text(model_name),
        platform_version=_text(platform),
        encrypted=encrypted != 0,
        is_unknow_model=unknown != 0,
        need_check_os_cpu_info=check_os != 0,
    )


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


def _what_came(raw: bytes) -> str:
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


def _partitions(file: BinaryIO, header: OmHeader) -> list[Partition]:
    table, entry = (_TABLE64, _ENTRY64) if header.table_bits == 64 else (_TABLE32, _ENTRY32)
    found: list[Partition] = []
    start = HEADER_NBYTES
    for model in range(max(header.model_num, 1)):
        where = f"{header.path}: partition table {model}"
        (count,) = table.unpack(_read(file, start, table.size, where))
        if not 0 < count <= _MOST_PARTITIONS:
            raise ModelFileError(
                f"{where}: expected 1 to {_MOST_PARTITIONS} partitions, got {count}; the file is damaged"
            )
        base = start + table.size + count * entry.size
        raw = _read(file, start + table.size, count * entry.size, where)
        start = base
        for type, offset, nbytes in entry.iter_unpack(raw):
            if offset + nbytes > header.file_nbytes - base:
                raise ModelFileError(
                    f"{where}: expected partition {PARTITIONS.get(type, type)} inside the "
                    f"{header.file_nbytes - base} bytes after the table, got offset {offset} and size {nbytes}; "
                    f"the file is damaged"
                )
            found.append(Partition(type, base + offset, nbytes, model))
            start = max(start, base + offset + nbytes)
    return found


def _manifest(file: BinaryIO, header: OmHeader) -> dict[str, Any]:
    raw = _partition(file, header, MANIFEST, _LARGEST_MANIFEST)
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{header.path}: the manifest is not JSON ({error}); compile the model again") from None
    try:
        check_manifest(manifest)
    except ValueError as error:
        raise ModelFileError(f"{header.path}: {error}; compile the model again with this version of ge_core") from None
    return manifest


def _check_onnx(file: BinaryIO, header: OmHeader, manifest: dict[str, Any]) -> None:
    if "onnx_crc32" not in manifest:
        return
    part = _find(file, header, ONNX)
    file.seek(part.offset)
    crc, left = 0, part.nbytes
    while piece := file.read(min(left, _PIECE_NBYTES)):
        crc = zlib.crc32(piece, crc)
        left -= len(piece)
    if left or f"{crc:08x}" != manifest["onnx_crc32"]:
        raise ModelFileError(
            f"{header.path}: expected ONNX bytes with checksum {manifest['onnx_crc32']}, got {crc:08x}; the file is "
            f"damaged, copy or compile it again"
        )


def _read(file: BinaryIO, offset: int, nbytes: int, where: str) -> bytes:
    file.seek(offset)
    raw = file.read(nbytes)
    if len(raw) != nbytes:
        raise ModelFileError(
            f"{where}: expected {nbytes} bytes at offset {offset}, got {len(raw)}; the file is truncated"
        )
    return raw


def _partition(file: BinaryIO, header: OmHeader, type: int, limit: int | None = None) -> bytes:
    part = _find(file, header, type)
    if limit is not None and part.nbytes > limit:
        raise ModelFileError(
            f"{header.path}: expected partition {part.name} of at most {limit} bytes, got {part.nbytes}; the file is "
            f"damaged"
        )
    return _read(file, part.offset, part.nbytes, f"{header.path}: partition {part.name}")


def _find(file: BinaryIO, header: OmHeader, type: int) -> Partition:
    found = _partitions(file, header)
    for part in found:
        if part.type == type:
            return part
    names = ", ".join(part.name for part in found)
    raise ModelFileError(f"{header.path}: expected partition {PARTITIONS.get(type, type)}, got only {names}")


# --- writing ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _pieces(onnx: Onnx | None) -> Iterator[tuple[int, Iterable[bytes | memoryview]]]:
    """Size in bytes, and the bytes piece by piece."""
    if isinstance(onnx, (str, os.PathLike)):
        with open(onnx, "rb") as source:
            yield os.fstat(source.fileno()).st_size, iter(lambda: source.read(_PIECE_NBYTES), b"")
    else:
        whole = memoryview(b"" if onnx is None else onnx)
        yield whole.nbytes, [whole]


def _manifest_text(manifest: dict[str, Any], crc: int) -> bytes:
    """The manifest as the file holds it, of one length for every checksum."""
    if manifest["kind"] == "graph":
        manifest = manifest | {"onnx_crc32": f"{crc:08x}"}
    return json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()


def _pack_header(manifest: dict[str, Any], payload: int) -> bytes:
    name = manifest["name"].encode()[:31].decode("utf-8", "ignore").encode()
    unknown = manifest["ranges"] is not None
    length = payload if payload < 1 << 32 else 0
    return _HEADER.pack(
        *(MAGIC, HEADER_NBYTES, VERSION, b"", length, 0, 0, 0, 0, name, 0, b"", 0, 1),
        *(CPU_PLATFORM.encode(), 0, payload, 0, unknown),
    )


class _replacing:  # noqa: N801
    """A new file beside `path` that takes its place when the block ends well, and is removed when not."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> BinaryIO:
        self.temporary = self.path.with_name(f".{secrets.token_hex(8)}.om.part")
        self.file = open(self.temporary, "xb")
        return self.file

    def __exit__(self, failure, *_):
        self.file.close()
        if failure is None:
            os.replace(self.temporary, self.path)
        else:
            os.unlink(self.temporary)


# --- the manifest -----------------------------------------------------------------------------------------------------

_DTYPES = tuple(row.name for row in dtypes.TABLE)
_MANIFEST_KEYS = (
    *("schema", "generator", "soc", "name", "kind", "inputs", "outputs"),
    *("gears", "ranges", "exec_us", "weight_bytes", "work_bytes"),
)


def _expect(ok: bool, what: str, expected: str, got: Any) -> None:
    if not ok:
        raise ValueError(f"{what}: expected {expected}, got {got!r}")


def _is_int(value: Any, lowest: int) -> bool:
    return type(value) is int and lowest <= value < 1 << 62


def _is_text(value: Any) -> bool:
    """Whether C programs can hold it: no NUL, no half of a surrogate pair."""
    return isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value)


def _keys(what: str, value: Any, expected: Iterable[str], optional: Iterable[str] = ()) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{what}: expected an object, got {type(value).__name__}")
    expected = set(expected)
    if missing := sorted(expected - set(value)):
        raise ValueError(f"{what}: expected the keys {', '.join(sorted(expected))}; missing {', '.join(missing)}")
    if unknown := sorted(set(value) - expected - set(optional)):
        raise ValueError(f"{what}: unknown key {', '.join(map(repr, unknown))}")


def _check_gears(gears: Any) -> tuple[str, list[tuple[int, ...]]] | None:
    if gears is None:
        return None
    _keys("gears", gears, ("kind", "values"))
    kind, values = gears["kind"], gears["values"]
    _expect(isinstance(kind, str) and kind in GEAR_WIDTHS, "gears.kind", "'batch', 'image_size' or 'dims'", kind)
    _expect(isinstance(values, list) and len(values) > 0, "gears.values", "a list that is not empty", values)
    if kind == "batch":
        values = [[value] for value in values]
    width = GEAR_WIDTHS[kind] or (len(values[0]) if isinstance(values[0], list) else 1)
    for value in values:
        ok = isinstance(value, list) and len(value) == width > 0 and all(_is_int(dim, 1) for dim in value)
        _expect(ok, "gears.values", f"{width} number(s) >= 1 for each gear", value)
    rows = [tuple(value) for value in values]
    _expect(all(a < b for a, b in itertools.pairwise(rows)), "gears.values", "ascending, no gear twice", rows)
    return kind, rows


def _check_ranges(manifest: dict[str, Any]) -> None:
    ranges = manifest["ranges"]
    if ranges is None:
        return
    _expect(isinstance(ranges, dict) and len(ranges) > 0, "ranges", "an object that names inputs", ranges)
    inputs = manifest["inputs"] if isinstance(manifest["inputs"], list) else []
    shapes = {item.get("name"): item.get("shape") for item in inputs if isinstance(item, dict)}
    _expect(set(ranges) == set(shapes), "ranges", f"every input ({', '.join(map(str, shapes))})", list(ranges))
    for name, bounds in ranges.items():
        shape: Any = shapes[name]
        ok = isinstance(bounds, list) and isinstance(shape, list) and len(bounds) == len(shape)
        _expect(ok, f"ranges.{name}", "one [lower, upper] for each dim", bounds)
        for bound, dim in zip(bounds, shape, strict=True):
            ok = isinstance(bound, list) and len(bound) == 2 and _is_int(bound[0], 0) and _is_int(bound[1], -1)
            ok = ok and (bound[1] == -1 or bound[0] <= bound[1])
            ok = ok and (dim == -1 if bound[0] != bound[1] else dim in (-1, bound[0]))
            _expect(ok, f"ranges.{name}", f"[lower, upper] that goes with dim {dim}; upper -1 for none", bound)


def _check_tensors(manifest: dict[str, Any], gears: tuple[str, list[tuple[int, ...]]] | None) -> None:
    for group in ("inputs", "outputs"):
        items = manifest[group]
        _expect(isinstance(items, list) and len(items) > 0, group, "a list of tensors, not empty", items)
        names = set()
        for number, item in enumerate(items):
            what = f"{group}[{number}]"
            keys = ("name", "dtype", "shape", "tensor", "format") if group == "inputs" else _output_keys(gears)
            _keys(what, item, keys)
            for key in ("name", "tensor"):
                _expect(_is_text(item[key]) and item[key] != "", f"{what}.{key}", "a name", item[key])
            _expect(item["name"] not in names, f"{what}.name", "every name once", item["name"])
            names.add(item["name"])
            known = isinstance(item["dtype"], str) and item["dtype"] in _DTYPES
            _expect(known, f"{what}.dtype", f"one of {', '.join(_DTYPES)}", item["dtype"])
            if group == "inputs":
                _expect(item["format"] in ("NCHW", "ND"), f"{what}.format", "'NCHW' or 'ND'", item["format"])
            _check_shape(what, item, manifest, gears)
    unknown = sum(item["shape"].count(-1) for item in manifest["inputs"])
    if gears and gears[0] == "dims":
        _expect(unknown == len(gears[1][0]), "gears.values", f"{unknown} numbers, one for each -1", gears[1][0])


def _output_keys(gears: Any) -> tuple[str, ...]:
    return ("name", "dtype", "shape", "tensor") + (("gear_shapes",) if gears else ())


def _check_shape(what: str, item: dict[str, Any], manifest: dict[str, Any], gears: Any) -> None:
    shape = item["shape"]
    ok = isinstance(shape, list) and len(shape) <= _MOST_DIMS and all(_is_int(dim, -1) for dim in shape)
    _expect(ok, f"{what}.shape", f"a list of at most {_MOST_DIMS} numbers >= 0, or -1", shape)
    if -1 in shape:
        _expect(bool(gears or manifest["ranges"]), f"{what}.shape", "no -1 without gears or ranges", shape)
    if not gears or what.startswith("inputs"):
        return
    rows = item["gear_shapes"]
    _expect(isinstance(rows, list) and len(rows) == len(gears[1]), f"{what}.gear_shapes", "one for each gear", rows)
    for row in rows:
        ok = isinstance(row, list) and len(row) == len(shape) and all(_is_int(dim, 0) for dim in row)
        ok = ok and all(want in (-1, got) for want, got in zip(shape, row, strict=True))
        _expect(ok, f"{what}.gear_shapes", f"shapes that go with {shape}", row)


def _check_exec_us(value: Any, gears: Any) -> None:
    def number(item):
        return type(item) in (int, float) and 0 <= item < 1e15

    if isinstance(value, list):
        ok = gears is not None and len(value) == len(gears[1]) and all(map(number, value))
    else:
        ok = value is None or number(value)
    _expect(ok, "exec_us", "null, microseconds >= 0, or a list with one number for each gear", value)


# Static and dynamic AIPP: what an image input was compiled with. name → (count, lowest, highest) of its numbers.
_AIPP_CHANNELS = {"YUV420SP_U8": 1, "YUV400_U8": 1, "RGB888_U8": 3, "XRGB8888_U8": 4}
_AIPP_NUMBERS = {
    "crop": (4, 0, 2**31 - 1),  # left, top, width, height
    "padding": (4, 0, 2**31 - 1),  # left, right, top, bottom
    "matrix": (9, 1 - 2**31, 2**31 - 1),
    "input_bias": (3, 0, 255),
    "output_bias": (3, 0, 255),
    "mean": (4, 0, 255),
    "min": (4, -65504, 65504),
    "var_reci": (4, -65504, 65504),
}
_AIPP_SWITCHES = ("rbuv_swap", "ax_swap")


def _check_aipp(manifest: dict[str, Any], gears: Any) -> None:
    described = manifest["aipp"]
    inputs = {item["name"]: item for item in manifest["inputs"]}
    _expect(isinstance(described, dict), "aipp", "an object that names inputs", described)
    _expect(set(described) <= set(inputs), "aipp", f"names of inputs ({', '.join(inputs)})", list(described))
    _expect(manifest["kind"] == "synthetic", "aipp", "kind 'synthetic': images are not preprocessed", manifest["kind"])
    _expect(manifest["ranges"] is None and (not gears or gears[0] == "batch"), "aipp", "batch gears or none", described)
    for name, item in described.items():
        _check_aipp_input(f"aipp.{name}", item, inputs[name])
    dynamic = [name for name, item in described.items() if item["mode"] == "dynamic"]
    _expect(len(dynamic) <= 1, "aipp", "one dynamic input at most", dynamic)
    for name in dynamic:
        images = gears[1][-1][0] if inputs[name]["shape"][0] == -1 else inputs[name]["shape"][0]
        _expect(1 <= images <= 127, f"aipp.{name}", "1 to 127 images", images)


def _check_aipp_input(what: str, item: Any, tensor: dict[str, Any]) -> None:
    _keys(what, item, ("mode", "format", "source"), (*_AIPP_NUMBERS, *_AIPP_SWITCHES))
    _expect(item["mode"] in ("static", "dynamic"), f"{what}.mode", "'static' or 'dynamic'", item["mode"])
    format, shape = item["format"], tensor["shape"]
    known = isinstance(format, str) and format in _AIPP_CHANNELS
    _expect(known, f"{what}.format", f"one of {', '.join(_AIPP_CHANNELS)}", format)
    ok = tensor["dtype"] == "uint8" and len(shape) == 4 and min(shape[1:3]) > 0 and shape[3] == _AIPP_CHANNELS[format]
    ok = ok and (format != "YUV420SP_U8" or shape[1] % 3 == 0)
    _expect(ok, what, f"uint8 images [n, h, w, {_AIPP_CHANNELS[format]}] (YUV420SP: h is 3/2 of the image's)", shape)
    source = item["source"]
    _keys(f"{what}.source", source, ("dtype", "format", "shape"))
    _expect(source["dtype"] in _DTYPES, f"{what}.source.dtype", f"one of {', '.join(_DTYPES)}", source["dtype"])
    _expect(source["format"] in ("NCHW", "NHWC"), f"{what}.source.format", "'NCHW' or 'NHWC'", source["format"])
    made = source["shape"]
    ok = isinstance(made, list) and len(made) == 4 and all(_is_int(dim, 0) for dim in made[1:]) and made[0] == shape[0]
    _expect(ok, f"{what}.source.shape", f"4 dims, the first {shape[0]}", made)
    for key, (count, lowest, highest) in _AIPP_NUMBERS.items():
        numbers = item.get(key, [lowest] * count)
        types = (int, float) if key in ("min", "var_reci") else (int,)
        ok = isinstance(numbers, list) and len(numbers) == count
        ok = ok and all(type(number) in types and lowest <= number <= highest for number in numbers)
        _expect(ok, f"{what}.{key}", f"{count} numbers from {lowest} to {highest}", numbers)
    for key in _AIPP_SWITCHES:
        _expect(type(item.get(key, False)) is bool, f"{what}.{key}", "true or false", item.get(key))
