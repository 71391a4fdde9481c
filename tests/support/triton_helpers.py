# SPDX-License-Identifier: Apache-2.0
"""Model repositories and clients for tests against a real tritonserver."""

import shutil
import time
from contextlib import closing

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, shared_memory

TRANSPORTS = ("grpc", "http", "grpc+shm")


def add_model(repository, name, config, om=None):
    """One model folder: config.pbtxt as it stands, and the om, if any, as model.om in version 1."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)
    if om is not None:
        shutil.copyfile(om, version / "model.om")


def client(server, transport):
    """A client to use in `with closing(...)`."""
    if transport == "http":
        return http.InferenceServerClient(server.http)
    return grpc.InferenceServerClient(server.grpc)


def infer(connection, model, feeds, outputs, transport="grpc"):
    """The model's answer as a list of arrays in the order of `outputs`, through one request.

    Inputs travel through system shared memory for `grpc+shm`, and so do the outputs of which `outputs` has the bytes.
    """
    module = http if transport == "http" else grpc
    if transport == "grpc+shm":
        return _infer_shm(connection, model, feeds, outputs)
    result = connection.infer(model, _inputs(module, feeds), outputs=[module.InferRequestedOutput(n) for n in outputs])
    return [result.as_numpy(name) for name in outputs]


def _inputs(module, feeds):
    inputs = []
    for name, array in feeds.items():
        inputs.append(module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(array)
    return inputs


def _infer_shm(connection, model, feeds, outputs):
    regions = []

    def region(name, nbytes):
        key = f"ge_core_test_{id(regions)}_{name}"
        handle = shared_memory.create_shared_memory_region(key, f"/{key}", nbytes)
        regions.append((key, handle))
        connection.register_system_shared_memory(key, f"/{key}", nbytes)
        return key, handle

    try:
        inputs, asked, placed = [], [], {}
        for name, array in feeds.items():
            key, handle = region(name, array.nbytes)
            shared_memory.set_shared_memory_region(handle, [array])
            inputs.append(grpc.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
            inputs[-1].set_shared_memory(key, array.nbytes)
        for name, nbytes in outputs.items():
            key, placed[name] = region(name, nbytes)
            asked.append(grpc.InferRequestedOutput(name))
            asked[-1].set_shared_memory(key, nbytes)
        result = connection.infer(model, inputs, outputs=asked)
        answers = []
        for name, handle in placed.items():
            output = result.get_output(name)
            dtype = {"FP32": np.float32, "INT32": np.int32, "FP16": np.float16}[output.datatype]
            answers.append(shared_memory.get_contents_as_numpy(handle, dtype, list(output.shape)).copy())
        return answers
    finally:
        for key, handle in regions:
            forget(connection, key)
            shared_memory.destroy_shared_memory_region(handle)


def forget(connection, region, limit_s=5):
    """Unregister a region; the server lets go of a request's memory only a moment after it has answered."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return connection.unregister_system_shared_memory(region)
        except InferenceServerException as error:
            if "in use" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def ask(server, model, feeds, outputs, transport="grpc"):
    """`infer` with a client of its own."""
    with closing(client(server, transport)) as connection:
        return infer(connection, model, feeds, outputs, transport)


class Caller:
    """A client for many requests to one model, whose shared memory, if any, is registered once.

    Parameters
    ----------
    server : TritonServer
    model, transport : str
    largest : dict of name → array
        Inputs of the most rows that it will send.
    outputs : dict of name → array
        Of the shapes, but for the rows, and dtypes that come back.
    """

    def __init__(self, server, model, transport, largest, outputs):
        self._connection, self._model, self._outputs = client(server, transport), model, outputs
        self._module = http if transport == "http" else grpc
        self._regions = {}
        if transport == "grpc+shm":
            rows = len(next(iter(largest.values())))
            sizes = {name: array.nbytes for name, array in largest.items()}
            sizes |= {name: rows * array[0].nbytes for name, array in outputs.items()}
            for name, nbytes in sizes.items():
                key = f"ge_core_test_{id(self)}_{name}"
                self._regions[name] = key, shared_memory.create_shared_memory_region(key, f"/{key}", nbytes)
                self._connection.register_system_shared_memory(key, f"/{key}", nbytes)

    def infer(self, feeds):
        """{output: array} of one request."""
        rows = len(next(iter(feeds.values())))
        asked = [self._module.InferRequestedOutput(name) for name in self._outputs]
        if not self._regions:
            result = self._connection.infer(self._model, _inputs(self._module, feeds), outputs=asked)
            return {name: result.as_numpy(name) for name in self._outputs}
        inputs = []
        for name, array in feeds.items():
            key, handle = self._regions[name]
            shared_memory.set_shared_memory_region(handle, [array])
            inputs.append(grpc.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
            inputs[-1].set_shared_memory(key, array.nbytes)
        for output, array in zip(asked, self._outputs.values(), strict=True):
            output.set_shared_memory(self._regions[output.name()][0], rows * array[0].nbytes)
        result = self._connection.infer(self._model, inputs, outputs=asked)
        return {
            name: shared_memory.get_contents_as_numpy(
                self._regions[name][1], array.dtype, list(result.get_output(name).shape)
            )
            for name, array in self._outputs.items()
        }

    def close(self):
        for key, handle in self._regions.values():
            forget(self._connection, key)
            shared_memory.destroy_shared_memory_region(handle)
        self._connection.close()
