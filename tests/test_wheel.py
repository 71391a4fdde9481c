# SPDX-License-Identifier: Apache-2.0
"""The wheel in an environment of its own: the commands, a session and a server work without the checkout."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as http
from oms import write_synthetic
from triton_helpers import add_model, infer

from ge_core.server import tritonserver
from ge_core.server.tritonserver import ServerError

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow

SESSION = """
import json, sys
import numpy as np
import ge_core, ge_core_pyx
from ge_core.compiler import synthetic

print(ge_core.__file__, ge_core_pyx.__file__)
path, manifest = sys.argv[1], json.loads(sys.argv[2])
inputs = {"x": np.random.default_rng(0).random((2, 3), np.float32)}
with ge_core.InferenceSession(path, runtime="cpu") as session:
    (got,) = session.run(None, inputs)
np.testing.assert_array_equal(got, synthetic.run(manifest, inputs)["y"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that nothing that an earlier build left behind gets in."""
    folder = tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "*.so", "__pycache__", "lib")
    shutil.copytree(ROOT, folder / "source", ignore=left_out)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder]
    done = subprocess.run([*command, folder / "source"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(folder / "source")
    (built,) = folder.glob("ge_core-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The `bin` of an environment that has the wheel, and sees what it depends on, but not the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True)
    # A folder named in a .pth file is searched, but the .pth files in it (the editable install's) are not read.
    seen = [path for path in sys.path if path.endswith("site-packages")]
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(seen))
    return folder / "bin"


@pytest.fixture(scope="module")
def om(tmp_path_factory):
    path = tmp_path_factory.mktemp("om") / "m.om"
    return write_synthetic(path, [("x", "float32", (-1, 3))], [("y", "float32", (-1, 2))], batch=(1, 2, 4))


@pytest.fixture
def environ():
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(command, cwd, environ):
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_package_of_the_project_is_in_the_wheel(wheel):
    packages = re.search(r"^packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)[1]
    listed = re.findall(r'"([\w.]+)"', packages)
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("ge_core", "ge_core_pyx"):
        for source in (ROOT / package).rglob("*.py"):
            folder = source.parent.relative_to(ROOT).as_posix()
            if folder.replace("/", ".") in listed:
                assert source.relative_to(ROOT).as_posix() in names
            else:
                assert not (source.parent / "__init__.py").exists(), f"{folder} is not in pyproject's packages"
    for source in (ROOT / "ge_core_pyx").glob("*.pyx"):
        assert any(name.startswith(f"ge_core_pyx/{source.stem}.cpython") for name in names), source.name


def test_info_names_the_library_in_the_environment(installed, tmp_path, environ):
    found = json.loads(run([installed / "ge-core", "info", "--json"], tmp_path, environ | {"GE_CORE_RUNTIME": "cpu"}))
    assert str(installed.parent) in json.dumps(found)
    assert str(ROOT) not in json.dumps(found)


def test_a_session_computes(installed, om, tmp_path, environ):
    command = [installed / "python", "-W", "error", "-c", SESSION, om.path, json.dumps(om.manifest)]
    for file in run(command, tmp_path, environ).split():
        assert Path(file).is_relative_to(installed.parent)


def test_a_server_answers(installed, om, tmp_path, environ):
    try:
        tritonserver.find()
    except ServerError as error:
        pytest.skip(str(error))
    add_model(tmp_path / "models", "m", 'backend: "ge"\n', om.path)
    command = [installed / "ge-core", "serve", tmp_path / "models", "--runtime", "cpu", "--log-info=false"]
    command += ["--port=0", "--grpc-port=0", "--metrics-port=0", "--exit-timeout-secs=3"]
    feeds = om.random(2)
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            address = re.search(r"HTTP (127\.0\.0\.1:\d+)", process.stdout.readline())
            assert address, (tmp_path / "log").read_text()
            with closing(http.InferenceServerClient(address[1])) as connection:
                (got,) = infer(connection, "m", feeds, ["y"], "http")
            np.testing.assert_array_equal(got, om.expected(feeds)[0])
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=300)
    assert process.returncode == 0
