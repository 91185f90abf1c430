"""The long checks, made short."""

import re
from pathlib import Path

import pytest

from benchmarks import longchecks


@pytest.mark.slow
def test_starts_are_timed_with_each_backlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longchecks, "START_BACKLOGS", (0, 500, 10_000_000))
    monkeypatch.setattr(longchecks, "STARTS", 1)
    monkeypatch.setattr(longchecks, "LOADED_S", 0.2)
    text = longchecks.starts(tmp_path, backlog_max=1000)
    found = re.findall(r"kill -9 under load, ([\d,]+) messages of 100 B stored before +(\d+\.\d\d) s", text)
    assert [messages for messages, _ in found] == ["0", "500"], "none above the bound"
    assert all(float(took_s) > 0 for _, took_s in found)
    assert not (tmp_path / "starts").exists()
