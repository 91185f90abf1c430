"""Requests about what is out with consumers of a queue: who has which message, and more time for one."""

import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from radiator.core.admin.unacked import _behind, _place
from radiator.core.connections import Delivery
from radiator.model.commands import AUTO, CLIENT
from radiator.model.limits import (
    ACK_TIMEOUT_MAX_S,
    ANSWER_ROWS,
    LEASE_MAX_MS,
    LOOKED_AT_ONCE,
    UNACKED_PAGE,
    UNACKED_PAGE_MAX,
)
from radiator.model.message import message_id, position_of
from radiator.model.numbers import PAUSE
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.settings import Declarations, LogSettings, QueueSettings
from tests.core.admin.asking import code
from tests.core.leased import done, join, outcome, take
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, send, subscribe

DECLARED = Declarations(
    queues={
        "q": QueueSettings(),
        "timed": QueueSettings(ack_timeout_s=60),
        "keyed": QueueSettings(partition_key=("header:key",)),
        "mem": QueueSettings(persistent=False),
    },
    logs={"l": LogSettings()},
    create_queues=True,
)


@pytest.fixture
def node() -> Node:
    node = Node(DECLARED)
    node.open(1, 2, 9)
    return node


def asked(node: Node, queue: str = "q", **more: object) -> dict[str, Any]:
    answer = node.admin(9, do="unacked", queue=queue, **more)
    assert answer.pop("ok") is True, answer
    return answer


def rows(node: Node, queue: str = "q", **more: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(node, queue, **more)["unacked"]
    return found


def extend(node: Node, queue: str, message: str, seconds: float) -> int:
    answer = node.admin(9, do="extend-unacked", queue=queue, message_id=message, seconds=seconds)
    assert answer.keys() == {"ok", "message_id", "due_ms"} and answer["message_id"] == message, answer
    return int(answer["due_ms"])


@pytest.mark.parametrize("queue", ["q", "keyed", "mem", "timed"])
def test_a_message_is_shown_with_who_has_it(node: Node, queue: str) -> None:
    node.say(subscribe(1, queue, consumer_name="pod-3", name=b"s"), send(2, queue, b"hello", headers=b"key:1\n"))
    out = node.message(1)
    node.wait(1.5)
    assert asked(node, queue) == {
        "unacked": [
            {
                "message_id": out.message_id.decode(),
                "connection": 1,
                "address": "",
                "user": "anyone",
                "subscription": "s",
                "consumer": "pod-3",
                "age_ms": 1500,
                "due_ms": node.now_ms + 58_500 if queue == "timed" else None,
                "redelivery_count": 0,
                "size": 11,
                "is_leased": False,
            }
        ],
        "count": 1,
        "next": None,
    }
    node.say(nack(out))
    again = node.message(1)
    (row,) = rows(node, queue)
    assert (row["age_ms"], row["redelivery_count"]) == (0, 1)
    node.say(ack(again))
    assert asked(node, queue) == {"unacked": [], "count": 0, "next": None}


@pytest.mark.parametrize("queue", ["q", "keyed", "mem"])
def test_a_lease_is_shown_as_its_users_with_its_end(node: Node, queue: str) -> None:
    join(node, 7, principal=Principal("ann", RecognisedBy.TOKEN))
    node.say(send(1, queue))
    (one,) = take(node, 7, queue, lease_ms=30_000)
    node.close(7)
    node.wait(2)
    (row,) = rows(node, queue)
    assert row.pop("message_id") == one.message_id.decode()
    assert row == {
        "connection": None,
        "address": None,
        "user": "ann",
        "subscription": None,
        "consumer": None,
        "age_ms": 2000,
        "due_ms": node.now_ms + 28_000,
        "redelivery_count": 0,
        "size": 1,
        "is_leased": True,
    }


def test_what_is_out_longest_comes_first_whatever_its_place_in_the_queue(node: Node) -> None:
    node.say(subscribe(1, "q", prefetch_count=9), *(send(2, "q", b"%d" % n) for n in range(4)))
    first, *others = node.messages(1)
    node.wait(1)
    node.say(nack(first))
    ids = [out.message_id.decode() for out in (*others, first)]
    assert [row["message_id"] for row in rows(node)] == ids
    assert [row["age_ms"] for row in rows(node)] == [1000, 1000, 1000, 0]


def test_they_come_in_pages_each_once(node: Node) -> None:
    node.say(subscribe(1, "q", prefetch_count=999))
    for burst in range(5):
        node.say(*(send(2, "q") for _ in range(10)))
        node.wait(0.25 * burst)
    everything = [row["message_id"] for row in rows(node, limit=1000)]
    assert len(everything) == 50
    for limit in (1, 3, 10, 49, 50, 51):
        found, after = [], {}
        while True:
            page = asked(node, limit=limit, **after)
            assert page["count"] == 50 and len(page["unacked"]) <= limit
            found += [row["message_id"] for row in page["unacked"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert found == everything, limit


def test_a_page_goes_on_where_the_last_of_the_one_before_was_settled(node: Node) -> None:
    node.say(subscribe(1, "q", prefetch_count=99), *(send(2, "q") for _ in range(6)))
    out = node.messages(1)
    page = asked(node, limit=3)
    node.say(*(ack(one) for one in out[:4]))
    rest = asked(node, limit=3, after=page["next"])
    assert [row["message_id"] for row in rest["unacked"]] == [one.message_id.decode() for one in out[4:]]
    assert asked(node, after=f"{10**20}-0")["unacked"] == [] and len(rows(node, after="0-0")) == 2


def test_a_page_is_bounded(node: Node) -> None:
    node.say(subscribe(1, "q", prefetch_count=9999))
    for _ in range(UNACKED_PAGE_MAX + 1):
        node.say(send(2, "q"))
    assert len(rows(node)) == UNACKED_PAGE
    whole = asked(node, limit=UNACKED_PAGE_MAX)
    assert len(whole["unacked"]) == UNACKED_PAGE_MAX and whole["count"] == UNACKED_PAGE_MAX + 1
    assert len(rows(node, after=whole["next"])) == 1
    assert code(node, do="unacked", queue="q", limit=UNACKED_PAGE_MAX + 1) == "bad-request"


def test_what_auto_sends_is_out_until_it_is_written(node: Node) -> None:
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", AUTO), send(2, "q"))
    assert len(rows(node)) == 1
    node.reads_slowly.discard(1)
    node.wait(1)
    assert rows(node) == []


def test_a_log_has_no_unacked_and_a_temp_queue_no_name(node: Node) -> None:
    assert code(node, do="unacked", queue="l") == "no-such-destination"
    assert code(node, do="unacked", queue="admin") == "no-such-destination"


def test_names_with_control_characters_come_as_json_escapes(node: Node) -> None:
    node.say(subscribe(1, "q", name=b"\x1b[2J\xe2\x80\xae\xff", consumer_name="a\u2066b"), send(2, "q"))
    node.say(send(9, "/admin", b'{"do": "unacked", "queue": "q"}', reply_to="admin"))
    (body,) = node.bodies(9)
    assert body.isascii() and b"\x1b" not in body
    assert json.loads(body)["unacked"][0]["subscription"] == "\x1b[2J\u202e\ufffd"


@pytest.fixture
def no_collections() -> Iterator[None]:
    """As in a broker: one of all that other tests have left takes 0.15 s."""
    gc.disable()
    yield
    gc.enable()


def test_a_hundred_thousand_are_paged_in_short_turns(node: Node, no_collections: None) -> None:
    node.say(subscribe(1, "mem", prefetch_count=99_999))
    for _ in range(20):
        node.say(*(send(2, "mem") for _ in range(500)))
    node.auto = False
    longest_s, after = 0.0, {}
    for _ in range(3):
        body = json.dumps({"do": "unacked", "queue": "mem", "limit": 1000, **after}).encode()
        node.say(send(9, "/admin", body, reply_to="admin"))
        turns = 0
        while not (answers := node.bodies(9)):
            begun_s = time.process_time()
            node.step() or node.turn([])
            longest_s = max(longest_s, time.process_time() - begun_s)
            turns += 1
        assert turns > 30
        after = {"after": json.loads(answers[0])["next"]}
    assert longest_s < 0.05


# ---- more time ------------------------------------------------------------------------------------------------------


def test_an_ack_timeout_ends_later_or_sooner(node: Node) -> None:
    node.say(subscribe(1, "timed", prefetch_count=9), send(2, "timed", b"1"), send(2, "timed", b"2"))
    first, second = (out.message_id.decode() for out in node.messages(1))
    node.wait(50)
    assert extend(node, "timed", first, 100) == node.now_ms + 100_000
    assert extend(node, "timed", second, 20.5) == node.now_ms + 20_500
    assert {row["message_id"]: row["due_ms"] for row in rows(node, "timed")} == {
        first: node.now_ms + 100_000,
        second: node.now_ms + 20_500,
    }
    node.wait(20)
    assert not node.is_refused(1)
    extend(node, "timed", second, 80)
    node.wait(79)
    assert not node.is_refused(1)
    extend(node, "timed", first, 0.5)
    node.wait(1)
    assert node.refusal(1).code == "ack-timeout"


@pytest.mark.parametrize(("ack_", "timeout_s"), [(CLIENT, 5.0), (AUTO, 5.0)])
def test_a_subscription_with_a_timeout_of_its_own_can_be_extended(node: Node, ack_: str, timeout_s: float) -> None:
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", ack_, ack_timeout_s=timeout_s), send(2, "q"))
    (row,) = rows(node)
    assert row["due_ms"] == node.now_ms + 5000
    assert extend(node, "q", row["message_id"], ACK_TIMEOUT_MAX_S) == node.now_ms + ACK_TIMEOUT_MAX_S * 1000


def test_a_lease_ends_later_or_sooner(node: Node) -> None:
    join(node, 7)
    node.say(send(1, "q"), send(1, "q"))
    first, second = take(node, 7, lease_ms=10_000)
    assert extend(node, "q", first.message_id.decode(), 60) == node.now_ms + 60_000
    assert extend(node, "q", second.message_id.decode(), 1) == node.now_ms + 1000
    node.wait(20)
    assert [row["message_id"] for row in rows(node)] == [first.message_id.decode()]
    assert outcome(node, 7, done(first), done(second)) == ["", "lease-over"]
    assert code(node, do="extend-unacked", queue="q", message_id=first.message_id.decode(), seconds=5) == "not-unacked"


@pytest.mark.parametrize("seconds", [0.999, LEASE_MAX_MS / 1000 + 0.001])
def test_a_lease_is_extended_by_what_a_lease_may_have(node: Node, seconds: float) -> None:
    join(node, 7)
    node.say(send(1, "q"))
    (one,) = take(node, 7)
    answer = node.admin(9, do="extend-unacked", queue="q", message_id=one.message_id.decode(), seconds=seconds)
    assert answer["code"] == "bad-request" and "1 to 43200" in answer["error"]
    assert extend(node, "q", one.message_id.decode(), LEASE_MAX_MS / 1000) == node.now_ms + LEASE_MAX_MS


def test_what_has_no_ack_timeout_is_refused(node: Node) -> None:
    node.say(subscribe(1, "q"), send(2, "q"))
    message = node.message(1).message_id.decode()
    answer = node.admin(9, do="extend-unacked", queue="q", message_id=message, seconds=5)
    assert answer["code"] == "no-ack-timeout" and "connection 1" in answer["error"]


def test_what_is_not_out_is_refused(node: Node) -> None:
    def refused(message: bytes, queue: str = "timed") -> None:
        asked_for = {"queue": queue, "message_id": message.decode(), "seconds": 5}
        assert code(node, do="extend-unacked", **asked_for) == "not-unacked"

    store_id = node.broker.context.store_id
    node.say(subscribe(1, "timed"), send(2, "timed", b"1"), send(2, "timed", b"2"), send(2, "q"))
    out = node.message(1)
    refused(b"deadbeefcafebeef-1-1")  # of another store
    refused(message_id(store_id, position_of(1, 999)))
    refused(out.message_id, "q")  # of another queue
    refused(out.message_id.replace(b"-1-", b"-01-"))
    extend(node, "timed", out.message_id.decode(), 5)
    node.say(ack(out))
    refused(out.message_id)
    second = node.message(1)
    node.broker.connections[1].is_closing = True
    refused(second.message_id)


def test_one_whose_commit_is_on_its_way_is_not_out_any_more(node: Node) -> None:
    """Of a memory queue: it is settled once the rest of its transaction is on the disk."""
    node.say(subscribe(1, "mem", ack_timeout_s=60.0), send(2, "mem"))
    out = node.message(1)
    message = out.message_id.decode()
    node.say(begin(1), ack(out, transaction=b"t"), send(1, "q", transaction=b"t"))
    assert extend(node, "mem", message, 5)  # it may still be aborted
    node.auto = False
    node.say(commit(1))
    asked_for = {"do": "extend-unacked", "queue": "mem", "message_id": message, "seconds": 5}
    assert (
        code(node, **asked_for) == "not-unacked"
        and len(node.broker.destinations.existing_queue("mem").entries_out) == 1
    )
    node.auto = True
    node.turn([])
    assert rows(node, "mem") == []


def test_a_lease_whose_time_is_over_is_not_extended_before_the_clock_has_ticked(node: Node) -> None:
    join(node, 7)
    node.say(send(1, "q"))
    (one,) = take(node, 7, lease_ms=10_000)
    asked_for = {"do": "extend-unacked", "queue": "q", "message_id": one.message_id.decode(), "seconds": 5}
    node.now_s += 9.999
    assert node.admin(9, **asked_for)["ok"] is True
    node.now_s += 5
    assert code(node, **asked_for) == "not-unacked"


def test_one_that_is_settled_while_the_answer_is_made_is_left_out(node: Node) -> None:
    node.say(subscribe(1, "mem", prefetch_count=999), *(send(2, "mem") for _ in range(3 * ANSWER_ROWS)))
    out = node.messages(1)
    node.auto = False
    node.say(send(9, "/admin", b'{"do": "unacked", "queue": "mem"}', reply_to="admin"))
    node.turn([])
    node.turn([])
    node.say(ack(out[-1]), ack(out[0]))
    node.auto = True
    node.turn([])
    (body,) = node.bodies(9)
    shown = [row["message_id"] for row in json.loads(body)["unacked"]]
    assert shown == [one.message_id.decode() for one in out[:-1]]


def test_those_of_one_turn_are_in_the_order_of_their_positions(node: Node) -> None:
    """However they went out: a page behind a place has none before it, and leaves none out."""
    node.say(subscribe(1, "mem", prefetch_count=9999), *(send(2, "mem") for _ in range(LOOKED_AT_ONCE + 50)))
    out = [*node.broker.destinations.existing_queue("mem").entries_out.values()]
    for order in (out, out[::-1], out[25:] + out[:25]):
        seen: list[Delivery] = []
        after = None
        while page := [one for one in _behind(order, after, 300) if one is not PAUSE]:
            seen += page
            after = _place(page[-1])
        assert seen == out


def test_a_place_is_looked_for_a_slice_in_a_turn(node: Node) -> None:
    node.say(subscribe(1, "mem", prefetch_count=9999), *(send(2, "mem") for _ in range(5 * LOOKED_AT_ONCE)))
    before = node.broker.context.turn_number
    assert len(rows(node, "mem", limit=1)) == 1
    assert node.broker.context.turn_number - before >= 5


def test_of_a_queue_that_is_not_there(node: Node) -> None:
    for more in ({"do": "unacked"}, {"do": "extend-unacked", "message_id": "s-1-1", "seconds": 1}):
        assert code(node, queue="none", **more) == "no-such-destination"


def test_the_clock_of_a_blocked_connection_stands_still(node: Node) -> None:
    node.broker.admission.disk_wait_list.is_tight = False
    node.say(subscribe(1, "timed"), send(2, "timed"))
    node.wait(10)
    before = rows(node, "timed")[0]["due_ms"]
    node.broker.admission.disk_wait_list.is_tight = True
    node.say(send(1, "q"))
    node.now_s += 7
    node.now_ms += 7000
    node.turn([])
    assert rows(node, "timed")[0]["due_ms"] == before + 7000
