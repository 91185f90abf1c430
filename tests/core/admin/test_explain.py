"""`explain`: a message's story, or a trace's, or a correlation-id's, as the journal tells it."""

import json
from typing import Any

import pytest

from radiator.core import searches
from radiator.core.rights import Rights
from radiator.model.commands import AUTO, Administer, Event, Open, Read, Send
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import AWAITS_MAX, EXPLAINED_EVENT_BYTES, SEARCH_FOUND_WORK, SEARCHES_AT_ONCE
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.replies import Answered
from radiator.model.rights import Rules
from radiator.model.settings import JOURNAL, Declarations, LogSettings, QueueSettings
from radiator.model.story import TRACED_MAX
from radiator.model.users import User
from radiator.protocols.administration import JSON
from tests.core.admin.asking import code
from tests.core.node import Node
from tests.core.timed import TURN_MAX_S, Timed, measures_turns
from tests.core.words import ack, nack, send, subscribe

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
NAMED = b"correlation-id:task 7\n"
TRACED = f"traceparent:00-{TRACE_ID}-00f067aa0ba902b7-01\n".encode()


def journaled(**more: Any) -> Node:
    declared = Declarations(
        queues={"q": QueueSettings(dead_letter="dead", max_redeliveries=0), "dead": QueueSettings()},
        fanouts={"f": ("a", "b")},
        logs={JOURNAL: LogSettings()},
        has_journal=True,
        create_queues=True,
    )
    node = Node(declared, **more)
    node.open(1, 9)
    return node


@pytest.fixture
def node() -> Node:
    return journaled()


def events_of(answer: dict[str, Any]) -> list[tuple[str, str]]:
    assert answer["ok"] is True, answer
    assert [event["seq"] for event in answer["events"]] == sorted(event["seq"] for event in answer["events"])
    return [(event["event"], event["queue"]) for event in answer["events"]]


def id_of(node: Node, number: int) -> str:
    return node.broker.context.message_id(node.broker.context.first_position + number).decode()


def test_a_story_has_the_message_and_what_it_became(node: Node) -> None:
    node.say(send(1, "q"), send(1, "q"), subscribe(1, "q", prefetch_count=2))
    first, second = node.messages(1)
    node.say(nack(first), ack(second))
    whole = node.admin(9, do="explain", message=first.message_id.decode())
    assert events_of(whole) == [
        ("accepted", "q"), ("delivered", "q"), ("nacked", "q"), ("accepted", "dead"), ("dead-lettered", "q"),
    ]  # fmt: skip
    assert (whole["has_more"], whole["is_cut"]) == (False, False)
    dead = whole["events"][3]["message_id"]
    assert node.admin(9, do="explain", message=dead) == whole
    other = node.admin(9, do="explain", message=second.message_id.decode())
    assert events_of(other) == [("accepted", "q"), ("delivered", "q"), ("acked", "q")]
    assert {event["client"] for event in other["events"]} == {"", "1/q"} and other["events"][0]["node"] == ""


def test_the_newest_events_are_told_though_nothing_is_on_the_disk_yet(node: Node) -> None:
    node.auto = False
    node.say(send(1, "a"), subscribe(1, "a", AUTO))
    node.auto = True
    one = node.admin(9, do="explain", message=id_of(node, 1))
    assert events_of(one)[0] == ("accepted", "a")


def test_a_traces_story_is_that_of_all_its_messages(node: Node) -> None:
    for to, headers in (("q", TRACED), ("a", b""), ("/fanout/f", TRACED)):
        node.say(send(1, to, headers=headers))
    node.say(subscribe(1, "q"))
    node.say(nack(node.message(1)))
    story = node.admin(9, do="explain", trace=TRACE_ID.upper())
    assert events_of(story) == [
        ("accepted", "q"), ("accepted", "a"), ("fanout-copy", "a"), ("accepted", "b"), ("fanout-copy", "b"),
        ("delivered", "q"), ("nacked", "q"), ("accepted", "dead"), ("dead-lettered", "q"),
    ]  # fmt: skip
    assert node.admin(9, do="explain", trace=TRACED.decode().partition(":")[2].strip()) == story


def test_a_correlation_ids_story_is_that_of_all_its_messages(node: Node) -> None:
    for to, headers in (("q", NAMED), ("a", b"correlation-id:task 70\n"), ("/fanout/f", NAMED), ("a", b"")):
        node.say(send(1, to, headers=headers))
    node.say(subscribe(1, "q"))
    node.say(nack(node.message(1)))
    story = node.admin(9, do="explain", correlation_id="task 7")
    assert events_of(story) == [
        ("accepted", "q"), ("accepted", "a"), ("fanout-copy", "a"), ("accepted", "b"), ("fanout-copy", "b"),
        ("delivered", "q"), ("nacked", "q"), ("accepted", "dead"), ("dead-lettered", "q"),
    ]  # fmt: skip
    ids = [event["correlation_id"] for event in story["events"] if event["event"] == "accepted"]
    assert ids == ["task 7"] * 4 and len({event["message_id"] for event in story["events"]}) == 4
    assert events_of(node.admin(9, do="explain", correlation_id="task 70")) == [("accepted", "a")]
    for other in ("task", "task 7 ", "TASK 7", "7"):
        assert code(node, do="explain", correlation_id=other) == "no-events"


def test_a_correlation_id_of_messages_in_memory_is_of_nothing(node: Node) -> None:
    node.admin(9, do="declare", queue="m", persistent=False)
    node.say(send(1, "m", headers=NAMED))
    refused = node.admin(9, do="explain", correlation_id="task 7")
    sentence = "The journal tells nothing of the correlation-id 'task 7'. Its messages may be in memory only, "
    assert refused["code"] == "no-events" and refused["error"].startswith(sentence)
    assert refused["error"].endswith("or of another node; and it keeps none of more than 255 bytes.")


def test_pages_have_all_of_a_correlation_ids_story(node: Node) -> None:
    node.say(*[send(1, "a", headers=NAMED)] * 5)
    whole = node.admin(9, do="explain", correlation_id="task 7")["events"]
    first = node.admin(9, do="explain", correlation_id="task 7", limit=3)
    after = first["events"][-1]["seq"]
    rest = node.admin(9, do="explain", correlation_id="task 7", limit=3, after=after)
    assert (first["has_more"], rest["has_more"]) == (True, False) and first["events"] + rest["events"] == whole


@pytest.mark.parametrize(("count", "is_cut"), [(TRACED_MAX, False), (TRACED_MAX + 1, True)])
def test_of_a_trace_the_first_messages_are_told(node: Node, count: int, is_cut: bool) -> None:
    for _ in range(count):
        node.say(send(1, "a", headers=TRACED + NAMED))
    for asked in ({"trace": TRACE_ID}, {"correlation_id": "task 7"}):
        story = node.admin(9, do="explain", **asked)
        assert len(story["events"]) == TRACED_MAX and story["is_cut"] == is_cut and not story["has_more"]


def test_pages_have_all_of_a_story(node: Node) -> None:
    node.say(send(1, "a"), subscribe(1, "a"))
    for _ in range(7):
        node.say(nack(node.message(1)))
    one = id_of(node, 1)
    whole = node.admin(9, do="explain", message=one)
    pages = [node.admin(9, do="explain", message=one, limit=4)]
    while pages[-1]["has_more"]:
        pages.append(node.admin(9, do="explain", message=one, limit=4, after=pages[-1]["events"][-1]["seq"]))
    assert [event for page in pages for event in page["events"]] == whole["events"]
    assert [len(page["events"]) for page in pages] == [4, 4, 4, 4]
    assert node.admin(9, do="explain", message=one, after=10**9) == {
        "ok": True, "events": [], "has_more": False, "is_cut": False,
    }  # fmt: skip


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"message": "feedfacecafebeef-1-99"}, "tells nothing of feedfacecafebeef-1-99. It may be in memory only"),
    ({"message": "feedfacecafebeef-0-0"}, "It may be in memory only"),
    ({"message": "feedfacecafebeef-9999999999-99999999999999999999"}, "It may be in memory only"),
    ({"message": "beef-1-1"}, "It is of store beef, and this is store feedfacecafebeef"),
    ({"trace": "1" * 32}, f"The journal tells nothing of trace {'1' * 32}."),
])  # fmt: skip
def test_of_what_nothing_is_told_it_is_said_why(node: Node, asked: dict[str, str], sentence: str) -> None:
    node.say(send(1, "a"))
    assert code(node, do="explain", **asked) == "no-events"
    assert sentence in node.admin(9, do="explain", **asked)["error"]


@pytest.mark.parametrize("asked", [{"message": "s-1-1"}, {"trace": "1" * 32}, {"correlation_id": "c"}])
def test_without_a_journal_there_is_no_story(asked: dict[str, str]) -> None:
    node = Node()
    node.open(9)
    answer = node.admin(9, do="explain", **asked)
    assert answer["code"] == "no-journal" and "[journal] enabled = true in config.toml begins one" in answer["error"]
    assert node.broker.connections[9].awaits == 0


def test_a_journal_that_is_off_by_now_still_tells(node: Node) -> None:
    node.say(send(1, "a"))
    one = id_of(node, 1)
    off = node.crashed(declarations=Declarations(create_queues=True))
    off.open(9)
    assert events_of(off.admin(9, do="explain", message=one)) == [("accepted", "a")]


def test_a_story_goes_on_over_a_restart(node: Node) -> None:
    node.say(send(1, "a"))
    one = id_of(node, 1)
    node.stop()
    again = node.again_on(node.disk.platter)
    again.open(1, 9)
    again.say(subscribe(1, "a"))
    again.say(ack(again.message(1)))
    assert events_of(again.admin(9, do="explain", message=one)) == [
        ("accepted", "a"),
        ("delivered", "a"),
        ("acked", "a"),
    ]


# ---- bounds ---------------------------------------------------------------------------------------------------------


def asks(connection: int, receipt: bytes = b"r", **request: object) -> Administer:
    body = json.dumps({"do": "explain", **request}).encode()
    return Administer(connection, body, JSON, ESCAPING_ALL, receipt, is_answered=True)


def answers(node: Node, connection: int) -> list[dict[str, Any]]:
    replies = [one for one in node.take(connection) if isinstance(one, Answered)]
    return [json.loads(b"".join((one.body, *one.more))) for one in replies]


def test_so_many_are_under_way_and_the_next_is_refused_whoever_asks(node: Node) -> None:
    node.say(send(1, "a"))
    node.auto = False
    one = id_of(node, 1)
    for number in range(SEARCHES_AT_ONCE):
        node.say(asks((1, 9)[number % 2], message=one))
    node.say(asks(9, message=one), asks(1, message="beef-1-1"))
    assert [answer["code"] for number in (9, 1) for answer in answers(node, number)] == ["blocked", "blocked"]
    assert node.broker.connections[9].awaits == SEARCHES_AT_ONCE // 2
    node.auto = True
    node.turn([])
    given = [answer for number in (1, 9) for answer in answers(node, number)]
    assert len(given) == SEARCHES_AT_ONCE and all(events_of(answer) == [("accepted", "a")] for answer in given)
    assert events_of(node.admin(9, do="explain", message=one)) == [("accepted", "a")]
    assert node.broker.connections[9].awaits == node.broker.connections[9].found_bytes == 0


def test_a_connection_that_has_too_many_waits_is_refused_and_takes_no_search(node: Node) -> None:
    node.say(send(1, "a"))
    node.broker.connections[9].awaits = AWAITS_MAX
    assert code(node, do="explain", message=id_of(node, 1)) == "bad-request"
    node.broker.connections[9].awaits = AWAITS_MAX - 1
    assert events_of(node.admin(9, do="explain", message=id_of(node, 1)))
    assert node.broker.parts.searches.count == 0


def test_what_is_found_counts_as_held_by_its_connection_until_it_is_answered(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "SEARCH_WORK", 4 * SEARCH_FOUND_WORK)
    node.say(send(1, "a"), subscribe(1, "a"))
    for _ in range(50):
        node.say(nack(node.message(1)))
    node.auto = False
    connection = node.broker.connections[9]
    before = connection.held_bytes
    node.say(asks(9, message=id_of(node, 1)))
    held = []
    while node.step():
        held.append(connection.held_bytes - before)
    assert max(held) > 100 * EXPLAINED_EVENT_BYTES and connection.found_bytes == connection.answer_bytes == 0
    (answer,) = answers(node, 9)
    assert len(answer["events"]) == 102


@pytest.mark.parametrize("steps", range(12))
def test_a_connection_that_goes_ends_its_search_at_any_moment(
    node: Node, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(searches, "SEARCH_WORK", 4 * SEARCH_FOUND_WORK)
    for _ in range(12):
        node.say(send(1, "a"))
    node.auto = False
    node.say(asks(9, message=id_of(node, 1)))
    for _ in range(steps):
        node.step()
    node.auto = True
    node.close(9)
    assert node.broker.parts.searches.count == 0 and not node.broker.parts.answers.askers
    assert not node.broker.destinations.windows.waiting and not node.broker.background


def test_a_request_whose_answer_nobody_hears_reads_nothing(node: Node) -> None:
    node.say(send(1, "a"))
    node.auto = False
    node.say(Send(9, "/admin", b"", 2, b'{"do":"explain","message":"s-1-1"}', b"r"))
    while node.step():
        assert not node.read_requests
    assert node.receipts(9) == [b"r"] and node.broker.parts.searches.count == 0


def test_a_stop_in_the_middle_gives_no_answer_and_takes_no_time(node: Node) -> None:
    node.say(send(1, "a"))
    node.auto = False
    node.say(asks(9, message=id_of(node, 1)))
    while not node.read_requests:
        node.step()
    node.stop()
    assert node.got_bye(9) and answers(node, 9) == []


def test_who_has_lost_the_right_meanwhile_is_not_answered() -> None:
    reader = Rights({"ann": User(name="ann", rules=Rules(read=(f"/log/{JOURNAL}",)))}, 7)
    node = journaled(authorizer=reader)
    ann = Principal("ann", RecognisedBy.TOKEN)
    node.turn([Open(5, principal=ann)])
    node.inbox[5], node.delivers[5] = [], 0
    node.auto = False
    node.say(asks(5, message="other-1-1"), asks(5, trace=TRACE_ID), asks(5, correlation_id="c"))
    node.broker.parts.authorization.authorizer = Rights({"ann": User(name="ann", rules=Rules(read=("/log/other",)))}, 7)
    node.auto = True
    node.turn([])
    assert [answer["code"] for answer in answers(node, 5)] == ["forbidden"] * 3


@measures_turns
def test_no_search_makes_a_long_turn_however_much_it_finds() -> None:
    node = Timed(journaled().declarations)
    node.open(1, 9)
    node.say(*(send(1, "a", headers=TRACED + NAMED) for _ in range(TRACED_MAX)), subscribe(1, "a"))
    for _ in range(1000):
        node.say(nack(node.message(1)))
    one = id_of(node, 1)
    kinds = ({"message": one}, {"trace": TRACE_ID}, {"correlation_id": "task 7"})

    def asked() -> list[Event]:
        return [Read((1, 9)[nth % 2], [asks((1, 9)[nth % 2], **kinds[nth % 3])]) for nth in range(SEARCHES_AT_ONCE)]

    longest_s = node.longest_turn_s(asked)
    assert longest_s <= TURN_MAX_S, f"a turn took {longest_s * 1000:.1f} ms of CPU"
