"""An om described by a child process."""

import pytest
from oms import write_synthetic

import ge_core
from ge_core import isolated
from ge_core.isolated import describe
from ge_core.session import describe_model


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
    monkeypatch.setattr(isolated.sys, "executable", str(crash))
    with pytest.raises(ge_core.ModelFileError, match="ended with -11"):
        describe(om, "cpu")
