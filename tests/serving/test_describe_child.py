# SPDX-License-Identifier: Apache-2.0
"""An om described by a child process."""

import os
import shutil

import pytest
from oms import write_synthetic

import ge_core
from ge_core import describe_child
from ge_core.describe_child import describe
from ge_core.description import describe_model


@pytest.fixture
def om(tmp_path):
    outputs = [("n:0:y", "float16", (-1, 2)), ("n:1:z", "int32", (-2,))]
    return write_synthetic(tmp_path / "m.om", [("x", "float32", (-1, 3, 4))], outputs, batch=(1, 2, 4)).path


def test_says_what_describe_model_says(om):
    assert describe(om, "cpu") == describe_model(om, "cpu")
    assert describe(om, "cpu").inputs[0].shape == (None, 3, 4)


def test_the_childs_error_is_the_error(tmp_path):
    with pytest.raises(ge_core.ModelFileError, match=r"none\.om"):
        describe(tmp_path / "none.om", "cpu")
    (tmp_path / "text.om").write_text("not an om")
    with pytest.raises(ge_core.ModelFileError, match=r"text\.om") as caught:
        describe(tmp_path / "text.om", "cpu")
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)


def test_a_child_that_hangs_is_an_error(om):
    with pytest.raises(ge_core.ModelFileError, match=r"did not describe it within 0\.001 s"):
        describe(om, "cpu", time_limit_s=0.001)


def test_a_child_that_crashes_is_an_error(om, monkeypatch, tmp_path):
    crash = tmp_path / "python3"
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o755)
    monkeypatch.setattr(describe_child.sys, "executable", str(crash))
    with pytest.raises(ge_core.ModelFileError, match="ended with -11"):
        describe(om, "cpu")


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The oms that a child was asked about; a cache of the test's own."""
    asked, ask = [], describe_child._ask
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(describe_child, "_ask", lambda path, *rest: asked.append(path) or ask(path, *rest))
    return asked


def test_the_same_content_is_asked_about_once(om, asked, tmp_path, monkeypatch):
    first = describe(om, "cpu")
    assert describe(om, "cpu") == first and asked == [om]
    om.touch()
    assert describe(om, "cpu") == first and asked == [om]
    write_synthetic(om, [("x", "float32", (-1, 5))], [("y", "float32", (-1, 2))], batch=(1, 8))
    assert describe(om, "cpu").gears == (1, 8) and len(asked) == 2
    monkeypatch.setenv("GE_CORE_MODEL_ROOTS", str(tmp_path / "elsewhere"))
    with pytest.raises(ge_core.ModelFileError, match="outside the folders"):
        describe(om, "cpu")
    with pytest.raises(ge_core.ModelFileError, match="outside the folders"):
        describe(om, "cpu")
    assert len(asked) == 4  # refusals are not kept


def test_a_cache_that_cannot_be_used_is_done_without(om, asked, tmp_path):
    expected = describe(om, "cpu")
    (kept,) = (tmp_path / "cache" / "ge_core" / "descriptions").iterdir()
    kept.write_text("{")
    assert describe(om, "cpu") == expected
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").touch()
    assert describe(om, "cpu") == expected
    assert len(asked) == 3


def test_the_oldest_descriptions_go(om, asked, tmp_path, monkeypatch):
    monkeypatch.setattr(describe_child, "MOST_KEPT", 2)
    copies = [shutil.copy(om, tmp_path / f"{number}.om") for number in range(3)]
    for number, copy in enumerate(copies):
        describe(copy, "cpu")
        for kept in (tmp_path / "cache" / "ge_core" / "descriptions").iterdir():
            os.utime(kept, (number, number)) if kept.stat().st_mtime > 1000 else None
    assert len(asked) == 3
    describe(copies[2], "cpu")
    assert len(asked) == 3
    describe(copies[0], "cpu")
    assert len(asked) == 4
