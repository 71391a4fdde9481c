# SPDX-License-Identifier: Apache-2.0
"""The fixture that watches every test: leaks fail, garbage does not."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from oms import write_synthetic

HERE = Path(__file__).parents[1]

TESTS = """
import gc
from pathlib import Path

import pytest

import ge_core

OM = Path(__file__).parent / "toy.om"
kept = []


def cycle():
    session = ge_core.InferenceSession(OM, runtime="cpu")
    session.me = [session]


def test_clean():
    with ge_core.InferenceSession(OM, runtime="cpu") as session:
        session.borrow().close()


def test_garbage():
    cycle()


def test_leak():
    kept.append(ge_core.InferenceSession(OM, runtime="cpu"))


def test_leaked_view():
    with ge_core.InferenceSession(OM, runtime="cpu") as session, session.borrow() as batch:
        kept.append(batch.inputs["x"])


def test_failed_release(stand_in):
    session = ge_core.InferenceSession(OM, runtime="cpu")
    with stand_in.failing("aclmdlUnload", 507899):
        del session


@pytest.fixture(scope="module")
def shared():
    with ge_core.InferenceSession(OM, runtime="cpu") as session:
        yield session


def test_garbage_beside_a_shared_session(shared):
    cycle()


def test_leak_beside_a_shared_session(shared):
    kept.append(shared.borrow().inputs["x"])
    kept.append(ge_core.InferenceSession(OM, runtime="cpu"))
"""


def test_leaks_fail_and_garbage_does_not(tmp_path):
    write_synthetic(tmp_path / "toy.om", [("x", "float32", (2, 3))], [("y", "float32", (2, 3))])
    shutil.copy(HERE / "conftest.py", tmp_path)
    (tmp_path / "test_inner.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environ = os.environ | {"PYTHONPATH": os.pathsep.join((str(HERE.parent), str(HERE / "support")))}
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--tb=no", "test_inner.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    outcomes = set(re.findall(r"^(ERROR|FAILED) test_inner.py::(\w+)", done.stdout, re.MULTILINE))
    leaks = ("test_leak", "test_leaked_view", "test_failed_release", "test_leak_beside_a_shared_session")
    assert outcomes == {("ERROR", name) for name in leaks}, done.stdout
