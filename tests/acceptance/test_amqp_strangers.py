"""What strangers try at a listener of AMQP before they have logged in, and what it costs the broker."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.model.amqp_tables import encode_table
from radiator.model.limits import FAILURES_OF_NAME
from radiator.protocols.amqp.connection_methods import ConnectionOpen, ConnectionStart, ConnectionTune, ConnectionTuneOk
from radiator.protocols.amqp.frame import encode_frame
from radiator.protocols.amqp.methods import ChannelOpen, QueueDeclare
from radiator.protocols.amqp.spec import FRAME_METHOD, FRAME_MIN_BYTES, PROTOCOL_HEADER
from tests.acceptance.amqp_wire import AmqpWire, start_ok
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED
from tests.campaigns.growth import anonymous_bytes
from tests.protocols.amqp.talking import method
from tests.server.web import SECRET, port_of
from tests.tls_broker import ENCRYPTED, TlsBroker

LISTENING = ENCRYPTED.replace('"stomps://', '"amqp://127.0.0.1:0", "amqps://127.0.0.1:0", "stomps://')
USERS = f'[user.ann]\npassword = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"\nrole = "operator"\n'
CONFIG = LISTENING + "[limits]\nconnect_timeout_s = 1\n" + EVERYTHING_MAY_BE_CREATED + USERS
START_OK = (10).to_bytes(2) + (11).to_bytes(2)  # its class and method
FORGED = "PROXY TCP4 127.0.0.1 127.0.0.1 5 6\r\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log
        assert SECRET not in running.log


@pytest.fixture
def wire(broker: TlsBroker) -> Iterator[AmqpWire]:
    with AmqpWire(port_of(broker.log, "amqp")) as found:
        yield found


def works(broker: TlsBroker) -> bool:
    with AmqpWire(port_of(broker.log, "amqp")) as other:
        other.greet("ann", SECRET)
        other.open()
    return True


# ---- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"", PROTOCOL_HEADER[:4], PROTOCOL_HEADER, PROTOCOL_HEADER + start_ok("ann", SECRET)[:9]]
)
def test_a_login_over_amqp_that_does_not_end_is_bounded_in_time(broker: TlsBroker, wire: AmqpWire, sent: bytes) -> None:
    began_s = time.monotonic()
    wire.send(sent)
    wire.ending(5)
    assert 0.8 <= time.monotonic() - began_s < 3
    assert works(broker)


def test_each_byte_of_a_login_over_amqp_gives_no_more_time(wire: AmqpWire) -> None:
    began_s = time.monotonic()
    wire.socket.settimeout(0.1)
    for byte in PROTOCOL_HEADER + start_ok("ann", SECRET):
        try:
            wire.send(bytes([byte]))
            while wire.socket.recv(4096):
                pass
            break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    assert 0.8 <= time.monotonic() - began_s < 3


@pytest.mark.parametrize("data", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
def test_a_handshake_at_amqps_that_does_not_end_is_bounded_in_time(broker: TlsBroker, data: bytes) -> None:
    with AmqpWire(port_of(broker.log, "amqps")) as silent:
        silent.send(data)
        began_s = time.monotonic()
        silent.socket.settimeout(5)
        with suppress(ConnectionError):
            assert silent.socket.recv(4096) == b""
        assert 0.8 <= time.monotonic() - began_s < 3
    assert works(broker)


def test_plain_amqp_at_amqps_is_told_apart(broker: TlsBroker) -> None:
    since = len(broker.log.splitlines())
    with AmqpWire(port_of(broker.log, "amqps")) as plain:
        plain.send(PROTOCOL_HEADER, start_ok("ann", SECRET))
        plain.socket.settimeout(5)
        with suppress(ConnectionError):
            while plain.socket.recv(4096):
                pass
    line = broker.wait_for_log("the client does not speak TLS", since=since)
    assert "amqps://" in line


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_a_stranger_has_frames_of_4_kib_and_the_size_is_judged_with_its_seventh_byte(
    broker: TlsBroker, wire: AmqpWire
) -> None:
    wire.send(PROTOCOL_HEADER)
    wire.hear(ConnectionStart)
    wire.send(bytes([FRAME_METHOD]) + (0).to_bytes(2) + (FRAME_MIN_BYTES - 7).to_bytes(4))
    code, text = wire.ending(0.5)
    assert code == 501 and re.search(r"has \d+ bytes: at most 4096", text)
    assert works(broker)


@pytest.mark.parametrize("size", [1 << 20, (1 << 31) - 1, (1 << 32) - 1])
def test_a_size_that_nobody_sends_is_refused_before_its_first_byte(wire: AmqpWire, size: int) -> None:
    wire.send(PROTOCOL_HEADER, bytes([FRAME_METHOD]) + (0).to_bytes(2) + size.to_bytes(4))
    assert wire.ending(0.5)[0] == 501


def bomb(depth: int, letter: bytes = b"A") -> bytes:
    """A table of a field that has so many arrays or tables within each other."""
    inner = b""
    for _ in range(depth):
        value = letter + len(inner).to_bytes(4) + inner
        inner = value if letter == b"A" else b"\x01a" + value
    table = b"\x01a" + inner if letter == b"A" else inner
    return len(table).to_bytes(4) + table


@pytest.mark.parametrize(
    "table",
    [bomb(700), bomb(300, b"F"), bomb(9), encode_table({f"{n}": None for n in range(300)})],
    ids=["arrays", "tables", "one-too-deep", "fields"],
)
def test_a_table_that_is_a_bomb_ends_a_stranger(broker: TlsBroker, wire: AmqpWire, table: bytes) -> None:
    payload = START_OK + table + b"\x05PLAIN" + (4).to_bytes(4) + b"\0a\0b" + b"\x05en_US"
    assert len(payload) < FRAME_MIN_BYTES
    began_s = time.monotonic()
    wire.send(PROTOCOL_HEADER, encode_frame(FRAME_METHOD, 0, payload))
    code, _ = wire.ending(0.7)
    assert code == 502 and time.monotonic() - began_s < 0.7
    assert works(broker)


def test_a_thousand_strangers_with_half_a_frame_hold_little_and_keep_nobody_out(tmp_path: Path) -> None:
    """One address has 500 places of those who have not logged in; for one more the oldest goes."""
    half = PROTOCOL_HEADER + start_ok("ann", "x" * 3000)[:3000]
    slow = CONFIG.replace("connect_timeout_s = 1", "connect_timeout_s = 60")
    with TlsBroker(tmp_path, slow) as broker, ExitStack() as stack:
        port = port_of(broker.log, "amqp")
        assert works(broker)
        before_bytes = anonymous_bytes(broker.pid)
        for _ in range(1000):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            one.sendall(half)
        assert works(broker)
        assert anonymous_bytes(broker.pid) - before_bytes < 1000 * 32_768
        with Wire((broker.host, broker.port)) as operator:
            operator.connect({"login": "ann", "passcode": SECRET})
        with AmqpWire(port) as last:
            last.greet("ann", SECRET)


# ---- logins ---------------------------------------------------------------------------------------------------------


def test_nothing_behind_a_refused_login_over_amqp_is_carried_out(broker: TlsBroker, wire: AmqpWire) -> None:
    behind = [
        method(0, ConnectionTuneOk(0, 0, 0)), method(0, ConnectionOpen()), method(1, ChannelOpen()),
        method(1, QueueDeclare(0, "of-a-stranger", durable=True)),
    ]  # fmt: skip
    wire.send(PROTOCOL_HEADER, start_ok("ann", "wrong"), *behind)
    code, text = wire.ending(5)
    assert code == 403 and text.startswith("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN")
    assert "of-a-stranger" not in broker.log


def test_so_many_failures_over_amqp_count_with_those_over_stomp(tmp_path: Path) -> None:
    """Who has logged in before gets in all the same."""

    def wrong(secret: str) -> str:
        with AmqpWire(port) as one:
            one.send(PROTOCOL_HEADER, start_ok("ann", secret))
            return one.ending(10)[1]

    with TlsBroker(tmp_path, CONFIG) as broker:
        port = port_of(broker.log, "amqp")
        assert works(broker)
        for n in range(FAILURES_OF_NAME // 2):
            with Wire((broker.host, broker.port)) as stomp:
                stomp.send_frame("CONNECT", {"accept-version": "1.2", "host": "h", "login": "ann", "passcode": f"{n}"})
                assert stomp.read("ERROR")["code"] == "forbidden"
        found = wrong("w")
        assert "it takes the name of a user" in found
        left = 3 * FAILURES_OF_NAME  # a slow machine lets one more pass every six seconds
        while "Too many logins have failed" not in found and left:
            left, found = left - 1, wrong(f"w{left}")
        assert left > 2 * FAILURES_OF_NAME, found
        assert works(broker)


def test_so_many_logins_over_amqp_wait_and_one_more_is_refused(tmp_path: Path) -> None:
    """A hash of 64 MiB each; another client is served in the meantime."""
    cheap, dear = (str(made(SECRET.encode(), bytes(16), Cost(ln=ln))) for ln in (10, 16))
    config = CONFIG.replace("connect_timeout_s = 1", "connect_timeout_s = 60") + "[user.dear]\n"
    with TlsBroker(tmp_path, config + f'password = "{dear}"\n') as broker, ExitStack() as stack:
        assert cheap in config and works(broker)
        port = port_of(broker.log, "amqp")
        wires = [stack.enter_context(AmqpWire(port)) for _ in range(60)]
        for number, one in enumerate(wires):
            one.send(PROTOCOL_HEADER, start_ok(f"nobody{number}", "x"))
        assert works(broker)
        found = [one.ending(60)[1] for one in wires]
        waited = [text for text in found if "it takes the name of a user" in text or "Too many logins" in text]
        refused = [text for text in found if "wait to be recognised: try again later" in text]
        assert len(waited) + len(refused) == 60 and len(waited) >= 32 and refused, found


def test_an_unknown_user_over_amqp_is_answered_as_a_known_one(broker: TlsBroker) -> None:
    found = []
    for user in ("ann", "nobody"):
        with AmqpWire(port_of(broker.log, "amqp")) as one:
            one.send(PROTOCOL_HEADER, start_ok(user, "wrong"))
            found.append(one.ending(5))
    assert found[0] == found[1] and found[0][0] == 403


def test_what_a_stranger_says_is_one_line_of_the_log_quoted(broker: TlsBroker, wire: AmqpWire) -> None:
    since = len(broker.log.splitlines())
    wire.send(PROTOCOL_HEADER, start_ok("eve\n2026 info start\x1b[2J" + "x" * 300, "hunter2"))
    wire.ending(5)
    line = broker.wait_for_log("login_failed", since=since)
    assert "\\n2026 info start\\x1b" in line or "\\n2026 info start\\u001b" in line
    assert len(line) < 400 and "hunter2" not in broker.log


def test_a_header_of_a_proxy_makes_nobody_another(broker: TlsBroker, wire: AmqpWire) -> None:
    wire.send(FORGED.encode(), PROTOCOL_HEADER, start_ok("ann", SECRET))
    assert wire.socket.recv(4096) == PROTOCOL_HEADER and wire.socket.recv(4096) == b""


def test_who_has_not_logged_in_says_nothing_on_a_channel(broker: TlsBroker, wire: AmqpWire) -> None:
    wire.send(PROTOCOL_HEADER, method(1, ChannelOpen()))
    assert wire.ending(5)[0] in (503, 504)
    with AmqpWire(port_of(broker.log, "amqp")) as tuned:
        tuned.send(PROTOCOL_HEADER, start_ok("ann", SECRET))
        tuned.hear(ConnectionTune)
        tuned.send(method(0, ConnectionTuneOk(0, 0, 0)), method(1, ChannelOpen()))
        assert tuned.ending(5)[0] == 504
