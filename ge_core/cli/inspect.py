# SPDX-License-Identifier: Apache-2.0
"""ge-core inspect: what an om file is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ge_core.cli._app import app, print_json, print_table, shape_text
from ge_core.gears import gears_text


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="An om file, of either runtime.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show header, partitions, inputs, outputs and gears of an om. An NPU's om needs an NPU for the tensors."""
    from ge_core_pyx import om

    header = om.read_header(model)
    partitions = om.read_partitions(model)
    manifest = om.read_manifest(model) if header.is_cpu else None
    description, note = _describe(model, "cpu" if header.is_cpu else "npu")
    if as_json:
        print_json(
            {
                "header": asdict(header) | {"is_cpu": header.is_cpu},
                "partitions": [asdict(part) | {"name": part.name} for part in partitions],
                "manifest": manifest,
                "model": description.to_dict() if description else None,
                "note": note,
            }
        )
        return
    kind = (
        "CPU implementation of AscendCL" if header.is_cpu else f"NPU (platform {header.platform_version or 'unnamed'})"
    )
    rows: list[list[Any]] = [["compiled for", kind], ["name", header.name], ["bytes", f"{header.file_nbytes:,}"]]
    rows += [["model kind", header.model_kind], ["version", f"{header.version:#x}, {header.table_bits}-bit table"]]
    rows += [["models", header.model_num]] if header.model_num > 1 else []
    rows += [["encrypted", "yes"]] if header.encrypted else []
    if manifest:
        rows += [["soc", manifest["soc"]], ["kind", manifest["kind"]], ["made by", manifest["generator"]]]
        rows += [["declared time, us", manifest["exec_us"]]] if manifest["exec_us"] is not None else []
    if description:
        rows += [["shapes", gears_text(description)]]
        rows += [["largest batch", description.max_rows or f"none: {description.not_rows}"]]
    elif header.is_unknow_model:
        rows.append(["shapes", "ranges, known at run time"])
    print_table(str(model), ["", ""], rows)
    if description:
        tensors = [["input", *_row(spec)] for spec in description.inputs]
        tensors += [["output", *_row(spec)] for spec in description.outputs]
        print_table("tensors", ["", "name", "dtype", "shape", "most bytes", "full name"], tensors)
    print_table("partitions", ["", "bytes", "offset"], [[p.name, f"{p.nbytes:,}", p.offset] for p in partitions])
    if note:
        print(f"note: {note}")


def _describe(model: Path, runtime: str):
    import ge_core

    try:
        return ge_core.describe_model(model, runtime=runtime), None
    except (ge_core.AclLoadError, ge_core.AclError, ge_core.UnsupportedError) as error:
        return None, f"inputs and outputs are not shown: {error}"


def _row(spec) -> list[str]:
    return [spec.name, spec.dtype, shape_text(spec.shape), f"{spec.nbytes:,}" if spec.nbytes else "?", spec.full_name]
