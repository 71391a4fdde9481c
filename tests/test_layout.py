# SPDX-License-Identifier: Apache-2.0
"""The house: every module has a floor, imports only look down, and importing ge_core costs nothing it does not need."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# From the ground up. A module imports from the floors below its own; SAME_FLOOR has every exception.
FLOORS = [
    # ge_core_pyx, the native half
    "ge_core_pyx.errors ge_core_pyx.locate ge_core_pyx.dtypes ge_core_pyx.abi.xlist",
    "ge_core_pyx.acl ge_core_pyx.dlpack ge_core_pyx.om.container ge_core_pyx.om.validation",
    "ge_core_pyx.arrays ge_core_pyx.slot_pool ge_core_pyx.acl_cpu.readme ge_core_pyx.om.aipp",
    "ge_core_pyx.device ge_core_pyx.om.manifest",
    "ge_core_pyx.memory ge_core_pyx.watchdog ge_core_pyx.om.cpu_om",
    "ge_core_pyx.om",
    "ge_core_pyx.model ge_core_pyx.budget",
    "ge_core_pyx.slot",
    "ge_core_pyx.range_slot ge_core_pyx.requests",
    "ge_core_pyx.executor ge_core_pyx.future",
    "ge_core_pyx.batch",
    # ge_core, what users import
    "ge_core._version ge_core.batching ge_core.gears ge_core.compiler.errors ge_core.compiler.optional",
    "ge_core.compiler.atc.options ge_core.compiler.atc.shapes",
    "ge_core.compiler.atc.command",
    "ge_core.compiler.atc",
    "ge_core.compiler.manifest ge_core.compiler.shape_options ge_core.compiler.inference",
    "ge_core.compiler.synthetic ge_core.compiler.graph",
    "ge_core.compiler.synthetic_manifest ge_core.compiler.graph_manifest",
    "ge_core.compiler.compiler",
    "ge_core.description ge_core.runtime ge_core.engine",
    "ge_core.session",
    "ge_core ge_core.compiler",
    "ge_core.describe_child",
    # ge_core.serving, in the process that answers
    "ge_core.serving.options ge_core.serving.instances ge_core.serving.pbtxt ge_core.serving.shm_space "
    "ge_core.serving.monitoring ge_core.serving.execution",
    "ge_core.serving.model_config ge_core.serving.monitoring.host_limits ge_core.serving.monitoring.golden "
    "ge_core.serving.monitoring.health ge_core.serving.monitoring.metrics ge_core.serving.monitoring.warmup "
    "ge_core.serving.execution.shared_memory",
    "ge_core.serving.monitoring.load_report ge_core.serving.monitoring.monitor",
    "ge_core.serving.monitoring.load_checks ge_core.serving.execution.failures",
    "ge_core.serving.execution.responses",
    "ge_core.serving.execution.requests",
    "ge_core.serving.execution.running",
    "ge_core.serving.execution.planning",
    "ge_core.serving.execution.returned ge_core.serving.execution.sender",
    "ge_core.serving.execution.served_model",
    "ge_core.serving.loading",
    "ge_core.serving",
    "ge_core.serving.backend ge_core.serving.backend.model",
    # ge_core.server, outside of it, and the command
    "ge_core.server ge_core.server.probe ge_core.server.tritonserver",
    "ge_core.server.supervisor",
    "ge_core.cli._app",
    "ge_core.cli.compile ge_core.cli.config ge_core.cli.cpu_runtime ge_core.cli.info ge_core.cli.inspect "
    "ge_core.cli.install_backend ge_core.cli.probe ge_core.cli.run ge_core.cli.serve",
    "ge_core.cli.doctor",
    "ge_core.cli",
    # bench
    "bench bench.benches bench.measure bench.models bench.paths bench.report bench.served "
    "bench.measure.child bench.measure.cpu_counters bench.measure.records bench.measure.stats bench.measure.usage "
    "bench.measure.verify",
    "bench.models.presets bench.paths.c_path bench.paths.clients bench.served.floor_model bench.served.plain_model "
    "bench.served.repository bench.served.stage_clock bench.report.plots",
    "bench.models.networks bench.paths.calling bench.paths.ctypes_path bench.paths.load_generator bench.served.server "
    "bench.served.settings bench.report.document",
    "bench.measure.progress bench.report.build",
    "bench.report.compare bench.report.tables",
    "bench.benches.latency_rounds bench.benches.overhead bench.benches.throughput",
    "bench.benches.latency_throughput bench.benches.prepare",
    "bench.arguments bench.benches.latency bench.benches.load bench.benches.stages",
    "bench.benches.advice bench.benches.everything bench.benches.truth",
    "bench.commands",
    "bench.__main__",
]  # fmt: skip
FLOOR = {module: number for number, modules in enumerate(FLOORS) for module in modules.split()}
# (who, whom): each with its reason.
SAME_FLOOR = {
    ("ge_core_pyx.executor", "ge_core_pyx.future"): "submit() returns one",
    ("ge_core_pyx.future", "ge_core_pyx.executor"): "a future completes its chunks and gives their slots back",
}
NATIVE = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]+)|c?import[ \t]+([\w.]+))", re.M
)
SOURCES = [
    path
    for package in ("ge_core_pyx", "ge_core", "bench")
    for path in sorted((ROOT / package).rglob("*"))
    if path.suffix in (".py", ".pyx", ".pxd") and (path.suffix != ".pxd" or path.with_suffix(".pyx").exists())
]


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def ours(module):
    """The longest beginning of a dotted name that is a module of the house; None for others' modules."""
    parts = module.split(".")
    if parts[0] not in ("ge_core_pyx", "ge_core", "bench"):
        return None
    while parts and ".".join(parts) not in FLOOR:
        parts.pop()
    return ".".join(parts)


def imports(path):
    """The modules of the house that a file imports or cimports."""
    text = path.read_text()
    if path.suffix == ".py":
        found = [
            (node.module, [alias.name]) if isinstance(node, ast.ImportFrom) else (alias.name, [])
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        ]
    else:
        found = [
            (package or plain, [name.split()[0] for name in names.strip("() \n").split(",") if name.strip()])
            for package, names, plain in NATIVE.findall(text)
        ]
    targets = set()
    for module, names in found:
        for name in names or [""]:
            if target := ours(f"{module}.{name}" if f"{module}.{name}" in FLOOR else module):
                targets.add(target)
    return targets


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_look_down(path):
    own = module_of(path)
    assert own in FLOOR or not path.read_text().strip(), f"{own} has no floor: give it one in FLOORS"
    for target in imports(path) - {own}:
        if (own, target) in SAME_FLOOR:
            assert FLOOR[target] == FLOOR[own]
        else:
            assert FLOOR[target] < FLOOR[own], f"{own} (floor {FLOOR[own]}) imports {target} (floor {FLOOR[target]})"


def test_every_module_stands_on_one_floor_and_exists():
    rows = " ".join(FLOORS).split()
    assert len(rows) == len(set(rows))
    there = {module_of(path) for path in SOURCES}
    assert [module for module in rows if module not in there] == []
    seen = {(module_of(path), target) for path in SOURCES for target in imports(path)}
    assert SAME_FLOOR.keys() <= seen


def test_the_scan_sees_imports():
    assert {"ge_core_pyx.model", "ge_core_pyx.acl"} <= imports(ROOT / "ge_core_pyx/executor.pyx")
    assert "ge_core.serving.options" in imports(ROOT / "ge_core/serving/loading.py")
    assert "ge_core.server.supervisor" in imports(ROOT / "ge_core/cli/serve.py")  # inside a function


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
        if source.name not in ("slot.pyx", "range_slot.pyx"):
            assert "api.aclmdlExecute" not in text, source


def test_every_source_names_its_licence():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    missing = [
        name
        for name in listed.stdout.splitlines()
        if name.endswith((".py", ".pyx", ".pxd", ".pyi", ".c", ".cpp", ".h")) and (ROOT / name).stat().st_size
        if "SPDX-License-Identifier: Apache-2.0" not in (ROOT / name).read_text()[:200]
    ]
    assert missing == []
