"""What linked nodes bring costs a node no more than it has room for: bytes, times copies, over all of them together."""

import pytest

from radiator.model.commands import PeerMessage, Read, Tick
from radiator.model.limits import GIB, LINK_CAPACITY_BYTES, MIB
from radiator.model.message import Message
from radiator.model.peer import Capacity, Credit, Hello, Transfer, Want, cost_bytes
from radiator.model.settings import Declarations, QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import ack, send, subscribe

CHILDREN = ("k1", "k2", "k3", "k4")
BODY = bytes(MIB)


def four_children() -> Declarations:
    declarations = declared(**{child: QueueSettings() for child in CHILDREN})
    declarations.fanouts["events"] = CHILDREN
    return declarations


def meeting(names: str = "abc", links: str = "ab bc") -> Nodes:
    nodes = Nodes(names, links, four_children())
    for name in names:
        nodes[name].open(1, 2, 9)
    return nodes


def left(nodes: Nodes, name: str, is_copies: bool) -> int:
    """What others may still bring, by that node's own books."""
    return sum(link.takes[is_copies].left for link in nodes.cluster(name).links.up)


def used(nodes: Nodes, name: str) -> int:
    return nodes[name].disk.used_bytes()


def adds_up(nodes: Nodes) -> None:
    for name, node in nodes.at.items():
        promised = left(nodes, name, True) + left(nodes, name, False)
        assert node.broker.admission.promised_bytes == promised, name


def fill(nodes: Nodes, name: str, count: int) -> None:
    """So many copies of 1 MiB wait at that node for others; its own children let go of theirs."""
    for _ in range(count):
        nodes[name].say(send(1, "/fanout/events", BODY))
        for child in CHILDREN:
            nodes[name].admin(9, do="purge", queue=child)


def test_peers_fill_no_disk_and_what_finds_no_room_waits_at_its_own_node() -> None:
    nodes = meeting()
    nodes.cut("a", "b")
    nodes.cut("b", "c")
    for name in "ac":
        fill(nodes, name, 120)
    nodes.link("a", "b")
    nodes.link("c", "b")
    b = nodes["b"]
    for _ in range(400):
        nodes.wait(0.25)
        assert used(nodes, "b") <= b.broker.parts.disk.high_water_bytes
    arrived = len(b.stored("k1"))
    assert arrived > 120, "most of the disk is used"
    waiting = {name: nodes["b"].broker.cluster and len(nodes[name].stored("$outbox/b")) for name in "ac"}
    assert sum(waiting.values()) == 240 - arrived and min(waiting.values()) > 5, f"both have got some: {waiting}"
    assert (
        not b.broker.admission.disk_wait_list.is_tight or used(nodes, "b") > b.broker.parts.disk.high_water_bytes // 2
    )
    adds_up(nodes)
    got = arrived
    while got < 240:
        for child in CHILDREN:
            b.admin(9, do="purge", queue=child)
        nodes.wait(0.25)
        more = len(b.stored("k1"))
        assert [len(b.stored(child)) for child in CHILDREN] == [more] * 4
        got += more
    assert got == 240
    adds_up(nodes)


def test_messages_of_queues_wait_too() -> None:
    nodes = meeting("ab", "ab")
    b = nodes["b"]
    b.broker.parts.disk.free_min = GIB
    b.turn([Tick(GIB + 30 * MIB, 0)])
    nodes.cut("a", "b")
    nodes.link("a", "b")
    b.say(subscribe(1, "work", prefetch_count=500))
    nodes.run()
    for _ in range(60):
        nodes["a"].say(send(1, "work", BODY))
    nodes.run()
    came = len(b.stored("work"))
    assert 0 < came * MIB * 3 // 2 < 30 * MIB
    assert len(nodes["a"].stored("work")) == 60 - came
    adds_up(nodes)
    for _ in range(100):
        for message in b.messages(1):
            b.say(ack(message))
        b.turn([Tick(GIB + 30 * MIB, 0)])
        nodes.wait(0)
        b.turn([Tick(GIB + 30 * MIB, 0)])
        nodes.run()
    assert nodes["a"].stored("work") == []


def test_a_large_message_asks_for_its_room() -> None:
    nodes = meeting("ab", "ab")
    body = bytes(12 * MIB)
    nodes["a"].say(send(1, "/fanout/events", body))
    nodes.run()
    (want,) = {word.size for _, _, word in nodes.sent(Want) if isinstance(word, Want)}
    assert want > 48 * MIB > LINK_CAPACITY_BYTES
    assert [len(one) for one in nodes["b"].stored("k4")] == [12 * MIB]
    adds_up(nodes)


def test_messages_wait_in_turn_behind_a_large_one() -> None:
    nodes = meeting("ab", "ab")
    nodes["b"].say(subscribe(1, "work", prefetch_count=9), subscribe(2, "more", prefetch_count=9))
    nodes.run()
    cluster = nodes.cluster("a")
    link = cluster.peers["b"].link
    assert link is not None
    pumped: list[str] = []

    def small() -> None:
        pumped.append("small")

    def large() -> None:
        pumped.append("large")

    assert not cluster.handover.fits(cluster.peers["b"], "/queue/work", 2 * LINK_CAPACITY_BYTES, large)
    assert not cluster.handover.fits(cluster.peers["b"], "/queue/more", 1, small)
    assert cluster.handover.fits(cluster.peers["b"], "/fanout/events", 1, small), "copies have room of their own"
    nodes.wait(0.25)
    assert pumped == ["large", "small"], "who waits is asked again, in order"


def test_what_was_promised_counts_where_clients_send() -> None:
    nodes = meeting("ab", "ab")
    b = nodes["b"]
    promised = b.broker.admission.promised_bytes
    assert promised >= LINK_CAPACITY_BYTES
    b.broker.parts.disk.free_min = GIB
    b.turn([Tick(GIB + promised, 0)])
    b.say(send(1, "own", receipt=b"r"))
    assert 1 in b.paused
    nodes.cut("a", "b")
    assert b.broker.admission.promised_bytes == 0
    b.turn([Tick(GIB + promised, 0)])
    assert b.receipts(1) == [b"r"]


def test_a_draining_node_promises_no_more() -> None:
    nodes = meeting("ab", "ab")
    nodes["b"].admin(9, do="drain")
    sent = len(nodes.sent(Capacity))
    nodes["a"].say(send(1, "/fanout/events", bytes(12 * MIB)))
    nodes.wait(1)
    assert len(nodes.sent(Capacity)) == sent and len(nodes["a"].stored("$outbox/b")) == 1
    nodes["b"].admin(9, do="drain", stop=True)
    nodes.wait(1)
    nodes.wait(1)
    assert len(nodes["b"].stored("k1")) == 1


def bad_word(nodes: Nodes, word: object) -> str:
    """What b answers to a word that a's end of the link says."""
    ((name, number),) = [end for end in nodes.ends if end[0] == "b"]
    nodes[name].turn([Read(number, [PeerMessage(number, word)])])  # type: ignore[arg-type]
    return nodes[name].refusal(number).sentence


def test_more_than_was_granted_is_a_link_error() -> None:
    nodes = meeting("ab", "ab")
    peer, link = nodes.cluster("b").peers["a"], nodes.cluster("b").links.up[0]
    body = bytes(link.takes[True].left // 4)
    message = Message("/fanout/events", b"", 2, body, 1, 0)
    word = Transfer(peer.in_epoch, peer.in_last + 1, "/fanout/events", message, ["a"], 0, False, 0)
    sent = bad_word(nodes, word)
    assert sent.startswith(f"Copies of {cost_bytes(len(body), 4)} bytes on this link, where ")
    assert nodes["b"].stored("k1") == [] and nodes["b"].broker.admission.promised_bytes == 0


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (Want(False, 2**40), "A message that costs 1099511627776 bytes waits there: none can cost more than "),
        (Hello(99, ["events"], []), "a names 1 fanouts, and the children of 0."),
    ],
)
def test_what_cannot_be_is_a_link_error(word: object, sentence: str) -> None:
    assert bad_word(meeting("ab", "ab"), word).startswith(sentence)


def test_room_never_goes_back() -> None:
    nodes = meeting("ab", "ab")
    link = nodes.cluster("a").links.up[0]
    through = link.gives[False].through
    nodes.cluster("a").handover.capacity(link, Capacity(False, 1))
    assert link.gives[False].through == through
    assert nodes.sent(Credit)
