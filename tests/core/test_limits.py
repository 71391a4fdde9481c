# SPDX-License-Identifier: Apache-2.0
"""Sizes and numbers beyond the usual: many inputs, large row numbers, tensors that cannot be."""

import ctypes

import numpy as np
import pytest
from oms import write_shaped, write_synthetic

import ge_core
from ge_core.engine import engine_of
from ge_core_pyx import dlpack
from ge_core_pyx.arrays import OutputTarget

MANY = (129, 160, 300)


def names(count):
    return [f"x{i}" for i in range(count)]


def check(om, feeds, **options):
    with ge_core.InferenceSession(om.path, runtime="cpu", **options) as session:
        for got, want in zip(session.run(None, feeds), om.expected(feeds), strict=True):
            assert (got == want).all()
        memory = np.zeros(1 << 16, np.uint8)
        with engine_of(session).register_memory(memory):  # inputs that the device reads where they are
            first, registered = 0, {}
            for name, array in feeds.items():
                registered[name] = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
                registered[name][:] = array
                first += array.nbytes
            for got, want in zip(session.run(None, registered), om.expected(feeds), strict=True):
                assert (got == want).all()


@pytest.mark.parametrize("count", MANY)
class TestManyInputs:
    def test_static(self, tmp_path, count):
        om = write_synthetic(
            tmp_path / "m.om", [(name, "float32", (2, 3)) for name in names(count)], [("y", "float32", (2, 4))]
        )
        check(om, om.random(2))

    def test_batch_gears_with_padded_rows(self, tmp_path, count):
        inputs = [(name, "float32", (-1, 3)) for name in names(count)]
        om = write_synthetic(tmp_path / "m.om", inputs, [("y", "float32", (-1, 4))], batch=[1, 4])
        check(om, om.random(4))
        check(om, om.random(3))

    def test_image_sizes(self, tmp_path, count):
        inputs = [("image", "float32", [1, 3, -1, -1]), *((name, "float32", [1, 2]) for name in names(count - 1))]
        om = write_shaped(
            tmp_path / "m.om", inputs, [("y", "float32", [1, 4])], {"kind": "image_size", "values": [[2, 3], [4, 5]]}
        )
        feeds = {"image": np.ones((1, 3, 4, 5), np.float32)}
        feeds |= {name: np.full((1, 2), i, np.float32) for i, name in enumerate(names(count - 1))}
        check(om, feeds)

    def test_ranges(self, tmp_path, count):
        om = write_shaped(
            tmp_path / "m.om",
            [(name, "float32", [-1, 3]) for name in names(count)],
            [("y", "float32", [-1, 4])],
            ranges={name: [[1, 8], [3, 3]] for name in names(count)},
        )
        feeds = {name: np.full((2, 3), i, np.float32) for i, name in enumerate(names(count))}
        with ge_core.InferenceSession(om.path, runtime="cpu") as session:
            first = session.run(None, feeds)
            assert first[0].shape == (2, 4)
            assert (session.run(None, feeds)[0] == first[0]).all()
            feeds["x0"] = feeds["x0"] + 1
            assert (session.run(None, feeds)[0] != first[0]).any()


LARGE = (2**63 - 1, 2**63 - 4, 2**62, -1, -(2**63))


@pytest.fixture
def session(tmp_path):
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 6))], batch=[4])
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        yield session


class TestRowNumbers:
    @pytest.mark.parametrize("number", LARGE)
    def test_put_and_write(self, session, number):
        rows = np.ones((2, 4), np.float32)
        inputs = engine_of(session).request_inputs([rows])
        with session.borrow(4) as batch:
            for place in ({"row": number}, {"first": number}, {"row": 1, "first": number, "count": 1}):
                with pytest.raises(ValueError, match="do not fit"):
                    batch.put(inputs, **place)
            if number != -1:  # -1: all rows
                with pytest.raises(ValueError, match="do not fit"):
                    batch.put(inputs, count=number)
            with pytest.raises(ValueError, match="are outside this batch of 4"):
                batch.write("x", number, rows)

    @pytest.mark.parametrize("number", LARGE)
    def test_get(self, session, number):
        target = OutputTarget(np.zeros((4, 6), np.float32))
        with session.borrow(4) as batch:
            batch.run()
            for place in ({"row": number, "count": 1}, {"at": number, "count": 1}):
                with pytest.raises(ValueError, match="do not fit"):
                    batch.get(0, target, **place)
            if number != -1:
                with pytest.raises(ValueError, match="do not fit"):
                    batch.get(0, target, count=number)
            batch.get(0, target, row=3, count=1, at=3)

    def test_launch_without_inputs(self, session):
        with pytest.raises(ValueError, match="expected RequestInputs, got None"):
            engine_of(session).launch(4, [(None, 0, 0, 4)])
        with pytest.raises(ValueError):
            engine_of(session).launch(4, [(None, 0, 0, 2), (None, 2, 0, 2)])
        assert session.stats()["slots_free"] == 1


def capsule_with(dims):
    """A DLPack capsule of float32 whose dims are changed after it was made."""
    capsule = dlpack.to_capsule(np.zeros((4, 4), np.float32), "float32")
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    managed = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")
    shape = ctypes.cast(managed + 24, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))[0]
    for i, dim in enumerate(dims):
        shape[i] = dim
    return capsule


@pytest.mark.parametrize("dims", [(-8, 4), (4, -4), (2**62, 4), (2**40, 2**40)])
def test_dlpack_tensors_that_cannot_be(session, dims):
    for use in (
        lambda: engine_of(session).request_inputs([capsule_with(dims)]),
        lambda: session.run(None, {"x": capsule_with(dims)}),
        lambda: OutputTarget(capsule_with(dims)),
    ):
        with pytest.raises(ValueError, match="DLPack tensor"):
            use()


def test_a_closed_sessions_time_limit_is_taken_back(tmp_path, stand_in):
    """CANN's document of aclrtSetOpExecuteTimeOutWithMs: 0 is the largest limit (8.5)."""
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 6))], batch=[1])
    entry = "aclrtSetOpExecuteTimeOutWithMs"
    before = stand_in.calls(entry)[entry]
    limited = ge_core.InferenceSession(om.path, runtime="cpu", execute_timeout_ms=5000)
    assert stand_in.calls(entry)[entry] == before + 1
    with ge_core.InferenceSession(om.path, runtime="cpu"):  # has no limit: it must not run under the other's
        assert stand_in.calls(entry)[entry] == before + 2
        limited.close()
    assert stand_in.calls(entry)[entry] == before + 2
