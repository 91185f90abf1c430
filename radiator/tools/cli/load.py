"""A load of producers and consumers on a running broker, from one thread over epoll, as cheap as Python can be.

It speaks STOMP 1.2, or any protocol that a Wire describes. It parses as little as it can: answers are counted, by a
byte that occurs once in each where there is one. Each body begins with the time at which it was sent and ends with
BODY_END. The generator's own share of a CPU is measured too: near 1.0 the figures measure the generator, not the
broker.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from radiator.model.errors import RadiatorError

BODY_BYTES = 1024
STAMP_BYTES = 20  # perf_counter_ns, zero-padded, at the start of each body
BODY_END = b"~"  # of each body, and nowhere else in what a broker says
READ_BYTES = 16 * 1024  # 256 KiB cost 8 us a read more: the allocator maps so large a block anew each time
LARGE_BODY_BYTES, LARGE_READ_BYTES = 4 * 1024, 64 * 1024
GREETING_MAX_S = 10.0
WARM_UP_MAX_S = 0.3
QUIET_MAX_S = 30.0  # how long no answer at all may come before the load gives up
_CLOCK_OF_A_PROCESS = 2  # the low three bits of such a clock's number: what the scheduler has counted


Place = tuple[str, int] | str  # host and port, or the path of a unix socket


class LoadFailed(RadiatorError):
    """The broker refused, hung up, or fell silent."""


@dataclass(slots=True, kw_only=True)
class Shape:
    """The number of connections of each sort. window: SENDs without an answer, for each producer. A consumer has one
    unacked message; `ack_receipts`: its ACK asks for a receipt. are_requests: the consumers answer, and the answers
    that reach the producers are counted.
    """

    name: str
    producers: int
    window: int
    consumers: int = 0
    ack_receipts: bool = False
    are_requests: bool = False


@dataclass(slots=True)
class Measured:
    """per_s: confirmed SENDs, or, where there are consumers, messages received and acked. Latencies: from SEND to its
    answer, or to the consumer. generator_share: of one CPU. broker_cpu_s: as `Load.broker_cpu_s` tells."""

    per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    generator_share: float
    broker_cpu_s: float
    messages: int


class Wire(Protocol):
    """The part of a protocol that the load must know."""

    body_bytes: int
    is_varied: bool
    """Whether `send` is to be asked anew for each write: not all go to one queue."""
    ack_answer: bytes
    """After this answer to an ack a consumer says `next_please`; b"": messages come by themselves."""
    next_please: bytes

    def connection(self) -> "Wire":
        """Returns the wire of one more connection: this one, where connections need not be told apart."""

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        """Returns what a connection sends first, and what ends the broker's last answer to it (b"": there is none)."""

    def send(self) -> tuple[bytes, bytes]:
        """Returns a SEND that asks for an answer: what stands before the stamp, and what stands after it."""

    def answers(self, data: bytes) -> int:
        """Returns how many SENDs are answered by what a producer has read; it may end in the middle of an answer."""

    def after_answers(self, data: bytes) -> bytes:
        """Returns what a producer must send about answers in `data` before it goes on."""

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        """Returns the first whole message in `data`: its key, its stamp, and where it ends; None if it is
        incomplete.
        """

    def ack(self, key: bytes, receipt: bool) -> bytes:
        """Ends the message, and makes the next one come."""

    def complaint(self, data: bytes) -> bool:
        """Whether there is something in `data` that no answer should have."""


def body_tail(body_bytes: int) -> bytes:
    """Returns what follows the stamp in a body of this size."""
    return b"x" * (body_bytes - STAMP_BYTES - len(BODY_END)) + BODY_END


class StompWire:
    """STOMP 1.2, of any broker: the window of one is asked for by the header of RabbitMQ, which ours knows too.
    headers: further lines of each SEND and SUBSCRIBE, as `x-queue-type:quorum`.
    """

    is_varied = False
    answer_mark = b"\0"  # a byte that occurs once in every answer to a SEND: its last one
    ack_answer = next_please = b""

    def __init__(
        self,
        destination: str,
        host: str = "localhost",
        login: str = "",
        passcode: str = "",
        body_bytes: int = BODY_BYTES,
        headers: str = "",
    ) -> None:
        self.body_bytes = body_bytes
        self._address = b"destination:%b\n%b" % (destination.encode(), headers.encode() + b"\n" * bool(headers))
        credentials = f"login:{login}\npasscode:{passcode}\n" if login else ""
        self._connect = f"CONNECT\naccept-version:1.2\nhost:{host}\nheart-beat:0,0\n{credentials}\n\0".encode()

    def connection(self) -> Wire:
        return self

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if not consumer:
            return self._connect, b"\0"
        return self._connect + self.subscribe("client-individual", b"prefetch-count:1\n"), b"subscribed\n\n\0"

    def subscribe(self, ack: str, headers: bytes = b"") -> bytes:
        return b"SUBSCRIBE\nid:0\n%back:%b\n%breceipt:subscribed\n\n\0" % (self._address, ack.encode(), headers)

    def send(self) -> tuple[bytes, bytes]:
        head = b"SEND\n%bcontent-length:%d\npersistent:true\nreceipt:s\n\n" % (self._address, self.body_bytes)
        return head, body_tail(self.body_bytes) + b"\0"

    def answers(self, data: bytes) -> int:
        return data.count(self.answer_mark)

    def after_answers(self, data: bytes) -> bytes:
        return b""

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        start = data.find(b"MESSAGE\n")
        end = data.find(b"\0", start)
        if start < 0 or end < 0:
            return None
        ack = data.index(b"\nack:", start) + 5
        body = data.index(b"\n\n", start) + 2
        return data[ack : data.index(b"\n", ack)], data[body : body + STAMP_BYTES], end + 1

    def ack(self, key: bytes, receipt: bool) -> bytes:
        return b"ACK\nid:%b\nreceipt:a\n\n\0" % key if receipt else b"ACK\nid:%b\n\n\0" % key

    def complaint(self, data: bytes) -> bool:
        return b"ERROR\n" in data


def _connected(address: Place) -> socket.socket:
    if isinstance(address, tuple):
        connected = socket.create_connection(address, GREETING_MAX_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(GREETING_MAX_S)
    connected.connect(address)
    return connected


class LoadConnection:
    """A socket that never blocks; what the system does not take at once waits in `pending`."""

    def __init__(self, address: Place, wire: Wire, consumer: bool) -> None:
        self.socket = _connected(address)
        self.fileno = self.socket.fileno()
        self.pending = memoryview(b"")
        self.wire = wire
        self.read_bytes = LARGE_READ_BYTES if wire.body_bytes > LARGE_BODY_BYTES else READ_BYTES
        data, last_answer = wire.hello(consumer)
        self.rest = self._greet(data, last_answer)
        self.socket.setblocking(False)

    def _greet(self, data: bytes, last_answer: bytes) -> bytes:
        """Returns what came after the last answer already: a consumer's first message."""
        self.socket.sendall(data)
        answer = b""
        while last_answer and last_answer not in answer:
            try:
                data = self.socket.recv(READ_BYTES)
            except TimeoutError:
                raise LoadFailed(f"The broker did not answer {data[:40]!r} within {GREETING_MAX_S:.0f} s.") from None
            answer += data
            if not data or self.wire.complaint(answer):
                raise LoadFailed(f"The broker refused the load: {answer[-300:]!r}.")
        # what follows the answer's end: nothing, or line feeds, or the first message
        return answer.partition(last_answer)[2] if last_answer else b""

    def on_readable(self) -> bool:
        """Takes what has come, and answers. Returns whether all of that is written."""
        raise NotImplementedError

    def read(self) -> bytes:
        data = self.socket.recv(self.read_bytes)
        if not data or self.wire.complaint(data):
            raise LoadFailed(f"The broker ended the load: {data[-400:]!r}.")
        return data

    def write(self, data: bytes) -> bool:
        """Writes this. Returns whether all is written; if not, `flush` goes on when the socket is writable."""
        if self.pending:
            self.pending = memoryview(bytes(self.pending) + data)
            return False
        self.pending = memoryview(data)
        return self.flush()

    def flush(self) -> bool:
        try:
            self.pending = self.pending[self.socket.send(self.pending) :]
        except BlockingIOError:
            return False
        return not self.pending


class LoadProducer(LoadConnection):
    """Keeps `window` SENDs out; each answer makes room for the next, until `is_stopping`."""

    def __init__(self, address: Place, wire: Wire, window: int) -> None:
        super().__init__(address, wire, consumer=False)
        self.window = window
        self.head, self.tail = wire.send()
        self.sent_at: deque[int] = deque()
        self.sent = self.answered = 0
        self.latencies: list[int] = []
        self.limit = -1  # how many it may send in all; -1: no end
        self.is_stopping = False

    def fill(self) -> bool:
        count = self.window - len(self.sent_at)
        if self.limit >= 0:
            count = min(count, self.limit - self.sent)
        if self.pending:
            return False  # large bodies: what is written already comes first, `flush` fills again
        if count <= 0 or self.is_stopping:
            return True
        if self.wire.is_varied:
            self.head, self.tail = self.wire.send()
        now = time.perf_counter_ns()
        self.sent_at.extend([now] * count)
        self.sent += count
        return self.write(b"%b%020d%b" % (self.head, now, self.tail) * count)

    def flush(self) -> bool:
        return super().flush() and (len(self.sent_at) >= self.window or self.fill())

    def on_readable(self) -> bool:
        data = self.read()
        count = self.wire.answers(data)
        now = time.perf_counter_ns()
        self.answered += count
        popleft = self.sent_at.popleft
        self.latencies += [now - popleft() for _ in range(count)]
        if data := self.wire.after_answers(data):
            self.write(data)
        return self.fill()


class _Consumer(LoadConnection):
    """Acks each message as it comes."""

    def __init__(self, address: Place, wire: Wire, ack_receipts: bool) -> None:
        super().__init__(address, wire, consumer=True)
        self.ack_receipts = ack_receipts
        self.received = 0
        self.latencies: list[int] = []

    def on_readable(self) -> bool:
        data = self.read()
        if self.wire.ack_answer and self.wire.ack_answer in data:
            return self.write(self.wire.next_please)
        self.rest += data
        return self.take()

    def take(self) -> bool:
        """Acks the messages that are complete. Returns whether all is written."""
        found = self.wire.next_message(self.rest)
        while found is not None:
            key, stamp, end = found
            self.rest = self.rest[end:]
            self.received += 1
            self.latencies.append(time.perf_counter_ns() - int(stamp))
            if not self.write(self.wire.ack(key, self.ack_receipts)):
                return False
            found = self.wire.next_message(self.rest)
        return True


class Load:
    """One shape on one broker. Call `measure` once, then `settle`, then `close`.

    broker_cpu_s: returns the CPU time that the broker has used so far; called where the measurement starts and ends.
    """

    make_producer = LoadProducer

    def __init__(
        self,
        address: Place,
        wire: Wire,
        shape: Shape,
        broker_cpu_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._broker_cpu_s = broker_cpu_s
        self._poll = select.epoll()
        self._consumers = [_Consumer(address, wire.connection(), shape.ack_receipts) for _ in range(shape.consumers)]
        self._producers = [self.make_producer(address, wire.connection(), shape.window) for _ in range(shape.producers)]
        self._counted: Sequence[LoadProducer | _Consumer] = (
            self._consumers if self._consumers and not shape.are_requests else self._producers
        )
        self._by_fileno: dict[int, LoadProducer | _Consumer] = {}
        everyone: Sequence[LoadProducer | _Consumer] = [*self._consumers, *self._producers]
        for one in everyone:
            self._by_fileno[one.fileno] = one
            self._poll.register(one.fileno, select.EPOLLIN)

    def measure(self, seconds: float) -> Measured:
        """Runs the load; the time before that in which all gets going is not counted."""
        for consumer in self._consumers:
            self._watch(consumer, consumer.take())  # its first message may have come with the greeting
        for producer in self._producers:
            self._watch(producer, producer.fill())
        self._turn_until(time.perf_counter() + min(WARM_UP_MAX_S, seconds / 5))
        for one in self._counted:
            one.latencies.clear()
        began_s, own_cpu_s, broker_cpu_s = time.perf_counter(), time.process_time(), self._broker_cpu_s()
        self._turn_until(began_s + seconds)
        took_s = time.perf_counter() - began_s
        own_cpu_s, broker_cpu_s = time.process_time() - own_cpu_s, self._broker_cpu_s() - broker_cpu_s
        latencies = [latency for one in self._counted for latency in one.latencies]
        return measured(latencies, took_s, own_cpu_s, broker_cpu_s)

    def fill(self, messages: int) -> float:
        """Sends exactly that many messages in all, each answered. Returns how long that took, in seconds."""
        began_s = time.perf_counter()
        for number, producer in enumerate(self._producers):
            producer.limit = messages // len(self._producers) + (number < messages % len(self._producers))
            self._watch(producer, producer.fill())
        while sum(producer.answered for producer in self._producers) < messages:
            self._turn(QUIET_MAX_S)
        return time.perf_counter() - began_s

    @property
    def sent(self) -> int:
        """How many SENDs it has made."""
        return sum(producer.sent for producer in self._producers)

    def settle(self) -> int:
        """Sends no more, and waits for what is unanswered or unacked. Returns how many messages are left in the queue
        by our count.
        """
        for producer in self._producers:
            producer.is_stopping = True
        while any(producer.sent_at for producer in self._producers):
            self._turn(QUIET_MAX_S)
        sent = self.sent
        while self._consumers and sum(consumer.received for consumer in self._consumers) < sent:
            self._turn(QUIET_MAX_S)
        return sent - sum(consumer.received for consumer in self._consumers)

    def close(self) -> None:
        self._poll.close()
        for one in self._by_fileno.values():
            one.socket.close()

    def _turn_until(self, end_s: float) -> None:
        while (left_s := end_s - time.perf_counter()) > 0:
            self._turn(left_s, must_answer=False)

    def _turn(self, timeout_s: float, must_answer: bool = True) -> None:
        ready = self._poll.poll(timeout_s)
        if must_answer and not ready:
            raise LoadFailed(f"The broker has said nothing for {timeout_s:.0f} s although answers are due.")
        for fileno, events in ready:
            one = self._by_fileno[fileno]
            if events & select.EPOLLOUT:
                self._watch(one, one.flush())
            if events & ~select.EPOLLOUT and not one.on_readable():
                self._watch(one, False)

    def _watch(self, one: LoadConnection, all_written: bool) -> None:
        self._poll.modify(one.fileno, select.EPOLLIN if all_written else select.EPOLLIN | select.EPOLLOUT)


def measured(latencies_ns: list[int], took_s: float, own_cpu_s: float, broker_cpu_s: float) -> Measured:
    """Returns what a load has counted, put together."""
    if not latencies_ns:
        raise LoadFailed(f"Not one message came through in {took_s:.1f} s.")
    latencies_ns.sort()
    p50, p99, p999 = (latencies_ns[len(latencies_ns) * part // 1000] / 1e6 for part in (500, 990, 999))
    return Measured(
        per_s=len(latencies_ns) / took_s,
        p50_ms=p50,
        p99_ms=p99,
        p999_ms=p999,
        generator_share=own_cpu_s / took_s,
        broker_cpu_s=broker_cpu_s,
        messages=len(latencies_ns),
    )


def process_cpu_s(pid: int) -> float:
    """CPU that a process has used so far, all its threads, user and system (Linux: clock_getcpuclockid(3)).

    Raises OSError if there is no such process.
    """
    return time.clock_gettime(~pid << 3 | _CLOCK_OF_A_PROCESS)
