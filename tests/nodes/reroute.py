"""How long a subscriber hears nothing when the way to it dies: in a ring of four, from a over b to c, then over d.

    python -m tests.nodes.reroute kill|silence [TIMES]

kill: the node on the way. silence: the link to it says nothing any more, and nobody is told. Must be under two
heart-beats; the heart-beat here is the default one.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

from radiator.model.settings import HEART_BEAT_MS
from tests.nodes.cluster import Nodes, ring, soon

TABLES = '[topic."news.#"]\nscope = "cluster"\n'
EVERY_S = 0.01
BEFORE_S = 0.5
HEAR_S = 5.0


def silence_s(directory: Path, fault: str, heart_beat_ms: int = HEART_BEAT_MS) -> float:
    """The longest time without news around the fault. TimeoutError where there is none any more."""
    nodes = Nodes(directory, ring("abcd"), TABLES, heart_beat_ms=heart_beat_ms)
    with nodes, nodes["c"].wire() as reader, nodes["a"].wire() as paper:
        reader.subscribe("/topic/news.*", ack="auto")
        heard: list[str] = []
        end = threading.Event()

        def publish() -> None:
            number = 0
            while not end.wait(EVERY_S):
                number += 1
                paper.send_frame("SEND", {"destination": "/topic/news.today"}, f"{number}".encode())

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            heard.append(reader.message().body.decode())
            until_s = time.monotonic() + BEFORE_S
            while time.monotonic() < until_s:
                heard.append(reader.message().body.decode())
            if fault == "kill":
                nodes["b"].kill()
            else:
                nodes.network.silence("a", "b")
                nodes.network.silence("b", "a")
            longest_s, last_s = 0.0, time.monotonic()
            until_s = last_s + 3 * heart_beat_ms / 1000
            while last_s < until_s:
                heard.append(reader.message(HEAR_S).body.decode())
                longest_s = max(longest_s, time.monotonic() - last_s)
                last_s = time.monotonic()
        finally:
            end.set()
            publisher.join()
        assert heard == sorted(set(heard), key=int), "news came twice, or out of order"
        if fault == "kill":
            soon(lambda: nodes["a"].hops()["c"] == 2, "a does not know the way over d")
        return longest_s


def main(fault: str, times: str = "5") -> None:
    found = []
    for number in range(int(times)):
        with tempfile.TemporaryDirectory() as directory:
            found.append(silence_s(Path(directory), fault))
            print(f"{number + 1}: {found[-1]:.3f} s", flush=True)
    print(f"{fault}: {min(found):.3f} to {max(found):.3f} s without news; two heart-beats are {HEART_BEAT_MS / 500} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
