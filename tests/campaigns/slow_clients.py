"""S2: clients that are slow on purpose. Each is closed in time, and others do not notice that there are any.

Connections that never say CONNECT, or say it byte by byte, or stop within a frame, or say a frame byte by byte; many at
once. Each must be closed when its deadline is over, not long after and not before; one that says ends of lines between
frames may stay. A client that does nothing wrong is served meanwhile, and each slow one costs little memory. TLS does
not exist yet.
"""

import resource
import select
import socket
import time
from dataclasses import dataclass

from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Bystander, Meter, upright
from tests.campaigns.campaign import Campaign, Run

DEADLINE_S = {"quick": 1.5, "nightly": 10.0, "release": 10.0}
AT_ONCE = {"quick": 400, "nightly": 2000, "release": 5000}
LATE_MAX_S = 1.0
EARLY_MAX_S = 0.1
BYTES_EACH_MAX = 20 * 1024  # of memory, for each of them
FRAME_DEADLINES = 2
DRIPS = 8  # bytes within one deadline
CONNECT = b"CONNECT\naccept-version:1.2\nhost:slow\n\n\0"
SEND = b"SEND\ndestination:/queue/slow\nreceipt:1\n\n"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to be slow. request: at once. drips: further bytes, one at a time. is_known: after CONNECT was answered.

    deadlines: it must be closed after so many; 0: it must not be. A frame has FRAME_DEADLINES.
    """

    case: str
    request: bytes
    drips: bytes = b""
    is_known: bool = False
    deadlines: int = 1


WAYS = (
    Way("says nothing", b""),
    Way("says half a CONNECT", CONNECT[:20]),
    Way("says all of CONNECT but its NUL", CONNECT[:-1]),
    Way("says CONNECT byte by byte", b"", b"CONNECT\naccept-version:1.2\nhost:" + b"x" * 500),
    Way("says ends of lines and nothing else", b"\n", b"\n" * 500),
    Way("says a CONNECT of ever more headers", b"CONNECT\n", b"a:b\n" * 200),
    Way("stops within a command", b"SEN", is_known=True),
    Way("stops within a header", SEND[:25], is_known=True),
    Way("stops within a body", SEND + b"half a bo", is_known=True),
    Way("stops within a body of known length", SEND[:-1] + b"content-length:900\n\nhalf", is_known=True),
    Way("says a body byte by byte", SEND, b"x" * 500, is_known=True, deadlines=FRAME_DEADLINES),
    Way("says nothing after CONNECT", b"", is_known=True, deadlines=0),
    Way("says ends of lines after CONNECT", b"\n", b"\n" * 500, is_known=True, deadlines=0),
)  # fmt: skip


class SlowClient:
    """One of them. began_s: what its deadline counts from."""

    def __init__(self, broker: BrokerProcess, way: Way) -> None:
        self.way = way
        self.ended_s = 0.0
        self.drips = 0
        self.socket = socket.create_connection((broker.host, broker.port), 10)
        if way.is_known:
            self.socket.sendall(CONNECT)
            assert self.socket.recv(4096).startswith(b"CONNECTED")
        self.began_s = time.monotonic()
        self.socket.sendall(way.request)
        self.socket.setblocking(False)

    def drip(self) -> None:
        """One more byte, if there is one to say."""
        if self.drips < len(self.way.drips) and not self.ended_s:
            try:
                self.socket.send(self.way.drips[self.drips : self.drips + 1])
            except ConnectionError:
                self.ended_s = time.monotonic()
            self.drips += 1

    def look(self) -> None:
        """Something has come: an ERROR, a heart-beat or the end."""
        try:
            if not self.socket.recv(4096):
                self.ended_s = time.monotonic()
        except BlockingIOError:
            pass
        except ConnectionError:
            self.ended_s = time.monotonic()


def watch(clients: list[SlowClient], until_s: float, drip_every_s: float) -> None:
    """Drips on, and notes when each is closed."""
    by_file = {client.socket.fileno(): client for client in clients}
    poll = select.poll()
    for file in by_file:
        poll.register(file, select.POLLIN)
    next_drip_s = time.monotonic()
    while (now_s := time.monotonic()) < until_s:
        if now_s >= next_drip_s:
            next_drip_s += drip_every_s
            for client in clients:
                client.drip()
        for file, _ in poll.poll(max(0.0, min(next_drip_s, until_s) - time.monotonic()) * 1000):
            by_file[file].look()
            if by_file[file].ended_s:
                poll.unregister(file)


def judge(run: Run, clients: list[SlowClient], deadline_s: float) -> None:
    latest_s = 0.0
    for client in clients:
        way, after_s = client.way, client.ended_s - client.began_s
        due_s = way.deadlines * deadline_s
        if due_s and not client.ended_s:
            run.violation(f"A client that {way.case} was not closed {LATE_MAX_S} s after its deadline of {due_s} s.")
        elif due_s and not due_s - EARLY_MAX_S <= after_s <= due_s + LATE_MAX_S:
            run.violation(f"A client that {way.case} was closed after {after_s:.2f} s; its deadline is {due_s} s.")
        elif not due_s and client.ended_s:
            run.violation(f"A client that {way.case} was closed, after {after_s:.2f} s.")
        if due_s:
            latest_s = max(latest_s, after_s - due_s)
    run.figures["closed late by ms"] = max(int(run.figures.get("closed late by ms", 0)), round(latest_s * 1000))


def slow_round(run: Run, broker: BrokerProcess, count: int, deadline_s: float) -> None:
    clients: list[SlowClient] = []
    try:
        with Bystander(broker) as bystander:
            meter = Meter(broker.pid)
            for number in range(count):
                clients.append(SlowClient(broker, WAYS[number % len(WAYS)]))
            meter.look()
            watch(clients, time.monotonic() + FRAME_DEADLINES * deadline_s + LATE_MAX_S, deadline_s / DRIPS)
            each = meter.look() // count
            p99_ms, p99_max_ms = bystander.p99_ms(), bystander.p99_max_ms
        judge(run, clients, deadline_s)
    finally:
        for client in clients:
            client.socket.close()
    run.figures["KiB each"] = max(float(run.figures.get("KiB each", 0)), round(each / 1024, 1))
    run.figures["bystander p99 ms"] = max(float(run.figures.get("bystander p99 ms", 0)), round(p99_ms, 1))
    if p99_ms > p99_max_ms:
        run.violation(f"Beside {count} slow clients another one's p99 was {p99_ms:.0f} ms.")
    if each > BYTES_EACH_MAX and count >= 200:
        run.violation(f"{count} slow clients took {each} bytes of memory each.")
    run.case(count)


def slow_clients(run: Run) -> None:
    most = AT_ONCE[run.level]
    deadline_s = DEADLINE_S[run.level]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, most + 200)), hard))
    times = f"connect_timeout_s = {deadline_s}\nframe_timeout_s = {FRAME_DEADLINES * deadline_s}\n"
    places = f"max_half_open = {most}\nmax_half_open_per_address = {most}\n"
    config = f"[limits]\n{times}{places}heart_beat_ms = [0, 0]\n[create]\nqueues = true\n"
    with BrokerProcess(run.directory, config) as broker, upright(run, broker):
        while not run.is_over:
            slow_round(run, broker, min(most, max(len(WAYS), run.cases - run.done)), deadline_s)


CAMPAIGNS = (
    Campaign(
        number="S2",
        name="slow-clients",
        title="clients that stop, or say a byte now and then, before CONNECT and within frames",
        unit="connections",
        run=slow_clients,
        cases=(400, 20_000, 200_000),
        mutants=("login-deadline-off", "frame-deadline-off", "login-deadline-per-byte", "frame-time-per-byte"),
        mutant_cases=39,
        quick_mutants=2,
        needs=("linux",),
        is_timed=True,
    ),
)
