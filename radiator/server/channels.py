"""The channels of a connection: further connections of the broker, which share its transport and its session.

The broker gets Open and Closed of each once, in this order, with its commands between them; and the Closed of every
channel before that of its connection.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Generic

from radiator.model.commands import Closed, Heard, Open, Read
from radiator.model.limits import COMMANDS_AT_ONCE
from radiator.server.outbox import ChannelsBuffer
from radiator.server.shared import One, Shared

_number = attrgetter("connection")
_BOUNDS = frozenset((Open, Closed))


class Channels(Generic[One]):
    """The channels of `connection`, whose own number is `number`. `put` is called with all that its session returns
    once the connection is open.
    """

    __slots__ = ("_connection", "_held_bytes", "_number", "_numbers", "_outbox", "_shared")

    def __init__(self, shared: Shared[One], connection: One, number: int, outbox: ChannelsBuffer) -> None:
        self._shared = shared
        self._connection = connection
        self._number = number
        self._outbox = outbox
        self._held_bytes = 0  # what the session holds, as last reported to the broker
        self._numbers: set[int] = set()

    def put(self, commands: list[Heard], size: int, held_bytes: int, address: str, tls: str | None) -> int:
        """Puts these commands into the inbox: one read of `size` bytes gave them. Returns the number of this connection
        if it has put more commands than others wait for, or 0.
        """
        runs: Iterable[tuple[int, Iterable[Heard]]] = groupby(commands, _number)
        if len(commands) == 1:
            runs = ((commands[0].connection, commands),)  # the usual case, without the cost of groupby
        for number, group in runs:
            run = [*group]
            if not _BOUNDS.isdisjoint(map(type, run)):
                run = self._put_bounds(number, run, address, tls)
            if self._put_read(number, run, size):
                size = 0  # the whole read is counted with its first commands
        if size or held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            self._shared.inbox.put(Read(self._number, [], held_bytes), size)
        return self._number if len(commands) > COMMANDS_AT_ONCE else 0

    def _put_bounds(self, number: int, commands: list[Heard], address: str, tls: str | None) -> list[Heard]:
        """Puts each Open and Closed of one connection, and the commands between them; returns the commands that are
        left.
        """
        run: list[Heard] = []
        for command in commands:
            if isinstance(command, Open):
                command.address, command.tls = address, tls
                self._numbers.add(number)
                self._shared.open[number] = self._connection
                self._shared.inbox.put(command, 0, self._number)
            elif isinstance(command, Closed):
                self._put_read(number, run, 0)
                run = []
                self.over(number, command.cause)
            else:
                run.append(command)
        return run

    def _put_read(self, number: int, run: list[Heard], size: int) -> bool:
        if not run or (number not in self._numbers and number != self._number):
            return False
        held_bytes = self._held_bytes if number == self._number else 0
        heard = Read(number, run, held_bytes)  # type: ignore[arg-type]  # Opens and Closeds are out
        self._shared.inbox.put(heard, size, self._number)
        return True

    def over(self, number: int, cause: str) -> None:
        """Reports that a channel has ended. May be called again."""
        if number in self._numbers:
            self._numbers.remove(number)
            del self._shared.open[number]
            self._outbox.forget(number)
            self._shared.inbox.put(Closed(number, cause), 0, self._number)

    def all_over(self, cause: str) -> None:
        """Ends all channels, as their connection ends."""
        for number in sorted(self._numbers):
            self.over(number, cause)
