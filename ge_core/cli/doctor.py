# SPDX-License-Identifier: Apache-2.0
"""ge-core doctor: what is needed, what is there, and what to do about the difference."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ge_core.cli._app import app, print_json, print_table
from ge_core.serving import shm_space
from ge_core.serving.monitoring import host_limits
from ge_core_pyx import locate

OK = "found"
MISSING = "missing"
WARNING = "warning"
OPTIONAL = "not there"

_ASCEND = Path("/usr/local/Ascend")
_SHM_ADVISED = 256 << 20
_REGION = re.compile(r"triton_\w*shm_region_|ge_core_\d+_[0-9a-f]{8}_")
_TIME_LIMIT_S = 30
_PROBE = """
import json
from dataclasses import asdict
import ge_core
from ge_core.cli.info import _devices
found = ge_core.runtime_info()
print(json.dumps(asdict(found) | {"devices": _devices(found.kind, found.device_count)}))
"""


@dataclass(frozen=True)
class Check:
    """One line of the report. A `missing` one makes the command fail; `warning` and `not there` do not."""

    what: str
    state: str
    found: str
    remedy: str = ""


@app.command()
def doctor(
    runtime: Annotated[str | None, typer.Option(help="npu or cpu; default GE_CORE_RUNTIME, else npu.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check everything that running and serving needs; exit code 1 if a needed thing is missing."""
    kind = locate.runtime_name(runtime)
    checks = [*_runtime(kind), *(_npu() if kind == "npu" else _cpu()), *_host(), *_server()]
    missing = [check for check in checks if check.state == MISSING]
    if as_json:
        print_json({"runtime": kind, "ok": not missing, "checks": [asdict(check) for check in checks]})
    else:
        rows = [[check.state, check.what, check.found, check.remedy] for check in checks]
        print_table(f"runtime {kind}", ["", "what", "there", "what to do"], rows, width=160)
        print("everything needed is there" if not missing else f"{len(missing)} needed thing(s) missing")
    raise typer.Exit(1 if missing else 0)


# --- the runtime's library and devices --------------------------------------------------------------------------------


def _runtime(kind: str) -> Iterator[Check]:
    """Opens the library in a child process, which may hang or crash."""
    yield Check("GE_CORE_RUNTIME", OK, os.environ.get("GE_CORE_RUNTIME") or "not set: npu")
    try:
        packages = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH"))))
        environ = os.environ | {"GE_CORE_RUNTIME": kind, "PYTHONPATH": path}
        command = [sys.executable, "-c", _PROBE]
        child = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=_TIME_LIMIT_S, stdin=subprocess.DEVNULL
        )
        failure = _last_line(child.stderr) if child.returncode else ""
        if child.returncode < 0:
            failure = f"the library crashed (signal {-child.returncode})"
    except subprocess.TimeoutExpired:
        failure = f"no answer within {_TIME_LIMIT_S} s"
    if failure:
        advice = "source CANN's set_env.sh; without an NPU ask for the CPU: GE_CORE_RUNTIME=cpu"
        yield Check("AscendCL", MISSING, failure, advice if kind == "npu" else "reinstall ge_core")
        return
    found = json.loads(child.stdout.splitlines()[-1])
    yield Check("AscendCL", OK, ", ".join(found["libraries"]))
    yield Check("CANN version", OK, found["cann_version"] or "unknown")
    yield Check(
        "SoC", OK, found["soc_name"], f"compile with --soc_version={found['soc_name']}" if kind == "npu" else ""
    )
    memory = ", ".join(
        f"{row['free_bytes'] >> 20:,} of {row['total_bytes'] >> 20:,} MiB free" for row in found["devices"]
    )
    yield Check("devices", OK, f"{found['device_count']}: {memory}")


def _last_line(text: str) -> str:
    """The message of a traceback, without the name of its exception."""
    line = next(iter(text.strip().splitlines()[-1:]), "it ended without a word")
    return re.sub(r"^[\w.]+: ", "", line)


def _cpu() -> Iterator[Check]:
    chosen = os.environ.get("GE_CORE_OPENVINO")
    folder = Path(chosen) if chosen else locate.openvino_folder()
    there = folder is not None and (folder.is_file() or any(folder.glob("**/libopenvino_c.so*")))
    remedy = (
        "correct GE_CORE_OPENVINO" if chosen else "pip install 'ge_core[cpu]'; without it only synthetic models run"
    )
    yield Check("OpenVINO", OK if there else MISSING, str(folder or "not installed"), "" if there else remedy)
    onnx = importlib.util.find_spec("onnx") is not None
    yield Check("onnx, for compile", OK if onnx else OPTIONAL, "", "" if onnx else "pip install 'ge_core[cpu]'")
    config = os.environ.get("GE_CORE_CPU_CONFIG")
    if config:
        yield Check("GE_CORE_CPU_CONFIG", *_cpu_config(config))


def _cpu_config(config: str) -> tuple[str, str, str]:
    try:
        text = config if config.lstrip().startswith("{") else Path(config).read_text()
        json.loads(text)
    except (OSError, ValueError) as error:
        return MISSING, str(error), "give JSON, or the path of a JSON file"
    return OK, config, ""


def _npu() -> Iterator[Check]:
    chips = sorted(Path("/dev").glob("davinci[0-9]*"), key=lambda path: (len(path.name), path.name))
    chips += sorted(Path("/dev").glob("vdavinci[0-9]*"))
    names = ", ".join(map(str, chips))
    yield _needed("/dev/davinci<N>", bool(chips), names, "docker run --device=/dev/davinci0 (one for each chip)")
    for node in ("davinci_manager", "devmm_svm", "hisi_hdc"):
        yield _needed(f"/dev/{node}", Path(f"/dev/{node}").exists(), "", f"docker run --device=/dev/{node}")
    for path in (*chips, *(Path(f"/dev/{name}") for name in ("davinci_manager", "devmm_svm", "hisi_hdc"))):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            yield Check(
                f"access to {path}", MISSING, "permission denied", "join the driver's group (HwHiAiUser), or chgrp"
            )
    yield from _driver()
    yield from _toolkit()
    yield from _library_path()
    mask = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    yield Check("ASCEND_RT_VISIBLE_DEVICES", *(visible_devices(mask) if mask is not None else (OK, "not set: all", "")))


def _needed(what: str, there: bool, found: str, remedy: str) -> Check:
    return Check(what, OK if there else MISSING, found, "" if there else remedy)


def _driver() -> Iterator[Check]:
    driver = _ASCEND / "driver"
    libraries = [*driver.glob("lib64/libascend_hal.so"), *driver.glob("lib64/*/libascend_hal.so")]
    mount = f"docker run -v {driver}:{driver}:ro"
    yield _needed("libascend_hal.so", bool(libraries), ", ".join(map(str, libraries)), mount)
    for title, path in (("driver version", driver / "version.info"), ("firmware", _ASCEND / "firmware/version.info")):
        version = _version(path)
        remedy = "" if version else f"docker run -v {path}:{path}:ro"
        yield Check(title, OK if version else OPTIONAL, version or f"no {path}", remedy)
    for path in (Path("/etc/ascend_install.info"), Path("/usr/local/dcmi")):
        there = path.exists()
        yield Check(str(path), OK if there else OPTIONAL, "", "" if there else f"docker run -v {path}:{path}:ro")
    smi = shutil.which("npu-smi")
    remedy = "" if smi else "docker run -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro"
    yield Check("npu-smi", OK if smi else OPTIONAL, smi or "", remedy)


def _version(path: Path) -> str | None:
    try:
        found = re.search(r"^[Vv]ersion\s*=\s*(\S+)", path.read_text(errors="replace"), re.M)
    except OSError:
        return None
    return found[1] if found else None


def _toolkit() -> Iterator[Check]:
    homes = {os.environ.get(name, "") for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")} - {""}
    if not homes:
        homes = {str(path) for path in (_ASCEND / "ascend-toolkit/latest", _ASCEND / "cann") if path.is_dir()}
    there = [home for home in sorted(homes) if Path(home).is_dir()]
    yield _needed("CANN", bool(there), ", ".join(there), "install CANN and source its set_env.sh")
    for home in there:
        for file in (Path(home) / "version.cfg", *sorted(Path(home).glob("*-linux/ascend_toolkit_install.info"))):
            if file.is_file():
                lines = file.read_text(errors="replace").splitlines()
                yield Check(
                    "CANN version file", OK, next((line for line in lines if "version" in line.lower()), str(file))
                )
                break
    opp = os.environ.get("ASCEND_OPP_PATH")
    state = OK if opp and Path(opp).is_dir() else WARNING
    yield Check("ASCEND_OPP_PATH", state, opp or "not set", "" if state == OK else "source CANN's set_env.sh")


def _library_path() -> Iterator[Check]:
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    stubs = [folder for folder in folders if {"devlib", "stub", "stubs"} & set(Path(folder).parts)]
    if stubs:
        yield Check("LD_LIBRARY_PATH", MISSING, f"link-time stubs: {', '.join(stubs)}", "take these folders out")
    trees = {
        str(Path(folder).resolve())
        for folder in folders
        if any((Path(folder) / name).exists() for name in locate.NAMES)
    }
    if len(trees) > 1:
        yield Check("LD_LIBRARY_PATH", WARNING, f"several CANN trees: {', '.join(sorted(trees))}", "keep one")
    if not any("driver/lib64" in folder for folder in folders) and (_ASCEND / "driver/lib64").is_dir():
        remedy = f"add {_ASCEND}/driver/lib64/driver, unless ldconfig knows it"
        yield Check("LD_LIBRARY_PATH", WARNING, "has no driver folder", remedy)


def visible_devices(mask: str) -> tuple[str, str, str]:
    """State, text and remedy for ASCEND_RT_VISIBLE_DEVICES, which the runtime reads only up to the first bad entry."""
    ids, problem = host_limits.read_mask(mask)
    if problem:
        return MISSING, problem, "give ascending ids without blanks, for example 0,1"
    return OK, ", ".join(f"device {logical} is {physical}" for logical, physical in enumerate(ids)), ""


# --- the host and the server ------------------------------------------------------------------------------------------


def _host() -> Iterator[Check]:
    from ge_core.serving import options

    for sentence in options.unknown_environment(os.environ):
        yield Check("environment", WARNING, sentence, "correct or unset it")
    there = shm_space.space()
    if there is None:
        yield Check("/dev/shm", MISSING, "there is none", "mount a tmpfs there (docker does)")
        return
    free, total = there
    small = free < _SHM_ADVISED
    yield Check(
        "/dev/shm",
        WARNING if small else OK,
        f"{free >> 20:,} of {total >> 20:,} MiB free",
        "docker run --shm-size=1g; every Triton instance keeps its tensors there" if small else "",
    )
    orphans = orphan_regions()
    if orphans:
        size = sum(path.stat().st_size for path in orphans if path.exists())
        names = ", ".join(path.name for path in orphans)
        text = f"{len(orphans)} that no visible process uses, {size >> 20:,} MiB: {names}"
        yield Check("Triton regions", WARNING, text, f"rm {' '.join(map(str, orphans))}")


def orphan_regions(folder: Path = shm_space.FOLDER) -> list[Path]:
    """Shared memory of Triton's Python backend and of `ge-core serve` that no visible process maps any more."""
    mine = [path for path in folder.iterdir() if os.getuid() in (0, path.lstat().st_uid)]
    regions = [path for path in mine if _REGION.match(path.name)]
    if not regions:
        return []
    names = {os.fsencode(path) for path in regions}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            content = maps.read_bytes()
        except OSError:
            continue
        names = {name for name in names if name not in content}
    return sorted(Path(os.fsdecode(name)) for name in names)


def _server() -> Iterator[Check]:
    from ge_core.server import tritonserver

    installation, check = _try("tritonserver, for serve", tritonserver.find, lambda found: str(found.binary))
    yield check
    if installation and installation.libpython:
        _, check = _try(
            f"{installation.libpython}, for serve", lambda: tritonserver.find_libpython(installation.libpython), str
        )
        yield check


def _try(what: str, find: Callable, text: Callable) -> tuple[Any, Check]:
    try:
        found = find()
    except RuntimeError as error:
        return None, Check(what, OPTIONAL, "", str(error))
    return found, Check(what, OK, text(found))
