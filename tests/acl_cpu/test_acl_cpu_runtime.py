# SPDX-License-Identifier: Apache-2.0
"""The runtime rules of AscendCL, held case by case by a C++ program that knows only the C ABI.

The program is compiled once per release and run once per case. With ``GE_CORE_RUNTIME=npu`` it is linked against the
CANN at ``ASCEND_HOME_PATH``, and the cases that need the CPU implementation are skipped.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ge_core_pyx import locate

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "tests/acl_cpu/conformance").glob("rt_*.cpp"))
CASE = re.compile(r"^(CPU_)?CASE(_9)?\((\w+), \"[^\"]+\"\)", re.M)
ON_NPU = os.environ.get("GE_CORE_RUNTIME") == "npu"
COMPILER = shutil.which("g++") or shutil.which("c++")


def cases():
    for source in SOURCES:
        for cpu_only, newest_only, name in CASE.findall(source.read_text()):
            for api in ("9",) if newest_only else ("8.1", "9"):
                skip = pytest.mark.skip(reason="needs the CPU implementation")
                yield pytest.param(api, name, id=f"{api}-{name}", marks=[skip] if cpu_only and ON_NPU else [])


def library(api):
    """Folder and name of the library to link."""
    name = "acl_rt" if api == "9" else "ascendcl"
    if not ON_NPU:
        return locate.cpu_folder(api), name
    folder = Path(os.environ["ASCEND_HOME_PATH"]) / "lib64"
    if not (folder / f"lib{name}.so").exists():
        pytest.skip(f"this CANN has no lib{name}.so")
    return folder, name


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Compile the program for a release at its first use."""
    built = {}

    def build(api):
        if COMPILER is None:
            pytest.skip("no C++ compiler")
        if api not in built:
            folder, name = library(api)
            built[api] = tmp_path_factory.mktemp("conformance") / f"rt_{api}"
            command = [COMPILER, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
            command += [f"-DCONFORMANCE_API={api.split('.')[0]}", f"-I{ROOT / 'ge_core_pyx/abi'}"]
            command += [*SOURCES, "-o", built[api], f"-L{folder}", f"-l{name}", f"-Wl,-rpath,{folder}", "-ldl"]
            subprocess.run(command, check=True)
        return built[api]

    return build


def run(program, case, **environ):
    clean = {key: value for key, value in os.environ.items() if key not in ("GE_CORE_CPU_CONFIG", "LD_LIBRARY_PATH")}
    return subprocess.run([program, case], env=clean | environ, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(("api", "case"), list(cases()))
def test_runtime(program, api, case):
    result = run(program(api), case)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(ON_NPU, reason="needs the CPU implementation")
def test_a_broken_library_breaks_a_case(program):
    fault = '{"faults": [{"entry": "aclrtMemcpy", "kth": 2, "code": 507899}]}'
    result = run(program("8.1"), "memcpy_there_and_back", GE_CORE_CPU_CONFIG=fault)
    assert result.returncode == 1
    assert "507899, expected 0" in result.stderr
    assert "EE9999: aclrtMemcpy: injected fault [507899]" in result.stderr


def test_the_program_has_every_case(program):
    listed = subprocess.run([program("9"), "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    named = {param.values[1] for param in cases()}
    assert {line.split()[0] for line in listed} == named
    assert all(len(line.split()) >= 2 for line in listed), "every case names its section"
