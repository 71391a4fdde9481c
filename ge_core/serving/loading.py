"""What a Triton model asks of ge_core while it loads: its configuration from the om, then an open, warm session.

Speaks to Triton through the `pb_utils` module that is passed in. Requests are answered in `ge_core.serving.execution`.
"""

import ctypes
import gc
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ge_core import describe_child
from ge_core.serving import model_config, options
from ge_core.serving.execution.responses import region
from ge_core.serving.execution.returned import ServedModel
from ge_core.serving.execution.sender import SendingModel
from ge_core.serving.monitoring import host_limits, monitor, warmup
from ge_core.session import InferenceSession
from ge_core_pyx import watchdog


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


def load(pb_utils, args: Mapping[str, str], defaults: str | os.PathLike | None = None) -> ServedModel:
    """For initialize: opens the om on this instance's device, checks the configuration, warms up and logs one line.

    Parameters
    ----------
    pb_utils : module
    args : mapping of str to str
        What Triton passes to initialize.
    defaults : path, optional

    Raises
    ------
    ValueError, RuntimeError, OSError
        The load is refused; nothing stays open.
    """
    refuse_numpy_2(pb_utils)
    tune_allocator()
    if (worker := region()) is not None:
        watchdog.start(worker)
    config = json.loads(args["model_config"])
    parameters = _parameters(config)
    settings = options.parse(parameters, defaults=defaults)
    if warning := host_limits.environment_warning(parameters, settings.runtime, os.environ):
        pb_utils.Logger.log_warn(f"GE Backend: '{config['name']}' {warning}")
    om = find_om(settings, Path(args["model_repository"]) / args["model_version"])
    instance, count = instance_of(config, args["model_instance_name"])
    devices = options.devices_of(settings.device_ids, instance, count)
    session = InferenceSession(
        om,
        runtime=settings.runtime,
        device_ids=devices,
        slots=settings.slots,
        submit_timeout_ms=settings.submit_timeout_ms,
        execute_timeout_ms=settings.execute_timeout_ms,
        output_axes=settings.output_axes,
        pad_value=settings.pad_value,
        gear_plan=settings.gear_plan,
    )
    served = session
    try:
        kind = SendingModel if settings.responses == "sender" else ServedModel
        binding = model_config.bind(config, session.description, casts=settings.cast_inputs == "checked")
        served = kind(pb_utils, session, binding, settings.slots * len(devices), settings.register_memory)
        times = warmup.warm_up(session, settings.slots * len(devices)) if settings.warmup else {}
        _log_load(pb_utils.Logger, config, session, settings, times)
        served.operations = monitor.begin(pb_utils, args, settings, session, instance, times)
    except BaseException:
        served.close()
        raise
    # What was made so far lives as long as the model: collections between requests need not look at it again.
    gc.collect()
    gc.freeze()
    return served


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


def instance_of(config: Mapping, instance_name: str) -> tuple[int, int]:
    """(number of this instance, number of instances) over all instance groups of a model."""
    before, found = 0, 0
    for group in config.get("instance_group", ()):
        name, _, index = instance_name.rpartition("_")
        if name == group["name"] and index.isdigit():
            found = before + int(index)
        before += group["count"]
    return found, max(before, 1)


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


def _log_load(logger, config: Mapping, session, settings, times: Mapping[str, float]) -> None:
    description, stats = session.description, session.stats()
    runtime = (
        "cpu (the CPU implementation of AscendCL, no NPU)" if description.runtime == "cpu" else description.runtime
    )
    kind = "range of shapes" if description.gear_kind == "range" else "static"
    gears = f"{description.gear_kind} gears {', '.join(map(str, description.gears))}" if description.gears else kind
    ids = session.device_ids
    devices = f"device {ids[0]}" if len(ids) == 1 else f"devices {', '.join(map(str, ids))}"
    warm_up = "every gear warmed up" if times else "not warmed up"
    logger.log_info(
        f"GE Backend: '{config['name']}' serves {description.path} ({description.soc}) on runtime {runtime}, "
        f"{devices}; {gears}; max_batch_size {config['max_batch_size']}; {settings.slots} slot(s), responses "
        f"{settings.responses}; {stats['device_bytes']:,} bytes of device memory, {stats['pinned_bytes']:,} bytes "
        f"pinned; {warm_up}"
    )
    for sentence in options.unknown_environment(os.environ):
        logger.log_warn(f"GE Backend: {sentence}")
