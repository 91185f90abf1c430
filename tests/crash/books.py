"""What was said and heard under crashes, and whether it fits together.

Every message is unique and knows its own contents. Books outlive the broker's restarts; after a full drain, `faults`
must be empty. Their judgement is that of contract 1; test_books.py shows that each kind of fault is found.
"""

import hashlib
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

MILLISECOND_S = 0.001  # what the broker rounds times down to
Copy = tuple[str, str]  # (queue, the message's own name)


def body_of(name: str) -> bytes:
    """The contents that belong to a name: up to 3 KiB that nothing else has."""
    digest = hashlib.sha256(name.encode()).digest()
    return name.encode() + b"\n" + digest * (digest[0] % 96)


def name_in(body: bytes) -> str | None:
    """The name of a message, if its contents are what belongs to it."""
    name = body.partition(b"\n")[0].decode("utf-8", "replace")
    return name if body_of(name) == body else None


@dataclass
class Books:
    """Used by many threads. A `target` is where one SEND or one transaction leads: a set of queues, all or none."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    attempted: dict[str, tuple[str, ...]] = field(default_factory=dict)  # name -> its queues
    receipted: set[str] = field(default_factory=set)
    message_ids: dict[Copy, str] = field(default_factory=dict)
    deliveries: dict[Copy, int] = field(default_factory=lambda: defaultdict(int))
    ack_receipts: set[Copy] = field(default_factory=set)
    held: set[Copy] = field(default_factory=set)
    owed: set[Copy] = field(default_factory=set)  # seen, and neither acked nor nacked, when the broker ended
    last: dict[tuple[str, str], int] = field(default_factory=dict)  # (queue, producer) -> its last number, in this run
    found: list[str] = field(default_factory=list)
    settled: set[Copy] = field(default_factory=set)  # acked without an answer, since the broker's last start
    traded: dict[str, dict[Copy, int]] = field(default_factory=dict)  # name -> what went for it, how often delivered
    due_s: dict[str, float] = field(default_factory=dict)  # name -> not before that time
    made: tuple[str, ...] = ()  # bindings and durable subscriptions of which it is known that they are there

    # ---- producers

    def sending(self, name: str, queues: tuple[str, ...], delay_ms: str = "") -> None:
        with self.lock:
            self.attempted[name] = queues
            if delay_ms:
                self.due_s[name] = time.time() + int(delay_ms) / 1000

    def has_made(self, what: str) -> None:
        """From now on, whatever crashes come."""
        with self.lock:
            if what not in self.made:
                self.made = (*self.made, what)

    def trading(self, name: str, copies: list[Copy]) -> None:
        """One transaction acks these and sends that: all of it counts, or nothing."""
        with self.lock:
            self.held.difference_update(copies)
            self.traded[name] = {copy: self.deliveries[copy] for copy in copies}

    def note(self, fault: str) -> None:
        """What a client has seen by itself."""
        with self.lock:
            self.found.append(fault)

    def sent(self, name: str) -> None:
        """Its RECEIPT is here (of a transaction: that of COMMIT)."""
        with self.lock:
            self.receipted.add(name)

    # ---- consumers

    def delivered(self, queue: str, body: bytes, message_id: str, redelivered: bool, in_order: bool) -> Copy:
        """in_order: this consumer is the queue's only one and gives nothing back. message_id: "" where the client's
        protocol has none.
        """
        name = name_in(body)
        with self.lock:
            if name is None:
                self.found.append(f"altered: {queue} {message_id} {body[:60]!r}")
                return queue, ""
            copy = queue, name
            if queue not in self.attempted.get(name, ()):
                self.found.append(f"unexpected: {copy} was never sent")
            if time.time() < self.due_s.get(name, 0) - MILLISECOND_S:
                self.found.append(f"before its time: {copy}, by {self.due_s[name] - time.time():.3f} s")
            if copy in self.ack_receipts:
                self.found.append(f"acked, and delivered again: {copy}")
            if copy in self.held:
                self.found.append(f"with two consumers at once: {copy}")
            if copy in self.settled:
                self.found.append(f"acked, and delivered again by the same broker: {copy}")
            if message_id and self.message_ids.setdefault(copy, message_id) != message_id:
                self.found.append(f"stored twice: {copy} as {self.message_ids[copy]} and {message_id}")
            if self.deliveries[copy] and not redelivered:
                self.found.append(f"delivered again without redelivered:true: {copy}")
            producer, _, number = name.rpartition(".")
            if in_order:
                if int(number) <= self.last.get((queue, producer), -1):
                    self.found.append(f"out of order: {copy} after {self.last[queue, producer]}")
                self.last[queue, producer] = int(number)
            self.deliveries[copy] += 1
            self.owed.discard(copy)
            self.held.add(copy)
            return copy

    def giving_up(self, copy: Copy) -> None:
        """Its ACK or NACK is about to be sent."""
        with self.lock:
            self.held.discard(copy)

    def acking(self, copy: Copy) -> None:
        """It is about to be acked, and nothing will answer: that holds while the broker and the connection last."""
        with self.lock:
            self.held.discard(copy)
            self.settled.add(copy)

    def acked(self, copy: Copy) -> None:
        """The RECEIPT of its ACK is here."""
        with self.lock:
            self.ack_receipts.add(copy)

    # ---- ends

    def broker_ended(self) -> None:
        """Nobody holds anything any more: what was held must come again."""
        self.owed |= self.held
        self.held.clear()
        self.settled.clear()
        self.last.clear()

    def faults(self) -> list[str]:
        """After the drain: everything that breaks a promise."""
        found = list(self.found)
        found += [f"seen, not acked, and gone: {copy}" for copy in self.owed]
        for name, queues in self.attempted.items():
            there = [queue for queue in queues if self.deliveries.get((queue, name))]
            if name in self.receipted and len(there) < len(queues):
                found.append(f"lost: {name} was receipted for {queues} and is in {there}")
            elif there and len(there) < len(queues):
                found.append(f"torn: {name} was sent to {queues} and is in {there} only")
        for name, copies in self.traded.items():
            is_sent = any(self.deliveries.get((queue, name)) for queue in self.attempted[name])
            found += [
                f"half applied: {name} is {'sent' if is_sent else 'gone'}, and {copy} "
                f"{'came again' if is_sent else 'is gone as well'}"
                for copy, before in copies.items()
                if (self.deliveries[copy] > before) == is_sent
            ]
        return found
