"""S63: many web clients at once that ask for what costs most, or read nothing: others are served as if nothing were.

Kinds of flood: batches of 1 MiB of JSON, JSON of very many values, requests one behind the other without an answer
being read, pings of WebSocket, streams of a log and of a topic that nobody reads, long polls that come and go. Each
goes on while a client that does nothing wrong has ROUNDS rounds: judged by the time these took, by the memory of the
process, and by its log. It does not see what a single client does (S60, S61).
"""

import contextlib
import json
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from radiator.model.limits import HTTP_BATCH_BYTES, KIB, MIB
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Bystander, Meter, upright
from tests.campaigns.campaign import Campaign, Run
from tests.protocols.http.asking import request
from tests.server.web import OPEN, port_of

ROUNDS = 80
WITHIN_S = 15.0
MEMORY_BYTES = 64 * MIB
GROWTH_MAX_BYTES = 2 * MEMORY_BYTES + 48 * MIB  # as much again may come between two weighings; and what is no message
P99_MAX_MS = 250.0  # others share the disk, and the turns, with batches of 1,000 messages
LATE_SHARE_MAX = 0.5  # of the floods of a kind: a busy machine may be late now and then, one held up always is
RECORDS, RECORD_BYTES = 20_000, 500
AT_ONCE_BYTES = 64 * KIB
CONFIG = f"""{OPEN}
[limits]
max_memory_bytes = {MEMORY_BYTES}
[queue."m"]
persistent = false
max_messages = 1000
overflow = "drop-oldest"
[log."many"]
"""
AS_JSON = {"Content_Type": "application/json"}
PING = b"\x89\x80\x00\x00\x00\x00"
UPGRADE = request(
    path="/ws",
    Upgrade="websocket",
    Connection="Upgrade",
    Sec_WebSocket_Version="13",
    Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
    Sec_WebSocket_Protocol="v12.stomp",
)


def batch() -> bytes:
    """As large as one may be, of small messages."""
    body = json.dumps({"messages": [{"body": "x" * (HTTP_BATCH_BYTES // 1000 - 60)} for _ in range(1000)]}).encode()
    return request("POST", "/v1/queues/m/messages", body, **AS_JSON)


def values() -> bytes:
    """As many values as its bytes can have."""
    body = b'{"body":[' + b"[]," * (HTTP_BATCH_BYTES // 3 - 10) + b"[]]}"
    return request("POST", "/v1/queues/m/messages", body, **AS_JSON)


@dataclass(frozen=True, slots=True)
class Flood:
    """So many clients that send `opening`, and then `again` over and over; those that do not read get small buffers.
    again: None: nothing follows. is_left: they hang up after the opening, and others come.
    """

    what: str
    clients: int
    opening: Callable[[], bytes]
    again: Callable[[], bytes] | None = None
    reads: bool = True
    is_left: bool = False
    is_published: bool = False


FLOODS = (
    Flood("batches of JSON", 40, batch, batch),
    Flood("JSON of very many values", 40, values, values),
    Flood("requests without an end", 100, lambda: request(path="/v1/queues") * 64, lambda: request(path="/v1/queues")),
    Flood("answers that nobody reads", 100, lambda: request(path="/metrics") * 64, None, reads=False),
    Flood("pings", 40, lambda: UPGRADE, lambda: PING * 1000),
    Flood("streams of a log", 200, lambda: request(path="/v1/logs/many/events?from=earliest"), reads=False),
    Flood("streams of a topic", 200, lambda: request(path="/v1/topics/t/events"), reads=False, is_published=True),
    Flood("streams of numbers", 200, lambda: request(path="/v1/stats/events?every_s=1"), reads=False),
    Flood("long polls that are left", 100, lambda: request("POST", "/v1/queues/w/receive?wait_ms=60000"), is_left=True),
)


class Clients:
    """They go on as far as they are let. refused: how many connections the broker has ended; each is made again."""

    def __init__(self, port: int, flood: Flood) -> None:
        self._port = port
        self._flood = flood
        self._opening = flood.opening()
        self._again = flood.again() if flood.again is not None else b""
        self._left: dict[int, memoryview] = {}
        self._open: dict[int, socket.socket] = {}
        self._poll = select.epoll()
        self.refused = 0
        for _ in range(flood.clients):
            self._connect()

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open.values():
            one.close()
        self._poll.close()

    def _connect(self) -> None:
        one = socket.socket()
        if not self._flood.reads:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(10)
        one.connect(("127.0.0.1", self._port))
        one.setblocking(False)
        self._open[one.fileno()] = one
        self._left[one.fileno()] = memoryview(self._opening)
        reads = select.EPOLLIN if self._flood.reads else 0
        self._poll.register(one.fileno(), reads | select.EPOLLOUT)

    def go_on(self, seconds: float) -> None:
        """For so long."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            for file, events in self._poll.poll(left_s):
                self._step(file, events)

    def _step(self, file: int, events: int) -> None:
        one = self._open[file]
        try:
            if events & select.EPOLLIN and not one.recv(AT_ONCE_BYTES):
                raise ConnectionResetError
            if events & (select.EPOLLERR | select.EPOLLHUP):
                raise ConnectionResetError
            if events & select.EPOLLOUT:
                self._write(file, one)
        except BlockingIOError:
            pass
        except ConnectionError:
            self.refused += 1
            self._end(file)
            self._connect()

    def _write(self, file: int, one: socket.socket) -> None:
        left = self._left[file]
        if not left:
            if self._flood.is_left:
                self._end(file)
                self._connect()
                return
            if not self._again:
                self._poll.modify(file, select.EPOLLIN if self._flood.reads else 0)
                return
            left = memoryview(self._again)
        self._left[file] = left[one.send(left[:AT_ONCE_BYTES]) :]

    def _end(self, file: int) -> None:
        self._poll.unregister(file)
        del self._left[file]
        self._open.pop(file).close()


def fill(broker: BrokerProcess) -> None:
    """The log that is read: of what JSON makes most of."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        for number in range(RECORDS):
            wire.send_raw(b"SEND\ndestination:/log/many\n\n%b\0" % (b"%d " % number).ljust(RECORD_BYTES, b"\x01"))
        wire.fence()


def publish(wire: Wire) -> None:
    """Some more for the topic."""
    for _ in range(20):
        wire.send_raw(b"SEND\ndestination:/topic/t\n\n%b\0" % (b"x" * KIB))


def flooded(run: Run, broker: BrokerProcess, flood: Flood) -> bool:
    """One flood. Whether others were held up."""
    meter = Meter(broker.pid)
    with contextlib.ExitStack() as stack:
        bystander = stack.enter_context(Bystander(broker))
        publisher = stack.enter_context(Wire((broker.host, broker.port)))
        publisher.connect()
        clients = stack.enter_context(Clients(port_of(broker.log, "http"), flood))
        began_s = time.monotonic()
        while len(bystander.times_ms) < ROUNDS and time.monotonic() < began_s + WITHIN_S:
            if flood.is_published:
                publish(publisher)
            clients.go_on(0.1)
            meter.look()
        p99_ms, p99_max_ms = bystander.p99_ms(), max(P99_MAX_MS, bystander.p99_max_ms)
    figure = f"p99 ms beside {flood.what}"
    run.figures[figure] = round(max(float(run.figures.get(figure, 0)), p99_ms), 1)
    if meter.growth_bytes > GROWTH_MAX_BYTES:
        run.violation(f"{flood.what}: memory grew by {meter.growth_bytes // MIB} MiB, of {MEMORY_BYTES // MIB} in all.")
    run.case()
    return p99_ms > p99_max_ms


def floods(run: Run) -> None:
    with BrokerProcess(run.directory, CONFIG) as broker, upright(run, broker):
        fill(broker)
        late: dict[str, int] = {}
        rounds = 0
        left: list[Flood] = []
        while not run.is_over:
            if not left:
                left = run.chance.sample(FLOODS, len(FLOODS))
                rounds += 1
            flood = left.pop()
            if flooded(run, broker, flood):
                late[flood.what] = late.get(flood.what, 0) + 1
        for what, times in late.items():
            if times > LATE_SHARE_MAX * rounds:
                run.violation(f"In {times} of {rounds} floods another client was held up: {what}.")


CAMPAIGNS = (
    Campaign(
        number="S63",
        name="web-floods",
        title="many web clients at once that ask for what costs most, or read nothing",
        unit="floods",
        run=floods,
        cases=(len(FLOODS), 10 * len(FLOODS), 200 * len(FLOODS)),
        mutants=("costly-steps-at-once", "events-counted-as-records", "websocket-frames-in-no-turn"),
        mutant_cases=len(FLOODS),
        needs=("linux",),
        is_timed=True,
    ),
)
