"""A connection is free soon after it has ended, however it ended: nothing waits for the collector of reference cycles,
which runs each hour only (server/serve.py, Collector).
"""

import gc
import socket
from collections.abc import Iterator

import pytest

from radiator.protocols.amqp import methods as m
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
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


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
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    assert sorted({type(one).__name__ for one in gc.garbage}) == []
    shell.close()
