# SPDX-License-Identifier: Apache-2.0
"""Every kind of om on real graphs: image-size gears, dims gears, ranges, and outputs of unknown size."""

import threading

import graphs
import numpy as np
import pytest

import ge_core


def close(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=1e-4)


def image(rng, height, width):
    return {"image": rng.standard_normal((1, 2, height, width)).astype(np.float32)}


def test_image_size_gears(tmp_path):
    graph = graphs.convolution(tmp_path, gears="8,8;8,16;20,12")
    rng = np.random.default_rng(0)
    with ge_core.InferenceSession(graph.path, slots=2) as session:
        assert session.description.gear_kind == "image_size"
        assert session.description.gears == ((8, 8), (8, 16), (20, 12))
        assert session.description.max_rows == 0
        for size in [(8, 8), (20, 12), (8, 16), (8, 8), (20, 12)]:
            feeds = image(rng, *size)
            close(session.run(None, feeds), graph.reference(feeds))
            close(session.submit(feeds).result(), graph.reference(feeds))
        with pytest.raises(
            ValueError, match=r"takes input shapes \[\(1, 2, 8, 8\)\] or .*, got \[\(1, 2, 9, 9\)\] \(declare"
        ):
            session.run(None, image(rng, 9, 9))
        with session.borrow(shapes={"image": (1, 2, 8, 16)}) as batch:
            feeds = image(rng, 8, 16)
            batch.write("image", 0, feeds["image"])
            batch.run()
            close(list(batch.outputs.values()), graph.reference(feeds))
        for shapes, message in [
            (None, "say which shapes to borrow for"),
            ({"image": (1, 2, 9, 9)}, "takes input shapes"),
            ({"image": (2, 8)}, r"got \[2, 8\]"),
            ({"x": (1,)}, "expected either rows, or the shape of each of image"),
        ]:
            with pytest.raises(ValueError, match=message):
                session.borrow(shapes=shapes)


def test_an_image_between_gears_is_padded_where_that_was_declared(tmp_path):
    graph = graphs.convolution(tmp_path, gears="8,8;20,12")
    rng = np.random.default_rng(0)
    axes = {"map": {2: ("image", 2), 3: ("image", 3)}}
    with ge_core.InferenceSession(graph.path, output_axes=axes) as session:
        feeds = image(rng, 7, 5)
        got = session.run(["map"], feeds)[0]
        padded = np.zeros((1, 2, 8, 8), np.float32)
        padded[:, :, :7, :5] = feeds["image"]
        close([got], [graph.reference({"image": padded})[0][:, :, :7, :5]])
        assert session.stats()["executions_by_gear"] == {"(8, 8)": 1, "(20, 12)": 0}
        with pytest.raises(ValueError, match="none is as large"):
            session.run(None, image(rng, 21, 5))


def test_dims_gears_take_the_smallest_that_holds_the_request(tmp_path):
    graph = graphs.sequence(tmp_path, gears="1,4;2,8;4,16")
    rng = np.random.default_rng(0)
    with ge_core.InferenceSession(graph.path) as session:
        assert (session.description.gear_kind, session.description.gears) == ("dims", ((1, 4), (2, 8), (4, 16)))
        feeds = {"ids": rng.integers(0, 20, (2, 8))}
        close(session.run(None, feeds), graph.reference(feeds))
        with pytest.raises(ValueError, match="declare output_axes"):
            session.run(None, {"ids": np.zeros((2, 7), np.int64)})
    axes = {"hidden": {0: ("ids", 0), 1: ("ids", 1)}}
    with ge_core.InferenceSession(graph.path, output_axes=axes, pad_value={"ids": 3}) as session:
        for shape, gear in [
            ((1, 3), "(1, 4)"),
            ((1, 5), "(2, 8)"),
            ((3, 16), "(4, 16)"),
            ((4, 1), "(4, 16)"),
            ((2, 8), "(2, 8)"),
        ]:
            before = session.stats()["executions_by_gear"][gear]
            feeds = {"ids": rng.integers(0, 20, shape)}
            close(session.run(None, feeds), graph.reference(feeds))
            assert session.stats()["executions_by_gear"][gear] == before + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_axes": {"nope": {0: ("ids", 0)}}}, "output_axes: no output 'nope'"),
        ({"output_axes": {"hidden": {9: ("ids", 0)}}}, "axis 9 of hidden: .* cannot follow axis 0 of 'ids'"),
        ({"output_axes": {"hidden": {0: ("x", 0)}}}, "axis 0 of 'x'"),
        ({"pad_value": {"x": 1}}, "pad_value: no input 'x'"),
        ({"pad_value": "zero"}, "pad_value: expected a number, or {input: number}, got 'zero'"),
        ({"output_axes": "y:1=x:1"}, r"output_axes: expected {output: {axis: \(input, axis\)}}, got 'y:1=x:1'"),
        ({"gear_plan": "fast"}, "gear_plan must be 'smallest' or 'time', got 'fast'"),
        ({"gear_plan": "time"}, "needs an om with batch gears; this one has dims shapes"),
    ],
)
def test_wrong_padding_options(tmp_path, options, message):
    graph = graphs.sequence(tmp_path, gears="1,4;2,8")
    with pytest.raises(ValueError, match=message):
        ge_core.InferenceSession(graph.path, **options)


@pytest.mark.parametrize("ranges", ["1~4,1~32", "-1,-1", "2,-1"])
def test_ranges(tmp_path, ranges):
    graph = graphs.sequence(tmp_path, ranges=ranges)
    rng = np.random.default_rng(0)
    with ge_core.InferenceSession(graph.path, slots=2) as session:
        assert session.description.gear_kind == "range"
        assert session.budget is None
        for shape in [(2, 3), (2, 32), (2, 3), (2, 1), (2, 32)]:
            feeds = {"ids": rng.integers(0, 20, shape)}
            close(session.run(None, feeds), graph.reference(feeds))
        with session.borrow(shapes={"ids": (2, 5)}) as batch:
            feeds = {"ids": rng.integers(0, 20, (2, 5))}
            batch.inputs["ids"][:] = feeds["ids"]
            batch.run()
            close(list(batch.outputs.values()), graph.reference(feeds))
        if "~" in ranges:
            for shape in [(5, 3), (1, 33), (0, 3)]:
                with pytest.raises(ValueError, match=r"expected int64\[1~4, 1~32\], got int64"):
                    session.run(None, {"ids": np.zeros(shape, np.int64)})
            close(session.run(None, feeds), graph.reference(feeds))


def test_a_range_model_allocates_nothing_after_its_high_water_mark(tmp_path, stand_in):
    graph = graphs.sequence(tmp_path, ranges="1~4,1~32")
    rng = np.random.default_rng(0)
    shapes = [(int(a), int(b)) for a, b in zip(rng.integers(1, 5, 20), rng.integers(1, 33, 20), strict=True)]
    with ge_core.InferenceSession(graph.path) as session:
        for shape in [(4, 32), *shapes]:
            session.run(None, {"ids": np.zeros(shape, np.int64)})
        names = ("aclrtMalloc", "aclrtMallocHost", "aclrtMallocAlign32", "aclmdlExecute", "aclCreateDataBuffer")
        before, held = stand_in.calls(*names), session.stats()["device_bytes"]
        for shape in shapes * 3:
            session.run(None, {"ids": np.zeros(shape, np.int64)})
        assert stand_in.calls(*names) == before
        assert session.stats()["device_bytes"] == held


def test_an_output_whose_size_the_data_decides(tmp_path):
    graph = graphs.nonzero(tmp_path)
    with ge_core.InferenceSession(graph.path) as session:
        for count in (3, 3, 0, 20, 5, 20, 0):  # the same input shape, and more than was learnt
            x = np.zeros((5, 4), np.float32)
            x.flat[:count] = 1
            close(session.run(None, {"x": x}), graph.reference({"x": x}))


def test_fixed_inputs_with_an_output_whose_size_the_data_decides(tmp_path):
    graph = graphs.fixed_nonzero(tmp_path)
    with ge_core.InferenceSession(graph.path) as session:
        assert session.description.gear_kind == "range"
        for count in (2, 12, 0):
            x = np.zeros((3, 4), np.float32)
            x.flat[:count] = 1
            close(session.run(None, {"x": x}), graph.reference({"x": x}))


def test_scalars(tmp_path):
    graph = graphs.scalars(tmp_path)
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "s": np.float32(3)}
    with ge_core.InferenceSession(graph.path) as session:
        close(session.run(None, feeds), graph.reference({"x": feeds["x"], "s": np.array(3, np.float32)}))


def test_slots_of_a_range_model_run_from_many_threads(tmp_path):
    graph = graphs.sequence(tmp_path, ranges="1~4,1~32")
    errors = []
    with ge_core.InferenceSession(graph.path, slots=3) as session:

        def client(seed):
            rng = np.random.default_rng(seed)
            try:
                for _ in range(20):
                    feeds = {"ids": rng.integers(0, 20, (rng.integers(1, 5), rng.integers(1, 33)))}
                    close(session.run(None, feeds), graph.reference(feeds))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert not errors


def test_a_hung_range_model_is_given_up_in_time_and_others_go_on(tmp_path):
    from oms import write_synthetic

    slow = write_synthetic(
        tmp_path / "slow.om", [("x", "float32", (-1, 2))], [("y", "float32", (-1, 2))], exec_us=400_000,
        ranges={"x": [[1, 8], [2, 2]]},
    )  # fmt: skip
    with ge_core.InferenceSession(slow.path, execute_timeout_ms=60) as session:
        with pytest.raises(ge_core.AclTimeoutError):
            session.run(None, {"x": np.zeros((3, 2), np.float32)})
        with pytest.raises(ge_core.NotRunningError, match="no longer runs"):
            session.run(None, {"x": np.zeros((3, 2), np.float32)})
        import time

        from ge_core_pyx import slot

        time.sleep(0.6)
        assert slot.release_abandoned() == 0
