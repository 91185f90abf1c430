"""Large messages go in pieces with others between them, and go on after a cut where they stopped."""

import pytest

from radiator.core.cluster.cluster import Cluster
from radiator.model.commands import PeerMessage, Read, Tick
from radiator.model.limits import GIB, KIB, LINK_PARTS_BYTES, LINK_WHOLE_BYTES, MIB, PARTS_KEPT_S, PIECE_BYTES, Limits
from radiator.model.message import Message
from radiator.model.peer import Parcel, PeerFrame, Piece, Proceed, Transfer
from radiator.model.settings import Declarations, QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import ack, begin, send, subscribe, unsubscribe

LARGE = bytes(range(256)) * (8 * KIB)  # 2 MiB


def more() -> Declarations:
    declarations = declared(other=QueueSettings(scope="cluster"), z=QueueSettings())
    declarations.fanouts["others"] = ("z",)
    declarations.cluster_fanouts = frozenset({"events", "others"})
    return declarations


def meeting(names: str = "ab", limits: Limits | None = None) -> Nodes:
    """`b` wants all of `work` and `other`."""
    nodes = Nodes(names, None, more(), limits)
    for name in names:
        nodes[name].open(1, 2, 9)
    nodes["b"].say(subscribe(1, "work", prefetch_count=99), subscribe(2, "other", prefetch_count=99))
    nodes.run()
    return nodes


def end(nodes: Nodes, name: str) -> int:
    """The number of that node's end of its one link."""
    (number,) = [number for one, number in nodes.ends if one == name]
    return number


def slow(nodes: Nodes, name: str) -> None:
    """The system takes nothing more of what that node says on its link: what was said before is on its way."""
    nodes[name].reads_slowly.add(end(nodes, name))


def fast(nodes: Nodes, name: str) -> None:
    nodes[name].reads_slowly.clear()
    nodes[name].turn([])
    nodes.run()


def cluster(nodes: Nodes, name: str) -> Cluster:
    return nodes.cluster(name)


def pieces(nodes: Nodes) -> list[Piece]:
    return [word for _, _, word in nodes.sent(Piece) if isinstance(word, Piece)]


def begun(address: str = "work", limits: Limits | None = None) -> Nodes:
    """A large message is on its way from `a` to `b`, and its link is slow."""
    nodes = meeting(limits=limits)
    slow(nodes, "a")
    nodes["a"].say(send(1, address, LARGE, receipt=b"r"))
    nodes.run()
    assert nodes["a"].receipts(1) == [b"r"]
    assert 0 < len(pieces(nodes)) < 10 and not nodes.sent(Transfer)
    return nodes


def test_a_large_message_comes_whole_and_once() -> None:
    nodes = meeting()
    nodes["a"].say(send(1, "work", LARGE))
    nodes.run()
    message = nodes["b"].message(1)
    assert message.message.body == LARGE
    assert [len(piece.data) for piece in pieces(nodes)] == [PIECE_BYTES] * (len(LARGE) // PIECE_BYTES)
    ((_, _, transfer),) = nodes.sent(Transfer)
    assert isinstance(transfer, Transfer) and transfer.parcel and transfer.message.body == b""
    nodes["b"].say(ack(message))
    assert nodes["a"].stored("work") == nodes["b"].stored("work") == []
    assert not nodes["a"].disk.platter.doubts and not cluster(nodes, "b").parcels.held_bytes


@pytest.mark.parametrize(("size", "is_whole"), [(LINK_WHOLE_BYTES, True), (LINK_WHOLE_BYTES + 1, False)])
def test_only_a_large_one_goes_in_pieces(size: int, is_whole: bool) -> None:
    nodes = meeting()
    nodes["a"].say(send(1, "work", bytes(size)))
    nodes.run()
    assert bool(pieces(nodes)) != is_whole and len(nodes["b"].message(1).message.body) == size


def test_others_go_between() -> None:
    nodes = begun()
    nodes["a"].say(send(2, "other", b"small"))
    nodes.run()
    assert nodes["b"].bodies(2) == [b"small"] and nodes["b"].messages(1) == []
    fast(nodes, "a")
    assert nodes["b"].bodies(1) == [LARGE]


def test_until_it_is_whole_it_is_ready_here_and_nothing_there() -> None:
    nodes = begun()
    assert nodes["a"].numbers("work")["ready"] == 1 and nodes["a"].numbers("work")["in_doubt"] == 0
    assert nodes["b"].numbers("work")["accepted"] == 0 and nodes["b"].stored("work") == []
    assert cluster(nodes, "b").parcels.held_bytes == len(LARGE)
    nodes["b"].wait(0.25)
    assert nodes["b"].in_use_bytes() >= len(LARGE)


def test_a_consumer_here_may_take_it_meanwhile_and_the_next_one_goes() -> None:
    nodes = begun()
    nodes["a"].say(send(2, "other", LARGE + b"2"))
    nodes["a"].say(subscribe(2, "work"))
    assert nodes["a"].bodies(2) == [LARGE]
    nodes.wait(0.25)
    fast(nodes, "a")
    assert nodes["b"].bodies(2) == [LARGE + b"2"] and nodes["b"].messages(1) == []
    assert nodes["b"].stored("work") == []


def test_a_consumer_here_may_take_it_though_its_bytes_are_on_the_disk_alone_then() -> None:
    nodes = begun(limits=Limits(max_memory_bytes=8 * MIB))  # of which 512 KiB may be in flight
    a, b = nodes["a"], nodes["b"]
    a.say(subscribe(9, "work", prefetch_count=9))
    taken = a.message(9)
    (delivery,) = a.broker.destinations.queues.all["work"].entries_out.values()
    assert delivery.entry.is_stub
    fast(nodes, "a")
    a.say(ack(taken), unsubscribe(9, "work"), send(1, "work", LARGE[1:]))
    nodes.run()
    nodes.wait(0.25)
    nodes.run()
    assert b.bodies(1) == [LARGE[1:]]


def test_one_that_a_node_has_no_memory_for_goes_to_another() -> None:
    nodes = meeting("abc", Limits(max_memory_bytes=8 * MIB))
    a, b, c = (nodes[name] for name in "abc")
    b.say(begin(9), send(9, "other", bytes(7 * MIB), transaction=b"t"))
    b.wait(0.25)
    assert b.broker.admission.memory_wait_list.is_tight
    c.say(subscribe(1, "work", prefetch_count=99))
    nodes.run()
    for number in range(2):
        a.say(send(1, "work", LARGE + b"%d" % number))
    nodes.run()
    for _ in range(8):
        nodes.wait(0.25)
        nodes.run()
    assert c.bodies(1) == [LARGE + b"0", LARGE + b"1"] and b.messages(1) == []


def test_one_on_its_way_to_two_nodes_is_handed_to_the_first_that_has_all_of_it() -> None:
    nodes = meeting("abc", Limits(max_memory_bytes=8 * MIB))
    a, b, c = (nodes[name] for name in "abc")
    b.say(begin(9), send(9, "other", bytes(7 * MIB), transaction=b"t"))
    b.wait(0.25)
    c.say(subscribe(1, "work", prefetch_count=99))
    nodes.run()
    (slow_end,) = [number for (name, number), (peer, _) in nodes.ends.items() if (name, peer) == ("a", "c")]
    a.reads_slowly.add(slow_end)
    a.say(send(1, "work", LARGE))
    for _ in range(6):
        nodes.wait(0.25)
        nodes.run()
    assert cluster(nodes, "c").parcels.held_bytes and not nodes.sent(Transfer), "on its way to c, and slow"
    b.close(9)
    for _ in range(3):
        nodes.wait(0.25)
        nodes.run()
    assert b.bodies(1) == [LARGE]
    fast(nodes, "a")
    nodes.wait(0.25)
    assert c.messages(1) == [] and len(nodes.sent(Transfer)) == 1


@pytest.mark.parametrize("waited_s", [0.0, PARTS_KEPT_S + 1])
def test_it_goes_on_after_a_cut_where_it_stopped(waited_s: float) -> None:
    nodes = begun()
    before = sum(len(piece.data) for piece in pieces(nodes))
    nodes.cut("a", "b")
    nodes.wait(waited_s)
    assert cluster(nodes, "b").parcels.held_bytes == (0 if waited_s else before), "kept for a bounded time"
    nodes["a"].reads_slowly.clear()
    nodes.heard.clear()
    nodes.link("a", "b")
    nodes.run()
    nodes.wait(2)
    assert nodes["b"].bodies(1) == [LARGE]
    ((_, _, proceed),) = nodes.sent(Proceed)
    assert isinstance(proceed, Proceed) and proceed.have == (0 if waited_s else before)
    assert sum(len(piece.data) for piece in pieces(nodes)) == len(LARGE) - proceed.have
    assert nodes["a"].stored("work") == []


@pytest.mark.parametrize("crashed", ["a", "b", "ab"])
def test_after_a_crash_it_begins_anew(crashed: str) -> None:
    nodes = begun()
    for name in crashed:
        nodes.crash(name)
        nodes[name].open(1, 2, 9)
        nodes[name].now_ms += 1000
    nodes.cut("a", "b")
    nodes["a"].reads_slowly.clear()
    if "b" in crashed:
        nodes["b"].say(subscribe(1, "work", prefetch_count=99))
    nodes.heard.clear()
    nodes.link("a", "b")
    nodes.run()
    nodes.wait(2)
    assert nodes["b"].bodies(1) == [LARGE]
    assert {word.have for _, _, word in nodes.sent(Proceed) if isinstance(word, Proceed)} == {0}


def test_copies_of_other_fanouts_go_first_and_of_the_same_in_order() -> None:
    nodes = begun("/fanout/events")
    nodes["a"].say(send(2, "/fanout/others", b"small"), send(2, "/fanout/events", b"behind"))
    nodes.run()
    assert nodes["b"].stored("z") == [b"small"] and nodes["b"].stored("x") == []
    fast(nodes, "a")
    assert nodes["b"].stored("x") == [LARGE, b"behind"] and nodes["a"].stored("$outbox/b") == []


def test_one_large_message_after_the_other_and_both_ways() -> None:
    nodes = meeting()
    for number in range(5):
        nodes["a"].say(send(1, "work", LARGE + b"%d" % number), send(1, "other", LARGE + b"o%d" % number))
        nodes["b"].say(send(9, "/fanout/events", LARGE + b"%d" % number))
    nodes.run()
    nodes.wait(0.25)
    assert nodes["b"].bodies(1) == [LARGE + b"%d" % number for number in range(5)]
    assert nodes["b"].bodies(2) == [LARGE + b"o%d" % number for number in range(5)]
    assert nodes["a"].stored("x") == [LARGE + b"%d" % number for number in range(5)]


def test_what_is_not_whole_has_a_bound_over_all_links() -> None:
    nodes = Nodes("abcdefg", "ab cb db eb fb gb", more())
    for name in nodes.at:
        nodes[name].open(1, 2)
        if name != "b":
            slow(nodes, name)
            nodes[name].say(send(1, "/fanout/events", bytes(15 * MIB)))
    nodes.run()
    parcels = cluster(nodes, "b").parcels
    assert LINK_PARTS_BYTES - 15 * MIB < parcels.held_bytes <= LINK_PARTS_BYTES
    for name in nodes.at:
        nodes[name].reads_slowly.clear()
        nodes[name].turn([])
    nodes.run()
    for _ in range(8):
        nodes.wait(0.25)
    assert len(nodes["b"].stored("x")) == 6 and not parcels.held_bytes


def test_none_comes_while_memory_is_tight() -> None:
    nodes = meeting()
    nodes["b"].broker.admission.memory_wait_list.is_tight = True
    slow(nodes, "a")
    nodes["a"].say(send(1, "/fanout/events", LARGE))
    nodes.run()
    assert nodes.sent(Parcel) and not nodes.sent(Proceed)
    nodes["b"].turn([Tick(GIB, 0)])
    fast(nodes, "a")
    assert nodes["b"].stored("x") == [LARGE]


# ---- what a bad node says


def hears(nodes: Nodes, word: PeerFrame) -> None:
    """b hears it from a."""
    number = end(nodes, "b")
    nodes["b"].turn([Read(number, [PeerMessage(number, word)])])


def test_nothing_is_taken_that_was_not_asked_for() -> None:
    for found, word in (
        ("Bytes from 0 on of message 7, which were not asked for.", Piece(7, 0, b"x")),
        (f"A body of {2**40} bytes: max_frame_bytes is {16 * MIB}.", Parcel("/queue/work", 7, 1, 1, 1, 2**40)),
        ("A message whose body is that of 7, which is not here.", None),
    ):
        nodes = meeting()
        peer = cluster(nodes, "b").peers["a"]
        message = Message("/queue/work", b"", 2, b"", 1, 0)
        transfer = Transfer(peer.in_epoch, peer.in_last + 1, "/queue/work", message, ["a"], 0, False, 0, 7)
        hears(nodes, word or transfer)
        assert nodes["b"].refusal(end(nodes, "b")).sentence.startswith(found)


@pytest.mark.parametrize(
    ("at", "data", "expected"),
    [
        (1, b"x", "Bytes from 1 on of message 7, which were not asked for."),
        (0, b"x" * 101, "101 bytes of a message of 100."),
        (0, b"", "0 bytes of a message of 100."),
    ],
)
def test_pieces_are_the_next_and_no_more_than_there_are(at: int, data: bytes, expected: str) -> None:
    nodes = meeting()
    hears(nodes, Parcel("/queue/work", 7, 1, 1, 1, 100))
    hears(nodes, Piece(7, at, data))
    assert nodes["b"].refusal(end(nodes, "b")).sentence.startswith(expected)
    assert not cluster(nodes, "b").parcels.held_bytes


def test_a_half_message_is_not_handed_over_and_one_with_two_bodies_neither() -> None:
    for count, body, found in (
        (99, b"", "A message whose body is that of 7, which is not here."),
        (100, b"more", "A message with 4 bytes of body, which has come already."),
        (100, b"", ""),
    ):
        nodes = meeting()
        peer = cluster(nodes, "b").peers["a"]
        hears(nodes, Parcel("/fanout/events", 7, 1, 1, 1, 100))
        hears(nodes, Piece(7, 0, b"x" * count))
        message = Message("/fanout/events", b"", 2, body, 1, 0)
        hears(nodes, Transfer(peer.in_epoch, peer.in_last + 1, "/fanout/events", message, ["a"], 0, False, 0, 7))
        if found:
            assert nodes["b"].refusal(end(nodes, "b")).sentence.startswith(found)
        assert nodes["b"].stored("x") == ([] if found else [b"x" * 100])


def test_who_is_asked_for_bytes_and_sends_none_is_cut_off() -> None:
    nodes = meeting()
    hears(nodes, Parcel("/queue/work", 7, 1, 1, 1, 100))
    nodes["b"].wait(PARTS_KEPT_S + 1)
    assert nodes["b"].refusal(end(nodes, "b")).sentence.startswith("No more of a message's bytes came for 60 s")


def test_a_message_that_is_carried_and_not_handed_over_is_taken_back() -> None:
    nodes = begun()
    nodes["b"].broker.admission.disk_wait_list.is_tight = True
    share = nodes.cluster("a").shares.all["work"]
    for taker in share.neighbours.all.values():
        taker.credit = 0
    fast(nodes, "a")
    assert not nodes.sent(Transfer)
    for _ in range(8):
        nodes["a"].wait(0.25)
        nodes.run()
    assert nodes.cluster("a").links.up[0].outgoing is None
    assert nodes.cluster("b").links.up[0].incoming is None or nodes["b"].bodies(1) == [LARGE]
    nodes["b"].turn([Tick(GIB, 0)])
    for _ in range(40):
        nodes.wait(0.25)
    assert nodes["b"].bodies(1) == [LARGE]
