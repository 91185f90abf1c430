"""What all readers of all logs have together: bytes, bounds, and who goes on next."""

from radiator.core.queues.queue import Queue, QueuePorts
from radiator.model.limits import RECORDS_PER_TURN


class LogConsumers:
    """The readers of all logs. size: bytes of what was read and not handed out yet; out: of what is unacked, and
    out_max: past it only places are kept, and what comes back is read again. tails_bytes: of the last records that logs
    keep in memory. positions: of all groups, one for each partition. ahead: records that groups have acked beyond their
    positions. watched: partitions that are read, by all that read them. timed: those with an end that time may bring.
    due: who goes on in the next turn, since this one has handed out enough.
    """

    __slots__ = (
        "ahead", "all", "context", "due", "handed", "handed_turn", "out", "out_max", "ports", "positions", "size",
        "tails_bytes",
        "timed", "watched",
    )  # fmt: skip

    def __init__(self, ports: QueuePorts, out_max: int) -> None:
        self.ports = ports
        self.context = ports.context
        self.out_max = out_max
        self.all: dict[Queue, None] = {}
        self.timed: dict[Queue, None] = {}
        self.due: dict[Queue, None] = {}
        self.size = 0
        self.out = 0
        self.positions = 0
        self.ahead = 0
        self.watched = 0
        self.tails_bytes = 0
        self.handed = self.handed_turn = 0

    @property
    def memory_bytes(self) -> int:
        return self.size + self.out + self.tails_bytes

    def left(self) -> int:
        """How many records may still be handed out in this turn; larger ones count as several."""
        turn = self.context.turn_number
        if self.handed_turn != turn:
            self.handed_turn, self.handed = turn, 0
        return RECORDS_PER_TURN - self.handed

    def end_turn(self) -> None:
        """Those whom a turn has left waiting: they come in their order, whoever else has had something."""
        self.handed = 0
        for reader in list(self.due):
            if self.left() <= 0:
                return
            del self.due[reader]
            reader.pump()

    def ticked(self) -> None:
        for reader in list(self.timed):
            reader.pump()

    def forget(self, reader: Queue, watched: int) -> None:
        """It is over; it has read so many partitions."""
        if reader in self.all:
            del self.all[reader]
            self.watched -= watched
        self.timed.pop(reader, None)
        self.due.pop(reader, None)
