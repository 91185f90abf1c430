"""Random batches of messages that have keys, and may hold them while they are delayed; and what should be there."""

from random import Random

from radiator.model.headers import ESCAPING_ALL
from radiator.model.message import Message, position_of
from radiator.model.writes import Count, Declare, Delay, Ledger, MakeDue, Put, Remove, Retire, SaveLedger, Sweep, Write
from tests.storage.scribe import hash_of

Place = tuple[int, int]
HASHES = [hash_of(0), hash_of(1), hash_of(1 << 63), b"\xff" * 8]


class KeyBatches:
    """messages: those at their places. keys: of these; b"": none. delayed: with what each holds. left: what is still to
    be swept of each deleted queue.
    """

    def __init__(self, chance: Random, boot: int = 1) -> None:
        self.chance = chance
        self.boot = boot
        self.queues: list[int] = []
        self.messages: dict[Place, Message] = {}
        self.keys: dict[Place, bytes] = {}
        self.delayed: dict[Place, Delay] = {}
        self.left: dict[int, int] = {}
        self.next_queue = 1
        self._accepted: dict[int, tuple[int, int]] = {}
        self._sequence = 0
        self._touched: set[Place] = set()  # by this batch: it does nothing with them that depends on the order

    def batch(self) -> list[Write]:
        """The next one, with the ledgers of all queues."""
        chance, writes = self.chance, list[Write]()
        self._touched = set()
        if len(self.queues) < 3:
            writes.append(self._declare())
        for _ in range(chance.randint(1, 12)):
            kind = chance.choice((self._put, self._put, self._put, self._remove, self._back, self._delay, self._due))
            writes += kind()
        if self.left and chance.random() < 0.7:
            writes.append(self._sweep())
        retired = chance.choice(self.queues) if len(self.queues) > 2 and chance.random() < 0.1 else 0
        writes += [SaveLedger(queue, self._ledger(queue)) for queue in self.queues]
        if retired:
            writes.append(self._retire(retired))
        return writes

    def _declare(self) -> Declare:
        queue, self.next_queue = self.next_queue, self.next_queue + 1
        self.queues.append(queue)
        self._accepted[queue] = (0, 0)
        return Declare(queue, f"q{queue}")

    def _new(self) -> tuple[Place, Message, bytes]:
        queue, self._sequence = self.chance.choice(self.queues), self._sequence + 1
        body = self.chance.randbytes(self.chance.choice((0, 3, 200)))
        message = Message("/queue/q", b"a:b\n", ESCAPING_ALL, body, 1, 0)
        count, size = self._accepted[queue]
        self._accepted[queue] = count + 1, size + message.size
        place = queue, position_of(self.boot, self._sequence)
        return place, message, self.chance.choice([b"", *HASHES])

    def _put(self) -> list[Write]:
        place, message, key = self._new()
        return self._put_at(place, message, key)

    def _put_at(self, place: Place, message: Message, key: bytes) -> list[Write]:
        self.messages[place], self.keys[place] = message, key
        count = [Count(*place, 2)] if self.chance.random() < 0.2 else []
        return [Put(*place, message, key), *count]

    def _drawn(self, places: dict[Place, Message] | dict[Place, Delay]) -> Place | None:
        there = [place for place in places if place not in self._touched and place[0] in self.queues]
        place = self.chance.choice(there) if there else None
        if place is not None:
            self._touched.add(place)
        return place

    def _remove(self) -> list[Write]:
        place = self._drawn(self.messages)
        if place is None:
            return []
        del self.messages[place]
        return [Remove(*place, self.keys.pop(place))]

    def _back(self) -> list[Write]:
        """It was returned with a delay, and holds its key."""
        place = self._drawn(self.messages)
        if place is None:
            return []
        message, key = self.messages.pop(place), self.keys.pop(place)
        return [Remove(*place, key), self._delayed(place, message, key)]

    def _delay(self) -> list[Write]:
        """It was sent with a delay, and holds nothing."""
        place, message, _ = self._new()
        return [self._delayed(place, message, b"")]

    def _delayed(self, place: Place, message: Message, held: bytes) -> Delay:
        delay = Delay(place[0], self.chance.randint(1, 1000), place[1], message, 1, True, held)
        self.delayed[place] = delay
        self._touched.add(place)
        return delay

    def _due(self) -> list[Write]:
        """It is at its place then; or it is gone, or delayed again at once."""
        place = self._drawn(self.delayed)
        if place is None:
            return []
        delay = self.delayed.pop(place)
        due = MakeDue(place[0], delay.due_ms, place[1], delay.held)
        what = self.chance.randrange(4)
        if what == 0:
            return [due]
        if what == 1:
            again = self._delayed(place, delay.message, delay.held)
            again.due_ms += delay.due_ms
            return [due, again]
        return [due, *self._put_at(place, delay.message, delay.held or self.chance.choice(HASHES))]

    def _ledger(self, queue: int) -> Ledger:
        sizes = [message.size for place, message in self.messages.items() if place[0] == queue]
        late = [delay.message.size for place, delay in self.delayed.items() if place[0] == queue]
        accepted, accepted_bytes = self._accepted[queue]
        stored, stored_bytes = len(sizes) + len(late), sum(sizes) + sum(late)
        ledger = Ledger(
            accepted, accepted_bytes, stored, stored_bytes, accepted - stored, accepted_bytes - stored_bytes
        )
        ledger.stored_delayed, ledger.stored_delayed_bytes = len(late), sum(late)
        return ledger

    def _retire(self, queue: int) -> Retire:
        self.queues.remove(queue)
        stored = self._ledger(queue).stored
        if stored:
            self.left[queue] = stored
        return Retire(queue, f"q{queue}", stored)

    def _sweep(self) -> Sweep:
        queue = self.chance.choice([*self.left])
        count = self.chance.randint(1, self.left[queue])
        left = self.left[queue] = self.left[queue] - count
        of_queue = sorted(place for place in self.messages if place[0] == queue)[:count]
        for place in of_queue:
            del self.messages[place], self.keys[place]
        late = sorted((delay.due_ms, place) for place, delay in self.delayed.items() if place[0] == queue)
        for _, place in late[: count - len(of_queue)]:
            del self.delayed[place]
        if not left:
            del self.left[queue]
        return Sweep(queue, count, left)
