"""A connection is free soon after it has ended, however it ended: nothing waits for the collector of reference cycles,
which runs each hour only (server/serve.py, Collector).
"""

import gc
import socket
import weakref
from collections.abc import Iterator

import pytest

from radiator.protocols.amqp import methods as m
from radiator.server import serve
from tests.cycles import in_cycles, without_collector
from tests.protocols.amqp.talking import greeting, method, publish
from tests.server.shell import Shell, until

CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"
REQUEST = b"GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
CHANNELS = greeting() + b"".join(method(wire, m.ChannelOpen()) for wire in (1, 2))
SENT = {
    "stomp": (
        b"",
        b"CONN",
        b"BOGUS\n\n\0",
        CONNECT,
        CONNECT + b"SEND\ndestination:q\n\nhalf",
    ),
    "http": (b"", b"GET /", b"GET nowhere\r\n\r\n", REQUEST, REQUEST + b"hello", REQUEST + b"hello" + REQUEST),
    "amqp": (b"", b"AMQP", b"HTTP/1.1", greeting(), CHANNELS, CHANNELS + publish(1)),
}


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    with without_collector():
        yield


def connect_and_go(shell: Shell, scheme: str, sent: bytes) -> None:
    """A client that says this and hangs up."""
    client = shell.client(scheme=scheme)
    client.send(sent)
    client.shutdown(socket.SHUT_WR)
    until(lambda: shell.connections.are_gone)
    client.close()
    shell.inbox.take()
    shell.others.clear()


@pytest.mark.parametrize(("scheme", "sent"), [(scheme, sent) for scheme, all_ in SENT.items() for sent in all_])
def test_ended_connection_leaves_no_cycle(scheme: str, sent: bytes) -> None:
    shell = Shell()
    connect_and_go(shell, scheme, sent)
    gc.collect()  # what a first use leaves behind is not counted
    for _ in range(2):
        connect_and_go(shell, scheme, sent)
    assert sorted({type(one).__name__ for one in in_cycles()}) == []
    shell.close()


class Knot:
    """It refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_a_mistake_that_makes_cycles_is_bounded_by_the_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "COLLECT_EVERY_CONNECTIONS", 2)
    shell = Shell()
    collector = serve.Collector(shell.loop, shell.connections)
    try:
        kept = weakref.ref(Knot())
        for is_free in (False, True):
            connect_and_go(shell, "stomp", CONNECT)
            collector._look()
            assert (kept() is None) is is_free
    finally:
        collector._timer.close()
        gc.unfreeze()
    shell.close()
