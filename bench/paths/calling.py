# SPDX-License-Identifier: Apache-2.0
"""The ways to call a session (run, submit, a borrowed batch), and inputs of every size that its model takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.models.presets import Case, random_inputs
from ge_core.engine import engine_of
from ge_core_pyx import model

MAX_GEARS = 2  # the longest request, in largest gears: it is split


def borrow(session, inputs: dict[str, np.ndarray]):
    """Borrow a batch for these inputs; for more rows than the largest gear, a batch of that gear."""
    max_rows = session.description.max_rows
    if max_rows:
        return session.borrow(min(len(next(iter(inputs.values()))), max_rows))
    return session.borrow(shapes={name: array.shape for name, array in inputs.items()})


def native_handles(session, inputs: dict[str, np.ndarray]) -> dict:
    """Return the session's native handles for these inputs; for more rows than the largest gear, those of that gear."""
    description = session.description
    if description.max_rows or description.gear_kind == "range":
        return engine_of(session).native_handles(len(next(iter(inputs.values()))) if description.max_rows else 1)
    return engine_of(session).native_handles(shapes={name: array.shape for name, array in inputs.items()})


def call_styles(session) -> list[tuple[str, Callable[[dict], object]]]:
    """Return run, submit and a borrowed batch as (name, function of the inputs)."""

    def run_borrowed(inputs: dict[str, np.ndarray]) -> None:
        with borrow(session, inputs) as batch:
            for name, array in inputs.items():
                batch.write(name, 0, array[: batch.rows] if batch.rows else array)
            batch.run()

    return [
        ("run", lambda inputs: session.run(None, inputs)),
        ("submit", lambda inputs: session.submit(inputs).result()),
        ("borrow", run_borrowed),
    ]


def mixed_sizes(case: Case, session) -> list[dict[str, np.ndarray]]:
    """Return inputs of every size: 1 row to twice the largest gear, or one set per gear, or the model's only one."""
    description = session.description
    if description.gear_kind == "batch" and description.max_rows:
        return [case.rows(rows) for rows in range(1, MAX_GEARS * description.max_rows + 1)]
    if description.gears:
        return [
            random_inputs(description.inputs, shapes=model.input_shapes(description, gear))
            for gear in description.gears
        ]
    return [case.rows(description.max_rows)]
