"""Three nodes on this machine: work, news and events cross from one to another, and one of them is killed.

Nothing but Radiator is needed: python examples/cluster/run.py
"""

import secrets
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

from radiator.client import Client, ConnectionLost, Message

HERE = Path(__file__).resolve().parent
NAMES = ("a", "b", "c")
WITHIN_S = 20.0


class Node:
    """One broker of the three, in a process of its own; its log goes to data/NAME.log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.config = HERE / f"{name}.toml"
        tables = tomllib.loads(self.config.read_text())
        self.address = tables["server"]["listen"][0]
        self.addresses = [self.address, tables["node"]["listen"]]
        self.process: subprocess.Popen[bytes] | None = None

    def taken(self) -> str:
        """Which of its addresses somebody else listens on, or "": to ask there would be to ask a stranger."""
        for address in self.addresses:
            host, _, port = address.partition("//")[2].rpartition(":")
            with socket.socket() as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    tried.bind((host, int(port)))
                except OSError:
                    return address
        return ""

    def start(self) -> None:
        with (HERE / "data" / f"{self.name}.log").open("ab") as log:
            command = [sys.executable, "-m", "radiator", "serve", "--config", str(self.config)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)

    def kill(self) -> None:
        """As a power cut would: it gets no chance to say a word."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

    def is_linked_with(self, *names: str) -> bool:
        """Whether its links to those are up. It must run."""
        assert self.process is not None
        if self.process.poll() is not None:
            sys.exit(f"{self.name} has ended with status {self.process.returncode}. Its log is in {HERE / 'data'}.")
        try:
            with Client(self.address) as client:
                peers = client.admin({"do": "peers"})["peers"]
        except ConnectionLost:
            return False
        return {peer["name"] for peer in peers if peer["state"] == "up"} >= set(names)


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not is_so():
        if time.monotonic() > deadline_s:
            sys.exit(f"{what}: not within {WITHIN_S:.0f} s. The logs are in {HERE / 'data'}.")
        time.sleep(0.05)


def wait_until_linked(nodes: dict[str, Node]) -> None:
    for node in nodes.values():
        others = [name for name in nodes if name != node.name]
        wait_until(lambda node=node, others=others: node.is_linked_with(*others), f"{node.name} linked with {others}")


def received(client: Client) -> Message:
    message = client.receive(WITHIN_S)
    if message is None:
        sys.exit(f"Nothing came within {WITHIN_S:.0f} s. The logs are in {HERE / 'data'}.")
    return message


def work(nodes: dict[str, Node]) -> None:
    """Posted at one node, done at another."""
    with Client(nodes["a"].address) as boss, Client(nodes["c"].address) as worker:
        boss.send_many("/queue/work", [f"job {number}" for number in range(1, 4)])
        print("3 jobs are posted at a, where nobody consumes")
        worker.subscribe("/queue/work", ack="client-individual")
        for _ in range(3):
            job = received(worker)
            print(f"  a worker at c does {job.body.decode()}, which came from {job.headers['node-path']}")
            worker.ack(job)


def news(nodes: dict[str, Node]) -> None:
    """Published at one node, heard at the others."""
    with Client(nodes["a"].address) as one, Client(nodes["c"].address) as other, Client(nodes["b"].address) as paper:
        one.subscribe("/topic/news.*")
        other.subscribe("/topic/news.weather")
        time.sleep(0.5)  # b must hear that somebody wants news: that takes milliseconds
        paper.send("/topic/news.weather", "rain")
        print("Rain is published at b")
        for name, reader in (("a", one), ("c", other)):
            print(f"  a subscriber at {name} hears of {received(reader).body.decode()}")


def death(nodes: dict[str, Node]) -> None:
    """What a dead node had is there again when it is."""
    time.sleep(2.5)  # nobody remembers by then that c had a worker: else b could hand its jobs over before it dies
    with Client(nodes["b"].address) as boss:
        boss.send_many("/queue/work", [f"job {number}" for number in range(4, 7)])
    print("3 jobs are posted at b, and b is killed")
    nodes["b"].kill()
    with Client(nodes["a"].address) as shop, Client(nodes["c"].address) as worker:
        shop.send("/fanout/events", "order 1")
        print("An event is sent to a: stored for all three, while b is dead")
        worker.subscribe("/queue/work", ack="client-individual")
        if worker.receive(1) is not None:
            sys.exit("b was dead and gave something.")
        print("  a worker at c has nothing to do: the jobs wait in the store of b")
        nodes["b"].start()
        print("b is started again")
        for _ in range(3):
            job = received(worker)
            print(f"  a worker at c does {job.body.decode()}, which came from {job.headers['node-path']}")
            worker.ack(job)
    for node in nodes.values():
        with Client(node.address) as auditor:
            auditor.subscribe("/queue/events.audit")
            print(f"  an auditor at {node.name} reads {received(auditor).body.decode()}")
            if auditor.receive(0.2) is not None:
                sys.exit(f"There was more than one copy at {node.name}.")


def main() -> None:
    secret = HERE / "secret"
    if not secret.exists():
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32) + "\n")
    nodes = {name: Node(name) for name in NAMES}
    for node in nodes.values():
        if taken := node.taken():
            # before anything is removed: it may be another run of this
            sys.exit(
                f"{taken} is taken: by another run of this, or another broker. Stop that, or change {node.config}."
            )
    data = HERE / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    try:
        for node in nodes.values():
            node.start()
        wait_until_linked(nodes)
        print("a, b and c are linked")
        work(nodes)
        news(nodes)
        death(nodes)
        for node in nodes.values():
            node.stop()
        shutil.rmtree(data)
        print("Nothing was lost.")
    finally:
        for node in nodes.values():
            node.kill()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
