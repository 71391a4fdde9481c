"""From ONNX to an om: ATC's command line on an NPU host, our own compiler for the CPU implementation."""
