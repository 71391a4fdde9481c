# SPDX-License-Identifier: Apache-2.0
"""Reads the X-lists of the headers in this folder: macros whose rows are ``X(field, field, …)``.

The build, the documentation of the CPU implementation and the tests take them from here. It needs nothing but Python,
because setup.py runs it before anything is built.
"""

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Function(NamedTuple):
    """One entry point of AscendCL."""

    release: str  # "V8": in CANN 8.1; "V9": added since
    library: str  # "RT" or "MDL": the 9.x library that carries it
    result: str  # the C type it returns
    name: str
    arguments: str  # as in the prototype, with the parentheses


def rows(header: str, macro: str, fields: int) -> list[list[str]]:
    """The rows of one X-list, in the order of the header.

    Parameters
    ----------
    header : str
        A file of this folder.
    macro : str
        The name of the list.
    fields : int
        How many fields each row has; only the last one may contain commas.

    Raises
    ------
    ValueError
        The header has no such list, or a row has fewer fields.
    """
    lines = iter((HERE / header).read_text().splitlines())
    if not any(line.startswith(f"#define {macro}(X)") for line in lines):
        raise ValueError(f"{header} has no X-list {macro}")
    found = []
    for line in lines:
        row = line.rstrip("\\").strip()
        if not (row.startswith("X(") and row.endswith(")")):
            raise ValueError(f"{header}: {macro}: expected a row X(...), got {line!r}")
        found.append(row[2:-1].split(", ", fields - 1))
        if len(found[-1]) != fields:
            raise ValueError(f"{header}: {macro}: expected {fields} fields, got {row}")
        if not line.endswith("\\"):
            break
    return found


def functions() -> list[Function]:
    """Every entry point of AscendCL's runtime and model APIs that a server library exports."""
    return [Function(*row) for row in rows("acl_abi.h", "ACL_FUNCTIONS", 5)]


def error_codes() -> dict[str, int]:
    """AscendCL's error codes by name; 0 (success) is not among them."""
    return {name: int(value) for name, value in rows("acl_abi.h", "ACL_ERRORS", 2)}


def called_functions() -> list[str]:
    """The names of the entry points that ge_core calls: the required ones, then the optional ones."""
    return [name for macro in ("ACL_REQUIRED", "ACL_OPTIONAL") for (name,) in rows("acl_table.h", macro, 1)]
