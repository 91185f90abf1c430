"""What HTTP costs the broker: `python -m benchmarks.web`.

Publishes of 1 KiB, each answered when it is synced: from 64 connections with one outstanding, from 16 with 50, and in
batches of 100 from 8; how many messages a second, and the broker's CPU for each, beside STOMP over TCP in the same
shape, in turns; with --peers beside the doors for the web of other brokers too (web_peers.py). Then very many clients
that wait in a long poll while nothing comes: the memory of each, and the broker's CPU. Clients say requests that are
made beforehand. Where there are two cores or more, the broker has the first for itself.
"""

import argparse
import json
import resource
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.longchecks import rss_anon_bytes
from benchmarks.tls import CONNECT, part_cores, say
from benchmarks.web_peers import BODY, nats, nats_hello, rabbitmq, rabbitmq_publish
from benchmarks.websocket import UPGRADE, message
from radiator.tools.cli.load import process_cpu_s
from tests.broker_process import BrokerProcess
from tests.protocols.http.asking import request
from tests.server.web import OPEN, port_of

READ_BYTES = 65_536
CONFIG = OPEN + "[limits]\nmax_connections = 20000\nmax_half_open = 20000\nmax_half_open_per_address = 20000\n"
WAIT = json.dumps({"wait_ms": 60_000}).encode()
REST_S = 16.0  # after so long nobody who waits is looked at any more


@dataclass(frozen=True, slots=True)
class Shape:
    """door: through which. data: what one client says for `window` answers, each of which holds `answer`. messages: of
    one answer.
    """

    door: str
    connections: int
    window: int
    data: bytes
    answer: bytes
    messages: int = 1

    @property
    def name(self) -> str:
        batches = f", batches of {self.messages}" if self.messages > 1 else ""
        return f"{self.connections} x {self.window}, {self.door}{batches}"


ONE = request("POST", "/v1/queues/q/messages", BODY, Content_Type="text/plain")
BATCH = json.dumps({"messages": [{"body": BODY.decode()}] * 100}).encode()
MANY = request("POST", "/v1/queues/q/messages", BATCH, Content_Type="application/json")
SEND = b"SEND\ndestination:/queue/q\nreceipt:1\ncontent-length:1024\n\n" + BODY + b"\0"
ANSWER, RECEIPT = b"HTTP/1.1 201 ", b"RECEIPT\n"
ROWS = (
    (Shape("HTTP", 64, 1, ONE, ANSWER), Shape("STOMP", 64, 1, SEND, RECEIPT)),
    (Shape("HTTP", 16, 50, ONE * 50, ANSWER), Shape("STOMP", 16, 50, SEND * 50, RECEIPT)),
    (Shape("HTTP", 8, 1, MANY, ANSWER, 100),),
)
"""Those of a row are measured in turns."""
PEERS_ROW = (
    Shape("HTTP", 64, 1, ONE, ANSWER),
    Shape("RabbitMQ's management API", 64, 1, rabbitmq_publish(), b'"routed":true'),
    Shape("WebSocket", 64, 1, message(SEND), RECEIPT),
    Shape("NATS over WebSocket", 64, 1, b"", b'"seq":'),
)


@dataclass(frozen=True, slots=True)
class Door:
    """Where clients connect. hello: makes a connection ready; what it says instead of a shape's data, if anything.
    cpu_s: of the broker until now.
    """

    port: int
    hello: Callable[[socket.socket], bytes]
    cpu_s: Callable[[], float]

    def connected(self) -> tuple[socket.socket, bytes]:
        one = socket.create_connection(("127.0.0.1", self.port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return one, self.hello(one)


def of_http(_: socket.socket) -> bytes:
    """Nothing comes before the first request."""
    return b""


def of_stomp(one: socket.socket) -> bytes:
    one.sendall(CONNECT)
    assert b"CONNECTED" in one.recv(READ_BYTES)
    return b""


def of_websocket(one: socket.socket) -> bytes:
    one.sendall(UPGRADE)
    answer = one.recv(READ_BYTES)
    assert answer.startswith(b"HTTP/1.1 101 "), answer
    one.sendall(message(CONNECT))
    assert b"CONNECTED" in one.recv(READ_BYTES)
    return b""


def doors(broker: BrokerProcess) -> dict[str, Door]:
    """Radiator's, by what is spoken there."""

    def cpu_s() -> float:
        return process_cpu_s(broker.pid)

    web = port_of(broker.log, "http")
    return {
        "HTTP": Door(web, of_http, cpu_s),
        "STOMP": Door(broker.port, of_stomp, cpu_s),
        "WebSocket": Door(web, of_websocket, cpu_s),
    }


def publish(door: Door, shape: Shape, rounds: int) -> tuple[float, float]:
    """Messages a second, and the broker's CPU in microseconds for each."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(shape.connections):
            one, own = door.connected()
            stack.enter_context(one)
            selector.register(one, selectors.EVENT_READ, [0, rounds - 1, b"", own or shape.data])
        before_s, began_s = door.cpu_s(), time.perf_counter()
        for key in list(selector.get_map().values()):
            key.fileobj.sendall(key.data[3])  # type: ignore[union-attr]
        left = shape.connections * rounds
        while left:
            for key, _ in selector.select():
                state = key.data
                data = state[2] + key.fileobj.recv(READ_BYTES)  # type: ignore[union-attr]
                assert data, "the broker has closed"
                state[0] += data.count(shape.answer)
                state[2] = data[-len(shape.answer) + 1 :]
                if state[0] == shape.window:
                    state[0] = 0
                    left -= 1
                    if state[1]:
                        state[1] -= 1
                        key.fileobj.sendall(state[3])  # type: ignore[union-attr]
        took_s = time.perf_counter() - began_s
        messages = shape.connections * rounds * shape.window * shape.messages
        return messages / took_s, (door.cpu_s() - before_s) / messages * 1e6


def wait_idle(broker: BrokerProcess, count: int, for_s: float) -> tuple[float, float]:
    """KiB of each client that waits in a long poll, and the share of a core that all of them take."""
    poll = request("POST", "/v1/queues/quiet/receive", WAIT, Content_Type="application/json")
    door = doors(broker)["HTTP"]
    with ExitStack() as stack:
        for number in range(count + count // 10):
            if number == count // 10:
                before_bytes = rss_anon_bytes(broker.pid)
            stack.enter_context(door.connected()[0]).sendall(poll)
        time.sleep(REST_S)
        kib = (rss_anon_bytes(broker.pid) - before_bytes) / 1024 / count
        before_s = process_cpu_s(broker.pid)
        time.sleep(for_s)
        return kib, (process_cpu_s(broker.pid) - before_s) / for_s


def measure(row: Sequence[Shape], doors: Mapping[str, Door], turns: int, rounds: int) -> None:
    found: dict[Shape, list[tuple[float, float]]] = {shape: [] for shape in row}
    for _ in range(turns):
        for shape in row:
            windows = max(1, rounds // (shape.window * shape.messages) + 1)
            found[shape].append(publish(doors[shape.door], shape, windows))
    for shape, values in found.items():
        rate, each_us = (statistics.median(one) for one in zip(*values, strict=True))
        say(f"{shape.name}: {rate:,.0f} messages/s, {each_us:.1f} us of the broker's CPU each")


def beside_others(turns: int, rounds: int) -> None:
    """On all cores, whoever uses them."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        own = directory / "radiator"
        own.mkdir()
        broker = stack.enter_context(BrokerProcess(own, CONFIG))
        broker.wait_for_log("listening address=http://")
        rabbit, rabbit_port = stack.enter_context(rabbitmq(directory / "rabbitmq"))
        jetstream, nats_port = stack.enter_context(nats(directory / "nats"))
        others = {
            "RabbitMQ's management API": Door(rabbit_port, of_http, rabbit.cpu_s),
            "NATS over WebSocket": Door(nats_port, nats_hello, jetstream.cpu_s),
        }
        measure(PEERS_ROW, doors(broker) | others, turns, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=200, help="windows of each connection in a turn, where it is one")
    parser.add_argument("--waiting", type=int, default=9_000, help="clients in a long poll")
    parser.add_argument("--peers", action="store_true", help="only 64 x 1, and beside other brokers")
    wanted = parser.parse_args()
    if wanted.peers:
        beside_others(wanted.turns, wanted.rounds)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * wanted.waiting), hard), hard))
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), CONFIG) as broker:
        broker.wait_for_log("listening address=http://")
        part_cores(broker.pid)
        for row in ROWS:
            measure(row, doors(broker), wanted.turns, wanted.rounds)
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory), CONFIG) as broker:
        broker.wait_for_log("listening address=http://")
        kib, share = wait_idle(broker, wanted.waiting, 10.0)
        say(f"a client in a long poll, of {wanted.waiting:,}: {kib:.1f} KiB; {share:.2%} of a core for all")


if __name__ == "__main__":
    main()
