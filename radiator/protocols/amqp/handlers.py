"""What each channel method does: TAKES has a row for each method that a client may send."""

from typing import Any

from radiator.model.ack_modes import AUTO, CLIENT_INDIVIDUAL
from radiator.model.addresses import EXCHANGE, QUEUE
from radiator.model.administration import (
    AddBinding,
    DeclareDestination,
    DeleteDestination,
    PurgeQueue,
    RemoveBinding,
)
from radiator.model.answers import AdminAnswer, Deleted, Purged, QueueDeclared
from radiator.model.checks import shown
from radiator.model.commands import Abort, Ack, Begin, Heard, Nack, Subscribe, Unsubscribe
from radiator.model.exchange_bindings import EXCHANGE_PREFIX
from radiator.model.getting import FindAsker, Get, SetWindow
from radiator.model.header_bindings import arguments_key
from radiator.model.limits import PREFETCH_COUNT_MAX
from radiator.protocols.amqp import spec
from radiator.protocols.amqp.addresses import REPLY_TO, queue_destination, reply_id
from radiator.protocols.amqp.arguments import consumer_settings, exchange_settings, queue_settings, settings_if_new
from radiator.protocols.amqp.channel import RPC, TRANSACTION, Channel, Take
from radiator.protocols.amqp.codec import encode_method
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
    TxCommit,
    TxRollback,
    TxSelect,
    TxSelectOk,
)

_RESERVED_PREFIX = "amq."


def _ok(channel: Channel, asked: Any, answer: Method) -> bytes:
    """Returns the frame of an answer, or nothing if the client does not wait for one."""
    return b"" if asked.no_wait else encode_method(channel.wire, answer)


def _say_behind(channel: Channel, frames: bytes, commands: list[Heard]) -> None:
    """Sends an answer that needs nothing from the broker, but after the replies to messages published before: one may
    be returned, or close the channel. Once a client has the answer it looks for neither.
    """
    if not (frames and channel.has_published) or channel.has_transactions:  # then all replies come with the commit
        return channel.say(frames)
    # an empty transaction: the core's answer to it comes after everything it has said before
    commands.append(Begin(channel.number, TRANSACTION))
    commands.append(Abort(channel.number, TRANSACTION, RPC))
    channel.wait_for_receipt(frames)


def _refuse_reserved(name: str, what: str) -> None:
    if name.startswith(_RESERVED_PREFIX):
        raise BrokenAmqp(spec.ACCESS_REFUSED, f"{what} name {shown(name)} contains reserved prefix 'amq.*'")


def _queue(channel: Channel, name: str) -> str:
    """Returns the name of the queue that is meant: "" stands for the one that the channel declared last."""
    if name:
        return name
    if not channel.last_queue:
        raise BrokenAmqp(spec.NOT_FOUND, "no previously declared queue: name one")
    return channel.last_queue


def _binding(channel: Channel, arguments: Any) -> tuple[str, str, str, str]:
    """Returns the parts of a queue's binding. If neither the queue nor a key is named, the key is the queue's name."""
    name = _queue(channel, arguments.queue)
    if not arguments.exchange:
        raise BrokenAmqp(spec.ACCESS_REFUSED, "operation not permitted on the default exchange")
    key = arguments.routing_key if arguments.queue or arguments.routing_key else name
    return arguments.exchange, key, name, _headers_key(arguments)


# ---- exchanges ------------------------------------------------------------------------------------------------------


def _exchange_declare(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    name = arguments.exchange
    if not name:
        raise BrokenAmqp(spec.ACCESS_REFUSED, "operation not permitted on the default exchange")
    settings: dict[str, Any] = {}
    if not arguments.passive:
        settings = exchange_settings(
            arguments.type, arguments.durable, arguments.auto_delete, arguments.internal, arguments.arguments
        )
    ok = _ok(channel, arguments, ExchangeDeclareOk())
    channel.ask(DeclareDestination(EXCHANGE, name, settings, arguments.passive), lambda _: ok, commands)


def _exchange_delete(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    name = arguments.exchange
    if not name:
        raise BrokenAmqp(spec.ACCESS_REFUSED, "operation not permitted on the default exchange")
    _refuse_reserved(name, "exchange")
    ok = _ok(channel, arguments, ExchangeDeleteOk())
    command = DeleteDestination(EXCHANGE, name, if_unbound=arguments.if_unused)
    channel.ask(command, lambda _: ok, commands, ok)


def _exchange_bind(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    """Binds one exchange to another (RabbitMQ, "Exchange to Exchange Bindings")."""
    ok = _ok(channel, arguments, ExchangeBindOk())
    channel.ask(AddBinding(*_of_exchanges(arguments)), lambda _: ok, commands)


def _exchange_unbind(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    ok = _ok(channel, arguments, ExchangeUnbindOk())
    channel.ask(RemoveBinding(*_of_exchanges(arguments)), lambda _: ok, commands, ok)


def _of_exchanges(arguments: Any) -> tuple[str, str, str, str]:
    if not arguments.source or not arguments.destination:
        raise BrokenAmqp(spec.ACCESS_REFUSED, "operation not permitted on the default exchange")
    to = EXCHANGE_PREFIX + arguments.destination
    return arguments.source, arguments.routing_key, to, _headers_key(arguments)


def _headers_key(arguments: Any) -> str:
    """Returns what a binding to an exchange of type headers has in place of a key."""
    try:
        return arguments_key(arguments.arguments)
    except ValueError as mistake:
        raise BrokenAmqp(spec.PRECONDITION_FAILED, f"the binding {mistake}") from None


# ---- queues ---------------------------------------------------------------------------------------------------------


def _queue_declare(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    name = arguments.queue
    if name == REPLY_TO:
        _say_behind(channel, _ok(channel, arguments, QueueDeclareOk(name, 0, 1)), commands)
        return
    if asker := reply_id(name):
        _find_asker(channel, arguments, asker, commands)
        return
    if not arguments.passive and name not in channel.own_queues:
        _refuse_reserved(name, "queue")
    if arguments.passive:
        name = _queue(channel, name)
    elif not name:
        name = channel.new_queue_name()
    is_owned = arguments.exclusive and not arguments.passive
    settings: dict[str, Any] = {}
    if not arguments.passive:
        is_persistent = arguments.durable and not is_owned
        settings = queue_settings(arguments.arguments, is_persistent, arguments.auto_delete)

    def done(answer: AdminAnswer) -> bytes:
        assert isinstance(answer, QueueDeclared)
        channel.last_queue = name
        return _ok(channel, arguments, QueueDeclareOk(name, answer.ready, answer.consumers))

    if_new = settings_if_new(settings)
    command = DeclareDestination(
        QUEUE, name, settings, arguments.passive, is_owned=is_owned, is_exact=True, if_new=if_new
    )
    channel.ask(command, done, commands)


def _find_asker(channel: Channel, arguments: Any, asker: str, commands: list[Heard]) -> None:
    """Tells a server whether the client that asked is still there to be answered (RabbitMQ, "Direct Reply-to")."""

    def done() -> bytes:
        channel.last_queue = arguments.queue
        return _ok(channel, arguments, QueueDeclareOk(arguments.queue, 0, 1))

    channel.wait_for(done)
    commands.append(FindAsker(channel.number, asker, RPC))


def _queue_bind(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    command = AddBinding(*_binding(channel, arguments))
    ok = _ok(channel, arguments, QueueBindOk())
    channel.ask(command, lambda _: ok, commands)


def _queue_unbind(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    command = RemoveBinding(*_binding(channel, arguments))
    ok = encode_method(channel.wire, QueueUnbindOk())
    channel.ask(command, lambda _: ok, commands, ok)


def _queue_purge(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    def done(answer: AdminAnswer) -> bytes:
        assert isinstance(answer, Purged)
        return _ok(channel, arguments, QueuePurgeOk(answer.purged))

    channel.ask(PurgeQueue(_queue(channel, arguments.queue)), done, commands)


def _queue_delete(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    def done(answer: AdminAnswer) -> bytes:
        assert isinstance(answer, Deleted)
        return _ok(channel, arguments, QueueDeleteOk(answer.deleted))

    name = _queue(channel, arguments.queue)
    command = DeleteDestination(QUEUE, name, arguments.if_unused, arguments.if_empty, takes_unacked=True)
    channel.ask(command, done, commands, _ok(channel, arguments, QueueDeleteOk(0)))


# ---- messages -------------------------------------------------------------------------------------------------------


def _basic_qos(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    if arguments.prefetch_size:
        sentence = f"prefetch_size is {arguments.prefetch_size}: windows are counted in messages here, so it must be 0"
        raise BrokenAmqp(spec.NOT_IMPLEMENTED, sentence)
    ok = encode_method(channel.wire, BasicQosOk())
    if arguments.is_global:
        channel.wait_for_receipt(ok)
        commands.append(SetWindow(channel.number, arguments.prefetch_count, RPC))
    else:
        channel.prefetch = arguments.prefetch_count
        _say_behind(channel, ok, commands)


def _basic_consume(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    tag = arguments.consumer_tag or channel.new_tag()
    if tag.encode() in channel.tags:
        raise BrokenAmqp(spec.NOT_ALLOWED, f"attempt to reuse consumer tag {shown(tag)}")
    is_reply = arguments.queue == REPLY_TO
    if is_reply and not arguments.no_ack:
        raise BrokenAmqp(spec.PRECONDITION_FAILED, "reply consumer cannot acknowledge: set no_ack")
    if is_reply and True in channel.tags.values():
        # a reply goes to one consumer: of two on a channel, each would wait for what the other got
        raise BrokenAmqp(spec.PRECONDITION_FAILED, "reply consumer already set")
    priority = consumer_settings(arguments.arguments)
    address = f"/temp-queue/{REPLY_TO}" if is_reply else queue_destination(_queue(channel, arguments.queue))
    channel.tags[tag.encode()] = is_reply
    channel.wait_for_receipt(_ok(channel, arguments, BasicConsumeOk(tag)))
    commands.append(
        Subscribe(
            channel.number,
            tag.encode(),
            address,
            AUTO if arguments.no_ack else CLIENT_INDIVIDUAL,
            None if arguments.no_ack else channel.prefetch or PREFETCH_COUNT_MAX,
            arguments.exclusive,
            receipt=RPC,
            shares_window=not arguments.no_ack,
            reports_end=True,
            consumer_priority=0 if is_reply else priority,
        )
    )


def _basic_cancel(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    tag = arguments.consumer_tag
    ok = _ok(channel, arguments, BasicCancelOk(tag))
    if channel.tags.pop(tag.encode(), None) is None:
        _say_behind(channel, ok, commands)
        return
    channel.wait_for_receipt(ok)
    commands.append(Unsubscribe(channel.number, tag.encode(), RPC))


def _basic_get(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    queue = _queue(channel, arguments.queue)
    channel.wait_for_receipt(b"")
    ack = AUTO if arguments.no_ack else CLIENT_INDIVIDUAL
    commands.append(Get(channel.number, queue_destination(queue), RPC, ack))


def _settled(channel: Channel, tag: int, multiple: bool) -> tuple[bytes, ...]:
    """Settles what an ack or a nack names, and returns the ids of those messages: perhaps none, if it names all."""
    if not (multiple or channel.has_transactions):
        message_id = channel.unacked.settle(tag)
        if message_id is not None:
            return (message_id,)
    named = channel.unacked.named_by(tag, multiple)
    if named is None:
        raise BrokenAmqp(spec.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
    channel.unacked.settled(named, channel.has_transactions)
    return tuple(message_id for _, message_id in named)


def _basic_ack(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    ids = _settled(channel, arguments.delivery_tag, arguments.multiple)
    if ids:
        transaction = channel.transaction(commands)
        commands.append(Ack(channel.number, ids[0], transaction=transaction, more=ids[1:]))


def _nack(
    channel: Channel, tag: int, multiple: bool, requeue: bool, commands: list[Heard], is_reject: bool = False
) -> None:
    ids = _settled(channel, tag, multiple)
    if ids:
        transaction, more = channel.transaction(commands), ids[1:]
        commands.append(
            Nack(channel.number, ids[0], transaction=transaction, requeue=requeue, more=more, is_reject=is_reject)
        )


def _basic_reject(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    _nack(channel, arguments.delivery_tag, False, arguments.requeue, commands, is_reject=True)


def _basic_nack(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    _nack(channel, arguments.delivery_tag, arguments.multiple, arguments.requeue, commands)


def _recover(channel: Channel, arguments: Any, commands: list[Heard], ok: bytes) -> None:
    if not arguments.requeue:
        raise BrokenAmqp(spec.NOT_IMPLEMENTED, "recover without requeue is not supported: set requeue")
    ids = channel.unacked.take_all()
    if not ids:
        _say_behind(channel, ok, commands)
        return
    channel.wait_for_receipt(ok)
    commands.append(Nack(channel.number, ids[0], receipt=RPC, more=tuple(ids[1:])))


def _basic_recover(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    _recover(channel, arguments, commands, encode_method(channel.wire, BasicRecoverOk()))


def _basic_recover_async(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    _recover(channel, arguments, commands, b"")


# ---- confirms, transactions, the channel itself ---------------------------------------------------------------------


def _confirm_select(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    if channel.has_transactions:
        raise BrokenAmqp(spec.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.confirms = True
    _say_behind(channel, _ok(channel, arguments, ConfirmSelectOk()), commands)


def _tx_select(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    if channel.confirms:
        raise BrokenAmqp(spec.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    _say_behind(channel, encode_method(channel.wire, TxSelectOk()), commands)
    channel.has_transactions = True


def _tx_commit(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    channel.end_transaction(True, commands)


def _tx_rollback(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    channel.end_transaction(False, commands)


def _channel_open(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    raise BrokenAmqp(spec.CHANNEL_ERROR, f"channel {channel.wire} is open already")


def _channel_flow(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    if not arguments.active:
        raise BrokenAmqp(spec.NOT_IMPLEMENTED, "channel.flow off is not supported: use basic.qos")
    _say_behind(channel, encode_method(channel.wire, ChannelFlowOk(True)), commands)


def _access_request(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    """Answers a method of AMQP 0-8: old clients ask for a ticket, which is never checked (RabbitMQ)."""
    _say_behind(channel, encode_method(channel.wire, AccessRequestOk()), commands)


def _channel_close(channel: Channel, arguments: Any, commands: list[Heard]) -> None:
    channel.end(commands)


TAKES: dict[type[Method], Take] = {
    ChannelOpen: _channel_open,
    AccessRequest: _access_request,
    ChannelFlow: _channel_flow,
    ChannelClose: _channel_close,
    ExchangeDeclare: _exchange_declare,
    ExchangeDelete: _exchange_delete,
    ExchangeBind: _exchange_bind,
    ExchangeUnbind: _exchange_unbind,
    QueueDeclare: _queue_declare,
    QueueBind: _queue_bind,
    QueueUnbind: _queue_unbind,
    QueuePurge: _queue_purge,
    QueueDelete: _queue_delete,
    BasicQos: _basic_qos,
    BasicConsume: _basic_consume,
    BasicCancel: _basic_cancel,
    BasicPublish: Channel.publish,
    BasicGet: _basic_get,
    BasicAck: _basic_ack,
    BasicReject: _basic_reject,
    BasicNack: _basic_nack,
    BasicRecover: _basic_recover,
    BasicRecoverAsync: _basic_recover_async,
    ConfirmSelect: _confirm_select,
    TxSelect: _tx_select,
    TxCommit: _tx_commit,
    TxRollback: _tx_rollback,
}
