"""`return`: dead letters go back, each to the queue that it comes from."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Protocol

from radiator.core.admin.queues import Moves
from radiator.core.authorization import Authorization
from radiator.core.connections import Connection
from radiator.core.dead_letters import origin_of
from radiator.core.ports import AnsweringPort, Background
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.turn import TurnContext
from radiator.model.administration import MoveMessages, ReturnMessages
from radiator.model.journal import MOVED, CameFrom
from radiator.model.limits import BATCH_BYTES, RETURNED_QUEUES, STEP_MESSAGES
from radiator.model.message import Message
from radiator.model.reads import StoredMessage
from radiator.model.returning import (
    BEHIND,
    DAMAGED,
    EXPIRED,
    NO_ORIGIN,
    NOT_ALLOWED,
    NOT_READY,
    NOT_THERE,
    ORIGIN_FULL,
    ORIGIN_GONE,
    SAME_QUEUE,
    MessagesReturned,
    NotReturned,
    sentence_of,
)
from radiator.model.story import positions_in

LOOKED_AT_FOR_ID = 6  # what reading and finding one message-id costs, as a number of things that are looked at


class Returns(Moves, Protocol):
    """Also gives a dead letter the form that it has in the queue that it came from."""

    def returned(self, old: Message, target: Target) -> Message: ...


class ReturningPort(AnsweringPort, Protocol):
    """The parts of the broker that this request may use."""

    @property
    def background(self) -> Background: ...

    @property
    def dead_letters(self) -> Returns: ...

    @property
    def destinations(self) -> Destinations: ...


def give_back(request: Request[ReturningPort], command: ReturnMessages) -> None:
    """Moves messages that are ready back to where they came from, the oldest first."""
    parts = request.parts
    source = parts.destinations.existing_queue(command.queue, request.connection)
    store_id, positions, ids = parts.context.store_id, None, {}
    if command.message_ids is not None:
        ids = {one: next(iter(positions_in([one], store_id)), None) for one in command.message_ids}
        positions = sorted({position for position in ids.values() if position is not None})
    origins = Origins(parts.destinations, parts.authorization, request.connection, source)

    request.costs(LOOKED_AT_FOR_ID * len(ids))

    def done(task: Returning) -> None:
        parts.context.note("info", "returned", queue=source.name, messages=sum(task.to.values()))
        request.answer_in_slices(lambda: _answer(source, ids, task))

    parts.background.append(Returning(source, origins, positions, command.count, parts.dead_letters, done))


def _answer(source: Queue, ids: Mapping[str, int | None], task: "Returning") -> MessagesReturned:
    """Returns the answer. ids: those that were asked for, with their places; None: it is not of this store."""
    returned, why = sum(task.to.values()), dict(task.why)
    not_returned = []
    for one, position in ids.items():
        reason = NOT_THERE if position is None else task.settled.get(position, NOT_THERE)
        if reason is NOT_THERE:
            if position is not None and position in source.entries_out:
                reason = NOT_READY
            why[reason] = why.get(reason, 0) + 1
        if reason:
            not_returned.append(NotReturned(one, reason))
    return MessagesReturned(
        returned=returned,
        stayed=sum(why.values()),
        to=dict(islice(task.to.items(), RETURNED_QUEUES)),
        why=why,
        not_returned=not_returned,
        sentence=sentence_of(source.name, returned, len(task.to), why),
    )


class Origins:
    """The queues that dead letters come from, as far as the asker may write to them. verdicts: by name, for this slice
    only: the users may have changed by the next.
    """

    __slots__ = ("authorization", "connection", "destinations", "source", "verdicts")

    def __init__(
        self, destinations: Destinations, authorization: Authorization, connection: Connection, source: Queue
    ) -> None:
        self.destinations = destinations
        self.authorization = authorization
        self.connection = connection
        self.source = source
        self.verdicts: dict[str, bool] = {}

    def find(self, message: Message) -> Queue | str:
        """Returns the queue that it goes to, or why it stays."""
        name = origin_of(message)
        if name is None or name.startswith(OUTBOX_PREFIX):
            return NO_ORIGIN
        if name == self.source.name:
            return SAME_QUEUE
        target = self.destinations.queues.find(name)
        if target is None:
            return ORIGIN_GONE
        may = self.verdicts.get(name)
        if may is None:
            # as `move` to that queue is judged
            move = MoveMessages(self.source.name, name)
            may = self.verdicts[name] = self.authorization.allows(self.connection, move)
        return target if may else NOT_ALLOWED


class Returning:
    """Moves messages out of one queue into those that they come from, each slice in one batch. It looks at what was
    there when it began: what comes back as a dead letter meanwhile is left alone.

    left: how many may still go back; None: all. to: how many went to each queue; why: how many stay, for each reason;
    settled: of messages that were asked for, by place: why one stays, or "". done: called once all that is on the disk.
    """

    __slots__ = (
        "by_place", "context", "done", "forms", "is_done", "left", "origins", "picker", "settled", "source", "to",
        "why",
    )  # fmt: skip

    def __init__(
        self,
        source: Queue,
        origins: Origins,
        positions: list[int] | None,
        count: int | None,
        forms: Returns,
        done: "Callable[[Returning], None]",
    ) -> None:
        self.context: TurnContext = source.context
        self.source = source
        self.origins = origins
        self.picker = source.picker(self.context.last_position, positions)
        self.by_place = positions is not None
        self.left = count
        self.forms = forms
        self.done = done
        self.to: dict[str, int] = {}
        self.why: dict[str, int] = {}
        self.settled: dict[int, str] = {}
        self.is_done = False

    @property
    def can_go_on(self) -> bool:
        return not self.picker.is_asked and self.context.open.size < BATCH_BYTES

    def step(self) -> None:
        picker = self.picker
        if picker.is_asked and not self.source.is_gone:
            return
        if not self.source.is_gone:
            self.step_through()
        is_over = picker.is_over and not picker.found and not picker.is_asked
        if self.source.is_gone or self.left == 0 or is_over:
            self.end()
        elif not picker.found and not picker.is_asked:
            picker.ask()

    def step_through(self) -> None:
        """Settles one slice of what was found."""
        picker, context = self.picker, self.context
        targets: dict[Queue, None] = {}
        self.origins.verdicts.clear()
        picker.begin()
        for _ in range(min(STEP_MESSAGES, len(picker.found))):
            if context.open.size >= BATCH_BYTES or self.left == 0:
                break
            context.handled += 1
            stored = picker.found.popleft()
            reason = self.settle(stored, targets)
            if reason and (self.by_place or reason not in (NOT_READY, EXPIRED, DAMAGED)):
                self.why[reason] = self.why.get(reason, 0) + 1
            if self.by_place:
                self.settled[stored.position] = reason
        picker.end()
        self.source.watch_head()
        for target in targets:
            target.pump()

    def settle(self, stored: StoredMessage, targets: dict[Queue, None]) -> str:
        """Moves one message back, or leaves it. Returns why it stays; "": it does not."""
        source, picker = self.source, self.picker
        if stored.message is None:
            return DAMAGED
        entry = picker.entry(stored)
        if entry is None:
            return BEHIND if picker.is_behind(stored) else NOT_READY
        if 0 < stored.message.expires_ms <= self.context.now_ms:
            picker.pick(entry, stored)
            source.expire(entry)
            return EXPIRED
        target = self.origins.find(stored.message)
        if isinstance(target, str):
            return target
        message = self.forms.returned(stored.message, target)
        if not target.has_capacity(1, message.size):
            return ORIGIN_FULL
        picker.pick(entry, stored)
        # D9: the Put, and the Remove that `withdraw` writes, are in one batch
        target.put(message, CameFrom(MOVED, entry.position, source.name))
        source.withdraw(entry, target.name)
        targets[target] = None
        self.to[target.name] = self.to.get(target.name, 0) + 1
        if self.left is not None:
            self.left -= 1
        return ""

    def end(self) -> None:
        """Ends the task: the answer is given when all that is on the disk."""
        self.is_done = True
        if BEHIND in self.why:
            self.source.refill(is_needed=True)
        self.context.open.then.append(lambda: self.done(self))
