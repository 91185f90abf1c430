"""`radiator backup --log` beside a running broker, and `radiator restore --log --until`: a deleted queue is back."""

import json
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess, environment

CONFIG = SERVER + 'log_keep = "1h"\n' + EVERYTHING_MAY_BE_CREATED
Captured = pytest.CaptureFixture[str]


def bodies(directory: Path, data: Path, count: int) -> list[bytes]:
    """Of the queue `orders` of a broker on that data directory."""
    (directory / "data").parent.mkdir(exist_ok=True)
    data.rename(directory / "data")
    with BrokerProcess(directory, CONFIG) as broker, Client(broker.address) as client:
        client.subscribe("/queue/orders")
        found = []
        for _ in range(count):
            message = client.receive(20)
            assert message is not None
            found.append(message.body)
        return found


def test_a_queue_that_was_deleted_comes_back(tmp_path: Path, capsys: Captured) -> None:
    file, copies = str(tmp_path / "backup"), str(tmp_path / "copies")
    (tmp_path / "one").mkdir()
    with BrokerProcess(tmp_path / "one", CONFIG) as broker, Client(broker.address) as client:
        data = str(broker.data_dir)
        client.send("/queue/orders", b"0")
        assert main(["backup", data, file]) == 0
        for number in range(1, 5):
            client.send("/queue/orders", b"%d" % number)
        assert main(["backup", "--log", "--json", data, copies]) == 0
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (found["first"], found["segments"], found["gaps"]) == (1, 1, [])
        assert found["copied_bytes"] == found["size"] > 0
        before = datetime.now().isoformat()
        time.sleep(0.01)  # the entry of the deletion is to have a later millisecond
        assert main(["delete", "--broker", broker.address, "orders"]) == 0
        assert main(["backup", "--log", data, copies]) == 0
        assert "1 segment" in capsys.readouterr().out
    assert main(["restore", "--log", copies, "--until", before, file, str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "Brought forward by " in out
    assert "Left out: " in out
    assert "1 queue with 5 messages" in out
    assert bodies(tmp_path / "two", tmp_path / "new", 5) == [b"0", b"1", b"2", b"3", b"4"]
    assert main(["restore", "--json", "--log", copies, file, str(tmp_path / "end")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["queues"] == 0
    assert (report["forward"]["left_out"], report["forward"]["unread"]) == (0, "")
    assert main(["restore", "--log", copies, "--until", "2099-01-01", file, str(tmp_path / "late")]) == 0
    assert "The log ends there: it has nothing from then to 2099-01-01" in capsys.readouterr().out
    assert main(["restore", "--json", file, str(tmp_path / "plain")]) == 0
    assert "forward" not in json.loads(capsys.readouterr().out)


def test_follow_copies_until_it_is_terminated(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    with BrokerProcess(tmp_path, CONFIG) as broker, Client(broker.address) as client:
        command = [sys.executable, "-m", "radiator", "backup", "--log", "--follow", str(broker.data_dir), str(copies)]
        follower = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        try:
            assert follower.stdout is not None
            assert "1 segment" in follower.stdout.readline()
            for _ in range(5):
                client.send("/queue/orders", bytes(500_000))
            assert "segments" in follower.stdout.readline()  # it is told when a segment is added
            follower.send_signal(signal.SIGTERM)
            assert follower.wait(20) == 0
        finally:
            follower.kill()
            follower.wait()
    assert len([*copies.iterdir()]) >= 2


def test_a_gap_is_a_finding(tmp_path: Path, capsys: Captured) -> None:
    config, copies = CONFIG.replace('log_keep = "1h"', "log_keep = 0"), str(tmp_path / "copies")
    with BrokerProcess(tmp_path, config) as broker, Client(broker.address) as client:
        assert main(["backup", "--log", str(broker.data_dir), copies]) == 0
        for _ in range(30):
            client.send("/queue/orders", bytes(500_000))
        time.sleep(1)
        for _ in range(30):
            client.send("/queue/orders", bytes(500_000))
        capsys.readouterr()
        assert main(["backup", "--log", str(broker.data_dir), copies]) == 1
    assert " lacks entries " in capsys.readouterr().out


@pytest.mark.parametrize("until", ("0001-01-02", "1969-12-31T23:59:59Z", "9999-01-01T00:00Z", "9999-12-31 23:59-14:00"))
def test_a_moment_that_no_log_has_is_refused(until: str, tmp_path: Path, capsys: Captured) -> None:
    words = ["restore", "--log", str(tmp_path), f"--until={until}", str(tmp_path / "file"), str(tmp_path / "new")]
    assert main(words) == 2
    assert f"{until!r} is not a time from 1970 to 9998" in capsys.readouterr().err


@pytest.mark.parametrize(
    "until",
    ["yesterday", "14:60", "2026-13-01", "", "0123456789abcdef-1", "-5", "1.5", "99999999999999999999", "25:00"],
)
def test_what_is_no_moment_is_refused(until: str, tmp_path: Path, capsys: Captured) -> None:
    words = ["restore", "--log", str(tmp_path), f"--until={until}", str(tmp_path / "file"), str(tmp_path / "new")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert f"{until!r} is not a time (2026-11-24T14:03:00, " in error
    assert "no message-id, and no index of an entry" in error


def test_moments(tmp_path: Path) -> None:
    from radiator.tools.cli.backup import _until

    assert _until("17").index == 17
    assert _until("0123456789abcdef-3-9").message_id == b"0123456789abcdef-3-9"
    assert _until("2026-11-24T14:03:00Z").ms == 1_795_528_980_000
    assert _until("2026-11-24T14:03:00.25+02:00").ms == 1_795_521_780_250
    today = datetime.now().astimezone().replace(hour=9, minute=3, second=0, microsecond=0)
    # at midnight the day may change between the two
    assert _until("9:03").ms in {int((today + timedelta(days=days)).timestamp() * 1000) for days in (0, 1)}
    assert _until("2026-11-24").ms == int(datetime(2026, 11, 24).timestamp() * 1000)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["backup", "--follow", "DATA", "FILE"], "--follow goes with --log"),
        (["restore", "--until", "5", "FILE", "DATA"], "--until goes with --log"),
        (["backup", "--log", "--despite-damage", "DATA", "FILE"], "--log copies no backup: give one of them"),
    ],
)
def test_options_that_need_log(words: list[str], sentence: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "FILE").touch()
    assert main([str(tmp_path / word) if word.isupper() else word for word in words]) == 2
    assert sentence in capsys.readouterr().err
