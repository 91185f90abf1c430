"""One random history of 1 to 5 nodes: their cables, disks and clocks, and clients at each of them, all from one seed.

Everything that may befall one node does (history.py); and cables are cut, held open on one side, mute or slow, while
diallers lay new ones. Afterwards there are no faults any more, and what was promised is judged: queues and fanouts by
the books in custody.py; topics as they come (crowd.py), and once more when all is quiet: every subscriber anywhere gets
what is published then, and no link carries what nobody behind it wants.

It sees only the core, and in some histories the bytes of its words: sessions, sockets, threads and LMDB are no part
of it.
"""

import sys
import traceback
from collections import deque
from random import Random

import pytest

from radiator.core.turn import Note
from radiator.model import settings
from radiator.model.commands import Send
from radiator.model.limits import MIB, PATH_HOPS_MAX, Limits
from radiator.model.peer import PeerFrame, Publish
from radiator.model.settings import CLUSTER, JOURNAL, Address, Declarations, LogSettings, QueueSettings
from radiator.protocols.peer.frame import Frames, encode
from radiator.protocols.peer.spec import AFTER_PROOF
from tests.sim.bindings import Routes
from tests.sim.books import Books, Client
from tests.sim.cable import Cable, Dialler, End
from tests.sim.crowd import CLUSTER_TOPICS, Keeper, Poster, Publisher, Subscriber, Wanderer, Worker
from tests.sim.custody import CHILDREN, LOCAL, WORK, Custody
from tests.sim.disk import Platter
from tests.sim.history import drawn_bounds
from tests.sim.simulation import Scheduler, SimNode

NAMES = "abcde"
JOBS = ["work", "work", "work", "frail", "brief", "all", "all"]
TOPICS = ["t.a", "t.b", "t.b.c", "local"]
PATTERNS = ["t.a", "t.*", "t.#", "#", "t.b.*", "*.a", "local"]
FAULTS_S = 0.8
ALONE_S = 4.0  # how long one consumer alone has for all the work of the mesh
MOVES_S = 5.0  # so soon a free consumer gets what is anywhere
END_S = 40.0
SETTLED_S = 1.5  # how long the last changes may take until everybody has heard of them
WORDS_MAX = 100  # of one link within SETTLED_S of quiet
DAY_MS = 86_400_000
WIRE_LIMITS = Limits()


def drawn_graph(random: Random, names: str) -> list[tuple[str, str]]:
    """Who is linked with whom."""
    pairs = [(one, other) for index, one in enumerate(names) for other in names[index + 1 :]]
    chain = [*zip(names, names[1:], strict=False)]
    shape = random.choice(["chain", "ring", "star", "full", "full", "any"])
    if shape == "chain":
        return chain
    if shape == "ring":
        return chain + ([(names[0], names[-1])] if len(names) > 2 else [])
    if shape == "star":
        return [(names[0], other) for other in names[1:]]
    if shape == "full":
        return pairs
    return chain + [pair for pair in pairs if pair not in chain and random.random() < 0.5]


def drawn_link_bounds(random: Random) -> dict[str, int]:
    if random.random() < 0.2:
        return {}
    return {
        "LINK_WINDOW": random.choice([1, 2, 64]),
        "LINK_CREDIT_MAX": random.choice([1, 2, 256]),
        "LINK_OUTBOX_BYTES": random.choice([1, 2000, 16 * MIB]),
        "PATH_HOPS_MAX": random.choice([4, 4, PATH_HOPS_MAX]),
        "NODE_PATTERNS_MAX": random.choice([1, 4096, 4096]),
    }


def drawn_lists(random: Random, choices: list[str], least: int, most: int) -> list[list[str]]:
    """For each of one to three clients what it is about."""
    return [random.choices(choices, k=random.randrange(least, most)) for _ in range(random.randrange(1, 4))]


def shrink_everywhere(patch: pytest.MonkeyPatch, bounds: dict[str, int]) -> None:
    """Set bounds of radiator/model/limits.py in every module of the core that uses them."""
    modules = [module for name, module in sys.modules.items() if name.startswith("radiator.core.")]
    for name, value in bounds.items():
        for module in modules:
            if hasattr(module, name):
                patch.setattr(module, name, value)


class Mesh:
    """Runs as it is made. `mistakes` must be empty then. has_journal: each node holds its commits against its own."""

    def __init__(self, seed: int, is_traced: bool = False, has_journal: bool = False) -> None:
        self.has_journal = has_journal
        self.scheduler = Scheduler(seed, is_traced)
        random = self.scheduler.random
        self.books = Books(Routes(), lambda: self.scheduler.now_s)
        self.mistakes = self.books.mistakes
        self.words = 0
        self.publishes: list[tuple[str, str, bytes]] = []
        self.cables: list[Cable] = []
        self.is_encoded = random.random() < 0.1
        with pytest.MonkeyPatch.context() as patch:
            bounds = drawn_bounds(random) | drawn_link_bounds(random)
            self.is_exact = bounds.get("NODE_PATTERNS_MAX", 2) > 1  # where nodes do not ask for all topics
            self.hops_max = bounds.get("PATH_HOPS_MAX", PATH_HOPS_MAX)
            shrink_everywhere(patch, bounds)
            try:
                self.draw(random)
                self.play()
            except Exception:  # noqa: BLE001 - whatever leaves the core ends a broker
                self.mistakes.append(f"a broker would have ended: {traceback.format_exc()}")

    # ---- what is drawn ----------------------------------------------------------------------------------------------

    def draw(self, random: Random) -> None:
        names = NAMES[: random.choices([1, 2, 3, 4, 5], [1, 6, 6, 4, 3])[0]]
        self.graph = drawn_graph(random, names)
        self.neighbours = {name: {b if a == name else a for a, b in self.graph if name in (a, b)} for name in names}
        self.queues = {
            "work": QueueSettings(scope=CLUSTER),
            "frail": QueueSettings(scope=CLUSTER, dead_letter="dead", max_redeliveries=random.choice([0, 1, 2, 5])),
            "brief": QueueSettings(scope=CLUSTER, message_ttl_ms=random.choice([50, 400])),
        } | {name: QueueSettings() for name in LOCAL}
        self.custody = Custody(self.queues, self.hops_max, self.mistakes)
        self.declarations = Declarations(
            queues=self.queues,
            fanouts={"all": CHILDREN},
            cluster_fanouts=frozenset({"all"}),
            topics=[CLUSTER_TOPICS, "local"],
            cluster_topics=frozenset({CLUSTER_TOPICS}),
            logs={JOURNAL: LogSettings(retention_ms=None)} if self.has_journal else {},
            has_journal=self.has_journal,
        )
        self.nodes = {name: self.drawn_node(random, name) for name in names}
        self.delay_s = random.choice([0.0005, 0.002, 0.02])
        self.diallers = [dialler for pair in self.graph for dialler in self.drawn_diallers(random, *pair)]
        self.draw_clients(random)
        self.draw_faults(random)

    def drawn_node(self, random: Random, name: str) -> SimNode:
        peers: dict[str, Address | None] = {
            other: Address("peer", other, settings.PEER_PORT) for other in sorted(self.neighbours[name])
        }
        limits = Limits(block_timeout_s=random.choice([0.5, 5, 60]), outbox_max_bytes=random.choice([1, 4000, 4 * MIB]))
        listen = Address("peer", name, settings.PEER_PORT)
        us = settings.Node(name=name, listen=listen, secret=b"secret", peers=peers)
        node = SimNode(
            self.scheduler, name, self.declarations, limits, us, Platter(f"{name * 16}"), random.uniform(0, 1000)
        )
        node.commit_s = random.choice([0.0005, 0.003, 0.02])
        node.stall_share = random.choice([0.0, 0.0, 0.05])
        node.load_s = random.choice([0.0005, 0.003, 0.02])
        node.write_s = random.choice([0.0005, 0.001, 0.03])
        node.load_fails_share = random.choice([0.0, 0.0, 0.02])
        node.on_deliver = lambda deliver: self.custody.handed(node, deliver)
        node.on_commit = lambda batch: self.custody.committed(node, batch)
        node.on_note = lambda note: self.noted(node, note)
        return node

    def noted(self, node: SimNode, note: Note) -> None:
        """Nobody here breaks the rules of links, so nobody may say that somebody does."""
        if note.event in ("link_error", "peer_store_changed"):
            self.mistakes.append(f"{note.event}: {node.name} says {note.fields}")

    def drawn_diallers(self, random: Random, one: str, other: str) -> list[Dialler]:
        ways = random.choice([[(one, other)], [(other, one)], [(one, other), (other, one)]])
        is_blind = random.random() < 0.3
        return [
            Dialler(self.scheduler, self.nodes[a], self.nodes[b], 0.03, is_blind, self.lay, self.cables)
            for a, b in ways
        ]

    def lay(self, dialler: SimNode, acceptor: SimNode) -> Cable:
        cable = Cable(self.scheduler, dialler, acceptor, self.delay_s, self.heard)
        self.cables[:] = [old for old in self.cables if not old.is_over] + [cable]
        return cable

    def heard(self, end: End, word: PeerFrame) -> PeerFrame:
        """Every word on every cable."""
        self.words += 1
        if self.is_encoded:
            (again,) = Frames(WIRE_LIMITS, AFTER_PROOF).words(encode(word))
            if again != word:
                self.mistakes.append(f"wire: {word} came as {again}")
            word = again
        self.scheduler.trace(end.node.name, end.other.node.name, word)
        if isinstance(word, Publish):
            self.publishes.append((end.node.name, end.other.node.name, word.message.body))
        return word

    def draw_clients(self, random: Random) -> None:
        scheduler, books, custody, nodes = self.scheduler, self.books, self.custody, [*self.nodes.values()]
        self.posters = [
            Poster(scheduler, random.choice(nodes), books, custody, b"p%d" % n, jobs)
            for n, jobs in enumerate(drawn_lists(random, JOBS, 1, 8))
        ]
        self.workers = [
            Worker(scheduler, random.choice(nodes), books, custody, b"w%d" % n, tuple(dict.fromkeys(queues)))
            for n, queues in enumerate(drawn_lists(random, [*WORK, *LOCAL], 2, 6))
        ]
        self.publishers = [
            Publisher(scheduler, random.choice(nodes), books, b"t%d" % n, topics)
            for n, topics in enumerate(drawn_lists(random, TOPICS, 2, 16))
        ]
        if random.random() < 0.3:
            self.workers.append(Wanderer(scheduler, nodes, books, custody, b"wanderer", random.randrange(1, 8)))
        self.homes = {publisher.name: publisher.node.name for publisher in self.publishers}
        self.subscribers = [self.drawn_subscriber(random, b"s%d" % n) for n in range(random.randrange(2, 6))]
        self.keepers = [
            Keeper(scheduler, random.choice(nodes), books, b"k%d" % n, random.choice(PATTERNS[:3] + PATTERNS[4:]))
            for n in range(random.randrange(3))
        ]
        self.clients: list[Client] = [
            *self.posters, *self.workers, *self.publishers, *self.subscribers, *self.keepers
        ]  # fmt: skip

    def drawn_subscriber(self, random: Random, name: bytes) -> Subscriber:
        node = random.choice([*self.nodes.values()])
        return Subscriber(self.scheduler, node, self.books, name, random.choice(PATTERNS), self.homes.__getitem__)

    def draw_faults(self, random: Random) -> None:
        nodes = [*self.nodes.values()]
        for _ in range(random.randrange(3)):
            node = random.choice(nodes)
            way = random.choice([node.crash, node.crash, node.stop])
            self.during_the_faults(lambda way=way, node=node: way() if node.is_up else None)  # type: ignore[misc]
        for _ in range(random.randrange(3)):
            client = random.choice(self.clients)
            self.during_the_faults(lambda c=client: c.link.cut() if c.link else None)  # type: ignore[misc]
        for _ in range(random.randrange(5) if self.graph else 0):
            self.during_the_faults(self.harm_a_cable)
        for _ in range(random.choice([0, 0, 1])):
            node, jump_ms = random.choice(nodes), random.randrange(-DAY_MS, DAY_MS)
            self.during_the_faults(lambda node=node, jump_ms=jump_ms: self.set_clock(node, jump_ms))  # type: ignore[misc]
        for _ in range(random.choice([0, 0, 1])):
            node, self.custody.may_travel = random.choice(nodes), True
            self.during_the_faults(lambda node=node: self.drain(node, stop=False))  # type: ignore[misc]
        for subscriber in self.subscribers:
            if random.random() < 0.3:
                pattern = random.choice([*PATTERNS, None])
                self.during_the_faults(lambda s=subscriber, pattern=pattern: s.change(pattern))  # type: ignore[misc]

    def set_clock(self, node: SimNode, ahead_ms: int) -> None:
        latest_ms = self.custody.latest_ms
        latest_ms[node.name] = max(latest_ms.get(node.name, 0), node.now_ms)
        node.set_clock(ahead_ms)

    def during_the_faults(self, what) -> None:  # type: ignore[no-untyped-def]
        self.scheduler.after(self.scheduler.random.uniform(0, FAULTS_S), what)

    def harm_a_cable(self) -> None:
        random = self.scheduler.random
        cables = [cable for cable in self.cables if not cable.is_over]
        if not cables:
            return
        cable, side, for_s = random.choice(cables), random.randrange(2), random.uniform(0.05, 0.4)
        self.scheduler.trace("harm", cable.ends[0].node.name, cable.ends[1].node.name)
        match random.randrange(5):
            case 0:
                cable.cut(random.choice([0.01, 0.3]))
            case 1:
                cable.half_open(side, for_s)
            case 2:
                cable.silence(side, for_s)
            case 3:
                cable.stall(side, for_s)
            case 4:  # a partition: and no new one for a while
                cable.cut()
                pair = {end.node.name for end in cable.ends}
                for dialler in self.diallers:
                    if {dialler.node.name, dialler.to.name} == pair:
                        dialler.blocked_until_s = self.scheduler.now_s + for_s

    def drain(self, node: SimNode, stop: bool) -> None:
        """What `radiator drain` says."""
        body = b'{"do": "drain", "stop": %b}' % (b"true" if stop else b"false")
        link = node.connect(lambda reply: None)
        if link is not None:
            link.say(Send(link.number, "/admin", b"", 2, body))

    # ---- what happens -----------------------------------------------------------------------------------------------

    def play(self) -> None:
        scheduler = self.scheduler
        scheduler.run(FAULTS_S)
        # from here on no faults: whoever is left must be able to finish
        nodes = [*self.nodes.values()]
        for node in nodes:
            node.stall_share = node.load_fails_share = 0.0
            if node.wall_ahead_ms:
                self.set_clock(node, DAY_MS)  # nothing that is kept back has to wait for long
            # and once more: a word that was said before may come later, on a connection of its own
            self.drain(node, stop=True)
            self.scheduler.after(0.2, lambda node=node: self.drain(node, stop=True))  # type: ignore[misc]
        for dialler in self.diallers:
            dialler.again_s = 0.2
        for worker in self.workers:
            worker.is_careful = True
        for keeper in self.keepers:
            keeper.is_steady = True
        for node in nodes:
            self.careful_worker(node, b"local", LOCAL)
        self.careful_worker(scheduler.random.choice(nodes), b"alone", WORK)
        self.run_until_done(FAULTS_S + ALONE_S)
        while not self.is_done and self.something_moves():
            pass  # slow disks, far ways: it comes
        if not self.is_done:
            self.judge_alone()
            for node in nodes:
                self.careful_worker(node, b"rest", WORK)
            self.run_until_done(END_S)
        self.judge_work()
        if not self.mistakes:
            self.settle()
            for _ in range(2):
                self.publish_in_quiet()
            if self.graph and not self.mistakes:
                self.lose_a_link()
                self.publish_in_quiet()

    def careful_worker(self, node: SimNode, name: bytes, queues: tuple[str, ...]) -> None:
        worker = Worker(self.scheduler, node, self.books, self.custody, name, queues)
        worker.is_careful = True
        self.clients.append(worker)

    def run_until_done(self, until_s: float) -> None:
        while self.scheduler.now_s < until_s and not self.is_done:
            self.scheduler.run(self.scheduler.now_s + 0.25)

    def something_moves(self) -> bool:
        """Whether a message comes any nearer to its consumer in the next MOVES_S."""
        before = self.custody.deliveries, self.custody.handed_over
        self.run_until_done(self.scheduler.now_s + MOVES_S)
        return before != (self.custody.deliveries, self.custody.handed_over)

    @property
    def is_done(self) -> bool:
        found = all(poster.is_done for poster in self.posters) and all(keeper.is_known for keeper in self.keepers)
        return found and not any(self.is_busy(node) for node in self.nodes.values())

    def is_busy(self, node: SimNode) -> bool:
        platter = node.disk.platter
        return not node.is_up or bool(platter.messages) or bool(platter.delayed) or bool(platter.doubts)

    def judge_alone(self) -> None:
        """One consumer somewhere gets it all, however far it has travelled."""
        for node in self.nodes.values():
            platter = node.disk.platter
            for (queue, _), message in platter.messages.items():
                name, path = platter.queues[queue][0], message.node_path
                if name in WORK:
                    self.mistakes.append(
                        f"stuck: {message.body!r} in {name} of {node.name}, by {path}, nobody takes it"
                    )

    def judge_work(self) -> None:
        for poster in self.posters:
            if not poster.is_done:
                self.mistakes.append(f"stuck: {poster.name!r} has {len(poster.waiting)} without receipt")
        self.custody.judge([*self.nodes.values()], self.neighbours, self.scheduler.now_s)

    def settle(self) -> None:
        """Some who were subscribed are no more; then nothing happens, and nodes have little to say of it."""
        random, scheduler = self.scheduler.random, self.scheduler
        for subscriber in self.subscribers:
            if random.random() < 0.4:
                subscriber.change(random.choice([*PATTERNS, None]))
        for keeper in self.keepers:
            keeper.is_away = random.random() < 0.5
            if not keeper.is_known:
                self.mistakes.append(f"stuck: {keeper.name!r} could never subscribe")
            elif keeper.is_away and keeper.link is not None:
                keeper.link.cut()
        scheduler.run(scheduler.now_s + SETTLED_S)
        words = self.words
        scheduler.run(scheduler.now_s + SETTLED_S)
        if self.words - words > WORDS_MAX * len(self.graph):
            self.mistakes.append(f"chatter: {self.words - words} words in {SETTLED_S} s of quiet")
        self.linked = {tuple(sorted(end.node.name for end in c.ends)) for c in self.cables if not c.is_over}
        for pair in self.graph:
            if tuple(sorted(pair)) not in self.linked:
                self.mistakes.append(f"not linked: {pair}")

    def lose_a_link(self) -> None:
        """For good, and only one end knows: it is enough for everybody to go around."""
        random, scheduler = self.scheduler.random, self.scheduler
        one, other = random.choice(self.graph)
        deaf = random.choice([one, other])
        for dialler in self.diallers:
            if {dialler.node.name, dialler.to.name} == {one, other}:
                dialler.blocked_until_s = END_S * 2
        for cable in self.cables:
            ends = [end.node.name for end in cable.ends]
            if not cable.is_over and {*ends} == {one, other}:
                cable.half_open(ends.index(deaf), END_S)
        self.neighbours[one].discard(other)
        self.neighbours[other].discard(one)
        scheduler.run(scheduler.now_s + SETTLED_S)

    # ---- topics in quiet --------------------------------------------------------------------------------------------

    def publish_in_quiet(self) -> None:
        """Everybody who wants it gets it, by the shortest ways, and only they."""
        random = self.scheduler.random
        publisher, topic = random.choice(self.publishers), random.choice(TOPICS)
        if publisher.link is None:
            self.mistakes.append(f"{publisher.name!r} is not connected, long after the last fault")
            return
        self.publishes.clear()
        dropped = self.dropped
        body = publisher.publish(topic)
        self.scheduler.run(self.scheduler.now_s + 0.8)
        if self.dropped > dropped:
            return  # one was busy with something else
        origin = publisher.node.name
        there = self.distances(origin)
        wanting = [s for s in self.subscribers if s.wants(topic, origin) and s.node.name in there]
        for subscriber in wanting:
            if body not in subscriber.heard.bodies:
                where = f"{subscriber.name!r} at {subscriber.node.name} ({subscriber.pattern})"
                self.mistakes.append(f"missed: {body!r} of {origin} did not come to {where}; links: {self.publishes}")
        keeping = [k for k in self.keepers if k.wants(topic, origin) and k.node.name in there]
        for keeper in keeping:
            if not keeper.has(body) and not self.waits_for(keeper.node.name, origin, body):
                where = f"{keeper.name!r} at {keeper.node.name} (durable, {keeper.pattern}; away: {keeper.is_away})"
                self.mistakes.append(f"missed: {body!r} of {origin} is not kept for {where}; links: {self.publishes}")
        self.judge_ways(origin, body, {client.node.name for client in [*wanting, *keeping]})

    def waits_for(self, name: str, origin: str, body: bytes) -> bool:
        """Whether there is a copy of it that waits for that node to be linked, which it is not."""
        platter = self.nodes[origin].disk.platter
        outbox = f"$outbox/{name}"
        return name not in self.neighbours[origin] and any(
            message.body == body and platter.queues[queue][0] == outbox
            for (queue, _), message in platter.messages.items()
        )

    @property
    def dropped(self) -> int:
        """Of topics, for links and subscribers whose buffers take a byte or two: who listens to `#` hears of the node
        too, each second that a copy waits for one that is not linked.
        """
        names = ("topic_messages_dropped", "slow_topic_subscribers")
        return sum(node.broker.context.counters.get(name, 0) for node in self.nodes.values() for name in names)

    def judge_ways(self, origin: str, body: bytes, wanting: set[str]) -> None:
        distances = self.distances(origin)  # of those whom it can reach: what is said to others is lost
        ways = [(one, other) for one, other, which in self.publishes if which == body and other in distances]
        came_from = {other: one for one, other in ways}
        if len(came_from) < len(ways) or origin in came_from:
            self.mistakes.append(f"topic twice: {body!r} of {origin} went {ways}")
            return
        for one, other in ways:
            if distances[other] != distances[one] + 1:
                self.mistakes.append(f"detour: {body!r} of {origin} went {ways}")
        if not self.is_exact or len(distances) < len(self.nodes):
            return  # who is cut off is not heard of: it may be wanted there still
        for leaf in came_from.keys() - {*came_from.values()} - wanting:
            self.mistakes.append(f"stale interest: {body!r} of {origin} went {ways}, and {leaf} does not want it")

    def distances(self, origin: str) -> dict[str, int]:
        found, waiting = {origin: 0}, deque([origin])
        while waiting:
            one = waiting.popleft()
            for other in self.neighbours[one]:
                if other not in found:
                    found[other] = found[one] + 1
                    waiting.append(other)
        return found
