"""The memory that the windows of all queues on the disk share, and what is being read back for them."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from radiator.core.turn import TurnContext
from radiator.model.limits import (
    DELAYED_READS_AT_ONCE,
    KEYS_HELD_BYTES,
    LOAD_BYTES,
    LOAD_MESSAGES,
    OUT_BYTES,
    WINDOWS_BYTES,
    WINDOWS_SHARE,
)
from radiator.model.reads import Loaded, LoadedDelayed, ReadDelayed, ReadQueue


class DelayedReader(Protocol):
    """The delayed messages of one queue, which are read back in slices (delayed.py)."""

    def read_request(self) -> ReadDelayed:
        """Returns the request for its next slice."""

    def answered(self, answer: LoadedDelayed) -> None:
        """Called when the slice was read."""

    def ask(self) -> None:
        """Called when it may read its next slice, if it still wants to."""


class Windows:
    """The bytes in all windows (`size`), those in flight (`out`), their bounds, and the reads under way (`waiting`, by
    request). load_bytes: what one read brings. held: the bytes of all keys that delays hold, as last weighed; held_max:
    the bound of one queue's.

    At most DELAYED_READS_AT_ONCE reads (`delayed_reads`) are of delayed messages, and further ones wait
    (`next_delayed_reads`); at most OLDEST_AT_ONCE (`oldest`) look for a queue's oldest message. released,
    released_bytes: the delayed messages that the batch `released_in` releases, and their bytes. The number that a batch
    releases is bounded, whatever else the batch holds, so that it stays short.
    """

    __slots__ = (
        "delayed_reads", "held", "held_max", "is_disk_tight", "load_bytes", "next_delayed_reads", "oldest", "out",
        "out_max", "released", "released_bytes", "released_in", "size", "size_max", "waiting",
    )  # fmt: skip

    def __init__(self, max_memory_bytes: int) -> None:
        self.bound(max_memory_bytes)
        self.size = 0
        self.out = 0
        self.held = 0
        self.waiting: dict[int, Callable[..., None]] = {}
        self.is_disk_tight = False
        self.delayed_reads = self.oldest = 0
        self.next_delayed_reads: dict[DelayedReader, None] = {}
        self.released = self.released_bytes = self.released_in = 0

    def bound(self, max_memory_bytes: int) -> None:
        """Sets the bounds, as shares of that many bytes. If a bound is lowered, what exceeds it leaves as it is
        consumed.
        """
        self.size_max = min(WINDOWS_BYTES, max_memory_bytes // WINDOWS_SHARE)
        self.out_max = min(OUT_BYTES, self.size_max // 2)
        self.held_max = min(KEYS_HELD_BYTES, max_memory_bytes // WINDOWS_SHARE)
        self.load_bytes = min(LOAD_BYTES, self.size_max // 2)

    @property
    def is_crowded(self) -> bool:
        """Whether one more read may bring too much: then each read brings one message."""
        return self.size + self.load_bytes > self.size_max

    def ask(self, context: TurnContext, load: ReadQueue, answer: Callable[[Loaded], None]) -> None:
        """Asks for messages to be read back; `answer` gets them."""
        self.waiting[load.request] = answer
        context.turn.read_requests.append(load)

    def ask_delayed(self, context: TurnContext, delayed: DelayedReader) -> None:
        """Asks for a slice of delayed messages, first come, first served."""
        if self.delayed_reads >= DELAYED_READS_AT_ONCE:
            self.next_delayed_reads[delayed] = None
            return
        self.delayed_reads += 1
        read_request = delayed.read_request()
        self.waiting[read_request.request] = partial(self.found_delayed, delayed)
        context.turn.read_requests.append(read_request)

    def have_released_enough(self, context: TurnContext) -> bool:
        """Whether the open batch may release no more delayed messages."""
        if self.released_in != context.open.number:
            self.released_in = context.open.number
            self.released = self.released_bytes = 0
        return self.released >= LOAD_MESSAGES or self.released_bytes >= LOAD_BYTES

    def count_released(self, size: int) -> None:
        """Counts one more message, of that many bytes, as released by the open batch."""
        self.released += 1
        self.released_bytes += size

    def found_delayed(self, delayed: DelayedReader, answer: LoadedDelayed) -> None:
        """Called when a reader has its answer: passes it on, and lets the next ones ask."""
        delayed.answered(answer)
        self.delayed_reads -= 1
        while self.next_delayed_reads and self.delayed_reads < DELAYED_READS_AT_ONCE:
            first = next(iter(self.next_delayed_reads))
            del self.next_delayed_reads[first]
            first.ask()
