# SPDX-License-Identifier: Apache-2.0
"""Oms as CANN writes them, for tests of the reader."""

import struct


def npu_om(partitions, bits=64, kind=0, models=1, encrypted=0, unknown=0, platform=b"1.84.T9", extra=b""):
    """An om as CANN writes it, put together field by field from the documented offsets."""
    body = b""
    for _ in range(max(models, 1)):
        entry, offset, data = b"", 0, b""
        for type, content in partitions:
            place = "<IIQQ" if bits == 64 else "<III"
            entry += struct.pack(place, *([type, 0] if bits == 64 else [type]), offset, len(content))
            offset += len(content)
            data += content
        body += struct.pack("<II" if bits == 64 else "<I", *([len(partitions), 0][: 2 if bits == 64 else 1]))
        body += entry + data
    header = bytearray(256)
    struct.pack_into("<4sII", header, 0, b"IMOD", 256, 0x20000000)
    struct.pack_into("<I", header, 76, len(body))
    struct.pack_into("<BBBB", header, 80, encrypted, 0, kind, 0)
    struct.pack_into("<32sI", header, 84, b"bert_base", 7)
    struct.pack_into("<II20s", header, 152, 3, models, platform)
    struct.pack_into("<QBB", header, 184, len(body) if bits == 64 else 0, 1, unknown)
    return bytes(header) + body + extra
