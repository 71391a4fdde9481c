# SPDX-License-Identifier: Apache-2.0
"""ge-core install-backend: the backend `ge` in a tritonserver's backends folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from ge_core.cli._app import app


@app.command("install-backend")
def install_backend(
    directory: Annotated[Path, typer.Argument(help="Backends folder, such as /opt/tritonserver/backends.")],
) -> None:
    """Copy the backend `ge` into DIRECTORY/ge, and Triton's Python backend into DIRECTORY/python where there is none.

    An existing defaults.json is kept.
    """
    import ge_core
    from ge_core.server import tritonserver

    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is no folder; expected the one that holds a tritonserver's backends")
    package = Path(ge_core.__file__).parent / tritonserver.BACKEND
    python, ge = directory / "python", directory / "ge"
    if python.is_dir():
        tritonserver.check_stub(python / tritonserver.STUB)
        print(f"{python}: kept, its worker runs Python {tritonserver.PYTHON}")
    else:
        installation = tritonserver.find()
        python.mkdir(parents=True)
        installation.put_python_backend(python)
        print(f"{python}: Triton's Python backend for Python {tritonserver.PYTHON}")
    ge.mkdir(exist_ok=True)
    shutil.copyfile(package / "model.py", ge / "model.py")
    kept = " (defaults.json kept)" if (ge / "defaults.json").is_file() else ""
    print(f"{ge}: model.py{kept}; start tritonserver with --backend-directory={directory.resolve()}")
