# SPDX-License-Identifier: Apache-2.0
"""Finding, preparing, starting and stopping a tritonserver that serves `ge` models from this Python."""

import atexit
import ctypes
import http.client
import importlib.util
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import ge_core
from ge_core.serving.monitoring.health import LOST_ENVIRONMENT
from ge_core_pyx.errors import GeCoreError

INSTALLED = Path("/opt/tritonserver/bin/tritonserver")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
STUB = "triton_python_backend_stub"
BACKEND = Path("serving", "backend")  # the files of the backend `ge`, inside the package
PIECES = ("libtriton_python.so", "triton_python_backend_utils.py")
_SAFE_PATH = re.compile(r"[\w./+@%:=,~-]+", re.ASCII)  # Triton 2.51 starts its workers through a shell
_SAFE_NAME = re.compile(r"[\w.-]+", re.ASCII)
_NOISE = re.compile(r"I\d{4} |[+|]|$")  # information and tables in the server's log
_SHM = Path("/dev/shm")
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """In a process about to become the server: it is asked to stop when the one that started it is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class ServerError(GeCoreError, RuntimeError):
    """No usable tritonserver, or one that did not start."""


@dataclass(frozen=True)
class Installation:
    """A tritonserver, its backends folder, and the worker ("stub") of its Python backend for this Python."""

    binary: Path
    backends: Path
    stub: Path
    libpython: str | None  # the shared library that the stub wants from outside

    def put_python_backend(self, folder: Path) -> None:
        """Fills a `python` folder of a backends folder.

        The library is copied, because Triton refuses one from outside its backends folder; the stub is linked, because
        the wheel's finds its libraries from where it is.
        """
        library, utils = (self.backends / "python" / name for name in PIECES)
        shutil.copy2(library, folder / library.name)
        (folder / utils.name).symlink_to(utils)
        (folder / STUB).symlink_to(self.stub)


def find() -> Installation:
    """The installed tritonserver (PATH, /opt/tritonserver), else the one inside the nvidia-pytriton wheel.

    Raises
    ------
    ServerError
        Nothing found, or what was found cannot work with this Python or this NumPy; it says what to do.
    """
    on_path = shutil.which("tritonserver")
    for binary in [Path(on_path), INSTALLED] if on_path else [INSTALLED]:
        if os.access(binary, os.X_OK):
            backends = binary.resolve().parents[1] / "backends"
            return _installation(binary, backends, backends / "python" / STUB)
    spec = importlib.util.find_spec("pytriton")
    if spec is None or not spec.submodule_search_locations:
        raise ServerError(
            f"no tritonserver: not on PATH, no {INSTALLED}, and nvidia-pytriton is not installed for {sys.executable}. "
            "Run `pip install 'ge_core[server]'` (Python < 3.13), or put tritonserver on PATH"
        )
    root = Path(spec.submodule_search_locations[0]) / "tritonserver"
    if int(version("numpy").split(".")[0]) >= 2:
        raise ServerError(
            f"the tritonserver inside nvidia-pytriton {version('nvidia-pytriton')} answers with empty tensors under "
            f"NumPy {version('numpy')}; run `pip install 'numpy<2'`, or put a tritonserver of 24.11 or newer on PATH"
        )
    return _installation(
        root / "bin" / "tritonserver", root / "backends", root / "python_backend_stubs" / PYTHON / STUB
    )


def _installation(binary: Path, backends: Path, stub: Path) -> Installation:
    missing = [str(path) for path in (binary, *(backends / "python" / name for name in PIECES)) if not path.is_file()]
    if missing:
        raise ServerError(f"{binary}: the Python backend is incomplete, missing {', '.join(missing)}")
    if not stub.is_file():
        there = sorted(path.parent.name for path in stub.parents[1].glob(f"3.*/{STUB}"))
        known = f"; there are stubs for Python {', '.join(there)}" if there else ""
        raise ServerError(f"{binary} has no Python backend stub for Python {PYTHON} ({stub}){known}")
    return Installation(binary, backends, stub, check_stub(stub))


def check_stub(stub: Path) -> str | None:
    """The Python library that a stub wants from outside, None if it brings its own.

    Raises
    ------
    ServerError
        It is for another Python than this one.
    """
    wanted = re.search(rb"libpython(3\.\d+)\.so\.1\.0", stub.read_bytes())
    if wanted is None:
        return None
    python = wanted[1].decode()
    if python != PYTHON:
        raise ServerError(
            f"{stub} is for Python {python}, this is Python {PYTHON}: run ge-core with Python {python}, or put a stub "
            f"built for Python {PYTHON} in its place"
        )
    return wanted[0].decode()


def find_libpython(name: str) -> Path:
    """Where the shared library of the running Python is; without it the server would wait for its worker for ever.

    Raises
    ------
    ServerError
        It is nowhere; says what to install.
    """
    folders = [sysconfig.get_config_var("LIBDIR"), f"{sys.base_prefix}/lib"]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for folder in filter(None, folders):
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    with suppress(OSError, subprocess.CalledProcessError):
        ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin") or "ldconfig"
        listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            if line.strip().startswith(name + " ") and Path(line.split("=> ")[-1]).is_file():
                return Path(line.split("=> ")[-1])
    raise ServerError(
        f"the Python backend's worker needs {name}, which is neither in {sysconfig.get_config_var('LIBDIR')} nor known "
        f"to the loader. Install it (Debian: apt install libpython{PYTHON}; pyenv: rebuild with "
        "PYTHON_CONFIGURE_OPTS=--enable-shared) or add its folder to LD_LIBRARY_PATH"
    )


def prepare(installation: Installation, folder: Path) -> None:
    """Fills `folder` with a backends folder for this Python: the server's own backends, `python` and `ge`.

    ge_core and ge_core_pyx lie beside the Python backend too: that is what a worker imports when the interpreter's own
    site-packages have none, as in a source checkout.
    """
    package = Path(ge_core.__file__).parent
    backends, python, ge = folder / "backends", folder / "backends" / "python", folder / "backends" / "ge"
    python.mkdir(parents=True)
    ge.mkdir()
    for other in installation.backends.iterdir():
        if other.name not in ("python", "ge"):
            (backends / other.name).symlink_to(other)
    installation.put_python_backend(python)
    for name in ("ge_core", "ge_core_pyx"):
        (python / name).symlink_to(package.parent / name)
    shutil.copyfile(package / BACKEND / "model.py", ge / "model.py")
    for defaults in (installation.backends / "ge" / "defaults.json", package / BACKEND / "defaults.json"):
        if defaults.is_file():
            (ge / "defaults.json").symlink_to(defaults)
            break
    (folder / "lib").mkdir()
    if installation.libpython:
        (folder / "lib" / installation.libpython).symlink_to(find_libpython(installation.libpython))


def environment(folder: Path, runtime: str | None, extra: Mapping[str, str] | None) -> dict[str, str]:
    """The server's environment: workers find their Python as `python3` on PATH and its library in LD_LIBRARY_PATH."""
    python = Path(sys.executable).parent
    if not (python / "python3").exists():
        raise ServerError(
            f"workers start `python3`, and {python} has none; add a link python3 -> {Path(sys.executable).name}"
        )
    environ = dict(os.environ)
    environ["PATH"] = f"{python}:{environ.get('PATH', '')}"
    environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(folder / "lib"), environ.get("LD_LIBRARY_PATH"))))
    if runtime is not None:
        environ["GE_CORE_RUNTIME"] = runtime
    return environ | dict(extra or {})


def newer_flags(binary: str | os.PathLike, environ: Mapping[str, str]) -> dict[str, str]:
    """Flags that a newer server needs and an older one refuses: those of them that its --help lists.

    Clients' shared memory is off by default from 26.05 on.
    """
    try:
        listed = subprocess.run(
            [binary, "--help"], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {"--allow-client-shm": "true"} if "--allow-client-shm" in listed.stdout + listed.stderr else {}


def check_repository(repository: Path) -> None:
    """Refuses what would make the server fail late or hang: no folder, a model folder, names that a shell splits."""
    if not repository.is_dir():
        raise ServerError(f"{repository} is not a folder; a model repository holds one folder per model")
    if (repository / "config.pbtxt").is_file():
        raise ServerError(f"{repository} is a model folder (it has a config.pbtxt); pass the folder that holds it")
    for model in sorted(repository.iterdir()):
        if model.is_dir() and not _SAFE_NAME.fullmatch(model.name):
            raise ServerError(
                f"model folder {model.name!r}: Triton's workers need a name of letters, digits, '.', '_' and '-'"
            )


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that were free a moment ago, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _split(arguments: Sequence[str], flags: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Takes the arguments that set one of `flags` out of the list: (values found, the rest)."""
    found, rest, position = {}, [], 0
    while position < len(arguments):
        flag, equals, value = arguments[position].partition("=")
        position += 1
        if flag not in flags:
            rest.append(arguments[position - 1])
        elif equals:
            found[flag] = value
        elif position < len(arguments):
            found[flag] = arguments[position]
            position += 1
        else:
            raise ServerError(f"{flag} needs a value")
    return found, rest


class TritonServer:
    """A tritonserver for one model repository, from `with` to the end of its block.

    Parameters
    ----------
    repository : path
        Folder of model folders.
    runtime : str, optional
        ``npu`` or ``cpu``: the GE_CORE_RUNTIME of the server. None leaves the environment's.
    arguments : sequence of str
        Further tritonserver arguments; they win over the ones set here.
    http_port, grpc_port, metrics_port : int, optional
        None: a free one.
    environ : mapping, optional
        Variables added to the server's environment.
    sink : callable, optional
        Receives each line of the server's log, from a thread.
    start_timeout_s, exit_timeout_s : int
        Limits, in seconds, until ready, and for models to end once a stop was asked for.

    Attributes
    ----------
    http, grpc, metrics : str
        ``host:port`` of each service.
    prefix : str
        Beginning of the names of this server's shared-memory regions.
    lost : Path
        Of a launched server: the folder in which workers whose device is lost leave a file, called as their pid.
    """

    def __init__(
        self,
        repository: str | os.PathLike,
        *,
        runtime: str | None = None,
        arguments: Sequence[str] = (),
        http_port: int | None = None,
        grpc_port: int | None = None,
        metrics_port: int | None = None,
        environ: Mapping[str, str] | None = None,
        sink: Callable[[str], None] | None = None,
        start_timeout_s: int = 120,
        exit_timeout_s: int = 10,
    ):
        self.repository = Path(repository).absolute()
        self.prefix = f"ge_core_{os.getpid()}_{secrets.token_hex(4)}_"
        self.start_timeout_s = start_timeout_s
        self._runtime, self._environ, self._sink = runtime, environ, sink
        self._log: deque[str] = deque(maxlen=1000)
        self._process: subprocess.Popen[str] | None = None
        http, grpc, metrics = (
            given or free for given, free in zip((http_port, grpc_port, metrics_port), free_ports(3), strict=True)
        )
        flags = {"--http-address": "127.0.0.1", "--http-port": str(http), "--allow-http": "true"}
        flags |= {"--grpc-address": "127.0.0.1", "--grpc-port": str(grpc)}
        flags |= {"--metrics-address": "127.0.0.1", "--metrics-port": str(metrics), "--allow-gpu-metrics": "false"}
        flags |= {"--exit-timeout-secs": str(exit_timeout_s)}
        found, self._arguments = _split(arguments, flags)
        self._flags = flags | found
        self.exit_timeout_s = int(self._flags["--exit-timeout-secs"])
        if self._flags["--allow-http"].lower() not in ("true", "1"):
            raise ServerError("--allow-http must stay on: readiness is asked over HTTP")
        self.http, self.grpc, self.metrics = (
            f"{self._flags[f'--{name}-address']}:{self._flags[f'--{name}-port']}"
            for name in ("http", "grpc", "metrics")
        )

    @property
    def pid(self) -> int:
        return self._running().pid

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise ServerError("the server was not started")
        return self._process

    @property
    def log(self) -> str:
        """The last thousand lines that the server and its workers wrote."""
        return "\n".join(self._log)

    def start(self) -> "TritonServer":
        """Starts the server and waits until it and its models are ready.

        Raises
        ------
        ServerError
            No usable server, or not ready in time; nothing is left running.
        """
        self.launch()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def launch(self) -> None:
        """Starts the server without waiting for it."""
        check_repository(self.repository)
        installation = find()
        self._folder = Path(tempfile.mkdtemp(prefix="ge_core_server_"))
        try:
            if not _SAFE_PATH.fullmatch(str(self._folder)):
                raise ServerError(
                    f"Triton's workers cannot start from {self._folder}; set TMPDIR to a path without spaces"
                )
            prepare(installation, self._folder)
            self.lost = self._folder / "lost"
            self.lost.mkdir()
            environ = environment(self._folder, self._runtime, self._environ) | {LOST_ENVIRONMENT: str(self.lost)}
            flags = newer_flags(installation.binary, environ)
            found, self._arguments = _split(self._arguments, flags)
            self._flags |= flags | found
            self._process = subprocess.Popen(
                [installation.binary, *self.command_line(self._folder)],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # a Ctrl-C of the terminal reaches us alone; the server is stopped in order
                # Linux counts the thread that starts a process as its parent.
                preexec_fn=_end_with_parent if threading.current_thread() is threading.main_thread() else None,
            )
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        atexit.register(self.stop)
        self._reader = threading.Thread(target=self._read_log, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def command_line(self, folder: Path) -> list[str]:
        """The arguments of tritonserver; `folder` is where its backends are prepared."""
        repository = self.repository
        if not _SAFE_PATH.fullmatch(str(repository)):
            repository = folder / "repository"
            repository.symlink_to(self.repository)
        return [
            f"--model-repository={repository}",
            f"--backend-directory={folder / 'backends'}",
            *(f"{flag}={value}" for flag, value in self._flags.items()),
            *self._arguments,
            f"--backend-config=python,shm-region-prefix-name={self.prefix}",
        ]

    def _read_log(self, output) -> None:
        for line in output:
            self._log.append(line.rstrip("\n"))
            if self._sink:
                self._sink(self._log[-1])

    def wait_ready(self) -> None:
        """Blocks until the server and every model it was told to load are ready.

        Raises
        ------
        ServerError
            It ended, or `start_timeout_s` passed; with the end of its log.
        """
        process = self._running()
        deadline = time.monotonic() + self.start_timeout_s
        while not self._ready():
            if process.poll() is not None:
                self._reader.join(5)
                raise ServerError(
                    f"tritonserver ended with code {process.returncode} before it was ready:\n{self._tail()}"
                )
            if time.monotonic() > deadline:
                raise ServerError(f"tritonserver was not ready after {self.start_timeout_s} s:\n{self._tail()}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection(self.http, timeout=5)
        try:
            connection.request("GET", "/v2/health/ready", headers={"Connection": "close"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _tail(self) -> str:
        return "\n".join([line for line in self._log if not _NOISE.match(line)][-40:])

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Blocks until the server ends, or `timeout_s` passed; its exit code, None while it runs."""
        try:
            return self._running().wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> int | None:
        """Ends the server and everything that it started. Blocks; calling it again does nothing.

        Returns
        -------
        int or None
            The server's exit code (0: every model ended in order), None if it never ran.
        """
        process = self._process
        if process is None:
            return None
        atexit.unregister(self.stop)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(self.exit_timeout_s + 10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._sweep()
        self._reader.join(5)
        if process.stdout is not None:
            process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return process.returncode

    def _sweep(self) -> None:
        """Workers and shared-memory regions that a server leaves behind when it does not end in order."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if self.prefix.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                        os.kill(int(entry.name), signal.SIGKILL)
        for region in _SHM.glob(f"{self.prefix}*"):
            region.unlink(missing_ok=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()
