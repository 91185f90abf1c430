"""Dead letters: what they say of where they come from, and the batch that moves them."""

import pytest

from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import header, nack, queue, queues, send, subscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])


def dead_letter(reason: str, persistent: bool) -> Node:
    settings = QueueSettings(
        persistent=persistent, dead_letter="dead", max_redeliveries=0, max_messages=1, overflow="dead-letter"
    )
    node = Node(queues(q=settings))
    node.open(1, 2)
    headers = b"a:1\nexpires:9\nredelivery-count:77\ndead-letter-reason:forged\noriginal-message-id:forged\nb:2\n"
    node.say(send(1, "q", b"body", headers=headers, expiration_ms=60_000))
    if reason == "expired":
        node.wait(60)
    elif reason == "overflow":
        node.say(send(1, "q", b"next"))
    else:
        node.say(subscribe(2, "q"))
        node.say(nack(node.message(2), requeue=reason == "redeliveries"))
    return node


@BOTH
@pytest.mark.parametrize("reason", ["rejected", "redeliveries", "expired", "overflow"])
def test_dead_letter_says_where_it_comes_from_and_why(reason: str, persistent: bool) -> None:
    node = dead_letter(reason, persistent)
    assert node.numbers("q")["dead_lettered"] == 1 and node.numbers("dead")["accepted"] == 1
    node.say(subscribe(1, "dead"))
    deliver = node.message(1)
    message = deliver.message
    assert message.destination == "/queue/dead" and message.body == b"body"
    assert message.headers == (
        b"a:1\nb:2\ndead-letter-reason:%b\noriginal-destination:/queue/q\n"
        b"original-message-id:feedfacecafebeef-1-1\nredelivery-count:0\n" % reason.encode()
    )
    assert deliver.message_id != b"feedfacecafebeef-1-1"
    assert message.expires_ms == 0 and not deliver.redelivered


@pytest.mark.durability("D9")
def test_dead_letter_is_put_and_removed_in_one_batch() -> None:
    node = Node(queue(dead_letter="dead", max_redeliveries=0))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    deliver = node.message(1)
    node.auto = False
    node.say(nack(deliver, b"r"))
    batch = node.broker.seal()
    assert batch is not None
    assert [type(w).__name__ for w in batch.writes] == ["Put", "Remove", "SaveLedger", "SaveLedger"]
    assert node.receipts(1) == []


def test_dead_letter_ignores_the_bound_and_dedup_of_its_target() -> None:
    node = Node(
        queues(
            q=QueueSettings(dead_letter="dead", max_redeliveries=0),
            dead=QueueSettings(max_messages=1, overflow="reject", dedup_window_s=60),
        )
    )
    node.open(1)
    node.say(subscribe(1, "q"))
    for _ in range(3):
        node.say(send(1, "q", headers=b"dedup-id:same\n", dedup_id=b"same"))
        node.say(nack(node.message(1)))
    assert node.numbers("dead")["messages"] == 3


def test_dead_letter_gets_the_time_to_live_of_its_new_queue() -> None:
    node = Node(
        queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0), dead=QueueSettings(message_ttl_ms=5000))
    )
    node.open(1)
    node.say(send(1, "q", expiration_ms=1000), subscribe(1, "q"))
    node.say(nack(node.message(1)))
    node.wait(4.9)
    assert node.numbers("dead")["messages"] == 1
    node.wait(0.2)
    assert node.numbers("dead")["expired"] == 1


def test_dead_letters_may_go_on_to_a_third_queue() -> None:
    node = Node(
        queues(
            q=QueueSettings(dead_letter="one", max_redeliveries=0),
            one=QueueSettings(dead_letter="two", max_redeliveries=0),
        )
    )
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"), subscribe(1, "one"), subscribe(1, "two"))
    node.say(nack(node.message(1)))
    node.say(nack(node.message(1)))
    message = node.message(1).message
    assert message.destination == "/queue/two" and header(message, b"original-destination") == b"/queue/one"
    assert message.headers.count(b"original-destination") == 1


@BOTH
def test_reject_without_a_dead_letter_queue_drops_and_counts(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    node.say(nack(node.message(1), b"r", requeue=False))
    assert node.receipts(1) == [b"r"]
    assert node.numbers("q")["dropped"] == 1 and node.numbers("q")["messages"] == 0
