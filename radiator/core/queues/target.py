"""What a message can be put into: a queue, or a log. Fanouts' children and bindings lead to such."""

from collections import deque

from radiator.core.connections import Connection
from radiator.core.journal_writer import JournalWriter
from radiator.core.queues.dedup import Dedup
from radiator.core.turn import TurnContext
from radiator.model.journal import CameFrom
from radiator.model.message import Message
from radiator.model.settings import QueueSettings
from radiator.model.writes import Ledger


class Target:
    """number: its name on the disk, 0 where it has none. waiters: producers that wait for room in it, first come, first
    served. reserved, reserved_bytes: room promised to transactions whose persistent part is being committed. dedup: the
    dedup-ids that it knows, where it can. journal: where what becomes of its messages is told. damaged: messages of it
    that cannot be read any more.

    As it stands here it has no bounds, and keeps nothing back.
    """

    is_persistent: bool
    number = 0
    dedup: Dedup | None = None

    __slots__ = (
        "damaged", "context", "is_declared", "is_gone", "journal", "ledger", "name", "reserved", "reserved_bytes",
        "settings", "waiters",
    )  # fmt: skip

    def __init__(self, name: str, settings: QueueSettings, context: TurnContext) -> None:
        self.name = name
        self.settings = settings
        self.context = context
        self.journal: JournalWriter | None = None
        self.ledger = Ledger()
        self.waiters: deque[Connection] = deque()
        self.reserved = 0
        self.reserved_bytes = 0
        self.damaged = 0
        self.is_declared = False
        self.is_gone = False

    @property
    def address(self) -> str:
        """How it is called in sentences."""
        raise NotImplementedError

    def put(self, message: Message, came_from: CameFrom | None = None) -> object:
        """Accept a message: nothing is judged any more. came_from: what the journal says of where it was before."""
        raise NotImplementedError

    def put_handed_over(self, message: Message, redeliveries: int, redelivered: bool, node: str) -> None:
        """Accept what that node hands over: what is known of its deliveries comes along, where it is of use."""
        self.put(message)

    def take_in(self, message: Message, due_ms: int) -> None:
        """Accept a message now or, where due_ms is not 0 and it can keep one back, as a delayed one."""
        raise NotImplementedError

    def pump(self) -> None:
        """Hand out what is ready to consumers that have room."""
        raise NotImplementedError

    def can_hand(self, count: int) -> bool:
        """Whether so many more would go to consumers at once: what an immediate SEND asks."""
        raise NotImplementedError

    # ---- bounds -----------------------------------------------------------------------------------------------------

    def has_room(self, messages: int, size: int) -> bool:
        """Whether so many more messages of so many bytes in all stay within its bounds."""
        return True

    def check_size(self, size: int) -> None:
        """Raises Refusal `too-large` for a message that could never fit."""

    def judge(self, messages: int, size: int) -> bool:
        """Whether so much may come in now; False: the producer waits (`block`). Raises Refusal `queue-full`."""
        return True

    def evict(self, messages: int, size: int) -> None:
        """Let go of the oldest until so much fits. `judge` has said that it can."""

    @property
    def memory_bytes(self) -> int:
        """What its messages cost in memory."""
        return 0
