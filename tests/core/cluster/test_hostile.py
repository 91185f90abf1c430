"""What a node that knows the secret, and lies, cannot do; and what an honest one must not be taken for."""

from dataclasses import replace

import pytest

from radiator.model.commands import Closed, Open, PeerMessage, Read
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import (
    LINK_SUPPLY_MAX,
    LINK_WINDOW,
    NODE_PATTERNS_MAX,
    NODES_MAX,
    PATTERNS_MAX,
    REDELIVERIES_MAX,
    REPLIES_PER_TURN,
    ROUTES_PER_TURN,
)
from radiator.model.message import Message
from radiator.model.peer import (
    Credit,
    Digest,
    Hello,
    Identity,
    NodeState,
    PeerFrame,
    Publish,
    Supply,
    Taken,
    Transfer,
    Version,
    Welcome,
)
from radiator.model.replies import Refuse, SendToPeer
from radiator.model.settings import QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import ack, nack, send, subscribe, unsubscribe


def pair() -> Nodes:
    """Two nodes; a client each, number 1. Queues `w.*` are of the cluster, and may be deleted."""
    patterns = [("w.#", QueueSettings(scope="cluster"))]
    nodes = Nodes("ab", declarations=replace(declared(), queue_patterns=patterns))
    for name in "ab":
        nodes[name].open(1)
    return nodes


def number(nodes: Nodes, name: str) -> int:
    return next(end[1] for end in nodes.ends if end[0] == name)


def hear(nodes: Nodes, name: str, *words: PeerFrame) -> int:
    """That node hears them of the other; the number of its link."""
    link = number(nodes, name)
    nodes[name].turn([Read(link, [PeerMessage(link, word) for word in words])])
    return link


def transfer(nodes: Nodes, sequence: int = 1, to: str = "/queue/work") -> Transfer:
    """What `b` hears of `a`."""
    epoch = nodes.cluster("b").peers["a"].in_epoch
    message = Message(to, b"", ESCAPING_ALL, b"h%d" % sequence, 1)
    return Transfer(epoch, sequence, to, message, ["a"], 0, False, 0)


def granted(nodes: Nodes, count: int) -> None:
    """`b` has granted `a` so many of `work`: its consumer is idle, and `a` says that it has some."""
    nodes["b"].say(subscribe(1, "work", prefetch_count=count))
    hear(nodes, "b", Supply("work", 100, 1, False))
    assert nodes.cluster("b").peers["a"].link.allowed == {"work": count}  # type: ignore[union-attr]


def test_taken_of_a_message_whose_doubt_is_not_on_the_disk_yet_is_a_lie() -> None:
    nodes = pair()
    a = nodes["a"]
    hear(nodes, "a", Credit("work", 5))
    a.auto = False
    a.say(send(1, "work", b"1"))
    a.seal()
    a.commit()
    assert nodes.cluster("a").peers["b"].out_offered == 1
    link = hear(nodes, "a", Taken(1))
    assert a.refusal(link).code == "link-error"
    a.auto = True
    a.turn([])
    assert a.stored("work") == [b"1"] and a.crashed().stored("work") == [b"1"]


def test_more_than_was_granted_is_refused() -> None:
    nodes = pair()
    granted(nodes, 3)
    hear(nodes, "b", *[transfer(nodes, n) for n in (1, 2, 3)])
    assert nodes["b"].stored("work") == [b"h1", b"h2", b"h3"]
    nodes = pair()
    granted(nodes, 3)
    link = hear(nodes, "b", *[transfer(nodes, n) for n in (1, 2, 3, 4)])
    assert nodes["b"].refusal(link).code == "link-error"
    assert nodes["b"].stored("work") == [b"h1", b"h2", b"h3"]


def test_more_copies_than_were_granted_are_refused() -> None:
    nodes = pair()
    b = nodes["b"]
    for n in range(1, LINK_WINDOW + 1):
        hear(nodes, "b", transfer(nodes, n, "/fanout/events"))
    nodes.cluster("b").is_draining = True  # it grants no more
    for n in range(LINK_WINDOW + 1, nodes.cluster("b").peers["a"].copies_granted + 1):
        hear(nodes, "b", transfer(nodes, n, "/fanout/events"))
    count = len(b.stored("x"))
    link = hear(nodes, "b", transfer(nodes, count + 1, "/fanout/events"))
    assert b.refusal(link).code == "link-error" and len(b.stored("x")) == count


@pytest.mark.parametrize(("count", "is_refused"), [(LINK_WINDOW, False), (LINK_WINDOW + 1, True)])
def test_no_more_than_a_window_comes_before_its_taken_is_said(count: int, is_refused: bool) -> None:
    nodes = pair()
    granted(nodes, 2 * LINK_WINDOW)
    b = nodes["b"]
    b.auto = False
    link = hear(nodes, "b", *[transfer(nodes, n) for n in range(1, count + 1)])
    assert b.is_refused(link) == is_refused
    b.auto = True
    b.turn([])
    assert len(b.stored("work")) == LINK_WINDOW


def test_message_for_a_queue_that_was_just_deleted_makes_it_again() -> None:
    nodes = pair()
    b = nodes["b"]
    b.say(subscribe(1, "w.x", prefetch_count=10))
    hear(nodes, "b", Supply("w.x", 100, 1, False))
    b.say(unsubscribe(1, "w.x"))
    assert b.admin(1, do="delete", queue="w.x")["ok"]
    hear(nodes, "b", transfer(nodes, 1, "/queue/w.x"))
    assert b.stored("w.x") == [b"h1"] and b.crashed().stored("w.x") == [b"h1"]


@pytest.mark.parametrize("where", "ab")
def test_queue_that_is_deleted_and_made_again_is_counted_alike_at_both_ends(where: str) -> None:
    nodes = pair()
    a, b = nodes["a"], nodes["b"]
    for beginning in ("first", "second"):
        b.say(subscribe(1, "w.x", prefetch_count=50))
        nodes.run()
        for n in range(100):
            a.say(send(1, "w.x", f"{beginning} {n}".encode()))
        came = 0
        while came < 100:
            nodes.wait(0.25)
            messages = b.messages(1)
            assert messages, "nothing more comes"
            came += len(messages)
            for message in messages:
                b.say(ack(message))
        b.say(unsubscribe(1, "w.x"))
        nodes.wait(1)
        assert nodes[where].admin(1, do="delete", queue="w.x")["ok"]
        nodes.wait(1)


def test_other_store_while_the_old_link_is_up_changes_nothing() -> None:
    nodes = pair()
    a = nodes["a"]
    a.say(*[send(1, "/fanout/events", b"%d" % n) for n in range(3)])
    a.inbox[77], a.delivers[77] = [], 0
    a.turn([Open(77, Identity("b", "another", is_dialled=True))])
    assert a.refusal(77).code == "other-store"
    assert len(nodes.cluster("a").peers["b"].doubts) == len(a.crashed().disk.platter.doubts) == 3


def test_row_of_the_old_store_is_no_answer_to_the_hello_of_another() -> None:
    nodes = pair()
    b = nodes["b"]
    granted(nodes, 3)
    b.auto = False
    link = hear(nodes, "b", transfer(nodes, 1))
    b.seal()
    epoch = nodes.cluster("b").peers["a"].in_epoch
    b.turn([Closed(link)])
    b.inbox[77], b.delivers[77] = [], 0
    b.turn([Open(77, Identity("a", "another", is_dialled=False))])
    b.turn([Read(77, [PeerMessage(77, Hello(epoch, [], []))])])
    b.commit()
    assert not [r for r in b.inbox[77] if isinstance(r, SendToPeer) and isinstance(r.word, Welcome)]
    b.auto = True
    b.turn([])
    assert Welcome(epoch, 0) in [r.word for r in b.inbox[77] if isinstance(r, SendToPeer)]


def test_nodes_that_are_learned_and_that_link_are_bounded() -> None:
    nodes = pair()
    a = nodes["a"]
    assert a.node is not None
    a.node.discover = True
    cluster = nodes.cluster("a")
    for n in range(NODES_MAX + 10):
        state = NodeState(Version(f"n{n}", 1, 1), True, [], [], [], [], "peer://h:1")
        hear(nodes, "a", state)
        cluster.links.learned(f"n{n}", "peer://h:1")
    assert len(cluster.links.known) == NODES_MAX
    for n in range(NODES_MAX):
        number = 5000 + n
        a.inbox[number], a.delivers[number] = [], 0
        a.turn([Open(number, Identity(f"n{n}", "s", is_dialled=False))])
    assert len(cluster.peers) == NODES_MAX
    assert a.refusal(5000 + NODES_MAX - 1).code == "unknown-node"


def made_up(nodes: Nodes, patterns: list[str]) -> list[str]:
    """`a` believes that nearly as many nodes as it may know are behind `b`, and want these."""
    names = [f"n{n}" for n in range(NODES_MAX - 4)]
    version = nodes.cluster("a").gossip.known["b"].version
    link = number(nodes, "a")
    hear(nodes, "a", NodeState(Version("b", version[0], version[1] + 1), True, ["a", *names], [], patterns, [], ""))
    hear(nodes, "a", *[NodeState(Version(name, 1, 1), True, ["b"], [], patterns, [], "") for name in names])
    nodes["a"].take(link)
    nodes["a"].auto = False
    return names


def test_digests_of_a_few_bytes_are_answered_in_many_turns() -> None:
    nodes = pair()
    made_up(nodes, [])
    a = nodes["a"]
    found = len(a.log)
    hear(nodes, "a", *[Digest([])] * 40)
    assert REPLIES_PER_TURN <= len(a.log) - found < REPLIES_PER_TURN + 2 * NODES_MAX
    while a.again:
        before = len(a.log)
        a.turn([])
        assert len(a.log) - before < REPLIES_PER_TURN + 2 * NODES_MAX
    assert len(a.log) - found > 40 * (NODES_MAX - 4)


def test_messages_of_many_origins_are_passed_on_in_many_turns() -> None:
    nodes = pair()
    names = made_up(nodes, ["t.#"])
    a = nodes["a"]
    a.say(subscribe(1, "/topic/t.x", ack="auto"))
    message = Message("/topic/t.x", b"", ESCAPING_ALL, b"p", 1)
    hear(nodes, "a", *[Publish(name, 1, 1, 1, b"a-1-1t", message) for name in names[: 3 * ROUTES_PER_TURN]])
    delivered = len(a.bodies(1))
    assert delivered == ROUTES_PER_TURN and a.again
    while a.again:
        a.turn([])
        assert len(a.bodies(1)) <= ROUTES_PER_TURN
    assert nodes.cluster("a").gossip.known[names[3 * ROUTES_PER_TURN - 1]].sequence == 1


def test_queue_that_is_deleted_while_it_waits_for_room_in_the_window_gives_nothing() -> None:
    nodes = pair()
    a = nodes["a"]
    hear(nodes, "a", Credit("w.1", 100), Credit("w.2", 100))
    a.say(*[send(1, "w.1", b"%d" % n) for n in range(LINK_WINDOW)])
    a.say(send(1, "w.2", b"x"))
    assert a.numbers("w.2")["ready"] == 1
    assert a.admin(1, do="delete", queue="w.2")["ok"]
    hear(nodes, "a", Taken(LINK_WINDOW))
    assert not a.crashed().disk.platter.doubts


def test_patterns_of_all_nodes_together_are_bounded() -> None:
    nodes = pair()
    count, left = divmod(PATTERNS_MAX - 1, NODE_PATTERNS_MAX)
    for n in range(count):
        patterns = [f"*.{n}.{m}" for m in range(NODE_PATTERNS_MAX)]
        hear(nodes, "a", NodeState(Version(f"n{n}", 1, 1), True, [], [], patterns, [], ""))
    hear(nodes, "a", NodeState(Version("last", 1, 1), True, [], [], [f"t.{m}" for m in range(left + 1)], [], ""))
    assert nodes.cluster("a").gossip.patterns == PATTERNS_MAX
    hear(nodes, "a", NodeState(Version("last", 1, 2), False, [], [], ["t.more"], ["t.0"], ""))
    link = hear(nodes, "a", NodeState(Version("last", 1, 3), False, [], [], ["t.0"], [], ""))
    refusals = [reply for reply in nodes["a"].take(link) if isinstance(reply, Refuse)]
    assert [refusal.code for refusal in refusals] == ["link-error"]
    assert nodes.cluster("a").gossip.patterns == PATTERNS_MAX


def test_offer_of_as_many_as_a_number_can_be_does_not_break_other_links() -> None:
    nodes = Nodes("abc", "ab bc")
    for name in "abc":
        nodes[name].open(1)
    b = nodes["b"]
    b.say(send(1, "work", b"1"), send(1, "work", b"2"))
    to_a, to_c = [
        next(end for end, far in nodes.ends.items() if end[0] == "b" and far[0] == other)[1] for other in "ac"
    ]
    b.turn([Read(to_a, [PeerMessage(to_a, Supply("work", 2**63 - 1, 1, False))])])
    b.turn([Read(to_c, [PeerMessage(to_c, Credit("work", 1))])])
    (word,) = [
        reply.word for reply in b.take(to_c) if isinstance(reply, SendToPeer) and isinstance(reply.word, Transfer)
    ]
    assert word.left == LINK_SUPPLY_MAX + 1


def test_message_that_came_back_as_often_as_can_be_said_can_come_back_once_more() -> None:
    nodes = pair()
    b = nodes["b"]
    granted(nodes, 1)
    word = transfer(nodes, 1)
    word.redeliveries = REDELIVERIES_MAX
    hear(nodes, "b", word)
    b.say(nack(b.message(1)))
    assert b.message(1).redeliveries <= REDELIVERIES_MAX
