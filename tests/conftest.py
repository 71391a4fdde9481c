import gc
import os

import pytest

os.environ.setdefault("GE_CORE_RUNTIME", "cpu")

from ge_core_pyx import acl


def pytest_collection_modifyitems(items):
    if os.environ["GE_CORE_RUNTIME"] != "npu":
        for item in items:
            if "npu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a real NPU"))


@pytest.fixture(autouse=True)
def no_leaks():
    """Every native object that a test made is gone after it, and every release succeeded."""
    gc.collect()
    before, failed = acl.live_handles(), acl.failed_release_count()
    yield
    gc.collect()
    assert acl.live_handles() == before
    assert acl.failed_release_count() == failed


@pytest.fixture(scope="session")
def stand_in():
    """Counters and faults of the CPU implementation."""
    from stand_in import StandIn

    return StandIn()
