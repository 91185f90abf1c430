"""`peek` of one message, wherever it is in its queue: a part of its body, however large that is."""

from collections.abc import Iterator
from dataclasses import replace

from radiator.core.answers import rested
from radiator.core.ports import AnsweringPort
from radiator.core.queues.entry import Entry
from radiator.core.queues.finding import Placed, is_ready_on_disk
from radiator.core.queues.queue import Queue
from radiator.core.request import Request
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.addresses import queue_address
from radiator.model.amqp_properties import expanded_pairs
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import PEEK_PART_BYTES
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.peeking import Peeked, PeekedMessage
from radiator.model.reads import Loaded, StoredMessage
from radiator.model.story import positions_in


class Looking:
    """One look at one message. What is shown is cut out of it at once, so that the whole is not kept."""

    __slots__ = ("body_from", "context", "finder", "message_id", "position", "queue", "request")

    def __init__(
        self, request: Request[AnsweringPort], context: TurnContext, queue: Queue, message_id: str, body_from: int
    ) -> None:
        self.request = request
        self.context = context
        self.queue = queue
        self.finder = queue.finder()
        self.message_id = message_id
        self.body_from = body_from
        position = next(iter(positions_in([message_id], context.store_id)), None)
        if position is None:
            raise self.missing()
        self.position = position

    def begin(self) -> None:
        """Answers, at once or when it is read back. Raises Refusal."""
        entry = self.finder.at(self.position)
        if entry is None or entry.is_stub:
            self.finder.read(self.position, (self.body_from, PEEK_PART_BYTES + 1), self.read)
        else:
            self.tell(self.part(entry))

    def read(self, answer: Loaded) -> None:
        """Called with what is on the disk, if anything is."""
        try:
            self.look(next(iter(answer.messages), None))
        except Refusal as refusal:
            self.request.refuse(refusal)

    def look(self, stored: StoredMessage | None) -> None:
        """Answers, or searches the entries that are in no order. Raises Refusal."""
        on_disk, is_ready = None, False
        if stored is not None:
            if stored.message is None:
                raise Refusal("no-such-message", f"{self.message_id} cannot be read: `radiator check` says why.")
            message, body_bytes = stored.message, stored.body_bytes
            left_out = 0 if body_bytes is None else body_bytes - len(message.body)
            size = message.size + left_out
            entry = Entry(self.position, message, State.READY, size, stored.redeliveries, stored.redelivered)
            on_disk, is_ready = self.part(entry, body_bytes), self.is_ready(stored)
        found = self.finder.at(self.position)
        if found is None and self.finder.is_in_doubt(self.position) and on_disk is not None:
            on_disk, is_ready = replace(on_disk, state=State.IN_DOUBT.name.lower()), True
        others = [] if found is not None or is_ready else self.finder.unordered()
        if others:
            self.request.answer_in_slices(lambda: self.search(others, on_disk), _held_bytes(on_disk))
        elif found is not None:
            self.tell(self.merged(found, on_disk))
        elif is_ready and on_disk is not None:
            self.tell(on_disk)
        else:
            raise self.missing()

    def is_ready(self, stored: StoredMessage) -> bool:
        """Whether what was read back is READY, and on the disk alone."""
        return is_ready_on_disk(self.queue.picker(self.position, [self.position]), stored)

    def search(self, others: list[Placed], on_disk: PeekedMessage | None) -> Iterator[Peeked | PauseRow]:
        """Yields PAUSEs while the message is searched for among the entries that are in no order, then the answer."""
        for placed in rested(others):
            if placed is PAUSE:
                yield PAUSE
                continue
            entry = placed[-1]
            if entry.position == self.position and entry.state not in (State.REMOVING, State.GONE):
                yield _peeked(self.merged(entry, on_disk))
                return
        raise self.missing()

    def merged(self, entry: Entry, on_disk: PeekedMessage | None) -> PeekedMessage:
        """Returns it as it is in memory, with bytes that may have been read back. Raises Refusal."""
        if not entry.is_stub:
            return self.part(entry)
        if on_disk is None:
            raise self.missing()
        state, count = entry.state.name.lower(), entry.redeliveries
        return replace(on_disk, state=state, redelivery_count=count, redelivered=entry.redelivered)

    def tell(self, shown: PeekedMessage) -> None:
        self.request.answer_in_slices(lambda: _peeked(shown), _held_bytes(shown))

    def part(self, entry: Entry, body_bytes: int | None = None) -> PeekedMessage:
        """Returns what is shown of it. body_bytes: the size of the whole body, if only this part of it was read back.
        Raises Refusal if it begins beyond the body.
        """
        body = entry.message.body
        if body_bytes is None:
            body_bytes = len(body)
            body = body[self.body_from : self.body_from + PEEK_PART_BYTES + 1]
        if self.body_from > body_bytes:
            has = f"the body of {self.message_id} has {count_text(body_bytes, 'byte')}"
            raise Refusal("bad-request", f"`from` is {self.body_from}, and {has}: it would be 0 to {body_bytes}.")
        return replace(
            shown(self.context, entry, cut(body, PEEK_PART_BYTES)), body_bytes=body_bytes, body_from=self.body_from
        )

    def missing(self) -> Refusal:
        return Refusal(
            "no-such-message",
            f"{self.queue.address} does not have {self.message_id}: it has left, or is kept back on the disk until its "
            "time has come, or is of another queue.",
        )


def _peeked(shown: PeekedMessage) -> Peeked:
    return Peeked(Rows(iter([shown])))


def _held_bytes(shown: PeekedMessage | None) -> int:
    return 0 if shown is None else len(shown.body)


def cut(body: bytes, most: int) -> bytes:
    """Returns at most that many bytes of it, without the beginning of a character that would be cut in two."""
    if len(body) <= most:
        return body
    end = most
    while end and end > most - 4 and body[end] & 0xC0 == 0x80:
        end -= 1
    return body[:end]


def shown(context: TurnContext, entry: Entry, body: bytes) -> PeekedMessage:
    """Returns a message as it is shown, with that part of its body."""
    message = entry.message
    return PeekedMessage(
        message_id=context.message_id(entry.position).decode(),
        destination=queue_address(message.destination),
        timestamp=message.accepted_ms,
        expires=message.expires_ms,
        redelivered=entry.redelivered,
        redelivery_count=entry.redeliveries,
        state=entry.state.name.lower(),
        size=entry.size,
        headers=[*expanded_pairs(message.headers, message.escaping)],
        body_bytes=len(message.body),
        body=body,
    )
