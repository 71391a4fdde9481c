# SPDX-License-Identifier: Apache-2.0
"""``python -m bench all``: overhead, throughput, latency and stages in one report."""

from __future__ import annotations

from bench.benches import latency, overhead, prepare, stages, throughput
from bench.measure.progress import Progress
from bench.measure.records import Report


def everything(
    options: prepare.Options, stage_options: prepare.Options, progress: Progress
) -> tuple[Report, list[str]]:
    """Run the four benches, stages with `stage_options`; returns the report and remarks for the reader."""
    quick, device = options.quick, (options.model, options.runtime, options.device_id)
    # Latency late: it leaves this process with a device, a server's clients and the heap of both behind.
    parts = [
        overhead.overhead(*device, overhead.QUICK if quick else overhead.Plan(), progress),
        throughput.throughput(*device, throughput.QUICK if quick else throughput.Plan(), progress),
        latency.latency(options, progress),
        stages.stages(stage_options, stages.QUICK if quick else stages.Plan(), progress),
    ]
    return Report.merged([report for report, _ in parts]), [line for _, remarks in parts for line in remarks]
