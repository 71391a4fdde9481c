# SPDX-License-Identifier: Apache-2.0
"""The hooks that the CPU implementation exports for tests."""

import ctypes
import json
import os
from contextlib import contextmanager

import ge_core

# Processes with equal settings share the devices: an odd size keeps these to a run of the tests and its children.
HBM_BYTES = (32 << 30) + os.getpid() * 4096


class StandIn:
    def __init__(self):
        library = next(path for path in ge_core.runtime_info("cpu").libraries)
        self._library = ctypes.CDLL(library)
        self._library.acl_cpu_counter.restype = ctypes.c_int64
        self._library.acl_cpu_counter.argtypes = [ctypes.c_char_p]
        self._library.acl_cpu_counters_json.restype = ctypes.c_char_p
        self._library.acl_cpu_fail.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]

    def counter(self, name):
        value = self._library.acl_cpu_counter(name.encode())
        assert value >= 0, f"no counter {name}"
        return value

    def counters(self):
        return json.loads(self._library.acl_cpu_counters_json())

    def calls(self, *entries):
        return {entry: self.counter(f"calls.{entry}") for entry in entries}

    @contextmanager
    def injecting(self, entry, **fault):
        """A fault of the stand-in at `entry`: kth, effect (call, task, hang, delay, device_lost), code, delay_us."""
        assert self._library.acl_cpu_inject(json.dumps({"entry": entry} | fault).encode()) == 0
        try:
            yield
        finally:
            self._library.acl_cpu_fail(entry.encode(), 0, 0)

    @contextmanager
    def failing(self, entry, code, kth=1):
        """The k-th next call of `entry` returns `code`."""
        assert self._library.acl_cpu_fail(entry.encode(), kth, code) == 0
        try:
            yield
        finally:
            self._library.acl_cpu_fail(entry.encode(), 0, 0)
