# SPDX-License-Identifier: Apache-2.0
"""Settings of a served model: order of the sources, values, refusals, suggestions."""

import json

import pytest

from ge_core.serving import options
from ge_core.serving.instances import devices_of
from ge_core.serving.options import ServingOptions, parse


def test_nothing_asked_for_means_the_npu_and_one_device():
    assert parse({}, environ={}) == ServingOptions()
    assert ServingOptions().runtime == "npu"
    assert ServingOptions().device_ids == (0,)


def test_config_comes_before_environment_before_defaults(tmp_path):
    defaults = tmp_path / "defaults.json"
    defaults.write_text(json.dumps({"runtime": "cpu", "device_ids": [0, 1, 2], "warmup": False}))
    environ = {"GE_CORE_DEVICE_IDS": "4,5", "GE_CORE_EXECUTE_TIMEOUT_MS": "2000", "GE_CORE_RUNTIME": ""}
    found = parse({"device_ids": "7", "om_model_path": "m.om"}, environ, defaults)
    assert found == ServingOptions(
        om_model_path="m.om", runtime="cpu", device_ids=(7,), warmup=False, execute_timeout_ms=2000
    )
    assert parse({}, environ, defaults).device_ids == (4, 5)
    assert parse({}, {}, defaults).device_ids == (0, 1, 2)
    assert parse({}, {}, tmp_path / "absent.json") == ServingOptions()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("device_id", "0", "did you mean device_ids?"),
        ("om_path", "m.om", "did you mean om_model_path?"),
        ("nonsense", "1", "known are om_model_path, runtime"),
        ("runtime", "gpu", "expected 'npu' or 'cpu', got 'gpu'"),
        ("device_ids", "0;1", "separated by commas"),
        ("device_ids", "1,1", "twice"),
        ("device_ids", "-1", "separated by commas"),
        ("device_ids", "", "separated by commas"),
        ("execute_timeout_ms", "0", "whole number of milliseconds above 0"),
        ("warmup", "yes", "'true' or 'false'"),
        ("om_model_path", "", "expected a path"),
        ("slots", "0", "whole number of batches above 0"),
        ("responses", "sent", "'returned' or 'sender', got 'sent'"),
        ("pad_value", "x=", "a number, or input=number pairs"),
        ("output_axes", "y=x:1", "output:axis=input:axis"),
        ("output_axes", "y:1", "output:axis=input:axis"),
    ],
)
def test_a_wrong_key_or_value_names_key_source_and_expectation(key, value, says):
    with pytest.raises(ValueError) as caught:
        parse({key: value}, environ={})
    assert str(caught.value).startswith("config.pbtxt: ")
    assert key in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("static_model", "1", "leave it out"),
        ("graph.ge.dynamicDims", "1;2", "`ge-core compile`"),
        ("session.ge.exec.precision_mode_v2", "fp16", "`ge-core compile`"),
        ("ge.aicoreNum", "12|10", "`ge-core compile`"),
        ("profiling", "true", "msprof"),
        ("dump_graph", "1", "compiled"),
        ("dump_something", "1", "acl.json"),
        ("device_exec_blocks", "2", "instance_group"),
        ("instance_exec_blocks", "2", "instance_group"),
        ("tp_size", "2", "one device"),
        ("gear_plan", "measured", "'smallest'"),
    ],
)
def test_what_is_not_available_is_refused_by_name_with_the_alternative(key, value, instead):
    with pytest.raises(ValueError) as caught:
        parse({key: value}, environ={})
    assert key in str(caught.value)
    assert instead in str(caught.value)


def test_every_key_of_the_design_is_known():
    ours = "om_model_path runtime device_ids slots responses warmup execute_timeout_ms submit_timeout_ms gear_plan"
    ours += " pad_value output_axes cast_inputs golden tp_size tp_output"
    official = "static_model profiling dump_graph dump_data device_exec_blocks instance_exec_blocks"
    keys = f"{ours} {official}".split()
    assert [key for key in keys if key not in options.PARAMETERS and key not in options.REFUSED] == []


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("slots", "3", 3),
        ("responses", "sender", "sender"),
        ("gear_plan", "time", "time"),
        ("pad_value", "-1", -1),
        ("pad_value", "0.5", 0.5),
        ("pad_value", "ids=2, node:0:mask=1", {"ids": 2, "node:0:mask": 1}),
        ("output_axes", "y:1=x:1, node:0:z:2 = x:1", {"y": {1: ("x", 1)}, "node:0:z": {2: ("x", 1)}}),
        ("cast_inputs", "checked", "checked"),
    ],
)
def test_what_a_value_means(key, text, value):
    assert getattr(parse({key: text}, environ={}), key) == value


def test_values_that_are_the_default_may_be_spelled_out():
    spelled = {"slots": "1", "responses": "returned", "gear_plan": "smallest", "pad_value": "0", "tp_size": "1"}
    assert parse(spelled | {"cast_inputs": "refused", "warmup": "true"}, environ={}) == ServingOptions()


def test_tritons_own_parameters_pass():
    assert parse({"EXECUTION_ENV_PATH": "/env", "FORCE_CPU_ONLY_INPUT_TENSORS": "yes"}, environ={}) == ServingOptions()


def test_a_refused_key_in_the_environment_is_refused_too():
    with pytest.raises(ValueError, match="environment GE_CORE_STATIC_MODEL: static_model is not available"):
        parse({}, {"GE_CORE_STATIC_MODEL": "1"})


@pytest.mark.parametrize(
    ("text", "says"), [("{", "is not JSON"), ("[]", "one JSON object"), ('{"x": 1}', "unknown parameter 'x'")]
)
def test_a_broken_defaults_file_is_named(tmp_path, text, says):
    path = tmp_path / "defaults.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=says) as caught:
        parse({}, {}, path)
    assert str(path) in str(caught.value)


def test_environment_variables_that_nothing_reads_are_pointed_out():
    assert options.unknown_environment({"GE_CORE_RUNTIME": "cpu", "GE_CORE_CPU_CONFIG": "{}", "HOME": "/"}) == []
    (sentence,) = options.unknown_environment({"GE_CORE_RUNTIM": "cpu"})
    assert "GE_CORE_RUNTIM;" in sentence
    assert "did you mean GE_CORE_RUNTIME?" in sentence


@pytest.mark.parametrize(
    ("ids", "count", "owned"),
    [
        ((0,), 1, [(0,)]),
        ((0, 1), 2, [(0,), (1,)]),
        ((0, 1, 2), 2, [(0, 2), (1,)]),
        ((4, 5), 3, [(4,), (5,), (4,)]),
    ],
)
def test_instances_share_the_devices(ids, count, owned):
    assert [devices_of(ids, instance, count) for instance in range(count)] == owned
