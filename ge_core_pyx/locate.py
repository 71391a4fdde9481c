# SPDX-License-Identifier: Apache-2.0
"""Which AscendCL library a process opens, and why. The only place that knows library file names."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

RUNTIMES = ("npu", "cpu")
NAMES = ("libascendcl.so", "libacl_rt.so", "libacl_mdl.so")  # 8.x has the first alone; 9.x splits it
# An export that only the CPU implementation has: no silent CPU run, whatever LD_LIBRARY_PATH says.
CPU_MARKER = "acl_cpu_counter"
APIS = ("8.1", "9")


@dataclass(frozen=True)
class Candidate:
    """One place to try: files opened in this order, missing ones skipped. A name without a slash is searched."""

    files: tuple[str, ...]
    why: str


def runtime_name(runtime: str | None = None) -> str:
    """The runtime asked for: the argument, else GE_CORE_RUNTIME, else ``npu``. ValueError for any other name."""
    source = "runtime" if runtime is not None else "GE_CORE_RUNTIME"
    name = runtime if runtime is not None else os.environ.get("GE_CORE_RUNTIME") or "npu"
    if name not in RUNTIMES:
        raise ValueError(f"{source} must be 'npu' or 'cpu', got {name!r}")
    return name


def cpu_folder(api: str = "9") -> Path:
    """The folder with the CPU implementation's libraries in the shape of that CANN release."""
    if api not in APIS:
        raise ValueError(f"api must be one of {', '.join(APIS)}, got {api!r}")
    return Path(__file__).parent / "acl_cpu" / "lib" / api


def openvino_folder() -> Path | None:
    """The folder of the installed openvino package that holds its libraries; the package is not imported."""
    spec = importlib.util.find_spec("openvino")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "libs"
    return folder if folder.is_dir() else None


def _from(folder: Path, why: str) -> Candidate:
    return Candidate(tuple(str(folder / name) for name in NAMES), why)


def candidates(runtime: str) -> list[Candidate]:
    """The places to try for that runtime, in order (GE_CORE_ACL_LIBRARY: only that file or folder)."""
    explicit = os.environ.get("GE_CORE_ACL_LIBRARY")
    if explicit:
        path = Path(explicit)
        return [_from(path, "GE_CORE_ACL_LIBRARY") if path.is_dir() else Candidate((explicit,), "GE_CORE_ACL_LIBRARY")]
    if runtime == "cpu":
        return [_from(cpu_folder(), "ge_core's CPU implementation")]
    places = [Candidate(NAMES, "the loader's search path")]
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        if os.environ.get(variable):
            places.append(_from(Path(os.environ[variable]) / "lib64", variable))
    for root in ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann"):
        places.append(_from(Path(root) / "lib64", "CANN's default folder"))
    return places


def prepare_cpu() -> None:
    """Tells the CPU implementation where the installed OpenVINO is, unless GE_CORE_OPENVINO already does."""
    if not os.environ.get("GE_CORE_OPENVINO"):
        folder = openvino_folder()
        if folder is not None:
            os.environ["GE_CORE_OPENVINO"] = str(folder)
