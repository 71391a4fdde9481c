import os
from dataclasses import dataclass

from ge_core_pyx.device import Context
from ge_core_pyx.memory import DeviceBuffer

Shape = tuple[int | None, ...]

@dataclass(frozen=True)
class TensorSpec:
    name: str
    full_name: str
    dtype: str
    shape: Shape
    nbytes: int
    @property
    def itemsize(self) -> int: ...

@dataclass(frozen=True)
class Description:
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    gear_kind: str
    gears: tuple[int, ...] | tuple[tuple[int, ...], ...]
    max_rows: int
    not_rows: str
    row_multiples: tuple[int, ...]
    reserved: tuple[str, ...]
    ranges: tuple[tuple[tuple[int, int | None], ...], ...]

def public_name(full_name: str) -> str: ...
def describe(context: Context, path: str | os.PathLike[str]) -> Description: ...
def input_shapes(description: Description, gear: int | tuple[int, ...] | None) -> tuple[tuple[int, ...], ...]: ...
def query_size(context: Context, path: str | os.PathLike[str]) -> tuple[int, int]: ...

class Dataset:
    def __init__(self, owner: object) -> None: ...
    @property
    def owner(self) -> object: ...
    def close(self) -> None: ...

class Model:
    def __init__(
        self, context: Context, path: str, sizes: tuple[int, int] | None = None, weights: DeviceBuffer | None = None
    ) -> None: ...
    @property
    def context(self) -> Context: ...
    @property
    def path(self) -> str: ...
    @property
    def description(self) -> Description: ...
    @property
    def weights(self) -> DeviceBuffer | None: ...
    @property
    def work(self) -> DeviceBuffer | None: ...
    @property
    def model_id(self) -> int: ...
    def gear_nbytes(self) -> int: ...
    def output_shapes(self) -> list[Shape]: ...
    def close(self) -> None: ...
