"""`radiator position`, on a real broker: a group's position in a log is shown, set, forgotten, and taken back."""

import json
import shlex
from collections.abc import Iterator

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run

CONFIG = "[log.clicks]\n[log.wide]\npartitions = 2\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        with Client(running.address) as client:
            client.send_many("/log/clicks", [b"%d" % number for number in range(5)])
        yield running


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line.split()[0].isdigit()]


def undo(out: str) -> list[str]:
    """The command that is said to take it back."""
    words = shlex.split(out.splitlines()[-1].partition("Taken back with: ")[2])
    assert words[:2] == ["radiator", "position"] and words[-2] == "--broker"
    return words[1:-2]


def received(run: Run, *more: str) -> list[str]:
    return run("receive", "/log/clicks", *more, "--until", "end")[1].split()


def test_it_is_shown_set_and_taken_back(run: Run, broker: BrokerProcess) -> None:
    assert received(run, "--group", "g", "--from", "offset:2") == ["2", "3", "4"]
    shown = run("position", "clicks", "g")
    assert shown == (
        0,
        "partition  first  position  next  behind\n        0      0         5     5       0\n",
        "",
    )
    status, out, _ = run("position", "/log/clicks", "g", "--to", "offset:3")
    assert status == 0 and rows(out) == [["0", "0", "3", "5", "2"]]
    assert out.splitlines()[-1] == (
        "Group g of clicks goes on at 3; it was at 5. Taken back with: radiator position clicks g --to offset:5"
        f" --broker {broker.address}"
    )
    assert received(run, "--group", "g") == ["3", "4"]
    assert rows(run("position", "clicks", "g", "--to", "earliest")[1]) == [["0", "0", "0", "5", "5"]]
    assert rows(run("position", "clicks", "g", "--to", "time:0")[1]) == [["0", "0", "0", "5", "5"]]
    out = run("position", "clicks", "g", "--to", "latest")[1]
    assert rows(out) == [["0", "0", "5", "5", "0"]]
    assert rows(run(*undo(out))[1]) == [["0", "0", "0", "5", "5"]]
    assert received(run, "--group", "g") == ["0", "1", "2", "3", "4"]
    assert rows(run("position", "clicks", "g", "--to", "time:99999999999999")[1]) == [["0", "0", "5", "5", "0"]]
    assert run("position", "clicks", "g") == shown


def test_the_usual_broker_is_not_named(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where $RADIATOR_BROKER says which one."""
    monkeypatch.setenv("RADIATOR_BROKER", broker.address)
    assert main(["position", "clicks", "usual", "--to", "latest"]) == 0
    assert main(undo_of := shlex.split(capsys.readouterr().out.partition("Taken back with: radiator ")[2])) == 0
    assert undo_of == ["position", "clicks", "usual", "--forget"]


def test_a_group_is_made_and_forgotten(run: Run) -> None:
    name = "it's new\x07"
    status, out, _ = run("position", "wide", name, "--to", "offset:0,0")
    assert status == 0 and len(rows(out)) == 2
    assert out.splitlines()[-1].startswith("Group it's new\\x07 of wide goes on at 0,0; it had no position before. ")
    assert run("position", "wide", name, "--forget", "--json")[1] == (
        '{"was": [0, 0], "offsets": null, "first": [0, 0], "next": [0, 0]}\n'
    )
    assert run("position", "wide", "b c", "--to", "latest")[0] == 0
    status, out, _ = run("position", "wide", "b c", "--forget")
    assert status == 0 and out.startswith("Group b c of wide is forgotten; it was at 0,0. Taken back with: ")
    assert json.loads(run(*undo(out), "--json")[1])["offsets"] == [0, 0]
    out = run("position", "wide", "d", "--to", "latest")[1]
    assert run(*undo(out))[0] == 0
    status, out, err = run("position", "wide", "d", "--forget")
    assert (status, out) == (1, "")
    assert err == "radiator: The group 'd' has no position in /log/wide; groups that have one: 'b c'.\n"


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("nothing g", 1, "/log/nothing is not declared"),
        ("/queue/clicks g", 2, "'/queue/clicks' is not a log"),
        ("clicks", 2, "GROUP"),
        ("clicks none", 1, "The group 'none' has no position in /log/clicks; groups that have one: "),
        ("clicks g --to middle", 2, "'middle' must be one of earliest, latest, time:MS and offset:N"),
        ("clicks g --to time:1,2", 2, "must be one of earliest"),
        ("clicks g --to offset:", 2, "must be one of earliest"),
        ("clicks g --to offset:-1", 2, "must be one of earliest"),
        (f"clicks g --to offset:{'1' * 21}", 2, "must be one of earliest"),
        (f"clicks g --to time:{'1' * 20}", 1, "time_ms"),
        ("clicks g --to latest --forget", 2, "not allowed with"),
        ("clicks g --to offset:6", 1, "Partition 0 of /log/clicks ends at offset 5: 6 is beyond."),
        ("clicks g --to offset:1,2", 1, "/log/clicks has 1 partition, and --to offset:... names 2 offsets"),
        ("wide g --to offset:1", 1, "/log/wide has 2 partitions, and --to offset:... names 1 offset"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(run: Run, line: str, status: int, sentence: str) -> None:
    ended, out, err = run("position", *line.split())
    assert (ended, out) == (status, "") and sentence in err and err.count("\n") == 1


def test_not_while_somebody_reads(run: Run, client: Client) -> None:
    client.subscribe("/log/clicks", ack="client", headers={"group": "busy"})
    for change in (["--to", "earliest"], ["--forget"]):
        status, _, err = run("position", "clicks", "busy", *change)
        assert status == 1 and err == (
            "radiator: The group 'busy' of /log/clicks has 1 subscription: stop whoever reads for it first.\n"
        )
    assert run("position", "clicks", "busy")[0] == 0
