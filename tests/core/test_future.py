# SPDX-License-Identifier: Apache-2.0
"""Futures of `submit`, as the standard library and asyncio use them."""

import asyncio
import concurrent.futures
import gc
import threading
import weakref

import numpy as np
import pytest
from oms import write_synthetic

import ge_core


@pytest.fixture
def om(tmp_path):
    return write_synthetic(
        tmp_path / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 6))], batch=[1, 4], exec_us=20_000
    )


@pytest.fixture
def session(om):
    with ge_core.InferenceSession(om.path, runtime="cpu", slots=2) as session:
        yield session


def test_a_future_is_one_of_the_standard_library(session, om):
    feed = om.random(1)
    future = session.submit(feed)
    assert isinstance(future, concurrent.futures.Future) and isinstance(future, ge_core.Future)
    assert future.running() and not future.cancel() and not future.cancelled()
    assert (future.result()[0] == om.expected(feed)[0]).all()
    assert future.done() and not future.running() and future.exception() is None


def test_callbacks_run_when_the_device_is_done(session, om):
    feed, called, done = om.random(2), [], threading.Event()
    future = session.submit(feed)
    future.add_done_callback(lambda one: (called.append(one.result()), done.set()))
    assert done.wait(10)
    assert (called[0][0] == om.expected(feed)[0]).all()
    future.add_done_callback(called.append)
    assert called[1] is future
    assert session.stats()["slots_free"] == 2


def test_wait_and_as_completed(session, om):
    feeds = [om.random(1) for _ in range(2)]
    futures = [session.submit(feed) for feed in feeds]
    assert concurrent.futures.wait(futures, timeout=10).not_done == set()
    futures = [session.submit(feed) for feed in feeds]
    assert set(concurrent.futures.as_completed(futures, timeout=10)) == set(futures)
    for future, feed in zip(futures, feeds, strict=True):
        assert (future.result()[0] == om.expected(feed)[0]).all()


def test_asyncio(session, om):
    feeds = [om.random(1) for _ in range(2)]

    async def ask():
        return await asyncio.gather(*(asyncio.wrap_future(session.submit(feed)) for feed in feeds))

    for (y,), feed in zip(asyncio.run(ask()), feeds, strict=True):
        assert (y == om.expected(feed)[0]).all()


def test_asyncio_gets_the_error(om, stand_in):
    async def ask(session):
        return await asyncio.wrap_future(session.submit(om.random(1)))

    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        with stand_in.injecting("aclmdlExecuteAsync", effect="task", code=507011), pytest.raises(ge_core.AclError):
            asyncio.run(ask(session))
        session.run(None, om.random(1))


def test_many_threads_ask_for_one_result(session, om):
    feed = om.random(1)
    future = session.submit(feed)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: future.result(), range(8)))
    assert all(result is results[0] for result in results)


def test_a_failed_result_that_is_kept_or_never_asked_for_gives_its_slot_back(om, stand_in):
    with ge_core.InferenceSession(om.path, runtime="cpu", submit_timeout_ms=None) as session:
        with stand_in.injecting("aclmdlExecuteAsync", effect="task", code=507011):
            never_asked = session.submit(om.random(1))
        session.run(None, om.random(1))  # waits for the only slot
        with pytest.raises(ge_core.AclError) as kept:
            never_asked.result()
        with stand_in.injecting("aclmdlExecuteAsync", effect="task", code=507011):
            asked = session.submit(om.random(1))
            with pytest.raises(ge_core.AclError) as kept_too:
                asked.result()
        session.run(None, om.random(1))
        assert kept.value.code == kept_too.value.code == 507011
        assert session.stats()["slots_free"] == 1


def test_a_future_that_dies_gives_its_slot_back(om):
    with ge_core.InferenceSession(om.path, runtime="cpu", submit_timeout_ms=5000) as session:
        future = session.submit(om.random(1))
        dead = weakref.ref(future)
        del future
        gc.collect()
        assert dead() is None
        session.run(None, om.random(1))


def test_closing_without_waiting_tells_futures(om):
    session = ge_core.InferenceSession(om.path, runtime="cpu")
    future = session.submit(om.random(1))
    session.close(wait=False)
    with pytest.raises(concurrent.futures.CancelledError, match="was closed"):
        future.result()


def test_a_time_limit_leaves_the_request_running(session, om):
    feed = om.random(1)
    future = session.submit(feed)
    with pytest.raises(TimeoutError):
        future.result(0.001)
    assert (np.asarray(future.result()[0]) == om.expected(feed)[0]).all()
