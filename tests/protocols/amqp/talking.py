"""A client's side of AMQP in tests: what it sends as bytes, what it got as methods, and a session that is open."""

from collections.abc import Callable
from itertools import count
from typing import Any

from radiator.model.commands import Heard, Open
from radiator.model.errors import Refusal
from radiator.model.getting import SetWindow
from radiator.model.limits import Limits
from radiator.model.principal import ANYONE, Check, Principal, RecognisedBy, Verdict
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.connection_methods import ConnectionOpen, ConnectionStartOk, ConnectionTuneOk
from radiator.protocols.amqp.frame import AmqpFrame, encode_frame
from radiator.protocols.amqp.methods import NAMES, BasicPublish, ChannelOpen, ChannelOpenOk, Method
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.session import AmqpSession
from radiator.protocols.amqp.spec import FRAME_METHOD, PROTOCOL_HEADER

try:
    from pamqp import frame as pamqp_frame
except ImportError:  # it need not be installed
    pamqp_frame = None

NUMBER = 7  # of the connection
FIRST = 101  # of the first channel
PLAIN = b"\0shop\0secret"
NO_PROPERTIES = b"\0\0"
SHOP = Principal("shop", RecognisedBy.PASSWORD)
EVERY_CAPABILITY = {"authentication_failure_close": True, "connection.blocked": True, "consumer_cancel_notify": True}

method = encode_method


def start_ok(mechanism: str = "PLAIN", response: bytes = PLAIN, **capabilities: Any) -> bytes:
    properties = {"product": "a client", "version": "1", "capabilities": capabilities}
    return method(0, ConnectionStartOk(properties, mechanism, response))


def greeting(frame_max: int = 0, heartbeat: int = 0, channel_max: int = 0, **capabilities: Any) -> bytes:
    """All that a client says until its connection is open."""
    tune_ok = ConnectionTuneOk(channel_max, frame_max, heartbeat)
    return PROTOCOL_HEADER + start_ok(**capabilities) + method(0, tune_ok) + method(0, ConnectionOpen())


def content(wire: int, body: bytes = b"body", properties: bytes = NO_PROPERTIES, step: int = 1000) -> bytes:
    """Header and body, in frames of so many bytes of it."""
    head = (60).to_bytes(2) + bytes(2) + len(body).to_bytes(8) + properties
    parts = [body[start : start + step] for start in range(0, len(body), step)]
    return encode_frame(2, wire, head) + b"".join(encode_frame(3, wire, part) for part in parts)


def publish(wire: int, key: str = "q", body: bytes = b"body", exchange: str = "", **more: Any) -> bytes:
    properties = more.pop("properties", NO_PROPERTIES)
    return method(wire, BasicPublish(0, exchange, key, **more)) + content(wire, body, properties)


def frames_in(data: bytes) -> list[AmqpFrame]:
    """What a client gets."""
    parser = FrameParser()
    parser.use(1 << 20)
    opening, *frames = parser.frames(PROTOCOL_HEADER + data)
    assert parser.held_bytes == 0, "a frame is not whole"
    return frames


def methods_in(data: bytes) -> list[tuple[int, Method | bytes]]:
    """The channel and the method of each frame; of a content's, its payload."""
    frames = frames_in(data)
    for frame in frames if pamqp_frame is not None else ():
        agree(frame)
    return [
        (frame.channel, decode_method(frame.payload) if frame.type == FRAME_METHOD else frame.payload)
        for frame in frames
    ]


def agree(frame: AmqpFrame) -> None:
    """A second opinion: pamqp takes it for the same."""
    wire = encode_frame(*frame)
    size, channel, theirs = pamqp_frame.unmarshal(wire)
    assert (size, channel) == (len(wire), frame.channel)
    if frame.type == FRAME_METHOD:
        ours = NAMES[type(decode_method(frame.payload))]
        assert theirs.name.lower() == ours.replace("-", ""), f"{theirs.name} is taken for {ours}"


def kinds(data: bytes) -> list[tuple[int, type[Any]]]:
    """The same, by the type of the method."""
    return [(channel, type(one)) for channel, one in methods_in(data)]


class StubLogin:
    """Knows the user shop, at once or by a check."""

    def __init__(self, is_at_once: bool = False) -> None:
        self.is_at_once = is_at_once
        self.asked: list[tuple[bytes, bytes]] = []

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> Principal | Check:
        self.asked.append((name, secret))
        if self.is_at_once:
            return self.answered(SHOP if secret == b"secret" else Refusal("forbidden", "Wrong user or password."))
        return lambda: SHOP

    def unasked(self, principal: Principal) -> Principal | None:
        return None

    def answered(self, verdict: Verdict) -> Principal:
        if isinstance(verdict, Refusal):
            raise verdict
        return verdict


def made(login: StubLogin | None = None, limits: Limits | None = None) -> AmqpSession:
    numbers: Callable[[], int] = count(FIRST).__next__
    names = map("{:022}".format, count(1)).__next__
    return AmqpSession(NUMBER, limits or Limits(), numbers, names, ANYONE, login)


def opened(channels: int = 1, limits: Limits | None = None, **greeted: Any) -> AmqpSession:
    """A session with that many open channels: 1, which is the broker's FIRST, and so on."""
    session = made(None, limits)
    heard = session.receive(greeting(**greeted))
    assert heard == [Open(NUMBER)]
    session.take_outgoing()
    for wire in range(1, channels + 1):
        open_channel(session, wire)
    return session


def open_channel(session: AmqpSession, wire: int) -> int:
    """Returns its number."""
    first, window = session.receive(method(wire, ChannelOpen()))
    assert isinstance(first, Open) and first.channel_of == NUMBER
    assert isinstance(window, SetWindow) and (window.connection, window.messages) == (first.connection, 0)
    assert methods_in(session.take_outgoing()) == [(wire, ChannelOpenOk())]
    return first.connection


def only(commands: list[Heard]) -> Any:
    (command,) = commands
    return command
