"""What was measured, as data (docs/BENCHMARKS.md tells its shape), and that data as tables.

Everything shown is made from the data alone, so that a file of an earlier run can be shown again.
"""

import dataclasses
import datetime
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.comparison import Result, Row
from benchmarks.peers import CHECKOUT, Peer
from benchmarks.processes import Launch
from benchmarks.rounds import significant
from benchmarks.shapes import CASES, TOPIC
from radiator.tools.cli.load import Measured
from radiator.tools.cli.text import bytes_text, table

FORMAT = 1
OURS = "radiator"
GENERATOR_BOUND = 0.9  # of one CPU: above it the load may be what was measured

Data = dict[str, Any]

_FIGURES: dict[str, Callable[[Measured], float]] = {
    "per_s": lambda one: one.per_s,
    "p50_ms": lambda one: one.p50_ms,
    "p99_ms": lambda one: one.p99_ms,
    "p999_ms": lambda one: one.p999_ms,
    "cpu_us": lambda one: one.broker_cpu_s / one.messages * 1e6,
    "generator_share": lambda one: one.generator_share,
}


# ---- data


def data_of(rows: Sequence[Row], peers: Sequence[Peer], missing: dict[str, str], host: Data, settings: Data) -> Data:
    """The whole comparison."""
    return {
        "format": FORMAT,
        "taken": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "host": host,
        "settings": settings,
        "peers": {peer.name: peer_data(peer, rows) for peer in peers},
        "missing": missing,
        "rows": [row_data(row) for row in rows],
    }


def growth_data(series: list[Data], peers: Sequence[Peer], missing: dict[str, str], host: Data, settings: Data) -> Data:
    """How cost grew: `series` as growth.py makes them."""
    found = data_of([], peers, missing, host, settings)
    for peer in peers:
        cases = {"persistent": CASES[0], "memory": TOPIC}
        found["peers"][peer.name]["started"] = {
            name: launch_data(peer.launch(case)) for name, case in cases.items() if not peer.lacks(case)
        }
    return {**found, "series": series}


def peer_data(peer: Peer, rows: Sequence[Row]) -> Data:
    started = {}
    for row in rows:
        result = row.results.get(peer.name)
        if result is not None and result.launch is not None:
            started.setdefault("persistent" if row.case.is_persistent else "memory", launch_data(result.launch))
    return {"version": peer.version(), "confirms": peer.confirms, "started": started}


def launch_data(launch: Launch) -> Data:
    """As it was started, without the paths of the machine."""

    def shown(text: str) -> str:
        return text.replace(sys.executable, "python").replace(str(CHECKOUT), "CHECKOUT")

    return {
        "commands": [[shown(word) for word in command] for command in launch.commands],
        "environment": {name: shown(value) for name, value in launch.environment.items()},
        "files": {name: shown(text) for name, text in launch.files.items()},
    }


def row_data(row: Row) -> Data:
    case = row.case
    results = {name: result_data(result) for name, result in row.results.items() if result.measured}
    ours = results.get(OURS)
    ratios = {
        name: ours["per_s"]["median"] / result["per_s"]["median"]
        for name, result in results.items()
        if ours is not None and name != OURS
    }
    return {
        "name": case.name,
        "kind": case.kind,
        "persistent": case.is_persistent,
        "shape": dataclasses.asdict(case.shape),
        "subscribers": case.subscribers,
        "body_bytes": case.body_bytes,
        "results": results,
        "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "targets": {name: target for name in case.targets if (target := case.target(name)) is not None},
        "failed": {name: result.failed for name, result in row.results.items() if result.failed},
        "lacks": row.lacks,
    }


def result_data(result: Result) -> Data:
    """Each figure's median, and its least and greatest, over the rounds."""
    return {name: spread([figure(one) for one in result.measured]) for name, figure in _FIGURES.items()}


def spread(values: Sequence[float]) -> dict[str, float]:
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: significant(value) for name, value in found.items()}


# ---- tables


def comparison_table(data: Data) -> str:
    heads = ("shape", "body", "peer", "per second", "min - max", "radiator", "target", "p50 ms", "p99 ms", "p99.9 ms",
             "CPU us", "generator")  # fmt: skip
    lines: list[list[str]] = []
    for row in data["rows"]:
        names = [row["name"], bytes_text(row["body_bytes"])]
        for peer in data["peers"]:
            cells = peer_cells(row, peer)
            if cells:
                lines.append([*names, peer, *cells])
                names = ["", ""]
    return table(heads, lines)


def markdown(data: Data) -> str:
    """For docs/BENCHMARKS.md: medians per second, and in brackets how many times as fast Radiator was."""
    peers = list(data["peers"])
    lines = []
    for body in sorted({row["body_bytes"] for row in data["rows"]}):
        lines += [f"| {bytes_text(body)} | " + " | ".join(peers) + " |", "|---|" + "--:|" * len(peers)]
        for row in data["rows"]:
            if row["body_bytes"] == body:
                lines.append(f"| {row['name']} | " + " | ".join(_markdown_cell(row, peer) for peer in peers) + " |")
        lines.append("")
    return "\n".join(lines)


def _markdown_cell(row: Data, peer: str) -> str:
    if peer not in row["results"]:
        return "failed" if peer in row["failed"] else "-"
    result, ratio = row["results"][peer], row["ratios"].get(peer)
    bound = "*" if result["generator_share"]["median"] > GENERATOR_BOUND else ""
    return f"{result['per_s']['median']:,.0f}{bound}" + ("" if ratio is None else f" ({ratio:.2g}x)")


def peer_cells(row: Data, peer: str) -> list[str]:
    """Empty: there is nothing to say of this peer in this row."""
    if peer not in row["results"]:
        return ["failed", "", "", "", "", "", "", "", ""] if peer in row["failed"] else []
    result = row["results"][peer]
    rate = result["per_s"]
    ratio = row["ratios"].get(peer)
    target = row["targets"].get(peer)
    cells = [f"{rate['median']:,.0f}", f"{rate['min']:,.0f} - {rate['max']:,.0f}"]
    cells.append("" if ratio is None else f"{ratio:.2f}x")
    cells.append("" if target is None else f"{target:g}x" + ("" if ratio is None or ratio >= target else " MISSED"))
    cells += [f"{result[name]['median']:.2f}" for name in ("p50_ms", "p99_ms", "p999_ms")]
    cells.append(f"{result['cpu_us']['median']:.1f}")
    share = result["generator_share"]["median"]
    cells.append(f"{share:.0%}" + (" bound!" if share > GENERATOR_BOUND else ""))
    return cells


def growth_table(data: Data) -> str:
    heads = ("growing", "at", "peer", "per second", "CPU us", "p50 ms", "p99 ms", "generator", "memory MiB", "disk MiB")
    lines: list[list[str]] = []
    for series in data["series"]:
        for point in series["points"]:
            share = point["generator_share"]
            # with a backlog they are ages: how long a message has been in it
            latencies = ["", ""] if series["name"] == "backlog" else [f"{point[p]:.2f}" for p in ("p50_ms", "p99_ms")]
            lines.append([
                series["name"], f"{point['at']:,}", series["peer"], f"{point['per_s']:,.0f}", f"{point['cpu_us']:.1f}",
                *latencies,
                f"{share:.0%}" + (" bound!" if share > GENERATOR_BOUND else ""),
                *(f"{point[name]:.0f}" if name in point else "" for name in ("rss_anon_mib", "disk_mib")),
            ])  # fmt: skip
    return table(heads, lines)


def preface(data: Data) -> str:
    """Everything that must be known to judge the figures, or to get them again."""
    host, settings = data["host"], data["settings"]
    seconds = f" of {settings['seconds']:g} s" if "seconds" in settings else ""
    lines = [
        f"Taken {data['taken']}: {settings['rounds']} rounds{seconds}, medians.",
        f"{host['cpu']}, {host['cpus']} CPUs, {host['memory_gib']} GiB, Linux {host['kernel']}, {host['system']}, "
        f"{host['file_system']}, load before {host['load_before']}.",
        f"One flush of the disk: {host['flush_ms']['median']} ms, p99 {host['flush_ms']['p99']} ms.",
    ]
    for name, peer in data["peers"].items():
        lines += ["", f"{name} {peer['version']}", f"  {peer['confirms']}"]
        for what, started in peer["started"].items():
            lines += [f"  {what}:", *(f"    {line}" for line in started_lines(started))]
    lines += [""] if data["missing"] else []
    lines += [f"Not compared: {name}: {reason}." for name, reason in data["missing"].items()]
    return "\n".join(lines)


def started_lines(started: Data) -> list[str]:
    environment = " ".join(f"{name}={value}" for name, value in started["environment"].items())
    lines = [environment] if environment else []
    lines += [" ".join(word or '""' for word in command) for command in started["commands"]]
    for name, text in started["files"].items():
        lines += [f"{name}:", *(f"  {line}" for line in text.splitlines())]
    return lines


def remarks(data: Data) -> str:
    """What the table has no room for."""
    lines = []
    for series in data.get("series", ()):
        lines += [f"{series['name']}, {series['peer']} ended: {series['ended']}"] if series["ended"] else []
    for row in data.get("rows", ()):
        for reasons in (row["failed"], row["lacks"]):
            lines += [f"{row['name']}, {bytes_text(row['body_bytes'])}, {name}: {why}" for name, why in reasons.items()]
    if max(_generator_shares(data), default=0.0) > GENERATOR_BOUND:
        lines.append("bound!: the generator used more than 90 % of a CPU; that peer may be faster than the figure.")
    return "\n".join(lines)


def _generator_shares(data: Data) -> list[float]:
    results = [result for row in data.get("rows", ()) for result in row["results"].values()]
    points = [point for series in data.get("series", ()) for point in series["points"]]
    return [*(one["generator_share"]["median"] for one in results), *(one["generator_share"] for one in points)]
