# SPDX-License-Identifier: Apache-2.0
"""InferenceSession on the CPU implementation: right rows, whatever the layout, the gear and the thread."""

import collections
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from oms import numpy_name, write_shaped, write_synthetic

import ge_core
from ge_core.compiler import synthetic
from ge_core.engine import engine_of
from ge_core_pyx import acl, dtypes, slot

ROOT = Path(__file__).parents[2]
ALLOCATIONS = (
    "aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocCached", "aclrtMallocWithCfg", "aclrtMallocHost",
    "aclrtMallocHostWithCfg", "aclCreateDataBuffer", "aclmdlCreateDataset", "aclCreateTensorDesc", "aclmdlCreateDesc",
    "aclrtCreateStream", "aclrtCreateStreamWithConfig", "aclrtCreateContext", "aclmdlLoadFromFileWithMem",
)  # fmt: skip


@pytest.fixture(scope="module")
def gears(tmp_path_factory):
    path = tmp_path_factory.mktemp("oms") / "gears.om"
    inputs = [("image", "float32", (-1, 3, 5)), ("ids", "int64", (-1, 4))]
    outputs = [
        ("head:0:scores", "float32", (-1, 7)),
        ("head:1:boxes", "float16", (-3, 2, 2)),
        ("mask", "bool", (-1, 3)),
    ]
    return write_synthetic(path, inputs, outputs, batch=[1, 2, 4, 8])


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    path = tmp_path_factory.mktemp("oms") / "static.om"
    return write_synthetic(path, [("x", "float32", (4, 6))], [("y", "float32", (4, 2)), ("z", "int32", (8,))])


@pytest.fixture
def session(gears):
    with ge_core.InferenceSession(gears.path) as session:
        yield session


def same(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one).view(other.dtype), other)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 9, 16, 21])
def test_every_number_of_rows_gives_each_row_its_own_result(session, gears, rows):
    feeds = gears.random(rows, seed=rows)
    got = session.run(None, feeds)
    same(got, gears.expected(feeds))
    assert [array.shape for array in got] == [(rows, 7), (rows * 3, 2, 2), (rows, 3)]


def test_gears_are_the_smallest_that_hold_the_rows(session, gears):
    for rows, padded in [(1, 0), (2, 0), (3, 1), (5, 3), (8, 0), (9, 0), (11, 1)]:
        before = session.stats()
        session.run(None, gears.random(rows))
        after = session.stats()
        assert after["rows"] - before["rows"] == rows
        assert after["padded_rows"] - before["padded_rows"] == padded
        assert after["executions"] - before["executions"] == (2 if rows > 8 else 1)


def test_padding_is_zeros_even_after_a_fuller_batch(tmp_path):
    """One row's result must not depend on what ran before; a model that sees all rows would show stale ones."""
    om = write_synthetic(tmp_path / "m.om", [("x", "int32", (-1, 2))], [("y", "int32", (-1, 1))], batch=[4])
    with ge_core.InferenceSession(om.path) as session:
        session.run(None, {"x": np.full((4, 2), -1, np.int32)})
        session.run(None, {"x": np.full((1, 2), 7, np.int32)})
        with session.borrow(rows=4) as batch:
            assert batch.inputs["x"].tolist() == [[7, 7], [0, 0], [0, 0], [0, 0]]


def test_description(session):
    assert [str(spec) for spec in session.get_inputs()] == ["image: float32[?, 3, 5]", "ids: int64[?, 4]"]
    assert [(spec.name, spec.full_name) for spec in session.get_outputs()] == [
        ("scores", "head:0:scores"), ("boxes", "head:1:boxes"), ("mask", "mask"),
    ]  # fmt: skip
    described = session.description
    assert (described.gear_kind, described.gears, described.max_rows) == ("batch", (1, 2, 4, 8), 8)
    assert described.row_multiples == (1, 3, 1)
    assert [spec.nbytes for spec in described.inputs] == [8 * 15 * 4, 8 * 4 * 8]
    assert described.reserved == ("ascend_mbatch_shape_data",)
    assert ge_core.ModelDescription.from_dict(described.to_dict()) == described


def test_describe_model_equals_what_a_session_says(gears, static):
    for om in (gears, static):
        with ge_core.InferenceSession(om.path) as session:
            assert ge_core.describe_model(om.path) == session.description


def test_outputs_are_chosen_by_short_or_full_name(session, gears):
    feeds = gears.random(2)
    scores, boxes, mask = gears.expected(feeds)
    same(session.run(["mask", "head:0:scores"], feeds), [mask, scores])
    same(session.run(["boxes"], feeds), [boxes])
    with pytest.raises(ValueError, match="no output 'nope'; this model has scores: float32"):
        session.run(["nope"], feeds)


def test_results_belong_to_the_caller(session, gears):
    feeds = gears.random(2)
    first = session.run(None, feeds)
    kept = [array.copy() for array in first]
    first[0][:] = 0
    session.run(None, gears.random(8, seed=9))
    same(first[1:], kept[1:])
    assert all(array.flags.owndata and array.flags.writeable for array in first)


def layouts(array):
    spaced = np.zeros((array.shape[0], *array.shape[1:-1], array.shape[-1] * 2), array.dtype)
    spaced[..., ::2] = array
    readonly = array.copy()
    readonly.flags.writeable = False
    return {
        "contiguous": array,
        "strided": spaced[..., ::2],
        "fortran": np.asfortranarray(array),
        "reversed": array[::-1][::-1],
        "big-endian": array.astype(array.dtype.newbyteorder(">")),
        "read-only": readonly,
        "subclass": array.view(np.matrix) if array.ndim == 2 else array.view(np.recarray),
        "memoryview": memoryview(array),
        "dlpack": DLPack(array),
    }


class DLPack:
    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize(
    "widths",
    [
        [300_001],
        [65_536, 131_072],
        [1, 200_000, 3, 70_000, 5],
        [131_071, 131_073],
        [16, 131_056],
        [1_000_003],
        [262_144] * 3,
    ],
)
def test_large_inputs_go_to_the_device_in_pieces(tmp_path, stand_in, widths):
    inputs = [(f"x{i}", "uint8", (-1, width)) for i, width in enumerate(widths)]
    om = write_synthetic(tmp_path / "m.om", inputs, [("y", "int32", (-1, 2))], batch=[1, 4])
    with ge_core.InferenceSession(om.path) as session:
        for rows in (1, 2, 4, 3, 9):
            feeds = om.random(rows, seed=rows)
            same(session.run(None, feeds), om.expected(feeds))
            same(session.submit(feeds).result(), om.expected(feeds))
        session.run(None, om.random(4))
        before = stand_in.counter("calls.aclrtMemcpyAsync")
        session.run(None, om.random(4))
        copies = stand_in.counter("calls.aclrtMemcpyAsync") - before
        assert copies == 1 + max(1, min(4, 4 * sum(widths) // (256 << 10)))


@pytest.mark.parametrize("layout", layouts(np.zeros((1, 1), np.int8)))
def test_layouts(session, gears, layout):
    feeds = gears.random(3, seed=4)
    given = {name: layouts(array)[layout] for name, array in feeds.items()}
    same(session.run(None, given), gears.expected(feeds))


@pytest.mark.parametrize("dtype", [row.name for row in dtypes.TABLE])
def test_every_dtype_in_and_out(tmp_path, dtype):
    om = write_synthetic(tmp_path / "m.om", [("x", dtype, (-1, 3))], [("y", dtype, (-1, 5))], batch=[2, 4])
    feeds = om.random(3)
    given = feeds
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        given = {"x": feeds["x"].view(ml_dtypes.bfloat16)}
    with ge_core.InferenceSession(om.path) as session:
        (got,) = session.run(None, given)
        assert got.dtype.name == dtype
        same([got.view(numpy_name(dtype))], om.expected(feeds))
        with session.borrow(rows=3) as batch:
            batch.inputs["x"][:] = given["x"]
            batch.run()
            same([batch.outputs["y"].view(numpy_name(dtype))], om.expected(feeds))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": np.zeros((2, 3, 5))}, r"input 'image': expected image: float32\[\?, 3, 5\], got float64\[2, 3, 5\]"),
        ({"image": np.zeros((2, 3, 4), np.float32)}, r"expected image: float32\[\?, 3, 5\], got float32\[2, 3, 4\]"),
        ({"image": np.zeros((2, 15), np.float32)}, r"got float32\[2, 15\]"),
        ({"image": np.float32(1)}, r"got float32\[\]"),
        ({"image": np.zeros((3, 3, 5), np.float32)}, r"'ids' has 2 rows, but 'image' has 3"),
        ({"image": None}, r"missing input 'image'; this model has image: float32\[\?, 3, 5\], ids"),
        ({"extra": np.zeros(1)}, "unknown input 'extra'"),
        ({"image": "text"}, r"got str"),
        ({"image": object()}, r"got object"),
        ({"ids": np.zeros((2, 4), np.uint64)}, r"expected ids: int64\[\?, 4\], got uint64\[2, 4\]"),
        ({"ids": np.zeros((2, 4), np.int32)}, r"expected ids: int64\[\?, 4\], got int32\[2, 4\]"),
    ],
)
def test_wrong_inputs_say_what_was_expected_and_what_came(session, gears, change, message):
    feeds = gears.random(2) | change
    with pytest.raises(ValueError, match=message):
        session.run(None, feeds)
    good = gears.random(2)
    same(session.run(None, good), gears.expected(good))


def test_a_swapped_name_names_both_mistakes(session, gears):
    feeds = gears.random(1)
    with pytest.raises(ValueError, match="unknown input 'img'; missing input 'image'"):
        session.run(None, {"img": feeds["image"], "ids": feeds["ids"]})


def test_zero_rows_ask_the_device_nothing(session, gears):
    before = session.stats()["executions"]
    got = session.run(None, gears.random(0))
    assert [array.shape for array in got] == [(0, 7), (0, 2, 2), (0, 3)]
    assert session.stats()["executions"] == before


def test_static_takes_exactly_its_rows(static):
    with ge_core.InferenceSession(static.path) as session:
        feeds = static.random(4)
        same(session.run(None, feeds), static.expected(feeds))
        for rows in (1, 3, 5, 8):
            with pytest.raises(ValueError, match=rf"takes exactly 4 row\(s\) per run, got {rows}"):
                session.run(None, {"x": np.zeros((rows, 6), np.float32)})


def test_static_borrow_pads(static):
    with ge_core.InferenceSession(static.path) as session, session.borrow(rows=3) as batch:
        x = static.random(4)["x"]
        batch.write("x", 0, x[:3])
        batch.run()
        padded = x.copy()
        padded[3] = 0
        y, z = static.expected({"x": padded})
        same([batch.outputs["y"], batch.outputs["z"]], [y[:3], z[:6]])


@pytest.mark.parametrize(
    ("inputs", "outputs", "reason"),
    [
        ([("x", "float32", (4, 6)), ("scale", "float32", ())], [("y", "float32", (4,))], "input scale"),
        ([("x", "float32", (4, 6))], [("mean", "float32", ())], "output mean"),
        ([("x", "float32", (4, 6))], [("y", "float32", (3,))], "output y"),
        ([("x", "float32", ())], [("y", "float32", ())], "input x"),
        ([("x", "float32", (0, 3))], [("y", "float32", (2,))], "input x"),
    ],
)
def test_tensors_without_a_common_batch_axis_run_whole(tmp_path, inputs, outputs, reason):
    om = write_synthetic(tmp_path / "m.om", inputs, outputs)
    with ge_core.InferenceSession(om.path) as session:
        assert session.description.max_rows == 0
        assert reason in session.description.not_rows
        feeds = om.random(0)
        same(session.run(None, feeds), om.expected(feeds))
        with session.borrow() as batch:
            for name, array in feeds.items():
                batch.inputs[name][...] = array
            batch.run()
            same(list(batch.outputs.values()), om.expected(feeds))
        with pytest.raises(ValueError, match="rows cannot be chosen"):
            session.borrow(rows=1)


def test_a_gear_model_with_a_shared_input_runs_at_its_gears(tmp_path):
    om = write_synthetic(
        tmp_path / "m.om",
        [("x", "float32", (-1, 2)), ("w", "float32", (5,))],
        [("y", "float32", (-1, 3))],
        batch=[2, 4],
    )
    with ge_core.InferenceSession(om.path) as session:
        assert "input w" in session.description.not_rows
        for rows in (2, 4, 2):
            feeds = om.random(rows)
            same(session.run(None, feeds), list(synthetic.run(om.manifest, feeds).values()))
        with pytest.raises(
            ValueError,
            match=r"takes input shapes \[\(2, 2\), \(5,\)\] or \[\(4, 2\), \(5,\)\], got \[\(3, 2\), \(5,\)\]",
        ):
            session.run(None, om.random(3))


def test_same_short_names_keep_the_full_ones(tmp_path):
    om = write_synthetic(
        tmp_path / "m.om", [("x", "float32", (1, 2))], [("a:0:out", "float32", (1, 2)), ("b:0:out", "float32", (1, 2))]
    )
    with ge_core.InferenceSession(om.path) as session:
        assert [spec.name for spec in session.get_outputs()] == ["a:0:out", "b:0:out"]
        with pytest.raises(ValueError, match=r"no output 'out'; this model has a:0:out: .*, b:0:out"):
            session.run(["out"], om.random(1))


def test_borrow_writes_runs_and_reads_in_place(session, gears):
    feeds = gears.random(5, seed=3)
    with session.borrow(rows=5) as batch:
        for name, array in feeds.items():
            batch.write(name, 0, array[:2])
            batch.write(name, 2, array[2:])
        batch.run()
        same(list(batch.outputs.values()), gears.expected(feeds))
        assert not batch.outputs["scores"].flags.writeable
        view = batch.inputs["image"]
        assert view.__array_interface__["data"][0] % 64 == 0
        view[:] = 0
        batch.run()
        same([batch.outputs["scores"]], gears.expected(feeds | {"image": np.zeros_like(feeds["image"])})[:1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda batch: batch.write("nope", 0, np.zeros((1, 3, 5), np.float32)), "no input 'nope'"),
        (lambda batch: batch.write("image", 0, np.zeros((1, 3, 4), np.float32)), r"got float32\[1, 3, 4\]"),
        (lambda batch: batch.write("image", 0, np.zeros((1, 3, 5))), r"got float64\[1, 3, 5\]"),
        (
            lambda batch: batch.write("image", 2, np.zeros((1, 3, 5), np.float32)),
            "1 rows from row 2 on are outside this batch of 2",
        ),
        (lambda batch: batch.write("image", -1, np.zeros((1, 3, 5), np.float32)), "outside this batch"),
        (lambda batch: batch.write("image", 2**62, np.zeros((2, 3, 5), np.float32)), "outside this batch"),
    ],
)
def test_wrong_writes(session, call, message):
    with session.borrow(rows=2) as batch, pytest.raises(ValueError, match=message):
        call(batch)


def test_borrow_limits(session):
    for rows in (0, -1, 9):
        with pytest.raises(ValueError, match=rf"rows must be 1\.\.8, got {rows}"):
            session.borrow(rows=rows)


def test_a_view_keeps_its_slot_until_it_dies(gears):
    feeds = gears.random(1)
    with ge_core.InferenceSession(gears.path, submit_timeout_ms=30) as session:
        batch = session.borrow(rows=1)
        for name, array in feeds.items():
            batch.inputs[name][:] = array
        batch.run()
        kept = batch.outputs["scores"]
        part = kept[0, 2:4]
        batch.close()
        del kept
        with pytest.raises(TimeoutError, match="no free slot within 30 ms"):
            session.run(None, feeds)
        same([part], [gears.expected(feeds)[0][0, 2:4]])
        del part
        same(session.run(None, feeds), gears.expected(feeds))


def test_a_closed_batch_refuses(session):
    batch = session.borrow()
    batch.close()
    batch.close()
    for use in (lambda: batch.inputs, lambda: batch.outputs, batch.run, lambda: batch.write("image", 0, np.zeros(1))):
        with pytest.raises(RuntimeError, match="the batch is closed"):
            use()


def test_use_after_close(gears):
    session = ge_core.InferenceSession(gears.path)
    session.close()
    session.close()
    for use in (lambda: session.run(None, gears.random(1)), session.borrow):
        with pytest.raises(RuntimeError, match="is closed"):
            use()
    assert acl.live_handles()["model"] == 0


def test_closing_under_a_borrowed_batch_frees_everything_with_the_last_view(gears):
    feeds = gears.random(2)
    session = ge_core.InferenceSession(gears.path)
    batch = session.borrow(rows=2)
    scores = batch.outputs["scores"]
    session.close()
    assert acl.live_handles()["model"] == 1
    with pytest.raises(RuntimeError, match="is closed"):
        batch.run()
    scores.tobytes()
    batch.close()
    del scores
    assert not any(acl.live_handles().values())
    assert feeds


def test_nothing_is_allocated_per_request(stand_in, gears, static):
    """G4 of the design: after warm-up a request makes no AscendCL object and no allocation."""
    for om, counts in ((gears, (1, 3, 8, 2, 11)), (static, (4,))):
        with ge_core.InferenceSession(om.path) as session:
            requests = [om.random(rows) for rows in counts]
            for feeds in requests:
                session.run(None, feeds)
            before = stand_in.calls(*ALLOCATIONS)
            for _ in range(20):
                for feeds in requests:
                    session.run(None, feeds)
                with session.borrow() as batch:
                    batch.run()
            assert stand_in.calls(*ALLOCATIONS) == before


def test_the_gear_is_set_only_when_it_changes(stand_in, session, gears):
    session.run(None, gears.random(4))
    before = stand_in.counter("calls.aclmdlSetDynamicBatchSize")
    for _ in range(5):
        session.run(None, gears.random(4))
        session.run(None, gears.random(3))
    assert stand_in.counter("calls.aclmdlSetDynamicBatchSize") == before
    session.run(None, gears.random(1))
    assert stand_in.counter("calls.aclmdlSetDynamicBatchSize") == before + 1


def test_slots_share_weights_and_run_at_once(tmp_path):
    om = write_synthetic(
        tmp_path / "m.om", [("x", "float32", (-1, 8))], [("y", "float32", (-1, 8))], batch=[1, 4],
        weight_bytes=1 << 20, work_bytes=4096,
    )  # fmt: skip
    with ge_core.InferenceSession(om.path) as one, ge_core.InferenceSession(om.path, slots=4) as four:
        growth = four.stats()["device_bytes"] - one.stats()["device_bytes"]
        assert 3 * 4096 <= growth < 1 << 20
        errors = []

        def client(seed):
            for turn in range(25):
                feeds = om.random(1 + (seed + turn) % 6, seed=seed * 100 + turn)
                try:
                    same(four.run(None, feeds), om.expected(feeds))
                except Exception as error:
                    errors.append(error)
                    raise

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not errors
        assert four.stats()["slots_free"] == 4


def test_the_gil_is_free_while_the_device_works(tmp_path):
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (1, 1))], [("y", "float32", (1, 1))], exec_us=300_000)
    with ge_core.InferenceSession(om.path) as session:
        done = threading.Event()
        thread = threading.Thread(target=lambda: (session.run(None, om.random(1)), done.set()))
        thread.start()
        turns = 0
        while not done.is_set():
            turns += 1
            time.sleep(0.001)
        thread.join()
        assert turns > 20


def test_a_wait_for_the_device_ends_at_its_limit(tmp_path):
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (1, 1))], [("y", "float32", (1, 1))], exec_us=400_000)
    with ge_core.InferenceSession(om.path, execute_timeout_ms=50) as session:
        with pytest.raises(
            ge_core.AclTimeoutError, match="aclrtSynchronizeStreamWithTimeout returned 507046"
        ) as caught:
            session.run(None, om.random(1))
        assert caught.value.code == 507046
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(ge_core.NotRunningError, match="no longer runs after a device error"):
            session.run(None, om.random(1))
        time.sleep(0.5)
    slot.release_abandoned()


RUN_ENTRIES = ["aclrtMemcpyAsync", "aclmdlExecuteAsync", "aclrtSynchronizeStream", "aclmdlSetDynamicBatchSize"]


@pytest.mark.parametrize("entry", RUN_ENTRIES)
def test_a_failed_call_is_reported_and_the_next_request_works(stand_in, session, gears, entry):
    feeds = gears.random(3)
    session.run(None, gears.random(8))
    with (
        stand_in.failing(entry, 507011),
        pytest.raises(ge_core.AclError, match=f"{entry} returned 507011 .*injected") as caught,
    ):
        session.run(None, feeds)
    assert (caught.value.code, caught.value.name, caught.value.call) == (507011, "ACL_ERROR_RT_MODEL_EXECUTE", entry)
    same(session.run(None, feeds), gears.expected(feeds))
    assert session.stats()["slots"] == session.stats()["slots_free"] == 1


def test_a_lost_device_makes_the_session_unhealthy(stand_in, gears):
    with ge_core.InferenceSession(gears.path) as session:
        with stand_in.failing("aclmdlExecuteAsync", 507901), pytest.raises(ge_core.AclError, match="507901"):
            session.run(None, gears.random(1))
        with pytest.raises(ge_core.NotRunningError, match="507901"):
            session.run(None, gears.random(1))
        assert "507901" in session.stats()["unhealthy"]


LOAD_ENTRIES = [
    "aclrtCreateContext", "aclrtMalloc", "aclrtMallocHost", "aclmdlQuerySize", "aclmdlLoadFromFileWithMem",
    "aclmdlGetDesc", "aclmdlGetInputDimsV2", "aclmdlGetOutputDims", "aclmdlSetDynamicBatchSize",
    "aclmdlGetCurOutputDims", "aclmdlAddDatasetBuffer",
]  # fmt: skip


@pytest.mark.parametrize("kth", [1, 2, 3])
@pytest.mark.parametrize("entry", LOAD_ENTRIES)
def test_a_failure_while_loading_leaves_nothing_behind(stand_in, gears, entry, kth):
    live = {name: value for name, value in stand_in.counters().items() if name.startswith(("live.", "bytes."))}
    with stand_in.failing(entry, 207001, kth):
        try:
            ge_core.InferenceSession(gears.path, slots=2).close()
        except ge_core.AclMemoryError as error:
            assert error.call == entry
        else:
            assert kth > 1, f"{entry} is not called while loading"
    after = {name: value for name, value in stand_in.counters().items() if name.startswith(("live.", "bytes."))}
    assert after == live


def test_the_caller_gets_its_context_back(gears):
    """torch_npu may live in the same thread."""
    import ctypes

    library = ctypes.CDLL(ge_core.runtime_info().libraries[0])
    for entry in ("aclrtGetCurrentContext", "aclrtCreateContext", "aclrtDestroyContext", "aclrtSetCurrentContext"):
        getattr(library, entry).argtypes = None
    mine, current = ctypes.c_void_p(), ctypes.c_void_p()

    def thread():
        assert library.aclrtCreateContext(ctypes.byref(mine), 0) == 0
        with ge_core.InferenceSession(gears.path) as session:
            session.run(None, gears.random(1))
            with session.borrow() as batch:
                batch.run()
        assert library.aclrtGetCurrentContext(ctypes.byref(current)) == 0
        assert current.value == mine.value
        assert library.aclrtDestroyContext(mine) == 0

    run_in_thread(thread)


def run_in_thread(function):
    errors = []

    def body():
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": "gpu"}, "runtime must be 'npu' or 'cpu', got 'gpu'"),
        ({"slots": 0}, "slots must be a positive integer below .*, got 0"),
        ({"slots": True}, "slots must be a positive integer"),
        ({"slots": 2**40}, "slots must be a positive integer below 2"),
        ({"device_id": 0.5}, "device_id must be an integer from 0, below .*, got 0.5"),
        ({"device_id": 7}, r"device_id must be 0\.\.0 \(1 device\(s\) visible\), got 7"),
        ({"execute_timeout_ms": -5}, "execute_timeout_ms must be a positive integer .*, got -5"),
        ({"submit_timeout_ms": 1.5}, "submit_timeout_ms must be a positive integer .*, got 1.5"),
    ],
)
def test_wrong_options(gears, options, message):
    with pytest.raises(ValueError, match=message):
        ge_core.InferenceSession(gears.path, **options)


def test_what_stands_for_an_integer_a_path_or_a_dict_is_taken(gears):
    class Mapping:
        def __init__(self, items):
            self.keys, self.__class__.__getitem__ = items.keys, lambda self, name: items[name]

    feeds = gears.random(3)
    with ge_core.InferenceSession(os.fsencode(gears.path), slots=np.int64(2), device_id=np.int32(0)) as session:
        same(session.run(None, collections.OrderedDict(feeds)), gears.expected(feeds))
        same(session.run(None, Mapping(feeds)), gears.expected(feeds))
        with pytest.raises(TypeError, match="expected a mapping of input name to array, got list"):
            session.run(None, [1])
        with session.borrow(rows=np.int64(2)) as batch:
            assert batch.rows == 2
        for borrow in ({"rows": "3"}, {"shapes": 5}, {"shapes": {"image": 5, "ids": 5}}):
            with pytest.raises((TypeError, ValueError)):
                session.borrow(**borrow)
        future = session.submit(feeds)
        for wrong in ("soon", float("nan")):
            with pytest.raises(TypeError, match="timeout: expected seconds or None"):
                future.result(wrong)
        same(future.result(float("inf")), gears.expected(feeds))
    with pytest.raises(RuntimeError, match="is closed"):
        engine_of(session).native_handles(1)


def test_native_handles_are_of_the_gear_asked_for(gears, tmp_path):
    dims = {"kind": "dims", "values": [[4], [16]]}
    shaped = write_shaped(tmp_path / "dims.om", [("x", "float32", [1, -1])], [("y", "int64", [1, -1])], dims)
    with ge_core.InferenceSession(shaped.path) as session:
        for width in (4, 16, 4):
            found = engine_of(session).native_handles(shapes={"x": (1, width)})
            assert (found["inputs"], found["outputs"]) == ([("x", 0, 4 * width)], [("y", 0, 8 * width)])
            feeds = {"x": np.arange(width, dtype=np.float32)[None]}
            same(session.run(None, feeds), shaped.expected(feeds))
        known = r"expected the input shapes of a gear, \[\(1, 4\)\] or \[\(1, 16\)\], got \[\(1, 8\)\]"
        with pytest.raises(ValueError, match=known):
            engine_of(session).native_handles(shapes={"x": [1, 8]})
    with ge_core.InferenceSession(gears.path) as session:
        assert (
            engine_of(session).native_handles(3)["inputs"]
            == engine_of(session).native_handles(shapes={"image": (4, 3, 5), "ids": (4, 4)})["inputs"]
        )


def test_closing_while_several_slots_are_in_use_gives_everything_back(gears):
    for _ in range(30):
        session = ge_core.InferenceSession(gears.path, slots=4)
        batches = [session.borrow(rows=2) for _ in range(3)]
        threads = [threading.Thread(target=batch.close) for batch in batches]
        threads += [threading.Thread(target=session.close)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        del batches, threads
    assert not any(acl.live_handles().values())


@pytest.mark.parametrize("rows", [3, 19])
def test_an_interrupt_is_never_swallowed(gears, rows):
    code = f"""
import signal, ge_core, sys
sys.path.insert(0, "tests/support")
from oms import Om
from pathlib import Path
from ge_core_pyx import om
path = Path({str(gears.path)!r})
session = ge_core.InferenceSession(path)
feeds = Om(path, om.read_manifest(path)).random({rows})
sent = seen = 0
def interrupt(*_):
    global sent
    sent += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
for turn in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + turn * 1e-6)
        for _ in range(60):
            session.run(None, feeds)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        seen += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert sent == seen and sent > 100, (sent, seen)
assert session.stats()["slots_free"] == 1
"""
    result = child(code, GE_CORE_RUNTIME="cpu")
    assert (result.returncode, result.stderr) == (0, "")


def test_model_roots(gears, tmp_path, monkeypatch):
    monkeypatch.setenv("GE_CORE_MODEL_ROOTS", f"{tmp_path}{os.pathsep}{gears.path.parent}")
    ge_core.describe_model(gears.path)
    monkeypatch.setenv("GE_CORE_MODEL_ROOTS", str(tmp_path))
    (tmp_path / "link.om").symlink_to(gears.path)
    for path in (gears.path, tmp_path / "link.om", tmp_path / ".." / "x.om"):
        with pytest.raises(ge_core.ModelFileError, match="outside the folders that GE_CORE_MODEL_ROOTS allows"):
            ge_core.InferenceSession(path)


def child(code, **environ):
    environment = {key: value for key, value in os.environ.items() if key != "GE_CORE_RUNTIME"} | environ
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def test_without_an_npu_and_without_asking_for_cpu_there_is_one_clear_error(gears):
    result = child(f"import ge_core; ge_core.InferenceSession({str(gears.path)!r})")
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    for part in (
        "AclLoadError",
        "runtime 'npu'",
        "libascendcl.so",
        "/usr/local/Ascend",
        "runtime='cpu' or GE_CORE_RUNTIME=cpu",
    ):
        assert part in last


def test_a_cpu_library_on_the_search_path_is_not_taken_for_an_npu():
    from ge_core_pyx import locate

    result = child("import ge_core; ge_core.runtime_info()", LD_LIBRARY_PATH=str(locate.cpu_folder()))
    assert result.returncode == 1
    assert "is the CPU implementation of AscendCL, but the runtime asked for is 'npu'" in result.stderr


@pytest.mark.parametrize("api", ["8.1", "9"])
def test_an_explicit_library_folder_serves_both_shapes(gears, api):
    from ge_core_pyx import locate

    code = f"import ge_core; s = ge_core.InferenceSession({str(gears.path)!r}); print(ge_core.runtime_info().libraries)"
    result = child(code, GE_CORE_RUNTIME="cpu", GE_CORE_ACL_LIBRARY=str(locate.cpu_folder(api)))
    assert result.returncode == 0, result.stderr
    assert f"/{api}/" in result.stdout
    assert ("libacl_mdl.so" in result.stdout) == (api == "9")


def test_one_process_uses_one_runtime():
    result = child("import ge_core; ge_core.runtime_info('cpu'); ge_core.runtime_info('npu')")
    assert "this process already uses the 'cpu' runtime" in result.stderr


def test_a_forked_child_is_told_to_spawn(gears):
    code = (
        "import os, ge_core, numpy as np\n"
        f"session = ge_core.InferenceSession({str(gears.path)!r}, runtime='cpu')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    for use in (lambda: session.run(None, {}), session.borrow, lambda: ge_core.runtime_info('cpu'),\n"
        f"                lambda: ge_core.InferenceSession({str(gears.path)!r}, runtime='cpu')):\n"
        "        try:\n"
        "            use()\n"
        "        except ge_core.UnsupportedError as error:\n"
        "            assert 'spawn' in str(error)\n"
        "        else:\n"
        "            os._exit(3)\n"
        "    del session\n"
        "    os._exit(0)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "session.close()\n"
        "raise SystemExit(os.waitstatus_to_exitcode(status))\n"
    )
    result = child(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "ending", ["", "batch = session.borrow(); x = batch.inputs", "import sys; sys.exit(0)", "raise SystemExit"]
)
def test_leaving_with_an_open_session_is_silent(gears, ending):
    code = (
        f"import ge_core\nsession = ge_core.InferenceSession({str(gears.path)!r}, runtime='cpu', slots=2)\n{ending}\n"
    )
    result = child(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
