"""Several real Spreading objects, wired by links whose words wait until the test lets them arrive, or get lost."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from radiator.core.cluster.gossip import Gossip
from radiator.core.cluster.link import Link
from radiator.core.connections import Connection
from radiator.core.turn import Turn, TurnContext
from radiator.model.limits import TOPIC_HOPS_MAX
from radiator.model.message import Message
from radiator.model.patterns import matches, overlaps
from radiator.model.peer import Identity, PeerFrame, Publish
from radiator.model.replies import SendToPeer
from radiator.model.settings import Declarations

EVERYWHERE = Declarations(topics=["t.#"], cluster_topics=frozenset({"t.#"}))

WORDS_MAX = 1_000_000  # before a mesh must be quiet


class End:
    """One side of a wire: what was said to it waits in `words`. is_open: it knows of the link."""

    def __init__(self, wire: "Wire", node: "Node", number: int) -> None:
        self.wire = wire
        self.node = node
        self.number = number
        self.words: deque[PeerFrame] = deque()
        self.is_open = False
        self.is_over = False
        self.other: End
        self.link: Link

    def open(self) -> None:
        connection = Connection(self.number, 1 << 20)
        identity = Identity(self.other.node.name, "s" + self.other.node.name, True)
        self.link = Link(connection, identity, self.node.context)
        self.is_open = True
        with self.node.turn():
            self.node.gossip.linked(self.link)

    def close(self) -> None:
        """Its node finds out that the wire is cut."""
        self.is_over = True
        self.words.clear()
        if self.is_open:
            self.link.connection.is_closing = True
            with self.node.turn():
                self.node.gossip.unlinked(self.link)

    def hear(self) -> None:
        word = self.words.popleft()
        if isinstance(word, Publish):
            self.wire.mesh.carried.append((self.other.node.name, self.node.name))
        with self.node.turn():
            self.node.gossip.hear(self.link, word)


class Wire:
    """One connection. is_cut: what is said is lost; what was said before may still arrive."""

    def __init__(self, mesh: "Mesh", one: "Node", other: "Node") -> None:
        self.mesh = mesh
        self.is_cut = False
        self.ends = mesh.end(self, one), mesh.end(self, other)
        self.ends[0].other, self.ends[1].other = self.ends[1], self.ends[0]


class Node:
    """One node: its Spreading, its subscriptions, and what was delivered to them."""

    def __init__(self, mesh: "Mesh", name: str, boot: int = 1, declarations: Declarations = EVERYWHERE) -> None:
        self.mesh = mesh
        self.name = name
        self.context = TurnContext("s" + name, boot)
        self.context.now_ms = mesh.next_ms()
        self.declarations = declarations
        self.patterns: list[str] = []
        self.delivered: list[bytes] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.published = 0
        address = f"peer://{name}:61614"
        self.gossip = Gossip(self.context, name, boot, declarations, address, self.deliver, self.note)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """What is done within is one turn; what it says goes onto the wires, and is written at once."""
        self.context.turn = turn = Turn()
        self.context.turn_number += 1
        self.context.now_ms = self.mesh.next_ms()
        yield
        self.gossip.end_turn()
        for reply in turn.replies:
            assert isinstance(reply, SendToPeer)
            end = self.mesh.ends[reply.connection]
            self.mesh.sent_count += 1
            self.mesh.on_word(reply.word)
            self.mesh.on_send(reply)
            if not end.wire.is_cut and not end.other.is_over:
                end.other.words.append(reply.word)
            end.link.connection.outbox_bytes = 0
            end.link.connection.unwritten.clear()

    def deliver(self, name: str, message: Message, message_id: bytes, is_copied: bool) -> None:
        assert not is_copied
        assert message.destination == "/topic/" + name
        if any(matches(p, name) for p in self.patterns):
            self.delivered.append(message_id)

    def note(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    def wants(self, name: str) -> bool:
        return self.declarations.is_cluster_topic(name) and any(matches(p, name) for p in self.patterns)

    def asks(self, name: str) -> bool:
        """Whether others send it such a message: a pattern may ask for more than is of scope "cluster" here."""
        topics = self.declarations.cluster_topics
        return any(matches(p, name) and any(overlaps(topic, p) for topic in topics) for p in self.patterns)

    def subscribe(self, *patterns: str) -> None:
        with self.turn():
            for pattern in patterns:
                self.patterns.append(pattern)
                self.gossip.subscribed(pattern)

    def unsubscribe(self, *patterns: str) -> None:
        with self.turn():
            for pattern in patterns:
                self.patterns.remove(pattern)
                self.gossip.unsubscribed(pattern)

    def publish(self, name: str) -> bytes:
        self.published += 1
        message_id = b"%b-%d-%d" % (self.name.encode(), self.gossip.own.incarnation, self.published)
        with self.turn():
            self.gossip.publish(name, Message("/topic/" + name, b"", 0, b"body", 0), message_id)
        return message_id

    def reached(self) -> set[str]:
        return {str(node["name"]) for node in self.gossip.nodes()}


class Mesh:
    """Nodes by name, and the wires between them."""

    def __init__(self, *names: str) -> None:
        self.nodes: dict[str, Node] = {}
        self.wires: list[Wire] = []
        self.ends: dict[int, End] = {}
        self.carried: list[tuple[str, str]] = []  # the links that Publishes have crossed
        self.sent_count = 0
        self.now_ms = 1_800_000_000_000
        self.on_word: Callable[[PeerFrame], None] = lambda word: None
        self.on_send: Callable[[SendToPeer], None] = lambda reply: None
        for name in names:
            self.add(name)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def next_ms(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def end(self, wire: Wire, node: Node) -> End:
        number = len(self.ends) + 1
        self.ends[number] = end = End(wire, node, number)
        return end

    def add(self, name: str, boot: int = 1, declarations: Declarations = EVERYWHERE) -> Node:
        self.nodes[name] = node = Node(self, name, boot, declarations)
        return node

    def wire(self, one: str, other: str) -> Wire:
        """A new wire; neither end is open yet."""
        wire = Wire(self, self.nodes[one], self.nodes[other])
        self.wires.append(wire)
        return wire

    def link(self, *pairs: str) -> None:
        """`"a b"`: both ends open, and all is said."""
        for pair in pairs:
            for end in self.wire(*pair.split()).ends:
                end.open()
        self.quiet()

    def between(self, one: str, other: str) -> Wire | None:
        for wire in self.wires:
            if not wire.is_cut and {end.node.name for end in wire.ends} == {one, other}:
                return wire
        return None

    def cut(self, one: str, other: str) -> Wire:
        """What is on the wire is lost; no end has noticed."""
        wire = self.between(one, other)
        assert wire is not None
        wire.is_cut = True
        for end in wire.ends:
            end.words.clear()
        return wire

    def unlink(self, *pairs: str) -> None:
        """Cut, noticed by both ends, and everybody told."""
        for pair in pairs:
            wire = self.cut(*pair.split())
            self.wires.remove(wire)
            for end in wire.ends:
                end.close()
        self.quiet()

    def waiting(self) -> list[End]:
        """Ends that have something to hear."""
        return [end for wire in self.wires for end in wire.ends if end.words and end.is_open and not end.is_over]

    def quiet(self, random: Random | None = None) -> None:
        """Everything that was said arrives: in rounds, or in any order that keeps each link's."""
        most = self.sent_count + WORDS_MAX
        while waiting := self.waiting():
            assert self.sent_count < most, "words go round for ever"
            for end in waiting if random is None else [random.choice(waiting)]:
                end.hear()

    # ---- what should be ---------------------------------------------------------------------------------------------

    def linked(self) -> dict[str, set[str]]:
        graph: dict[str, set[str]] = {name: set() for name in self.nodes}
        for wire in self.wires:
            one, other = wire.ends
            if not wire.is_cut and one.is_open and other.is_open:
                graph[one.node.name].add(other.node.name)
                graph[other.node.name].add(one.node.name)
        return graph

    def expected(self, origin: str, topic: str) -> tuple[set[str], set[tuple[str, str]]]:
        """Who should get it, and the links that should carry it: each comes from the nearer node of the least name."""
        if not self.nodes[origin].declarations.is_cluster_topic(topic):
            return set(), set()
        graph = self.linked()
        away = {origin: 0}
        for name in (walk := [origin]):
            for other in graph[name]:
                if other not in away:
                    away[other] = away[name] + 1
                    walk.append(other)
        near = {name for name, hops in away.items() if 0 < hops <= TOPIC_HOPS_MAX}
        links = set()
        for name in (name for name in near if self.nodes[name].asks(topic)):
            while name != origin:
                before = min(other for other in graph[name] if away[other] == away[name] - 1)
                links.add((before, name))
                name = before
        return {name for name in near if self.nodes[name].wants(topic)}, links

    def check_publish(self, origin: str, topic: str, random: Random | None = None) -> None:
        """In a quiet mesh: everybody who wants it gets it exactly once, over the links of the tree and no other."""
        wanting, links = self.expected(origin, topic)
        self.carried.clear()
        for node in self.nodes.values():
            node.delivered.clear()
        assert self.nodes[origin].gossip.is_wanted(topic) == bool(links), (origin, topic)
        message_id = self.nodes[origin].publish(topic)
        self.quiet(random)
        got = {name: node.delivered for name, node in self.nodes.items() if node.delivered}
        assert got == {name: [message_id] for name in wanting}, (origin, topic)
        assert sorted(self.carried) == sorted(links), (origin, topic)

    def restart(self, name: str, boot: int) -> Node:
        """The node has lost its memory, its links and its subscribers; its neighbours have noticed nothing yet."""
        old = self.nodes[name]
        for wire in [wire for wire in self.wires if any(end.node is old for end in wire.ends)]:
            wire.is_cut = True
            for end in wire.ends:
                end.is_over = end.is_over or end.node is old
        return self.add(name, boot, old.declarations)

    def check_all(self, topics: tuple[str, ...] = ("t.a",)) -> None:
        for name in self.nodes:
            for topic in topics:
                self.check_publish(name, topic)
