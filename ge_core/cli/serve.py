# SPDX-License-Identifier: Apache-2.0
"""ge-core serve: a tritonserver for one model repository, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ge_core.cli._app import app

_LONGEST_PAUSE_S = 60


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve(
    context: typer.Context,
    repository: Annotated[Path, typer.Argument(help="Folder of model folders.")],
    port: Annotated[int, typer.Option(help="HTTP port; 0: a free one.")] = 8000,
    grpc_port: Annotated[int, typer.Option(help="gRPC port; 0: a free one.")] = 8001,
    metrics_port: Annotated[int, typer.Option(help="Metrics port; 0: a free one.")] = 8002,
    runtime: Annotated[str | None, typer.Option(help="npu or cpu; default: GE_CORE_RUNTIME, else npu.")] = None,
    supervise: Annotated[
        bool, typer.Option(help="Load models with a dead worker again, and restart a server that crashed.")
    ] = True,
) -> None:
    """Serve a model repository with Triton on 127.0.0.1, in this Python. Further arguments go to tritonserver.

    Models are loaded and unloaded on demand (--model-control-mode=explicit, all at the start) unless you say otherwise.
    """
    from ge_core.server.supervisor import RestartNeeded, Supervisor
    from ge_core.server.tritonserver import ServerError, TritonServer
    from ge_core_pyx import locate

    arguments = list(context.args)
    if supervise and not any(argument.startswith("--model-control-mode") for argument in arguments):
        arguments += ["--model-control-mode=explicit", "--load-model=*"]
    server = TritonServer(
        repository,
        runtime=locate.runtime_name(runtime),
        arguments=arguments,
        http_port=port or None,
        grpc_port=grpc_port or None,
        metrics_port=metrics_port or None,
        sink=lambda line: print(line, file=sys.stderr, flush=True),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    pause_s = 1
    try:
        while True:
            server.launch()
            server.wait_ready()
            print(
                f"Serving {repository}: HTTP {server.http}, gRPC {server.grpc}, metrics http://{server.metrics}"
                "/metrics. Ctrl-C stops it.",
                flush=True,
            )
            try:
                code = Supervisor(server, _say).watch() if supervise else server.wait()
                reason = f"tritonserver ended with code {code}"
            except RestartNeeded as needed:
                code, reason = None, str(needed)
            if not supervise or (code is not None and code >= 0):  # it ended by itself, it did not crash
                raise ServerError(reason)
            _say(f"{reason}; starting the server again in {pause_s} s")
            server.stop()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    except KeyboardInterrupt:
        print(f"Stopping; open HTTP connections are waited for, {server.exit_timeout_s} s at most.", flush=True)
    except ServerError as error:
        raise ServerError(str(error).partition("\n")[0]) from None  # the log is on the screen already
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        server.stop()


def _say(text: str) -> None:
    print(f"ge-core serve: {text}", file=sys.stderr, flush=True)
