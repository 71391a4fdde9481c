# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of synthetic models in NumPy: what the CPU implementation of AscendCL computes for them, bit for bit.

Each output row is a function of the bytes of the same input row, so that a batch whose rows were mixed up, padded
wrongly or torn apart shows. All arithmetic is modulo 2**32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ge_core.compiler.manifest import input_shapes
from ge_core_pyx import dtypes

_BASIS = np.uint32(0x811C9DC5)
_PRIME = np.uint32(0x01000193)
_LANES = 64
_CHUNK = 1 << 16  # elements mixed at a time, so that they stay in the cache


def run(manifest: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the outputs of a synthetic model.

    Parameters
    ----------
    manifest : mapping
        See :func:`ge_core_pyx.om.read_manifest`; `kind` "synthetic".
    inputs : mapping of str to ndarray
        One array for each input, shaped for one gear exactly. bfloat16 travels as uint16.

    Returns
    -------
    dict of str to ndarray
        By full output name, new arrays; bfloat16 as uint16.

    Raises
    ------
    ValueError
        The shapes of the inputs are those of no gear.
    """
    arrays = [np.ascontiguousarray(inputs[tensor["name"]]) for tensor in manifest["inputs"]]
    gear = _find_gear(manifest, [inputs[tensor["name"]].shape for tensor in manifest["inputs"]])
    rows = gear_rows(manifest)[gear]
    state = states(arrays, rows)
    return {
        tensor["name"]: output(state, number, _output_shape(tensor, gear), tensor["dtype"])
        for number, tensor in enumerate(manifest["outputs"])
    }


def gear_rows(manifest: Mapping[str, Any]) -> list[int]:
    """Rows of each gear; one entry for a static model.

    The rows of a batch gear are its batch. Those of other gears are dim 0 where it is the same in all tensors, else 1.
    """
    gears = manifest["gears"]
    if gears and gears["kind"] == "batch":
        return list(gears["values"])
    rows = []
    for gear, shapes in enumerate(input_shapes(manifest)):
        outputs = [_output_shape(tensor, gear) for tensor in manifest["outputs"]]
        first = {shape[0] if len(shape) else 0 for shape in [*shapes, *outputs]}
        rows.append(first.pop() if len(first) == 1 and 0 not in first else 1)
    return rows


def states(inputs: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """Hash the inputs of each row.

    Parameters
    ----------
    inputs : sequence of C-contiguous ndarray
        One whose dim 0 is `rows` is cut into rows; any other belongs to every row.
    rows : int

    Returns
    -------
    ndarray, shape (rows,), dtype uint32
    """
    seed = np.zeros(rows, np.uint32)
    for array in inputs:
        own = array.ndim > 0 and array.shape[0] == rows
        count = rows if own else 1
        nbytes = array.nbytes // count
        blocks = -(-nbytes // (4 * _LANES))
        padded = np.zeros((count, blocks * 4 * _LANES), np.uint8)
        padded[:, :nbytes] = np.frombuffer(array.data if array.nbytes else b"", np.uint8).reshape(count, nbytes)
        words = padded.view("<u4").reshape(count, blocks, _LANES)
        lanes = np.tile(_BASIS ^ np.arange(_LANES, dtype=np.uint32), (count, 1))
        for block in range(blocks):
            np.bitwise_xor(lanes, words[:, block], out=lanes)
            np.multiply(lanes, _PRIME, out=lanes)
        seed = seed ^ _BASIS  # each step below is a bijection of it: no input before is forgotten
        for lane in range(_LANES):
            seed = seed ^ lanes[:, lane]
            seed = (seed << np.uint32(13) | seed >> np.uint32(19)) * _PRIME
        seed ^= np.uint32(nbytes & 0xFFFFFFFF)
    return seed


def output(state: np.ndarray, number: int, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Make output `number` from the rows' hashes.

    Parameters
    ----------
    state : ndarray, shape (rows,), dtype uint32
    number : int
        Position of the output in the model.
    shape : sequence of int
        Its elements divide by the rows.
    dtype : str

    Returns
    -------
    ndarray of that shape; bfloat16 as uint16
    """
    count = math.prod(shape) // len(state)
    result = np.empty((len(state), count), dtypes.by_name(dtype).numpy or np.uint16)
    base = state + np.uint32(number * 0x85EBCA6B & 0xFFFFFFFF)
    steps = np.arange(min(count, _CHUNK), dtype=np.uint32) * np.uint32(0x9E3779B9)
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        offset = np.uint32(start * 0x9E3779B9 & 0xFFFFFFFF)
        for row in range(len(state)):
            mixed = _fmix32(steps[: stop - start] + base[row : row + 1] + offset)
            result[row, start:stop] = _convert(mixed, dtype)
    return result.reshape(tuple(shape))


def _fmix32(x: np.ndarray) -> np.ndarray:
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x


def _convert(m: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "float32":
        return (m >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
    if dtype == "float16":
        return ((m >> np.uint32(21)).astype(np.float32) * np.float32(2**-11)).astype(np.float16)
    if dtype == "bfloat16":
        exact = (m >> np.uint32(24)).astype(np.float32) * np.float32(2**-8)
        return (exact.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if dtype == "float64":
        return m * 2.0**-32
    if dtype == "bool":
        return (m & np.uint32(1)).astype(np.bool_)
    return m.astype(dtype)


def _output_shape(tensor: Mapping[str, Any], gear: int) -> Sequence[int]:
    return tensor["gear_shapes"][gear] if "gear_shapes" in tensor else tensor["shape"]


def _find_gear(manifest: Mapping[str, Any], shapes: list[tuple[int, ...]]) -> int:
    known = input_shapes(manifest)
    for gear, expected in enumerate(known):
        if [tuple(shape) for shape in expected] == shapes:
            return gear
    raise ValueError(f"expected input shapes of one gear ({'; '.join(map(str, known))}), got {shapes}")
