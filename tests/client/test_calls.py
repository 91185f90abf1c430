"""What a program may ask of a broker, frame by frame: for threads and tasks alike."""

import pytest

from radiator.client.calls import Calls
from radiator.client.errors import ConnectionLost, NoAnswer, TransactionLost
from radiator.client.reconnect import Reconnect
from radiator.model.errors import Refusal, Violation
from radiator.protocols.stomp.client import Message
from tests.client.pair import Talk
from tests.client.peer import MESSAGE


@pytest.fixture
def talk() -> Talk:
    return Talk(reconnect=Reconnect())


@pytest.fixture
def calls(talk: Talk) -> Calls:
    return Calls(talk.channel, dedup=False)


def cut(talk: Talk) -> None:
    talk.other.close()
    assert talk.channel.connection is not None
    talk.channel.read(talk.channel.connection)
    talk.opened()


def received(talk: Talk) -> Message:
    talk.answer(MESSAGE)
    message = talk.channel.inbox.take()
    assert message is not None
    return message


def test_a_send_is_confirmed_by_its_receipt(talk: Talk, calls: Calls) -> None:
    sending = talk.begin(calls.send("/queue/q", "ä", {"a": "b"}, None, True))
    (frame,) = talk.frames()
    assert frame.startswith(b"SEND\n") and b"\na:b\n" in frame and frame.endswith("\n\nä".encode())
    talk.answer(b"RECEIPT\nreceipt-id:r1\n\n\0")
    assert sending.go_on().result is True


def test_each_send_has_a_dedup_id_of_its_own_but_for_one_that_brings_it(talk: Talk) -> None:
    calls = Calls(talk.channel, dedup=True)
    for headers in ({}, {}, {"dedup-id": "mine"}):
        talk.begin(calls.send("/queue/q", b"", headers, None, False))
    ids = [line for frame in talk.frames() for line in frame.split(b"\n") if line.startswith(b"dedup-id:")]
    assert len(set(ids)) == 3 and ids[2] == b"dedup-id:mine"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda calls: calls.send(5, b"", (), None, True), TypeError),
        (lambda calls: calls.send("/queue/q", b"", (), None, "yes"), TypeError),
        (lambda calls: calls.request("/queue/q", b"", "1", ()), TypeError),
        (lambda calls: calls.nack(None, None, True, None, True), TypeError),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_sent(talk: Talk, calls: Calls, make: object, error: type) -> None:
    with pytest.raises(error):
        talk.begin(make(calls))  # type: ignore[operator]
    assert talk.frames() == []


def test_a_subscription_is_known_once_its_receipt_is_there(talk: Talk, calls: Calls) -> None:
    asking = talk.begin(calls.subscribe("/queue/q", "s", "auto", (), 5, True))
    (frame,) = talk.frames()
    assert all(line in frame for line in (b"\nid:s\n", b"prefetch-count:5", b"durable:true", b"auto-delete:false"))
    assert not talk.channel.subscriptions["s"].is_known
    talk.answer(b"RECEIPT\nreceipt-id:r1\n\n\0")
    assert asking.go_on().result == "s" and talk.channel.subscriptions["s"].is_known
    with pytest.raises(Violation, match="exists already"):
        talk.begin(calls.subscribe("/queue/q", "s", "auto", (), None, False))


def test_a_consumer_has_the_name_that_it_is_given(talk: Talk, calls: Calls) -> None:
    talk.begin(calls.subscribe("/queue/q", "s", "auto", (), None, False, consumer_name="pod-3"))
    (frame,) = talk.frames()
    assert b"\nconsumer-name:pod-3\n" in frame
    with pytest.raises(TypeError, match="consumer_name"):
        talk.begin(calls.subscribe("/queue/q", "t", "auto", (), None, False, consumer_name=3))  # type: ignore[arg-type]


def test_a_subscription_that_is_refused_is_none(talk: Talk, calls: Calls) -> None:
    asking = talk.begin(calls.subscribe("/queue/q", "s", "auto", (), None, False, callback=print))
    talk.answer(b"ERROR\nreceipt-id:r1\ncode:exclusive\nmessage:no\n\n\0")
    with pytest.raises(Refusal, match="no"):
        asking.go_on()
    assert not talk.channel.subscriptions and not talk.channel.inbox.callbacks


def test_a_durable_subscription_needs_a_name(talk: Talk, calls: Calls) -> None:
    with pytest.raises(Violation, match="needs an id"):
        talk.begin(calls.subscribe("/topic/t", None, "auto", (), None, True))


def test_only_what_was_subscribed_can_be_ended(talk: Talk, calls: Calls) -> None:
    with pytest.raises(Violation, match="There is no subscription 'x' to end"):
        talk.begin(calls.unsubscribe("x", False, None))
    ending = talk.begin(calls.unsubscribe("x", True, "/topic/t"))
    talk.confirm()
    assert ending.go_on().is_over


@pytest.mark.parametrize("what", ["ack", "nack"])
def test_an_ack_of_a_lost_connection_is_dropped(talk: Talk, calls: Calls, what: str) -> None:
    message = received(talk)

    def settled() -> object:
        steps = calls.ack(message, None, True) if what == "ack" else calls.nack(message, None, True, None, True)
        return talk.begin(steps)

    first = settled()
    talk.confirm()
    assert first.go_on().result is True  # type: ignore[attr-defined]
    cut(talk)
    assert settled().result is False and talk.frames() == []  # type: ignore[attr-defined]


def test_a_transaction_is_of_the_connection_that_it_was_begun_on(talk: Talk, calls: Calls) -> None:
    assert talk.begin(calls.begin("t")).result == "t" and calls.has("t")
    cut(talk)
    with pytest.raises(TransactionLost, match="nothing of it has happened"):
        talk.begin(calls.send("/queue/q", b"", (), "t", True))
    with pytest.raises(TransactionLost):
        talk.begin(calls.commit("t", None))
    assert not calls.has("t")


def test_a_message_of_a_lost_connection_is_in_no_transaction(talk: Talk, calls: Calls) -> None:
    message = received(talk)
    cut(talk)
    talk.begin(calls.begin("t"))
    with pytest.raises(TransactionLost, match="comes again"):
        talk.begin(calls.ack(message, "t", True))


def test_an_abort_of_a_lost_transaction_is_no_error(talk: Talk, calls: Calls) -> None:
    talk.begin(calls.begin("t"))
    cut(talk)
    assert talk.begin(calls.abort("t")).is_over and not calls.has("t")


def replied(talk: Talk, body: bytes) -> None:
    (frame,) = talk.frames()
    correlation = frame.partition(b"correlation-id:")[2].partition(b"\n")[0]
    talk.answer(
        b"MESSAGE\ndestination:/x\nmessage-id:1\nsubscription:/temp-queue/replies\ncorrelation-id:%b\n\n%b\0"
        % (correlation, body)
    )


def test_a_reply_comes_to_its_request(talk: Talk, calls: Calls) -> None:
    asking = talk.begin(calls.request("/queue/q", b"?", 5, ()))
    replied(talk, b"yes")
    assert isinstance(asking.go_on().result, Message) and asking.result.body == b"yes"
    assert not talk.channel.replies


def test_no_reply_in_time_is_an_error(talk: Talk, calls: Calls) -> None:
    asking = talk.begin(calls.request("/queue/q", b"?", 5, ()))
    with pytest.raises(NoAnswer, match="No reply to a request to /queue/q came within 5 s"):
        asking.late()


def test_a_request_of_a_lost_connection_may_be_carried_out(talk: Talk, calls: Calls) -> None:
    asking = talk.begin(calls.request("/queue/q", b"?", 5, ()))
    talk.other.close()
    assert talk.channel.connection is not None
    talk.channel.read(talk.channel.connection)
    with pytest.raises(ConnectionLost, match="may or may not be carried out"):
        asking.go_on()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"ok":false,"code":"declared","error":"No."}', "declared"),
        (b'{"ok":1}', ""),
        (b"[]", "version"),
        (b"{}", "version"),
        (b"no json", "version"),
    ],
)
def test_an_answer_of_admin_that_is_no_yes_is_a_refusal(talk: Talk, calls: Calls, body: bytes, code: str) -> None:
    asking = talk.begin(calls.admin({"do": "stats"}, 5))
    replied(talk, body)
    with pytest.raises(Refusal) as refused:
        asking.go_on()
    assert refused.value.code == code


def test_an_answer_of_admin_is_what_it_says(talk: Talk, calls: Calls) -> None:
    asking = talk.begin(calls.admin({"do": "stats"}, 5))
    replied(talk, b'{"ok":true,"a":1}')
    assert asking.go_on().result == {"ok": True, "a": 1}


def test_close_waits_for_what_is_outstanding_then_disconnects(talk: Talk, calls: Calls) -> None:
    talk.begin(calls.send("/queue/q", b"", (), None, False))
    closing = talk.begin(calls.close(None))
    assert not closing.is_over and [frame[:4] for frame in talk.frames()] == [b"SEND"]
    talk.answer(b"RECEIPT\nreceipt-id:r1\n\n\0")
    closing.go_on()
    assert [frame[:10] for frame in talk.frames()] == [b"DISCONNECT"]
    talk.answer(b"RECEIPT\nreceipt-id:r2\n\n\0")
    assert closing.go_on().is_over and talk.channel.lost == "it was closed by this program"
    assert talk.begin(calls.close(None)).is_over, "twice does no harm"


def test_close_that_takes_too_long_closes_nevertheless(talk: Talk, calls: Calls) -> None:
    talk.begin(calls.send("/queue/q", b"", (), None, False))
    closing = talk.begin(calls.close(1))
    with pytest.raises(NoAnswer, match="1 receipts did not come within 1 s"):
        closing.late()
    assert talk.channel.connection is None
