"""The channel to a broker: what is asked, what is awaited, and what becomes of both when a connection is lost."""

import pytest

from radiator.client.channel import Wait
from radiator.client.errors import ConnectionLost, NoAnswer
from radiator.client.outstanding import Loss
from radiator.client.reconnect import Reconnect
from radiator.model.errors import Refusal
from radiator.protocols.stomp.client import ClientSession
from tests.client.pair import Talk
from tests.client.peer import MESSAGE


def say(session: ClientSession, receipt: str | None) -> bytes:
    return session.send("/queue/q", b"x", receipt=receipt)


def bodies(talk: Talk) -> list[bytes]:
    found = []
    while (one := talk.channel.inbox.take()) is not None:
        found.append(one.body)
    return found


@pytest.mark.parametrize("confirm", [True, False, None])
def test_what_is_asked_waits_for_its_receipt_only_where_it_should(confirm: bool | None) -> None:
    talk = Talk()
    asked = talk.begin(talk.channel.ask(say, Loss.AGAIN, confirm))
    assert asked.is_over is (confirm is not True)
    assert len(talk.channel.outstanding) == (confirm is not None)
    talk.confirm()
    assert asked.go_on().result is True and not talk.channel.outstanding


def test_the_window_is_filled_and_one_more_waits_for_a_receipt() -> None:
    talk = Talk(window=2)
    for _ in range(2):
        assert talk.begin(talk.channel.ask(say, Loss.AGAIN, False)).is_over
    third = talk.begin(talk.channel.ask(say, Loss.AGAIN, False))
    assert not third.is_over and len(talk.frames()) == 2
    talk.answer(b"RECEIPT\nreceipt-id:r1\n\n\0")
    assert third.go_on().result is True and len(talk.frames()) == 1


def test_no_receipt_in_time_is_an_error_and_leaves_the_connection() -> None:
    talk = Talk()
    asked = talk.begin(talk.channel.ask(say, Loss.AGAIN, True))
    assert talk.channel.connection is not None
    talk.channel.connection.opened_at_s -= talk.channel.answer_timeout_s
    with pytest.raises(NoAnswer, match="gave no RECEIPT within 5 s"):
        asked.late()
    assert talk.channel.lost is None


def test_the_time_for_a_receipt_begins_anew_with_another_connection() -> None:
    talk = Talk()
    asked = talk.begin(talk.channel.ask(say, Loss.AGAIN, True))
    asked.late()  # its connection is younger than the time is long
    assert not asked.is_over


def test_a_refusal_is_raised_by_the_call_that_awaits_it_and_by_no_other() -> None:
    talk = Talk()
    asked = talk.begin(talk.channel.ask(say, Loss.AGAIN, True))
    talk.answer(b"ERROR\nreceipt-id:r1\ncode:queue-full\nmessage:full\n\n\0")
    with pytest.raises(Refusal, match="full"):
        asked.go_on()
    assert talk.channel.unraised is None
    with pytest.raises(ConnectionLost, match="the broker refused"):
        talk.channel.check_open()


def test_a_refusal_that_nobody_awaits_is_for_the_next_call_once() -> None:
    talk = Talk()
    talk.begin(talk.channel.ask(say, Loss.AGAIN, False))
    talk.answer(b"ERROR\nreceipt-id:r1\ncode:queue-full\nmessage:full\n\n\0")
    with pytest.raises(Refusal):
        talk.channel.check_refused()
    talk.channel.check_refused()


def test_what_comes_goes_to_its_request_or_to_the_inbox() -> None:
    talk = Talk()
    talk.answer(MESSAGE, MESSAGE.replace(b"subscription:s1", b"subscription:/temp-queue/replies"))
    assert bodies(talk) == [b"a\0b"]


def test_without_reconnect_a_lost_connection_is_the_end() -> None:
    talk = Talk()
    talk.begin(talk.channel.ask(say, Loss.AGAIN, False))
    talk.other.close()
    assert talk.channel.connection is not None
    talk.channel.read(talk.channel.connection)
    assert talk.channel.connection is None and talk.channel.lost is not None and talk.changes > 0
    with pytest.raises(ConnectionLost, match="1 receipt is outstanding"):
        talk.channel.check_open()
    with pytest.raises(ConnectionLost, match="There is no connection"):
        talk.channel.check_open()


@pytest.mark.parametrize(
    ("loss", "resend", "is_again"),
    [
        (Loss.AGAIN, True, True),
        (Loss.AGAIN, False, False),
        (Loss.REPLAYED, True, True),
        (Loss.DROPPED, True, False),
        (Loss.UNKNOWN, True, False),
    ],
)
def test_what_is_outstanding_is_sent_again_as_its_kind_says(loss: Loss, resend: bool, is_again: bool) -> None:
    talk = Talk(reconnect=Reconnect(resend=resend))
    asked = talk.begin(talk.channel.ask(say, loss, True))
    talk.other.close()
    assert talk.channel.connection is not None
    talk.channel.read(talk.channel.connection)
    if loss is Loss.DROPPED:
        assert asked.go_on().result is False
    elif not is_again:
        with pytest.raises(ConnectionLost, match="may or may not have happened"):
            asked.go_on()
    talk.opened()
    assert len(talk.frames()) == is_again
    assert talk.channel.lost is None and talk.channel.unraised is None


def test_what_the_channel_speaks_of_on_another_connection_is_not_sent() -> None:
    talk = Talk(reconnect=Reconnect())
    talk.other.close()
    assert talk.channel.connection is not None
    talk.channel.read(talk.channel.connection)
    talk.opened()
    assert talk.begin(talk.channel.ask(say, Loss.DROPPED, True, number=1)).result is False
    assert talk.begin(talk.channel.ask(say, Loss.DROPPED, None, number=1)).result is False
    assert talk.frames() == []


def test_messages_in_front_of_an_answer_that_nobody_receives_are_told() -> None:
    talk = Talk(max_bytes=1)
    wait = Wait(lambda: False, None, "RECEIPT")
    talk.channel.check_wait(wait, is_receiver=True)
    talk.answer(MESSAGE)
    talk.channel.check_wait(wait, is_receiver=False)
    with pytest.raises(NoAnswer, match="comes after 1 messages that nobody has received"):
        talk.channel.check_wait(wait, is_receiver=True)


def test_silence_past_what_was_promised_loses_the_connection() -> None:
    talk = Talk()
    connection = talk.channel.connection
    assert connection is not None
    connection.session.heart_beat_expect_s = 1.0
    talk.channel.check_silence(connection)
    assert talk.channel.connection is connection
    connection.read_at_s -= 4.0
    talk.channel.check_silence(connection)
    assert talk.channel.connection is None and "silent for 4" in (talk.channel.lost or "")


def test_names_are_new_each_time() -> None:
    channel = Talk().channel
    names = [channel.next_name(kind) for kind in "ssr"]
    assert len(set(names)) == 3 and [name[0] for name in names] == ["s", "s", "r"]
