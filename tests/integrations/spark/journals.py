"""Journals as a broker would tell them, made by a seed; and what may be wrong with one, put into it on purpose."""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa

from radiator.model.journal import (  # fmt: skip
    ACCEPTED,
    ACKED,
    AS_DEAD_LETTER,
    CHECKED_OUT,
    COPIED,
    DEAD_LETTERED,
    DELAYED,
    DELETED,
    DELIVERED,
    DROPPED,
    DUE,
    EXPIRED,
    MOVED,
    NACKED,
    PURGED,
    RETURNED,
    STARTED,
    JournalEvent,
)
from radiator.model.message import Message, message_id, position_of
from radiator.model.settings import JOURNAL as JOURNAL_LOG
from radiator.tools.archive.manifest import Manifest
from radiator.tools.archive.rows import JOURNAL, LOG, SNAPSHOT, of_events, of_messages, of_stored
from radiator.tools.archive.sealing import SNAPSHOTS, Sealing, date_of, folder_of

STORE = "4f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5"
BEGIN_MS = 1_764_000_000_000
QUEUES = ("orders", "bills", "mail")


def id_of(position: int) -> str:
    return message_id(STORE, position).decode()


@dataclass
class Journal:
    """events: with their offsets, in order; stored: the queue of each message that the snapshot has."""

    boot: int = 1
    next_seq: int = 0
    ms: int = BEGIN_MS
    number: int = 0
    events: list[tuple[int, JournalEvent]] = field(default_factory=list)
    stored: dict[int, str] = field(default_factory=dict)

    def add(self, event: str, queue: str, position: int, **more: str | int) -> None:
        self.events.append((self.next_seq, JournalEvent(event, self.ms, queue, position, **more)))  # type: ignore[arg-type]
        self.next_seq += 1

    def start(self, boot: int) -> None:
        self.boot, self.number = boot, 0
        self.add(STARTED, "", position_of(boot, 0), reason="clean")

    def accept(self, queue: str, **more: str | int) -> int:
        self.number += 1
        position = position_of(self.boot, self.number)
        self.add(ACCEPTED, queue, position, size=200, **more)
        self.stored[position] = queue
        return position

    def deliver(self, position: int, client: str, attempt: int = 0) -> None:
        self.add(DELIVERED, self.stored[position], position, client=client, attempt=attempt)

    def end(self, position: int, event: str, **more: str | int) -> None:
        self.add(event, self.stored.pop(position), position, **more)

    def bury(self, position: int, queue: str, event: str = DEAD_LETTERED) -> int:
        """It goes on in that queue: dead-lettered, or moved."""
        before = self.stored[position]
        reason = AS_DEAD_LETTER if event == DEAD_LETTERED else MOVED
        after = self.accept(queue, other=position, other_queue=before, reason=reason)
        self.end(position, event, other=after, other_queue=queue, reason="rejected" if reason == AS_DEAD_LETTER else "")
        return after

    def fan(self, queues: tuple[str, ...]) -> list[int]:
        """A copy into each."""
        common, copies = 0, []
        for queue in queues:
            copies.append(self.accept(queue, address="/fanout/all"))
            common = common or copies[0]
            self.add(COPIED, queue, copies[-1], other=common, address="/fanout/all", number=len(queues))
        return copies

    def delete(self, queue: str) -> None:
        self.add(DELETED, queue, 0)
        self.stored = {position: name for position, name in self.stored.items() if name != queue}

    def forget(self, position: int) -> None:
        """Nothing of it is told."""
        self.events = [(seq, event) for seq, event in self.events if event.position != position]

    def without(self, position: int, event: str) -> None:
        self.events = [(seq, row) for seq, row in self.events if (row.position, row.event) != (position, event)]

    def renumber(self) -> None:
        """What was taken out leaves no gap: it was never told."""
        self.events = [(seq, event) for seq, (_, event) in enumerate(self.events)]
        self.next_seq = len(self.events)

    def cut(self, low: int, high: int) -> None:
        """Those offsets are missing."""
        self.events = [(seq, event) for seq, event in self.events if not low <= seq < high]

    def runs(self) -> list[tuple[int, list[JournalEvent]]]:
        """Events without a gap, and the offset of the first."""
        runs: list[tuple[int, list[JournalEvent]]] = []
        for seq, event in self.events:
            if runs and runs[-1][0] + len(runs[-1][1]) == seq:
                runs[-1][1].append(event)
            else:
                runs.append((seq, [event]))
        return runs

    def table(self) -> pa.Table:
        """As the archive has it."""
        return pa.Table.from_batches([of_events(STORE, "node-a", *run) for run in self.runs()], JOURNAL)

    def snapshot(self) -> pa.Table:
        stored = [(queue, position) for position, queue in self.stored.items()]
        return pa.Table.from_batches([of_stored(STORE, stored)], SNAPSHOT)

    def write(self, directory: Path, boot: int | None = None) -> None:
        """An archive with one file, or more where offsets are missing, and a snapshot of that boot."""
        manifest = Manifest(directory, STORE)
        runs = self.runs()
        for first, event in runs:
            file = f"{folder_of(JOURNAL_LOG, date_of(event[0].ms))}/{first:020d}.parquet"
            with Sealing(directory, file, JOURNAL) as sealing:
                sealing.add(of_events(STORE, "node-a", first, event))
                sealing.seal(manifest, JOURNAL_LOG, "1", 0, first, first + len(event))
        cut = runs[-1][0] + len(runs[-1][1])
        boot = self.boot if boot is None else boot
        with Sealing(directory, f"{SNAPSHOTS}/{cut:020d}-{boot}.parquet", SNAPSHOT) as sealing:
            for batch in self.snapshot().to_batches():
                sealing.add(batch)
            sealing.seal(manifest, "", "1", 0, cut, cut, boot)


def write_log(directory: Path, name: str, partitions: list[list[bytes]], headers: bytes = b"") -> None:
    """A log in an archive: the bodies in each partition, a millisecond apart."""
    manifest = Manifest(directory, STORE)
    for partition, bodies in enumerate(partitions):
        messages = [Message(f"/log/{name}", headers, 0, body, BEGIN_MS + at) for at, body in enumerate(bodies)]
        file = f"{folder_of(name, date_of(BEGIN_MS))}/{partition}.parquet"
        with Sealing(directory, file, LOG) as sealing:
            sealing.add(of_messages(name, partition, 0, messages))
            sealing.seal(manifest, name, "1", partition, 0, len(bodies))


def lively(seed: int, steps: int, boots: int = 1) -> Journal:
    """A journal in which everything that may happen happens, and nothing is wrong."""
    random = Random(seed)
    journal = Journal()
    journal.start(1)
    for step in range(steps):
        journal.ms += random.randrange(50)
        if step and step % (steps // boots + 1) == 0:
            journal.start(journal.boot + 1)
        _step(journal, random)
    return journal


def _step(journal: Journal, random: Random) -> None:
    what = random.randrange(20)
    mine = [position for position, queue in journal.stored.items() if queue in QUEUES]
    if what < 8 or not mine:
        journal.accept(random.choice(QUEUES))
    elif what == 8:
        journal.fan(QUEUES)
    elif what == 9:
        journal.end(random.choice(mine), random.choice((EXPIRED, PURGED, DROPPED, CHECKED_OUT)))
    elif what == 10:
        delayed = random.choice(mine)
        journal.add(DELAYED, journal.stored[delayed], delayed, number=journal.ms + 10)
        journal.ms += 10
        journal.add(DUE, journal.stored[delayed], delayed)
    elif what == 11 and random.randrange(5) == 0:
        journal.delete(QUEUES[-1])
    else:
        _consume(journal, random.choice(mine), random)


def _consume(journal: Journal, position: int, random: Random) -> None:
    client = f"{random.randrange(1, 5)}/jobs"
    journal.deliver(position, client)
    journal.ms += random.randrange(100)
    what = random.randrange(10)
    if what < 6:
        journal.end(position, ACKED, client=client)
    elif what == 6:
        journal.add(NACKED, journal.stored[position], position, client=client, reason="rejected")
        journal.bury(position, "dead")
    elif what == 7:
        journal.bury(position, random.choice(QUEUES), MOVED)
    else:
        journal.add(RETURNED, journal.stored[position], position, client=client, reason="lost")


def spoil(journal: Journal, random: Random) -> tuple[dict[str, str], set[str]]:
    """Makes one of each kind of wrong: the wrong verdicts by message-id, and the fanout-message-ids of what is
    half-fanned. Each time on a message that was right before, and without leaving a gap.
    """
    kept = {row.other for _, row in journal.events} | {row.position for _, row in journal.events if row.other}
    deleted = {row.queue for _, row in journal.events if row.event == DELETED}
    plain = [row for _, row in journal.events if row.position not in kept and row.queue not in deleted]
    acked = [row.position for row in plain if row.event == ACKED]
    random.shuffle(acked)
    wrong = {}
    for position in acked[:2]:
        journal.without(position, ACKED)  # never acked, and not stored
        wrong[id_of(position)] = "lost"
    lost, named = _dead_letter(journal)
    journal.forget(named)
    journal.stored.pop(named)
    wrong[id_of(named)] = "lost"
    for position in acked[2:4]:
        journal.add(ACKED, "orders", position, client="9/again")
        wrong[id_of(position)] = "doubled"
    journal.stored[acked[4]] = "orders"  # acked, and still there
    wrong[id_of(acked[4])] = "doubled"
    for position in acked[5:7]:
        journal.without(position, ACCEPTED)
        wrong[id_of(position)] = "ghost"
    ghost = position_of(journal.boot, journal.number + 1)
    journal.accept("orders")  # so that the next place is within what is told of
    journal.stored[ghost] = "orders"
    journal.without(ghost, ACCEPTED)
    journal.accept("orders")
    wrong[id_of(ghost)] = "ghost"
    copies = journal.fan(QUEUES)
    journal.forget(copies[1])
    journal.stored.pop(copies[1])
    journal.renumber()
    return wrong, {id_of(copies[0])}


def _dead_letter(journal: Journal) -> tuple[int, int]:
    """A message that died, and what it became."""
    position = journal.accept("orders")
    return position, journal.bury(position, "dead")
