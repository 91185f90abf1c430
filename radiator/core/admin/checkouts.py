"""Requests about checkouts: take more, ack, and give back to the queue."""

from typing import Protocol

from radiator.core.logs.checkouts import Checkouts
from radiator.core.logs.log import Log
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.model.administration import AckCheckout, AwaitQueue, ReleaseCheckout, TakeCheckout
from radiator.model.answers import CheckedOut, CheckoutAcked, CheckoutReleased, QueueReady
from radiator.model.errors import Refusal


class CheckoutsPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def checkouts(self) -> Checkouts: ...

    @property
    def destinations(self) -> Destinations: ...


def take(request: Request[CheckoutsPort], command: TakeCheckout) -> None:
    """Checks out up to that many more of the queue's messages for the group."""

    def done(log: Log) -> None:
        partition = log.partitions[0]
        request.answer(CheckedOut(log.bare_name, log.incarnation, partition.first, partition.committed))

    queue = request.parts.destinations.existing_queue(command.queue, request.connection)
    request.parts.checkouts.take(queue, command.group, command.max_messages, command.max_bytes, done)


def wait(request: Request[CheckoutsPort], command: AwaitQueue) -> None:
    """Answers as soon as a message of the queue is ready, or after a while."""
    parts = request.parts
    queue, checkouts = parts.destinations.existing_queue(command.queue, request.connection), parts.checkouts
    stored = checkouts.stored(queue)
    answered = request.begin_waiting()

    def done() -> None:
        answered()
        if queue.is_gone:
            request.refuse(Refusal("no-such-destination", f"{queue.address} has been deleted."))
        else:
            request.answer(QueueReady(queue.ready_count))

    checkouts.wait(stored, command.timeout_ms, done, lambda: request.connection.is_closing)


def ack(request: Request[CheckoutsPort], command: AckCheckout) -> None:
    """Acks all numbers below that one."""
    log = request.parts.checkouts.ack(command.queue, command.group, command.before)
    first = log.partitions[0].first
    request.answer_synced(lambda: CheckoutAcked(first))


def release(request: Request[CheckoutsPort], command: ReleaseCheckout) -> None:
    """Puts back into the queue what the group has, and ends the group."""
    queue, group = command.queue, command.group

    def done(count: int) -> None:
        request.parts.context.note("info", "checkout_released", queue=queue, group=group, messages=count)
        request.answer_synced(lambda: CheckoutReleased(count))

    request.parts.checkouts.release(queue, group, done, request.refuse)
