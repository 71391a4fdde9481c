# SPDX-License-Identifier: Apache-2.0
"""The models the bench measures: presets, or any om with random inputs."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import ge_core
from ge_core.compiler import compile_model
from ge_core_pyx import model
from ge_core_pyx import om as om_file
from ge_core_pyx.errors import GeCoreError

ROWS = 16  # different input rows, so that a mixed-up batch shows
GEARS = (1, 4, 8)
LLAMA_EXEC_US = (78_000, 145_000, 220_000)
OCR_FILES = {"cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx", "rec": "ch_PP-OCRv4_rec_infer.onnx"}
OCR_WIDTHS = {"cls": 192, "rec": 320}
OCR_HEIGHT = 48
TEXTS = (
    "Ascend 910B", "batch of eight", "latency 78 ms", "36 requests/s", "pinned memory", "one host copy", "H2D and D2H",
    "no allocation", "gear 1, 4, 8", "shared memory", "grpc or http", "row by row", "static shapes", "Triton 2.51",
    "AscendCL", "text line 16",
)  # fmt: skip


class UnavailableError(GeCoreError):
    """A model cannot be measured here; the text says why and what to do."""


@dataclass(frozen=True)
class Case:
    """One model to measure.

    Attributes
    ----------
    name : str
        What tables and records call it; also its name in Triton.
    om : Path
    inputs : mapping of str to ndarray
        `ROWS` rows each along axis 0 if `splittable`, else the model's only shape.
    splittable : bool
        Whether rows can be taken one by one.
    timing : str
        What decides the execution time, as records say it.
    reference : callable or None
        Maps inputs to the expected outputs by an implementation of its own.
    """

    name: str
    om: Path
    inputs: Mapping[str, np.ndarray]
    splittable: bool
    timing: str
    reference: Callable[[dict[str, np.ndarray]], list[np.ndarray]] | None = field(default=None, compare=False)

    def rows(self, count: int, start: int = 0) -> dict[str, np.ndarray]:
        """Return `count` rows from row `start` on, C-contiguous; all of it for a model that cannot be split."""
        if not self.splittable:
            return dict(self.inputs)
        numbers = [(start + i) % ROWS for i in range(count)]
        return {name: np.ascontiguousarray(array[numbers]) for name, array in self.inputs.items()}


def llama_description() -> dict:
    """Describe the synthetic LLaMA-7B: per row 16 token ids in, logits of 16 × 32000 FP32 out."""
    return {
        "name": "llama7b",
        "inputs": [{"name": "input_ids", "dtype": "int64", "shape": [-1, 16]}],
        "outputs": [{"name": "logits", "dtype": "float32", "shape": [-1, 16, 32000]}],
        "dynamic_batch_size": list(GEARS),
        "exec_us": list(LLAMA_EXEC_US),
    }


def random_inputs(inputs: Sequence, shapes: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """Return random inputs of these shapes, one per tensor spec: floats in [0, 1), integers from 0 to 99, booleans."""
    random = np.random.default_rng(0)
    arrays = {}
    for spec, shape in zip(inputs, shapes, strict=True):
        if spec.dtype == "bfloat16":
            raise UnavailableError(
                f"input {spec.name!r} is bfloat16, which NumPy cannot send; the bench needs another om"
            )
        dtype = np.dtype(spec.dtype)
        if dtype.kind == "f":
            arrays[spec.name] = random.random(shape).astype(dtype)
        else:
            arrays[spec.name] = random.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    return arrays


def ocr_file(part: str) -> Path:
    """Find the ONNX file of `part` (``cls`` or ``rec``) in the installed rapidocr-onnxruntime, without importing it."""
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    if package is None or not package.submodule_search_locations:
        raise UnavailableError(
            "the preset ocr needs the models that the package rapidocr-onnxruntime carries; install it with "
            "pip install --no-deps rapidocr-onnxruntime"
        )
    path = Path(package.submodule_search_locations[0]) / "models" / OCR_FILES[part]
    if not path.is_file():
        raise UnavailableError(f"the installed rapidocr-onnxruntime has no {path.name}; version 1.4 carries it")
    return path


def _font() -> str:
    package = importlib.util.find_spec("matplotlib")
    if package is None or not package.submodule_search_locations:
        raise UnavailableError(
            "the preset ocr renders text with the font that matplotlib carries; pip install matplotlib"
        )
    return str(Path(package.submodule_search_locations[0]) / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf")


def text_lines(part: str) -> np.ndarray:
    """Render `ROWS` text lines as PP-OCR expects them: float32, shape (ROWS, 3, 48, width), (x/255 − 0.5)/0.5.

    A line is scaled to 48 pixels in height, keeps its proportions up to the width and is padded with zeros. For ``cls``
    every second line stands on its head.
    """
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(_font(), 36)
    width = OCR_WIDTHS[part]
    lines = np.zeros((ROWS, 3, OCR_HEIGHT, width), np.float32)
    for row, text in enumerate(TEXTS):
        left, top, right, bottom = font.getbbox(text)
        image = Image.new("L", (math.ceil(right - left) + 16, math.ceil(bottom - top) + 12), 255)
        ImageDraw.Draw(image).text((8 - left, 6 - top), text, fill=0, font=font)
        if part == "cls" and row % 2:
            image = image.rotate(180)
        scaled = min(width, math.ceil(image.width * OCR_HEIGHT / image.height))
        pixels = np.asarray(image.resize((scaled, OCR_HEIGHT), Image.Resampling.BILINEAR), np.float32)
        lines[row, :, :, :scaled] = (pixels / 255 - 0.5) / 0.5
    return lines


def om_case(name: str, om: Path, runtime: str) -> Case:
    """Describe any om, to be measured with random inputs: of `ROWS` rows, else of its largest gear or its only shapes.

    What a range leaves open becomes 1.
    """
    description = ge_core.describe_model(om, runtime)
    splittable = description.max_rows > 0
    shapes: Sequence[Sequence[int]]
    if splittable:
        shapes = [(ROWS, *(dim or 1 for dim in spec.shape[1:])) for spec in description.inputs]
    elif description.gears:
        shapes = model.input_shapes(description, description.gears[-1])
    else:
        shapes = [[1 if dim is None else dim for dim in spec.shape] for spec in description.inputs]
    return Case(name, om, random_inputs(description.inputs, shapes), splittable, timing_of(om, runtime))


def timing_of(om: Path, runtime: str) -> str:
    """Return what decides an om's execution time: the device, a declaration, or the CPU that computes it."""
    if runtime == "npu":
        return "device"
    manifest = om_file.read_manifest(om)
    declared = manifest["exec_us"] or 0
    times = declared if isinstance(declared, list) else [declared]
    text = "/".join(f"{us / 1e3:g}" for us in times)
    return f"declared {text} ms" if manifest["kind"] == "synthetic" else "computed"


def synthetic_case(name: str, folder: Path, description: Mapping) -> Case:
    """Compile a synthetic model of the cpu runtime into `folder`."""
    source = folder / f"{name}.json"
    source.write_text(json.dumps(description), encoding="utf-8")
    return om_case(name, compile_model(source, folder / name, runtime="cpu").path, "cpu")


def llama_case(runtime: str, folder: Path) -> Case:
    """Compile the synthetic LLaMA-7B."""
    if runtime == "npu":
        raise UnavailableError(
            "the preset llama7b is a synthetic model of the cpu runtime; on an NPU add --model LLAMA.om"
        )
    return synthetic_case("llama7b", folder, llama_description())


def ocr_case(part: str, runtime: str, soc: str, folder: Path) -> Case:
    """Compile one model of the preset ocr, with text lines as inputs and onnxruntime, if installed, as reference."""
    onnx = ocr_file(part)
    shape = f"x:-1,3,{OCR_HEIGHT},{OCR_WIDTHS[part]}"
    gears = ",".join(map(str, GEARS))
    compiled = compile_model(
        onnx,
        folder / f"ocr_{part}",
        runtime=runtime,
        framework=5,
        input_shape=shape,
        dynamic_batch_size=gears,
        soc_version=soc,
    )
    reference = None
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
        reference = lambda inputs: session.run(None, inputs)  # noqa: E731
    return Case(
        f"ocr_{part}", compiled.path, {"x": text_lines(part)}, True, timing_of(compiled.path, runtime), reference
    )
