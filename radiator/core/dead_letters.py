"""Messages that go from one queue into another: as a dead letter, or by an operator's word."""

from collections.abc import Callable

from radiator.core.queues.entry import Entry
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.turn import TurnContext
from radiator.model.headers import (
    DEAD_LETTER_REASON,
    EXPIRATION,
    EXPIRES,
    NODE_PATH,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
    REDELIVERY_COUNT,
    block_of,
    without,
)
from radiator.model.journal import AS_DEAD_LETTER, DEAD_LETTERED, CameFrom
from radiator.model.message import Message, expires_by
from radiator.model.patterns import name_mistake

# What a message does not take along: the broker sets these anew, or they belong to the queue that it was in.
NOT_MOVED = (NODE_PATH, REDELIVERY_COUNT)
NOT_DEAD_LETTERED = (
    *NOT_MOVED,
    EXPIRATION,
    EXPIRES,
    DEAD_LETTER_REASON,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
)
# What a dead letter does not take back to the queue that it came from: what it got when it became one.
NOT_RETURNED = (*NOT_MOVED, DEAD_LETTER_REASON, ORIGINAL_DESTINATION, ORIGINAL_MESSAGE_ID)
_QUEUE_PREFIX = "/queue/"


def origin_of(message: Message) -> str | None:
    """The name of the queue that a dead letter comes from; None: it is no dead letter, or does not say so."""
    value = message.field(ORIGINAL_DESTINATION)
    try:
        address = "" if value is None else value.decode()
    except UnicodeDecodeError:
        return None
    name = address.removeprefix(_QUEUE_PREFIX)
    return None if name == address or name_mistake(name) else name


class DeadLetters:
    """target: the queue of that name, which is made where it is not there yet."""

    __slots__ = ("context", "target")

    def __init__(self, context: TurnContext, target: Callable[[str], Target]) -> None:
        self.context = context
        self.target = target

    def put(self, queue: Queue, entry: Entry, reason: str) -> None:
        """A new message in the dead-letter queue, in the batch that removes the old one (D9)."""
        assert queue.settings.dead_letter is not None
        target = self.target(queue.settings.dead_letter)
        # D9: `leave` puts the Remove into this same batch
        target.put(self.moved(queue, entry, target, reason), CameFrom(AS_DEAD_LETTER, entry.position, queue.name))
        if queue.journal is not None:
            position = self.context.last_position
            queue.journal.write(DEAD_LETTERED, queue.name, entry, reason, other=position, where=target.name)
        if not target.is_persistent:
            target.pump()

    def moved(self, queue: Queue, entry: Entry, target: Target, reason: str | None) -> Message:
        """The message as it enters another queue; with a reason, as a dead letter."""
        old = entry.message
        # a dead letter's count is not that of the queue which it is moved to
        headers = without(old.headers, NOT_MOVED if reason is None else NOT_DEAD_LETTERED)
        expires_ms = old.expires_ms
        if reason is not None:
            expires_ms = 0
            headers += block_of(
                old.escaping,
                (DEAD_LETTER_REASON, reason.encode()),
                (ORIGINAL_DESTINATION, b"/queue/" + queue.name.encode()),
                (ORIGINAL_MESSAGE_ID, self.context.message_id(entry.position)),
                (REDELIVERY_COUNT, b"%d" % entry.redeliveries),
            )
        return self._in(target, old, headers, expires_ms)

    def returned(self, old: Message, target: Target) -> Message:
        """The dead letter as it enters again the queue that it came from."""
        return self._in(target, old, without(old.headers, NOT_RETURNED), old.expires_ms)

    def _in(self, target: Target, old: Message, headers: bytes, expires_ms: int) -> Message:
        if target.settings.message_ttl_ms is not None:
            expires_ms = expires_by(expires_ms, target.settings.message_ttl_ms, self.context.now_ms)
        return Message(f"/queue/{target.name}", headers, old.escaping, old.body, self.context.now_ms, expires_ms)
