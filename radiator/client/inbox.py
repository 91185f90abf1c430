"""MESSAGEs that have come and that nobody has received yet; their size is bounded."""

from collections import deque
from collections.abc import Callable

from radiator.protocols.stomp.client import Message

MESSAGE_BYTES = 2048  # what a Message takes besides its body

Callback = Callable[[Message], object]


class ClientInbox:
    """Two queues of messages: one for `receive`, one for callbacks, which `pump` and `receive` call.

    is_full: nothing more is read. Messages that came in one read may exceed the bound.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.callbacks: dict[str, Callback] = {}  # by subscription
        self._received: deque[Message] = deque()
        self._called: deque[tuple[Callback, Message]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._received) + len(self._called)

    @property
    def calls(self) -> int:
        """How many callbacks wait to be called."""
        return len(self._called)

    @property
    def is_full(self) -> bool:
        """Whether the bound is reached."""
        return self._bytes >= self.max_bytes

    def put(self, message: Message) -> None:
        """Adds a message."""
        self._bytes += len(message.body) + MESSAGE_BYTES
        callback = self.callbacks.get(message.headers.get("subscription", "")) if self.callbacks else None
        if callback is None:
            self._received.append(message)
        else:
            self._called.append((callback, message))

    def has(self, subscription: str | None) -> bool:
        """Whether something has come that `receive` may take, or a callback waits to be called."""
        if subscription is None or self._called:
            return len(self) > 0
        return any(message.headers.get("subscription") == subscription for message in self._received)

    def take(self, subscription: str | None = None) -> Message | None:
        """Returns the next message without a callback, of that subscription or of any."""
        if not self._received:
            return None
        if subscription is None:
            message = self._received.popleft()
        else:
            its = (one for one in self._received if one.headers.get("subscription") == subscription)
            first = next(its, None)
            if first is None:
                return None
            message = first
            del self._received[next(at for at, one in enumerate(self._received) if one is message)]
        self._bytes -= len(message.body) + MESSAGE_BYTES
        return message

    def take_call(self) -> tuple[Callback, Message] | None:
        """Returns the next message with a callback, and that callback."""
        if not self._called:
            return None
        callback, message = self._called.popleft()
        self._bytes -= len(message.body) + MESSAGE_BYTES
        return callback, message

    def drop_unacked(self) -> None:
        """Called when the connection is lost: drops what waits for an ACK, which the broker delivers again."""
        self._received = deque(message for message in self._received if "ack" not in message.headers)
        self._called = deque(call for call in self._called if "ack" not in call[1].headers)
        left = [*self._received, *(message for _, message in self._called)]
        self._bytes = sum(len(message.body) + MESSAGE_BYTES for message in left)
