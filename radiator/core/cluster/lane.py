"""How many bytes may still be handed over, in one direction of one link; capacity.py decides it."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Lane:
    """The bytes that one side may hand over on one link: of messages of queues, or of copies. through: the total
    granted since the link began; used: how much of it is used. wanted: what a waiting message needs at once; 0: none
    waits. granted_turn: the turn of the last grant. waiting: at the giver, the senders of waiting messages, in order.
    """

    through: int = 0
    used: int = 0
    wanted: int = 0
    granted_turn: int = 0
    waiting: dict[Callable[[], None], None] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """Returns how many bytes are granted and not used."""
        return self.through - self.used
