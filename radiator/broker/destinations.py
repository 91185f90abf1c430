"""Names -> destinations: what exists, what first use creates, and what is refused.

Queues, fanouts and topics have separate names. Temp queues belong to one connection and are found by others under
the id of their reply address only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from radiator.broker.consumers import Connection
from radiator.broker.kinds.durable_queue import DurableQueue, Windows
from radiator.broker.kinds.memory_queue import MemoryQueue
from radiator.broker.kinds.queue import DeadLetter, Queue
from radiator.broker.kinds.topic import Topics
from radiator.broker.turn import Desk
from radiator.errors import Refusal, StoreError
from radiator.limits import PATTERN_WILDCARDS_MAX, TOPIC_WORDS_MAX, Limits
from radiator.patterns import is_pattern, matches, overlaps
from radiator.recovery import Recovery
from radiator.settings import MEMORY_BYTES_MAX, MEMORY_MESSAGES_MAX, Declarations, QueueSettings
from radiator.writes import Books, Declare, Ledger, Retire

QUEUE, FANOUT, TOPIC, TEMP, REPLY = "queue", "fanout", "topic", "temp-queue", "reply-queue"
PEERS_TOPIC = "system.peers"  # what happens to nodes and links
OUTBOX_PREFIX = "$outbox/"  # queues of copies that wait for another node, by its name
REPLY_ID_BYTES = 16  # so that nobody can guess one
TEMP_SETTINGS = QueueSettings(
    persistent=False, max_messages=MEMORY_MESSAGES_MAX, max_bytes=MEMORY_BYTES_MAX, overflow="reject"
)


@dataclass(slots=True)
class Fanout:
    """A SEND to it is a copy in each of its child queues."""

    name: str
    children: tuple[str, ...]
    accepted: int = 0


def split(address: str) -> tuple[str, str]:
    """`/queue/a/b` -> (`queue`, `a/b`). Raises Refusal for an address of no known kind."""
    kind, _, name = address[1:].partition("/")
    if address == "/admin" or (name and kind in (QUEUE, FANOUT, TOPIC, TEMP, REPLY)):
        return kind, name
    raise Refusal(
        "unknown-destination",
        f"{address} is no destination: it would begin with /queue/, /fanout/, /topic/, /temp-queue/ or /reply-queue/, "
        "or be /admin.",
    )


def check_words(topic: str) -> None:
    """Raises Refusal for a topic, or pattern of topics, that would be dear to match."""
    words = topic.split(".")
    wildcards = words.count("*") + words.count("#")
    for what, count, most in (("words", len(words), TOPIC_WORDS_MAX), ("wildcards", wildcards, PATTERN_WILDCARDS_MAX)):
        if count > most:
            raise Refusal("too-many-words", f"/topic/{topic} has {count} {what}: at most {most} are allowed.")


class Destinations:
    """Everything that can be sent to."""

    __slots__ = (
        "bury", "copies_to", "declarations", "desk", "entropy", "fanouts", "is_clustered", "limits", "next_number",
        "on_new", "on_room", "outboxes", "queues", "replies", "retired", "topics", "windows",
    )  # fmt: skip

    def __init__(
        self,
        declarations: Declarations,
        recovery: Recovery,
        desk: Desk,
        limits: Limits,
        entropy: Callable[[int], bytes],
        bury: DeadLetter,
        on_room: Callable[[Queue], None],
        is_clustered: bool,
    ) -> None:
        self.declarations = declarations
        self.desk = desk
        self.limits = limits
        self.entropy = entropy
        self.bury = bury
        self.on_room = on_room
        self.windows = Windows()
        self.topics = Topics(desk)
        self.queues: dict[str, Queue] = {}
        self.replies: dict[str, Queue] = {}
        # one node among others: copies of fanouts wait in queues that clients cannot reach, those of copies_to get
        # more; on_new hears of every queue that is made
        self.is_clustered = is_clustered
        self.copies_to: list[DurableQueue] = []
        self.outboxes: dict[str, DurableQueue] = {}
        self.on_new: Callable[[Queue], None] = lambda queue: None
        self.fanouts = {name: Fanout(name, children) for name, children in declarations.fanouts.items()}
        self.next_number = recovery.next_queue
        self.retired = dict(recovery.retired)
        for stored in recovery.queues:
            settings = self._settings(stored.name)
            if settings.persistent:
                self._open(stored.number, stored.name, settings, stored.ledger)
            elif stored.ledger.stored:
                raise StoreError(
                    f"/queue/{stored.name} is declared with persistent = false, but {stored.ledger.stored} messages of "
                    "it are stored: "
                    "declare it persistent and consume or purge them first."
                )
            else:
                desk.write(Retire(stored.number, stored.name))
        for name in declarations.queues:
            if name not in self.queues:
                self._create(name)
            self.queues[name].is_declared = True

    def _settings(self, name: str) -> QueueSettings:
        """An outbox remembers dedup-ids as long as any child of a fanout may."""
        if not name.startswith(OUTBOX_PREFIX):
            return self.declarations.queue_settings(name)
        children = {child for fanout in self.declarations.cluster_fanouts for child in self.fanouts[fanout].children}
        windows_s = [self.declarations.queue_settings(child).dedup_window_s for child in children]
        return QueueSettings(dedup_window_s=max(windows_s, default=0))

    def _open(self, number: int, name: str, settings: QueueSettings, ledger: Ledger) -> DurableQueue:
        queue = DurableQueue(number, name, settings, ledger, self.desk, self.bury, self.on_room, self.windows)
        if name.startswith(OUTBOX_PREFIX):
            self.outboxes[name.removeprefix(OUTBOX_PREFIX)] = queue
        else:
            self.queues[name] = queue
            self.on_new(queue)
        return queue

    def _create(self, name: str) -> Queue:
        settings = self._settings(name)
        if not settings.persistent:
            queue: Queue = MemoryQueue(name, settings, self.desk, self.bury, self.on_room)
            self.queues[name] = queue
            return queue
        number = self.next_number
        self.next_number += 1
        self.desk.write(Declare(number, name))
        queue = self._open(number, name, settings, Ledger())
        self.desk.part(queue)
        return queue

    def queue(self, name: str) -> Queue:
        """The queue of that name; created if it is declared or first use may create it. Raises Refusal otherwise."""
        found = self.queues.get(name)
        if found is not None:
            return found
        if is_pattern(name):
            raise Refusal("wildcard", f"/queue/{name} has a wildcard: only a SUBSCRIBE to a topic may use `*` and `#`.")
        if name.startswith(OUTBOX_PREFIX):
            raise Refusal("reserved", f"/queue/{name} is kept for messages that wait for another node.")
        if name not in self.declarations.queues:
            if not self.declarations.may_create_queue(name):
                raise Refusal(
                    "no-such-destination",
                    f"/queue/{name} is not declared, and [create] does not allow queues to be created by first use.",
                )
            self.check_count()
        queue = self._create(name)
        queue.is_declared = name in self.declarations.queues
        return queue

    def outbox(self, node: str) -> DurableQueue:
        """Where copies of fanouts wait for that node; made where it is not there."""
        found = self.outboxes.get(node)
        if found is None:
            self._create(OUTBOX_PREFIX + node)
            found = self.outboxes[node]
        return found

    def everything(self) -> list[Queue]:
        """Every queue that has a name of its own, outboxes included."""
        return [*self.queues.values(), *self.outboxes.values()]

    def find(self, name: str) -> Queue | None:
        """The queue of that name, outboxes included, if it is there."""
        found = self.queues.get(name)
        if found is None and name.startswith(OUTBOX_PREFIX):
            return self.outboxes.get(name.removeprefix(OUTBOX_PREFIX))
        return found

    def stored_queues(self) -> list[DurableQueue]:
        """Every queue that is on the disk."""
        return [*self.outboxes.values(), *(q for q in self.queues.values() if isinstance(q, DurableQueue))]

    def check_count(self) -> None:
        """Raises Refusal where one more destination would be too many."""
        count = len(self.queues) + len(self.fanouts) + len(self.topics.exact)
        if count >= self.limits.max_destinations:
            raise Refusal(
                "too-many-destinations",
                f"There are {count} destinations already, and max_destinations is {self.limits.max_destinations}.",
            )

    def fanout(self, name: str) -> Fanout:
        """The fanout of that name; Refusal where none is declared."""
        found = self.fanouts.get(name)
        if found is None:
            raise Refusal(
                "no-such-destination",
                f"/fanout/{name} is not declared: a fanout needs a table [fanout.{name!r}] with its children.",
            )
        return found

    def check_topic(self, name: str, for_send: bool) -> None:
        """Raises Refusal where this topic, or pattern of topics, may not be used."""
        pattern = is_pattern(name)
        if pattern and for_send:
            raise Refusal("wildcard", f"/topic/{name} has a wildcard: only a SUBSCRIBE may use `*` and `#`.")
        if name == PEERS_TOPIC and self.is_clustered:
            if for_send:
                raise Refusal("reserved", f"/topic/{name} is what this node says of others: it can only be subscribed.")
            return
        check_words(name)
        declarations = self.declarations
        if not declarations.create_topics and not any(
            overlaps(declared, name) if pattern else matches(declared, name) for declared in declarations.topics
        ):
            raise Refusal(
                "no-such-destination",
                f"/topic/{name} is not declared, and [create] does not allow topics to be created by first use.",
            )
        if not for_send and not pattern and name not in self.topics.exact:
            self.check_count()

    # ---- temp queues ------------------------------------------------------------------------------------------------

    def temp_queue(self, connection: Connection, name: str) -> Queue:
        """That connection's temp queue of that name, made if it is not there. Its reply id cannot be guessed."""
        queue = connection.temp_queues.get(name)
        if queue is None:
            if is_pattern(name):
                raise Refusal("wildcard", f"/temp-queue/{name} has a wildcard: only a topic's SUBSCRIBE may use them.")
            count = len(connection.temp_queues)
            if count >= self.limits.max_subscriptions:
                raise Refusal(
                    "too-many-destinations",
                    f"This connection has {count} temp queues: max_subscriptions bounds them too.",
                )
            queue = MemoryQueue(name, TEMP_SETTINGS, self.desk, self.bury, self.on_room)
            queue.reply_id = self.entropy(REPLY_ID_BYTES).hex()
            connection.temp_queues[name] = queue
            self.replies[queue.reply_id] = queue
        return queue

    def drop_temp_queues(self, connection: Connection) -> None:
        """They die with their connection."""
        for queue in connection.temp_queues.values():
            queue.is_gone = True
            del self.replies[queue.reply_id]
        connection.temp_queues.clear()

    # ---- delete -----------------------------------------------------------------------------------------------------

    def delete(self, queue: Queue) -> None:
        """Its name is free at once; what it stored is swept later, in slices."""
        queue.is_gone = True
        if queue.name.startswith(OUTBOX_PREFIX):
            del self.outboxes[queue.name.removeprefix(OUTBOX_PREFIX)]
        else:
            del self.queues[queue.name]
        if isinstance(queue, DurableQueue):
            desk = self.desk
            desk.write(Books(queue.number, queue.books().ledger))
            desk.write(Retire(queue.number, queue.name))
            desk.open.parts.pop(queue, None)
            self.windows.size -= queue.window_bytes
            if queue.ledger.stored:
                self.retired[queue.number] = queue.ledger.stored
