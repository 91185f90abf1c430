"""When memory runs short, the connections that hold much of it wait or are refused, and the largest is closed."""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from radiator.core.connections import Connection
from radiator.core.memory import Memory, Weighing, held_by
from radiator.core.producer import Producer
from radiator.core.routing.admission import Admission
from radiator.core.routing.waiting import Waitable, WaitList
from radiator.core.turn import TurnContext
from radiator.model.limits import HEAP_LOOKS, REFUSED_LOOKS, Limits


class MemoryPressure:
    """Judges what was weighed (memory.py)."""

    __slots__ = ("context", "admission", "limits", "memory", "unblocked")

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        memory: Memory,
        admission: Admission,
        unblocked: dict[Waitable, None],
    ) -> None:
        self.context = context
        self.limits = limits
        self.memory = memory
        self.admission = admission
        self.unblocked = unblocked

    def judge(self, weighing: Weighing) -> Iterator[int]:
        """Past 80 % of the bound a connection that holds much waits, or is refused if it still grows; past the bound
        the largest holders are closed. Yields what each step costs, as in rounds.py.
        """
        memory, wait_list, destinations = self.memory, self.admission.memory_wait_list, self.admission.destinations
        weighing.end()
        size = weighing.bytes
        is_tight = size > memory.tight_bytes
        if is_tight and destinations.readers.tails_bytes:
            for log in destinations.logs.all.values():
                log.clear_tails()
        destinations.topics.is_pressed = destinations.readers.is_pressed = size > memory.bound_bytes // 2
        gone: dict[Connection, None] = {}
        if is_tight != wait_list.is_tight:
            wait_list.is_tight = is_tight
            if is_tight:
                self.context.note(
                    "warning", "memory_tight", bytes=size, bound=memory.bound_bytes, holders=memory.holders_text()
                )
            else:
                self.context.note("info", "memory_has_room", bytes=size, bound=memory.bound_bytes)
        elif is_tight:
            # few: each holds more than its share
            gone = dict.fromkeys(one for one in weighing.growing if self.is_refused_for_growing(one))
            size -= sum(one.weighed_bytes for one in gone)
        is_unread = memory.is_awaited and weighing.unread > size // 2
        memory.is_awaited = False
        if wait_list.waiters:
            yield from _put_smallest_first(wait_list)
            self.unblocked[wait_list] = None
        self.unblocked.update((queue, None) for queue in weighing.awaited if queue.waiters)
        if size > memory.bound_bytes:
            yield from self.close_largest(held_by, weighing.large, gone, memory.bound_bytes, size)
        elif is_unread:
            # a queue may be consumed, but a client that does not read never will: without this, producers wait in vain
            fullest: list[tuple[int, int, Connection]] = []
            for _, number, one in weighing.large:
                heappush(fullest, (-one.outbox_bytes, number, one))
                yield 1
            yield from self.close_largest(_outbox_bytes, fullest, gone, memory.tight_bytes, size)

    def is_refused_for_growing(self, connection: Connection) -> bool:
        """Refuses a connection that holds more than its share, and more than at the last weighing, unless it waits and
        so is not read from. Returns whether it was refused.
        """
        if connection.waits_for is not None or connection.is_closing:
            return False
        memory = self.memory
        connection.refuse(
            self.context,
            "memory",
            f"Memory is short (max_memory_bytes {memory.bound_bytes}): this connection holds "
            f"{connection.weighed_bytes} bytes, more than its share of {memory.share_bytes}, and takes more.",
        )
        return True

    def close_largest(
        self,
        held_by: Callable[[Connection], int],
        there: list[tuple[int, int, Connection]],
        gone: dict[Connection, None],
        mark: int,
        size: int,
    ) -> Iterator[int]:
        """Closes as many of the largest holders as it takes to come below the mark; none under least_bytes. there: a
        heap of (-bytes, number, connection), which this empties: sorting thousands at once makes a long turn.
        """
        sentence = f"Out of memory (max_memory_bytes {self.limits.max_memory_bytes}): this connection holds the most, "
        while there and size > mark:
            negative, _, largest = heappop(there)
            if largest in gone:
                continue
            if -negative < self.memory.least_bytes:
                return
            size += negative
            held = held_by(largest)
            # it may have freed some of it since it was weighed
            if held >= self.memory.least_bytes and not largest.is_closing:
                largest.refuse(self.context, "memory", f"{sentence}{held} bytes.")
            yield REFUSED_LOOKS


def _outbox_bytes(connection: Connection) -> int:
    return connection.outbox_bytes


def _put_smallest_first(wait_list: WaitList) -> Iterator[int]:
    """Sorts the waiters: those that hold little need not wait for those above their share. Those that came meanwhile
    are last. Yields what each step costs: there may be thousands.
    """
    heap: list[tuple[int, int, Producer]] = []
    for number, one in enumerate([*wait_list.waiters]):
        heappush(heap, (held_by(one), number, one))
        yield 1
    at_once = len(heap) // HEAP_LOOKS  # what the last step costs
    smallest_first: dict[Producer, None] = {}
    while heap:
        smallest_first[heappop(heap)[2]] = None
        yield HEAP_LOOKS
    yield at_once
    waiting = dict.fromkeys(wait_list.waiters)
    wait_list.waiters = deque(one for one in smallest_first if one in waiting)
    wait_list.waiters.extend(one for one in waiting if one not in smallest_first)
    yield at_once
