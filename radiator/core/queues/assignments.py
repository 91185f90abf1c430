"""The consumers of a partitioned queue, and which keys are assigned to each.

A key is assigned by consistent hashing: each consumer has some points on a ring, and a key belongs to the consumer
whose point is next. So a key that comes again finds the same consumer, though nothing remembers the key, and a consumer
that comes or goes moves few keys. If shares would become unequal, the consumer with the fewest keys is taken instead.

A consumer that is away keeps its place until it is forgotten: keys are assigned to it as if it were there, and it
counts when shares are made equal, so that it finds its share when it is back. Meanwhile other consumers get its
messages.
"""

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from hashlib import blake2b

from radiator.core.connections import Subscription
from radiator.model.limits import KEY_HASH_BYTES

POINTS = 32  # points of each consumer on the ring
KEYS_MIN = 1  # active keys that each consumer may have, whatever its share is
ABOVE, BELOW = 1.05, 0.95  # times an equal share: keys move from consumers with more than ABOVE to those below BELOW
STALE_LOADS = 64  # how many more loads are kept than four of each consumer
FAR_BELOW = 0.9  # to consumers below this, keys move from all above an equal share: so a newcomer gets some
ARCS = 16  # arcs of the ring, each with a list of its points
LOOKED_AT = 8  # how many consumers with few keys are looked at to find one that has room


@dataclass(slots=True, eq=False)
class Assignee:
    """One consumer. number: unique to this consumer. name: decides where its points are. is_there: it may be given
    messages. is_known: it is there, or waited for. load: how many active keys are assigned to it; listed_load: the
    lowest load with which the heap of loads has it. heads: a heap of the positions of the first messages of its free
    keys; some may be out of date. flows: partitions of which it has a message, and may have the next one too.
    full_since_ms: since when it has no room, by the monotonic clock; 0: it has room, as far as is known.
    """

    number: int
    name: str
    subscription: Subscription
    is_there: bool = True
    is_known: bool = True
    load: int = 0
    listed_load: int = 0
    full_since_ms: int = 0
    heads: list[int] = field(default_factory=list)
    flows: dict[object, None] = field(default_factory=dict)

    @property
    def is_listed(self) -> bool:
        """Whether it may be given a message, as far as is known."""
        return self.is_there and self.subscription.is_listed


class Assignments:
    """of: consumers that are there, by subscription; away: those that are not, by name; known: how many there are of
    both. total: the sum of their loads.
    """

    __slots__ = ("_arcs", "_count", "_fewest", "_owners", "away", "known", "of", "total")

    def __init__(self) -> None:
        self.of: dict[Subscription, Assignee] = {}
        self.away: dict[str, Assignee] = {}
        self.total = self.known = 0
        self._count = 0
        # each arc has the points that begin with its number: so a list stays short, however many consumers there are
        self._arcs: list[list[bytes]] = [[] for _ in range(ARCS)]
        self._owners: dict[bytes, Assignee] = {}
        # a heap of loads that consumers have had: for each it has one, `listed_load`, that is not above its load
        self._fewest: list[tuple[int, str, int, Assignee]] = []

    def join(self, name: str, subscription: Subscription) -> Assignee:
        """Adds a consumer: a new one without keys, or one that was away, with the keys that it had."""
        assignee = self.away.pop(name, None)
        if assignee is not None:
            assignee.subscription, assignee.is_there = subscription, True
            self.of[subscription] = assignee
            return assignee
        self._count += 1
        self.known += 1
        assignee = self.of[subscription] = Assignee(self._count, name, subscription)
        for point in _points_of(name):
            if point not in self._owners:
                insort(self._arcs[point[0] >> 4], point)
                self._owners[point] = assignee
        heapq.heappush(self._fewest, (0, assignee.name, assignee.number, assignee))
        return assignee

    def go_away(self, subscription: Subscription) -> Assignee:
        """Marks a consumer as away: it gets nothing for now, and keeps its place until it is forgotten."""
        assignee = self.of.pop(subscription)
        assignee.is_there = False
        self.away[assignee.name] = assignee
        return assignee

    def forget(self, name: str) -> None:
        """Drops a consumer that is away: each of its keys is assigned to another when it is next free."""
        assignee = self.away.pop(name, None)
        if assignee is None:
            return
        assignee.is_known = False
        self.known -= 1
        assignee.heads = []
        for point in _points_of(assignee.name):
            if self._owners.get(point) is assignee:
                del self._owners[point]
                arc = self._arcs[point[0] >> 4]
                del arc[bisect_left(arc, point)]
        self.total -= assignee.load

    # ---- keys -------------------------------------------------------------------------------------------------------

    def assign(self, key_hash: bytes, before: Assignee | None) -> Assignee | None:
        """Returns the consumer to which a free key is assigned from now on. before: the previous one. None: nobody."""
        if not self.known:
            return None
        if before is not None and before.is_known:
            share = self.total / self.known
            if not before.is_there or before.load <= max(KEYS_MIN, share):
                return before
            below = BELOW if before.load > ABOVE * share else FAR_BELOW
            lighter = self._least_loaded(min(below * share, before.load - 1))
            return before if lighter is None else lighter
        number = key_hash[0] >> 4
        arc = self._arcs[number]
        index = bisect_left(arc, key_hash)
        preferred = self._owners[arc[index]] if index < len(arc) else self._first_behind(number)
        load = preferred.load
        if load < KEYS_MIN or load + 1 <= ABOVE * (self.total + 1) / self.known:
            return preferred
        return self._with_fewest()

    def moved(self, before: Assignee | None, after: Assignee | None) -> None:
        """Called when a key is assigned to another consumer. before, after: None: the key was, or is, assigned to
        nobody.
        """
        if before is not None and before.is_known:
            before.load = load = before.load - 1
            self.total -= 1
            if load < before.listed_load:
                before.listed_load = load
                fewest = self._fewest
                heapq.heappush(fewest, (load, before.name, before.number, before))
                if len(fewest) > STALE_LOADS + 4 * self.known:
                    self._list_anew()
        if after is not None and after.is_known:
            after.load += 1
            self.total += 1

    def _list_anew(self) -> None:
        everybody = [*self.of.values(), *self.away.values()]
        for one in everybody:
            one.listed_load = one.load
        self._fewest = sorted((one.load, one.name, one.number, one) for one in everybody)

    def _with_fewest(self) -> Assignee:
        """Returns the consumer with the fewest keys."""
        fewest = self._fewest
        while True:
            load, name, number, assignee = fewest[0]
            if not assignee.is_known or load != assignee.listed_load:
                heapq.heappop(fewest)
            elif load == assignee.load:
                return assignee
            else:
                assignee.listed_load = assignee.load
                heapq.heapreplace(fewest, (assignee.load, name, number, assignee))

    def _least_loaded(self, below: float) -> Assignee | None:
        """Returns a consumer that has room and a load below `below`, and is one of those with the fewest keys; None:
        there is none among those looked at.
        """
        found: Assignee | None = None
        passed: list[tuple[int, str, int, Assignee]] = []
        while len(passed) < LOOKED_AT and len(passed) < self.known:
            assignee = self._with_fewest()
            if assignee.load >= below:
                break
            if assignee.is_listed:
                found = assignee
                break
            passed.append(heapq.heappop(self._fewest))
        for one in passed:
            heapq.heappush(self._fewest, one)
        return found

    def _first_behind(self, number: int) -> Assignee:
        """Returns the consumer whose point on the ring is the next one after that arc."""
        arcs = self._arcs
        following = next((arc[0] for arc in arcs[number + 1 :] + arcs[: number + 1] if arc), None)
        # the consumer that owned the points may have gone, and left another of its name, which has none
        return self._with_fewest() if following is None else self._owners[following]


def _points_of(name: str) -> list[bytes]:
    text = name.encode()
    digest = b"".join(blake2b(b"%d %b" % (number, text)).digest() for number in range(POINTS // 8))
    return [digest[at : at + KEY_HASH_BYTES] for at in range(0, len(digest), KEY_HASH_BYTES)]
