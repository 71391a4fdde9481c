# SPDX-License-Identifier: Apache-2.0
"""The sequence of a batch on threads that Python does not know, and who gets a slot that becomes free."""

import importlib.util
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from oms import write_synthetic

import ge_core
from ge_core.engine import engine_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests/support/native/batches_on_a_thread.pyx"
BUILD = """
from Cython.Build import cythonize
from setuptools import Extension, setup
extension = Extension("batches_on_a_thread", [{source!r}], include_dirs=[{abi!r}], extra_compile_args=["-O1"])
modules = cythonize([extension], build_dir="c", include_path=[{root!r}])
setup(ext_modules=modules, script_args=["-q", "build_ext", "-b", "."])
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """The compiled module of tests/support/native."""
    folder = tmp_path_factory.mktemp("native")
    code = BUILD.format(source=str(SOURCE), abi=str(ROOT / "ge_core_pyx/abi"), root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("batches_on_a_thread*.so")
    spec = importlib.util.spec_from_file_location("batches_on_a_thread", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def om(tmp_path):
    return write_synthetic(tmp_path / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 6))], batch=[1, 4])


@pytest.mark.parametrize("every", [0, 64])
def test_a_plain_thread_runs_batches_while_another_holds_the_gil(native, om, every):
    feed = om.random(3)
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        engine_of(session).sample_stages(every)
        output = np.zeros((1000, 3, 6), np.float32)
        arrays = [array.reshape(-1).view(np.uint8) for array in (feed["x"], output)]
        done = native.run(engine_of(session).executor, *arrays, 3, 1000)
        assert done == (1000, 0)
        assert (output == om.expected(feed)[0]).all()
        stats, samples = session.stats(), engine_of(session).stage_samples()
        assert (stats["executions"], stats["rows"], stats["padded_rows"], stats["slots_free"]) == (1000, 3000, 1000, 1)
        assert [sample["rows"] for sample in samples] == [3] * (1000 // every if every else 0)
        assert all(sample["execute_us"] is not None for sample in samples)


def test_slots_go_to_who_has_waited_longest(om):
    """Three threads and one slot: after each has run once, they take turns."""
    turns, start = [], threading.Barrier(3)
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        feed = om.random(1)

        def client(number):
            start.wait()
            for _ in range(200):
                session.run(None, feed)
                turns.append(number)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(3)]
        held = session.borrow()
        for thread in threads:
            thread.start()
        time.sleep(0.3)  # all three wait
        held.close()
        for thread in threads:
            thread.join()
    first = turns[:300]
    assert max(first.count(number) for number in range(3)) - min(first.count(number) for number in range(3)) <= 30


def test_a_thread_that_stops_waiting_passes_nothing_on(om):
    """A wait that ends with its time limit neither keeps nor loses the slot."""
    with ge_core.InferenceSession(om.path, runtime="cpu", submit_timeout_ms=50) as session:
        with session.borrow(), pytest.raises(TimeoutError, match="no free slot within 50 ms: all 1 are in flight"):
            session.run(None, om.random(1))
        session.run(None, om.random(1))
        assert session.stats()["slots_free"] == 1


def test_a_plain_thread_outlives_the_failure_of_a_result_that_nobody_waits_for(native, om, stand_in):
    """The slot that a dead future left failing is retired while the thread has nothing but a pointer to it."""
    feed = om.random(4)
    output = np.zeros((10, 4, 6), np.float32)
    arrays = [array.reshape(-1).view(np.uint8) for array in (feed["x"], output)]
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        with stand_in.injecting("aclmdlExecuteAsync", effect="task", code=507011):
            session.submit(feed)  # and forget it
        assert native.run(engine_of(session).executor, *arrays, 4, 10, keep_gil=False) == (10, 0)
        assert (output == om.expected(feed)[0]).all()
        assert (session.stats()["slots"], session.stats()["slots_free"]) == (1, 1)


def test_a_plain_thread_is_refused_by_a_closed_session(native, om):
    feed = om.random(1)
    arrays = [feed["x"].reshape(-1).view(np.uint8), np.zeros(24, np.uint8)]
    session = ge_core.InferenceSession(om.path, runtime="cpu")
    executor = engine_of(session).executor
    session.close()
    assert native.run(executor, *arrays, 1, 1) == (0, -1)
