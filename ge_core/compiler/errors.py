# SPDX-License-Identifier: Apache-2.0
"""What can go wrong while compiling, as exceptions."""

from ge_core_pyx.errors import GeCoreError


class CompileError(GeCoreError, ValueError):
    """Options or a model that cannot be compiled; the message says what was expected, what came and what to do."""


class AtcError(GeCoreError, RuntimeError):
    """ATC failed; its own output has the reason.

    Attributes
    ----------
    exit_code : int
    """

    def __init__(self, exit_code: int):
        super().__init__(exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"atc failed with exit code {self.exit_code}; its messages are above"
