"""Delivers committed prepared transactions: reads each back in slices, and puts every slice into its destinations in
the same batch that removes it from the stored transaction.

A slice that finds no room is halved, down to one SEND, which waits for room among the connections that send, first
come, first served; while it waits nothing of it is in memory. A refused slice is tried again from time to time.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from radiator.core.authorization import Authorization
from radiator.core.producer import Producer
from radiator.core.queues.target import Target
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.plan import Plan
from radiator.core.routing.waiting import FLUSH, Waitable, WaitList
from radiator.core.turn import Batch, TurnContext
from radiator.model.commands import LoadedPrepared, Send
from radiator.model.errors import Refusal, StoreError
from radiator.model.limits import APPLIES_AT_ONCE, LOAD_BYTES, LOAD_MESSAGES, STEP_MESSAGES, WAITS_NOTED_S
from radiator.model.principal import Principal
from radiator.model.reads import ReadPrepared
from radiator.model.writes import DropTransaction, KeepTransaction, RemovePrepared


@dataclass(slots=True, eq=False)
class StoredTransaction:
    """A prepared transaction, committed or not. waits: once it is committed, why it cannot go on, or None.

    principal: the principal that prepared it; its SENDs are authorized as that principal's. It is kept in memory only:
    after a restart it is None, or the principal that commits it then. If it was committed before that, its SENDs were
    judged then, and are not judged again.
    """

    number: int
    name: str
    count: int
    size: int
    prepared_ms: int
    applied: int = 0
    is_committed: bool = False
    waits: str | None = None
    principal: Principal | None = None

    def row(self) -> KeepTransaction:
        """Returns its row as it is now."""
        name = "" if self.is_committed else self.name
        return KeepTransaction(self.number, name, self.count, self.size, self.applied, self.prepared_ms)


class PreparedDelivery(Producer):
    """The delivery of one committed transaction: it puts the SENDs into their destinations, and waits for room as a
    producer among the connections.

    sends: the next SENDs, as far as they are in memory; take: the most that the next slice may have. asked: dedup
    look-ups that are under way. blocked_on: the wait list that it is in. is_asked: it is being read back, or waits for
    its turn to be. waits_since_s: when it last began to wait; is_noted: that has been logged.
    """

    is_promised = True

    __slots__ = ("asked", "is_asked", "is_noted", "blocked_on", "sends", "prepared", "take", "waits_since_s")

    def __init__(self, prepared: StoredTransaction) -> None:
        super().__init__()
        self.prepared = prepared
        self.sends: list[Send] = []
        self.take = LOAD_MESSAGES
        self.asked: set[WaitList] = set()
        self.blocked_on: Waitable | None = None
        self.is_asked = False
        self.is_noted = False
        self.waits_since_s = 0.0


class Applying:
    """All deliveries of committed transactions: a background task while any of them can go on. `schedule` begins it;
    unblocked: waitables whose waiters are to be tried again.

    At most APPLIES_AT_ONCE deliveries have a slice in memory or are being read; the others wait in `turns`. `loaded`:
    the deliveries that can go on.
    """

    __slots__ = (
        "deliveries", "authorization", "context", "destinations", "unblocked", "in_memory", "admission", "is_awake",
        "loaded", "refused", "turns", "schedule",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        destinations: Destinations,
        admission: Admission,
        unblocked: dict[Waitable, None],
        schedule: Callable[["Applying"], None],
        authorization: Authorization,
    ) -> None:
        self.context = context
        self.authorization = authorization
        self.destinations = destinations
        self.admission = admission
        self.unblocked = unblocked
        self.schedule = schedule
        self.deliveries: dict[PreparedDelivery, None] = {}
        self.turns: deque[PreparedDelivery] = deque()
        self.loaded: deque[PreparedDelivery] = deque()
        self.refused: deque[PreparedDelivery] = deque()
        self.in_memory = 0
        self.is_awake = False

    @property
    def count(self) -> int:
        """How many are not finished."""
        return len(self.deliveries)

    def committed(self) -> Iterator[StoredTransaction]:
        """Returns those that are not finished."""
        return (delivery.prepared for delivery in self.deliveries)

    def begin(self, prepared: StoredTransaction, batch: Batch | None = None) -> None:
        """Called when a transaction is committed: by that batch, or before the start."""
        delivery = PreparedDelivery(prepared)
        self.deliveries[delivery] = None
        if batch is None:
            self.ask(delivery)
        else:
            # until then the disk would not show it
            batch.then.append(lambda: self.ask(delivery))

    # ---- the background task ----------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return not self.can_go_on

    @property
    def can_go_on(self) -> bool:
        return bool(self.loaded) or (bool(self.turns) and self.in_memory < APPLIES_AT_ONCE)

    def step(self) -> None:
        """Has more SENDs read back, and puts one slice into the destinations."""
        while self.turns and self.in_memory < APPLIES_AT_ONCE:
            self.load(self.turns.popleft())
        if self.loaded:
            delivery = self.loaded.popleft()
            waitable = self.apply(delivery)
            if waitable is not None:
                self.wait_for(delivery, waitable)
        self.is_awake = self.can_go_on

    def stay_awake(self) -> None:
        """Becomes a background task of the broker, unless it is one already."""
        if not self.is_awake:
            self.is_awake = True
            self.schedule(self)

    # ---- reading back -----------------------------------------------------------------------------------------------

    def ask(self, delivery: PreparedDelivery) -> None:
        """Asks the disk for its next slice, when its turn comes."""
        delivery.is_asked = True
        self.turns.append(delivery)
        self.stay_awake()

    def load(self, delivery: PreparedDelivery) -> None:
        self.in_memory += 1
        prepared = delivery.prepared
        load = ReadPrepared(self.context.next_position(), prepared.number, prepared.applied, delivery.take, LOAD_BYTES)
        self.destinations.windows.waiting[load.request] = partial(self.answered, delivery, load)
        self.context.turn.read_requests.append(load)

    def answered(self, delivery: PreparedDelivery, load: ReadPrepared, answer: LoadedPrepared) -> None:
        """Called with what was read back. If some are damaged, they are read one by one, so that each SEND has its
        number.
        """
        delivery.is_asked = False
        delivery.sends = answer.sends
        self.admission.memory.waiting_bytes += _size(delivery.sends)
        if not answer.sends and not answer.damaged:
            raise StoreError(
                f"the prepared transaction {delivery.prepared.name!r} has no SEND {delivery.prepared.applied}"
            )
        is_whole = not answer.damaged
        if not is_whole and load.messages_max > 1:
            delivery.take = 1
            self.let_go(delivery)
            self.ask(delivery)
        elif not is_whole:
            self.give_up_one(delivery)
        elif delivery.blocked_on is not None:
            self.unblocked[delivery.blocked_on] = None
        else:
            self.go_on_with(delivery)

    def give_up_one(self, delivery: PreparedDelivery) -> None:
        """Gives up its next SEND, which can no longer be read."""
        prepared = delivery.prepared
        self.context.count("damaged_sends")
        self.context.note("error", "damaged_send", name=prepared.name, stage=prepared.number, number=prepared.applied)
        self.applied(delivery, 1)

    def go_on_with(self, delivery: PreparedDelivery) -> None:
        """Goes on with a transaction that waits for nothing any more."""
        self.loaded.append(delivery)
        self.stay_awake()

    def let_go(self, delivery: PreparedDelivery) -> None:
        """Drops a transaction's SENDs from memory: another may be read."""
        self.admission.memory.waiting_bytes -= _size(delivery.sends)
        delivery.sends = []
        self.has_let_go()
        self.admission.forget_wait(delivery)  # while they are kept, so are the ids stored since

    def has_let_go(self) -> None:
        """Called when one fewer is in memory: reads the next, because nothing else would start that."""
        self.in_memory -= 1
        if self.turns:
            self.stay_awake()

    # ---- into the destinations --------------------------------------------------------------------------------------

    def apply(self, delivery: PreparedDelivery) -> Waitable | None:
        """Puts one slice of what is in memory into its destinations; returns the room that it must wait for, if any."""
        while True:
            delivery.take = min(delivery.take, len(delivery.sends))
            try:
                plan = self.plan(delivery)
                if self.look_up(delivery, plan):
                    return None
                # what is for memory waits until its removal is on the disk: else it would come again after a crash
                delivery.rest_batch = self.context.open.number
                blocked = self.admission.apply_plan(delivery, plan)
            except Refusal as refusal:
                if delivery.take == 1:
                    self.refused.append(delivery)
                    self.let_go(delivery)
                    self.say_why(delivery, str(refusal))
                    return None
            else:
                if blocked is None:
                    # D30: in the batch that holds the Puts
                    self.applied(delivery, delivery.take)
                    return None
                if delivery.take == 1 or isinstance(blocked, WaitList):
                    return blocked
            delivery.take //= 2

    def plan(self, delivery: PreparedDelivery) -> Plan:
        """Returns what its next `take` SENDs would do: fewer, where that makes many copies. Raises Refusal."""
        self.authorization.check_prepared(delivery.prepared.principal, delivery.sends[: delivery.take])
        plan = Plan()
        size = 0
        for count, send in enumerate(delivery.sends[: delivery.take], 1):
            before = len(plan.puts)
            self.admission.router.plan(delivery, send, plan)
            size += sum(message.size for _, message, _, _ in plan.puts[before:])
            if size >= LOAD_BYTES or len(plan.puts) + len(plan.copies) >= STEP_MESSAGES:
                delivery.take = count
                break
        return plan

    def look_up(self, delivery: PreparedDelivery, plan: Plan) -> bool:
        """Whether the disk is asked about dedup-ids first; it is asked about the whole slice at once."""
        seen: set[tuple[Target, bytes]] = set()
        for queue, _, dedup_id, _ in plan.puts:
            if dedup_id is None or not queue.settings.dedup_window_s or queue.dedup is None:
                continue
            if (queue, dedup_id) not in seen:
                seen.add((queue, dedup_id))
                known = self.admission.is_known(delivery, queue.dedup, dedup_id)
                if isinstance(known, WaitList):
                    known.waiters.append(delivery)
                    delivery.asked.add(known)
        return bool(delivery.asked)

    def applied(self, delivery: PreparedDelivery, count: int) -> None:
        """Called when that many SENDs are in their destinations by the open batch."""
        prepared = delivery.prepared
        first = prepared.applied
        prepared.applied += count
        prepared.waits = None
        delivery.is_noted = False
        self.admission.memory.waiting_bytes -= _size(delivery.sends[:count])
        del delivery.sends[:count]
        delivery.take = min(LOAD_MESSAGES, 2 * delivery.take)
        if prepared.applied >= prepared.count:
            self.context.write(DropTransaction(prepared.number))
            self.leave_wait_list(delivery)
            del self.deliveries[delivery]
            self.has_let_go()
            return
        self.context.write(RemovePrepared(prepared.number, first, prepared.applied))
        self.context.write(prepared.row())
        if delivery.sends:
            self.go_on_with(delivery)
        else:
            self.has_let_go()
            self.ask(delivery)

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def wait_for(self, delivery: PreparedDelivery, waitable: Waitable) -> None:
        """Joins the wait list, behind those already there."""
        if waitable is FLUSH:
            self.go_on_with(delivery)
            return
        waitable.waiters.append(delivery)
        delivery.blocked_on = waitable
        self.wait_on(delivery, waitable)

    def wait_on(self, delivery: PreparedDelivery, waitable: Waitable) -> None:
        """Waits because there is no room; its SENDs leave memory, unless it only waits for the next batch."""
        if waitable not in self.admission.batch_lines.both:
            self.let_go(delivery)
            self.say_why(delivery, _why(waitable))

    def leave_wait_list(self, delivery: PreparedDelivery) -> None:
        """Leaves the wait list; others may go on."""
        waitable = delivery.blocked_on
        if waitable is not None:
            delivery.blocked_on = None
            waitable.waiters.remove(delivery)
            if waitable.waiters:
                self.unblocked[waitable] = None

    def go_on(self, delivery: PreparedDelivery, waitable: Waitable) -> bool:
        """Called when there may be room and it is first in the list. False: it still waits."""
        if isinstance(waitable, WaitList) and waitable in delivery.asked:
            waitable.waiters.popleft()
            delivery.asked.discard(waitable)
            if not delivery.asked and delivery.blocked_on is not None:
                self.unblocked[delivery.blocked_on] = None
            elif not delivery.asked:
                self.go_on_with(delivery)
            return True
        if delivery.asked or delivery.is_asked:
            return False
        if not delivery.sends:
            self.ask(delivery)
            return False
        blocked = self.apply(delivery)
        if delivery.asked:
            return False
        if blocked is waitable:
            self.wait_on(delivery, waitable)
            return False
        self.leave_wait_list(delivery)
        if blocked is not None:
            self.wait_for(delivery, blocked)
        return True

    def say_why(self, delivery: PreparedDelivery, why: str) -> None:
        """Keeps the reason why it waits, for `why`, and since when it does."""
        if delivery.prepared.waits is None:
            delivery.waits_since_s = self.context.now_s
        delivery.prepared.waits = why

    def ticked(self) -> None:
        """Tries some of what was refused again, and logs once each delivery that has waited for long."""
        for _ in range(min(APPLIES_AT_ONCE, len(self.refused))):
            self.ask(self.refused.popleft())
        for delivery in self.deliveries:
            prepared = delivery.prepared
            if (
                prepared.waits is None
                or delivery.is_noted
                or self.context.now_s - delivery.waits_since_s < WAITS_NOTED_S
            ):
                continue
            delivery.is_noted = True
            left = prepared.count - prepared.applied
            self.context.note("warning", "prepared_waits", name=prepared.name, messages=left, cause=prepared.waits)


def _size(sends: list[Send]) -> int:
    return sum(send.size for send in sends)


def _why(waitable: Waitable) -> str:
    if isinstance(waitable, WaitList):
        return f"The broker has no room: {waitable.name}."
    return f"/queue/{waitable.name} has no room."
