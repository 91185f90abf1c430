"""The methods of AMQP 0-9-1 with RabbitMQ's extensions.

A method is a NamedTuple: its fields are the arguments in the order of the wire, and its annotations say how each is
written (codec.py does it). Ask for its type: two without arguments are equal, as all empty tuples are.
"""

from typing import Any, NamedTuple, TypeAlias

from radiator.protocols.amqp.connection_methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from radiator.protocols.amqp.spec import (
    NO_ARGUMENTS,
    NO_ROUTE,
    REPLY_SUCCESS,
    Bit,
    Long,
    LongLong,
    LongString,
    Short,
    ShortString,
    Table,
)

# ---- channel, and access, which old clients ask for -----------------------------------------------------------------


class ChannelOpen(NamedTuple):
    """channel.open"""

    out_of_band: ShortString = ""


class ChannelOpenOk(NamedTuple):
    """channel.open-ok"""

    channel_id: LongString = b""


class ChannelFlow(NamedTuple):
    """channel.flow"""

    active: Bit = True


class ChannelFlowOk(NamedTuple):
    """channel.flow-ok"""

    active: Bit = True


class ChannelClose(NamedTuple):
    """channel.close"""

    reply_code: Short = REPLY_SUCCESS
    reply_text: ShortString = ""
    class_id: Short = 0
    method_id: Short = 0


class ChannelCloseOk(NamedTuple):
    """channel.close-ok"""


class AccessRequest(NamedTuple):
    """access.request"""

    realm: ShortString = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


class AccessRequestOk(NamedTuple):
    """access.request-ok"""

    ticket: Short = 1


# ---- exchange -------------------------------------------------------------------------------------------------------


class ExchangeDeclare(NamedTuple):
    """exchange.declare"""

    ticket: Short = 0
    exchange: ShortString = ""
    type: ShortString = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: Table = NO_ARGUMENTS


class ExchangeDeclareOk(NamedTuple):
    """exchange.declare-ok"""


class ExchangeDelete(NamedTuple):
    """exchange.delete"""

    ticket: Short = 0
    exchange: ShortString = ""
    if_unused: Bit = False
    no_wait: Bit = False


class ExchangeDeleteOk(NamedTuple):
    """exchange.delete-ok"""


class ExchangeBind(NamedTuple):
    """exchange.bind"""

    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: Table = NO_ARGUMENTS


class ExchangeBindOk(NamedTuple):
    """exchange.bind-ok"""


class ExchangeUnbind(NamedTuple):
    """exchange.unbind"""

    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: Table = NO_ARGUMENTS


class ExchangeUnbindOk(NamedTuple):
    """exchange.unbind-ok, to which RabbitMQ gave the number 51"""


# ---- queue ----------------------------------------------------------------------------------------------------------


class QueueDeclare(NamedTuple):
    """queue.declare"""

    ticket: Short = 0
    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: Table = NO_ARGUMENTS


class QueueDeclareOk(NamedTuple):
    """queue.declare-ok"""

    queue: ShortString = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(NamedTuple):
    """queue.bind"""

    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    no_wait: Bit = False
    arguments: Table = NO_ARGUMENTS


class QueueBindOk(NamedTuple):
    """queue.bind-ok"""


class QueueUnbind(NamedTuple):
    """queue.unbind"""

    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: Table = NO_ARGUMENTS


class QueueUnbindOk(NamedTuple):
    """queue.unbind-ok"""


class QueuePurge(NamedTuple):
    """queue.purge"""

    ticket: Short = 0
    queue: ShortString = ""
    no_wait: Bit = False


class QueuePurgeOk(NamedTuple):
    """queue.purge-ok"""

    message_count: Long = 0


class QueueDelete(NamedTuple):
    """queue.delete"""

    ticket: Short = 0
    queue: ShortString = ""
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


class QueueDeleteOk(NamedTuple):
    """queue.delete-ok"""

    message_count: Long = 0


# ---- basic ----------------------------------------------------------------------------------------------------------


class BasicQos(NamedTuple):
    """basic.qos"""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


class BasicQosOk(NamedTuple):
    """basic.qos-ok"""


class BasicConsume(NamedTuple):
    """basic.consume"""

    ticket: Short = 0
    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: Table = NO_ARGUMENTS


class BasicConsumeOk(NamedTuple):
    """basic.consume-ok"""

    consumer_tag: ShortString = ""


class BasicCancel(NamedTuple):
    """basic.cancel"""

    consumer_tag: ShortString = ""
    no_wait: Bit = False


class BasicCancelOk(NamedTuple):
    """basic.cancel-ok"""

    consumer_tag: ShortString = ""


class BasicPublish(NamedTuple):
    """basic.publish"""

    ticket: Short = 0
    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(NamedTuple):
    """basic.return"""

    reply_code: Short = NO_ROUTE
    reply_text: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicDeliver(NamedTuple):
    """basic.deliver"""

    consumer_tag: ShortString = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""


class BasicGet(NamedTuple):
    """basic.get"""

    ticket: Short = 0
    queue: ShortString = ""
    no_ack: Bit = False


class BasicGetOk(NamedTuple):
    """basic.get-ok"""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""
    message_count: Long = 0


class BasicGetEmpty(NamedTuple):
    """basic.get-empty"""

    cluster_id: ShortString = ""


class BasicAck(NamedTuple):
    """basic.ack"""

    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(NamedTuple):
    """basic.reject"""

    delivery_tag: LongLong = 0
    requeue: Bit = True


class BasicRecoverAsync(NamedTuple):
    """basic.recover-async"""

    requeue: Bit = False


class BasicRecover(NamedTuple):
    """basic.recover"""

    requeue: Bit = False


class BasicRecoverOk(NamedTuple):
    """basic.recover-ok"""


class BasicNack(NamedTuple):
    """basic.nack"""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


# ---- tx and confirm -------------------------------------------------------------------------------------------------


class TxSelect(NamedTuple):
    """tx.select"""


class TxSelectOk(NamedTuple):
    """tx.select-ok"""


class TxCommit(NamedTuple):
    """tx.commit"""


class TxCommitOk(NamedTuple):
    """tx.commit-ok"""


class TxRollback(NamedTuple):
    """tx.rollback"""


class TxRollbackOk(NamedTuple):
    """tx.rollback-ok"""


class ConfirmSelect(NamedTuple):
    """confirm.select"""

    no_wait: Bit = False


class ConfirmSelectOk(NamedTuple):
    """confirm.select-ok"""


Method: TypeAlias = tuple[Any, ...]
"""One of the NamedTuples above."""

METHODS: dict[tuple[int, int], type[Method]] = {
    (10, 10): ConnectionStart,
    (10, 11): ConnectionStartOk,
    (10, 20): ConnectionSecure,
    (10, 21): ConnectionSecureOk,
    (10, 30): ConnectionTune,
    (10, 31): ConnectionTuneOk,
    (10, 40): ConnectionOpen,
    (10, 41): ConnectionOpenOk,
    (10, 50): ConnectionClose,
    (10, 51): ConnectionCloseOk,
    (10, 60): ConnectionBlocked,
    (10, 61): ConnectionUnblocked,
    (10, 70): ConnectionUpdateSecret,
    (10, 71): ConnectionUpdateSecretOk,
    (20, 10): ChannelOpen,
    (20, 11): ChannelOpenOk,
    (20, 20): ChannelFlow,
    (20, 21): ChannelFlowOk,
    (20, 40): ChannelClose,
    (20, 41): ChannelCloseOk,
    (30, 10): AccessRequest,
    (30, 11): AccessRequestOk,
    (40, 10): ExchangeDeclare,
    (40, 11): ExchangeDeclareOk,
    (40, 20): ExchangeDelete,
    (40, 21): ExchangeDeleteOk,
    (40, 30): ExchangeBind,
    (40, 31): ExchangeBindOk,
    (40, 40): ExchangeUnbind,
    (40, 51): ExchangeUnbindOk,
    (50, 10): QueueDeclare,
    (50, 11): QueueDeclareOk,
    (50, 20): QueueBind,
    (50, 21): QueueBindOk,
    (50, 30): QueuePurge,
    (50, 31): QueuePurgeOk,
    (50, 40): QueueDelete,
    (50, 41): QueueDeleteOk,
    (50, 50): QueueUnbind,
    (50, 51): QueueUnbindOk,
    (60, 10): BasicQos,
    (60, 11): BasicQosOk,
    (60, 20): BasicConsume,
    (60, 21): BasicConsumeOk,
    (60, 30): BasicCancel,
    (60, 31): BasicCancelOk,
    (60, 40): BasicPublish,
    (60, 50): BasicReturn,
    (60, 60): BasicDeliver,
    (60, 70): BasicGet,
    (60, 71): BasicGetOk,
    (60, 72): BasicGetEmpty,
    (60, 80): BasicAck,
    (60, 90): BasicReject,
    (60, 100): BasicRecoverAsync,
    (60, 110): BasicRecover,
    (60, 111): BasicRecoverOk,
    (60, 120): BasicNack,
    (85, 10): ConfirmSelect,
    (85, 11): ConfirmSelectOk,
    (90, 10): TxSelect,
    (90, 11): TxSelectOk,
    (90, 20): TxCommit,
    (90, 21): TxCommitOk,
    (90, 30): TxRollback,
    (90, 31): TxRollbackOk,
}
NUMBERS: dict[type[Method], tuple[int, int]] = {kind: number for number, kind in METHODS.items()}
"""Class and number of a method."""
NAMES: dict[type[Method], str] = {kind: str(kind.__doc__).partition(",")[0] for kind in METHODS.values()}
"""A method's name, such as basic.publish."""
