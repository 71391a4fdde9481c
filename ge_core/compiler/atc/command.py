# SPDX-License-Identifier: Apache-2.0
"""The atc command of CANN: where its output goes, and running it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ge_core.compiler.atc.options import require_model_and_output
from ge_core.compiler.errors import AtcError, CompileError
from ge_core_pyx.errors import UnsupportedError


def output_path(text: str) -> Path:
    """The path of the om that --output asks for; ``.om`` is added unless it is there.

    Raises
    ------
    CompileError
        It is a folder, in a folder that does not exist, or cannot be a path.
    """
    path = Path(text)
    try:
        if text.endswith("/") or path.is_dir():
            raise CompileError(
                f"--output={text}: expected the path of a file, got a folder; add a name: {path / 'model'}"
            )
        if not path.parent.is_dir():
            raise CompileError(f"--output={text}: the folder {path.parent} does not exist; create it first")
    except OSError as error:
        raise CompileError(f"--output={text}: cannot be a path: {error.strerror}") from None
    return path if path.suffix == ".om" else path.with_name(path.name + ".om")


def run_atc(options: Mapping[str, str]) -> Path:
    """Run CANN's atc with these options and wait for it; it writes to our standard output and error.

    Returns
    -------
    Path
        The om.

    Raises
    ------
    CompileError
        --model or --output is missing, or no file can be written there.
    UnsupportedError
        There is no atc on PATH.
    AtcError
        It ended with another exit code than 0.
    """
    require_model_and_output(options)
    atc = shutil.which("atc")
    if atc is None:
        raise UnsupportedError(
            "runtime npu: expected ATC on PATH, found none; source CANN's set_env.sh, or compile for the CPU "
            "implementation of AscendCL with --runtime=cpu or GE_CORE_RUNTIME=cpu"
        )
    path = output_path(options["output"])
    arguments = {"framework": "5", **options, "output": str(path.with_suffix(""))}
    code = subprocess.run([atc, *(f"--{name}={value}" for name, value in arguments.items())], check=False).returncode
    if code != 0:
        raise AtcError(code)
    return path
