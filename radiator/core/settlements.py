"""Settle: settles leased messages, each by its token. A long one runs in slices, and loses no verdict."""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from radiator.core.connections import Connection, ConsumedQueue, Delivery
from radiator.core.deadlines import Deadlines
from radiator.core.deliveries import needs_bytes, settle_in_turn
from radiator.core.lease_owner import Lease, Owner
from radiator.core.reading import Reading, one_slice
from radiator.core.routing.waiting import FLUSH, REST, Waitable, WaitList
from radiator.core.turn import TurnContext
from radiator.model.commands import Ack, Nack
from radiator.model.errors import Refusal
from radiator.model.leases import LEASE_OVER, Action, Settle, Settled, Settlement, Verdict
from radiator.model.limits import (
    ACKED_PER_BATCH,
    BATCH_BYTES,
    COMMANDS_PER_TURN,
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    SETTLED_AT_ONCE_MAX,
    STEP_MESSAGES,
    TIME_MAX_MS,
)

_OVER = Verdict(
    LEASE_OVER,
    "You hold no such lease: it was settled, has expired, or the broker has restarted. Messages not settled in time "
    "are redelivered.",
)


class Tokens:
    """The tokens by which clients name leases. key: valid for this run of the broker alone. boot: the run's number."""

    __slots__ = ("boot", "key")

    def __init__(self, key: bytes, boot: int) -> None:
        self.key = key
        self.boot = boot

    def of(self, number: int, owner: str) -> bytes:
        """Returns the token of the lease with this number: only a client of its owner that got it can settle it."""
        proof = hmac.digest(self.key, b"%d %x %b" % (self.boot, number, owner.encode()), "sha256")
        return b"%x.%b" % (number, urlsafe_b64encode(proof).rstrip(b"="))

    def number(self, token: bytes, owner: str) -> int:
        """Returns the number of the lease, which may be over. 0: this is no token, or another owner's."""
        text, _, _ = token[:20].partition(b".")
        if not text.isalnum():
            return 0
        try:
            number = int(text, 16)
        except ValueError:
            return 0
        return number if hmac.compare_digest(self.of(number, owner), token) else 0


@dataclass(slots=True, eq=False)
class Settling:
    """A Settle that is being carried out: a verdict for each settlement so far. is_persistent: whether its answer must
    wait until what was done is on the disk.
    """

    command: Settle
    verdicts: list[Verdict] = field(default_factory=list)
    is_persistent: bool = False
    queues: dict[ConsumedQueue, None] = field(default_factory=dict)


class Settlements:
    """ends: when leases are over. on_left, read_back, batch_wait_list: as in acks.py. settling: by connection, the
    Settle that is not done.
    """

    __slots__ = ("batch_wait_list", "context", "ends", "on_left", "read_back", "settling", "tokens")

    def __init__(
        self,
        context: TurnContext,
        tokens: Tokens,
        ends: Deadlines[Lease],
        *,
        on_left: Callable[[ConsumedQueue], None],
        read_back: Callable[[list[Delivery]], Reading],
        batch_wait_list: WaitList,
    ) -> None:
        self.context = context
        self.tokens = tokens
        self.ends = ends
        self.on_left = on_left
        self.read_back = read_back
        self.batch_wait_list = batch_wait_list
        self.settling: dict[Connection, Settling] = {}

    def settle(self, connection: Connection, owner: Owner | None, command: Settle) -> Waitable | None:
        """Carries out the command, or a slice of it; returns what the rest must wait for. owner: the owner of the
        client's leases, or None. Raises Refusal.
        """
        count = len(command.settlements)
        if count > SETTLED_AT_ONCE_MAX:
            raise Refusal("too-large", f"{count} settlements: one Settle has at most {SETTLED_AT_ONCE_MAX}.")
        settling = self.settling.get(connection)
        if settling is None or settling.command is not command:
            settling = self.settling[connection] = Settling(command)
        waitable = self._go_on(owner, settling)
        for queue in settling.queues:
            queue.pump()
            self.on_left(queue)
        settling.queues.clear()
        if owner is not None:
            owner.offer()
        if waitable is None:
            del self.settling[connection]
            # D40: what each verdict says is in the open batch, or in one before it
            answer = Settled(connection.number, command.receipt, settling.verdicts)
            connection.say(self.context, answer, settling.is_persistent)
        return waitable

    def _go_on(self, owner: Owner | None, settling: Settling) -> Waitable | None:
        """Settles as much as the turn and the batch have room for. None: all is done."""
        context, settlements = self.context, settling.command.settlements
        before = len(settling.verdicts)
        while len(settling.verdicts) < len(settlements):
            if context.handled >= STEP_MESSAGES or context.settled_cost >= COMMANDS_PER_TURN:
                return REST if len(settling.verdicts) > before else FLUSH
            if len(context.open.writes) >= ACKED_PER_BATCH or context.open.size >= BATCH_BYTES:
                return self.batch_wait_list
            settlement = settlements[len(settling.verdicts)]
            lease = self._find(owner, settlement.lease)
            wrong = _mistake(settlement)
            if lease is None or wrong:
                settling.verdicts.append(_OVER if lease is None else Verdict("bad-request", wrong))
            elif settlement.action is Action.EXTEND:
                self.extend(lease, settlement.lease_ms)
                settling.verdicts.append(Verdict())
            else:
                word = _as_command(settlement)
                if needs_bytes(word, lease.delivery):
                    return self.read_back(one_slice(self._lacking(lease.owner, settling)))
                self.forget(lease)
                lease.delivery.leave_window()
                settle_in_turn(word, lease.delivery)
                queue = lease.delivery.subscription.queue
                settling.queues[queue] = None
                settling.is_persistent = settling.is_persistent or queue.is_persistent
                settling.verdicts.append(Verdict())
            context.handled += 1
        return None

    def _lacking(self, owner: Owner, settling: Settling) -> list[Delivery]:
        """Returns the deliveries not settled yet whose bytes must be read back first."""
        found: dict[Delivery, None] = {}
        for settlement in settling.command.settlements[len(settling.verdicts) :]:
            lease = self._find(owner, settlement.lease)
            is_extended = settlement.action is Action.EXTEND or _mistake(settlement)
            if lease is not None and not is_extended and needs_bytes(_as_command(settlement), lease.delivery):
                found[lease.delivery] = None
        return [*found]

    def _find(self, owner: Owner | None, token: bytes) -> Lease | None:
        """Returns the lease, if it is this owner's and not over."""
        if owner is None:
            return None
        lease = owner.leases.get(self.tokens.number(token, owner.name))
        if lease is None or lease.due_s <= self.context.now_s:
            return None
        if not lease.delivery.is_out and not lease.delivery.subscription.queue.is_gone:
            self.forget(lease)  # the read-back found it damaged
            lease.delivery.leave_window()
            return None
        return lease

    def forget(self, lease: Lease) -> None:
        """Ends a lease: its token no longer settles anything."""
        lease.owner.leases.pop(lease.number, None)
        self.ends.remove(lease, lease.due_s)

    def closed(self, connection: Connection) -> None:
        """Called when a connection is closed: drops the rest of its Settle, for whose answer nobody waits."""
        self.settling.pop(connection, None)

    def extend(self, lease: Lease, lease_ms: int | None) -> None:
        """Makes a lease end that long from now; None: its original time from now."""
        self.ends.remove(lease, lease.due_s)
        lease.due_s = self.context.now_s + (lease.lease_s if lease_ms is None else lease_ms / 1000)
        self.ends.add(lease, lease.due_s)


def _mistake(settlement: Settlement) -> str:
    """Returns a sentence that says what is wrong with a settlement; "": nothing."""
    delay_ms, lease_ms, action = settlement.delay_ms, settlement.lease_ms, settlement.action
    if delay_ms is not None and action is not Action.RELEASE:
        return f"{action.value} with delay_ms: only what is released comes back after a time."
    if lease_ms is not None and action is not Action.EXTEND:
        return f"{action.value} with lease_ms: only what is extended stays leased."
    if delay_ms is not None and not 0 <= delay_ms <= TIME_MAX_MS:
        return f"delay_ms is {delay_ms}: it must be 0 to {TIME_MAX_MS}."
    if lease_ms is not None and not LEASE_MIN_MS <= lease_ms <= LEASE_MAX_MS:
        return f"lease_ms is {lease_ms}: it must be {LEASE_MIN_MS} to {LEASE_MAX_MS}."
    return ""


def _as_command(settlement: Settlement) -> Ack | Nack:
    """Returns the ACK or NACK that the settlement amounts to."""
    return _COMMANDS[settlement.action](settlement)


_COMMANDS: dict[Action, Callable[[Settlement], Ack | Nack]] = {
    Action.ACK: lambda settlement: Ack(0, settlement.lease),
    Action.RELEASE: lambda settlement: Nack(0, settlement.lease, delay_ms=settlement.delay_ms),
    Action.REJECT: lambda settlement: Nack(0, settlement.lease, requeue=False),
}
