# SPDX-License-Identifier: Apache-2.0
"""The `ge-core` command. Each module has one command; nothing heavy is imported before a command runs."""

from ge_core.cli._app import app

# isort: split
from ge_core.cli import compile, config, cpu_runtime, doctor, info, inspect, install_backend, probe, run, serve

__all__ = [
    "app",
    "compile",
    "config",
    "cpu_runtime",
    "doctor",
    "info",
    "inspect",
    "install_backend",
    "probe",
    "run",
    "serve",
]
