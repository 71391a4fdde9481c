# SPDX-License-Identifier: Apache-2.0
"""The hand-written stubs of the compiled modules say what the modules have: names, parameters, defaults."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "ge_core_pyx").glob("*.pyx"))
CONSTRUCTOR = re.compile(r"^    def __c?init__\(\s*self,?\s*(.*?),?\s*\):$", re.MULTILINE | re.DOTALL)

USER = """
from typing import Any

import numpy as np
import ge_core

with ge_core.InferenceSession("m.om", runtime="cpu", slots=2) as session:
    first: list[np.ndarray[Any, Any]] = session.run(None, {"x": np.zeros(3)})
    future: ge_core.Future = session.submit({"x": np.zeros(3)}, ["y"])
    future.result(timeout=1.5)[0].sum()
    with session.borrow(rows=2) as batch:
        batch.inputs["x"][:] = 0
        batch.run()
    spec: ge_core.TensorSpec = session.get_inputs()[0]
    size: int = spec.nbytes
"""
MISTAKES = {
    'ge_core.TensorSpec("x").nbyte\n': "nbyte",
    "def f(batch: ge_core.Batch) -> None:\n    batch.write(0, 'x', 1)\n": "incompatible type",
    "def f(future: ge_core.Future) -> None:\n    future.result(wait=1)\n": "Unexpected keyword argument",
}


def parameters(arguments):
    """(name, default as text or None) of a function in a stub, without self."""
    names = [argument.arg for argument in arguments.args]
    defaults = [None] * (len(names) - len(arguments.defaults)) + [ast.unparse(node) for node in arguments.defaults]
    assert not (arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg)
    return [pair for pair in zip(names, defaults, strict=True) if pair[0] != "self"]


def real_parameters(function):
    return [
        (name, None if parameter.default is parameter.empty else repr(parameter.default))
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    ]


def constructor(module, name):
    """Parameters of a class's __init__ or __cinit__, which only its source tells."""
    source = (ROOT / f"ge_core_pyx/{module.__name__.rpartition('.')[2]}.pyx").read_text()
    body = re.split(rf"^(?:cdef )?class {name}\b.*:$", source, maxsplit=1, flags=re.MULTILINE)[1]
    found = CONSTRUCTOR.search(re.split(r"^(?:@|cdef |class |def |cpdef )", body, maxsplit=1, flags=re.MULTILINE)[0])
    pairs = []
    for item in re.split(r",\s*", found.group(1)) if found else ():
        text, _, default = item.removesuffix(" not None").partition("=")
        pairs.append((text.split()[-1], default or None))
    return pairs


def public(names):
    return {name for name in names if not name.startswith("_")}


def is_own(module, name):
    value = getattr(module, name)
    if inspect.ismodule(value):
        return False
    return name.isupper() or getattr(value, "__module__", None) == module.__name__


def compare_class(module, stub):
    real = getattr(module, stub.name)
    if stub.decorator_list:  # a dataclass
        fields = [node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)]
        assert fields == [name for name, _ in real_parameters(real)]
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    attributes = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    inherited = {name for base in real.__bases__ for name in dir(base)}
    assert public(vars(real)) - attributes - inherited == public(functions), f"{module.__name__}.{stub.name}"
    bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in stub.bases]
    assert bases == [base.__name__ for base in real.__bases__ if base is not object]
    for name, node in functions.items():
        what = f"{module.__name__}.{stub.name}.{name}"
        if name == "__init__":
            assert parameters(node.args) == constructor(module, stub.name), what
        elif any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list):
            assert not callable(vars(real)[name]), what
        elif name.startswith("__"):
            assert name in vars(real), what
        else:
            assert parameters(node.args) == real_parameters(vars(real)[name]), what
    if "__init__" not in functions:
        assert not constructor(module, stub.name) or stub.decorator_list, f"{module.__name__}.{stub.name}: no __init__"


@pytest.mark.parametrize("name", MODULES)
def test_a_stub_says_what_the_module_has(name):
    module = importlib.import_module(f"ge_core_pyx.{name}")
    nodes = ast.parse((ROOT / f"ge_core_pyx/{name}.pyi").read_text()).body
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    constants = {node.target.id for node in nodes if isinstance(node, ast.AnnAssign)}
    assert {own for own in public(vars(module)) if is_own(module, own)} == {*functions, *classes, *constants}
    for node in functions.values():
        assert parameters(node.args) == real_parameters(getattr(module, node.name)), node.name
    for node in classes.values():
        compare_class(module, node)


def check_types(path, text):
    path.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", path.parent, path]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_program_of_a_user_has_its_types_checked(tmp_path):
    pytest.importorskip("mypy")
    good = check_types(tmp_path / "good.py", USER)
    assert good.returncode == 0, good.stdout
    bad = check_types(tmp_path / "bad.py", "import ge_core\n" + "".join(MISTAKES))
    for message in MISTAKES.values():
        assert message in bad.stdout
