# SPDX-License-Identifier: Apache-2.0
"""``python -m bench compare A.json B.json``: two runs side by side, and what changed beyond the spread.

A p50 of n samples is itself uncertain; the allowance for a change is three standard errors of both p50s, taken from n
and from p90 − p50, and `drift` on top, which is what the same machine may differ by from run to run. Rows that were not
stable are shown and not judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.report.build import CPU_WARNING, bound, mark, ms, rate
from bench.report.document import Document, Section, Table, Text

KEY = ("bench", "path", "transport", "model", "batch", "concurrency", "slots", "instances")
DRIFT = 0.05
STANDARD_ERRORS = 3.0
MEDIAN_ERROR = 1.2533  # of a median, in standard deviations over √n
P90_SIGMAS, P10_P90_SIGMAS = 1.2816, 2.5631
SLOWER, FASTER, SAME, UNJUDGED = "slower", "faster", "", "not judged"


@dataclass(frozen=True)
class Change:
    """One row of both runs: what it is, a number of each in µs (or rows/s), and whether it changed."""

    what: str
    a: float
    b: float
    allowance: float
    verdict: str
    note: str = ""


def standard_error(sigma: float, n: int) -> float:
    """Return the standard error of the median of `n` samples with this standard deviation."""
    return MEDIAN_ERROR * max(sigma, 0.0) / math.sqrt(max(n, 1))


def judge(a: float, b: float, allowance: float, judged: bool = True, more_is_better: bool = False) -> str:
    """Return whether `b` is slower or faster than `a` by more than `allowance`."""
    if not judged:
        return UNJUDGED
    if abs(b - a) <= allowance:
        return SAME
    return FASTER if (b > a) == more_is_better else SLOWER


def compare_records(a: Sequence[Mapping], b: Sequence[Mapping], drift: float, comparable: bool) -> list[Change]:
    """Compare the p50 of every row that both runs have, and of load and throughput the rows/s."""
    in_a = {_key(record): record for record in a}
    changes = []
    for record in b:
        other = in_a.get(_key(record))
        if other is None:
            continue
        judged = comparable and other["stable"] and record["stable"]
        errors = [
            standard_error((row["p90_us"] - row["p50_us"]) / P90_SIGMAS, row["n"]) for row in (other, record)
        ]  # fmt: skip
        allowance = STANDARD_ERRORS * math.hypot(*errors) + drift * other["p50_us"]
        verdict = judge(other["p50_us"], record["p50_us"], allowance, judged)
        note = "" if other["stable"] and record["stable"] else "unstable"
        what = _row_label(record)
        changes.append(Change(what, other["p50_us"], record["p50_us"], allowance, verdict, note))
        if record["bench"] in ("throughput", "load"):
            rates = other["rows_per_s"], record["rows_per_s"]
            allowance = drift * rates[0]
            verdict = judge(*rates, allowance, judged, more_is_better=True)
            changes.append(Change(f"{what}: rows/s", *rates, allowance, verdict, note))
    return changes


def compare_gaps(a: Mapping, b: Mapping, records: Mapping, drift: float, comparable: bool) -> list[Change]:
    """Compare what Triton adds to the C calls, for every model, batch and transport that both runs have."""
    in_a = {_gap_key(model, row): row for model in a.get("models", ()) for row in model["gaps"]}
    changes = []
    for model in b.get("models", ()):
        for row in model["gaps"]:
            other = in_a.get(_gap_key(model, row))
            if other is None or "gap_us" not in row or "gap_us" not in other:
                continue
            n = records.get((model["model"], row["batch"], row["transport"]), 1)
            errors = [standard_error((x["gap_p90_us"] - x["gap_p10_us"]) / P10_P90_SIGMAS, n) for x in (other, row)]
            allowance = STANDARD_ERRORS * math.hypot(*errors) + drift * max(abs(other["gap_us"]), other["floor_us"])
            stable = other.get("stable", True) and row.get("stable", True)
            verdict = judge(other["gap_us"], row["gap_us"], allowance, comparable and stable)
            what = f"{model['model']} batch {row['batch']}, {row['transport']}"
            note = "" if stable else "unstable"
            changes.append(Change(what, other["gap_us"], row["gap_us"], allowance, verdict, note))
    return changes


def compare_highest_rates(a: Mapping, b: Mapping, drift: float, comparable: bool) -> list[Change]:
    """Compare the highest rates that keep the same limit; they are known as far as the search went."""
    in_a = {(one["model"], one["transport"]): one for one in a.get("load", ())}
    changes = []
    for one in b.get("load", ()):
        other = in_a.get((one["model"], one["transport"]))
        if other is None or not other["highest_rate"] or not one["highest_rate"]:
            continue
        steps = [(x["too_much"] or x["highest_rate"]) - x["highest_rate"] for x in (other, one)]
        allowance = max(steps) + drift * other["highest_rate"]
        same = other["limit_ms"] == one["limit_ms"]
        rates = other["highest_rate"], one["highest_rate"]
        verdict = judge(*rates, allowance, comparable and same, more_is_better=True)
        note = "" if same else f", for {other['limit_ms']:g} ms in A and {one['limit_ms']:g} ms in B"
        what = f"load: {one['model']}, highest rate within the limit{note}: rows/s"
        changes.append(Change(what, *rates, allowance, verdict))
    return changes


def _key(record: Mapping) -> tuple:
    # Of floors whether there was a pause, of load closed or open loop and the settings.
    paused = record["path"] == "floor" and "pause" in record["timing"]
    how = paused or record["timing"].partition("; ")[2]
    return *(record[name] for name in KEY), how


def _gap_key(model: Mapping, row: Mapping) -> tuple:
    return model["model"], row["batch"], row["transport"]


def _row_label(record: Mapping) -> str:
    way = f"{record['path']} {record['transport'] or ''}".rstrip()
    if record["path"] == "floor" and "pause" in record["timing"]:
        way = way.replace("floor", "floor*")
    if record["bench"] == "load":
        way += f", {record['timing'].partition('; ')[2]}"
    clients = f", {record['concurrency']} clients" if record["concurrency"] > 1 else ""
    return f"{record['bench']}: {record['model']} batch {record['batch']}{clients}, {way}"


def differences(a: Sequence[Mapping], b: Sequence[Mapping]) -> tuple[list[str], bool]:
    """Return how the two runs' devices, hosts, versions and models differ, and whether their times can be compared."""
    lines, comparable = [], True
    for what, found in (
        ("device", lambda r: f"{r['device']['name']} ({r['device']['kind']})"),
        ("SoC", lambda r: r["device"].get("soc")),
        ("CANN", lambda r: r["device"].get("cann")),
        ("CPU", lambda r: r["host"].get("cpu")),
        ("cores", lambda r: r["host"].get("cores")),
        ("kernel", lambda r: r["host"].get("kernel")),
    ):
        one, other = (sorted({str(found(r)) for r in rows}) for rows in (a, b))
        if one != other:
            lines.append(f"{what}: A {', '.join(one)}; B {', '.join(other)}")
    kinds = [{r["device"]["kind"] for r in rows} for rows in (a, b)]
    if kinds[0] != kinds[1]:
        comparable = False
        lines.append(
            "One run is on the CPU implementation of AscendCL and the other is not: their times say nothing about each "
            "other, and no row is judged."
        )
    versions = [{name: value for r in rows for name, value in r["versions"].items()} for rows in (a, b)]
    for name in sorted(versions[0].keys() | versions[1].keys()):
        if versions[0].get(name) != versions[1].get(name):
            lines.append(f"{name}: A {versions[0].get(name, 'absent')}; B {versions[1].get(name, 'absent')}")
    models = [{r["model"] for r in rows} for rows in (a, b)]
    for name, only in (("A", models[0] - models[1]), ("B", models[1] - models[0])):
        if only:
            lines.append(f"only in {name}: {', '.join(sorted(only))}")
    timings = [{(r["model"], r["timing"].partition(";")[0]) for r in rows if r["path"] != "floor"} for rows in (a, b)]
    for model in sorted(models[0] & models[1]):
        one, other = (sorted(timing for name, timing in found if name == model) for found in timings)
        if one != other:
            lines.append(f"{model}: execution time in A {', '.join(one)}; in B {', '.join(other)}: not the same model")
    return lines, comparable


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; `document` shows it."""

    gaps: list[Change]
    rows: list[Change]
    differences: list[str]
    comparable: bool
    document: Document

    def exit_code(self, check: bool) -> int:
        """Return 0, or with `check` 3 if something is slower, else 4 if a row could not be judged."""
        verdicts = {change.verdict for change in self.gaps + self.rows}
        if not check:
            return 0
        return 3 if SLOWER in verdicts else 4 if UNJUDGED in verdicts else 0


def compare(a: Mapping, b: Mapping, names: tuple[str, str], drift: float = DRIFT) -> Comparison:
    """Compare two reports.

    Parameters
    ----------
    a, b : mapping
        What `bench.report.build.read` returns.
    names : tuple of str
        What to call them.
    drift : float
        By how much, as a part, the same machine may differ from run to run.

    Raises
    ------
    ValueError
        They have no row in common.
    """
    found_differences, comparable = differences(a["records"], b["records"])
    counts = {
        (r["model"], r["batch"], r["transport"]): r["n"]
        for r in b["records"]
        if r["bench"] == "latency" and r["path"] == "triton"
    }
    gaps = compare_gaps(a["summary"], b["summary"], counts, drift, comparable)
    rows = compare_records(a["records"], b["records"], drift, comparable)
    rows += compare_highest_rates(a["summary"], b["summary"], drift, comparable)
    if not rows:
        raise ValueError(f"{names[0]} and {names[1]} have no row in common; " + "; ".join(found_differences))
    return Comparison(
        gaps, rows, found_differences, comparable, _document(a, b, names, drift, gaps, rows, found_differences)
    )


def _document(a, b, names, drift, gaps, rows, found_differences) -> Document:
    header = ("", "A", "B", "B − A", "", "allowance", "")
    sections = [
        Section(
            "What differs",
            None,
            [Text(line) for line in found_differences] or [Text("Same device, host, versions and models.")],
        )
    ]
    if gaps:
        table = [_cells(change, ms) for change in gaps]
        strong = tuple(number for number, change in enumerate(gaps) if change.verdict in (SLOWER, FASTER))
        sections.append(Section("What Triton adds to c, ms", None, [Table(header, table, (0, 6), strong)]))
    if limits := _limits(a["limits"], b["limits"]):
        sections.append(limits)
    table = [_cells(change, rate if change.what.endswith("rows/s") else ms) for change in rows]
    strong = tuple(number for number, change in enumerate(rows) if change.verdict in (SLOWER, FASTER))
    notes = [
        f"Changed: by more than three standard errors of both p50s and {drift:.0%} of A, the allowance. "
        "not judged: a row was unstable (~), or the devices are of different kinds.",
    ]
    sections.append(
        Section(
            "All rows, p50 in ms", None, [Table(header, table, (0, 6), strong), *(Text(note, "note") for note in notes)]
        )
    )
    counted = {verdict: sum(c.verdict == verdict for c in rows + gaps) for verdict in (SLOWER, FASTER, UNJUDGED)}
    same = sum(c.verdict == SAME for c in rows + gaps)
    verdict = (
        f"{counted[SLOWER]} slower, {counted[FASTER]} faster, {same} within the spread, {counted[UNJUDGED]} not judged."
    )
    sections.insert(0, Section(verdict, None, [Text(f"A: {_label(a, names[0])}"), Text(f"B: {_label(b, names[1])}")]))
    kinds = {r["device"]["kind"] for r in (*a["records"], *b["records"])}
    return Document("ge_core bench: two runs", " · ".join(names), sections, CPU_WARNING if "cpu" in kinds else None)


def _limits(a: Sequence[Mapping], b: Sequence[Mapping]) -> Section | None:
    """The limits that both runs judged, side by side."""
    in_a = {limit["id"]: limit for limit in a}
    pairs = [(in_a[limit["id"]], limit) for limit in b if limit["id"] in in_a]
    if not pairs:
        return None
    verdicts = {(True, True): "ok", (False, False): "missed", (True, False): "now missed", (False, True): "now ok"}
    rows = [(y["id"], f"{x['value']:.3f}", f"{y['value']:.3f}", bound(y), verdicts[x["ok"], y["ok"]]) for x, y in pairs]
    strong = tuple(number for number, (x, y) in enumerate(pairs) if x["ok"] != y["ok"])
    return Section("Limits", None, [Table(("", "A", "B", "limit", ""), rows, strong=strong)])


def _label(content: Mapping, name: str) -> str:
    first = content["records"][0]
    version = first["versions"].get("ge_core", "?")
    return f"{name}: ge_core {version} on {first['device']['name']}, {first['host'].get('cpu')}"


def _cells(change: Change, format_value: Callable[[float], str]) -> tuple[str, ...]:
    part = f"{change.b / change.a - 1:+.1%}" if change.a > 0 else ""
    tilde = mark({"stable": not change.note})
    difference = format_value(abs(change.b - change.a))
    sign = "−" if change.b < change.a else "+"
    figures = format_value(change.a), format_value(change.b), sign + difference, part, format_value(change.allowance)
    return change.what + tilde, *figures, change.verdict
