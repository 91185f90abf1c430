"""Names: what exists, what first use creates, what is refused; temp and reply queues."""

import pytest

from radiator.model.commands import AUTO, CLIENT, Unheeded
from radiator.model.errors import StoreError
from radiator.model.limits import UNHEEDED_TOLD, Limits
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import begin, commit, header, queue, send, subscribe, unsubscribe


def test_queue_is_created_by_its_first_use_where_create_allows_it() -> None:
    node = Node(Declarations(create_queues=True))
    node.open(1, 2)
    node.say(send(1, "a", receipt=b"1"), subscribe(2, "b", receipt=b"2"))
    assert node.receipts(1) == [b"1"] and node.receipts(2) == [b"2"] and node.has("a") and node.has("b")


@pytest.mark.parametrize("first", [send(1, "q"), subscribe(1, "q"), send(1, "/fanout/f"), subscribe(1, "/fanout/f")])
def test_destination_that_is_not_declared_is_refused_otherwise(first: object) -> None:
    node = Node(Declarations())
    node.open(1)
    node.say(first)  # type: ignore[arg-type]
    assert node.refusal(1).code == "no-such-destination" and not node.has("q")


def test_pattern_declares_every_queue_that_it_matches() -> None:
    node = Node(Declarations(queue_patterns=[("cache.*", QueueSettings(persistent=False))]))
    node.open(1, 2)
    node.say(send(1, "cache.a", receipt=b"r"), send(2, "other"))
    assert node.receipts(1) == [b"r"] and not node.numbers("cache.a")["persistent"] and node.is_refused(2)


def test_created_queue_outlives_a_restart_if_it_is_persistent() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "empty"), send(1, "full"))
    again = node.again_on(node.disk.platter, declarations=Declarations())
    again.open(1)
    again.say(send(1, "empty", receipt=b"1"), subscribe(1, "full", AUTO))
    assert again.receipts(1) == [b"1"] and again.bodies(1) == [b"x"]


def test_receipt_of_a_subscribe_that_creates_a_queue_waits_for_the_disk() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(subscribe(1, "new", receipt=b"r"))
    assert node.receipts(1) == []
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"r"]


def test_declared_queues_exist_from_the_start() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(), "m": QueueSettings(persistent=False)}))
    assert node.has("a") and node.has("m")
    assert [name for name, _ in node.disk.platter.queues.values()] == ["a"]


def test_stored_messages_of_a_queue_now_declared_as_memory_stop_the_start() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q"))
    with pytest.raises(StoreError, match="/queue/q .* 1 messages"):
        node.again_on(node.disk.platter, declarations=queue(persistent=False))


@pytest.mark.parametrize("name", ["*", "#", "a.*", "#.b", "a.#.b"])
def test_wildcard_for_a_queue_is_refused(name: str) -> None:
    node = Node()
    node.open(1, 2, 3, 4)
    node.say(send(1, name), subscribe(2, name), subscribe(3, f"/temp-queue/{name}"), send(4, f"/temp-queue/{name}"))
    assert [node.refusal(c).code for c in (1, 2, 3, 4)] == ["wildcard"] * 4


@pytest.mark.parametrize("name", ["a*", "#b", "a.b#", "test/ruby/stomp", "/", "ä.ö", "a b", "queue/x"])
def test_other_characters_are_characters_like_any_other(name: str) -> None:
    node = Node()
    node.open(1)
    node.say(send(1, f"/queue/{name}", b"x", b"r"), subscribe(1, f"/queue/{name}", AUTO))
    assert node.receipts(1) == [b"r"] and node.message(1).message.destination == f"/queue/{name}"


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


def test_temp_queues_at_the_limit_and_one_past() -> None:
    node = Node(limits=Limits(max_subscriptions=2))
    node.open(1, 2)
    node.say(send(1, "/temp-queue/a"), send(1, "/temp-queue/b"), send(1, "/temp-queue/a", receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    node.say(send(1, "/temp-queue/c"), send(2, "/temp-queue/c", receipt=b"r"))
    assert node.refusal(1).code == "too-many-destinations" and node.receipts(2) == [b"r"]


# ---- temp and reply queues ------------------------------------------------------------------------------------------


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


def test_reply_address_is_random_and_one_for_each_temp_queue() -> None:
    node = Node()
    node.open(1, 2)
    addresses = {asked(node), asked(node), asked(node, "u")}
    assert len(addresses) == 2
    assert all(len(bytes.fromhex(a.removeprefix("/reply-queue/"))) == 16 for a in addresses)


def test_temp_queue_belongs_to_its_own_connection() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/temp-queue/t"), subscribe(2, "/temp-queue/t"), send(2, "/temp-queue/t", b"two"))
    assert node.bodies(1) == [] and node.bodies(2) == [b"two"]


def test_temp_queue_dies_with_its_connection() -> None:
    node = Node()
    node.open(1, 2, 3)
    address = asked(node)
    node.close(1)
    node.say(send(2, address, b"late", b"r"))
    assert node.receipts(2) == [b"r"] and node.broker.context.counters["replies_dropped"] == 1
    node.say(send(3, address, mandatory=True))
    assert node.refusal(3).code == "no-subscriber"
    assert not node.broker.destinations.replies


def test_reply_to_a_full_queue_is_dropped_or_refused_and_never_blocks() -> None:
    node = Node(limits=Limits(outbox_max_bytes=1))
    node.open(1, 2, 3)
    address = asked(node)
    (temp,) = node.broker.destinations.replies.values()
    temp.settings = QueueSettings(persistent=False, max_messages=2, overflow="reject")
    node.reads_slowly.add(1)
    for number in range(5):
        node.say(send(2, address, b"%d" % number, b"%d" % number))
    assert node.receipts(2) == [b"%d" % n for n in range(5)] and node.paused == set()
    assert node.broker.context.counters["replies_dropped"] == 3
    node.say(send(3, address, mandatory=True))
    assert node.refusal(3).code == "queue-full"


def test_reply_of_a_transaction_comes_at_commit() -> None:
    node = Node()
    node.open(1, 2)
    address = asked(node)
    node.say(begin(2), send(2, address, b"answer", transaction=b"t"))
    assert node.messages(1) == []
    node.say(commit(2))
    assert node.bodies(1) == [b"answer"]


def test_reply_subscription_counts_against_the_limit() -> None:
    node = Node(limits=Limits(max_subscriptions=2))
    node.open(1)
    node.say(subscribe(1, "other"), send(1, "q", reply_to="a"), send(1, "q", reply_to="a", receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    node.say(send(1, "q", reply_to="b"))
    assert node.refusal(1).code == "too-many-subscriptions"


def test_reply_to_of_another_kind_travels_unchanged() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q", headers=b"reply-to:/queue/answers\n"), subscribe(1, "q", AUTO))
    assert node.message(1).message.headers == b"reply-to:/queue/answers\n"


def test_ack_on_a_temp_queue_works_like_on_any_other() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "/temp-queue/t", CLIENT))
    address = asked(node)
    node.say(send(2, address, b"1"), send(2, address, b"2"))
    assert node.bodies(1) == [b"1"], "it shares the window"


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


def test_wildcard_of_activemq_in_the_name_of_a_queue_is_told_once() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(2, "orders.>"), send(1, "orders.>"), send(1, "orders.a"), send(1, "orders.>"))
    (line,) = [note for note in node.notes if note.event == "no_wildcard"]
    assert (line.level, line.fields["queue"]) == ("warning", "orders.>")
    assert len(node.messages(2)) == 1 and node.stored("orders.a") == [b"x"]


def test_a_header_that_means_nothing_here_is_told_once_a_destination_and_of_so_many() -> None:
    node = Node()
    node.open(1, 2)
    for number in range(UNHEEDED_TOLD + 10):
        for connection in (1, 2):
            node.say(Unheeded(connection, f"/queue/q{number}", "priority", "There are none."))
    told = [note for note in node.notes if note.event == "header_unheeded"]
    assert [note.fields["destination"] for note in told] == [f"/queue/q{number}" for number in range(UNHEEDED_TOLD)]
    assert (told[0].level, told[0].fields["header"]) == ("warning", "priority")
