"""Remembers why plans wait. Making a plan again takes as long as the plan is: thousands of messages, for each ACK that
gives room to one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from radiator.core.producer import Producer
from radiator.core.queues.target import Target
from radiator.core.routing.waiting import Waitable
from radiator.core.turn import TurnContext
from radiator.model.errors import Refusal

TRUSTED_S = 1.0  # then the plan is made again, although what it lacked is still lacking: bindings may have changed


@dataclass(frozen=True, slots=True)
class Lack:
    """A lack of room: in one of its queues a plan has `count` messages of `size` bytes, for which that queue, or
    something that it needs, has no room. batch_bytes: what the whole plan adds to a batch. is_commit: it is a COMMIT's.
    since_s: when the plan was made.
    """

    queue: Target
    count: int
    size: int
    batch_bytes: int
    is_commit: bool
    since_s: float


class Lacks:
    """all: the lacks of producers that wait with a plan of several messages. blocked: returns what the messages of a
    producer in a queue must wait for besides the queue's own room (Admission.blocked).
    """

    __slots__ = ("all", "blocked", "context")

    def __init__(
        self, context: TurnContext, blocked: Callable[[Producer, Target, bool, int, bool], Waitable | None]
    ) -> None:
        self.context = context
        self.blocked = blocked
        self.all: dict[Producer, Lack] = {}

    def note(
        self,
        producer: Producer,
        queue: Target,
        needs: dict[Target, tuple[int, int]],
        batch_bytes: int,
        is_commit: bool,
    ) -> None:
        """Keeps why the plan waits, unless it is of one or two messages. needs: messages and bytes for each queue."""
        count, size = needs[queue]
        if count + len(needs) > 2:
            self.all[producer] = Lack(queue, count, size, batch_bytes, is_commit, self.context.now_s)

    def forget(self, producer: Producer) -> None:
        """Drops it: the plan is made again, or will never be."""
        self.all.pop(producer, None)

    def still_waits(self, producer: Producer, waitable: Waitable) -> bool:
        """Whether its plan must still wait for this. False also if only a new plan can tell: after TRUSTED_S, or if
        something else is lacking now.
        """
        lack = self.all.get(producer)
        if lack is None or lack.queue.is_gone or self.context.now_s - lack.since_s >= TRUSTED_S:
            return False
        queue = lack.queue
        try:
            if not queue.judge(lack.count, lack.size):
                return queue is waitable
        except Refusal:
            return False
        size = lack.batch_bytes if queue.is_persistent else lack.size
        return self.blocked(producer, queue, queue.is_persistent, size, lack.is_commit) is waitable
