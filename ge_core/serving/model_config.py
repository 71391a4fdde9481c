# SPDX-License-Identifier: Apache-2.0
"""A model's config.pbtxt against the om it serves: compared, completed, corrected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ge_core.gears import gears_text
from ge_core.serving import pbtxt
from ge_core_pyx import dtypes, model
from ge_core_pyx.errors import GeCoreError


class ConfigError(GeCoreError, ValueError):
    """The configuration contradicts the om; the message has both sides and a stanza that loads."""


class Bound(NamedTuple):
    """One tensor of the configuration and the om's tensor behind it."""

    name: str  # as the configuration, and so the client, calls it
    spec: model.TensorSpec
    cast: str | None = None  # the type that clients send, where it is another than the om's


@dataclass(frozen=True)
class Binding:
    """How a configuration maps to an om. `max_batch_size` 0: requests carry the om's whole shapes."""

    max_batch_size: int
    inputs: tuple[Bound, ...]
    outputs: tuple[Bound, ...]

    def stanza(self) -> str:
        """max_batch_size, input and output as config.pbtxt text."""
        batched = self.max_batch_size > 0
        return "\n".join(
            [
                f"max_batch_size: {self.max_batch_size}",
                pbtxt.tensors("input", [tensor_entry(bound, batched) for bound in self.inputs]),
                pbtxt.tensors("output", [tensor_entry(bound, batched) for bound in self.outputs]),
            ]
        )


def config_pbtxt(description, name: str | None = None, om_model_path: str | None = None, backend: str = "ge") -> str:
    """A whole config.pbtxt for an om.

    Parameters
    ----------
    description : ge_core.ModelDescription
    name : str, optional
        The model's name; left out if None, as Triton takes the folder's.
    om_model_path : str, optional
        Written as parameter; None if the om lies in the version folder.
    """
    lines = [f"name: {pbtxt.quoted(name)}"] if name else []
    lines += [f"backend: {pbtxt.quoted(backend)}", natural(description).stanza()]
    if om_model_path:
        lines.append(pbtxt.parameters({"om_model_path": om_model_path}))
    return "\n".join(lines) + "\n"


def tensor_entry(bound: Bound, batched: bool) -> dict:
    """One tensor as an entry of a model configuration; a batched model leaves axis 0 out."""
    return {"name": bound.name, "data_type": _client_type(bound)} | _dims_entry(bound.spec, batched)


def natural(description) -> Binding:
    """The configuration that an om asks for by itself: all tensors, the largest batch that its rows allow."""
    return Binding(
        description.max_rows if set(description.row_multiples) <= {1} else 0,
        tuple(Bound(spec.name, spec) for spec in description.inputs),
        tuple(Bound(spec.name, spec) for spec in description.outputs),
    )


def complete(config: dict, description, casts: bool = False) -> Binding:
    """Fills what `config` leaves out from the om, in place, after comparing what it says.

    Parameters
    ----------
    config : dict
        Triton's model configuration as JSON.
    description : ge_core.ModelDescription
    casts : bool
        Whether an input may have a wider or narrower type of the same sort than the om's.

    Raises
    ------
    ConfigError
        The configuration contradicts the om.
    """
    if not config["max_batch_size"] and not _whole_shapes(config, description):
        config["max_batch_size"] = natural(description).max_batch_size
    binding = bind(config, description, casts)
    for side in ("input", "output"):
        given = {entry["name"]: entry for entry in config[side]}
        config[side] = [_filled(given.get(bound.name, {}), bound, binding) for bound in getattr(binding, f"{side}s")]
    return binding


def bind(config: Mapping, description, casts: bool = False) -> Binding:
    """Compares a configuration with the om and pairs their tensors; outputs that it does not list are not served.

    Raises
    ------
    ConfigError
        Unknown or missing tensors, a data type, a dimension or a batch that the om does not have.
    """
    batched = config["max_batch_size"] > 0
    problems = list(_batch_problems(config["max_batch_size"], description))
    inputs, input_problems = _pair("input", config["input"], description.inputs, description, batched, casts)
    outputs, output_problems = _pair("output", config["output"], description.outputs, description, batched, False)
    problems += input_problems + output_problems
    if problems:
        raise ConfigError(_contradiction(config, description, problems, inputs, outputs))
    return Binding(config["max_batch_size"], tuple(inputs), tuple(outputs))


def _pair(side: str, entries: Sequence[Mapping], specs: Sequence, description, batched: bool, casts: bool):
    """(pairs, problems); no entries at all means every tensor of the om."""
    pairs, problems = [], []
    for entry in entries or [{"name": spec.name} for spec in specs]:
        name = entry["name"]
        spec = next((spec for spec in specs if name in (spec.name, spec.full_name)), None)
        if spec is None:
            problems.append(f"{side} '{name}' is not in the om, which has {_quoted(spec.name for spec in specs)}")
        else:
            cast = _cast(entry, spec) if casts else None
            pairs.append(Bound(name, spec, cast))
            problems += [f"{side} '{name}': {text}" for text in _differences(entry, spec, description, batched, cast)]
    named = [bound.spec for bound in pairs]
    if side == "input":
        problems += [f"input '{spec.name}' of the om is missing in config.pbtxt" for spec in specs if spec not in named]
    if len(named) > len({spec.full_name for spec in named}):
        problems.append(f"config.pbtxt names one {side} of the om twice: {_quoted(bound.name for bound in pairs)}")
    return pairs, problems


def _cast(entry: Mapping, spec) -> str | None:
    """The type that an entry asks to be converted to the om's: integers to integers, floats to floats."""
    try:
        asked, own = dtypes.by_triton(entry.get("data_type", "")), dtypes.by_name(spec.dtype)
    except KeyError:
        return None
    sort = {0: "int", 1: "int", 2: "float"}
    same = sort.get(asked.dlpack[0]) == sort.get(own.dlpack[0]) is not None
    return asked.name if same and asked is not own else None


def _differences(entry: Mapping, spec, description, batched: bool, cast: str | None) -> Iterable[str]:
    triton = _client_type(Bound("", spec, cast))
    if entry.get("data_type", "TYPE_INVALID") not in ("TYPE_INVALID", triton):
        yield f"data_type {entry['data_type']} in config.pbtxt, {triton} in the om"
    asked, shape = _asked_dims(entry), spec.shape[1:] if batched else spec.shape
    if asked is None:
        return
    allowed = _allowed(spec, description)[int(batched) :]
    same_rank = len(asked) == len(shape)
    if not same_rank or not all(dim == -1 or dim in values for dim, values in zip(asked, allowed, strict=True)):
        without = " without the batch" if batched else ""
        yield f"dims {list(asked)} in config.pbtxt, {_dims_text(shape)}{without} in the om{_gears_text(description)}"


def _asked_dims(entry: Mapping) -> tuple[int, ...] | None:
    """What the model sees of an entry: its dims, or its reshape; None if it gives none."""
    if "reshape" in entry:
        return tuple(int(dim) for dim in entry["reshape"].get("shape", ()))
    return tuple(int(dim) for dim in entry["dims"]) if entry.get("dims") else None


class _AnySize:
    def __contains__(self, dim: int):
        return dim > 0


def _allowed(spec, description) -> list:
    """For each dim of a tensor, the sizes that the om takes."""
    allowed: list = [_AnySize() if dim is None else (dim,) for dim in spec.shape]
    if description.max_rows:
        allowed[0] = range(1, description.max_rows + 1) if spec in description.inputs else _AnySize()
    elif description.gear_kind == "batch" and spec.shape and spec.shape[0] is None:
        allowed[0] = description.gears
    if description.gear_kind in ("image_size", "dims"):
        open_dims = [
            (tensor, axis) for tensor in description.inputs for axis, dim in enumerate(tensor.shape) if dim is None
        ]
        for position, (tensor, axis) in enumerate(open_dims):
            if tensor is spec:
                allowed[axis] = {gear[position] for gear in description.gears}
    return allowed


def _batch_problems(asked: int, description) -> Iterable[str]:
    most, why_not = _most_rows(description)
    if asked > 0 and most == 0:
        yield f"max_batch_size {asked} in config.pbtxt, but no rows in the om: {why_not}"
    elif asked > most:
        yield f"max_batch_size {asked} in config.pbtxt, at most {most} in the om{_gears_text(description)}"


def _most_rows(description) -> tuple[int, str]:
    """(the largest max_batch_size that may be asked for, why it is 0).

    Gears whose trailing dims vary are cut by rows only if somebody asks: their axis 0 need not be a batch. What can be
    told of their outputs is told when they are loaded.
    """
    if description.gear_kind == "range":
        return 0, "the om has a range of shapes, and which rows of an output are whose shows only after it has run"
    if description.gear_kind not in ("image_size", "dims"):
        return description.max_rows, description.not_rows
    shapes = [model.input_shapes(description, gear) for gear in description.gears]
    odd = [inputs for inputs in shapes if not model.common_rows(inputs)]
    if odd:
        return 0, f"at gear {_quoted(str(list(shape)) for shape in odd[0])} the inputs differ in axis 0"
    return max(inputs[0][0] for inputs in shapes), ""


def _whole_shapes(config: Mapping, description) -> bool:
    """Whether dims given beside max_batch_size 0 count the batch, so that 0 was meant and not just left out."""
    for side, specs in (("input", description.inputs), ("output", description.outputs)):
        for entry in config[side]:
            for spec in specs:
                asked = _asked_dims(entry)
                if entry["name"] in (spec.name, spec.full_name) and asked is not None:
                    return len(asked) == len(spec.shape)
    return False


def _filled(entry: Mapping, bound: Bound, binding: Binding) -> dict:
    own = {"name": bound.name, "data_type": _client_type(bound)}
    if not entry.get("dims"):
        own |= _dims_entry(bound.spec, binding.max_batch_size > 0)
    return dict(entry) | own


def _dims_entry(spec, batched: bool) -> dict:
    dims = [-1 if dim is None else dim for dim in (spec.shape[1:] if batched else spec.shape)]
    # Triton wants at least one dim; a reshape to none is its way to say "one number per row".
    return {"dims": dims} if dims else {"dims": [1], "reshape": {"shape": []}}


def _contradiction(config: Mapping, description, problems: list[str], inputs: list[Bound], outputs: list[Bound]) -> str:
    own = natural(description)
    asked = config["max_batch_size"]
    batch = (
        min(asked, _most_rows(description)[0]) if asked or _whole_shapes(config, description) else own.max_batch_size
    )
    all_inputs = tuple(inputs) if len(inputs) == len(own.inputs) else own.inputs
    corrected = Binding(batch, all_inputs, tuple(outputs) or own.outputs)
    found = "\n".join(f"  {problem}" for problem in problems)
    return (
        f"the configuration of model '{config['name']}' contradicts {description.path}:\n{found}\n"
        f"This would load:\n{corrected.stanza()}"
    )


def _client_type(bound: Bound) -> str:
    return f"TYPE_{dtypes.by_name(bound.cast or bound.spec.dtype).triton}"


def _dims_text(shape: Sequence[int | None]) -> str:
    return str([-1 if dim is None else dim for dim in shape])


def _gears_text(description) -> str:
    if description.gear_kind == "static" and description.max_rows:
        return f" (static, batch {description.max_rows})"
    return f" ({gears_text(description)})"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
