"""Zero-copy AscendCL execution engine for compiled Ascend models."""
