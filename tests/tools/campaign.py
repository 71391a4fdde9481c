# SPDX-License-Identifier: Apache-2.0
"""`make campaign`: servers and workers killed under load, reloads, device faults; what came of it, in docs/campaign.md.

    python tests/tools/campaign.py [--only PART,…] [--rounds N] [--output FILE]

Nothing here is asserted; tests/serving/test_triton_operations.py holds what must be so. Takes about ten minutes.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from oms import write_synthetic
from triton_helpers import add_model, client, infer
from tritonclient.utils import InferenceServerException

import ge_core
from ge_core.server.probe import ask, probe
from ge_core.server.supervisor import Supervisor, live_workers
from ge_core.server.tritonserver import TritonServer
from ge_core.serving.model_config import config_pbtxt

ROOT = Path(__file__).parents[2]
GEARS = (1, 2, 4)
SENDER = (("responses", "sender"), ("slots", "2"))
WORKLOADS = {  # name: (floats per output row, parameters)
    "returned, 4 KB": (1024, ()),
    "returned, 4 MB": (1 << 20, ()),
    "sender, 4 MB": (1 << 20, SENDER),
}
BACK_LIMIT_S = 8


def parameters(*pairs):
    return "".join(f'parameters: [ {{ key: "{key}" value: {{ string_value: "{value}" }} }} ]\n' for key, value in pairs)


class Site:
    """A folder with a repository and the settings of the devices under it."""

    def __init__(self, folder):
        self.models, self.oms, self.device = folder / "models", folder / "oms", folder / "device.json"
        self.models.mkdir()
        self.oms.mkdir()
        self.faults()

    def faults(self, *faults):
        # Processes with equal settings share the devices: an odd size keeps these to this site.
        self.device.write_text(json.dumps({"hbm_bytes": (32 << 30) + os.getpid() * 4096, "faults": list(faults)}))

    def om(self, name, width=8, **rest):
        inputs, outputs = [("x", "float32", (-1, 8))], [("y", "float32", (-1, width))]
        return write_synthetic(self.oms / f"{name}.om", inputs, outputs, batch=GEARS, **rest)

    def add(self, name, om, pairs=(), more=""):
        shutil.rmtree(self.models / name, ignore_errors=True)
        config = config_pbtxt(ge_core.describe_model(om.path, "cpu"), name) + parameters(*pairs) + more
        add_model(self.models, name, config, om.path)

    def server(self, *arguments):
        environ = {"GE_CORE_CPU_CONFIG": str(self.device)}
        arguments = ["--disable-auto-complete-config", *arguments]
        return TritonServer(self.models, runtime="cpu", arguments=arguments, environ=environ, exit_timeout_s=3)

    def free_memory(self):
        """Device memory, asked by a process of its own."""
        code = "import ge_core; print(ge_core.device_usage(0, 'cpu')['memory_free'])"
        environ = os.environ | {"GE_CORE_CPU_CONFIG": str(self.device)}
        command = [sys.executable, "-c", code]
        return int(subprocess.run(command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)


@contextmanager
def site():
    folder = Path(tempfile.mkdtemp(prefix="ge_core_campaign_"))
    try:
        yield Site(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def clients(server, model, om, count=4):
    """Clients that ask without end; `results` counts right and wrong answers and errors by status."""
    ended, results = threading.Event(), Counter()

    def one(number):
        feeds = om.random(1 + number % 4, number)
        (expected,) = om.expected(feeds)
        with closing(client(server, "grpc")) as connection:
            while not ended.is_set():
                try:
                    (got,) = infer(connection, model, feeds, ["y"])
                    results["right" if np.array_equal(got, expected) else "wrong"] += 1
                except InferenceServerException as error:
                    results[str(error.status()).removeprefix("StatusCode.")] += 1
                    time.sleep(0.02)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield results
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def post(server, path):
    status, answer = ask(server.http, "POST", path, 60)
    return None if status == 200 else json.loads(answer)["error"]


def load(server, model):
    return post(server, f"/v2/repository/models/{model}/load")


def unload(server, model):
    post(server, f"/v2/repository/models/{model}/unload")
    wait(lambda: not any(worker.model == model for worker in live_workers(server.pid)))


def wait(condition, limit_s=20.0):
    """Seconds until the condition held; None if it did not within the limit."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit_s:
            return None
        time.sleep(0.02)
    return time.monotonic() - began


def started(pid):
    """When a process began; pids begin anew after a while."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def seconds(value):
    return "never" if value is None else f"{value:.1f} s"


def counted(results):
    return ", ".join(f"{count:,} {name}" for name, count in sorted(results.items())) or "none"


def kill_servers(rounds):
    """SIGKILL of the server under load: does every worker end, and is the device free again?"""
    yield "## The server is killed under load"
    yield ""
    yield "Four clients ask without a pause when `kill -9` hits tritonserver."
    yield ""
    yield "| workload | kills | workers left after 3 s | slowest end of a worker | /dev/shm regions left after 3 s | after the next start | device memory back | wrong answers before |"  # noqa: E501
    yield "|---|---|---|---|---|---|---|---|"
    for name, (width, pairs) in WORKLOADS.items():
        with site() as place:
            om = place.om("m", width)
            place.add("m", om, pairs)
            before = place.free_memory()
            orphans = regions = later = wrong = back = 0
            slowest = 0.0
            for _ in range(rounds):
                server = place.server().start()
                pid = server.pid
                with clients(server, "m", om) as results:
                    wait(lambda results=results: results["right"] > 50)
                    os.kill(pid, signal.SIGKILL)
                    began = time.monotonic()
                    server.wait()
                    ended = wait(lambda pid=pid: not live_workers(pid), 3)
                    slowest = max(slowest, 3.0 if ended is None else time.monotonic() - began)
                time.sleep(max(0.0, 3 - (time.monotonic() - began)))
                orphans += len(live_workers(pid))
                regions += len(list(Path("/dev/shm").glob(f"{server.prefix}*")))
                back += place.free_memory() == before
                wrong += results["wrong"]
                server.stop()
                later += len(list(Path("/dev/shm").glob(f"{server.prefix}*")))
            cells = [name, rounds, orphans, f"{slowest:.1f} s", regions, later, f"{back} of {rounds}", wrong]
            yield f"| {' | '.join(map(str, cells))} |"


def kill_workers(rounds):
    """SIGKILL of a worker under load, with the supervisor of `ge-core serve` watching."""
    yield "## A worker is killed under load"
    yield ""
    yield "Four clients; the supervisor of `ge-core serve` looks every second and loads the model again."
    yield ""
    yield "| instances | kills | brought back | back after (slowest) | old workers left | answers of all rounds |"
    yield "|---|---|---|---|---|---|"
    for instances in (1, 2):
        with site() as place:
            om = place.om("m")
            place.add("m", om, more=f"instance_group [ {{ count: {instances}, kind: KIND_CPU }} ]\n")
            with place.server("--model-control-mode=explicit", "--load-model=*") as server:
                times, total, said = [], Counter(), []
                threading.Thread(target=Supervisor(server, said.append).watch).start()  # ends with the server
                for _ in range(rounds):
                    with clients(server, "m", om) as results:
                        wait(lambda results=results: results["right"] > 50)
                        # Workers of the model that was unloaded in the last round may still be ending: the newest.
                        victim = max((worker.pid for worker in live_workers(server.pid)), key=started)
                        loads = len(said)
                        began = time.monotonic()
                        os.kill(victim, signal.SIGKILL)
                        wait(lambda said=said, loads=loads: "model m: serves again" in said[loads:], 60)
                        ready = wait(lambda: probe(server.http, "m").ready)
                        times.append(None if ready is None else time.monotonic() - began)
                    total += results
                settled = wait(lambda count=instances: len(live_workers(server.pid)) == count) is not None
                there = [value for value in times if value is not None]
                slowest = seconds(max(there, default=None))
                left = "none" if settled else str(len(live_workers(server.pid)) - instances)
                yield f"| {instances} | {rounds} | {len(there)} of {rounds} | {slowest} | {left} | {counted(total)} |"


def reloads(rounds):
    """New oms under load, in both modes: no failed request, and every byte comes back."""
    yield "## Reloads under load"
    yield ""
    yield "Two clients ask without a pause while the om is replaced again and again; both oms give the same answers."
    yield ""
    yield "| mode | reloads | answers | device memory: before, after all reloads, after unloading | resident memory of the server, after 5 and after all |"  # noqa: E501
    yield "|---|---|---|---|---|"
    for mode, arguments in (
        ("explicit", ["--model-control-mode=explicit", "--load-model=*"]),
        ("poll", ["--model-control-mode=poll", "--repository-poll-secs=1"]),
    ):
        with site() as place:
            oms = [place.om(f"m{number}", weight_bytes=8 << 20, exec_us=number + 1) for number in range(2)]
            start = place.free_memory()
            place.add("m", oms[0])
            target = place.models / "m" / "1" / "model.om"
            resident = []
            with place.server(*arguments) as server:
                loaded = place.free_memory()
                done = 0
                with clients(server, "m", oms[0], 2) as results:
                    for number in range(rounds):
                        (before,) = [worker.pid for worker in live_workers(server.pid)]
                        shutil.copy(oms[(number + 1) % 2].path, target.with_suffix(".new"))
                        target.with_suffix(".new").replace(target)
                        if mode == "explicit":
                            load(server, "m")
                        gone = wait(
                            lambda before=before: before not in [worker.pid for worker in live_workers(server.pid)]
                        )
                        done += gone is not None
                        wait(lambda: len(live_workers(server.pid)) == 1)
                        if number in (min(4, rounds - 1), rounds - 1):
                            status = Path(f"/proc/{server.pid}/status").read_text()
                            resident.append(int(status.split("VmRSS:")[1].split()[0]) >> 10)
                after = place.free_memory()
                if mode == "explicit":
                    unload(server, "m")
                else:
                    shutil.rmtree(place.models / "m")
                    wait(lambda: not live_workers(server.pid))
                end = place.free_memory()
            memory = f"{start - loaded:,}, {start - after:,}, {start - end:,} bytes"
            yield f"| {mode} | {done} of {rounds} | {counted(results)} | {memory} | {resident[0]}, {resident[-1]} MiB |"


LIMIT = (("execute_timeout_ms", "200"),)
FAULTS = {  # (where, what): (fault, parameters)
    ("load", "call refused (500001)"): ({"entry": "aclmdlLoadFromFileWithMem", "code": 500001}, ()),
    ("load", "no memory (207001)"): ({"entry": "aclrtMalloc", "code": 207001}, ()),
    ("load", "device lost"): ({"entry": "aclmdlLoadFromFileWithMem", "effect": "device_lost"}, ()),
    ("H2D", "call refused (107003)"): ({"entry": "aclrtMemcpyAsync", "code": 107003}, ()),
    ("H2D", "task fails (507011)"): ({"entry": "aclrtMemcpyAsync", "effect": "task", "code": 507011}, ()),
    ("H2D", "device lost"): ({"entry": "aclrtMemcpyAsync", "effect": "device_lost"}, ()),
    ("execute", "call refused (107003)"): ({"entry": "aclmdlExecuteAsync", "code": 107003}, ()),
    ("execute", "task fails (507011)"): ({"entry": "aclmdlExecuteAsync", "effect": "task", "code": 507011}, ()),
    ("execute", "device fault (507015)"): ({"entry": "aclmdlExecuteAsync", "effect": "task", "code": 507015}, ()),
    ("execute", "2 s late, limit 0.2 s"): (
        {"entry": "aclmdlExecuteAsync", "effect": "delay", "delay_us": 2_000_000},
        LIMIT,
    ),
    ("execute", "hangs, limit 0.2 s"): ({"entry": "aclmdlExecuteAsync", "effect": "hang"}, LIMIT),
    ("execute", "device lost"): ({"entry": "aclmdlExecuteAsync", "effect": "device_lost"}, ()),
    ("D2H", "call refused (107003)"): ({"entry": "aclrtMemcpyAsync", "kth": 2, "code": 107003}, ()),
    ("D2H", "task fails (507011)"): ({"entry": "aclrtMemcpyAsync", "kth": 2, "effect": "task", "code": 507011}, ()),
    ("D2H", "device lost"): ({"entry": "aclrtMemcpyAsync", "kth": 2, "effect": "device_lost"}, ()),
    ("wait", "call fails (507014)"): ({"entry": "aclrtSynchronizeStream", "code": 507014}, ()),
}


def faults(rounds):
    """Every kind of device fault at every stage: what a client gets, and how the model comes back."""
    yield "## Device faults"
    yield ""
    yield (
        "One request meets the fault, the next ones follow at once. *Back* is the first right answer after it: the "
        "next request; by itself, after so long; or after the supervisor loaded the model again."
    )
    yield ""
    for way, more in (("returned", ()), ("sender", SENDER)):
        yield f'`responses: "{way}"`:'
        yield ""
        yield "| where | what | the request gets | the next one gets | back |"
        yield "|---|---|---|---|---|"
        yield from one_way(more)
        yield ""


def one_way(more):
    with site() as place, place.server("--model-control-mode=explicit") as server:
        om = place.om("m")
        feeds = om.random(1)
        for number, ((where, what), (fault, pairs)) in enumerate(FAULTS.items()):
            model = f"m{number}"
            place.add(model, om, (("warmup", "false"), *pairs, *more))
            place.faults({"kth": 1, "effect": "call", **fault})
            refusal = load(server, model)
            place.faults()
            if refusal:
                again = load(server, model)
                back = "the next load" if again is None else f"not by a load: {short(again)}"
                yield f"| {where} | {what} | the load fails: {short(refusal)} | – | {back} |"
            else:
                first, second = (asked(server, model, feeds) for _ in range(2))
                yield f"| {where} | {what} | {first} | {second} | {recovery(server, model, feeds, second)} |"
            unload(server, model)


def recovery(server, model, feeds, second):
    if second == "the right answer":
        return "the next request"
    alone = wait(lambda: asked(server, model, feeds) == "the right answer", BACK_LIMIT_S)
    if alone is not None:
        return f"by itself, after {alone:.1f} s"
    supervisor = Supervisor(server, lambda text: None)
    helped = any(supervisor.look() for _ in range(3))
    works = helped and wait(lambda: asked(server, model, feeds) == "the right answer", 5) is not None
    return "the supervisor loads it again" if works else f"not within {BACK_LIMIT_S} s; unload and load the model"


def asked(server, model, feeds):
    with closing(client(server, "grpc")) as connection:
        try:
            infer(connection, model, feeds, ["y"])
            return "the right answer"
        except InferenceServerException as error:
            return f"{str(error.status()).removeprefix('StatusCode.')}: {short(error.message())}"


def short(text):
    text = " ".join(text.replace("|", "/").split())
    text = text.rpartition("UNAVAILABLE state: ")[2]
    return text if len(text) <= 120 else text[:119] + "…"


PARTS = {
    "kill-server": (kill_servers, 8),
    "kill-worker": (kill_workers, 5),
    "reload": (reloads, 50),
    "faults": (faults, 1),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, help="instead of each part's own number")
    parser.add_argument("--output", type=Path, help="a Markdown file; default: the screen alone")
    arguments = parser.parse_args()
    lines = [
        "# Campaign: what was killed, what failed, and what came of it",
        "",
        f"Written by `make campaign` on {time.strftime('%Y-%m-%d')}: ge_core {ge_core.__version__}, "
        f"{ge_core.runtime_info('cpu').label}, Triton 2.51 (nvidia-pytriton), Python {platform.python_version()}, "
        f"{os.cpu_count()} CPUs. Times are of this machine and its load; counts are what matters.",
        "",
    ]
    print("\n".join(lines), flush=True)
    for name in arguments.only.split(","):
        part, rounds = PARTS[name]
        for line in part(arguments.rounds or rounds):
            print(line, flush=True)
            lines.append(line)
        lines.append("")
        print(flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
