# SPDX-License-Identifier: Apache-2.0
"""Gears in words."""


def gear_text(gear) -> str:
    """One gear as text: ``8`` for a batch size, ``224x224`` for an image size or other dims.

    Parameters
    ----------
    gear : int or sequence of int
    """
    return "x".join(map(str, gear)) if isinstance(gear, tuple | list) else str(gear)


def gears_text(description) -> str:
    """The kind of an om's gears and all of them, such as ``batch gears 1, 2, 4``; the kind alone if there are none.

    Parameters
    ----------
    description : ge_core.ModelDescription
    """
    if not description.gears:
        return description.gear_kind
    return f"{description.gear_kind} gears {', '.join(map(gear_text, description.gears))}"
