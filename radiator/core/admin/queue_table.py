"""Requests for the table of queues: a page of them in any order, each with its verdict."""

from collections.abc import Collection, Iterator
from functools import partial

from radiator.core.admin.attention import AttentionPort, ask
from radiator.core.admin.why import is_full, judged, judging_looks
from radiator.core.answers import AwaitedRow
from radiator.core.overview.looks import Pace
from radiator.core.overview.orders import Order, Sorting
from radiator.core.queues.queue import Queue
from radiator.core.request import Request
from radiator.core.sight import Sight
from radiator.model.limits import QUEUE_TABLE_ROWS_MAX
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.overview import QueueOfTable, QueueTable, ReadQueueTable

ORDERED = 5 * QUEUE_TABLE_ROWS_MAX  # an order has that many names, or a multiple of it
SIGHT_LOOKS = 6  # what it costs to find out whether a queue may be seen, in looks at a thing


def table(request: Request[AttentionPort], command: ReadQueueTable) -> None:
    """Answers with a page of what the asker may see."""
    parts = request.parts

    def answered() -> Iterator[QueueTable | AwaitedRow | PauseRow]:
        sight = Sight(parts.authorization, request.connection)
        order = Order([], 0)
        for one in _ordered(parts, command, sight):
            if isinstance(one, Order):
                order = one
            else:
                yield one
        names, count = order.names, order.count
        everything = parts.destinations.queues.everything()
        if sight.is_everything:
            all_of_them = len(everything)
        else:
            seen: set[str] = set()
            pace = Pace()
            for queue in everything:
                if sight.queue(queue.name):
                    seen.add(queue.name)
                if pace.is_over(SIGHT_LOOKS):
                    yield PAUSE
            names = [name for name in names if name in seen]
            count, all_of_them = len(names), len(seen)
        page = names[command.first : command.first + command.count]
        yield QueueTable(Rows(_rows(parts, page)), count, all_of_them)

    request.answer_in_slices(answered)


def _ordered(parts: AttentionPort, command: ReadQueueTable, sight: Sight) -> Iterator[Order | AwaitedRow]:
    """Yields the order of all queues, perhaps after a wait; only its beginning if the asker sees everything."""
    needing: Collection[str] | None = None
    for one in ask(parts) if command.needs else ():
        if isinstance(one, AwaitedRow):
            yield one
        else:
            needing = one.queues
    pages = (command.first + command.count - 1) // ORDERED + 1
    most = ORDERED * pages if sight.is_everything else None
    text = command.text.lower()
    sorting = Sorting(command.by, command.is_descending, command.match, text, most, command.needs)
    yield from parts.overview.orders.ask(sorting, partial(_queues, parts, needing))


def _queues(parts: AttentionPort, needing: Collection[str] | None) -> list[Queue]:
    """Returns all queues, or those of these names that exist."""
    queues = parts.destinations.queues
    if needing is None:
        return queues.everything()
    return [queue for queue in map(queues.find, needing) if queue is not None]


def _rows(parts: AttentionPort, names: list[str]) -> Iterator[QueueOfTable | PauseRow]:
    """Yields the rows of those that still exist."""
    pace = Pace()
    for name in names:
        queue = parts.destinations.queues.find(name)
        if queue is None:
            continue
        if pace.is_over(judging_looks(queue)):
            yield PAUSE
        for found in judged(parts, queue):
            if found is PAUSE:
                yield PAUSE
            else:
                yield _row(parts, queue, *found)


def _row(parts: AttentionPort, queue: Queue, verdict: str, sentence: str) -> QueueOfTable:
    rates = parts.overview.history.counters.rates(queue)
    return QueueOfTable(
        name=queue.name,
        ready=queue.ready_count,
        unacked=len(queue.entries_out),
        delayed=queue.delayed_count,
        checked_out=parts.checkouts.count(queue),
        dead=queue.name in parts.destinations.queues.dying_into,
        in_per_s=rates.in_per_s,
        out_per_s=rates.out_per_s,
        consumers=len(queue.subscriptions),
        oldest_ms=queue.oldest_ms,
        messages=queue.ledger.stored,
        bytes=queue.ledger.stored_bytes,
        verdict=verdict,
        sentence=sentence,
        persistent=queue.is_persistent,
        is_full=is_full(queue),
        blocked=len(queue.waiters),
    )
