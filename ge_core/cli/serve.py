"""ge-core serve: a tritonserver for one model repository, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from ge_core.cli._app import app


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve(
    context: typer.Context,
    repository: Annotated[Path, typer.Argument(help="Folder of model folders.")],
    port: Annotated[int, typer.Option(help="HTTP port; 0: a free one.")] = 8000,
    grpc_port: Annotated[int, typer.Option(help="gRPC port; 0: a free one.")] = 8001,
    metrics_port: Annotated[int, typer.Option(help="Metrics port; 0: a free one.")] = 8002,
    runtime: Annotated[str | None, typer.Option(help="npu or cpu; default: GE_CORE_RUNTIME, else npu.")] = None,
) -> None:
    """Serve a model repository with Triton on 127.0.0.1, in this Python. Further arguments go to tritonserver."""
    from ge_core.triton_server import ServerError, TritonServer
    from ge_core_pyx import locate

    server = TritonServer(
        repository,
        runtime=locate.runtime_name(runtime),
        arguments=context.args,
        http_port=port or None,
        grpc_port=grpc_port or None,
        metrics_port=metrics_port or None,
        sink=lambda line: print(line, file=sys.stderr, flush=True),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        server.launch()
        server.wait_ready()
        print(
            f"Serving {repository}: HTTP {server.http}, gRPC {server.grpc}, metrics http://{server.metrics}/metrics. "
            "Ctrl-C stops it.",
            flush=True,
        )
        raise ServerError(f"tritonserver ended with code {server.wait()}")
    except KeyboardInterrupt:
        print(f"Stopping; open HTTP connections are waited for, {server.exit_timeout_s} s at most.", flush=True)
    except ServerError as error:
        raise ServerError(str(error).partition("\n")[0]) from None  # the log is on the screen already
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        server.stop()
