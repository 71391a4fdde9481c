# SPDX-License-Identifier: Apache-2.0
"""ge-core run: an om on arrays, without a server."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ge_core.cli._app import app, print_json, print_table, shape_text


@app.command()
def run(
    model: Annotated[Path, typer.Argument(help="An om file.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="NAME=file.npy, or file.npz with one array per input. Repeatable."),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of random data; default 1, or the om's batch.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Timed runs, after one that is not timed.")] = 10,
    output: Annotated[Path | None, typer.Option(help="Write the outputs to this .npz.")] = None,
    runtime: Annotated[str | None, typer.Option(help="npu or cpu; default GE_CORE_RUNTIME, else npu.")] = None,
    device: Annotated[int, typer.Option(min=0, help="Logical device id.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the random data.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Run an om on files or on random data; print the outputs and the latency."""
    import ge_core

    if output is not None and not output.resolve().parent.is_dir():
        raise ValueError(f"--output={output}: the folder {output.resolve().parent} does not exist; create it first")
    if output is not None and output.is_dir():
        raise ValueError(f"--output={output}: expected the path of a file, got a folder")
    with ge_core.InferenceSession(model, runtime=runtime, device_id=device) as session:
        feeds = _load(inputs or [], session.get_inputs())
        made = [spec.name for spec in session.get_inputs() if spec.name not in feeds]
        feeds |= _random(session.description, made, rows or _rows_of(session, feeds), np.random.default_rng(seed))
        results = session.run(None, feeds)
        times = []
        for _ in range(repeat):
            begin = time.perf_counter_ns()
            results = session.run(None, feeds)
            times.append((time.perf_counter_ns() - begin) / 1000)
        names = _unique(session.get_outputs())
        label = ge_core.runtime_info(session.description.runtime).label
        held = session.stats()
        memory = {"device_bytes": held["device_bytes"], "pinned_bytes": held["pinned_bytes"]}
        budget = (
            session.budget or f"{held['device_bytes']:,} bytes of device memory, {held['pinned_bytes']:,} bytes pinned"
        )
    if output is not None:
        _save(output, dict(zip(names, results, strict=True)))
    found = [
        {"name": name, "dtype": spec.dtype, "shape": list(array.shape), **_statistics(array, spec.dtype)}
        for name, spec, array in zip(names, session.get_outputs(), results, strict=True)
    ]
    latency = {
        "n": repeat,
        "p50_us": round(float(np.percentile(times, 50)), 1),
        "min_us": round(min(times), 1),
        "max_us": round(max(times), 1),
    }
    if as_json:
        shapes = {name: list(array.shape) for name, array in feeds.items()}
        print_json(
            {
                "device": label,
                "inputs": shapes,
                "random": made,
                "outputs": found,
                "latency": latency,
                "memory": memory,
            }
        )
        return
    print_table(
        "inputs",
        ["name", "dtype", "shape", "data"],
        [[n, a.dtype, shape_text(a.shape), "random" if n in made else "given"] for n, a in feeds.items()],
    )
    print_table(
        "outputs",
        ["name", "dtype", "shape", "min", "mean", "max"],
        [
            [
                row["name"],
                row["dtype"],
                shape_text(row["shape"]),
                *(_number(row[key]) for key in ("min", "mean", "max")),
            ]
            for row in found
        ],
    )
    print(f"memory: {budget}")
    print(
        f"latency on {label}: p50 {latency['p50_us']} us "
        f"({latency['min_us']} to {latency['max_us']} us in {repeat} runs)"
    )


def _load(arguments: list[str], specs: list) -> dict[str, np.ndarray]:
    known = {alias: spec.name for spec in specs for alias in (spec.name, spec.full_name)}
    feeds: dict[str, np.ndarray] = {}
    for argument in arguments:
        name, equals, file = argument.rpartition("=")
        content = _read(argument, file)
        if isinstance(content, np.ndarray):
            if not equals and len(specs) > 1:
                raise ValueError(
                    f"--input {argument}: expected NAME={file}; the inputs are {', '.join(s.name for s in specs)}"
                )
            arrays = {name if equals else specs[0].name: content}
        elif equals and len(content) != 1:
            raise ValueError(f"--input {argument}: {file} has {len(content)} arrays; give the file without NAME=")
        else:
            arrays = {name: next(iter(content.values()))} if equals else content
        for key, array in arrays.items():
            if key not in known:
                raise ValueError(
                    f"--input {argument}: the om has no input {key!r}, only {', '.join(s.name for s in specs)}"
                )
            if known[key] in feeds:
                raise ValueError(f"--input {argument}: input {key!r} is given twice")
            feeds[known[key]] = array
    return feeds


def _read(argument: str, file: str) -> np.ndarray | dict[str, np.ndarray]:
    if not file:
        raise ValueError(f"--input {argument}: expected NAME=file.npy, or file.npz")
    try:
        with open(file, "rb") as stream:
            content = np.load(stream, allow_pickle=False)
            return content if isinstance(content, np.ndarray) else dict(content)
    except FileNotFoundError:
        raise ValueError(f"--input {argument}: {file} does not exist") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"--input {argument}: expected a .npy or .npz file: {error}") from None


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """A .npz with any names; np.savez takes some of them for its own arguments."""
    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, _bits(array), allow_pickle=False)
    except OSError as error:
        raise ValueError(f"--output={path}: cannot write the file: {error.strerror}") from None


def _rows_of(session, feeds: dict[str, np.ndarray]) -> int | None:
    if not session.description.max_rows:
        return None
    return next((array.shape[0] for array in feeds.values() if array.ndim), None)


def _random(description, names: list[str], rows: int | None, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Floats in [0, 1), small whole numbers, the smallest gear for dims that are not the batch."""
    gears = description.gears if description.gear_kind in ("image_size", "dims") else []
    numbers = list(gears[0]) if gears else []
    feeds = {}
    for spec in description.inputs:
        shape = []
        pending = list(numbers) if description.gear_kind == "image_size" else numbers
        for axis, dim in enumerate(spec.shape):
            if dim is None and pending:
                dim = pending.pop(0)
            elif dim is None and axis == 0:
                dim = rows or 1
            elif dim is None and spec.name in names:
                raise ValueError(
                    f"input {spec.name!r} has an open shape {shape_text(spec.shape)}; give --input {spec.name}=…"
                )
            elif axis == 0 and rows is not None and description.max_rows:
                dim = rows
            shape.append(dim or 0)
        if spec.name in names:
            try:
                feeds[spec.name] = _random_array(random, shape, spec.dtype)
            except (MemoryError, ValueError):
                raise ValueError(f"input {spec.name!r}: no memory for random data {shape_text(shape)}") from None
    return feeds


def _random_array(random: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return (random.random(shape, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if dtype.startswith("float"):
        return random.random(shape, np.float32).astype(dtype)
    return random.integers(0, 2 if dtype == "bool" else 10, shape).astype(dtype)


def _bits(array: np.ndarray) -> np.ndarray:
    """Files hold bfloat16 as its bits, uint16."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _unique(specs: list) -> list[str]:
    names = [spec.name for spec in specs]
    return [spec.name if names.count(spec.name) == 1 else spec.full_name for spec in specs]


def _statistics(array: np.ndarray, dtype: str) -> dict[str, float | None]:
    if array.size == 0:
        return dict.fromkeys(("min", "mean", "max"))
    if dtype == "bfloat16":
        array = (array.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    values = array.astype(np.float64)
    return {"min": float(values.min()), "mean": float(values.mean()), "max": float(values.max())}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
