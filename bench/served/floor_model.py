# SPDX-License-Identifier: Apache-2.0
"""The `floor`: a Triton Python model that does nothing. What it costs, any Python model must pay.

It reads each input by name and returns arrays allocated beforehand, one set per number of rows. Like ge_core's model it
imports asyncio early and sets the allocator, so that only the work differs.
"""

import asyncio  # noqa: F401  (otherwise Triton's stub imports it during the first request)
import json

import numpy as np
import triton_python_backend_utils as pb_utils

from ge_core.serving.loading import tune_allocator


class TritonPythonModel:
    def initialize(self, args):
        tune_allocator()
        config = json.loads(args["model_config"])
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.batched = config["max_batch_size"] > 0
        # np.full: np.zeros would leave the pages to a first touch that never comes.
        self.outputs = {
            int(rows): [(name, np.full(shape, 0, dtype)) for name, dtype, shape in tensors]
            for rows, tensors in json.loads(config["parameters"]["outputs"]["string_value"]).items()
        }

    def execute(self, requests):
        responses = []
        for request in requests:
            arrays = [pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs]
            outputs = self.outputs[len(arrays[0]) if self.batched else 0]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in outputs]))
        return responses
