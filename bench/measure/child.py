# SPDX-License-Identifier: Apache-2.0
"""Measurements in a child process, with a heap and settings of the CPU implementation of their own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from ge_core_pyx.errors import GeCoreError

ROOT = Path(__file__).resolve().parents[2]
CPU_CONFIG = "GE_CORE_CPU_CONFIG"


class ChildError(GeCoreError):
    """A measurement in a child process failed; the text is that of its error, `details` has the traceback."""

    def __init__(self, text: str, details: str = ""):
        super().__init__(text)
        self.details = details


def measure(function: str, arguments: Mapping, settings: Mapping | None = None):
    """Call ``module.name`` of `bench.benches` in a new process and return its result.

    Parameters
    ----------
    function : str
        Such as ``overhead.calls``.
    arguments : mapping
        Keyword arguments; they and the result travel as JSON.
    settings : mapping, optional
        GE_CORE_CPU_CONFIG of the child; empty: the defaults. None: this process's.
    """
    environ = dict(os.environ)
    if settings is not None:
        environ[CPU_CONFIG] = json.dumps(settings)
    done = subprocess.run(
        [sys.executable, "-m", "bench.measure.child", function, json.dumps(arguments)],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = next(reversed(done.stderr.splitlines()), "nothing on stderr")
        raise ChildError(f"{function} ended with exit code {done.returncode}: {last}", done.stderr)
    reply = json.loads(done.stdout.splitlines()[-1])
    if "error" in reply:
        raise ChildError(reply["error"], reply["details"])
    return reply["result"]


def main(function: str, arguments: str) -> None:
    module, name = function.split(".")
    try:
        result = getattr(importlib.import_module(f"bench.benches.{module}"), name)(**json.loads(arguments))
        reply = json.dumps({"result": result})
    except Exception as error:
        reply = json.dumps({"error": str(error) or type(error).__name__, "details": traceback.format_exc()})
    print(reply)


if __name__ == "__main__":
    main(*sys.argv[1:])
