"""The seam below a connection: a transport that the server does not know, and that encrypts, carries a connection."""

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.wire import Wire
from tests.broker_process import DEFAULT_CONFIG, BrokerProcess

CONFIG = DEFAULT_CONFIG.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "stomps://127.0.0.1:0"')


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed; on Debian or Ubuntu: apt install openssl")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made = [openssl, "req", "-x509", *curve, "-nodes", "-subj", "/CN=localhost", "-keyout", file, "-out", f"{file}.crt"]
    subprocess.run(made, check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + Path(f"{file}.crt").read_bytes())
    return file


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[BrokerProcess]:
    program = ("-m", "tests.server.tls", str(certificate))
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG, program) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


Connect = Callable[[], Wire]


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    opened: list[Wire] = []
    found = re.search(r":(\d+)", broker.wait_for_log("listening address=stomps://").partition("stomps://")[2])
    assert found is not None

    def connect() -> Wire:
        wire = Wire((broker.host, int(found[1])))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        wire.socket = context.wrap_socket(wire.socket)
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
