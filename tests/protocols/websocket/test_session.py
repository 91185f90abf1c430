"""STOMP in WebSocket messages: however it is cut, whatever is broken, and how it ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, Protocol, State

from radiator.model.commands import Disconnect, Fail, Open, Send
from radiator.model.limits import (
    CONNECT_MAX_BYTES,
    WEBSOCKET_FRAMES_AT_ONCE,
    WEBSOCKET_MORE_BYTES,
    WEBSOCKET_SLICE_BYTES,
    Limits,
)
from radiator.model.message import Message
from radiator.model.principal import ANYONE, Check, Principal, Verdict
from radiator.model.replies import Bye, Deliver, Receipt, Refuse, Resume, Scope
from radiator.protocols.stomp.session import StompSession
from radiator.protocols.websocket.session import WebSocketSession

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
SEND = b"SEND\ndestination:/queue/a\n\nhello\0"


class Both:
    """A session, and a client that speaks WebSocket by another implementation's rules. messages: what it has read."""

    def __init__(self, limits: Limits | None = None, login: "SlowLogin | None" = None) -> None:
        limits = limits or Limits()
        self.session = WebSocketSession(7, limits, StompSession(7, "s-1", limits, login=login))
        self.client = Protocol(CLIENT, state=State.OPEN, max_size=None)
        self.commands: list[object] = []
        self.messages: list[bytes] = []
        self.close: Frame | None = None

    def wire(self, data: bytes) -> None:
        self.commands += self.session.receive(data)
        while self.session.is_costly:
            self.commands += self.session.receive(b"")
        self.hear(self.session.take_outgoing())

    def hear(self, data: bytes) -> None:
        self.client.receive_data(data)
        for event in self.client.events_received():
            assert isinstance(event, Frame)
            if event.opcode is Opcode.CLOSE:
                self.close = event
            elif event.opcode is Opcode.BINARY:
                assert event.fin
                self.messages.append(bytes(event.data))

    def send(self, data: bytes, is_text: bool = False, is_last: bool = True) -> None:
        (self.client.send_text if is_text else self.client.send_binary)(data, is_last)
        self.flush()

    def flush(self) -> None:
        self.wire(b"".join(self.client.data_to_send()))

    @property
    def close_code(self) -> int:
        assert self.close is not None
        return int.from_bytes(bytes(self.close.data[:2]))


class SlowLogin:
    """One that takes a thread."""

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> Principal | Check:
        return lambda: Principal("shop")

    def unasked(self, principal: Principal) -> Principal | None:
        raise AssertionError("a CONNECT asks")

    def answered(self, verdict: Verdict) -> Principal:
        assert isinstance(verdict, Principal)
        return verdict


@pytest.fixture
def both() -> Both:
    made = Both()
    made.send(CONNECT)
    assert made.commands == [Open(7)] and made.messages.pop().startswith(b"CONNECTED\n")
    made.commands.clear()
    return made


def bodies(both: Both) -> list[bytes]:
    return [one.body for one in both.commands if isinstance(one, Send)]


@pytest.mark.parametrize("is_text", (True, False))
def test_several_frames_in_a_message_and_one_frame_in_several(both: Both, is_text: bool) -> None:
    both.send(SEND + SEND + SEND[:10], is_text)
    both.send(SEND[10:], is_text)
    assert bodies(both) == [b"hello"] * 3


def test_a_message_in_fragments_with_a_ping_between(both: Both) -> None:
    both.send(SEND[:10], is_last=False)
    both.client.send_ping(b"there?")
    both.flush()
    both.client.send_continuation(SEND[10:], True)
    both.flush()
    assert bodies(both) == [b"hello"] and both.client.state is State.OPEN


@given(st.data())
def test_however_its_bytes_are_cut_the_commands_are_the_same(data: st.DataObject) -> None:
    sends = [b"SEND\ndestination:/queue/a\n\n%d\0" % number for number in range(4)]
    stream = CONNECT + b"".join(sends)
    messages = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    client = Protocol(CLIENT, state=State.OPEN)
    for begin, end in zip([0, *messages], [*messages, len(stream)], strict=True):
        client.send_binary(stream[begin:end])
    wire = b"".join(client.data_to_send())
    reads = sorted(data.draw(st.sets(st.integers(1, len(wire) - 1), max_size=6)))
    both = Both()
    for begin, end in zip([0, *reads], [*reads, len(wire)], strict=True):
        both.wire(wire[begin:end])
    assert bodies(both) == [b"0", b"1", b"2", b"3"] and both.session.buffered_bytes == 0


@pytest.mark.parametrize("size", (0, 1, 100, 125, 126, 60_000, 65_536, 300_000))
def test_what_the_broker_says_is_one_message_each(both: Both, size: int) -> None:
    message = Message("/queue/a", b"", 2, bytes(size), 1, 0)
    deliver = Deliver(7, b"1", b"m-1", message, False)
    whole = both.session.encode(deliver)
    assert whole == b"".join(both.session.pieces(deliver))
    both.hear(whole)
    both.hear(both.session.encode(Receipt(7, b"r")))
    both.hear(both.session.heart_beat())
    assert both.messages[0].startswith(b"MESSAGE\n") and both.messages[0].count(b"\0") == size + 1
    assert both.messages[1:] == [b"RECEIPT\nreceipt-id:r\n\n\0\n", b"\n"]
    assert both.session.encode(Resume(7)) == b""


def test_the_properties_of_the_connection_are_those_that_stomp_has_agreed_on() -> None:
    both = Both(Limits(heart_beat_ms=(10_000, 10_000)))
    both.send(CONNECT.replace(b"\n\n", b"\nheart-beat:2000,3000\n\n"))
    session = both.session
    assert (session.heart_beat_send_s, session.heart_beat_expect_s, session.silence_max_s) == (3.0, 2.0, 5.0)


def test_a_client_that_closes_gets_its_close_and_has_disconnected(both: Both) -> None:
    both.client.send_close(1000)
    both.flush()
    assert both.commands == [Disconnect(7)] and both.close_code == 1000
    assert both.session.encode(Receipt(7, b"r")) == both.session.encode(Bye(7)) == both.session.heart_beat() == b""
    assert both.session.pieces(Deliver(7, b"1", b"m", Message("/queue/a", b"", 2, b"", 1, 0), False)) == ()
    both.wire(b"more")
    assert both.commands == [Disconnect(7)]


def test_a_client_that_closes_before_connect_is_let_go() -> None:
    both = Both()
    both.client.send_close(1001)
    both.flush()
    assert both.commands == [] and both.session.is_closing and both.close_code == 1001
    assert both.session.closing_cause == "the websocket was closed"


def test_behind_a_refusal_that_ends_it_and_behind_a_goodbye_comes_a_close(both: Both) -> None:
    both.hear(both.session.encode(Refuse(7, "forbidden", "No.", scope=Scope.CONNECTION)))
    assert both.messages[0].startswith(b"ERROR\n") and both.close_code == 1008
    other = Both()
    other.send(CONNECT)
    other.hear(other.session.encode(Bye(7)))
    assert other.close_code == 1000


def test_a_broken_frame_of_stomp_is_an_error_and_a_close(both: Both) -> None:
    both.send(b"NOPE\n\n\0")
    [fail] = both.commands
    assert isinstance(fail, Fail) and "NOPE" in fail.sentence
    both.hear(both.session.encode(Refuse(7, "protocol", fail.sentence)))
    assert both.messages[0].startswith(b"ERROR\n") and both.close_code == 1002


def test_a_refused_connect_is_an_error_and_a_close() -> None:
    both = Both()
    both.send(b"SEND\ndestination:/queue/a\n\n\0")
    assert both.messages[0].startswith(b"ERROR\n") and both.close_code == 1008
    assert both.session.is_closing and both.commands == []


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (bytes((0x82, 0x01)) + b"x", 1002),  # not masked
        (bytes((0xC2, 0x81)) + b"1234x", 1002),  # a reserved bit: compressed, say
        (bytes((0x83, 0x81)) + b"1234x", 1002),  # no such kind
        (bytes((0x80, 0x81)) + b"1234x", 1002),  # goes on where nothing was begun
        (bytes((0x09, 0x80)) + b"1234", 1002),  # a ping in fragments
        (bytes((0x89, 0xFE, 0, 126)) + b"1234" + bytes(126), 1002),  # a ping that is too long
        (bytes((0x82, 0xFF)) + (1 << 63).to_bytes(8) + b"1234", 1009),
        (bytes((0x82, 0xFF)) + (1 << 40).to_bytes(8) + b"1234", 1009),
        (bytes((0x88, 0x81)) + b"1234x", 1002),  # a close with half a code
        (bytes((0x88, 0x82)) + bytes(4) + (1005).to_bytes(2), 1002),  # a code that nobody may send
        (bytes((0x81, 0x82)) + bytes(4) + b"\xc3\x28", 1007),
        (bytes((0x81, 0x81)) + bytes(4) + b"\xc3", 1007),
    ],
)
@pytest.mark.parametrize("is_open", (True, False))
def test_who_breaks_the_rules_of_websocket_is_told_and_nothing_more_is_read(
    wire: bytes, code: int, is_open: bool
) -> None:
    both = Both()
    if is_open:
        both.send(CONNECT)
        both.commands.clear()
    both.wire(wire + wire)
    assert both.close_code == code
    if is_open:
        [fail] = both.commands
        assert isinstance(fail, Fail) and fail.sentence.startswith("The client broke the WebSocket protocol: ")
    else:
        assert both.commands == [] and both.session.is_closing
    assert both.session.buffered_bytes == 0
    assert both.session.encode(Refuse(7, "protocol", "No.")) == b""


def test_a_character_may_be_cut_between_fragments(both: Both) -> None:
    frame = "SEND\ndestination:/queue/a\n\nä€\0".encode()
    for cut in range(len(frame)):
        both.send(frame[:cut], is_text=True, is_last=False)
        both.client.send_continuation(frame[cut:], True)
        both.flush()
    assert bodies(both) == ["ä€".encode()] * len(frame)


def test_before_connect_no_more_is_held_than_without_websocket() -> None:
    for size, is_kept in ((CONNECT_MAX_BYTES, True), (CONNECT_MAX_BYTES + 100, False)):
        both = Both()
        both.wire(bytes((0x82, 0xFF)) + (1 << 20).to_bytes(8) + b"1234" + bytes(size - 14))
        assert both.session.is_closing is not is_kept and both.session.buffered_bytes <= CONNECT_MAX_BYTES
        if not is_kept:
            assert both.close_code == 1009


def test_a_message_may_be_so_long() -> None:
    limits = Limits(max_frame_bytes=4096)
    most = 4096 + WEBSOCKET_MORE_BYTES
    for size, code in ((most, None), (most + 1, 1009)):
        both = Both(limits)
        both.send(CONNECT)
        both.wire(bytes((0x82, 0xFF)) + size.to_bytes(8) + b"1234")
        assert (None if both.close is None else both.close_code) == code


def test_a_frame_of_stomp_may_be_as_long_as_without_websocket() -> None:
    limits = Limits(max_frame_bytes=4096)
    head = b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n"
    most = limits.max_frame_bytes - len(head % 4000) - 1
    for size, is_taken in ((most, True), (most + 1, False)):
        both = Both(limits)
        both.send(CONNECT)
        both.send(head % size + bytes(size) + b"\0")
        assert bodies(both) == ([bytes(size)] if is_taken else [])
        assert isinstance(both.commands[-1], Send if is_taken else Fail) and both.close is None


def test_while_a_login_is_judged_what_follows_waits() -> None:
    both = Both(login=SlowLogin())
    client = both.client
    for data in (CONNECT, SEND, SEND[:12]):
        client.send_binary(data)
    both.flush()
    session = both.session
    assert both.commands == [] and session.pending is not None and session.buffered_bytes == len(SEND) + 12
    both.commands += session.answered(Principal("shop"))
    both.send(SEND[12:])
    assert both.commands[0] == Open(7, principal=Principal("shop")) and bodies(both) == [b"hello"] * 2
    assert session.pending is None and session.buffered_bytes == 0


def test_who_is_gone_is_forgotten(both: Both) -> None:
    both.send(SEND[:10])
    assert both.session.buffered_bytes == 10
    both.session.forget()
    assert both.session.buffered_bytes == 0 and both.session.receive(SEND) == []


def test_the_principal_of_the_transport_is_taken() -> None:
    both = Both()
    both.session.recognise(Principal("ops"))
    both.send(CONNECT)
    assert both.commands == [Open(7, principal=Principal("ops"))] and ANYONE.name == "anyone"


def test_so_many_frames_are_read_before_others_have_their_turn() -> None:
    both = Both()
    both.send(CONNECT)
    ping = bytes((0x89, 0x80)) + bytes(4)
    count = 3 * WEBSOCKET_FRAMES_AT_ONCE + WEBSOCKET_SLICE_BYTES // len(ping) * 3
    both.session.receive(ping * count)
    steps = []
    while True:
        steps.append(len(both.session.take_outgoing()) // 2)  # pongs without data
        assert both.session.is_costly == both.session.has_unread
        if not both.session.is_costly:
            break
        assert both.session.buffered_bytes >= len(ping) * (count - sum(steps)) - 8
        both.session.receive(b"")
    assert sum(steps) == count and len(steps) > 2
    assert max(steps) <= WEBSOCKET_FRAMES_AT_ONCE + WEBSOCKET_SLICE_BYTES // len(ping) + 1


def test_large_frames_are_read_without_a_rest() -> None:
    both = Both()
    both.send(CONNECT)
    both.client.send_binary(b"SEND\ndestination:/queue/a\n\n" + b"x" * 60_000 + b"\0")
    (sent,) = both.session.receive(b"".join(both.client.data_to_send()))
    assert isinstance(sent, Send) and len(sent.body) == 60_000 and not both.session.is_costly
