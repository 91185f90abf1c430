"""The memory that the windows of all queues on the disk share, and what is being read back for them."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from radiator.core.turn import TurnContext
from radiator.model.commands import Loaded, LoadedDelayed
from radiator.model.limits import (
    LOAD_BYTES,
    LOAD_MESSAGES,
    OUT_BYTES,
    WAKES_AT_ONCE,
    WINDOWS_BYTES,
    WINDOWS_SHARE,
)
from radiator.model.reads import ReadDelayed, ReadQueue


class DelayedReader(Protocol):
    """The delayed messages of one queue, which are read back in slices (delayed.py)."""

    def read_request(self) -> ReadDelayed:
        """The read of its next slice."""

    def answered(self, answer: LoadedDelayed) -> None:
        """The slice was read."""

    def ask(self) -> None:
        """It may read its next slice now, if it still wants to."""


class Windows:
    """The bytes of all windows together (`size`), those of what is in flight (`out`), their bounds, and the reads that
    are under way (`waiting`, by request). load_bytes: what one read brings.

    Of those, WAKES_AT_ONCE (`wakes`) may be of delayed messages, and the others (`next_wakes`) come after them;
    OLDEST_AT_ONCE (`oldest`) may ask for a queue's oldest message. woken, woken_bytes: how many delayed messages the
    batch `woken_in` has released: each batch takes only so many, whatever else it holds, so that it stays short.
    """

    __slots__ = (
        "is_disk_tight", "load_bytes", "next_wakes", "oldest", "out", "out_max", "size", "size_max", "waiting", "wakes",
        "woken", "woken_bytes", "woken_in",
    )  # fmt: skip

    def __init__(self, max_memory_bytes: int) -> None:
        self.bound(max_memory_bytes)
        self.size = 0
        self.out = 0
        self.waiting: dict[int, Callable[..., None]] = {}
        self.is_disk_tight = False
        self.wakes = self.oldest = 0
        self.next_wakes: dict[DelayedReader, None] = {}
        self.woken = self.woken_bytes = self.woken_in = 0

    def bound(self, max_memory_bytes: int) -> None:
        """They have their shares of so much. What is above goes as it is consumed."""
        self.size_max = min(WINDOWS_BYTES, max_memory_bytes // WINDOWS_SHARE)
        self.out_max = min(OUT_BYTES, self.size_max // 2)
        self.load_bytes = min(LOAD_BYTES, self.size_max // 2)

    @property
    def is_crowded(self) -> bool:
        """Whether one more read may be too much: then each brings one message."""
        return self.size + self.load_bytes > self.size_max

    def ask(self, context: TurnContext, load: ReadQueue, answer: Callable[[Loaded], None]) -> None:
        """Have something read back; `answer` gets it."""
        self.waiting[load.request] = answer
        context.turn.read_requests.append(load)

    def ask_delayed(self, context: TurnContext, delayed: DelayedReader) -> None:
        """The same for a slice of delayed messages, first come, first served."""
        if self.wakes >= WAKES_AT_ONCE:
            self.next_wakes[delayed] = None
            return
        self.wakes += 1
        read_request = delayed.read_request()
        self.waiting[read_request.request] = partial(self.found_delayed, delayed)
        context.turn.read_requests.append(read_request)

    def have_woken_enough(self, context: TurnContext) -> bool:
        """Whether the open batch releases no more delayed messages."""
        if self.woken_in != context.open.number:
            self.woken_in = context.open.number
            self.woken = self.woken_bytes = 0
        return self.woken >= LOAD_MESSAGES or self.woken_bytes >= LOAD_BYTES

    def woke(self, size: int) -> None:
        """One more, of so many bytes, was released by the open batch."""
        self.woken += 1
        self.woken_bytes += size

    def found_delayed(self, delayed: DelayedReader, answer: LoadedDelayed) -> None:
        """One has its answer: the next may ask."""
        delayed.answered(answer)
        self.wakes -= 1
        while self.next_wakes and self.wakes < WAKES_AT_ONCE:
            first = next(iter(self.next_wakes))
            del self.next_wakes[first]
            first.ask()
