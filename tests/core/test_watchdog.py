# SPDX-License-Identifier: Apache-2.0
"""The worker ends with its server: whoever holds the GIL, whatever the device does."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from oms import write_synthetic

ROOT = Path(__file__).parents[2]
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]])
print(child.pid, flush=True)
child.wait()
"""
CHILD = """
import ctypes, sys, ge_core
from ge_core.engine import engine_of
from ge_core_pyx import watchdog
assert watchdog.start(sys.argv[1]) and watchdog.start(sys.argv[1])
session = ge_core.InferenceSession(sys.argv[2], runtime="cpu")
for context in engine_of(session).contexts:
    watchdog.guard(context)
with session.borrow(1) as batch:
    batch.start()
    print("started", flush=True)
    ctypes.PyDLL(None).sleep(60)  # PyDLL keeps the GIL
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("exec_us", [1000, 2_000_000])
def test_a_child_that_holds_the_gil_ends_after_its_parent_and_removes_the_file(tmp_path, exec_us):
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (1, 3))], [("y", "float32", (1, 2))], exec_us=exec_us)
    file = tmp_path / "region"
    file.touch()
    line = [sys.executable, "-c", PARENT, CHILD, file, om.path]
    parent = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, process_group=0)
    try:
        child = int(parent.stdout.readline())
        assert parent.stdout.readline() == "started\n"
        assert alive(child) and file.exists()
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 120
        while alive(child) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not alive(child)
        assert not file.exists()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
