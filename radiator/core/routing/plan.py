"""Describes what a SEND, or a whole transaction, is about to do. Nothing has changed yet."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Protocol

from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.exchange import Exchange
from radiator.model.commands import Send
from radiator.model.errors import Refusal
from radiator.model.message import Message, expires_by

Arrival = tuple[Target, Message, bytes | None, int]  # where to, what, its dedup-id, until when delayed (0: not)


class Counting(Protocol):
    """A fanout, an exchange, or another that counts what is sent to it."""

    accepted: int


class Plan:
    """The changes that a SEND or a COMMIT is about to make. copies: for subscriptions to an exchange. counted,
    unrouted: destinations that count it; missing: how many queues it named that do not exist. immediate: queues whose
    consumers must have room for what is put, and the address to name in the refusal. steps: the cost of the matching.
    unkept: copies for nodes for which none are kept. answers: replies for clients at other nodes. ids: gets the ids of
    what is stored or published; None: nobody asks. duplicates: how many messages were not put, as their dedup-ids were
    known. returned: SENDs that reach no queue, and go back to their producer.
    """

    __slots__ = (
        "answers", "copies", "counted", "duplicates", "ids", "immediate", "missing", "publishes", "puts", "replies",
        "returned", "steps", "unkept", "unrouted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.puts: list[Arrival] = []
        self.publishes: list[tuple[str, Message, Sequence[str]]] = []
        self.replies: list[tuple[Queue | None, Message]] = []
        self.answers: list[tuple[str, Message]] = []
        self.copies: list[tuple[Target, Message, int]] = []
        self.counted: list[Counting] = []
        self.unrouted: list[Exchange] = []
        self.unkept: list[tuple[DurableQueue, int]] = []
        self.missing = 0
        self.steps = 0
        self.immediate: dict[Target, str] = {}
        self.ids: list[bytes] | None = None
        self.duplicates = 0
        self.returned: list[Send] = []


def with_ttl(message: Message, ttl_ms: int | None, now_ms: int) -> Message:
    """Returns the message as a queue with that default time to live stores it; None: the message's own time alone
    counts.
    """
    if ttl_ms is None:
        return message
    return replace(message, expires_ms=expires_by(message.expires_ms, ttl_ms, now_ms))


def dedup_id_of_copies(address: str, dedup_id: bytes | None) -> bytes | None:
    """Returns the dedup-id of the copies in an outbox, which has those of all fanouts: no two fanouts share one, and a
    key can hold it.
    """
    return None if dedup_id is None else sha256(address.encode() + b"\0" + dedup_id).digest()


def no_consumer(address: str, why: str) -> Refusal:
    return Refusal("no-consumer", f"{address} can hand the message to no consumer now ({why}), and it is immediate.")


def is_fanned(message: Message) -> bool:
    """Whether it is a copy of what was sent to a fanout: all copies have the common id in their headers."""
    return message.destination.startswith("/fanout/")
