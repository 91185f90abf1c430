"""What went wrong, as exceptions for kombu: it retries after ConnectionLost, and passes OperationRefused to
its caller.
"""

from amqp.exceptions import AccessRefused, NotFound, PreconditionFailed, RecoverableConnectionError
from kombu.exceptions import ChannelError

from radiator.client import AddressError
from radiator.client.tls import NAME_CA, NAME_CERTIFICATE
from radiator.model.errors import RadiatorError, Refusal

FORBIDDEN = "forbidden"
_IN_WORDS_OF_KOMBU = {
    NAME_CA: "(ca_certs in broker_use_ssl, or ?ssl_ca_certs=FILE in the URL)",
    NAME_CERTIFICATE: "(certfile and keyfile in broker_use_ssl, or ?ssl_certfile=FILE&ssl_keyfile=FILE in the URL)",
}

# ERRORs about the very frame that was sent last; every other ERROR is about the connection as a whole.
_OF_WHAT_WAS_ASKED = frozenset(
    [
        "no-such-destination",
        "unknown-destination",
        "send-only",
        "wildcard",
        "too-many-words",
        "exclusive",
        "no-subscriber",
        "no-consumer",
        "no-delay",
        "queue-full",
        "blocked",
        "too-large",
        "too-many-destinations",
        "too-many-subscriptions",
        "reserved",
        "protocol",
    ]
)


class ConnectionLost(RecoverableConnectionError):
    """The connection is lost. kombu opens another one and tries again."""


class Unreachable(ConnectionLost, OSError):
    """No connection could be made: a program may catch it as the OSError that RabbitMQ's transport raises then."""


class OperationRefused(ChannelError):
    """The broker has refused the request, and asking again would not help. radiator_code: why, see docs/PROTOCOL.md."""

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(sentence)
        self.radiator_code = code

    def __str__(self) -> str:
        return str(self.reply_text)


class Missing(OperationRefused, NotFound):
    """What was asked for does not exist: AMQP's 404."""


class Otherwise(OperationRefused, PreconditionFailed):
    """Something exists with other settings, or is in use, or is not empty: AMQP's 406."""


class Forbidden(OperationRefused, AccessRefused):
    """The login is wrong, or its user lacks the right: AMQP's 403."""


_AS_AMQP_HAS_IT = {
    FORBIDDEN: Forbidden,
    "no-such-destination": Missing,
    "declared-otherwise": Otherwise,
    "in-use": Otherwise,
    "not-empty": Otherwise,
}


def refused(sentence: str, code: str) -> OperationRefused:
    """What to raise for a refusal: programs written for RabbitMQ catch AMQP's own classes."""
    return _AS_AMQP_HAS_IT.get(code, OperationRefused)(sentence, code)


def failure(error: RadiatorError, is_asked: bool) -> ConnectionLost | OperationRefused:
    """What to raise for an error. is_asked: it came to a caller that waited for the answer to a request.

    What is forbidden stays forbidden on another connection, whether it was asked for or not.
    """
    if isinstance(error, Refusal) and (error.code == FORBIDDEN or is_asked and error.code in _OF_WHAT_WAS_ASKED):
        return refused(str(error), error.code)
    return ConnectionLost(_sentence(error))


def not_connected(error: RadiatorError) -> Unreachable | OperationRefused:
    """What to raise if no connection could be made."""
    if isinstance(error, Refusal) and error.code == FORBIDDEN:
        return refused(str(error), error.code)
    return (OperationRefused if isinstance(error, AddressError) else Unreachable)(_sentence(error))


def _sentence(error: RadiatorError) -> str:
    sentence = str(error)
    for theirs, ours in _IN_WORDS_OF_KOMBU.items():
        sentence = sentence.replace(theirs, ours)
    return sentence
