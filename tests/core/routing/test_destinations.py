"""Names: what exists, what first use creates, what is refused; temp and reply queues."""

import pytest

from radiator.model.commands import AUTO
from radiator.model.limits import Limits
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import send, subscribe


def test_queues_fanouts_and_topics_have_separate_names() -> None:
    node = Node(Declarations(queues={"x": QueueSettings(), "y": QueueSettings()}, fanouts={"x": ("y",)}, topics=["x"]))
    node.open(1)
    node.say(subscribe(1, "/queue/x", AUTO), subscribe(1, "/queue/y", AUTO), subscribe(1, "/topic/x"))
    for number, kind in enumerate(("queue", "fanout", "topic")):
        node.say(send(1, f"/{kind}/x", b"%d" % number))
    assert [(d.subscription, d.message.body) for d in node.messages(1)] == [
        (b"/queue/x", b"0"),
        (b"/queue/y", b"1"),
        (b"/topic/x", b"2"),
    ]


@pytest.mark.parametrize("address", ["/queue/", "/nowhere/x", "/", "/queue", "/admin/x", "/exchange/", "/temp-topic/a"])
def test_address_of_no_known_kind_is_refused(address: str) -> None:
    node = Node()
    node.open(1, 2)
    node.say(send(1, address), subscribe(2, address))
    assert node.refusal(1).code == node.refusal(2).code == "unknown-destination"


@pytest.mark.parametrize("address", ["/reply-queue/0", "/admin"])
def test_send_only_address_cannot_be_subscribed_to(address: str) -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, address))
    assert node.refusal(1).code == "send-only"


def test_destinations_at_the_limit_and_one_past() -> None:
    node = Node(limits=Limits(max_destinations=3))
    node.open(1, 2, 3, 4, 5)
    node.say(send(1, "a"), subscribe(1, "/topic/b"), subscribe(1, "c", receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    node.say(send(2, "d"), subscribe(3, "/topic/d"), send(5, "a", receipt=b"r"))
    assert [node.refusal(c).code for c in (2, 3)] == ["too-many-destinations"] * 2
    assert node.receipts(5) == [b"r"]
    assert node.admin(4, do="delete", queue="a")["ok"], "a temp queue is none of them: the operator can always ask"


def test_reply_to_of_another_kind_travels_unchanged() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q", headers=b"reply-to:/queue/answers\n"), subscribe(1, "q", AUTO))
    assert node.message(1).message.headers == b"reply-to:/queue/answers\n"


def test_mandatory_topic_send_without_a_subscriber_is_refused() -> None:
    node = Node()
    node.open(1, 2)
    node.say(send(1, "/topic/t", receipt=b"1"), send(1, "/topic/t", receipt=b"2", mandatory=True))
    assert node.receipts(1) == [b"1"] and node.refusal(1).code == "no-subscriber"
    node.say(subscribe(2, "/topic/#"), send(2, "/topic/t", receipt=b"3", mandatory=True))
    assert node.receipts(2) == [b"3"]


def test_mandatory_send_to_a_queue_is_like_any_other() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q", receipt=b"r", mandatory=True))
    assert node.receipts(1) == [b"r"]
