"""What those who have all of one kind of destination, queues or logs, ask of whoever has them all."""

from typing import Protocol

from radiator.core.queues.target import Target


class Surroundings(Protocol):
    """See above."""

    def take_number(self) -> int:
        """A name on the disk that nothing has had."""

    def check_count(self, more: int = 1) -> None:
        """Raises Refusal where so many more destinations would be too many."""

    def made(self, target: Target) -> None:
        """It is new: what leads to it by config.toml does so now."""

    def release(self, target: Target) -> None:
        """It is about to go: its bindings go first."""
