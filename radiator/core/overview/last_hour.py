"""The last hour, in memory: of the broker a sample each second, of the busiest queues one each five seconds.

From the first Tick of a second on all queues are looked at, in slices. It takes under 4 MiB with 10,000 queues, and for
each one more some 110 bytes.
"""

from collections.abc import Mapping, Sized
from typing import Protocol

from radiator.core.connections import Connection
from radiator.core.memory import Memory
from radiator.core.overview.counters import Counters, Totals, candidates_of
from radiator.core.overview.looks import Looks, Slices
from radiator.core.overview.periods import share_at
from radiator.core.overview.rings import Rings
from radiator.core.overview.series import Series, quantile_ms
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.core.turn import TurnContext
from radiator.core.usage import Usages
from radiator.model.limits import SAMPLED_AT_ONCE
from radiator.model.numbers import PAUSE


class Waiting(Protocol):
    """The connections that wait for room."""

    @property
    def connections(self) -> Sized: ...


class SampledPort(Protocol):
    """The parts that samples are taken of."""

    @property
    def blocking(self) -> Waiting: ...

    @property
    def connections(self) -> Mapping[int, Connection]: ...

    @property
    def context(self) -> TurnContext: ...

    @property
    def usages(self) -> Usages: ...

    @property
    def destinations(self) -> Destinations: ...

    @property
    def memory(self) -> Memory: ...


class LastHour:
    """sampled_s: when the last sample of the broker was begun, and rated_s: the last one of queues; 0: there is none.
    flows: what had been delivered and appended then; commits: of the histogram of commits, its counts then.
    """

    __slots__ = (
        "commits", "counters", "flows", "is_sampling", "looks", "port", "rated_s", "rings", "sampled_s", "series",
    )  # fmt: skip

    def __init__(self, port: SampledPort, looks: Looks) -> None:
        self.port = port
        self.looks = looks
        self.counters = Counters(port.context.now_s)
        self.series = Series()
        self.rings = Rings()
        self.is_sampling = False
        self.sampled_s = self.rated_s = 0.0
        self.flows: dict[str, int] = {}
        self.commits: list[int] = []

    def ticked(self) -> None:
        """Begins a sample if a second is over, and the last sample is complete."""
        if not self.is_sampling and self.series.periods.due(self.port.context.now_ms):
            self.is_sampling = True
            self.looks.begin(self._sample())

    def _sample(self) -> Slices:
        context = self.port.context
        now_s, now_ms = context.now_s, context.now_ms
        queues = self.port.destinations.queues.everything()
        counters, totals = self.counters, Totals()
        for begin in range(0, len(queues), SAMPLED_AT_ONCE):
            if begin:
                yield PAUSE
            counters.look(queues[begin : begin + SAMPLED_AT_ONCE], totals, now_s)
        counters.has_looked = True
        appended = 0
        for nth, log in enumerate([*self.port.destinations.logs.all.values()], 1):
            appended += log.ledger.accepted
            if nth % SAMPLED_AT_ONCE == 0:
                yield PAUSE
        self._add(totals, appended, now_s, now_ms)
        if len(counters.places) > len(queues):
            yield from counters.let_go()
            self.rings.let_go()
        if self.rings.periods.due(now_ms):
            yield from self._rate(queues, now_s, now_ms)
        self.is_sampling = False

    def _add(self, totals: Totals, appended: int, now_s: float, now_ms: int) -> None:
        """Adds the sample of the broker."""
        port, context = self.port, self.port.context
        deliveries, commits = context.deliveries, context.commits
        flows = {"delivered": sum(deliveries.counts) + deliveries.repeats, "appended": appended}
        before = self.flows or flows
        elapsed_s = now_s - self.sampled_s if self.sampled_s else 0.0
        moved = {name: max(0, count - before[name]) for name, count in flows.items()}
        moved |= {"in": totals.came, "out": totals.left}
        counts = commits.numbers().counts
        recent = [count - old for count, old in zip(counts, self.commits or counts, strict=True)]
        places = self.series.periods.take(now_ms)
        share = share_at(places, self.series.periods.every_ms, elapsed_s)
        self.series.put(
            places,
            {
                **{name: round(count * share) for name, count in moved.items()},
                "stored": totals.stored,
                "ready": totals.ready,
                "unacked": totals.unacked,
                "delayed": totals.delayed,
                "connections": len(port.connections) - port.usages.channels,
                "parked": len(port.blocking.connections),
                "receipt_p50_ms": quantile_ms(commits.buckets_ms, recent, 0.5),
                "receipt_p99_ms": quantile_ms(commits.buckets_ms, recent, 0.99),
                "memory_bytes": port.memory.in_all_bytes,
            },
        )
        self.flows, self.commits, self.sampled_s = flows, counts, now_s

    def _rate(self, queues: list[Queue], now_s: float, now_ms: int) -> Slices:
        """Takes the samples of queues, and their rates."""
        rings, candidates = self.rings, list[tuple[float, str, Queue]]()
        most = candidates_of(len(rings.all))
        elapsed_s = now_s - self.rated_s if self.rated_s else 0.0
        at = rings.periods.take(now_ms)
        share = share_at(at, rings.periods.every_ms, elapsed_s)
        for begin in range(0, len(queues), SAMPLED_AT_ONCE):
            yield PAUSE
            some = queues[begin : begin + SAMPLED_AT_ONCE]
            self.counters.rate(some, elapsed_s, rings.all, at, share, candidates, most)
        self.rated_s = now_s
        rings.choose((score, queue) for score, _, queue in sorted(candidates, reverse=True) if not queue.is_gone)
