# SPDX-License-Identifier: Apache-2.0
"""A bounded part of ``make sanitize``: the cases where threads, lifetimes and damaged files meet."""

import shutil
import subprocess

import pytest
import sanitized

CASES = {
    "rt": (
        "a_hanging_task_is_ended_by_a_forced_reset",
        "a_lost_device_comes_back_by_forced_reset",
        "a_process_may_exit_with_work_in_flight",
        "random_calls_of_64_threads_with_random_faults",
        "streams_share_the_copy_engine",
    ),
    "mdl": (
        "aipp_dynamic_executes",
        "all_dtypes",
        "batch_gears",
        "context_drops_models",
        "dead_handles",
        "execute_freed_memory",
        "load_from_threads",
        "load_with_memory",
        "mixed_calls_of_64_threads_with_random_faults",
        "one_id_from_threads",
        "range_null_output",
        "reset_while_busy",
        "threads_use_what_others_destroy",
        "two_loads_at_once",
        "unload_while_busy",
    ),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
]


@pytest.fixture(scope="module", params=list(sanitized.FLAGS))
def build(request):
    for library in ("libasan.so", "libubsan.so", "libtsan.so"):
        found = subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
        if "/" not in found.stdout:
            pytest.skip(f"this compiler has no {library}")
    return sanitized.Build(request.param, sanitized.ROOT / "build/sanitize" / f"quick-{request.param}", "-O0")


@pytest.mark.parametrize(("program", "case"), [(program, case) for program in CASES for case in CASES[program]])
def test_sanitized(build, program, case):
    assert build.run(program, case) == ""


def test_the_library_is_instrumented(build):
    symbols = subprocess.run(["nm", "-D", build.folder / "libacl_rt.so"], capture_output=True, text=True, check=True)
    wanted = {"address": ("__asan_init", "__ubsan_handle"), "thread": ("__tsan_init",)}
    assert all(name in symbols.stdout for name in wanted[build.kind])


def test_every_chosen_case_exists(build):
    assert {(program, case) for program in CASES for case in CASES[program]} <= set(build.cases())
