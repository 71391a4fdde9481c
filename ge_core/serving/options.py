# SPDX-License-Identifier: Apache-2.0
"""The settings of a served model: where each may come from, what it may be, and why some are refused.

Order: `parameters` of config.pbtxt, then GE_CORE_<KEY> in the server's environment, then defaults.json beside the
installed backend's model.py. Every key is honoured or refused by name.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from ge_core_pyx.locate import RUNTIMES


@dataclass(frozen=True)
class ServingOptions:
    """What a served model was asked for, checked.

    Attributes
    ----------
    om_model_path : str or None
        The om; a relative path starts at the version folder. None: the one ``.om`` of the version folder.
    runtime : str
        ``npu`` or ``cpu``.
    device_ids : tuple of int
        Devices that the model's instances share; see `ge_core.serving.instances`.
    slots : int
        Batches in flight per device of an instance.
    responses : str
        ``returned``: answers are returned from each call. ``sender``: they are sent when they are ready, and the next
        batch starts meanwhile.
    warmup : bool
        Whether every gear runs once at load.
    execute_timeout_ms : int or None
        How long one execution may take; None waits for ever.
    submit_timeout_ms : int
        How long a batch may wait for a free slot.
    gear_plan : str
        ``smallest``: the smallest gear that holds the rows. ``time``: the gears that take the least time, as measured
        at load.
    pad_value : number or dict of input name to number
        What padded places hold.
    output_axes : dict
        For oms with gears of other axes than the batch: {output: {axis: (input, axis)}}.
    register_memory : bool
        Whether devices read requests and write answers in Triton's shared memory, without a copy of ours, where the
        runtime can pin that (aclrtHostRegisterV2).
    cast_inputs : str
        ``refused``, or ``checked``: inputs of a wider or narrower type of the same sort are converted, values that do
        not fit are refused.
    golden : str or None
        An .npz with inputs and expected outputs, checked at load; a relative path starts at the version folder. See
        `ge_core.serving.monitoring.golden`.
    """

    om_model_path: str | None = None
    runtime: str = "npu"
    device_ids: tuple[int, ...] = (0,)
    slots: int = 1
    responses: str = "returned"
    warmup: bool = True
    execute_timeout_ms: int | None = None
    submit_timeout_ms: int = 10_000
    gear_plan: str = "smallest"
    pad_value: float | dict[str, int | float] = 0
    output_axes: dict[str, dict[int, tuple[str, int]]] | None = None
    register_memory: bool = False
    cast_inputs: str = "refused"
    golden: str | None = None
    tp_size: int = 1


class Refusal(NamedTuple):
    """Why a key, or a value of it, is not honoured, and what to do instead."""

    reason: str
    instead: str

    def __str__(self):
        return f"{self.reason}; {self.instead}"


def _path(text: str) -> str:
    if not text:
        raise ValueError("expected a path, got an empty string")
    return text


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {' or '.join(map(repr, allowed))}, got {text!r}")
        return text

    return parse


def _ids(text: str) -> tuple[int, ...]:
    ids = tuple(token.strip() for token in text.split(","))
    if not all(token.isascii() and token.isdigit() for token in ids):
        raise ValueError(f"expected device numbers separated by commas, such as '0' or '0,1', got {text!r}")
    numbers = tuple(map(int, ids))
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"names a device twice: {text!r}")
    return numbers


def _milliseconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"expected a whole number of milliseconds above 0, got {text!r}")
    return int(text)


def _slots(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"expected a whole number of batches above 0, got {text!r}")
    return int(text)


def _number(text: str) -> int | float:
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise ValueError(f"expected a number, or input=number pairs separated by commas, got {text!r}") from None


def _pad_value(text: str) -> int | float | dict[str, int | float]:
    if "=" not in text:
        return _number(text)
    pairs = [item.rpartition("=") for item in text.split(",")]
    return {name.strip(): _number(value.strip()) for name, _, value in pairs}


def _output_axes(text: str) -> dict[str, dict[int, tuple[str, int]]]:
    """``output:axis=input:axis``, several separated by commas. Full names have colons of their own."""
    axes: dict[str, dict[int, tuple[str, int]]] = {}
    for item in text.split(","):
        sides = [side.strip().rpartition(":") for side in item.split("=")]
        if len(sides) != 2 or not all(name and axis.isascii() and axis.isdigit() for name, _, axis in sides):
            raise ValueError(f"expected output:axis=input:axis, several separated by commas, got {text!r}")
        (output, _, axis), (source, _, source_axis) = sides
        axes.setdefault(output, {})[int(axis)] = (source, int(source_axis))
    return axes


def _flag(text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise ValueError(f"expected 'true' or 'false', got {text!r}")
    return values[text.lower()]


def _only(value: int, refusal: Refusal) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if text != str(value):
            raise ValueError(f"only {value} is available, got {text!r}: {refusal}")
        return value

    return parse


PARAMETERS: dict[str, Callable[[str], object]] = {
    "om_model_path": _path,
    "runtime": _one_of(*RUNTIMES),
    "device_ids": _ids,
    "slots": _slots,
    "responses": _one_of("returned", "sender"),
    "warmup": _flag,
    "execute_timeout_ms": _milliseconds,
    "submit_timeout_ms": _milliseconds,
    "gear_plan": _one_of("smallest", "time"),
    "pad_value": _pad_value,
    "output_axes": _output_axes,
    "register_memory": _flag,
    "cast_inputs": _one_of("refused", "checked"),
    "golden": _path,
    "tp_size": _only(1, Refusal("one om runs on one device", "compile the model for one device")),
}

_COMPILED = "gears and precision are compiled into the om", "pass it to `ge-core compile`"
REFUSED: dict[str, Refusal] = {
    "tp_output": Refusal("one om runs on one device", "leave it out"),
    "static_model": Refusal("the om itself says whether it is static", "leave it out"),
    "device_exec_blocks": Refusal("an instance owns its streams", "raise instance_group's count"),
    "instance_exec_blocks": Refusal("a batch runs on one stream", "raise instance_group's count"),
    "profiling": Refusal("profiling belongs to the process, not to a model", "start the server under msprof"),
    "dump_graph": Refusal("an om is already compiled", "dump the graph when it is compiled"),
    "dump_data": Refusal("nothing is written beside requests", "use CANN's acl.json dump in a run outside the server"),
}
_REFUSED_PREFIXES: dict[str, Refusal] = {
    "session.ge.": Refusal(*_COMPILED),
    "graph.ge.": Refusal(*_COMPILED),
    "global.ge.": Refusal(*_COMPILED),
    "ge.": Refusal(*_COMPILED),
    "dump_": REFUSED["dump_data"],
}
# Triton's own parameters for Python models; they never reach us with a meaning.
TRITON_PARAMETERS = frozenset({"EXECUTION_ENV_PATH", "FORCE_CPU_ONLY_INPUT_TENSORS"})
# Settings of the library, not of a model.
LIBRARY_ENVIRONMENT = frozenset(
    {
        "GE_CORE_ACL_LIBRARY",
        "GE_CORE_CPU_CONFIG",
        "GE_CORE_OPENVINO",
        "GE_CORE_MODEL_ROOTS",
        "GE_CORE_DEBUG",
        "GE_CORE_LOST_WORKERS",
    }
)
ENVIRONMENT_PREFIX = "GE_CORE_"


def _refusal(key: str) -> Refusal | None:
    if key in REFUSED:
        return REFUSED[key]
    return next((why for prefix, why in _REFUSED_PREFIXES.items() if key.startswith(prefix)), None)


def _value(key: str, text: str, source: str):
    if key not in PARAMETERS:
        refusal = _refusal(key)
        if refusal is not None:
            raise ValueError(f"{source}: {key} is not available: {refusal}")
        near = get_close_matches(key, [*PARAMETERS, *REFUSED], n=1)
        advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(PARAMETERS)}"
        raise ValueError(f"{source}: unknown parameter {key!r}; {advice}")
    try:
        return PARAMETERS[key](text.strip())
    except ValueError as error:
        raise ValueError(f"{source}: {key}: {error}") from None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def parse(
    parameters: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    defaults: str | os.PathLike | None = None,
) -> ServingOptions:
    """Collects and checks the settings of one model.

    Parameters
    ----------
    parameters : mapping of str to str
        From config.pbtxt.
    environ : mapping, optional
        The server's environment; `os.environ` if None.
    defaults : path, optional
        A defaults.json: one JSON object of the same keys. A file that does not exist is no error.

    Raises
    ------
    ValueError
        For an unknown key, a refused key or value, or a value that cannot be read; it names the source.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, object] = {}
    if defaults is not None and Path(defaults).is_file():
        values |= _read_defaults(Path(defaults))
    for name in sorted(environ):
        key = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name.startswith(ENVIRONMENT_PREFIX) and (key in PARAMETERS or _refusal(key)) and environ[name]:
            values[key] = _value(key, environ[name], f"environment {name}")
    for key, text in parameters.items():
        if key not in TRITON_PARAMETERS:
            values[key] = _value(key, text, "config.pbtxt")
    return ServingOptions(**values)  # type: ignore[arg-type]  # each parser returns its field's type


def _read_defaults(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected one JSON object, got {type(content).__name__}")
    return {key: _value(key, _text(value), str(path)) for key, value in content.items()}


def unknown_environment(environ: Mapping[str, str]) -> list[str]:
    """Sentences about GE_CORE_ variables that nothing reads: most likely a typing error."""
    known = [*(ENVIRONMENT_PREFIX + key.upper() for key in PARAMETERS), *sorted(LIBRARY_ENVIRONMENT)]
    sentences = []
    for name in sorted(environ):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            sentences.append(
                f"nothing reads the environment variable {name}" + (f"; did you mean {near[0]}?" if near else "")
            )
    return sentences
