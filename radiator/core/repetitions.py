"""Requests whose numbers are answered again and again, until their connection ends.

The next answer is made when its period is over, and the operating system has taken the last one: a slow reader gets the
newest numbers, and no older ones wait for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from radiator.core.answers import Answers
from radiator.core.authorization import Authorization
from radiator.core.connections import Connection
from radiator.core.deadlines import Deadlines
from radiator.core.turn import TurnContext
from radiator.model.administration import AdminCommand
from radiator.model.commands import Administer
from radiator.model.errors import Refusal
from radiator.model.limits import JUDGED_LOOKS, REFUSED_LOOKS, REPEATED_AT_ONCE, TICK_S
from radiator.model.replies import Scope


@dataclass(slots=True, eq=False)
class Repetition:
    """administer: asks once more. command: what it asks for, to judge the right to it. due_s: when the next is due."""

    connection: Connection
    administer: Administer
    command: AdminCommand
    every_s: int
    due_s: float


class Repetitions:
    """At most one for each connection. ask: carries out an Administer."""

    __slots__ = ("answers", "ask", "authorization", "by_connection", "context", "due")

    ask: Callable[[Connection, Administer], None]  # given by the Broker: it needs the parts

    def __init__(self, context: TurnContext, authorization: Authorization, answers: Answers) -> None:
        self.context = context
        self.authorization = authorization
        self.answers = answers
        self.by_connection: dict[Connection, Repetition] = {}
        self.due: Deadlines[Repetition] = Deadlines(TICK_S)

    def begin(self, connection: Connection, administer: Administer, command: AdminCommand) -> None:
        """Called when a request was granted and answered once: answers it every `every_s` seconds from now on."""
        self.closed(connection)
        every_s = administer.every_s
        due_s = self.context.now_s + every_s
        one = Repetition(connection, replace(administer, every_s=0, is_again=True), command, every_s, due_s)
        self.by_connection[connection] = one
        self.due.add(one, one.due_s)

    def closed(self, connection: Connection) -> None:
        """Ends the repetition of a connection, if it has one."""
        one = self.by_connection.pop(connection, None)
        if one is not None:
            self.due.remove(one, one.due_s)

    def ticked(self) -> None:
        """Answers those whose period is over. One whose connection is not ready for that is tried at the next Tick, as
        are those past REPEATED_AT_ONCE.
        """
        now_s = self.context.now_s
        for one in self.due.take_due(now_s, REPEATED_AT_ONCE):
            connection = one.connection
            if connection.is_closing:
                del self.by_connection[connection]
                continue
            if connection.outbox_bytes or connection in self.answers.askers:
                one.due_s = now_s + TICK_S
            else:
                self.ask(connection, one.administer)
                one.due_s = max(one.due_s + one.every_s, now_s + TICK_S)
            self.due.add(one, one.due_s)

    def judge(self) -> Iterator[int]:
        """Called when the users have changed: ends those whose right is gone. Yields what each step costs, as in
        reload.py.
        """
        for connection, one in [*self.by_connection.items()]:
            yield JUDGED_LOOKS
            if connection.is_closing:
                continue
            try:
                self.authorization.check_request(connection, one.command)
            except Refusal as refusal:
                self.closed(connection)
                connection.refuse_on(self.context, refusal, scope=Scope.CHANNEL)
                yield REFUSED_LOOKS
