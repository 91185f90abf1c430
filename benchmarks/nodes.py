"""`--nodes`: what it costs to be several: handing messages over, topics along links, fanouts over nodes, balance.

In every round each graph of nodes is started anew, and all that is measured in it follows; the figures are medians over
the rounds. All nodes and the load share the CPUs of one machine, so a rate says less than the CPU for each message.
"""

import datetime
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.before import Before, against, before_table
from benchmarks.host import host
from benchmarks.linked import linked
from benchmarks.nodecases import SERIES, SHARE_MIN, TABLES, Figures, graphs, series_of
from benchmarks.report import GENERATOR_BOUND, preface
from benchmarks.rounds import significant
from radiator.model.errors import RadiatorError
from radiator.tools.cli.text import table

FORMAT = 1
RATIO_ROUNDS = 2  # of the comparison with an earlier version, for each round of the rest

Data = dict[str, Any]

_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "per_s": ("per second", lambda value: f"{value:,.0f}"),
    "p50_ms": ("p50 ms", lambda value: f"{value:.2f}"),
    "p99_ms": ("p99 ms", lambda value: f"{value:.2f}"),
    "cpu_us": ("CPU us, all", lambda value: f"{value:.1f}"),
    "first_us": ("first", lambda value: f"{value:.1f}"),
    "last_us": ("last", lambda value: f"{value:.1f}"),
    "left": ("copies left", lambda value: f"{value:,.0f}"),
    "least_share": ("least share", lambda value: f"{value:.2f}" + ("" if value >= SHARE_MIN else " MISSED")),
    "share_a": ("a", lambda value: f"{value:.2f}"),
    "share_b": ("b", lambda value: f"{value:.2f}"),
    "share_c": ("c", lambda value: f"{value:.2f}"),
    "moved_p50": ("displaced p50", lambda value: f"{value:,.0f}"),
    "moved_p99": ("p99", lambda value: f"{value:,.0f}"),
    "moved_max": ("max", lambda value: f"{value:,.0f}"),
    "generator": ("generator", lambda value: f"{value:.0%}" + (" bound!" if value > GENERATOR_BOUND else "")),
}


def measure_nodes(directory: Path, rounds: int, seconds: float, before: Before | None, series: Sequence[str]) -> Data:
    """Those series. before: an earlier version, with which one node of this one is compared."""
    machine = host(directory)
    rows: dict[tuple[str, str], list[Figures]] = {}
    failed: list[str] = []
    for number in range(1, rounds + 1):
        _round(directory, seconds, series, rows, failed)
        sys.stderr.write(f"  round {number} of {rounds}: done, load {os.getloadavg()[0]:.2f}\n")
    return {
        "format": FORMAT,
        "taken": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command_of(rounds, seconds, before, series),
        "host": machine,
        "settings": {"rounds": rounds, "seconds": seconds},
        "peers": {},
        "missing": {},
        "nodes": [
            {"table": name, "at": at, "figures": medians(found)}
            for (name, at), found in sorted(rows.items(), key=lambda row: TABLES.index(row[0][0]))
        ],
        "failed": failed,
        "before": [] if before is None else against(before, directory, RATIO_ROUNDS * rounds, seconds),
        "load_after": round(os.getloadavg()[0], 2),
    }


def command_of(rounds: int, seconds: float, before: Before | None, series: Sequence[str]) -> str:
    """To get the figures again, without the paths of the machine."""
    words = ["scripts/bench --nodes", *([",".join(series)] if list(series) != SERIES else [])]
    words += [f"--rounds {rounds} --seconds {seconds:g}", *([f"--before {before.version()}"] if before else [])]
    return " ".join(words)


def _round(
    directory: Path,
    seconds: float,
    series: Sequence[str],
    rows: dict[tuple[str, str], list[Figures]],
    failed: list[str],
) -> None:
    """A graph in which something fails is given up for this round; the others go on."""
    for edges, measures in graphs():
        wanted = [one for one in measures if series_of(one.table) in series]
        what = "start"
        try:
            if wanted:
                with linked(directory, edges) as nodes:
                    for one in wanted:
                        what = f"{one.table}, {one.at}"
                        rows.setdefault((one.table, one.at), []).append(one.figures(nodes, seconds))
        except (RadiatorError, OSError) as error:
            failed.append(f"{what}: {error}")
            sys.stderr.write(f"  {failed[-1]}\n")


def medians(found: Sequence[Figures]) -> Figures:
    return {name: significant(statistics.median(one[name] for one in found)) for name in found[0]}


def nodes_report(data: Data) -> str:
    """All that is to be shown."""
    parts = [f"{data['command']}\n{preface(data)}\nLoad after: {data['load_after']}."]
    for name in dict.fromkeys(row["table"] for row in data["nodes"]):
        parts.append(table_of(name, [row for row in data["nodes"] if row["table"] == name]))
    if data["before"]:
        parts.append(before_table(data["before"]))
    parts += [f"failed: {one}" for one in data["failed"]]
    return "\n\n".join(parts)


def table_of(title: str, rows: Sequence[Data]) -> str:
    names = [name for name in _COLUMNS if any(name in row["figures"] for row in rows)]
    heads = ["", *(_COLUMNS[name][0] for name in names)]
    lines = []
    for row in rows:
        figures = row["figures"]
        lines.append([row["at"], *(_COLUMNS[name][1](figures[name]) if name in figures else "" for name in names)])
    return f"{title}\n{table(heads, lines)}"
