"""Running a served model: what it checks and says when it loads, its health, and its figures while it serves."""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from ge_core.engine import engine_of
from ge_core.serving import options
from ge_core.serving.monitoring import golden, health, host_limits, load_report, metrics

FAILURES_PER_S = 20  # lines of the log; each holds its request up for 50 us
_ID_CHARACTERS = 200  # of a request's id in the log; over HTTP a client may send megabytes


class FailureLog:
    """A line in the log for each failed request, with its id; so many of them a second, then how many more there were.

    Parameters
    ----------
    log : pb_utils.Logger
    """

    def __init__(self, log):
        self._log, self._lock = log, threading.Lock()
        self._second, self._lines, self._left_out = 0.0, 0, 0

    def log(self, request, text: str) -> None:
        try:
            number = request.request_id()[:_ID_CHARACTERS]
        except Exception:  # whatever is wrong with it, its client gets an answer
            number = ""
        with self._lock:
            now, left_out = time.monotonic(), 0
            if now - self._second >= 1:
                self._second, self._lines, left_out, self._left_out = now, 0, self._left_out, 0
            self._lines += 1
            if self._lines > FAILURES_PER_S:
                self._left_out += 1
                return
        if left_out:
            self._log.log_error(f"GE Backend: {left_out} more requests failed meanwhile")
        self._log.log_error(f"GE Backend: request {number or 'without id'} failed: {text}")


class Operations:
    """Health and figures of one instance of a served model. Close it before its session.

    Parameters
    ----------
    pb_utils : module
    labels : mapping of str to str
        model, version, instance and pid, for the metrics.
    session : ge_core.InferenceSession
    """

    def __init__(self, pb_utils, labels: Mapping[str, str], session):
        log, name = pb_utils.Logger, labels["model"]
        self._errors: Counter[str] = Counter()
        self._published_errors: dict[str, int] = {}
        self._lock = threading.Lock()
        self._figures = metrics.SessionFigures(session)
        self.health = health.Health(session, lambda text: log.log_warn(f"GE Backend: '{name}' {text}"))
        self._publisher = None
        if hasattr(pb_utils, "MetricFamily"):
            self._publisher = metrics.Publisher(pb_utils, labels, self._samples)
            self._publisher.start()

    @property
    def refusing(self) -> str | None:
        """Why requests cannot run now; None when they can."""
        return self.health.reason

    def is_ready(self) -> bool:
        """For Triton's is_ready(): cheap, from any thread, never blocks."""
        return self.health.reason is None

    def failed(self, error: BaseException) -> None:
        """After a request that gets an error: counts it, and looks whether the session still runs. Returns at once.

        It is counted under AscendCL's code, else under the name of its class.
        """
        with self._lock:
            self._errors[str(getattr(error, "code", type(error).__name__))] += 1
        self.health.failed(error)

    def close(self) -> None:
        """Ends both threads and takes the series away. Calling it again does nothing."""
        self.health.close()
        if self._publisher is not None:
            self._publisher.close()

    def _samples(self) -> Iterator[metrics.Sample]:
        yield metrics.Sample("ge_healthy", int(self.health.reason is None))
        yield metrics.Sample("ge_restart_needed", int(self.health.restart_needed))
        with self._lock:
            errors = dict(self._errors)
        if errors != self._published_errors:
            self._published_errors = errors
            self._figures.time_stages()
        for code, count in errors.items():
            yield metrics.Sample("ge_errors_total", count, {"code": code})
        yield from self._figures.samples()


def check_load(
    logger,
    args: Mapping[str, str],
    settings: options.ServingOptions,
    session,
    instance: int,
    times: Mapping[str, float],
) -> None:
    """Between a session that is warm and a model that serves: the golden file, and what the log says.

    Parameters
    ----------
    logger : pb_utils.Logger
    args : mapping of str to str
        What Triton passed to initialize.
    settings : ge_core.serving.options.ServingOptions
    session : ge_core.InferenceSession
    instance : int
        Its number over all instance groups; the first one logs the table.
    times : mapping of gear to milliseconds
        From `ge_core.serving.monitoring.warmup.warm_up`.

    Raises
    ------
    GoldenError
        The model does not compute what the golden file expects.
    DeviceMemoryError
        The instances of a device need more than it has.
    """
    config = json.loads(args["model_config"])
    folder = Path(args["model_repository"]) / args["model_version"]
    notes = []
    count = max(sum(group["count"] for group in config.get("instance_group", ())), 1)
    need = session.stats()["device_bytes"] // len(session.device_ids)
    for context in engine_of(session).contexts:
        sharing = _instances_on(context.device_id, settings, count)
        host_limits.check_memory(context.device_id, need, sharing, context.memory_info()[1])
    if settings.golden:
        notes.append(("golden", golden.check(folder / settings.golden, session)))
    if instance:
        return
    sharing = _instances_on(session.device_ids[0], settings, count)
    warnings = []
    for name, (text, well) in (
        ("device memory", _memory(session, need, sharing)),
        ("shared memory", _shared_memory(session, config, settings, count)),
    ):
        if well:
            notes.append((name, text))
        else:
            warnings.append(f"{name}: {text}")
    for line in load_report.table(session, config, times, notes):
        logger.log_info(line)
    hints = [*load_report.hints(config, session.description, sharing)]
    hints.append(load_report.outside_hint(Path(session.description.path), folder))
    for hint in filter(None, hints):
        logger.log_info(f"GE Backend: '{config['name']}' {hint}")
    for warning in filter(None, [*warnings, host_limits.mask_warning(os.environ)]):
        logger.log_warn(f"GE Backend: '{config['name']}' {warning}")


def _instances_on(device_id: int, settings: options.ServingOptions, count: int) -> int:
    owned = [options.devices_of(settings.device_ids, instance, count) for instance in range(count)]
    return sum(device_id in ids for ids in owned)


def _memory(session, need: int, instances: int) -> tuple[str, bool]:
    free, total = engine_of(session).contexts[0].memory_info()
    return host_limits.memory_text(session.device_ids[0], need, instances, free + need, total)


def _shared_memory(session, config: Mapping, settings: options.ServingOptions, count: int) -> tuple[str, bool]:
    sizes = [spec.nbytes for spec in (*session.description.inputs, *session.description.outputs)]
    batches = settings.slots + 1 if settings.responses == "sender" else 1
    need = host_limits.pool_need(sizes, batches, max(config["max_batch_size"], 1))
    return host_limits.pool_text(need, count, host_limits.pool_settings(os.getppid()), host_limits.free_shared_memory())


def begin(
    pb_utils,
    args: Mapping[str, str],
    settings: options.ServingOptions,
    session,
    instance: int,
    times: Mapping[str, float],
) -> Operations:
    """`check_load`, then the operations of the instance that Triton loads with these arguments."""
    config = json.loads(args["model_config"])
    check_load(pb_utils.Logger, args, settings, session, instance, times)
    labels = {"model": config["name"], "version": args["model_version"], "instance": args["model_instance_name"]}
    labels["pid"] = str(os.getpid())  # keeps series of a worker apart from its successor's; see metrics.Publisher
    return Operations(pb_utils, labels, session)
