# SPDX-License-Identifier: Apache-2.0
"""`triton-plain`: a Triton Python model written the usual way, for comparison.

It joins the requests' rows with NumPy, copies synchronously from and to pageable memory, executes synchronously, and
splits the result. Device memory is allocated once; the om is opened by a ge_core session, which does nothing else here.
"""

import ctypes
import json

import numpy as np
import triton_python_backend_utils as pb_utils

import ge_core
from ge_core.engine import engine_of

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        om, runtime, device = (parameters[key]["string_value"] for key in ("om_model_path", "runtime", "device_ids"))
        self.session = ge_core.InferenceSession(om, runtime=runtime, device_id=int(device))
        self.description = self.session.description
        gears = [gear for gear in self.description.gears if isinstance(gear, int)]
        self.gears = gears or [self.description.max_rows]
        self.libraries = [ctypes.CDLL(path) for path in engine_of(self.session).native_handles(1)["library"]]

    def execute(self, requests):
        inputs = {}
        for spec in self.description.inputs:
            arrays = [pb_utils.get_input_tensor_by_name(request, spec.name).as_numpy() for request in requests]
            inputs[spec.name] = np.concatenate(arrays)
        counts = [len(array) for array in arrays]
        outputs = self.run(inputs, sum(counts))
        responses, start = [], 0
        for count in counts:
            parts = [array[start * k : (start + count) * k] for array, k in outputs.values()]
            tensors = [pb_utils.Tensor(name, part) for name, part in zip(outputs, parts, strict=True)]
            responses.append(pb_utils.InferenceResponse(tensors))
            start += count
        return responses

    def run(self, inputs, rows):
        """Return each output of the smallest gear that holds the rows, and its rows per input row."""
        gear = next(gear for gear in self.gears if gear >= rows)
        handles = engine_of(self.session).native_handles(gear)
        self.call("aclrtSetCurrentContext", handles["context"])
        for name, offset, nbytes in handles["inputs"]:
            array = inputs[name]
            if rows < gear:
                array = np.concatenate([array, np.zeros((gear - rows, *array.shape[1:]), array.dtype)])
            self.copy(handles["device_in"] + offset, array.ctypes.data, nbytes, HOST_TO_DEVICE)
        self.call("aclmdlExecute", handles["model_id"], handles["input_dataset"], handles["output_dataset"])
        outputs = {}
        places = zip(handles["outputs"], self.description.outputs, self.description.row_multiples, strict=True)
        for (name, offset, nbytes), spec, multiple in places:
            row = [dim or 0 for dim in spec.shape[1:]]  # models with open dims are not served this way
            array = np.empty((multiple * gear, *row), spec.dtype)
            self.copy(array.ctypes.data, handles["device_out"] + offset, nbytes, DEVICE_TO_HOST)
            outputs[name] = array, multiple
        return outputs

    def copy(self, target, source, nbytes, direction):
        self.call("aclrtMemcpy", target, nbytes, source, nbytes, direction)

    def call(self, name, *arguments):
        function = next(getattr(library, name) for library in self.libraries if hasattr(library, name))
        code = function(*(ctypes.c_size_t(argument) for argument in arguments))
        if code != 0:
            raise RuntimeError(f"{name} failed with AscendCL code {code}")

    def finalize(self):
        self.session.close()
