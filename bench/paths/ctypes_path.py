# SPDX-License-Identifier: Apache-2.0
"""The `ctypes` path: the calls of `c` made from Python, as a program without a native module of its own makes them."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from bench.paths.c_path import merge_copies

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def _resolve(libraries: list[str], name: str, *types):
    function = next(filter(None, (getattr(ctypes.CDLL(path), name, None) for path in libraries)))
    function.argtypes = types
    return function


class CtypesPath:
    """AscendCL calls through ctypes for one batch on one session; parameters as for `bench.paths.c_path.CPath`."""

    def __init__(self, handles: dict, inputs: dict, outputs: dict):
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        libraries = handles["library"]
        self._bind = _resolve(libraries, "aclrtSetCurrentContext", pointer)
        copy = ("aclrtMemcpyAsync", pointer, size, pointer, size, ctypes.c_int, pointer)
        self._copy = _resolve(libraries, *copy)
        self._execute = _resolve(libraries, "aclmdlExecuteAsync", ctypes.c_uint32, pointer, pointer, pointer)
        self._synchronize = _resolve(libraries, "aclrtSynchronizeStream", pointer)
        self._handles = handles
        self._copies_in = [
            (_view(handles["pinned_in"] + offset, inputs[name]), inputs[name]) for name, offset, _ in handles["inputs"]
        ]
        self._copies_out = [
            (outputs[name], _view(handles["pinned_out"] + offset, outputs[name]))
            for name, offset, _ in handles["outputs"]
        ]
        self._output_copies = merge_copies([(offset, outputs[name].nbytes) for name, offset, _ in handles["outputs"]])

    def once(self, clock: Callable[[], int] = time.perf_counter_ns) -> Callable[[], int]:
        """Return a function that makes one call and returns its nanoseconds."""
        handles, copy = self._handles, self._copy
        context, stream, nbytes = handles["context"], handles["stream"], handles["in_nbytes"]
        to_device = (handles["device_in"], nbytes, handles["pinned_in"], nbytes, HOST_TO_DEVICE, stream)
        to_host = [
            (handles["pinned_out"] + offset, size, handles["device_out"] + offset, size, DEVICE_TO_HOST, stream)
            for offset, size in self._output_copies
        ]
        execute = (handles["model_id"], handles["input_dataset"], handles["output_dataset"], stream)

        def call() -> int:
            self._bind(context)
            start = clock()
            for target, source in self._copies_in:
                np.copyto(target, source)
            codes = [copy(*to_device), self._execute(*execute)]
            codes += [copy(*each) for each in to_host]
            codes.append(self._synchronize(stream))
            for target, source in self._copies_out:
                np.copyto(target, source)
            elapsed = clock() - start
            if any(codes):
                raise RuntimeError(f"the path ctypes failed with AscendCL codes {codes}")
            return elapsed

        return call


def _view(address: int, like: np.ndarray) -> np.ndarray:
    memory = memoryview((ctypes.c_char * like.nbytes).from_address(address))
    return np.frombuffer(memory, like.dtype).reshape(like.shape)
