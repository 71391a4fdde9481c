# SPDX-License-Identifier: Apache-2.0
"""Writes the last part of README.md: what each entry point does here, as the built libraries and the sources say.

``python ge_core_pyx/acl_cpu/readme.py`` writes it, ``--check`` tells by its exit code whether it is up to date. Entry
points that nobody wrote are weak symbols of the built library. One that differs from AscendCL on purpose says so behind
the macro that opens it: ``ACL_CPU_ENTRY(name);  // approximate: how``.
"""

import re
import subprocess
import sys
from pathlib import Path

from ge_core_pyx.abi import xlist

HERE = Path(__file__).parent
MARK = re.compile(r"(?:ACL_CPU_ENTRY(?:_OR)?\(|(?:enter|count_call)\(k_)(\w+)[^\n]*\);(?:\s*// approximate: ([^\n]*))?")
GETTER = re.compile(r"^EXCEPTION_GETTER\((\w+),", re.M)
AREAS = {
    "rt/process.cpp": "The process",
    "rt/device.cpp": "Devices",
    "rt/context.cpp": "Contexts",
    "rt/options.cpp": "Options",
    "rt/stream.cpp": "Streams",
    "rt/event.cpp": "Events",
    "rt/memory.cpp": "Memory",
    "rt/copy.cpp": "Copies and fills",
    "rt/callback.cpp": "Callbacks",
    "rt/data.cpp": "Data buffers and types",
    "rt/diagnostics.cpp": "Errors and log",
    "mdl/load.cpp": "Models: load, gears, execute",
    "mdl/desc.cpp": "Models: description",
    "mdl/dataset.cpp": "Models: datasets",
    "mdl/tensor_desc.cpp": "Tensor descriptors",
    "mdl/aipp.cpp": "Models: AIPP",
}
ABSENT = {
    "Captured graphs": r"aclmdlRI",
    "Bundles of models": r"aclmdlBundle",
    "Queues, dump, operator descriptions, external weights": r"aclmdl",
    "Virtual memory, sharing memory and events between processes, managed memory": (
        r"aclrt(Mem(?!cpy|UceRepair)|.*Physical|MapMem|UnmapMem|Re\w+MemAddress|Ipc|HostMemMap|CheckMemType)"
    ),
    "Allocators, buffers of queues": r"aclrt(Allocator|AllocBuf|FreeBuf)",
    "Copies through descriptors and symbols, cache operations": r"aclrt(Memcpy|GetMemcpy|SetMemcpy|Cmo)",
    "The rest": r"",
}

BEGIN = "## Entry points\n"
INTRODUCTION = """\

**faithful**: does what AscendCL documents. **approximate**: see the note. **absent**: exists, returns "not supported"
({code}; NULL or 0 where the result is no error code) and says so in `aclGetRecentErrMsg`. Of the {total} entry points
of 9.x, {faithful} are faithful, {approximate} approximate, {absent} absent. 9: in 9.x only.

This part is written by `readme.py`, from the sources and the built libraries.
"""


def weak_symbols():
    names = set()
    for path in (HERE / "lib/9").glob("libacl_*.so"):
        symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
        names |= set(re.findall(r" W (acl\w+)$", symbols.stdout, re.M))
    return names


def implemented():
    """name → (area, note or None)."""
    found = {}
    for source in sorted([*HERE.glob("rt/*.cpp"), *HERE.glob("mdl/*.cpp")]):
        text = source.read_text()
        marks = [*MARK.findall(text), *((name, "") for name in GETTER.findall(text))]
        for name, note in marks:
            if name != "name":  # of the macro that writes entry points
                found[name] = (AREAS[source.relative_to(HERE).as_posix()], note or None)
    return found


def entry_point_tables():
    rows, weak, marked = {row.name: row for row in xlist.functions()}, weak_symbols(), implemented()
    if set(rows) - weak != set(marked):
        raise SystemExit(
            f"built and marked entry points differ: {sorted((set(rows) - weak) ^ set(marked))}; build first"
        )
    code = re.search(r"aclError code = (ACL_\w+)\);", (HERE / "rt/runtime.h").read_text()).group(1)
    code = xlist.error_codes()[code]
    approximate = sum(note is not None for _, note in marked.values())
    counts = {"total": len(rows), "approximate": approximate, "absent": len(weak)}
    counts["faithful"] = len(marked) - approximate
    lines = [BEGIN + INTRODUCTION.format(code=code, **counts)]
    for area in AREAS.values():
        lines += [f"### {area}\n", "| entry point | | note |", "|---|---|---|"]
        for name, row in rows.items():
            if name in marked and marked[name][0] == area:
                note = marked[name][1]
                kind = "approximate" if note else "faithful"
                lines.append(f"| `{name}`{' 9' if row.release == 'V9' else ''} | {kind} | {note or ''} |")
        lines.append("")
    lines += ["### Absent\n", "| | entry points |", "|---|---|"]
    left = [name for name in rows if name in weak]
    for family, pattern in ABSENT.items():
        names = [name for name in left if re.match(pattern, name)]
        left = [name for name in left if name not in names]
        listed = ", ".join(f"`{name}`{' 9' if rows[name].release == 'V9' else ''}" for name in names)
        lines.append(f"| {family} | {listed} |")
    return "\n".join(lines) + "\n"


def main(arguments):
    path = HERE / "README.md"
    before = path.read_text()
    after = before.split(BEGIN)[0] + entry_point_tables()
    if arguments == ["--check"]:
        return 0 if before == after else 1
    path.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
