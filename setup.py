# SPDX-License-Identifier: Apache-2.0
"""Build: the Cython core and the CPU implementation of AscendCL. Needs neither CANN nor OpenVINO.

GE_CORE_DEBUG=1 builds with bounds checks, line tracing and C assertions.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
sys.path.insert(0, str(ROOT))  # pip does not put it there
from ge_core_pyx.abi import xlist  # noqa: E402

DEBUG = os.environ.get("GE_CORE_DEBUG") == "1"
MODULES = [
    *("acl", "dlpack", "arrays", "device", "watchdog", "memory", "model", "slot", "range_slot", "slot_pool"),
    *("requests", "future", "executor", "batch"),
]
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": False,
    "embedsignature": True,
    "embedsignature.format": "python",
    "linetrace": DEBUG,
}
C_FLAGS = ["-O0", "-g"] if DEBUG else ["-O3", "-g0"]
# Generated loops compare Py_ssize_t with size_t; Python's own flags ask for a warning at each.
C_FLAGS += ["-Wall", "-Wno-sign-compare", "-Werror=incompatible-pointer-types"]
CXX_FLAGS = ["-std=c++17", "-O3", "-g1", "-fPIC", "-pthread", "-Wall", "-Wextra", "-fno-semantic-interposition"]
LINK_FLAGS = ["-shared", "-pthread", "-Wl,-rpath,$ORIGIN", "-Wl,-Bsymbolic-functions", "-Wl,-z,nodelete"]

HOOKS = "acl_cpu_*;"
SHARED_WITH_MDL = 'extern "C++" { acl_cpu::*; *acl_cpu::*; };'


def entries(releases, libraries):
    """What a library of the CPU implementation exports."""
    return [row.name for row in xlist.functions() if row.release in releases and row.library in libraries]


class BuildExt(build_ext):
    """Cython modules as usual, then the plain shared libraries in ge_core_pyx/acl_cpu/lib/{8.1,9}/."""

    def run(self):
        super().run()
        base = ROOT if self.inplace or self.editable_mode else Path(self.build_lib)
        self.build_acl_cpu(base / "ge_core_pyx/acl_cpu/lib")

    def get_outputs(self):
        libraries = ["8.1/libascendcl.so", "9/libacl_rt.so", "9/libacl_mdl.so", "9/libascendcl.so"]
        return super().get_outputs() + [f"{self.build_lib}/ge_core_pyx/acl_cpu/lib/{name}" for name in libraries]

    def build_acl_cpu(self, out):
        self.cxx = shlex.split(os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "g++")
        self.objects = Path(self.build_temp) / "acl_cpu"
        self.objects.mkdir(parents=True, exist_ok=True)
        groups = ("rt", "mdl", "compat")
        sources = {group: sorted((ROOT / "ge_core_pyx/acl_cpu" / group).glob("*.cpp")) for group in groups}
        headers = [*(ROOT / "ge_core_pyx/acl_cpu").rglob("*.h"), ROOT / "ge_core_pyx/abi/acl_abi.h", ROOT / "setup.py"]
        newest = max(header.stat().st_mtime for header in headers)
        with ThreadPoolExecutor(os.cpu_count()) as jobs:
            built = {
                group: list(jobs.map(lambda source: self.compile(source, newest), files))
                for group, files in sources.items()
            }
        v81, v9 = out / "8.1", out / "9"
        self.link(v81 / "libascendcl.so", built["rt"] + built["mdl"], [*entries({"V8"}, {"RT", "MDL"})], [HOOKS])
        rt = self.link(v9 / "libacl_rt.so", built["rt"], entries({"V8", "V9"}, {"RT"}), [HOOKS, SHARED_WITH_MDL])
        mdl = self.link(v9 / "libacl_mdl.so", built["mdl"], entries({"V8", "V9"}, {"MDL"}), [], [rt])
        # Its names are for the linker only: at load time those of the two others come first.
        every = entries({"V8", "V9"}, {"RT", "MDL"})
        self.link(v9 / "libascendcl.so", built["compat"], every, [], [rt, mdl], ["libacl_rt.so", "libacl_mdl.so"])

    def compile(self, source, newest_header):
        target = self.objects / f"{source.parent.name}_{source.stem}.o"
        if not target.exists() or target.stat().st_mtime < max(newest_header, source.stat().st_mtime):
            include = [f"-I{ROOT / 'ge_core_pyx/abi'}", f"-I{ROOT / 'ge_core_pyx/acl_cpu'}"]
            subprocess.check_call([*self.cxx, *CXX_FLAGS, *include, "-c", str(source), "-o", str(target)])
        return target

    def link(self, target, objects, exported, patterns, needed=(), auxiliary=()):
        inputs = [*objects, *needed, ROOT / "setup.py"]
        if target.exists() and target.stat().st_mtime > max(Path(path).stat().st_mtime for path in inputs):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        script = self.objects / f"{target.parent.name}_{target.stem}.map"
        names = " ".join(f"{name};" for name in exported)
        visible = f"global: {names} {' '.join(patterns)} " if names or patterns else ""
        script.write_text(f"{{ {visible}local: *; }};\n")
        libraries = ["-Wl,--no-as-needed", *map(str, needed)] if needed else []
        command = [*self.cxx, *LINK_FLAGS, f"-Wl,--version-script={script}", f"-Wl,-soname,{target.name}"]
        command += [f"-Wl,--auxiliary={name}" for name in auxiliary]
        subprocess.check_call([*command, *map(str, objects), *libraries, "-ldl", "-lrt", "-o", str(target)])
        return target


setup(
    ext_modules=cythonize(
        [
            Extension(
                f"ge_core_pyx.{name}",
                [f"ge_core_pyx/{name}.pyx"],
                include_dirs=["ge_core_pyx/abi"],
                depends=["ge_core_pyx/abi/acl_abi.h", "ge_core_pyx/abi/acl_table.h"],
                extra_compile_args=C_FLAGS,
                define_macros=[("CYTHON_TRACE", "1")] if DEBUG else [],
            )
            for name in MODULES
            if (ROOT / f"ge_core_pyx/{name}.pyx").exists()
        ],
        compiler_directives=DIRECTIVES,
    ),
    cmdclass={"build_ext": BuildExt},
)
