"""Loads over several nodes: one client sends at one of them, others receive anywhere, all from this thread over epoll.

The number of outstanding messages is bounded: sent, and not yet received by every group that is to get them. So no
backlog grows, and a rate is one that lasts. A body begins with the number of its message, which identifies it at any
node.
"""

import heapq
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from benchmarks.linked import Address
from benchmarks.wires import StompTopicWire
from radiator.tools.cli.load import QUIET_MAX_S, WARM_UP_MAX_S, LoadConnection, LoadFailed, StompWire, Wire

PRIME_S = 0.05
PRIME_MAX_S = 15.0
LAST_ACKS_S = 0.1

CpuS = Callable[[], dict[str, float]]


class TakingWire(StompWire):
    """Consumers have `prefetch` messages unacked."""

    def __init__(self, destination: str, prefetch: int) -> None:
        super().__init__(destination)
        self.prefetch = prefetch

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if not consumer:
            return super().hello(consumer)
        subscribe = self.subscribe("client-individual", b"prefetch-count:%d\n" % self.prefetch)
        return self._connect + subscribe, b"subscribed\n\n\0"


class HearingWire(StompTopicWire):
    """A topic's; its messages are not acked, but told apart."""

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        start = data.find(b"MESSAGE\n")
        end = data.find(b"\0", start)
        if start < 0 or end < 0:
            return None
        body = data.index(b"\n\n", start) + 2
        return b"", data[body : body + 20], end + 1

    def ack(self, key: bytes, receipt: bool) -> bytes:
        return b""


class ElsewhereWire(StompTopicWire):
    """A consumer has so many subscriptions, to topics beside that one."""

    def __init__(self, destination: str, count: int) -> None:
        super().__init__(destination)
        self._subscribe = b"".join(
            b"SUBSCRIBE\nid:%d\ndestination:%b.beside.%d\nreceipt:%d-done\n\n\0" % (n, destination.encode(), n, n)
            for n in range(count)
        )
        self._last_answer = b"%d-done\n\n\0" % (count - 1) if count else b"\0"

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        return self._connect + self._subscribe, self._last_answer


@dataclass(slots=True, frozen=True)
class Place:
    """Where a consumer is. group: each message is taken once in each group."""

    node: str
    address: Address
    group: int = 0


@dataclass(slots=True, frozen=True)
class Taken:
    """A message has come to a consumer."""

    place: Place
    number: int
    at_ns: int


@dataclass(slots=True)
class Counted:
    """What came in `took_s`. cpu_s: of each node; own_cpu_s: of the load itself."""

    latencies_ns: list[int]
    took_s: float
    cpu_s: dict[str, float]
    own_cpu_s: float


class _Poster(LoadConnection):
    def __init__(self, address: Address, wire: Wire) -> None:
        super().__init__(address, wire, consumer=False)
        self.head, self.tail = wire.send()
        self.posted_ns: list[int] = []
        self.answered = 0

    def on_readable(self) -> bool:
        self.answered += self.wire.answers(self.read())
        return not self.pending

    def post(self, count: int) -> bool:
        first, now = len(self.posted_ns), time.perf_counter_ns()
        self.posted_ns += [now] * count
        return self.write(b"".join(b"%b%020d%b" % (self.head, first + i, self.tail) for i in range(count)))


class _Taker(LoadConnection):
    """Tells the load what it gets, and acks when the load says so."""

    def __init__(self, place: Place, wire: Wire, took: Callable[["_Taker", int, bytes], None]) -> None:
        super().__init__(place.address, wire, consumer=True)
        self.place = place
        self.took = took

    def on_readable(self) -> bool:
        self.rest += self.read()
        return self.take()

    def take(self) -> bool:
        while (found := self.wire.next_message(self.rest)) is not None:
            key, stamp, end = found
            self.rest = self.rest[end:]
            self.took(self, int(stamp), key)
        return not self.pending


class NodeLoad:
    """Send at one node, receive at `places`. out_max: bound of outstanding messages. work_s: time of each message until
    its ack.

    taken: everything that was received, in that order. Call `prime` before the measurement.
    """

    def __init__(self, address: Address, wire: Wire, out_max: int, work_s: float = 0.0) -> None:
        self.out_max = out_max
        self.work_s = work_s
        self.taken: list[Taken] = []
        self._counts: dict[int, int] = {}
        self._poster = _Poster(address, wire)
        self._uncounted = 0
        self._poll = select.epoll()
        self._by_fileno: dict[int, _Poster | _Taker] = {}
        self._working: list[tuple[float, int, _Taker, bytes]] = []  # a heap: when the work is done
        self._register(self._poster)

    def join(self, places: Sequence[Place], wire: Wire) -> None:
        """Consumers come."""
        takers = []
        for place in places:
            self._counts.setdefault(place.group, 0)
            takers.append(_Taker(place, wire.connection(), self._took))
            self._register(takers[-1])
        for taker in takers:
            self._watch(taker, taker.take())  # its first message may have come with the greeting

    def prime(self) -> None:
        """Posts until a message reaches every group at once: then all know the ways."""
        end_s = time.perf_counter() + PRIME_MAX_S
        while True:
            self._post(1)
            self._turn_until(time.perf_counter() + PRIME_S)
            last = len(self._poster.posted_ns) - 1
            if {one.place.group for one in self.taken if one.number == last} == set(self._counts):
                break
            if time.perf_counter() > end_s:
                raise LoadFailed(f"In {PRIME_MAX_S:.0f} s no message has reached all {len(self._counts)} groups.")
        self._uncounted = last + 1
        self._counts = dict.fromkeys(self._counts, 0)

    @property
    def out(self) -> int:
        """Posted since `prime`, and not with every group yet."""
        return len(self._poster.posted_ns) - self._uncounted - min(self._counts.values(), default=0)

    def measure(self, seconds: float, cpu_s: CpuS) -> Counted:
        """Runs the load; the time before that in which all gets going is not counted."""
        self._run_until(time.perf_counter() + min(WARM_UP_MAX_S, seconds / 5))
        first, before_s = len(self.taken), cpu_s()
        began_s, own_cpu_s = time.perf_counter(), time.process_time()
        self._run_until(began_s + seconds)
        took_s, own_cpu_s = time.perf_counter() - began_s, time.process_time() - own_cpu_s
        used_s = {name: after_s - before_s[name] for name, after_s in cpu_s().items()}
        return Counted(self.latencies_ns(first), took_s, used_s, own_cpu_s)

    def one_by_one(self, count: int, pause_s: float) -> list[int]:
        """Latencies where nothing else is going on, in nanoseconds."""
        first = len(self.taken)
        for _ in range(count):
            self._post(1)
            self.settle()
            self._turn_until(time.perf_counter() + pause_s)
        return self.latencies_ns(first)

    def latencies_ns(self, first: int) -> list[int]:
        """From SEND to MESSAGE, of what has come since `taken` had so many."""
        posted_ns = self._poster.posted_ns
        return [one.at_ns - posted_ns[one.number] for one in self.taken[first:]]

    def post_all(self, messages: int) -> None:
        """Returns when all are answered."""
        wanted = self._poster.answered + messages
        while self._poster.answered < wanted:
            room = self.out_max - (len(self._poster.posted_ns) - self._poster.answered)
            if not self._poster.pending and (room := min(room, wanted - len(self._poster.posted_ns))) > 0:
                self._post(room)
            self._turn(QUIET_MAX_S)

    def settle(self) -> None:
        """Returns when all that was posted has come."""
        while self.out > 0 or self._working:
            self._turn(QUIET_MAX_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves nothing to the next load, unless something has failed: no message, and no ack on its way."""
        try:
            if error is None:
                self.settle()
                self._turn_until(time.perf_counter() + LAST_ACKS_S)
        finally:
            self.close()

    def close(self) -> None:
        self._poll.close()
        for one in self._by_fileno.values():
            one.socket.close()

    def _took(self, taker: _Taker, number: int, key: bytes) -> None:
        place = taker.place
        self.taken.append(Taken(place, number, time.perf_counter_ns()))
        self._counts[place.group] += 1
        if self.work_s:
            done_s = time.perf_counter() + self.work_s
            heapq.heappush(self._working, (done_s, len(self.taken), taker, key))
        elif found := taker.wire.ack(key, False):
            self._watch(taker, taker.write(found))

    def _post(self, count: int) -> None:
        self._watch(self._poster, self._poster.post(count))

    def _run_until(self, end_s: float) -> None:
        while (left_s := end_s - time.perf_counter()) > 0:
            room = self.out_max - self.out
            if room > 0 and not self._poster.pending:
                self._post(room)
            self._turn(left_s, must_answer=False)

    def _turn_until(self, end_s: float) -> None:
        while (left_s := end_s - time.perf_counter()) > 0:
            self._turn(left_s, must_answer=False)

    def _turn(self, timeout_s: float, must_answer: bool = True) -> None:
        due_s = self._working[0][0] - time.perf_counter() if self._working else timeout_s
        ready = self._poll.poll(max(0.0, min(timeout_s, due_s)))
        if self._working:
            self._end_work(time.perf_counter())
        elif must_answer and not ready:
            raise LoadFailed(f"Nothing has come for {timeout_s:.0f} s although {self.out} messages are out.")
        for fileno, events in ready:
            one = self._by_fileno[fileno]
            if events & select.EPOLLOUT:
                self._watch(one, one.flush())
            if events & ~select.EPOLLOUT and not one.on_readable():
                self._watch(one, False)

    def _end_work(self, now_s: float) -> None:
        while self._working and self._working[0][0] <= now_s:
            _, _, taker, key = heapq.heappop(self._working)
            self._watch(taker, taker.write(taker.wire.ack(key, False)))

    def _register(self, one: _Poster | _Taker) -> None:
        self._by_fileno[one.fileno] = one
        self._poll.register(one.fileno, select.EPOLLIN)

    def _watch(self, one: LoadConnection, all_written: bool) -> None:
        self._poll.modify(one.fileno, select.EPOLLIN if all_written else select.EPOLLIN | select.EPOLLOUT)


# ---- what follows from who took what


def displacements(taken: Sequence[Taken]) -> list[int]:
    """How far the place of each in the order of first delivery is from that in the order of posting; sorted."""
    order = list(dict.fromkeys(one.number for one in taken))
    posted = {number: place for place, number in enumerate(sorted(order))}
    return sorted(abs(place - posted[number]) for place, number in enumerate(order))


def shares(taken: Sequence[Taken], nodes: Sequence[str]) -> dict[str, float]:
    """What the consumers of each of these nodes have taken, as parts of the mean of the nodes."""
    counts = dict.fromkeys(nodes, 0)
    for one in taken:
        counts[one.place.node] += 1
    return {name: count * len(nodes) / len(taken) for name, count in counts.items()}
