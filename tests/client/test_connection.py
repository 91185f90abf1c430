"""One connection and its session: its greeting, its bytes both ways, and when it is taken for dead."""

import pytest

from radiator.client.address import Address
from radiator.client.connection import (
    READ_BYTES,
    SILENCE_SLACK_S,
    ClientConnection,
    Gone,
    cannot_connect,
    refusal,
)
from radiator.client.errors import ConnectionLost
from radiator.model.errors import Refusal
from radiator.protocols.stomp.client import OPEN, Error, Message
from tests.client.pair import ADDRESS, linked, unlinked
from tests.client.peer import MESSAGE


def greeted(answer: bytes | None, timeout_s: float = 1.0) -> ClientConnection:
    ours, other = unlinked()
    if answer is None:
        other.close()
    else:
        other.sendall(answer)
    greeting = ours.greeting(("1.2",), (0, 0), timeout_s)
    try:
        wanted = next(greeting)
        while True:
            wanted = greeting.send(ours.wait(*wanted))
    except StopIteration:
        return ours


def test_it_is_open_once_connected_has_come() -> None:
    ours, other = linked()
    assert ours.session.state == OPEN and ours.outgoing == b""
    ours.close()
    assert ours.fileno() == -1


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (b"ERROR\nmessage:no\ncode:login\n\nNot you.\0", Refusal, "Not you."),
        (b"RECEIPT\nreceipt-id:1\n\n\0", ConnectionLost, "broke the protocol"),
        (b"HTTP/1.1 400 Bad\r\n\r\n", ConnectionLost, "broke the protocol"),
        (None, ConnectionLost, "the broker closed it"),
    ],
)
def test_a_greeting_that_fails_closes_it_and_says_why(
    answer: bytes | None, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        greeted(answer)


def test_who_does_not_answer_in_time_is_told_so() -> None:
    with pytest.raises(ConnectionLost, match="did not answer CONNECT within 0 s"):
        greeted(b"", timeout_s=0.0)


def test_what_the_system_does_not_take_is_outgoing_and_goes_in_order() -> None:
    ours, other = linked()
    data = bytes(range(256)) * 20_000
    ours.say(data)
    ours.say(b"end")
    assert ours.outgoing and bytes(ours.outgoing[-3:]) == b"end"
    found = b""
    while ours.outgoing or len(found) < len(data) + 3:
        found += other.recv(1 << 20)
        ours.write()
    assert found == data + b"end"


def test_what_has_come_is_read_at_most_so_much_at_a_time() -> None:
    ours, other = linked()
    assert ours.read() == []
    other.sendall(MESSAGE)
    (message,) = ours.read()
    assert isinstance(message, Message) and message.body == b"a\0b"
    other.sendall(b"\n" * (READ_BYTES + 1))
    assert ours.wait(1.0, True, False) == (True, False)
    ours.read()
    assert ours.wait(1.0, True, False) == (True, False), "the rest is there"


@pytest.mark.parametrize("how", ["read", "write", "say"])
def test_a_connection_that_is_gone_says_so(how: str) -> None:
    ours, other = linked()
    ours.outgoing += b"x" if how == "write" else b""
    other.close()
    with pytest.raises(Gone, match="the broker closed it"):
        {"read": ours.read, "write": ours.write, "say": lambda: ours.say(b"x")}[how]()


def test_silence_has_twice_the_interval_and_a_slack() -> None:
    ours, _ = linked()
    assert ours.until_silent_s() is None and ours.until_beat_s() is None
    ours.session.heart_beat_expect_s = 10.0
    ours.read_at_s -= 20.0 + SILENCE_SLACK_S - 1.0
    left_s = ours.until_silent_s()
    assert left_s is not None and 0 < left_s <= 1.0
    ours.read_at_s -= 1.0
    assert ours.until_silent_s() == 0.0


def test_a_beat_goes_at_half_its_interval_and_not_before_nor_behind_what_waits() -> None:
    ours, other = linked()
    ours.session.heart_beat_send_s = 10.0
    ours.sent_at_s -= 4.0
    ours.beat()
    other.setblocking(False)
    with pytest.raises(BlockingIOError):
        other.recv(1)
    ours.sent_at_s -= 1.0
    ours.beat()
    assert other.recv(10) == b"\n"
    ours.sent_at_s -= 10.0
    ours.outgoing += b"SEND"
    assert ours.until_beat_s() is None
    ours.beat()
    assert bytes(ours.outgoing) == b"SEND"


def test_a_refusal_is_what_the_body_says_or_else_the_message() -> None:
    assert str(refusal(Error("short", {"code": "c"}, b"Long.\n"))) == "Long."
    refused = refusal(Error("short", {}, b""))
    assert (str(refused), refused.code) == ("short", "")


def test_why_there_is_no_connection_is_a_sentence_without_a_passcode() -> None:
    where = Address("h", 1, "me", "secret")
    assert (
        str(cannot_connect(where, TimeoutError())) == "Cannot connect to stomp://h:1: no answer. Is the broker running?"
    )
    assert "Connection refused" in str(cannot_connect(ADDRESS, ConnectionRefusedError(111, "Connection refused")))
