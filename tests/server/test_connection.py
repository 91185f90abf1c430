"""The socket side of one connection, with a real broker behind it."""

import gc
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from radiator.model.commands import Closed
from radiator.model.replies import Pause, Receipt
from radiator.server.connection import ServerConnection
from radiator.server.transport import PeerActivity
from tests.acceptance.wire import Wire
from tests.broker_process import DEFAULT_CONFIG, BrokerProcess
from tests.server.shell import Shell, read, until

CONFIG = DEFAULT_CONFIG.replace(
    "[create]",
    """[logging]
level = "debug"

[limits]
outbox_max_bytes = "256KiB"
heart_beat_ms = [100, 100]
tcp_timeout_s = 4

[queue.one]
persistent = false
max_messages = 1

[create]""",
)

Connect = Callable[..., Wire]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    opened: list[Wire] = []

    def connect(**headers: str) -> Wire:
        wire = Wire((broker.host, broker.port))
        opened.append(wire)
        wire.connect({name.replace("_", "-"): value for name, value in headers.items()})
        return wire

    yield connect
    for wire in opened:
        wire.close()


def read_to_the_end(wire: Wire) -> bytes:
    """All that comes before the broker hangs up. ConnectionResetError if it does so rudely."""
    sent = b""
    wire.socket.settimeout(5)
    while data := wire.socket.recv(1 << 16):
        sent += data
    return sent


@pytest.mark.parametrize("garbage_bytes", [0, 100_000, 1_000_000])
def test_error_reaches_a_client_that_is_still_writing(connect: Connect, garbage_bytes: int) -> None:
    wire = connect()
    wire.send_raw(b"NOSUCH\n\n\0" + b"x" * garbage_bytes)
    time.sleep(0.1)  # the ERROR is there, and more is sent to a broker that has hung up
    wire.send_raw(b"y" * 1000)
    assert read_to_the_end(wire).startswith(b"ERROR\n")


def test_error_reaches_a_client_that_was_never_connected(broker: BrokerProcess) -> None:
    with Wire((broker.host, broker.port)) as wire:
        wire.send_raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b"x" * 10_000)
        assert read_to_the_end(wire).startswith(b"ERROR\n")


def test_what_was_due_before_an_error_is_written_before_it(connect: Connect) -> None:
    wire = connect()
    wire.subscribe("/topic/before")
    body = b"z" * 200_000
    wire.send_raw(wire.frame("SEND", {"destination": "/topic/before", "receipt": "1"}, body) + b"NOSUCH\n\n\0")
    kinds = [wire.read_frame().command for _ in range(3)]
    assert sorted(kinds[:2]) == ["MESSAGE", "RECEIPT"] and kinds[2] == "ERROR"
    assert wire.is_closed()


def test_disconnect_is_receipted_and_closed_cleanly(connect: Connect, broker: BrokerProcess) -> None:
    wire = connect()
    wire.send_frame("DISCONNECT", {"receipt": "bye"})
    assert read_to_the_end(wire) == b"RECEIPT\nreceipt-id:bye\n\n\0\n"


def test_large_message_comes_whole(connect: Connect) -> None:
    sender, reader = connect(), connect()
    body = bytes(range(256)) * 16_384  # 4 MiB: many times what a socket takes at once
    reader.subscribe("/queue/large")
    sender.send("/queue/large", body)
    message = reader.message()
    assert message.body == body
    reader.ack(message)


@pytest.mark.slow
def test_slow_reader_is_not_closed_and_holds_up_nobody(connect: Connect, broker: BrokerProcess) -> None:
    """For longer than tcp_timeout_s its window is zero: its TCP answers, so it is alive."""
    sender, slow, other = connect(), connect(), connect()
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    slow.subscribe("/queue/slow", headers={"prefetch-count": "1000"})
    for _ in range(100):
        sender.send("/queue/slow", b"s" * 50_000)
    other.subscribe("/queue/quick")
    began_s = time.monotonic()
    while time.monotonic() - began_s < 6:
        sender.send("/queue/quick", "x")
        other.ack(other.message())
        time.sleep(0.05)
    assert "does not answer" not in broker.log
    for _ in range(100):
        assert slow.message().body == b"s" * 50_000


def test_client_that_never_reads_its_receipts_is_not_heard_until_it_does(connect: Connect) -> None:
    wire = connect()
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    wire.socket.settimeout(1.0)
    receipt = "r" * 1000
    pair = wire.frame("BEGIN", {"transaction": "t", "receipt": receipt}) + wire.frame("ABORT", {"transaction": "t"})
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 50_000_000:
            sent += wire.socket.send(pair * 20)
    assert sent < 20_000_000
    # whole frames went in except perhaps the last; each whole BEGIN is answered, none is lost
    begins = sent // len(pair)
    for _ in range(begins):
        assert wire.read("RECEIPT")["receipt-id"] == receipt


@pytest.mark.alone("clocks of a second are held to a few tenths")
@pytest.mark.slow
def test_clocks_of_a_waiting_producer_stand_still(connect: Connect) -> None:
    """It promised a byte every 0.1 s, so silence ends it after 1.2 s: but not while we do not listen to it."""
    producer, consumer = connect(heart_beat="100,100"), connect()
    producer.send("/queue/one", "first")
    waiting = producer.begin_ask("SEND", {"destination": "/queue/one"}, b"second")
    with pytest.raises(TimeoutError):
        producer.read_frame(2.0)
    assert producer.ends_of_line >= 15, "our own heart-beats go on"
    consumer.subscribe("/queue/one")
    consumer.ack(consumer.message())
    resumed_s = time.monotonic()
    producer.await_receipt(waiting)
    assert producer.is_closed()
    assert 1.0 < time.monotonic() - resumed_s < 2.5, "it is listened to again, and silent"


def test_client_that_never_pauses_does_not_starve_the_others(connect: Connect) -> None:
    blaster, other = connect(), connect()
    is_over = threading.Event()
    frames = blaster.frame("SEND", {"destination": "/topic/nobody"}, b"b" * 1000) * 200

    def blast() -> None:
        while not is_over.is_set():
            blaster.send_raw(frames)

    thread = threading.Thread(target=blast)
    thread.start()
    trips_s = []
    for _ in range(50):
        began_s = time.monotonic()
        other.fence()
        trips_s.append(time.monotonic() - began_s)
    is_over.set()
    thread.join()
    assert sorted(trips_s)[25] < 0.1
    assert max(trips_s) < 0.5


def test_lost_connection_is_logged_with_its_cause(connect: Connect, broker: BrokerProcess) -> None:
    begin = len(broker.log.splitlines())
    wire = connect()
    port = wire.socket.getsockname()[1]
    wire.close()
    reported = broker.wait_for_log("disconnected connection=", since=begin)
    while f"peer=127.0.0.1:{port} " not in reported:
        begin += 1
        reported = broker.wait_for_log("disconnected connection=", since=begin)
    assert 'cause="hung up"' in reported


# ---- whom nobody need look at


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell()
    yield made
    made.close()


def opened(shell: Shell, heart_beat: bytes = b"0,0") -> tuple[ServerConnection, socket.socket]:
    other = shell.client()
    other.send(b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:%b\n\n\0" % heart_beat)
    assert read(other).startswith(b"CONNECTED\n")
    return shell.connections.open[1], other


def look(connection: ServerConnection, in_s: float) -> float:
    """As the timetable does, in so many seconds. Returns in how many it is looked at again; 0: not before it wakes."""
    now_s = time.monotonic()
    connection.look_at_s = 0.0
    again_s = connection.look(now_s + in_s)
    return again_s and again_s - now_s


@pytest.mark.parametrize("scheme", ["stomp", "opened", "amqp"])
def test_a_connection_that_is_closed_is_freed_at_once(shell: Shell, scheme: str) -> None:
    """Not when its CONNECT would have been due, nor when rubbish is collected: thousands come and go meanwhile."""
    other = opened(shell)[1] if scheme == "opened" else shell.client(scheme=scheme)
    if scheme == "amqp":
        other.send(b"AMQP\x00\x00\x09\x01")
        assert b"version" in read(other)
    until(lambda: 1 in shell.connections._shared.by_number)
    reference = weakref.ref(shell.connections._shared.by_number[1])
    gc.collect()
    gc.disable()
    try:
        other.close()
        until(lambda: reference() is None)
    finally:
        gc.enable()


def test_who_waits_is_not_looked_at_before_something_is_read_or_sent(shell: Shell) -> None:
    connection, other = opened(shell)
    assert connection.look_at_s, "whether the client has CONNECTED is not known yet"
    assert look(connection, 10.0) == 0.0, "it is, and nothing can be due"
    other.send(b"SEND\ndestination:/queue/q\n\nx\0")
    until(lambda: connection.look_at_s)
    assert look(connection, 20.0) == 0.0, "nothing was sent"
    connection.post(Receipt(1, b"1"))
    connection.flush()
    assert 0 < connection.look_at_s - time.monotonic() < 10.0
    assert look(connection, 30.0) == 0.0


def test_who_may_not_have_got_what_was_sent_is_looked_at_and_found_dead(shell: Shell) -> None:
    connection, _ = opened(shell)
    shell.activity = PeerActivity(unacked=1)
    assert 0 < look(connection, 10.0) < 20.0, "its CONNECTED has not arrived"
    shell.activity = PeerActivity(unacked=1, silent_ms=100_000)
    assert look(connection, 100.0) == 0.0
    assert [event.cause for event in shell.heard() if isinstance(event, Closed)] == ["its TCP does not answer"]


def test_who_was_not_looked_at_is_held_to_a_frame_in_time(shell: Shell) -> None:
    connection, other = opened(shell)
    assert look(connection, 10.0) == 0.0
    other.send(b"SEND\ndestination:/queue/q\n")
    until(lambda: connection.look_at_s)
    assert look(connection, 5.0) > 0, "the rest of a frame is missing"
    assert look(connection, 11.0) == 0.0
    assert [event.cause for event in shell.heard() if isinstance(event, Closed)] == ["stalled within a frame"]


def test_who_is_not_read_from_is_looked_at(shell: Shell) -> None:
    """Else nobody would see that it is lost."""
    connection, _ = opened(shell)
    assert look(connection, 10.0) == 0.0
    connection.post(Pause(1))
    assert 0 < connection.look_at_s - time.monotonic() < 10.0
    assert look(connection, 10.0) > 0


@pytest.mark.parametrize("heart_beat", [b"1000,0", b"0,1000"])
def test_who_has_promised_or_awaits_a_byte_is_looked_at(shell: Shell, heart_beat: bytes) -> None:
    connection, _ = opened(shell, heart_beat)
    assert 0 < look(connection, 0.5) < 10.0
