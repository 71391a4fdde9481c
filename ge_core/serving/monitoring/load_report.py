# SPDX-License-Identifier: Apache-2.0
"""What a model says in Triton's log when it is loaded: one line, a table, and hints about settings."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ge_core.gears import gears_text
from ge_core.serving.monitoring import host_limits
from ge_core.serving.options import ServingOptions
from ge_core_pyx import device, om


def summary(session, config: Mapping, settings: ServingOptions, times: Mapping[str, float]) -> str:
    """The line that each instance logs: which file runs where, and how.

    Parameters
    ----------
    session : ge_core.InferenceSession
    config : mapping
        The model's completed configuration.
    settings : ServingOptions
    times : mapping of gear to milliseconds
        From `ge_core.serving.monitoring.warmup.warm_up`; empty if it was left out.
    """
    description, stats = session.description, session.stats()
    runtime = (
        "cpu (the CPU implementation of AscendCL, no NPU)" if description.runtime == "cpu" else description.runtime
    )
    gears = "range of shapes" if description.gear_kind == "range" else gears_text(description)
    warm_up = "every gear warmed up" if times else "not warmed up"
    return (
        f"GE Backend: '{config['name']}' serves {description.path} ({description.soc}) on runtime {runtime}, "
        f"{host_limits.devices_text(session.device_ids, os.environ)}; {gears}; max_batch_size "
        f"{config['max_batch_size']}; {settings.slots} slot(s), responses {settings.responses}; "
        f"{stats['device_bytes']:,} bytes of device memory, {stats['pinned_bytes']:,} bytes pinned; {warm_up}"
    )


def table(session, config: Mapping, times: Mapping[str, float], notes: Sequence[tuple[str, str]] = ()) -> list[str]:
    """What `summary` does not say; Triton's log escapes line ends, so each row is an entry of its own.

    Parameters
    ----------
    session, config, times
        See `summary`.
    notes : sequence of (str, str)
        Further rows: memory, shared memory, golden figures.
    """
    description = session.description
    rows = [
        ("CANN", _cann(device.open_runtime(description.runtime), description)),
        ("file", f"{Path(description.path).stat().st_size:,} bytes"),
    ]
    rows += [("input", _tensor(spec)) for spec in description.inputs]
    rows += [("output", _tensor(spec)) for spec in description.outputs]
    rows.append(("budget", str(session.budget) if session.budget else "grows with the shapes that come"))
    if times:
        rows.append(("gear times", ", ".join(f"{gear}: {time:.2f} ms" for gear, time in times.items())))
    rows += notes
    width = max(len(name) for name, _ in rows)
    return [f"GE Backend: '{config['name']}' {name.ljust(width)}  {text}" for name, text in rows]


def _cann(runtime, description) -> str:
    version = runtime.cann_version() or "unknown"
    generator = om.read_manifest(description.path)["generator"] if description.runtime == "cpu" else None
    return f"{version}, model made by {generator}" if generator else version


def _tensor(spec) -> str:
    return f"{spec}, {spec.nbytes:,} bytes at most" if spec.nbytes else f"{spec}, unbounded"


def hints(config: Mapping, description, instances_per_device: int) -> Iterable[str]:
    """Sentences about settings of config.pbtxt with a measured effect (docs/triton.md has the measurements).

    Parameters
    ----------
    config : mapping
        As Triton completed it.
    description : ge_core.ModelDescription
    instances_per_device : int
        Of this model.
    """
    batching = config.get("dynamic_batching")
    rows = config["max_batch_size"]
    if batching is None and "sequence_batching" not in config and rows > 1:
        yield (
            f"hint: runs each client's request by itself. With several clients, `dynamic_batching {{ }}` merges up to "
            f"{rows} rows: 5,351 → 8,646 requests/s were measured with 8 clients; with one client it costs 33 to 87 us"
        )
    if batching is not None:
        yield from _batcher_hints(config, description)
    if instances_per_device > 1:
        yield (
            f"hint: {instances_per_device} instances share a device, each with its own copy of the weights, and do not "
            'make it faster; one instance with `slots` above 1 and `responses: "sender"` shares the weights'
        )
    if "response_cache" in config and config["response_cache"].get("enable"):
        yield "hint: response_cache does nothing unless the server runs with --cache-config=local,size=<bytes>"


def _batcher_hints(config: Mapping, description) -> Iterable[str]:
    batching, rows = config["dynamic_batching"], config["max_batch_size"]
    stalls = [key for key in ("default_queue_policy", "priority_queue_policy") if _set(batching.get(key))]
    if _number(batching.get("priority_levels")):
        stalls.append("priority_levels")
    if stalls:
        yield (
            f"hint: {' and '.join(stalls)} make Triton's batcher look at a busy instance only every 500 ms: six calls "
            "of 50 ms took up to 1,075 ms instead of 126 ms. Leave them out and use `submit_timeout_ms` or the "
            "client's own time limit"
        )
    delay = _number(batching.get("max_queue_delay_microseconds"))
    if delay:
        yield (
            f"hint: max_queue_delay_microseconds {delay} is added to every request of an idle server, and 50 to 150 us "
            "more; it pays only if clients come faster than the model answers. 0 still merges what waits meanwhile"
        )
    gears = [gear for gear in description.gears if isinstance(gear, int)]
    preferred = [_number(size) for size in batching.get("preferred_batch_size", ())]
    odd = [size for size in preferred if description.gear_kind == "batch" and size not in gears]
    if odd:
        yield (
            f"hint: preferred_batch_size {', '.join(map(str, odd))} is no gear of the om and is padded up; its gears "
            f"are {', '.join(map(str, gears))}"
        )
    if rows > 1 and description.gear_kind in ("dims", "image_size") and not _ragged(config):
        yield (
            "hint: Triton gathers only requests of equal shapes; with `allow_ragged_batch: true` in every input others "
            "share a call too, and each shape runs in its own gear"
        )
    if rows <= 1:
        yield f"hint: dynamic_batching cannot merge anything with max_batch_size {rows}; it costs 33 to 87 us each"


def _ragged(config: Mapping) -> bool:
    return all(entry.get("allow_ragged_batch") for entry in config["input"])


def _set(policy) -> bool:
    """Whether a queue policy says anything: Triton completes an absent one with zeros."""
    if isinstance(policy, Mapping):
        return any(_set(value) for value in policy.values())
    return policy not in (None, 0, "0", "", False, "REJECT")


def _number(value) -> int:
    return int(value or 0)


def outside_hint(om_path: Path, version_folder: Path) -> str | None:
    """What to touch so that Triton's `load` sees a change of an om that it does not watch.

    Touching config.pbtxt is not enough: Triton compares its content and finds nothing new.
    """
    if om_path.resolve().is_relative_to(version_folder.parent.resolve()):
        return None
    return (
        f"hint: {om_path} lies outside the model folder, where Triton sees no change: after replacing it, "
        f"`touch {version_folder / 'reload'}`, then load the model again"
    )
