# SPDX-License-Identifier: Apache-2.0
"""Oms for the CPU implementation of AscendCL: check one before it is loaded, read its manifest, write one.

Such an om has ``platform_version`` "CPU", partition 1000 (the manifest, JSON) and, unless it is synthetic, 1001 (ONNX).
The manifest holds the CRC-32 of the ONNX bytes, because a damaged graph can crash the program that reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ge_core_pyx.errors import ModelFileError
from ge_core_pyx.om.container import MANIFEST, ONNX, PIECE_NBYTES, OmFile, OmHeader, pack_head
from ge_core_pyx.om.manifest import check_manifest

_LARGEST_MANIFEST = 64 << 20

_Onnx = bytes | memoryview | os.PathLike | str


def check(path: str | os.PathLike, runtime: str) -> OmHeader:
    """Read the header and refuse a model compiled for the other runtime, and a damaged one.

    Only the header of a model for an NPU is read. A model for the CPU is read whole, a piece at a time.

    Parameters
    ----------
    path : path of an om file
    runtime : {"npu", "cpu"}

    Raises
    ------
    ModelFileError
        As :func:`read_header`, and when the file was compiled for the other runtime. With runtime "cpu" also as
        :func:`read_manifest`, and when the ONNX bytes do not have the checksum of the manifest.
    """
    with OmFile(path) as file:
        _check_runtime(file.header, runtime)
        if file.header.is_cpu:
            _check_onnx(file, _read_manifest(file))
        return file.header


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
    with OmFile(path) as file:
        _check_runtime(file.header, "cpu")
        return _read_manifest(file)


def write(path: str | os.PathLike, manifest: dict[str, Any], onnx: _Onnx | None = None) -> int:
    """Write a CPU om. If that fails, there is no new file, and an existing one stays as it was.

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
    with _onnx_pieces(onnx) as (onnx_nbytes, pieces):
        text = _manifest_text(manifest, 0)
        partitions = [(MANIFEST, len(text))] + ([(ONNX, onnx_nbytes)] if onnx is not None else [])
        head = pack_head(manifest["name"], partitions, unknown_shapes=manifest["ranges"] is not None)
        size = len(head) + len(text) + onnx_nbytes
        with _replace_when_whole(Path(path)) as file:
            file.write(head + text)
            crc = 0
            for piece in pieces:
                crc = zlib.crc32(piece, crc)
                file.write(piece)
            if file.tell() != size:
                raise OSError(f"{onnx!s}: the file changed while it was copied")
            file.seek(len(head))
            file.write(_manifest_text(manifest, crc))
    return size


def _check_runtime(header: OmHeader, runtime: str) -> None:
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


def _read_manifest(file: OmFile) -> dict[str, Any]:
    path = file.header.path
    raw = file.read(MANIFEST, _LARGEST_MANIFEST)
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: the manifest is not JSON ({error}); compile the model again") from None
    try:
        check_manifest(manifest)
    except ValueError as error:
        raise ModelFileError(f"{path}: {error}; compile the model again with this version of ge_core") from None
    return manifest


def _check_onnx(file: OmFile, manifest: dict[str, Any]) -> None:
    if "onnx_crc32" not in manifest:
        return
    crc = 0
    for piece in file.pieces(ONNX):
        crc = zlib.crc32(piece, crc)
    if f"{crc:08x}" != manifest["onnx_crc32"]:
        raise ModelFileError(
            f"{file.header.path}: expected ONNX bytes with checksum {manifest['onnx_crc32']}, got {crc:08x}; the file "
            f"is damaged, copy or compile it again"
        )


@contextlib.contextmanager
def _onnx_pieces(onnx: _Onnx | None) -> Iterator[tuple[int, Iterable[bytes | memoryview]]]:
    """The size of the ONNX model in bytes, and its bytes, a piece at a time."""
    if isinstance(onnx, (str, os.PathLike)):
        with open(onnx, "rb") as source:
            yield os.fstat(source.fileno()).st_size, iter(lambda: source.read(PIECE_NBYTES), b"")
    else:
        whole = memoryview(b"" if onnx is None else onnx)
        yield whole.nbytes, [whole]


def _manifest_text(manifest: dict[str, Any], crc: int) -> bytes:
    """The manifest as the file holds it; its length does not depend on the checksum."""
    if manifest["kind"] == "graph":
        manifest = manifest | {"onnx_crc32": f"{crc:08x}"}
    return json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()


@contextlib.contextmanager
def _replace_when_whole(path: Path) -> Iterator[BinaryIO]:
    """A new file beside `path`. It takes its place when the block ends without an error, and is removed otherwise."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.om.part")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
