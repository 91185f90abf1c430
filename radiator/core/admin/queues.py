"""Requests about the messages of a queue: purge, move."""

from typing import Protocol

from radiator.core.background import Moving
from radiator.core.ports import AnsweringPort, Background
from radiator.core.queues.entry import Entry
from radiator.core.queues.queue import Queue
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.model.administration import MoveMessages, PurgeQueue
from radiator.model.answers import Moved, Purged
from radiator.model.errors import Refusal
from radiator.model.message import Message


class Moves(Protocol):
    """Gives a message the form that it has in another queue."""

    def moved(self, queue: Queue, entry: Entry, target: Queue, reason: str | None) -> Message: ...


class QueuesPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def background(self) -> Background: ...

    @property
    def dead_letters(self) -> Moves: ...

    @property
    def destinations(self) -> Destinations: ...


def purge(request: Request[QueuesPort], command: PurgeQueue) -> None:
    """Removes everything that is not unacked."""
    queue, owned = request.parts.destinations.existing_queue(command.queue), request.parts.destinations.queues.owned
    owned.check_ended(queue, request.connection)

    def done(count: int) -> None:
        request.parts.context.note("info", "purged", queue=queue.name, messages=count)
        request.answer_synced(lambda: Purged(count))

    queue.empty(done)


def move(request: Request[QueuesPort], command: MoveMessages) -> None:
    """Moves messages that are ready from one queue to another, oldest first."""
    parts = request.parts
    source = request.parts.destinations.existing_queue(command.source, request.connection)
    count = max(1, source.ready_count) if command.count is None else command.count
    if not command.create:
        request.parts.destinations.existing_queue(command.target)
    target = parts.destinations.queues.get(command.target)
    if target is source:
        raise Refusal("bad-request", f"/queue/{source.name} cannot be moved into itself.")

    def done(moved: int) -> None:
        parts.context.note("info", "moved", source=source.name, target=target.name, messages=moved)
        request.answer(Moved(moved))

    parts.background.append(Moving(parts.context, source, target, count, parts.dead_letters.moved, done))
