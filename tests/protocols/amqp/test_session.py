"""One connection: its handshake in every state, its channels, and its end from both sides."""

from math import inf

import pytest

from radiator.model.amqp_limits import AMQP_CHANNELS_MAX, AMQP_FRAME_BYTES, AMQP_FRAMES_AT_ONCE, AMQP_HEART_BEAT_S
from radiator.model.amqp_tables import encode_table
from radiator.model.commands import Disconnect, Fail, Open, Send
from radiator.model.errors import Refusal
from radiator.model.getting import SetWindow
from radiator.model.limits import Limits
from radiator.model.principal import ANYONE
from radiator.model.replies import Answered, Bye, Empty, Pause, Receipt, Refuse, Resume, Scope
from radiator.protocols import Session
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.connection_methods import ConnectionOpen
from radiator.protocols.amqp.frame import HEARTBEAT, encode_frame
from radiator.protocols.amqp.login import START, start_for
from radiator.protocols.amqp.session import AmqpSession
from radiator.protocols.amqp.spec import FRAME_MIN_BYTES, PROTOCOL_HEADER
from radiator.protocols.schemes import SCHEMES
from tests.protocols.amqp.talking import (
    FIRST,
    NUMBER,
    PLAIN,
    SHOP,
    StubLogin,
    content,
    greeting,
    kinds,
    made,
    method,
    methods_in,
    only,
    open_channel,
    opened,
    publish,
    start_ok,
)

RPC = b"rpc"
TUNE_OK = method(0, m.ConnectionTuneOk())
OPENS = method(0, m.ConnectionOpen())


def closed_with(session: AmqpSession) -> tuple[int, str]:
    """Code and text with which a session that was never open has closed itself."""
    ((wire, close),) = methods_in(session.take_outgoing())[-1:]
    assert wire == 0 and isinstance(close, m.ConnectionClose) and session.is_closing
    assert session.receive(OPENS) == [] and session.take_outgoing() == b"" and not session.is_open
    return close.reply_code, close.reply_text


# ---- the handshake --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["amqp", "amqps", "amqp+unix"])
def test_session_keeps_the_contract_of_protocols(scheme: str) -> None:
    make = SCHEMES[scheme].session
    assert make is not None
    session: Session = make(7, "s-1", Limits())
    assert (session.is_open, session.is_closing, session.buffered_bytes) == (False, False, 0)
    assert session.take_outgoing() == b"" and session.has_channels and session.closes_at == Scope.COMMAND


def test_a_connection_opens_step_by_step() -> None:
    session = made()
    assert session.receive(PROTOCOL_HEADER) == []
    assert methods_in(session.take_outgoing()) == [(0, start_for(False))]
    assert session.receive(start_ok()) == []
    assert methods_in(session.take_outgoing()) == [
        (0, m.ConnectionTune(AMQP_CHANNELS_MAX, AMQP_FRAME_BYTES, AMQP_HEART_BEAT_S))
    ]
    assert session.receive(TUNE_OK) == [] and session.take_outgoing() == b"" and not session.is_open
    (opened_as,) = session.receive(OPENS)
    assert isinstance(opened_as, Open) and opened_as == Open(NUMBER)
    assert (opened_as.protocol, opened_as.client) == ("AMQP 0-9-1", "a client 1")
    assert methods_in(session.take_outgoing()) == [(0, m.ConnectionOpenOk())]
    assert session.is_open and not session.is_closing


@pytest.mark.parametrize("wire", [
    b"AMQP\0\0\x09\0", b"AMQP\0\1\0\0", b"AMQP\1\1\0\x0a", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"CONNECT\n", b"\0",
])  # fmt: skip
def test_another_protocol_is_told_which_is_spoken(wire: bytes) -> None:
    session = made()
    assert session.receive(wire) == []
    assert session.take_outgoing() == PROTOCOL_HEADER and session.is_closing
    assert session.receive(PROTOCOL_HEADER) == [] and session.take_outgoing() == b""


STEPS = (b"", PROTOCOL_HEADER, start_ok(), TUNE_OK)


@pytest.mark.parametrize("done", [2, 3, 4])
@pytest.mark.parametrize(("wire", "code"), [
    (method(0, m.ConnectionCloseOk()), 504),
    (method(0, m.ConnectionClose()), 504),
    (method(0, m.QueueDeclare()), 504),
    (method(0, m.ConnectionSecureOk()), 504),
    (method(1, m.ChannelOpen()), 504),
    (encode_frame(2, 0, b""), 505),
    (encode_frame(3, 0, b""), 505),
    (encode_frame(8, 1, b""), 505),
    (encode_frame(4, 0, b""), 501),
    (b"\1\0\0\0\0\0\0\0", 501),
    (b"\1\0\0" + (FRAME_MIN_BYTES - 7).to_bytes(4), 501),
    (encode_frame(1, 0, b"\0\x0a\0\x0b\0"), 501),
])  # fmt: skip
def test_what_has_no_meaning_before_the_connection_is_open_ends_it(done: int, wire: bytes, code: int) -> None:
    if done == 4 and len(wire) == 7:
        wire = b"\1\0\0" + (AMQP_FRAME_BYTES + 1).to_bytes(4)  # one byte more than was agreed on by then
    session = made()
    for step in STEPS[:done]:
        session.receive(step)
    assert session.receive(wire) == []
    assert closed_with(session)[0] == code


@pytest.mark.parametrize(("done", "step"), [(2, 3), (3, 2), (4, 2), (4, 3)])
def test_each_step_has_its_place(done: int, step: int) -> None:
    session = made()
    for one in STEPS[:done]:
        session.receive(one)
    assert session.receive(STEPS[step]) == []
    code, text = closed_with(session)
    assert code == 504 and "came where it has no meaning" in text


@pytest.mark.parametrize("heartbeats", [0, 1, 3])
def test_heartbeats_may_come_between(heartbeats: int) -> None:
    session = made()
    assert session.receive((HEARTBEAT * heartbeats).join([*STEPS[1:], OPENS])) == [Open(NUMBER)]
    assert session.receive(HEARTBEAT * heartbeats) == []


@pytest.mark.parametrize(("more", "steps"), [(-1, 1), (0, 1), (1, 2), (2 * AMQP_FRAMES_AT_ONCE, 3)])
def test_a_step_takes_so_many_frames_and_the_next_waits_for_its_turn(more: int, steps: int) -> None:
    session = opened()
    # a message counts as one
    wire = publish(1, "a") + HEARTBEAT * (AMQP_FRAMES_AT_ONCE - 2 + more) + publish(1, "b")
    commands, taken = session.receive(wire), 1
    while session.is_costly:
        assert session.has_unread and session.buffered_bytes == len(wire)
        commands += session.receive(b"")
        taken += 1
    assert taken == steps and not session.has_unread and session.buffered_bytes == 0
    assert [send.destination for send in commands] == ["/amq/queue/a", "/amq/queue/b"]


def test_what_comes_before_the_next_step_is_read_behind_what_is_left() -> None:
    session = opened()
    whole = HEARTBEAT * AMQP_FRAMES_AT_ONCE + publish(1, "a")
    assert session.receive(whole[:-3]) == []
    assert session.is_costly
    commands = session.receive(whole[-3:] + publish(1, "b")) + session.receive(b"")
    assert [send.destination for send in commands] == ["/amq/queue/a", "/amq/queue/b"] and not session.is_costly


def test_who_breaks_the_protocol_in_what_is_left_is_told_then() -> None:
    session = opened()
    session.receive(HEARTBEAT * (AMQP_FRAMES_AT_ONCE + 1) + b"\x09")
    assert session.is_costly
    assert isinstance(only(session.receive(b"\0" * 8)), Fail)
    session.forget()
    assert not session.is_costly and session.buffered_bytes == 0


# ---- logins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "response", "given"), [
    ("PLAIN", PLAIN, (b"shop", b"secret")),
    ("AMQPLAIN", encode_table({"LOGIN": "shop", "PASSWORD": "secret"})[4:], (b"shop", b"secret")),
    ("EXTERNAL", b"", (b"", b"")),
])  # fmt: skip
def test_a_login_that_is_checked_holds_what_comes_behind_it(
    mechanism: str, response: bytes, given: tuple[bytes, bytes]
) -> None:
    login = StubLogin()
    session = made(login)
    behind = TUNE_OK + OPENS + method(1, m.ChannelOpen()) + publish(1)
    assert session.receive(PROTOCOL_HEADER + start_ok(mechanism, response) + behind[:-5]) == []
    assert login.asked == [given] and session.pending is not None
    assert methods_in(session.take_outgoing()) == [(0, start_for(False))]
    assert 0 < session.buffered_bytes <= len(behind)
    commands = session.answered(session.pending())
    assert session.pending is None and session.is_open
    assert commands == [
        Open(NUMBER, principal=SHOP), Open(FIRST, principal=SHOP, channel_of=NUMBER),
        SetWindow(FIRST, 0, properties_max_bytes=AMQP_FRAME_BYTES - 20),
    ]  # fmt: skip
    assert kinds(session.take_outgoing())[1:] == [(0, m.ConnectionOpenOk), (1, m.ChannelOpenOk)]
    assert isinstance(only(session.receive(behind[-5:])), Send)


def test_what_the_transport_knows_of_a_client_does_not_undo_its_login() -> None:
    session = made(StubLogin())
    session.recognise(ANYONE)
    session.receive(PROTOCOL_HEADER + start_ok())
    session.recognise(ANYONE)
    assert session.answered(SHOP) == []
    for wire in (TUNE_OK, OPENS[:-1]):
        session.recognise(ANYONE)  # as the server does before each read until the connection is open
        session.receive(wire)
    session.recognise(ANYONE)
    assert session.receive(OPENS[-1:]) == [Open(NUMBER, principal=SHOP)]


def test_who_has_logged_in_stays_who_he_is_whatever_the_transport_says_before_each_read() -> None:
    session = made(StubLogin(True))
    for data in (PROTOCOL_HEADER, start_ok(), TUNE_OK, OPENS):
        session.recognise(ANYONE)
        heard = session.receive(data)
    assert heard == [Open(NUMBER, principal=SHOP)]


def test_external_is_offered_where_the_transport_says_who_it_is() -> None:
    session = made(StubLogin())
    session.recognise(SHOP)
    session.receive(PROTOCOL_HEADER)
    assert methods_in(session.take_outgoing()) == [(0, START)]


def test_a_connection_that_is_closed_in_what_came_behind_its_login_hears_no_more() -> None:
    session = made(StubLogin())
    session.receive(PROTOCOL_HEADER + start_ok() + TUNE_OK + OPENS + method(0, m.ConnectionClose()) + OPENS + OPENS)
    assert session.answered(SHOP) == [Open(NUMBER, principal=SHOP)]
    assert kinds(session.take_outgoing())[-1] == (0, m.ConnectionCloseOk)


@pytest.mark.parametrize("is_at_once", [False, True])
@pytest.mark.parametrize("can", [False, True])
def test_who_is_refused_is_told_so_where_he_reads_it(is_at_once: bool, can: bool) -> None:
    session = made(StubLogin(is_at_once))
    wire = start_ok(response=b"\0shop\0wrong", authentication_failure_close=can)
    assert session.receive(PROTOCOL_HEADER + wire + TUNE_OK + OPENS) == []
    if not is_at_once:
        assert session.answered(Refusal("forbidden", "Wrong user or password.")) == []
    if can:
        assert closed_with(session) == (
            403, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN: Wrong user or password",
        )  # fmt: skip
        assert session.last_answer == method(0, m.ConnectionCloseOk())
    else:
        assert methods_in(session.take_outgoing()) == [(0, start_for(False))]
        assert session.last_answer == b"", "nothing was said that is answered"
    assert session.is_closing and session.closing_cause == "refused: forbidden"
    assert session.receive(OPENS) == [] and session.answered(SHOP) == []


def test_a_verdict_that_comes_too_late_is_nobodys() -> None:
    session = made(StubLogin())
    session.receive(PROTOCOL_HEADER + start_ok() + encode_frame(4, 0, b""))
    assert closed_with(session)[0] == 501
    assert session.answered(SHOP) == [] and not session.is_open
    session = made(StubLogin())
    session.receive(PROTOCOL_HEADER + start_ok())
    session.forget()
    assert session.answered(SHOP) == []


def test_without_users_anybody_is_who_he_says() -> None:
    session = opened()
    assert only(session.receive(publish(1, properties=b"\0\x10\4shop"))).body == b"body"


@pytest.mark.parametrize(("mechanism", "response", "code"), [("NONE", b"", 503), ("PLAIN", b"shop", 502)])
def test_what_is_no_login_ends_the_connection(mechanism: str, response: bytes, code: int) -> None:
    session = made(StubLogin())
    assert session.receive(PROTOCOL_HEADER + start_ok(mechanism, response)) == []
    assert closed_with(session)[0] == code


# ---- what is agreed on ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("frame_max", "agreed"), [
    (0, AMQP_FRAME_BYTES), (FRAME_MIN_BYTES, FRAME_MIN_BYTES), (AMQP_FRAME_BYTES, AMQP_FRAME_BYTES),
    (FRAME_MIN_BYTES - 1, None), (AMQP_FRAME_BYTES + 1, None), (1, None), (2**32 - 1, None),
])  # fmt: skip
def test_the_size_of_frames_is_agreed_on(frame_max: int, agreed: int | None) -> None:
    session = made()
    if agreed is None:
        assert session.receive(greeting(frame_max)) == []
        assert closed_with(session)[0] == 530
        return
    session.receive(greeting(frame_max))
    assert session.receive(b"\1\0\0" + agreed.to_bytes(4)) == [] and session.frame_bytes == agreed + 8
    session = opened(frame_max=frame_max)
    fail = only(session.receive(b"\1\0\0" + (agreed + 1).to_bytes(4)))
    assert isinstance(fail, Fail)
    assert kinds(session.encode(Refuse(NUMBER, "protocol", fail.sentence))) == [(0, m.ConnectionClose)]


@pytest.mark.parametrize("frame_max", [FRAME_MIN_BYTES, AMQP_FRAME_BYTES])
def test_properties_have_room_in_one_frame_with_what_is_around_them(frame_max: int) -> None:
    session = made()
    session.receive(greeting(frame_max))
    _, window = session.receive(method(1, m.ChannelOpen()))
    assert window == SetWindow(FIRST, 0, properties_max_bytes=frame_max - 20)
    assert len(encode_frame(2, 1, b"\0\x3c\0\0" + (0).to_bytes(8) + b"x" * (frame_max - 20))) == frame_max


@pytest.mark.parametrize("heartbeat", [0, 1, 60, 65535])
def test_heart_beats_are_what_the_client_wants(heartbeat: int) -> None:
    session = opened(heartbeat=heartbeat)
    wanted = (heartbeat / 2, heartbeat, 2 * heartbeat + 1 if heartbeat else inf)
    assert (session.heart_beat_send_s, session.heart_beat_expect_s, session.silence_max_s) == wanted
    assert session.heart_beat() == HEARTBEAT


@pytest.mark.parametrize(("channel_max", "most"), [
    (0, AMQP_CHANNELS_MAX), (1, 1), (10, 10), (65535, AMQP_CHANNELS_MAX),
])  # fmt: skip
def test_so_many_channels_are_open_as_is_agreed_on(channel_max: int, most: int) -> None:
    session = opened(most, channel_max=channel_max)
    fail = only(session.receive(method(most + 1, m.ChannelOpen())))
    assert isinstance(fail, Fail) and f"{most} are open" in fail.sentence
    ((_, close),) = methods_in(session.encode(Refuse(NUMBER, "protocol", fail.sentence)))
    assert (close[0], close[2:]) == (530, (20, 10))


def test_a_connection_with_few_channels_may_give_them_high_numbers() -> None:
    """aiormq takes the next number for each new channel as long as its last one is open, up to 65,535."""
    session = opened(1, channel_max=2)
    before, number = 1, FIRST
    for wire in (2048, 2049, 65535):
        newer = open_channel(session, wire)
        session.receive(method(before, m.ChannelClose()))
        session.encode(Receipt(number, RPC))
        session.encode(Bye(number))
        session.take_outgoing()
        before, number = wire, newer
    open_channel(session, 1)
    assert isinstance(only(session.receive(method(2, m.ChannelOpen()))), Fail)


@pytest.mark.parametrize(
    ("vhost", "is_there"), [("/", True), ("", True), ("other", False), ("/x", False), ("€" * 80, False)]
)
def test_there_is_one_virtual_host(vhost: str, is_there: bool) -> None:
    session = made()
    commands = session.receive(b"".join(STEPS) + method(0, m.ConnectionOpen(vhost)))
    assert commands == ([Open(NUMBER)] if is_there else [])
    if not is_there:
        assert closed_with(session)[0] == 530


# ---- channels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wire", "part", "code", "about"), [
    (publish(2), "channel 2 is not open", 504, (60, 40)),
    (method(2, m.ChannelClose()), "channel 2 is not open", 504, (20, 40)),
    (method(2, m.ChannelCloseOk()), "channel 2 is not open", 504, (20, 41)),
    (encode_frame(3, 2, b"body"), "channel 2 is not open", 505, (0, 0)),
    (content(2), "channel 2 is not open", 505, (0, 0)),
    (method(1, m.ChannelOpen()), "channel 1 is open already", 504, (20, 10)),
    (method(0, m.QueueDeclare()), "queue.declare came where it has no meaning", 504, (50, 10)),
    (method(0, ConnectionOpen()), "connection.open came where it has no meaning", 504, (10, 40)),
])  # fmt: skip
def test_a_frame_of_a_channel_that_is_not_open_ends_the_connection(
    wire: bytes, part: str, code: int, about: tuple[int, int]
) -> None:
    session = opened()
    fail = session.receive(wire)[0]
    assert isinstance(fail, Fail) and fail.connection == NUMBER and part in fail.sentence
    ((_, close),) = methods_in(session.encode(Refuse(NUMBER, "protocol", fail.sentence)))
    assert (close[0], close[2:]) == (code, about)


def test_a_number_that_was_used_is_not_open() -> None:
    session = opened()
    session.receive(method(1, m.ChannelClose()))
    session.encode(Receipt(FIRST, RPC))
    session.encode(Bye(FIRST))
    session.take_outgoing()
    assert isinstance(only(session.receive(publish(1)[:30])), Fail)


def test_a_reply_to_nobody_is_nothing() -> None:
    session = opened()
    for reply in (Receipt(99, b"1"), Bye(99), Refuse(99, "locked", "No."), Pause(99, "No room."), Pause(NUMBER, "x")):
        assert session.encode(reply) == b"" and session.take_outgoing() == b""


@pytest.mark.parametrize("hears", [False, True])
def test_who_asks_for_it_is_told_that_channels_wait_for_room(hears: bool) -> None:
    session = opened(channels=2, **{"connection.blocked": hears})
    blocked = session.encode(Pause(FIRST, "No room.")) + session.encode(Pause(FIRST + 1, "No room."))
    assert methods_in(blocked) == ([(0, m.ConnectionBlocked("No room."))] if hears else [])
    assert session.encode(Resume(FIRST)) == b""
    assert methods_in(session.encode(Resume(FIRST + 1))) == ([(0, m.ConnectionUnblocked())] if hears else [])


def test_a_channel_that_ends_waits_no_more() -> None:
    session = opened(**{"connection.blocked": True})
    session.encode(Pause(FIRST, "No room."))
    session.receive(publish(1))
    frames = session.encode(Refuse(FIRST, "no-such-destination", "It was deleted.")) + session.take_outgoing()
    assert kinds(frames) == [(1, m.ChannelClose), (0, m.ConnectionUnblocked)]
    assert session.receive(method(1, m.ChannelCloseOk())) == [] and session.buffered_bytes == 0


# ---- the end --------------------------------------------------------------------------------------------------------


def test_a_client_closes_its_connection_when_all_channels_have_ended() -> None:
    session = opened(channels=2)
    wire = publish(1) + method(0, m.ConnectionClose()) + publish(1)
    send, *ends = session.receive(wire)
    assert isinstance(send, Send)
    assert ends == [Disconnect(FIRST, RPC), Disconnect(FIRST + 1, RPC)]
    for number in (FIRST, FIRST + 1):
        assert session.take_outgoing() == b"" and not session.is_closing
        assert session.encode(Receipt(number, RPC)) == session.encode(Bye(number)) == b""
    assert methods_in(session.take_outgoing()) == [(0, m.ConnectionCloseOk())]
    assert session.is_closing and session.closing_cause == "closed"
    assert session.receive(publish(1) + OPENS) == [] and session.take_outgoing() == b""


def test_a_connection_without_channels_closes_at_once() -> None:
    session = opened(channels=0)
    assert session.receive(method(0, m.ConnectionClose())) == []
    assert methods_in(session.take_outgoing()) == [(0, m.ConnectionCloseOk())] and session.is_closing


def test_a_connection_closes_behind_what_its_channels_hold() -> None:
    session = opened(channels=2)
    session.receive(method(1, m.QueueDeclare(queue="q", no_wait=True)))
    session.encode(Pause(FIRST + 1, "No room."))
    wire = publish(1, "a") + publish(2, "b") + method(0, m.ConnectionClose())
    assert session.receive(wire) == []
    session.encode(Answered(FIRST, RPC, b""))
    send, end = session.receive(b"")
    assert isinstance(send, Send) and end == Disconnect(FIRST, RPC)
    session.encode(Receipt(FIRST, RPC))
    session.encode(Bye(FIRST))
    assert session.take_outgoing() == b"" and not session.has_unread
    session.encode(Resume(FIRST + 1))
    send, end = session.receive(b"")
    assert isinstance(send, Send) and end == Disconnect(FIRST + 1, RPC)
    session.encode(Receipt(FIRST + 1, RPC))
    session.encode(Bye(FIRST + 1))
    assert methods_in(session.take_outgoing()) == [(0, m.ConnectionCloseOk())]


def test_a_connection_closes_when_a_method_that_is_not_answered_is() -> None:
    session = opened()
    session.receive(method(1, m.BasicGet(queue="q")))
    assert session.receive(method(0, m.ConnectionClose())) == [] and not session.has_unread
    assert kinds(session.encode(Empty(FIRST, RPC))) == [(1, m.BasicGetEmpty)]
    assert session.has_unread and session.receive(b"") == [Disconnect(FIRST, RPC)]


def test_a_channel_that_is_refused_while_the_connection_closes_does_not_hold_it_up() -> None:
    session = opened()
    session.receive(method(1, m.QueueDeclare(queue="q")) + publish(1) + method(0, m.ConnectionClose()))
    assert kinds(session.encode(Answered(FIRST, RPC, b"No.", "locked"))) == [(1, m.ChannelClose)]
    assert methods_in(session.take_outgoing()) == [(0, m.ConnectionCloseOk())] and session.is_closing


def test_the_broker_closes_a_connection_behind_what_is_due() -> None:
    session = opened()
    session.receive(method(1, m.ConfirmSelect(True)) + publish(1))
    session.encode(Receipt(FIRST, b"1"))
    frames = session.encode(Refuse(NUMBER, "memory", "There is no memory left."))
    text = "CONNECTION_FORCED - There is no memory left."
    assert methods_in(frames) == [(1, m.BasicAck(1, False)), (0, m.ConnectionClose(320, text))]
    assert session.take_outgoing() == b""
    assert session.receive(method(0, m.ConnectionCloseOk()) + publish(1)) == []


def test_a_broker_that_stops_says_so_behind_what_is_due_and_once() -> None:
    session = opened(channels=2)
    session.receive(method(1, m.ConfirmSelect(True)) + publish(1))
    session.encode(Receipt(FIRST, b"1"))
    frames = session.encode(Bye(NUMBER))
    text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    assert methods_in(frames) == [(1, m.BasicAck(1, False)), (0, m.ConnectionClose(320, text))]
    for reply in (Bye(FIRST), Bye(FIRST + 1), Bye(NUMBER)):
        assert session.encode(reply) == b"", "the channels end with it"
    assert session.take_outgoing() == b""


def test_a_client_that_closes_is_not_told_that_the_broker_stops() -> None:
    session = opened()
    assert session.receive(method(0, m.ConnectionClose()))
    assert session.encode(Bye(NUMBER)) == b""
    session.encode(Bye(FIRST))
    assert methods_in(session.take_outgoing()) == [(0, m.ConnectionCloseOk())]


def test_nothing_of_a_channel_comes_behind_the_answer_to_close() -> None:
    session = opened()
    session.encode(Refuse(FIRST, "locked", "No."))
    session.receive(method(1, m.ChannelClose()) + method(0, m.ConnectionClose()))
    assert kinds(session.take_outgoing()) == [(1, m.ChannelCloseOk), (0, m.ConnectionCloseOk)]


def test_what_is_broken_behind_the_end_is_passed_over() -> None:
    session = opened(channels=0)
    assert session.receive(method(0, m.ConnectionClose()) + b"noise behind it") == []
    assert methods_in(session.take_outgoing()) == [(0, m.ConnectionCloseOk())]
    refused = made(StubLogin(is_at_once=True))
    assert refused.receive(PROTOCOL_HEADER + start_ok(response=b"\0shop\0wrong") + b"noise behind it") == []
    assert kinds(refused.take_outgoing()) == [(0, m.ConnectionStart)]


def test_both_close_a_connection_at_once() -> None:
    session = opened()
    assert session.receive(method(0, m.ConnectionClose())) == [Disconnect(FIRST, RPC)]
    assert session.last_answer == b""
    assert kinds(session.encode(Refuse(NUMBER, "stopping", "It stops."))) == [(0, m.ConnectionClose)]
    session = opened()
    session.encode(Refuse(NUMBER, "stopping", "It stops."))
    assert session.last_answer == method(0, m.ConnectionCloseOk())
    assert session.receive(method(0, m.ConnectionClose())) == [] and session.take_outgoing() == b""


def test_nothing_is_kept_of_a_connection_that_is_over() -> None:
    session = opened()
    session.receive(publish(1)[:-3])
    session.encode(Pause(FIRST))
    session.receive(publish(1)[-3:])
    session.forget()
    assert (session.buffered_bytes, session.has_unread, session.is_full) == (0, False, False)
    assert session.take_outgoing() == b"" and session.receive(publish(1)) == []
    assert session.encode(Receipt(FIRST, b"1")) == b""


def test_close_ok_of_a_connection_comes_behind_what_its_channels_are_told() -> None:
    session = opened()
    session.encode(Refuse(FIRST, "forbidden", "No."))
    session.receive(method(1, m.ChannelClose()) + method(0, m.ConnectionClose()))
    assert kinds(session.take_outgoing()) == [(1, m.ChannelCloseOk), (0, m.ConnectionCloseOk)]
