"""The journal held against the disk that it tells of: batch by batch, and all of it at each start.

What a batch stores and removes must be told in that very batch, each once, and nothing else; and the numbers that it
adds to a queue's ledger must be those of its events. A message that is in the disk's tables is one that the journal has
accepted and not ended: so nothing can be missed, and nothing told that was not. (docs/JOURNAL.md, D27 and D28.)
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.journal import (
    ACCEPTED,
    ACKED,
    CHECKED_OUT,
    COPIED,
    DEAD_LETTERED,
    DELAYED,
    DELETED,
    DELIVERED,
    DROPPED,
    DUE,
    EVENTS,
    EXPIRED,
    MOVED,
    NACKED,
    PURGED,
    RETURNED,
    SET_ASIDE,
    STARTED,
    JournalEvent,
)
from radiator.model.message import Message
from radiator.model.settings import JOURNAL
from radiator.model.writes import AppendEvent, Delay, Ledger, MakeDue, Put, Remove, Retire, SaveLedger, Write

if TYPE_CHECKING:
    from tests.sim.disk import Platter

OUTBOX = "$outbox/"  # how queues begin that clients have nothing to do with: they are not told of
# which events end a message, and the column of the ledger that each adds to; said here once more, not read from there
ENDS = {
    ACKED: "acked",
    CHECKED_OUT: "acked",
    EXPIRED: "expired",
    DROPPED: "dropped",
    PURGED: "purged",
    MOVED: "purged",
    DEAD_LETTERED: "dead_lettered",
}
COLUMNS = ("accepted", *dict.fromkeys(ENDS.values()))
TRACE = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")  # and no id is all 0 here
OF_ONE_THAT_IS_THERE = (DELIVERED, NACKED, RETURNED, DELAYED, DUE, COPIED, SET_ASIDE)
SETTLED = (ACKED, NACKED, RETURNED)


class Journal:
    """What the journal of a disk has told. there: by position, the queue of each message that is not over.

    out: those that were delivered, and have not come back. ledgers: as last committed.
    """

    def __init__(self, platter: "Platter") -> None:
        self.there: dict[int, str] = {}
        self.out: set[int] = set()
        self.ledgers: dict[str, Ledger] = {name: replace(ledger) for name, ledger in platter.queues.values()}
        for event in events_of(platter):
            self.add(event)
        self.assert_agrees(platter)

    def assert_agrees(self, platter: "Platter") -> None:
        """What it has accepted and not ended is what the disk has, each in its queue."""
        names = {number: name for number, (name, _) in platter.queues.items() if not name.startswith(OUTBOX)}
        places = (*platter.messages, *platter.delayed_at)
        stored = {position: names[queue] for queue, position in places if queue in names}
        assert self.there == stored, (
            f"not told of: {stored.items() - self.there.items()}; told of, and not there: "
            + str(self.there.items() - stored.items())
        )

    def add(self, row: JournalEvent) -> None:
        """The next event is possible after those before it."""
        event, position, queue = row.event, row.position, row.queue
        assert event in EVENTS, f"{row} is no event"
        if event == STARTED:
            self.out.clear()
            if queue:
                there = sum(name == queue for name in self.there.values())
                assert row.number == there, f"{row}, and by its events {there} are there"
        elif event == DELETED:
            gone = [at for at, name in self.there.items() if name == queue]
            assert row.number == len(gone), f"{row}, and by its events {len(gone)} were there"
            for at in gone:
                del self.there[at]
        elif event == ACCEPTED:
            assert position not in self.there, f"accepted twice: {row}"
            self.there[position] = queue
        else:
            assert self.there.get(position) == queue, f"told of what is not there: {row}"
            if event == DELIVERED:
                assert position not in self.out, f"delivered twice: {row}"
                self.out.add(position)
            elif event in SETTLED and row.reason != "handed-over":
                assert position in self.out, f"settled, and was not delivered: {row}"
                self.out.remove(position)
            if event in ENDS:
                del self.there[position]
                self.out.discard(position)

    def committed(self, writes: list[Write], platter: "Platter") -> None:
        """That batch is on the disk."""
        events = [JournalEvent(*event) for write in writes if isinstance(write, AppendEvent) for event in write.events]
        messages = {write.position: write.message for write in writes if isinstance(write, Put | Delay)}
        for event in events:
            self.add(event)
            message = messages.get(event.position) if event.event == ACCEPTED else None
            with_it = (trace_in(message), correlation_in(message)) if message is not None else ("", "")
            assert (event.traceparent, event.correlation_id) == with_it, f"{event}, and its message has {with_it}"
        names = {number: name for number, (name, _) in platter.queues.items() if not name.startswith(OUTBOX)}
        for write in writes:
            if isinstance(write, Put | Remove | Delay | MakeDue) and write.queue in names:
                place = write.queue, write.position
                is_there = place in platter.messages or place in platter.delayed_at
                is_in_journal = write.position in self.there
                assert is_there == is_in_journal, (
                    f"{write}, and is it there? {is_there}; the journal says {is_in_journal}: {events}"
                )
        self._judge_ledgers(events, writes, names)

    def _judge_ledgers(self, events: list[JournalEvent], writes: list[Write], names: dict[int, str]) -> None:
        """What is added to the columns of each queue is what is told of it."""
        # of a queue that is deleted and made anew, the events up to `deleted` are of the old one
        found: Counter[tuple[str, int, str]] = Counter()
        lives: Counter[str] = Counter()
        for row in events:
            column = "accepted" if row.event == ACCEPTED else ENDS.get(row.event)
            if column is not None:
                found[row.queue, lives[row.queue], column] += 1
                found[row.queue, lives[row.queue], f"{column}_bytes"] += row.size
            lives[row.queue] += row.event == DELETED
        ended: Counter[str] = Counter()
        retired = {write.queue: write.name for write in writes if isinstance(write, Retire)}
        names = names | {number: name for number, name in retired.items() if not name.startswith(OUTBOX)}
        for write in writes:
            if not isinstance(write, SaveLedger) or write.queue not in names:
                continue
            name = names[write.queue]
            life = ended[name] if write.queue in retired else lives[name]
            before, self.ledgers[name] = self.ledgers.get(name, Ledger()), replace(write.ledger)
            for column in (*COLUMNS, *(f"{column}_bytes" for column in COLUMNS)):
                added, sentences_of = (
                    getattr(write.ledger, column) - getattr(before, column),
                    found.pop((name, life, column), 0),
                )
                assert added == sentences_of, (
                    f"{column} of {name} grows by {added}, the journal tells {sentences_of}: {events}"
                )
            if write.queue in retired:
                ended[name] += 1
                del self.ledgers[name]  # whoever comes with that name is another
        assert not found, f"told, and in no ledger: {found} of {events}"


def trace_in(message: Message) -> str:
    """What the journal must have of its first `traceparent`."""
    values = [line[12:] for line in message.headers.split(b"\n") if line.startswith(b"traceparent:")]
    return values[0].decode() if values and TRACE.fullmatch(values[0]) else ""


def correlation_in(message: Message) -> str:
    """What the journal must have of its first `correlation-id`."""
    values = [line[15:] for line in message.headers.split(b"\n") if line.startswith(b"correlation-id:")]
    if not values:
        return ""
    plain = {b"n": b"\n", b"c": b":", b"\\": b"\\", **({b"r": b"\r"} if message.escaping == ESCAPING_ALL else {})}
    if message.escaping == ESCAPING_NONE:
        value = values[0].strip(b" ")
    else:
        value = re.sub(rb"\\(.)", lambda found: plain.get(found[1], found[0]), values[0])
    return value.decode("utf-8", "ignore") if len(value) <= 255 and b"\xff" not in value else ""


def events_of(platter: "Platter") -> Iterator[JournalEvent]:
    """All of the journal, in order."""
    for (log, _), rows in sorted(platter.records.items()):
        if platter.logs.get(log) == JOURNAL:
            for _, row in sorted(rows.items()):
                assert isinstance(row, JournalEvent)
                yield row
