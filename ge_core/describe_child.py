# SPDX-License-Identifier: Apache-2.0
"""Describing an om in a child process, so that a device library which hangs or crashes cannot take the caller along.

What a child said is kept in the user's cache folder under a hash of the file's content, its path and the settings.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from ge_core._version import __version__
from ge_core.description import ModelDescription, describe_model
from ge_core_pyx.errors import ModelFileError

TIME_LIMIT_S = 20
MOST_KEPT = 256
SETTINGS = (
    "GE_CORE_ACL_LIBRARY",
    "GE_CORE_CPU_CONFIG",
    "GE_CORE_MODEL_ROOTS",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_HOME_PATH",
)


def describe(path: str | os.PathLike, runtime: str, time_limit_s: float = TIME_LIMIT_S) -> ModelDescription:
    """What `ge_core.describe_model` says about an om, asked in a child process unless it was asked before.

    Blocks while the file is read, and for at most `time_limit_s`.

    Raises
    ------
    ModelFileError
        With the child's own error, or that it died or took too long.
    """
    kept = None
    with suppress(OSError, RuntimeError):  # a file that cannot be read is the child's to tell of; or no home folder
        kept = _cache() / f"{_key(path, runtime)}.json"
        with suppress(ValueError, KeyError, TypeError):
            return ModelDescription.from_dict(json.loads(kept.read_text()))
    description = _ask(path, runtime, time_limit_s)
    if kept is not None:
        with suppress(OSError):
            _keep(kept, description)
    return description


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ge_core", "descriptions")


def _key(path: str | os.PathLike, runtime: str) -> str:
    """Whatever a description, or a refusal in its place, may depend on."""
    settings = [os.environ.get(name, "") for name in SETTINGS]
    own = [os.path.abspath(os.fspath(path)), runtime, __version__, platform.node(), *settings]
    digest = hashlib.sha256(json.dumps(own).encode())
    for name in (*filter(os.path.isfile, settings), path):
        with open(name, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


def _keep(kept: Path, description: ModelDescription) -> None:
    """Written beside and renamed, so that nobody reads half of it; the oldest ones go."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False) as file:
        json.dump(description.to_dict(), file)
    os.replace(file.name, kept)
    known = sorted(kept.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
    for old in known[:-MOST_KEPT]:
        old.unlink(missing_ok=True)


def _ask(path: str | os.PathLike, runtime: str, time_limit_s: float) -> ModelDescription:
    packages = str(Path(__file__).parent.parent)
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH"))))}
    command = [sys.executable, "-m", "ge_core.describe_child", os.fspath(path), runtime]
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
