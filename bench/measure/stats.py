# SPDX-License-Identifier: Apache-2.0
"""Statistics of the bench: percentiles, stability, gaps taken pair by pair, and the interleaved round robin."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Samples = Sequence[int] | Sequence[float] | np.ndarray
Key = TypeVar("Key", bound=Hashable)

PERCENTILES = (50, 90, 95, 99)
P99_SAMPLES = 100
WINDOWS = 3
TOLERANCE = 0.10


def percentile(samples: Samples, q: float) -> float:
    """Return the `q`-th percentile of `samples`, linearly interpolated between the two nearest ranks."""
    return float(np.percentile(np.asarray(samples, dtype=np.float64), q))


def summarize(elapsed_ns: Sequence[int]) -> dict:
    """Return ``n``, ``p50_us`` … ``p99_us`` and ``mean_us`` of latencies in nanoseconds.

    ``p99_us`` is None below 100 samples: with fewer it would be little more than the largest one.
    """
    samples_us = np.asarray(elapsed_ns, dtype=np.float64) / 1e3
    fields: dict = {"n": len(samples_us)}
    for q in PERCENTILES:
        known = q < 99 or len(samples_us) >= P99_SAMPLES
        fields[f"p{q}_us"] = round(percentile(samples_us, q), 3) if known else None
    fields["mean_us"] = round(float(samples_us.mean()), 3)
    return fields


def spread(windows: Sequence[tuple[float, float]]) -> float:
    """Return by what part of the smallest the windows differ in throughput or latency, given as such pairs."""
    return float(max(max(values) / min(values) - 1 for values in zip(*windows, strict=True)))


def is_stable(windows: Sequence[tuple[float, float]], tolerance: float = TOLERANCE) -> bool:
    """Whether throughput and latency of consecutive windows, given as such pairs, agree within `tolerance`."""
    return spread(windows) <= tolerance


def sequential_windows(elapsed_ns: Sequence[int], count: int = WINDOWS) -> list[tuple[float, float]]:
    """Cut latencies of calls made one after another into windows of (calls per second, p50 in µs)."""
    parts = [part for part in np.array_split(np.asarray(elapsed_ns, dtype=np.float64), count) if len(part)]
    return [(1e9 / float(part.mean()), percentile(part, 50) / 1e3) for part in parts]


def concurrent_windows(
    finished_ns: Sequence[int], elapsed_ns: Sequence[int], count: int = WINDOWS
) -> list[tuple[float, float]]:
    """Cut completions, ordered by time, into windows of (completions per second, p50 in µs)."""
    finished = np.asarray(finished_ns, dtype=np.float64)
    edges = [round(i * (len(finished) - 1) / count) for i in range(count + 1)]
    return [
        ((b - a) * 1e9 / max(finished[b] - finished[a], 1.0), percentile(elapsed_ns[a + 1 : b + 1], 50) / 1e3)
        for a, b in itertools.pairwise(edges)
        if b > a
    ]


def completion_rate(finished_ns: Sequence[int], burst: int) -> float:
    """Return completions per second from the end of the first batch to the end of the last.

    `burst` completions arrive together when a batch ends. Counting starts after a whole first burst and ends with a
    whole last one, so that neither is counted without the time it took.
    """
    usable = len(finished_ns) // burst * burst
    if usable < 2 * burst:
        raise ValueError(f"a rate needs at least {2 * burst} completions for bursts of {burst}, got {len(finished_ns)}")
    return (usable - burst) * 1e9 / (finished_ns[usable - 1] - finished_ns[burst - 1])


@dataclass(frozen=True)
class Gap:
    """How much longer `a` takes than `b`, in µs: p50 minus p50, and the spread of the differences pair by pair."""

    gap_us: float
    p10_us: float
    p90_us: float


def paired_gap(a_ns: Sequence[int], b_ns: Sequence[int]) -> Gap:
    """Return the gap of two equally long series whose i-th samples were taken in the same round."""
    if len(a_ns) != len(b_ns):
        raise ValueError(f"pairs need series of one length, got {len(a_ns)} and {len(b_ns)} samples")
    difference_us = (np.asarray(a_ns, dtype=np.float64) - np.asarray(b_ns, dtype=np.float64)) / 1e3
    return Gap(
        gap_us=(percentile(a_ns, 50) - percentile(b_ns, 50)) / 1e3,
        p10_us=percentile(difference_us, 10),
        p90_us=percentile(difference_us, 90),
    )


@dataclass(frozen=True)
class Ratio:
    """How `a` compares with `b`: p50 by p50 and p50 minus p50 in µs, each with its spread over blocks of the run."""

    ratio: float
    ratio_p10: float
    ratio_p90: float
    apart_us: float
    apart_p10_us: float
    apart_p90_us: float


def paired_ratio(a_ns: Sequence[int], b_ns: Sequence[int], block: int = 100) -> Ratio:
    """Compare two series whose i-th samples were taken in the same round.

    The spread is that of the same figures in each `block` consecutive rounds; of all rounds when there are fewer.
    """
    if len(a_ns) != len(b_ns):
        raise ValueError(f"pairs need series of one length, got {len(a_ns)} and {len(b_ns)} samples")
    a, b = np.asarray(a_ns, dtype=np.float64) / 1e3, np.asarray(b_ns, dtype=np.float64) / 1e3
    count = max(len(a) // block, 1)
    medians = [
        (percentile(x, 50), percentile(y, 50))
        for x, y in zip(np.array_split(a, count), np.array_split(b, count), strict=True)
    ]
    ratios, apart = [x / y for x, y in medians], [x - y for x, y in medians]
    return Ratio(
        ratio=percentile(a, 50) / percentile(b, 50),
        ratio_p10=percentile(ratios, 10),
        ratio_p90=percentile(ratios, 90),
        apart_us=percentile(a, 50) - percentile(b, 50),
        apart_p10_us=percentile(apart, 10),
        apart_p90_us=percentile(apart, 90),
    )


def until_stable(
    window: Callable[[], dict[Key, list[int]]], max_windows: int, count: int = WINDOWS
) -> list[dict[Key, list[int]]]:
    """Take windows until `count` consecutive ones agree for every series, at most `max_windows`; return those.

    `window` returns each series' nanoseconds, of calls made one after another. When no windows agree, those that differ
    least are returned. Only their stability decides which are taken, never their values.
    """
    windows: list[dict[Key, list[int]]] = []
    best: tuple[float, int] = (float("inf"), 0)
    while len(windows) < max(max_windows, count):
        windows.append(window())
        first = len(windows) - count
        if first >= 0:
            series = [[sequential_windows(part[name], 1)[0] for part in windows[first:]] for name in windows[0]]
            differ = max(map(spread, series))
            best = min(best, (differ, first))
            if differ <= TOLERANCE:
                break
    return windows[best[1] : best[1] + count]


@dataclass(frozen=True)
class Call:
    """One compared call: `run` returns the nanoseconds it took.

    It is made in every `every`-th round, after a pause of `pause_s` seconds, which is not part of its time.
    """

    run: Callable[[], int]
    every: int = 1
    pause_s: float = 0.0


def timed(function: Callable[[], object], clock: Callable[[], int] = time.perf_counter_ns) -> Callable[[], int]:
    """Wrap `function` into one that returns the nanoseconds a call took."""

    def run() -> int:
        start = clock()
        function()
        return clock() - start

    return run


def interleave(
    calls: Mapping[Key, Call],
    rounds: int,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[Key, list[int]]:
    """Make `rounds` rounds of all calls, each round in a new order, and return each call's nanoseconds.

    Drift of the machine then hits all calls alike and no call always follows the same other one. The orders are the
    same in every run.
    """
    order = random.Random(0)
    names = list(calls)
    samples: dict[Key, list[int]] = {name: [] for name in names}
    for number in range(rounds):
        order.shuffle(names)
        for name in names:
            call = calls[name]
            if number % call.every == 0:
                if call.pause_s:
                    sleep(call.pause_s)
                samples[name].append(call.run())
    return samples


@dataclass(frozen=True)
class Turn:
    """What one path did in its turn: the nanoseconds of each call, and of all by the clock on the wall."""

    elapsed_ns: list[int]
    wall_ns: int


def turns_of(run: Callable[[int], list[int]], clock: Callable[[], int] = time.perf_counter_ns) -> Callable[[int], Turn]:
    """Wrap `run`, which makes so many calls back to back and returns each one's nanoseconds."""

    def turn(count: int) -> Turn:
        start = clock()
        elapsed = run(count)
        return Turn(elapsed, clock() - start)

    return turn


def alternate(paths: Mapping[str, Callable[[int], Turn]], count: int, turns: int) -> dict[str, list[Turn]]:
    """Let each path make `count` calls, in `turns` turns, so that drift hits all alike."""
    found: dict[str, list[Turn]] = {name: [] for name in paths}
    sizes = [count * (turn + 1) // turns - count * turn // turns for turn in range(turns)]
    for size in filter(None, sizes):
        for name, run in paths.items():
            found[name].append(run(size))
    return found


def rate(turns: Sequence[Turn]) -> float:
    """Return calls per second of the wall clock of all turns."""
    return sum(len(turn.elapsed_ns) for turn in turns) * 1e9 / sum(turn.wall_ns for turn in turns)


def turn_windows(turns: Sequence[Turn], count: int = WINDOWS) -> list[tuple[float, float]]:
    """Put consecutive turns together into windows of (calls per second, p50 in µs)."""
    edges = [len(turns) * i // count for i in range(count + 1)]
    windows = [turns[a:b] for a, b in itertools.pairwise(edges) if b > a]
    return [(rate(part), percentile([ns for turn in part for ns in turn.elapsed_ns], 50) / 1e3) for part in windows]
