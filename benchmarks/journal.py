"""`--journal`: what the journal costs: one node with it and without, in turns, in one run."""

import statistics
from pathlib import Path

from benchmarks.comparison import in_turns
from benchmarks.peers import Radiator
from benchmarks.processes import Launch
from benchmarks.rounds import ratio
from benchmarks.shapes import CASES, Case
from radiator.tools.cli.load import Shape
from radiator.tools.cli.text import bytes_text, table

ONE_TO_ONE = Shape(name="end to end, 1 + 1", producers=1, window=1, consumers=1)
JOURNAL_CASES = (CASES[0], CASES[1], CASES[4], Case(kind="queue", shape=ONE_TO_ONE, is_persistent=True))
RATIO_MIN = 0.75
HEADS = ("journal", "body", "per second", "without", "ratio", "CPU us", "without", "ratio")


class Journaling(Radiator):
    """The same with the journal on."""

    name = "journaling"

    def launch(self, case: Case) -> Launch:
        launch = super().launch(case)
        launch.files["config.toml"] += "\n[journal]\nenabled = true\n"
        return launch


def journal_table(bodies: list[int], directory: Path, rounds: int, seconds: float) -> str:
    """Medians of both, and of the ratios of the rounds. Raises LoadFailed where one does not get through."""
    rows = []
    for case in JOURNAL_CASES:
        for body_bytes in bodies:
            rows.append(_row(case, body_bytes, directory, rounds, seconds))
    return table(HEADS, rows)


def _row(case: Case, body_bytes: int, directory: Path, rounds: int, seconds: float) -> list[str | int]:
    case = Case(kind=case.kind, shape=case.shape, is_persistent=case.is_persistent, body_bytes=body_bytes)
    off, on = in_turns(case, Radiator(), Journaling(), directory, rounds, seconds)
    kept = ratio(on.per_s, off.per_s)
    return [
        case.shape.name,
        bytes_text(body_bytes),
        f"{statistics.median(on.per_s):,.0f}",
        f"{statistics.median(off.per_s):,.0f}",
        f"{kept:.2f}" + ("" if kept >= RATIO_MIN else " MISSED"),
        f"{statistics.median(on.cpu_us):.1f}",
        f"{statistics.median(off.cpu_us):.1f}",
        f"{ratio(on.cpu_us, off.cpu_us):.2f}",
    ]
