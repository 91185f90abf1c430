"""Requests about checkouts: take more, what is done with, and back to the queue."""

from radiator.core.admin.prepared import name_in
from radiator.core.admin.queues import named
from radiator.core.admin.request import Request
from radiator.core.logs.log import Log
from radiator.model.errors import Refusal
from radiator.model.limits import AWAIT_MAX_MS, CHECKOUT_MESSAGES_MAX, SIZE_MAX


def checkout(request: Request) -> None:
    """Up to so many more of the queue's messages are the group's from now on."""
    request.has_only("queue", "group", "max_messages", "max_bytes")
    group = name_in(request, "group")
    most = request.number("max_messages", CHECKOUT_MESSAGES_MAX)
    bytes_max = request.number("max_bytes", SIZE_MAX) if "max_bytes" in request.asked else None

    def done(log: Log) -> None:
        partition = log.partitions[0]
        request.answer(log=log.bare_name, incarnation=log.incarnation, first=partition.first, next=partition.committed)

    request.parts.checkouts.take(named(request), group, most, bytes_max, done)


def wait(request: Request) -> None:
    """`await`: answered as soon as a message of the queue is ready, or after a while."""
    request.has_only("queue", "timeout_ms")
    queue, checkouts = named(request), request.parts.checkouts
    timeout_ms = request.number("timeout_ms", AWAIT_MAX_MS)
    stored = checkouts.stored(queue)
    answered = request.begin_waiting()

    def done() -> None:
        answered()
        if queue.is_gone:
            request.refuse(Refusal("no-such-destination", f"{queue.address} has been deleted."))
        else:
            request.answer(ready=queue.ready_count)

    checkouts.wait(stored, timeout_ms, done, lambda: request.connection.is_closing)


def acknowledge(request: Request) -> None:
    """All before a number are done with."""
    request.has_only("queue", "group", "before")
    queue, group = request.name("queue"), name_in(request, "group")
    log = request.parts.checkouts.ack(queue, group, request.number("before", SIZE_MAX))
    first = log.partitions[0].first
    request.answer_synced(lambda: {"first": first})


def release(request: Request) -> None:
    """What the group has goes back to the queue, and the group is over."""
    request.has_only("queue", "group")
    queue, group = request.name("queue"), name_in(request, "group")

    def done(count: int) -> None:
        request.parts.context.note("info", "checkout_released", queue=queue, group=group, messages=count)
        request.answer_synced(lambda: {"released": count})

    request.parts.checkouts.release(queue, group, done, request.refuse)
