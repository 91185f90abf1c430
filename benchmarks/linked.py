"""Brokers that are linked, each a process with fresh data: `with linked(directory, mesh(3)) as nodes:`."""

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import CHECKOUT
from benchmarks.processes import Launch, Running, fresh, running
from radiator.client import Client
from radiator.model.errors import RadiatorError
from radiator.tools.cli.load import LoadFailed
from tests.ports import free_port

NAMES = "abcdefgh"
SECRET = "nodes of a benchmark know each other by this\n"
LINKED_WITHIN_S = 20.0
ASK_AGAIN_S = 0.05

QUEUE, TOPIC, FANOUT, COPIES = "/queue/work", "/topic/news.bench", "/fanout/events", "/queue/copies"

_SERVER = """\
[server]
listen = ["stomp://127.0.0.1:{port}"]
data_dir = "data"
"""

_NODE = """
[node]
name = "{name}"
listen = "peer://127.0.0.1:{peer_port}"
secret_file = "../secret"
"""

_PEER = '\n[peer."{name}"]\n'
_DIALLED = 'address = "peer://127.0.0.1:{peer_port}"\n'

_TABLES = """
[queue."work"]
scope = "{scope}"

[topic."news.#"]
scope = "{scope}"

[fanout."events"]
children = ["copies"]
scope = "{scope}"

[queue."copies"]
"""

Edges = list[tuple[str, str]]
Address = tuple[str, int]


def chain(count: int) -> Edges:
    """a - b - c - ..."""
    return list(itertools.pairwise(NAMES[:count]))


def mesh(count: int) -> Edges:
    """Everybody is linked with everybody."""
    return list(itertools.combinations(NAMES[:count], 2))


@dataclass
class Linked:
    """Nodes that run, by name; a single one has no [node] in its configuration."""

    brokers: dict[str, Running]

    @property
    def names(self) -> list[str]:
        return list(self.brokers)

    def address(self, name: str) -> Address:
        return "127.0.0.1", self.brokers[name].port

    def cpu_s(self) -> dict[str, float]:
        return {name: broker.cpu_s() for name, broker in self.brokers.items()}

    def admin(self, name: str, **request: Any) -> dict[str, Any]:
        with Client(f"stomp://127.0.0.1:{self.brokers[name].port}") as client:
            return dict(client.admin(request))

    def wait_until_linked(self) -> None:
        """Returns when every node knows a way to every other."""
        end_s = time.monotonic() + LINKED_WITHIN_S
        for name in self.names if len(self.names) > 1 else ():
            while self.others_known(name) < len(self.names) - 1:
                if time.monotonic() > end_s:
                    raise LoadFailed(f"{name} was not linked with all: {self.last_words(name)}")
                time.sleep(ASK_AGAIN_S)

    def others_known(self, name: str) -> int:
        """To how many nodes it knows a way. Raises LoadFailed where it does not answer."""
        try:
            return len(self.admin(name, do="peers")["nodes"])
        except RadiatorError as failed:
            raise LoadFailed(f"{name} does not answer: {failed} {self.last_words(name)}") from None

    def last_words(self, name: str) -> str:
        return self.brokers[name].log.read_text()[-600:]


@contextlib.contextmanager
def linked(directory: Path, edges: Edges) -> Iterator[Linked]:
    """No edges: one node alone."""
    names = sorted({name for edge in edges for name in edge}) or [NAMES[0]]
    with fresh(directory), contextlib.ExitStack() as stack:
        secret = directory / "secret"
        secret.touch(mode=0o600)
        secret.write_text(SECRET)
        launches = launches_of(names, edges)
        nodes = Linked({name: stack.enter_context(running(launches[name], directory / name)) for name in names})
        nodes.wait_until_linked()
        yield nodes


def launches_of(names: Sequence[str], edges: Edges) -> dict[str, Launch]:
    """How each is started: the later dials the earlier, which listens by then, so that nobody waits to dial again."""
    ports = {name: free_port() for name in names}
    peer_ports = {name: free_port() for name in names}
    found = {}
    for name in names:
        config = _SERVER.format(port=ports[name])
        if edges:
            config += _NODE.format(name=name, peer_port=peer_ports[name])
        for other in sorted({one for edge in edges if name in edge for one in edge} - {name}):
            config += _PEER.format(name=other)
            if other < name:
                config += _DIALLED.format(peer_port=peer_ports[other])
        config += _TABLES.format(scope="cluster" if edges else "node")
        found[name] = Launch(
            commands=[[sys.executable, "-m", "radiator", "serve", "--config", "config.toml"]],
            port=ports[name],
            environment={"PYTHONPATH": str(CHECKOUT)},
            files={"config.toml": config},
        )
    return found
