# SPDX-License-Identifier: Apache-2.0
"""From ONNX to an om: ATC's command line on an NPU host, our own compiler for the CPU implementation."""

from ge_core.compiler.compiler import Compiled, compile_model
from ge_core.compiler.errors import AtcError, CompileError

__all__ = ["AtcError", "CompileError", "Compiled", "compile_model"]
