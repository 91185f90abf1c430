"""One queue's messages, from the old broker to the new: acked there once they are confirmed here, never before.

So a message is in one of the two at any moment, whichever of them ends. In both it is only between its confirm and its
ack.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.model.errors import RadiatorError, count_text
from radiator.protocols.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
)
from radiator.protocols.amqp.spec import (
    COMMAND_INVALID,
    FRAME_ERROR,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
)
from radiator.tools.migrate.content import BIG_BYTES, adapted
from radiator.tools.migrate.link import AmqpLink, AmqpRefused
from radiator.tools.migrate.wire import PENDING_BYTES, AmqpEvent, WireLost, wait

CHANNEL = 2
QUIET_S = 0.1
"""When nothing has come for this long, the old broker is asked whether there is more."""
STALLED_S = 20.0
"""When there is more, and nothing of it has come for this long, somebody else gets it."""
CONFIRM_MAX_S = 60.0
EMPTY_LOOKS = 2
"""How often the old broker must say that it has nothing more: what it has given out may come after its first answer."""
REFUSALS = frozenset((NOT_ALLOWED, NOT_IMPLEMENTED, FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID, UNEXPECTED_FRAME))
"""Codes of a connection that is closed for what came over it, not because the broker ends."""
BLOCKED_MAX_S = 5.0
"""How long a stop waits for a broker without room."""
REFUSED_MAX = 50
"""How many messages may stay behind, one by one, before the queue is left."""


@dataclass(slots=True)
class QueueMoved:
    """The outcome of moving a queue. moved: messages that are in the new broker and acked in the old. refused: those
    that the new broker did not take, and why. redelivered: of those that were moved, how many the old broker had
    delivered before. twice_at_most: how many may be in both, since an ack did not get through, or a confirm. left: how
    many the old broker has ready; None: that is not known. why: what ended it; "": it is empty. notes: how messages
    were changed.
    """

    queue: str
    moved: int = 0
    moved_bytes: int = 0
    left: int | None = None
    redelivered: int = 0
    twice_at_most: int = 0
    why: str = ""
    refused: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Delivered:
    """A message of the old broker, as it is for the new one."""

    tag: int
    properties: bytes
    body: bytes
    is_alone: bool
    is_redelivered: bool
    notes: tuple[str, ...]


class QueueMove:
    """Call `run` once. is_consumed: false where a consumer would do harm: the old broker deletes an auto-delete queue
    with its last one. window: how many are on their way at most. sender: whom a message may name as its sender; None:
    nobody. is_stopping: whether it is to be stopped.
    """

    def __init__(
        self,
        old: AmqpLink,
        new: AmqpLink,
        moved: QueueMoved,
        *,
        window: int,
        is_consumed: bool,
        sender: str | None,
        is_stopping: Callable[[], bool],
        progress: Callable[[QueueMoved], None],
    ) -> None:
        self._old, self._new, self._moved = old, new, moved
        self._queue = moved.queue
        self._window = window
        self._is_consumed = is_consumed
        self._sender = sender
        self._is_stopping = is_stopping
        self._progress = progress
        self._waiting: deque[_Delivered] = deque()
        self._unconfirmed: dict[int, _Delivered] = {}
        self._confirmed: list[_Delivered] = []
        self._in_doubt = 0  # acked, and not known to be
        self._published = 0
        self._requested = 0  # by basic.get, and not answered
        self._is_out = False  # the last basic.get found nothing
        self._held = 0  # delivered, and neither acked nor on their way: refused ones
        self._is_returned = False
        self._confirmed_s = time.monotonic()
        self._written_bytes = 0  # when that was looked at

    def run(self) -> None:
        """Moves until the queue is empty, or cannot go on. Raises WireLost; what it has moved is in `moved`."""
        self._moved.left = None  # what has been counted is less by each that is moved
        try:
            self._begin()
            self._go_on()
            self._end()
        except AmqpRefused as refused:
            self._moved.why = self._moved.why or str(refused)
            self._old.close_channel(CHANNEL)
            self._new.close_channel(CHANNEL)
        except WireLost:
            self._leave()
            raise

    def _leave(self) -> None:
        """Called when one of the two is gone. Acks what is confirmed, if the old broker is still there."""
        try:
            self._ack()
            self._old.count(self._queue, CHANNEL)
            self._in_doubt = 0
        except RadiatorError:
            self._in_doubt += len(self._confirmed)
        # the old broker has given out no more than the window
        self._moved.twice_at_most += min(self._window, self._in_doubt + len(self._unconfirmed))

    # ---- the course of it

    def _begin(self) -> None:
        self._open_new()
        self._old.close_channel(CHANNEL)
        self._old.ask(CHANNEL, BasicQos(prefetch_count=self._window), BasicQosOk)
        if self._is_consumed:
            self._old.ask(CHANNEL, BasicConsume(queue=self._queue, consumer_tag="migrate"), BasicConsumeOk)

    def _open_new(self) -> None:
        self._new.close_channel(CHANNEL)
        self._new.ask(CHANNEL, ConfirmSelect(), ConfirmSelectOk)
        self._published = 0

    def _go_on(self) -> None:
        quiet_since_s = time.monotonic()
        empty = 0
        while not self._moved.why and empty < EMPTY_LOOKS and not self._is_stopping():
            self._request()
            try:
                came = self._turn()
            except WireLost:
                if not self._goes_on_without():
                    raise
                continue
            self._progress(self._moved)
            if came or self._unconfirmed or self._waiting:
                quiet_since_s, empty = time.monotonic(), 0
            else:
                empty = empty + 1 if self._is_empty(time.monotonic() - quiet_since_s) else 0

    def _turn(self) -> bool:
        has_capacity = self._new.pending_bytes < PENDING_BYTES and not self._waiting
        if has_capacity:
            came = wait([self._old, self._new], QUIET_S)
        else:
            came = wait([self._new], QUIET_S, silent=[self._old])
        self._take()
        self._ack()
        self._check_confirms()
        return came

    def _check_confirms(self) -> None:
        is_writing = self._new.written_bytes != self._written_bytes
        if not self._unconfirmed or self._new.blocked or is_writing:
            self._confirmed_s, self._written_bytes = time.monotonic(), self._new.written_bytes
        elif time.monotonic() - self._confirmed_s > CONFIRM_MAX_S:
            raise self._new.lost(f"it has confirmed nothing for {CONFIRM_MAX_S:.0f} s")

    def _is_empty(self, quiet_s: float) -> bool:
        """Called when nothing is on its way. Returns whether there is nothing more."""
        found = self._old.count(self._queue)
        if any(event.channel == CHANNEL for event in self._old.events):
            return False
        if found.message_count == 0:
            return True
        self._is_out = False
        if quiet_s < STALLED_S:
            return False
        others = count_text(max(0, found.consumer_count - self._is_consumed), "other consumer")
        self._moved.why = (
            f"The old broker has {count_text(found.message_count, 'message')} ready and delivers none: {others} "
            "may be the single active one."
        )
        return False

    def _end(self) -> None:
        """Waits for what is on its way, acks it, and gives back the rest."""
        if self._is_consumed:
            self._old.send_method(CHANNEL, BasicCancel("migrate", no_wait=True))
        until_s = time.monotonic() + BLOCKED_MAX_S
        while self._unconfirmed and not self._is_returned:
            if self._new.blocked and time.monotonic() > until_s:
                self._moved.why = self._moved.why or f"The new broker has no room: {self._new.blocked}."
                self._held += len(self._unconfirmed)
                break
            self._waiting.clear()
            wait([self._new], QUIET_S, silent=[self._old])
            self._take_new()
            self._check_confirms()
        self._ack()
        self._moved.twice_at_most += len(self._unconfirmed)
        self._unconfirmed.clear()
        # by the channel that has acked and gives back: the count comes after both
        if self._has_more():
            self._old.send_method(CHANNEL, BasicNack(0, multiple=True, requeue=True))
        self._moved.left = self._old.count(self._queue, CHANNEL).message_count
        self._in_doubt = 0
        self._old.close_channel(CHANNEL)
        self._new.close_channel(CHANNEL)

    def _has_more(self) -> bool:
        """Whether the old broker waits for acks that do not come."""
        self._old.count(self._queue, CHANNEL)  # what it has delivered until now is in the events
        came = any(isinstance(event.method, BasicDeliver | BasicGetOk) for event in self._events_of(self._old))
        return came or bool(self._held or self._waiting or self._is_returned)

    def _request(self) -> None:
        """Requests messages by basic.get, as many as the window has capacity for."""
        if self._is_consumed or self._is_out:
            return
        on_their_way = self._requested + len(self._unconfirmed) + len(self._waiting) + self._held
        for _ in range(self._window - on_their_way):
            self._old.send_method(CHANNEL, BasicGet(queue=self._queue))
            self._requested += 1

    # ---- what comes

    def _take(self) -> None:
        for event in self._events_of(self._old):
            method = event.method
            if isinstance(method, BasicDeliver | BasicGetOk):
                self._requested -= isinstance(method, BasicGetOk)
                properties, is_odd, notes = adapted(event.properties, self._sender)
                is_alone = is_odd or len(event.body) > BIG_BYTES
                self._waiting.append(
                    _Delivered(method.delivery_tag, properties, event.body, is_alone, method.redelivered, notes)
                )
            elif isinstance(method, BasicGetEmpty):
                self._requested -= 1
                self._is_out = True
            elif isinstance(method, BasicCancel):
                self._moved.why = "The old broker has ended the consumer: was the queue deleted?"
            elif isinstance(method, ChannelClose):
                # what was not acked comes again; the old broker has given out no more than the window
                doubt = self._in_doubt + len(self._unconfirmed) + len(self._confirmed)
                self._moved.twice_at_most += min(self._window, doubt)
                raise self._old.refused(CHANNEL, method)
        self._take_new()
        self._publish_waiting()

    def _take_new(self) -> None:
        for event in self._events_of(self._new):
            method = event.method
            if isinstance(method, BasicAck):
                self._take_confirm(method)
            elif isinstance(method, BasicNack):
                self._take_nack(method)
            elif isinstance(method, BasicReturn):
                self._is_returned = True
                self._moved.why = f"The new broker has no queue {self._queue!r:.80} any more: {method.reply_text}."
            elif isinstance(method, ChannelClose):
                self._take_close(method)

    def _events_of(self, link: AmqpLink) -> list[AmqpEvent]:
        taken = [event for event in link.events if event.channel == CHANNEL]
        if taken:
            link.forget(CHANNEL)
        return taken

    def _take_confirm(self, method: BasicAck) -> None:
        if self._is_returned:
            return  # it may be the confirm of what came back
        self._confirmed_s = time.monotonic()
        for number in self._numbers(method.delivery_tag, method.multiple):
            self._confirmed.append(self._unconfirmed.pop(number))

    def _take_nack(self, method: BasicNack) -> None:
        for number in self._numbers(method.delivery_tag, method.multiple):
            del self._unconfirmed[number]
            self._held += 1
        self._moved.why = f"The new broker takes no more into {self._queue!r:.80}: it is full (basic.nack)."

    def _numbers(self, last: int, is_multiple: bool) -> list[int]:
        if not is_multiple:
            return [last] if last in self._unconfirmed else []
        found = []
        for number in self._unconfirmed:  # in their order
            if number > last:
                break
            found.append(number)
        return found

    def _take_close(self, method: ChannelClose) -> None:
        """Called when the new broker refuses something. If one message was alone on its way, it is the refused one, and
        stays; the others go on.
        """
        refused = self._new.refused(CHANNEL, method)
        if len(self._unconfirmed) != 1:
            self._moved.twice_at_most += len(self._unconfirmed)
            self._held += len(self._unconfirmed)
            self._unconfirmed.clear()
            self._moved.why = str(refused)
            return
        self._stays(str(refused))
        self._open_new()

    def _goes_on_without(self) -> bool:
        """Connects again without the message that was alone on its way, if the new broker has closed the connection for
        it. Returns whether it has.
        """
        if len(self._unconfirmed) != 1 or self._new.closed_for not in REFUSALS:
            return False
        why = self._new.closed_why
        self._new.reconnect()
        self._stays(why)
        self._open_new()
        return True

    def _stays(self, why: str) -> None:
        """Notes that the only message on its way stays."""
        (one,) = self._unconfirmed.values()
        self._unconfirmed.clear()
        self._held += 1
        self._moved.refused.append(f"A message of {count_text(len(one.body), 'byte')} stays: {why}")
        if len(self._moved.refused) >= min(REFUSED_MAX, self._window):
            many = count_text(len(self._moved.refused), "message")
            self._moved.why = f"The new broker has refused {many}: no more of the queue is tried."

    # ---- what goes out

    def _publish_waiting(self) -> None:
        while self._waiting and not self._moved.why:
            one = self._waiting[0]
            if self._unconfirmed and (one.is_alone or next(iter(self._unconfirmed.values())).is_alone):
                return
            self._waiting.popleft()
            self._published += 1
            self._unconfirmed[self._published] = one
            self._new.send_method(CHANNEL, BasicPublish(routing_key=self._queue, mandatory=True))
            self._new.send_content(CHANNEL, one.properties, one.body)

    def _ack(self) -> None:
        """Acks what is confirmed, with `multiple` if nothing before it must stay."""
        if not self._confirmed:
            return
        tags = sorted(one.tag for one in self._confirmed)
        least = min((one.tag for one in self._unconfirmed.values()), default=None)
        if not self._held and (least is None or tags[-1] < least):
            self._old.send_method(CHANNEL, BasicAck(tags[-1], multiple=True))
        else:
            for tag in tags:
                self._old.send_method(CHANNEL, BasicAck(tag))
        self._moved.moved += len(tags)
        self._moved.moved_bytes += sum(len(one.body) for one in self._confirmed)
        self._moved.redelivered += sum(one.is_redelivered for one in self._confirmed)
        for one in self._confirmed:
            self._moved.notes.update(one.notes)
        self._in_doubt = min(self._window, self._in_doubt + len(tags))
        self._confirmed.clear()
