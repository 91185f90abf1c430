"""The seam below a connection: a transport that encrypts carries it as one that does not."""

import re
import socket
import ssl
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.wire import Wire
from tests.broker_process import DEFAULT_CONFIG, BrokerProcess
from tests.certificates import Authority

CONFIG = (
    DEFAULT_CONFIG.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "stomps://127.0.0.1:0"')
    + '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n'
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("broker"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[BrokerProcess]:
    directory = authority.pair("server").certificate.parent
    with BrokerProcess(directory, CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


Connect = Callable[[], Wire]


@pytest.fixture
def connect(broker: BrokerProcess, authority: Authority) -> Iterator[Connect]:
    opened: list[Wire] = []
    found = re.search(r":(\d+)", broker.wait_for_log("listening address=stomps://").partition("stomps://")[2])
    assert found is not None

    def connect() -> Wire:
        wire = Wire((broker.host, int(found[1])))
        context = ssl.create_default_context(cafile=authority.certificate)
        wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
        opened.append(wire)
        wire.connect()
        return wire

    yield connect
    for wire in opened:
        wire.close()


def test_messages_go_both_ways_and_large_ones_too(connect: Connect) -> None:
    sender, reader = connect(), connect()
    reader.subscribe("/queue/q")
    for size in (0, 1, 16 * 1024, 100_000, 4_000_000):
        sender.send("/queue/q", b"t" * size)
        message = reader.message()
        assert message.body == b"t" * size
        reader.ack(message)


def test_a_reader_that_waits_gets_every_byte(connect: Connect) -> None:
    """What is encrypted and finds no room in the system is written on, with nothing lost and nothing twice. Behind the
    last byte of each round nothing comes that would push it out.
    """
    sender, slow = connect(), connect()
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    slow.subscribe("/queue/slow", headers={"prefetch-count": "1000"})
    for size in (200_000, 300_000, 500_000, 1_000_000):
        bodies = [bytes([number]) * size for number in range(4)]
        for body in bodies:
            sender.send("/queue/slow", body)
        assert [slow.message().body for _ in bodies] == bodies


def test_the_last_word_comes_before_the_end(connect: Connect) -> None:
    wire = connect()
    wire.send_frame("DISCONNECT", {"receipt": "bye"})
    assert wire.read("RECEIPT")["receipt-id"] == "bye"
    assert wire.is_closed()


def test_what_is_no_tls_costs_its_own_connection_only(connect: Connect, broker: BrokerProcess) -> None:
    wire = connect()
    port = wire.socket.getpeername()[1]
    with Wire((broker.host, port)) as stranger:
        stranger.send_raw(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        while stranger.socket.recv(1024):
            pass
    wire.send("/queue/after", "still here")
