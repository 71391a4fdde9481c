# SPDX-License-Identifier: Apache-2.0
"""The compiler: from ONNX, or the description of a synthetic model, to an om. ATC does it for an NPU.

Options carry ATC's names and follow ATC's rules, so that a command line works unchanged for both runtimes. For the CPU
runtime each option is honoured, accepted with a note that it has no effect, or refused with the reason; none is dropped
in silence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ge_core.compiler import atc
from ge_core.compiler.errors import CompileError
from ge_core.compiler.graph_manifest import compile_graph
from ge_core.compiler.manifest import gears_of
from ge_core.compiler.synthetic_manifest import compile_description
from ge_core_pyx import locate, om
from ge_core_pyx.errors import ModelFileError

Report = Callable[[str], None]


@dataclass(frozen=True)
class Compiled:
    """What :func:`compile_model` made.

    Attributes
    ----------
    path : Path
        The om file.
    nbytes : int
        Its size.
    manifest : dict or None
        What the om says of itself (see :func:`ge_core_pyx.om.read_manifest`); None when ATC made it.
    notes : list of str
        Options without effect, and what else the caller should know.
    """

    path: Path
    nbytes: int
    manifest: dict[str, Any] | None
    notes: list[str] = field(default_factory=list)


def compile_model(
    model: str | os.PathLike,
    output: str | os.PathLike,
    *,
    runtime: str | None = None,
    report: Report = lambda line: None,
    **options: Any,
) -> Compiled:
    """Compile a model to an om file.

    Parameters
    ----------
    model : path
        An ONNX file (external data is embedded; 2 GiB in all at most), or, for the CPU runtime, a JSON file that
        describes a synthetic model::

            {"inputs":  [{"name": "input_ids", "dtype": "int64", "shape": [-1, 16]}],
             "outputs": [{"name": "logits", "dtype": "float32", "shape": [-1, 16, 32000]}],
             "dynamic_batch_size": [1, 4, 8],
             "exec_us": [78000, 145000, 220000],
             "weight_bytes": 0, "work_bytes": 0, "soc": "Ascend910B3", "name": "llama7b"}

        Only `inputs` and `outputs` are required. Gears: at most one of `dynamic_batch_size` (a list of numbers, -1 in
        dim 0), `dynamic_image_size` (a list of [height, width], -1 in dims 2 and 3) and `dynamic_dims` (a list of lists
        with one number for each -1, in order over all inputs). Each -1 of an output takes the gear's numbers in order;
        where that does not fit, the output lists its shapes: ``"gear_shapes": [[1, 7], [4, 9]]``. `exec_us` is the
        execution time in microseconds, one number or one for each gear. Each output row is a function of the bytes of
        the same input row, see :mod:`ge_core.compiler.synthetic`.
    output : path
        Where to write; ``.om`` is added unless it is there.
    runtime : {"npu", "cpu"}, optional
        Default: the environment's ``GE_CORE_RUNTIME``, else "npu".
    report : callable
        Receives notes and the summary, line by line.
    **options
        ATC's options by their names, e.g. ``input_shape="x:-1,3,224,224", dynamic_batch_size="1,2,4,8"``.

    Returns
    -------
    Compiled

    Raises
    ------
    CompileError
        An unknown or refused option, options that exclude each other, a model they do not fit.
    ModelFileError
        The model file is missing or not what it should be.
    UnsupportedError
        No atc for runtime "npu"; a missing package (onnx, openvino) for runtime "cpu".
    AtcError
        ATC failed.
    """
    given = {name: str(value) for name, value in options.items() if value is not None}
    given |= {"model": os.fspath(model), "output": os.fspath(output)}
    runtime = locate.runtime_name(runtime)
    if runtime == "npu":
        path = atc.run_atc(given)
        return Compiled(path, path.stat().st_size if path.exists() else 0, None)
    return _compile_for_cpu(given, report)


def _compile_for_cpu(options: dict[str, str], report: Report) -> Compiled:
    notes = atc.check_options(options)
    path = atc.output_path(options["output"])
    source = Path(options["model"])
    soc = options.get("soc_version", atc.DEFAULT_SOC)
    if not re.fullmatch(r"Ascend\w+", soc):
        raise CompileError(
            f"--soc_version: expected a name like {atc.DEFAULT_SOC} (`npu-smi info` shows it), got {soc!r}"
        )
    manifest: dict[str, Any]
    onnx: bytes | Path | None
    if _first_bytes(source).lstrip()[:1] == b"{":
        manifest, onnx = compile_description(source, options), None
    else:
        manifest, onnx = compile_graph(source, options, soc, notes)
    manifest["name"] = manifest["name"] or path.stem.encode("utf-8", "replace").decode()
    try:
        nbytes = om.write(path, manifest, onnx)
    except ValueError as error:
        raise CompileError(f"--model={source}: {error}") from None
    except OSError as error:
        raise CompileError(f"--output={path}: cannot write the file: {error.strerror or error}") from None
    manifest = om.read_manifest(path)
    for line in _summary(path, nbytes, manifest, [] if options.get("log") in ("error", "null") else notes):
        report(line)
    return Compiled(path, nbytes, manifest, notes)


def _first_bytes(source: Path) -> bytes:
    """The first bytes of the model; a file that is neither ONNX nor JSON is refused with what it seems to be."""
    try:
        # A device has no end, a pipe can be read only once.
        if source.exists() and not source.is_file() and not source.is_dir():
            raise ModelFileError(f"--model={source}: expected an ONNX file, got something that is not a regular file")
        with source.open("rb") as file:
            raw = file.read(256)
    except FileNotFoundError:
        raise ModelFileError(f"--model={source}: expected a file, found nothing there; check the path") from None
    except OSError as error:
        raise ModelFileError(f"--model={source}: expected a readable file: {error.strerror}") from None
    what = None
    if not raw:
        what = "an empty file"
    elif raw.startswith(om.MAGIC):
        what = "an om, which is compiled already"
    elif raw.startswith(b"version https://git-lfs"):
        what = "a git-lfs pointer; fetch the file itself with `git lfs pull`"
    elif raw.startswith(b"PK\x03\x04"):
        what = "a ZIP archive (a PyTorch checkpoint?); export the model with torch.onnx.export first"
    if what:
        raise ModelFileError(f"--model={source}: expected an ONNX file, got {what}")
    return raw


def _summary(path: Path, nbytes: int, manifest: dict[str, Any], notes: Sequence[str]) -> list[str]:
    """The notes and the interface of the om, as lines."""
    lines = [f"note: {note}" for note in notes]
    for title, tensors in (("inputs", manifest["inputs"]), ("outputs", manifest["outputs"])):
        for tensor in tensors:
            lines.append(f"{title:8}{tensor['name']}  {tensor['dtype']}  [{atc.shape_text(tensor['shape'])}]")
            title = ""
    if gears := manifest["gears"]:
        separator = "," if gears["kind"] == "batch" else ";"
        lines.append(f"{'gears':8}{gears['kind']}  {separator.join(map(atc.gear_text, gears_of(manifest)))}")
    for name, bounds in (manifest["ranges"] or {}).items():
        lines.append(f"{'ranges':8}{name}  {','.join(f'{a}~{b}' if a != b else str(a) for a, b in bounds)}")
    lines.append(f"{'om':8}{path}  {nbytes:,} bytes  {manifest['soc']}, for the cpu runtime")
    lines.append("ATC run success (the CPU implementation's compiler; this om does not run on an NPU)")
    return lines
