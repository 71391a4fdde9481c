# SPDX-License-Identifier: Apache-2.0
"""ATC's rules on shapes and gears: how they are written on its command line, and what is allowed.

A gear is a tuple of numbers: a batch size, height and width, or one number for each -1 in the shapes of the inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from ge_core.compiler.errors import CompileError

Dim = int | tuple[int, int]  # a number, -1 (unknown), or (lower, upper)
Shape = list[Dim]
_Dim = TypeVar("_Dim", int, Dim)

# option → kind of its gears
GEAR_OPTIONS = {"dynamic_batch_size": "batch", "dynamic_image_size": "image_size", "dynamic_dims": "dims"}
_EXAMPLES = {"dynamic_batch_size": "1,2,4,8", "dynamic_image_size": "224,224;448,448", "dynamic_dims": "1,128;4,384"}


def parse_input_shape(text: str) -> dict[str, Shape] | list[Shape]:
    """Read the value of --input_shape.

    Parameters
    ----------
    text : str
        ``"a:1,3,224,224;b:1~10,-1;s:"``; names end at the last colon. Without names: shapes in the order of inputs.

    Returns
    -------
    dict of str to shape, or list of shapes
        A dim is a number >= 0, -1 for unknown, or (lower, upper) with upper -1 for no limit.
    """
    parts = [part.strip() for part in text.split(";")]
    while parts and not parts[-1]:
        parts.pop()
    if not parts:
        raise CompileError('--input_shape: expected "name:1,3,224,224;...", got nothing')
    if not any(":" in part for part in parts):
        return [_parse_dims(part, part) for part in parts]
    shapes: dict[str, Shape] = {}
    for part in parts:
        name, colon, dims = part.rpartition(":")
        name = name.strip()
        if not colon or not name:
            raise CompileError(f'--input_shape: expected "name:1,3,224,224", got {part!r}')
        if name in shapes:
            raise CompileError(f"--input_shape: input {name!r} is given twice; keep one")
        shapes[name] = _parse_dims(dims, part)
    return shapes


def _parse_dims(dims: str, part: str) -> Shape:
    return [_parse_dim(dim.strip(), part) for dim in dims.split(",")] if dims.strip() else []


def _parse_dim(text: str, part: str) -> Dim:
    if re.fullmatch(r"\d{1,18}|-1", text):
        return int(text)
    bounds = re.fullmatch(r"(\d{1,18})\s*~\s*(\d{1,18}|-1)", text)
    if bounds is None:
        raise CompileError(f"--input_shape: expected numbers >= 0, -1 or ranges like 1~10, got {text!r} in {part!r}")
    lower, upper = int(bounds[1]), int(bounds[2])
    if upper != -1 and lower > upper:
        raise CompileError(f"--input_shape: expected a range with lower <= upper, got {text!r} in {part!r}")
    return lower if lower == upper else (lower, upper)


def parse_gears(option: str, text: str) -> list[tuple[int, ...]]:
    """Read the value of one of :data:`GEAR_OPTIONS`; the gears keep their order."""
    rows = text.split("," if option == "dynamic_batch_size" else ";")
    if rows and not rows[-1].strip():
        rows.pop()
    gears = []
    for row in rows:
        if not re.fullmatch(r"\s*\d{1,18}\s*(,\s*\d{1,18}\s*)*", row):
            raise CompileError(f'--{option}: expected numbers as in "{_EXAMPLES[option]}", got {text!r}')
        gears.append(tuple(int(number) for number in row.split(",")))
    return gears


def check_gears(option: str, gears: Sequence[tuple[int, ...]], soc: str) -> None:
    """ATC's rules on the gears themselves: how many, numbers from 1, no gear twice."""
    most = 256 if soc.startswith("Ascend950") else 100
    if not 2 <= len(gears) <= most:
        advice = "; for one size, write it into the shape" if len(gears) < 2 else ""
        raise CompileError(f"--{option}: expected 2 to {most} gears, got {len(gears)}{advice}")
    for gear in gears:
        if any(number < 1 for number in gear):
            raise CompileError(f"--{option}: expected numbers >= 1, got {gear_text(gear)}")
    if len(set(gears)) < len(gears):
        twice = next(gear for gear in gears if gears.count(gear) > 1)
        raise CompileError(f"--{option}: expected every gear once, got {gear_text(twice)} twice")


def check_placement(option: str, gears: Sequence[tuple[int, ...]], shapes: Mapping[str, Shape]) -> None:
    """ATC's rules on where -1 may stand in the shapes of the inputs, for each kind of gears."""
    dynamic = {name: shape for name, shape in shapes.items() if -1 in shape}
    if not dynamic:
        raise CompileError(f"--{option}: expected -1 in the shape of an input, got {shapes_text(shapes)}")
    if option == "dynamic_dims":
        count = sum(shape.count(-1) for shape in dynamic.values())
        for gear in gears:
            if len(gear) != count:
                raise CompileError(
                    f"--dynamic_dims: expected {count} number(s) in each gear, one for each -1 of "
                    f"{shapes_text(dynamic)}, got {gear_text(gear)}"
                )
        return
    places, rule = ([0], "-1 in dim 0 only") if option == "dynamic_batch_size" else ([2, 3], "-1 in H and W only")
    for name, shape in dynamic.items():
        if [at for at, dim in enumerate(shape) if dim == -1] != places or (len(places) == 2 and len(shape) != 4):
            other = "--dynamic_dims with --input_format=ND" if option == "dynamic_batch_size" else "--dynamic_dims"
            raise CompileError(
                f"--{option}: expected {rule}{' of a 4-D input' if len(places) == 2 else ''}, got "
                f"{shapes_text({name: shape})}; for other dims use {other}"
            )
    for gear in gears:
        if len(gear) != len(places):
            raise CompileError(f"--{option}: expected {len(places)} number(s) in each gear, got {gear_text(gear)}")


def fill_dims(shape: Sequence[_Dim], numbers: Iterable[int]) -> list[_Dim | int]:
    """The shape with the numbers in place of its -1, in order."""
    left = iter(numbers)
    return [next(left) if dim == -1 else dim for dim in shape]


def gear_shapes(kind: str, gear: tuple[int, ...], shapes: Mapping[str, Sequence[_Dim]]) -> dict[str, list[_Dim | int]]:
    """The inputs' shapes at one gear; `kind` is one of the values of :data:`GEAR_OPTIONS`."""
    shared = iter(gear)  # the numbers of a "dims" gear are for all inputs together
    return {name: fill_dims(shape, shared if kind == "dims" else gear) for name, shape in shapes.items()}


def gear_text(gear: tuple[int, ...]) -> str:
    return ",".join(map(str, gear))


def shape_text(shape: Sequence[Dim]) -> str:
    return ",".join(f"{dim[0]}~{dim[1]}" if isinstance(dim, tuple) else str(dim) for dim in shape)


def shapes_text(shapes: Mapping[str, Sequence[Dim]]) -> str:
    return '"' + ";".join(f"{name}:{shape_text(shape)}" for name, shape in shapes.items()) + '"'
