"""The ways to call a session, and requests of the sizes that its model takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.models.presets import Case, random_inputs
from ge_core.engine import engine_of
from ge_core_pyx import model

LONGEST_FACTOR = 2  # requests of more rows than the largest gear are cut


def borrow(session, feeds: dict[str, np.ndarray]):
    """Borrow a batch for these inputs; for rows beyond the largest gear, a batch of that."""
    most = session.description.max_rows
    if most:
        return session.borrow(min(len(next(iter(feeds.values()))), most))
    return session.borrow(shapes={name: array.shape for name, array in feeds.items()})


def handles(session, feeds: dict[str, np.ndarray]) -> dict:
    """Return the session's native handles for these inputs; for rows beyond the largest gear, those of that."""
    description = session.description
    if description.max_rows or description.gear_kind == "range":
        return engine_of(session).native_handles(len(next(iter(feeds.values()))) if description.max_rows else 1)
    return engine_of(session).native_handles(shapes={name: array.shape for name, array in feeds.items()})


def ways(session) -> list[tuple[str, Callable[[dict], object]]]:
    """Return (name, function of the inputs): run, submit and a borrowed batch."""

    def run_borrowed(feeds: dict[str, np.ndarray]) -> None:
        with borrow(session, feeds) as batch:
            for name, array in feeds.items():
                batch.write(name, 0, array[: batch.rows] if batch.rows else array)
            batch.run()

    return [
        ("run", lambda feeds: session.run(None, feeds)),
        ("submit", lambda feeds: session.submit(feeds).result()),
        ("borrow", run_borrowed),
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
