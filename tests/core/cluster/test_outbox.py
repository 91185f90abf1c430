"""Copies of fanouts for other nodes: one batch with the local ones, and what waits where a node is away."""

from dataclasses import replace

import pytest

from radiator.model.peer import Transfer
from radiator.model.settings import LogSettings
from tests.core.cluster.nodes import Nodes, declared, with_clients
from tests.core.node import Node
from tests.core.words import header, send, subscribe
from tests.sim.disk import Platter

# ---- the operator's view --------------------------------------------------------------------------------------------


def test_copies_in_doubt_are_sent_again_to_another_store() -> None:
    nodes = with_clients("ab")
    nodes["a"].say(send(1, "/fanout/events", b"one"))
    while not nodes["a"].disk.platter.doubts:
        nodes.step()
    nodes.cut("a", "b")
    nodes.start("b", Platter(store_id="e" * 16))
    nodes.link("a", "b")
    nodes.run()
    assert nodes["b"].stored("x") == nodes["b"].stored("y") == [b"one"]
    assert "peer_store_changed" in [note.event for note in nodes["a"].notes]


@pytest.mark.durability("D19")
def test_local_children_and_an_entry_for_each_node_are_one_batch() -> None:
    nodes = with_clients("abc")
    a = nodes["a"]
    a.auto = False
    a.say(send(1, "/fanout/events", b"one", receipt=b"r"))
    assert a.receipts(1) == [] and a.stored("x") == a.stored("$outbox/b") == []
    a.seal()
    a.commit()
    assert a.receipts(1) == [b"r"]
    assert a.stored("x") == a.stored("y") == a.stored("$outbox/b") == a.stored("$outbox/c") == [b"one"]


def test_each_nodes_children_get_one_copy_and_it_is_passed_on_by_nobody() -> None:
    nodes = with_clients("abc")
    for number in range(200):
        nodes["a"].say(send(1, "/fanout/events", b"%d" % number))
    nodes.run()
    for name in "abc":
        for child in "xy":
            assert nodes[name].stored(child) == [b"%d" % number for number in range(200)]
        assert nodes[name].stored("$outbox/a") == nodes[name].stored("$outbox/b") == []
    assert len(nodes.sent(Transfer)) == 400
    common = {header(m, b"fanout-message-id") for n in "abc" for m in nodes[n].disk.platter.messages.values()}
    assert len(common) == 200


def test_a_log_among_the_children_is_a_tap_on_each_node() -> None:
    tapped = replace(declared(), fanouts={"events": ("x", "/log/tap")}, logs={"tap": LogSettings()})
    nodes = Nodes("ab", declarations=tapped)
    nodes["a"].open(1)
    nodes["a"].say(send(1, "/fanout/events", b"one"))
    nodes.run()
    for name in "ab":
        log = nodes[name].broker.destinations.logs.all["tap"]
        assert nodes[name].stored("x") == [b"one"] and log.partitions[0].committed == 1
        assert not nodes[name].has("/log/tap")


def test_copies_wait_for_a_node_that_is_away() -> None:
    nodes = with_clients("ab")
    nodes.cut("a", "b")
    nodes["a"].say(send(1, "/fanout/events", b"one"))
    nodes.crash("a")
    nodes["a"].open(1)
    (peer,) = nodes["a"].admin(1, do="peers")["peers"]
    assert (peer["state"], peer["outbox"], peer["in_doubt"]) == ("down", 1, 0)
    nodes.link("b", "a")
    nodes.run()
    assert nodes["b"].stored("x") == [b"one"] and nodes["a"].stored("$outbox/b") == []


def test_copies_wait_while_a_child_there_is_full() -> None:
    nodes = with_clients("ab")
    nodes["b"].broker.destinations.queues.all["x"].settings.max_messages = 1
    for number in range(200):
        nodes["a"].say(send(1, "/fanout/events", b"%d" % number))
    nodes.wait(2)
    assert len(nodes["b"].stored("x")) < 200
    nodes["b"].broker.destinations.queues.all["x"].settings.max_messages = None
    nodes.wait(2)
    assert nodes["b"].stored("x") == [b"%d" % number for number in range(200)]


def test_dedup_id_of_a_fanout_counts_for_the_copies_too() -> None:
    nodes = with_clients("ab")
    outbox = nodes["a"].broker.destinations.queues.outboxes["b"]
    outbox.settings.dedup_window_s = 60
    for child in "xy":
        nodes["a"].broker.destinations.queues.all[child].settings.dedup_window_s = 60
    for _ in range(2):
        nodes["a"].say(send(1, "/fanout/events", b"one", dedup_id=b"i"))
    nodes.run()
    assert nodes["b"].stored("x") == [b"one"]


@pytest.mark.parametrize("command", [send(1, "$outbox/b"), subscribe(1, "$outbox/b"), send(1, "$outbox/new")])
def test_clients_cannot_reach_outboxes(command: object) -> None:
    nodes = with_clients("ab")
    nodes["a"].say(command)  # type: ignore[arg-type]
    assert nodes["a"].refusal(1).code == "reserved"


def test_such_names_are_kept_without_node_too() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "$outbox/b"))
    assert node.refusal(1).code == "reserved"


def test_copies_that_a_node_does_not_take_hold_up_nobody() -> None:
    declarations = declared()
    declarations.fanouts["more"] = ("x",)
    declarations.cluster_fanouts |= {"more"}
    nodes = Nodes("ab", declarations=declarations)
    nodes["a"].open(1)
    nodes.cluster("a").peers["b"].fanouts = {"events": 2}
    nodes["a"].say(send(1, "/fanout/more", b"one"), send(1, "/fanout/events", b"two"))
    nodes.run()
    assert nodes["b"].stored("x") == [b"two"] and nodes["a"].stored("$outbox/b") == [b"one"]
    assert "peer_lacks_fanout" in [note.event for note in nodes["a"].notes]


def test_outbox_of_a_node_of_the_list_cannot_be_deleted_and_of_another_it_can() -> None:
    nodes = with_clients("ab")
    assert nodes["a"].admin(1, do="delete", queue="$outbox/b")["code"] == "declared"
    broker = nodes["a"].broker
    broker.destinations.queues.outbox("gone").put(send(1, "/x").message(b"", broker.context.now_ms, None))
    nodes.wait(1)
    assert nodes["a"].admin(1, do="delete", queue="$outbox/gone")["deleted"] == 1
    nodes.wait(1)
    assert nodes["a"].stored("$outbox/gone") == []
