"""What requests of operators may ask of the broker: of all its parts these, and of some of them only this.

`Parts` (core/parts.py) is what stands behind them; nothing that asks knows it.
"""

from collections.abc import Callable, Mapping, Sized
from typing import Protocol

from radiator.core.answers import Answers
from radiator.core.clock import Clock
from radiator.core.cluster.cluster import Cluster
from radiator.core.connections import Connection
from radiator.core.logs.checkouts import Checkouts
from radiator.core.memory import Memory
from radiator.core.queues.entry import Entry
from radiator.core.queues.queue import Queue
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.transactions.prepared import PreparedTransactions
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.model.answers import AdminAnswer
from radiator.model.errors import Refusal
from radiator.model.limits import Limits
from radiator.model.message import Message


class Asker(Protocol):
    """Who has asked for something that takes several turns, and hears what has come of it."""

    def refuse(self, refusal: Refusal) -> None:
        """Nothing has changed."""

    def answer_synced(self, make: Callable[[], AdminAnswer], in_slices: bool = False) -> None:
        """What `make` returns, when the open batch is on the disk."""


class ReloadPort(Protocol):
    """Where a reload of config.toml is asked for."""

    @property
    def is_under_way(self) -> bool: ...

    def begin(self, asker: Asker, is_trial: bool) -> None:
        """Have the file read. is_trial: only say what would change."""


class QueueRemoval(Protocol):
    """Where a queue is deleted."""

    def delete(self, queue: Queue) -> None: ...


class Moves(Protocol):
    """What a message is that enters another queue."""

    def moved(self, queue: Queue, entry: Entry, target: Queue, reason: str | None) -> Message: ...


class Background(Protocol):
    """Where what takes several turns goes on."""

    def append(self, task: BackgroundTask) -> None: ...


class Disk(Protocol):
    """What the disk has and holds."""

    @property
    def high_water_bytes(self) -> int: ...

    def numbers(self) -> dict[str, int]: ...


class Blocked(Protocol):
    """The connections that wait for room."""

    @property
    def connections(self) -> Sized: ...


class AnsweringPort(Protocol):
    """What it takes to carry out a request, and to answer it."""

    @property
    def context(self) -> TurnContext: ...

    @property
    def admission(self) -> Admission: ...

    @property
    def answers(self) -> Answers: ...


class StateOfQueues(Protocol):
    """What says why a queue stands as it does."""

    @property
    def context(self) -> TurnContext: ...

    @property
    def admission(self) -> Admission: ...

    @property
    def destinations(self) -> Destinations: ...

    @property
    def checkouts(self) -> Checkouts: ...

    @property
    def cluster(self) -> Cluster | None: ...

    @property
    def memory(self) -> Memory: ...


class StatsPort(StateOfQueues, Protocol):
    """All that has numbers. half_open: connections that have not said CONNECT, as the shell has told."""

    version: str
    started_s: float
    half_open: int

    @property
    def limits(self) -> Limits: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def connections(self) -> Mapping[int, Connection]: ...

    @property
    def prepared(self) -> PreparedTransactions: ...

    @property
    def blocking(self) -> Blocked: ...

    @property
    def disk(self) -> Disk: ...


class AdminPort(AnsweringPort, StatsPort, Protocol):
    """What requests change."""

    @property
    def background(self) -> Background: ...

    @property
    def lifetimes(self) -> QueueRemoval: ...

    @property
    def dead_letters(self) -> Moves: ...

    @property
    def reload(self) -> ReloadPort: ...
