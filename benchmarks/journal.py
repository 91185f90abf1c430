"""`--journal`: what the journal costs: one node with it and without, in turns, in one run."""

import statistics
from pathlib import Path

from benchmarks.comparison import compare
from benchmarks.peers import Peer, Radiator
from benchmarks.processes import Launch
from benchmarks.shapes import CASES, Case
from radiator.tools.cli.load import LoadFailed, Measured, Shape
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
    peers: list[Peer] = [Radiator(), Journaling()]
    case = Case(kind=case.kind, shape=case.shape, is_persistent=case.is_persistent, body_bytes=body_bytes)
    row = compare(case, peers, directory, rounds, seconds)
    for result in row.results.values():
        if result.failed:
            raise LoadFailed(result.failed)
    off, on = (row.results[peer.name].measured for peer in peers)
    ratio = _median_ratio([one.per_s for one in on], [one.per_s for one in off])
    cpu_on, cpu_off = [_cpu_us(one) for one in on], [_cpu_us(one) for one in off]
    return [
        case.shape.name,
        bytes_text(body_bytes),
        f"{statistics.median(one.per_s for one in on):,.0f}",
        f"{statistics.median(one.per_s for one in off):,.0f}",
        f"{ratio:.2f}" + ("" if ratio >= RATIO_MIN else " MISSED"),
        f"{statistics.median(cpu_on):.1f}",
        f"{statistics.median(cpu_off):.1f}",
        f"{_median_ratio(cpu_on, cpu_off):.2f}",
    ]


def _cpu_us(one: Measured) -> float:
    return one.broker_cpu_s / one.messages * 1e6


def _median_ratio(with_it: list[float], without: list[float]) -> float:
    """Of one round's both, so that what drifts falls out."""
    return statistics.median(one / other for one, other in zip(with_it, without, strict=True))
