"""The `floor`: a Triton Python model that does nothing. What it costs, any Python model must pay.

It reads each input by name and returns arrays allocated beforehand, one set per number of rows. Like ge_core's model it
imports asyncio early and sets the allocator, so that only the work differs.
"""

import asyncio  # noqa: F401  (otherwise Triton's stub imports it during the first request)
import ctypes
import json

import numpy as np
import triton_python_backend_utils as pb_utils

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


def set_allocator():
    """Keep freed memory instead of giving it back to the system after each batch, as ge_core's model does."""
    libc = ctypes.CDLL(None)
    for option, value in ((M_MMAP_THRESHOLD, 1 << 30), (M_TRIM_THRESHOLD, (1 << 31) - 1), (M_TOP_PAD, 64 << 20)):
        libc.mallopt(option, value)


class TritonPythonModel:
    def initialize(self, args):
        set_allocator()
        config = json.loads(args["model_config"])
        self.inputs = [tensor["name"] for tensor in config["input"]]
        self.batched = config["max_batch_size"] > 0
        parameters = config["parameters"]
        self.outputs = {
            int(rows): [(name, np.zeros(shape, dtype)) for name, dtype, shape in tensors]
            for rows, tensors in json.loads(parameters["outputs"]["string_value"]).items()
        }

    def execute(self, requests):
        responses = []
        for request in requests:
            arrays = [pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs]
            outputs = self.outputs[len(arrays[0]) if self.batched else 0]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in outputs]))
        return responses
