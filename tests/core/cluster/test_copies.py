"""Copies of fanouts for a node that is away: they are bounded, nobody else waits, and they can be let go of."""

from typing import Any

import pytest

from radiator.model.commands import Tick
from radiator.model.limits import GIB, KIB, MIB
from tests.core.cluster.nodes import Nodes
from tests.core.words import send, subscribe

BODY = b"x" * 1000


def away(max_bytes: int = 10 * KIB, overflow: str = "block", names: str = "ab") -> Nodes:
    """`a` has lost `b`; its outbox for it takes about ten messages. Clients 1 to 3, and 9 for `/admin`, at each."""
    nodes = Nodes(names)
    nodes.cut("a", "b")
    bounded(nodes, max_bytes, overflow)
    for name in names:
        nodes[name].open(1, 2, 3, 9)
    return nodes


def bounded(nodes: Nodes, max_bytes: int, overflow: str = "block") -> None:
    node = nodes["a"].node
    assert node is not None
    node.peer_outbox_max_bytes = max_bytes
    for outbox in nodes["a"].broker.destinations.queues.outboxes.values():
        outbox.settings.overflow = overflow
    nodes["a"].wait(0)


def fill(nodes: Nodes) -> int:
    """SENDs to the fanout until one finds no room: how many were receipted."""
    a = nodes["a"]
    for number in range(100):
        a.say(send(1, "/fanout/events", BODY, receipt=b"%d" % number))
        if 1 in a.paused or a.is_refused(1):
            return number
    raise AssertionError("the outbox has no bound")


def peer(nodes: Nodes, name: str = "b", at: str = "a") -> dict[str, Any]:
    (found,) = (peer for peer in nodes[at].admin(9, do="peers")["peers"] if peer["name"] == name)
    return dict(found)


def why(nodes: Nodes, queue: str) -> tuple[str, str]:
    answer = nodes["a"].admin(9, do="why", queue=queue)
    return answer["verdict"], answer["sentence"]


def test_at_the_bound_the_fanout_waits_and_nobody_else() -> None:
    nodes = away()
    count = fill(nodes)
    a = nodes["a"]
    assert 5 < count < 10 and peer(nodes)["outbox_blocked"] == 1 and peer(nodes)["outbox_max_bytes"] == 10 * KIB
    a.say(send(2, "other", b"goes on", receipt=b"other"), send(2, "x", b"child", receipt=b"child"))
    assert a.receipts(2) == [b"other", b"child"]
    nodes.link("a", "b")
    nodes.run()
    assert len(a.receipts(1)) == count + 1 and 1 not in a.paused
    assert nodes["b"].stored("x") == nodes["b"].stored("y") == [BODY] * (count + 1)
    assert peer(nodes)["outbox"] == peer(nodes)["outbox_blocked"] == 0


def test_who_has_waited_for_long_is_refused() -> None:
    nodes = away()
    fill(nodes)
    nodes["a"].wait(nodes["a"].limits.block_timeout_s + 1)
    refusal = nodes["a"].refusal(1)
    assert refusal.code == "blocked" and "$outbox/b" in refusal.sentence


def test_or_the_fanout_is_refused() -> None:
    nodes = away(overflow="reject")
    count = fill(nodes)
    refusal = nodes["a"].refusal(1)
    assert refusal.code == "queue-full" and "$outbox/b" in refusal.sentence
    assert len(nodes["a"].stored("x")) == len(nodes["a"].stored("$outbox/b")) == count


def test_or_the_oldest_copies_go_and_are_counted() -> None:
    nodes = away(overflow="drop-oldest")
    for number in range(50):
        nodes["a"].say(send(1, "/fanout/events", BODY + b"%d" % number))
    kept = len(nodes["a"].stored("$outbox/b"))
    assert 5 < kept < 10 and peer(nodes)["outbox_dropped"] == 50 - kept
    nodes.link("a", "b")
    nodes.run()
    assert nodes["b"].stored("x") == [BODY + b"%d" % number for number in range(50 - kept, 50)]
    assert len(nodes["a"].stored("x")) == 50


def test_the_disk_bounds_it_however_large_map_size_is() -> None:
    nodes = away(64 * GIB, names="abc")
    a = nodes["a"]
    most = nodes["a"].limits.max_frame_bytes
    a.broker.parts.disk.free_min = GIB
    a.turn([Tick(GIB + 400 * MIB, 0)])
    assert peer(nodes, "b")["outbox_max_bytes"] == peer(nodes, "c")["outbox_max_bytes"] == 100 * MIB
    a.turn([Tick(GIB, 0)])
    assert peer(nodes)["outbox_max_bytes"] == most, "a message that may be sent fits"


@pytest.mark.parametrize("is_crash", [False, True])
def test_copies_are_not_kept_until_the_node_is_linked_again(is_crash: bool) -> None:
    nodes = away()
    count = fill(nodes)
    a = nodes["a"]
    assert a.admin(9, do="peer-drop", peer="b", force=True) == {"ok": True, "dropped": count}
    assert len(a.receipts(1)) == count + 1 and a.stored("$outbox/b") == []
    if is_crash:
        nodes.crash("a")
        a = nodes["a"]
        a.open(1, 9)
    for _ in range(50):
        a.say(send(1, "/fanout/events", BODY))
    assert not peer(nodes)["copies_kept"] and peer(nodes)["outbox_dropped"] == count + 1 + 50
    assert len(a.stored("x")) == count + 51 and a.stored("$outbox/b") == []
    assert a.broker.destinations.queues.outboxes["b"].ledger.adds_up()
    nodes.link("a", "b")
    nodes.run()
    assert peer(nodes)["copies_kept"] and "copies_kept" in [note.event for note in a.notes]
    a.say(send(1, "/fanout/events", b"again"))
    nodes.run()
    assert nodes["b"].stored("x") == [b"again"]
    nodes.crash("a")
    assert nodes.cluster("a").copies is not None and not nodes["a"].broker.destinations.copies_dropped


def test_a_drop_can_be_taken_back() -> None:
    nodes = away()
    a = nodes["a"]
    a.admin(9, do="peer-drop", peer="b", force=True)
    assert a.admin(9, do="peer-keep", peer="b") == {"ok": True, "changed": True}
    assert a.admin(9, do="peer-keep", peer="b") == {"ok": True, "changed": False}
    a.say(send(1, "/fanout/events", b"kept"))
    nodes.crash("a")
    nodes.link("a", "b")
    nodes.run()
    assert nodes["b"].stored("x") == [b"kept"]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"peer": "b"}, "bad-request"),
        ({"peer": 3, "force": True}, "bad-request"),
        ({"peer": "nobody", "force": True}, "unknown-node"),
        ({"peer": "c", "force": True}, "linked"),
    ],
)
def test_a_drop_that_cannot_be(asked: dict[str, object], code: str) -> None:
    nodes = away(names="abc")
    assert nodes["a"].admin(9, do="peer-drop", **asked)["code"] == code


def test_what_is_in_doubt_stays_so_when_copies_are_dropped() -> None:
    nodes = Nodes("ab")
    a = nodes["a"]
    a.open(1, 9)
    a.say(send(1, "/fanout/events", b"one"))
    nodes.cut("a", "b")
    assert peer(nodes)["in_doubt"] == 1
    a.admin(9, do="peer-drop", peer="b", force=True)
    assert peer(nodes)["in_doubt"] == 1 and a.stored("$outbox/b") == [b"one"]
    nodes.link("a", "b")
    nodes.run()
    assert nodes["b"].stored("x") == [b"one"] and peer(nodes)["outbox"] == 0


def test_why_names_the_node() -> None:
    nodes = away()
    assert why(nodes, "$outbox/b") == ("empty", "No copy waits for node b.")
    count = fill(nodes)
    verdict, sentence = why(nodes, "$outbox/b")
    assert verdict == "not-linked" and sentence.startswith(f"{count} copies wait for node b, which is not")
    assert "1 producer waits for room" in sentence and "`radiator peer drop b --force`" in sentence
    assert "SENDs to /fanout/events find no room for their copies for node b" in why(nodes, "x")[1]
    assert "node b" not in why(nodes, "work")[1]
    assert nodes["a"].admin(9, do="describe", fanout="events")["outboxes"] == ["$outbox/b"]
    nodes["a"].admin(9, do="peer-drop", peer="b", force=True)
    verdict, sentence = why(nodes, "$outbox/b")
    assert verdict == "not-kept" and "`radiator peer keep b`" in sentence


def test_why_of_what_has_room_since_the_oldest_copies_go() -> None:
    nodes = away(overflow="drop-oldest")
    for _ in range(20):
        nodes["a"].say(send(1, "/fanout/events", BODY))
    sentence = why(nodes, "x")[1]
    assert "SENDs to /fanout/events drop the oldest copies for node b: `radiator why '$outbox/b'`" in sentence
    assert "no room" not in sentence and "each SEND drops its oldest message" in why(nodes, "$outbox/b")[1]


@pytest.mark.parametrize("is_wanted_there", [False, True])
def test_why_of_a_durable_subscription_names_the_node_whose_outbox_is_full(is_wanted_there: bool) -> None:
    nodes = Nodes("ab")
    for name in "ab" if is_wanted_there else "a":
        nodes[name].open(5)
        nodes[name].say(subscribe(5, "/topic/t.#", name=b"kept", durable=True))
    nodes.run()
    nodes.cut("a", "b")
    bounded(nodes, 10 * KIB)
    nodes["a"].open(1, 9)
    fill(nodes)
    sentence = why(nodes, "$durable/topic/t.#/kept")[1]
    printed = (
        "SENDs to topics with durable subscriptions both here and there find no room for their copies for node b: "
    )
    assert (printed in sentence) == is_wanted_there, sentence


def test_what_is_not_kept_is_counted_before_its_receipt() -> None:
    """A topic that is wanted at a node for which no copies are kept, and nowhere else."""
    nodes = Nodes("ab")
    nodes["b"].open(5)
    nodes["b"].say(subscribe(5, "/topic/t.#", name=b"kept", durable=True))
    nodes.run()
    nodes.cut("a", "b")
    nodes["a"].open(1, 9)
    nodes["a"].admin(9, do="peer-drop", peer="b", force=True)
    a = nodes["a"]
    a.auto = False
    a.say(*[send(1, "/topic/t.x", receipt=b"%d" % number) for number in range(3)])
    assert a.receipts(1) == []
    a.auto = True
    a.turn([])
    assert len(a.receipts(1)) == 3
    nodes.crash("a")
    nodes["a"].open(9)
    assert peer(nodes)["outbox_dropped"] == 3


def test_why_of_any_queue_names_what_fills_the_disk() -> None:
    nodes = away()
    fill(nodes)
    a = nodes["a"]
    a.broker.parts.disk.free_min = GIB
    a.say(subscribe(3, "x", prefetch_count=99), subscribe(3, "y", prefetch_count=99))
    a.turn([Tick(GIB - 1, 0)])
    a.say(send(2, "other"))
    verdict, sentence = why(nodes, "other")
    assert verdict == "disk-tight" and "holds most, " in sentence


def test_why_tells_that_a_linked_node_takes_none() -> None:
    nodes = Nodes("ab")
    nodes["a"].open(1, 9)
    nodes["b"].broker.destinations.queues.all["x"].settings.max_messages = 0
    nodes.cut("a", "b")
    nodes.link("a", "b")
    nodes.run()
    nodes["a"].say(send(1, "/fanout/events", b"one"))
    nodes.run()
    verdict, sentence = why(nodes, "$outbox/b")
    assert verdict == "not-taken" and "1 copy waits for node b, which is linked" in sentence
