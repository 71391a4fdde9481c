"""Imports only look down, and importing ge_core costs nothing it does not need."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOOR = {
    "errors": 1, "locate": 1, "dtypes": 1, "om": 1, "acl": 1, "dlpack": 1, "arrays": 1, "feeds": 1, "device": 2,
    "memory": 2, "watchdog": 3, "model": 3, "slot": 4, "executor": 4, "batch": 4,
}  # fmt: skip
UPPER = {"cli": 6, "triton_backend": 6}  # every other module of ge_core: 5
IMPORT = re.compile(
    r"^\s*(?:from\s+(ge_core(?:_pyx)?)((?:\.\w+)*)\s+c?import\s+([^\n#]+)|c?import\s+(ge_core\w*)((?:\.\w+)*))", re.M
)


def imports(source):
    """(package, module) of every import of our own, `from package import module` included."""
    for package, dotted, names, plain, plain_dotted in IMPORT.findall(source.read_text()):
        head, modules = (package, dotted) if package else (plain, plain_dotted)
        if modules:
            yield head, modules.split(".")[1]
        elif package:
            yield from ((head, name.split()[0]) for name in names.strip(" (").split(",") if name.strip())


@pytest.mark.parametrize("source", sorted((ROOT / "ge_core_pyx").glob("*.p*")), ids=lambda path: path.name)
def test_native_modules_only_look_down(source):
    own = FLOOR.get(source.stem, 0)
    for package, module in imports(source):
        assert package == "ge_core_pyx", f"{source.name} reaches up into {package}"
        assert FLOOR[module] <= own, f"{source.name} (floor {own}) imports {module}"


@pytest.mark.parametrize(
    "source", sorted((ROOT / "ge_core").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_python_modules_only_look_down(source):
    inside = source.relative_to(ROOT / "ge_core").parts[0].removesuffix(".py")
    if UPPER.get(inside) == 6:
        return
    for package, module in imports(source):
        assert not (package == "ge_core" and module in UPPER), f"{source.name} imports {module}, a floor above"


def test_the_scan_sees_imports():
    found = set(imports(ROOT / "ge_core_pyx/executor.pyx"))
    assert ("ge_core_pyx", "model") in found and ("ge_core_pyx", "acl") in found


def test_importing_ge_core_opens_nothing_and_needs_no_command_line():
    code = (
        "import sys, ge_core\n"
        "heavy = {'typer', 'rich', 'onnx', 'openvino', 'tritonclient'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert 'libascendcl' not in open('/proc/self/maps').read()\n"
        "assert 'libacl_rt' not in open('/proc/self/maps').read()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("package", ["ge_core", "ge_core_pyx"])
def test_only_locate_knows_library_names_and_only_acl_opens_them(package):
    for source in (ROOT / package).rglob("*.py*"):
        if source.suffix not in (".py", ".pyx", ".pxd"):
            continue
        text = source.read_text()
        if source.name != "locate.py":
            assert not re.search(r"lib(ascendcl|acl_rt|acl_mdl)\.so", text), source
        if source.name != "acl.pyx":
            assert "dlopen(" not in text, source
        if source.name != "memory.pyx":
            assert "api.aclrtMalloc" not in text, source
        if source.name != "slot.pyx":
            assert "api.aclmdlExecute" not in text, source
