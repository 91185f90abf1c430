"""What interest in topics costs, by the number of nodes: a figure of docs/CLUSTER.md, simulated.

    python -m tests.nodes.interest

The nodes are those of the core (`Gossip`), in a random graph of about four links a node. Words are those of all
nodes together, and the time is that of one process that does the work of all of them.
"""

import random
import time

from tests.core.cluster.mesh import Mesh

SIZES = (8, 64, 512)


def settle(graph: Mesh) -> str:
    """Everything that is said arrives, all that waits on a link in one turn: how many words, in what time."""
    heard, began_s = 0, time.perf_counter()
    while waiting := graph.waiting():
        for end in waiting:
            heard += len(end.words)
            with end.node.turn():
                while end.words:
                    end.node.gossip.hear(end.link, end.words.popleft())
    return f"{heard} words, {(time.perf_counter() - began_s) * 1000:.1f} ms"


def interest() -> None:
    """One row for each of SIZES."""
    for count in SIZES:
        chance = random.Random(count)
        names = [f"n{number:03}" for number in range(count)]
        graph = Mesh(*names)
        edges = {(one, names[(number + 1) % count]) for number, one in enumerate(names)}
        while len(edges) < 2 * count:
            one, other = chance.sample(names, 2)
            if (other, one) not in edges:
                edges.add((one, other))
        for one, other in sorted(edges):
            for end in graph.wire(one, other).ends:
                end.open()
        seen = [f"all have met: {settle(graph)}"]
        graph[names[0]].subscribe("t.a")
        seen.append(f"one subscribes: {settle(graph)}")
        for end in graph.cut(*min(edges)).ends:
            end.close()
        seen.append(f"one link dies: {settle(graph)}")
        graph[names[-1]].publish("t.a")
        seen.append(f"one publishes to one: {settle(graph)}")
        print(f"{count} nodes, {len(edges)} links: {'; '.join(seen)}", flush=True)


if __name__ == "__main__":
    interest()
