"""Keeps what all readers of all logs share: bytes, bounds, and which of them goes on next."""

from radiator.core.queues.consumable import Consumable
from radiator.core.turn import TurnContext
from radiator.model.limits import RECORDS_PER_TURN


class LogConsumers:
    """The readers of all logs. size: bytes read and not handed out yet; out: bytes unacked; out_max: past it only the
    places of unacked records are kept, and those that come back are read again. tails_bytes: of the last records that
    logs keep in memory. positions: how many all groups have, one for each partition. ahead: records that groups have
    acked beyond their positions. watched: partitions being read, counted once for each reader. timed: readers whose end
    may come by time. due: readers that go on in the next turn, since this one has handed out enough. is_pressed: half
    of all memory is used, so each is sent no more than PRESSED_OUTBOX_BYTES ahead of what it reads.
    """

    __slots__ = (
        "ahead", "all", "context", "due", "handed", "handed_turn", "is_pressed", "out", "out_max", "positions",
        "size", "tails_bytes", "timed", "watched",
    )  # fmt: skip

    def __init__(self, context: TurnContext, out_max: int) -> None:
        self.context = context
        self.out_max = out_max
        self.all: dict[Consumable, None] = {}
        self.timed: dict[Consumable, None] = {}
        self.due: dict[Consumable, None] = {}
        self.size = 0
        self.out = 0
        self.positions = 0
        self.ahead = 0
        self.watched = 0
        self.tails_bytes = 0
        self.handed = self.handed_turn = 0
        self.is_pressed = False

    @property
    def memory_bytes(self) -> int:
        return self.size + self.out + self.tails_bytes

    def left(self) -> int:
        """Returns how many records may still be handed out in this turn; larger ones count as several."""
        turn = self.context.turn_number
        if self.handed_turn != turn:
            self.handed_turn, self.handed = turn, 0
        return RECORDS_PER_TURN - self.handed

    def end_turn(self) -> None:
        """Serves the readers that the turn has left waiting, in their order, whatever others have had."""
        self.handed = 0
        for reader in list(self.due):
            if self.left() <= 0:
                return
            del self.due[reader]
            reader.pump()

    def ticked(self) -> None:
        for reader in list(self.timed):
            reader.pump()

    def forget(self, reader: Consumable, watched: int) -> None:
        """Forgets a reader that has ended and has read that many partitions."""
        if reader in self.all:
            del self.all[reader]
            self.watched -= watched
        self.timed.pop(reader, None)
        self.due.pop(reader, None)
