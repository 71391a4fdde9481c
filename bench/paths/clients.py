# SPDX-License-Identifier: Apache-2.0
"""Clients of each transport: each sends one request again and again and holds the outputs of the last response.

A call is what a user of that transport pays per request: inputs start in ordinary memory, outputs end as NumPy arrays.
With shared memory the inputs are copied into the region and the outputs are views of it. ``http+shm`` is the bench's
own lean client: the request's bytes are built beforehand and sent over one connection that stays open. A call is
`encode`, `exchange` and `decode`, one after another.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import mmap
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from ge_core_pyx.errors import GeCoreError

ALIGNMENT = 64
RELEASED_WITHIN_S = 2.0
_numbers = itertools.count()


class RegionError(GeCoreError):
    """The server keeps a shared memory region after its last request; the text names it."""


@dataclass(frozen=True)
class Endpoint:
    """Where a server listens, as ``host:port``."""

    http: str
    grpc: str


@dataclass(frozen=True)
class Request:
    """A request to repeat: the inputs, and the shape and dtype of each output."""

    model: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, tuple[tuple[int, ...], np.dtype]]


class MessageClient:
    """A client over ``grpc`` or ``http`` with the tensors inside the messages."""

    def __init__(self, endpoint: Endpoint, request: Request, transport: str):
        self._library = tritonclient.grpc if transport == "grpc" else tritonclient.http
        self._client = self._library.InferenceServerClient(endpoint.grpc if transport == "grpc" else endpoint.http)
        self._request = request
        self._requested = [self._library.InferRequestedOutput(name) for name in request.outputs]
        self.outputs: dict[str, np.ndarray] = {}

    def encode(self) -> list:
        tensors = []
        for name, array in self._request.inputs.items():
            tensor = self._library.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
            tensor.set_data_from_numpy(array)
            tensors.append(tensor)
        return tensors

    def exchange(self, tensors: list | None):
        return self._client.infer(self._request.model, tensors, outputs=self._requested)

    def decode(self, result) -> None:
        self.outputs = {name: result.as_numpy(name) for name in self._request.outputs}

    def call(self) -> None:
        self.decode(self.exchange(self.encode()))

    def close(self) -> None:
        self._client.close()


class SharedMemoryRegions:
    """One shared memory region for the inputs and one for the outputs of a request, registered with the server.

    The names in /dev/shm are removed as soon as the server has mapped the regions, so nothing can be left behind.
    """

    def __init__(self, endpoint: Endpoint, request: Request):
        self._client = tritonclient.grpc.InferenceServerClient(endpoint.grpc)
        self._registered: list[str] = []
        self._inputs = list(request.inputs.values())
        sizes = {name: (array.shape, array.dtype) for name, array in request.inputs.items()}
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self.input_region, self.input_offsets, self._input_views = self._create(sizes)
            self.output_region, self.output_offsets, self.outputs = self._create(request.outputs)
            undo.pop_all()

    def _create(self, tensors: Mapping[str, tuple[tuple[int, ...], np.dtype]]):
        offsets: dict[str, tuple[int, int]] = {}
        end = 0
        for name, (shape, dtype) in tensors.items():
            nbytes = math.prod(shape) * np.dtype(dtype).itemsize
            offsets[name] = (end, nbytes)
            end += -(-nbytes // ALIGNMENT) * ALIGNMENT
        size = max(end, ALIGNMENT)
        region = f"ge_core_bench_{os.getpid()}_{next(_numbers)}"
        file = Path("/dev/shm", region)
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.ftruncate(descriptor, size)
            memory = mmap.mmap(descriptor, size)
            self._client.register_system_shared_memory(region, f"/{region}", size)
            self._registered.append(region)
        finally:
            os.close(descriptor)
            file.unlink()
        arrays: dict[str, np.ndarray] = {
            name: np.ndarray(shape, dtype, memory, offsets[name][0]) for name, (shape, dtype) in tensors.items()
        }
        return region, offsets, arrays

    def write_inputs(self) -> None:
        """Copy the user's inputs into their region."""
        for view, array in zip(self._input_views.values(), self._inputs, strict=True):
            np.copyto(view, array)

    def close(self) -> None:
        """Unregister both regions; the memory is freed with the last view of it.

        Raises
        ------
        RegionError
            The server keeps one.
        """
        failures = [reason for region in self._registered if (reason := self._unregister(region)) is not None]
        self._registered.clear()
        self._client.close()
        if failures:
            raise RegionError("the server does not let go of shared memory: " + "; ".join(failures))

    def _unregister(self, region: str) -> str | None:
        """Unregister a region, or return why that is not possible; for a moment after a response it is in use."""
        deadline = time.monotonic() + RELEASED_WITHIN_S
        while True:
            try:
                self._client.unregister_system_shared_memory(region)
                return None
            except InferenceServerException as error:
                if error.status() == "StatusCode.UNAVAILABLE":  # the server is gone, and the region with it
                    return None
                if "in use" not in str(error.message()) or time.monotonic() > deadline:
                    return f"{region}: {error.message()}"
            time.sleep(0.01)


class SharedMemoryGrpcClient:
    """A client over ``grpc+shm``: Triton's gRPC client, tensors in system shared memory."""

    def __init__(self, endpoint: Endpoint, request: Request):
        self._regions = SharedMemoryRegions(endpoint, request)
        self._client = tritonclient.grpc.InferenceServerClient(endpoint.grpc)
        self._model = request.model
        self._inputs: list = []
        self._requested: list = []
        for name, array in request.inputs.items():
            offset, nbytes = self._regions.input_offsets[name]
            tensor = tritonclient.grpc.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
            tensor.set_shared_memory(self._regions.input_region, nbytes, offset)
            self._inputs.append(tensor)
        for name in request.outputs:
            offset, nbytes = self._regions.output_offsets[name]
            requested = tritonclient.grpc.InferRequestedOutput(name)
            requested.set_shared_memory(self._regions.output_region, nbytes, offset)
            self._requested.append(requested)

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        return self._regions.outputs

    def encode(self) -> None:
        self._regions.write_inputs()

    def exchange(self, _=None) -> None:
        self._client.infer(self._model, self._inputs, outputs=self._requested)

    def decode(self, _=None) -> None:
        """Nothing: the outputs are views of the region."""

    def call(self) -> None:
        self.encode()
        self.exchange()

    def close(self) -> None:
        self._client.close()
        self._regions.close()


class LeanHttpClient:
    """A client over ``http+shm``: one open socket, a request whose bytes never change, tensors in shared memory."""

    def __init__(self, endpoint: Endpoint, request: Request):
        self._regions = SharedMemoryRegions(endpoint, request)
        inputs = [
            {
                "name": name,
                "shape": list(array.shape),
                "datatype": np_to_triton_dtype(array.dtype),
                "parameters": self._location(self._regions.input_region, self._regions.input_offsets[name]),
            }
            for name, array in request.inputs.items()
        ]
        outputs = [
            {
                "name": name,
                "parameters": self._location(self._regions.output_region, self._regions.output_offsets[name]),
            }
            for name in request.outputs
        ]
        body = json.dumps({"inputs": inputs, "outputs": outputs}).encode()
        head = f"POST /v2/models/{request.model}/infer HTTP/1.1\r\nHost: {endpoint.http}\r\n"
        self._message = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        host, _, port = endpoint.http.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)))
        except OSError:
            self._regions.close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @staticmethod
    def _location(region: str, offset_nbytes: tuple[int, int]) -> dict:
        offset, nbytes = offset_nbytes
        return {
            "shared_memory_region": region,
            "shared_memory_offset": offset,
            "shared_memory_byte_size": nbytes,
        }

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        return self._regions.outputs

    def encode(self) -> None:
        self._regions.write_inputs()

    def exchange(self, _=None) -> None:
        self._socket.sendall(self._message)
        response = b""
        while (end := response.find(b"\r\n\r\n")) < 0:
            response += self._receive()
        head = response[:end].lower()
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        while len(response) < end + 4 + length:
            response += self._receive()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"the server answered {response[:end].decode()}: {response[end + 4 :].decode()}")

    def decode(self, _=None) -> None:
        """Nothing: the outputs are views of the region."""

    def call(self) -> None:
        self.encode()
        self.exchange()

    def _receive(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection of the lean client")
        return data

    def close(self) -> None:
        self._socket.close()
        self._regions.close()


Client = MessageClient | SharedMemoryGrpcClient | LeanHttpClient


def connect(endpoint: Endpoint, request: Request, transport: str) -> Client:
    """Return a client for `request` over ``grpc``, ``http``, ``grpc+shm`` or ``http+shm``; close it after use."""
    if transport == "grpc+shm":
        return SharedMemoryGrpcClient(endpoint, request)
    if transport == "http+shm":
        return LeanHttpClient(endpoint, request)
    return MessageClient(endpoint, request, transport)
