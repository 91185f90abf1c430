"""The consumers of a partitioned queue, and which keys are assigned to each.

A key is assigned by consistent hashing: each consumer has some points on a ring, and a key belongs to the one whose
point is next. So a key that comes again finds the same consumer, without any memory of it, and a consumer that comes or
goes moves few keys. Where shares would be unequal, the consumer with the fewest keys is taken instead.

A consumer that is away keeps its place until it is forgotten: keys are assigned to it as though it were there, and it
counts where shares are made equal, so that it finds its share when it is back. Meanwhile others get their messages.
"""

import heapq
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from hashlib import blake2b

from radiator.core.connections import Subscription
from radiator.model.limits import KEY_HASH_BYTES

POINTS = 32  # of each consumer on the ring
KEYS_MIN = 1  # so many active keys each consumer may have, whatever its share is
ABOVE, BELOW = 1.05, 0.95  # of an equal share: keys go from who has more than that to who has less
STALE_LOADS = 64  # how many more loads are kept than four of each consumer
FAR_BELOW = 0.9  # to who has less than that they go from all who have more than an equal share: so a newcomer gets some
ARCS = 16  # of the ring, each with a list of its points
LOOKED_AT = 8  # consumers with few keys: how many are looked at for one that has room


@dataclass(slots=True, eq=False)
class Assignee:
    """One consumer. number: no other has had it. name: where its points are. is_there: it may be given messages.
    is_known: it is there, or waited for. load: how many active keys are assigned to it; listed_load: the least with
    which it stands in the heap of loads. heads: a heap of the places of the first messages of those of its keys that
    are free; some may have changed. flows: partitions of which it has a message, and may have the next one too.
    full_since_ms: since when it has no room, 0: it has, as far as is known.
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
    """of: those that are there, by subscription; away: those that are not, by name; known: how many these are. total:
    of all their loads.
    """

    __slots__ = ("_arcs", "_count", "_fewest", "_owners", "away", "known", "of", "total")

    def __init__(self) -> None:
        self.of: dict[Subscription, Assignee] = {}
        self.away: dict[str, Assignee] = {}
        self.total = self.known = 0
        self._count = 0
        # each has the points that begin with its number: so a list stays short, however many consumers there are
        self._arcs: list[list[bytes]] = [[] for _ in range(ARCS)]
        self._owners: dict[bytes, Assignee] = {}
        # a heap of loads that consumers have had: each has one there, `listed_load`, that is not above its load
        self._fewest: list[tuple[int, str, int, Assignee]] = []

    def join(self, name: str, subscription: Subscription) -> Assignee:
        """A consumer comes, without keys; or one that was away, with those that it had."""
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
        """It gets nothing for now, and keeps its place until it is forgotten."""
        assignee = self.of.pop(subscription)
        assignee.is_there = False
        self.away[assignee.name] = assignee
        return assignee

    def forget(self, name: str) -> None:
        """One that is away is not waited for: its keys are assigned anew when they are next free."""
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
        """To whom a key that is free is assigned from now on. before: to whom it was. None: to nobody."""
        if not self.known:
            return None
        if before is not None and before.is_known:
            share = self.total / self.known
            if not before.is_there or before.load <= max(KEYS_MIN, share):
                return before
            below = BELOW if before.load > ABOVE * share else FAR_BELOW
            poorer = self._poorest(min(below * share, before.load - 1))
            return before if poorer is None else poorer
        number = key_hash[0] >> 4
        arc = self._arcs[number]
        index = bisect_left(arc, key_hash)
        preferred = self._owners[arc[index]] if index < len(arc) else self._first_behind(number)
        load = preferred.load
        if load < KEYS_MIN or load + 1 <= ABOVE * (self.total + 1) / self.known:
            return preferred
        return self._with_fewest()

    def moved(self, before: Assignee | None, after: Assignee | None) -> None:
        """A key is assigned to another. None: it is, or was, to nobody."""
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
        """The consumer with the fewest keys."""
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

    def _poorest(self, below: float) -> Assignee | None:
        """One of the consumers with the fewest keys that has room, and fewer than so many."""
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
        """The one whose point on the ring is next behind that arc."""
        arcs = self._arcs
        following = next((arc[0] for arc in arcs[number + 1 :] + arcs[: number + 1] if arc), None)
        # the one whose points they were may have left another one of its name
        return self._with_fewest() if following is None else self._owners[following]


def _points_of(name: str) -> list[bytes]:
    text = name.encode()
    digest = b"".join(blake2b(b"%d %b" % (number, text)).digest() for number in range(POINTS // 8))
    return [digest[at : at + KEY_HASH_BYTES] for at in range(0, len(digest), KEY_HASH_BYTES)]
