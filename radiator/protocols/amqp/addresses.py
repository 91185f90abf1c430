"""Turns an exchange and a routing key into an address of the broker, and back."""

from functools import lru_cache

from radiator.model.addresses import queue_address
from radiator.model.limits import ADDRESSES_KEPT

REPLY_TO = "amq.rabbitmq.reply-to"
"""The queue that a client consumes from, and names as `reply_to`, for replies that only its own channel gets (RabbitMQ,
"Direct Reply-to").
"""

_REPLY_PREFIX = REPLY_TO + "."
_REPLY_QUEUE, _EXCHANGE, _QUEUE = "/reply-queue/", "/exchange/", "/queue/"


def queue_destination(queue: str) -> str:
    """Returns the address of an existing queue: using it creates none."""
    return f"/amq/queue/{queue}"


def reply_id(queue: str) -> str:
    """Returns the id of the reply queue that this name stands for in direct reply-to; "": it is no such name."""
    return queue.removeprefix(_REPLY_PREFIX) if queue.startswith(_REPLY_PREFIX) else ""


def destination(exchange: str, key: str) -> str:
    """Returns the address of a message published to that exchange with that key. The default exchange has no name."""
    if exchange:
        return f"{_EXCHANGE}{exchange}/{key}"
    if key.startswith(_REPLY_PREFIX):
        return _REPLY_QUEUE + key[len(_REPLY_PREFIX) :]
    return queue_destination(key)


def published_to(address: str) -> tuple[str, str]:
    """Returns the exchange and the routing key of a message, whatever protocol it was sent by: if it has neither, its
    address is the key, and the exchange is the default one.
    """
    if address.startswith(_EXCHANGE):
        exchange, _, key = address[len(_EXCHANGE) :].partition("/")
        return exchange, key
    if address.startswith(_REPLY_QUEUE):
        return "", _REPLY_PREFIX + address[len(_REPLY_QUEUE) :]
    address = queue_address(address)
    return "", address[len(_QUEUE) :] if address.startswith(_QUEUE) else address


def reply_name(address: str) -> str:
    """Returns `reply_to` as an AMQP client can use it: as a routing key of the default exchange."""
    return published_to(address)[1]


@lru_cache(ADDRESSES_KEPT)
def names_of(address: str) -> tuple[bytes, bytes]:
    """Returns the exchange and the routing key as they are on the wire, where each has at most 255 bytes."""
    exchange, key = published_to(address)
    return exchange.encode()[:255], key.encode()[:255]
