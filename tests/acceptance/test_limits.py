"""Every limit of a client: at it all works, one past it is refused, and the others are untouched (contract 6, 8)."""

import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess, environment

CONFIG = """\
[limits]
max_frame_bytes = 4096
max_header_bytes = 1024
max_headers = 10
max_subscriptions = 3
max_transactions = 2
connect_timeout_s = 0.6
heart_beat_ms = [0, 0]
[create]
queues = true
topics = true
"""


def padded(start: bytes, end: bytes, size: int) -> bytes:
    """start, as many `x` as make it `size` bytes, end."""
    return start + b"x" * (size - len(start) - len(end)) + end


@pytest.mark.parametrize("with_length", [True, False])
def test_frame_of_max_frame_bytes_works_and_one_more_is_refused(wire: Wire, queue: str, with_length: bool) -> None:
    """The whole frame, from the command to the NUL."""
    receipt = b"receipt:1\ndestination:" + queue.encode() + b"\n"

    def frame(size: int) -> bytes:
        head = b"SEND\n" + receipt + b"\n"
        if with_length:
            length = size - len(head) - len("content-length:0000\n") - 1
            head = b"SEND\n" + receipt + f"content-length:{length:04}\n\n".encode()
        return padded(head, b"\0", size)

    wire.send_raw(frame(4096))
    assert wire.read("RECEIPT")["receipt-id"] == "1"
    wire.send_raw(frame(4097))
    assert b"4096" in wire.refusal().body


def test_header_block_of_max_header_bytes_works_and_one_more_is_refused(wire: Wire, queue: str) -> None:
    """The command line and the blank line included."""
    start = b"SEND\nreceipt:1\ndestination:" + queue.encode() + b"\npad:"
    wire.send_raw(padded(start, b"\n\n", 1024) + b"body\0")
    assert wire.read("RECEIPT")["receipt-id"] == "1"
    wire.send_raw(padded(start, b"\n\n", 1025) + b"body\0")
    assert b"1024" in wire.refusal().body


def test_max_headers_work_and_one_more_is_refused(wire: Wire, queue: str) -> None:
    def frame(count: int) -> bytes:
        more = b"".join(b"h%d:x\n" % number for number in range(count - 2))
        return b"SEND\nreceipt:1\ndestination:" + queue.encode() + b"\n" + more + b"\nbody\0"

    wire.send_raw(frame(10))
    assert wire.read("RECEIPT")["receipt-id"] == "1"
    wire.send_raw(frame(11))
    assert b"10" in wire.refusal().body


def test_max_subscriptions_work_and_one_more_is_refused(wire: Wire, queue: str, name: str) -> None:
    wire.subscribe(queue, id="1")
    wire.subscribe(f"/topic/{name}", id="2")
    wire.subscribe(f"/topic/{name}.#", id="3")
    wire.ask("UNSUBSCRIBE", {"id": "3"})
    wire.subscribe(f"/topic/{name}", id="4")
    asked = wire.begin_ask("SUBSCRIBE", {"id": "5", "destination": queue})
    error = wire.refusal()
    assert error["receipt-id"] == asked
    assert b"max_subscriptions" in error.body


def test_max_transactions_work_and_one_more_is_refused(wire: Wire) -> None:
    wire.ask("BEGIN", {"transaction": "1"})
    wire.ask("BEGIN", {"transaction": "2"})
    wire.ask("ABORT", {"transaction": "1"})
    wire.ask("BEGIN", {"transaction": "3"})
    wire.send_frame("BEGIN", {"transaction": "4"})
    assert b"max_transactions" in wire.refusal().body


@pytest.fixture
def few_destinations(tmp_path: Path) -> Iterator[Callable[[], Wire]]:
    """A broker that takes five; there are two."""
    config = """\
[limits]
max_destinations = 5
[create]
queues = true
topics = true
[fanout."events"]
children = ["declared"]
"""
    with BrokerProcess(tmp_path, config) as broker:

        def connected() -> Wire:
            wire = Wire((broker.host, broker.port))
            wire.connect()
            return wire

        yield connected


def test_max_destinations_work_and_one_more_is_refused(few_destinations: Callable[[], Wire]) -> None:
    wire = few_destinations()
    wire.send("/queue/1", "x")
    wire.send("/queue/2", "x")
    wire.subscribe("/topic/3")
    for command, destination in (("SEND", "/queue/4"), ("SUBSCRIBE", "/queue/4"), ("SUBSCRIBE", "/topic/4")):
        other = few_destinations()
        other.send_frame(command, {"id": "1", "destination": destination})
        assert b"max_destinations" in other.refusal().body
    wire.send("/queue/1", "what exists works on")
    wire.send("/fanout/events", "x")
    wire.ask("UNSUBSCRIBE", {"id": "0"})
    wire.send("/queue/4", "the topic is gone with its last subscriber")


def test_operator_is_not_locked_out_by_max_destinations(few_destinations: Callable[[], Wire]) -> None:
    wire = few_destinations()
    for number in range(3):
        wire.send(f"/queue/{number}", "x")
    assert b'"ok": true' in few_destinations().admin(b'{"do": "delete", "queue": "1"}')
    wire.send("/queue/4", "x")


def test_unknown_client_may_say_little_before_it_is_connected(broker: BrokerProcess) -> None:
    with Wire((broker.host, broker.port)) as wire:
        wire.send_raw(padded(b"CONNECT\naccept-version:1.2\nhost:x\npad:", b"\n\n\0", 100_000))
        try:
            assert wire.read_frame().command == "ERROR"
            assert wire.is_closed()
        except Gone:
            pass  # a reset: what was not read any more


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"\n", b"CONNECT\n", b"CONNECT\naccept-version:1.2\nhost:x\n\n", b"STO"])
def test_connection_without_a_whole_connect_in_time_is_closed(broker: BrokerProcess, sent: bytes) -> None:
    with Wire((broker.host, broker.port)) as wire:
        began_s = time.monotonic()
        wire.send_raw(sent)
        ended_with_or_without_error(wire)
        assert 0.4 < time.monotonic() - began_s < 3


@pytest.mark.slow
def test_byte_by_byte_is_no_way_around_connect_timeout(broker: BrokerProcess) -> None:
    with Wire((broker.host, broker.port)) as wire:
        began_s = time.monotonic()
        with pytest.raises((ConnectionError, Gone)):
            for byte in b"CONNECT\naccept-version:1.2\nhost:" + b"x" * 1000:
                wire.send_raw(bytes([byte]))
                time.sleep(0.02)
        assert time.monotonic() - began_s < 3


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"SEND\ndestination:/queue/stalled\n\nhalf a bo", b"SE", b"SEND\ndestination:/que"])
def test_connection_that_stalls_within_a_frame_is_closed(wire: Wire, sent: bytes) -> None:
    began_s = time.monotonic()
    wire.send_raw(sent)
    ended_with_or_without_error(wire)
    assert 0.4 < time.monotonic() - began_s < 3


@pytest.mark.slow
def test_frame_that_comes_slowly_but_comes_is_read(wire: Wire, queue: str) -> None:
    data = wire.frame("SEND", {"destination": queue, "receipt": "slow"}, b"x" * 10)
    for start in range(0, len(data), 20):
        wire.send_raw(data[start : start + 20])
        time.sleep(0.2)
    assert wire.read("RECEIPT")["receipt-id"] == "slow"


@pytest.fixture
def brief(tmp_path: Path) -> Iterator[Wire]:
    """Connected to a broker that gives a frame a second and a half, and each gap within it half a second."""
    limits = "connect_timeout_s = 0.5\nframe_timeout_s = 1.5\nheart_beat_ms = [0, 0]\nblock_timeout_s = 20\n"
    queue = '[queue."one"]\nmax_messages = 1\n'
    config = f"[limits]\n{limits}{EVERYTHING_MAY_BE_CREATED}{queue}"
    with BrokerProcess(tmp_path, config) as broker, Wire((broker.host, broker.port)) as wire:
        wire.connect()
        yield wire


@pytest.mark.slow
def test_frame_that_comes_byte_by_byte_has_a_time_as_a_whole(brief: Wire) -> None:
    began_s = time.monotonic()
    brief.send_raw(b"SEND\ndestination:/queue/q\n\n")
    brief.socket.settimeout(0.1)
    sent = b""
    while not sent:
        brief.send_raw(b"x")
        assert time.monotonic() - began_s < 10, "it goes on for ever"
        with contextlib.suppress(TimeoutError):
            sent = brief.socket.recv(1000)
    assert 1.4 < time.monotonic() - began_s < 4
    brief.buffer = sent
    assert b"frame_timeout_s" in brief.refusal().body


@pytest.mark.slow
def test_large_frame_has_its_size_at_16_kib_a_second(brief: Wire) -> None:
    """Four seconds for 64 KiB, and it takes two."""
    data = brief.frame("SEND", {"destination": "/queue/q", "receipt": "large"}, b"x" * 64 * 1024)
    for start in range(0, len(data), 6600):
        brief.send_raw(data[start : start + 6600])
        time.sleep(0.2)
    assert brief.read("RECEIPT")["receipt-id"] == "large"


@pytest.mark.slow
def test_lines_between_frames_are_no_slow_frame(brief: Wire) -> None:
    for _ in range(30):
        brief.send_raw(b"\r")
        time.sleep(0.05)
        brief.send_raw(b"\n")
        time.sleep(0.05)
    brief.send("/queue/q", "x")


@pytest.mark.slow
def test_time_of_a_frame_stands_still_while_its_client_is_not_read(brief: Wire) -> None:
    """Its SENDs fill a queue, and it waits for longer than a frame may take, with half a frame behind them."""
    brief.send("/queue/one", "1")
    second = brief.frame("SEND", {"destination": "/queue/one", "receipt": "2"}, b"2")
    third = brief.frame("SEND", {"destination": "/queue/q", "receipt": "3"}, b"x" * 100)
    brief.send_raw(second + third[:50])
    time.sleep(3)
    with Wire(brief.socket.getpeername()) as reader:
        reader.connect()
        reader.subscribe("/queue/one")
        reader.ack(reader.message())
        assert brief.read("RECEIPT")["receipt-id"] == "2"
        for byte in third[50:55]:
            time.sleep(0.2)
            brief.send_raw(bytes([byte]))
        brief.send_raw(third[55:])
        assert brief.read("RECEIPT")["receipt-id"] == "3"


@pytest.mark.slow
def test_idle_connection_is_not_closed(wire: Wire, queue: str) -> None:
    time.sleep(1.2)
    wire.send(queue, "x")


def ended_with_or_without_error(wire: Wire) -> None:
    try:
        assert wire.read_frame(5).command == "ERROR"
        assert wire.is_closed()
    except Gone:
        pass


def test_one_connection_more_than_max_connections_is_refused(tmp_path: Path) -> None:
    config = "[limits]\nmax_connections = 3\n[create]\nqueues = true\n"
    with BrokerProcess(tmp_path, config) as broker:
        address = (broker.host, broker.port)
        wires = [Wire(address) for _ in range(3)]
        for wire in wires:
            wire.connect()
        for _ in range(3):
            with Wire(address) as late:
                assert b"max_connections" in late.refusal().body
        for wire in wires:
            wire.send("/queue/x", "the others are untouched")
        wires[0].ask("DISCONNECT")
        assert wires[0].is_closed()
        wires[0].close()
        deadline_s = time.monotonic() + 3
        while True:
            with Wire(address) as another:
                another.send_frame("CONNECT", {"accept-version": "1.2", "host": "x"})
                try:
                    if another.read_frame().command == "CONNECTED":
                        break
                except Gone:
                    pass
            assert time.monotonic() < deadline_s, "a place is free again"
        for wire in wires:
            wire.close()


def crowd_of(count: int, address: tuple[str, int], sources: int = 1) -> list[socket.socket]:
    """So many sockets that say nothing, from 127.0.0.1 and the addresses behind it."""
    return [
        socket.create_connection(address, 10, source_address=(f"127.0.0.{1 + number % sources}", 0))
        for number in range(count)
    ]


def is_open(one: socket.socket) -> bool:
    """Whether the broker has said nothing to it yet."""
    one.settimeout(0.2)
    try:
        return not one.recv(1000).startswith(b"ERROR")
    except TimeoutError:
        return True


def test_half_open_connections_take_no_place_of_clients(tmp_path: Path) -> None:
    config = "[limits]\nmax_connections = 3\nmax_half_open = 40\nmax_half_open_per_address = 20\n"
    with BrokerProcess(tmp_path, config + EVERYTHING_MAY_BE_CREATED) as broker:
        address = (broker.host, broker.port)
        crowd = crowd_of(20, address)
        assert all(is_open(one) for one in crowd[:3])
        wires = []
        for _ in range(3):
            wires.append(wire := Wire(address))
            wire.connect()  # before the next one comes: which half-open one then has to go is left to chance
            wire.send("/queue/q", "x")
        broker.wait_for_log("half_open_full")
        crowd += crowd_of(200, address)
        wires[0].send("/queue/q", "x")
        assert broker.log.count("half_open_full") == 1
        with Wire(address) as late:
            assert b"max_connections" in late.refusal().body
        for one in (*crowd, *wires):
            one.close()


def test_connect_that_finds_all_places_taken_meanwhile_is_refused(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "[limits]\nmax_connections = 1\n" + EVERYTHING_MAY_BE_CREATED) as broker:
        address = (broker.host, broker.port)
        with Wire(address) as early, Wire(address) as quick:
            quick.connect()
            early.send_frame("CONNECT", {"accept-version": "1.2", "host": "x"})
            error = early.refusal()
            assert error["code"] == "connections" and b"max_connections" in error.body
            quick.send("/queue/q", "is untouched")


def test_who_gives_way_is_told_and_who_has_said_connect_does_not(tmp_path: Path) -> None:
    limits = "[limits]\nmax_half_open_per_address = 1\n"
    with BrokerProcess(tmp_path, limits + EVERYTHING_MAY_BE_CREATED) as broker:
        address = (broker.host, broker.port)
        with Wire(address) as silent, Wire(address) as next_one:
            error = silent.refusal()
            assert error["code"] == "connections" and b"CONNECT" in error.body
            next_one.connect()
            with Wire(address) as third:
                third.connect()
                next_one.send("/queue/q", "has its place")
        assert broker.wait_for_log("half_open_full").count("network=127.0.0.1") == 1


def test_wave_of_clients_that_say_connect_at_once_all_get_in(tmp_path: Path) -> None:
    """What the broker has not read yet counts as said."""
    limits = "[limits]\nmax_half_open_per_address = 1\n"
    with BrokerProcess(tmp_path, limits + EVERYTHING_MAY_BE_CREATED) as broker:
        wave: list[Wire] = []
        for _ in range(50):
            wave.append(Wire((broker.host, broker.port)))
            wave[-1].send_frame("CONNECT", {"accept-version": "1.2", "host": "x"})
        assert [wire.read_frame().command for wire in wave] == ["CONNECTED"] * 50
        for wire in wave:
            wire.close()


@pytest.mark.slow
@pytest.mark.parametrize("sources", [1, 40])
def test_ten_thousand_half_open_connections_keep_nobody_out(tmp_path: Path, sources: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 12_000), hard))
    crowd: list[socket.socket] = []
    limits = "[limits]\nmax_connections = 50\nconnect_timeout_s = 60\n"
    try:
        with BrokerProcess(tmp_path, limits + EVERYTHING_MAY_BE_CREATED) as broker:
            address = (broker.host, broker.port)
            crowd = crowd_of(10_000, address, sources)
            stats = subprocess.run(
                [sys.executable, "-m", "radiator", "stats", "--broker", broker.address],
                env=environment(),
                capture_output=True,
                text=True,
                timeout=20,
            )
            assert stats.returncode == 0, stats.stderr
            for _ in range(40):
                with Wire(address) as wire:
                    wire.connect()
                    wire.send("/queue/q", "x")
            taken = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
            assert taken < 2200, f"{taken} files are open"
            assert "connections_full" not in broker.log
    finally:
        for one in crowd:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_memory_bound_makes_producers_wait_and_loses_nothing(tmp_path: Path) -> None:
    """Memory queues fill max_memory_bytes to 80 %: then a SEND waits until somebody consumes."""
    config = """\
[limits]
max_memory_bytes = "4MiB"
max_frame_bytes = "256KiB"
max_batch_bytes = "256KiB"
outbox_max_bytes = "256KiB"
block_timeout_s = 20
[queue."memory"]
persistent = false
"""
    with BrokerProcess(tmp_path, config) as broker:
        address = (broker.host, broker.port)
        with Wire(address) as sender, Wire(address) as reader:
            sender.connect()
            reader.connect()
            sent = 0
            with pytest.raises(TimeoutError):
                while sent < 100:
                    sender.begin_ask("SEND", {"destination": "/queue/memory"}, b"x" * 100_000)
                    sent += 1
                    sender.read_frame(1)
            assert 20 < sent < 50, "80 % of 4 MiB are 33 messages"
            reader.subscribe("/queue/memory")
            for _ in range(sent):
                reader.ack(reader.message())
            assert sender.read_frame().command == "RECEIPT"


@pytest.mark.slow
def test_broker_out_of_files_serves_those_it_has_and_recovers(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "[create]\nqueues = true\n") as broker:
        address = (broker.host, broker.port)
        good = Wire(address)
        good.connect()
        soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        in_use = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (in_use + 5, hard))
        waiting = [Wire(address) for _ in range(20)]
        for number in range(20):
            good.send("/queue/x", f"{number}")
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (soft, hard))
        for wire in waiting:
            wire.connect()
            wire.close()
        good.send("/queue/x", "still here")
        assert len(broker.log.splitlines()) < 200, "said once, not once a try"
        good.close()
