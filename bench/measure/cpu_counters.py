# SPDX-License-Identifier: Apache-2.0
"""Counters that the CPU implementation of AscendCL exports; a real library has none."""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Iterable, Mapping

HAND_OFF = "stream workers sleep until work comes (futex)"
ALLOCATIONS = re.compile(r"(aclrtMalloc\w*|acl(mdl)?Create(Dataset|DataBuffer|TensorDesc|Desc))")


def counters(libraries: Iterable[str]) -> dict[str, dict[str, int]] | None:
    """Return all counters: ``calls`` by entry point, ``live`` by kind, ``bytes``, ``peak``; None for a real library."""
    for path in libraries:
        function = getattr(ctypes.CDLL(path), "acl_cpu_counters_json", None)
        if function is not None:
            function.restype = ctypes.c_char_p
            return json.loads(function())
    return None


def calls(libraries: Iterable[str]) -> dict[str, int]:
    """Return how often each entry point was called; nothing for a real library."""
    return (counters(libraries) or {}).get("calls", {})


def called_since(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the entry points that were called between two results of `calls`, and how often."""
    counts = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in counts.items() if count}


def allocations(called: Mapping[str, int]) -> int:
    """Count those of `called` that allocate memory or create a dataset, data buffer or description."""
    return sum(count for name, count in called.items() if ALLOCATIONS.fullmatch(name))
