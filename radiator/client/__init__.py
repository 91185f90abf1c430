"""A client for programs and tools: plain sockets, no gevent. docs/CLIENT.md says all that it promises.

    with Client("stomp://127.0.0.1:61613") as client:
        client.send("/queue/orders", b"one")  # returns once the broker has confirmed it
        client.subscribe("/queue/orders", ack="client-individual")
        message = client.receive(timeout_s=5)

Threads call `client.py`; asyncio tasks await `aio.py`, which is imported separately. Both run the steps of `calls.py`
on a channel (`channel.py`), which is one connection after the other; `threads.py` and `tasks.py` wait.
"""

from radiator.client.address import DEFAULT_ADDRESS, Address, AddressError
from radiator.client.client import Client
from radiator.client.errors import ConnectionLost, NoAnswer, TransactionLost
from radiator.client.reconnect import Reconnect
from radiator.model.errors import RadiatorError, Refusal, Violation
from radiator.protocols.stomp.client import Message

__all__ = [
    "Address",
    "AddressError",
    "Client",
    "ConnectionLost",
    "DEFAULT_ADDRESS",
    "Message",
    "NoAnswer",
    "RadiatorError",
    "Reconnect",
    "Refusal",
    "TransactionLost",
    "Violation",
]
