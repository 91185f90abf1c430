"""The benchmark of logs runs, and finds every record; how fast is no matter here."""

import subprocess
import sys

import pytest

from benchmarks.peers import CHECKOUT
from benchmarks.rounds import Spread, spreads


def test_medians_and_spread() -> None:
    found = spreads(
        [{"a": 3.0, "b": 2000.4}, {"a": 1.04, "b": 2001.0}, {"a": 1.0, "b": 1000.6}, {"a": 5.0, "b": 9000.0}]
    )
    assert found == {"a": Spread(2.0, 1.0, 5.0), "b": Spread(2001, 1000.6, 9000.0)}
    assert str(found["b"]) == "2,001 (1,000.6 to 9,000)"


@pytest.mark.slow
def test_it_reads_all_in_every_way() -> None:
    command = [sys.executable, "-m", "benchmarks.log_read", "--records", "3000", "--readers", "5", "--rounds", "2"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=100)
    assert not done.stderr, done.stderr
    taken, _, medians = done.stdout.partition("2 rounds of 3,000 records: median (least to most)\n")
    figures = [line.split("  ")[1] for line in medians.splitlines()]
    assert figures[0] == "200 B appended: records/s" and len(set(figures)) == 14, done.stdout
    assert sum("records/s" in name for name in figures) == 6
    assert [taken.count(f"  {name}\n") for name in figures] == [2] * 14, taken
