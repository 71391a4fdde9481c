# SPDX-License-Identifier: Apache-2.0
"""ge-core info: which runtime answers, and what it offers."""

from __future__ import annotations

import ctypes
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ge_core.cli._app import app, print_json, print_table


@app.command()
def info(
    runtime: Annotated[str | None, typer.Option(help="npu or cpu; default GE_CORE_RUNTIME, else npu.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the runtime, its library, CANN version, SoC, devices and their memory."""
    import ge_core

    found = ge_core.runtime_info(runtime)
    devices = _devices(found.kind, found.device_count)
    counters = _counters(found.libraries) if found.kind == "cpu" else None
    if as_json:
        print_json(asdict(found) | {"label": found.label, "devices": devices, "counters": counters})
        return
    rows: list[list[Any]] = [
        ["runtime", found.kind],
        ["device", found.label],
        *(["library", path] for path in found.libraries),
    ]
    rows += [["CANN version", found.cann_version or "unknown"], ["devices", found.device_count]]
    for device in devices:
        free, total = (device[key] / 2**20 for key in ("free_bytes", "total_bytes"))
        rows.append([f"memory of device {device['id']}", f"{free:,.0f} MiB free of {total:,.0f} MiB"])
    print_table(f"ge_core {ge_core.__version__}", ["", ""], rows)


def _devices(kind: str, count: int) -> list[dict]:
    from ge_core_pyx import device

    opened = device.open_runtime(kind)
    found = []
    for number in range(count):
        context = device.Context(opened, number)
        try:
            free, total = context.memory_info()
        finally:
            context.close()
        found.append({"id": number, "free_bytes": free, "total_bytes": total})
    return found


def _counters(libraries: tuple[str, ...]) -> dict:
    for path in libraries:
        hook = getattr(ctypes.CDLL(path), "acl_cpu_counters_json", None)
        if hook is not None:
            hook.restype = ctypes.c_char_p
            return json.loads(hook())
    return {}
