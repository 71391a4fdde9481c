# SPDX-License-Identifier: Apache-2.0
"""The paths in C: functions of c_path.c, compiled at bench time and run on an open session's own stream."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ge_core_pyx.errors import GeCoreError

SOURCE = Path(__file__).with_name("c_path.c")
INCLUDE = Path(__file__).resolve().parents[2] / "ge_core_pyx" / "abi"


class CPathError(GeCoreError):
    """The C path cannot be built here; the text says why."""


class _Input(ctypes.Structure):
    _fields_ = [("source", ctypes.c_void_p), ("offset", ctypes.c_size_t), ("nbytes", ctypes.c_size_t)]


class _Output(ctypes.Structure):
    _fields_ = [("target", ctypes.c_void_p), ("offset", ctypes.c_size_t), ("nbytes", ctypes.c_size_t)]


class _OutputCopy(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_size_t), ("nbytes", ctypes.c_size_t)]


class _Call(ctypes.Structure):
    _fields_ = [
        ("context", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("input_dataset", ctypes.c_void_p),
        ("output_dataset", ctypes.c_void_p),
        ("pinned_in", ctypes.c_void_p),
        ("device_in", ctypes.c_void_p),
        ("device_out", ctypes.c_void_p),
        ("pinned_out", ctypes.c_void_p),
        ("in_nbytes", ctypes.c_size_t),
        ("inputs", ctypes.POINTER(_Input)),
        ("outputs", ctypes.POINTER(_Output)),
        ("output_copies", ctypes.POINTER(_OutputCopy)),
        ("input_count", ctypes.c_uint32),
        ("output_count", ctypes.c_uint32),
        ("output_copy_count", ctypes.c_uint32),
        ("model_id", ctypes.c_uint32),
    ]


HANDLES = ("context", "stream", "input_dataset", "output_dataset", "model_id")
MEMORY = ("pinned_in", "device_in", "device_out", "pinned_out", "in_nbytes")
MAX_GAP_BYTES = 4096
PATHS = ("c", "c-pinned", "malloc-per-call")  # in the order of c_path.c's enum


def merge_copies(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join the (offset, nbytes) of outputs into as few copies as a C program would make: over small gaps only."""
    copies: list[tuple[int, int]] = []
    for offset, nbytes in parts:
        if copies and offset - sum(copies[-1]) <= MAX_GAP_BYTES:
            copies[-1] = (copies[-1][0], offset + nbytes - copies[-1][0])
        else:
            copies.append((offset, nbytes))
    return copies


def compile_library(folder: Path) -> ctypes.CDLL:
    """Compile c_path.c into `folder` with ``$CC`` or `cc` and open it; raises CPathError when that cannot be done."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        raise CPathError(f"no C compiler: {compiler[0]!r} is not on PATH (set CC to name another)")
    target = folder / "c_path.so"
    files = ["-o", str(target), str(SOURCE)]
    command = [*compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", *files, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        first = next(iter(done.stderr.splitlines()), f"exit code {done.returncode}")
        raise CPathError(f"{compiler[0]} could not compile {SOURCE.name}: {first}")
    library = ctypes.CDLL(str(target))
    library.c_path_bind.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_int]
    library.c_path_bind.restype = ctypes.c_char_p
    library.c_path_run.argtypes = [
        ctypes.POINTER(_Call), ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64),
    ]  # fmt: skip
    library.c_path_run.restype = ctypes.c_int
    return library


class CPath:
    """The C calls for one batch on one session, by one of `PATHS`.

    Parameters
    ----------
    library : ctypes.CDLL
        From `compile_library`.
    handles : dict
        ``Engine.native_handles``; the session must stay open and run nothing else during a call.
    inputs : dict of str to ndarray
        C-contiguous user arrays in ordinary memory, one per model input.
    outputs : dict of str to ndarray
        C-contiguous arrays that every call overwrites, one per model output.
    """

    def __init__(self, library: ctypes.CDLL, handles: dict, inputs: dict, outputs: dict):
        paths = [os.fsencode(path) for path in handles["library"]]
        missing = library.c_path_bind((ctypes.c_char_p * len(paths))(*paths), len(paths))
        if missing is not None:
            raise CPathError(f"{missing.decode()} is in none of {', '.join(map(str, handles['library']))}")
        self._run = library.c_path_run
        self.outputs = outputs
        self._kept = (inputs, outputs)
        sources = [_Input(*self._part(inputs[name], offset, nbytes)) for name, offset, nbytes in handles["inputs"]]
        targets = [_Output(*self._part(outputs[name], offset, nbytes)) for name, offset, nbytes in handles["outputs"]]
        copies = [_OutputCopy(*copy) for copy in merge_copies([(part.offset, part.nbytes) for part in targets])]
        self._call = _Call(
            **{name: handles[name] for name in HANDLES + MEMORY},
            inputs=(_Input * len(sources))(*sources),
            outputs=(_Output * len(targets))(*targets),
            output_copies=(_OutputCopy * len(copies))(*copies),
            input_count=len(sources),
            output_count=len(targets),
            output_copy_count=len(copies),
        )

    @staticmethod
    def _part(array: np.ndarray, offset: int, room: int) -> tuple[int, int, int]:
        if not array.flags.c_contiguous or array.nbytes > room:
            raise ValueError(f"expected a C-contiguous array of at most {room} bytes, got {array.nbytes} bytes")
        return array.ctypes.data, offset, array.nbytes

    def run(self, count: int, path: str = "c") -> list[int]:
        """Make `count` calls one after another and return each one's nanoseconds; blocks without the GIL.

        ``c`` copies the user's inputs into pinned memory and the outputs from there. ``c-pinned`` leaves the data in
        pinned memory. ``malloc-per-call`` allocates and frees memory for every tensor and copies synchronously from
        and to pageable memory.
        """
        elapsed = (ctypes.c_int64 * count)()
        code = self._run(ctypes.byref(self._call), PATHS.index(path), count, elapsed)
        if code != 0:
            raise RuntimeError(f"the path {path} failed with AscendCL code {code}")
        return list(elapsed)

    def once(self, path: str = "c") -> Callable[[], int]:
        """Return a function that makes one call and returns its nanoseconds, taken in C."""
        elapsed = (ctypes.c_int64 * 1)()
        call_pointer, number = ctypes.byref(self._call), PATHS.index(path)

        def call() -> int:
            code = self._run(call_pointer, number, 1, elapsed)  # self keeps the user's arrays
            if code != 0:
                raise RuntimeError(f"the path {path} failed with AscendCL code {code}")
            return elapsed[0]

        return call
