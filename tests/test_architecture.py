# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md lists every folder and module, and names files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/architecture.md").read_text()
PACKAGES = ("ge_core_pyx", "ge_core", "bench")
CPP_FOLDERS = ("rt", "mdl", "compat")  # of ge_core_pyx/acl_cpu: listed by folder only


def section(title):
    return re.split(rf"^## {title}$", TEXT, flags=re.M)[1].split("\n## ")[0]


def rooms():
    """The files that each folder's table lists."""
    found, folder = {}, None
    for line in section("Rooms").splitlines():
        if heading := re.match(r"### `([\w/]+)/`", line):
            folder = heading[1]
            found[folder] = []
        elif folder and (row := re.match(r"\| `([\w.]+)` \|", line)):
            found[folder].append(row[1])
    return found


def modules():
    """The Python and Cython files of the tree, by folder; a package is its folder."""
    found = {f"ge_core_pyx/acl_cpu/{name}": set() for name in CPP_FOLDERS}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.suffix in (".py", ".pyx"):
                files = found.setdefault(str(path.parent.relative_to(ROOT)), set())
                files |= {path.name} - {"__init__.py"}
    return found


def test_every_folder_is_a_room_and_no_other():
    assert set(rooms()) == set(modules())


@pytest.mark.parametrize("folder", sorted(modules()))
def test_every_module_is_listed(folder):
    assert sorted(modules()[folder] - set(rooms().get(folder, ()))) == []


@pytest.mark.parametrize("folder", sorted(rooms()))
def test_every_listed_file_exists_once(folder):
    files = rooms()[folder]
    assert [name for name in files if not (ROOT / folder / name).is_file()] == []
    assert len(files) == len(set(files))


def named(text):
    """Paths in backticks that begin with a folder of the repository, and links to its files."""
    paths = re.findall(r"`((?:ge_core_pyx|ge_core|bench|tests|docs|triton_model)/[\w./]*)`", text)
    return {*paths, *(f"docs/{link}" for link in re.findall(r"\]\(([\w./]+)\)", text))}


def test_every_file_that_is_named_exists():
    assert len(named(section("Recipes"))) > 30
    assert [path for path in sorted(named(TEXT)) if not (ROOT / path).exists()] == []


def test_readme_leads_here():
    assert "(docs/architecture.md)" in (ROOT / "README.md").read_text()
