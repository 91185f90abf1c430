"""Which channels of a connection have a message that waits for room, and what their client is told about it."""

from radiator.protocols.amqp.codec import encode_method
from radiator.protocols.amqp.connection_methods import ConnectionBlocked, ConnectionUnblocked


class BlockedChannels:
    """Tells a client that asks for it when the first of its channels waits, and when none does any more (RabbitMQ,
    "Blocked Connection Notifications").
    """

    __slots__ = ("_numbers", "is_wanted")

    def __init__(self) -> None:
        self.is_wanted = False  # the client asks for it
        self._numbers: dict[int, None] = {}  # an empty set has three times the bytes

    def pause(self, number: int, cause: str) -> bytes:
        """Notes that a channel waits, and returns the frame to send, if any. No cause: it will be over in a moment."""
        if not cause:
            return b""
        was_blocked = bool(self._numbers)
        self._numbers[number] = None
        if was_blocked or not self.is_wanted:
            return b""
        return encode_method(0, ConnectionBlocked(cause.encode()[:255].decode("utf-8", "ignore")))

    def resume(self, number: int) -> bytes:
        """Notes that a channel goes on, or has ended, and returns the frame to send, if any."""
        was_blocked = bool(self._numbers)
        self._numbers.pop(number, None)
        is_over = was_blocked and not self._numbers and self.is_wanted
        return encode_method(0, ConnectionUnblocked()) if is_over else b""
