"""`radiator settings`, `bounds`, `disk` and `broker-log` on a real broker."""

import json
import re
from collections.abc import Iterator

import pytest

from radiator.client import Client
from radiator.core.bounds import BOUNDS
from radiator.model.errors import EXIT_USAGE, count_text
from radiator.tools.cli import broker_log, settings
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run

TABLES = """
[limits]
max_connections = 77
[create]
queues = true
[journal]
enabled = true
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), TABLES) as running:
        yield running


def test_what_is_in_force_stands_beside_its_default(broker: BrokerProcess, run: Run) -> None:
    status, out, err = run("settings")
    assert (status, err) == (0, "")
    first, *lines = out.splitlines()
    assert first == f"The file is {broker.config_file}."
    assert lines[0].split() == ["setting", "default", "value"]
    rows = [line.split() for line in lines]
    assert ["limits.max_connections", "20000", "77"] in rows and ["limits.max_headers", "256"] in rows
    changed = run("settings", "--changed")[1].splitlines()
    assert {line.split()[0] for line in changed[2:]} == {
        "server.listen", "server.disk_free_min", "server.map_size", "limits.max_connections", "create.queues",
        "journal.enabled",
    }  # fmt: skip
    found = json.loads(run("settings", "--changed", "--json")[1])
    assert not any(row["is_default"] for row in found["configuration"]) and len(found["configuration"]) == 6
    assert len(json.loads(run("settings", "--json")[1])["configuration"]) == len(lines) - 1


def test_a_broker_without_a_file_says_so() -> None:
    shown = settings._formed({"ok": True, "configuration": [], "path": None})
    assert shown == "The broker was started without a file.\nAll is as it is by default."


def test_every_bound_has_a_line(run: Run) -> None:
    status, out, _ = run("bounds")
    heads, *lines = out.splitlines()
    assert status == 0 and heads.split() == ["bound", "used", "limit", "%", "what", "happens", "there"]
    assert [line.split()[0] for line in lines] == [one.name for one in BOUNDS]
    assert re.fullmatch(r"max_connections +1 connections +77 connections +1  One more client .*", lines[0]), lines[0]
    by_name = {line.split()[0]: line for line in lines}
    assert re.search(r" at least 16\.0 MiB +If less", by_name["disk_free_min"])
    assert re.match(r"link_sockets +- +- +The new one", by_name["link_sockets"])
    assert re.match(r"max_memory_bytes +[0-9.]+ K?i?B +1\.0 GiB +0 ", by_name["max_memory_bytes"])


def test_the_disk_is_told_in_lines(broker: BrokerProcess, run: Run) -> None:
    status, out, _ = run("disk")
    lines = out.splitlines()
    assert status == 0 and lines[0] == str(broker.data_dir)
    assert [line.split(":")[0] for line in lines[1:]] == ["disk", "tables", "write-ahead log", "journal"]
    assert "of 8.0 GiB (map_size)" in lines[2] and "SENDs wait below 16.0 MiB" in lines[1]
    assert re.search(r": [23]\.0 MiB in 2 segments, 1 of them spare; 0 B kept", lines[3])


def test_the_last_lines_of_the_log_are_shown(broker: BrokerProcess, run: Run) -> None:
    status, out, _ = run("broker-log", "--lines", "500")
    logged = [re.sub(r"^\S+ ", "", line) for line in broker.log.splitlines()]
    assert status == 0 and len(out.splitlines()) == len(logged)
    for line, shown in zip(logged, out.splitlines(), strict=True):
        assert re.sub(r"^\S+ \S+ ", "", shown) == line
    assert run("broker-log", "--level", "error")[1] == "Nothing has been logged.\n"
    assert len(run("broker-log", "--lines", "2")[1].splitlines()) == 2


@pytest.mark.parametrize("lines", ["0", "-1", "x"])
def test_a_wrong_number_of_lines_is_told(run: Run, lines: str) -> None:
    status, _, err = run("broker-log", "--lines", lines)
    assert status == EXIT_USAGE and "--lines" in err


def test_too_many_lines_are_refused_by_the_broker(run: Run) -> None:
    status, _, err = run("broker-log", "--lines", "501")
    assert status == 1 and "`limit` must be a whole number from 1 to 500; it is 501." in err


def test_following_goes_on_behind_what_was_shown(
    broker: BrokerProcess, run: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says how many it has missed."""
    looks = 0

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            client.admin({"do": "declare", "queue": "followed"})
            client.admin({"do": "delete", "queue": "followed"})
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(broker_log.time, "sleep", sleep)
    status, out, err = run("broker-log", "--follow", "--lines", "1")
    assert status == 0 and err == ""
    first, *more = [line.split()[3] for line in out.splitlines()]
    assert first and "queue_deleted" in more, out


@pytest.mark.parametrize(
    ("after", "first", "missed"), [(None, 9, 0), (9, 9, 0), (8, 9, 0), (7, 9, 1), (0, 9, 8), (9, 0, 0)]
)
def test_what_was_missed_is_counted(after: int | None, first: int, missed: int) -> None:
    found = broker_log._missed({"first": first}, after)
    assert found == (f"{count_text(missed, 'line')} more were logged, and are kept no longer." if missed else "")


def test_a_line_has_nothing_that_a_terminal_would_obey() -> None:
    fields = {"of": "a b\u202e", "is_so": True, "n": 1.5, "none": "", "said": 'a"b\\'}
    line = broker_log._line({"time_ms": 0, "level": "info", "event": "came", "fields": fields})
    assert line.endswith(' info came of="a b\\u202e" is_so=true n=1.5 none="" said="a\\"b\\\\"')
