"""How kombu hears of what went wrong: it retries after the one, and tells its caller of the other."""

from amqp.exceptions import RecoverableConnectionError
from kombu.exceptions import ChannelError

from radiator.errors import RadiatorError, Refusal

# What the broker says of the very frame that was sent last; every other ERROR is about the connection as a whole.
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


class Lost(RecoverableConnectionError):
    """There is no connection any more. kombu opens another one and tries again."""


class Refused(ChannelError):
    """What was asked for is not granted, and asking again would not help. radiator_code: why, in docs/PROTOCOL.md."""

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(sentence)
        self.radiator_code = code

    def __str__(self) -> str:
        return str(self.reply_text)


def failure(error: RadiatorError, is_asked: bool) -> Lost | Refused:
    """What to raise for it. is_asked: it was met by who waited for the answer to a request."""
    if is_asked and isinstance(error, Refusal) and error.code in _OF_WHAT_WAS_ASKED:
        return Refused(str(error), error.code)
    return Lost(str(error))
