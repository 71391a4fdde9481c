# SPDX-License-Identifier: Apache-2.0
"""config.pbtxt against an om: what is left out is filled, what is given is compared, what is wrong is corrected."""

import pytest

from ge_core import ModelDescription, TensorSpec
from ge_core.serving import pbtxt
from ge_core.serving.model_config import ConfigError, bind, complete, config_pbtxt


def describe(inputs, outputs, gear_kind="static", gears=(), max_rows=0, not_rows="", multiples=None):
    """A description from (name, dtype, shape) rows."""

    def specs(rows):
        return tuple(TensorSpec(name.rpartition(":")[2], name, dtype, shape, 0) for name, dtype, shape in rows)

    multiples = multiples or (1,) * len(outputs)
    where = ("/m/model.om", "cpu", "Ascend910B3")
    fields = (specs(inputs), specs(outputs), gear_kind, gears, max_rows, not_rows, multiples, (), ())
    return ModelDescription(*fields, *where)


RESNET = describe(
    [("input", "float32", (None, 3, 224, 224))], [("node:0:output", "float32", (None, 1000))], "batch", (1, 2, 4, 8), 8
)
LLAMA = describe(
    [("input_ids", "int64", (None, 16))], [("n:0:logits", "float32", (None, 16, 32000))], "batch", (1, 4, 8), 8
)
STATIC_1 = describe([("x", "float32", (1, 8))], [("n:0:y", "float32", (1, 4))], max_rows=1)
NO_ROWS = describe([("x", "float32", (3, 8))], [("n:0:y", "float32", (4,))], not_rows="output y: float32[4] has 4 rows")


def config(**fields):
    return {"name": "m", "max_batch_size": 0, "input": [], "output": []} | fields


def tensor(name, data_type=None, dims=None, **fields):
    """As Triton's JSON has it: what the file leaves out is TYPE_INVALID and []."""
    return {"name": name, "data_type": data_type or "TYPE_INVALID", "dims": dims or []} | fields


def test_an_empty_configuration_is_filled_from_the_om():
    content = config()
    complete(content, RESNET)
    assert content["max_batch_size"] == 8
    assert content["input"] == [{"name": "input", "data_type": "TYPE_FP32", "dims": [3, 224, 224]}]
    assert content["output"] == [{"name": "output", "data_type": "TYPE_FP32", "dims": [1000]}]


def test_what_is_given_stays_as_it_is():
    content = config(
        max_batch_size=4,
        input=[tensor("input_ids", "TYPE_INT64", [-1])],
        output=[tensor("logits", "TYPE_FP32", ["-1", "32000"], label_filename="labels.txt")],
    )
    binding = complete(content, LLAMA)
    assert content["max_batch_size"] == binding.max_batch_size == 4
    assert content["input"] == [tensor("input_ids", "TYPE_INT64", [-1])]
    assert content["output"] == [tensor("logits", "TYPE_FP32", ["-1", "32000"], label_filename="labels.txt")]


def test_a_tensor_given_by_name_only_is_completed():
    content = config(max_batch_size=8, input=[tensor("input")])
    complete(content, RESNET)
    assert content["input"] == [{"name": "input", "data_type": "TYPE_FP32", "dims": [3, 224, 224]}]


def test_full_names_are_names_too():
    binding = bind(config(max_batch_size=8, output=[tensor("node:0:output", "TYPE_FP32", [1000])]), RESNET)
    assert [(bound.name, bound.spec.name) for bound in binding.outputs] == [("node:0:output", "output")]


def test_whole_shapes_mean_max_batch_size_0():
    content = config(input=[tensor("input", "TYPE_FP32", [-1, 3, 224, 224])])
    complete(content, RESNET)
    assert content["max_batch_size"] == 0
    assert content["output"] == [{"name": "output", "data_type": "TYPE_FP32", "dims": [-1, 1000]}]


def test_shapes_of_one_row_mean_that_max_batch_size_was_left_out():
    content = config(input=[tensor("input", "TYPE_FP32", [3, 224, 224])])
    complete(content, RESNET)
    assert content["max_batch_size"] == 8


def test_a_number_per_row_is_a_reshape_to_none():
    content = config()
    complete(content, describe([("x", "float32", (None,))], [("n:0:y", "int64", (None,))], "batch", (1, 2), 2))
    assert content["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [1], "reshape": {"shape": []}}]
    assert content["output"] == [{"name": "y", "data_type": "TYPE_INT64", "dims": [1], "reshape": {"shape": []}}]


def test_a_model_without_rows_has_no_batch():
    content = config()
    complete(content, NO_ROWS)
    assert content["max_batch_size"] == 0
    assert content["input"][0]["dims"] == [3, 8]


def test_an_output_of_several_rows_per_row_is_not_batched_by_itself():
    content = config()
    boxes = describe([("x", "float32", (1, 8))], [("n:0:boxes", "float32", (300, 6))], max_rows=1, multiples=(300,))
    complete(content, boxes)
    assert content["max_batch_size"] == 0
    assert content["output"][0]["dims"] == [300, 6]


@pytest.mark.parametrize(
    ("fields", "description", "says"),
    [
        ({"max_batch_size": 8}, STATIC_1, "max_batch_size 8 in config.pbtxt, at most 1 in the om (static, batch 1)"),
        (
            {"max_batch_size": 9},
            RESNET,
            "max_batch_size 9 in config.pbtxt, at most 8 in the om (batch gears 1, 2, 4, 8)",
        ),
        (
            {"max_batch_size": 1},
            NO_ROWS,
            "max_batch_size 1 in config.pbtxt, but no rows in the om: output y: float32[4]",
        ),
        (
            {"max_batch_size": 8, "input": [tensor("input", "TYPE_FP16", [3, 224, 224])]},
            RESNET,
            "input 'input': data_type TYPE_FP16 in config.pbtxt, TYPE_FP32 in the om",
        ),
        (
            {"max_batch_size": 8, "input": [tensor("input", "TYPE_FP32", [3, 448, 448])]},
            RESNET,
            "input 'input': dims [3, 448, 448] in config.pbtxt, [3, 224, 224] without the batch in the om",
        ),
        (
            {"max_batch_size": 8, "output": [tensor("output", "TYPE_FP32", [1, 1000])]},
            RESNET,
            "output 'output': dims [1, 1000] in config.pbtxt, [1000] without the batch in the om",
        ),
        (
            {"input": [tensor("input", "TYPE_FP32", [16, 3, 224, 224])]},
            RESNET,
            "dims [16, 3, 224, 224] in config.pbtxt, [-1, 3, 224, 224] in the om (batch gears 1, 2, 4, 8)",
        ),
        (
            {"max_batch_size": 8, "input": [tensor("image")]},
            RESNET,
            "input 'image' is not in the om, which has 'input'",
        ),
        (
            {"max_batch_size": 8, "input": [tensor("image")]},
            RESNET,
            "input 'input' of the om is missing in config.pbtxt",
        ),
        (
            {"max_batch_size": 8, "output": [tensor("prob")]},
            RESNET,
            "output 'prob' is not in the om, which has 'output'",
        ),
        (
            {"max_batch_size": 8, "output": [tensor("output"), tensor("node:0:output")]},
            RESNET,
            "config.pbtxt names one output of the om twice: 'output', 'node:0:output'",
        ),
        (
            {"max_batch_size": 1, "input": [tensor("x", "TYPE_STRING", [8])]},
            STATIC_1,
            "input 'x': data_type TYPE_STRING in config.pbtxt, TYPE_FP32 in the om",
        ),
    ],
)
def test_a_contradiction_has_both_sides(fields, description, says):
    with pytest.raises(ConfigError) as caught:
        complete(config(**fields), description)
    assert says in str(caught.value)
    assert str(caught.value).startswith("the configuration of model 'm' contradicts /m/model.om:\n")


def test_all_contradictions_come_at_once_with_a_stanza_that_loads():
    content = config(
        max_batch_size=16,
        input=[tensor("input", "TYPE_FP16", [3, 224, 224])],
        output=[tensor("node:0:output", "TYPE_FP32", [10])],
    )
    with pytest.raises(ConfigError) as caught:
        complete(content, RESNET)
    head, _, stanza = str(caught.value).partition("This would load:\n")
    assert head.count("in config.pbtxt") == 3
    assert stanza == (
        "max_batch_size: 8\n"
        'input [\n  { name: "input", data_type: TYPE_FP32, dims: [3, 224, 224] }\n]\n'
        'output [\n  { name: "node:0:output", data_type: TYPE_FP32, dims: [1000] }\n]'
    )


@pytest.mark.parametrize(
    ("kind", "gears", "shape", "dims", "fits"),
    [
        ("image_size", ((224, 224), (448, 448)), (1, 3, None, None), [1, 3, 448, 448], True),
        ("image_size", ((224, 224), (448, 448)), (1, 3, None, None), [1, 3, -1, -1], True),
        ("image_size", ((224, 224), (448, 448)), (1, 3, None, None), [1, 3, 320, 320], False),
        ("dims", ((1, 128), (4, 384)), (None, None), [4, 384], True),
        ("dims", ((1, 128), (4, 384)), (None, None), [2, 384], False),
        ("range", (), (None, 3), [5, 3], True),
        ("range", (), (None, 3), [5, 4], False),
    ],
)
def test_a_number_lies_in_the_gears(kind, gears, shape, dims, fits):
    description = describe([("x", "float32", shape)], [("n:0:y", "float32", (1,))], kind, gears, not_rows="gears")
    content = config(input=[tensor("x", "TYPE_FP32", dims)])
    if fits:
        assert bind(content, description).max_batch_size == 0
    else:
        with pytest.raises(ConfigError, match="input 'x': dims"):
            bind(content, description)


def test_a_whole_config_pbtxt():
    assert config_pbtxt(LLAMA, "llama_model", "/models/llama.om") == (
        'name: "llama_model"\n'
        'backend: "ge"\n'
        "max_batch_size: 8\n"
        'input [\n  { name: "input_ids", data_type: TYPE_INT64, dims: [16] }\n]\n'
        'output [\n  { name: "logits", data_type: TYPE_FP32, dims: [16, 32000] }\n]\n'
        'parameters: [ { key: "om_model_path" value: { string_value: "/models/llama.om" } } ]\n'
    )


def test_text_of_a_configuration_is_escaped():
    assert pbtxt.quoted('a"b\\c\nd\x7f é') == '"a\\"b\\\\c\\012d\\177 é"'
    assert pbtxt.parameters({"k": 'v"'}) == 'parameters: [ { key: "k" value: { string_value: "v\\"" } } ]'


GEARS = ((1, 1, 128), (8, 8, 128), (4, 4, 384))
DIMS = describe(
    [("ids", "int64", (None, None)), ("scale", "float32", (None, 1))], [("y", "float32", (None, 4))], "dims",
    tuple((rows, length, also) for rows, also, length in GEARS), not_rows="dims gears",
)  # fmt: skip


def test_gears_of_other_axes_have_rows_for_who_asks():
    content = config()
    assert complete(content, DIMS).max_batch_size == 0
    assert content["input"][0]["dims"] == [-1, -1]
    content = config(max_batch_size=8)
    assert complete(content, DIMS).max_batch_size == 8
    assert [entry["dims"] for entry in content["input"] + content["output"]] == [[-1], [1], [4]]
    with pytest.raises(
        ConfigError, match=r"max_batch_size 9 in config.pbtxt, at most 8 in the om .*\n.*\nmax_batch_size: 8"
    ):
        bind(config(max_batch_size=9), DIMS)


@pytest.mark.parametrize(
    ("kind", "gears", "says"),
    [
        ("dims", ((4, 128, 1),), r"at gear '\[4, 128\]', '\[1, 1\]' the inputs differ in axis 0"),
        ("range", (), "the om has a range of shapes, .* only after it has run"),
    ],
)
def test_shapes_without_rows_say_why(kind, gears, says):
    om = describe([("ids", "int64", (None, None)), ("scale", "float32", (None, 1))], [], kind, gears)
    with pytest.raises(ConfigError, match=f"max_batch_size 4 in config.pbtxt, but no rows in the om: {says}"):
        bind(config(max_batch_size=4), om)
