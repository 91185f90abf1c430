"""The benchmark of logs runs, and finds every record; how fast is no matter here."""

import subprocess
import sys

import pytest

from benchmarks.peers import CHECKOUT


@pytest.mark.slow
def test_it_reads_all_in_every_way() -> None:
    command = [sys.executable, "-m", "benchmarks.log_read", "--records", "3000", "--readers", "5"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=100)
    assert not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8 and lines[0].startswith("3,000 x 200 B appended"), done.stdout
    assert sum("records/s" in line for line in lines) == 6
