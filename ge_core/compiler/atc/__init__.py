# SPDX-License-Identifier: Apache-2.0
"""ATC, CANN's compiler: its options, its rules on shapes and gears, and the atc command itself."""

from ge_core.compiler.atc.command import output_path, run_atc
from ge_core.compiler.atc.options import (
    DEFAULT_SOC,
    FRAMEWORKS,
    HONOURED,
    IGNORED,
    OPTIONS,
    OUTPUT_TYPES,
    REFUSED,
    check_options,
    parse_arguments,
    require_model_and_output,
)
from ge_core.compiler.atc.shapes import (
    GEAR_OPTIONS,
    Dim,
    Shape,
    check_gears,
    check_placement,
    fill_dims,
    gear_shapes,
    gear_text,
    parse_gears,
    parse_input_shape,
    shape_text,
    shapes_text,
)

__all__ = [
    "DEFAULT_SOC",
    "FRAMEWORKS",
    "GEAR_OPTIONS",
    "HONOURED",
    "IGNORED",
    "OPTIONS",
    "OUTPUT_TYPES",
    "REFUSED",
    "Dim",
    "Shape",
    "check_gears",
    "check_options",
    "check_placement",
    "fill_dims",
    "gear_shapes",
    "gear_text",
    "output_path",
    "parse_arguments",
    "parse_gears",
    "parse_input_shape",
    "require_model_and_output",
    "run_atc",
    "shape_text",
    "shapes_text",
]
