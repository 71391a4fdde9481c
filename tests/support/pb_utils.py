# SPDX-License-Identifier: Apache-2.0
"""What the adapter uses of triton_python_backend_utils, so that it can be tested without a server."""

import ctypes
import mmap
from queue import SimpleQueue

import numpy as np

from ge_core_pyx import dlpack
from ge_core_pyx.arrays import OutputTarget


class TritonModelException(Exception):  # noqa: N818  Triton's own name
    pass


class Tensor:
    """`send` does what the worker does when a tensor leaves it for the first time: its memory moves into the pool."""

    def __init__(self, name, array, dtype=None):
        self._name, self._array, self._dtype = name, np.ascontiguousarray(array), dtype or array.dtype.name
        self.sends = 0

    @classmethod
    def from_dlpack(cls, name, capsule):
        target = OutputTarget(capsule)
        bits = (ctypes.c_uint16 * (target.nbytes // 2)).from_address(target.address)
        tensor = cls(name, np.ctypeslib.as_array(bits).reshape(target.shape), target.dtype)
        tensor.capsule = capsule
        return tensor

    def name(self):
        return self._name

    def as_numpy(self):
        if self._dtype == "bfloat16":
            raise TritonModelException("bf16 has no numpy type")
        return self._array

    def to_dlpack(self):
        if self._array.dtype.kind == "O":
            raise TritonModelException("DLPack does not have support for string tensors.")
        return dlpack.to_capsule(self._array, self._dtype)

    def bits(self):
        """What a client would receive, whatever the type."""
        return self._array

    def send(self, pool):
        self.sends += 1
        if pool is not None and self.sends == 1:
            self._array = pool.place(self._array)


class TritonError:
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message, code=INTERNAL):
        self._message, self._code = message, code

    def message(self):
        return self._message

    def code(self):
        return self._code


class InferenceResponse:
    def __init__(self, output_tensors, error=None):
        self._tensors, self._error = output_tensors, error

    def output_tensors(self):
        return self._tensors

    def error(self):
        return self._error


class Pool:
    """A shared-memory region that tensors move into: a file, mapped."""

    def __init__(self, path, nbytes=1 << 20):
        self.path, self._used = path, 0
        path.write_bytes(bytes(nbytes))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), nbytes)

    def place(self, array):
        placed = np.frombuffer(self._memory, array.dtype, array.size, self._used).reshape(array.shape)
        placed[...] = array
        self._used += -(-array.nbytes // 64) * 64
        return placed


class ResponseSender:
    """Takes one answer, as the worker does: its outputs are copied before `send` returns.

    What the client gets is in `answers`; nothing, if a send with the final flag failed.
    """

    def __init__(self):
        self.answers, self.fails, self.answered = SimpleQueue(), False, False
        self._sends, self._answer = 0, TritonError("expected a single response, got 0")

    def send(self, response=None, flags=0):
        assert flags in (0, PbUtils.TRITONSERVER_RESPONSE_COMPLETE_FINAL) and not self.answered
        assert (self._sends > 0) == (response is None)
        self._sends += 1
        self.answered = flags != 0
        if response is not None:
            if self.fails:
                raise TritonModelException("Failed to increase the shared memory pool size")
            for tensor in response.output_tensors():
                tensor.send(None)
            copies = {tensor.name(): tensor.bits().copy() for tensor in response.output_tensors()}
            self._answer = response.error() or copies
        if self.answered:
            self.answers.put(self._answer)


class InferenceRequest:
    def __init__(self, inputs, wanted):
        self._inputs, self._wanted = (
            [Tensor(name, *value) if type(value) is tuple else Tensor(name, value) for name, value in inputs.items()],
            set(wanted),
        )
        self.sender = ResponseSender()
        self.cancelled, self.asked, self.id = False, 0, ""

    def is_cancelled(self):
        """Triton's server does not survive this question after the answer."""
        assert not self.sender.answered
        self.asked += 1
        return self.cancelled

    def request_id(self):
        return self.id

    def get_response_sender(self):
        return self.sender

    def inputs(self):
        return self._inputs

    def requested_output_names(self):
        return self._wanted


class Logger:
    lines: list[str]

    def __init__(self):
        self.lines = []

    def _log(self, line):
        self.lines.append(line)

    log_info = log_warn = log_error = _log


class PbUtils:
    """One test's module: its own log."""

    TritonError, Tensor, InferenceResponse = TritonError, Tensor, InferenceResponse
    TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1

    def __init__(self, model_dir=""):
        self.Logger = Logger()
        self._model_dir = str(model_dir)

    def get_model_dir(self):
        return self._model_dir


class ModelConfig:
    def __init__(self, content):
        self._content = content

    def as_dict(self):
        return self._content
