"""How many bytes may go, or come, on one link; capacity.py decides it."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Lane:
    """What one side may hand over on one link, of messages of queues or of copies, in bytes. through: the total granted
    since the link began; used: how much of that was used. wanted: what a waiting message needs at once; 0: none waits.
    granted_turn: the turn in which more was granted. waiting: at the giver, the senders of such messages, in order.
    """

    through: int = 0
    used: int = 0
    wanted: int = 0
    granted_turn: int = 0
    waiting: dict[Callable[[], None], None] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """How much more may come, or go."""
        return self.through - self.used
