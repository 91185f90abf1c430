"""Reads back what a queue has only on the disk: the next stretch beyond its window, and the bytes of stubs.

Whatever is read back is committed, or it could not have been read. An answer that cannot be right stops the broker.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from radiator.core.queues.delayed import Delayed
from radiator.core.queues.entry import Entry
from radiator.core.queues.in_doubt import InDoubt
from radiator.core.queues.purge import Purge
from radiator.core.queues.window import Window
from radiator.core.states import State
from radiator.core.turn import Stored, TurnContext
from radiator.model.errors import StoreError, count_text
from radiator.model.limits import LOAD_BYTES, LOAD_MESSAGES, OLDEST_AT_ONCE
from radiator.model.message import Message
from radiator.model.reads import Loaded, ReadQueue


class ReadQueueOwner(Stored, Protocol):
    """What ReadBack needs of its queue."""

    name: str
    number: int
    is_gone: bool
    window: Window
    in_doubt: InDoubt
    purge: Purge
    delayed: Delayed

    def peek_head(self) -> Entry | None:
        """Returns the READY entry that is next, with its bytes; None if there is none in memory."""

    def report_damaged(self, position: int) -> None:
        """Reports a message that cannot be read."""

    def went_on(self) -> None:
        """Called when more messages are in memory."""


class ReadBack:
    """asked_after, asked_at: the position after which the read under way begins, and the last batch on the disk when
    it was asked for. unseen: how many messages beyond the window were committed since; its answer need not have them.
    wait_for_commit: the read found nothing, as what is beyond is still on its way to the disk. first_accepted: what
    identifies the first message beyond the window, and when that was accepted, in milliseconds since the epoch.
    """

    __slots__ = ("asked_after", "asked_at", "context", "first_accepted", "queue", "unseen", "wait_for_commit", "window")

    def __init__(self, queue: ReadQueueOwner, window: Window, context: TurnContext) -> None:
        self.queue = queue
        self.window = window
        self.context = context
        self.asked_after = 0
        self.asked_at = 0
        self.unseen = 0
        self.wait_for_commit = False
        self.first_accepted = ((-1, 0, 0), 0)

    def read(
        self, positions: Sequence[int], answer: Callable[[Loaded], None], part: tuple[int, int] | None = None
    ) -> None:
        """Asks for the messages at these places, in ascending order, to be read back. part: see ReadQueue."""
        load = ReadQueue(self.context.next_position(), self.queue.number, 0, len(positions), 0, tuple(positions), part)
        self.window.windows.ask(self.context, load, answer)

    def read_beyond(self, count: int, answer: Callable[[Loaded], None]) -> None:
        """Asks for that many messages beyond the window, for a `peek`."""
        if count <= 0 or self.window.beyond == 0:
            answer(Loaded(0))
            return
        load = ReadQueue(self.context.next_position(), self.queue.number, self.window.end, count, 4 * LOAD_BYTES)
        self.window.windows.ask(self.context, load, answer)

    # ---- the next stretch -------------------------------------------------------------------------------------------

    def refill(self, is_needed: bool) -> None:
        """Asks for stubs, or else the next stretch; one read at a time. One that finds nothing waits for a commit.

        No stretch is read while an entry of the window is STORING: what follows must not become READY before it. Nor
        while some are DUE: their places may be within the stretch, and not on the disk yet.
        """
        queue, window, context = self.queue, self.window, self.context
        if window.is_loading or queue.is_gone:
            return
        if window.stubs and (is_needed or queue.peek_head() is None) and self.read_stubs(is_needed):
            return
        if window.beyond == 0 or self.wait_for_commit or window.storing:
            return
        if queue.delayed.released_in > context.committed:
            return
        is_crowded = window.windows.is_crowded
        if is_crowded and (window.ready or window.returned) and not is_needed:
            return
        self.read_stretch(is_crowded)

    def read_stretch(self, is_crowded: bool) -> None:
        """Asks for the next stretch beyond the window."""
        window, context = self.window, self.context
        window.is_loading = True
        self.asked_after = window.end
        self.asked_at = context.committed
        self.unseen = 0
        bytes_max = 1 if is_crowded else window.windows.load_bytes
        load = ReadQueue(context.next_position(), self.queue.number, window.end, LOAD_MESSAGES, bytes_max)
        window.windows.ask(context, load, self.stretch_read)

    def stretch_read(self, answer: Loaded) -> None:
        """Called with the stretch that was read back: it is READY, because only what is synced can be read."""
        queue, window = self.queue, self.window
        window.is_loading = False
        if queue.is_gone:
            return
        if window.end != self.asked_after:
            # everything beyond has been taken since, and the window has moved on: the answer is out of date
            answer = Loaded(answer.request)
        else:
            self.assert_agrees(answer)
        # found nothing: what is beyond is still on its way to the disk, unless a commit came after the request
        self.wait_for_commit = not answer.messages and self.asked_at == self.context.committed
        in_doubt = queue.in_doubt
        for stored in answer.messages:
            position, message = stored.position, stored.message
            window.end = position
            if in_doubt.passes_over(stored):
                continue
            window.beyond -= 1
            if message is None:
                queue.report_damaged(position)
                continue
            redelivered = in_doubt.is_marked(stored)
            if in_doubt.takes(stored, message):
                continue
            self.takes_in(Entry(position, message, State.READY, message.size, stored.redeliveries, redelivered))
        in_doubt.read_up_to(window.end)
        queue.went_on()
        if window.windows.is_crowded and not window.ring:
            window.shrink()

    def takes_in(self, entry: Entry) -> None:
        """Takes an entry of a stretch into the window, unless it is purged."""
        if not self.queue.purge.takes(entry):
            self.window.add(entry.size)
            self.window.ready.append(entry)

    def assert_agrees(self, answer: Loaded) -> None:
        """Raises StoreError, a clause, if the answer cannot be what was written: the checksums of messages detect
        neither missing messages nor swapped pages.
        """
        # D32: a damaged structure is reported before any message of the answer is delivered
        queue, in_doubt, last = self.queue, self.queue.in_doubt, self.asked_after
        for stored in answer.messages:
            if stored.position <= last:
                raise StoreError(f"/queue/{queue.name} has message {stored.position:x} after message {last:x}")
            last = stored.position
        # the messages that the ledger counts and no answer has brought yet
        left = self.window.beyond - len(answer.messages)
        left += in_doubt.count_passed_over(answer.messages, self.asked_after)
        unseen = self.unseen + sum(changes.beyond for changes in self.context.uncommitted(queue))
        if left < 0 or (left == 0 and answer.has_more and not in_doubt.taken_unread):
            raise StoreError(f"/queue/{queue.name} has more messages than its ledger")
        if left > unseen and not answer.has_more:
            raise StoreError(
                f"/queue/{queue.name} ends after message {last:x}, but its ledger has "
                f"{count_text(left - unseen, 'further message')}"
            )

    # ---- how old the first message beyond the window is -------------------------------------------------------------

    @property
    def _first_place(self) -> tuple[int, int, int]:
        """Identifies the first message beyond the window: while this stays the same, so does the message."""
        return self.window.end, self.queue.delayed.released_in, self.queue.in_doubt.unread

    def first_age_ms(self) -> int | None:
        """Returns the age of the first message beyond the window, in milliseconds; None: not known yet. Reads that
        message back, unless too many queues' ages are being read.
        """
        place, accepted_ms = self.first_accepted
        if place == self._first_place:
            return max(0, self.context.now_ms - accepted_ms)
        windows = self.window.windows
        if windows.oldest < OLDEST_AT_ONCE:
            windows.oldest += 1
            self.read_first_age(self._age_read)
        return None

    def forget_first_age(self) -> None:
        """Called when the first message beyond the window may have changed though the window's end has not."""
        self.first_accepted = ((-1, 0, 0), 0)

    def _age_read(self, _: int | None) -> None:
        self.window.windows.oldest -= 1

    def read_first_age(self, done: Callable[[int | None], None]) -> None:
        """Calls `done` with the age of the first message beyond the window; None: there is none that can be read."""
        place, window, in_doubt = self._first_place, self.window, self.queue.in_doubt

        def read(answer: Loaded) -> None:
            found = (m.message for m in answer.messages if m.position not in in_doubt.entries and m.message is not None)
            message = next(found, None)
            if message is not None:
                self.first_accepted = (place, message.accepted_ms)
            done(None if message is None else max(0, self.context.now_ms - message.accepted_ms))

        request, count = self.context.next_position(), 1 + in_doubt.unread
        window.windows.ask(self.context, ReadQueue(request, self.queue.number, window.end, count, LOAD_BYTES), read)

    # ---- stubs ------------------------------------------------------------------------------------------------------

    def read_stubs(self, is_needed: bool) -> bool:
        """Asks for the bytes of the next stubs; returns whether there are any. is_needed: see Window.next_stubs."""
        window = self.window
        asked = window.next_stubs(window.windows.load_bytes, window.windows.is_crowded, is_needed)
        if asked:
            window.is_loading = True
            self.read([*asked], partial(self.stubs_read, asked))
        return bool(asked)

    def stubs_read(self, asked: dict[int, Entry], answer: Loaded) -> None:
        """Called with the bytes of stubs: puts them into the entries that are still stubs. Reports the damaged ones."""
        queue, window = self.queue, self.window
        window.is_loading = False
        if queue.is_gone:
            return
        found = {stored.position: stored.message for stored in answer.messages}
        for position, entry in asked.items():
            if entry.state is not State.READY or not entry.is_stub or queue.purge.has_returned(position):
                continue
            window.left(entry)
            message = self.found_at(position, found)
            if message is None:
                window.drop_returned(position)
                queue.report_damaged(position)
            else:
                entry.message = message
                window.add(entry.size)
                self.is_whole(entry)
        queue.went_on()

    def is_whole(self, entry: Entry) -> None:
        """Called when the bytes of a stub are in memory again."""

    def found_at(self, position: int, found: dict[int, Message | None]) -> Message | None:
        """Returns what was read back for a stub; None: it is damaged. Raises StoreError if it is missing."""
        # D32: a message that was not removed never counts as gone
        if position not in found:
            raise StoreError(f"/queue/{self.queue.name} has no message {position:x}, which was not removed")
        return found[position]
