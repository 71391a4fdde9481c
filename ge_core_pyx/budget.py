# SPDX-License-Identifier: Apache-2.0
"""The bytes that a session takes on a device, known before anything is allocated."""

from ge_core_pyx.memory import padded


class Budget:
    """Bytes that a session takes on one device. Range models have none: their memory grows with the requests.

    Attributes
    ----------
    weights, work, buffers : int
        Device bytes: shared by the slots; of each slot's model; of each slot's inputs and outputs.
    pinned : int
        Page-locked host bytes of each slot.
    slots : int
    """

    def __init__(self, weights: int, work: int, buffers: int, pinned: int, slots: int):
        self.weights, self.work, self.buffers, self.pinned, self.slots = weights, work, buffers, pinned, slots

    @property
    def device_bytes(self) -> int:
        """All of one device's memory."""
        return self.weights + self.slots * (self.work + self.buffers)

    @property
    def pinned_bytes(self) -> int:
        return self.slots * self.pinned

    def __str__(self) -> str:
        return (
            f"{self.device_bytes:,} bytes of device memory (weights {self.weights:,} + {self.slots} slot(s) × "
            f"(work {self.work:,} + inputs and outputs {self.buffers:,})), {self.pinned_bytes:,} bytes pinned"
        )


def charged(nbytes: int) -> int:
    """What aclrtMalloc takes for `nbytes`: 32 to spare, then whole pages, 2 MiB ones above 1 MiB (HUGE_FIRST)."""
    total = (nbytes + 63) // 32 * 32
    page = 4096 if total <= 1 << 20 else 2 << 20
    return (total + page - 1) // page * page if nbytes else 0


def block_nbytes(specs) -> int:
    """One block for all inputs, or all outputs, of the largest gear."""
    return max(sum(padded(spec.nbytes) for spec in specs), 64)


def gear_block_nbytes(description, gear_nbytes: int) -> int:
    """The block of the hidden input that tells each gear."""
    return len(description.gears) * padded(gear_nbytes)


def budget(description, sizes: tuple[int, int], slots: int) -> Budget:
    """What `slots` slots of a static or gear model take; `sizes` from model.query_size()."""
    inputs, outputs = block_nbytes(description.inputs), block_nbytes(description.outputs)
    buffers = charged(inputs) + charged(outputs)
    if description.gears:
        values = {"batch": 1, "image_size": 2}.get(description.gear_kind)
        if values is None:
            values = sum(len(spec.shape) for spec in description.inputs)
        buffers += charged(gear_block_nbytes(description, 8 * values))
    return Budget(charged(sizes[1]), charged(sizes[0]), buffers, inputs + outputs, slots)
