"""`--before CHECKOUT`: whether one node alone has become slower since an earlier version; both in turns, in one run."""

import os
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.comparison import compare
from benchmarks.peers import Peer, Radiator
from benchmarks.processes import Launch
from benchmarks.shapes import CASES, TOPIC, Case
from radiator.tools.cli.load import LoadFailed, Measured
from radiator.tools.cli.text import table

BEFORE_CASES = (CASES[0], CASES[6], TOPIC)
RATIO_MIN = 0.97

Row = dict[str, Any]


class Before(Radiator):
    """The same as a checkout of an earlier version has it."""

    name = "before"

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout.resolve()

    def missing(self) -> str:
        return "" if (self.checkout / "radiator").is_dir() else f"{self.checkout} is no checkout of Radiator"

    def version(self) -> str:
        """The commit, where git knows it."""
        command = ["git", "-C", str(self.checkout), "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "an earlier version"

    def launch(self, case: Case) -> Launch:
        launch = super().launch(case)
        launch.environment["PYTHONPATH"] = str(self.checkout)
        return launch


def against(before: Before, directory: Path, rounds: int, seconds: float) -> list[Row]:
    """Medians of both, and of the ratios of the rounds. Raises LoadFailed where one does not get through."""
    return [_row(case, before, directory, rounds, seconds) for case in BEFORE_CASES]


def _row(case: Case, before: Before, directory: Path, rounds: int, seconds: float) -> Row:
    peers: list[Peer] = [Radiator(), before]
    row = compare(case, peers, directory, rounds, seconds)
    for result in row.results.values():
        if result.failed:
            raise LoadFailed(result.failed)
    now, then = (row.results[peer.name].measured for peer in peers)
    return {
        "name": case.name,
        "per_s": _median(now, _per_s),
        "per_s_before": _median(then, _per_s),
        "ratio": _ratio(now, then, _per_s),
        "cpu_us": _median(now, _cpu_us),
        "cpu_us_before": _median(then, _cpu_us),
        "cpu_ratio": _ratio(now, then, _cpu_us),
        "load": round(os.getloadavg()[0], 2),
    }


def _per_s(one: Measured) -> float:
    return one.per_s


def _cpu_us(one: Measured) -> float:
    return one.broker_cpu_s / one.messages * 1e6


def _median(measured: list[Measured], figure: Callable[[Measured], float]) -> float:
    return float(f"{statistics.median(map(figure, measured)):.4g}")


def _ratio(now: list[Measured], then: list[Measured], figure: Callable[[Measured], float]) -> float:
    """Of one round's both, so that what drifts falls out."""
    ratios = [figure(one) / figure(other) for one, other in zip(now, then, strict=True)]
    return round(statistics.median(ratios), 3)


def before_table(rows: list[Row]) -> str:
    heads = ("one node alone", "per second", "before", "ratio", "CPU us", "before", "ratio")
    return table(heads, [
        [row["name"], f"{row['per_s']:,.0f}", f"{row['per_s_before']:,.0f}",
         f"{row['ratio']:.3f}" + ("" if row["ratio"] >= RATIO_MIN else " MISSED"),
         f"{row['cpu_us']:.1f}", f"{row['cpu_us_before']:.1f}", f"{row['cpu_ratio']:.3f}"]
        for row in rows
    ])  # fmt: skip
