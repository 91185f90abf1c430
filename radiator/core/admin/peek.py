"""`peek`: messages of a queue, as they are."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import nsmallest
from typing import Protocol

from radiator.core.admin.peek_one import Looking, cut, shown
from radiator.core.answers import AwaitedRow, rested
from radiator.core.ports import AnsweringPort
from radiator.core.queues.entry import Entry
from radiator.core.queues.queue import Queue
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.administration import PeekQueue
from radiator.model.limits import LOAD_BYTES, PEEK_BODIES_BYTES, PEEK_BODY_BYTES
from radiator.model.message import Message
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.peeking import Peeked
from radiator.model.reads import StoredMessage


class PeekPort(AnsweringPort, Protocol):
    """The parts of the broker that this request may use."""

    @property
    def destinations(self) -> Destinations: ...


def peek(request: Request[PeekPort], command: PeekQueue) -> None:
    """Answers with the oldest messages of a queue, in order, unacked or not, or with one of them; nothing changes."""
    parts, count = request.parts, command.count
    queue = parts.destinations.existing_queue(command.queue)
    if command.message_id is not None:
        Looking(request, parts.context, queue, command.message_id, command.body_from).begin()
        return
    request.answer_in_slices(lambda: _messages(parts.context, queue, count))


def _beyond(queue: Queue, count: int, found: list[StoredMessage]) -> Iterator[AwaitedRow]:
    """Reads back what is not in memory. It is read when the answer has its turn, so that few hold such bytes at once,
    however many ask.
    """
    wait = AwaitedRow()
    queue.read_beyond(count - queue.in_memory_count, wait.end)
    if wait.found is None:
        yield wait
    found += wait.found.messages


def _messages(context: TurnContext, queue: Queue, count: int) -> Iterator[Peeked | PauseRow | AwaitedRow]:
    """Yields PAUSEs and waits while the oldest are found, then the answer."""
    beyond: list[StoredMessage] = []
    yield from _beyond(queue, count, beyond)
    oldest: list[Entry] = []
    looked: list[Entry] = []
    for entry in rested(queue.in_memory(count)):
        if entry is not PAUSE:
            looked.append(entry)
            continue
        oldest = nsmallest(count, [*oldest, *looked], key=_position)
        looked.clear()
        yield PAUSE
    known = {entry.position for entry in (*oldest, *looked)}
    for stored in beyond:
        if stored.message is not None and stored.position not in known:
            size = stored.message.size
            looked.append(
                Entry(stored.position, stored.message, State.READY, size, stored.redeliveries, stored.redelivered)
            )
    oldest = nsmallest(count, [*oldest, *looked], key=_position)
    stubs: list[int] = []
    size = 0
    for index, entry in enumerate(oldest):
        size += entry.size if entry.is_stub else 0
        if stubs and size > 4 * LOAD_BYTES:
            del oldest[index:]  # what is beyond is not read back for one answer
            break
        stubs += [entry.position] if entry.is_stub else []
    if stubs:
        wait = AwaitedRow()
        queue.read(stubs, wait.end)
        yield wait
        found = {stored.position: stored.message for stored in wait.found.messages}
        oldest = [_read(entry, found.get(entry.position)) for entry in oldest]
    body_bytes_max = min(PEEK_BODY_BYTES, PEEK_BODIES_BYTES // count)
    # what has left meanwhile is not shown
    left = (State.REMOVING, State.GONE)
    rows = (
        shown(context, one, cut(one.message.body, body_bytes_max))
        for one in oldest
        if not one.is_stub and one.state not in left
    )
    yield Peeked(Rows(rows))


def _read(entry: Entry, message: Message | None) -> Entry:
    """Returns the entry with the bytes that were read back; it stays a stub if it has left since, or is damaged."""
    return replace(entry, message=message) if entry.is_stub and message is not None else entry


def _position(entry: Entry) -> int:
    return entry.position
