"""What was prepared and is committed, on its way into its destinations: read back in slices, each put there in the
batch that lets go of it on the disk.

A slice that finds no room is halved, down to one SEND, which waits for room among the connections that send: first
come, first served. Meanwhile nothing of it is in memory. What is refused is tried again from time to time.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from radiator.core.connections import Connection
from radiator.core.queues.target import Target
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.plan import Plan
from radiator.core.routing.waiting import FLUSH, Waitable, WaitList
from radiator.core.turn import Batch, TurnContext
from radiator.model.commands import LoadedPrepared, Send
from radiator.model.errors import Refusal, StoreError
from radiator.model.limits import APPLIES_AT_ONCE, CHORE_MESSAGES, LOAD_BYTES, LOAD_MESSAGES, WAITS_NOTED_S
from radiator.model.reads import ReadPrepared
from radiator.model.writes import DropTransaction, KeepTransaction, RemovePrepared


@dataclass(slots=True, eq=False)
class Staged:
    """A prepared transaction, committed or not. waits: once it is committed, why it does not go on, or None."""

    stage: int
    name: str
    count: int
    size: int
    prepared_ms: int
    applied: int = 0
    is_committed: bool = False
    waits: str | None = None

    def row(self) -> KeepTransaction:
        """As it is now."""
        name = "" if self.is_committed else self.name
        return KeepTransaction(self.stage, name, self.count, self.size, self.applied, self.prepared_ms)


class PreparedDelivery(Connection):
    """One of them, as it stands among the connections that wait for room.

    sends: its next ones, as far as they are in memory; take: how many the next slice has at most. asked: look-ups of
    dedup-ids that are under way. room: where it waits. is_asked: it is being read back, or waits for its turn.
    waits_since_s: when it was last kept waiting; is_noted: the log has told of that.
    """

    __slots__ = ("asked", "is_asked", "is_noted", "room", "sends", "staged", "take", "waits_since_s")

    def __init__(self, staged: Staged) -> None:
        super().__init__(0, 0)
        self.staged = staged
        self.sends: list[Send] = []
        self.take = LOAD_MESSAGES
        self.asked: set[WaitList] = set()
        self.room: Waitable | None = None
        self.is_asked = False
        self.is_noted = False
        self.waits_since_s = 0.0


class Applying:
    """All of them: a Chore while any can go on. `wake` makes it one; freed: rooms whose waiters are to be tried again.

    At most APPLIES_AT_ONCE have a slice in memory, or are being read; the others wait for their `turns`. `loaded`:
    those that nothing keeps waiting.
    """

    __slots__ = (
        "appliers", "context", "destinations", "unblocked", "in_memory", "admission", "is_awake", "loaded", "refused",
        "turns", "wake",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        destinations: Destinations,
        admission: Admission,
        unblocked: dict[Waitable, None],
        wake: Callable[["Applying"], None],
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.admission = admission
        self.unblocked = unblocked
        self.wake = wake
        self.appliers: dict[PreparedDelivery, None] = {}
        self.turns: deque[PreparedDelivery] = deque()
        self.loaded: deque[PreparedDelivery] = deque()
        self.refused: deque[PreparedDelivery] = deque()
        self.in_memory = 0
        self.is_awake = False

    @property
    def count(self) -> int:
        """How many are not over."""
        return len(self.appliers)

    def committed(self) -> Iterator[Staged]:
        """Those that are not over."""
        return (applier.staged for applier in self.appliers)

    def begin(self, staged: Staged, batch: Batch | None = None) -> None:
        """It is committed: by that batch, or before the start."""
        applier = PreparedDelivery(staged)
        self.appliers[applier] = None
        if batch is None:
            self.ask(applier)
        else:
            # until then the disk would not show it
            batch.then.append(lambda: self.ask(applier))

    # ---- the chore --------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return not self.can_go_on

    @property
    def can_go_on(self) -> bool:
        return bool(self.loaded) or (bool(self.turns) and self.in_memory < APPLIES_AT_ONCE)

    def step(self) -> None:
        """Have more read back, and put one slice into its destinations."""
        while self.turns and self.in_memory < APPLIES_AT_ONCE:
            self.load(self.turns.popleft())
        if self.loaded:
            applier = self.loaded.popleft()
            room = self.apply(applier)
            if room is not None:
                self.wait_for(applier, room)
        self.is_awake = self.can_go_on

    def stay_awake(self) -> None:
        """There is something to do: a chore of the broker, if it is none."""
        if not self.is_awake:
            self.is_awake = True
            self.wake(self)

    # ---- reading back -----------------------------------------------------------------------------------------------

    def ask(self, applier: PreparedDelivery) -> None:
        """Have its next slice read back when its turn comes."""
        applier.is_asked = True
        self.turns.append(applier)
        self.stay_awake()

    def load(self, applier: PreparedDelivery) -> None:
        self.in_memory += 1
        staged = applier.staged
        load = ReadPrepared(self.context.next_position(), staged.stage, staged.applied, applier.take, LOAD_BYTES)
        self.destinations.windows.waiting[load.request] = partial(self.answered, applier, load)
        self.context.turn.read_requests.append(load)

    def answered(self, applier: PreparedDelivery, load: ReadPrepared, answer: LoadedPrepared) -> None:
        """What was read back. Where some are damaged they are read one by one, so that each SEND has its number."""
        applier.is_asked = False
        applier.sends = answer.sends
        self.admission.memory.waiting_bytes += _size(applier.sends)
        if not answer.sends and not answer.damaged:
            raise StoreError(f"the prepared transaction {applier.staged.name!r} has no SEND {applier.staged.applied}")
        is_whole = not answer.damaged
        if not is_whole and load.messages_max > 1:
            applier.take = 1
            self.let_go(applier)
            self.ask(applier)
        elif not is_whole:
            self.give_up_one(applier)
        elif applier.room is not None:
            self.unblocked[applier.room] = None
        else:
            self.go_on_with(applier)

    def give_up_one(self, applier: PreparedDelivery) -> None:
        """Its next SEND cannot be read any more."""
        staged = applier.staged
        self.context.count("damaged_sends")
        self.context.note("error", "damaged_send", name=staged.name, stage=staged.stage, number=staged.applied)
        self.applied(applier, 1)

    def go_on_with(self, applier: PreparedDelivery) -> None:
        """Nothing keeps it waiting."""
        self.loaded.append(applier)
        self.stay_awake()

    def let_go(self, applier: PreparedDelivery) -> None:
        """Out of memory: another may be read."""
        self.admission.memory.waiting_bytes -= _size(applier.sends)
        applier.sends = []
        self.has_let_go()
        self.admission.forget_found(applier)  # as long as they are kept, what has come since is kept too

    def has_let_go(self) -> None:
        """One less is in memory: the next may be read, though nothing else would say so."""
        self.in_memory -= 1
        if self.turns:
            self.stay_awake()

    # ---- into the destinations --------------------------------------------------------------------------------------

    def apply(self, applier: PreparedDelivery) -> Waitable | None:
        """One slice of what is in memory, or the room that it must wait for."""
        while True:
            applier.take = min(applier.take, len(applier.sends))
            try:
                plan = self.plan(applier)
                if self.look_up(applier, plan):
                    return None
                # what is for memory only comes when the disk has let go of it: else it came again after a crash
                applier.rest_batch = self.context.open.number
                blocked = self.admission.apply_plan(applier, plan)
            except Refusal as refusal:
                if applier.take == 1:
                    self.refused.append(applier)
                    self.let_go(applier)
                    self.say_why(applier, str(refusal))
                    return None
            else:
                if blocked is None:
                    # D30: in the batch that holds the Puts
                    self.applied(applier, applier.take)
                    return None
                if applier.take == 1 or not isinstance(blocked, Target):
                    return blocked
            applier.take //= 2

    def plan(self, applier: PreparedDelivery) -> Plan:
        """What its next `take` SENDs would do: fewer, where that makes many copies."""
        plan = Plan()
        size = 0
        for count, send in enumerate(applier.sends[: applier.take], 1):
            before = len(plan.puts)
            self.admission.router.plan(applier, send, plan)
            size += sum(message.size for _, message, _, _ in plan.puts[before:])
            if size >= LOAD_BYTES or len(plan.puts) + len(plan.copies) >= CHORE_MESSAGES:
                applier.take = count
                break
        return plan

    def look_up(self, applier: PreparedDelivery, plan: Plan) -> bool:
        """Whether the disk is asked about dedup-ids first: about all of the slice at once."""
        seen: set[tuple[Target, bytes]] = set()
        for queue, _, dedup_id, _ in plan.puts:
            if dedup_id is None or not queue.settings.dedup_window_s or queue.dedup is None:
                continue
            if (queue, dedup_id) not in seen:
                seen.add((queue, dedup_id))
                known = self.admission.is_known(applier, queue.dedup, dedup_id)
                if isinstance(known, WaitList):
                    known.waiters.append(applier)
                    applier.asked.add(known)
        return bool(applier.asked)

    def applied(self, applier: PreparedDelivery, count: int) -> None:
        """So many are in their destinations by the open batch."""
        staged = applier.staged
        first = staged.applied
        staged.applied += count
        staged.waits = None
        applier.is_noted = False
        self.admission.memory.waiting_bytes -= _size(applier.sends[:count])
        del applier.sends[:count]
        applier.take = min(LOAD_MESSAGES, 2 * applier.take)
        if staged.applied >= staged.count:
            self.context.write(DropTransaction(staged.stage))
            self.leave_room(applier)
            del self.appliers[applier]
            self.has_let_go()
            return
        self.context.write(RemovePrepared(staged.stage, first, staged.applied))
        self.context.write(staged.row())
        if applier.sends:
            self.go_on_with(applier)
        else:
            self.has_let_go()
            self.ask(applier)

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def wait_for(self, applier: PreparedDelivery, room: Waitable) -> None:
        """It takes its place behind those that wait there already."""
        if room is FLUSH:
            self.go_on_with(applier)
            return
        room.waiters.append(applier)
        applier.room = room
        self.wait_on(applier, room)

    def wait_on(self, applier: PreparedDelivery, room: Waitable) -> None:
        """There is no room: out of memory with it, unless it is a matter of one batch."""
        if room is not self.admission.batch_room:
            self.let_go(applier)
            self.say_why(applier, _why(room))

    def leave_room(self, applier: PreparedDelivery) -> None:
        """It waits there no more; others may."""
        room = applier.room
        if room is not None:
            applier.room = None
            room.waiters.remove(applier)
            if room.waiters:
                self.unblocked[room] = None

    def go_on(self, applier: PreparedDelivery, room: Waitable) -> bool:
        """There may be room, and it is the first that waits there. False: it still does."""
        if isinstance(room, WaitList) and room in applier.asked:
            room.waiters.popleft()
            applier.asked.discard(room)
            if not applier.asked and applier.room is not None:
                self.unblocked[applier.room] = None
            elif not applier.asked:
                self.go_on_with(applier)
            return True
        if applier.asked or applier.is_asked:
            return False
        if not applier.sends:
            self.ask(applier)
            return False
        blocked = self.apply(applier)
        if applier.asked:
            return False
        if blocked is room:
            self.wait_on(applier, room)
            return False
        self.leave_room(applier)
        if blocked is not None:
            self.wait_for(applier, blocked)
        return True

    def say_why(self, applier: PreparedDelivery, why: str) -> None:
        """For who asks why it does not go on."""
        if applier.staged.waits is None:
            applier.waits_since_s = self.context.now_s
        applier.staged.waits = why

    def ticked(self) -> None:
        """Some of what was refused is tried again; the log tells once of each that has waited for long."""
        for _ in range(min(APPLIES_AT_ONCE, len(self.refused))):
            self.ask(self.refused.popleft())
        for applier in self.appliers:
            staged = applier.staged
            if staged.waits is None or applier.is_noted or self.context.now_s - applier.waits_since_s < WAITS_NOTED_S:
                continue
            applier.is_noted = True
            left = staged.count - staged.applied
            self.context.note("warning", "prepared_waits", name=staged.name, messages=left, cause=staged.waits)


def _size(sends: list[Send]) -> int:
    return sum(send.size for send in sends)


def _why(room: Waitable) -> str:
    if isinstance(room, Target):
        return f"/queue/{room.name} has no room."
    return f"The broker has no room: {room.name}."
