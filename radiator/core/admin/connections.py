"""Requests about connections: who is connected, what each has and waits for, and the end of one."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Protocol

from radiator.core.answers import total
from radiator.core.connections import Connection, Subscription, TopicSubscription
from radiator.core.crowd import CAN_TAKE, CLOSING, OUTBOX, stands_of, window_of
from radiator.core.memory import held_by
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.routing.waiting import WaitList
from radiator.model.addresses import TEMP, TOPIC
from radiator.model.administration import CloseConnection, DescribeConnection, ListConnections
from radiator.model.connections import (
    ConnectionClosed,
    ConnectionDescribed,
    ConnectionNumbers,
    ConnectionsListed,
    SubscriptionNumbers,
)
from radiator.model.errors import Refusal
from radiator.model.limits import CONNECTION_SUBSCRIPTIONS, LOOKED_AT_ONCE, SUBSCRIPTIONS_NAMED
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.replies import Scope

_WAITS = {
    "acks": "the disk, which still writes the last batch of ACKs",
    "answers": "answers: it has reached the limit of answers prepared at once",
    "batch": "the disk, which still writes the last batch",
    "dedup": "the disk, where a dedup-id is looked up",
    "disk": "the disk, which is nearly full",
    "flush": "its next turn",
    "memory": "memory, of which max_memory_bytes are used",
    "turn": "other COMMITs and batches, one after another",
}
"""What connections wait for, by the names of wait lists; others are named so that the sentence is right."""


class ConnectionsPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def connections(self) -> Mapping[int, Connection]: ...


def listed(request: Request[ConnectionsPort], command: ListConnections) -> None:
    """Answers with all connections, or a page of them."""
    parts = request.parts
    there, user = parts.connections, command.user

    def rows() -> Iterator[ConnectionNumbers | PauseRow]:
        # in the order of their numbers, which is not that in which they were opened
        numbers = sorted(there)
        yield PAUSE
        left, looked = command.limit, 0
        for number in islice(numbers, bisect_right(numbers, command.after), None):
            connection = there.get(number)
            looked += 1
            if connection is not None and user in (None, connection.principal.name) and left != 0:
                left = left if left is None else left - 1
                looked += len(connection.queue_subscriptions) + len(connection.temp_queues)
                yield _numbers(connection, parts.context.now_s)
            if left == 0:
                return
            if looked >= LOOKED_AT_ONCE:
                looked = 0
                yield PAUSE

    def answer() -> ConnectionsListed:
        users = (user in (None, one.principal.name) for one in [*there.values()])
        return ConnectionsListed(Rows(rows()), total(map(int, users)))

    request.answer_in_slices(answer)


def described(request: Request[ConnectionsPort], command: DescribeConnection) -> None:
    """Answers with one connection, and the first of its subscriptions."""
    connection, now_s = _there(request, command.number), request.parts.context.now_s

    def answer() -> ConnectionDescribed:
        all_of_them: Iterator[Subscription | TopicSubscription] = chain(
            connection.queue_subscriptions.values(), connection.topic_subscriptions.values()
        )
        first = [*islice(all_of_them, CONNECTION_SUBSCRIPTIONS)]
        subscriptions, channels = Rows(_subscription(one) for one in first), Rows(iter([*connection.channels]))
        return ConnectionDescribed(_numbers(connection, now_s), subscriptions, channels)

    request.answer_in_slices(answer)


def closed(request: Request[ConnectionsPort], command: CloseConnection) -> None:
    """Closes a connection with an ERROR that says who has asked for it."""
    connection, asker = _there(request, command.number), request.connection
    if connection is asker:
        raise Refusal(
            "own-connection",
            f"Connection {asker.number} is the one that asks, and the answer would be lost with it: let the client "
            "disconnect instead.",
        )
    if connection.is_link:
        name = connection.principal.name
        raise Refusal(
            "linked",
            f"Connection {connection.number} is the link with node {name}, which would reconnect at once. To end it, "
            f"remove [peer.{name}] from the configuration and restart this node, or stop {name}.",
        )
    if not connection.is_closing:
        name = f"{asker.principal.name!r:.80}"
        what = "connection" if connection.owner == connection.number else "channel"
        sentence = f"This {what} was closed by an operator: {name}, on connection {asker.number}."
        connection.refuse(request.parts.context, "disconnected", sentence, scope=Scope.CONNECTION)
    request.answer(ConnectionClosed(connection.number, connection.principal.name, connection.peer))


def _there(request: Request[ConnectionsPort], number: int) -> Connection:
    """Returns the connection of that number. Raises Refusal."""
    connection = request.parts.connections.get(number)
    if connection is None:
        raise Refusal(
            "no-such-connection",
            f"There is no connection {number}: it has closed, or never existed. `radiator connections` lists the "
            "open ones.",
        )
    return connection


def _numbers(connection: Connection, now_s: float) -> ConnectionNumbers:
    principal = connection.principal
    return ConnectionNumbers(
        number=connection.number,
        address=connection.peer,
        user=principal.name,
        recognised_by=str(principal.recognised_by),
        protocol=connection.protocol,
        tls=connection.tls,
        client=connection.client or _consumer_name(connection),
        age_ms=round((now_s - connection.opened_s) * 1000),
        subscriptions=connection.subscriptions_count,
        unacked=len(connection.unacked),
        outbox_bytes=connection.outbox_bytes,
        transactions=len(connection.transactions),
        memory_bytes=held_by(connection),
        blocked=_blocked(connection, now_s),
        channel_of=None if connection.owner == connection.number else connection.owner,
        channels=len(connection.channels),
    )


def _consumer_name(connection: Connection) -> str | None:
    """Returns the consumer name of the first of its subscriptions that has one."""
    first = islice(connection.queue_subscriptions.values(), SUBSCRIPTIONS_NAMED)
    return next((one.consumer_name for one in first if one.consumer_name), None)


def _blocked(connection: Connection, now_s: float) -> str | None:
    """Returns what it waits for, as a sentence."""
    if connection.is_closing:
        return "It is being closed: what it was sent last is still to be written."
    waitable = connection.waits_for
    if waitable is None:
        return None
    if isinstance(waitable, WaitList):
        what = _WAITS.get(waitable.name, waitable.name)
    else:
        what = f"room in {getattr(waitable, 'address', waitable)}, which is full"
    return f"Its next command has waited {now_s - connection.blocked_since_s:.1f} s for {what.removesuffix(',')}."


def _subscription(one: Subscription | TopicSubscription) -> SubscriptionNumbers:
    name = one.name.decode("utf-8", "replace")
    if isinstance(one, Subscription):
        return SubscriptionNumbers(
            id=name,
            destination=one.destination or f"/{TEMP}/{one.queue.name}",
            ack=one.ack,
            consumer=one.consumer_name or None,
            window=window_of(one),
            unacked=one.in_flight,
            stands=stands_of(one),
        )
    connection = one.connection
    stands = OUTBOX if connection.outbox_bytes >= connection.outbox_max_bytes else CAN_TAKE
    return SubscriptionNumbers(
        id=name,
        destination=f"/{TOPIC}/{one.pattern}",
        ack=one.ack,
        consumer=None,
        window=None,
        unacked=0,
        stands=CLOSING if connection.is_closing else stands,
    )
