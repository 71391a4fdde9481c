"""From ONNX to an om: ATC's command line on an NPU host, our own compiler for the CPU implementation."""

from ge_core.compiler.atc.options import AtcError, CompileError
from ge_core.compiler.graph import Compiled, compile_model

__all__ = ["AtcError", "CompileError", "Compiled", "compile_model"]
