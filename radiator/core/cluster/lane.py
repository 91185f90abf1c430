"""How many bytes may go, or come, on one link: room.py says how it is decided."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Lane:
    """What one side may hand over on one link, of messages of queues or of copies. through: in all, since
    the link began; used: so much of it has been. wanted: what a message that waits needs at once, 0: none does.
    granted_turn: when it got more. waiting, at the giver: who has such a message, the first first.
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
