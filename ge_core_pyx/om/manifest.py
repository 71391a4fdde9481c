# SPDX-License-Identifier: Apache-2.0
"""The manifest of a CPU om: a JSON object that describes its tensors, gears and ranges, and the rules for it."""

from __future__ import annotations

import itertools
import re
from typing import Any

from ge_core_pyx.om.aipp import check_aipp
from ge_core_pyx.om.validation import DTYPES, check_keys, expect, is_int, is_text

SCHEMA = 1

_Gears = tuple[str, list[tuple[int, ...]]]  # kind, and the gears in ascending order
_GEAR_WIDTHS = {"batch": 1, "image_size": 2, "dims": None}  # numbers in each gear; None: one for each -1
_MOST_DIMS = 128  # ACL_MAX_DIM_CNT
_KEYS = (
    *("schema", "generator", "soc", "name", "kind", "inputs", "outputs"),
    *("gears", "ranges", "exec_us", "weight_bytes", "work_bytes"),
)


def check_manifest(manifest: Any) -> None:
    """Check a manifest of a CPU om.

    Parameters
    ----------
    manifest : dict
        See :func:`ge_core_pyx.om.read_manifest` for its keys.

    Raises
    ------
    ValueError
        Names the first thing that is wrong.
    """
    check_keys("the manifest", manifest, _KEYS, ("aipp", "onnx_crc32"))
    if manifest["schema"] != SCHEMA or manifest["schema"] is True:
        raise ValueError(f"manifest schema: expected {SCHEMA}, got {manifest['schema']!r}")
    for key in ("generator", "soc", "name"):
        expect(is_text(manifest[key]), key, "a string", manifest[key])
    expect(manifest["kind"] in ("graph", "synthetic"), "kind", "'graph' or 'synthetic'", manifest["kind"])
    for key in ("weight_bytes", "work_bytes"):
        expect(is_int(manifest[key], 0), key, "a number of bytes >= 0", manifest[key])
    gears = _check_gears(manifest["gears"])
    _check_ranges(manifest)
    expect(gears is None or manifest["ranges"] is None, "gears", "null when there are ranges", manifest["gears"])
    _check_tensors(manifest, gears)
    _check_exec_us(manifest["exec_us"], gears)
    if "aipp" in manifest:
        check_aipp(manifest, gears)
    if "onnx_crc32" in manifest:
        crc = manifest["onnx_crc32"]
        ok = manifest["kind"] == "graph" and isinstance(crc, str) and re.fullmatch("[0-9a-f]{8}", crc) is not None
        expect(ok, "onnx_crc32", "8 hexadecimal digits, in a manifest of kind 'graph'", crc)


def _check_gears(gears: Any) -> _Gears | None:
    if gears is None:
        return None
    check_keys("gears", gears, ("kind", "values"))
    kind, values = gears["kind"], gears["values"]
    expect(isinstance(kind, str) and kind in _GEAR_WIDTHS, "gears.kind", "'batch', 'image_size' or 'dims'", kind)
    expect(isinstance(values, list) and len(values) > 0, "gears.values", "a list that is not empty", values)
    if kind == "batch":
        values = [[value] for value in values]
    width = _GEAR_WIDTHS[kind] or (len(values[0]) if isinstance(values[0], list) else 1)
    for value in values:
        ok = isinstance(value, list) and len(value) == width > 0 and all(is_int(dim, 1) for dim in value)
        expect(ok, "gears.values", f"{width} number(s) >= 1 for each gear", value)
    rows = [tuple(value) for value in values]
    expect(all(a < b for a, b in itertools.pairwise(rows)), "gears.values", "ascending, no gear twice", rows)
    return kind, rows


def _check_ranges(manifest: dict[str, Any]) -> None:
    ranges = manifest["ranges"]
    if ranges is None:
        return
    expect(isinstance(ranges, dict) and len(ranges) > 0, "ranges", "an object that names inputs", ranges)
    inputs = manifest["inputs"] if isinstance(manifest["inputs"], list) else []
    shapes = {item.get("name"): item.get("shape") for item in inputs if isinstance(item, dict)}
    expect(set(ranges) == set(shapes), "ranges", f"every input ({', '.join(map(str, shapes))})", list(ranges))
    for name, bounds in ranges.items():
        shape: Any = shapes[name]
        ok = isinstance(bounds, list) and isinstance(shape, list) and len(bounds) == len(shape)
        expect(ok, f"ranges.{name}", "one [lower, upper] for each dim", bounds)
        for bound, dim in zip(bounds, shape, strict=True):
            ok = isinstance(bound, list) and len(bound) == 2 and is_int(bound[0], 0) and is_int(bound[1], -1)
            ok = ok and (bound[1] == -1 or bound[0] <= bound[1])
            ok = ok and (dim == -1 if bound[0] != bound[1] else dim in (-1, bound[0]))
            expect(ok, f"ranges.{name}", f"[lower, upper] that goes with dim {dim}; upper -1 for none", bound)


def _check_tensors(manifest: dict[str, Any], gears: _Gears | None) -> None:
    for group in ("inputs", "outputs"):
        items = manifest[group]
        expect(isinstance(items, list) and len(items) > 0, group, "a list of tensors, not empty", items)
        names = set()
        for number, item in enumerate(items):
            what = f"{group}[{number}]"
            more = ("format",) if group == "inputs" else ("gear_shapes",) if gears else ()
            check_keys(what, item, ("name", "dtype", "shape", "tensor", *more))
            for key in ("name", "tensor"):
                expect(is_text(item[key]) and item[key] != "", f"{what}.{key}", "a name", item[key])
            expect(item["name"] not in names, f"{what}.name", "every name once", item["name"])
            names.add(item["name"])
            known = isinstance(item["dtype"], str) and item["dtype"] in DTYPES
            expect(known, f"{what}.dtype", f"one of {', '.join(DTYPES)}", item["dtype"])
            if group == "inputs":
                expect(item["format"] in ("NCHW", "ND"), f"{what}.format", "'NCHW' or 'ND'", item["format"])
            _check_shape(what, item["shape"], bool(gears or manifest["ranges"]))
            if group == "outputs" and gears:
                _check_gear_shapes(what, item, len(gears[1]))
    unknown = sum(item["shape"].count(-1) for item in manifest["inputs"])
    if gears and gears[0] == "dims":
        expect(unknown == len(gears[1][0]), "gears.values", f"{unknown} numbers, one for each -1", gears[1][0])


def _check_shape(what: str, shape: Any, dynamic: bool) -> None:
    ok = isinstance(shape, list) and len(shape) <= _MOST_DIMS and all(is_int(dim, -1) for dim in shape)
    expect(ok, f"{what}.shape", f"a list of at most {_MOST_DIMS} numbers >= 0, or -1", shape)
    expect(dynamic or -1 not in shape, f"{what}.shape", "no -1 without gears or ranges", shape)


def _check_gear_shapes(what: str, item: dict[str, Any], count: int) -> None:
    shape, rows = item["shape"], item["gear_shapes"]
    expect(isinstance(rows, list) and len(rows) == count, f"{what}.gear_shapes", "one for each gear", rows)
    for row in rows:
        ok = isinstance(row, list) and len(row) == len(shape) and all(is_int(dim, 0) for dim in row)
        ok = ok and all(want in (-1, got) for want, got in zip(shape, row, strict=True))
        expect(ok, f"{what}.gear_shapes", f"shapes that go with {shape}", row)


def _check_exec_us(value: Any, gears: _Gears | None) -> None:
    def number(item: Any) -> bool:
        return type(item) in (int, float) and 0 <= item < 1e15

    if isinstance(value, list):
        ok = gears is not None and len(value) == len(gears[1]) and all(map(number, value))
    else:
        ok = value is None or number(value)
    expect(ok, "exec_us", "null, microseconds >= 0, or a list with one number for each gear", value)
