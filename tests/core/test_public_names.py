# SPDX-License-Identifier: Apache-2.0
"""What users rely on: the public names, their methods and attributes, and the names of the parameters.

A name may be added. Taking one away, or giving a parameter another name, breaks programs: CHANGELOG.md must say so.
"""

import dataclasses
import inspect

import pytest
from oms import write_synthetic

import ge_core
from ge_core.engine import Engine

NAMES = {
    "AclError", "AclLoadError", "AclMemoryError", "AclTimeoutError", "Batch", "DeviceMemoryError", "Future",
    "InferenceSession", "ModelDescription", "ModelFileError", "RuntimeInfo", "TensorSpec", "UnsupportedError",
    "__version__", "describe_model", "device_usage", "runtime_info",
}  # fmt: skip
FUNCTIONS = {
    "describe_model": ["path", "runtime", "device_id"],
    "device_usage": ["device_id", "runtime"],
    "runtime_info": ["runtime"],
}
SESSION = [
    "path", "runtime", "device_id", "device_ids", "slots", "submit_timeout_ms", "execute_timeout_ms", "output_axes",
    "pad_value", "gear_plan", "gear_times_ms",
]  # fmt: skip
METHODS = {
    "InferenceSession": {
        "__init__": SESSION,
        "get_inputs": [],
        "get_outputs": [],
        "run": ["output_names", "inputs"],
        "submit": ["inputs", "output_names"],
        "borrow": ["rows", "shapes"],
        "recover": [],
        "stats": [],
        "close": ["wait"],
    },
    "Batch": {
        "write": ["name", "row", "value"],
        "put": ["inputs", "row", "first", "count"],
        "get": ["index", "target", "row", "count", "at"],
        "collect": ["gets"],
        "run": [],
        "start": [],
        "wait": ["timeout"],
        "close": [],
    },
    "Future": {"result": ["timeout"], "exception": ["timeout"], "done": []},
    "ModelDescription": {"to_dict": [], "from_dict": ["values"]},
    "AclError": {"__init__": ["code", "name", "call", "message"]},
}
FIELDS = {
    "ModelDescription": [
        "inputs", "outputs", "gear_kind", "gears", "max_rows", "not_rows", "row_multiples", "reserved", "ranges",
        "path", "runtime", "soc",
    ],
    "RuntimeInfo": ["kind", "libraries", "cann_version", "soc_name", "device_count"],
    "TensorSpec": ["name", "full_name", "dtype", "shape", "nbytes"],
}  # fmt: skip
PROPERTIES = {"Batch": ["rows", "inputs", "outputs"], "RuntimeInfo": ["label"], "TensorSpec": ["itemsize"]}
# What `except ValueError` and the like have always caught.
BUILTINS = {
    "AclError": RuntimeError,
    "AclLoadError": OSError,
    "AclMemoryError": MemoryError,
    "AclTimeoutError": TimeoutError,
    "DeviceMemoryError": MemoryError,
    "ModelFileError": ValueError,
    "UnsupportedError": RuntimeError,
}
STATS = [
    "executions", "executions_by_gear", "rows", "padded_rows", "slots", "slots_free", "device_bytes", "pinned_bytes",
    "unhealthy",
]  # fmt: skip
# Methods that a session had before there was an engine, and what they are called there.
MOVED = {
    "stage": "request_inputs",
    "launch": "launch",
    "gear_shapes": "gear_shapes",
    "register_memory": "register_memory",
    "native_handles": "native_handles",
    "contexts": "contexts",
    "sample_stages": "sample_stages",
    "stages": "stage_samples",
}


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_no_public_name_is_lost():
    assert set(ge_core.__all__) >= NAMES
    assert [name for name in ge_core.__all__ if not hasattr(ge_core, name)] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_their_parameters(name):
    assert parameters(getattr(ge_core, name)) == FUNCTIONS[name]


@pytest.mark.parametrize("owner, name", [(owner, name) for owner, methods in METHODS.items() for name in methods])
def test_methods_have_their_parameters(owner, name):
    assert parameters(getattr(getattr(ge_core, owner), name)) == METHODS[owner][name]


def test_options_of_a_session_are_given_by_name():
    path, *options = list(inspect.signature(ge_core.InferenceSession).parameters.values())
    assert path.kind is path.POSITIONAL_OR_KEYWORD
    assert {option.kind for option in options} == {path.KEYWORD_ONLY}
    assert all(option.default is not option.empty for option in options)


@pytest.mark.parametrize("owner", FIELDS)
def test_fields_keep_their_names_and_order(owner):
    assert [field.name for field in dataclasses.fields(getattr(ge_core, owner))] == FIELDS[owner]


@pytest.mark.parametrize("owner", PROPERTIES)
def test_properties_are_there(owner):
    assert [name for name in PROPERTIES[owner] if not hasattr(getattr(ge_core, owner), name)] == []


@pytest.mark.parametrize("owner", ["InferenceSession", "Batch"])
def test_what_is_closed_is_a_context_manager(owner):
    assert {"__enter__", "__exit__"} <= set(dir(getattr(ge_core, owner)))


@pytest.mark.parametrize("name", BUILTINS)
def test_errors_are_the_built_in_ones_too(name):
    assert issubclass(getattr(ge_core, name), BUILTINS[name])


def test_a_device_error_says_what_failed():
    error = ge_core.AclError(507015, "ACL_ERROR_RT_AICORE_EXCEPTION", "aclrtSynchronizeStream", "text")
    assert (error.code, error.name, error.call, error.message) == (
        507015,
        "ACL_ERROR_RT_AICORE_EXCEPTION",
        "aclrtSynchronizeStream",
        "text",
    )
    assert isinstance(error.hint, str)


def test_an_open_session_has_its_attributes(tmp_path):
    om = write_synthetic(tmp_path / "m.om", [("x", "float32", (-1, 4))], [("y", "float32", (-1, 4))], batch=(1, 2))
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        assert isinstance(session.description, ge_core.ModelDescription)
        assert session.budget.device_bytes > 0 and session.budget.pinned_bytes > 0
        assert (session.device_id, session.device_ids, session.output_axes) == (0, (0,), {})
        assert list(session.stats()) == STATS


def test_what_left_the_session_is_in_its_engine():
    assert [name for name in MOVED if hasattr(ge_core.InferenceSession, name)] == []
    assert [name for name in MOVED.values() if not hasattr(Engine, name)] == []
