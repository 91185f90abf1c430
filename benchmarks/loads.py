"""Every subscriber gets every message: the load of a topic. (The loads of queues are radiator/tools/cli/load.py's.)

The publisher asks for no answer, in any protocol, and is held back by what it sees arrive: at most WINDOW of its
messages are not with every subscriber yet. So no broker has to drop or to buffer, and all get the same. A message
counts as delivered when its last byte was read; which one it was follows from the order.
"""

import select
import time
from collections.abc import Callable

from radiator.tools.cli.load import (
    BODY_END,
    QUIET_MAX_S,
    WARM_UP_MAX_S,
    LoadConnection,
    LoadFailed,
    Measured,
    Wire,
    measured,
)

WINDOW = 10


class _Subscriber(LoadConnection):
    """Counts what it gets. All of them share the publisher's times."""

    def __init__(self, address: tuple[str, int], wire: Wire, sent_at: list[int]) -> None:
        super().__init__(address, wire, consumer=True)
        self.received = 0
        self.sent_at = sent_at
        self.latencies: list[int] = []

    def on_readable(self) -> bool:
        count = self.read().count(BODY_END)
        now = time.perf_counter_ns()
        self.latencies += [now - sent for sent in self.sent_at[self.received : self.received + count]]
        self.received += count
        return True


class _Publisher(LoadConnection):
    def __init__(self, address: tuple[str, int], wire: Wire, sent_at: list[int]) -> None:
        super().__init__(address, wire, consumer=False)
        self.head, self.tail = wire.send()
        self.sent_at = sent_at

    def on_readable(self) -> bool:
        self.read()  # how many it went to, where the protocol tells that: complaints are noticed
        return not self.pending

    def publish(self, count: int) -> bool:
        now = time.perf_counter_ns()
        self.sent_at.extend([now] * count)
        return self.write(b"%b%020d%b" % (self.head, now, self.tail) * count)


class TopicLoad:
    """One publisher and its subscribers. `measure` once, then `close`. What is counted is deliveries."""

    def __init__(
        self, address: tuple[str, int], wire: Wire, subscribers: int, broker_cpu_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._broker_cpu_s = broker_cpu_s
        self._sent_at: list[int] = []
        self._subscribers = [_Subscriber(address, wire.connection(), self._sent_at) for _ in range(subscribers)]
        self._publisher = _Publisher(address, wire.connection(), self._sent_at)
        self._poll = select.epoll()
        self._by_fileno: dict[int, _Subscriber | _Publisher] = {}
        for one in (*self._subscribers, self._publisher):
            self._by_fileno[one.fileno] = one
            self._poll.register(one.fileno, select.EPOLLIN)

    def measure(self, seconds: float) -> Measured:
        """Runs the load; the time before that in which all gets going is not counted."""
        self._run_until(time.perf_counter() + min(WARM_UP_MAX_S, seconds / 5))
        for one in self._subscribers:
            one.latencies.clear()
        began_s, own_cpu_s, broker_cpu_s = time.perf_counter(), time.process_time(), self._broker_cpu_s()
        self._run_until(began_s + seconds)
        took_s = time.perf_counter() - began_s
        own_cpu_s, broker_cpu_s = time.process_time() - own_cpu_s, self._broker_cpu_s() - broker_cpu_s
        latencies = [latency for one in self._subscribers for latency in one.latencies]
        return measured(latencies, took_s, own_cpu_s, broker_cpu_s)

    def settle(self) -> int:
        """Publishes no more and waits until all has arrived: the number of deliveries, ever."""
        wanted = len(self._sent_at)
        while any(one.received < wanted for one in self._subscribers):
            self._turn(QUIET_MAX_S)
        return sum(one.received for one in self._subscribers)

    def close(self) -> None:
        self._poll.close()
        for one in self._by_fileno.values():
            one.socket.close()

    def _run_until(self, end_s: float) -> None:
        while (left_s := end_s - time.perf_counter()) > 0:
            out = len(self._sent_at) - min(one.received for one in self._subscribers)
            if out < WINDOW and not self._publisher.pending:
                self._watch(self._publisher, self._publisher.publish(WINDOW - out))
            self._turn(left_s, must_answer=False)

    def _turn(self, timeout_s: float, must_answer: bool = True) -> None:
        ready = self._poll.poll(timeout_s)
        if must_answer and not ready:
            raise LoadFailed(f"The broker has delivered nothing for {timeout_s:.0f} s although messages are due.")
        for fileno, events in ready:
            one = self._by_fileno[fileno]
            if events & select.EPOLLOUT:
                self._watch(one, one.flush())
            if events & ~select.EPOLLOUT and not one.on_readable():
                self._watch(one, False)

    def _watch(self, one: LoadConnection, all_written: bool) -> None:
        self._poll.modify(one.fileno, select.EPOLLIN if all_written else select.EPOLLIN | select.EPOLLOUT)
