"""Batches of logs and prepared transactions as a broker makes them, of chance: for tests of the store and its twin."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from radiator.model.commands import Send
from radiator.model.journal import EVENTS, JournalEvent
from radiator.model.limits import BLOCK_RECORDS, EVENT_BYTES
from radiator.model.message import Message, position_of
from radiator.model.writes import (
    Append,
    AppendEvent,
    DeclareLog,
    DropApp,
    DropLog,
    DropPosition,
    DropSegment,
    DropTransaction,
    KeepApp,
    KeepPosition,
    KeepSegment,
    KeepSegments,
    KeepTransaction,
    RemovePrepared,
    StorePrepared,
    Write,
)

COUNTS = (1, 2, 5, BLOCK_RECORDS, BLOCK_RECORDS + 3)

Partition = tuple[int, int]


class LogBatches:
    """counts: how many records one batch may append to a log. The log of the first number is the journal."""

    def __init__(self, chance: Random, first_log: int = 1, counts: tuple[int, ...] = COUNTS) -> None:
        self.chance = chance
        self.counts = counts
        self.logs: set[int] = set()
        self.journal = self.next_log = first_log
        self.open: dict[Partition, KeepSegment] = {}
        self.full: dict[Partition, list[KeepSegment]] = {}
        self.groups: set[tuple[int, str]] = set()
        self.transactions: dict[int, KeepTransaction] = {}
        self.next_transaction = 1
        self.apps: set[str] = set()

    def batch(self) -> list[Write]:
        words = (self.append, self.append, self.append, self.roll, self.drop_segment, self.position, self.transaction,
                 self.apply, self.version, self.declare)  # fmt: skip
        wanted = self.chance.choices(words, k=self.chance.randint(1, 4))
        return [write for word in dict.fromkeys(wanted) for write in word()]

    def declare(self) -> Iterator[Write]:
        if self.logs and self.chance.random() < 0.1:
            log = self.chance.choice([*self.logs])
            self.logs.remove(log)
            self.groups = {group for group in self.groups if group[0] != log}
            yield DropLog(log)
        elif len(self.logs) < 3:
            log, self.next_log = self.next_log, self.next_log + 1
            self.logs.add(log)
            yield DeclareLog(log, f"log-{log}")

    def append(self) -> Iterator[Write]:
        for log in self.logs:
            partition = 0 if log == self.journal else self.chance.randrange(3)
            place = (log, partition)
            row = self.open.setdefault(place, KeepSegment(log, partition, 0, 0))
            count = self.chance.choice(self.counts)
            first = row.first + row.count
            if log == self.journal:
                yield AppendEvent(log, 0, first, [self.event_of(first + nth) for nth in range(count)])
                size = count * EVENT_BYTES
            else:
                messages = [self.message(first + nth) for nth in range(count)]
                yield from (Append(log, partition, offset, one) for offset, one in enumerate(messages, first))
                size = sum(message.size for message in messages)
            row = self.open[place] = replace(row, count=row.count + count, size=row.size + size, first_ms=1, last_ms=2)
            yield KeepSegments(log, [row])

    def message(self, number: int) -> Message:
        return Message("/log/l", b"n:%d\n" % number, 2, bytes(self.chance.randrange(200)), number)

    def event_of(self, number: int) -> JournalEvent:
        chance = self.chance
        event = JournalEvent(
            chance.choice(EVENTS), number, chance.choice("ab"), position_of(1, number), chance.choice(("", "c"))
        )
        # a third of the batches have some, and ids half of these and another sixth: so blocks of all kinds are there
        return event._replace(
            traceparent=f"00-{number + 1:032x}-{1:016x}-01" if number % 300 < 100 else "",
            correlation_id=f"task {number % 7}" if 50 < number % 300 < 150 else "",
        )

    def roll(self) -> Iterator[Write]:
        for place, row in self.open.items():
            if row.count:
                self.full.setdefault(place, []).append(row)
                end = row.first + row.count
                self.open[place] = KeepSegment(*place, end, end)
        yield from ()

    def drop_segment(self) -> Iterator[Write]:
        gone = [place for place, rows in self.full.items() if rows and place[0] not in self.logs]
        for place in gone or [place for place, rows in self.full.items() if rows][:1]:
            row = self.full[place].pop(0)
            yield DropSegment(*place, row.first, row.first + row.count)

    def position(self) -> Iterator[Write]:
        if self.groups and self.chance.random() < 0.2:
            log, group = self.chance.choice([*self.groups])
            self.groups.remove((log, group))
            yield DropPosition(log, group)
        elif self.logs:
            log, group = self.chance.choice([*self.logs]), self.chance.choice("gh")
            self.groups.add((log, group))
            yield KeepPosition(log, group, [0] * self.chance.randint(1, 3))

    def transaction(self) -> Iterator[Write]:
        sends = [Send(0, "/queue/q", b"", 2, bytes(number)) for number in range(self.chance.randrange(30))]
        transaction, self.next_transaction = self.next_transaction, self.next_transaction + 1
        row = KeepTransaction(transaction, f"name-{transaction}", len(sends), sum(send.size for send in sends), 0, 1)
        self.transactions[transaction] = row
        yield row
        if sends:
            yield StorePrepared(transaction, 0, sends)

    def apply(self) -> Iterator[Write]:
        for transaction, row in [*self.transactions.items()]:
            end = min(row.count, row.applied + self.chance.randrange(12))
            if end == row.count or self.chance.random() < 0.1:
                del self.transactions[transaction]
                yield DropTransaction(transaction)
            elif end > row.applied:
                self.transactions[transaction] = replace(row, name="", applied=end)
                yield RemovePrepared(transaction, row.applied, end)
                yield self.transactions[transaction]

    def version(self) -> Iterator[Write]:
        app = self.chance.choice(("a", "b"))
        if app in self.apps and self.chance.random() < 0.3:
            self.apps.remove(app)
            yield DropApp(app)
        else:
            self.apps.add(app)
            yield KeepApp(app, self.chance.randrange(99), 1)
