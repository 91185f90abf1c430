"""What TLS costs the broker: `python -m benchmarks.tls`.

The broker's CPU for a message of 1 KiB from 16 connections with 100 receipts outstanding each, plain and encrypted in
turns, with records of 16 KiB and with one for each frame; for a new connection; for a handshake alone, of eight clients
at once; and the memory of an idle connection. Where there are two cores or more, the broker has the first for itself.

Messages are encrypted before the clock starts. A client that encrypts them meanwhile sends them more slowly than a
plain one; so the broker reads fewer at once, and the cost of its turns is taken for TLS's.
"""

import argparse
import os
import socket
import ssl
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.longchecks import rss_anon_bytes
from radiator.tools.cli.load import process_cpu_s
from tests.tls_broker import ENCRYPTED, TlsBroker

CONNECTIONS, WINDOW, BODY = 16, 100, b"x" * 1024
AT_ONCE = 8  # clients that shake hands
CONFIG = ENCRYPTED + "[create]\nqueues = true\ntopics = true\n"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"


class Wire:
    """A connection whose messages can be made ready before they are sent."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    def wrapped(self, data: bytes) -> bytes:
        """What is to be sent for it, in the order in which it is wrapped."""
        return data

    def read(self) -> bytes:
        """What has come, once something has."""
        return self.socket.recv(65_536)


class EncryptedWire(Wire):
    """The same by TLS."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(connected)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(self._out.read())
                self._in.write(self.socket.recv(65_536))
        self.socket.sendall(self._out.read())

    def wrapped(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()

    def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(65_536)
            except ssl.SSLWantReadError:
                self._in.write(self.socket.recv(65_536))


class Load:
    """is_tls: whether its connections are encrypted."""

    def __init__(self, broker: TlsBroker, is_tls: bool) -> None:
        self._broker = broker
        self._context = ssl.create_default_context(cafile=broker.ca_file) if is_tls else None

    def _wire(self) -> Wire:
        broker, context = self._broker, self._context
        one = socket.create_connection((broker.host, broker.port if context is None else broker.tls_port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Wire(one) if context is None else EncryptedWire(one, context)

    def _reached(self) -> socket.socket:
        broker, context = self._broker, self._context
        one = socket.create_connection((broker.host, broker.port if context is None else broker.tls_port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return one if context is None else context.wrap_socket(one, server_hostname="localhost")

    def connected(self) -> socket.socket:
        one = self._reached()
        one.sendall(CONNECT)
        assert one.recv(1000).startswith(b"CONNECTED")
        return one

    def send(self, rounds: int, frames_at_once: int) -> float:
        """The broker's CPU in microseconds for a message, each receipted."""
        wires = [self._wire() for _ in range(CONNECTIONS)]
        prepared = [self._prepared(number, wire, rounds, frames_at_once) for number, wire in enumerate(wires)]
        threads = [
            threading.Thread(target=self._send, args=both, daemon=True) for both in zip(wires, prepared, strict=True)
        ]
        before_s = process_cpu_s(self._broker.pid)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took_s = process_cpu_s(self._broker.pid) - before_s
        for wire in wires:
            wire.socket.close()
        return took_s / (CONNECTIONS * rounds * WINDOW) * 1e6

    def _prepared(self, number: int, wire: Wire, rounds: int, frames_at_once: int) -> list[list[bytes]]:
        """What goes through its socket, window by window, as it is handed to that."""
        head = f"SEND\ndestination:/queue/{number}\nreceipt:1\ncontent-length:{len(BODY)}\n\n".encode()
        frames = (head + BODY + b"\0") * frames_at_once
        wire.socket.sendall(wire.wrapped(CONNECT))
        assert wire.read().startswith(b"CONNECTED")
        return [[wire.wrapped(frames) for _ in range(WINDOW // frames_at_once)] for _ in range(rounds)]

    def _send(self, wire: Wire, windows: list[list[bytes]]) -> None:
        for window in windows:
            for one in window:
                wire.socket.sendall(one)
            receipts = 0
            while receipts < WINDOW:
                receipts += wire.read().count(b"\0")

    def connect(self, times: int) -> float:
        """The broker's CPU in microseconds for a connection that comes, says CONNECT, and goes."""
        before_s = process_cpu_s(self._broker.pid)
        for _ in range(times):
            self.connected().close()
        return (process_cpu_s(self._broker.pid) - before_s) / times * 1e6

    def shake_hands(self, times: int) -> float:
        """The broker's CPU in microseconds for a connection that is accepted, and goes behind its handshake."""
        before_s = process_cpu_s(self._broker.pid)
        threads = [threading.Thread(target=self._shake_hands, args=(times // AT_ONCE,)) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (process_cpu_s(self._broker.pid) - before_s) / (times // AT_ONCE * AT_ONCE) * 1e6

    def _shake_hands(self, times: int) -> None:
        for _ in range(times):
            self._reached().close()

    def idle(self, count: int, body_bytes: int) -> float:
        """KiB for each of so many connections, which have sent themselves a message of that size if it has any."""
        with ExitStack() as stack:
            for _ in range(count // 10):
                stack.enter_context(self._used(body_bytes))
            before_kib = rss_anon_bytes(self._broker.pid) / 1024
            for _ in range(count):
                stack.enter_context(self._used(body_bytes))
            return (rss_anon_bytes(self._broker.pid) / 1024 - before_kib) / count

    def _used(self, body_bytes: int) -> socket.socket:
        one = self.connected()
        if body_bytes:
            topic = f"/topic/{one.fileno()}"
            one.sendall(f"SUBSCRIBE\ndestination:{topic}\nid:1\n\n\0SEND\ndestination:{topic}\n\n".encode())
            one.sendall(b"x" * body_bytes + b"\0")
            came_bytes = 0
            while came_bytes < body_bytes:
                came_bytes += len(one.recv(65_536))
        return one


def part_cores(pid: int) -> None:
    """The first core is that process's, all others are this one's."""
    first, *others = sorted(os.sched_getaffinity(0))
    if others:
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {first})
        os.sched_setaffinity(0, set(others))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=40, help="windows of each connection in a turn")
    wanted = parser.parse_args()
    names = {False: "plain", True: "TLS"}

    def in_turns(what: str, unit: str, measure: Callable[[Load], float]) -> None:
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(wanted.turns):
            for is_tls in found:
                found[is_tls].append(measure(Load(broker, is_tls)))
        for is_tls, values in found.items():
            each = " ".join(f"{value:.1f}" for value in values)
            say(f"{what}, {names[is_tls]}: {statistics.median(values):.1f} {unit} (of {each})")

    with tempfile.TemporaryDirectory() as directory, TlsBroker(Path(directory), CONFIG) as broker:
        part_cores(broker.pid)
        in_turns("a message, 16 KiB records", "us", lambda load: load.send(wanted.rounds, WINDOW))
        in_turns("a message, a record each", "us", lambda load: load.send(wanted.rounds, 1))
        in_turns("a connection", "us", lambda load: load.connect(300))
        each_us = [Load(broker, True).shake_hands(800) for _ in range(wanted.turns)]
        rate = 1e6 / statistics.median(each_us)
        say(f"a handshake: {statistics.median(each_us):.0f} us, so {rate:,.0f} a second of one core")
    for body_bytes in (0, 200_000):
        for is_tls, name in names.items():
            with tempfile.TemporaryDirectory() as directory, TlsBroker(Path(directory), CONFIG) as broker:
                kib = Load(broker, is_tls).idle(500, body_bytes)
            say(f"an idle connection that has carried {body_bytes:,} bytes, {name}: {kib:.1f} KiB")


if __name__ == "__main__":
    main()
