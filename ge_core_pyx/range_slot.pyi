# SPDX-License-Identifier: Apache-2.0
from ge_core_pyx.device import Context
from ge_core_pyx.slot import Slot

class RangeSlot(Slot):
    def __init__(
        self,
        context: Context,
        path: str,
        timeout_ms: int,
        learnt_sizes: dict[tuple[tuple[int, ...], ...], list[int]],
    ) -> None: ...
    def answer(self) -> None: ...
