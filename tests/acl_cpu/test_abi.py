# SPDX-License-Identifier: Apache-2.0
"""acl_abi.h against the machine-readable record of AscendCL's headers, where that record is given.

GE_CORE_ABI_JSON names it; default ../shared/facts/acl-abi.json beside the checkout. Nothing else needs it.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ge_core_pyx.abi import xlist

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "ge_core_pyx/abi/acl_abi.h"
RECORD = Path(os.environ.get("GE_CORE_ABI_JSON", ROOT.parent / "shared/facts/acl-abi.json"))

needs_record = pytest.mark.skipif(not RECORD.is_file(), reason=f"{RECORD.name} is not given")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORD.read_text())


def run_c(tmp_path, body):
    source = tmp_path / "check.c"
    source.write_text(f'#include <stdio.h>\n#include "acl_abi.h"\n{body}\n')
    binary = tmp_path / "check"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(binary)], check=True)
    return subprocess.run([binary], check=True, capture_output=True, text=True).stdout


@needs_record
def test_every_exported_core_function_is_listed_and_no_other(record):
    wanted = {
        f["name"]: ("V8" if f["since"] == "8.1" else "V9", "RT" if f["exported_by_newest"] == "libacl_rt.so" else "MDL")
        for f in record["functions"]
        if f["core"] and f["exported_by_newest"]
    }
    assert {row.name: (row.release, row.library) for row in xlist.functions()} == wanted
    assert len(wanted) == 402


@needs_record
@needs_compiler
def test_prototypes_are_the_recorded_ones(record, tmp_path):
    known = {f["name"]: f for f in record["functions"]}
    checks = []
    for name in (row.name for row in xlist.functions()):
        entry = known[name]
        types = [parameter["type"] for parameter in entry["params"]]
        # An array parameter is a pointer: "int64_t [][2]" → int64_t (*)[2].
        types = [re.sub(r"^(.*?)\s*\[\](\[.*\])$", r"\1 (*)\2", text) for text in types]
        arguments = ", ".join(types) or "void"
        if entry.get("variadic"):
            arguments += ", ..."
        checks.append(f"{entry['return']} (*p_{name})({arguments}) = &{name}; (void)p_{name};")
    source = tmp_path / "prototypes.c"
    source.write_text('#include "acl_abi.h"\nvoid all(void);\nvoid all(void) {\n' + "\n".join(checks) + "\n}\n")
    flags = ["-std=gnu11", "-Wall", "-Werror", f"-I{HEADER.parent}", "-c", "-o", str(tmp_path / "prototypes.o")]
    subprocess.run(["cc", *flags, str(source)], check=True)


@needs_record
@needs_compiler
def test_enums_constants_and_errors_have_the_recorded_values(record, tmp_path):
    text = HEADER.read_text()
    values = {}
    for enum, members in record["enums"].items():
        if re.search(rf"}} {enum};", text):
            values |= members
            values[f"sizeof({enum})"] = 4
    listed = xlist.error_codes()
    values |= {name: code for name, code in record["errors"].items() if name in listed}
    assert {name for name, code in record["errors"].items() if code} <= set(values)
    for name, value in record["defines"].items():
        if re.search(rf"#define {name}\b", text) and isinstance(value, int):
            values[name] = value
    lines = "\n".join(f'printf("{name} %lld\\n", (long long)({name}));' for name in values)
    printed = dict(line.rsplit(" ", 1) for line in run_c(tmp_path, f"int main(void) {{\n{lines}\n}}").splitlines())
    wrapped = {name: value - 2**64 if value >= 2**63 else value for name, value in values.items()}
    assert {name: int(value) for name, value in printed.items()} == wrapped


@needs_record
@needs_compiler
def test_structs_have_the_recorded_layout(record, tmp_path):
    text = HEADER.read_text()
    expected, lines = {}, []
    for name, struct in record["structs"].items():
        if not re.search(rf"}} {name};", text):
            continue
        expected[name] = struct.get("sizeof_newest", struct["sizeof"])
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field in struct.get("fields_newest", struct["fields"]):
            if "offset" not in field:  # a bit field has none
                continue
            key = f"{name}.{field['name']}"
            expected[key] = (field["offset"], field["size"])
            member = f"offsetof({name}, {field['name']}), sizeof((({name} *)0)->{field['name']})"
            lines.append(f'printf("{key} %zu %zu\\n", {member});')
    assert len(expected) > 200
    printed = {}
    for line in run_c(tmp_path, "int main(void) {\n" + "\n".join(lines) + "\n}").splitlines():
        key, *numbers = line.split()
        printed[key] = tuple(map(int, numbers)) if len(numbers) == 2 else int(numbers[0])
    assert printed == expected


@needs_compiler
def test_a_wrong_value_would_be_seen(tmp_path):
    """The negative control: the program above does print what the compiler computed."""
    out = run_c(tmp_path, 'int main(void) { printf("%d %zu\\n", ACL_BF16, sizeof(aclmdlIODims)); }')
    assert out.split() == ["27", "1160"]


def test_lists_that_are_not_there_or_have_other_fields_are_refused():
    assert len(xlist.functions()) == 402 and "aclInit" in xlist.called_functions()
    with pytest.raises(ValueError, match=r"acl_abi\.h has no X-list ACL_NOTHING"):
        xlist.rows("acl_abi.h", "ACL_NOTHING", 1)
    with pytest.raises(ValueError, match=r"ACL_ERRORS: expected 3 fields, got X\(ACL_ERROR_INVALID_PARAM, 100000\)"):
        xlist.rows("acl_abi.h", "ACL_ERRORS", 3)
