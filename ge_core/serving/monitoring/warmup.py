# SPDX-License-Identifier: Apache-2.0
"""Running every gear of a model once before it is served, and what each of them takes."""

import time
from contextlib import ExitStack

from ge_core.gears import gear_text
from ge_core_pyx import model

LONG_MS = 200  # a gear that took longer when cold is not run a second time


def warm_up(session, slots: int = 1) -> dict[str, float]:
    """Runs each gear on zeros on every slot, so that a model which cannot run fails at load. Blocks.

    Parameters
    ----------
    session : ge_core.InferenceSession
    slots : int
        All of its slots, over all devices.

    Returns
    -------
    dict of str to float
        Milliseconds of the last execution per gear, copies included. A single slot runs short ones twice.

    Raises
    ------
    AclError
        A gear does not run.
    """
    times = {}
    for gear, arguments in gear_batches(session.description):
        with ExitStack() as stack:
            batches = [stack.enter_context(session.borrow(**arguments)) for _ in range(slots)]
            times[gear] = [_timed(batch) for batch in batches][-1]
            if slots == 1 and times[gear] < LONG_MS:
                times[gear] = _timed(batches[0])
    return times


def _timed(batch) -> float:
    began = time.perf_counter()
    batch.run()
    return (time.perf_counter() - began) * 1e3


def gear_batches(description) -> list[tuple[str, dict]]:
    """(gear in words, arguments of borrow()) for every gear; of a range model, for its smallest shapes."""
    if description.gear_kind == "batch" and description.max_rows:
        return [(gear_text(rows), {"rows": rows}) for rows in description.gears]
    if description.max_rows:
        return [(gear_text(description.max_rows), {"rows": description.max_rows})]
    if description.gear_kind == "range":
        lowest = {
            spec.name: tuple(max(low, 1) for low, _ in bounds)
            for spec, bounds in zip(description.inputs, description.ranges, strict=True)
        }
        return [(", ".join(gear_text(shape) for shape in lowest.values()), {"shapes": lowest})]
    names = [spec.name for spec in description.inputs]
    return [
        (gear_text(gear or "whole"), {"shapes": dict(zip(names, model.input_shapes(description, gear), strict=True))})
        for gear in description.gears or (None,)
    ]
