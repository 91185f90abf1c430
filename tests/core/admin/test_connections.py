"""Requests about connections: who is connected, what each waits for, and the end of one."""

import time
from typing import Any

import pytest

from radiator.model.commands import AUTO, CLIENT, Begin, Closed, Identify, Open
from radiator.model.limits import CLIENT_SHOWN, CONNECTION_SUBSCRIPTIONS, LOOKED_AT_ONCE, Limits
from radiator.model.principal import Principal, RecognisedBy, node_principal
from radiator.model.replies import Refuse, Scope
from radiator.model.settings import Declarations, LogSettings, QueueSettings
from tests.core.admin.asking import code
from tests.core.cluster.nodes import with_clients
from tests.core.leased import join, take
from tests.core.node import Node
from tests.core.words import send, subscribe

FULL = QueueSettings(persistent=False, max_messages=1)
DECLARED = Declarations(
    queues={"q": QueueSettings(), "full": FULL}, logs={"l": LogSettings()}, create_queues=True, create_topics=True
)
ANN = Principal("ann", RecognisedBy.TOKEN)


@pytest.fixture
def node() -> Node:
    node = Node(DECLARED)
    node.open(1, 9)
    return node


def opened(node: Node, number: int, **more: Any) -> None:
    node.inbox[number], node.delivers[number] = [], 0
    node.turn([Open(number, **more)])


def asked(node: Node, do: str, by: int = 9, **more: object) -> dict[str, Any]:
    answer = node.admin(by, do=do, **more)
    assert answer.pop("ok") is True, answer
    return answer


def rows(node: Node, **more: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(node, "connections", **more)["connections"]
    return found


def row(node: Node, number: int) -> dict[str, Any]:
    (found,) = (one for one in rows(node) if one["number"] == number)
    return found


def subscriptions(node: Node, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(node, "connection", number=number)["subscription_list"]
    return found


def test_a_connection_is_shown_with_all_that_it_says_and_has(node: Node) -> None:
    opened(node, 7, principal=ANN, address="10.0.0.1:5", protocol="STOMP 1.2", tls="TLSv1.3", client="shop/7")
    node.say(subscribe(7, "q", prefetch_count=5), send(1, "q"), send(1, "q"), Begin(7, b"t"))
    node.wait(3)
    found = row(node, 7)
    assert found.pop("memory_bytes") > 0
    assert found == {
        "number": 7,
        "address": "10.0.0.1:5",
        "user": "ann",
        "recognised_by": "token",
        "protocol": "STOMP 1.2",
        "tls": "TLSv1.3",
        "client": "shop/7",
        "age_ms": 3000,
        "subscriptions": 1,
        "unacked": 2,
        "outbox_bytes": 0,
        "transactions": 1,
        "blocked": None,
        "channel_of": None,
        "channels": 0,
    }
    described = asked(node, "connection", number=7)
    assert described.pop("subscription_list") == [
        {"id": "q", "destination": "/queue/q", "ack": "client-individual", "consumer": None, "window": 5,
         "unacked": 2, "stands": "has-room"}
    ]  # fmt: skip
    assert described.pop("memory_bytes") > 0 and described.pop("channel_list") == [] and described == found


def test_one_that_says_nothing_has_the_name_of_a_consumer_of_its(node: Node) -> None:
    assert row(node, 1)["client"] is None and row(node, 1)["tls"] is None
    node.say(subscribe(1, "q"), subscribe(1, "q", name=b"named", consumer_name="pod-3"))
    assert row(node, 1)["client"] == "pod-3"
    opened(node, 2, client="c" * (CLIENT_SHOWN + 1))
    assert row(node, 2)["client"] == "c" * CLIENT_SHOWN


def test_another_login_on_a_connection_of_http_is_who_it_is(node: Node) -> None:
    join(node, 7, principal=ANN)
    node.say(Identify(7, Principal("bob", RecognisedBy.PASSWORD)))
    assert (row(node, 7)["user"], row(node, 7)["recognised_by"]) == ("bob", "password")
    assert rows(node, user="ann") == [] and [one["number"] for one in rows(node, user="bob")] == [7]


def test_a_channel_says_of_which_connection_it_is_and_that_one_has_a_list(node: Node) -> None:
    for number in (11, 12):
        opened(node, number, channel_of=1)
    assert [(row(node, number)["channel_of"], row(node, number)["channels"]) for number in (1, 11)] == [
        (None, 2),
        (1, 0),
    ]
    assert asked(node, "connection", number=1)["channel_list"] == [11, 12]
    node.turn([Closed(11)])
    assert asked(node, "connection", number=1)["channel_list"] == [12]
    opened(node, 13, channel_of=99)
    assert node.is_refused(13)
    node.turn([Closed(13)])
    stats = asked(node, "stats")
    assert (stats["connections"], stats["channels"]) == (2, 1)
    node.turn([Closed(12), Closed(1)])
    stats = asked(node, "stats")
    assert (stats["connections"], stats["channels"]) == (1, 0)


def test_they_are_in_the_order_of_their_numbers_and_in_pages(node: Node) -> None:
    for number in (5, 3, 30, 4):
        opened(node, number, principal=ANN if number != 3 else Principal("b"))
    assert [one["number"] for one in rows(node)] == [1, 3, 4, 5, 9, 30]
    page = asked(node, "connections", after=3, limit=2)
    assert [one["number"] for one in page["connections"]] == [4, 5] and page["count"] == 6
    of_ann = asked(node, "connections", user="ann", after=4, limit=1)
    assert [one["number"] for one in of_ann["connections"]] == [5] and of_ann["count"] == 3
    assert rows(node, after=30) == [] and rows(node, after=10**15 - 1) == []
    assert asked(node, "connections", user="ann\u202e\n")["count"] == 0


def test_a_name_with_control_characters_is_escaped_in_the_answer(node: Node) -> None:
    opened(node, 7, principal=Principal("a\u202e\x1b[2J"), client="\x00\u2066x", protocol="STOMP 1.2")
    node.say(subscribe(7, "/temp-queue/admin\u202e", name=b"\xff\x1b"))
    body = node.broker.parts.connections[7]
    assert body.client == "\x00\u2066x"
    node.take(9)
    assert (row(node, 7)["user"], row(node, 7)["client"]) == ("a\u202e\x1b[2J", "\x00\u2066x")
    assert subscriptions(node, 7)[0]["id"] == "\ufffd\x1b"


def test_each_kind_of_subscription_is_shown(node: Node) -> None:
    node.say(
        subscribe(1, "q", CLIENT, name=b"shared"),
        subscribe(1, "q", AUTO, name=b"auto"),
        subscribe(1, "/log/l", name=b"log", prefetch_count=3),
        subscribe(1, "/topic/a.*", AUTO, name=b"topic"),
        subscribe(1, "/temp-queue/mine", name=b"temp", prefetch_count=2),
        send(9, "/log/l", b"1", receipt=b"r"),
        send(9, "q"),
    )
    found = {one["id"]: (one["destination"], one["window"], one["unacked"]) for one in subscriptions(node, 1)}
    assert found == {
        "shared": ("/queue/q", 1, 1),
        "auto": ("/queue/q", None, 0),
        "log": ("/log/l", 3, 1),
        "topic": ("/topic/a.*", None, 0),
        "temp": ("/temp-queue/mine", 2, 0),
    }
    assert row(node, 1)["unacked"] == 2 and row(node, 1)["subscriptions"] == 5
    stands = {one["id"]: one["stands"] for one in subscriptions(node, 1)}
    assert stands == {**dict.fromkeys(("auto", "log", "topic", "temp"), "has-room"), "shared": "window"}


def test_a_temp_queue_that_no_subscribe_names_is_shown(node: Node) -> None:
    asked(node, "stats")
    assert [one["destination"] for one in subscriptions(node, 9)] == ["/temp-queue/admin"]


def test_the_first_subscriptions_are_shown(node: Node) -> None:
    for number in range(CONNECTION_SUBSCRIPTIONS + 1):
        node.say(subscribe(1, f"/topic/t{number}", AUTO, name=b"%d" % number))
    described = asked(node, "connection", number=1)
    assert [one["id"] for one in described["subscription_list"]] == [str(n) for n in range(CONNECTION_SUBSCRIPTIONS)]
    assert described["subscriptions"] == CONNECTION_SUBSCRIPTIONS + 1


def test_what_it_waits_for_is_a_sentence() -> None:
    node = Node(DECLARED, Limits(block_timeout_s=100))
    node.open(1, 9)
    node.say(send(1, "full"), send(1, "full"))
    node.wait(2)
    assert row(node, 1)["blocked"] == "Its next command has waited 2.0 s for room in /queue/full, which is full."
    node.turn([*(node.written()), *[Closed(1)]])
    node.open(2)
    node.broker.admission.disk_wait_list.is_tight = True
    node.say(send(2, "q"))
    assert row(node, 2)["blocked"] == "Its next command has waited 0.0 s for the disk, which is nearly full."


@pytest.mark.parametrize(("name", "words"), [
    ("acks", "the disk, which still writes"), ("answers", "answers: it has reached the limit of answers"),
    ("memory", "memory, of which max_memory_bytes are used"), ("batch", "the disk, which still writes"),
    ("dedup", "a dedup-id is looked up"), ("flush", "its next turn"),
    ("turn", "for other COMMITs and batches, one after another."),
    ("the disk, which messages are read back from,", "s for the disk, which messages are read back from."),
    ("the rate of the user ann (max_messages_per_s 5)", "for the rate of the user ann (max_messages_per_s 5)."),
])  # fmt: skip
def test_each_wait_list_has_its_words(node: Node, name: str, words: str) -> None:
    from radiator.core.routing.waiting import WaitList

    connection = node.broker.connections[1]
    connection.waits_for = WaitList(name)
    sentence = row(node, 1)["blocked"]
    assert words in sentence and sentence.endswith(".") and ",." not in sentence
    connection.waits_for = None


def test_every_wait_list_of_the_broker_has_words() -> None:
    """But for those whose names are the words."""
    from radiator.core.admin.connections import _WAITS

    parts = Node(DECLARED).broker.parts
    lists = (
        parts.admission.batch_lines.small,
        parts.admission.batch_lines.large,
        parts.admission.memory_wait_list,
        parts.admission.disk_wait_list,
        parts.acks.batch_wait_list,
        parts.turn_shares.wait_list,
    )
    assert {one.name for one in lists} <= _WAITS.keys()


# ---- the end of one -------------------------------------------------------------------------------------------------


def test_a_client_is_told_who_has_closed_it_and_its_unacked_come_again(node: Node) -> None:
    opened(node, 7, principal=ANN, address="10.0.0.1:5")
    node.say(subscribe(7, "q"), send(1, "q", b"x"))
    assert node.bodies(7) == [b"x"]
    answer = asked(node, "disconnect", number=7)
    assert answer == {"number": 7, "user": "ann", "address": "10.0.0.1:5"}
    (refusal,) = (one for one in node.take(7) if isinstance(one, Refuse))
    assert (refusal.code, refusal.scope) == ("disconnected", Scope.CONNECTION)
    assert refusal.sentence == "This connection was closed by an operator: 'anyone', on connection 9."
    assert row(node, 7)["blocked"].startswith("It is being closed")
    asked(node, "disconnect", number=7)  # told once
    assert not node.is_refused(7)
    node.say(send(7, "q", b"unheard"))
    node.close(7)
    node.say(subscribe(1, "q", prefetch_count=9))
    (again,) = node.messages(1)
    assert again.message.body == b"x" and again.redelivered
    assert code(node, do="disconnect", number=7) == "no-such-connection"


def test_one_that_waits_is_closed_too(node: Node) -> None:
    opened(node, 7)
    node.say(send(7, "full", b"1"), send(7, "full", b"2", receipt=b"r"))
    asked(node, "disconnect", number=7)
    assert node.refusal(7).code == "disconnected"
    node.say(subscribe(1, "full", AUTO))
    node.close(7)
    assert node.bodies(1) == [b"1"]


def test_one_of_http_is_closed_and_what_it_leased_stays(node: Node) -> None:
    join(node, 7)
    node.say(send(1, "q"))
    (one,) = take(node, 7)
    asked(node, "disconnect", number=7)
    assert node.refusal(7).code == "disconnected"
    node.close(7)
    assert node.numbers("q")["unacked"] == 1 and one.message.body == b"x"


def test_ones_own_is_not_closed(node: Node) -> None:
    assert code(node, do="disconnect", number=9) == "own-connection"
    assert row(node, 9)["blocked"] is None


def test_a_link_is_not_closed_and_it_is_said_what_to_do() -> None:
    a = with_clients("ab")["a"]
    (link,) = (one for one in a.broker.connections.values() if one.is_link)
    link.principal = node_principal("b")
    found = [one["number"] for one in asked(a, "connections", by=1, user="b")["connections"]]
    assert found == [link.number]
    answer = a.admin(1, do="disconnect", number=link.number)
    assert answer["code"] == "linked" and "[peer.b]" in answer["error"] and not link.is_closing


@pytest.mark.parametrize("do", ["connection", "disconnect"])
def test_one_that_is_not_there_is_refused(node: Node, do: str) -> None:
    for number in (2, 10**15 - 1):
        assert code(node, do=do, number=number) == "no-such-connection"
    for wrong in (0, -1, 10**15, "1", 1.0, True, None):
        assert code(node, do=do, number=wrong) == "bad-request"


# ---- many of them ---------------------------------------------------------------------------------------------------


def test_ten_thousand_are_listed_in_short_turns() -> None:
    node = Node(DECLARED, auto=False)
    node.broker.turn([Open(n, principal=ANN) for n in range(100, 10_100)], node.now_s, node.now_ms)
    node.auto = True
    node.open(9)
    node.auto = False
    node.say(send(9, "/admin", b'{"do": "connections"}', reply_to="admin"))
    turns, longest_s = 0, 0.0
    while not node.messages(9):
        begun_s = time.process_time()
        node.step() or node.turn([])
        longest_s = max(longest_s, time.process_time() - begun_s)
        turns += 1
        assert turns < 1000
    assert turns > 10_000 / 64 and longest_s < 0.05


def test_one_that_closes_while_they_are_listed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(DECLARED)
    node.open(9, *range(100, 200))
    node.auto = False
    node.say(send(9, "/admin", b'{"do": "connections"}', reply_to="admin"))
    node.turn([Closed(199)])
    node.turn([Open(300), Closed(150)])
    node.auto = True
    node.turn([])
    (answer,) = node.bodies(9)
    import json

    found = json.loads(answer)
    numbers = [one["number"] for one in found["connections"]]
    assert numbers == sorted(numbers) and 199 not in numbers and 198 in numbers and 100 in numbers


def test_connections_with_many_subscriptions_take_more_turns(node: Node) -> None:
    """Each is weighed with all that it has."""
    for number in range(100, 104):
        node.open(number)
        for one in range(LOOKED_AT_ONCE // 2):
            node.say(subscribe(number, "q", name=b"%d" % one, prefetch_count=1))
    node.auto = False
    before = node.broker.context.turn_number
    node.auto = True
    assert len(rows(node)) == 6
    assert node.broker.context.turn_number - before >= 4
