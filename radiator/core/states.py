"""The life of a queued message, as tables: its states, the legal moves between them, what a crash makes of each.

`move` is the only function that changes a message's state. A move that is not in the table is a bug and stops the
program. A failed commit has no row: it halts the process before any reply is sent. The tables in docs/DURABILITY.md are
generated from these dictionaries.
"""

from enum import Enum
from typing import Protocol


class State(Enum):
    """The state of a message of a queue."""

    __hash__ = object.__hash__  # Enum's own is written in Python, and `move` looks up two for each step of each message

    STORING = "accepted, on its way to the disk"
    READY = "on the disk (in a memory queue: accepted), waiting for a consumer"
    UNACKED = "handed to a connection, not yet acked"
    IN_DOUBT = "offered to another node, which has not yet said that it is on its disk"
    REMOVING = "its removal is on its way to the disk"
    DELAYED = "on the disk (in a memory queue: accepted), and kept until its time"
    DUE = "its time has come, and its place in the queue is on its way to the disk"
    GONE = "left its queue"


class Event(Enum):
    """An event that can happen to a message of a queue."""

    __hash__ = object.__hash__

    COMMITTED = "the batch that holds its last change is on the disk"
    DELIVER = "handed to a consumer"
    ACK = "acked by the consumer"
    WRITTEN = "an ack:auto message was given to the operating system"
    NACK = "returned by the consumer"
    LOST = "its connection ended"
    OVERDUE = "not acked within ack_timeout_s, or within its lease"
    UNUSED = "its lease was ended by the broker, and does not count as a delivery"
    DELAY = "returned, and kept for a while"
    DUE = "its time has come"
    GIVE_UP = "returned, and on its way to the dead-letter queue, or dropped"
    OFFER = "offered to another node"
    TAKEN = "the other node has it on its disk"
    NOT_TAKEN = "the other node has not taken it, or the operator has released it"
    EXPIRE = "its time to live is over"
    DROP = "dropped by overflow, purge, delete or move"


S, E = State, Event

# Persistent queues. (state, event) -> next state.
PERSISTENT_MOVES: dict[tuple[State, Event], State] = {
    (S.STORING, E.COMMITTED): S.READY,
    (S.READY, E.DELIVER): S.UNACKED,
    (S.UNACKED, E.ACK): S.REMOVING,
    (S.UNACKED, E.WRITTEN): S.REMOVING,
    (S.UNACKED, E.NACK): S.READY,
    (S.UNACKED, E.LOST): S.READY,
    (S.UNACKED, E.OVERDUE): S.READY,
    (S.UNACKED, E.UNUSED): S.READY,
    (S.UNACKED, E.DELAY): S.DELAYED,
    (S.UNACKED, E.GIVE_UP): S.REMOVING,
    (S.UNACKED, E.EXPIRE): S.REMOVING,
    (S.DELAYED, E.DUE): S.DUE,
    (S.DELAYED, E.EXPIRE): S.REMOVING,
    (S.DELAYED, E.DROP): S.REMOVING,
    (S.DUE, E.COMMITTED): S.READY,
    (S.DUE, E.DROP): S.REMOVING,
    (S.READY, E.OFFER): S.IN_DOUBT,
    (S.IN_DOUBT, E.TAKEN): S.REMOVING,
    (S.IN_DOUBT, E.NOT_TAKEN): S.READY,
    (S.READY, E.EXPIRE): S.REMOVING,
    (S.READY, E.DROP): S.REMOVING,
    (S.STORING, E.DROP): S.REMOVING,
    (S.REMOVING, E.COMMITTED): S.GONE,
}

# Memory queues: no disk to wait for, so no STORING, no DUE and no REMOVING.
MEMORY_MOVES: dict[tuple[State, Event], State] = {
    (S.READY, E.DELIVER): S.UNACKED,
    (S.UNACKED, E.ACK): S.GONE,
    (S.UNACKED, E.WRITTEN): S.GONE,
    (S.UNACKED, E.NACK): S.READY,
    (S.UNACKED, E.LOST): S.READY,
    (S.UNACKED, E.OVERDUE): S.READY,
    (S.UNACKED, E.UNUSED): S.READY,
    (S.UNACKED, E.DELAY): S.DELAYED,
    (S.UNACKED, E.GIVE_UP): S.GONE,
    (S.UNACKED, E.EXPIRE): S.GONE,
    (S.DELAYED, E.DUE): S.READY,
    (S.DELAYED, E.EXPIRE): S.GONE,
    (S.DELAYED, E.DROP): S.GONE,
    (S.READY, E.EXPIRE): S.GONE,
    (S.READY, E.DROP): S.GONE,
}

# What the disk may show after a crash, for a persistent message that was in this state.
AFTER_A_CRASH: dict[State, tuple[frozenset[State], str]] = {
    S.STORING: (frozenset({S.READY, S.GONE}), "its receipt has not left: the producer sends again"),
    S.READY: (frozenset({S.READY}), "it is on the disk"),
    S.UNACKED: (frozenset({S.READY}), "being unacked is never written: at least once"),
    S.IN_DOUBT: (
        frozenset({S.READY, S.IN_DOUBT}),
        "it is sent to the other node only when the doubt is on the disk; the link settles it once it is back",
    ),
    S.REMOVING: (
        frozenset({S.READY, S.DELAYED, S.GONE}),
        "as before, until the receipt of its ACK may leave; a dead letter is in exactly one of the two queues",
    ),
    S.DELAYED: (
        frozenset({S.DELAYED, S.READY, S.GONE}),
        "DELAYED once that is on the disk; until then as before, and the receipt of its SEND or NACK has not left",
    ),
    S.DUE: (frozenset({S.DELAYED, S.READY}), "it is in exactly one of the two places"),
    S.GONE: (frozenset({S.GONE}), "its removal is on the disk"),
}


class IllegalMove(AssertionError):
    """A move that is not in the message's table: a bug."""


class Movable(Protocol):
    """Whatever has a state and knows its table."""

    state: State


def move(entry: Movable, event: Event, moves: dict[tuple[State, Event], State]) -> None:
    """Changes a state; this is the only place that does."""
    try:
        entry.state = moves[entry.state, event]
    except KeyError:
        raise IllegalMove(f"{event.name} does not apply to a message that is {entry.state.name}") from None
