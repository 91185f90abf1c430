"""One channel: contents, what is held, confirms, transactions, deliveries, and its end from both sides."""

import tracemalloc
from typing import Any

import pytest

from radiator.model.amqp_tables import encode_table
from radiator.model.commands import Abort, Ack, Administer, Begin, Closed, Commit, Disconnect, Fail, Nack, Send
from radiator.model.getting import Get
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import TIME_MAX_MS, Limits
from radiator.model.message import Message
from radiator.model.replies import (
    Answered,
    Bye,
    Deliver,
    Empty,
    Ended,
    Pause,
    Receipt,
    Refuse,
    RefusedReceipt,
    Reply,
    Resume,
    Returned,
)
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.channel import NACKED
from radiator.protocols.amqp.frame import encode_frame
from radiator.protocols.amqp.session import AmqpSession
from tests.protocols.amqp.talking import (
    FIRST,
    NUMBER,
    content,
    kinds,
    method,
    methods_in,
    only,
    open_channel,
    opened,
    publish,
)

RPC = b"rpc"
BODY_FRAME = encode_frame(3, 1, b"abc")


def message(body: bytes = b"body", destination: str = "/queue/q") -> Message:
    return Message(destination, b"", ESCAPING_ALL, body, 1)


def deliver(number: int = FIRST, message_id: bytes = b"m", body: bytes = b"body", **more: Any) -> Deliver:
    fields = {"subscription": b"t", "message_id": message_id, "ack_due": True, "redelivered": False} | more
    return Deliver(number, message=message(body), **fields)


def frames_of(session: AmqpSession, reply: Reply) -> list[Any]:
    """What a reply, and the turn that it is in, gives."""
    return methods_in(session.encode(reply) + session.take_outgoing())


def confirming(channels: int = 1, **greeted: Any) -> AmqpSession:
    session = opened(channels, **greeted)
    for wire in range(1, channels + 1):
        session.receive(method(wire, m.ConfirmSelect()))
    session.take_outgoing()
    return session


# ---- contents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("body", [b"", b"a", b"abcdefghi" * 20])
def test_a_message_is_sent_when_it_is_whole(body: bytes, step: int) -> None:
    session = opened()
    session.receive(method(1, m.BasicPublish(exchange="x", routing_key="k")))
    wire = content(1, body, step=step)
    assert session.receive(wire[:-1]) == []
    send = only(session.receive(wire[-1:]))
    assert isinstance(send, Send) and send.destination == "/exchange/x/k"
    assert (send.body, type(send.body)) == (body, bytes)
    assert (send.receipt, send.transaction, send.mandatory, send.survives_refusal, send.returns) == (
        None, None, False, False, False,
    )  # fmt: skip
    assert session.buffered_bytes == 0


def test_a_mandatory_one_comes_back_and_a_confirmed_one_survives_its_refusal() -> None:
    session = confirming()
    first, second = session.receive(publish(1, mandatory=True) + publish(1))
    assert isinstance(first, Send) and isinstance(second, Send)
    assert (first.mandatory, first.returns, first.survives_refusal, first.receipt) == (True, True, True, b"1")
    assert (second.mandatory, second.returns, second.receipt) == (False, False, b"2")


@pytest.mark.parametrize(("wire", "code", "part"), [
    (content(1), 505, "no method has announced"),
    (BODY_FRAME, 505, "without its header"),
    (method(1, m.BasicPublish()) + BODY_FRAME, 505, "without its header"),
    (method(1, m.BasicPublish()) + method(1, m.BasicPublish()), 505, "within the content"),
    (method(1, m.BasicPublish()) + content(1)[:22] + method(1, m.BasicAck(1)), 505, "within the content"),
    (method(1, m.BasicPublish()) + content(1)[:22] + content(1), 505, "no method has announced"),
    (method(1, m.BasicPublish()) + content(1)[:22] + encode_frame(3, 1, b"bodyx"), 501, "5 bytes came"),
    (method(1, m.BasicPublish()) + content(1, b"") + BODY_FRAME, 505, "without its header"),
    (method(1, m.BasicPublish()) + encode_frame(2, 1, b"\0\x46" + content(1)[9:21]), 505, "class 70"),
    (method(1, m.BasicPublish()) + encode_frame(2, 1, b"\0\x3c\0\1" + content(1)[11:21]), 505, "weight"),
    (method(1, m.BasicPublish()) + encode_frame(2, 1, b"\0\x3c"), 501, "2 bytes"),
    (encode_frame(1, 1, b"\0"), 501, "1 bytes"),
    (encode_frame(1, 1, b"\0\x3c\0\x99"), 503, "no method"),
    (encode_frame(1, 1, b"\0\x46\0\x0a"), 540, "file"),
    (encode_frame(8, 1, b""), 505, "heartbeat"),
])  # fmt: skip
def test_a_frame_out_of_order_ends_the_connection(wire: bytes, code: int, part: str) -> None:
    session = opened()
    fail = [command for command in session.receive(wire) if isinstance(command, Fail)][-1]
    assert fail.connection == NUMBER
    assert session.receive(publish(1)) == [], "nothing counts behind it"
    ((channel, close),) = frames_of(session, Refuse(NUMBER, "protocol", fail.sentence))
    assert channel == 0 and isinstance(close, m.ConnectionClose)
    assert close.reply_code == code and part in close.reply_text


def test_a_message_has_at_most_max_frame_bytes() -> None:
    session = opened(limits=Limits(max_frame_bytes=1000))
    assert isinstance(only(session.receive(publish(1, body=b"x" * 998))), Send)
    fail = only(session.receive(publish(1, body=b"x" * 999)))
    assert isinstance(fail, Fail) and fail.connection == FIRST
    ((_, close),) = frames_of(session, Refuse(FIRST, "protocol", fail.sentence))
    assert close == m.ChannelClose(406, f"PRECONDITION_FAILED - {fail.sentence}", 60, 40)


def test_frames_without_a_byte_of_a_body_are_not_kept() -> None:
    session = opened()
    session.receive(method(1, m.BasicPublish()) + content(1, b"ab")[:22])
    tracemalloc.start()
    for _ in range(50):
        session.receive(encode_frame(3, 1, b"") * 1000)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 20_000
    assert only(session.receive(encode_frame(3, 1, b"a") + encode_frame(3, 1, b"b"))).body == b"ab"


@pytest.mark.parametrize(("flags", "rest", "part"), [
    (b"\x01\0", b"\x010", None),
    (b"\x01\0", b"\x0299", None),
    (b"\x01\0", bytes([16]) + b"%d" % (TIME_MAX_MS + 1), "expiration"),
    (b"\x01\0", b"\0", "expiration"),
    (b"\x01\0", b"\x02-1", "expiration"),
    (b"\x01\0", b"\x031.5", "expiration"),
    (b"\0\x10", b"\4shop", None),
    (b"\0\x10", b"\5other", "user_id"),
    (b"\0\x10", b"\0", "user_id"),
])  # fmt: skip
def test_properties_that_the_broker_looks_at(flags: bytes, rest: bytes, part: str | None) -> None:
    command = only(opened().receive(publish(1, properties=flags + rest)))
    if part is None:
        assert isinstance(command, Send)
        assert command.expiration_ms == (int(rest[1:]) if flags[0] else None)
    else:
        assert isinstance(command, Fail) and command.connection == FIRST and part in command.sentence


@pytest.mark.parametrize("exchange", ["x/", "x/y", "/"])
def test_an_exchange_with_a_slash_is_none(exchange: str) -> None:
    fail = only(opened().receive(method(1, m.BasicPublish(exchange=exchange, routing_key="k")) + content(1)))
    assert isinstance(fail, Fail) and fail.connection == FIRST and "no exchange" in fail.sentence


def test_copies_that_are_no_list_close_the_channel_alone() -> None:
    properties = b"\x20\0" + encode_table({"CC": "a"})
    fail = only(opened().receive(publish(1, properties=properties)))
    assert isinstance(fail, Fail) and fail.connection == FIRST and "invalid 'CC' header" in fail.sentence


def test_a_reply_goes_to_the_channel_that_has_asked() -> None:
    reply_to = b"amq.rabbitmq.reply-to"
    asking = publish(1, properties=b"\x02\0" + bytes([len(reply_to)]) + reply_to)
    session = opened()
    fail = only(session.receive(asking))
    assert isinstance(fail, Fail) and "fast reply consumer does not exist" in fail.sentence, "nobody would hear it"
    session = opened()
    session.receive(method(1, m.BasicConsume(queue=reply_to.decode(), no_ack=True)))
    session.encode(Receipt(FIRST, RPC))
    command = only(session.receive(asking))
    assert command.reply_to == "amq.rabbitmq.reply-to"
    command = only(opened().receive(publish(1, properties=b"\x02\0\3own")))
    assert command.reply_to is None


# ---- what is held ---------------------------------------------------------------------------------------------------


def test_nothing_is_taken_while_a_method_is_not_answered_and_all_of_it_afterwards_in_order() -> None:
    session = opened(channels=2)
    assert isinstance(only(session.receive(method(1, m.QueueDeclare(queue="q")))), Administer)
    assert session.receive(publish(1) + method(1, m.BasicGet(queue="q")) + publish(1, "behind")) == []
    assert isinstance(only(session.receive(publish(2))), Send), "other channels go on"
    assert session.buffered_bytes > 100 and not session.has_unread
    session.encode(Answered(FIRST, RPC, b""))
    assert session.has_unread
    first, second = session.receive(b"")
    assert isinstance(first, Send) and isinstance(second, Get), "as far as the next method that is to be answered"
    assert not session.has_unread
    session.encode(Empty(FIRST, RPC))
    assert only(session.receive(b"")).destination == "/amq/queue/behind"
    assert session.buffered_bytes == 0 and session.receive(b"") == []


def test_nothing_is_taken_while_a_channel_is_paused() -> None:
    session = opened()
    for cause in ("", "No room."):
        session.encode(Pause(FIRST, cause))
        assert session.receive(publish(1, "a") + publish(1, "b")[:-1]) == [] and not session.has_unread
        session.encode(Resume(FIRST))
        a = only(session.receive(b""))
        b = only(session.receive(publish(1, "b")[-1:]))
        assert (a.destination, b.destination) == ("/amq/queue/a", "/amq/queue/b")


def test_what_comes_while_frames_are_held_comes_behind_them() -> None:
    session = opened()
    session.encode(Pause(FIRST))
    session.receive(publish(1, "a"))
    session.encode(Resume(FIRST))
    a, b = session.receive(publish(1, "b"))
    assert (a.destination, b.destination) == ("/amq/queue/a", "/amq/queue/b")  # type: ignore[union-attr]


def test_a_session_that_holds_much_is_full_until_it_can_go_on() -> None:
    session = opened()
    session.encode(Pause(FIRST, "No room."))
    assert session.receive(publish(1, body=b"x" * 100_000)) == []
    assert session.is_full
    session.encode(Resume(FIRST))
    assert session.has_unread and not session.is_full, "or it would wait for ever"
    assert isinstance(only(session.receive(b"")), Send) and not session.is_full


def test_a_channel_is_closed_behind_what_is_held_and_opened_anew_behind_that() -> None:
    session = opened()
    session.receive(method(1, m.QueueDeclare(queue="q")))
    assert (
        session.receive(publish(1) + method(1, m.ChannelClose()) + method(1, m.ChannelOpen()) + publish(1, "n")) == []
    )
    session.encode(Answered(FIRST, RPC, b""))
    assert session.receive(b"")[1:] == [Disconnect(FIRST, RPC)]
    assert frames_of(session, Receipt(FIRST, RPC)) == [(1, m.ChannelCloseOk())]
    assert frames_of(session, Bye(FIRST)) == []
    opened_anew, _, send = session.receive(b"")
    assert opened_anew.connection == send.connection == FIRST + 1  # type: ignore[union-attr]
    assert methods_in(session.take_outgoing()) == [(1, m.ChannelOpenOk())]


def test_a_close_that_is_held_when_its_channel_is_closed_is_answered() -> None:
    session = opened()
    session.receive(method(1, m.QueueDeclare(queue="q", passive=True)))
    assert session.receive(publish(1) + method(1, m.ChannelClose())) == []
    assert kinds(session.encode(Answered(FIRST, RPC, b"None.", "no-such-destination"))) == [(1, m.ChannelClose)]
    assert session.receive(b"") == [Closed(FIRST, "refused")], "and the publish has no effect"
    assert methods_in(session.take_outgoing()) == [(1, m.ChannelCloseOk())]
    assert session.receive(method(1, m.ChannelCloseOk())) == []
    assert open_channel(session, 1) == FIRST + 1


# ---- confirms -------------------------------------------------------------------------------------------------------


def test_one_ack_is_for_all_of_a_turn() -> None:
    session = confirming(channels=2)
    session.receive(publish(1) * 5 + publish(2))
    assert session.encode(Receipt(FIRST, b"1")) == b""
    assert methods_in(session.take_outgoing()) == [(1, m.BasicAck(1, False))]
    for receipt in (b"2", b"3", b"4"):
        session.encode(Receipt(FIRST, receipt))
    session.encode(Receipt(FIRST + 1, b"1"))
    assert methods_in(session.take_outgoing()) == [(1, m.BasicAck(4, True)), (2, m.BasicAck(1, False))]
    assert session.take_outgoing() == b""


@pytest.mark.parametrize("code", sorted(NACKED))
def test_a_nack_stands_between_the_acks_before_it_and_behind_it(code: str) -> None:
    session = confirming()
    session.receive(publish(1) * 5)
    session.encode(Receipt(FIRST, b"1"))
    session.encode(Receipt(FIRST, b"2"))
    assert methods_in(session.encode(RefusedReceipt(FIRST, b"3", code, "No."))) == [
        (1, m.BasicAck(2, True)), (1, m.BasicNack(3, False, False)),
    ]  # fmt: skip
    assert methods_in(session.encode(RefusedReceipt(FIRST, b"4", code, "No."))) == [(1, m.BasicNack(4, False, False))]
    assert frames_of(session, Receipt(FIRST, b"5")) == [(1, m.BasicAck(5, False))]


def test_what_comes_back_comes_before_its_ack() -> None:
    session = confirming()
    session.receive(publish(1) + publish(1, mandatory=True))
    frames = session.encode(Receipt(FIRST, b"1"))
    frames += session.encode(Returned(FIRST, "/amq/queue/none", b"", ESCAPING_ALL, b"body"))
    frames += session.encode(Receipt(FIRST, b"2")) + session.take_outgoing()
    (_, returned), (_, head), (_, body), (_, ack) = methods_in(frames)
    assert isinstance(returned, m.BasicReturn) and returned[:2] == (312, "NO_ROUTE")
    assert isinstance(head, bytes) and body == b"body" and ack == m.BasicAck(2, True)


def test_a_refusal_that_closes_comes_behind_the_acks_that_are_due() -> None:
    session = confirming()
    session.receive(publish(1) * 3)
    session.encode(Receipt(FIRST, b"1"))
    refused = RefusedReceipt(FIRST, b"2", "no-such-destination", "No exchange 'x'.")
    assert methods_in(session.encode(refused)) == [
        (1, m.BasicAck(1, False)), (1, m.ChannelClose(404, "NOT_FOUND - No exchange 'x'.", 60, 40)),
    ]  # fmt: skip
    assert frames_of(session, Receipt(FIRST, b"3")) == []
    assert session.has_unread and session.receive(b"") == [Closed(FIRST, "refused")]
    assert not session.has_unread


@pytest.mark.parametrize("reply", [Refuse(FIRST, "protocol", "Tag 9."), Refuse(FIRST, "forbidden", "No.")])
def test_acks_that_are_due_come_before_the_end_of_a_broken_channel(reply: Refuse) -> None:
    session = confirming()
    session.receive(publish(1) + method(1, m.BasicAck(9)))
    session.encode(Receipt(FIRST, b"1"))
    assert kinds(session.encode(reply)) == [(1, m.BasicAck), (1, m.ChannelClose)]


def test_acks_that_are_due_come_before_close_ok() -> None:
    session = confirming()
    session.receive(publish(1) * 2 + method(1, m.ChannelClose()))
    session.encode(Receipt(FIRST, b"1"))
    frames = session.encode(RefusedReceipt(FIRST, b"2", "queue-full", "No."))
    frames += session.encode(Receipt(FIRST, RPC)) + session.encode(Bye(FIRST)) + session.take_outgoing()
    assert methods_in(frames) == [(1, m.BasicAck(1, False)), (1, m.BasicNack(2, False, False)), (1, m.ChannelCloseOk())]


# ---- transactions ---------------------------------------------------------------------------------------------------


def in_transactions() -> AmqpSession:
    session = opened()
    session.receive(method(1, m.TxSelect()))
    session.take_outgoing()
    return session


def test_a_transaction_begins_with_what_is_in_it() -> None:
    session = in_transactions()
    begin, send, again = session.receive(publish(1) * 2)
    assert begin == Begin(FIRST, b"tx")
    assert send.transaction == again.transaction == b"tx"  # type: ignore[union-attr]
    assert session.receive(method(1, m.TxCommit())) == [Commit(FIRST, b"tx", RPC)]
    assert session.receive(publish(1)) == []
    assert methods_in(session.encode(Receipt(FIRST, RPC))) == [(1, m.TxCommitOk())]
    assert session.receive(b"")[0] == Begin(FIRST, b"tx")
    assert session.receive(method(1, m.TxRollback())) == [Abort(FIRST, b"tx", RPC)]
    assert methods_in(session.encode(Receipt(FIRST, RPC))) == [(1, m.TxRollbackOk())]
    assert session.receive(method(1, m.TxCommit())) == [Begin(FIRST, b"tx"), Commit(FIRST, b"tx", RPC)], "an empty one"


@pytest.mark.parametrize(("multiple", "first", "more"), [(True, b"m1", (b"m2",)), (False, b"m2", ())])
def test_after_a_rollback_what_was_acked_is_unacked_under_its_tag(
    multiple: bool, first: bytes, more: tuple[bytes, ...]
) -> None:
    session = in_transactions()
    for name in (b"m1", b"m2", b"m3"):
        session.encode(deliver(message_id=name))
    acked = method(1, m.BasicAck(2, multiple))
    assert session.receive(acked) == [Begin(FIRST, b"tx"), Ack(FIRST, first, transaction=b"tx", more=more)]
    session.receive(method(1, m.TxRollback()))
    session.encode(Receipt(FIRST, RPC))
    assert session.receive(acked)[1] == Ack(FIRST, first, transaction=b"tx", more=more)
    session.receive(method(1, m.TxCommit()))
    session.encode(Receipt(FIRST, RPC))
    assert isinstance(only(session.receive(acked)), Fail)


# ---- deliveries -----------------------------------------------------------------------------------------------------


def test_a_delivery_has_a_tag_of_its_channel_and_its_names() -> None:
    session = opened(channels=2)
    for number, wire, tag in ((FIRST, 1, 1), (FIRST, 1, 2), (FIRST + 1, 2, 1)):
        (_, head), (_, properties), (channel, body) = methods_in(session.encode(deliver(number, redelivered=tag == 2)))
        assert (channel, head) == (wire, m.BasicDeliver("t", tag, tag == 2, "", "q"))
        assert isinstance(properties, bytes) and properties.endswith(b"\0\0") and body == b"body"


def test_a_large_body_is_not_copied_and_comes_in_frames_that_fit() -> None:
    session = opened(frame_max=4096)
    body = b"0123456789" * 1000
    pieces = session.pieces(deliver(body=body))
    assert any(isinstance(piece, memoryview) and piece.obj is body for piece in pieces)
    _, _, *bodies = methods_in(b"".join(pieces))
    assert [len(part) for _, part in bodies] == [4088, 4088, 1824]
    assert b"".join(part for _, part in bodies) == body  # type: ignore[misc]
    assert session.encode(deliver(body=body)) == b"".join(pieces).replace(
        b"t" + bytes(7) + b"\1", b"t" + bytes(7) + b"\2"
    )
    session.receive(method(1, m.BasicGet(queue="q")))
    assert kinds(b"".join(session.pieces(deliver(body=body, left=3))))[0] == (1, m.BasicGetOk)
    assert session.pieces(deliver(99)) == (b"",)


def test_get_is_answered_by_a_message_or_by_none() -> None:
    session = opened()
    session.receive(method(1, m.BasicGet(queue="q")) + method(1, m.BasicGet(queue="q")) + method(1, m.BasicAck(1)))
    assert methods_in(session.encode(deliver(left=3)))[0] == (1, m.BasicGetOk(1, False, "", "q", 3))
    assert isinstance(only(session.receive(b"")), Get)
    assert methods_in(session.encode(Empty(FIRST, RPC))) == [(1, m.BasicGetEmpty())]
    assert session.receive(b"") == [Ack(FIRST, b"m")]


def test_acks_nacks_and_rejects_name_what_was_delivered_on_their_channel() -> None:
    session = opened(channels=2)
    for number in range(1, 9):
        session.encode(deliver(message_id=b"m%d" % number, ack_due=number != 8))
    assert session.receive(method(1, m.BasicAck(2))) == [Ack(FIRST, b"m2")]
    assert session.receive(method(1, m.BasicReject(1, False))) == [Nack(FIRST, b"m1", requeue=False, is_reject=True)]
    assert session.receive(method(1, m.BasicNack(4, True, True))) == [Nack(FIRST, b"m3", more=(b"m4",))]
    assert session.receive(method(1, m.BasicNack(5, False, False))) == [Nack(FIRST, b"m5", requeue=False)]
    assert session.receive(method(1, m.BasicAck(0, True))) == [Ack(FIRST, b"m6", more=(b"m7",))]
    assert session.receive(method(1, m.BasicAck(0, True)) + method(1, m.BasicNack(0, True))) == [], "all of none"
    fails = session.receive(method(2, m.BasicAck(6)) + method(1, m.BasicAck(8)))
    assert [(type(fail), fail.connection) for fail in fails] == [(Fail, FIRST + 1), (Fail, FIRST)], "of another channel"


@pytest.mark.parametrize(
    ("sent", "ok"), [(m.BasicRecover(True), [m.BasicRecoverOk()]), (m.BasicRecoverAsync(True), [])]
)
def test_recover_gives_all_back(sent: m.Method, ok: list[m.Method]) -> None:
    session = opened()
    assert session.receive(method(1, sent)) == [], "nothing is there"
    assert [one for _, one in methods_in(session.take_outgoing())] == ok
    session.encode(deliver(message_id=b"m1"))
    session.encode(deliver(message_id=b"m2"))
    assert session.receive(method(1, sent)) == [Nack(FIRST, b"m1", receipt=RPC, more=(b"m2",))]
    assert [one for _, one in methods_in(session.encode(Receipt(FIRST, RPC)))] == ok
    assert isinstance(only(session.receive(method(1, m.BasicAck(1)))), Fail)


@pytest.mark.parametrize("can", [False, True])
def test_who_asks_for_it_is_told_that_a_consumer_has_ended(can: bool) -> None:
    session = opened(consumer_cancel_notify=can)
    session.receive(method(1, m.BasicConsume(queue="q", consumer_tag="t")))
    session.encode(Receipt(FIRST, RPC))
    assert methods_in(session.encode(Ended(FIRST, b"t"))) == ([(1, m.BasicCancel("t", True))] if can else [])


# ---- the end of a channel -------------------------------------------------------------------------------------------


def test_a_client_closes_a_channel_and_uses_its_number_again() -> None:
    session = opened()
    for number in (FIRST, FIRST + 1, FIRST + 2):
        assert session.receive(method(1, m.ChannelClose())) == [Disconnect(number, RPC)]
        assert frames_of(session, Receipt(number, RPC)) == [(1, m.ChannelCloseOk())]
        assert frames_of(session, Bye(number)) == []
        assert open_channel(session, 1) == number + 1


def test_the_broker_closes_a_channel_and_its_number_is_used_again() -> None:
    session = opened()
    for number in (FIRST, FIRST + 1):
        session.encode(deliver(number))
        assert frames_of(session, Refuse(number, "locked", "No.")) == [
            (1, m.ChannelClose(405, "RESOURCE_LOCKED - No."))
        ]
        assert frames_of(session, deliver(number)) == []
        assert session.receive(publish(1) + method(1, m.BasicAck(1))) == [], "it does not know yet"
        assert session.receive(method(1, m.ChannelCloseOk())) == [] and session.take_outgoing() == b""
        assert open_channel(session, 1) == number + 1


@pytest.mark.parametrize("says_close_ok", [False, True])
def test_both_close_a_channel_at_once(says_close_ok: bool) -> None:
    session = opened()
    assert kinds(session.encode(Refuse(FIRST, "locked", "No."))) == [(1, m.ChannelClose)]
    assert session.receive(method(1, m.ChannelClose())) == []
    assert methods_in(session.take_outgoing()) == [(1, m.ChannelCloseOk())]
    if says_close_ok:
        assert session.receive(method(1, m.ChannelCloseOk())) == []
    assert open_channel(session, 1) == FIRST + 1


def test_a_close_that_meets_a_refusal_is_answered_behind_that() -> None:
    session = opened()
    send, end = session.receive(publish(1, exchange="none") + method(1, m.ChannelClose()))
    assert end == Disconnect(FIRST, RPC)
    refused = session.encode(Refuse(FIRST, "no-such-destination", "None.", command=send))
    (_, close), (_, close_ok) = methods_in(refused)
    assert isinstance(close, m.ChannelClose) and close[2:] == (60, 40), "the publish was refused, not the close"
    assert close_ok == m.ChannelCloseOk()
    assert session.receive(method(1, m.ChannelCloseOk())) == []
    assert open_channel(session, 1) == FIRST + 1


@pytest.mark.parametrize("waiting", [
    m.QueueDeclare(queue="q"), m.BasicConsume(queue="q"), m.BasicGet(queue="q"), m.BasicQos(0, 1, True), m.TxSelect(),
    m.ChannelClose(),
])  # fmt: skip
def test_the_close_names_what_was_refused_and_no_method_that_waits_behind_it(waiting: m.Method) -> None:
    session = opened()
    send, *_ = session.receive(publish(1, exchange="none") + method(1, waiting))
    ((_, close), *_) = methods_in(session.encode(Refuse(FIRST, "no-such-destination", "None.", command=send)))
    assert close == m.ChannelClose(404, "NOT_FOUND - None.", 60, 40)
    confirmed = confirming()
    confirmed.receive(publish(1, exchange="none") + method(1, waiting))
    refused = RefusedReceipt(FIRST, b"1", "no-such-destination", "None.")
    assert methods_in(confirmed.encode(refused))[0] == (1, close)


@pytest.mark.parametrize("waiting", [m.BasicConsume(queue="q"), m.BasicGet(queue="q")])
def test_the_close_names_the_method_that_was_refused_itself(waiting: m.Method) -> None:
    session = opened()
    session.receive(publish(1) + method(1, waiting))
    ((_, close),) = methods_in(session.encode(Refuse(FIRST, "no-such-destination", "None.", RPC)))
    assert close == m.ChannelClose(404, "NOT_FOUND - None.", *m.NUMBERS[type(waiting)])


@pytest.mark.parametrize("refused", [
    m.BasicAck(1), m.BasicAck(2, True), m.BasicNack(1), m.BasicNack(2, True), m.BasicReject(1),
])  # fmt: skip
def test_the_close_names_the_ack_that_was_refused_and_nothing_that_has_come_since(refused: m.Method) -> None:
    session = in_transactions()
    for name in (b"m1", b"m2"):
        session.encode(deliver(message_id=name))
    _, command, *_ = session.receive(method(1, refused) + publish(1) + method(1, m.BasicGet(queue="q")))
    ((_, close),) = methods_in(session.encode(Refuse(FIRST, "too-large", "One more.", command=command)))
    assert close == m.ChannelClose(406, "PRECONDITION_FAILED - One more.", *m.NUMBERS[type(refused)])


@pytest.mark.parametrize("code", ["ack-timeout", "transaction-timeout", "memory", "disconnected", "too-large"])
def test_what_no_method_is_the_cause_of_names_none(code: str) -> None:
    session = opened()
    session.receive(publish(1) + method(1, m.BasicGet(queue="q")))
    ((_, close),) = methods_in(session.encode(Refuse(FIRST, code, "No.")))
    assert close == m.ChannelClose(406, "PRECONDITION_FAILED - No.", 0, 0)


def test_a_broken_channel_is_told_so_before_its_close_is_answered_and_it_is_opened_anew() -> None:
    session = opened()
    assert isinstance(only(session.receive(method(1, m.BasicAck(9)))), Fail)
    assert session.receive(method(1, m.ChannelClose()) + method(1, m.ChannelOpen())) == []
    assert session.take_outgoing() == b""
    assert kinds(session.encode(Refuse(FIRST, "protocol", "Tag 9."))) == [(1, m.ChannelClose)]
    assert session.has_unread
    assert session.receive(b"")[0].connection == FIRST + 1  # type: ignore[union-attr]
    assert kinds(session.take_outgoing()) == [(1, m.ChannelCloseOk), (1, m.ChannelOpenOk)]


def test_a_refusal_that_meets_a_channel_which_is_closed_already_is_nobodys() -> None:
    session = confirming()
    session.receive(publish(1) * 2 + method(1, m.BasicAck(9)))
    session.encode(RefusedReceipt(FIRST, b"1", "no-such-destination", "None."))
    assert frames_of(session, Refuse(FIRST, "protocol", "Tag 9.")) == []
    assert open_anew(session) == FIRST + 1


def open_anew(session: AmqpSession) -> int:
    assert session.receive(method(1, m.ChannelCloseOk())) == [Closed(FIRST, "refused")]
    return open_channel(session, 1)
