# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np

def tensor_type(capsule: Any) -> tuple[str | None, tuple[int, ...]]: ...
def to_capsule(array: np.ndarray[Any, Any], dtype: str) -> Any: ...
