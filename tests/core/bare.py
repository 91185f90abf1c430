"""Parts of the core without a broker around them: a context of turns, queues, entries, connections."""

from typing import Any

from radiator.core.connections import Connection, Delivery, Subscription
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.queues.memory_queue import MemoryQueue
from radiator.core.queues.queue import QueuePorts
from radiator.core.queues.windows import Windows
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.commands import CLIENT_INDIVIDUAL
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import GIB, MIB
from radiator.model.message import Message
from radiator.model.settings import QueueSettings
from radiator.model.writes import Ledger

NOW_MS = 1_700_000_000_000


def context(now_s: float = 100.0) -> TurnContext:
    """As at the beginning of the first turn; tasks: what was scheduled."""
    made = TurnContext("store", 1)
    made.now_s, made.now_ms = now_s, NOW_MS
    made.schedule = lambda task: made.open.then.append(task.step)
    return made


def message(body: bytes = b"x", expires_ms: int = 0) -> Message:
    return Message("/queue/q", b"", ESCAPING_ALL, body, NOW_MS, expires_ms)


def entry(position: int, size: int = 1, state: State = State.READY, **more: Any) -> Entry:
    return Entry(position, message(b"x" * size), state, size, **more)


def windows(max_memory_bytes: int = GIB) -> Windows:
    return Windows(max_memory_bytes)


def ports(turns: TurnContext) -> QueuePorts:
    def no_dead_letters(*_: object) -> None:
        raise AssertionError("no queue here has a dead-letter queue")

    return QueuePorts(turns, no_dead_letters, lambda queue: None)


def durable(turns: TurnContext | None = None, stored: int = 0, **settings: Any) -> DurableQueue:
    """stored: messages that the disk has, and that are not read back."""
    turns = turns or context()
    ledger = Ledger(accepted=stored, accepted_bytes=stored, stored=stored, stored_bytes=stored)
    return DurableQueue(1, "q", QueueSettings(**settings), ledger, ports(turns), windows())


def in_memory(turns: TurnContext | None = None, **settings: Any) -> MemoryQueue:
    given = {"max_messages": 100, "max_bytes": MIB} | settings
    return MemoryQueue("q", QueueSettings(persistent=False, **given), ports(turns or context()))


def connection(number: int = 1) -> Connection:
    return Connection(number, MIB)


def consumer(queue: Any, of: Connection | None = None, ack: str = CLIENT_INDIVIDUAL, **more: Any) -> Subscription:
    """It is in the ring: what is READY goes out."""
    of = of or connection()
    prefetch, exclusive = more.pop("prefetch", 10), more.pop("exclusive", False)
    made = Subscription(of, b"s%d" % of.next_place, queue, ack, prefetch, exclusive, True, of.next_place, **more)
    of.next_place += 1
    queue.subscribe(made)
    queue.join(made)
    return made


def stored(queue: DurableQueue, *bodies: bytes) -> list[Entry]:
    """Messages that came in, and are on the disk."""
    entries = [queue.put(message(body)) for body in bodies]
    commit(queue.context)
    assert all(entries)
    return [one for one in entries if one is not None]


def commit(turns: TurnContext) -> None:
    """The open batch is on the disk."""
    batch, number = turns.open, turns.open.number
    turns.open = type(batch)(number + 1)
    turns.committed = number
    for part_of, part in batch.parts.items():
        part_of.committed(part)


def out(queue: Any) -> list[Delivery]:
    return list(queue.entries_out.values())
