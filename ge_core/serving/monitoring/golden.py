# SPDX-License-Identifier: Apache-2.0
"""The accuracy guard: known inputs must give the expected outputs before a model is served."""

import os
from dataclasses import dataclass

import numpy as np

from ge_core_pyx.errors import ModelFileError

TOLERANCE, COSINE = 1e-3, 0.999


class GoldenError(ModelFileError):
    """A model does not compute what its golden file expects; the message has the figures of every output."""


@dataclass(frozen=True)
class Figures:
    """How close one output came.

    Attributes
    ----------
    max_abs : float
        Largest absolute difference; inf where NaNs or shapes do not agree.
    cosine : float
        Cosine between the two as vectors; 1 if both are zero.
    """

    output: str
    max_abs: float
    cosine: float

    def __str__(self):
        return f"{self.output}: largest difference {self.max_abs:.3g}, cosine {self.cosine:.6f}"


def check(path: str | os.PathLike, session) -> str:
    """Runs the inputs of a golden file and compares the outputs.

    Parameters
    ----------
    path : path
        An .npz with one array ``input.NAME`` per input, ``output.NAME`` for each output to compare, and the numbers
        ``tolerance`` (largest absolute difference, default 0.001) and ``cosine`` (smallest cosine, default 0.999).
        Arrays have whole shapes, rows included.
    session : ge_core.InferenceSession

    Returns
    -------
    str
        The figures in one line.

    Raises
    ------
    GoldenError
        An output is too far from what is expected, or the file has not what is needed.
    """
    inputs, expected, limits = _read(path, session.description)
    try:
        outputs = dict(zip(expected, session.run(list(expected), inputs), strict=True))
    except ValueError as error:
        raise GoldenError(f"golden file {path}: {error}") from error
    figures = [compare(name, outputs[name], expected[name]) for name in expected]
    text = "; ".join(map(str, figures))
    bounds = f"allowed: difference up to {limits['tolerance']:g}, cosine from {limits['cosine']:g}"
    # "not" over the whole: NaN figures fail.
    if not all(one.max_abs <= limits["tolerance"] and one.cosine >= limits["cosine"] for one in figures):
        raise GoldenError(
            f"golden file {path}: the model does not compute what it expects. {text} ({bounds}). Compile with a higher "
            "precision (--precision_mode_v2=origin), or raise the file's tolerance if this is good enough"
        )
    return f"{text} ({bounds})"


def compare(name: str, got: np.ndarray, expected: np.ndarray) -> Figures:
    """The figures of one output."""
    if got.shape != expected.shape:
        return Figures(f"{name} {list(got.shape)} instead of {list(expected.shape)}", np.inf, 0.0)
    if not got.size:
        return Figures(name, 0.0, 1.0)
    a, b = (array.astype(np.float64).ravel() for array in (got, expected))
    same = (a == b) | (np.isnan(a) & np.isnan(b))  # infinities and NaNs in the same places agree
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return Figures(name, np.inf, 0.0)
    finite = np.isfinite(a)
    a, b = a[finite], b[finite]
    largest = float(np.abs(a - b).max(initial=0.0))
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    return Figures(name, largest, float(a @ b / norms) if norms else float(not a.any() and not b.any()))


def _read(path, description) -> tuple[dict, dict, dict]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError) as error:
        raise GoldenError(f"golden file {path} cannot be read as .npz: {error}") from error
    limits = {"tolerance": TOLERANCE, "cosine": COSINE}
    limits |= {key: float(arrays.pop(key)) for key in limits if key in arrays}
    inputs = {key.removeprefix("input."): array for key, array in arrays.items() if key.startswith("input.")}
    outputs = {key.removeprefix("output."): array for key, array in arrays.items() if key.startswith("output.")}
    known = {name for spec in description.outputs for name in (spec.name, spec.full_name)}
    unknown = [key for key in arrays if key.partition(".")[0] not in ("input", "output")]
    problems = [f"{key!r} is neither input.NAME, output.NAME, tolerance nor cosine" for key in unknown]
    problems += [f"no output {name!r}" for name in outputs if name not in known]
    if not outputs:
        problems.append("no array output.NAME")
    if problems:
        names = ", ".join([f"input.{spec.name}" for spec in description.inputs])
        names += ", " + ", ".join(f"output.{spec.name}" for spec in description.outputs)
        raise GoldenError(f"golden file {path}: {'; '.join(problems)}; this model has {names}")
    return inputs, outputs, limits
