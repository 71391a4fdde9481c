# SPDX-License-Identifier: Apache-2.0
"""The shapes of a graph's inputs, and its gears: what the graph declares, completed by ATC's options."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from ge_core.compiler import atc
from ge_core.compiler.atc import Dim, Shape
from ge_core.compiler.errors import CompileError

DeclaredShape = list[int | str] | None  # numbers, and the names of the unknown dims; None when the rank is unknown


def resolve_shapes(
    declared: Mapping[str, DeclaredShape],
    graph_inputs: Sequence[str],
    options: Mapping[str, str],
    soc: str,
    notes: list[str],
) -> tuple[dict[str, Shape], str, list[tuple[int, ...]]]:
    """Read the options on shapes and gears, and check them against the graph.

    Parameters
    ----------
    declared : mapping of str to shape
        What the graph says of each input that it uses.
    graph_inputs : sequence of str
        The names of all inputs, also of those that the graph does not use.
    options : mapping of str to str
        ATC's options by name.
    soc : str
        Its family limits the number of gears.
    notes : list of str
        Receives a note when an option has no effect.

    Returns
    -------
    shapes : dict of str to Shape
        Of each input; -1 where a gear gives the number.
    option : str
        The option that gave the gears, "" without gears.
    gears : list of tuple of int
        In ascending order.

    Raises
    ------
    CompileError
        Options that exclude each other or do not fit the graph, and a shape that neither of them says.
    """
    gear_options = [name for name in atc.GEAR_OPTIONS if options.get(name)]
    exclusive = gear_options + (["input_shape_range"] if options.get("input_shape_range") else [])
    if len(exclusive) > 1:
        raise CompileError(f"{' and '.join(f'--{name}' for name in exclusive)} exclude each other; give one of them")
    shapes = _combine(_given_shapes(list(declared), options, notes), declared, graph_inputs)
    if not gear_options:
        return shapes, "", []
    (option,) = gear_options
    if any(isinstance(dim, tuple) for shape in shapes.values() for dim in shape):
        raise CompileError(f"--{option} and ranges in --input_shape exclude each other; use -1 for what gears decide")
    layout = options.get("input_format", "NCHW")
    if option == "dynamic_dims" and layout != "ND":
        raise CompileError(f"--dynamic_dims needs --input_format=ND, got {layout}")
    if option == "dynamic_image_size" and layout != "NCHW":
        raise CompileError(f"--dynamic_image_size needs --input_format=NCHW, got {layout}")
    gears = atc.parse_gears(option, options[option])
    atc.check_gears(option, gears, soc)
    atc.check_placement(option, gears, shapes)
    return shapes, option, sorted(gears)


def dim_range(dim: Dim) -> list[int]:
    """The manifest's [lower, upper] of one dim; upper -1 for no limit."""
    if isinstance(dim, tuple):
        return [*dim]
    return [1, -1] if dim == -1 else [dim, dim]


def _given_shapes(names: Sequence[str], options: Mapping[str, str], notes: list[str]) -> dict[str, Shape]:
    """The shapes that the options give, by the input's name."""
    text = options.get("input_shape", "")
    if options.get("input_shape_range"):
        if text:
            notes.append("--input_shape has no effect: --input_shape_range takes its place")
        text = re.sub(r"[\[\]]", "", options["input_shape_range"])
    given = atc.parse_input_shape(text) if text else {}
    if isinstance(given, dict):
        return given
    if len(given) > len(names):
        raise CompileError(f"--input_shape: expected at most {len(names)} shapes, got {len(given)}")
    return dict(zip(names, given, strict=False))


def _combine(
    given: Mapping[str, Shape], declared: Mapping[str, DeclaredShape], graph_inputs: Sequence[str]
) -> dict[str, Shape]:
    """One shape for each input that the graph uses: the given one, else the declared one."""
    for name in given:
        if name not in graph_inputs:
            near = difflib.get_close_matches(name, graph_inputs, 1)
            advice = f"did you mean {near[0]!r}?" if near else "names must match exactly"
            raise CompileError(
                f"--input_shape: the graph has no input {name!r}, only {', '.join(map(repr, graph_inputs))}; {advice}"
            )
    shapes: dict[str, Shape] = {}
    for name, shape in declared.items():
        known = None if shape is None else [dim for dim in shape if isinstance(dim, int)]
        if name in given:
            if shape is not None and len(given[name]) != len(shape):
                raise CompileError(
                    f"--input_shape: expected {len(shape)} dims for {name!r} as in the graph "
                    f"({','.join(map(str, shape))}), got {len(given[name])}: {atc.shape_text(given[name])}"
                )
            shapes[name] = given[name]
        elif shape is None or known is None or len(known) < len(shape):
            raise CompileError(_explain_missing(name, declared, given))
        else:
            shapes[name] = [*known]
    return shapes


def _explain_missing(name: str, declared: Mapping[str, DeclaredShape], given: Mapping[str, Shape]) -> str:
    """What to add to --input_shape, when nothing says the shape of input `name`."""
    entries = []
    for other, shape in declared.items():
        if other in given:
            entries.append(f"{other}:{atc.shape_text(given[other])}")
        else:
            dims = ["?"] if shape is None else ["?" if isinstance(dim, str) else str(dim) for dim in shape]
            entries.append(f"{other}:{','.join(dims)}")
    shape = declared[name]
    what = "unknown" if shape is None else f"[{', '.join(map(str, shape))}]"
    return (
        f'input {name!r} has the shape {what} in the graph; add --input_shape="{";".join(entries)}" with a number '
        f"for each '?', or -1 together with --dynamic_batch_size, --dynamic_image_size or --dynamic_dims, or a "
        f"range"
    )
