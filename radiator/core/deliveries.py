"""Says what an ACK or NACK means: which deliveries, and what becomes of them; and more time for one."""

from radiator.core.connections import Connection, Delivery
from radiator.core.states import Event
from radiator.model.commands import AUTO, CLIENT, Ack, Nack
from radiator.model.errors import Refusal, shown
from radiator.model.message import is_id_of, is_topic_id


def named_by(connection: Connection, command: Ack | Nack, store_id: str) -> list[Delivery]:
    """Returns the deliveries that the command settles; none where it has no effect (`auto` subscriptions, topics).

    `client`: this message and all sent before it on the same subscription, except those that wait in a transaction;
    with `more` the messages that it names, each alone. Raises Refusal for a message that is not unacked on this
    connection, or already waits in an open transaction.
    """
    delivery = _named(connection, command, command.message_id, store_id)
    if command.more:
        ids = dict.fromkeys(command.more)
        ids.pop(command.message_id, None)
        others = (_named(connection, command, message_id, store_id) for message_id in ids)
        return [one for one in (delivery, *others) if one is not None]
    if delivery is None:
        return []
    subscription = delivery.subscription
    if subscription.ack != CLIENT:
        return [delivery]
    named = []
    for earlier in subscription.unacked.values():
        if earlier.transaction is None:
            named.append(earlier)
        if earlier is delivery:
            break
    return named


def _named(connection: Connection, command: Ack | Nack, message_id: bytes, store_id: str) -> Delivery | None:
    """Returns the delivery of that message, if the command settles it. Raises Refusal."""
    # a message id is unacked once on a connection at most: a `subscription` (1.1) that does not match is ignored
    delivery = connection.unacked.get(message_id)
    if delivery is None:
        if _means_nothing(connection, command, message_id, store_id):
            return None
        what = "NACK" if isinstance(command, Nack) else "ACK"
        raise Refusal("not-unacked", f"{what} of {shown(message_id)}: no such message is unacked on this connection.")
    if delivery.transaction is not None:
        raise Refusal(
            "in-transaction", f"{shown(message_id)} is in the open transaction {shown(delivery.transaction)} already."
        )
    subscription = delivery.subscription
    if type(command) is Nack and command.delay_ms is not None and not subscription.queue.can_delay:
        raise Refusal("no-delay", f"{shown(message_id)} is of a log, which keeps nothing back: NACK without `delay`.")
    return delivery


def _means_nothing(connection: Connection, command: Ack | Nack, message_id: bytes, store_id: str) -> bool:
    """Whether the command has no effect: topic messages are never unacked; an `auto` message was acked when written."""
    if is_topic_id(message_id):
        return connection.had_topic  # also of one that was published on another node
    if not is_id_of(message_id, store_id):
        return False
    if command.subscription is not None:
        named = connection.queue_subscriptions.get(command.subscription)
        if named is not None:
            return named.ack == AUTO
    return connection.had_auto


def settle(command: Ack | Nack, delivery: Delivery) -> None:
    """Carries out the command in the delivery's queue. The delivery has left its connection's window already."""
    queue = delivery.subscription.queue
    if queue.is_gone:
        return
    if isinstance(command, Ack):
        queue.ack(delivery)
    elif not delivery.is_out:
        return  # it was to be read back, and is damaged
    elif command.requeue:
        queue.give_back(delivery, Event.NACK, command.delay_ms)
    else:
        queue.reject(delivery)


def settle_in_turn(command: Ack | Nack, delivery: Delivery) -> None:
    """Settles as `settle` does, for a command that goes on in the next turn once commands like it have made too many
    dead letters in this one. Dead letters that other commands make do not count: a flood of them would keep it waiting
    for as long as it lasts.
    """
    context = delivery.subscription.queue.context
    before = context.dead_letters_cost
    settle(command, delivery)
    context.settled_cost += context.dead_letters_cost - before


def needs_bytes(command: Ack | Nack, delivery: Delivery) -> bool:
    """Whether its message must be read back before this command can settle it."""
    if isinstance(command, Ack) or not delivery.is_out:
        return False
    event = Event.NACK if command.requeue else Event.GIVE_UP
    return delivery.subscription.queue.needs_bytes(delivery.entry, event, command.delay_ms)


def bytes_stored_anew(command: Ack | Nack, delivery: Delivery) -> int:
    """Returns the bytes that this command stores again to settle it: as a dead letter, or as a delayed message."""
    queue = delivery.subscription.queue
    if isinstance(command, Ack):
        return 0
    event = Event.NACK if command.requeue else Event.GIVE_UP
    return delivery.entry.size if queue.goes_elsewhere(delivery.entry, event, command.delay_ms) else 0


def extend(connection: Connection, message_id: bytes, timeout_s: float | None) -> int | None:
    """Restarts its ack timeout, with timeout_s or the whole time. Returns its end in ms since the epoch; None: it has
    no ack timeout. Raises Refusal for a message that is not unacked on this connection.
    """
    delivery = connection.unacked.get(message_id)
    if delivery is None:
        raise Refusal("not-unacked", f"{shown(message_id)} cannot be extended: it is not unacked on this connection.")
    whole_s = delivery.subscription.ack_timeout_s
    if whole_s is None:
        return None
    queue = delivery.subscription.queue
    timeout_s = whole_s if timeout_s is None else timeout_s
    queue.begin_timeout(delivery, timeout_s)
    return queue.context.now_ms + int(timeout_s * 1000)
