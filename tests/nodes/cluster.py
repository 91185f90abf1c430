"""Several real brokers that are linked: `with Nodes(directory, mesh("abc"), TABLES) as nodes:`.

Where RADIATOR_TREE_BEFORE names the checkout of another version, every second of them (b, d, ...) is that version.
Where RADIATOR_LINKS_OVER_TLS is set, their links are over TLS, unless it is said otherwise.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.acceptance.wire import Wire
from tests.broker_process import CHECKOUT, BrokerProcess
from tests.certificates import Authority
from tests.nodes.network import Network, Proxied

Edges = Iterable[tuple[str, str]]

SECRET = "nodes of a test know each other by this\n"
HEART_BEAT_MS = 1000
LINES_SHOWN = 30
LINKED_WITHIN_S = 15.0
TREE_BEFORE = "RADIATOR_TREE_BEFORE"
OVER_TLS = "RADIATOR_LINKS_OVER_TLS"

CONFIG = """\
[server]
{server}
data_dir = "data"
disk_free_min = "16MiB"
map_size = "{map_size}"

[node]
name = "{name}"
listen = "{listen}"
secret_file = "../secret"
heart_beat_ms = {heart_beat_ms}
"""
TLS = """\
[tls]
certificate = "../{name}.pem"
key = "../{name}.key"
peer_ca = "../ca.pem"
"""


def mesh(names: Iterable[str]) -> list[tuple[str, str]]:
    """Everybody is linked with everybody."""
    return list(combinations(names, 2))


def chain(names: str) -> list[tuple[str, str]]:
    return list(zip(names, names[1:], strict=False))


def ring(names: str) -> list[tuple[str, str]]:
    return [*chain(names), (names[0], names[-1])]


class Node(BrokerProcess):
    """One of them. It may be killed and started again; others find it then."""

    def __init__(self, name: str, directory: Path, config: str, program: tuple[str, ...], tree: Path) -> None:
        super().__init__(directory, config, program, tree)
        self.name = name

    @property
    def peer_port(self) -> int:
        """Where it listens for others, or did when it last ran; 0: nowhere yet."""
        found = re.findall(r'address="?peers?://\S+:(\d+)', self.log)
        return int(found[-1]) if found else 0

    def wire(self) -> Wire:
        """A connection that is greeted."""
        wire = Wire((self.host, self.port))
        wire.connect()
        return wire

    def admin(self, **request: Any) -> dict[str, Any]:
        """The answer of /admin, be it a refusal."""
        with self.wire() as wire:
            return dict(json.loads(wire.admin(json.dumps(request).encode())))

    def peers(self) -> dict[str, dict[str, Any]]:
        """What it says of each link, by name."""
        answer = self.admin(do="peers")
        assert answer["ok"], answer
        return {peer["name"]: peer for peer in answer["peers"]}

    def hops(self) -> dict[str, int]:
        """How far the other nodes are that it can reach."""
        return {node["name"]: node["hops"] for node in self.admin(do="peers")["nodes"]}

    def is_linked(self, *names: str) -> bool:
        peers = self.peers()
        return all(peers.get(name, {}).get("state") == "up" for name in names)

    def queue(self, name: str) -> dict[str, Any]:
        return dict(self.admin(do="stats")["queues"][name])


class Nodes:
    """edges: who is linked with whom; both name and dial each other. tables: what all their configurations end with.

    network: what lies between them; by default fault proxies. limits: lines of [limits]. over_tls: whether their links
    are; each node has a certificate of its own, of one CA.
    """

    def __init__(
        self,
        directory: Path,
        edges: Edges,
        tables: str,
        *,
        heart_beat_ms: int = HEART_BEAT_MS,
        map_size: str = "1GiB",
        limits: str = "",
        network: Network | None = None,
        over_tls: bool | None = None,
    ) -> None:
        edges = list(edges)
        is_encrypted = bool(os.environ.get(OVER_TLS)) if over_tls is None else over_tls
        self.scheme = "peers" if is_encrypted else "peer"
        self.names = sorted({name for edge in edges for name in edge})
        self.neighbours = {
            name: sorted({other for edge in edges if name in edge for other in edge} - {name}) for name in self.names
        }
        self.by_name: dict[str, Node] = {}
        self.network: Network = network or Proxied(edges, lambda name: self.by_name[name].peer_port)
        secret = directory / "secret"
        secret.touch(mode=0o600)
        secret.write_text(SECRET)
        authority = Authority(directory) if is_encrypted else None
        trees = (CHECKOUT, Path(os.environ.get(TREE_BEFORE) or CHECKOUT))
        for number, name in enumerate(self.names):
            (directory / name).mkdir()
            lines = CONFIG.format(
                server=self.network.server(name),
                map_size=map_size,
                name=name,
                listen=f"{self.scheme}://{self.network.listen(name)}",
                heart_beat_ms=heart_beat_ms,
            )
            for other in self.neighbours[name]:
                lines += f'[peer."{other}"]\naddress = "{self.scheme}://{self.network.address(name, other)}"\n'
            if authority is not None:
                host = self.network.listen(name).rpartition(":")[0]
                authority.pair(name, f"/CN={name}", f"IP:{host}")
                lines += TLS.format(name=name)
            lines += self.network.users()
            if limits:
                lines += f"[limits]\n{limits}"
            self.by_name[name] = Node(
                name, directory / name, lines + tables, self.network.program(name), trees[number % 2]
            )

    def __getitem__(self, name: str) -> Node:
        return self.by_name[name]

    @property
    def all(self) -> list[Node]:
        return list(self.by_name.values())

    def start(self, names: Iterable[str] | None = None) -> None:
        """All of them at once, or those; returns when they listen."""
        wanted = [self.by_name[name] for name in (self.names if names is None else names)]
        with ThreadPoolExecutor(len(wanted)) as pool:
            list(pool.map(Node.start, wanted))

    def wait_until_linked(self, timeout_s: float = LINKED_WITHIN_S) -> None:
        """Returns when every link between nodes that run is up, and each knows a way to every other."""
        running = {node.name for node in self.all if node.is_running}
        for name in running:
            node = self.by_name[name]
            others = running.intersection(self.neighbours[name])
            soon(lambda node=node, others=others: node.is_linked(*others), f"{name} is not linked", timeout_s, self)
        for name in running:
            node = self.by_name[name]
            known = f"{name} does not know all"
            soon(lambda node=node: {*node.hops()} >= running - {node.name}, known, timeout_s, self)

    def last_lines(self) -> str:
        """What each says at the end of its log."""
        return "".join(f"\n{node.name}:\n" + "".join(node.log.splitlines(True)[-LINES_SHOWN:]) for node in self.all)

    def __enter__(self) -> Self:
        self.start()
        self.wait_until_linked()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for node in self.all:
            node.kill()
        self.network.close()


def soon(is_so: Callable[[], bool], complaint: str, timeout_s: float = 10.0, nodes: "Nodes | None" = None) -> None:
    """Returns once it is so. AssertionError if that is not within the time, with what those nodes say."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline_s, (
            f"{complaint} within {timeout_s:.0f} s{nodes.last_lines() if nodes is not None else ''}"
        )
        time.sleep(0.02)
