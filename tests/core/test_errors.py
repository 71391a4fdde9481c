# SPDX-License-Identifier: Apache-2.0
"""Error codes as exceptions, and the base class that all exceptions of ge_core share."""

import importlib
import inspect
import pickle
import pkgutil

import pytest

import bench
import ge_core
import ge_core.cli
import ge_core.compiler
import ge_core.server
import ge_core.serving
from ge_core_pyx import errors
from ge_core_pyx.abi import xlist

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
IN_A_WORKER = {  # need Triton's own Python
    *("bench.served.floor_model", "bench.served.plain_model", "ge_core.serving.backend.model"),
}


@pytest.mark.parametrize(
    "code, kinds",
    [
        (207001, (errors.AclMemoryError, MemoryError)),
        (507046, (errors.AclTimeoutError, TimeoutError)),
        (107002, (errors.AclValueError, ValueError)),
        (107003, (errors.AclValueError, ValueError)),
        (507011, (errors.AclError, RuntimeError)),
    ],
)
def test_codes_are_the_exceptions_that_callers_know(code, kinds):
    error = errors.from_code(code, "NAME", "aclCall", "line one\nline two")
    assert all(isinstance(error, kind) for kind in kinds)
    assert str(error).startswith(f"aclCall returned {code} (NAME): line one line two")


def test_an_om_for_another_soc_says_what_to_do():
    error = errors.from_code(507008, "ACL_ERROR_RT_SOC_VERSION", "aclmdlLoadFromFileWithMem")
    assert "--soc_version" in error.hint and error.hint in str(error)


def test_the_table_has_the_codes_and_names_of_the_abi():
    names = {code: name for name, code in xlist.error_codes().items()}
    assert {code: row.name for code, row in errors.TABLE.items()} == {code: names[code] for code in errors.TABLE}
    assert list(errors.TABLE) == sorted(errors.TABLE)
    assert {507010, 507015, 507899, 507901} <= errors.STICKY < set(errors.TABLE)


def test_a_hint_is_a_sentence():
    for row in errors.TABLE.values():
        assert not row.hint or (row.hint.endswith(".") and row.hint[0].isupper()), row


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_user_can_name_every_error(kind):
    assert issubclass(kind, errors.GeCoreError)
    assert getattr(ge_core, kind.__name__) is kind
    assert kind.__name__ in ge_core.__all__


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_errors_survive_pickling(kind):
    given = (507015, "NAME", "aclCall", "text") if issubclass(kind, errors.AclError) else ("text",)
    error = pickle.loads(pickle.dumps(kind(*given)))
    assert (type(error), error.args, str(error)) == (kind, given, str(kind(*given)))
    if issubclass(kind, errors.AclError):
        assert (error.code, error.name, error.call, error.message) == given


def test_a_session_that_does_not_run_is_not_an_unsupported_one():
    assert not issubclass(errors.NotRunningError, errors.UnsupportedError)


PACKAGES = [ge_core.compiler, ge_core.serving, ge_core.server, ge_core.cli, bench]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_errors_of_the_upper_floors_share_the_base(package):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if found.name in IN_A_WORKER:
            continue
        for name, kind in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            if kind.__module__ == found.name and name.endswith("Error"):
                assert issubclass(kind, errors.GeCoreError), f"{found.name}.{name}"
