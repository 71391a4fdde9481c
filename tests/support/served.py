# SPDX-License-Identifier: Apache-2.0
"""A model loaded as Triton would load it, without a server."""

import json

from pb_utils import InferenceRequest, ModelConfig, PbUtils

from ge_core import serving
from ge_core.serving.loading import TEMPLATE


def model_config(name="m", **fields):
    """A model configuration as Triton completes it before it reaches a Python model."""
    group = {"name": name, "kind": "KIND_CPU", "count": fields.pop("count", 1)}
    parameters = {key: {"string_value": value} for key, value in fields.pop("parameters", {}).items()}
    base = {"name": name, "max_batch_size": 0, "input": [], "output": [], "instance_group": [group]}
    return base | {"parameters": parameters} | fields


def load(pb_utils, arguments, **options):
    """As a model.py of this release does."""
    return serving.load(pb_utils, arguments, template=TEMPLATE, **options)


class Served:
    """A model loaded as Triton would load it."""

    def __init__(self, om, instance=0, **config):
        folder = om.path.parent
        self.om, self.pb_utils = om, PbUtils(folder)
        content = model_config(parameters={"runtime": "cpu", **config.pop("parameters", {})}, **config)
        serving.complete_config(self.pb_utils, ModelConfig(content))
        self.config = content
        self.model = load(self.pb_utils, self.arguments(instance))

    def arguments(self, instance):
        folder = self.om.path.parent
        return {
            "model_config": json.dumps(self.config),
            "model_repository": str(folder.parent),
            "model_version": folder.name,
            "model_instance_name": f"m_{instance}",
        }

    def request(self, feeds, wanted=None):
        return InferenceRequest(feeds, [entry["name"] for entry in self.config["output"]] if wanted is None else wanted)

    def ask(self, *feeds):
        """Answers (or errors) of one call with these requests."""
        return [answer(response) for response in self.model.execute([self.request(feed) for feed in feeds])]


def answer(response):
    """{name: copy} of a response, or its error: as Triton takes it, before the next call."""
    if response.error() is not None:
        assert response.output_tensors() == []
        return response.error()
    for tensor in response.output_tensors():
        tensor.send(None)
    return {tensor.name(): tensor.bits().copy() for tensor in response.output_tensors()}
