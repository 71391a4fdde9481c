# SPDX-License-Identifier: Apache-2.0
"""Model configurations as text: what config.pbtxt files are made of."""

import re
from collections.abc import Iterable, Mapping


def quoted(text: str) -> str:
    """A string as a protobuf's text wants it: in quotes; quotes, backslashes and control characters escaped."""
    return '"' + re.sub(r'["\\\x00-\x1f\x7f]', _escaped, text) + '"'


def _escaped(match: re.Match) -> str:
    character = match[0]
    return f"\\{character}" if character in '"\\' else f"\\{ord(character):03o}"


def tensors(side: str, entries: Iterable[Mapping]) -> str:
    """All tensors of one side.

    Parameters
    ----------
    side : str
        ``input`` or ``output``.
    entries : iterable of mapping
        As in a configuration's JSON: name, data_type, dims, and reshape where there is one.
    """
    return f"{side} [\n" + ",\n".join(f"  {_tensor(entry)}" for entry in entries) + "\n]"


def _tensor(entry: Mapping) -> str:
    reshape = f", reshape: {{ shape: {list(entry['reshape']['shape'])} }}" if "reshape" in entry else ""
    return f"{{ name: {quoted(entry['name'])}, data_type: {entry['data_type']}, dims: {list(entry['dims'])}{reshape} }}"


def parameters(values: Mapping[str, str]) -> str:
    """Model parameters, one a line; empty if there are none."""
    return "\n".join(
        f"parameters: [ {{ key: {quoted(key)} value: {{ string_value: {quoted(value)} }} }} ]"
        for key, value in values.items()
    )
