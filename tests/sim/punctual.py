"""A node on simulated time that is woken as the server wakes it: by the real WakeTimer, and by Ticks that are rare.

`dues` says what is due at which time: it looks at what is in the queues and on the disk, and at nothing that was
registered.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import Queue
from radiator.model.commands import Event, Tick
from radiator.model.limits import DUE_STEP_MS, GIB, TICK_S
from radiator.server.wake_timer import WakeTimer
from tests.core.node import Node

TICK_MS = int(TICK_S * 1000)
WAKES_MAX = 100  # at one time: a broker that is woken more often has a turn after the other, and does nothing in them


class Due(NamedTuple):
    """Something that is to be handled at a time. what: which one, the same from one look to the next."""

    at_ms: int
    what: str

    @property
    def latest_ms(self) -> int:
        """The end of the step in which it is due: what is due within one step has one turn."""
        return -(-self.at_ms // DUE_STEP_MS) * DUE_STEP_MS


class Timer:
    """One timer of the loop, as gevent has them."""

    def __init__(self, loop: "Loop", after_s: float) -> None:
        self.loop = loop
        self.after_s = after_s

    def start(self, then: Callable[[], None], update: bool = False) -> None:
        assert update, "it would count from when the loop last looked at the clock"
        self.loop.timers[self] = (self.loop.now_s + self.after_s, then)

    def close(self) -> None:
        self.loop.timers.pop(self, None)


class Loop:
    """What WakeTimer needs of gevent's loop."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: dict[Timer, tuple[float, Callable[[], None]]] = {}

    def timer(self, after_s: float) -> Timer:
        return Timer(self, after_s)

    @property
    def first_s(self) -> float | None:
        return min((due_s for due_s, _ in self.timers.values()), default=None)

    def take(self) -> Callable[[], None] | None:
        """Takes out a timer that is due."""
        for timer, (due_s, then) in self.timers.items():
            if due_s <= self.now_s + 1e-6:
                del self.timers[timer]
                return then
        return None


class PunctualNode(Node):
    """See Node. Time passes by `until`, which calls on_rest each time nothing is left to do at that time.

    next_tick_ms: when the clock ticks next. tick_ms: how long that is apart: up to four Ticks, as of a broker with so
    many queues that a round over them takes as long. woken: how often the timer has caused a turn.
    commit_ms: how long the disk takes for a batch; commits_at_ms: when the one under way is on it.
    """

    def __init__(self, *args: object, tick_ms: int = TICK_MS, commit_ms: int = 0, **more: object) -> None:
        self.loop = Loop()
        self.timer = WakeTimer(self.loop, self.wake_up)
        self.woken = 0
        self.is_woken = False
        self.commit_ms = self.commits_at_ms = 0
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.tick_ms = tick_ms
        self.commit_ms = commit_ms
        self.next_tick_ms = self.now_ms

    def wake_up(self) -> None:
        self.is_woken = True

    def _one(self, events: list[Event]) -> None:
        self.loop.now_s = self.now_s
        super()._one(events)
        if self.wake_in_s is not None:
            self.timer.at(self.now_s + self.wake_in_s, self.now_s)

    def step(self) -> bool:
        if self.being_committed is None and not self.read_requests and self.seal():
            self.commits_at_ms = self.now_ms + self.commit_ms
        if self.being_committed is None or self.commits_at_ms <= self.now_ms or self.read_requests:
            return super().step()
        if self.again or self.broker.wants_turn:
            self._one([])
            return True
        return False

    @property
    def wakes_at_ms(self) -> int | None:
        """When the timer causes a turn; None: no turn has asked for another."""
        first_s = self.loop.first_s
        return None if first_s is None else self.now_ms + round((first_s - self.now_s) * 1000)

    def until(self, ms: int, on_rest: Callable[[], None]) -> None:
        """Time passes until then: what the timer was set for comes before a Tick of the same time."""
        while True:
            times = [ms, self.next_tick_ms, self.wakes_at_ms]
            if self.being_committed is not None:
                times.append(self.commits_at_ms)
            passed_ms = max(0, min(time for time in times if time is not None) - self.now_ms)
            self.now_ms += passed_ms
            self.now_s = self.loop.now_s = self.now_s + passed_ms / 1000
            self.be_woken()
            while self.step():
                pass
            on_rest()
            if self.now_ms == self.next_tick_ms:
                self.next_tick_ms += self.tick_ms
                self.turn([Tick(GIB, self.disk.used_bytes())])
                self.be_woken()
                on_rest()
            if self.now_ms == ms:
                return

    def be_woken(self) -> None:
        """A turn for each timer that is due."""
        for _ in range(WAKES_MAX):
            then = self.loop.take()
            if then is None:
                return
            then()
            if self.is_woken:
                self.is_woken = False
                self.woken += 1
                self.turn([])
        raise AssertionError(f"{WAKES_MAX} turns of one time asked for another at that time")

    # ---- what is due ------------------------------------------------------------------------------------------------

    def dues(self) -> Iterator[Due]:
        """What expires at a head, and the first of the delayed messages of each queue."""
        for queue in self.broker.destinations.queues.all.values():
            yield from self.dues_of(queue)

    def dues_of(self, queue: Queue) -> Iterator[Due]:
        """While a batch is under way, what the disk has of delayed messages may be over."""
        head = queue.head()
        if head is not None and head.message.expires_ms:
            yield Due(head.message.expires_ms, f"{head.position:x}, which expires at the head of {queue.name}")
        if isinstance(queue, MemoryQueue):
            delayed = min(((due_ms, position) for due_ms, position, _ in queue.delayed), default=None)
        elif self.being_committed is not None:
            return
        else:
            assert isinstance(queue, DurableQueue)
            if queue.delayed.blocked_bytes:
                return
            rows = self.disk.platter.delayed
            delayed = min(((due_ms, at) for number, due_ms, at in rows if number == queue.number), default=None)
        if delayed is not None:
            yield Due(delayed[0], f"{delayed[1]:x}, which is delayed in {queue.name}")


class Judge:
    """Of one node, at each rest. handled: how many things were seen to come due and go; latest_ms: how late at most."""

    def __init__(self) -> None:
        self.expected: dict[str, Due] = {}
        self.handled = self.latest_ms = 0

    def mistake(self, node: PunctualNode) -> str:
        """Nothing is left to do now: what is due is done, and what is due before the next Tick has its turn; else what
        is or will be late.
        """
        wakes_at_ms, dues = node.wakes_at_ms, {due.what: due for due in node.dues()}
        for due in dues.values():
            if due.latest_ms <= node.now_ms:
                return f"{due.what}, was due {node.now_ms - due.at_ms} ms ago"
            if due.latest_ms < node.next_tick_ms and (wakes_at_ms is None or due.latest_ms < wakes_at_ms):
                when = "none" if wakes_at_ms is None else f"one in {wakes_at_ms - node.now_ms} ms"
                return f"{due.what}, is due in {due.at_ms - node.now_ms} ms, but of turns there is {when}"
        for what, due in self.expected.items():
            if what not in dues and due.at_ms <= node.now_ms:
                self.handled += 1
                self.latest_ms = max(self.latest_ms, node.now_ms - due.at_ms)
        self.expected = dues
        return ""
