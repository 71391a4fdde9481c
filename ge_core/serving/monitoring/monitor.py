# SPDX-License-Identifier: Apache-2.0
"""Health and figures of a served model while it serves."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

from ge_core.serving.monitoring import health, metrics


class Monitor:
    """Health and figures of one instance of a served model. Close it before its session.

    Parameters
    ----------
    pb_utils : module
    labels : mapping of str to str
        model, version, instance and pid, for the metrics.
    session : ge_core.InferenceSession
    """

    def __init__(self, pb_utils, labels: Mapping[str, str], session):
        logger, name = pb_utils.Logger, labels["model"]
        self._errors: Counter[str] = Counter()
        self._published_errors: dict[str, int] = {}
        self._lock = threading.Lock()
        self._figures = metrics.SessionFigures(session)
        self.health = health.Health(session, lambda text: logger.log_warn(f"GE Backend: '{name}' {text}"))
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

    def publish(self) -> None:
        """Bring the metrics up to date now, where the server has any."""
        if self._publisher is not None:
            self._publisher.publish()

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
