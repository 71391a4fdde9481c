"""The ways to call a session, and requests of the sizes that its model takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.models import Case, random_inputs
from ge_core_pyx import model

LONGEST_FACTOR = 2  # requests of more rows than the largest gear are cut


def ways(session) -> list[tuple[str, Callable[[dict], object]]]:
    """Return (name, function of the inputs): run, submit and a borrowed batch."""
    by_rows = session.description.max_rows > 0

    def borrow(feeds: dict[str, np.ndarray]) -> None:
        shapes = {name: array.shape for name, array in feeds.items()}
        rows = min(len(next(iter(feeds.values()))), session.description.max_rows) if by_rows else None
        with session.borrow(rows, None if by_rows else shapes) as batch:
            for name, array in feeds.items():
                batch.write(name, 0, array[:rows] if by_rows else array)
            batch.run()

    return [
        ("run", lambda feeds: session.run(None, feeds)),
        ("submit", lambda feeds: session.submit(feeds).result()),
        ("borrow", borrow),
    ]


def mixed_sizes(case: Case, session) -> list[dict[str, np.ndarray]]:
    """Return inputs of every size: 1 row to twice the largest gear, or one set per gear, or the model's only one."""
    description = session.description
    if description.gear_kind == "batch" and description.max_rows:
        return [case.rows(rows) for rows in range(1, LONGEST_FACTOR * description.max_rows + 1)]
    if description.gears:
        return [
            random_inputs(description.inputs, shapes=model.input_shapes(description, gear))
            for gear in description.gears
        ]
    return [case.rows(description.max_rows)]
