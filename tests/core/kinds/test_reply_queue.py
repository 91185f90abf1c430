"""`/reply-queue/ID`: an answer comes to who has asked, or is dropped."""

from radiator.model.commands import AUTO
from radiator.model.getting import FindAsker
from radiator.model.grounds import NobodyAsks
from radiator.model.limits import Limits
from radiator.model.replies import Receipt, Returned
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.words import header, send, subscribe, unsubscribe


def asked(node: Node, reply_to: str = "t") -> str:
    """Connection 1 asks, connection 2 hears the address of the reply."""
    node.say(subscribe(2, "work", AUTO), send(1, "work", b"question", headers=b"correlation-id:7\n", reply_to=reply_to))
    message = node.messages(2)[-1].message
    assert header(message, b"correlation-id") == b"7"
    address = header(message, b"reply-to")
    assert address is not None
    node.say(unsubscribe(2, "work"))
    return address.decode()


def test_reply_arrives_on_the_askers_subscription() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/temp-queue/t", name=b"mine"))
    address = asked(node)
    node.say(send(2, address, b"answer", b"r", headers=b"correlation-id:7\n"))
    deliver = node.message(1)
    assert deliver.subscription == b"mine" and deliver.message.body == b"answer"
    assert deliver.message.destination == address and header(deliver.message, b"correlation-id") == b"7"
    assert node.receipts(2) == [b"r"]


def test_reply_gets_a_subscription_of_its_own_where_there_is_none() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q"), send(1, "q"))
    node.messages(1)
    node.say(send(2, asked(node), b"answer"))
    deliver = node.message(1)
    assert deliver.subscription == b"/temp-queue/t" and not deliver.ack_due, "ack:auto, beside the full shared window"


def test_reply_to_a_full_queue_is_dropped_or_refused_and_never_blocks() -> None:
    node = Node(limits=Limits(outbox_max_bytes=1))
    node.open(1, 2, 3)
    address = asked(node)
    (temp,) = node.broker.destinations.temp_queues.by_id.values()
    temp.settings = QueueSettings(persistent=False, max_messages=2, overflow="reject")
    node.reads_slowly.add(1)
    for number in range(5):
        node.say(send(2, address, b"%d" % number, b"%d" % number))
    assert node.receipts(2) == [b"%d" % n for n in range(5)] and node.paused == set()
    assert node.broker.context.counters["replies_dropped"] == 3
    node.say(send(3, address, mandatory=True))
    assert node.refusal(3).code == "queue-full"


def test_reply_subscription_counts_against_the_limit() -> None:
    node = Node(limits=Limits(max_subscriptions=2))
    node.open(1)
    node.say(subscribe(1, "other"), send(1, "q", reply_to="a"), send(1, "q", reply_to="a", receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    node.say(send(1, "q", reply_to="b"))
    assert node.refusal(1).code == "too-many-subscriptions"


def test_a_mandatory_reply_to_nobody_comes_back_to_who_takes_it_back() -> None:
    node = Node()
    node.open(1, 2)
    address = asked(node)
    node.say(send(2, f"{address}0", b"answer", b"r", mandatory=True, returns=True))
    (returned, receipt) = node.take(2)
    assert isinstance(returned, Returned) and (returned.destination, returned.body) == (f"{address}0", b"answer")
    assert receipt == Receipt(2, b"r")
    node.say(send(2, address, b"answer", mandatory=True, returns=True))
    assert node.take(2) == [] and node.bodies(1) == [b"answer"], "somebody has it"
    node.say(send(2, f"{address}0", b"answer", mandatory=True))
    assert node.refusal(2).code == "no-subscriber"


def is_there(node: Node, connection: int, address: str) -> bool:
    """Whether the broker says that who has asked is there."""
    node.open(connection)
    asker = address.removeprefix("/reply-queue/")
    node.say(FindAsker(connection, asker, b"there"))
    if node.receipts(connection) == [b"there"]:
        return True
    refusal = node.refusal(connection)
    assert (refusal.code, refusal.grounds) == ("no-such-destination", NobodyAsks(asker))
    return False


def test_who_has_asked_is_there_while_answers_are_consumed() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/temp-queue/t", name=b"mine"))
    address = asked(node)
    assert is_there(node, 3, address) and is_there(node, 4, address), "to every connection"
    assert not is_there(node, 5, address[:-1]) and not is_there(node, 6, f"{address}0"), "by its whole id alone"
    assert not is_there(node, 7, "") and not is_there(node, 8, f"{address}@elsewhere")
    node.say(unsubscribe(1, "mine"))
    assert not is_there(node, 9, address), "nobody consumes them"
    node.say(subscribe(1, "/temp-queue/t", name=b"again"))
    assert is_there(node, 10, address)
    node.close(1)
    assert not is_there(node, 11, address)


def test_that_who_has_asked_is_there_is_said_behind_what_was_sent_before() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.auto = True
    node.say(subscribe(1, "/temp-queue/t"))
    asker = asked(node).removeprefix("/reply-queue/")
    node.auto = False
    node.say(send(2, "q", receipt=b"stored"), FindAsker(2, asker, b"there"))
    assert node.receipts(2) == []
    assert node.seal()
    node.commit()
    assert node.receipts(2) == [b"stored", b"there"]
