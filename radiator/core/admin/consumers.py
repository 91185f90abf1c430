"""Requests about the consumers of a queue: who has a name, who registers or is drained, and how many would be busy."""

from collections.abc import Iterator
from typing import Protocol

from radiator.core.answers import in_order
from radiator.core.crowd import stands_of
from radiator.core.ports import AnsweringPort
from radiator.core.queues import key_numbers
from radiator.core.queues.queue import Queue
from radiator.core.registrations import Registrations
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.model.administration import DrainConsumer, ListConsumers, ReadScale, RegisterConsumer
from radiator.model.consumers import ConsumerDrained, ConsumerRegistered, Consumers, NamedConsumer, Scale
from radiator.model.errors import Refusal
from radiator.model.numbers import PAUSE, PauseRow, Rows


class ConsumersPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def destinations(self) -> Destinations: ...

    @property
    def registrations(self) -> Registrations: ...


def register(request: Request[ConsumersPort], command: RegisterConsumer) -> None:
    """Registers a consumer, or renews its registration."""
    queue, name = _of_asker(request, command.queue), command.name
    held = 0 if queue.named is None else len(queue.named.held)
    created = request.parts.registrations.register(queue, name, command.is_ready, command.lease_ms)
    assert queue.named is not None, "a registration is in it"
    if len(queue.named.held) != held:
        request.costs(key_numbers.free_keys(queue))
    registration = queue.named.registered[name]
    request.answer(
        ConsumerRegistered(
            name=name,
            ready=registration.is_ready,
            draining=registration.is_draining,
            lease_ms=registration.lease_ms,
            subscribe={"destination": queue.address, "consumer-name": name},
            share=1 / queue.named.sharing(name, len(queue.subscriptions)),
            consumers=len(queue.subscriptions),
            created=created,
        )
    )


def drain(request: Request[ConsumersPort], command: DrainConsumer) -> None:
    """Gives a consumer nothing more, and answers when nothing is unacked with it, or after a while."""
    queue = _of_asker(request, command.queue)
    answered = request.begin_waiting()

    def done(unacked: int) -> None:
        answered()
        request.answer(ConsumerDrained(not unacked, unacked))

    request.parts.registrations.drain(queue, command.name, command.wait_ms, done, lambda: request.connection.is_closing)


def listed(request: Request[ConsumersPort], command: ListConsumers) -> None:
    """Answers with the consumers that have names, or a page of them."""
    queue = queue_with_consumers(request, command.queue)

    def rows() -> Iterator[NamedConsumer | PauseRow]:
        names = () if queue.named is None else queue.named.names()
        for name in in_order(names, command.after, command.limit, command.match):
            if name is PAUSE:
                yield PAUSE
            elif (row := _row(queue, name, request.parts.context.now_s)) is not None:
                yield row

    request.answer_in_slices(lambda: Consumers(Rows(rows())))


def _row(queue: Queue, name: str, now_s: float) -> NamedConsumer | None:
    """Returns the row of a consumer; None: it has gone meanwhile."""
    assert queue.named is not None, "it had a name"
    registration, subscription = queue.named.registered.get(name), queue.named.subscribed.get(name)
    if registration is None and subscription is None:
        return None
    is_away = registration is not None and registration.due_s > 0
    return NamedConsumer(
        name=name,
        connection=None if subscription is None else subscription.connection.number,
        registered=registration is not None,
        ready=registration is None or registration.is_ready,
        draining=registration is not None and registration.is_draining,
        unacked=0 if subscription is None else subscription.in_flight,
        keys=key_numbers.keys_of(queue, name, subscription),
        stands=None if subscription is None else stands_of(subscription),
        lease_left_ms=max(0, round((registration.due_s - now_s) * 1000)) if registration and is_away else None,
    )


def scale(request: Request[ConsumersPort], command: ReadScale) -> None:
    """Answers with the numbers by which consumers are started and stopped."""
    queue = queue_with_consumers(request, command.queue)

    def answer(oldest_ms: int | None) -> None:
        request.answer(
            Scale(
                backlog=key_numbers.backlog(queue),
                oldest_ms=oldest_ms,
                active_keys=key_numbers.active_keys(queue),
                consumers=len(queue.subscriptions),
                useful_consumers=key_numbers.useful_consumers(queue),
            )
        )

    request.parts.context.open.then.append(lambda: queue.read_oldest_age(answer))


def _of_asker(request: Request[ConsumersPort], name: str) -> Queue:
    """Returns the queue as `queue_with_consumers` does; also raises Refusal if only another connection may use it."""
    queue = queue_with_consumers(request, name)
    request.parts.destinations.queues.owned.check(queue, request.connection)
    return queue


def queue_with_consumers(request: Request[ConsumersPort], name: str) -> Queue:
    """Returns the queue of that name, if it is one that has consumers. Raises Refusal."""
    queue = request.parts.destinations.existing_queue(name)
    if name.startswith(OUTBOX_PREFIX):
        raise Refusal("bad-request", f"{queue.address} holds copies for another node: it has no consumers.")
    return queue
