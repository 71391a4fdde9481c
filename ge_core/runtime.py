# SPDX-License-Identifier: Apache-2.0
"""What runs in this process: which AscendCL, on which devices, and how busy they are."""

from dataclasses import dataclass

from ge_core_pyx import device


@dataclass(frozen=True)
class RuntimeInfo:
    """What runs in this process; see runtime_info()."""

    kind: str
    libraries: tuple[str, ...]
    cann_version: str
    soc_name: str
    device_count: int

    @property
    def label(self) -> str:
        """The device in words; the CPU implementation is never mistaken for an NPU."""
        if self.kind == "cpu":
            return f"CPU implementation of AscendCL (imitates {self.soc_name}; not an NPU)"
        return f"NPU {self.soc_name}"


def runtime_info(runtime: str | None = None) -> RuntimeInfo:
    """Open the runtime, if the process has not yet, and say what it is.

    Parameters
    ----------
    runtime : str, optional
        ``npu`` or ``cpu``; default GE_CORE_RUNTIME, else ``npu``.

    Raises
    ------
    AclLoadError
        No usable library or device; the text names what was tried and how to ask for the CPU implementation.
    """
    opened = device.open_runtime(runtime)
    return RuntimeInfo(opened.kind, opened.files, opened.cann_version(), opened.soc_name, opened.device_count)


def device_usage(device_id: int = 0, runtime: str | None = None) -> dict:
    """How busy and how full a device is, all processes counted.

    Returns
    -------
    dict
        ``cube_percent``, ``vector_percent``, ``aicpu_percent`` (None where the device does not tell), ``memory_free``
        and ``memory_total`` in bytes.
    """
    opened = device.open_runtime(runtime)
    context = device.Context(opened, device_id)
    try:
        free, total = context.memory_info()
    finally:
        context.close()
    return {**opened.utilization(device_id), "memory_free": free, "memory_total": total}
