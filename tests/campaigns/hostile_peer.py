"""S33b: a whole core linked with two peers that say any words of the table, in any order, with any values.

They keep to the protocol often enough to come far, and lie then: a `last` that was never said, gaps, other epochs,
messages without a Credit, forged news, two links at once, other stores. Clients work at the same time, and the disk is
as slow as chance wants. The judge keeps books: what was receipted is here, or was acked, or was said to a peer that
has said that it took it. Every word goes through the codec, so none is told that a real link could not bring.
"""

import time
import traceback
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from random import Random

from radiator.core.cluster.cluster import Cluster
from radiator.core.cluster.link import Link
from radiator.model import settings
from radiator.model.commands import Closed, Open, PeerMessage, Read, Send, Tick
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import (
    GIB,
    LINK_CHILDREN_MAX,
    LINK_COST_BYTES,
    LINK_PARTS_BYTES,
    LINK_WINDOW,
    MIB,
    NODES_MAX,
    PATTERNS_MAX,
    PIECE_BYTES,
    QUEUE_HOPS_MAX,
    ROUTES_KEPT,
    TREES_KEPT,
    Limits,
)
from radiator.model.message import Message
from radiator.model.peer import (
    Answer,
    Capacity,
    Credit,
    Declared,
    Demand,
    Digest,
    Hello,
    Identity,
    NodeState,
    Parcel,
    PeerFrame,
    Piece,
    Proceed,
    Publish,
    Standing,
    Supply,
    Taken,
    Transfer,
    Untaken,
    Version,
    Want,
    Welcome,
)
from radiator.model.replies import Deliver, Receipt, Refuse, SendToPeer
from radiator.model.settings import Declarations, QueueSettings
from radiator.protocols.peer.fields import NUMBER_MAX
from radiator.protocols.peer.frame import Frames, encode
from radiator.protocols.peer.spec import AFTER_PROOF
from tests.campaigns.campaign import Campaign, Run, TooManyViolations
from tests.core.node import Node
from tests.core.words import ack, nack, send, subscribe
from tests.sim.disk import Platter

STEPS = 250  # of one history
LIES = 0.04  # of the words
PEERS = ("b", "c")
STORES = ("b" * 16, "c" * 16, "d" * 16)
QUEUES = ("work", "few", "w.1", "w.2", "local", "x", "$outbox/b", "w.#", "never")
NAMES = (*"abcdefg", "Z" * 64)
TOPICS = ("t.x", "t.x.y", "news", "system.peers")
PATTERNS = (*TOPICS[:2], "t.#", "#", "t.*", "*.*")
WILD = (0, 1, 2, 63, 64, 65, 2**31, 2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1)
TURN_MAX_S = 2.0
LARGE = (Parcel, Proceed, Piece)
LARGE_BYTES = 5 * MIB  # one copy of it has room at the least, two have none
LIMITS = Limits(max_destinations=40)


def declared() -> Declarations:
    return Declarations(
        queues={
            "few": QueueSettings(scope="cluster", max_messages=5, overflow="drop-oldest"),
            "work": QueueSettings(scope="cluster"),
            "x": QueueSettings(),
            "y": QueueSettings(),
        },
        queue_patterns=[("w.#", QueueSettings(scope="cluster", message_ttl_ms=60_000))],
        fanouts={"events": ("x", "y")},
        topics=["t.#"],
        cluster_fanouts=frozenset({"events"}),
        cluster_topics=frozenset({"t.#"}),
        create_queues=True,
        create_topics=True,
    )


class Bad:
    """One peer. number: of its link, 0 where there is none. sent: the bodies of what it was said, by sequence, and
    high: the last that it can have been said. granted: the most of each queue that it was, on this link; and came.
    room, cost: the bytes that it was granted, of queues and of copies, and those that came.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.own_epoch = 0
        self.sent: dict[int, bytes] = {}
        self.high = 0
        self.granted: dict[str, int] = {}
        self.came: Counter[str] = Counter()
        self.room, self.cost = [0, 0], [0, 0]
        self.parcels: dict[int, bytes] = {}  # bodies that go ahead, by the number that they are called by
        self.large: dict[int, bytes] = {}  # and those that it sends ahead


class History:
    """One node's life among them."""

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.case = f"history {number}"
        self.chance = Random(run.chance.randrange(1 << 62))
        self.peers = {name: Bad(name) for name in PEERS}
        self.next_link = 1000
        self.bodies = 0
        self.waiting: dict[bytes, tuple[str, ...]] = {}  # SENDs without a RECEIPT -> where they must be then
        self.due: dict[bytes, tuple[str, ...]] = {}
        self.acking: dict[bytes, tuple[str, bytes]] = {}  # receipt -> which message of which queue
        self.acked: Counter[tuple[str, bytes]] = Counter()
        self.taken: Counter[tuple[str, bytes]] = Counter()
        self.brought: set[bytes] = set()  # bodies that peers have handed over, as far as they know
        self.node = self.start(Platter(store_id="a" * 16))

    def start(self, platter: Platter) -> Node:
        peers: dict[str, settings.Address | None] = dict.fromkeys(PEERS)
        node = settings.Node(name="a", secret=b"secret", peers=peers, discover=self.chance.random() < 0.3)
        self.node = Node(deepcopy(declared()), LIMITS, platter, node=node, auto=False)
        self.unacked: list[tuple[str, Deliver]] = []
        self.subscribed: set[tuple[int, str]] = set()
        self.waiting.clear()
        self.acking.clear()
        self.node.open(1, 2, 3, 4, 5)  # 4 is the operator's; 5 sends to a queue that is soon full
        return self.node

    @property
    def cluster(self) -> Cluster:
        cluster = self.node.broker.cluster
        assert cluster is not None
        return cluster

    def wrong(self, sentence: str) -> None:
        self.run.violation(f"{self.case}: {sentence}")

    # ---- what happens -----------------------------------------------------------------------------------------------

    def go(self) -> None:
        chance = self.chance
        for _ in range(STEPS):
            deed = chance.choices(
                (
                    self.client,
                    self.link,
                    self.speak,
                    self.disk,
                    self.tick,
                    self.cut,
                    self.crash,
                    self.release,
                    self.operator,
                    self.overflow,
                ),
                (20, 6, 45, 25, 4, 1, 0.3, 0.5, 1, 4),
            )[0]
            deed()
            self.hear()
        self.look()

    def turn(self, events: list[Read]) -> None:
        began_s = time.perf_counter()
        self.node.turn(list(events))
        seconds = time.perf_counter() - began_s
        if seconds > TURN_MAX_S:
            self.wrong(f"a turn took {seconds:.1f} s.")

    def disk(self) -> None:
        for _ in range(self.chance.choice((1, 1, 2, 8))):
            self.node.step()

    def tick(self) -> None:
        node = self.node
        node.now_s += 0.25
        node.now_ms += 250
        is_tight = self.chance.random() < 0.1
        node.turn([Tick(0 if is_tight else GIB, 10**12 if is_tight else node.disk.used_bytes())])

    def client(self) -> None:
        chance, node = self.chance, self.node
        number = chance.choice((1, 2, 3))
        deed = chance.random()
        if deed < 0.45:
            body = b"m%d" % self.bodies + (bytes(70_000) if chance.random() < 0.1 else b"")
            self.bodies += 1
            to = chance.choice(("work", "work", "w.1", "/fanout/events", "/topic/t.x"))
            places = {"work": ("work",), "w.1": ("w.1",), "/fanout/events": ("x", "y", "$outbox/b", "$outbox/c")}
            self.waiting[body] = places.get(to, ())
            node.turn([Read(number, [send(number, to, body, receipt=body)])])
        elif deed < 0.6:
            to = chance.choice(("work", "w.1", "w.2", "x", "y", "/topic/t.#", "/topic/t.x"))
            if (number, to) not in self.subscribed:
                self.subscribed.add((number, to))
                node.turn([Read(number, [subscribe(number, to, prefetch_count=chance.choice((1, 5, 100)))])])
        elif self.unacked:
            queue, deliver = self.unacked.pop(chance.randrange(len(self.unacked)))
            if deed < 0.7:
                node.turn([Read(deliver.connection, [nack(deliver)])])
            else:
                receipt = b"ack%d" % self.bodies
                self.bodies += 1
                self.acking[receipt] = queue, deliver.message.body
                node.turn([Read(deliver.connection, [ack(deliver, receipt=receipt)])])

    def link(self) -> None:
        """A link opens, while another may be up; under another store now and then, or a strange name."""
        chance = self.chance
        bad = self.peers[chance.choice(PEERS)]
        if bad.number and chance.random() < 0.7:
            return
        number = self.next_link
        self.next_link += 1
        name = bad.name if chance.random() < 0.9 else chance.choice(NAMES)
        store_id = STORES[PEERS.index(bad.name)] if chance.random() < 0.93 else chance.choice(STORES)
        node = self.node
        node.inbox[number], node.delivers[number] = [], 0
        node.turn([Open(number, Identity(name, store_id, chance.random() < 0.5, "peer://h:1"))])
        if name == bad.name:
            peer = self.cluster.peers[name]
            if peer.link is not None and peer.link.connection.number == number:
                bad.number, bad.granted, bad.came = number, {}, Counter()
                bad.room, bad.cost = [0, 0], [0, 0]
                if not peer.out_offered:
                    bad.sent, bad.high = {}, 0  # for another store all begins anew

    def cut(self) -> None:
        bad = self.peers[self.chance.choice(PEERS)]
        if bad.number in self.node.inbox:
            self.close(bad.number)

    def close(self, number: int) -> None:
        self.node.turn([Closed(number)])
        self.node.delivers.pop(number, None)
        self.node.inbox.pop(number, None)
        for bad in self.peers.values():
            if bad.number == number:
                bad.number = 0

    def release(self) -> None:
        """The operator frees what is in doubt with a peer that is away: it may come twice."""
        bad = self.peers[self.chance.choice(PEERS)]
        peer = self.cluster.peers[bad.name]
        if peer.link is None or not peer.is_welcome:
            self.admin(b'{"do": "peer-release", "peer": "%b", "force": true}' % bad.name.encode())
            if not peer.doubts:
                bad.sent = {}

    def operator(self) -> None:
        """A queue of the cluster is purged or deleted, whatever is in doubt, granted or waiting."""
        deed, queue = self.chance.choice((b"purge", b"delete")), self.chance.choice((b"w.1", b"w.2", b"few"))
        self.admin(b'{"do": "%b", "queue": "%b"}' % (deed, queue))

    def admin(self, body: bytes) -> None:
        asked = Send(4, "/admin", b"", ESCAPING_ALL, body, reply_to="admin", correlation_id=b"1")
        self.node.turn([Read(4, [asked])])

    def overflow(self) -> None:
        """More for a queue that drops its oldest; refused where all of it is in doubt."""
        bodies = [b"few%d" % (self.bodies + number) for number in range(self.chance.choice((1, 6)))]
        self.bodies += len(bodies)
        self.node.turn([Read(5, [send(5, "few", body) for body in bodies])])

    def crash(self) -> None:
        """The power goes. What is in doubt on the disk may have been said, as far as the next run can know; what a peer
        had taken was not settled yet where it is still there.
        """
        platter = self.node.disk.platter
        for (queue, _), message in platter.messages.items():
            self.taken.pop((platter.queues[queue][0], message.body), None)
        for bad in self.peers.values():
            bad.number = 0
            row = platter.peers.get(bad.name)
            bad.high = row.out_offered if row is not None else 0
            bad.sent = {
                sequence: platter.messages[place].body
                for (name, sequence), place in platter.doubts.items()
                if name == bad.name
            }
        self.start(platter)

    # ---- what the peers say -----------------------------------------------------------------------------------------

    def speak(self) -> None:
        bad = self.peers[self.chance.choice(PEERS)]
        if bad.number not in self.node.inbox or self.cluster.peers[bad.name].link is None:
            return
        for _ in range(self.chance.choice((1, 1, 1, 3, 80))):
            word = self.word(bad)
            (heard,) = Frames(LIMITS, AFTER_PROOF).words(encode(word))
            self.say(bad, word, Read(bad.number, [PeerMessage(bad.number, heard)]))  # type: ignore[arg-type]
            if bad.number not in self.node.inbox or self.cluster.peers[bad.name].link is None:
                return

    def say(self, bad: Bad, word: PeerFrame, read: Read) -> None:
        """Say it, and judge whether it was believed."""
        peer = self.cluster.peers[bad.name]
        before = peer.in_last, peer.in_epoch
        has_doubts = bool(peer.doubts)
        coming = peer.link.incoming if peer.link is not None else None
        is_whole = coming is not None and coming.have == coming.size
        is_current = peer.link is not None and peer.link.connection.number == bad.number
        self.turn([read])
        while bad.number in self.node.broker.blocking.connections:
            self.node.step()  # what it said waits for the disk: it is not judged yet
        is_believed = is_current and peer.link is not None and peer.link.connection.number == bad.number
        if is_believed and isinstance(word, Taken | Welcome):
            if word.last > bad.high and (has_doubts or not isinstance(word, Welcome)):
                self.wrong(f"{bad.name} said {word}, which was believed, and was said {bad.high} at most.")
            for sequence in [s for s in bad.sent if s <= word.last]:
                body = bad.sent.pop(sequence)
                self.taken[self.place_of(bad, body), body] += 1
            if isinstance(word, Welcome):
                bad.sent.clear()
                bad.high = word.last
        if is_believed and isinstance(word, Transfer):
            if word.parcel:
                word = replace(word, message=replace(word.message, body=bad.large.get(word.parcel, b"")))
                if not is_whole:
                    self.wrong(f"{bad.name} handed over {word.message.body[:9]!r}, of which not all had come.")
            if (word.sequence, word.epoch) != (before[0] + 1, before[1]):
                self.wrong(f"{bad.name} said {word.sequence} of epoch {word.epoch}, where {before} were; it was taken.")
            self.brought.add(word.message.body)
            queue = word.destination.removeprefix("/queue/")
            queue = "" if queue.startswith("/") else queue
            bad.cost[not queue] += (word.message.size + LINK_COST_BYTES) * (1 if queue else 2)
            if bad.cost[not queue] > bad.room[not queue]:
                self.wrong(f"{bad.name} handed over {bad.cost} bytes, granted were {bad.room}.")
            bad.came[queue] += 1
            if bad.came[queue] > bad.granted.get(queue, 0):
                self.wrong(f"{bad.name} handed over {bad.came[queue]} of {queue!r}, granted were {bad.granted}.")
        self.hear()

    def place_of(self, bad: Bad, body: bytes) -> str:
        places = self.due.get(body, ()) or self.waiting.get(body, ())
        return f"$outbox/{bad.name}" if "x" in places else places[0] if places else ""

    def number(self, *likely: int) -> int:
        chance = self.chance
        near = [max(0, one + step) for one in likely for step in (-1, 0, 0, 0, 0, 1)]
        return min(chance.choice(near) if near and chance.random() < 0.85 else chance.choice(WILD), NUMBER_MAX)

    def right_word(self, bad: Bad) -> PeerFrame:
        """What an honest node could say now; but what it says of itself, and how far it lags, is as chance wants."""
        chance, peer, gossip = self.chance, self.cluster.peers[bad.name], self.cluster.gossip
        if not (peer.is_heard or peer.is_answered):
            return Hello(min(peer.in_epoch + 1, NUMBER_MAX), ["events"], [chance.choice((0, 1, 2, 1000))])
        if peer.is_greeted and not peer.is_welcome:
            return Welcome(peer.out_epoch, chance.randint(peer.out_taken, max(peer.out_taken, bad.high)))
        if bad.name not in gossip.answered:
            return Digest([Version(name, *known.version) for name, known in gossip.known.items()])
        deed = chance.random()
        if deed < 0.3 and peer.is_answered:
            fits = self.granted(bad)
            if fits and peer.in_last < peer.taken_sent + LINK_WINDOW:
                return self.transfer(bad, chance.choice(fits))
        if deed < 0.5 and peer.is_welcome and bad.high > peer.out_taken:
            return Taken(chance.randint(peer.out_taken, bad.high))
        if deed < 0.55:
            return Capacity(chance.random() < 0.5, chance.choice((2000, 50_000, 2**40)))
        if deed < 0.57:
            return Want(chance.random() < 0.5, chance.choice((1, 100_000)))
        if deed < 0.59 and peer.is_welcome:
            return Untaken(peer.out_epoch, chance.choice(("work", "w.1", "few")))
        if deed < 0.61 and peer.is_answered and peer.link is not None:
            return self.large(bad, peer.link)
        if deed < 0.65:
            return Credit(chance.choice(("", "work", "work", "w.1", "few")), chance.choice((1, 10, 100, 300)))
        if deed < 0.75:
            return Supply(
                chance.choice(("work", "w.1", "w.2")), chance.choice((0, 1, 100, NUMBER_MAX)), 1, chance.random() < 0.1
            )
        if deed < 0.85:
            return Demand(chance.choice(("work", "w.1", "w.2", "few")), [bad.name])
        return self.news(bad, 0) if deed < 0.93 else self.published(0)

    def large(self, bad: Bad, link: Link) -> PeerFrame:
        """What comes next of a large message: that there is one, its bytes, that they may come, or itself, which is
        too early now and then.
        """
        chance, coming, going, fits = self.chance, link.incoming, link.outgoing, self.granted(bad)
        if going is not None and not going.may_go:
            return Proceed(going.number, chance.randint(0, len(going.entry.message.body)))
        if coming is None or not coming.may_come or coming.number not in bad.large:
            number = len(bad.large) + 1
            body = bad.large[number] = b"h%d" % self.bodies + bytes(chance.choice((0, 70_000)))
            self.bodies += 1
            return Parcel("/queue/work", number, 1, 1, number, len(body))
        body = bad.large[coming.number]
        if fits and chance.random() < (0.9 if coming.have == coming.size else 0.05):
            word = self.transfer(bad, chance.choice(fits))
            return replace(word, message=replace(word.message, body=b""), parcel=coming.number)
        return Piece(coming.number, coming.have, body[coming.have : coming.have + PIECE_BYTES])

    def granted(self, bad: Bad) -> list[str]:
        """Where it may hand over to."""
        return [
            f"/queue/{name}" if name else "/fanout/events" for name in bad.granted if bad.came[name] < bad.granted[name]
        ]

    def word(self, bad: Bad) -> PeerFrame:
        chance = self.chance
        if chance.random() >= LIES:
            return self.right_word(bad)
        kind = chance.choices(
            (
                *(Hello, Welcome, Transfer, Taken, Untaken, Demand, Supply, Credit, Declared, Capacity, Want),
                *(Digest, NodeState, Publish, Standing, Answer),
                *LARGE,
            ),
            (4, 6, 10, 8, 4, 5, 5, 8, 3, 4, 4, 3, 5, 5, 3, 3, 3, 3, 3),
        )[0]
        if kind is Hello:
            bad.own_epoch = self.number(bad.own_epoch + 1, self.cluster.peers[bad.name].in_epoch + 1)
            if bad.own_epoch > 2**40 and chance.random() < 0.95:
                bad.own_epoch = self.cluster.peers[bad.name].in_epoch + 1  # nothing comes behind the greatest
            fanouts = chance.choice(([], ["events"], ["events"], ["none", "events"]))
            children = [min(self.number(1), LINK_CHILDREN_MAX) for _ in fanouts] if chance.random() < 0.9 else [1]
            return Hello(min(bad.own_epoch, NUMBER_MAX), fanouts, children)
        if kind is Welcome:
            return Welcome(self.number(self.cluster.peers[bad.name].out_epoch), self.last(bad))
        if kind is Taken:
            return Taken(self.last(bad))
        if kind is Untaken:
            return Untaken(self.number(self.cluster.peers[bad.name].out_epoch), chance.choice(QUEUES))
        if kind is Transfer:
            fits = self.granted(bad)
            return self.transfer(
                bad, chance.choice(fits) if fits and chance.random() < 0.7 else "", chance.random() < 0.7
            )
        queue = chance.choice(QUEUES)
        path = [bad.name, *chance.sample(NAMES, 3)][: chance.randint(1, QUEUE_HOPS_MAX)]
        if kind is Demand:
            return Demand(queue if queue != "w.#" else "work", path if chance.random() < 0.8 else path[::-1])
        if kind is Supply:
            return Supply(queue, self.number(0, 5), self.number(1, 2), chance.random() < 0.2)
        if kind is Credit:
            return Credit(chance.choice(("", "work", "work", queue)), self.number(1, 10, 300))
        if kind is Declared:
            return Declared(
                queue, chance.choice((["scope=node"], ["dead_letter=dead", "max_redeliveries=-1"], ["="], []))
            )
        if kind is Capacity:
            return Capacity(chance.random() < 0.5, self.number(0, 3000))
        if kind is Parcel:
            numbers = [self.number(1) for _ in range(5)]
            return Parcel(chance.choice(("/queue/work", "/fanout/events", "/queue/never")), *numbers)
        if kind is Proceed:
            return Proceed(self.number(1), self.number(0, 70_000))
        if kind is Piece:
            return Piece(self.number(1), self.number(0), chance.choice((b"", b"x", bytes(PIECE_BYTES))))
        if kind is Want:
            return Want(chance.random() < 0.5, self.number(0, 3000, 2**24))
        if kind is Standing:
            wanted = [f"t.y.{chance.randrange(5000)}" for _ in range(chance.choice((0, 1, 1000)))]
            counts = [chance.choice((0, 1, LINK_CHILDREN_MAX)) for _ in wanted[chance.random() < 0.1 :]]
            return Standing(chance.random() < 0.1, wanted, counts, wanted[:1] if chance.random() < 0.2 else [])
        if kind is Answer:
            node = chance.choice(NAMES)
            reply = Message(f"/reply-queue/{chance.choice(('', 'x@'))}{node}", b"", ESCAPING_ALL, b"p", 1, 0)
            return Answer(node, self.number(1, 16), reply)
        if kind is Digest:
            return Digest([self.version() for _ in range(chance.choice((0, 3, 100)))])
        return self.news(bad, 1) if kind is NodeState else self.published(1)

    def news(self, bad: Bad, lies: int) -> NodeState:
        chance = self.chance
        names = [f"n{chance.randrange(3000)}" for _ in range(chance.choice((0, 2, 30)))] + list(NAMES[:3])
        gone, wanted = chance.sample(NAMES, 2), chance.sample(PATTERNS, 2)
        address = chance.choice(("", "peer://h:1"))
        if lies:
            return NodeState(self.version(), chance.random() < 0.9, names, gone, wanted, list(PATTERNS[-1:]), address)
        origin = chance.choice((bad.name, *NAMES[1:], f"n{chance.randrange(3000)}"))
        known = self.cluster.gossip.known.get(origin)
        version = Version(origin, *known.version) if known is not None else Version(origin, 1, 0)
        version.number = min(version.number + 1, NUMBER_MAX)
        return NodeState(
            version, known is None or chance.random() < 0.5, names, gone, wanted, list(PATTERNS[-1:]), address
        )

    def published(self, lies: int) -> Publish:
        chance = self.chance
        topic = Message(f"/topic/{chance.choice(TOPICS)}", b"", ESCAPING_ALL, b"p", 1, 0)
        origin = chance.choice(NAMES)
        known = self.cluster.gossip.known.get(origin)
        life, sequence = (known.incarnation, known.sequence + 1) if known is not None else (1, 1)
        if not lies:
            return Publish(origin, life, min(sequence, NUMBER_MAX), 1, b"a-1-1t", topic)
        hops = self.number(1, 16)
        return Publish(origin, self.number(life), self.number(sequence), hops, b"a-1-1t", topic)

    def last(self, bad: Bad) -> int:
        peer = self.cluster.peers[bad.name]
        return self.number(peer.out_taken, bad.high, peer.out_offered, peer.out_offered + 1)

    def version(self) -> Version:
        origin = self.chance.choice((*NAMES, f"n{self.chance.randrange(3000)}"))
        known = self.cluster.gossip.known.get(origin)
        life, number = known.version if known is not None else (1, 1)
        return Version(origin, self.number(life), self.number(number + 1))

    def transfer(self, bad: Bad, right: str = "", is_gap: bool = False) -> Transfer:
        chance, peer = self.chance, self.cluster.peers[bad.name]
        body = b"h%d" % self.bodies + (bytes(LARGE_BYTES) if chance.random() < 0.02 else b"")
        self.bodies += 1
        to = right or chance.choice(
            ("/queue/work", "/queue/work", "/fanout/events", "/queue/w.1", "/queue/local", "/fanout/x")
        )
        expires_ms = chance.choice((0, 0, 0, 1, 2**40))
        message = Message(to, b"a:b\n", ESCAPING_ALL, body, chance.choice((0, 1, 2**40)), expires_ms)
        path = [bad.name, *chance.sample(NAMES, 3)][: chance.randint(1, QUEUE_HOPS_MAX)]
        epoch = peer.in_epoch if right or chance.random() < 0.8 else self.number(peer.in_epoch)
        sequence = self.number(peer.in_last, peer.in_last + 2) if is_gap else peer.in_last + 1
        return Transfer(epoch, sequence, to, message, path, chance.choice((0, 1, 2**31 - 1)), False, self.number(0, 3))

    # ---- what is heard ----------------------------------------------------------------------------------------------

    def hear(self) -> None:
        for number in list(self.node.inbox):
            for reply in self.node.take(number):
                if isinstance(reply, Receipt):
                    self.receipt(reply.receipt)
                elif isinstance(reply, Deliver) and reply.message.destination[:7] != "/topic/":
                    self.delivered(reply)
                elif isinstance(reply, SendToPeer):
                    self.heard(number, reply.word)
                elif isinstance(reply, Refuse):
                    if number < 1000 and reply.code != "queue-full":
                        self.wrong(f"client {number} was refused: {reply.sentence}")
                    self.close(number)
                    if number < 1000:
                        self.node.open(number)
                    break

    def receipt(self, receipt: bytes) -> None:
        if receipt in self.waiting:
            self.due[receipt] = self.waiting.pop(receipt)
        else:
            self.acked[self.acking.pop(receipt)] += 1

    def delivered(self, deliver: Deliver) -> None:
        queue = (deliver.subscription or b"").decode()
        body = deliver.message.body
        if queue == "/temp-queue/admin":
            return
        if self.acked[queue, body] or self.taken[queue, body]:
            self.wrong(f"{body!r} of {queue} was acked, or taken by a peer, and is delivered again.")
        if body[:1] == b"h" and body not in self.brought:
            self.wrong(f"{body!r} was refused, and is delivered.")
        self.unacked.append((queue, deliver))

    def heard(self, number: int, word: PeerFrame) -> None:
        list(Frames(LIMITS, AFTER_PROOF).words(encode(word)))  # what others make it say must be legal too
        for bad in self.peers.values():
            if bad.number == number and isinstance(word, Capacity):
                bad.room[word.is_copies] = word.through
            going = self.cluster.peers[bad.name].link
            if isinstance(word, Parcel) and bad.number == number and going is not None and going.outgoing is not None:
                bad.parcels[going.outgoing.number] = going.outgoing.entry.message.body
            if bad.number == number and isinstance(word, Credit):
                bad.granted[word.queue] = max(word.through, bad.granted.get(word.queue, 0))
            if bad.number == number and isinstance(word, Transfer):
                if word.message.expires_ms == 0:
                    bad.sent[word.sequence] = bad.parcels[word.parcel] if word.parcel else word.message.body
                bad.high = max(bad.high, word.sequence)
                if len(self.cluster.peers[bad.name].doubts) > LINK_WINDOW:
                    self.wrong("more is in doubt than the window lets.")

    # ---- the judge --------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """At the end: where everything is, on the disk of a node that has come to rest; and after a crash."""
        node = self.node
        for number in [number for number in node.inbox if number >= 1000]:
            self.close(number)
        for _ in range(1000):
            if not node.step():
                break
        self.hear()
        self.bounds()
        for queue in node.broker.destinations.queues.everything():
            if not queue.ledger.adds_up():
                self.wrong(f"the ledger of {queue.name} does not add up: {queue.ledger}.")
        self.books(node)
        self.books(node.crashed())

    def books(self, node: Node) -> None:
        p = node.disk.platter
        stored = Counter((p.queues[queue][0], message.body) for (queue, _), message in p.messages.items())
        for place in stored:
            if stored[place] > 1:
                self.wrong(f"{place} is stored {stored[place]} times.")
            if self.acked[place] or self.taken[place]:
                self.wrong(f"{place} was acked, or taken by a peer, and is stored.")
        for body, places in self.due.items():
            for place in places:
                if place != "w.1" and not (stored[place, body] or self.acked[place, body] or self.taken[place, body]):
                    self.wrong(f"{body!r} of {place} was receipted, and is lost.")

    def bounds(self) -> None:
        """Whatever a peer can make grow."""
        parcels = self.cluster.parcels
        if parcels.held_bytes > LINK_PARTS_BYTES or any(one.until_s == 0 for one in parcels.kept.values()):
            self.wrong(f"{parcels.held_bytes} bytes are held of what is not whole.")
        if self.node.broker.admission.promised_bytes:
            self.wrong(f"{self.node.broker.admission.promised_bytes} bytes are promised, and nobody is linked.")
        cluster, gossip = self.cluster, self.cluster.gossip
        count = LIMITS.max_destinations + len(self.cluster.outboxes)
        found = {
            "queues": (len(self.node.broker.destinations.queues.everything()), count),
            "peers": (len(cluster.peers), NODES_MAX),
            "nodes to dial": (len(cluster.links.known), NODES_MAX),
            "nodes known": (len(gossip.known), NODES_MAX),
            "claims": (len(gossip.claims), NODES_MAX),
            "routes": (len(gossip.routes), ROUTES_KEPT),
            "trees": (len(gossip.trees), TREES_KEPT),
            "unreachable": (len(gossip.unreachable), NODES_MAX),
            "patterns": (sum(len(k.patterns) for n, k in gossip.known.items() if n != "a"), PATTERNS_MAX),
            "hand-overs that wait": (len(cluster.handover.waiting), 2 * count),
            "shares": (len(cluster.shares.all), count),
        }
        for share in cluster.shares.all.values():
            for part in (share, share.neighbours):
                for name in part.__slots__:
                    held = getattr(part, name)
                    if isinstance(held, dict | set | list):
                        most = NODES_MAX if name == "passed_s" else len(cluster.peers)
                        found[f"{name} of {share.queue.name}"] = len(held), most
        for peer in cluster.peers.values():
            found[f"in doubt with {peer.name}"] = len(peer.doubts), LINK_WINDOW
            found[f"waiting for {peer.name}"] = len(peer.waiting), count + 1
        for what, (size, most) in found.items():
            if size > most:
                self.wrong(f"{size} {what}, where {most} may be.")


def hostile(run: Run) -> None:
    while not run.is_over:
        history = History(run, run.done)
        try:
            history.go()
        except TooManyViolations:
            raise
        except Exception:  # noqa: BLE001 - nothing that a peer says may get so far
            run.violation(f"{history.case}: {traceback.format_exc()}")
        run.figures["believed"] = int(run.figures.get("believed", 0)) + sum(history.taken.values())
        run.figures["brought"] = int(run.figures.get("brought", 0)) + len(history.brought)
        run.case()


CAMPAIGNS = (
    Campaign(
        number="S33b",
        name="hostile-peer",
        title="a core among peers that say any words in any order",
        unit="histories",
        run=hostile,
        cases=(100, 20_000, 200_000),
        mutants=(
            "last-not-checked",
            "sequence-gap-accepted",
            "grant-not-checked",
            "last-believed-before-it-was-said",
            "copies-cost-one",
            "half-a-body-believed",
        ),
        mutant_cases=300,
        quick_mutants=2,
    ),
)
