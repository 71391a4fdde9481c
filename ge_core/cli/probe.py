# SPDX-License-Identifier: Apache-2.0
"""ge-core probe: does a model of a running server really answer?"""

from __future__ import annotations

from typing import Annotated

import typer

from ge_core.cli._app import app


@app.command()
def probe(
    model: Annotated[str, typer.Argument(help="The model's name.")],
    address: Annotated[str, typer.Option(help="host:port of the server's HTTP service.")] = "127.0.0.1:8000",
    time_limit: Annotated[float, typer.Option(help="Seconds for each answer.")] = 10.0,
) -> None:
    """Ask one model of a tritonserver with one request of zeros; exit code 0 if its worker answers, else 1.

    For liveness checks where Triton itself calls a model ready whose worker is dead (up to release 25.12).
    """
    from ge_core.server.probe import probe as ask

    outcome = ask(address, model, time_limit)
    print(f"{model}: {outcome.text}")
    raise typer.Exit(0 if outcome.ready else 1)
