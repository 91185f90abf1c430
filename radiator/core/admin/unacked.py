"""Requests about what is unacked with the consumers of a queue: who has which message since when, and more time for
one.
"""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import nsmallest
from typing import Protocol

from radiator.core.connections import Delivery
from radiator.core.lease_owner import Lease, Owner
from radiator.core.leases import Leases
from radiator.core.ports import AnsweringPort
from radiator.core.queues.queue import Queue
from radiator.core.queues.timeouts import end_s
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.core.turn import TurnContext
from radiator.model.administration import ExtendUnacked, ListUnacked
from radiator.model.commands import AUTO
from radiator.model.errors import Refusal
from radiator.model.limits import LEASE_MAX_MS, LEASE_MIN_MS, LOOKED_AT_ONCE
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.story import positions_in
from radiator.model.unacked import OutPlace, Unacked, UnackedExtended, UnackedMessage, place_text


class UnackedPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def destinations(self) -> Destinations: ...

    @property
    def leases(self) -> Leases: ...


def listed(request: Request[UnackedPort], command: ListUnacked) -> None:
    """Answers with what has been unacked for longest, or the page after a place."""
    queue, context = request.parts.destinations.existing_queue(command.queue), request.parts.context

    def answer() -> Iterator[Unacked | PauseRow]:
        page: list[Delivery] = []
        for delivery in _behind([*queue.entries_out.values()], command.after, command.limit + 1):
            if delivery is PAUSE:
                yield PAUSE
            else:
                page.append(delivery)
        is_last = len(page) <= command.limit
        del page[command.limit :]
        rows = (_shown(context, one) for one in page if one.is_out)
        yield Unacked(Rows(rows), len(queue.entries_out), None if is_last else place_text(_place(page[-1])))

    request.answer_in_slices(answer)


def _behind(out: list[Delivery], after: OutPlace | None, most: int) -> Iterator[Delivery | PauseRow]:
    """Yields PAUSEs, then the first of them after that place. out: in the order of delivery, of one turn in
    any order.
    """
    found: list[Delivery] = []
    first = 0 if after is None else bisect_left(out, after.since_us, key=_since_us)
    for begin in range(first, len(out), LOOKED_AT_ONCE):
        run = out[begin : begin + LOOKED_AT_ONCE]
        if len(found) >= most and _since_us(run[0]) > _since_us(found[-1]):
            break
        behind = run if after is None else [one for one in run if _place(one) > after]
        found = nsmallest(most, [*found, *behind], key=_place)
        yield PAUSE
    yield from found


def _since_us(delivery: Delivery) -> int:
    return int(delivery.out_s * 1_000_000)


def _place(delivery: Delivery) -> OutPlace:
    return OutPlace(_since_us(delivery), delivery.entry.position)


def _shown(context: TurnContext, delivery: Delivery) -> UnackedMessage:
    entry, subscription = delivery.entry, delivery.subscription
    connection = subscription.connection
    is_leased = isinstance(connection, Owner)
    ends_s = _ends_s(delivery, context.now_s)
    return UnackedMessage(
        message_id=delivery.message_id.decode(),
        connection=None if is_leased else connection.number,
        address=None if is_leased else connection.peer,
        user=connection.principal.name,
        subscription=None if is_leased else subscription.name.decode("utf-8", "replace"),
        consumer=subscription.consumer_name or None,
        age_ms=round((context.now_s - delivery.out_s) * 1000),
        due_ms=None if ends_s is None else _as_ms(context, ends_s),
        redelivery_count=entry.redeliveries,
        size=entry.size,
        is_leased=is_leased,
    )


def _ends_s(delivery: Delivery, now_s: float) -> float | None:
    """Returns when its lease or ack timeout ends, in monotonic seconds; None: it has neither."""
    lease = _lease_of(delivery)
    if lease is not None:
        return lease.due_s
    return None if delivery.subscription.ack_timeout_s is None else end_s(delivery, now_s)


def _lease_of(delivery: Delivery) -> Lease | None:
    owner = delivery.subscription.connection
    return owner.leases.get(delivery.lease) if isinstance(owner, Owner) else None


def _as_ms(context: TurnContext, at_s: float) -> int:
    """Monotonic seconds as a time since the epoch."""
    return context.now_ms + round((at_s - context.now_s) * 1000)


def extend(request: Request[UnackedPort], command: ExtendUnacked) -> None:
    """Has the lease or ack timeout of one message end that many seconds from now."""
    parts, seconds = request.parts, command.seconds
    queue, context = parts.destinations.existing_queue(command.queue, request.connection), parts.context
    delivery = _out(queue, command.message_id, context)
    lease = _lease_of(delivery)
    if lease is not None:
        lease_ms = round(seconds * 1000)
        if not LEASE_MIN_MS <= lease_ms <= LEASE_MAX_MS:
            raise Refusal(
                "bad-request",
                f"`seconds` is {seconds:g}, and {command.message_id} is leased: a lease is extended by "
                f"{LEASE_MIN_MS / 1000:g} to {LEASE_MAX_MS / 1000:g}.",
            )
        parts.leases.settlements.extend(lease, lease_ms)
    elif delivery.subscription.ack_timeout_s is None:
        raise Refusal(
            "no-ack-timeout",
            f"{command.message_id} has no ack timeout: it stays with {delivery.subscription.connection.address} until "
            "that settles it or is gone. `radiator disconnect` ends a connection.",
        )
    else:
        queue.begin_timeout(delivery, seconds)
    ends_s = _ends_s(delivery, context.now_s)
    assert ends_s is not None, "it has just been given more time"
    request.answer(UnackedExtended(command.message_id, _as_ms(context, ends_s)))


def _out(queue: Queue, message_id: str, context: TurnContext) -> Delivery:
    """Returns the unacked message of the queue with that id. Raises Refusal."""
    position = next(iter(positions_in([message_id], context.store_id)), None)
    delivery = None if position is None else queue.entries_out.get(position)
    if delivery is None or not _is_held(delivery, context.now_s):
        raise Refusal(
            "not-unacked",
            f"{message_id} is not unacked in {queue.address}: it was settled, or is ready again, or is in another "
            f"queue. `radiator unacked {queue.name}` lists what is unacked.",
        )
    return delivery


def _is_held(delivery: Delivery, now_s: float) -> bool:
    """Whether its consumer still has it: not if its connection is being closed, or its COMMIT is being committed."""
    connection = delivery.subscription.connection
    if connection.is_closing or (isinstance(connection, Owner) and _lease_of(delivery) is None):
        return False
    lease = _lease_of(delivery)
    if lease is not None and lease.due_s <= now_s:
        return False
    return delivery.subscription.ack == AUTO or delivery.message_id in connection.unacked
