# SPDX-License-Identifier: Apache-2.0
"""ge-core cpu-runtime: a folder for LD_LIBRARY_PATH."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from ge_core.cli._app import app

_NOTE = "openvino.path"


@app.command("cpu-runtime")
def cpu_runtime(
    api: Annotated[str, typer.Option(help="The CANN release to imitate: 8.1 (one library) or 9 (split).")] = "9",
) -> None:
    """Print the folder of the CPU implementation of AscendCL, for LD_LIBRARY_PATH of any AscendCL program."""
    from ge_core_pyx import locate

    folder = locate.cpu_folder(api)
    if not any(folder.glob("lib*.so")):
        raise FileNotFoundError(f"{folder}: expected the CPU implementation's libraries, found none; reinstall ge_core")
    openvino = os.environ.get("GE_CORE_OPENVINO") or locate.openvino_folder()
    if openvino is None:
        print("note: OpenVINO is not installed, so only synthetic models run; install ge_core[cpu]", file=sys.stderr)
    elif not _note(folder, str(openvino)):
        folder = _copy(folder, api)
        _note(folder, str(openvino))
    print(folder)


def _note(folder: Path, openvino: str) -> bool:
    """Records where OpenVINO is, so that programs without Python find it; False if the folder cannot be written."""
    note = folder / _NOTE
    try:
        if not note.is_file() or note.read_text() != openvino + "\n":
            partial = folder / f".{_NOTE}.{os.getpid()}"
            partial.write_text(openvino + "\n")
            partial.replace(note)
    except OSError:
        return False
    return True


def _copy(folder: Path, api: str) -> Path:
    """The libraries in the user's cache: copies, because a library looks for its note beside its real file."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ge_core" / "cpu-runtime" / api
    cache.mkdir(parents=True, exist_ok=True)
    for library in folder.glob("lib*.so"):
        target = cache / library.name
        same = target.exists() and target.stat().st_mtime_ns == library.stat().st_mtime_ns
        if not same:
            partial = cache / f".{library.name}.{os.getpid()}"
            shutil.copy2(library, partial)
            partial.replace(target)
    return cache
