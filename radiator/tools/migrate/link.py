"""Questions to a broker over AMQP, and its answers: the login, declarations, and what it refuses."""

import time
from contextlib import suppress
from secrets import token_hex
from typing import Any

from radiator import __version__
from radiator.model.amqp_properties import Properties, encode
from radiator.model.errors import RadiatorError
from radiator.protocols.amqp.connection_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from radiator.protocols.amqp.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from radiator.protocols.amqp.spec import FRAME_MIN_BYTES, PROTOCOL_HEADER
from radiator.tools.migrate.place import GUEST, AmqpPlace
from radiator.tools.migrate.wire import AmqpWire, WireLost, deadline, wait

ANSWER_MAX_S = 60.0
CLOSE_MAX_S = 5.0
CONTROL = 1
"""The channel of questions; messages have another one."""
PROBE = 3
FRAME_MAX_BYTES = 131072
_CAPABILITIES = dict.fromkeys(
    (
        "publisher_confirms",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
    ),
    True,
)


class AmqpRefused(RadiatorError):
    """A channel is closed because the broker refused something. code: that of AMQP; text: its own words."""

    def __init__(self, name: str, code: int, text: str) -> None:
        super().__init__(f"{name[:1].upper()}{name[1:]} says {code} {text.rstrip('.')}.")
        self.code = code
        self.text = text


class AmqpLink(AmqpWire):
    """A connection that is logged in. product: what the broker calls itself."""

    def __init__(self, name: str, place: AmqpPlace) -> None:
        super().__init__(name, place)
        self.product = ""
        self.user = place.user or GUEST
        self._open: set[int] = set()
        self._is_logged_in = False
        self._begin()

    def reconnect(self) -> None:
        """Connects and logs in again, with nothing of the earlier connection."""
        self._is_logged_in = False
        super().close()
        self.connect()
        self._open.clear()
        self._begin()

    def _begin(self) -> None:
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _log_in(self) -> None:
        self.send(PROTOCOL_HEADER)
        start = self._answer(0, ConnectionStart)
        properties: Any = start.server_properties
        self.product = f"{properties.get('product', '')} {properties.get('version', '')}".strip()[:80]
        mechanisms = start.mechanisms.split()
        mine = {"product": "radiator migrate", "version": __version__, "capabilities": _CAPABILITIES}
        if self.place.path and not self.place.user and b"EXTERNAL" in mechanisms:
            self.send_method(0, ConnectionStartOk(mine, "EXTERNAL", b""))  # the socket says whose process this is
        elif b"PLAIN" in mechanisms:
            secret = self.place.password or (GUEST if self.user == GUEST else "")
            response = b"\0%b\0%b" % (self.user.encode(), secret.encode())
            self.send_method(0, ConnectionStartOk(mine, "PLAIN", response))
        else:
            raise WireLost(f"{self.name[:1].upper()}{self.name[1:]} takes no user and password (PLAIN).")
        tune = self._answer(0, ConnectionTune)
        frame_max = max(FRAME_MIN_BYTES, min(tune.frame_max or FRAME_MAX_BYTES, FRAME_MAX_BYTES))
        # no heart-beats: while one side has no room the other would wait for ours
        self.send_method(0, ConnectionTuneOk(tune.channel_max, frame_max, 0))
        self.use(frame_max)
        self.send_method(0, ConnectionOpen(self.place.vhost))
        self._answer(0, ConnectionOpenOk)
        self._is_logged_in = True

    # ---- questions

    def open_channel(self, channel: int) -> None:
        """Opens the channel."""
        if channel not in self._open:
            self.send_method(channel, ChannelOpen())
            self._answer(channel, ChannelOpenOk)
            self._open.add(channel)

    def ask(self, channel: int, method: Method, answer: type[Method]) -> Any:
        """Returns the answer, which is of that type. Raises AmqpRefused: the channel is closed then, and opened by the
        next question.
        """
        self.open_channel(channel)
        self.send_method(channel, method)
        return self._answer(channel, answer)

    def count(self, queue: str, channel: int = CONTROL) -> QueueDeclareOk:
        """Returns what is ready in it, and how many consume, once the broker has taken what was sent on that channel.
        Raises AmqpRefused, with 404 if it does not exist.
        """
        found: QueueDeclareOk = self.ask(channel, QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
        return found

    def takes_user_id(self) -> bool:
        """Whether a message may name this user as its sender: one that goes nowhere says so."""
        self.open_channel(PROBE)
        self.send_method(PROBE, BasicPublish(routing_key=f"radiator-migrate-{token_hex(8)}"))
        self.send_content(PROBE, encode(Properties(user_id=self.user)), b"")
        try:
            self.ask(PROBE, ConfirmSelect(), ConfirmSelectOk)
        except AmqpRefused:
            return False
        self.close_channel(PROBE)
        return True

    def close_channel(self, channel: int) -> None:
        """Closes the channel: what it has not acked goes back, and what came on it is forgotten."""
        if channel in self._open:
            self.send_method(channel, ChannelClose())
            self._open.discard(channel)
            self._answer(channel, ChannelCloseOk)
        self.forget(channel)

    def forget(self, channel: int) -> None:
        """Forgets what came on it and has not been taken."""
        kept = [event for event in self.events if event.channel != channel]
        self.events.clear()
        self.events.extend(kept)

    def refused(self, channel: int, method: ChannelClose) -> AmqpRefused:
        """Returns the error to raise when the broker has closed the channel."""
        self.send_method(channel, ChannelCloseOk())
        self._open.discard(channel)
        return AmqpRefused(self.name, method.reply_code, method.reply_text)

    def close(self) -> None:
        """Closes the connection in order, if it still can: then what was sent before is taken. A broker without room
        does not read.
        """
        if self._is_logged_in and not self.blocked:
            self._is_logged_in = False
            with suppress(RadiatorError, OSError, ValueError):
                self.send_method(0, ConnectionClose())
                self._answer(0, ConnectionCloseOk, CLOSE_MAX_S)
        super().close()

    def _answer(self, channel: int, kind: type[Method], most_s: float = ANSWER_MAX_S) -> Any:
        until_s = deadline(most_s)
        at = 0
        while True:
            while at < len(self.events):
                event = self.events[at]
                if event.channel == channel and isinstance(event.method, kind):
                    del self.events[at]
                    return event.method
                if event.channel == channel and isinstance(event.method, ChannelClose):
                    if kind is ChannelCloseOk:
                        self.send_method(channel, ChannelCloseOk())
                        del self.events[at]
                        continue
                    del self.events[at]
                    raise self.refused(channel, event.method)
                at += 1
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise self.lost(f"it has not answered within {most_s:.0f} s")
            wait([self], left_s)
