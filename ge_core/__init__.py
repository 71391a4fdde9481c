# SPDX-License-Identifier: Apache-2.0
"""Zero-copy AscendCL execution engine for compiled Ascend models (.om).

>>> import ge_core
>>> session = ge_core.InferenceSession("model.om")          # runtime="cpu" on a machine without an NPU
>>> outputs = session.run(None, {"input": x})

Importing it opens no library and no device.
"""

from ge_core._version import __version__
from ge_core.description import ModelDescription, describe_model
from ge_core.runtime import RuntimeInfo, device_usage, runtime_info
from ge_core.session import InferenceSession
from ge_core_pyx.batch import Batch
from ge_core_pyx.errors import (
    AclError,
    AclLoadError,
    AclMemoryError,
    AclTimeoutError,
    AclValueError,
    DeviceMemoryError,
    GeCoreError,
    ModelFileError,
    NotRunningError,
    UnsupportedError,
)
from ge_core_pyx.future import Future
from ge_core_pyx.model import TensorSpec

__all__ = [
    "AclError",
    "AclLoadError",
    "AclMemoryError",
    "AclTimeoutError",
    "AclValueError",
    "Batch",
    "DeviceMemoryError",
    "Future",
    "GeCoreError",
    "InferenceSession",
    "ModelDescription",
    "ModelFileError",
    "NotRunningError",
    "RuntimeInfo",
    "TensorSpec",
    "UnsupportedError",
    "__version__",
    "describe_model",
    "device_usage",
    "runtime_info",
]
