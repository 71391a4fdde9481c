# SPDX-License-Identifier: Apache-2.0
"""The instances of a served model: how many there are, and which devices each of them uses."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Instance:
    """One instance of a served model.

    Attributes
    ----------
    number : int
        From 0, counted over all instance groups of the model.
    count : int
        Instances of the model, over all instance groups.
    model_device_ids : tuple of int
        The devices that all instances share.
    """

    number: int
    count: int
    model_device_ids: tuple[int, ...]

    @property
    def device_ids(self) -> tuple[int, ...]:
        """The devices of this instance."""
        return devices_of(self.model_device_ids, self.number, self.count)

    def sharing(self, device_id: int) -> int:
        """How many instances of the model use a device."""
        return sum(device_id in devices_of(self.model_device_ids, number, self.count) for number in range(self.count))


def find(config: Mapping, instance_name: str, device_ids: tuple[int, ...]) -> Instance:
    """The instance that Triton calls `instance_name`.

    Parameters
    ----------
    config : mapping
        The model's configuration; Triton names an instance after its group and its number in the group.
    instance_name : str
    device_ids : tuple of int
        The parameter `device_ids`.
    """
    before, found = 0, 0
    for group in config.get("instance_group", ()):
        name, _, index = instance_name.rpartition("_")
        if name == group["name"] and index.isdigit():
            found = before + int(index)
        before += group["count"]
    return Instance(found, max(before, 1), device_ids)


def devices_of(ids: tuple[int, ...], number: int, count: int) -> tuple[int, ...]:
    """The devices of instance `number` of `count`: ids[number::count], or one id in turn if count > len(ids)."""
    if count > len(ids):
        return (ids[number % len(ids)],)
    return ids[number::count]
