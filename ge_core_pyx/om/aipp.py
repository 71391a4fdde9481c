# SPDX-License-Identifier: Apache-2.0
"""AIPP in the manifest: how the image inputs of a model were compiled to be preprocessed, statically or per request."""

from __future__ import annotations

from typing import Any

from ge_core_pyx.om.validation import DTYPES, check_keys, expect, is_int

_CHANNELS = {"YUV420SP_U8": 1, "YUV400_U8": 1, "RGB888_U8": 3, "XRGB8888_U8": 4}
# name → (how many numbers, the lowest and the highest of them)
_NUMBERS = {
    "crop": (4, 0, 2**31 - 1),  # left, top, width, height
    "padding": (4, 0, 2**31 - 1),  # left, right, top, bottom
    "matrix": (9, 1 - 2**31, 2**31 - 1),
    "input_bias": (3, 0, 255),
    "output_bias": (3, 0, 255),
    "mean": (4, 0, 255),
    "min": (4, -65504, 65504),
    "var_reci": (4, -65504, 65504),
}
_SWITCHES = ("rbuv_swap", "ax_swap")


def check_aipp(manifest: dict[str, Any], gears: tuple[str, list[tuple[int, ...]]] | None) -> None:
    """Check the manifest's entry `aipp`.

    Parameters
    ----------
    manifest : dict
        Its tensors, ranges and gears are checked already.
    gears : (kind, gears in ascending order), or None
    """
    described = manifest["aipp"]
    inputs = {item["name"]: item for item in manifest["inputs"]}
    expect(isinstance(described, dict), "aipp", "an object that names inputs", described)
    expect(set(described) <= set(inputs), "aipp", f"names of inputs ({', '.join(inputs)})", list(described))
    expect(manifest["kind"] == "synthetic", "aipp", "kind 'synthetic': images are not preprocessed", manifest["kind"])
    expect(manifest["ranges"] is None and (not gears or gears[0] == "batch"), "aipp", "batch gears or none", described)
    for name, item in described.items():
        _check_input(f"aipp.{name}", item, inputs[name])
    dynamic = [name for name, item in described.items() if item["mode"] == "dynamic"]
    expect(len(dynamic) <= 1, "aipp", "one dynamic input at most", dynamic)
    for name in dynamic:
        images = inputs[name]["shape"][0]
        if images == -1 and gears:
            images = gears[1][-1][0]
        expect(1 <= images <= 127, f"aipp.{name}", "1 to 127 images", images)


def _check_input(what: str, item: Any, tensor: dict[str, Any]) -> None:
    check_keys(what, item, ("mode", "format", "source"), (*_NUMBERS, *_SWITCHES))
    expect(item["mode"] in ("static", "dynamic"), f"{what}.mode", "'static' or 'dynamic'", item["mode"])
    format, shape = item["format"], tensor["shape"]
    known = isinstance(format, str) and format in _CHANNELS
    expect(known, f"{what}.format", f"one of {', '.join(_CHANNELS)}", format)
    ok = tensor["dtype"] == "uint8" and len(shape) == 4 and min(shape[1:3]) > 0 and shape[3] == _CHANNELS[format]
    ok = ok and (format != "YUV420SP_U8" or shape[1] % 3 == 0)
    expect(ok, what, f"uint8 images [n, h, w, {_CHANNELS[format]}] (YUV420SP: h is 3/2 of the image's)", shape)
    source = item["source"]
    check_keys(f"{what}.source", source, ("dtype", "format", "shape"))
    expect(source["dtype"] in DTYPES, f"{what}.source.dtype", f"one of {', '.join(DTYPES)}", source["dtype"])
    expect(source["format"] in ("NCHW", "NHWC"), f"{what}.source.format", "'NCHW' or 'NHWC'", source["format"])
    made = source["shape"]
    ok = isinstance(made, list) and len(made) == 4 and all(is_int(dim, 0) for dim in made[1:]) and made[0] == shape[0]
    expect(ok, f"{what}.source.shape", f"4 dims, the first {shape[0]}", made)
    for key, (count, lowest, highest) in _NUMBERS.items():
        numbers = item.get(key, [lowest] * count)
        types = (int, float) if key in ("min", "var_reci") else (int,)
        ok = isinstance(numbers, list) and len(numbers) == count
        ok = ok and all(type(number) in types and lowest <= number <= highest for number in numbers)
        expect(ok, f"{what}.{key}", f"{count} numbers from {lowest} to {highest}", numbers)
    for key in _SWITCHES:
        expect(type(item.get(key, False)) is bool, f"{what}.{key}", "true or false", item.get(key))
