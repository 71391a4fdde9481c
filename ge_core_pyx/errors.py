"""What can go wrong, as exceptions: AscendCL's error codes, libraries that do not load, model files that do not fit."""

import os


class AclError(RuntimeError):
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


class DeviceMemoryError(MemoryError):
    """A model does not fit on its device; nothing of it was allocated."""


class AclTimeoutError(AclError, TimeoutError):
    """A wait for the device reached its limit."""


class AclValueError(AclError, ValueError):
    """AscendCL refused an argument."""


class AclLoadError(OSError):
    """No usable AscendCL library, or no device behind it."""


class ModelFileError(ValueError):
    """A model file that cannot be used: missing, damaged, or made for another runtime."""


class UnsupportedError(RuntimeError):
    """Something this release, or this runtime, cannot do."""


class NotRunningError(UnsupportedError):
    """A session that no longer runs after a device error; `recover()` may change that."""


# Codes after which nothing on the device can be trusted (facts: error recovery of AscendCL); the process should end.
STICKY = frozenset(
    {507010, 507014, 507015, 507017, 507018, 507033, 507034, 507035, 507053, 507054, 507056, 507899, 507901}
)
_MEMORY = frozenset({200000, 207001, 207018, 245000, 245001, 245002})
_TIMEOUT = frozenset({100036, 107019, 107020, 207020, 507014, 507017, 507034, 507046, 507047, 507048, 545601})
_PLOG = "See the newest plog under {} for the device's own report."
_HINTS = {
    107001: "No such device: compare `npu-smi info -l` with device_id and ASCEND_RT_VISIBLE_DEVICES.",
    107002: "The calling thread has no AscendCL context.",
    145002: "The model path cannot be read.",
    145006: "The file is not a complete om model.",
    148049: "Set ASCEND_OPP_PATH (source CANN's set_env.sh).",
    207001: "Compare the model's needs with the free device memory (`ge-core info`); a lost device answers the same.",
    207004: "No NPU is visible: check the driver, /dev/davinci*, and ASCEND_RT_VISIBLE_DEVICES.",
    207005: "The device has no stream left; other processes hold them.",
    207008: "The device has no stream left; other processes hold them.",
    500000: "Usually no driver or no NPU: run `ge-core doctor`.",
    507008: "The om was compiled for another SoC: compile it with --soc_version of this one (`ge-core info`).",
    507009: "The om was compiled for another SoC or another vNPU size.",
    507033: "Driver, firmware and CANN do not match, or the device is not mapped into this container.",
    507899: "The driver failed; run `ge-core doctor`.",
}


def _hint(code: int) -> str:
    if code in _HINTS:
        return _HINTS[code]
    plog = os.path.expanduser(os.environ.get("ASCEND_PROCESS_LOG_PATH") or "~/ascend/log")
    if code // 1000 in (500, 507, 545) and os.path.isdir(plog):
        return _PLOG.format(plog)
    return ""


def from_code(code: int, name: str | None, call: str, message: str = "") -> AclError:
    """The exception for an error code: also a MemoryError, TimeoutError or ValueError where it is one of those."""
    kind = AclError
    if code in _MEMORY:
        kind = AclMemoryError
    elif code in _TIMEOUT:
        kind = AclTimeoutError
    elif code // 1000 in (100, 107, 145):
        kind = AclValueError
    return kind(code, name or "unknown code", call, message)
