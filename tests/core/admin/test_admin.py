"""/admin: every request, and what wrong ones get."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from radiator.model.commands import AUTO, CLIENT, Send
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.validation import QUEUE
from radiator.protocols.administration.requests import REQUESTS
from tests.core.node import Node
from tests.core.words import ack, begin, commit, header, nack, queue, queues, send, subscribe, unsubscribe


def node_with(count: int, name: str = "q") -> Node:
    node = Node()
    node.open(1, 9)
    for number in range(count):
        node.say(send(1, name, b"%d" % number))
    return node


def test_answer_goes_to_the_senders_temp_queue_with_its_correlation_id() -> None:
    node = Node()
    node.open(9)
    node.say(send(9, "/admin", b'{"do":"stats"}', b"r", reply_to="t", correlation_id=b"c:1"))
    message = node.message(9).message
    assert header(message, b"content-type") == b"application/json"
    assert header(message, b"correlation-id") == b"c\\c1"
    assert json.loads(message.body)["ok"] is True and node.receipts(9) == [b"r"]


def test_request_without_reply_to_is_carried_out_unheard() -> None:
    node = node_with(3)
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', b"r"))
    assert node.receipts(9) == [b"r"] and node.stored("q") == []


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", "bad-request"),
        (b"{", "bad-request"),
        (b"[]", "bad-request"),
        (b'"stats"', "bad-request"),
        (b"\xff", "bad-request"),
        (b"[" * 60_000, "bad-request"),
        (b'{"do":"stats","more":{}}', "bad-request"),
        (b'{"do":"stats","more":[[]]}', "bad-request"),
        (b'{"do":"stats","more":[{}]}', "bad-request"),
        (b'{"do":"stats"}' + b" " * 70_000, "bad-request"),
        (b"{}", "unknown-request"),
        (b'{"do":"nothing"}', "unknown-request"),
        (b'{"do":["stats"]}', "unknown-request"),
        (b'{"do":"peek"}', "bad-request"),
        (b'{"do":"peek","queue":7}', "bad-request"),
        (b'{"do":"peek","queue":"none"}', "no-such-destination"),
        (b'{"do":"peek","queue":"\\ud800"}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":0}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":1001}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":true}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":"1"}', "bad-request"),
        (b'{"do":"purge","queue":"none"}', "no-such-destination"),
        (b'{"do":"delete","queue":"none"}', "no-such-destination"),
        (b'{"do":"move","from":"none","to":"x"}', "no-such-destination"),
        (b'{"do":"move","from":"q"}', "bad-request"),
        (b'{"do":"move","from":"q","to":""}', "bad-request"),
        (b'{"do":"move","from":"q","to":"q"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"a\\u0000b"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"\\ud800"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"' + b"x" * 256 + b'"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"a.*"}', "wildcard"),
        (b'{"do":"move","from":"q","to":"r","count":-1}', "bad-request"),
    ],
)
def test_wrong_request_is_answered_and_not_fatal(body: bytes, code: str) -> None:
    node = node_with(1)
    node.say(send(9, "/admin", body, b"r", reply_to="t"))
    answer = json.loads(node.message(9).message.body)
    assert answer["ok"] is False and answer["code"] == code and answer["error"].endswith(".")
    assert node.receipts(9) == [b"r"] and not node.is_refused(9)
    assert node.stored("q") == [b"0"]


@pytest.mark.parametrize("key", ["do", "queue", "count", "max_messages", "children", "seconds"])
def test_no_depth_of_a_value_ends_the_broker(key: str) -> None:
    node = node_with(1)
    for depth in (*range(2, 30_000, 2000), *range(900, 1000)):
        for do in ("peek", "declare", "extend"):
            body = b'{"do":"%b","queue":"q","%b":%b%b}' % (do.encode(), key.encode(), b"[" * depth, b"]" * depth)
            node.say(send(9, "/admin", body, reply_to="t"))
            assert json.loads(node.message(9).message.body)["code"] == "bad-request"


NAMES = ["q", "r", "x", "amq.topic", "f", "", "a.*", "/queue/q", "$outbox/b", "\ud800", "x" * 256]
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=3) | some.sampled_from(NAMES),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = some.sampled_from(
    ["queue", "exchange", "fanout", "key", "type", "durable", "passive", "children", "count", "subscription", "id",
     "seconds", "from", "to", "if_unused", "if_empty", "create", "peer", "force", "stop", *QUEUE]
)  # fmt: skip


@given(some.lists(some.tuples(some.sampled_from(sorted(REQUESTS)), some.dictionaries(KEYS, VALUES)), max_size=5))
def test_no_request_does_worse_than_a_refusal(requests: list[tuple[str, dict[str, object]]]) -> None:
    node = node_with(2)
    node.admin(9, do="declare", exchange="x", type="topic")
    for do, asked in requests:
        answer = node.admin(9, **{"do": do, **asked})
        assert answer["ok"] is True or (answer["code"] and answer["error"].endswith((".", "?")))
    assert not node.is_refused(9)
    node.crashed()


# ---- stats, queues --------------------------------------------------------------------------------------------------


def test_stats_show_the_whole_broker() -> None:
    node = Node(Declarations(queues={"q": QueueSettings(max_messages=1)}, fanouts={"f": ("q",)}, create_topics=True))
    node.open(1, 2, 9)
    node.say(subscribe(2, "/topic/t"), send(1, "/fanout/f"), send(1, "q"))
    stats = node.admin(9, do="stats")
    assert stats["ok"] and stats["version"] == "test" and stats["store_id"] == "feedfacecafebeef" and stats["boot"] == 1
    assert stats["connections"] == 3 and stats["subscriptions"] == 2 and stats["parked"] == 1
    assert stats["queues"]["q"]["messages"] == 1 and stats["queues"]["q"]["blocked"] == 1
    assert stats["fanouts"] == {"f": {"children": ["q"], "accepted": 1}}
    assert stats["topics"] == {"t": {"subscribers": 1}}
    sizes = {"used_bytes", "map_size", "high_water_bytes", "reusable_bytes", "disk_free_bytes", "disk_free_min"}
    assert set(stats["store"]) == {*sizes, "disk_room_bytes", "checked_percent"}


def test_queues_are_listed_by_name_with_their_numbers() -> None:
    node = node_with(2, "b")
    node.say(send(1, "a"), subscribe(1, "b", CLIENT))
    listed = node.admin(9, do="queues")["queues"]
    assert [(q["name"], q["messages"], q["ready"], q["unacked"], q["consumers"]) for q in listed] == [
        ("a", 1, 1, 0, 0),
        ("b", 2, 1, 1, 1),
    ]


# ---- peek -----------------------------------------------------------------------------------------------------------


def test_peek_shows_the_oldest_and_changes_nothing(small: None) -> None:
    node = node_with(20)
    node.say(subscribe(1, "q", CLIENT))
    held = node.message(1)
    before = node.numbers("q")
    shown = node.admin(9, do="peek", queue="/queue/q", count=15)["messages"]
    assert [m["body"] for m in shown] == [str(n) for n in range(15)]
    assert [m["state"] for m in shown[:2]] == ["unacked", "ready"]
    assert shown[0]["message_id"] == held.message_id.decode() and shown[0]["destination"] == "/queue/q"
    assert node.numbers("q") == before
    node.say(ack(held))
    assert node.bodies(1) == [b"1"]


def test_peek_shows_headers_counts_and_bytes() -> None:
    node = Node()
    node.open(1, 9)
    node.say(send(1, "q", b"\xff\x00", headers=b"a\\cb:c\\nd\n"), subscribe(1, "q"))
    node.say(nack(node.message(1)))
    (shown,) = node.admin(9, do="peek", queue="q")["messages"]
    assert shown["headers"] == [["a:b", "c\nd"]] and shown["body"] is None and shown["body_base64"] == "/wA="
    assert shown["redelivered"] is True and shown["redelivery_count"] == 1 and shown["size"] == 12


@pytest.mark.parametrize("count, seen", [(None, 10), (1, 1), (1000, 30)])
def test_peek_shows_as_many_as_asked_for(count: int | None, seen: int) -> None:
    node = node_with(30)
    request = {"do": "peek", "queue": "q"} | ({} if count is None else {"count": count})
    assert len(node.admin(9, **request)["messages"]) == seen


# ---- delete ---------------------------------------------------------------------------------------------------------


def test_delete_frees_the_name_at_once_and_sweeps_later(small: None) -> None:
    node = node_with(20)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    assert not node.has("q") and node.messages(9) == []
    node.say(send(1, "q", b"new"))
    node.auto = True
    node.turn([])
    assert json.loads(node.message(9).message.body) == {"ok": True, "deleted": 20}
    assert node.stored("q") == [b"new"] and len(node.disk.platter.messages) == 1 and not node.disk.platter.retired


def test_sweep_goes_on_after_a_crash(small: None) -> None:
    node = node_with(20)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    node.seal()
    node.commit()
    node.messages(9)
    assert len(node.disk.platter.messages) == 17 and len(node.disk.platter.retired) == 1
    again = node.crashed()
    again.turn([])
    assert not again.disk.platter.messages and not again.disk.platter.retired and not again.has("q")


def test_delete_of_a_queue_in_use_is_refused() -> None:
    node = node_with(1)
    node.say(subscribe(1, "q", CLIENT))
    assert node.admin(9, do="delete", queue="q")["code"] == "in-use"
    assert node.stored("q") == [b"0"]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("is_subscribed", [True, False])
@pytest.mark.parametrize("how", ["ack", "nack", "transaction", "lost", "timeout"])
def test_delete_takes_what_is_unacked_along(persistent: bool, is_subscribed: bool, how: str) -> None:
    """As AMQP has it: what becomes of such a message later is receipted, and has no effect."""
    dead = queues(q=QueueSettings(persistent=persistent, dead_letter="dead", ack_timeout_s=5), dead=QueueSettings())
    node = Node(
        Declarations(queue_patterns=[("q", dead.queues["q"])], queues={"dead": dead.queues["dead"]}, create_queues=True)
    )
    node.open(1, 2, 9)
    for number in range(3):
        node.say(send(1, "q", b"%d" % number))
    node.say(subscribe(2, "q", CLIENT, prefetch_count=2))
    first, second = node.messages(2)
    if how == "transaction":
        node.say(begin(2), ack(second, transaction=b"t"))
    if not is_subscribed:
        node.say(unsubscribe(2, "q"))
    assert node.admin(9, do="delete", queue="q", if_unused=not is_subscribed) == {"ok": True, "deleted": 3}
    node.say(send(1, "q", b"new", b"r"))
    assert node.receipts(1)[-1:] == [b"r"] and node.bodies(2) == []
    said = {
        "ack": [ack(second, b"r")],
        "nack": [nack(first, b"r", requeue=False), nack(second, b"s")],
        "transaction": [commit(2, receipt=b"r")],
    }
    if how == "lost":
        node.close(2)
    elif how == "timeout":
        node.wait(6)
    else:
        node.say(*said[how])
        assert node.receipts(2)[:1] == [b"r"]
    assert node.stored("q") == [b"new"] if persistent else node.numbers("q")["ready"] == 1
    assert node.stored("dead") == [] and node.broker.connections.keys() == ({1, 9} if how == "lost" else {1, 2, 9})
    assert node.crashed().stored("q") == ([b"new"] if persistent else [])


def test_delete_of_a_declared_queue_is_refused() -> None:
    node = Node(queue())
    node.open(9)
    assert node.admin(9, do="delete", queue="q")["code"] == "declared"


def test_delete_right_after_a_send_leaves_nothing() -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(send(1, "q", b"1", b"1"))
    node.seal()
    node.say(send(1, "q", b"2", b"2"), send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    node.auto = True
    node.turn([])
    assert not node.disk.platter.messages and not node.disk.platter.queues and node.receipts(1) == [b"1", b"2"]


# ---- move -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count, moved", [(None, 20), (7, 7), (100, 20)])
def test_move_takes_the_oldest_in_order(small: None, count: int | None, moved: int) -> None:
    node = node_with(20)
    request = {"do": "move", "from": "q", "to": "r"} | ({} if count is None else {"count": count})
    assert node.admin(9, **request) == {"ok": True, "moved": moved}
    assert node.stored("r") == [b"%d" % n for n in range(moved)]
    assert node.stored("q") == [b"%d" % n for n in range(moved, 20)]
    assert node.numbers("q")["purged"] == moved and node.numbers("r")["accepted"] == moved
    node.say(subscribe(1, "r", AUTO))
    out = node.messages(1)
    assert [d.message.body for d in out] == [b"%d" % n for n in range(moved)]
    assert {d.message.destination for d in out} == {"/queue/r"}


def test_move_makes_its_target_unless_it_is_told_not_to(small: None) -> None:
    node = node_with(3)
    refused = node.admin(9, **{"do": "move", "from": "q", "to": "new", "create": False})
    assert refused == {"ok": False, "code": "no-such-destination", "error": "There is no /queue/new."}
    assert node.numbers("q")["stored"] == 3 and "new" not in node.broker.destinations.queues
    assert node.admin(9, **{"do": "move", "from": "q", "to": "new"})["moved"] == 3
    assert node.admin(9, **{"do": "move", "from": "new", "to": "/queue/q", "create": False})["moved"] == 3
    assert node.admin(9, **{"do": "move", "from": "q", "to": "new", "create": 1})["code"] == "bad-request"
    assert node.admin(9, **{"do": "move", "from": "q", "to": "new", "creat": False})["code"] == "bad-request"


def test_move_is_answered_when_it_is_on_the_disk(small: None) -> None:
    node = node_with(2)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"move","from":"q","to":"r"}', reply_to="t"))
    node.seal()
    assert node.messages(9) == []
    node.commit()
    assert len(node.messages(9)) == 1


def test_move_stops_where_the_target_is_full() -> None:
    node = Node(queues(r=QueueSettings(max_messages=3)))
    node.open(1, 9)
    for number in range(5):
        node.say(send(1, "q", b"%d" % number))
    assert node.admin(9, **{"do": "move", "from": "q", "to": "r"})["moved"] == 3
    assert node.stored("q") == [b"3", b"4"] and node.stored("r") == [b"0", b"1", b"2"]


def test_move_leaves_what_is_in_flight() -> None:
    node = node_with(3)
    node.say(subscribe(1, "q", CLIENT))
    held = node.message(1)
    assert node.admin(9, **{"do": "move", "from": "q", "to": "r"})["moved"] == 2
    node.say(nack(held))
    assert node.bodies(1) == [b"0"]


def test_dead_letters_can_be_moved_back_and_consumed() -> None:
    node = Node(queue(dead_letter="dead", max_redeliveries=0))
    node.open(1, 9)
    node.say(send(1, "q", b"1", headers=b"a:b\n"), subscribe(1, "q"))
    node.say(nack(node.message(1)))
    assert node.admin(9, **{"do": "move", "from": "dead", "to": "q"})["moved"] == 1
    deliver = node.message(1)
    assert deliver.message.body == b"1" and deliver.message.destination == "/queue/q"
    node.say(nack(deliver))
    assert node.stored("dead") == [b"1"]


def test_peek_cuts_long_bodies_between_characters() -> None:
    node = Node()
    node.open(1)
    node.say(Send(1, "/queue/Q", b"", 2, "ä".encode() * 70_000 + b"x"))
    node.say(Send(1, "/admin", b"", 2, b'{"do": "peek", "queue": "Q"}', reply_to="t"))
    message = json.loads(node.bodies(1)[-1])["messages"][0]
    assert message["body"] == "ä" * (64 * 1024 // 2)
    assert message["body_bytes"] == 140_001


def test_peek_shows_less_of_each_body_where_many_are_asked_for() -> None:
    node = Node()
    node.open(1)
    node.say(Send(1, "/queue/Q", b"", 2, b"a" * 100_000))
    node.say(Send(1, "/admin", b"", 2, b'{"do": "peek", "queue": "Q", "count": 1000}', reply_to="t"))
    message = json.loads(node.bodies(1)[-1])["messages"][0]
    assert len(message["body"]) == 8 * 1024 * 1024 // 1000


def test_move_of_a_dead_letter_drops_the_count_that_it_died_with() -> None:
    node = Node(queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0), dead=QueueSettings()))
    node.open(1, 2)
    node.say(send(1, "q"), subscribe(2, "q"))
    node.say(nack(node.message(2)))
    node.say(send(1, "/admin", b'{"do":"move","from":"dead","to":"q"}', reply_to="t"))
    again = node.message(2)
    assert header(again.message, b"redelivery-count") is None
    assert header(again.message, b"dead-letter-reason") == b"redeliveries"
    assert (again.redelivered, again.redeliveries) == (False, 0)


def test_move_that_is_refused_makes_no_queue() -> None:
    node = node_with(1)
    node.say(send(1, "/admin", b'{"do":"move","from":"q","to":"new","count":0}', reply_to="t"))
    assert json.loads(node.bodies(1)[-1])["code"] == "bad-request" and not node.has("new")


def test_move_to_an_address_of_another_kind_is_refused() -> None:
    node = node_with(1)
    node.say(send(1, "/admin", b'{"do":"move","from":"q","to":"/topic/x"}', reply_to="t"))
    answer = json.loads(node.bodies(1)[-1])
    assert not answer["ok"] and "address of something else" in answer["error"]
