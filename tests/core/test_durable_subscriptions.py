"""Durable subscriptions: a queue and a binding that stay until UNSUBSCRIBE says durable:true, over restarts."""

from dataclasses import replace
from typing import Any

import pytest

from radiator.core.routing import exchanges, trie
from radiator.model.commands import AUTO, Unsubscribe
from radiator.model.limits import NAME_MAX_BYTES, Limits
from radiator.model.replies import Receipt
from radiator.model.settings import CLUSTER, Declarations, ExchangeSettings, LogSettings, QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, send, subscribe, unsubscribe

DECLARED = Declarations(exchanges={"x": ExchangeSettings(type="topic")}, create_queues=True, create_topics=True)


def durable(connection: int, to: str, name: bytes = b"s", ack: str = AUTO, **more: Any) -> Any:
    return subscribe(connection, to, ack, name=name, durable=True, **more)


def end(connection: int, to: str | None = None, name: bytes = b"s", receipt: bytes | None = None) -> Unsubscribe:
    return Unsubscribe(connection, name, receipt, durable=True, destination=to)


def names(node: Node) -> list[str]:
    return sorted(node.broker.destinations.queues.durables)


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("/topic/a.b", "$durable/topic/a.b/s"),
        ("/topic/a.#", "$durable/topic/a.#/s"),
        ("/exchange/x/a.*", "$durable/exchange/x/a.*/s"),
        ("/exchange/amq.fanout", "$durable/exchange/amq.fanout//s"),
        ("/exchange/amq.fanout/", "$durable/exchange/amq.fanout//s"),
    ],
)
def test_it_goes_on_collecting_while_nobody_is_there_and_over_a_restart(to: str, name: str) -> None:
    sent = "/topic/a.b" if to.startswith("/topic") else f"/exchange/{to.split('/')[2]}/a.b"
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, to, receipt=b"r"), send(2, sent, b"1", b"1"))
    assert node.receipts(1) == [b"r"] and node.bodies(1) == [b"1"] and names(node) == [name]
    node.say(unsubscribe(1, "s"), send(2, sent, b"2", b"2"))
    again = node.crashed()
    again.open(1, 2)
    again.say(send(2, sent, b"3", b"3"))
    assert again.stored(name) == [b"2", b"3"] and again.receipts(2) == [b"3"]
    again.say(durable(1, to))
    assert again.bodies(1) == [b"2", b"3"]
    again.say(end(1, receipt=b"r"), send(2, sent, b"4", b"4"))
    assert again.receipts(1) == [b"r"] and again.receipts(2) == [b"3", b"4"] and names(again) == []
    platter = again.crashed().disk.platter
    assert not platter.bindings and not platter.messages and not platter.queues and not platter.retired
    assert again.broker.destinations.exchanges.count == 0 and not again.broker.destinations.topics.durable


def test_name_of_its_own_is_found_by_whoever_names_it() -> None:
    """As ActiveMQ's and Artemis' clients end one: by its name, on another connection, with or without the address."""
    node = Node(DECLARED)
    node.open(1, 2, 3)
    for number, to in ((0, "/topic/a"), (1, "/topic/b"), (2, "/topic/c")):
        name = b"c/n" if number < 2 else b"c/other"
        node.say(durable(1, to, name=b"%d" % number, durable_name=name))
    assert names(node) == ["$durable/topic/a/c%2Fn", "$durable/topic/b/c%2Fn", "$durable/topic/c/c%2Fother"]
    ending = replace(end(2, None, b""), durable_name=b"c/other")
    node.say(ending)
    assert node.refusal(2).code == "in-use"
    node.say(unsubscribe(1, "2"), replace(ending, connection=3, receipt=b"r"))
    assert node.receipts(3) == [b"r"] and len(names(node)) == 2
    node.say(replace(end(1, None, b"1", receipt=b"r"), durable_name=b"c/n"))
    assert node.receipts(1) == [b"r"] and names(node) == ["$durable/topic/a/c%2Fn"]
    node.say(replace(end(1, None, b"", receipt=b"s"), durable_name=b"c/n"))
    assert node.receipts(1) == [b"r", b"s"] and names(node) == []
    node.say(replace(end(3, None, b"", receipt=b"t"), durable_name=b"c/n"))
    assert "no durable subscription with the id 'c/n'" in node.refusal(3).sentence


def test_name_that_several_have_needs_the_address() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    for number, to in enumerate(("/topic/a", "/topic/b")):
        node.say(durable(1, to, name=b"%d" % number, durable_name=b"c/n"))
    node.close(1)
    ending = replace(end(2, None, b"", receipt=b"r"), durable_name=b"c/n")
    node.say(ending)
    assert "are 2 durable subscriptions: the header 'destination'" in node.refusal(2).sentence
    node.say(replace(ending, connection=3, destination="/topic/b"))
    assert node.receipts(3) == [b"r"] and names(node) == ["$durable/topic/a/c%2Fn"]


@pytest.mark.durability("D24")
def test_receipt_of_the_subscribe_and_of_the_end_wait_for_the_disk() -> None:
    node = Node(DECLARED, auto=False)
    node.open(1)
    node.say(durable(1, "/topic/t", receipt=b"1"))
    assert node.receipts(1) == []
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"1"]
    assert names(node.crashed()) == ["$durable/topic/t/s"]
    node.say(end(1, receipt=b"2"))
    assert node.receipts(1) == [b"1"] and names(node.crashed()) == ["$durable/topic/t/s"]
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"1", b"2"] and names(node.crashed()) == []


@pytest.mark.durability("D23")
def test_receipt_of_a_topic_send_waits_for_the_disk_only_where_a_durable_one_matches() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/a.*"), subscribe(2, "/topic/a.b", AUTO), subscribe(2, "/topic/other", AUTO))
    node.auto = False
    node.say(send(3, "/topic/other", b"0", b"0"), send(3, "/topic/a.b", b"1", b"1"))
    assert node.receipts(3) == [b"0"] and node.bodies(2) == [b"0"]
    node.seal()
    node.commit()
    assert node.receipts(3) == [b"0", b"1"] and node.bodies(2) == [b"1"] and node.bodies(1) == [b"1"]


def test_live_subscriber_sees_one_senders_messages_in_their_order() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/kept"), subscribe(2, "/topic/#", AUTO))
    node.auto = False
    node.say(send(3, "/topic/kept", b"1"), send(3, "/topic/passing", b"2", b"r"))
    node.seal()
    node.say(send(3, "/topic/passing", b"3", b"s"))
    assert node.bodies(2) == [] and node.receipts(3) == []
    node.auto = True
    node.turn([])
    assert node.bodies(2) == [b"1", b"2", b"3"] and node.receipts(3) == [b"r", b"s"]


def test_same_destination_and_id_are_the_same_and_others_are_not() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3, 4, 5)
    node.say(*(durable(c, "/topic/t", prefetch_count=1, ack="client-individual") for c in (1, 2)))
    node.say(durable(3, "/topic/t", b"other"), durable(4, "/topic/*"))
    for number in range(4):
        node.say(send(5, "/topic/t", b"%d" % number))
    competing = [node.message(1), node.message(2)]
    assert {d.message.body for d in competing} == {b"0", b"1"}
    assert len(node.bodies(3)) == len(node.bodies(4)) == 4 and len(names(node)) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("/topic/a/b", b"c"), ("/topic/a", b"b/c")),
        (("/topic/a", b"b/c"), ("/topic/a", b"b%2Fc")),
        (("/exchange/amq.fanout/a", b"b"), ("/exchange/amq.fanout", b"a/b")),
        (("/topic/x", b"i"), ("/exchange/x", b"i")),
    ],
)
def test_no_two_have_the_same_queue(one: tuple[str, bytes], other: tuple[str, bytes]) -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, *one), durable(2, *other))
    assert len(names(node)) == 2


def test_acks_redelivery_and_dead_letters_are_those_of_any_queue() -> None:
    patterns = [("$durable.topic.#", QueueSettings(dead_letter="dead", max_redeliveries=1))]
    node = Node(Declarations(queue_patterns=patterns, create_topics=True, queues={"dead": QueueSettings()}))
    node.open(1, 2)
    node.say(durable(1, "/topic/t", ack="client-individual"), send(2, "/topic/t", b"x"))
    node.say(nack(node.message(1)))
    second = node.message(1)
    assert second.redelivered and second.redeliveries == 1
    node.say(nack(second))
    assert node.stored("dead") == [b"x"]
    node.say(send(2, "/topic/t", b"y"))
    node.say(ack(node.message(1)))
    assert node.stored("$durable/topic/t/s") == []


def test_unacked_message_comes_back_after_a_restart() -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, "/topic/t", ack="client-individual"), send(2, "/topic/t", b"x"))
    assert not node.message(1).redelivered
    node.stop()
    again = node.again_on(node.disk.platter)
    again.open(1)
    again.say(durable(1, "/topic/t"))
    assert again.message(1).redelivered


# ---- settings --------------------------------------------------------------------------------------------------------


def test_settings_are_those_of_a_pattern_but_for_what_it_cannot_be() -> None:
    any_queue = QueueSettings(auto_delete=True, exclusive=True, scope=CLUSTER, max_messages=7, message_ttl_ms=1000)
    in_memory = QueueSettings(persistent=False, max_messages=3)
    node = Node(Declarations(queue_patterns=[("#", any_queue)], create_topics=True))
    node.open(1, 2)
    node.say(durable(1, "/topic/t"), unsubscribe(1, "s"), send(2, "/topic/t", b"x"))
    (queue,) = node.broker.destinations.queues.durables.values()
    assert queue.settings == QueueSettings(max_messages=7, message_ttl_ms=1000) and queue.ledger.stored_expiring == 1
    other = Node(Declarations(queue_patterns=[("#", in_memory)], create_topics=True))
    other.open(1)
    other.say(durable(1, "/topic/t"))
    (queue,) = other.broker.destinations.queues.durables.values()
    assert queue.settings == QueueSettings()


def test_queue_with_expires_ms_goes_when_nobody_came_back() -> None:
    patterns = [("$durable.#", QueueSettings(expires_ms=5000))]
    node = Node(Declarations(queue_patterns=[("#", QueueSettings(expires_ms=5000)), *patterns], create_topics=True))
    node.open(1, 2)
    node.say(durable(1, "/topic/t"), send(2, "/topic/t"))
    for _ in range(8):
        node.wait(1)
    assert len(names(node)) == 1
    node.say(unsubscribe(1, "s"))
    for _ in range(8):
        node.wait(1)
    assert names(node) == [] and not node.disk.platter.bindings


def test_full_queue_makes_the_publisher_wait_or_refuses_it() -> None:
    node = Node(Declarations(queue_patterns=[("#", QueueSettings(max_messages=1))], create_topics=True))
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/t"), unsubscribe(1, "s"), send(2, "/topic/t", b"1"), send(2, "/topic/t", b"2", b"r"))
    assert 2 in node.paused
    node.say(durable(1, "/topic/t"))
    assert node.bodies(1) == [b"1", b"2"] and node.receipts(2) == [b"r"]


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_clients_cannot_reach_the_queue_by_its_name() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/t"))
    node.say(send(2, "$durable/topic/t/s"), subscribe(3, "/queue/$durable/topic/t/s"))
    assert node.refusal(2).code == "reserved" == node.refusal(3).code


def test_name_that_is_too_long_or_has_control_characters_is_refused() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    most = NAME_MAX_BYTES - len("$durable/topic/t/")
    node.say(durable(1, "/topic/t", b"x" * most, receipt=b"r"), durable(2, "/topic/t", b"x" * (most + 1)))
    node.say(durable(3, "/topic/t", b"a\nb"))
    assert node.receipts(1) == [b"r"] and node.refusal(2).code == "protocol" == node.refusal(3).code
    assert len(names(node)) == 1


def test_topic_that_is_not_declared_and_exchange_that_is_not_durable_have_none() -> None:
    node = Node(Declarations())
    node.declare_exchange("passing", ExchangeSettings(durable=False))
    node.open(1, 2)
    node.say(durable(1, "/topic/t"), durable(2, "/exchange/passing/k"))
    assert node.refusal(1).code == "no-such-destination" and node.refusal(2).code == "declared-otherwise"
    assert names(node) == []


def test_durable_on_a_queue_says_nothing() -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, "q", receipt=b"r"), send(2, "q", b"x"))
    assert node.bodies(1) == [b"x"] and node.receipts(1) == [b"r"] and names(node) == []


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_end_from_another_connection_needs_the_destination() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/t"))
    node.close(1)
    node.say(end(2))
    assert node.refusal(2).code == "subscription" and len(names(node)) == 1
    node.say(end(3, "/topic/t", receipt=b"r"))
    assert node.receipts(3) == [b"r"] and names(node) == []


@pytest.mark.parametrize("to", ["/topic/other", "/queue/q", "/exchange/x/t"])
def test_end_of_what_is_not_there_is_refused(to: str) -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, "/topic/t"), end(2, to))
    assert node.refusal(2).code == "subscription" and len(names(node)) == 1


def test_durable_end_of_a_subscription_that_is_not_durable_is_refused() -> None:
    node = Node(DECLARED)
    node.open(1)
    node.say(subscribe(1, "/topic/t", AUTO, name=b"s"), end(1))
    assert node.refusal(1).code == "subscription"


def test_end_while_another_one_consumes_it_is_refused() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/t"), durable(2, "/topic/t"), end(1))
    assert node.refusal(1).code == "in-use" and len(names(node)) == 1
    node.close(1)
    node.say(end(2, receipt=b"r"))
    assert node.receipts(2) == [b"r"] and names(node) == []


@pytest.mark.parametrize("to", ["/topic/a", "/topic/a.*", "/exchange/x/a.*"])
def test_what_is_there_can_be_consumed_where_no_other_could_be_made(to: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(DECLARED, Limits(max_destinations=2))
    node.open(1, 2)
    node.say(durable(1, to), unsubscribe(1, "s"))
    monkeypatch.setattr(exchanges, "BINDINGS_MAX", 1)
    monkeypatch.setattr(trie, "WALK_STEPS_MAX", 0)
    node.say(durable(1, to, receipt=b"r"), durable(2, to, b"other"))
    assert node.receipts(1) == [b"r"] and node.is_refused(2)


def test_what_is_unacked_at_the_end_may_be_acked_and_means_nothing() -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, "/topic/t", ack="client-individual", prefetch_count=3))
    node.say(*(send(2, "/topic/t", b"%d" % n) for n in range(4)))
    first, second, third = node.messages(1)
    node.say(begin(1), ack(third, transaction=b"t"))
    node.say(end(1, receipt=b"r"), ack(first, receipt=b"1"), nack(second, receipt=b"2"), commit(1, receipt=b"3"))
    assert node.receipts(1) == [b"r", b"1", b"2", b"3"] and node.bodies(1) == []
    assert node.disk.platter.messages == {} and not node.disk.platter.retired
    windows = node.broker.destinations.windows
    assert windows.size == windows.out == 0
    node.close(1)
    node.open(1)
    node.say(durable(1, "/topic/t"), send(2, "/topic/t", b"new"))
    assert node.bodies(1) == [b"new"]


def test_end_while_messages_are_on_their_way_to_the_disk() -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, "/topic/t"))
    node.auto = False
    node.say(send(2, "/topic/t", b"1", b"1"))
    node.seal()
    node.say(send(2, "/topic/t", b"2", b"2"), end(1, receipt=b"r"), durable(1, "/topic/t"))
    node.auto = True
    node.turn([])
    assert node.receipts(2) == [b"1", b"2"] and node.receipts(1) == [b"r"] and node.bodies(1) == []
    assert node.disk.platter.messages == {}
    node.say(send(2, "/topic/t", b"3"))
    assert node.bodies(1) == [b"3"] and node.broker.destinations.windows.size == 0


def test_queue_that_has_lost_its_exchange_is_bound_again_by_the_next_subscribe() -> None:
    node = Node(Declarations())
    node.declare_exchange("y", ExchangeSettings())
    node.open(1, 2)
    node.say(durable(1, "/exchange/y/k"), send(2, "/exchange/y/k", b"1"), unsubscribe(1, "s"))
    node.broker.destinations.exchanges.delete("y")
    node.declare_exchange("y", ExchangeSettings())
    node.say(send(2, "/exchange/y/k", b"lost"))
    node.say(durable(1, "/exchange/y/k", receipt=b"r"), send(2, "/exchange/y/k", b"2"))
    assert node.bodies(1) == [b"1", b"2"] and node.receipts(1) == [b"r"]


# ---- mandatory, immediate, transactions ------------------------------------------------------------------------------


def test_mandatory_counts_a_durable_one_immediate_only_its_consumer() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/t"), send(2, "/topic/t", b"1", b"1", immediate=True), unsubscribe(1, "s"))
    node.say(send(2, "/topic/t", b"2", b"2", mandatory=True))
    assert node.receipts(2) == [b"1", b"2"] and node.bodies(1) == [b"1"]
    node.say(send(3, "/topic/t", immediate=True))
    assert node.refusal(3).code == "no-consumer"


def test_transaction_reaches_durable_and_live_subscribers_at_once() -> None:
    node = Node(DECLARED)
    node.open(1, 2, 3)
    node.say(durable(1, "/topic/t"), subscribe(2, "/topic/t", AUTO))
    node.say(begin(3), send(3, "/topic/t", b"1", transaction=b"t"), send(3, "/topic/t", b"2", transaction=b"t"))
    assert node.bodies(1) == node.bodies(2) == []
    node.say(commit(3, receipt=b"r"))
    assert node.bodies(1) == node.bodies(2) == [b"1", b"2"]
    assert [r.receipt for r in node.inbox[3] if isinstance(r, Receipt)] == [b"r"]


def test_numbers_of_queues_tell_of_it() -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, "/topic/t"), unsubscribe(1, "s"), send(2, "/topic/t"))
    numbers = node.admin(1, do="stats")["queues"]["$durable/topic/t/s"]
    assert numbers["messages"] == 1 and numbers["persistent"] and numbers["consumers"] == 0


# ---- several nodes ---------------------------------------------------------------------------------------------------


def linked() -> Nodes:
    nodes = Nodes("abc", "ab bc")
    for name in "abc":
        nodes[name].open(1, 2)
    return nodes


def test_it_collects_what_is_published_on_every_node_also_while_nobody_is_there() -> None:
    nodes = linked()
    nodes["c"].say(durable(1, "/topic/t.*"), unsubscribe(1, "s"))
    nodes.run()
    nodes["a"].say(send(2, "/topic/t.x", b"1", b"r", mandatory=True), send(2, "/topic/local", b"no"))
    nodes.run()
    nodes["c"].say(send(2, "/topic/t.y", b"2"))
    assert nodes["a"].receipts(2) == [b"r"] and nodes["c"].stored("$durable/topic/t.*/s") == [b"1", b"2"]
    nodes["c"].say(durable(1, "/topic/t.*"))
    found = nodes["c"].messages(1)
    assert [(d.message.body, d.message.destination) for d in found] == [(b"1", "/topic/t.x"), (b"2", "/topic/t.y")]


def test_interest_comes_back_with_a_restart_and_ends_with_the_subscription() -> None:
    nodes = linked()
    nodes["c"].say(durable(1, "/topic/t.*"), unsubscribe(1, "s"))
    nodes.run()
    nodes.crash("c")
    nodes["c"].open(1)
    nodes.link("b", "c")
    nodes.run()
    nodes["a"].say(send(2, "/topic/t.x", b"1", mandatory=True))
    nodes.run()
    assert nodes["c"].stored("$durable/topic/t.*/s") == [b"1"]
    nodes["c"].say(end(1, "/topic/t.*"))
    nodes.run()
    nodes["a"].say(send(2, "/topic/t.x", b"2", mandatory=True))
    assert nodes["a"].refusal(2).code == "no-subscriber"


def test_what_comes_from_behind_another_node_and_finds_no_room_is_lost_and_counted() -> None:
    """A node that is linked with the sender's keeps a copy instead, until there is room."""
    settings = QueueSettings(max_messages=1, message_ttl_ms=1000)
    nodes = Nodes("abc", "ab bc", replace(declared(), queue_patterns=[("$durable.#", settings)]))
    for name in "abc":
        nodes[name].open(1)
    nodes["c"].say(durable(1, "/topic/t.*"), unsubscribe(1, "s"))
    nodes.run()
    for body in (b"1", b"2"):
        nodes["a"].say(send(1, "/topic/t.x", body, body))
        nodes.run()
    broker = nodes["c"].broker
    assert nodes["a"].receipts(1) == [b"1", b"2"] and nodes["c"].stored("$durable/topic/t.*/s") == [b"1"]
    assert broker.context.counters["topic_messages_dropped"] == 1
    (queue,) = broker.destinations.queues.durables.values()
    assert queue.ledger.stored_expiring == 1


def test_what_comes_from_elsewhere_waits_for_room_in_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_WRITES": 4})
    nodes = linked()
    nodes["b"].say(durable(1, "/topic/t.*"), unsubscribe(1, "s"))
    nodes.run()
    nodes["b"].auto = False
    for number in range(12):
        nodes["a"].say(send(1, "/topic/t.x", b"%d" % number))
    nodes.step("a")
    assert len(nodes["b"].broker.context.open.writes) <= 6 and nodes["b"].broker.blocking.connections
    nodes["b"].auto = True
    nodes["b"].turn([])
    nodes.run()
    assert (
        nodes["b"].stored("$durable/topic/t.*/s") == [b"%d" % n for n in range(12)]
        and not nodes["b"].broker.blocking.connections
    )


def test_what_a_node_says_of_others_has_no_durable_subscription() -> None:
    nodes = linked()
    nodes["a"].say(durable(1, "/topic/system.peers"))
    assert nodes["a"].refusal(1).code == "reserved"


@pytest.mark.parametrize("to", ["/queue/q", "/amq/queue/q", "/temp-queue/t", "/log/l"])
@pytest.mark.parametrize(("name", "mistake"), [(None, None), (b"c/n", None), (None, "who?")])
def test_words_for_durability_say_nothing_where_what_ends_is_no_topic_s(
    to: str, name: bytes | None, mistake: str | None
) -> None:
    node = Node(replace(DECLARED, queues={"q": QueueSettings()}, logs={"l": LogSettings()}))
    node.open(1)
    node.say(subscribe(1, to, name=b"s"))
    node.say(replace(end(1, receipt=b"r"), durable_name=name, mistake=mistake))
    assert node.receipts(1) == [b"r"] and not node.broker.connections[1].queue_subscriptions


@pytest.mark.parametrize("to", ["/topic/a", "/exchange/x/a"])
def test_words_that_are_not_understood_are_refused_where_it_is_a_topic_s(to: str) -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    for connection in (1, 2):
        node.say(subscribe(connection, to, AUTO, name=b"s"))
    node.say(replace(end(1), mistake="who?"), end(2))
    refuse = node.refusal(1)
    assert (refuse.code, refuse.sentence) == ("protocol", "who?")
    assert node.refusal(2).code == "subscription"


def test_name_of_a_durable_subscription_means_that_one_though_a_queue_s_has_the_id() -> None:
    node = Node(DECLARED)
    node.open(1, 2)
    node.say(durable(1, "/topic/a", durable_name=b"c/n"), subscribe(2, "q", name=b"s"))
    node.say(replace(end(2), durable_name=b"c/n"))
    assert node.refusal(2).code == "subscription" and names(node) == ["$durable/topic/a/c%2Fn"]
