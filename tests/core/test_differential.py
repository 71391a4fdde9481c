# SPDX-License-Identifier: Apache-2.0
"""Random models, shapes, types, layouts, rows, threads and slots against onnxruntime on the same graph: equal results.

With ``CI`` set the examples are always the same; ``GE_CORE_EXAMPLES`` is how many (default 1000).
"""

import os
import threading
from dataclasses import dataclass

import graphs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

import ge_core
from ge_core_pyx import dtypes

settings.register_profile(
    "differential", deadline=None, max_examples=int(os.environ.get("GE_CORE_EXAMPLES", "1000")), print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
settings.register_profile("differential-ci", settings.get_profile("differential"), derandomize=True)
PROFILE = settings.get_profile("differential-ci" if os.environ.get("CI") else "differential")

ADDABLE = ("float32", "float64", "int32", "int64")
BATCHES = ((1, 2, 4), (3, 4), (2, 8))
TRAILING = ((5,), (2, 3), (1,), (3, 1, 2))


@dataclass(frozen=True)
class Kind:
    """A model to compile: equal for equal fields, so that each is compiled once."""

    name: str
    dtype: str = "float32"
    trailing: tuple = (3,)
    gears: tuple = ()


def moving(folder, kind, dtype):
    """Two inputs put together, turned round, and added where the type allows: exact in every type."""
    first, rest = {
        "static": (kind.gears or 1, kind.trailing),
        "dims": ("n", ("s", *kind.trailing)),
        "range": ("n", ("s", *kind.trailing)),
        "unbounded": ("n", ("s", *kind.trailing)),
    }.get(kind.name, ("n", kind.trailing))
    shape = [first, *rest]
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["both"], "both", axis=len(shape) - 1),
        helper.make_node("Concat", ["b", "a"], ["swapped"], "swapped", axis=len(shape) - 1),
    ]
    joined = [*shape[:-1], shape[-1] * 2]
    outputs = [("both", dtype, joined), ("swapped", dtype, joined)]
    if dtype in ADDABLE or dtype == "bool":
        nodes.append(helper.make_node("Xor" if dtype == "bool" else "Add", ["a", "b"], ["sum"], "sum"))
        outputs.append(("sum", dtype, shape))
    text = ",".join(map(str, kind.trailing))
    options = {
        "batch": lambda: {
            "input_shape": f"a:-1,{text};b:-1,{text}", "dynamic_batch_size": ",".join(map(str, kind.gears)),
        },
        "dims": lambda: {
            "input_shape": f"a:-1,-1,{text};b:-1,-1,{text}", "input_format": "ND",
            "dynamic_dims": ";".join(f"{n},{s},{n},{s}" for n, s in kind.gears),
        },
        "range": lambda: {"input_shape": f"a:1~4,1~9,{text};b:1~4,1~9,{text}"},
        "unbounded": lambda: {"input_shape": f"a:-1,-1,{text};b:-1,-1,{text}"},
    }.get(kind.name, dict)()  # fmt: skip
    return graphs.Graph(folder, nodes, [("a", dtype, shape), ("b", dtype, shape)], outputs, **options)


def kinds():
    any_type = st.sampled_from([row.name for row in dtypes.TABLE])
    trailing = st.sampled_from(TRAILING)
    dims = ((1, 4), (2, 9), (4, 16))
    return st.one_of(
        st.builds(Kind, st.just("static"), any_type, trailing, st.sampled_from([1, 4])),
        st.builds(Kind, st.just("batch"), any_type, trailing, st.sampled_from(BATCHES)),
        st.builds(Kind, st.just("dims"), st.sampled_from(["float32", "int64", "float16", "bool"]), gears=st.just(dims)),
        st.builds(Kind, st.sampled_from(["range", "unbounded"]), st.sampled_from(["float32", "int64", "uint8"])),
        st.just(Kind("image_size", gears=((8, 8), (8, 16), (20, 12)))),
        st.just(Kind("image_range")),
        st.just(Kind("nonzero")),
    )


class Model:
    """A compiled graph; `reference` answers for it."""

    def __init__(self, folder, kind):
        self.kind = kind
        if kind.name == "image_size":
            self.graph = graphs.convolution(folder, gears=";".join(f"{h},{w}" for h, w in kind.gears))
        elif kind.name == "image_range":
            self.graph = graphs.convolution(folder, ranges="1,2,4~32,4~32")
        elif kind.name == "nonzero":
            self.graph = graphs.nonzero(folder)
        else:
            self.graph = moving(folder, kind, kind.dtype)
        self.oracle = self.graph
        if kind.dtype == "bfloat16":  # which only moves here: its bits are uint16
            (folder / "bits").mkdir()
            self.oracle = moving(folder / "bits", kind, "uint16")
        self.options = {}
        if kind.name == "dims":
            axes = {0: ("a", 0), 1: ("a", 1)}
            self.options = {"output_axes": {name: axes for _, name in [(0, "both"), (0, "swapped"), (0, "sum")]}}
            if kind.dtype not in ADDABLE and kind.dtype != "bool":
                del self.options["output_axes"]["sum"]

    def shape(self, draw):
        """A shape that the model takes, for each of its inputs."""
        kind = self.kind
        if kind.name == "static":
            return (kind.gears, *kind.trailing)
        if kind.name == "batch":
            return (draw(st.integers(0, max(kind.gears) * 2 + 3)), *kind.trailing)
        if kind.name == "dims":
            return (draw(st.integers(1, 4)), draw(st.integers(1, 16)), *kind.trailing)
        if kind.name in ("range", "unbounded"):
            return (draw(st.integers(1, 4)), draw(st.integers(1, 9)), *kind.trailing)
        if kind.name == "image_size":
            return (1, 2, *draw(st.sampled_from(kind.gears)))
        if kind.name == "image_range":
            return (1, 2, draw(st.integers(4, 32)), draw(st.integers(4, 32)))
        return (draw(st.integers(1, 20)), draw(st.integers(1, 20)))

    def feeds(self, shape, seed):
        rng = np.random.default_rng(seed)
        bits = self.kind.dtype == "bfloat16"
        feeds = {}
        for name, dtype, _ in self.oracle.inputs:
            feeds[name] = graphs.random_array(rng, dtype, shape)
            if self.kind.name == "nonzero":
                feeds[name] *= rng.integers(0, 2, shape)
            if bits:  # of numbers, no NaN
                feeds[name] = (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return feeds

    def check(self, got, feeds, outputs):
        expected = dict(zip(self.names, self.oracle.reference(feeds), strict=True))
        wanted = outputs or self.names
        assert len(got) == len(wanted)
        for array, name in zip(got, wanted, strict=True):
            reference = expected[name]
            assert array.dtype.name == (self.kind.dtype if self.kind.dtype == "bfloat16" else reference.dtype.name)
            if self.kind.dtype == "bfloat16":
                array = array.view(np.uint16)
            assert array.shape == reference.shape
            # Sums in another order; and the CPU implementation computes float64 in float32.
            if self.kind.name.startswith("image") or self.kind.dtype == "float64":
                np.testing.assert_allclose(array, reference, atol=1e-5, rtol=1e-5)
            else:
                np.testing.assert_array_equal(array, reference)

    @property
    def names(self):
        return [spec.name for spec in self.oracle._reference.get_outputs()]


class Exported:
    """Only DLPack, as another library's tensor would be."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def laid_out(array, layout):
    if layout == "strided":
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "reversed":
        return array[::-1].copy()[::-1]
    if layout == "big-endian":
        return array.astype(array.dtype.newbyteorder(">"))
    if layout == "read-only":
        array.flags.writeable = False
    elif layout == "memoryview" and array.ndim and 0 not in array.shape:
        return memoryview(array)
    elif layout == "dlpack" and array.dtype != bool:
        return Exported(array)
    elif layout == "strided dlpack" and array.dtype != bool:
        return Exported(laid_out(array, "strided"))
    return array


LAYOUTS = (
    "contiguous", "strided", "fortran", "reversed", "big-endian", "read-only", "memoryview", "dlpack", "strided dlpack",
)  # fmt: skip


@dataclass
class Call:
    how: str
    feeds: dict
    layouts: list
    outputs: list | None

    def given(self, bfloat16):
        arrays = [laid_out(array, layout) for array, layout in zip(self.feeds.values(), self.layouts, strict=True)]
        if bfloat16 is not None:
            arrays = [array.view(bfloat16) if type(array) is np.ndarray and array.dtype == np.uint16 else array
                      for array in arrays]  # fmt: skip
        return dict(zip(self.feeds, arrays, strict=True))

    def __call__(self, session, model, bfloat16):
        if self.how == "run":
            return session.run(self.outputs, self.given(bfloat16))
        if self.how == "submit" or self.rows == 0 or self.rows > (session.description.max_rows or self.rows):
            return session.submit(self.given(bfloat16), self.outputs).result()
        with self.borrow(session, model) as batch:
            for name, array in self.feeds.items():
                if model.kind.dtype == "bfloat16":
                    batch.inputs[name].view(np.uint16)[...] = array
                else:
                    batch.inputs[name][...] = array
            batch.run()
            return [batch.outputs[name].copy() for name in self.outputs or model.names]

    @property
    def rows(self):
        return next(iter(self.feeds.values())).shape[0]

    def borrow(self, session, model):
        if session.description.max_rows:
            return session.borrow(rows=self.rows)
        return session.borrow(shapes={name: array.shape for name, array in self.feeds.items()})


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    made = {}

    def model(kind):
        if kind not in made:
            made[kind] = Model(tmp_path_factory.mktemp("model"), kind)
        return made[kind]

    return model


@pytest.mark.slow
@PROFILE
@given(st.data())
def test_equal_results(models, data):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    model = models(data.draw(kinds(), "kind"))
    kind = model.kind
    bfloat16 = ml_dtypes.bfloat16 if kind.dtype == "bfloat16" else None
    names = st.one_of(st.none(), st.lists(st.sampled_from(model.names), min_size=1, max_size=3))
    threads = data.draw(st.integers(1, 3), "threads")
    calls = []
    for _ in range(data.draw(st.integers(1, 6), "calls")):
        shape = model.shape(data.draw)
        how = data.draw(st.sampled_from(["run", "submit", "borrow"]))
        if how == "borrow" and kind.name == "dims" and shape[:2] not in kind.gears:
            how = "run"  # only a gear can be borrowed
        feeds = model.feeds(shape, data.draw(st.integers(0, 99)))
        layouts = [data.draw(st.sampled_from(LAYOUTS)) for _ in feeds]
        calls.append(Call(how, feeds, layouts, data.draw(names)))
    failures = []

    def client(mine):
        for call in mine:
            try:
                model.check(call(session, model, bfloat16), call.feeds, call.outputs)
            except BaseException as error:
                failures.append((call, error))

    slots = data.draw(st.integers(1, 3), "slots")
    with ge_core.InferenceSession(model.graph.path, slots=slots, submit_timeout_ms=300_000, **model.options) as session:
        clients = [threading.Thread(target=client, args=(calls[start::threads],)) for start in range(threads)]
        [client.start() for client in clients]
        [client.join() for client in clients]
        assert session.stats()["slots_free"] == slots
    if failures:
        raise failures[0][1]
