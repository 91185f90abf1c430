"""A simulated disk: keeps the Store's promises in memory, and can be cut at any moment.

What `commit` has returned from is durable; a `crash` before that leaves the last durable state. Each commit is atomic.
The checks of LmdbStore, and some that it cannot afford: a message has one place, and goes with the key that it came
with; at a start every ledger agrees with what its queue stores. A batch that fails one is kept in part: the test is
over then.
"""

from dataclasses import dataclass, field, replace

from radiator.model.commands import LoadedPrepared, Send
from radiator.model.journal import JournalEvent, as_json, is_about, is_traced
from radiator.model.limits import EVENT_BYTES, SEARCH_FOUND_WORK
from radiator.model.message import Message
from radiator.model.reads import (
    DedupLookup,
    KeyMessages,
    Loaded,
    LoadedDelayed,
    LoadedEvents,
    LoadedHeld,
    LoadedKeys,
    LoadedLog,
    ReadDelayed,
    ReadEvents,
    ReadHeld,
    ReadKeys,
    ReadLog,
    ReadPrepared,
    ReadQueue,
    StoredDelayed,
    StoredMessage,
    StoredRecord,
)
from radiator.model.recovery import Recovery, StoredDoubt, StoredLog, StoredQueue
from radiator.model.writes import (
    Append,
    AppendEvent,
    Bind,
    Count,
    Declare,
    DeclareLog,
    Delay,
    Doubt,
    DropApp,
    DropDeclared,
    DropLog,
    DropPosition,
    DropSegment,
    DropTransaction,
    Forget,
    KeepApp,
    KeepDeclared,
    KeepPeer,
    KeepPosition,
    KeepSegment,
    KeepSegments,
    KeepSettings,
    KeepTime,
    KeepTransaction,
    Ledger,
    MakeDue,
    Put,
    Remember,
    Remove,
    RemovePrepared,
    Retire,
    SaveLedger,
    Settle,
    StoppedClean,
    StorePrepared,
    Sweep,
    Unbind,
    Write,
)
from tests.sim.journal import Journal

Place = tuple[int, int]  # queue and position
Partition = tuple[int, int]  # of a log: its number and the partition's
HASH_BYTES = 8  # of a message's key


@dataclass
class Platter:
    """What is on the disk. Each node of a simulation needs a store_id of its own.

    keys: hashes of the keys of messages that have one. delayed: by queue, due_ms and position. delayed_at: due_ms of
    each of them. held: hashes of the keys that some of them hold. bindings: exchange, key and queue.
    records: by offset. segments: by their first offsets. prepared: the SENDs of a prepared transaction, by number.
    """

    store_id: str = "feedfacecafebeef"
    messages: dict[Place, Message] = field(default_factory=dict)
    keys: dict[Place, bytes] = field(default_factory=dict)
    counts: dict[Place, tuple[int, bool]] = field(default_factory=dict)
    delayed: dict[tuple[int, int, int], Delay] = field(default_factory=dict)
    delayed_at: dict[Place, int] = field(default_factory=dict)
    held: dict[Place, bytes] = field(default_factory=dict)
    queues: dict[int, tuple[str, Ledger]] = field(default_factory=dict)
    retired: dict[int, int] = field(default_factory=dict)
    dedup: dict[tuple[int, bytes], int] = field(default_factory=dict)
    peers: dict[str, KeepPeer] = field(default_factory=dict)
    doubts: dict[tuple[str, int], Place] = field(default_factory=dict)
    settings: dict[int, str] = field(default_factory=dict)
    declared: dict[tuple[str, str], str] = field(default_factory=dict)
    bindings: set[tuple[str, str, int]] = field(default_factory=set)
    logs: dict[int, str] = field(default_factory=dict)
    records: dict[Partition, dict[int, Message | JournalEvent]] = field(default_factory=dict)
    segments: dict[Partition, dict[int, KeepSegment]] = field(default_factory=dict)
    positions: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    transactions: dict[int, KeepTransaction] = field(default_factory=dict)
    prepared: dict[int, dict[int, Send]] = field(default_factory=dict)
    apps: dict[str, KeepApp] = field(default_factory=dict)
    boot: int = 0
    suspect_below: int = 0
    is_clean: bool = True
    next_queue: int = 1
    time_ms: int = 0

    def copy(self) -> "Platter":
        """What a power cut leaves: all that was committed, nothing else."""
        return replace(
            self,
            messages=dict(self.messages),
            keys=dict(self.keys),
            counts=dict(self.counts),
            delayed=dict(self.delayed),
            delayed_at=dict(self.delayed_at),
            held=dict(self.held),
            queues=dict(self.queues),
            retired=dict(self.retired),
            dedup=dict(self.dedup),
            peers=dict(self.peers),
            doubts=dict(self.doubts),
            settings=dict(self.settings),
            declared=dict(self.declared),
            bindings=set(self.bindings),
            logs=dict(self.logs),
            records={partition: dict(rows) for partition, rows in self.records.items()},
            segments={partition: dict(rows) for partition, rows in self.segments.items()},
            positions={group: [*offsets] for group, offsets in self.positions.items()},
            transactions=dict(self.transactions),
            prepared={transaction: dict(sends) for transaction, sends in self.prepared.items()},
            apps=dict(self.apps),
        )


class SimDisk:
    """A Store (radiator/storage/contract.py). `SimDisk(other.platter)` is a start after a crash of `other`.

    has_journal: what is committed is held against the journal; it has been on since the store was made.
    """

    def __init__(self, platter: Platter | None = None, has_journal: bool = False) -> None:
        self.platter = p = platter.copy() if platter is not None else Platter()
        was_clean = p.is_clean
        p.boot += 1
        if not was_clean:
            p.suspect_below = p.boot
        p.is_clean = False
        self._assert_books_agree(p)
        self._assert_segments_agree(p)
        self._assert_transactions_agree(p)
        self.journal = Journal(p) if has_journal else None
        self.recovery = Recovery(
            p.store_id,
            p.boot,
            p.next_queue,
            was_clean,
            [
                StoredQueue(number, name, replace(ledger), p.settings.get(number, ""), self._next_due_ms(number))
                for number, (name, ledger) in sorted(p.queues.items())
            ],
            dict(p.retired),
            [replace(p.peers[name]) for name in sorted(p.peers)],
            [self._stored_doubt(*key) for key in sorted(p.doubts)],
            [KeepDeclared(*key, text) for key, text in sorted(p.declared.items())],
            [Bind(*binding) for binding in sorted(p.bindings)],
            [
                self._stored_log(number)
                for number in sorted({*p.logs, *(log for (log, _), rows in p.segments.items() if rows)})
            ],
            [replace(p.transactions[transaction]) for transaction in sorted(p.transactions)],
            [replace(p.apps[app]) for app in sorted(p.apps)],
            time_ms=p.time_ms,
        )
        self.commits = 0
        self.damaged_sends: set[tuple[int, int]] = set()  # stage and number of those that cannot be read back

    def _stored_log(self, number: int) -> StoredLog:
        p = self.platter
        return StoredLog(
            number,
            p.logs.get(number, ""),
            p.settings.get(number, ""),
            [
                replace(p.segments[partition][first])
                for partition in sorted(p.segments)
                if partition[0] == number
                for first in sorted(p.segments[partition])
            ],
            [KeepPosition(log, group, [*offsets]) for (log, group), offsets in p.positions.items() if log == number],
        )

    def _assert_books_agree(self, p: Platter) -> None:
        found = {number: [0] * 5 for number in p.queues}
        for rows, is_delayed in ((p.messages.items(), 0), (p.delayed.items(), 1)):
            for (queue, *_), row in rows:
                message = row.message if isinstance(row, Delay) else row
                if queue in found:
                    seen = (1, message.size, message.expires_ms != 0, is_delayed, is_delayed * message.size)
                    found[queue] = [booked + one for booked, one in zip(found[queue], seen, strict=True)]
        for number, (name, ledger) in p.queues.items():
            assert ledger.adds_up(), f"the ledger of {name} does not add up: {ledger}"
            booked = [ledger.stored, ledger.stored_bytes, ledger.stored_expiring]
            booked += [ledger.stored_delayed, ledger.stored_delayed_bytes]
            assert booked == found[number], f"the ledger of {name} says {booked}, the disk has {found[number]}"
        stored = sum(ledger.stored for _, ledger in p.queues.values()) + sum(p.retired.values())
        there = len(p.messages) + len(p.delayed)
        assert stored == there, f"ledgers say {stored}, the disk has {there}"
        assert p.keys.keys() <= p.messages.keys(), "there are keys of messages that are not there"
        assert p.held.keys() <= p.delayed_at.keys(), "what is not delayed holds its key"

    def _assert_segments_agree(self, p: Platter) -> None:
        """A partition's records are those that its segments say, without a gap."""
        for partition in {*p.records, *p.segments}:
            there = sorted(p.records.get(partition, {}))
            found: list[int] = []
            for first, row in sorted(p.segments.get(partition, {}).items()):
                assert not found or found[-1] + 1 == first, f"{partition} has a gap before {row}"
                assert first <= row.begin <= first + row.count, f"{row} begins elsewhere"
                found += range(first, first + row.count)
            assert found == there, f"the segments of {partition} say {found}, and the disk has {there}"

    def _assert_transactions_agree(self, p: Platter) -> None:
        for transaction in {*p.prepared, *p.transactions}:
            row, there = p.transactions.get(transaction), sorted(p.prepared.get(transaction, {}))
            assert row is not None, f"of the stage {transaction} only {there} is there"
            assert there == [*range(row.applied, row.count)], f"{row}, and the disk has {there}"
        names = [row.name for row in p.transactions.values() if row.name]
        assert len(names) == len({*names}), f"prepared twice: {names}"

    def _next_due_ms(self, queue: int) -> int:
        return min((due_ms for number, due_ms, _ in self.platter.delayed if number == queue), default=0)

    def _stored_doubt(self, peer: str, sequence: int) -> StoredDoubt:
        place = self.platter.doubts[peer, sequence]
        message = self.platter.messages[place]
        return StoredDoubt(
            peer, sequence, *place, message.size, message.expires_ms != 0, self.platter.counts.get(place, (0, False))[0]
        )

    def commit(self, writes: list[Write]) -> None:
        there = {*self.platter.queues, *(write.queue for write in writes if isinstance(write, Declare))}
        gone = {write.queue for write in writes if isinstance(write, Put | Delay | SaveLedger)} - there
        assert not gone, f"something is written in the queues {gone}, which are not there"
        for write in writes:
            self._apply(self.platter, write)
        self._assert_one_place(self.platter, writes)
        self._assert_unbound(self.platter, writes)
        self._assert_doubts_hold(self.platter)
        if self.journal is not None:
            self.journal.committed(writes, self.platter)
        self.commits += 1

    def _assert_one_place(self, p: Platter, writes: list[Write]) -> None:
        for write in writes:
            if isinstance(write, Delay | Put):
                place = (write.queue, write.position)
                assert not (place in p.messages and place in p.delayed_at), f"{place} is delayed, and at its place"

    def _assert_unbound(self, p: Platter, writes: list[Write]) -> None:
        retired = {write.queue for write in writes if isinstance(write, Retire)}
        retired |= {write.log for write in writes if isinstance(write, DropLog)}
        left = [binding for binding in p.bindings if binding[2] in retired] if retired else []
        assert not left, f"of the queues {retired} that are retired {left} are left"

    def _assert_doubts_hold(self, p: Platter) -> None:
        assert len(set(p.doubts.values())) == len(p.doubts), f"a message is in doubt twice: {p.doubts}"
        for (peer, sequence), place in p.doubts.items():
            row = p.peers[peer]
            assert row.out_taken < sequence <= row.out_offered, f"{sequence} is in doubt, but {row}"
            assert place in p.messages, f"the message in doubt at {place} is gone"
            assert place[0] in p.queues, f"the queue of the message in doubt at {place} is retired"

    def _apply(self, p: Platter, write: Write) -> None:
        match write:
            case DeclareLog() | DropLog() | Append() | AppendEvent() | KeepSegments() | DropSegment():
                self._apply_to_log(p, write)
            case KeepTransaction() | StorePrepared() | RemovePrepared() | DropTransaction():
                self._apply_to_transaction(p, write)
            case KeepPosition(log, group, offsets):
                assert log in p.logs and min(offsets) >= 0, f"{write} of {p.logs}"
                p.positions[log, group] = [*offsets]
            case DropPosition(log, group):
                del p.positions[log, group]
            case KeepApp(app):
                p.apps[app] = replace(write)
            case DropApp(app):
                del p.apps[app]
            case Declare(queue, name):
                assert queue >= p.next_queue
                p.queues[queue] = (name, Ledger())
                p.next_queue = queue + 1
            case Put(queue, position, message, key):
                assert (queue, position) not in p.messages
                p.messages[queue, position] = message
                if key:
                    assert len(key) == HASH_BYTES, f"{write}"
                    p.keys[queue, position] = key
            case Remove(queue, position, key):
                del p.messages[queue, position]
                p.counts.pop((queue, position), None)
                kept = p.keys.pop((queue, position), b"")
                assert key == kept, f"{write} of a message with the key {kept!r}"
            case Count(queue, position, redeliveries, redelivered):
                assert (queue, position) in p.messages
                p.counts[queue, position] = (redeliveries, redelivered)
            case SaveLedger(queue, ledger):
                p.queues[queue] = (p.queues[queue][0], replace(ledger))
            case Delay(queue, due_ms, position, held=held):
                assert due_ms > 0 and (queue, position) not in p.delayed_at, f"{write} of {p.delayed_at}"
                p.delayed[queue, due_ms, position] = replace(write)
                p.delayed_at[queue, position] = due_ms
                if held:
                    assert len(held) == HASH_BYTES, f"{write}"
                    p.held[queue, position] = held
            case MakeDue(queue, due_ms, position, held):
                del p.delayed[queue, due_ms, position]
                del p.delayed_at[queue, position]
                kept = p.held.pop((queue, position), b"")
                assert held == kept, f"{write} of a message that holds {kept!r}"
            case KeepSettings(queue, text):
                assert queue in p.queues or queue in p.logs
                p.settings[queue] = text
            case KeepDeclared(kind, name, text):
                p.declared[kind, name] = text
            case DropDeclared(kind, name):
                del p.declared[kind, name]
            case Bind(exchange, key, queue):
                there = queue in p.queues or queue in p.logs
                assert there and (exchange, key, queue) not in p.bindings, f"{write}"
                p.bindings.add((exchange, key, queue))
            case Unbind(exchange, key, queue):
                p.bindings.remove((exchange, key, queue))
            case Retire(queue, name, stored):
                known, ledger = p.queues.pop(queue)
                assert (known, ledger.stored) == (name, stored), f"{write} of {known} with {ledger}"
                p.settings.pop(queue, None)
                if stored:
                    p.retired[queue] = stored
            case Sweep(queue, count, left):
                swept = sorted(key for key in p.messages if key[0] == queue)[:count]
                for key in swept:
                    del p.messages[key]
                    p.counts.pop(key, None)
                    p.keys.pop(key, None)
                late = sorted(key for key in p.delayed if key[0] == queue)[: count - len(swept)]
                for delayed in late:
                    del p.delayed[delayed]
                    del p.delayed_at[queue, delayed[2]]
                    p.held.pop((queue, delayed[2]), None)
                assert len(swept) + len(late) == count and p.retired[queue] == count + left, f"{write} of {p.retired}"
                p.retired[queue] = left
                if not left:
                    del p.retired[queue]
            case Remember(queue, dedup_id, until_ms):
                p.dedup[queue, dedup_id] = until_ms
            case Forget(before_ms, limit):
                for key in [key for key, until in p.dedup.items() if until < before_ms][:limit]:
                    del p.dedup[key]
            case KeepPeer(peer):
                p.peers[peer] = replace(write)
            case Doubt(peer, sequence, queue, position):
                assert (peer, sequence) not in p.doubts
                assert (queue, position) in p.messages
                p.doubts[peer, sequence] = (queue, position)
            case Settle(peer, sequence):
                del p.doubts[peer, sequence]
            case KeepTime(ms):
                p.time_ms = ms
            case StoppedClean():
                p.is_clean = True
            case _:
                raise AssertionError(f"unknown write {write}")

    def _apply_to_log(self, p: Platter, write: Write) -> None:
        match write:
            case DeclareLog(log, name):
                assert log >= p.next_queue and name not in p.logs.values(), f"{write} of {p.logs}"
                p.logs[log] = name
                p.next_queue = log + 1
            case DropLog(log):
                del p.logs[log]
                p.settings.pop(log, None)
                p.positions = {key: offsets for key, offsets in p.positions.items() if key[0] != log}
            case Append(log, partition, offset, message):
                self._append(p, log, partition, offset, [message])
            case AppendEvent(log, partition, offset, events):
                self._append(p, log, partition, offset, [JournalEvent(*event) for event in events])
            case KeepSegments(log, segments):
                for row in segments:
                    assert row.log == log, f"{row} in {write}"
                    p.segments.setdefault((log, row.partition), {})[row.first] = replace(row)
            case DropSegment(log, partition, first, end):
                rows, records = p.segments[log, partition], p.records[log, partition]
                assert first == min(rows) and first + rows[first].count == end, f"{write} of {rows}"
                del rows[first]
                for offset in range(first, end):
                    del records[offset]
                if not rows and log not in p.logs:
                    del p.segments[log, partition], p.records[log, partition]

    def _append(
        self, p: Platter, log: int, partition: int, offset: int, rows: "list[Message] | list[JournalEvent]"
    ) -> None:
        assert log in p.logs, f"the log {log} is not there"
        there = p.records.setdefault((log, partition), {})
        # where all segments are gone nothing is left to tell the next offset by, but the log's own books
        assert not there or offset == max(there) + 1, f"offset {offset} of {log}/{partition} follows {max(there)}"
        there.update(enumerate(rows, offset))

    def _apply_to_transaction(self, p: Platter, write: Write) -> None:
        match write:
            case KeepTransaction(transaction):
                p.transactions[transaction] = replace(write)
            case StorePrepared(transaction, first, sends):
                there = p.prepared.setdefault(transaction, {})
                assert first == max(there, default=-1) + 1, f"{first} follows {there}"
                there.update(enumerate(sends, first))
            case RemovePrepared(transaction, first, end):
                for number in range(first, end):
                    del p.prepared[transaction][number]
            case DropTransaction(transaction):
                del p.transactions[transaction]
                p.prepared.pop(transaction, None)

    def load(self, load: ReadQueue) -> Loaded:
        loaded = Loaded(load.request)
        found = loaded.messages
        size = 0
        asked = sorted(self.platter.messages)
        if load.positions:
            there = ((load.queue, position) for position in load.positions)
            asked = [place for place in there if place in self.platter.messages]
            load = replace(load, after=0, messages_max=len(asked), bytes_max=1 << 62)
        for queue, position in asked:
            if queue != load.queue or position <= load.after:
                continue
            message = self.platter.messages[queue, position]
            if len(found) >= load.messages_max or (found and size + message.size > load.bytes_max):
                loaded.has_more = True
                break
            size += message.size
            found.append(self._stored((queue, position)))
        if load.part is not None:
            first, most = load.part
            for stored in found:
                assert stored.message is not None
                body = stored.message.body
                stored.body_bytes = len(body)
                stored.message = replace(stored.message, body=body[first : first + most])
        return loaded

    def _is_suspect(self, position: int) -> bool:
        return position >> 64 < self.platter.suspect_below

    def load_keys(self, load: ReadKeys) -> LoadedKeys:
        p = self.platter
        loaded = LoadedKeys(load.request, [KeyMessages() for _ in load.keys])
        places = sorted(place for place in p.keys if place[0] == load.queue in p.queues and place[1] <= load.through)
        taken = size = 0
        for (hashed, after), found in zip(load.keys, loaded.found, strict=True):
            wanted = [place for place in places if p.keys[place] == hashed and place[1] > after]
            for place in wanted[: load.messages_max]:
                message = p.messages[place]
                if taken and size + message.size > load.bytes_max:
                    return loaded
                found.messages.append(self._stored(place))
                taken, size = taken + 1, size + message.size
            found.is_complete = len(wanted) <= load.messages_max
        return loaded

    def load_held(self, load: ReadHeld) -> LoadedHeld:
        p = self.platter
        held = sorted((place[1], hashed) for place, hashed in p.held.items() if place[0] == load.queue in p.queues)
        behind = [one for one in held if one[0] > load.after]
        return LoadedHeld(load.request, behind[: load.count_max], len(behind) > load.count_max)

    def _stored(self, place: Place) -> StoredMessage:
        redeliveries, redelivered = self.platter.counts.get(place, (0, False))
        return StoredMessage(
            place[1], self.platter.messages[place], redeliveries, redelivered or self._is_suspect(place[1])
        )

    def load_delayed(self, load: ReadDelayed) -> LoadedDelayed:
        loaded = LoadedDelayed(load.request)
        size = 0
        for queue, due_ms, position in sorted(self.platter.delayed):
            if queue != load.queue or (due_ms, position) <= (load.after_ms, load.after):
                continue
            row = self.platter.delayed[queue, due_ms, position]
            taken = len(loaded.messages)
            is_full = taken >= load.messages_max or (taken and size + row.message.size > load.bytes_max)
            if due_ms >= load.before_ms or is_full:
                loaded.next_due_ms = due_ms
                break
            size += row.message.size
            redelivered = row.redelivered or self._is_suspect(position)
            found = StoredMessage(position, row.message, row.redeliveries, redelivered)
            loaded.messages.append(StoredDelayed(due_ms, found))
        return loaded

    def load_log(self, load: ReadLog) -> LoadedLog:
        loaded = LoadedLog(load.request)
        size = 0
        rows = self.platter.records.get((load.log, load.partition), {})
        for offset in sorted(offset for offset in rows if offset >= load.offset):
            message = as_read(self.platter.store_id, offset, rows[offset])
            taken = len(loaded.records)
            if taken >= load.messages_max or (taken and size + message.size > load.bytes_max):
                break
            size += message.size
            loaded.records.append(StoredRecord(offset, message))
        return loaded

    def load_events(self, load: ReadEvents) -> LoadedEvents:
        """Each event costs as much of a slice's work as one that is wanted."""
        rows = self.platter.records.get((load.log, 0), {})
        offsets = sorted(offset for offset in rows if load.offset <= offset < load.end)
        most = max(1, load.work_max // SEARCH_FOUND_WORK)
        loaded = LoadedEvents(load.request, next=offsets[most] if len(offsets) > most else load.end)
        for offset in offsets[:most]:
            row = rows[offset]
            assert isinstance(row, JournalEvent), f"offset {offset} of the log {load.log} is no event"
            if load.correlation_id:
                is_wanted = row.correlation_id == load.correlation_id
            else:
                is_wanted = is_traced(row, load.trace_id) if load.trace_id else is_about(row, load.positions)
            if is_wanted:
                loaded.events.append((offset, row))
        return loaded

    def load_prepared(self, load: ReadPrepared) -> LoadedPrepared:
        loaded = LoadedPrepared(load.request)
        size = 0
        rows = self.platter.prepared.get(load.transaction, {})
        for number in sorted(number for number in rows if number >= load.first):
            send = rows[number]
            taken = len(loaded.sends) + loaded.damaged
            if taken >= load.messages_max or (taken and size + send.size > load.bytes_max):
                break
            size += send.size
            if (load.transaction, number) in self.damaged_sends:
                loaded.damaged += 1
                continue
            loaded.sends.append(send)
        return loaded

    def look_up(self, look_up: DedupLookup) -> bool:
        until_ms = self.platter.dedup.get((look_up.queue, look_up.dedup_id))
        return until_ms is not None and until_ms >= look_up.now_ms

    def used_bytes(self) -> int:
        delayed = sum(row.message.size for row in self.platter.delayed.values())
        delayed += sum(send.size for sends in self.platter.prepared.values() for send in sends.values())
        for rows in self.platter.records.values():
            delayed += sum(row.size if isinstance(row, Message) else EVENT_BYTES for row in rows.values())
        return delayed + sum(message.size for message in self.platter.messages.values())

    def reader_check(self) -> None:
        """Nobody else reads."""

    def close(self) -> None:
        """Nothing is open."""


def as_read(store_id: str, offset: int, row: Message | JournalEvent) -> Message:
    """One record of a log, as readers get it."""
    if isinstance(row, Message):
        return row
    return Message("/log/journal", b"content-type:application/json\n", 2, as_json(row, offset, store_id), row.ms)
