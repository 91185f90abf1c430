"""Messages that wait for nobody: a consumer that has room when one becomes READY gets it, or its time is over.

Those are the messages with a time to live of 0, and all messages of a queue that keeps nothing: one whose bound is 0,
and whose oldest message makes way.
"""

from radiator.core.queues.bounds import PassingQueue, push_out
from radiator.core.queues.entry import Entry, PassingEntry
from radiator.core.states import Event, State
from radiator.core.turn import TurnContext
from radiator.model.limits import STEP_MESSAGES


def end_turn(context: TurnContext) -> bool:
    """What became READY in this turn, and nobody has got, expires or is dropped. Returns whether another turn must do
    the rest.
    """
    passing = context.passing
    some = passing[:STEP_MESSAGES]
    del passing[:STEP_MESSAGES]
    for queue, entry in some:
        end(queue, entry)
    return bool(passing)


def end(queue: PassingQueue, entry: PassingEntry) -> None:
    """The turn in which that entry became READY is over. One that stands behind others expires when it is their
    turn.
    """
    entry.is_fresh = False
    if queue.is_gone or entry.state is not State.READY:
        return
    if queue.keeps_nothing:
        oldest = queue.oldest()
        if oldest is not None:
            push_out(queue, oldest, Event.DROP)
    elif queue.head() is entry:
        queue.take_head()


def is_passing(entry: Entry | None) -> bool:
    """Whether it may not wait, and the turn in which it became READY is not over."""
    return type(entry) is PassingEntry and entry.is_fresh
