# SPDX-License-Identifier: Apache-2.0
"""From a report's JSON to a document: the short table on top, then plots, details and what it was measured on."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.measure.records import SCHEMA
from bench.report import plots
from bench.report.document import Block, Code, Document, Plot, Section, Table, Text
from bench.report.plots import Series
from ge_core_pyx.errors import GeCoreError

CPU_WARNING = (
    "Measured on the CPU implementation of AscendCL, not on an NPU. These figures say what Triton and ge_core add on "
    "this host; they say nothing about the speed of an NPU."
)


class UnreadableError(GeCoreError):
    """A file is no report of the bench; the text says why."""


def read(path: Path) -> dict:
    """Read what ``--json`` wrote; raises UnreadableError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise UnreadableError(f"{path} is no report of this bench: expected schema {SCHEMA}, got {found}")
    return content


def merge(contents: Sequence[Mapping]) -> dict:
    """Put several reports into one; what lists they have in common is put together, of other parts the last counts.

    Raises
    ------
    UnreadableError
        Two of them have the latency of the same model.
    """
    measured = [model["model"] for content in contents for model in content["summary"].get("models", ())]
    if twice := [model for model in measured if measured.count(model) > 1]:
        raise UnreadableError(
            f"the latency of {twice[0]} is in two of the files; `compare` shows two runs side by side"
        )
    summary: dict = {}
    for content in contents:
        for part, found in content["summary"].items():
            summary[part] = [*summary.get(part, ()), *found] if isinstance(found, list) else found
    both = {part: [one for content in contents for one in content[part]] for part in ("records", "limits")}
    return {"schema": SCHEMA, "records": both["records"], "summary": summary, "limits": both["limits"]}


def ms(us: float | None) -> str:
    """Write microseconds as milliseconds, with three decimals, two from 10 ms and one from 100 ms on."""
    if us is None:
        return "–"
    size = abs(us)
    return f"{us / 1e3:.{3 if size < 10_000 else 2 if size < 100_000 else 1}f}"


def us(value: float | None) -> str:
    """Write microseconds."""
    return "–" if value is None else f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def rate(value: float) -> str:
    """Write rows or requests per second."""
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def bound(limit: Mapping) -> str:
    """Return a limit and its direction, which files of older versions do not have."""
    sign = {True: "≥ ", False: "≤ ", None: ""}[limit.get("at_least")]
    return f"{sign}{limit['limit']:g}"


def mark(row: Mapping) -> str:
    """Return the mark of an unstable row."""
    return "" if row["stable"] else "~"


def build_document(content: Mapping) -> Document:
    """Put a report into sections; `content` is the object that ``--json`` writes."""
    records, summary = content["records"], content["summary"]
    devices = [record["device"] for record in records]
    kinds = {device["kind"] for device in devices}
    names = list(dict.fromkeys(device["name"] for device in devices))
    sections = [
        *_short_tables(records, summary),
        *_limits(content["limits"], names),
        *(_details(records, model) for model in summary.get("models", ())),
        *(_overhead(records, model) for model in summary.get("overhead", {}).get("models", ())),
        *_throughput(summary),
        *stages_sections(summary),
        *map(load_section, summary.get("load", ())),
        *map(advice_section, summary.get("advice", ())),
        *usage_sections(summary),
    ]
    subtitle = " · ".join([*names, *dict.fromkeys(record["host"].get("cpu", "") for record in records)])
    warning = CPU_WARNING if "cpu" in kinds else None
    return Document("ge_core bench", subtitle, sections, warning, _facts(records) + _runs(summary))


def _short_tables(records: Sequence[Mapping], summary: Mapping) -> list[Section]:
    sections = []
    for model in summary.get("models", ()):
        latency = [r for r in records if r["bench"] == "latency" and r["model"] == model["model"]]
        p50 = {(r["path"], r["transport"], r["batch"]): r["p50_us"] for r in latency}
        transport, load = model["transport"], model["load"]
        rows = [
            (
                label,
                *(f"{ms(p50[path, over, batch])} ms" for batch in model["batches"]),
                rate(load[key]),
            )
            for label, path, over, key in (
                ("direct AscendCL", model["direct_path"], None, "direct_rows_per_s"),
                (f"Triton ({transport})", "triton", transport, "triton_rows_per_s"),
            )
        ]
        header = ("p50 latency", *(f"batch {batch}" for batch in model["batches"]), "most requests/s")
        blocks: list[Block] = [Table(header, rows, short=True), *(Text(line, "note") for line in model["remarks"])]
        blocks += _latency_plots(latency, model)
        sections.append(Section(model["model"], model["device"], blocks))
    return sections


def _latency_plots(latency: Sequence[Mapping], model: Mapping) -> list[Plot]:
    shown = [r for r in latency if r["path"] in (model["direct_path"], "triton")]
    bars = []
    for r in shown:
        p50, p90 = r["p50_us"] / 1e3, r["p90_us"] / 1e3
        bars.append((f"batch {r['batch']}", f"{r['path']} {r['transport'] or ''}".strip(), p50, p50, p90))
    title = f"{model['model']}: latency in ms, p50 with a whisker to p90 ({model['device']})"
    found = [Plot(title, lambda width: plots.bars(bars, "ms", title, width, lambda value: ms(value * 1e3)))]
    gaps = [row for row in model["gaps"] if "gap_us" in row]
    if gaps:
        name = "gap: what Triton adds to c"
        both = []
        for row in gaps:
            group = f"batch {row['batch']}, {row['transport']}"
            both.append((group, name, row["gap_us"] / 1e3, max(row["gap_p10_us"], 0) / 1e3, row["gap_p90_us"] / 1e3))
            floor = row["floor_us"] / 1e3
            both.append((group, "floor: a Triton model that does nothing", floor, floor, floor))
        title_gap = (
            f"{model['model']}: gap in ms with the spread p10…p90 of the pairs, and the floor ({model['device']})"
        )
        found.append(
            Plot(title_gap, lambda width: plots.bars(both, "ms", title_gap, width, lambda value: ms(value * 1e3)))
        )
    return found


def _limits(limits: Sequence[Mapping], devices: Sequence[str]) -> list[Section]:
    if not limits:
        return []
    rows = [(x["id"], f"{x['value']:.3f}", bound(x), "ok" if x["ok"] else "missed") for x in limits]
    missed = tuple(number for number, x in enumerate(limits) if not x["ok"])
    table = Table(("", "measured", "limit", ""), rows, strong=missed)
    return [Section("Limits", ", ".join(devices), [table])]


def _times(record: Mapping, format_value: Callable[[float | None], str] = ms) -> tuple[str, ...]:
    return tuple(format_value(record[name]) for name in ("p50_us", "p90_us", "p95_us", "p99_us", "mean_us"))


def _row_label(record: Mapping) -> str:
    if record["bench"] == "throughput":
        clients = f"{record['path']} ×{record['concurrency']}{', sender' if record['slots'] > 1 else ''}"
        name = clients if record["transport"] else record["path"]
    else:
        path = "floor*" if record["path"] == "floor" and "pause" in record["timing"] else record["path"]
        name = f"{path} {record['transport'] or ''}".rstrip()
    return name + mark(record)


def _details(records: Sequence[Mapping], model: Mapping) -> Section:
    gaps = {(row["batch"], row["transport"]): row for row in model["gaps"]}
    header = ("ms", "n", "p50", "p90", "p95", "p99", "mean", "rows/s", "gap", "p10…p90", "/floor", "−direct")
    rows: list[tuple[str, ...]] = []
    own_records = [r for r in records if r["model"] == model["model"]]
    for batch in model["batches"]:
        rows.append((f"batch {batch}",))
        for r in (r for r in own_records if r["bench"] == "latency" and r["batch"] == batch):
            gap = gaps.get((batch, r["transport"])) if r["path"] == "triton" else None
            rows.append((_row_label(r), str(r["n"]), *_times(r), rate(r["rows_per_s"]), *_gap_cells(gap)))
    rows.append(("most rows/s",))
    rows += [
        (_row_label(r), str(r["n"]), *_times(r), rate(r["rows_per_s"]), "", "", "", "")
        for r in own_records
        if r["bench"] == "throughput"
    ]
    notes = [
        "c: the AscendCL calls from C. direct: InferenceSession.run. floor: a Triton model that does nothing; floor*: "
        "after a pause as long as the model's execution. http+shm: the bench's lean client.",
        "triton-plain: a Triton model written the usual way: NumPy joins rows, copies and execution are synchronous.",
        "gap: p50 of Triton minus p50 of c; p10…p90: of the differences pair by pair; /floor: gap / floor. ~ unstable: "
        "three consecutive windows differ by more than 10 %. p99 –: fewer than 100 samples.",
    ]
    blocks: list[Block] = [Table(header, rows), *(Text(note, "note") for note in notes)]
    return Section(f"{model['model']}: details", model["device"], blocks)


def _gap_cells(gap: Mapping | None) -> tuple[str, ...]:
    if gap is None:
        return ("", "", "", "")
    to_direct = ms(gap["triton_minus_direct_us"])
    if "gap_us" not in gap:
        return ("", "", "", to_direct)
    return (
        ms(gap["gap_us"]),
        f"{ms(gap['gap_p10_us'])}…{ms(gap['gap_p90_us'])}",
        f"{gap['gap_to_floor']:.2f}",
        to_direct,
    )


def _overhead(records: Sequence[Mapping], model: Mapping) -> Section:
    ratios = {row["path"]: row for row in model["ratios"]}
    header = ("µs", "n", "p50", "p90", "p95", "p99", "mean", "compared with", "p50 / p50", "p10…p90", "apart")
    rows = []
    for r in (r for r in records if r["bench"] == "overhead" and r["model"] == model["model"]):
        cells = [r["path"] + mark(r), str(r["n"]), *_times(r, us)]
        if row := ratios.get(r["path"]):
            spread = f"{row['ratio_p10']:.3f}…{row['ratio_p90']:.3f}"
            cells += [row["to"], f"{row['ratio']:.3f}", spread, f"{row['apart_us']:+.2f}"]
        rows.append((*cells, *[""] * (len(header) - len(cells))))
    sizes = f"{model['bytes_in']:,} B in, {model['bytes_out']:,} B out"
    notes = [
        "What ge_core adds to the same AscendCL calls made from C, without Triton. Compared paths take turns.",
        "malloc-per-call: the official GE backend's copy pattern (allocate, copy synchronously from pageable memory, "
        "execute, copy back, free) in C, and nothing more of that backend.",
    ]
    blocks: list[Block] = [Table(header, rows), *(Text(note, "note") for note in notes)]
    return Section(f"Overhead: {model['model']}, {sizes}", model["device"]["name"], blocks)


def _throughput(summary: Mapping) -> list[Section]:
    found = summary.get("throughput")
    if not found:
        return []
    rows = []
    for what in ("slots", "devices"):
        for one in found[what]["rates"]:
            where = ", Triton" if one.get("path") == "triton" else ""
            name = f"{one['slots']} slots, {one.get('devices', 1)} device(s){where}{mark(one)}"
            rows.append((name, found[what]["timing"], rate(one["rows_per_s"])))
    memory = found["memory"]
    grown = memory["growth_bytes"]
    text = (
        f"Memory after {memory['requests']:,} requests of mixed sizes, since request {memory['settled']:,}: resident "
        f"{grown['resident'] / 2**20:+.2f} MiB, device {grown['device']:+,} bytes, pinned {grown['pinned']:+,} bytes."
    )
    blocks: list[Block] = [Table(("submit, or clients of Triton", "times", "rows/s"), rows, (0, 1)), Text(text)]
    return [Section("Throughput of slots and devices", found["device"]["name"], blocks)]


def stages_sections(summary: Mapping) -> list[Section]:
    """Return one section for each model and transport, its batches side by side."""
    groups: dict[tuple, list[Mapping]] = {}
    for found in summary.get("stages", ()):
        groups.setdefault((found["model"], found["transport"], found["device"]), []).append(found)
    return [_stages(f"Stages: {model}, {over}", device, group) for (model, over, device), group in groups.items()]


def _stages(title: str, device: str, group: Sequence[Mapping]) -> Section:
    sources = {stage["name"]: stage["source"] for found in group for stage in found["stages"]}
    times = [{stage["name"]: stage["us"] for stage in found["stages"]} for found in group]
    rows = [(name, *(us(each.get(name)) for each in times), source) for name, source in sources.items()]
    rows += [
        ("sum", *(us(found["sum_us"]) for found in group), ""),
        ("without clocks", *(us(found["total_us"]) for found in group), "client: the model as it is served"),
        ("apart", *(f"{found['apart']:+.1%}" for found in group), ""),
    ]
    header = ("mean µs", *(f"batch {found['batch']}{'' if found['adds_up'] else ' !'}" for found in group), "from")
    blocks: list[Block] = [Table(header, rows, (0, len(header) - 1), strong=(len(sources),))]
    wrong = [found for found in group if not found["adds_up"]]
    if wrong:
        which = ", ".join(str(found["batch"]) for found in wrong)
        blocks.append(
            Text(
                f"! The stages of batch {which} do not add up within 5 %: the machine was not quiet, or something else "
                "used the device. Run it again.",
                "warning",
            )
        )
    counts = ", ".join(f"{found['n']} and {found['sampled']}" for found in group)
    blocks.append(
        Text(f"{group[0]['timing']}; requests, and executions with events, of each batch: {counts}.", "note")
    )  # fmt: skip
    blocks.append(
        Text("Of answers that are returned, one batch at a time; `responses: sender` overlaps these stages.", "note")
    )
    if "not an NPU" in device and any(each.get("D2H") == 0 for each in times):
        blocks.append(
            Text(
                "The CPU implementation has no times configured for copies: what they take on this host is part of "
                "launch and wake-up.",
                "note",
            )
        )
    for found, each in zip(group, times, strict=True):
        name = f"{found['model']}, batch {found['batch']}, {found['transport']}"
        draw = functools.partial(plots.waterfall, list(each.items()), "µs", f"stages of {name}")
        blocks.append(Plot(f"{name}: where the time of a request goes ({device})", draw))
    return Section(title, device, blocks)


def load_section(found: Mapping) -> Section:
    limit = found["limit_ms"]
    header = ("clients", "requests/s", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "n")
    closed = [(f"{x['clients']}{mark(x)}", rate(x["requests_per_s"]), *_tail(x), str(x["n"])) for x in found["closed"]]
    opened = [
        (f"{x['rate']:.1f}{mark(x)}", rate(x["requests_per_s"]), *_tail(x), str(x["n"]), "yes" if x["ok"] else "no")
        for x in found["open"]
    ]
    settings = [
        (x["label"] + mark(x), str(x["clients"]), rate(x["requests_per_s"]), *(_tail(x)[i] for i in (0, 2, 3)))
        for x in found["settings"]
        if "refused" not in x
    ]
    refused = [Text(f"{x['label']} is refused: {x['refused']}", "note") for x in found["settings"] if "refused" in x]
    highest = found["highest_rate"]
    verdict = f"The highest rate found that keeps {limit:g} ms is {highest:.1f} requests/s." if highest else (
        f"No rate tried keeps {limit:g} ms."
    )  # fmt: skip
    if highest and found["too_much"]:
        verdict += f" {found['too_much']:.1f} does not."
    reached = [x["requests_per_s"] for x in found["open"]]
    tails = [(x["p95_us"] if x["p99_us"] is None else x["p99_us"]) / 1e3 for x in found["open"]]
    halves = [x["p50_us"] / 1e3 for x in found["open"]]
    waiting = [(x["requests_per_s"], x["p50_us"] / 1e3) for x in found["closed"]]
    series = [
        Series("p50, requests at random", list(zip(reached, halves, strict=True)), 0),
        Series("p99 (p95 below 100 samples)", list(zip(reached, tails, strict=True)), 4),
        Series("p50, clients that wait", waiting, 1, True),
    ]
    label = f"{found['model']}: requests/s and latency"
    blocks: list[Block] = [
        Text(f"{found['rows']} row(s) per request over {found['transport']}; {found['timing']}.", "note"),
        Text("Closed loop: each client sends its next request when the last one is answered."),
        Table(header, closed),
        Text("Open loop: requests arrive at random (Poisson), and latency counts from when each was due. " + verdict),
        Table(("due/s", "answered/s", *header[2:], f"≤ {limit:g} ms"), opened),
        Plot(
            f"{label} ({found['device']})",
            lambda width: plots.lines(series, "requests/s", "ms", label, width, (f"limit {limit:g} ms", limit)),
        ),
        Text("Other settings, closed loop."),
        Table(("setting", "clients", "requests/s", "p50 ms", "p95 ms", "p99 ms"), settings),
        *refused,
        Text(
            "~ closed loop: three windows differ by more than 10 %; open loop: answers come more than 5 % slower than "
            "requests. The limit is judged by p99, by p95 below 100 samples (p99 –).",
            "note",
        ),
    ]
    return Section(f"Load: {found['model']}", found["device"], blocks)


def _tail(x: Mapping) -> tuple[str, str, str, str]:
    return ms(x["p50_us"]), ms(x["p90_us"]), ms(x["p95_us"]), ms(x["p99_us"])


def advice_section(found: Mapping) -> Section:
    goal = "the lowest latency" if found["goal"] == "latency" else "the most rows/s"
    if found["p99_ms"]:
        goal += f" within {found['p99_ms']:g} ms"
    gears = [(str(x["rows"]), f"{x['run_ms']:.3f}", f"{x['engine_ms']:.3f}") for x in found["gears"]]
    measured = [
        (name + mark(x), x["label"], str(x["clients"]), rate(x["requests_per_s"]), *(_tail(x)[i] for i in (0, 2, 3)))
        for name, x in (("default", found["default"]), ("suggested", found["advised"]))
    ]
    expected = found["expected"]
    blocks: list[Block] = [
        Text(f"For {goal}, in config.pbtxt:"),
        Code(found["stanza"]),
        *(Text(reason, "note") for reason in found["reasons"]),
        Text(
            f"Expected on a busy server: {expected['rows_per_s']:.1f} rows/s and {expected['latency_ms']:.1f} ms."
            if found["goal"] == "throughput"
            else f"Expected: {expected['latency_ms']:.1f} ms."
        ),
        Table(("measured", "setting", "clients", "requests/s", "p50 ms", "p95 ms", "p99 ms"), measured, (0, 1)),
        Table(("rows of a gear", "run ms", "of it execution"), gears),
        Text(f"Triton adds {found['overhead_ms']:.3f} ms for one client over {found['transport']}.", "note"),
    ]
    return Section(f"Advice: {found['model']}", found["device"], blocks)


def usage_sections(summary: Mapping) -> list[Section]:
    rows = []
    for one in summary.get("usage", ()):
        for device in one["devices"]:
            shares = [
                f"{device[f'{unit}_mean']:g} % (most {device[f'{unit}_max']} %)" if f"{unit}_mean" in device else "–"
                for unit in ("cube", "vector", "aicpu")
            ]
            used = f"{device['memory_used_max'] / 2**20:,.0f} MiB" if "memory_used_max" in device else "–"
            what = " ".join(str(one[key]) for key in ("bench", "model", "batch", "transport") if key in one)
            rows.append((what, str(device["device"]), *shares, used, str(device["samples"])))
    if not rows:
        return []
    header = ("during", "device", "cube", "vector", "AI CPU", "most memory in use", "samples")
    return [Section("What the device said of itself", summary.get("device"), [Table(header, rows)])]


def _runs(summary: Mapping) -> list[tuple[str, str]]:
    found = []
    for each in summary.get("runs", ()):
        settings = [f"{name}={value}" for name, value in each["environment"].items()]
        found.append(("command", " ".join([*settings, "python -m bench", *each["arguments"]])))
    return found


def _facts(records: Sequence[Mapping]) -> list[tuple[str, str]]:
    if not records:
        return []
    first = records[0]
    device, host = first["device"], first["host"]
    facts = [
        ("device", f"{device['name']} ({device['kind']}), SoC {device.get('soc')}, CANN {device.get('cann') or '–'}"),
        ("host", f"{host.get('cpu')}, {host.get('cores')} cores, {host.get('machine')}, Linux {host.get('kernel')}"),
    ]
    if "memory_bytes" in host:
        facts.append(("memory", f"{host['memory_bytes'] / 2**30:.1f} GiB"))
    loads = [record["host"].get("load_average") for record in records if record["host"].get("load_average")]
    if loads:
        facts.append(("load average", f"{loads[0]} at the first bench, {loads[-1]} at the last"))
    versions: dict[str, str] = {}
    for record in records:
        versions |= record["versions"]
    facts.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
    facts.append(("records", f"{len(records)}, {sum(not record['stable'] for record in records)} of them unstable"))
    return facts
