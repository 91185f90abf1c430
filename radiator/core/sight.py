"""Says what one client may see of all that there is, for answers that leave out the rest."""

from collections.abc import Callable

from radiator.core.authorization import Authorization
from radiator.core.connections import Connection
from radiator.model.addresses import LOG, QUEUE
from radiator.model.administration import AdminCommand, ExplainLog, ExplainQueue, ReadStats
from radiator.model.errors import Refusal

_EXPLAINED: dict[str, Callable[[str], AdminCommand]] = {QUEUE: ExplainQueue, LOG: ExplainLog}


class Sight:
    """The things that a client may see now. is_everything: it may see whatever there is, the broker's own numbers
    included.
    """

    __slots__ = ("authorization", "connection", "is_everything")

    def __init__(self, authorization: Authorization, connection: Connection) -> None:
        self.authorization = authorization
        self.connection = connection
        self.is_everything = self._may(ReadStats())

    def queue(self, name: str) -> bool:
        """Whether it may see the queue of that name."""
        return self.of(QUEUE, name)

    def of(self, kind: str, name: str) -> bool:
        """Whether it may see the queue or log of that name; things of other kinds only if it may see everything."""
        explained = _EXPLAINED.get(kind)
        return self.is_everything or (explained is not None and self._may(explained(name)))

    def _may(self, command: AdminCommand) -> bool:
        try:
            self.authorization.check_request(self.connection, command)
        except Refusal:
            return False
        return True
