"""Durable subscriptions at another node of the list get each message of a topic once, whatever becomes of the link."""

import pytest

from radiator.model.commands import PeerMessage, Read, Stop, Unsubscribe
from radiator.model.limits import NODE_PATTERNS_MAX
from radiator.model.peer import Publish, Standing, Transfer
from radiator.model.settings import Declarations, QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import ack, send, subscribe
from tests.sim.disk import Platter


def pair(declarations: Declarations | None = None) -> Nodes:
    """A durable subscription `kept` to t.# at b, whose subscriber has gone."""
    nodes = Nodes("ab", declarations=declarations)
    for name in "ab":
        nodes[name].open(1)
    keep(nodes, "b")
    return nodes


def keep(nodes: Nodes, name: str, pattern: str = "/topic/t.#") -> None:
    node = nodes[name]
    node.open(5)
    node.say(subscribe(5, pattern, name=b"kept", durable=True))
    node.close(5)
    node.inbox.pop(5)
    nodes.run()


def kept(nodes: Nodes, name: str, pattern: str = "t.#") -> list[bytes]:
    return nodes[name].stored(f"$durable/topic/{pattern}/kept")


def publish(nodes: Nodes, name: str, first: int, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(first, first + count)]
    for body in bodies:
        nodes[name].say(send(1, "/topic/t.x", body, receipt=b"r" + body))
        assert nodes[name].receipts(1)[-1] == b"r" + body
    return bodies


@pytest.mark.durability("D19")
@pytest.mark.parametrize("crashed", ["", "a", "b", "ab"])
def test_what_is_sent_while_the_link_is_cut_comes_once_and_in_order(crashed: str) -> None:
    nodes = pair()
    bodies = publish(nodes, "a", 0, 5)
    nodes.run()
    bodies += publish(nodes, "a", 5, 5)  # on their way
    nodes.cut("a", "b")
    bodies += publish(nodes, "a", 10, 100)
    for name in crashed:
        nodes.crash(name)
        nodes[name].open(1)
    bodies += publish(nodes, "a", 110, 5)
    nodes.link("a", "b")
    nodes.run()
    bodies += publish(nodes, "a", 115, 5)
    nodes.wait(1.1)
    assert kept(nodes, "b") == bodies
    assert nodes["a"].stored("$outbox/b") == []
    assert nodes["b"].broker.context.counters.get("topic_messages_dropped", 0) == 0


def test_live_and_durable_subscribers_get_it_once_each() -> None:
    nodes = pair()
    nodes["b"].say(subscribe(1, "/topic/t.x"))
    nodes.run()
    bodies = publish(nodes, "a", 0, 3)
    nodes.run()
    assert nodes["b"].bodies(1) == bodies and kept(nodes, "b") == bodies
    assert [word.copied for _, _, word in nodes.sent(Publish)] == [["b"]] * 3  # type: ignore[attr-defined]
    nodes["b"].say(send(1, "/topic/t.x", b"own"))
    nodes.run()
    assert kept(nodes, "b") == [*bodies, b"own"] and nodes["a"].stored("$outbox/b") == []


def test_what_nobody_wants_durably_is_copied_to_nobody() -> None:
    nodes = Nodes("ab")
    nodes["a"].open(1)
    nodes["b"].open(1)
    nodes["b"].say(subscribe(1, "/topic/t.x"))
    nodes.run()
    publish(nodes, "a", 0, 3)
    nodes.run()
    assert nodes.sent(Transfer) == [] and len(nodes["b"].bodies(1)) == 3
    keep(nodes, "b", "/topic/local.#")
    nodes["a"].say(send(1, "/topic/local.x"))
    nodes.run()
    assert nodes.sent(Transfer) == [], "that topic is of scope node"


def test_subscription_that_has_ended_gets_no_more_copies() -> None:
    nodes = pair()
    nodes.cut("a", "b")
    publish(nodes, "a", 0, 3)
    b = nodes["b"]
    b.say(Unsubscribe(1, b"kept", durable=True, destination="/topic/t.#"))
    nodes.link("a", "b")
    nodes.run()
    assert b.broker.context.counters["topic_copies_unwanted"] == 3
    publish(nodes, "a", 3, 3)
    nodes.run()
    assert nodes["a"].stored("$outbox/b") == [] and len(nodes.sent(Transfer)) == 3
    nodes.crash("a")
    assert nodes.cluster("a").standing.nodes("t.x") == []  # type: ignore[union-attr]


def test_node_beyond_another_gets_live_messages_into_its_durable_subscriptions() -> None:
    nodes = Nodes("abc", "ab bc")
    nodes["a"].open(1)
    keep(nodes, "c")
    bodies = publish(nodes, "a", 0, 3)
    nodes.run()
    assert kept(nodes, "c") == bodies and nodes.sent(Transfer) == []


def test_each_of_three_nodes_gets_one_copy_by_whatever_way_the_live_message_comes() -> None:
    nodes = Nodes("abc")
    nodes["a"].open(1)
    for name in "abc":
        keep(nodes, name)
    nodes.cut("a", "b")
    bodies = publish(nodes, "a", 0, 3)
    nodes.run()  # live it reaches b by way of c, who is told that there are copies for both
    assert kept(nodes, "c") == kept(nodes, "a") == bodies and kept(nodes, "b") == []
    nodes.link("a", "b")
    nodes.run()
    assert kept(nodes, "b") == kept(nodes, "c") == bodies


def test_full_durable_queue_waits_at_the_sender_and_goes_on() -> None:
    few = QueueSettings(max_messages=5)
    declarations = declared()
    declarations.queue_patterns.append(("$durable.#", few))
    nodes = pair(declarations)
    bodies = publish(nodes, "a", 0, 200)
    nodes.run()
    assert 5 <= len(kept(nodes, "b")) < 140
    b = nodes["b"]
    b.open(7)
    b.say(subscribe(7, "/topic/t.#", name=b"kept", durable=True, prefetch_count=500))
    found: list[bytes] = []
    for _ in range(50):
        given = b.messages(7)
        found += [one.message.body for one in given]
        b.say(*map(ack, given))
        nodes.wait(1.1)
    assert found == bodies


def test_room_is_reckoned_for_as_many_as_there_are_also_while_they_come_and_go() -> None:
    nodes = pair()
    ends = dict(nodes.ends)
    nodes["b"].open(5)
    for number in range(40):
        if number % 4 == 0:
            nodes["b"].say(subscribe(5, "/topic/t.*", name=b"%d" % number, durable=True))
        elif number % 4 == 2:
            nodes["b"].say(Unsubscribe(5, b"%d" % (number - 2), durable=True, destination="/topic/t.*"))
        if number % 8 == 7:
            nodes["b"].say(subscribe(5, "/topic/#", name=b"%d" % number, durable=True))
        nodes["a"].say(*[send(1, "/topic/t.x", b"x" * 50_000) for _ in range(10)])
        nodes.step()
    nodes.run()
    nodes.wait(1.1)
    assert nodes.ends == ends, "both reckon alike, so the link stays"
    assert len(kept(nodes, "b")) == 400
    assert {word.left for _, _, word in nodes.sent(Transfer)} >= {1, 2, 3, 4, 5}  # type: ignore[attr-defined]


def test_mandatory_is_content_with_a_durable_subscription_at_a_node_that_is_away() -> None:
    nodes = pair()
    nodes.cut("a", "b")
    nodes["a"].say(send(1, "/topic/t.x", b"must", receipt=b"r", mandatory=True))
    assert nodes["a"].receipts(1) == [b"r"]
    nodes.link("a", "b")
    nodes.run()
    assert kept(nodes, "b") == [b"must"]


def test_node_with_a_new_store_wants_nothing_until_somebody_there_does() -> None:
    nodes = pair()
    nodes.cut("a", "b")
    nodes.start("b", Platter(store_id="x" * 16))
    nodes.link("a", "b")
    nodes.run()
    publish(nodes, "a", 0, 3)
    nodes.run()
    assert nodes.sent(Transfer) == []


def test_what_a_clean_stop_leaves_is_kept_too() -> None:
    nodes = pair()
    nodes.cut("a", "b")
    bodies = publish(nodes, "a", 0, 3)
    nodes["a"].turn([Stop()])
    nodes.start("a", nodes["a"].disk.platter)
    nodes.link("a", "b")
    nodes.run()
    assert kept(nodes, "b") == bodies


def test_more_patterns_than_can_be_end_the_link() -> None:
    nodes = pair()
    end = next(end for end in nodes.ends if end[0] == "a")
    many = [f"t.{number}" for number in range(NODE_PATTERNS_MAX)]
    nodes["a"].turn([Read(end[1], [PeerMessage(end[1], Standing(False, many, [1] * len(many), []))])])
    assert nodes["a"].refusal(end[1]).code == "link-error"
    assert len(nodes.cluster("a").standing.known["b"]) == 1  # type: ignore[union-attr]


def test_full_outbox_of_a_dead_node_stops_only_sends_to_what_it_wants_durably() -> None:
    nodes = Nodes("ab")
    a = nodes["a"]
    a.open(1, 2, 3)
    keep(nodes, "b")
    nodes.cut("a", "b")
    outbox = a.broker.destinations.queues.outboxes["b"]
    outbox.settings.max_bytes = 100_000
    for number in range(20):
        a.say(send(1, "/topic/t.x", b"x" * 10_000, receipt=b"%d" % number))
    assert len(a.receipts(1)) < 20 and 1 in a.broker.blocking.connections, "its SENDs wait"
    a.say(send(2, "work", receipt=b"queue"), send(2, "/topic/local.x", receipt=b"topic"))
    assert a.receipts(2) == [b"queue", b"topic"]
    nodes.link("a", "b")
    nodes.run()
    nodes.wait(1.1)
    assert len(a.receipts(1)) == 20 and len(kept(nodes, "b")) == 20
