# SPDX-License-Identifier: Apache-2.0
"""What is checked and logged between a session that is warm and a model that serves."""

import os
from collections.abc import Mapping
from pathlib import Path

from ge_core.engine import engine_of
from ge_core.serving import options, shm_space
from ge_core.serving.instances import Instance
from ge_core.serving.monitoring import golden, host_limits, load_report


def check_load(
    logger,
    config: Mapping,
    version_folder: Path,
    settings: options.ServingOptions,
    session,
    instance: Instance,
    times: Mapping[str, float],
) -> None:
    """Check the device memory of all instances and the golden file, then log what runs where.

    Each instance logs one line; the first one also logs a table, hints and warnings.

    Parameters
    ----------
    logger : pb_utils.Logger
    config : mapping
        The model's completed configuration.
    version_folder : path
    settings : ge_core.serving.options.ServingOptions
    session : ge_core.InferenceSession
    instance : Instance
    times : mapping of gear to milliseconds
        From `ge_core.serving.monitoring.warmup.warm_up`.

    Raises
    ------
    GoldenError
        The model does not compute what the golden file expects.
    DeviceMemoryError
        The instances of a device need more than it has.
    """
    logger.log_info(load_report.summary(session, config, settings, times))
    for sentence in options.unknown_environment(os.environ):
        logger.log_warn(f"GE Backend: {sentence}")
    need = session.stats()["device_bytes"] // len(session.device_ids)
    for context in engine_of(session).contexts:
        sharing = instance.sharing(context.device_id)
        host_limits.check_memory(context.device_id, need, sharing, context.memory_info()[1])
    notes: list[tuple[str, str]] = []
    warnings: list[str] = []
    if settings.golden:
        notes.append(("golden", golden.check(version_folder / settings.golden, session)))
    if instance.number:
        return
    sharing = instance.sharing(session.device_ids[0])
    for name, (text, enough) in (
        ("device memory", _device_memory(session, need, sharing)),
        ("shared memory", _shared_memory(session, config, settings, instance.count)),
    ):
        if enough:
            notes.append((name, text))
        else:
            warnings.append(f"{name}: {text}")
    for line in load_report.table(session, config, times, notes):
        logger.log_info(line)
    outside = load_report.outside_hint(Path(session.description.path), version_folder)
    for hint in filter(None, [*load_report.hints(config, session.description, sharing), outside]):
        logger.log_info(f"GE Backend: '{config['name']}' {hint}")
    for warning in filter(None, [*warnings, host_limits.mask_warning(os.environ)]):
        logger.log_warn(f"GE Backend: '{config['name']}' {warning}")


def _device_memory(session, need: int, instances: int) -> tuple[str, bool]:
    free, total = engine_of(session).contexts[0].memory_info()
    return host_limits.memory_text(session.device_ids[0], need, instances, free + need, total)


def _shared_memory(session, config: Mapping, settings: options.ServingOptions, count: int) -> tuple[str, bool]:
    sizes = [spec.nbytes for spec in (*session.description.inputs, *session.description.outputs)]
    batches = settings.slots + 1 if settings.responses == "sender" else 1
    need = shm_space.pool_need(sizes, batches, max(config["max_batch_size"], 1))
    there = shm_space.space()
    return shm_space.pool_text(need, count, shm_space.pool_settings(os.getppid()), there.free if there else None)
