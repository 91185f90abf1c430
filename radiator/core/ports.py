"""The parts of the broker that operators' requests use to be answered, and that the kinds of addresses use for requests
that declare, describe and delete. What other requests need is beside each of them (core/admin/).

`Parts` (core/parts.py) implements all of these ports; no user of a port knows that.
"""

from collections.abc import Callable
from typing import Protocol

from radiator.core.answers import Answers
from radiator.core.audit_writer import AuditWriter
from radiator.core.authorization import Authorization
from radiator.core.connections import Connection
from radiator.core.logs.checkouts import Checkouts
from radiator.core.queues.queue import Queue
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.model.answers import AdminAnswer
from radiator.model.disk import WalNumbers
from radiator.model.errors import Refusal
from radiator.model.limits import Limits


class Askers(Protocol):
    """Finds the temp queues of connections."""

    def asker(self, connection: Connection, name: str) -> Queue:
        """Returns the connection's temp queue to which answers go. Raises Refusal."""


class TurnBounds(Protocol):
    """The room that this turn has. copies: what it has made so far."""

    copies: int

    @property
    def incoming(self) -> Askers: ...

    def is_turn_full(self, copies: int) -> bool:
        """Whether what costs as much as so many copies must wait for the next turn."""


class AnsweringPort(Protocol):
    """The parts that it takes to carry out a request, and to answer it."""

    @property
    def context(self) -> TurnContext: ...

    @property
    def admission(self) -> TurnBounds: ...

    @property
    def answers(self) -> Answers: ...

    @property
    def audit(self) -> AuditWriter: ...

    @property
    def authorization(self) -> Authorization: ...


class Background(Protocol):
    """Runs what takes several turns."""

    def append(self, task: BackgroundTask) -> None: ...

    def __contains__(self, task: object) -> bool: ...


class Disk(Protocol):
    """The space of the disk, and what takes it."""

    @property
    def high_water_bytes(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...

    @property
    def wal(self) -> WalNumbers: ...

    def numbers(self) -> dict[str, int]: ...


class Requester(Protocol):
    """A request that takes several turns, to which the outcome is reported."""

    def refuse(self, refusal: Refusal) -> None:
        """Refuses the request: nothing has changed."""

    def answer_synced(self, make: Callable[[], AdminAnswer], in_slices: bool = False) -> None:
        """Answers with what `make` returns, when the open batch is on the disk."""


class ReloadPort(Protocol):
    """Takes requests for a reload of config.toml."""

    @property
    def is_under_way(self) -> bool: ...

    def begin(self, asker: Requester, is_trial: bool) -> None:
        """Has the file read. is_trial: only reports what would change."""


class QueueRemoval(Protocol):
    """Deletes queues."""

    def delete(self, queue: Queue, takes_unacked: bool = False) -> None: ...


class TopologyPort(AnsweringPort, Protocol):
    """The parts that kinds of addresses need to declare, describe and delete their destinations, and to report their
    numbers.
    """

    @property
    def background(self) -> Background: ...

    @property
    def checkouts(self) -> Checkouts: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def lifetimes(self) -> QueueRemoval: ...

    @property
    def limits(self) -> Limits: ...
