"""Reads back what a queue with priorities has only on the disk: the next messages of one priority at a time."""

from collections.abc import Callable
from functools import partial

from radiator.core.queues.entry import Entry
from radiator.core.queues.priorities import PriorityLane
from radiator.core.queues.priority_window import PriorityWindow
from radiator.core.queues.read_back import ReadBack, ReadQueueOwner
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.errors import StoreError, count_text
from radiator.model.limits import LOAD_MESSAGES
from radiator.model.reads import LoadedKeys, ReadKeys


class PriorityReadBack(ReadBack):
    """See ReadBack."""

    __slots__ = ("priorities", "priority_window")

    def __init__(self, queue: ReadQueueOwner, window: PriorityWindow, context: TurnContext) -> None:
        super().__init__(queue, window, context)
        self.priority_window = window
        self.priorities = window.priorities

    def refill(self, is_needed: bool) -> None:
        """Asks for one read at a time: bytes of stubs, or the next messages of one lane. is_needed: to drop them."""
        queue, window, context = self.queue, self.window, self.context
        if window.is_loading or queue.is_gone:
            return
        head = self.priorities.head()
        is_stub = head is not None and head.is_stub
        if window.stubs and (is_needed or is_stub) and self.read_stubs(is_needed):
            return
        # messages that are on their way to the disk may have places among those that would be read
        if window.beyond == 0 or queue.delayed.released_in > context.committed:
            return
        is_crowded = window.windows.is_crowded
        if is_crowded and head is not None and not is_needed and not queue.purge.through:
            return
        lane = self.next_lane(is_needed)
        if lane is not None:
            self.read_lane(lane, is_crowded, is_needed)

    # ---- the next ones of a lane ------------------------------------------------------------------------------------

    def next_lane(self, is_needed: bool) -> PriorityLane | None:
        """Returns the lane to read now: during a purge, any that has some of it; if is_needed, the lowest; otherwise
        the highest, as nothing below goes before it, and that only once little before it is in memory.
        """
        lanes, through = self.priorities.open_lanes, self.queue.purge.through
        if through:
            return next((lane for lane in lanes if lane.after < through and self.may_read(lane)), None)
        if not lanes:
            return None
        lane = lanes[-1] if is_needed else lanes[0]
        if not self.may_read(lane):
            return None
        # if reads brought less than the lane has in memory, few messages would be read, over and over
        has_little = lane.count <= self.priority_window.capacity(lane)[0]
        is_next = 2 * self.priorities.before(lane) < LOAD_MESSAGES and (has_little or not lane.count)
        return lane if is_needed or is_next else None

    def may_read(self, lane: PriorityLane) -> bool:
        """Whether everything before what would be read is READY, and something may be found."""
        return not lane.coming and lane.nothing_at < self.context.committed

    def read_lane(self, lane: PriorityLane, is_crowded: bool, is_needed: bool) -> None:
        """Asks for the next messages of this lane."""
        window, context = self.priority_window, self.context
        window.is_loading = True
        messages, capacity_bytes = window.capacity(lane)
        most = LOAD_MESSAGES if is_needed else max(1, min(LOAD_MESSAGES, messages))
        bytes_max = 1 if is_crowded else max(1, min(window.windows.load_bytes, capacity_bytes))
        request = context.next_position()
        read = ReadKeys(request, self.queue.number, [(lane.hash, lane.after)], request, most, bytes_max)
        window.windows.waiting[request] = partial(self.lane_read, lane, lane.after, context.committed)
        context.turn.read_requests.append(read)

    def lane_read(self, lane: PriorityLane, after: int, asked_at: int, answer: LoadedKeys) -> None:
        """Called with the messages that were read: they are READY, because only what is synced can be read. asked_at:
        the last batch on the disk when they were asked for.
        """
        queue, window = self.queue, self.window
        window.is_loading = False
        if queue.is_gone:
            return
        # otherwise all of the lane has been taken since, and the answer is out of date
        if lane.is_open and lane.after == after:
            self.take_in(lane, answer, asked_at)
        queue.went_on()
        if window.windows.is_crowded and not window.ring:
            window.shrink()

    def take_in(self, lane: PriorityLane, answer: LoadedKeys, asked_at: int) -> None:
        """Takes in what was read. Raises StoreError, a clause, if it cannot be what was written."""
        queue, window, (found,) = self.queue, self.window, answer.found
        for stored in found.messages:
            position, message = stored.position, stored.message
            # D32: a damaged structure is reported before any further message is delivered
            if position <= lane.after:
                raise StoreError(f"/queue/{queue.name} has message {position:x} after message {lane.after:x}")
            lane.after = position
            if queue.in_doubt.passes_over(stored):
                continue
            window.beyond -= 1
            if window.beyond < 0:
                raise StoreError(f"/queue/{queue.name} has more messages than its ledger")
            if message is None:
                queue.report_damaged(position)
                continue
            entry = Entry(position, message, State.READY, message.size, stored.redeliveries, stored.redelivered)
            self.priorities.at[position] = lane
            if not queue.purge.takes(entry):
                window.add(entry.size)
                self.priorities.put(lane, entry)
        if found.is_complete and lane.put_in <= asked_at:
            lane.is_open = False
        elif not found.messages:
            lane.nothing_at = asked_at  # what the lane has is on its way to the disk, unless a commit came since
        self.all_read()

    def all_read(self) -> None:
        """Closes all lanes if nothing is only on the disk. Raises StoreError if something is, but no lane is open."""
        window, lanes = self.window, self.priorities.open_lanes
        if window.beyond == 0:
            self.priorities.close()
        elif not lanes:
            # D32: a message that was not removed never counts as gone
            missing = count_text(window.beyond, "further message")
            raise StoreError(f"/queue/{self.queue.name} ends, but its ledger has {missing}")

    # ---- how old the first message is that is only on the disk ------------------------------------------------------

    @property
    def _first_place(self) -> tuple[int, int, int]:
        lanes = self.priorities.open_lanes
        return sum(lane.after for lane in lanes), self.queue.delayed.released_in, len(lanes)

    def read_first_age(self, done: Callable[[int | None], None]) -> None:
        place, context, lanes = self._first_place, self.context, self.priorities.open_lanes

        def read(answer: LoadedKeys) -> None:
            found = [stored.message for one in answer.found for stored in one.messages if stored.message is not None]
            first_ms = min((message.accepted_ms for message in found), default=None)
            if first_ms is not None:
                self.first_accepted = (place, first_ms)
            done(None if first_ms is None else max(0, context.now_ms - first_ms))

        request = context.next_position()
        keys = [(lane.hash, lane.after) for lane in lanes]
        bytes_max = self.window.windows.load_bytes
        self.window.windows.waiting[request] = read
        context.turn.read_requests.append(ReadKeys(request, self.queue.number, keys, request, 1, bytes_max))
