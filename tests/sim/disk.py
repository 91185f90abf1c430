"""A simulated disk: keeps the Store's promises in memory, and can be cut at any moment.

What `commit` has returned from is durable; a `crash` before that leaves the last durable state. Each commit is atomic.
The same checks as LmdbStore's: a Remove needs its message, a Put needs a free place, ledgers add up and agree with the
entries, a message in doubt stays where it is. A batch that fails one is kept in part: the test is over then.
"""

from dataclasses import dataclass, field, replace

from radiator.commands import StoredMessage
from radiator.message import Message
from radiator.reads import Load, LookUp
from radiator.recovery import Recovery, StoredDoubt, StoredQueue
from radiator.writes import (
    Books,
    Count,
    Declare,
    Doubt,
    Forget,
    KeepPeer,
    Ledger,
    Put,
    Remember,
    Remove,
    Retire,
    Settle,
    StoppedClean,
    Sweep,
    Write,
)


@dataclass
class Platter:
    """What is on the disk. Each node of a simulation needs a store_id of its own."""

    store_id: str = "feedfacecafebeef"
    messages: dict[tuple[int, int], Message] = field(default_factory=dict)
    counts: dict[tuple[int, int], tuple[int, bool]] = field(default_factory=dict)
    queues: dict[int, tuple[str, Ledger]] = field(default_factory=dict)
    retired: dict[int, int] = field(default_factory=dict)
    dedup: dict[tuple[int, bytes], int] = field(default_factory=dict)
    peers: dict[str, KeepPeer] = field(default_factory=dict)
    doubts: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
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
            queues=dict(self.queues),
            retired=dict(self.retired),
            dedup=dict(self.dedup),
            peers=dict(self.peers),
            doubts=dict(self.doubts),
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
        for name, ledger in p.queues.values():
            assert ledger.adds_up(), f"the ledger of {name} does not add up: {ledger}"
        stored = sum(ledger.stored for _, ledger in p.queues.values()) + sum(p.retired.values())
        assert stored == len(p.messages), f"ledgers say {stored}, the disk has {len(p.messages)}"
        self.recovery = Recovery(
            p.store_id,
            p.boot,
            p.next_queue,
            was_clean,
            [StoredQueue(number, name, replace(ledger)) for number, (name, ledger) in sorted(p.queues.items())],
            dict(p.retired),
            [replace(p.peers[name]) for name in sorted(p.peers)],
            [self._stored_doubt(*key) for key in sorted(p.doubts)],
        )
        self.commits = 0

    def _stored_doubt(self, peer: str, sequence: int) -> StoredDoubt:
        place = self.platter.doubts[peer, sequence]
        message = self.platter.messages[place]
        return StoredDoubt(peer, sequence, *place, message.size, message.expires_ms != 0)

    def commit(self, writes: list[Write]) -> None:
        for write in writes:
            self._apply(self.platter, write)
        self._assert_doubts_hold(self.platter)
        self.commits += 1

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
            case Retire(queue, name):
                there, ledger = p.queues.pop(queue)
                assert there == name
                if ledger.stored:
                    p.retired[queue] = ledger.stored
            case Sweep(queue, limit):
                for key in sorted(key for key in p.messages if key[0] == queue)[:limit]:
                    del p.messages[key]
                    p.counts.pop(key, None)
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
            suspect = position >> 64 < self.platter.suspect_below
            found.append(StoredMessage(position, message, redeliveries, redelivered or suspect))
        return found

    def look_up(self, look_up: LookUp) -> bool:
        until_ms = self.platter.dedup.get((look_up.queue, look_up.dedup_id))
        return until_ms is not None and until_ms >= look_up.now_ms

    def used_bytes(self) -> int:
        return sum(message.size for message in self.platter.messages.values())

    def reader_check(self) -> None:
        """Nobody else reads."""

    def close(self) -> None:
        """Nothing is open."""
