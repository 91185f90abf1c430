"""Judges queues with priorities in a history: nothing is handed over while something more urgent is ready, as the disk
says, and all that is written and on its way there.
"""

from radiator.core.queues.durable_queue import DurableQueue
from radiator.model.message import position_in
from radiator.model.priorities import priority_of
from radiator.model.replies import Deliver
from radiator.model.writes import Put, Remove, Write
from tests.sim.books import Books
from tests.sim.simulation import SimNode


class PriorityJudge:
    """handed: called with each MESSAGE as the node hands it over, behind the turn that has done so; begin: before each
    turn. What comes back in a turn may have come back behind what that has handed over: it is judged from the next one
    on. judged: so many were.
    """

    def __init__(self, node: SimNode, books: Books) -> None:
        self.node = node
        self.books = books
        self.judged = 0
        self.were_out: set[tuple[int, int]] = set()  # queue's number, position: as the turn began

    def begin(self) -> None:
        queues = self.node.broker.destinations.queues.all.values()
        self.were_out = {
            (queue.number, place)
            for queue in queues
            if isinstance(queue, DurableQueue) and queue.settings.max_priority is not None
            for place in queue.entries_out
        }

    def handed(self, name: str, deliver: Deliver) -> None:
        queue = self.node.broker.destinations.queues.find(name)
        if not isinstance(queue, DurableQueue) or queue.settings.max_priority is None or queue.purge.through:
            return
        self.judged += 1
        highest = queue.settings.max_priority
        priority = priority_of(deliver.message, highest)
        place = position_in(deliver.message_id)
        passed = [one for one, other in self.ready(queue, highest).items() if (-other, one) < (-priority, place)]
        if passed:
            what = f"{deliver.message.body!r} ({deliver.message_id!r}) of priority {priority} in {name}"
            self.books.mistakes.append(f"urgent: {what} is handed over before {len(passed)} that are more urgent")

    def ready(self, queue: DurableQueue, highest: int) -> dict[int, int]:
        """The priorities of all that may be delivered, by place."""
        there = {
            place: priority_of(message, highest)
            for (number, place), message in self.node.disk.platter.messages.items()
            if number == queue.number and place not in queue.entries_out and (number, place) not in self.were_out
        }
        writes: list[Write] = [*self.node.broker.context.open.writes]
        if self.node.being_committed is not None:
            writes += self.node.being_committed.writes
        for write in writes:
            if isinstance(write, Put | Remove) and write.queue == queue.number:
                there.pop(write.position, None)
        return there
