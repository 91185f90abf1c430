"""The channels of a connection: further connections of the broker, which share its transport and its session.

The broker gets Open and Closed of each once, in this order, with its commands between them; and the Closed of every
channel before that of its connection.
"""

from itertools import groupby
from operator import attrgetter
from typing import Generic

from radiator.model.commands import Closed, Heard, Open, Read
from radiator.model.limits import COMMANDS_AT_ONCE
from radiator.server.outbox import ChannelsBuffer
from radiator.server.shared import One, Shared

_number = attrgetter("connection")


class Channels(Generic[One]):
    """Those of `connection`, which has that number; `put` takes what its session has heard once it is open itself."""

    __slots__ = ("_connection", "_number", "_numbers", "_outbox", "_shared")

    def __init__(self, shared: Shared[One], connection: One, number: int, outbox: ChannelsBuffer) -> None:
        self._shared = shared
        self._connection = connection
        self._number = number
        self._outbox = outbox
        self._numbers: set[int] = set()

    def put(self, commands: list[Heard], size: int, held_bytes: int, address: str, tls: str | None) -> int:
        """Hands them to the broker, as what one read of so many bytes has given. Returns the number of a connection
        that has put more than others wait for, or 0.
        """
        inbox = self._shared.inbox
        behind = 0
        run: list[Heard]
        for number, group in groupby(commands, _number):
            run = []
            for command in group:
                if isinstance(command, Open):
                    command.address, command.tls = address, tls
                    self._numbers.add(number)
                    self._shared.open[number] = self._connection
                    inbox.put(command)
                elif isinstance(command, Closed):
                    self._put_read(number, run, 0)
                    run = []
                    self.over(number, command.cause)
                else:
                    run.append(command)
            self._put_read(number, run, 0)
            if len(run) > COMMANDS_AT_ONCE:
                behind = number
        inbox.put(Read(self._number, [], held_bytes), size)
        return behind

    def _put_read(self, number: int, run: list[Heard], size: int) -> None:
        if run and (number in self._numbers or number == self._number):
            self._shared.inbox.put(Read(number, run, 0), size)  # type: ignore[arg-type]  # Opens and Closeds are out

    def over(self, number: int, cause: str) -> None:
        """One has ended; may be called again."""
        if number in self._numbers:
            self._numbers.remove(number)
            del self._shared.open[number]
            self._outbox.forget(number)
            self._shared.inbox.put(Closed(number, cause))

    def all_over(self, cause: str) -> None:
        """Their connection ends."""
        for number in sorted(self._numbers):
            self.over(number, cause)
