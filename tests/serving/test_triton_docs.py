# SPDX-License-Identifier: Apache-2.0
"""docs/triton.md: every configuration in it loads and answers, every parameter and metric is in it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from oms import write_shaped, write_synthetic
from stand_in import HBM_BYTES
from triton_helpers import add_model, ask

import ge_core
from ge_core.server import tritonserver
from ge_core.server.tritonserver import ServerError, TritonServer
from ge_core.serving import options
from ge_core.serving.monitoring import metrics

TEXT = (Path(__file__).parents[2] / "docs" / "triton.md").read_text()
CONFIGS = {
    name: (kind, config)
    for name, kind, config in re.findall(r"<!-- model: (\w+), om: (\w+) -->\n```\n(.*?)```", TEXT, re.DOTALL)
}
GEARS = (1, 2, 4, 8)


def make(folder, kind):
    """(om, feeds) of one kind that the page has a configuration for."""
    path = folder / f"{kind}.om"
    image, scores = [("input", "float32", (-1, 3, 224, 224))], [("n:0:output", "float32", (-1, 1000))]
    if kind == "batch":
        om = write_synthetic(path, image, scores, batch=GEARS)
        return om, om.random(3)
    if kind == "int32":
        om = write_synthetic(path, [("ids", "int32", (-1, 16))], [("scores", "float32", (-1, 4))], batch=GEARS)
        return om, {"ids": np.arange(32, dtype=np.int32).reshape(2, 16)}
    if kind == "static":
        inputs, outputs = [("input", "float32", (4, 3, 224, 224))], [("n:0:output", "float32", (4, 1000))]
        om = write_synthetic(path, inputs, outputs)
        return om, om.random(4)
    if kind == "image_size":
        gears = {"kind": "image_size", "values": [[224, 224], [448, 448]]}
        om = write_shaped(path, [("image", "float32", [1, 3, -1, -1])], [("boxes", "float32", [1, 100, 6])], gears)
        return om, {"image": np.ones((1, 3, 224, 224), np.float32)}
    if kind == "dims":
        gears = {"kind": "dims", "values": [[1, 128], [4, 128], [4, 384]]}
        om = write_shaped(path, [("input_ids", "int64", [-1, -1])], [("hidden", "float32", [-1, -1, 64])], gears)
        return om, {"input_ids": np.ones((4, 384), np.int64)}
    assert kind == "range"
    om = write_shaped(path, [("x", "float32", [-1, 3])], [("y", "float32", [-1, 3])], ranges={"x": [[1, 8], [3, 3]]})
    return om, {"x": np.ones((5, 3), np.float32)}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with all models of the page, and their oms and feeds."""
    try:
        tritonserver.find()
    except ServerError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("docs")
    oms = {kind: make(folder, kind) for kind in sorted({kind for kind, _ in CONFIGS.values()})}
    for name, (kind, config) in CONFIGS.items():
        om, feeds = oms[kind]
        outside = "om_model_path" in config
        add_model(folder / "models", name, config.replace("/models/shared/model.om", str(om.path)), om.path)
        if outside:
            (folder / "models" / name / "1" / "model.om").unlink()
        if "golden.npz" in config:
            arrays = {f"input.{key}": array for key, array in feeds.items()}
            arrays |= {"output.scores": om.expected(feeds)[0]}
            np.savez(folder / "models" / name / "1" / "golden.npz", **arrays)
    environ = {"GE_CORE_CPU_CONFIG": json.dumps({"devices": 2, "hbm_bytes": HBM_BYTES})}
    with TritonServer(folder / "models", runtime="cpu", environ=environ) as server:
        yield server, oms


def test_the_page_has_a_configuration_for_each_kind_of_om():
    assert {"batch", "static", "image_size", "dims", "range"} <= {kind for kind, _ in CONFIGS.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_every_configuration_of_the_page_answers(served, name):
    server, oms = served
    om, feeds = oms[CONFIGS[name][0]]
    with ge_core.InferenceSession(om.path, runtime="cpu") as session:
        expected = session.run(None, feeds)
        outputs = [spec.name for spec in session.get_outputs()]
    sent = {key: array.astype(np.int64) if name == "guarded" else array for key, array in feeds.items()}
    for got, right in zip(ask(server, name, sent, outputs), expected, strict=True):
        np.testing.assert_array_equal(got, right)


def names_in_table(title, column=r"^\| (`[^|]+) \|"):
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return set(re.findall(r"`([\w]+)`", " ".join(re.findall(column, section, re.M))))


def test_every_parameter_is_in_the_table():
    assert names_in_table("Parameters") == set(options.PARAMETERS)
    section = TEXT.split("\n## Parameters\n")[1].split("\n## ")[0]
    missing = [key for key in options.REFUSED if key not in section and not key.startswith("dump_")]
    assert missing == []


def test_every_metric_is_in_the_table():
    assert names_in_table("Metrics") == metrics.COUNTERS.keys() | metrics.GAUGES.keys()


def test_every_link_leads_somewhere():
    folder = Path(__file__).parents[2] / "docs"
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT):
        assert (folder / target).exists(), target
