"""ACK and NACK: what they mean, and what they may not name."""

import pytest

from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL, Ack, Nack
from radiator.model.replies import Receipt, Refuse
from tests.core.node import Node
from tests.core.words import ack, nack, queue, send, subscribe, unsubscribe


def node_with(mode: str, count: int, persistent: bool = True) -> Node:
    node = Node(queue(persistent=persistent))
    node.open(1, 2)
    node.say(subscribe(1, "q", mode, prefetch_count=100))
    for number in range(count):
        node.say(send(2, "q", b"%d" % number))
    return node


@pytest.mark.parametrize("persistent", [True, False])
def test_ack_client_means_this_one_and_all_before_it(persistent: bool) -> None:
    node = node_with(CLIENT, 5, persistent)
    out = node.messages(1)
    node.say(ack(out[2]))
    assert node.numbers("q")["acked"] == 3 and node.numbers("q")["unacked"] == 2
    node.say(ack(out[4]))
    assert node.numbers("q")["messages"] == 0


def test_ack_client_means_its_own_subscription_only() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "a", CLIENT, prefetch_count=9), subscribe(1, "b", CLIENT, prefetch_count=9))
    node.say(send(2, "a"), send(2, "b"), send(2, "a"))
    out = node.messages(1)
    node.say(ack(out[2]))
    assert node.numbers("a")["acked"] == 2 and node.numbers("b")["unacked"] == 1


def test_nack_client_gives_back_this_one_and_all_before_it() -> None:
    node = node_with(CLIENT, 4)
    out = node.messages(1)
    node.say(nack(out[1]))
    assert [(d.message.body, d.redeliveries) for d in node.messages(1)] == [(b"0", 1), (b"1", 1)]


def test_ack_individual_means_this_one_alone() -> None:
    node = node_with(CLIENT_INDIVIDUAL, 3)
    out = node.messages(1)
    node.say(ack(out[1]))
    assert node.stored("q") == [b"0", b"2"]


@pytest.mark.parametrize("command", [Ack, Nack])
@pytest.mark.parametrize("mode", [CLIENT, CLIENT_INDIVIDUAL])
def test_ack_twice_is_refused(command: type, mode: str) -> None:
    node = node_with(mode, 1)
    (deliver,) = node.messages(1)
    node.say(ack(deliver), command(1, deliver.message_id, receipt=b"r"))
    refuse = node.refusal(1)
    assert refuse.code == "not-unacked" and refuse.receipt == b"r"


def test_ack_of_another_connections_message_is_refused_and_changes_nothing() -> None:
    node = node_with(CLIENT, 1)
    (deliver,) = node.messages(1)
    node.say(Ack(2, deliver.message_id))
    assert node.refusal(2).code == "not-unacked"
    node.say(ack(deliver, b"r"))
    assert node.receipts(1) == [b"r"] and node.stored("q") == []


@pytest.mark.parametrize(
    "name", [b"", b"nonsense", b"feedfacecafebeef-1-99999", b"feedfacecafebeef-9-1", b"1t", b"\xff"]
)
def test_ack_of_an_unknown_id_is_refused(name: bytes) -> None:
    node = node_with(CLIENT, 1)
    node.say(Ack(1, name))
    assert node.refusal(1).code == "not-unacked"


@pytest.mark.parametrize("command", [Ack, Nack])
def test_ack_on_an_auto_subscription_is_ignored(command: type) -> None:
    node = node_with(AUTO, 1)
    (deliver,) = node.messages(1)
    node.say(command(1, deliver.message_id, b"q", receipt=b"1"), command(1, deliver.message_id, receipt=b"2"))
    assert node.take(1) == [Receipt(1, b"1"), Receipt(1, b"2")]


@pytest.mark.parametrize("mode", [AUTO, CLIENT, CLIENT_INDIVIDUAL])
@pytest.mark.parametrize("command", [Ack, Nack])
def test_ack_of_a_topic_message_is_accepted_and_means_nothing(mode: str, command: type) -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/topic/t", mode), send(2, "/topic/t"))
    deliver = node.message(1)
    assert deliver.ack_due == (mode != AUTO)
    node.say(command(1, deliver.message_id, receipt=b"1"))
    node.say(unsubscribe(1, "/topic/t"), command(1, deliver.message_id, receipt=b"2"))
    assert node.take(1) == [Receipt(1, b"1"), Receipt(1, b"2")]


def test_ack_names_its_subscription_where_the_version_says_so() -> None:
    node = node_with(CLIENT, 1)
    (deliver,) = node.messages(1)
    node.say(Ack(1, deliver.message_id, b"q", receipt=b"r"))
    assert node.receipts(1) == [b"r"]


@pytest.mark.parametrize("subscription", [b"other", b"none"])
def test_ack_with_the_wrong_subscription_means_the_message_that_it_names(subscription: bytes) -> None:
    node = node_with(CLIENT, 1)
    node.say(subscribe(1, "other", name=b"other"))
    (deliver,) = node.messages(1)
    node.say(Ack(1, deliver.message_id, subscription, receipt=b"r"))
    assert node.receipts(1)[-1:] == [b"r"] and node.stored("q") == []
    node.say(Ack(1, deliver.message_id, subscription))
    assert node.refusal(1).code == "not-unacked"


def test_nacked_message_returns_to_its_own_place() -> None:
    node = node_with(CLIENT_INDIVIDUAL, 3)
    out = node.messages(1)
    node.say(unsubscribe(1, "q"))
    for deliver in (out[2], out[0], out[1]):
        node.say(nack(deliver))
    node.say(send(2, "q", b"3"), subscribe(2, "q", prefetch_count=9))
    assert [(d.message.body, d.redelivered) for d in node.messages(2)] == [
        (b"0", True),
        (b"1", True),
        (b"2", True),
        (b"3", False),
    ]


def test_message_of_another_store_is_never_ignored_as_auto() -> None:
    node = node_with(AUTO, 1)
    node.say(Ack(1, b"0000000000000000-1-1"))
    assert node.refusal(1).code == "not-unacked"


def test_refusal_does_not_tell_the_client_everything_it_sent() -> None:
    node = node_with(CLIENT, 1)
    node.say(Ack(1, b"x" * 10_000))
    (refuse,) = [r for r in node.take(1) if isinstance(r, Refuse)]
    assert len(refuse.sentence) < 300
