# SPDX-License-Identifier: Apache-2.0
"""Sanitizer builds of the CPU implementation of AscendCL, and the conformance cases run on them.

``python tests/tools/sanitized.py address thread`` runs every case that needs no OpenVINO; so does ``make sanitize``.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import acl_cpu_oms

ROOT = Path(__file__).parents[2]
FLAGS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"],
    "thread": ["-fsanitize=thread"],
}
OPTIONS = {
    "address": {"ASAN_OPTIONS": "detect_stack_use_after_return=1:detect_leaks=1"},
    "thread": {"TSAN_OPTIONS": "report_thread_leaks=0:second_deadlock_stack=1"},
}


class Build:
    """The 9.x library and both conformance programs, compiled with the sanitizer `kind` into `folder`.

    Files that are newer than all sources are kept.
    """

    def __init__(self, kind, folder, optimize="-O1"):
        self.kind, self.folder = kind, Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.flags = ["-std=c++17", optimize, "-g1", "-fPIC", "-pthread", *FLAGS[kind]]
        self.flags += ["-DCONFORMANCE_API=9", f"-I{ROOT / 'ge_core_pyx/abi'}", f"-I{ROOT / 'ge_core_pyx/acl_cpu'}"]
        library, cases = ROOT / "ge_core_pyx/acl_cpu", ROOT / "tests/acl_cpu/conformance"
        groups = {
            "library": sorted([*library.glob("rt/*.cpp"), *library.glob("mdl/*.cpp")]),
            "rt": sorted(cases.glob("rt_*.cpp")),
            "mdl": sorted(cases.glob("mdl_*.cpp")),
        }
        sources = [source for group in groups.values() for source in group]
        folders = {source.parent for source in sources} | {ROOT / "ge_core_pyx/abi"}
        self.newest = max(path.stat().st_mtime for folder in folders for path in folder.glob("*.[ch]*"))
        with ThreadPoolExecutor(os.cpu_count()) as jobs:
            objects = dict(zip(sources, jobs.map(self._compile, sources), strict=True))
        groups = {name: [objects[source] for source in group] for name, group in groups.items()}
        # The library finds out from its name that it is the 9.x one.
        library = self._link("libacl_rt.so", groups["library"], "-shared", "-Wl,-soname,libacl_rt.so", "-ldl", "-lrt")
        self.programs = {
            name: self._link(name, groups[name], library, "-Wl,-rpath,$ORIGIN", "-ldl") for name in ("rt", "mdl")
        }
        self.oms = self.folder / "oms"
        self.oms.mkdir(exist_ok=True)
        acl_cpu_oms.write(self.oms)

    def cases(self):
        """(program, case) of every case."""
        for name, program in self.programs.items():
            listed = self._start([program, "--list"]).stdout.splitlines()
            yield from ((name, line.split()[0]) for line in listed)

    def run(self, name, case):
        """What went wrong, or an empty string."""
        try:
            done = self._start([self.programs[name], case, *([self.oms] if name == "mdl" else [])])
        except subprocess.TimeoutExpired as late:
            return f"not done after {late.timeout} s"
        return "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout}{done.stderr}"

    def _start(self, command):
        clean = {key: value for key, value in os.environ.items() if key not in ("GE_CORE_CPU_CONFIG", "LD_PRELOAD")}
        environ = clean | OPTIONS[self.kind]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, env=environ)

    def _compile(self, source):
        target = self.folder / f"{source.parent.name}_{source.stem}.o"
        if not target.exists() or target.stat().st_mtime < self.newest:
            subprocess.run(["g++", *self.flags, "-c", source, "-o", target], check=True)
        return target

    def _link(self, name, objects, *arguments):
        target = self.folder / name
        subprocess.run(["g++", *self.flags, *objects, *arguments, "-o", target], check=True)
        return target


def main(kinds):
    failed = 0
    for kind in kinds:
        build = Build(kind, ROOT / "build/sanitize" / kind)
        cases = list(build.cases())
        with ThreadPoolExecutor(os.cpu_count()) as jobs:
            problems = list(jobs.map(build.run, *zip(*cases, strict=True)))
        for (program, case), problem in zip(cases, problems, strict=True):
            if problem:
                print(f"--- {kind}: {program} {case}\n{problem}", file=sys.stderr)
        wrong = sum(map(bool, problems))
        failed += wrong
        print(f"{kind}: {len(cases) - wrong} of {len(cases)} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(FLAGS)))
