# SPDX-License-Identifier: Apache-2.0
"""Checks that two paths gave the same outputs for the same inputs."""

from __future__ import annotations

import numpy as np

from ge_core_pyx.errors import GeCoreError

TOLERANCE = 1e-3


class WrongOutputError(GeCoreError):
    """Two paths gave different outputs for the same inputs."""


def check_outputs(expected: list[np.ndarray], actual: list[np.ndarray], what: str, exact: bool) -> None:
    """Raise WrongOutputError unless `actual` equals `expected`: bit for bit if `exact`, else within 1e-3."""
    for number, (a, b) in enumerate(zip(expected, actual, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise WrongOutputError(f"{what}, output {number}: expected {a.dtype} {a.shape}, got {b.dtype} {b.shape}")
        if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        difference = float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64))))
        if exact or not difference <= TOLERANCE:
            limit = "bit for bit" if exact else f"within {TOLERANCE}"
            raise WrongOutputError(f"{what}, output {number}: must be equal {limit}, differs by {difference:g}")
