"""What WebSocket costs the broker beside TCP: `python -m benchmarks.websocket`.

In turns on one broker: messages of 1 KiB, each receipted and so synced, from 16 connections with 100 outstanding each
and from 64 with one: how many a second, and the broker's CPU for each. Then the memory of an idle connection, each on a
broker of its own. Clients say frames that are made beforehand. Where there are two cores or more, the broker has the
first for itself.
"""

import argparse
import resource
import selectors
import socket
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.longchecks import rss_anon_bytes
from benchmarks.tls import CONNECT, part_cores, say
from radiator.tools.cli.load import process_cpu_s
from tests.broker_process import BrokerProcess
from tests.server.web import OPEN, port_of

SHAPES = ((16, 100), (64, 1))  # connections, and how many messages of each are outstanding
BODY = b"x" * 1024
READ_BYTES = 65_536
NAMES = {False: "TCP", True: "WebSocket"}
CONFIG = OPEN + "[limits]\nmax_connections = 20000\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
MASK = b"\x37\xfa\x21\x3d"


def message(data: bytes) -> bytes:
    """Of a client, in one frame."""
    size = len(data)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2)
    return b"\x82" + length + MASK + bytes(byte ^ MASK[at % 4] for at, byte in enumerate(data))


class Load:
    """is_websocket: or plain TCP."""

    def __init__(self, broker: BrokerProcess, is_websocket: bool) -> None:
        broker.wait_for_log("listening address=http://")
        self._broker = broker
        self._is_websocket = is_websocket
        self._port = port_of(broker.log, "http") if is_websocket else broker.port

    def connected(self) -> socket.socket:
        one = socket.create_connection((self._broker.host, self._port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._is_websocket:
            one.sendall(UPGRADE)
            answer = one.recv(READ_BYTES)
            assert answer.startswith(b"HTTP/1.1 101 "), answer
        one.sendall(self._said(CONNECT))
        answer = one.recv(READ_BYTES)
        assert b"CONNECTED" in answer, answer
        return one

    def _said(self, frame: bytes) -> bytes:
        return message(frame) if self._is_websocket else frame

    def send(self, connections: int, window: int, messages: int) -> tuple[float, float]:
        """Messages a second, and the broker's CPU in microseconds for each."""
        with ExitStack() as stack, selectors.DefaultSelector() as selector:
            for number in range(connections):
                one = stack.enter_context(self.connected())
                head = f"SEND\ndestination:/queue/{number}\nreceipt:1\ncontent-length:{len(BODY)}\n\n".encode()
                selector.register(one, selectors.EVENT_READ, [self._said(head + BODY + b"\0") * window, 0])
            before_s, began_s = process_cpu_s(self._broker.pid), time.perf_counter()
            for key in list(selector.get_map().values()):
                key.fileobj.sendall(key.data[0])  # type: ignore[union-attr]
            sent = left = connections * window * max(1, messages // (connections * window))
            unsent = sent - connections * window
            while left:
                for key, _ in selector.select():
                    receipts = key.fileobj.recv(READ_BYTES).count(b"\0")  # type: ignore[union-attr]
                    left -= receipts
                    key.data[1] += receipts
                    if key.data[1] == window:
                        key.data[1] = 0
                        if unsent:
                            unsent -= window
                            key.fileobj.sendall(key.data[0])  # type: ignore[union-attr]
            took_s = time.perf_counter() - began_s
            return sent / took_s, (process_cpu_s(self._broker.pid) - before_s) / sent * 1e6

    def idle_kib(self, count: int) -> float:
        """For each of so many connections that have said CONNECT and nothing more."""
        with ExitStack() as stack:
            for _ in range(count // 10):
                stack.enter_context(self.connected())
            before_bytes = rss_anon_bytes(self._broker.pid)
            for _ in range(count):
                stack.enter_context(self.connected())
            return (rss_anon_bytes(self._broker.pid) - before_bytes) / 1024 / count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.websocket", description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--messages", type=int, default=20_000, help="of each in a turn")
    parser.add_argument("--idle", type=int, default=2_000, help="connections whose memory is measured")
    wanted = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * wanted.idle), hard), hard))
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), CONFIG) as broker:
        part_cores(broker.pid)
        for connections, window in SHAPES:
            rates: dict[bool, list[float]] = {False: [], True: []}
            each_us: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(wanted.turns):
                for is_websocket in NAMES:
                    rate, one_us = Load(broker, is_websocket).send(connections, window, wanted.messages)
                    rates[is_websocket].append(rate)
                    each_us[is_websocket].append(one_us)
            for is_websocket, name in NAMES.items():
                rate, one_us = statistics.median(rates[is_websocket]), statistics.median(each_us[is_websocket])
                say(f"{connections} x {window}, {name}: {rate:,.0f}/s, {one_us:.1f} us of the broker's CPU each")
            shares = [one / other for one, other in zip(rates[True], rates[False], strict=True)]
            say(f"{connections} x {window}: median of the shares {statistics.median(shares):.0%}")
    for is_websocket, name in NAMES.items():
        with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), CONFIG) as broker:
            kib = Load(broker, is_websocket).idle_kib(wanted.idle)
        say(f"an idle connection of {wanted.idle:,}, {name}: {kib:.1f} KiB")


if __name__ == "__main__":
    main()
