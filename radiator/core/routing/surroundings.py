"""Names what Queues and Logs, which each have all destinations of one kind, need of Destinations, which has all."""

from typing import Protocol

from radiator.core.queues.target import Target
from radiator.core.usage import Usages


class Surroundings(Protocol):
    """See above."""

    @property
    def usages(self) -> Usages:
        """Who has made what."""

    def take_number(self) -> int:
        """Returns a number for a new name on the disk, one that nothing has had."""

    def check_count(self, more: int = 1) -> None:
        """Raises Refusal where that many more destinations would be too many."""

    def made(self, target: Target) -> None:
        """Called for a new queue: makes what config.toml declares to lead to it."""

    def release(self, target: Target) -> None:
        """Called before a queue is deleted: removes its bindings."""
