"""A simulated disk: keeps the Store's promises in memory, and can be cut at any moment.

What `commit` has returned from is durable; a `crash` before that leaves the last durable state. Each commit is atomic.
The checks of LmdbStore, and two that it cannot afford: a message has one place, and at a start every ledger agrees with
what its queue stores. A batch that fails one is kept in part: the test is over then.
"""

from dataclasses import dataclass, field, replace

from radiator.commands import LoadedDelayed, StoredDelayed, StoredMessage
from radiator.message import Message
from radiator.reads import Load, LoadDelayed, LookUp
from radiator.recovery import Recovery, StoredDoubt, StoredQueue
from radiator.writes import (
    Bind,
    Books,
    Count,
    Declare,
    Delay,
    Doubt,
    DropDeclared,
    Forget,
    KeepDeclared,
    KeepPeer,
    KeepSettings,
    Ledger,
    Put,
    Remember,
    Remove,
    Retire,
    Settle,
    StoppedClean,
    Sweep,
    Unbind,
    Wake,
    Write,
)

Place = tuple[int, int]  # queue and position


@dataclass
class Platter:
    """What is on the disk. Each node of a simulation needs a store_id of its own.

    delayed: by queue, due_ms and position. delayed_at: due_ms of each of them. bindings: exchange, key and queue.
    """

    store_id: str = "feedfacecafebeef"
    messages: dict[Place, Message] = field(default_factory=dict)
    counts: dict[Place, tuple[int, bool]] = field(default_factory=dict)
    delayed: dict[tuple[int, int, int], Delay] = field(default_factory=dict)
    delayed_at: dict[Place, int] = field(default_factory=dict)
    queues: dict[int, tuple[str, Ledger]] = field(default_factory=dict)
    retired: dict[int, int] = field(default_factory=dict)
    dedup: dict[tuple[int, bytes], int] = field(default_factory=dict)
    peers: dict[str, KeepPeer] = field(default_factory=dict)
    doubts: dict[tuple[str, int], Place] = field(default_factory=dict)
    settings: dict[int, str] = field(default_factory=dict)
    declared: dict[tuple[str, str], str] = field(default_factory=dict)
    bindings: set[tuple[str, str, int]] = field(default_factory=set)
    boot: int = 0
    suspect_below: int = 0
    is_clean: bool = True
    next_queue: int = 1

    def copy(self) -> "Platter":
        """What a power cut leaves: all that was committed, nothing else."""
        return replace(
            self,
            messages=dict(self.messages),
            counts=dict(self.counts),
            delayed=dict(self.delayed),
            delayed_at=dict(self.delayed_at),
            queues=dict(self.queues),
            retired=dict(self.retired),
            dedup=dict(self.dedup),
            peers=dict(self.peers),
            doubts=dict(self.doubts),
            settings=dict(self.settings),
            declared=dict(self.declared),
            bindings=set(self.bindings),
        )


class SimDisk:
    """A Store (radiator/store). `SimDisk(other.platter)` is a start after a crash of `other`."""

    def __init__(self, platter: Platter | None = None) -> None:
        self.platter = p = platter.copy() if platter is not None else Platter()
        was_clean = p.is_clean
        p.boot += 1
        if not was_clean:
            p.suspect_below = p.boot
        p.is_clean = False
        self._assert_books_agree(p)
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
        )
        self.commits = 0

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

    def _next_due_ms(self, queue: int) -> int:
        return min((due_ms for number, due_ms, _ in self.platter.delayed if number == queue), default=0)

    def _stored_doubt(self, peer: str, sequence: int) -> StoredDoubt:
        place = self.platter.doubts[peer, sequence]
        message = self.platter.messages[place]
        return StoredDoubt(peer, sequence, *place, message.size, message.expires_ms != 0)

    def commit(self, writes: list[Write]) -> None:
        for write in writes:
            self._apply(self.platter, write)
        self._assert_one_place(self.platter, writes)
        self._assert_unbound(self.platter, writes)
        self._assert_doubts_hold(self.platter)
        self.commits += 1

    def _assert_one_place(self, p: Platter, writes: list[Write]) -> None:
        for write in writes:
            if isinstance(write, Delay | Put):
                place = (write.queue, write.position)
                assert not (place in p.messages and place in p.delayed_at), f"{place} is delayed, and at its place"

    def _assert_unbound(self, p: Platter, writes: list[Write]) -> None:
        retired = {write.queue for write in writes if isinstance(write, Retire)}
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
            case Declare(queue, name):
                assert queue >= p.next_queue
                p.queues[queue] = (name, Ledger())
                p.next_queue = queue + 1
            case Put(queue, position, message):
                assert (queue, position) not in p.messages
                p.messages[queue, position] = message
            case Remove(queue, position):
                del p.messages[queue, position]
                p.counts.pop((queue, position), None)
            case Count(queue, position, redeliveries, redelivered):
                assert (queue, position) in p.messages
                p.counts[queue, position] = (redeliveries, redelivered)
            case Books(queue, ledger):
                p.queues[queue] = (p.queues[queue][0], replace(ledger))
            case Delay(queue, due_ms, position):
                assert due_ms > 0 and (queue, position) not in p.delayed_at, f"{write} of {p.delayed_at}"
                p.delayed[queue, due_ms, position] = replace(write)
                p.delayed_at[queue, position] = due_ms
            case Wake(queue, due_ms, position):
                del p.delayed[queue, due_ms, position]
                del p.delayed_at[queue, position]
            case KeepSettings(queue, text):
                assert queue in p.queues
                p.settings[queue] = text
            case KeepDeclared(kind, name, text):
                p.declared[kind, name] = text
            case DropDeclared(kind, name):
                del p.declared[kind, name]
            case Bind(exchange, key, queue):
                assert queue in p.queues and (exchange, key, queue) not in p.bindings, f"{write}"
                p.bindings.add((exchange, key, queue))
            case Unbind(exchange, key, queue):
                p.bindings.remove((exchange, key, queue))
            case Retire(queue, name):
                there, ledger = p.queues.pop(queue)
                assert there == name
                p.settings.pop(queue, None)
                if ledger.stored:
                    p.retired[queue] = ledger.stored
            case Sweep(queue, limit):
                swept = sorted(key for key in p.messages if key[0] == queue)[:limit]
                for key in swept:
                    del p.messages[key]
                    p.counts.pop(key, None)
                    p.retired[queue] -= 1
                for late in sorted(key for key in p.delayed if key[0] == queue)[: limit - len(swept)]:
                    del p.delayed[late]
                    del p.delayed_at[queue, late[2]]
                    p.retired[queue] -= 1
                if p.retired.get(queue) == 0:
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
            case StoppedClean():
                p.is_clean = True
            case _:
                raise AssertionError(f"unknown write {write}")

    def load(self, load: Load) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        size = 0
        for queue, position in sorted(self.platter.messages):
            if queue != load.queue or position <= load.after:
                continue
            message = self.platter.messages[queue, position]
            if len(found) >= load.messages_max or (found and size + message.size > load.bytes_max):
                break
            size += message.size
            redeliveries, redelivered = self.platter.counts.get((queue, position), (0, False))
            found.append(StoredMessage(position, message, redeliveries, redelivered or self._is_suspect(position)))
        return found

    def _is_suspect(self, position: int) -> bool:
        return position >> 64 < self.platter.suspect_below

    def load_delayed(self, load: LoadDelayed) -> LoadedDelayed:
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

    def look_up(self, look_up: LookUp) -> bool:
        until_ms = self.platter.dedup.get((look_up.queue, look_up.dedup_id))
        return until_ms is not None and until_ms >= look_up.now_ms

    def used_bytes(self) -> int:
        delayed = sum(row.message.size for row in self.platter.delayed.values())
        return delayed + sum(message.size for message in self.platter.messages.values())

    def reader_check(self) -> None:
        """Nobody else reads."""

    def close(self) -> None:
        """Nothing is open."""
