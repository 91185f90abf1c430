"""`radiator peers`, `peer` and `drain` on answers as nodes give them; acceptance/test_cluster.py has real nodes."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from radiator.tools.cli import main

Answer = dict[str, Any]
Script = Callable[[dict[str, list[Answer]]], list[Answer]]

UP = {
    "name": "b", "address": "peer://127.0.0.1:1", "state": "up", "since_s": 3700.5, "in_doubt": 2, "outbox": 3,
    "outbox_bytes": 2048, "lag_ms": 999, "out_epoch": 4, "in_epoch": 7, "handed_over": 100, "taken_in": 5, "hops": 1,
    "store_id": "0123", "cause": "",
}  # fmt: skip
CAUSE = "refused: \x1b[2J"
DOWN = {
    **UP, "name": "a\x1b[2J", "state": "refused", "since_s": None, "lag_ms": 61500, "in_doubt": 64, "outbox": 0,
    "cause": CAUSE,
}  # fmt: skip
PEERS: Answer = {
    "ok": True, "node": "c", "draining": False, "peers": [UP, DOWN],
    "nodes": [{"name": "b", "hops": 1, "via": "b"}, {"name": "e", "hops": 3, "via": "b"},
              {"name": "f", "hops": 2, "via": "b"}],
}  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    def play(answers: dict[str, list[Answer]]) -> list[Answer]:
        """Of each request, its answers one after the other, the last again and again: what was asked."""
        asked: list[Answer] = []

        def ask(arguments: object, request: Answer, timeout_s: float = 0) -> Answer:
            asked.append(request)
            mine = answers[request["do"]]
            answer = mine.pop(0) if len(mine) > 1 else mine[0]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        monkeypatch.setattr("radiator.tools.cli.peers.ask", ask)
        monkeypatch.setattr("radiator.tools.cli.peers.DRAIN_POLL_S", 0)
        monkeypatch.setattr("radiator.tools.cli.peers.DRAIN_PROGRESS_S", 0)
        return asked

    yield play


def test_peers_is_a_table_of_links_and_one_of_routes(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script({"peers": [PEERS]})
    assert main(["peers"]) == 0
    assert capsys.readouterr().out == (
        "This is node c.\n\n"
        "node      state    since      lag        in doubt  outbox       handed over  taken in\n"
        "a\\x1b[2J  refused  -          1 min 1 s        64  0                    100         5\n"
        "b         up       1 h 1 min  999 ms            2  3 (2.0 KiB)          100         5\n\n"
        "not linked  because\n"
        "a\\x1b[2J    refused: \\x1b[2J\n\n"
        "reached through others  links  via\n"
        "f                           2  b\n"
        "e                           3  b\n"
    )


def test_peers_of_an_older_broker_has_no_cause(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    older = {key: value for key, value in DOWN.items() if key != "cause"}
    script({"peers": [{**PEERS, "peers": [older]}]})
    assert main(["peers"]) == 0
    assert "because" not in capsys.readouterr().out


def test_peers_says_that_a_node_is_drained_and_has_no_peers(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script({"peers": [{"ok": True, "node": "c", "draining": True, "peers": [], "nodes": []}]})
    assert main(["peers"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("This is node c, which is being drained.\n\nIt has no peers")


def test_peers_says_that_the_node_is_none_any_more(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script({"peers": [{"ok": True, "node": "", "draining": False, "peers": [DOWN], "nodes": []}]})
    assert main(["peers"]) == 0
    assert capsys.readouterr().out.startswith("This broker has no [node] in its configuration any more; ")


def test_peers_tells_json(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script({"peers": [PEERS]})
    assert main(["peers", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == PEERS


@pytest.mark.parametrize(("in_doubt", "remark"), [(0, ""), (20, "20 in doubt with another node")])
def test_queues_tells_what_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], in_doubt: int, remark: str
) -> None:
    queue = {"name": "work", "persistent": True, "messages": 20, "in_doubt": in_doubt}
    monkeypatch.setattr("radiator.tools.cli.queues.ask", lambda arguments, request: {"ok": True, "queues": [queue]})
    assert main(["queues"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:3] == ["work", "persistent", "20"]
    assert " ".join(row[11:]) == remark


def test_release_without_force_does_nothing(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    asked = script({})
    assert main(["peer", "release", "b"]) == 2
    printed = capsys.readouterr()
    assert (asked, printed.out, printed.err.count("\n")) == ([], "", 1)
    assert "may be processed twice if b ever had it, or comes back" in printed.err
    assert "--force" in printed.err


@pytest.mark.parametrize(
    ("released", "words"), [(1, "1 message that was in doubt"), (2, "2 messages that were in doubt")]
)
def test_release_says_that_it_may_duplicate(
    script: Script, capsys: pytest.CaptureFixture[str], released: int, words: str
) -> None:
    asked = script({"peer-release": [{"ok": True, "released": released}]})
    assert main(["peer", "release", "b", "--force"]) == 0
    assert asked == [{"do": "peer-release", "peer": "b", "force": True}]
    printed = capsys.readouterr().out
    assert printed.startswith(words)
    assert "may be processed twice if b ever had it, or comes back" in printed


def test_help_of_release_says_that_it_may_duplicate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["peer", "--help"]) == 0
    assert "may be processed twice" in capsys.readouterr().out.replace("\n", " ")


def test_peers_tells_where_copies_find_no_room(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    full = {**UP, "outbox_max_bytes": 4096, "outbox_blocked": 1, "copies_kept": True, "outbox_dropped": 0}
    dropped = {**full, "name": "d", "outbox_blocked": 0, "copies_kept": False, "outbox_dropped": 7}
    script({"peers": [{**PEERS, "peers": [dropped, full]}]})
    assert main(["peers"]) == 0
    printed = capsys.readouterr().out
    assert "3 (2.0 KiB of 4.0 KiB)" in printed
    assert "b     its outbox is full, and 1 producer waits: `radiator peer drop` ends that\n" in printed
    assert "d     not kept until it is linked (7 copies dropped): `radiator peer keep`\n" in printed


def test_drop_needs_force(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    asked = script({})
    assert main(["peer", "drop", "b"]) == 2
    assert not asked and "Nothing was done" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dropped", "sentence"), [(1, "1 copy that waited for node b is"), (3, "3 copies that waited")]
)
def test_drop_and_keep(dropped: int, sentence: str, script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    asked = script({"peer-drop": [{"ok": True, "dropped": dropped}], "peer-keep": [{"ok": True, "changed": True}]})
    assert main(["peer", "drop", "b", "--force"]) == 0
    assert capsys.readouterr().out.startswith(sentence)
    assert main(["peer", "keep", "b"]) == 0
    assert capsys.readouterr().out == "Copies are kept for node b again from now on.\n"
    assert asked == [{"do": "peer-drop", "peer": "b", "force": True}, {"do": "peer-keep", "peer": "b"}]


@pytest.mark.parametrize("line", ["peer", "peer release", "peer forget b", "peer release b c", "drain now"])
def test_usage_error(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr().err.count("\n") == 1


def drains(*left: int, stays: int = 0) -> list[Answer]:
    return [{"ok": True, "draining": True, "left": count, "stays": stays} for count in left]


def test_drain_waits_until_nothing_is_left(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    later = {**PEERS, "peers": [{**UP, "handed_over": 107}]}
    script({"drain": drains(9, 9, 2, 0), "peers": [PEERS, later]})
    assert main(["drain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Draining: this node hands 9 messages ")
    assert lines[1:] == [
        "9 left; since the last line 7 to b",
        "2 left; no peer takes any now: are they full, or drained too?",
        "Nothing is left to hand over: this node may be stopped.",
    ]


def test_drain_says_that_nobody_is_there_to_take_them(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script({"drain": drains(1, 1, 0), "peers": [{**PEERS, "peers": [{**DOWN, "in_doubt": 0}]}]})
    assert main(["drain"]) == 0
    assert "1 left; no peer is linked that could take them: see `radiator peers`\n" in capsys.readouterr().out


def test_drain_says_whom_it_waits_for(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    away = {**DOWN, "name": "d", "in_doubt": 1, "outbox": 2}
    script({"drain": drains(3, 3, 0), "peers": [{**PEERS, "peers": [away, UP]}]})
    assert main(["drain"]) == 0
    assert "full, or drained too?; 3 for d, which is not up\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stays", "words"), [(1, "1 message of queues of scope node, or delayed, stays"), (2, "2 messages of ")]
)
def test_drain_counts_what_stays_and_says_how_to_move_it(
    script: Script, capsys: pytest.CaptureFixture[str], stays: int, words: str
) -> None:
    script({"drain": drains(0, stays=stays), "peers": [PEERS]})
    assert main(["drain"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(words)
    assert "`radiator move QUEUE CLUSTER-QUEUE`" in last


def test_drain_interrupted_goes_on(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    asked = script({"drain": [*drains(3), KeyboardInterrupt()], "peers": [PEERS]})  # type: ignore[list-item]
    assert main(["drain"]) == 130
    assert "the drain goes on" in capsys.readouterr().err
    assert not any(request.get("stop") for request in asked)


def test_drain_is_taken_back(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    asked = script({"drain": drains(3)})
    assert main(["drain", "--stop"]) == 0
    assert asked == [{"do": "drain", "stop": True}]
    assert "3 messages of queues of scope cluster stay here" in capsys.readouterr().out


def test_answer_of_another_version_is_a_sentence(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    for command, do in (("peers", "peers"), ("drain", "drain"), ("peer release b --force", "peer-release")):
        script({do: [{"ok": True}]})
        assert main(command.split()) == 1
        assert "another version" in capsys.readouterr().err
