"""Error codes as exceptions."""

import pytest

from ge_core_pyx import errors
from ge_core_pyx.abi import xlist


@pytest.mark.parametrize(
    "code, kinds",
    [
        (207001, (errors.AclMemoryError, MemoryError)),
        (507046, (errors.AclTimeoutError, TimeoutError)),
        (107002, (errors.AclValueError, ValueError)),
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


def test_every_code_is_one_of_the_abi():
    known = set(xlist.error_codes().values())
    assert known >= errors.STICKY | errors._MEMORY | errors._TIMEOUT
