"""Messages that do not wait: a consumer with room gets one in the turn in which it becomes READY, or nobody does.

These are the messages with a time to live of 0, and all messages of a queue that keeps nothing: one whose bound is 0,
and that drops its oldest message when full.
"""

from radiator.core.queues.bounds import PassingQueue, push_out
from radiator.core.queues.entry import Entry, PassingEntry
from radiator.core.states import Event, State
from radiator.core.turn import TurnContext
from radiator.model.limits import COMMANDS_PER_TURN, STEP_MESSAGES


def end_turn(context: TurnContext) -> bool:
    """Expires or drops messages that may not wait, became READY in this turn, and went to no consumer: at most
    STEP_MESSAGES, fewer if they become dead letters. Returns whether another turn must do the rest.
    """
    passing, before = context.passing, context.dead_letters_cost
    ended = 0
    for _ in range(STEP_MESSAGES):
        if ended == len(passing) or context.dead_letters_cost - before >= COMMANDS_PER_TURN:
            break
        queue, entry = passing[ended]
        ended += end(queue, entry)
        queue.watch_head()
    del passing[:ended]
    return bool(passing)


def end(queue: PassingQueue, entry: Entry) -> bool:
    """Called when the turn in which that entry became READY is over. An entry with others before it expires when its
    turn comes. An entry that may wait now, because the queue was given a bound of more than 0 meanwhile, stays. Returns
    False if another message went, and this must be called again.
    """
    if isinstance(entry, PassingEntry):
        entry.is_fresh = False
    if queue.is_gone or entry.state is not State.READY:
        return True
    if queue.keeps_nothing:
        oldest = queue.oldest()
        if oldest is not None:
            push_out(queue, oldest, Event.DROP)
            # others are there if the queue kept messages until its settings were read again: they go too
            return entry.state is not State.READY
    # a stub is read back before it becomes a dead letter, as every message that expires (background.py)
    elif _has_no_time(entry) and queue.peek_head() is entry and queue.take_head() is not None:
        queue.expire(entry)  # the clock was set back, so that it has not expired yet
    return True


def _has_no_time(entry: Entry) -> bool:
    """Whether the message's time to live is 0."""
    return 0 < entry.message.expires_ms == entry.message.accepted_ms


def is_passing(entry: Entry | None) -> bool:
    """Whether the entry may not wait, and the turn in which it became READY is not over."""
    return type(entry) is PassingEntry and entry.is_fresh
