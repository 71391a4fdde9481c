# SPDX-License-Identifier: Apache-2.0
"""The packages that only compiling ONNX for the CPU runtime needs, imported when they are first used."""

import importlib
from types import ModuleType

from ge_core_pyx.errors import UnsupportedError


def import_optional(name: str) -> ModuleType:
    """Import a package of the extra ``ge_core[cpu]``; UnsupportedError says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"compiling ONNX for the cpu runtime needs the package {name} ({error}); install ge_core[cpu]"
        ) from None
