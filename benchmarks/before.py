"""`--before CHECKOUT`: whether one node alone has become slower since an earlier version; both in turns, in one run."""

import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.comparison import in_turns
from benchmarks.peers import Radiator
from benchmarks.processes import Launch
from benchmarks.rounds import ratio, significant
from benchmarks.shapes import CASES, TOPIC, Case
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
    now, then = in_turns(case, Radiator(), before, directory, rounds, seconds)
    return {
        "name": case.name,
        "per_s": significant(statistics.median(now.per_s)),
        "per_s_before": significant(statistics.median(then.per_s)),
        "ratio": round(ratio(now.per_s, then.per_s), 3),
        "cpu_us": significant(statistics.median(now.cpu_us)),
        "cpu_us_before": significant(statistics.median(then.cpu_us)),
        "cpu_ratio": round(ratio(now.cpu_us, then.cpu_us), 3),
        "load": round(os.getloadavg()[0], 2),
    }


def before_table(rows: list[Row]) -> str:
    heads = ("one node alone", "per second", "before", "ratio", "CPU us", "before", "ratio")
    return table(heads, [
        [row["name"], f"{row['per_s']:,.0f}", f"{row['per_s_before']:,.0f}",
         f"{row['ratio']:.3f}" + ("" if row["ratio"] >= RATIO_MIN else " MISSED"),
         f"{row['cpu_us']:.1f}", f"{row['cpu_us_before']:.1f}", f"{row['cpu_ratio']:.3f}"]
        for row in rows
    ])  # fmt: skip
