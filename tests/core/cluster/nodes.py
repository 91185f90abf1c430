"""Whole brokers linked with each other: words are carried when a test says so, and lost where it cuts a link."""

from collections.abc import Callable
from copy import deepcopy
from itertools import combinations, count

from radiator.core.cluster.cluster import Cluster
from radiator.model import settings
from radiator.model.commands import Fail, Open, PeerMessage, Read
from radiator.model.limits import Limits
from radiator.model.peer import Identity, PeerFrame
from radiator.model.replies import Bye, Refuse, SendToPeer
from radiator.model.settings import Declarations, QueueSettings
from radiator.protocols.peer.frame import Frames, encode
from radiator.protocols.peer.spec import AFTER_PROOF
from tests.core.node import Node
from tests.sim.disk import Platter

FIRST_LINK = 1000  # connections of a test's clients have smaller numbers


def declared(**queues: QueueSettings) -> Declarations:
    """A queue `work` and a fanout `events` (children x and y) of scope cluster; topics `t.#` too; the rest is local."""
    return Declarations(
        queues={"work": QueueSettings(scope="cluster"), "x": QueueSettings(), "y": QueueSettings(), **queues},
        fanouts={"events": ("x", "y")},
        topics=["t.#"],
        cluster_fanouts=frozenset({"events"}),
        cluster_topics=frozenset({"t.#"}),
        create_queues=True,
        create_topics=True,
    )


class Nodes:
    """Nodes by their names, which are one letter each; `links`: pairs of names, or None: everybody with everybody.
    node_type: makes each.
    """

    node_type: Callable[..., Node] = Node

    def __init__(
        self,
        names: str,
        links: str | None = None,
        declarations: Declarations | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.pairs = [tuple(pair) for pair in links.split()] if links is not None else list(combinations(names, 2))
        self.declarations = declarations or declared()
        self.limits = limits or Limits()
        self.numbers = count(FIRST_LINK)
        self.ends: dict[tuple[str, int], tuple[str, int]] = {}
        self.heard: list[tuple[str, str, PeerFrame]] = []
        self.at: dict[str, Node] = {}
        for name in names:
            self.start(name, Platter(store_id=name * 16))
        for one, other in self.pairs:
            self.link(one, other)
        self.run()

    def __getitem__(self, name: str) -> Node:
        return self.at[name]

    def cluster(self, name: str) -> Cluster:
        cluster = self.at[name].broker.cluster
        assert cluster is not None
        return cluster

    def start(self, name: str, platter: Platter) -> None:
        peers: dict[str, settings.Address | None] = {
            other: None for pair in self.pairs if name in pair for other in pair if other != name
        }
        node = settings.Node(name=name, secret=b"secret", peers=peers)
        self.at[name] = self.node_type(deepcopy(self.declarations), self.limits, platter, node=node)

    def crash(self, name: str) -> None:
        """The power goes at that node, and it starts again; nobody links it."""
        for end in [end for end in self.ends if end[0] == name]:
            self.cut_end(self.ends[end])
            del self.ends[end]
        self.start(name, self.at[name].disk.platter)

    def link(self, dialler: str, other: str) -> tuple[int, int]:
        """A new connection; the numbers that it has at both ends."""
        numbers = next(self.numbers), next(self.numbers)
        for name, number, peer in ((dialler, numbers[0], other), (other, numbers[1], dialler)):
            node = self.at[name]
            node.inbox[number], node.delivers[number] = [], 0
            store_id = self.at[peer].disk.recovery.store_id
            self.ends[name, number] = (peer, numbers[0] + numbers[1] - number)
            node.turn([Open(number, Identity(peer, store_id, name == dialler))])
        return numbers

    def cut_end(self, end: tuple[str, int]) -> None:
        """One side finds out; what is on its way is lost."""
        name, number = end
        if end in self.ends:
            del self.ends[end]
            self.at[name].close(number)
            self.at[name].inbox.pop(number)

    def cut(self, one: str, other: str) -> None:
        """Both sides find out."""
        for end in [end for end, far in self.ends.items() if {end[0], far[0]} == {one, other}]:
            self.cut_end(end)

    def step(self, only: str = "") -> bool:
        """Carry everything that has been said (by that node alone), once. Whether there was anything."""
        moved = False
        for (name, number), (peer, far) in list(self.ends.items()):
            if only not in ("", name):
                continue
            replies = self.at[name].take(number) if number in self.at[name].inbox else []
            for reply in replies:
                moved = True
                if isinstance(reply, SendToPeer) and (peer, far) in self.ends:
                    # as bytes, so that nothing is said which the other side would not take
                    (word,) = Frames(self.limits, AFTER_PROOF).words(encode(reply.word))
                    assert word == reply.word
                    self.heard.append((name, peer, word))
                    self.at[peer].turn([Read(far, [PeerMessage(far, word)])])
                elif isinstance(reply, Refuse | Bye):
                    if isinstance(reply, Refuse) and (peer, far) in self.ends:
                        self.at[peer].turn(
                            [Read(far, [Fail(far, f"{name} refused: {reply.sentence}", code=reply.code)])]
                        )
                    self.cut_end((name, number))
                    self.cut_end((peer, far))
        return moved

    def run(self) -> None:
        """Until nobody says anything more."""
        for _ in range(1000):
            if not self.step():
                return
        raise AssertionError("the nodes never come to rest")

    def wait(self, seconds: float) -> None:
        """Time passes for all."""
        for node in self.at.values():
            node.wait(seconds)
        self.run()

    def sent(self, kind: type) -> list[tuple[str, str, PeerFrame]]:
        """Words of that kind, with who said them to whom."""
        return [(name, peer, word) for name, peer, word in self.heard if type(word) is kind]


def with_clients(names: str, links: str | None = None) -> Nodes:
    """With two clients at each."""
    nodes = Nodes(names, links)
    for name in names:
        nodes[name].open(1, 2)
    return nodes
