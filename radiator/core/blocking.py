"""Connections whose next command must wait: for room, for the disk, or for messages that are read back first.

A blocked connection is not read from. Its commands wait in order, and connections that wait for the same thing go on
first come, first served, as far as there is room.
"""

from collections.abc import Callable, Iterator

from radiator.core.connections import Connection
from radiator.core.producer import Producer
from radiator.core.routing.admission import Admission
from radiator.core.routing.turn_shares import TurnShares
from radiator.core.routing.waiting import FLUSH, REST, Waitable, WaitList, name_of_waitable
from radiator.core.transactions.applying import PreparedDelivery
from radiator.core.turn import TurnContext
from radiator.model.commands import Administer, Command, PublishAll, Read, Send
from radiator.model.errors import Refusal
from radiator.model.limits import COMMANDS_PER_TURN, READS_PER_TURN, REFUSED_LOOKS, Limits
from radiator.model.replies import Pause, Resume


class Blocking:
    """connections: those that are blocked, by number, in the order in which they began to wait. unblocked: what may
    have room again since its waiters were last tried.

    carry_out: carries out one command, and returns what it must wait for. postpone: a Read whose commands go on before
    all others of the next turn. go_on_prepared: the same as `go_on` for a prepared transaction that waits here too.
    turn_number, left: how much may still go on in this turn, in commands. going_on: what was being tried when the last
    turn was full; it is tried first in the next, so that of two lists whose waiters move from one to the other, one
    empties first.
    """

    __slots__ = (
        "admission", "carry_out", "turn_shares", "connections", "context", "going_on", "go_on_prepared", "left",
        "limits", "postpone", "turn_number", "unblocked",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        admission: Admission,
        unblocked: dict[Waitable, None],
        turn_shares: TurnShares,
        *,
        carry_out: Callable[[Connection, Command], Waitable | None],
        postpone: Callable[[Read], None],
        go_on_prepared: Callable[[PreparedDelivery, Waitable], bool],
    ) -> None:
        self.context = context
        self.limits = limits
        self.admission = admission
        self.unblocked = unblocked
        self.turn_shares = turn_shares
        self.carry_out = carry_out
        self.postpone = postpone
        self.go_on_prepared = go_on_prepared
        self.connections: dict[int, Connection] = {}
        self.turn_number = self.left = 0
        self.going_on: Waitable | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether `retry` has something to try."""
        return bool(self.unblocked or self.turn_shares.wait_list.waiters) or self.going_on is not None

    def block(self, connection: Connection, commands: list[Command], waitable: Waitable) -> None:
        """Blocks a connection: the first of these commands must wait for that, and the others behind it."""
        connection.blocked.extend(commands)
        connection.blocked_bytes = sum(c.size for c in commands if isinstance(c, Send | Administer | PublishAll))
        connection.blocked_since_s = self.context.now_s
        connection.waits_for = waitable
        waitable.waiters.append(connection)
        self.connections[connection.number] = connection
        is_brief = isinstance(waitable, WaitList) and waitable.is_brief
        cause = "" if is_brief else f"No room: {name_of_waitable(waitable)} has none."
        self.context.post(Pause(connection.number, cause))

    def add(self, connection: Connection, commands: list[Command]) -> None:
        """Adds the commands that a blocked connection had sent before its reader stopped."""
        connection.blocked.extend(commands)
        connection.blocked_bytes += sum(c.size for c in commands if isinstance(c, Send | Administer | PublishAll))

    def unblock(self, connection: Connection) -> None:
        """Ends the wait of a connection; its commands that were not carried out are forgotten."""
        waitable = connection.waits_for
        assert isinstance(waitable, Waitable)
        waitable.waiters.remove(connection)
        if waitable.waiters:
            self.unblocked[waitable] = None
        connection.waits_for = None
        connection.blocked.clear()
        connection.blocked_bytes = 0
        connection.blocked_total_s += self.context.now_s - connection.blocked_since_s
        self.admission.forget_wait(connection)
        del self.connections[connection.number]

    def wake_waiters(self, waitable: Waitable) -> None:
        """Has `retry` try again those that wait for it."""
        if waitable.waiters:
            self.unblocked[waitable] = None

    def retry(self) -> None:
        """Carries out waiting commands, first come, first served, while there is room and the turn is not full. Where a
        connection's commands need much room each, only one of them goes before the next connection's.
        """
        if self.turn_number != self.context.turn_number:
            self.turn_number, self.left = self.context.turn_number, COMMANDS_PER_TURN
        self.wake_waiters(self.turn_shares.wait_list)
        while self.left > 0 and (self.unblocked or self.going_on is not None):
            waitable, self.going_on = self.going_on, None
            if waitable is None:
                waitable = next(iter(self.unblocked))
                del self.unblocked[waitable]
            while self.left > 0 and waitable.waiters and self.go_on(waitable.waiters[0], waitable):
                pass
            if self.left <= 0:
                self.going_on = waitable

    def go_on(self, producer: Producer, waitable: Waitable) -> bool:
        """Carries out what the producer has waiting. False: it still waits for this very room, or for the next turn."""
        self.left -= COMMANDS_PER_TURN // READS_PER_TURN
        if self.admission.lacks.still_waits(producer, waitable):
            return False
        if isinstance(producer, Connection):
            return self.go_on_connection(producer, waitable)
        assert isinstance(producer, PreparedDelivery), "nothing else waits for room"
        return self.go_on_prepared(producer, waitable)

    def go_on_connection(self, connection: Connection, waitable: Waitable) -> bool:
        """Carries out its commands, in order."""
        went_on = False
        while connection.blocked and not connection.is_closing:
            if went_on and self.left <= 0:
                return False
            blocked = self.carry_out(connection, connection.blocked[0])
            self.left -= 1
            if blocked is None and self.turn_shares.is_turn_full:
                self.left = 0
            if blocked is FLUSH or blocked is REST:
                commands = list(connection.blocked)
                self.unblock(connection)
                self.context.post(Resume(connection.number))
                self.postpone(Read(connection.number, commands, connection.buffered_bytes))
                self.left = 0
                return True
            if blocked is waitable and not (went_on and len(waitable.waiters) > 1):
                return False
            if blocked is not None:
                waitable.waiters.remove(connection)
                blocked.waiters.append(connection)
                connection.waits_for = blocked
                return True
            del connection.blocked[0]
            went_on = True
        if connection.number in self.connections:
            self.unblock(connection)
            self.context.post(Resume(connection.number))
        return True

    # ---- for how long -----------------------------------------------------------------------------------------------

    def refuse_late(self) -> Iterator[int]:
        """Refuses each SEND that has waited for block_timeout_s, as with `reject`. Yields what each step costs, as in
        rounds.py.
        """
        for connection in [*self.connections.values()]:
            if self.context.now_s - connection.blocked_since_s < self.limits.block_timeout_s:
                return
            yield 1
            # it may have gone on, or closed, since the last step; commands read with its first have waited as long
            while connection.number in self.connections and self.refuse_first(connection):
                yield REFUSED_LOOKS

    def refuse_first(self, connection: Connection) -> bool:
        """Refuses its first command if that has waited for too long; the commands behind it go on if its `on-refusal`
        asks for that. False: it has not waited for too long.
        """
        now_s, limit_s, waitable = self.context.now_s, self.limits.block_timeout_s, connection.waits_for
        if (isinstance(waitable, WaitList) and not waitable.is_timed) or now_s - connection.blocked_since_s < limit_s:
            return False  # this wait is not for room, and ends by itself
        assert isinstance(waitable, Waitable)
        name = name_of_waitable(waitable)
        refusal = Refusal("blocked", f"No room for {limit_s:g} s: {name} has none (block_timeout_s).")
        command = connection.blocked[0]
        if not connection.survives_refusal(command):
            self.unblock(connection)
            connection.refused(self.context, command, refusal)
            return True
        connection.refused(self.context, command, refusal)
        del connection.blocked[0]
        connection.blocked_bytes -= command.size if type(command) is Send else 0
        self.admission.forget_wait(connection)
        self.go_on(connection, waitable)
        self.wake_waiters(waitable)
        if connection.waits_for not in (None, waitable):  # it has only begun to wait for other room
            connection.blocked_total_s += now_s - connection.blocked_since_s
            connection.blocked_since_s = now_s
            self.connections[connection.number] = self.connections.pop(connection.number)
        return True
