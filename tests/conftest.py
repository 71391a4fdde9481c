# SPDX-License-Identifier: Apache-2.0
import gc
import json
import os
import stat

import pytest
from stand_in import HBM_BYTES, StandIn

os.environ.setdefault("GE_CORE_RUNTIME", "cpu")
os.environ.setdefault("GE_CORE_CPU_CONFIG", json.dumps({"hbm_bytes": HBM_BYTES}))

from ge_core_pyx import acl


def pytest_collection_modifyitems(items):
    if os.environ["GE_CORE_RUNTIME"] != "npu":
        for item in items:
            if "npu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a real NPU"))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what imports made is no test's garbage and need not be searched after each


def _handles():
    """What lives now and is no garbage. Where nothing lives there is none to find."""
    if any(acl.live_handles().values()):
        gc.collect()
    return acl.live_handles()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Not the user's."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def no_leaks():
    """Every native object that a test made is gone after it, and every release succeeded."""
    before, failed = _handles(), acl.failed_release_count()
    yield
    assert _handles() == before
    assert acl.failed_release_count() == failed


@pytest.fixture(scope="session")
def stand_in():
    """Counters and faults of the CPU implementation."""
    return StandIn()


@pytest.fixture
def fake_atc(tmp_path, monkeypatch):
    """An atc that records its arguments and ends with the code in the file `code`."""
    script = tmp_path / "bin" / "atc"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\necho ATC speaks\nexit $(cat {tmp_path}/code)\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return tmp_path
