"""Long answers of /admin: in slices, fair, bounded, and dropped when nobody waits for them any more."""

import json
from typing import Any

import pytest

from radiator.core import answers
from radiator.core.answers import in_order
from radiator.model.commands import CLIENT_INDIVIDUAL, Administer, Event, Read, Send, Stop
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import (
    ANSWER_LINES,
    ANSWERS_WAITING_MAX,
    COMMANDS_AT_ONCE,
    LOOKED_AT_ONCE,
    MATCH_STEPS,
    SIZE_MAX,
    Limits,
)
from radiator.model.numbers import PAUSE
from radiator.model.replies import Answered
from radiator.protocols.administration import JSON
from radiator.protocols.administration.requests import REQUESTS
from tests.core.node import Node
from tests.core.timed import TURN_MAX_S, Timed, measures_turns
from tests.core.words import send, subscribe


def request(connection: int = 9, **asked: object) -> Send:
    return send(connection, "/admin", json.dumps(asked).encode(), reply_to="t", correlation_id=b"1")


def given(node: Node, connection: int = 9) -> list[dict[str, Any]]:
    """The new answers."""
    return [json.loads(body) for body in node.bodies(connection)]


def many(count: int = 200) -> Node:
    """With so many queues, and a turn each time that a test says so."""
    node = Node(limits=Limits(outbox_max_bytes=65_536))
    node.open(1, 8, 9)
    for number in range(count):
        node.broker.destinations.queues.get(f"q{number:03}")
    node.turn([])
    node.auto = False
    return node


def until_answered(node: Node, connection: int = 9, turns: int = 100) -> list[dict[str, Any]]:
    for _ in range(turns):
        node.turn([])
        found = given(node, connection)
        if found:
            return found
    raise AssertionError("no answer came")


@pytest.mark.parametrize("part_bytes", [1, 10_000])
def test_a_reply_in_parts_is_the_same(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_PART_BYTES", part_bytes)
    node = many()
    node.say(request(do="queues"))
    found = until_answered(node)
    node.say(Administer(8, b'{"do": "queues"}', JSON, ESCAPING_ALL, b"r", is_answered=True))
    while not node.inbox[8]:
        node.turn([])
    (reply,) = node.inbox[8]
    assert isinstance(reply, Answered) and reply.more and not node.broker.connections[8].answer_bytes
    assert json.loads(reply.body + b"".join(reply.more)) == found[0]


# ---- slices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("do", ["stats", "queues"])
def test_a_long_answer_is_made_over_several_turns_with_others_in_between(do: str) -> None:
    node = many()
    there = sorted(node.broker.destinations.queues.all)
    node.say(request(do=do))
    assert given(node) == [] and node.again, "a slice is not all of it"
    node.say(subscribe(8, "m"), send(1, "m", b"meanwhile"))
    node.seal()
    node.commit()
    assert node.bodies(8) == [b"meanwhile"] and given(node) == []
    (answer,) = until_answered(node)
    names = [*answer["queues"]] if do == "stats" else [one["name"] for one in answer["queues"]]
    # of "m", which came meanwhile, there may be a row or not
    assert answer["ok"] and [name for name in names if name != "m"] == there


def test_a_row_is_of_the_moment_it_is_made_in() -> None:
    node = many()
    node.say(request(do="queues"))
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["q199"])
    node.broker.destinations.queues.get("q199.new")
    (answer,) = until_answered(node)
    names = [one["name"] for one in answer["queues"]]
    assert names == [f"q{number:03}" for number in range(199)], (
        "one that has gone has no row, one that came is for later"
    )


def test_answers_of_several_connections_are_made_by_turns() -> None:
    node = many()
    node.turn([Read(8, [request(8, do="stats")] * 3), Read(9, [request(9, do="stats")])])
    seen: list[int] = []
    for _ in range(100):
        node.turn([])
        seen += [8] * len(given(node, 8)) + [9] * len(given(node, 9))
    assert sorted(seen) == [8, 8, 8, 9] and seen.index(9) < 2, "who has asked once does not wait for three of another"


def asking_for_all(askers: range, queues: int = 1500) -> Node:
    """Nobody of them reads, so nobody's buffer takes a second answer."""
    node = many(queues)
    node.open(*askers)
    node.reads_slowly.update(askers)
    node.turn([Read(number, [request(number, do="stats")] * 4) for number in askers])
    return node


@pytest.mark.parametrize("line", [0, 1])
def test_a_short_answer_waits_for_no_long_ones(line: int) -> None:
    askers = range(100, 200)
    node = asking_for_all(askers)
    if line == 0:
        node.say(request(do="why", queue="q007"))
    else:
        node.say(request(do="queues", limit=100, after="q5"))
    turns = 0
    while not given(node):
        node.turn([])
        turns += 1
    slices = ANSWER_LINES[line] * (len(askers) + 1)
    assert turns <= slices * len(ANSWER_LINES), "what all of them may have before they are told to be long"
    assert sum(bool(given(node, asker)) for asker in askers) < 50


def test_long_answers_that_many_ask_for_at_once_come_whole() -> None:
    node = asking_for_all(range(100, 120), queues=600)
    there = sorted(node.broker.destinations.queues.all)
    for _ in range(2000):
        node.turn([])
    for number in range(100, 120):
        (answer,) = given(node, number)
        assert [*answer["queues"]] == there, "made anew, and each row once"
    assert not node.again and not any(node.broker.connections[number].answer_bytes for number in range(100, 120))


def test_names_are_compared_with_a_pattern_in_slices_of_so_many_words() -> None:
    """However long they are: a turn does not grow with them."""
    long = [f"{'a.' * 120}{number:03}" for number in range(100)]
    steps = [*in_order(long, match="#.a.#.007")]
    assert [one for one in steps if one is not PAUSE] == [long[7]]
    assert steps.count(PAUSE) >= 100 * 121 * 4 // (MATCH_STEPS + 121 * 4)
    short = [f"q{number:03}" for number in range(LOOKED_AT_ONCE // 2)]
    assert [*in_order(short, match="*")] == [PAUSE, *short]


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_who_asks_for_too_much_waits_and_gets_it_all_in_order() -> None:
    node = many()
    asked = [request(do="queues", limit=1 + number) for number in range(COMMANDS_AT_ONCE)]
    node.turn([Read(9, [*asked, send(9, "q000", b"behind")])])
    assert node.paused == {9} and len(node.broker.connections[9].blocked) >= len(asked) - ANSWERS_WAITING_MAX
    node.say(send(1, "q001", b"other"))
    assert node.numbers("q001")["accepted"] == 1, "nobody else waits"
    node.auto = True
    node.wait(node.limits.block_timeout_s)
    assert [len(answer["queues"]) for answer in given(node)] == [*range(1, COMMANDS_AT_ONCE + 1)]
    assert not node.paused and not node.is_refused(9) and node.stored("q000") == [b"behind"]


def test_who_waits_for_answers_is_not_refused_for_waiting_long() -> None:
    node = many()
    node.reads_slowly.add(9)
    node.turn([Read(9, [request(do="stats")] * 8)])
    for _ in range(20):
        node.turn([])
    node.wait(2 * node.limits.block_timeout_s)
    assert node.paused == {9} and not node.is_refused(9)


def test_nothing_is_made_for_one_who_does_not_read() -> None:
    node = many()
    node.reads_slowly.add(9)
    node.turn([Read(9, [request(do="stats")] * 4)])
    for _ in range(100):
        node.turn([])
    assert len(given(node)) == 1, "what fills its outgoing buffer"
    assert not node.again and node.broker.connections[9].answer_bytes == 0
    assert node.broker.connections[9].temp_queues["t"].ledger.stored == 1, "nor do others wait behind it"
    node.reads_slowly.clear()
    node.auto = True
    node.turn([])
    assert len(given(node)) == 3


def test_what_is_being_made_counts_for_its_connection() -> None:
    node = many()
    before = node.broker.connections[9].held_bytes
    node.say(request(do="stats"))
    for _ in range(6):
        node.turn([])
    assert node.broker.connections[9].held_bytes > before + 10_000
    node.auto = True
    node.turn([])
    assert node.broker.connections[9].held_bytes == before == 0


@pytest.mark.parametrize("is_begun", [True, False])
def test_an_answer_is_dropped_when_its_asker_has_gone(is_begun: bool) -> None:
    node = many()
    node.turn([Read(9, [request(do="stats")] * 8)])
    if is_begun:
        node.turn([])
    node.close(9)
    for _ in range(3):
        node.turn([])
    assert not node.again and node.broker.parts.answers.is_done and not node.broker.background


def test_a_stop_does_not_wait_for_answers() -> None:
    node = many()
    node.turn([Read(9, [request(do="stats")] * 8)])
    node.stop()


def test_a_stop_at_once_does_not_wait_for_what_was_said() -> None:
    node = many()
    commands = [request(do="declare", queue=f"n{number}") for number in range(500)]
    node.turn([Read(9, commands), Stop()])
    assert not node.stopped and not node.broker.context.is_stopping and node.broker.backlog
    node.turn([Stop(at_once=True)])
    node.auto = True
    node.turn([])
    assert node.stopped
    again = node.crashed()
    assert again.disk.recovery.was_clean and 0 < len(again.broker.destinations.queues.all) < 700


def test_an_answer_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_MAX_BYTES", 50_000)
    node = many()
    node.auto = True
    node.say(request(do="queues"))
    (answer,) = given(node)
    assert answer["code"] == "too-large" and not node.is_refused(9)
    assert node.admin(9, do="queues", limit=10)["ok"]


# ---- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 100, 200, 300])
def test_queues_come_in_pages(limit: int) -> None:
    node = many()
    node.auto = True
    found: list[str] = []
    while page := node.admin(9, do="queues", limit=limit, **({"after": found[-1]} if found else {}))["queues"]:
        assert len(page) <= limit
        found += [one["name"] for one in page]
    assert found == sorted(node.broker.destinations.queues.all)
    assert node.admin(9, do="queues", after="q198")["queues"][0]["name"] == "q199"


def test_a_section_of_stats_comes_alone_and_in_pages() -> None:
    node = many()
    node.auto = True
    whole = node.admin(9, do="stats")
    assert node.admin(9, do="stats", section="queues") == {"ok": True, "queues": whole["queues"]}
    page = node.admin(9, do="stats", section="queues", limit=2, after="q100")
    assert [*page["queues"]] == ["q101", "q102"]
    for section in ("fanouts", "exchanges", "logs", "peers", "topics"):
        assert node.admin(9, do="stats", section=section) == {"ok": True, section: whole[section]}


@pytest.mark.parametrize(
    "asked",
    [
        {"limit": 5},
        {"after": "q"},
        {"section": "counters"},
        {"section": 7},
        {"section": "queues", "limit": 0},
        {"section": "queues", "after": 7},
        {"more": 1},
    ],
)
def test_a_wrong_page_is_refused(asked: dict[str, object]) -> None:
    node = many(1)
    node.auto = True
    assert node.admin(9, do="stats", **asked)["code"] == "bad-request"


# ---- turns ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> Timed:
    """10,000 queues, and of everything else enough to be long: consumers, messages, bindings, partitions, groups."""
    node = Timed()
    node.open(1, 2, 9)
    destinations = node.broker.destinations
    for number in range(10_000):
        destinations.queues.get(f"q{number:05}")
    node.say(
        request(do="declare", exchange="x", type="topic"),
        request(do="declare", log="l", partitions=1000),
        request(do="declare", queue="m", persistent=False),
        request(do="declare", fanout="f", children=[f"q{number:05}" for number in range(2000)]),
    )
    for number in range(20_000):
        destinations.bind("x", f"k{number}.a", "q00000")
    for key in (*(f"*.k{number}" for number in range(10_000)), "#"):
        destinations.bind("amq.topic", key, "q00005")
    for number in range(200):
        node.say(request(do="position", log="l", group=f"g{number}", offsets=[0] * 1000))
    for _ in range(30):
        node.turn([Read(1, [send(1, to, b"x" * 100) for to in ("q00001", "m") for _ in range(500)])])
    node.turn([Read(2, [subscribe(2, "q00001", CLIENT_INDIVIDUAL, prefetch_count=15_000)])])
    node.take(9)
    return node


FLOOD: dict[str, dict[str, object]] = {
    "stats": {},
    "stats of logs": {"do": "stats", "section": "logs"},
    "queues": {},
    "queues in pages": {"do": "queues", "limit": 100, "after": "q05"},
    "queues of a pattern": {"do": "queues", "match": "#.a.#.b.#" + ".c" * 11},
    "peek": {"queue": "m", "count": 1000},
    "peek of what is out": {"do": "peek", "queue": "q00001", "count": 1000},
    "declare": {"queue": "new%d"},
    "declare in memory": {"do": "declare", "queue": "mem%d", "persistent": False},
    "declare a log": {"do": "declare", "log": "log%d"},
    "declare an exchange": {"do": "declare", "exchange": "ex%d"},
    "bind": {"exchange": "x", "key": "new%d.b", "queue": "q00003"},
    "unbind": {"exchange": "x", "key": "new%d.b", "queue": "q00003"},
    "describe": {"queue": "q00000"},
    "describe an exchange": {"do": "describe", "exchange": "x"},
    "describe a fanout": {"do": "describe", "fanout": "f"},
    "describe a log": {"do": "describe", "log": "l"},
    "delete": {"queue": "new%d"},
    "offsets": {"log": "l", "time_ms": 0},
    "await": {"log": "l", "next": [0] * 1000, "timeout_ms": 0},
    "await a queue": {"do": "await", "queue": "q00002", "timeout_ms": 0},
    "position": {"log": "l", "group": "g1"},
    "prefetch": {"count": 5},
    "extend": {"id": "none"},
    "move": {"from": "q00002", "to": "q00003"},
    "return": {"queue": "m"},
    "return of what is out": {"do": "return", "queue": "q00001"},
    "return of some": {"do": "return", "queue": "m", "message_ids": [
        f"feedfacecafebeef-1-{number}" for number in range(29_000, 29_100)]},
    "route": {"exchange": "amq.topic", "key": "a.b"},
    "may": {"user": "ann", "right": "admin"},
    "purge": {"queue": "q00002"},
    "checkout": {"queue": "q00004", "group": "g%d", "max_messages": 1},
    "checkout-ack": {"queue": "q00004", "group": "g%d", "before": 0},
    "checkout-release": {"queue": "q00004", "group": "g%d"},
    "consumers": {"queue": "q00001"},
    "consumer-register": {"queue": "q00001", "name": "n%d"},
    "consumer-drain": {"queue": "q00001", "name": "n%d"},
    "scale": {"queue": "q00001"},
    "connections": {},
    "connections of a user": {"do": "connections", "user": "nobody", "after": 1},
    "connection": {"number": 1},
    "disconnect": {"number": 10**9},
    "unacked": {"queue": "q00001", "limit": 1000},
    "extend-unacked": {"queue": "q00001", "message_id": "feedfacecafebeef-1-1", "seconds": 1},
    "queue-table": {"count": 200, "first": 9000},
    "queue-table of a part": {"do": "queue-table", "text": "9", "match": "#", "sort": "name", "count": 200},
    "queue-table of what needs somebody": {"do": "queue-table", "filter": "needs", "sort": "-oldest"},
    "history": {},
    "history of a queue": {"do": "history", "queue": "q00001"},
    "attention": {},
    "commit": {"prepared": ["none"], "app": "a", "version": 1},
    "abort": {"prefix": "none"},
    "prepared": {},
    "version": {"app": "a"},
    "why": {"queue": "q00001"},
    "why of a log": {"do": "why", "log": "l"},
    "explain": {"message": "feedfacecafebeef-1-1"},
    "ready": {},
    "configuration": {},
    "bounds": {},
    "disk": {},
    "log": {"limit": 500},
    "peers": {},
    "peer-release": {"peer": "none", "force": True},
    "peer-drop": {"peer": "none", "force": True},
    "peer-keep": {"peer": "none"},
    "drain": {},
    "reload": {},
    "reload as a trial": {"do": "reload", "dry_run": True},
}  # fmt: skip

LONG = ("stats", "stats of logs", "queues")  # a whole one takes half a second, and a try may have to be repeated


def test_every_kind_of_request_is_in_the_flood() -> None:
    assert {str(asked.get("do", kind)) for kind, asked in FLOOD.items()} == set(REQUESTS)


@measures_turns
@pytest.mark.parametrize("kind", FLOOD)
def test_no_flood_of_requests_makes_a_long_turn(large: Timed, kind: str) -> None:
    asked = {"do": kind, **FLOOD[kind]}

    def one(number: int) -> Send:
        filled = {
            key: value % number if isinstance(value, str) and "%d" in value else value for key, value in asked.items()
        }
        return request(9, **filled)

    def flood() -> list[Event]:
        # as the inbox gives them to a turn
        count = 3 if kind in LONG else 48
        return [Read(9, [one(number) for number in range(at, min(count, at + 16))]) for at in range(0, count, 16)]

    longest_s = large.longest_turn_s(flood)
    assert longest_s <= TURN_MAX_S, f"a turn took {longest_s * 1000:.1f} ms of CPU"


@measures_turns
@pytest.mark.parametrize("is_reply", [False, True])
def test_an_answer_of_twenty_mebibytes_makes_no_long_turn(is_reply: bool) -> None:
    node = Timed()
    node.open(1, 9)
    for number in range(39_000):
        node.broker.destinations.queues.get(f"q{number:05}")
    reply = Administer(9, b'{"do": "queues"}', JSON, ESCAPING_ALL, b"r", is_answered=True)
    events: list[Event] = [Read(9, [reply if is_reply else request(9, do="queues")])]
    longest_s = node.longest_turn_s(lambda: events)
    assert longest_s <= TURN_MAX_S, f"a turn took {longest_s * 1000:.1f} ms of CPU"
    node.turn(events)
    (given,) = node.take(9)
    size = sum(map(len, (given.body, *given.more))) if isinstance(given, Answered) else given.message.size
    assert size > 20 << 20


@measures_turns
@pytest.mark.parametrize("kind", ["queue", "exchange", "log"])
def test_the_deletion_of_what_has_very_many_bindings_makes_no_long_turn(kind: str) -> None:
    node = Timed()
    node.open(1, 9)
    what = {"queue": "b", "exchange": "x", "log": "l"}
    target = "/log/l" if kind == "log" else "b"
    bind = node.broker.destinations.bind

    def make() -> list[Event]:
        for name in what:
            node.admin(9, do="declare", **{name: what[name]})
        for number in range(20_000):
            bind("x", f"k{number}", target)
        bind("amq.direct", "other", "b")
        return [
            Read(9, [request(do="delete", **{kind: what[kind]}), request(do="bind", exchange="x", key="k", queue="b")])
        ]

    assert node.longest_turn_s(make) <= TURN_MAX_S
    destinations = node.broker.destinations
    assert node.admin(9, do="describe", **{kind: what[kind]})["code"] == "no-such-destination"
    left = destinations.exchanges.count
    assert left == (0 if kind == "queue" else 1 if kind == "exchange" else 2), "what was not of it stays"
    again = node.crashed()
    assert again.broker.destinations.exchanges.count == left


def test_a_restart_within_such_a_deletion_has_the_bindings_that_are_left() -> None:
    node = Timed()
    node.open(9)
    node.admin(9, do="declare", queue="b")
    for number in range(5000):
        node.broker.destinations.bind("amq.topic", f"k{number}", "b")
    node.turn([])
    node.auto = False
    node.say(request(do="delete", queue="b"))
    node.turn([])
    node.seal()
    node.commit()
    again = node.crashed()
    assert again.has("b") and 0 < again.broker.destinations.exchanges.count < 5000
    again.open(9)
    assert again.admin(9, do="delete", queue="b")["ok"] and again.broker.destinations.exchanges.count == 0


@pytest.mark.parametrize("limit", [0, -1, SIZE_MAX + 1, 2**63, 2**70, "5", True, None])
def test_a_limit_that_no_page_has_is_refused(limit: object) -> None:
    node = Node()
    node.open(1)
    asked: list[dict[str, object]] = [{"do": "queues"}, {"do": "stats", "section": "queues"}]
    for one in asked:
        answer = node.admin(1, **one, limit=limit)
        assert answer["code"] == "bad-request" and "`limit` must be a whole number from 1 to" in answer["error"]
    assert node.admin(1, do="queues", limit=SIZE_MAX)["ok"]
