"""What an operator has declared: queues with their settings, fanouts, topics, and what first use may create."""

from dataclasses import dataclass, field

from radiator.limits import MIB
from radiator.patterns import matches

BLOCK, REJECT, DROP_OLDEST, DEAD_LETTER = "block", "reject", "drop-oldest", "dead-letter"
OVERFLOWS = (BLOCK, REJECT, DROP_OLDEST, DEAD_LETTER)

MEMORY_MESSAGES_MAX = 100_000  # a memory queue's bounds where none are given
MEMORY_BYTES_MAX = 64 * MIB


@dataclass(slots=True, kw_only=True)
class QueueSettings:
    """The settings of one queue (docs/OPERATING.md). None: no such bound, queue or time."""

    persistent: bool = True
    max_messages: int | None = None
    max_bytes: int | None = None
    overflow: str = BLOCK
    dead_letter: str | None = None
    max_redeliveries: int = 16
    message_ttl_ms: int | None = None
    ack_timeout_s: float | None = None
    dedup_window_s: float = 0
    exclusive: bool = False
    auto_delete: bool = False


@dataclass(slots=True, kw_only=True)
class Declarations:
    """Everything that config.toml declares. `queue_patterns` are sorted: the first that matches wins.

    queues and fanouts: by exact name. topics: names and patterns. dead-letter targets and fanout children that have no
    table of their own are in `queues` too.
    """

    queues: dict[str, QueueSettings] = field(default_factory=dict)
    queue_patterns: list[tuple[str, QueueSettings]] = field(default_factory=list)
    fanouts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    create_queues: bool = False
    create_topics: bool = False

    def queue_settings(self, name: str) -> QueueSettings:
        """What is in force for the queue of that name, declared or not: its table, the best pattern, or defaults."""
        declared = self.queues.get(name)
        if declared is not None:
            return declared
        for pattern, settings in self.queue_patterns:
            if matches(pattern, name):
                return settings
        return QueueSettings()

    def may_create_queue(self, name: str) -> bool:
        """Whether first use creates the queue: [create] says so, or a pattern declares it."""
        return self.create_queues or any(matches(pattern, name) for pattern, _ in self.queue_patterns)
