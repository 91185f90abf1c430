"""A transport of kombu, and so of Celery: `import radiator.kombu` makes `radiator://HOST:61613` an address of a broker,
and `radiators://HOST:61612` one by TLS.
As a module of settings (`celery --config radiator.kombu`) it has none, and is imported all the same.

    transport.py     what kombu asks of a transport, answered by:
    address.py       the broker that its URL names, and the TLS files
    connection.py    one connection to the broker, and the messages that came on it
    channel.py       what AMQP calls a channel: lightweight, on a shared connection
    message.py       a message of kombu as a frame of STOMP, and back
    arguments.py     the arguments of a queue as the broker's settings
    failures.py      failures as the exceptions that kombu expects

Bindings, windows, acks, redelivery and delays are the broker's; nothing is emulated here but AMQP's names for them.
"""

from kombu.transport import TRANSPORT_ALIASES

from radiator.integrations.kombu.address import PLAIN, TLS
from radiator.integrations.kombu.transport import SSLTransport, Transport

__all__ = ["SSLTransport", "Transport"]

TRANSPORT_ALIASES[PLAIN] = "radiator.kombu:Transport"
TRANSPORT_ALIASES[TLS] = "radiator.kombu:SSLTransport"
