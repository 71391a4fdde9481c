# SPDX-License-Identifier: Apache-2.0
"""Checks that the manifest's rules share; each raises ValueError with what was expected and what came."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ge_core_pyx import dtypes

DTYPES = tuple(row.name for row in dtypes.TABLE)  # the data types that a tensor may have


def expect(ok: bool, what: str, expected: str, got: Any) -> None:
    """Raise a ValueError that names `what`, unless `ok`."""
    if not ok:
        raise ValueError(f"{what}: expected {expected}, got {got!r}")


def check_keys(what: str, value: Any, required: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Check that `value` is a dict with all the required keys, and no others than the optional ones."""
    if not isinstance(value, dict):
        raise ValueError(f"{what}: expected an object, got {type(value).__name__}")
    required = set(required)
    if missing := sorted(required - set(value)):
        raise ValueError(f"{what}: expected the keys {', '.join(sorted(required))}; missing {', '.join(missing)}")
    if unknown := sorted(set(value) - required - set(optional)):
        raise ValueError(f"{what}: unknown key {', '.join(map(repr, unknown))}")


def is_int(value: Any, lowest: int) -> bool:
    """Whether this is an int (not a bool) from `lowest` to what 64 bits hold safely."""
    return type(value) is int and lowest <= value < 1 << 62


def is_text(value: Any) -> bool:
    """Whether this is a string that a C program can hold: without NUL and without half of a surrogate pair."""
    return isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value)
