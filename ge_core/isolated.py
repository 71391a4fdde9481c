"""Describing an om in a child process, so that a device library which hangs or crashes cannot take the caller along."""

import json
import os
import subprocess
import sys
from pathlib import Path

from ge_core.session import ModelDescription, describe_model
from ge_core_pyx.errors import ModelFileError

TIME_LIMIT_S = 20


def describe(path: str | os.PathLike, runtime: str, time_limit_s: float = TIME_LIMIT_S) -> ModelDescription:
    """What `ge_core.describe_model` says about an om, asked in a child process. Blocks for at most `time_limit_s`.

    Raises
    ------
    ModelFileError
        With the child's own error, or that it died or took too long.
    """
    packages = str(Path(__file__).parent.parent)
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-m", "ge_core.isolated", os.fspath(path), runtime]
    try:
        child = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=time_limit_s
        )
    except subprocess.TimeoutExpired:
        raise ModelFileError(f"{path}: the {runtime} runtime did not describe it within {time_limit_s} s") from None
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or [f"the child process ended with {child.returncode}"]
        raise ModelFileError(last[0])
    return ModelDescription.from_dict(json.loads(child.stdout.splitlines()[-1]))


def _main(path: str, runtime: str) -> int:
    try:
        print(json.dumps(describe_model(path, runtime=runtime).to_dict()))
    except Exception as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
