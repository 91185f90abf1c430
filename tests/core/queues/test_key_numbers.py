"""How many keys there are, which one is hot, and how many consumers could be busy."""

import pytest

from radiator.core.queues.key_numbers import (
    Hot,
    active_keys,
    backlog,
    key_moves,
    key_text,
    keys_of,
    look_for_hot,
    useful_consumers,
)
from radiator.core.queues.queue import Queue
from radiator.model.commands import Send
from radiator.model.limits import SHOWN_KEY_CHARACTERS
from tests.core.node import Node
from tests.core.words import ack, nack, queue, send, subscribe, unsubscribe

PERSISTENT = pytest.mark.parametrize("persistent", [True, False])


def keyed(key: bytes) -> Send:
    return send(9, "q", headers=b"key:%b\n" % key)


def node_of(persistent: bool = True) -> Node:
    node = Node(queue(persistent=persistent, partition_key=("header:key",)))
    node.open(1, 2, 9)
    return node


def found(node: Node) -> Queue:
    there = node.broker.destinations.queues.find("q")
    assert there is not None
    return there


def hot(node: Node) -> tuple[str, int]:
    one = Hot()
    for _ in look_for_hot(found(node), one):
        pass
    return one.key, one.count


@PERSISTENT
def test_keys_come_and_go_and_a_message_without_one_is_its_own(persistent: bool) -> None:
    node = node_of(persistent)
    assert (active_keys(found(node)), useful_consumers(found(node)), hot(node)) == (0, 0, ("", 0))
    node.say(keyed(b"a"), keyed(b"a"), keyed(b"b"), send(9, "q"), send(9, "q"))
    assert (active_keys(found(node)), useful_consumers(found(node)), backlog(found(node))) == (4, 4, 5)
    assert hot(node) == ("a", 2)
    node.say(subscribe(1, "q", prefetch_count=9))
    assert (active_keys(found(node)), backlog(found(node))) == (4, 5)
    for _ in range(3):
        node.say(*map(ack, node.messages(1)))
    assert (active_keys(found(node)), useful_consumers(found(node)), backlog(found(node))) == (0, 0, 0)
    node.say(unsubscribe(1, "q"), send(9, "q"), keyed(b"a"))
    assert active_keys(found(node)) == 2
    node.admin(9, do="purge", queue="q")
    assert active_keys(found(node)) == 0


def test_a_queue_without_keys_is_as_wide_as_it_is_long() -> None:
    node = Node(queue())
    node.open(1, 9)
    node.say(send(9, "q"), send(9, "q"))
    assert (active_keys(found(node)), key_moves(found(node)), useful_consumers(found(node))) == (None, None, 2)
    assert keys_of(found(node), "a", None) is None and hot(node) == ("", 0)


def test_where_no_key_is_known_yet_one_consumer_is_useful() -> None:
    """After a start nothing is read back before there is one: a scaler that took it for none would never wake."""
    node = node_of()
    node.say(keyed(b"a"), keyed(b"b"))
    again = node.crashed()
    assert backlog(found(again)) == 2 and useful_consumers(found(again)) == 1
    again.open(1)
    again.say(subscribe(1, "q", prefetch_count=9))
    assert useful_consumers(found(again)) == 2


def test_a_key_that_goes_to_another_consumer_is_a_move() -> None:
    node = node_of()
    node.say(subscribe(1, "q"), keyed(b"a"), keyed(b"a"))
    node.close(1)
    node.say(subscribe(2, "q"))
    assert key_moves(found(node)) == 1


@pytest.mark.parametrize(("key", "text"), [
    (b"customer 7", "customer 7"),
    ("m\u00fcller".encode(), "m\u00fcller"),
    (b"a\x00b\n", "a\\x00b\\n"),
    (b"\xff", "\\xff"),
    ("\u202eevil".encode(), "\\u202eevil"),
    (b"k" * SHOWN_KEY_CHARACTERS, "k" * SHOWN_KEY_CHARACTERS),
    (b"k" * (SHOWN_KEY_CHARACTERS + 1), "k" * (SHOWN_KEY_CHARACTERS - 3) + "..."),
])  # fmt: skip
def test_a_key_is_shown_without_what_does_not_print(key: bytes, text: str) -> None:
    assert key_text(key) == text


@PERSISTENT
def test_for_a_key_that_a_delay_holds_no_consumer_is_useful(persistent: bool) -> None:
    node = node_of(persistent)
    node.say(subscribe(1, "q", prefetch_count=9))
    node.say(*(keyed(key) for key in (b"a", b"a", b"b", b"b", b"c", b"c")))
    out = node.messages(1)
    node.say(*(nack(deliver, delay_ms=1000) for deliver in out[:2]))
    assert (len(out), active_keys(found(node)), useful_consumers(found(node)), backlog(found(node))) == (3, 3, 1, 4)
    node.wait(2)
    assert (active_keys(found(node)), useful_consumers(found(node)), backlog(found(node))) == (3, 3, 6)
