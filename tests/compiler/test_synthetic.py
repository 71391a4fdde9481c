# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of synthetic models: against a scalar reference, against fixed values, row by row."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oms import write_synthetic

import ge_core
from ge_core.compiler import synthetic
from ge_core_pyx import dtypes

MASK = 0xFFFFFFFF
NUMPY = {"bfloat16": "uint16"}


def scalar_row(parts):
    """The hash of one row whose inputs have these bytes, one number at a time."""
    seed = 0
    for part in parts:
        lanes = [0x811C9DC5 ^ i for i in range(64)]
        padded = part + bytes(-len(part) % 256)
        for at in range(0, len(padded), 4):
            word = int.from_bytes(padded[at : at + 4], "little")
            lane = at // 4 % 64
            lanes[lane] = (lanes[lane] ^ word) * 0x01000193 & MASK
        seed ^= 0x811C9DC5
        for lane in lanes:
            seed ^= lane
            seed = (seed << 13 & MASK | seed >> 19) * 0x01000193 & MASK
        seed ^= len(part)
    return seed


def scalar_mix(state, number, element):
    x = (state + number * 0x85EBCA6B + element * 0x9E3779B9) & MASK
    x ^= x >> 16
    x = x * 0x85EBCA6B & MASK
    x ^= x >> 13
    x = x * 0xC2B2AE35 & MASK
    return x ^ x >> 16


def model(inputs, outputs, gears=None):
    manifest = {"inputs": [], "outputs": [], "gears": gears}
    for name, dtype, shape in inputs:
        manifest["inputs"].append({"name": name, "dtype": dtype, "shape": shape})
    for name, dtype, shape, *gear_shapes in outputs:
        extra = {"gear_shapes": gear_shapes[0]} if gear_shapes else {}
        manifest["outputs"].append({"name": name, "dtype": dtype, "shape": shape} | extra)
    return manifest


@given(rows=st.integers(1, 4), sizes=st.lists(st.integers(0, 600), min_size=1, max_size=3), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_hash_agrees_with_the_scalar_reference(rows, sizes, seed):
    random = np.random.default_rng(seed)
    arrays = [random.integers(0, 256, (rows, size), np.uint8) for size in sizes]
    expected = [scalar_row([array[row].tobytes() for array in arrays]) for row in range(rows)]
    assert synthetic.states(arrays, rows).tolist() == expected


def test_an_input_without_the_rows_belongs_to_every_row():
    random = np.random.default_rng(0)
    own, shared, number = random.random((3, 5)), random.random((2, 7)), np.float32(2.5).reshape(())
    expected = [scalar_row([own[row].tobytes(), shared.tobytes(), number.tobytes()]) for row in range(3)]
    assert synthetic.states([own, shared, number], 3).tolist() == expected


@pytest.mark.parametrize(
    "dtype, value",
    [
        ("float32", lambda m: (m >> 8) * 2.0**-24),
        ("float16", lambda m: (m >> 21) * 2.0**-11),
        ("float64", lambda m: m * 2.0**-32),
        ("bool", lambda m: bool(m & 1)),
        ("int8", lambda m: (m & 0xFF) - (m & 0x80) * 2),
        ("int16", lambda m: (m & 0xFFFF) - (m & 0x8000) * 2),
        ("int32", lambda m: m - (m & 0x80000000) * 2),
        ("int64", lambda m: m),
        ("uint8", lambda m: m & 0xFF),
        ("uint16", lambda m: m & 0xFFFF),
        ("uint32", lambda m: m),
        ("uint64", lambda m: m),
    ],
)
def test_outputs_agree_with_the_scalar_reference(dtype, value):
    state = np.array([1, 0xDEADBEEF], np.uint32)
    result = synthetic.output(state, 3, (2, 50), dtype)
    assert result.dtype == dtype
    assert result.tolist() == [[value(scalar_mix(s, 3, j)) for j in range(50)] for s in (1, 0xDEADBEEF)]


def test_bfloat16_travels_as_its_bits():
    bits = synthetic.output(np.array([7], np.uint32), 0, (1, 300), "bfloat16")
    assert bits.dtype == np.uint16
    values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    assert values[0].tolist() == [(scalar_mix(7, 0, j) >> 24) / 256 for j in range(300)]


def test_long_rows_are_mixed_in_chunks_without_a_seam():
    size = synthetic._CHUNK + 5
    result = synthetic.output(np.array([9], np.uint32), 1, (1, size), "uint32")[0]
    for element in (0, synthetic._CHUNK - 1, synthetic._CHUNK, size - 1):
        assert result[element] == scalar_mix(9, 1, element)


def test_no_input_is_forgotten_among_many():
    """Signs of two elements of the first of 300 inputs; differences in top bits once got lost."""
    inputs = [np.full((2, 3), i, np.float32) for i in range(300)]
    other = [inputs[0].copy(), *inputs[1:]]
    other[0][:, :2] = -0.0
    assert (synthetic.states(inputs, 2) != synthetic.states(other, 2)).all()


def test_fixed_values():
    manifest = model([("x", "int64", [1, 4])], [("y", "float32", [1, 3]), ("z", "int32", [1, 2])])
    outputs = synthetic.run(manifest, {"x": np.arange(4).reshape(1, 4)})
    assert synthetic.states([np.arange(4).reshape(1, 4)], 1).tolist() == [955334283]
    assert outputs["y"].tolist() == [[0.2642627954483032, 0.28608274459838867, 0.7641435265541077]]
    assert outputs["z"].tolist() == [[-1853436485, 1575513845]]


BATCH = model(
    [("ids", "int64", [-1, 16]), ("scale", "float16", [-1])],
    [("logits", "float32", [-1, 5], [[1, 5], [2, 5], [4, 5]]), ("twice", "uint8", [-1], [[2], [4], [8]])],
    {"kind": "batch", "values": [1, 2, 4]},
)


def test_rows_do_not_see_each_other():
    random = np.random.default_rng(1)
    feeds = {"ids": random.integers(0, 99, (4, 16)), "scale": random.random(4).astype(np.float16)}
    together = synthetic.run(BATCH, feeds)
    assert {name: array.shape for name, array in together.items()} == {"logits": (4, 5), "twice": (8,)}
    for row in range(4):
        alone = synthetic.run(BATCH, {name: array[row : row + 1] for name, array in feeds.items()})
        assert (alone["logits"] == together["logits"][row]).all()
        assert (alone["twice"] == together["twice"][2 * row : 2 * row + 2]).all()
    assert len({tuple(row) for row in together["logits"]}) == 4


def test_strided_arrays_count_as_their_values():
    wide = np.random.default_rng(2).integers(0, 99, (2, 32))
    feeds = {"ids": wide[:, ::2], "scale": np.ones(2, np.float16)}
    packed = {name: array.copy() for name, array in feeds.items()}
    assert (synthetic.run(BATCH, feeds)["logits"] == synthetic.run(BATCH, packed)["logits"]).all()


@pytest.mark.parametrize(
    "manifest, rows",
    [
        (BATCH, [1, 2, 4]),
        (model([("x", "int8", [3, 2])], [("y", "int8", [3])]), [3]),
        (model([("x", "int8", [3, 2])], [("y", "int8", [6])]), [1]),
        (model([("x", "int8", [3, 2]), ("s", "int8", [])], [("y", "int8", [3])]), [1]),
        (model([("x", "int8", [0, 2])], [("y", "int8", [0])]), [1]),
        (model([("x", "int8", [1, -1])], [("y", "int8", [1, -1], [[1, 8], [1, 9]])],
               {"kind": "dims", "values": [[8], [9]]}), [1, 1]),
        (model([("x", "int8", [2, 3, -1, -1])], [("y", "int8", [2])], {"kind": "image_size", "values": [[4, 4]]})
         | {"outputs": [{"name": "y", "dtype": "int8", "shape": [2], "gear_shapes": [[2]]}]}, [2]),
    ],
)  # fmt: skip
def test_rows_of_gears(manifest, rows):
    assert synthetic.gear_rows(manifest) == rows


def test_zero_elements():
    manifest = model([("x", "int8", [0, 2])], [("y", "float32", [0, 4])])
    assert synthetic.run(manifest, {"x": np.zeros((0, 2), np.int8)})["y"].shape == (0, 4)


def test_shapes_of_no_gear_are_refused():
    with pytest.raises(
        ValueError, match=r"expected input shapes of one gear \(.*\[4, 16\].*\), got \[\(3, 16\), \(3,\)\]"
    ):
        synthetic.run(BATCH, {"ids": np.zeros((3, 16), np.int64), "scale": np.zeros(3, np.float16)})


@pytest.mark.parametrize("batch", [None, [1, 3, 8]])
def test_the_cpu_implementation_computes_the_same_bits(tmp_path, batch):

    rows = -1 if batch else 5
    names = [row.name for row in dtypes.TABLE]
    inputs = [(f"x{number}", name, (rows, 1 + 37 * number)) for number, name in enumerate(names)]
    outputs = [(f"y{number}", name, (rows, 3, 1 + 53 * number)) for number, name in enumerate(names)]
    om = write_synthetic(tmp_path / "all.om", inputs, outputs, batch)
    feeds = om.random(8 if batch else 5)
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        results = session.run(None, feeds | {"x12": feeds["x12"].view(ml_dtypes.bfloat16)})
    assert names[12] == "bfloat16"
    for result, expected in zip(results, om.expected(feeds), strict=True):
        assert result.shape == expected.shape and result.tobytes() == expected.tobytes()


def test_the_cpu_implementation_shares_inputs_without_rows(tmp_path):

    om = write_synthetic(tmp_path / "mixed.om", [("x", "int16", (4, 3)), ("s", "float64", ())], [("y", "int8", (7,))])
    feeds = om.random(4)
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        (result,) = session.run(None, feeds)
    assert result.tolist() == om.expected(feeds)[0].tolist()
