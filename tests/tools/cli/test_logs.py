"""Logs on the command line: declare, describe, delete, bind, stats, top and the numbers for a collector."""

import json
from collections.abc import Iterator

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), "[log.clicks]\npartitions = 2\n") as running:
        yield running


def test_a_log_is_declared_described_and_deleted(run: Run, client: Client) -> None:
    line = ("declare", "log", "new", "--partitions", "3", "--retention-bytes", "1GiB", "--retention-ms", "none")
    assert run(*line) == (0, "Log new declared.\n", "")
    assert run(*line) == (0, "Log new already exists, with these settings.\n", "")
    client.send("/log/new", b"1", headers={"partition-key": "a"})
    status, out, _ = run("describe", "log", "/log/new")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0 and lines[0] == ["log", "new"] and ["readers", "0"] in lines and ["groups", "none"] in lines
    assert ["partition", "first", "next", "records", "size", "oldest", "newest"] in lines
    assert sorted(line[3] for line in lines if line and line[0] in "012") == ["0", "0", "1"]
    assert "[log.new]\npartitions = 3\nretention_bytes = " in out and "retention_ms" not in out
    assert json.loads(run("describe", "log", "new", "--json")[1])["partitions"]["next"].count(1) == 1
    assert run("delete", "log", "new") == (0, "Log new deleted, and 1 record in it.\n", "")
    status, _, err = run("delete", "log", "clicks")
    assert status == 1 and "clicks" in err


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("declare log x --partitions 0", 2, "partitions"),
        ("declare log x --partition-key customer", 2, "JSON pointer"),
        ("declare log journal", 1, "journal"),
        ("declare log /queue/x", 2, "'/queue/x' is not a log"),
        ("declare log clicks --partitions 3", 1, "partitions"),
        ("describe log nothing", 1, "nothing"),
        ("describe queue /log/clicks", 2, "'/log/clicks' is not a queue"),
        ("purge /log/clicks", 2, "'/log/clicks' is not a queue"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(run: Run, line: str, status: int, sentence: str) -> None:
    ended, out, err = run(*line.split())
    assert (ended, out) == (status, "") and sentence in err and "Traceback" not in err


def test_a_log_may_be_bound_and_a_child_of_a_fanout(run: Run, client: Client) -> None:
    assert run("bind", "amq.topic", "clicks.#", "/log/clicks")[1].startswith("Log clicks is bound to exchange")
    assert run("declare", "fanout", "news", "/log/clicks") == (0, "Fanout news declared.\n", "")
    client.send("/exchange/amq.topic/clicks.a", b"1")
    client.send("/fanout/news", b"2")
    client.subscribe("/log/clicks", ack="client", headers={"group": "g", "from": "earliest"})
    assert client.receive(5) is not None
    out = run("stats")[1]
    head, row = next(pair for pair in zip(out.splitlines(), out.splitlines()[1:], strict=False) if "unread" in pair[0])
    assert head.split() == ["log", "partitions", "accepted", "records", "readers", "size", "unread"]
    assert row.split()[:5] == ["clicks", "2", "2", "2", "1"] and row.endswith("g 2")
    out = run("stats", "--prometheus")[1]
    assert 'radiator_log_records{log="clicks"} 2\n' in out
    assert 'radiator_log_unread{log="clicks",group="g"} 2\n' in out or 'group="g",log="clicks"' in out
    out = run("top", "--count", "1", "--interval", "0.1")[1]
    assert "appended/s" in out and out.split("most behind\n")[1].split()[0] == "clicks"
    assert run("unbind", "amq.topic", "clicks.#", "/log/clicks")[1].startswith("Log clicks is no longer bound")


def test_a_log_is_received_from_a_place_and_by_a_group(run: Run, client: Client) -> None:
    assert run("declare", "log", "read")[0] == 0
    for number in range(4):
        client.send("/log/read", b"%d" % number)
    all_of_it = ("receive", "/log/read", "--from", "earliest", "--until", "end")
    assert run(*all_of_it) == run(*all_of_it) == (0, "0\n1\n2\n3\n", "")
    assert run("receive", "/log/read", "--from", "offset:1", "--until", "offset:3", "--partition", "0")[1] == "1\n2\n"
    by_group = ("receive", "/log/read", "--group", "g", "--from", "earliest")
    assert run(*by_group, "--count", "3")[1] == "0\n1\n2\n"
    assert run(*by_group, "--until", "end")[1] == "3\n"
    status, out, err = run("receive", "/log/read", "--from", "offset:9", "--count", "1", "--timeout", "5")
    assert (status, out) == (1, "") and "the next will be 4" in err
