"""What several rounds of the same measurement have found: of each figure the median, the least and the most."""

import argparse
import statistics
from collections.abc import Sequence
from typing import NamedTuple

Figures = dict[str, float]  # of one round, by name


class Spread(NamedTuple):
    """One figure over all rounds."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:,.12g} ({self.least:,.12g} to {self.most:,.12g})"


def spreads(rounds: Sequence[Figures]) -> dict[str, Spread]:
    """By name, in the order of the first round; all rounds have the same names."""
    found = {name: [one[name] for one in rounds] for name in rounds[0]}
    return {name: Spread(rounded(statistics.median(those)), min(those), max(those)) for name, those in found.items()}


def rounded(figure: float) -> float:
    """As many digits as mean something."""
    return round(figure, 0 if figure > 1000 else 1)


def significant(figure: float) -> float:
    """Four digits of it."""
    return float(f"{figure:.4g}")


def ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios of each round's both, so that what drifts falls out."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def number_of_rounds(text: str) -> int:
    """For argparse."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
