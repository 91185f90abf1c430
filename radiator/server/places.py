"""Which clients have a place: the connected ones, and those that are half-open (they have not sent CONNECT, or are not
logged in yet).

Half-open connections have bounds of their own, in all and for each network, so that silent sockets never use up the
places of clients. When such a bound is reached, the new connection gets in, and another half-open one, chosen at
random, is closed. So no standing crowd keeps a client out, and of many clients that come at once some log in before
they are chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import randrange

from radiator.model.limits import LOOKED_AT_ONCE
from radiator.server.log import EventLog


@dataclass(slots=True)
class _Crowd:
    """The half-open connections of one network. is_logged: the log says that their bound is reached."""

    numbers: dict[int, None] = field(default_factory=dict)
    is_logged: bool = False


class Places:
    """Used on the hub only. Connections are identified by number. Links have no place here.

    half_open_each: how many of half_open_max may be of one network. setting: the setting that bounds connected clients.
    choose: returns a random number below its argument.
    """

    def __init__(
        self,
        connections_max: int,
        half_open_max: int,
        half_open_each: int,
        log: EventLog,
        setting: str = "max_connections",
        choose: Callable[[int], int] = randrange,
    ) -> None:
        self.connections_max = connections_max
        self.setting = setting
        self.half_open_max = half_open_max
        self.half_open_each = half_open_each
        self._log = log
        self._choose = choose
        self._connected: set[int] = set()
        self._half_open: dict[int, str] = {}  # the network of each half-open connection
        self._crowds: dict[str, _Crowd] = {}
        self._is_full_logged = False
        self._is_crowd_logged = False

    def bound(self, connections_max: int, half_open_max: int, half_open_each: int) -> None:
        """Sets the bounds from now on. Connected clients stay connected."""
        self.connections_max = connections_max
        self.half_open_max = half_open_max
        self.half_open_each = half_open_each

    def is_full(self, peer: str) -> bool:
        """Whether no further client can be connected. Logged once, until there is a place again.

        peer: the client that wants the place.
        """
        is_full = len(self._connected) >= self.connections_max
        if is_full and not self._is_full_logged:
            self._log.warning("connections_full", connections=self.connections_max, peer=peer)
        self._is_full_logged = is_full
        return is_full

    def enter(self, number: int, network: str) -> None:
        """Gives a connection a half-open place."""
        self._half_open[number] = network
        self._crowds.setdefault(network, _Crowd()).numbers[number] = None

    def connect(self, number: int) -> None:
        """Gives a half-open connection the place of a connected one: it has sent CONNECT."""
        self.leave(number)
        self._connected.add(number)

    def leave(self, number: int) -> None:
        """Frees the connection's place, if it has one."""
        self._connected.discard(number)
        network = self._half_open.pop(number, None)
        if network is None:
            return
        crowd = self._crowds[network]
        del crowd.numbers[number]
        if not crowd.numbers:
            del self._crowds[network]
        if len(self._half_open) <= self.half_open_max // 2:
            self._is_crowd_logged = False

    @property
    def connected(self) -> int:
        """The number of connections that have sent CONNECT."""
        return len(self._connected)

    @property
    def half_open_most(self) -> int | None:
        """The number of half-open connections of the network that has most of them; None: there are too many networks
        to look.
        """
        if len(self._crowds) > LOOKED_AT_ONCE:
            return None
        return max((len(crowd.numbers) for crowd in self._crowds.values()), default=0)

    @property
    def half_open(self) -> int:
        """The number of half-open connections."""
        return len(self._half_open)

    def is_half_open(self, number: int) -> bool:
        return number in self._half_open

    def in_the_way(self, network: str) -> int | None:
        """Returns the half-open connection to be closed before one more of that network is admitted; None: there is
        room.
        """
        crowd = self._crowds.get(network) if network else None
        if crowd is not None and len(crowd.numbers) >= self.half_open_each:
            if not crowd.is_logged:
                self._log.warning("half_open_full", connections=len(crowd.numbers), network=network)
            crowd.is_logged = True
            return self._one_of(crowd.numbers)
        if len(self._half_open) >= self.half_open_max:
            if not self._is_crowd_logged:
                self._log.warning("half_open_full", connections=len(self._half_open), networks=len(self._crowds))
            self._is_crowd_logged = True
            return self._one_of(self._half_open)
        return None

    def _one_of(self, numbers: dict[int, None] | dict[int, str]) -> int:
        return list(numbers)[self._choose(len(numbers))]
