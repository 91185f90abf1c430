"""The fault proxy makes the faults that it says."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.nodes.proxy import BACK, THERE, Proxy

SOON_S = 5.0
SHORT_S = 0.2


class Echo:
    """Says what it hears."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(one,), daemon=True).start()

    def talk(self, one: socket.socket) -> None:
        with one:
            try:
                while data := one.recv(65_536):
                    one.sendall(data)
            except OSError:
                pass


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    echo = Echo()
    one = Proxy(lambda: echo.port)
    yield one
    one.close()
    echo.listener.close()


@pytest.fixture
def dialled(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), SOON_S) as one:
        one.sendall(b"hello")
        assert one.recv(100) == b"hello"
        yield one


def hears(one: socket.socket, timeout_s: float) -> bytes | None:
    """What comes within that time; None where nothing does."""
    one.settimeout(timeout_s)
    try:
        return one.recv(100)
    except TimeoutError:
        return None
    finally:
        one.settimeout(SOON_S)


@pytest.mark.parametrize("way", [THERE, BACK])
def test_what_is_silenced_comes_late_and_not_never(proxy: Proxy, dialled: socket.socket, way: int) -> None:
    proxy.silence(way)
    dialled.sendall(b"late")
    assert hears(dialled, SHORT_S) is None
    proxy.heal()
    assert hears(dialled, SOON_S) == b"late"


def test_nobody_is_heard_anew_while_it_is_silenced(proxy: Proxy, dialled: socket.socket) -> None:
    proxy.silence(THERE)
    with socket.create_connection(("127.0.0.1", proxy.port), SOON_S) as other:
        other.sendall(b"anew")
        assert hears(other, SHORT_S) is None
        proxy.heal()
        assert hears(other, SOON_S) == b"anew"


def test_an_end_is_silenced_too(proxy: Proxy, dialled: socket.socket) -> None:
    proxy.silence(THERE)
    dialled.shutdown(socket.SHUT_WR)
    assert hears(dialled, SHORT_S) is None
    proxy.heal()
    assert hears(dialled, SOON_S) == b""


def test_delay_and_rate(proxy: Proxy, dialled: socket.socket) -> None:
    proxy.ways[THERE].delay_s = SHORT_S
    began_s = time.monotonic()
    dialled.sendall(b"slow")
    assert hears(dialled, SOON_S) == b"slow"
    assert time.monotonic() - began_s >= SHORT_S
    proxy.heal()
    proxy.ways[BACK].rate = 100
    began_s = time.monotonic()
    dialled.sendall(b"x" * 20)
    assert hears(dialled, SOON_S) == b"x" * 20
    assert time.monotonic() - began_s >= 0.2


def test_cut_ends_what_is_open(proxy: Proxy, dialled: socket.socket) -> None:
    proxy.cut()
    assert dialled.recv(100) == b""
    with socket.create_connection(("127.0.0.1", proxy.port), SOON_S) as other:
        other.sendall(b"anew")
        assert other.recv(100) == b"anew"


def test_reset_is_a_reset(proxy: Proxy, dialled: socket.socket) -> None:
    proxy.cut(with_reset=True)
    with pytest.raises(ConnectionResetError):
        dialled.recv(100)


def test_where_the_node_is_not_there_it_hangs_up() -> None:
    proxy = Proxy(lambda: 1)
    with socket.create_connection(("127.0.0.1", proxy.port), SOON_S) as one:
        assert one.recv(100) == b""
    proxy.close()
