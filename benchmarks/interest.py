"""What it costs that every node knows who wants what: words, bytes, memory and time, for several graphs.

    python -m benchmarks.interest [--nodes 8,64,512]

Real Spreading objects, wired within this process (tests/core/cluster/mesh.py): in each round every node hears what
has reached it, in one turn. At the start all links come up at once, those of a node that joins one behind the other.
Bytes are those of the frames. The graphs are the same in every run; only the times depend on the machine.
"""

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from radiator.core.cluster.gossip import Gossip
from radiator.core.cluster.link import Link
from radiator.core.connections import Connection
from radiator.core.turn import Turn, TurnContext
from radiator.model.limits import Limits
from radiator.model.message import Message
from radiator.model.peer import Digest, Identity, PeerFrame
from radiator.protocols.peer.frame import Frames, encode
from radiator.protocols.peer.spec import SPECS
from tests.core.cluster.mesh import EVERYWHERE, Mesh

GRAPHS = ("ring", "random", "full mesh")
PATTERNS = 4
DEGREE = 4
MESH_MAX = 64  # nodes of a full mesh: past it, links are too many for any use
REPEATS = 200

Pairs = set[tuple[str, str]]


def names_of(count: int) -> list[str]:
    return [f"node-{i:04}" for i in range(count)]


def pairs_of(graph: str, names: list[str]) -> Pairs:
    """Links of a ring, of a full mesh, or a ring with chance links up to a mean of DEGREE at each node."""
    ring = {tuple(sorted((one, other))) for one, other in zip(names, names[1:] + names[:1], strict=True)}
    if graph == "full mesh":
        return {(one, other) for one in names for other in names if one < other}
    pairs = {(one, other) for one, other in ring}
    if graph == "random":
        random = Random(len(names))
        while len(pairs) < min(len(names) * DEGREE // 2, len(names) * (len(names) - 1) // 2):
            one, other = sorted(random.sample(names, 2))
            pairs.add((one, other))
    return pairs


@dataclass
class Cost:
    """What was said until all was quiet. rounds: how many links it took one behind the other."""

    words: int = 0
    bytes: int = 0
    rounds: int = 0


class Counted:
    """A mesh that counts what is said in it."""

    def __init__(self, names: list[str], pairs: Pairs) -> None:
        self.mesh = Mesh(*names)
        self.cost = Cost()
        self.last: tuple[PeerFrame | None, int] = (None, 0)
        self.mesh.on_word = self.count
        for name in names:
            self.mesh[name].subscribe(*(f"t.{name}.{i}" for i in range(PATTERNS)))
        self.start = self.costing(lambda: [self.open(pair) for pair in sorted(pairs)])  # all at once

    def count(self, word: PeerFrame) -> None:
        if word is not self.last[0]:
            self.last = word, len(encode(word))
        self.cost.words += 1
        self.cost.bytes += self.last[1]

    def open(self, pair: tuple[str, str]) -> None:
        for end in self.mesh.wire(*pair).ends:
            end.open()

    def costing(self, act: Callable[[], object]) -> Cost:
        self.cost = Cost()
        act()
        while waiting := self.mesh.waiting():
            self.cost.rounds += 1
            heard: dict[str, list[tuple[Link, PeerFrame]]] = {}
            for end in waiting:
                heard.setdefault(end.node.name, []).extend((end.link, word) for word in end.words)
                end.words.clear()
            for name, words in heard.items():
                node = self.mesh[name]
                with node.turn():
                    for link, word in words:
                        node.gossip.hear(link, word)  # type: ignore[arg-type]
        return self.cost

    def lose(self, pair: tuple[str, str]) -> None:
        wire = self.mesh.cut(*pair)
        self.mesh.wires.remove(wire)
        for end in wire.ends:
            end.close()


def costs(counted: Counted, graph: str, pairs: Pairs) -> list[tuple[str, Cost]]:
    names = list(counted.mesh.nodes)
    subscribed = counted.costing(lambda: counted.mesh[names[1]].subscribe("t.one.more"))
    lost = counted.costing(lambda: counted.lose(min(pairs)))
    links = {"ring": 2, "random": DEGREE, "full mesh": len(names)}[graph]
    counted.mesh.add("new-node").subscribe(*(f"t.new.{i}" for i in range(PATTERNS)))
    joined = Cost()
    for name in names[:links]:
        one = counted.costing(partial(counted.open, ("new-node", name)))
        joined = Cost(joined.words + one.words, joined.bytes + one.bytes, joined.rounds + one.rounds)
    return [
        ("start of all", counted.start),
        ("a subscribe", subscribed),
        ("a link lost", lost),
        ("a node joins", joined),
    ]


class Alone:
    """The first node, told by its neighbours all that there is to know, as it comes from a socket."""

    def __init__(self, counted: Counted) -> None:
        first, *others = counted.mesh.nodes
        near = counted.mesh[first].gossip
        frames = [encode(near.known[name].news(name)) for name in others]
        self.context = TurnContext("store", 1)
        tracemalloc.start()
        self.gossip = Gossip(self.context, first, 1, EVERYWHERE, "", lambda *_: None, lambda *_, **__: None)
        for number, name in enumerate(sorted(near.links)):
            link = Link(Connection(number, 1 << 20), Identity(name, "store", True), self.context)
            self.gossip.linked(link)
            self.gossip.hear(link, Digest([]))
        parser = Frames(Limits(), {spec.kind: spec for spec in SPECS.values()})
        for frame in frames:
            for word in parser.words(frame):
                self.gossip.hear(link, word)  # type: ignore[arg-type]
        self.context.turn = Turn()
        del frames, word
        self.memory_bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        self.gossip.end_turn()

    def per_call_us(self, call: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
        """The least of REPEATS measurements."""
        least = float("inf")
        for _ in range(REPEATS):
            before()
            self.context.turn = Turn()
            started = time.perf_counter()
            call()
            least = min(least, time.perf_counter() - started)
        return least * 1e6

    def times_us(self) -> tuple[float, float, float]:
        """A route that was forgotten with the graph; one whose tree is known; a publish of which all is known."""
        gossip = self.gossip
        name = f"t.{gossip.nodes()[-1]['name']}.0"
        message = Message(f"/topic/{name}", b"", 0, b"x" * 100, 0)
        anew = self.per_call_us(lambda: gossip.is_wanted(name), gossip.forget_routes)
        of_topic = self.per_call_us(lambda: gossip.is_wanted(name), gossip.routes.clear)

        def publish() -> None:
            for _ in range(100):
                gossip.publish(name, message, b"store-1-1t")

        return anew, of_topic, self.per_call_us(publish) / 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", default="8,64,512", help="how many nodes (%(default)s)")
    counts = [int(text) for text in parser.parse_args().nodes.split(",")]
    traffic, alone = [], []
    for graph in GRAPHS:
        for count in counts:
            if graph == "full mesh" and count > MESH_MAX:
                continue
            pairs = pairs_of(graph, names_of(count))
            counted = Counted(names_of(count), pairs)
            one = Alone(counted)
            reached = len(one.gossip.nodes())
            alone.append(
                f"{graph:10} {count:6} {reached:8} {one.memory_bytes / 1024:12,.0f}"
                + "".join(f"{us:12,.1f}" for us in one.times_us())
            )
            for what, cost in costs(counted, graph, pairs):
                traffic.append(
                    f"{graph:10} {count:6} {len(pairs):6} {what:13} {cost.words:10,} {cost.words / len(pairs):12.2f} "
                    f"{cost.bytes:12,} {cost.bytes / count:12,.0f} {cost.rounds:7}"
                )
    lines = [
        f"Each node wants {PATTERNS} patterns. Rounds: links that the news crossed one behind the other.",
        "",
        "graph       nodes  links what               words words a link        bytes bytes a node  rounds",
        *traffic,
        "",
        "One node: what the news take in memory; times in µs, those of a publish on one link.",
        "",
        "graph       nodes  reached   memory KiB   new graph   new topic   a publish",
        *alone,
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
