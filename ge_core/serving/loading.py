# SPDX-License-Identifier: Apache-2.0
"""What a Triton model asks of ge_core while it loads: its configuration from the om, then an open, warm session.

Speaks to Triton through the `pb_utils` module that is passed in. Requests are answered in `ge_core.serving.execution`.
"""

import ctypes
import gc
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from ge_core import describe_child
from ge_core.engine import engine_of
from ge_core.serving import instances, model_config, options
from ge_core.serving.execution.planning import planner_of
from ge_core.serving.execution.running import BatchRunner, Runner
from ge_core.serving.execution.served_model import ServedModel, assemble
from ge_core.serving.execution.shared_memory import region_file
from ge_core.serving.monitoring import host_limits, warmup
from ge_core.serving.monitoring.load_checks import check_load
from ge_core.serving.monitoring.monitor import Monitor
from ge_core.session import InferenceSession
from ge_core_pyx import watchdog

# Counts the releases of model.py (backend/model.py and triton_model/1/model.py); those before the first have none.
TEMPLATE = 1


def complete_config(pb_utils, config, defaults: str | os.PathLike | None = None):
    """For auto_complete_config: fills the model configuration from the om, or refuses it.

    Runs in a process that Triton throws away, so the om is described by a child process.

    Parameters
    ----------
    pb_utils : module
        triton_python_backend_utils.
    config : pb_utils.ModelConfig
        Completed in place and returned.
    defaults : path, optional
        A defaults.json, see `ge_core.serving.options.parse`.

    Raises
    ------
    ValueError
        Parameters, model file or configuration that do not fit; the message says what would.
    """
    content = config.as_dict()
    settings = options.parse(_parameters(content), defaults=defaults)
    om = find_om(settings, Path(pb_utils.get_model_dir()))
    model_config.complete(content, describe_child.describe(om, settings.runtime), settings.cast_inputs == "checked")
    return config


def load(
    pb_utils,
    args: Mapping[str, str],
    defaults: str | os.PathLike | None = None,
    *,
    template: int = 0,
    wrap_runner: Callable[[Runner], BatchRunner] | None = None,
) -> ServedModel:
    """For initialize: opens the om on this instance's device, checks the configuration, warms up and logs one line.

    Parameters
    ----------
    pb_utils : module
    args : mapping of str to str
        What Triton passes to initialize.
    defaults : path, optional
        A defaults.json, see `ge_core.serving.options.parse`.
    template : int
        The TEMPLATE of the calling model.py. One that is older than this package still works, and the log says so.
    wrap_runner : callable, optional
        For measurements: is given the model's `Runner` and returns what starts and finishes batches in its place.

    Raises
    ------
    ValueError, RuntimeError, OSError
        The load is refused; nothing stays open.
    """
    refuse_numpy_2(pb_utils)
    tune_allocator()
    if (region := region_file()) is not None:
        watchdog.start(region)
    config, logger = json.loads(args["model_config"]), pb_utils.Logger
    version_folder = Path(args["model_repository"]) / args["model_version"]
    parameters = _parameters(config)
    settings = options.parse(parameters, defaults=defaults)
    if warning := host_limits.environment_warning(parameters, settings.runtime, os.environ):
        logger.log_warn(f"GE Backend: '{config['name']}' {warning}")
    om = find_om(settings, version_folder)
    instance = instances.find(config, args["model_instance_name"], settings.device_ids)
    if template < TEMPLATE and not instance.number:
        logger.log_warn(f"GE Backend: '{config['name']}' {_template_warning(template, version_folder, defaults)}")
    with ExitStack() as resources:
        session = resources.enter_context(_open(om, settings, instance))
        for context in engine_of(session).contexts:
            watchdog.guard(context)
            resources.callback(watchdog.release, context)
        binding = model_config.bind(config, session.description, casts=settings.cast_inputs == "checked")
        planner = planner_of(session, binding)
        times = warmup.warm_up(session, settings.slots * len(session.device_ids)) if settings.warmup else {}
        check_load(logger, config, version_folder, settings, session, instance, times)
        monitor = resources.enter_context(closing(Monitor(pb_utils, _labels(config, args), session)))
        served = assemble(pb_utils, session, binding, planner, settings, monitor, resources, wrap_runner)
    # What was made so far lives as long as the model: collections between requests need not look at it again.
    gc.collect()
    gc.freeze()
    return served


def _open(om: Path, settings: options.ServingOptions, instance: instances.Instance) -> InferenceSession:
    return InferenceSession(
        om,
        runtime=settings.runtime,
        device_ids=instance.device_ids,
        slots=settings.slots,
        submit_timeout_ms=settings.submit_timeout_ms,
        execute_timeout_ms=settings.execute_timeout_ms,
        output_axes=settings.output_axes,
        pad_value=settings.pad_value,
        gear_plan=settings.gear_plan,
    )


def _labels(config: Mapping, args: Mapping[str, str]) -> dict[str, str]:
    """What the metrics of this instance have in common."""
    return {
        "model": config["name"],
        "version": args["model_version"],
        "instance": args["model_instance_name"],
        "pid": str(os.getpid()),  # keeps series of a worker apart from its successor's; see metrics.Publisher
    }


def _template_warning(template: int, version_folder: Path, defaults: str | os.PathLike | None) -> str:
    """About a model.py of an earlier release: the backend's, which has a defaults.json beside it, or a model's own."""
    if defaults is not None:
        folder = Path(defaults).parent
        file, remedy = folder / "model.py", f"run `ge-core install-backend {folder.parent}` again"
    else:
        file, remedy = version_folder / "model.py", "replace it by triton_model/1/model.py of this release"
    versions = f"template {template}, now {TEMPLATE}"
    return f"is served by {file}, which is older than the installed ge_core ({versions}): {remedy}"


def find_om(settings: options.ServingOptions, version_folder: Path) -> Path:
    """The om to serve: `om_model_path`, else the one ``.om`` of the version folder.

    Raises
    ------
    ValueError
        None, several, or a file that does not exist.
    """
    if settings.om_model_path:
        om = version_folder / settings.om_model_path
        if not om.is_file():
            raise ValueError(f"om_model_path {settings.om_model_path!r}: there is no file {om}")
    else:
        oms = sorted(version_folder.glob("*.om"))
        if len(oms) != 1:
            found = ", ".join(path.name for path in oms) or "none"
            raise ValueError(
                f"expected one .om in {version_folder}, found {found}; parameter om_model_path can name one"
            )
        om = oms[0]
    return om


def refuse_numpy_2(pb_utils) -> None:
    """NumPy 2 arrays become empty tensors, silently, in Python backends built before it; their API shows their age."""
    if int(np.__version__.split(".")[0]) >= 2 and not hasattr(pb_utils.InferenceResponse, "parameters"):
        raise RuntimeError(
            f"this Triton's Python backend answers with empty tensors under NumPy {np.__version__}; "
            "run `pip install 'numpy<2'` for its Python, or use Triton 25.02 or newer"
        )


def tune_allocator() -> None:
    """Keeps freed memory in the process: otherwise glibc returns and faults in again each batch of input copies."""
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(m_mmap_threshold, 1 << 30)
        mallopt(m_trim_threshold, 2**31 - 1)
        mallopt(m_top_pad, 64 << 20)


def _parameters(config: Mapping) -> dict[str, str]:
    return {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
