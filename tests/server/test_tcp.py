import socket
import struct
import time
from collections.abc import Iterator

import pytest

from radiator.server import tcp
from radiator.server.liveness import is_dead
from radiator.server.tcp import network_of

TIMEOUT_S = 60


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


def test_set_up_makes_a_socket_that_never_waits(pair: tuple[socket.socket, socket.socket]) -> None:
    near, _ = pair
    tcp.set_up(near, TIMEOUT_S)
    with pytest.raises(BlockingIOError):
        near.recv(1)
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    idle_s = near.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    probes_s = near.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) * near.getsockopt(
        socket.IPPROTO_TCP, socket.TCP_KEEPCNT
    )
    assert near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert idle_s + probes_s <= TIMEOUT_S


def test_ask_sees_a_reset_though_nothing_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.send(b"not read yet")
    assert not tcp.ask(near).is_reset
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    time.sleep(0.05)
    assert tcp.ask(near).is_reset


def test_ask_sees_what_has_arrived_and_what_has_not(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    tcp.set_up(near, TIMEOUT_S)
    near.send(b"x")
    far.recv(1)
    assert not tcp.ask(near).is_owing
    with pytest.raises(BlockingIOError):
        while True:
            near.send(b"x" * 65536)  # until its window is zero
    time.sleep(0.3)
    answer = tcp.ask(near)
    assert answer.is_owing and answer.unsent_bytes > 0 and answer.silent_ms < 5_000
    assert not is_dead(answer, 1e9, TIMEOUT_S)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::99", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::99", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("not:an:address", ""),
    ],
)
def test_network_of_an_address(host: str, network: str) -> None:
    assert network_of(host) == network
