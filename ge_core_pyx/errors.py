# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions: AscendCL's error codes, libraries that do not load, model files that do not fit.

Every class is a `GeCoreError` and, where Python has a matching one, that built-in exception too.
"""

import os
from typing import NamedTuple


class GeCoreError(Exception):
    """Base class of every error that ge_core raises itself."""


class AclError(GeCoreError, RuntimeError):
    """An AscendCL call failed.

    Attributes
    ----------
    code : int
        AscendCL's error code.
    name : str
        Its name in AscendCL's headers, e.g. ``ACL_ERROR_RT_CONTEXT_NULL``.
    call : str
        The entry point that returned it.
    message : str
        The library's own text (aclGetRecentErrMsg); empty when there was none.
    hint : str
        A next step; empty when none is known.
    """

    def __init__(self, code: int, name: str, call: str, message: str = ""):
        super().__init__(code, name, call, message)
        self.code, self.name, self.call, self.message = code, name, call, message
        self.hint = _hint(code)

    def __str__(self):
        parts = [f"{self.call} returned {self.code} ({self.name})"]
        parts += [text for text in (" ".join(self.message.split()), self.hint) if text]
        return ": ".join(parts[:2]) + "".join(f". {part}" for part in parts[2:])


class AclMemoryError(AclError, MemoryError):
    """Device or pinned host memory is exhausted."""


class DeviceMemoryError(GeCoreError, MemoryError):
    """A model does not fit on its device; nothing of it was allocated."""


class AclTimeoutError(AclError, TimeoutError):
    """A wait for the device reached its limit."""


class AclValueError(AclError, ValueError):
    """AscendCL refused an argument."""


class AclLoadError(GeCoreError, OSError):
    """No usable AscendCL library, or no device behind it."""


class ModelFileError(GeCoreError, ValueError):
    """A model file that cannot be used: missing, damaged, or made for another runtime."""


class UnsupportedError(GeCoreError, RuntimeError):
    """Something this release, or this runtime, cannot do."""


class NotRunningError(GeCoreError, RuntimeError):
    """The session no longer runs after a device error; `recover()` may change that."""


class ErrorCode(NamedTuple):
    """What is known of one error code of AscendCL.

    Attributes
    ----------
    code, name : int, str
        As in AscendCL's headers.
    kind : type
        The exception class that `from_code` makes.
    sticky : bool
        After this code nothing on the device can be trusted; the process should end.
    hint : str
        A next step; empty when none is known.
    """

    code: int
    name: str
    kind: type[AclError]
    sticky: bool = False
    hint: str = ""


# The codes that need more than the rule for their family below: code, name, exception, sticky, next step.
# fmt: off
TABLE = {row.code: row for row in (
    ErrorCode(100036, "ACL_ERROR_WAIT_CALLBACK_TIMEOUT", AclTimeoutError, False),
    ErrorCode(107001, "ACL_ERROR_RT_INVALID_DEVICEID", AclValueError, False,
              "No such device: compare `npu-smi info -l` with device_id and ASCEND_RT_VISIBLE_DEVICES."),
    ErrorCode(107002, "ACL_ERROR_RT_CONTEXT_NULL", AclValueError, False, "The calling thread has no AscendCL context."),
    ErrorCode(107019, "ACL_ERROR_RT_WAIT_TIMEOUT", AclTimeoutError, False),
    ErrorCode(107020, "ACL_ERROR_RT_TASK_TIMEOUT", AclTimeoutError, False),
    ErrorCode(145002, "ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID", AclValueError, False, "The model path cannot be read."),
    ErrorCode(145006, "ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID", AclValueError, False,
              "The file is not a complete om model."),
    ErrorCode(148049, "ACL_ERROR_INVALID_OPP_PATH", AclError, False, "Set ASCEND_OPP_PATH (source CANN's set_env.sh)."),
    ErrorCode(200000, "ACL_ERROR_BAD_ALLOC", AclMemoryError, False),
    ErrorCode(207001, "ACL_ERROR_RT_MEMORY_ALLOCATION", AclMemoryError, False,
              "Compare the model's needs with the free device memory (`ge-core info`); a lost device says the same."),
    ErrorCode(207004, "ACL_ERROR_RT_NO_DEVICE", AclError, False,
              "No NPU is visible: check the driver, /dev/davinci*, and ASCEND_RT_VISIBLE_DEVICES."),
    ErrorCode(207005, "ACL_ERROR_RT_RESOURCE_ALLOC_FAIL", AclError, False,
              "The device has no stream left; other processes hold them."),
    ErrorCode(207008, "ACL_ERROR_RT_NO_STREAM_RESOURCE", AclError, False,
              "The device has no stream left; other processes hold them."),
    ErrorCode(207018, "ACL_ERROR_RT_DEVICE_OOM", AclMemoryError, False),
    ErrorCode(207020, "ACL_ERROR_RT_TIMEOUT", AclTimeoutError, False),
    ErrorCode(245000, "ACL_ERROR_GE_MEMORY_ALLOCATION", AclMemoryError, False),
    ErrorCode(245001, "ACL_ERROR_GE_MEMORY_OPERATE_FAILED", AclMemoryError, False),
    ErrorCode(245002, "ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED", AclMemoryError, False),
    ErrorCode(500000, "ACL_ERROR_INTERNAL_ERROR", AclError, False,
              "Usually no driver or no NPU: run `ge-core doctor`."),
    ErrorCode(507008, "ACL_ERROR_RT_SOC_VERSION", AclError, False,
              "The om was compiled for another SoC: compile it with --soc_version of this one (`ge-core info`)."),
    ErrorCode(507009, "ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT", AclError, False,
              "The om was compiled for another SoC or another vNPU size."),
    ErrorCode(507010, "ACL_ERROR_RT_LOST_HEARTBEAT", AclError, True),
    ErrorCode(507014, "ACL_ERROR_RT_AICORE_TIMEOUT", AclTimeoutError, True),
    ErrorCode(507015, "ACL_ERROR_RT_AICORE_EXCEPTION", AclError, True),
    ErrorCode(507017, "ACL_ERROR_RT_AICPU_TIMEOUT", AclTimeoutError, True),
    ErrorCode(507018, "ACL_ERROR_RT_AICPU_EXCEPTION", AclError, True),
    ErrorCode(507033, "ACL_ERROR_RT_DEV_SETUP_ERROR", AclError, True,
              "Driver, firmware and CANN do not match, or the device is not mapped into this container."),
    ErrorCode(507034, "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT", AclTimeoutError, True),
    ErrorCode(507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION", AclError, True),
    ErrorCode(507046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", AclTimeoutError, False),
    ErrorCode(507047, "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT", AclTimeoutError, False),
    ErrorCode(507048, "ACL_ERROR_RT_FFTS_PLUS_TIMEOUT", AclTimeoutError, False),
    ErrorCode(507053, "ACL_ERROR_RT_DEVICE_MEM_ERROR", AclError, True),
    ErrorCode(507054, "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR", AclError, True),
    ErrorCode(507056, "ACL_ERROR_RT_LINK_ERROR", AclError, True),
    ErrorCode(507899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR", AclError, True, "The driver failed; run `ge-core doctor`."),
    ErrorCode(507901, "ACL_ERROR_RT_SOCKET_CLOSE", AclError, True),
    ErrorCode(545601, "ACL_ERROR_GE_MODEL_EXECUTE_TIMEOUT", AclTimeoutError, False),
)}
# fmt: on
STICKY = frozenset(code for code, row in TABLE.items() if row.sticky)
_ARGUMENT_FAMILIES = (100, 107, 145)  # thousands of the code: the caller passed something wrong
_DEVICE_FAMILIES = (500, 507, 545)  # the device's own log says more


def _hint(code: int) -> str:
    if code in TABLE and TABLE[code].hint:
        return TABLE[code].hint
    plog = os.path.expanduser(os.environ.get("ASCEND_PROCESS_LOG_PATH") or "~/ascend/log")
    if code // 1000 in _DEVICE_FAMILIES and os.path.isdir(plog):
        return f"See the newest plog under {plog} for the device's own report."
    return ""


def from_code(code: int, name: str | None, call: str, message: str = "") -> AclError:
    """The exception for an error code: also a MemoryError, TimeoutError or ValueError where it is one of those."""
    kind = AclValueError if code // 1000 in _ARGUMENT_FAMILIES else AclError
    if code in TABLE:
        kind = TABLE[code].kind
    return kind(code, name or "unknown code", call, message)
