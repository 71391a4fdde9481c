# SPDX-License-Identifier: Apache-2.0
"""ge-core config: the config.pbtxt that an om asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ge_core.cli._app import app


@app.command()
def config(
    model: Annotated[Path, typer.Argument(help="An om file.")],
    name: Annotated[str | None, typer.Option(help="The model's name; Triton takes the folder's without one.")] = None,
    om_model_path: Annotated[str | None, typer.Option(help="Where the server finds the om, if not in 1/.")] = None,
    backend: Annotated[str, typer.Option(help="ge (Python-based backend) or python (triton_model/).")] = "ge",
) -> None:
    """Print a config.pbtxt for an om: names, types, dims and the largest batch."""
    import ge_core
    from ge_core.serving.model_config import config_pbtxt
    from ge_core_pyx import om

    if backend not in ("ge", "python"):
        raise ValueError(f"--backend: expected ge or python, got {backend!r}")
    runtime = "cpu" if om.is_cpu(model) else "npu"
    description = ge_core.describe_model(model, runtime=runtime)
    text = config_pbtxt(description, name, om_model_path, backend)
    if runtime == "cpu":
        text += "# This om runs on the CPU implementation of AscendCL: start the server with GE_CORE_RUNTIME=cpu.\n"
    print(text, end="")
