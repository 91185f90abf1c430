"""What an operator reads of a store whose log is damaged, and the way out: check, backup, restore, start."""

import json
from pathlib import Path

import pytest

from radiator.tools.cli import main
from tests.broker_process import BrokerProcess
from tests.storage.scribe import Scribe
from tests.storage.test_backup import damaged_log

Printed = pytest.CaptureFixture[str]


def test_check_lists_what_is_lost(tmp_path: Path, capsys: Printed) -> None:
    path = damaged_log(tmp_path)
    assert main(["check", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[2].startswith("The queue 'orders' is touched by 2 entries")
    assert f"4 things wrong in {path}" in printed.err


def test_backup_is_refused_and_says_how_it_can_be_made(tmp_path: Path, capsys: Printed) -> None:
    path = damaged_log(tmp_path)
    assert main(["backup", str(path), str(tmp_path / "copy")]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert "were receipted and cannot be read in order" in printed.err and "--despite-damage" in printed.err


def test_backup_despite_damage_lists_what_is_lost(tmp_path: Path, capsys: Printed) -> None:
    path = damaged_log(tmp_path)
    words = ["backup", "--despite-damage", str(path), str(tmp_path / "copy")]
    assert main(words) == 1
    printed = capsys.readouterr()
    *findings, last = printed.out.splitlines()
    assert len(findings) == 4 and last.startswith(f"{tmp_path / 'copy'}: ")
    assert printed.err == f"radiator: the log in {path} is damaged: the backup lacks what could not be read in order.\n"
    assert main([*words, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"] == findings and answer["bytes"] == (tmp_path / "copy").stat().st_size


def test_backup_despite_damage_of_a_sound_store_is_an_ordinary_one(tmp_path: Path, capsys: Printed) -> None:
    Scribe(tmp_path / "data").store.close()
    assert main(["backup", "--despite-damage", str(tmp_path / "data"), str(tmp_path / "copy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_the_way_out_ends_with_a_broker_that_serves(tmp_path: Path, capsys: Printed) -> None:
    path = damaged_log(tmp_path)
    (tmp_path / "served").mkdir()
    path.rename(tmp_path / "served" / "data")
    broker = BrokerProcess(tmp_path / "served")
    assert broker.start_and_fail() == 1
    assert "were receipted and cannot be read in order" in broker.log and "Traceback" not in broker.log
    assert main(["backup", "--despite-damage", str(tmp_path / "served" / "data"), str(tmp_path / "copy")]) == 1
    (tmp_path / "served" / "data").rename(tmp_path / "damaged")
    assert main(["restore", str(tmp_path / "copy"), str(tmp_path / "served" / "data")]) == 0
    with BrokerProcess(tmp_path / "served") as serving:
        assert serving.stop() == 0
