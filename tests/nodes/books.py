"""What clients of several nodes said and heard, and whether it fits together once everything was taken out.

Every body is sent once. So one that is delivered twice was doubled by the nodes, unless who had it first was lost
before the RECEIPT of its ACK: that is at least once, as on one node. Used by many threads.
"""

import threading
from collections import defaultdict
from dataclasses import dataclass, field

from tests.crash.books import name_in

JOB, EVENT = "job", "event"
NAMED_MAX = 3  # of the messages that a fault names


@dataclass
class Books:
    """A place is where a message is due once: ("work",) for all nodes together, or the node that has a copy for it.

    due: name -> its places. holders: who has a message and has not asked for the RECEIPT of its ACK. receipted:
    SENDs. acked: place and name of those whose ACK has its RECEIPT. unsure: those that may come again. answered: whose
    ACK is on its way: where its RECEIPT is lost they may come again, or not.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    due: dict[str, tuple[str, ...]] = field(default_factory=dict)
    receipted: set[str] = field(default_factory=set)
    acked: set[tuple[str, str]] = field(default_factory=set)
    unsure: set[tuple[str, str]] = field(default_factory=set)
    answered: set[tuple[str, str]] = field(default_factory=set)
    holders: dict[tuple[str, str], str] = field(default_factory=dict)
    deliveries: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    crossed: int = 0
    last_news: dict[tuple[str, str], int] = field(default_factory=dict)
    news: int = 0
    found: list[str] = field(default_factory=list)

    def sending(self, name: str, places: tuple[str, ...]) -> None:
        with self.lock:
            self.due[name] = places

    def sent(self, name: str) -> None:
        """Its RECEIPT is here."""
        with self.lock:
            self.receipted.add(name)

    def delivered(self, place: str, body: bytes, holder: str, has_crossed: bool = False) -> str:
        """holder: the connection that has it now. Returns its name."""
        name = name_in(body)
        with self.lock:
            if name is None or place not in self.due.get(name, ()):
                self.found.append(f"altered, or never sent: at {place} {body[:60]!r}")
                return ""
            what = place, name
            if what in self.acked:
                self.found.append(f"doubled: {name} was acked, and came again to {holder}")
            elif what in self.holders:
                self.found.append(f"doubled: {name} is with {self.holders[what]}, and came to {holder} too")
            elif self.deliveries[what] and what not in self.unsure:
                self.found.append(f"doubled: {name} came again to {holder}")
            self.holders[what] = holder
            self.unsure.discard(what)
            self.answered.discard(what)
            self.deliveries[what] += 1
            self.crossed += has_crossed
            return name

    def acking(self, place: str, name: str) -> None:
        """Its ACK is about to be sent."""
        with self.lock:
            self.answered.add((place, name))

    def is_acked(self, place: str, name: str) -> None:
        """The RECEIPT of its ACK is here."""
        with self.lock:
            self.holders.pop((place, name), None)
            self.acked.add((place, name))

    def lost(self, holder: str) -> None:
        """That connection has ended: what it had without a RECEIPT may come again."""
        with self.lock:
            mine = [what for what, who in self.holders.items() if who == holder]
            for what in mine:
                del self.holders[what]
                self.unsure.add(what)

    def heard(self, subscriber: str, body: bytes) -> None:
        """News of a topic: `PUBLISHER NUMBER`. To each subscriber at most once, and in the publisher's order."""
        publisher, _, number = body.decode().partition(" ")
        with self.lock:
            self.news += 1
            last = self.last_news.get((subscriber, publisher), -1)
            if int(number) <= last:
                self.found.append(f"news {publisher} {number} came to {subscriber} after {last}")
            self.last_news[subscriber, publisher] = int(number)

    def waiting(self) -> list[tuple[str, str]]:
        """Everything receipted that must still come."""
        with self.lock:
            done = self.acked | (self.answered & self.unsure)
            return [(place, name) for name in self.receipted for place in self.due[name] if (place, name) not in done]

    def faults(self) -> list[str]:
        """After everything was taken out: what breaks a promise."""
        found = list(self.found)
        lost = [what for what in self.waiting() if not self.deliveries.get(what)]
        if lost:
            found.append(f"lost: {len(lost)} of {len(self.receipted)} that were receipted, such as {lost[:NAMED_MAX]}")
        owed = [what for what in {*self.holders, *self.unsure} if what not in self.answered]
        if owed:
            found.append(
                f"gone: {len(owed)} that were seen and not acked did not come again, such as {owed[:NAMED_MAX]}"
            )
        torn = [
            name
            for name, places in self.due.items()
            if 0 < sum(bool(self.deliveries.get((place, name))) for place in places) < len(places)
        ]
        if torn:
            found.append(f"torn: {len(torn)} copies of fanouts are at some nodes only, such as {torn[:NAMED_MAX]}")
        return found
