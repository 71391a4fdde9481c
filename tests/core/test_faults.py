# SPDX-License-Identifier: Apache-2.0
"""Every fault, at every entry point of AscendCL that the core uses, one at a time; faults.py has the scenario."""

import gc
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faults
import pytest

from ge_core_pyx import acl

SUPPORT = Path(__file__).parents[1] / "support"
# Each a class of its own: refused, memory, failed, of the device itself, lost.
CODES = (100000, 107002, 207001, 507011, 507015, 507901)
RICH = ("batch", "unbounded")  # the kinds of most calls: every one of theirs fails once
OPTIONS = {"dims": {"execute_timeout_ms": 60_000}, "range": {"execute_timeout_ms": 60_000}}


@pytest.fixture(autouse=True)
def no_leaks():
    """As everywhere, but releases fail here on purpose; each case counts them itself."""
    before = acl.live_handles()
    yield
    gc.collect()
    assert acl.live_handles() == before


CHILDREN = [(effect, kind) for effect in ("task", "delay", "hang", "device_lost") for kind in ("batch", "unbounded")]


@pytest.fixture(scope="module", autouse=True)
def children(tmp_path_factory):
    """A process per effect and kind, as a lost device must not meet other tests; they run beside the first ones."""
    folder = tmp_path_factory.mktemp("oms")

    def run(case):
        (folder / "-".join(case)).mkdir()
        command = [sys.executable, "-W", "error", SUPPORT / "faults.py", *case, folder / "-".join(case)]
        return subprocess.run(command, capture_output=True, text=True, timeout=6000)

    with ThreadPoolExecutor(1) as jobs:
        yield {case: jobs.submit(run, case) for case in CHILDREN}
        jobs.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    gc.collect()
    gc.freeze()  # each case collects garbage several times: not what all the tests before have left alive
    folder = tmp_path_factory.mktemp("oms")
    made = {kind: faults.Trial(faults.Model(folder, kind), **OPTIONS.get(kind, {})) for kind in faults.KINDS}
    yield made
    for trial in made.values():
        trial.close()
    gc.unfreeze()


def test_the_scenarios_use_every_entry_point(trials):
    """A new entry point of the table that no scenario reaches would have no fault injected."""
    used = {entry for trial in trials.values() for entry, count in trial.calls.items() if count}
    assert set(faults.ENTRIES) - used == set(faults.ONCE)


@pytest.mark.parametrize("entry", [entry for entry in faults.ENTRIES if entry not in faults.ONCE])
@pytest.mark.parametrize(
    "kind", [kind if kind in RICH else pytest.param(kind, marks=pytest.mark.slow) for kind in faults.KINDS]
)
def test_a_failing_call(trials, kind, entry):
    trial = trials[kind]
    count = trial.calls[entry]
    wrong = []
    for code in CODES:
        for kth in faults.spread(count, most=2 if code != 507011 else count if kind in RICH else 12):
            if problem := trial.wrong(entry, kth, code):
                wrong.append(f"call {kth} of {count}, code {code}: {problem}")
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize(("effect", "kind"), CHILDREN)
def test_work_that_fails_hangs_or_loses_the_device(children, effect, kind):
    done = children[effect, kind].result()
    assert (done.returncode, done.stdout[:4000], done.stderr[-4000:]) == (0, "", "")


@pytest.mark.parametrize(
    ("entry", "fault", "message"),
    [
        ("aclInit", 500000, "AclError: aclInit returned 500000"),
        ("aclrtGetDeviceCount", 507899, "AclLoadError: .* no CPU answers: aclrtGetDeviceCount returned 507899"),
        ("aclrtGetSocName", 507899, ""),
    ],
)
def test_a_runtime_that_does_not_open_can_be_opened_later(entry, fault, message):
    code = (
        "import ge_core\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        ge_core.runtime_info('cpu')\n"
        "    except (ge_core.AclError, ge_core.AclLoadError) as error:\n"
        "        print(type(error).__name__, error, sep=': ')\n"
        "assert ge_core.runtime_info('cpu').device_count == 1\n"
    )
    config = json.dumps({"faults": [{"entry": entry, "code": fault}]})
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"GE_CORE_CPU_CONFIG": config}, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(message, done.stdout) and done.stdout.count("\n") == bool(message)
