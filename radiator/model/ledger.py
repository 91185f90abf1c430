"""What a queue counts of its messages, from the first one on."""

from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(slots=True)
class Ledger:
    """A queue's counters, in messages and bytes (header block + body).

    accepted = stored + acked + expired + dropped + purged + dead_lettered, in both columns, always.
    `stored_expiring`: how many of the stored messages have an expiry; shows a start which heads to watch.
    `stored_delayed`, `stored_delayed_bytes`: those of the stored ones that wait for their time.
    """

    accepted: int = 0
    accepted_bytes: int = 0
    stored: int = 0
    stored_bytes: int = 0
    acked: int = 0
    acked_bytes: int = 0
    expired: int = 0
    expired_bytes: int = 0
    dropped: int = 0
    dropped_bytes: int = 0
    purged: int = 0
    purged_bytes: int = 0
    dead_lettered: int = 0
    dead_lettered_bytes: int = 0
    stored_expiring: int = 0
    stored_delayed: int = 0
    stored_delayed_bytes: int = 0

    def copy(self) -> "Ledger":
        """As it is now."""
        return Ledger(*_columns(self))

    def accept(self, size: int, expires_ms: int) -> None:
        """Adds a message of `size` bytes. expires_ms: when it expires, 0: never."""
        self.accepted += 1
        self.accepted_bytes += size
        self.stored += 1
        self.stored_bytes += size
        if expires_ms:
            self.stored_expiring += 1

    def drop_at_once(self, size: int) -> None:
        """Counts a message of `size` bytes that is never stored."""
        self.accepted += 1
        self.accepted_bytes += size
        self.dropped += 1
        self.dropped_bytes += size

    def adds_up(self) -> bool:
        """Whether both columns balance and nothing is negative."""
        left = self.stored + self.acked + self.expired + self.dropped + self.purged + self.dead_lettered
        left_bytes = (
            self.stored_bytes
            + self.acked_bytes
            + self.expired_bytes
            + self.dropped_bytes
            + self.purged_bytes
            + self.dead_lettered_bytes
        )
        return (
            self.accepted == left
            and self.accepted_bytes == left_bytes
            and 0 <= self.stored_expiring <= self.stored
            and 0 <= self.stored_delayed <= self.stored
            and 0 <= self.stored_delayed_bytes <= self.stored_bytes
            and min(map(self.__getattribute__, self.__slots__)) >= 0
        )


_columns = attrgetter(*(field.name for field in fields(Ledger)))  # copy.copy takes four times as long, in each batch
