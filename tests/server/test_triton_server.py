# SPDX-License-Identifier: Apache-2.0
"""Finding and preparing a tritonserver, without starting one."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ge_core.server import tritonserver
from ge_core.server.tritonserver import PYTHON, STUB, ServerError, TritonServer

ROOT = Path(__file__).parents[2]


def make_installation(folder, stub=b"\x7fELF"):
    """Files in the places where an installed server has them."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "tritonserver").touch(mode=0o755)
    python = folder / "backends" / "python"
    python.mkdir(parents=True)
    for name in tritonserver.PIECES:
        (python / name).touch()
    if stub is not None:
        (python / STUB).write_bytes(stub)
    return folder


def own_stub():
    return f"..libpython{PYTHON}.so.1.0..".encode()


@pytest.fixture
def only(monkeypatch):
    """Makes an installation, or nothing, the only tritonserver of the machine."""

    def set_path(folder=None):
        monkeypatch.setenv("PATH", str(folder / "bin") if folder else "/nonexistent")
        monkeypatch.setattr(tritonserver, "INSTALLED", Path("/nonexistent/tritonserver"))
        monkeypatch.setattr(tritonserver.importlib.util, "find_spec", lambda name: None)

    return set_path


def test_an_installed_server_on_path_comes_first(only, tmp_path):
    only(make_installation(tmp_path / "triton", own_stub()))
    found = tritonserver.find()
    assert found.binary == tmp_path / "triton" / "bin" / "tritonserver"
    assert found.stub == tmp_path / "triton" / "backends" / "python" / STUB
    assert found.libpython == f"libpython{PYTHON}.so.1.0"


def test_none_at_all_says_what_was_tried_and_what_to_do(only):
    only()
    with pytest.raises(ServerError) as caught:
        tritonserver.find()
    for text in ("not on PATH", "/nonexistent/tritonserver", "nvidia-pytriton", "pip install 'ge_core[server]'"):
        assert text in str(caught.value)


def test_a_stub_of_another_python_is_refused(only, tmp_path):
    only(make_installation(tmp_path / "triton", b"..libpython3.4.so.1.0.."))
    with pytest.raises(ServerError, match=f"is for Python 3.4, this is Python {PYTHON}"):
        tritonserver.find()


def test_a_stub_that_brings_its_python_needs_none(only, tmp_path):
    only(make_installation(tmp_path / "triton", b"..libpython3-abc.so.."))
    assert tritonserver.find().libpython is None


def test_a_missing_stub_is_named(only, tmp_path):
    only(make_installation(tmp_path / "triton", stub=None))
    with pytest.raises(ServerError, match=f"no Python backend stub for Python {PYTHON}"):
        tritonserver.find()


def test_the_wheels_server_is_refused_under_numpy_2(monkeypatch, tmp_path, only):
    only()
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(tritonserver.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(tritonserver, "version", {"numpy": "2.1.0", "nvidia-pytriton": "0.7.0"}.get)
    with pytest.raises(ServerError, match="pip install 'numpy<2'"):
        tritonserver.find()


def test_a_missing_python_library_is_one_clear_error(monkeypatch):
    with pytest.raises(ServerError) as caught:
        tritonserver.find_libpython("libpython9.9.so.1.0")
    for text in ("libpython9.9.so.1.0", "apt install libpython", "LD_LIBRARY_PATH"):
        assert text in str(caught.value)


def test_a_python_library_is_found_in_ld_library_path(monkeypatch, tmp_path):
    (tmp_path / "libpython9.9.so.1.0").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nonexistent:{tmp_path}")
    assert tritonserver.find_libpython("libpython9.9.so.1.0") == tmp_path / "libpython9.9.so.1.0"


def test_a_prepared_folder_has_all_backends_and_keeps_settings(tmp_path):
    installed = make_installation(tmp_path / "triton", own_stub())
    for name in ("onnxruntime", "ge"):
        (installed / "backends" / name).mkdir()
    (installed / "backends" / "ge" / "defaults.json").write_text('{"runtime": "cpu"}')
    binary, backends = installed / "bin" / "tritonserver", installed / "backends"
    tritonserver.prepare(
        tritonserver.Installation(binary, backends, backends / "python" / STUB, None), tmp_path / "run"
    )
    prepared = tmp_path / "run" / "backends"
    assert sorted(path.name for path in prepared.iterdir()) == ["ge", "onnxruntime", "python"]
    assert (prepared / "ge" / "model.py").read_text() == (ROOT / "ge_core/serving/backend/model.py").read_text()
    assert json.loads((prepared / "ge" / "defaults.json").read_text()) == {"runtime": "cpu"}
    assert (prepared / "python" / "ge_core" / "session.py").samefile(ROOT / "ge_core/session.py")
    assert not (prepared / "python" / tritonserver.PIECES[0]).is_symlink()


def test_workers_find_this_python_first(monkeypatch, tmp_path):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/other")
    environ = tritonserver.environment(tmp_path, "cpu", {"MORE": "1"})
    assert environ["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert environ["LD_LIBRARY_PATH"] == f"{tmp_path}/lib:/other"
    assert (environ["GE_CORE_RUNTIME"], environ["MORE"]) == ("cpu", "1")


def test_arguments_of_the_caller_win(tmp_path):
    server = TritonServer(
        tmp_path, arguments=["--http-port=9999", "--grpc-address", "0.0.0.0", "--log-verbose=1", "--load-model", "a"]
    )
    assert server.http == "127.0.0.1:9999"
    assert server.grpc.startswith("0.0.0.0:")
    line = server.command_line(tmp_path)
    assert [argument for argument in line if argument.startswith("--http-port")] == ["--http-port=9999"]
    assert line[-4:-1] == ["--log-verbose=1", "--load-model", "a"]
    assert line[-1].startswith("--backend-config=python,shm-region-prefix-name=ge_core_")


@pytest.mark.parametrize(
    ("arguments", "says"), [(["--allow-http=false"], "must stay on"), (["--http-port"], "--http-port needs a value")]
)
def test_arguments_that_cannot_work(tmp_path, arguments, says):
    with pytest.raises(ServerError, match=says):
        TritonServer(tmp_path, arguments=arguments)


@pytest.mark.parametrize(
    ("listed", "flags"), [("--allow-client-shm <boolean>", {"--allow-client-shm": "true"}), ("--allow-http", {})]
)
def test_flags_that_only_newer_servers_know_are_given_where_help_lists_them(tmp_path, listed, flags):
    binary = tmp_path / "tritonserver"
    binary.write_text(f"#!/bin/sh\necho '{listed}' >&2\nexit 1\n")
    binary.chmod(0o755)
    assert tritonserver.newer_flags(binary, {"PATH": "/bin:/usr/bin"}) == flags
    assert tritonserver.newer_flags(tmp_path / "none", {}) == {}


def test_models_answer_whether_they_are_ready_where_a_server_asks():
    for path in ("ge_core/serving/backend/model.py", "triton_model/1/model.py"):
        methods = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if hasattr(node, "name")}
        assert "is_ready" in methods


def test_ports_of_one_server_differ():
    assert len(set(tritonserver.free_ports(3))) == 3


class TestInstallBackend:
    def install(self, folder):
        line = [sys.executable, "-c", "from ge_core.cli import app; app()", "install-backend", str(folder)]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)

    def test_beside_an_existing_python_backend(self, tmp_path):
        backends = make_installation(tmp_path, own_stub()) / "backends"
        (backends / "ge").mkdir()
        (backends / "ge" / "defaults.json").write_text("{}")
        for _ in range(2):
            done = self.install(backends)
            assert done.returncode == 0, done.stderr
            assert "defaults.json kept" in done.stdout
        assert sorted(path.name for path in (backends / "ge").iterdir()) == ["defaults.json", "model.py"]
        assert (backends / "ge" / "defaults.json").read_text() == "{}"

    def test_beside_a_python_backend_for_another_python(self, tmp_path):
        backends = make_installation(tmp_path, b"libpython3.4.so.1.0") / "backends"
        done = self.install(backends)
        assert (done.returncode, done.stdout) == (1, "")
        assert "is for Python 3.4" in done.stderr
        assert not (backends / "ge").exists()

    def test_into_an_empty_folder(self, tmp_path):
        try:
            tritonserver.find()
        except ServerError as error:
            pytest.skip(str(error))
        assert self.install(tmp_path / "backends").returncode == 0
        names = {path.parent.name + "/" + path.name for path in (tmp_path / "backends").glob("*/*")}
        assert names == {f"python/{name}" for name in (*tritonserver.PIECES, STUB)} | {"ge/model.py"}
