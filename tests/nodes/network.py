"""What lies between nodes, with the faults that it may have: here a fault proxy for each that dials another.

`netns.py` has the same in namespaces of the kernel. Both directions between two nodes are silenced whoever of them has
dialled, as a cable would.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from tests.nodes.proxy import BACK, THERE, Proxy

MBIT = 125_000.0  # bytes a second


class Network(Protocol):
    """Faults last until `heal`."""

    def server(self, name: str) -> str:
        """The lines of [server] that say where clients connect."""

    def users(self) -> str:
        """The tables of users that such a place needs."""

    def listen(self, name: str) -> str:
        """What the node listens on for others, as HOST:PORT."""

    def address(self, dialler: str, name: str) -> str:
        """Where it is dialled, as HOST:PORT."""

    def program(self, name: str) -> tuple[str, ...]:
        """What Python runs to be that node."""

    def silence(self, source: str, target: str) -> None:
        """Nothing of source reaches target any more; the other direction stays as it is."""

    def slow(self, name: str) -> None:
        """Its links carry 1 Mbit a second, and everything takes a while."""

    def cut(self, one: str, other: str) -> None:
        """Their connections end with a reset, now; new ones may come."""

    def heal(self) -> None:
        """All is well."""

    def close(self) -> None:
        """For good."""


class Proxied:
    """A proxy of its own for each pair of names. port_of: where a node listens just now."""

    def __init__(self, edges: Iterable[tuple[str, str]], port_of: Callable[[str], int]) -> None:
        pairs = [pair for one, other in edges for pair in ((one, other), (other, one))]
        self._proxies = {(one, other): Proxy(lambda other=other: port_of(other)) for one, other in pairs}  # type: ignore[misc]

    def server(self, name: str) -> str:
        return 'listen = ["stomp://127.0.0.1:0"]'

    def users(self) -> str:
        return ""

    def listen(self, name: str) -> str:
        return "127.0.0.1:0"

    def address(self, dialler: str, name: str) -> str:
        return f"127.0.0.1:{self._proxies[dialler, name].port}"

    def program(self, name: str) -> tuple[str, ...]:
        return ("-m", "radiator")

    def silence(self, source: str, target: str) -> None:
        if (source, target) in self._proxies:
            self._proxies[source, target].silence(THERE)
            self._proxies[target, source].silence(BACK)

    def slow(self, name: str) -> None:
        for pair, proxy in self._proxies.items():
            if name in pair:
                for way in proxy.ways:
                    way.rate, way.delay_s = MBIT, 0.005

    def cut(self, one: str, other: str) -> None:
        for pair, proxy in self._proxies.items():
            if set(pair) == {one, other}:
                proxy.cut(with_reset=True)

    def heal(self) -> None:
        for proxy in self._proxies.values():
            proxy.heal()

    def close(self) -> None:
        for proxy in self._proxies.values():
            proxy.close()
