"""A message whose properties are too large for a frame of the client that would get it."""

from dataclasses import replace
from struct import pack

import pytest

from radiator.core.queues.unsendable import HEADERS_GROWTH, fits, of_unsendable
from radiator.model.amqp_properties import properties_of, stored_block
from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL, Read, Send
from radiator.model.getting import Get, SetWindow
from radiator.model.headers import ESCAPING_NONE
from radiator.model.replies import Scope
from tests.core.bare import connection, entry, message
from tests.core.node import Node
from tests.core.words import ack, queue, send, subscribe

KINDS = pytest.mark.parametrize("kind", [
    {}, {"persistent": False}, {"max_priority": 3}, {"partition_key": ("header:k",)}, {"single_active_consumer": True},
])  # fmt: skip
MOST = 4076


def of_size(size: int, body: bytes) -> Send:
    """A message that AMQP has sent, whose properties have so many bytes."""
    value = b"x" * (size - 13)
    data = b"\x20\0" + pack(">IBcc", len(value) + 7, 1, b"a", b"S") + pack(">I", len(value)) + value  # headers alone
    assert len(data) == size
    return send(9, "q", body, headers=stored_block(data)[0])


def small(node: Node, number: int) -> None:
    """A client whose frames have room for so much."""
    node.open(number)
    node.say(SetWindow(number, 0, properties_max_bytes=MOST))


@KINDS
@pytest.mark.parametrize("mode", [AUTO, CLIENT_INDIVIDUAL])
def test_one_byte_too_much_closes_the_channel_and_is_left_to_others(mode: str, kind: dict[str, object]) -> None:
    node = Node(queue(**kind))
    node.open(2, 9)
    small(node, 1)
    node.say(subscribe(1, "q", mode))
    node.say(of_size(MOST, b"fits"))
    assert node.bodies(1) == [b"fits"]
    node.say(of_size(MOST + 1, b"large"))
    refuse = node.refusal(1)
    assert refuse.code == "too-large" and refuse.scope == Scope.CHANNEL and node.bodies(1) == []
    assert f"in /queue/q have {MOST + 1} bytes: a frame of this connection has room for {MOST}." in refuse.sentence
    node.close(1)
    assert (node.numbers("q")["unacked"], node.numbers("q")["redelivered"]) == (0, mode != AUTO)
    node.say(subscribe(2, "q", prefetch_count=2))
    others = node.messages(2)
    assert [one.message.body for one in others][-1] == b"large" and others[-1].redeliveries == 0
    node.say(*(ack(one) for one in others))
    assert node.numbers("q")["messages"] == 0


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("counts", ["stored", "ready"])
@pytest.mark.parametrize("kind", [{}, {"max_priority": 3}, {"partition_key": ("header:k",)}])
def test_of_a_queue_that_keeps_nothing_it_goes_to_another_consumer_or_nobody(
    kind: dict[str, object], counts: str, persistent: bool
) -> None:
    node = Node(queue(max_messages=0, overflow="drop-oldest", bounds_count=counts, persistent=persistent, **kind))
    node.open(2, 9)
    small(node, 1)
    node.say(subscribe(1, "q", prefetch_count=5), subscribe(2, "q", prefetch_count=2))
    node.turn([Read(9, [of_size(MOST + 1, b"large"), send(9, "q", b"next")])])
    assert node.refusal(1).code == "too-large" and sorted(node.bodies(2)) == [b"large", b"next"]
    small(node, 3)
    node.say(subscribe(3, "q"), of_size(MOST + 1, b"dropped"))
    assert node.refusal(3).code == "too-large" and node.bodies(2) == []
    numbers = node.numbers("q")
    assert (numbers["unacked"], numbers["messages"], numbers["dropped"]) == (2, 2, 1)


def test_another_consumer_gets_it_at_once() -> None:
    node = Node(queue())
    node.open(2, 9)
    small(node, 1)
    node.say(subscribe(1, "q"), subscribe(2, "q", AUTO))
    node.say(of_size(MOST + 1, b"large"), of_size(MOST + 1, b"next"))
    assert node.is_refused(1) and node.bodies(2) == [b"large", b"next"]


def test_a_get_of_it_closes_the_channel_too() -> None:
    node = Node(queue())
    node.open(9)
    small(node, 1)
    node.say(of_size(MOST + 1, b"large"))
    node.say(Get(1, "/queue/q", b"r"))
    assert node.refusal(1).code == "too-large"
    node.close(1)
    assert node.numbers("q")["ready"] == 1


def test_why_names_it_while_it_is_the_next_one() -> None:
    node = Node(queue())
    node.open(2, 9)
    small(node, 1)
    node.say(of_size(MOST + 1, b"large"), subscribe(1, "q"))
    node.close(1)
    sentence = node.admin(9, do="why", queue="q")["sentence"]
    assert "The next message could not be sent to connection 1: the properties of " in sentence
    node.say(subscribe(2, "q", AUTO))
    assert "could not be sent" not in node.admin(9, do="why", queue="q")["sentence"]
    assert of_unsendable(None, entry(1)) == ""


def test_short_headers_that_are_long_as_properties_are_looked_at() -> None:
    headers = b"".join(b"%x:\n" % number for number in range(16, 256))
    size = len(properties_of(headers, ESCAPING_NONE))
    assert len(headers) < size < HEADERS_GROWTH * len(headers)
    one, other = replace(message(), headers=headers, escaping=ESCAPING_NONE), connection()
    other.properties_max_bytes = size
    assert fits(one, other)
    other.properties_max_bytes = size - 1
    assert not fits(one, other)


def test_who_says_nothing_gets_everything() -> None:
    node = Node(queue())
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO), of_size(60_000, b"large"))
    assert node.bodies(1) == [b"large"]
