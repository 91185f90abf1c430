"""Connections whose next command must wait: for room, for the disk, or for what is read back first.

A connection that is blocked is not read from. Its commands wait in order, and those who wait for the same thing go on
first come, first served, as far as there is room.
"""

from collections.abc import Callable, Iterator

from radiator.core.connections import Connection
from radiator.core.queues.target import Target
from radiator.core.routing.admission import Admission
from radiator.core.routing.waiting import FLUSH, Waitable, WaitList
from radiator.core.transactions.applying import PreparedDelivery
from radiator.core.turn import TurnContext
from radiator.model.commands import Administer, Command, Read, Send
from radiator.model.errors import Refusal
from radiator.model.limits import REFUSED_LOOKS, Limits
from radiator.model.replies import Pause, Resume


class Blocking:
    """connections: those that are blocked, by number, in the order in which they began to wait. unblocked: what may
    have room again since its waiters were last tried.

    carry_out: carries out one command, and returns what it must wait for. postpone: a Read whose commands go on before
    all others of the next turn. go_on_prepared: the same as `go_on` for a prepared transaction that waits here too.
    """

    __slots__ = (
        "carry_out", "connections", "context", "go_on_prepared", "admission", "limits", "postpone", "unblocked",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        admission: Admission,
        unblocked: dict[Waitable, None],
        *,
        carry_out: Callable[[Connection, Command], Waitable | None],
        postpone: Callable[[Read], None],
        go_on_prepared: Callable[[PreparedDelivery, Waitable], bool],
    ) -> None:
        self.context = context
        self.limits = limits
        self.admission = admission
        self.unblocked = unblocked
        self.carry_out = carry_out
        self.postpone = postpone
        self.go_on_prepared = go_on_prepared
        self.connections: dict[int, Connection] = {}

    def block(self, connection: Connection, commands: list[Command], room: Waitable) -> None:
        """The first of these commands must wait for that, and the others behind it."""
        connection.blocked.extend(commands)
        connection.parked_bytes = sum(c.size for c in commands if isinstance(c, Send | Administer))
        connection.parked_since_s = self.context.now_s
        connection.waits_for = room
        room.waiters.append(connection)
        self.connections[connection.number] = connection
        self.context.post(Pause(connection.number))

    def add(self, connection: Connection, commands: list[Command]) -> None:
        """What a blocked connection had said before its reader stopped."""
        connection.blocked.extend(commands)
        connection.parked_bytes += sum(c.size for c in commands if isinstance(c, Send | Administer))

    def unblock(self, connection: Connection) -> None:
        """It waits no longer; what it has not carried out is forgotten."""
        room = connection.waits_for
        assert isinstance(room, WaitList | Target)
        room.waiters.remove(connection)
        if room.waiters:
            self.unblocked[room] = None
        connection.waits_for = None
        connection.blocked.clear()
        connection.parked_bytes = 0
        connection.parked_total_s += self.context.now_s - connection.parked_since_s
        self.admission.forget_found(connection)
        del self.connections[connection.number]

    def has_room(self, room: Waitable) -> None:
        """Those who wait for it are tried again, by `retry`."""
        if room.waiters:
            self.unblocked[room] = None

    def retry(self) -> None:
        """Commands go on, first come, first served, as far as there is room. Of one connection's that need much room
        each, one goes, and then it is the turn of the next.
        """
        while self.unblocked:
            room = next(iter(self.unblocked))
            del self.unblocked[room]
            while room.waiters and self.go_on(room.waiters[0], room):
                pass

    def go_on(self, connection: Connection, room: Waitable) -> bool:
        """Carry out what it has waiting. False: it still waits for this very room."""
        if isinstance(connection, PreparedDelivery):
            return self.go_on_prepared(connection, room)
        went_on = False
        while connection.blocked and not connection.is_closing:
            blocked = self.carry_out(connection, connection.blocked[0])
            if blocked is FLUSH:
                commands = list(connection.blocked)
                self.unblock(connection)
                self.context.post(Resume(connection.number))
                self.postpone(Read(connection.number, commands, connection.buffered_bytes))
                return True
            if blocked is room and not (went_on and len(room.waiters) > 1):
                return False
            if blocked is not None:
                room.waiters.remove(connection)
                blocked.waiters.append(connection)
                connection.waits_for = blocked
                return True
            connection.blocked.popleft()
            went_on = True
        if connection.number in self.connections:
            self.unblock(connection)
            self.context.post(Resume(connection.number))
        return True

    # ---- for how long -----------------------------------------------------------------------------------------------

    def refuse_late(self) -> Iterator[int]:
        """After block_timeout_s a SEND is refused as with `reject`. What that costs as it goes on, as in rounds.py."""
        for connection in [*self.connections.values()]:
            if self.context.now_s - connection.parked_since_s < self.limits.block_timeout_s:
                return
            yield 1
            # it may have gone on, or gone, while others had their turns; what was read with it has waited as long
            while connection.number in self.connections and self.refuse_first(connection):
                yield REFUSED_LOOKS

    def refuse_first(self, connection: Connection) -> bool:
        """Its first command, where it has waited for too long: what is behind it goes on, if it asked for that in
        `on-refusal`. False: it has not.
        """
        now_s, limit_s, room = self.context.now_s, self.limits.block_timeout_s, connection.waits_for
        if (isinstance(room, WaitList) and not room.is_timed) or now_s - connection.parked_since_s < limit_s:
            return False  # it needs no room, and ends
        assert isinstance(room, WaitList | Target)
        name = f"/queue/{room.name}" if isinstance(room, Target) else room.name
        refusal = Refusal("blocked", f"No room for {limit_s:g} s: {name} has none (block_timeout_s).")
        command = connection.blocked[0]
        if not connection.survives_refusal(command):
            self.unblock(connection)
            connection.refused(self.context, command, refusal)
            return True
        connection.refused(self.context, command, refusal)
        connection.blocked.popleft()
        connection.parked_bytes -= command.size if type(command) is Send else 0
        self.admission.forget_found(connection)
        self.go_on(connection, room)
        self.has_room(room)
        if connection.waits_for not in (None, room):  # for other room it has only begun to wait
            connection.parked_total_s += now_s - connection.parked_since_s
            connection.parked_since_s = now_s
            self.connections[connection.number] = self.connections.pop(connection.number)
        return True
