"""The figures of docs/CLUSTER.md, each measured by a command of its own, on whatever machine this is.

    python -m tests.nodes.figures topic|handover|balance|drain|publish|interest

Nodes are processes on loopback, linked without a proxy; clients share their processors. `interest` is simulated.
"""

import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.acceptance.wire import Wire
from tests.broker.cluster.mesh import Mesh
from tests.nodes.cluster import Node, Nodes, chain, mesh, soon
from tests.nodes.network import Direct

TABLES = '[queue."work"]\nscope = "cluster"\n[topic."news.#"]\nscope = "cluster"\n'
TOPIC, WORK = "/topic/news.today", "/queue/work"
BODY = bytes(100)


def linked(edges: Iterable[tuple[str, str]]) -> AbstractContextManager[Nodes]:
    edges = list(edges)
    directory = Path(tempfile.mkdtemp(prefix="radiator-figures-"))
    return Nodes(
        directory, edges, TABLES, heart_beat_ms=2000, network=Direct({name for edge in edges for name in edge})
    )


def listening(node: Node, topic: str = TOPIC) -> Wire:
    wire = node.wire()
    wire.subscribe(topic, ack="auto", headers={"buffer-max-bytes": "100000000", "buffer-max-messages": "1000000"})
    return wire


def topic() -> None:
    """Rate and latency over 0 to 4 links."""
    for hops in range(5):
        names = "abcde"[: hops + 1] if hops else "ab"
        with linked(chain(names)) as nodes, nodes["a"].wire() as paper, listening(nodes[names[hops]]) as reader:
            time.sleep(0.5)
            latencies_ms = []
            for _ in range(500):
                began_s = time.perf_counter()
                paper.send_frame("SEND", {"destination": TOPIC}, BODY)
                reader.message()
                latencies_ms.append((time.perf_counter() - began_s) * 1000)
                time.sleep(0.001)
            count = 10_000
            frame = paper.frame("SEND", {"destination": TOPIC}, BODY)
            began_s = time.perf_counter()
            sender = threading.Thread(target=paper.send_raw, args=(frame * count,))
            sender.start()
            reader.messages(count)
            rate = count / (time.perf_counter() - began_s)
            sender.join()
            p99_ms = statistics.quantiles(latencies_ms, n=100)[98]
            print(f"{hops} links: {statistics.median(latencies_ms):.2f} ms, p99 {p99_ms:.2f} ms; {rate:.0f} messages/s")


def fill(node: Node, count: int) -> None:
    with node.wire() as wire:
        wire.send_raw(wire.frame("SEND", {"destination": WORK}, BODY) * count)
        wire.fence()


def handover(count: int = 20_000) -> None:
    """All at a, all consumed at b; then the latency of one alone."""
    with linked(mesh("ab")) as nodes:
        fill(nodes["a"], count)
        with nodes["b"].wire() as worker:
            began_s = time.perf_counter()
            worker.subscribe(WORK, headers={"prefetch-count": "200"})
            for _ in range(count):
                worker.send_frame("ACK", {"id": worker.message()["ack"]})
            print(f"handed over and consumed: {count / (time.perf_counter() - began_s):.0f} messages/s")
        latencies_ms = []
        with nodes["a"].wire() as boss, nodes["b"].wire() as worker:
            worker.subscribe(WORK)
            for _ in range(200):
                time.sleep(0.01)
                began_s = time.perf_counter()
                boss.send_frame("SEND", {"destination": WORK}, BODY)
                message = worker.message()
                latencies_ms.append((time.perf_counter() - began_s) * 1000)
                worker.ack(message)
        p99_ms = statistics.quantiles(latencies_ms, n=100)[98]
        print(f"from SEND at a to MESSAGE at b: {statistics.median(latencies_ms):.1f} ms, p99 {p99_ms:.1f} ms")


def balance(count: int = 2000, workers: int = 2, job_s: float = 0.005) -> None:
    """Equal workers at all nodes, all jobs sent to a: the share of each node, and how far the order is kept."""
    for names in ("abc", "abcde"):
        with linked(mesh(names)) as nodes:
            done: list[tuple[str, int]] = []
            end = threading.Event()

            def work(node: Node, done: list[tuple[str, int]] = done, end: threading.Event = end) -> None:
                with node.wire() as wire:
                    wire.subscribe(WORK)
                    while not end.is_set():
                        try:
                            message = wire.message(0.1)
                        except TimeoutError:
                            continue
                        time.sleep(job_s)
                        done.append((node.name, int(message.body)))
                        wire.send_frame("ACK", {"id": message["ack"]})

            threads = [threading.Thread(target=work, args=(node,)) for node in nodes.all for _ in range(workers)]
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            with nodes["a"].wire() as boss:
                began_s = time.perf_counter()
                for number in range(count):
                    boss.send_frame("SEND", {"destination": WORK}, f"{number}".encode())
                soon(lambda done=done: len(done) == count, "not all jobs are done", 60)
                seconds = time.perf_counter() - began_s
                end.set()
            for thread in threads:
                thread.join()
        shares = {name: sum(1 for other, _ in done if other == name) * len(names) / count for name in names}
        moved = sorted(abs(place - number) for place, (_, number) in enumerate(done))
        print(
            f"{len(names)} nodes: {count / seconds:.0f} jobs/s of {len(threads) / job_s:.0f}; share of the mean "
            f"{min(shares.values()):.2f} to {max(shares.values()):.2f}; displacement median {moved[count // 2]}, "
            f"p99 {moved[count * 99 // 100]}, most {moved[-1]} places"
        )


def drain(count: int = 20_000) -> None:
    with linked(mesh("abc")) as nodes:
        fill(nodes["a"], count)
        began_s = time.perf_counter()
        soon(lambda: nodes["a"].admin(do="drain")["left"] == 0, "not drained", 120)
        print(f"drained to two others: {count / (time.perf_counter() - began_s):.0f} messages/s")


def publish(count: int = 10_000) -> None:
    """What one node takes in of a topic, by how many others want it, and by what else they want."""
    for others in (1, 2, 4):
        names = "abcdefgh"[: 1 + others]
        with linked(mesh(names)) as nodes, nodes["a"].wire() as paper:
            frame = paper.frame("SEND", {"destination": TOPIC}, BODY)
            for wanting, patterns in ((0, 0), (1, 0), (others, 0), (1, 1000)):
                readers = [listening(nodes[name]) for name in names[1 : 1 + wanting]]
                strangers = [nodes[name].wire() for name in names[1:]]
                for wire in strangers:
                    for number in range(patterns):
                        subscription = {"id": f"{number}", "destination": f"/topic/news.{number}.*"}
                        wire.send_frame("SUBSCRIBE", subscription)
                    wire.fence()
                time.sleep(0.5)
                threads = [threading.Thread(target=reader.messages, args=(count,)) for reader in readers]
                began_s = time.perf_counter()
                for thread in threads:
                    thread.start()
                paper.send_raw(frame * count)
                paper.fence()
                for thread in threads:
                    thread.join()
                rate = count / (time.perf_counter() - began_s)
                print(f"{others} others, {wanting} want it, {patterns} other patterns each: {rate:.0f} messages/s")
                for wire in (*readers, *strangers):
                    wire.close()


def settle(graph: Mesh) -> str:
    """Everything that is said arrives: how many words, in what time."""
    heard, began_s = 0, time.perf_counter()
    while waiting := graph.waiting():
        heard += len(waiting)
        for end in waiting:
            end.hear()
    return f"{heard} words, {(time.perf_counter() - began_s) * 1000:.1f} ms"


def interest() -> None:
    """Words and seconds of one process for everything, in a random graph of four links a node. Simulated."""
    for count in (8, 64, 512):
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
        told = [f"all have met: {settle(graph)}"]
        graph[names[0]].subscribe("t.a")
        told.append(f"one subscribes: {settle(graph)}")
        for end in graph.cut(*min(edges)).ends:
            end.close()
        told.append(f"one link dies: {settle(graph)}")
        graph[names[-1]].publish("t.a")
        told.append(f"one publishes to one: {settle(graph)}")
        print(f"{count} nodes, {len(edges)} links: {'; '.join(told)}", flush=True)


FIGURES: dict[str, Callable[[], None]] = {
    "topic": topic,
    "handover": handover,
    "balance": balance,
    "drain": drain,
    "publish": publish,
    "interest": interest,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or FIGURES:
        print(f"== {wanted}", flush=True)
        FIGURES[wanted]()
