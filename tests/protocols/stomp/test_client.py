"""The client's session: what it may send in which state, and what it makes of a server, an honest one or not."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radiator.model.commands import Ack, Nack, Open, Send
from radiator.model.errors import Violation
from radiator.model.limits import Limits
from radiator.model.message import Message as StoredMessage
from radiator.model.replies import Deliver, Refuse
from radiator.model.replies import Receipt as ReceiptReply
from radiator.protocols.stomp.client import (
    CLOSED,
    CLOSING,
    CONNECTING,
    NEW,
    OPEN,
    Broken,
    ClientSession,
    Connected,
    Error,
    Message,
    Receipt,
)
from radiator.protocols.stomp.session import StompSession
from radiator.protocols.stomp.spec import VERSIONS

NAMES = sorted(name.decode() for name in VERSIONS)
A_MESSAGE = Message({"message-id": "m", "subscription": "0", "ack": "a", "destination": "/queue/a"}, b"")


def pair(version: str = "1.2", limits: Limits | None = None) -> tuple[ClientSession, StompSession]:
    """A client and a server that have agreed on that version."""
    client = ClientSession(limits) if limits else ClientSession()
    server = StompSession(7, "s-1", Limits())
    assert server.receive(client.connect("h", versions=[version])) == [Open(7)]
    (connected,) = client.receive(server.take_outgoing())
    assert isinstance(connected, Connected) and connected.version == version == client.version
    return client, server


CALLS: dict[str, Callable[[ClientSession], bytes]] = {
    "connect": lambda client: client.connect("h"),
    "send": lambda client: client.send("/queue/a"),
    "subscribe": lambda client: client.subscribe("new", "/queue/a"),
    "unsubscribe": lambda client: client.unsubscribe("0"),
    "ack": lambda client: client.ack(A_MESSAGE),
    "nack": lambda client: client.nack(A_MESSAGE),
    "begin": lambda client: client.begin("new"),
    "commit": lambda client: client.commit("t"),
    "abort": lambda client: client.abort("t"),
    "disconnect": lambda client: client.disconnect(),
    "heart_beat": lambda client: client.heart_beat(),
}


def in_state(state: str) -> ClientSession:
    client = ClientSession()
    if state == NEW:
        return client
    if state == CONNECTING:
        client.connect("h")
        return client
    client, _ = pair()
    client.subscribe("0", "/queue/a")
    client.begin("t")
    if state in (CLOSING, CLOSED):
        client.disconnect(receipt="bye")
    if state == CLOSED:
        client.receive(b"RECEIPT\nreceipt-id:bye\n\n\0")
    return client


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", [NEW, CONNECTING, OPEN, CLOSING, CLOSED])
def test_call_is_allowed_in_its_states_only(call: str, state: str) -> None:
    client = in_state(state)
    assert client.state == state
    allowed = state == NEW if call == "connect" else state == OPEN
    if allowed:
        assert CALLS[call](client)
    else:
        with pytest.raises(Violation):
            CALLS[call](client)
        assert client.state == state


@pytest.mark.parametrize("version", NAMES)
def test_send_reaches_the_server_as_it_was_said(version: str) -> None:
    client, server = pair(version)
    headers = {"foo": "a\\b", "bar": "x:y", "": ""} if version == "1.0" else {"foo": "a\\b\nc", "x:y": "\u00e4"}
    if version == "1.0":
        del headers[""]
    wire = client.send("a", b"\0\n\0", content_type="text/plain", receipt="r", headers=headers)
    (word,) = server.receive(wire)
    assert isinstance(word, Send)
    assert (word.destination, word.body, word.receipt) == ("/queue/a", b"\0\n\0", b"r")
    stored = StoredMessage(word.destination, word.headers, word.escaping, word.body, 1)
    (message,) = client.receive(server.encode(Deliver(7, b"0", b"m", stored, True)))
    assert isinstance(message, Message)
    assert {name: message.headers[name] for name in headers} == headers
    assert message.headers["content-type"] == "text/plain"
    assert (message.body, message.destination, message.subscription) == (b"\0\n\0", "/queue/a", "0")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("odd", ["", ":"])
def test_what_is_no_utf_8_is_not_sent(version: str, odd: str) -> None:
    session, _ = pair(version)
    with pytest.raises(Violation, match=r"SEND cannot be sent: a header has '\\udcff', which is not valid UTF-8"):
        session.send(f"/queue/{odd}\udcff", b"")
    assert session.state == OPEN and session.send("/queue/q", b"")


def test_ack_and_nack_name_the_message_as_each_version_does() -> None:
    for version, message_id, subscription in (("1.0", b"m", None), ("1.1", b"m", b"0"), ("1.2", b"a", None)):
        client, server = pair(version)
        client.begin("t")
        assert server.receive(client.ack(A_MESSAGE, receipt="r", transaction="t")) == [
            Ack(7, message_id, subscription, b"t", b"r")
        ]
        if version == "1.0":
            with pytest.raises(Violation, match=r"STOMP 1\.0 does not have it"):
                client.nack(A_MESSAGE)
        else:
            assert server.receive(client.nack(A_MESSAGE, requeue=False)) == [
                Nack(7, message_id, subscription, requeue=False)
            ]


def test_headers_of_ours_are_said_as_the_protocol_has_them() -> None:
    client, _ = pair()
    assert b"\ndelay:1500\n" in client.nack(A_MESSAGE, delay_ms=1500)
    assert b"delay" not in client.nack(A_MESSAGE)
    assert b"\ndedup-id:d\\c1\n" in client.send("/queue/a", dedup_id="d:1")
    client.subscribe("s", "/topic/a")
    forgotten = client.unsubscribe("s", forget="/topic/a")
    assert b"\nid:s\n" in forgotten and b"\ndestination:/topic/a\ndurable:true\n" in forgotten
    assert client.unsubscribe("of another connection", forget="/topic/a")
    with pytest.raises(Violation, match="no subscription"):
        client.unsubscribe("s")


def test_message_without_ack_cannot_be_acked_in_1_2() -> None:
    client, _ = pair()
    with pytest.raises(Violation, match="has no `ack`"):
        client.ack(Message({"message-id": "m", "subscription": "0", "destination": "/queue/a"}, b""))


def test_receipt_and_error_become_events() -> None:
    client, server = pair()
    assert client.receive(server.encode(ReceiptReply(7, b"a:b"))) == [Receipt("a:b")]
    (error,) = client.receive(server.encode(Refuse(7, "queue-full", "Full: it is.", b"r")) + b"RECEIPT\n")
    assert isinstance(error, Error)
    assert (error.message, error.receipt, error.headers["code"]) == ("Full: it is.", "r", "queue-full")
    assert client.state == CLOSED
    assert client.receive(b"RECEIPT\nreceipt-id:1\n\n\0") == []


def test_error_before_connected_is_an_event() -> None:
    client, server = ClientSession(), StompSession(7, "s", Limits())
    client.connect("h")
    server.receive(b"NOISE")
    (error,) = client.receive(server.take_outgoing())
    assert isinstance(error, Error) and "must be CONNECT" in error.message
    assert client.state == CLOSED


def test_messages_before_the_receipt_of_disconnect_are_still_events() -> None:
    client, server = pair()
    client.disconnect(receipt="bye")
    message = StoredMessage("/queue/a", b"", 2, b"x", 1)
    events = client.receive(server.encode(Deliver(7, b"0", b"m", message, False)) + b"RECEIPT\nreceipt-id:1\n\n\0")
    assert [type(event) for event in events] == [Message, Receipt]
    assert client.state == CLOSING
    assert client.receive(b"RECEIPT\nreceipt-id:bye\n\n\0") == [Receipt("bye")]
    assert client.state == CLOSED


def test_heart_beats_are_agreed() -> None:
    client, server = ClientSession(), StompSession(7, "s", Limits(heart_beat_ms=(3000, 4000)))
    server.receive(client.connect("h", heart_beat_ms=(5000, 1000)))
    client.receive(server.take_outgoing())
    assert (client.heart_beat_send_s, client.heart_beat_expect_s) == (5.0, 1.0)
    assert (server.heart_beat_send_s, server.heart_beat_expect_s) == (1.0, 5.0)
    assert server.receive(client.heart_beat()) == [] == client.receive(server.heart_beat())


@pytest.mark.parametrize("bad", [(-1, 0), (0, 10**10), (1,), (1, 2, 3)])
def test_heart_beats_that_cannot_be_said_are_refused(bad: tuple[int, int]) -> None:
    client = ClientSession()
    with pytest.raises(Violation, match="heart_beat_ms"):
        client.connect("h", heart_beat_ms=bad)
    assert client.state == NEW


@pytest.mark.parametrize("versions", [[], ["1.3"], ["1.2", "2.0"]])
def test_unknown_version_cannot_be_offered(versions: list[str]) -> None:
    with pytest.raises(Violation, match="must be some of"):
        ClientSession().connect("h", versions=versions)


def test_header_that_a_call_sets_cannot_be_given_twice() -> None:
    client, _ = pair()
    for name in ("destination", "content-length", "receipt", "transaction"):
        with pytest.raises(Violation, match="is set by its argument"):
            client.send("a", headers={name: "x"})
    with pytest.raises(Violation, match="is set by its argument"):
        client.subscribe("0", "a", headers=[("ack", "client")])
    with pytest.raises(Violation, match="is set by its argument"):
        ClientSession().connect("h", headers={"host": "other"})


@pytest.mark.parametrize("content_type", ["text", "", "text/", "/plain", "text plain"])
def test_content_type_must_be_a_mime_type(content_type: str) -> None:
    client, _ = pair()
    with pytest.raises(Violation, match="is not a MIME type"):
        client.send("a", content_type=content_type)
    with pytest.raises(Violation, match="is not a MIME type"):
        client.send("a", headers={"content-type": content_type})
    assert client.send("a", content_type="text/plain;charset=utf-16")


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"SSH-2.0",
        b"MESSAGE\n",
        b"CONNECTED\nversion:1.3\n\n\0",
        b"CONNECTED\nversion:1.2\n\nbody\0",
        b"CONNECTED\nversion:1.2\nheart-beat:x\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0CONNECTED\nversion:1.2\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0SEND\ndestination:a\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0RECEIPT\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0RECEIPT\nreceipt-id:1\n\nbody\0",
        b"CONNECTED\nversion:1.2\n\n\0MESSAGE\ndestination:a\nmessage-id:m\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0MESSAGE\ndestination:a\nmessage-id:\\t\nsubscription:0\n\n\0",
        b"CONNECTED\nversion:1.2\n\n\0RECEIPT\nreceipt-id:\xff\n\n\0",
    ],
)
def test_server_that_breaks_the_protocol_is_seen_once(wire: bytes) -> None:
    client = ClientSession()
    client.connect("h")
    *before, last = client.receive(wire)
    assert all(isinstance(event, Connected) for event in before)
    assert isinstance(last, Broken)
    assert client.state == CLOSED
    assert client.receive(b"RECEIPT\nreceipt-id:1\n\n\0") == []


def test_connected_without_being_asked_is_broken() -> None:
    assert isinstance(ClientSession().receive(b"CONNECTED\nversion:1.2\n\n\0")[0], Broken)


def test_version_that_was_not_offered_is_broken() -> None:
    client = ClientSession()
    client.connect("h", versions=["1.1", "1.2"])
    (broken,) = client.receive(b"CONNECTED\n\n\0")
    assert isinstance(broken, Broken) and "'1.0', which was not offered" in broken.sentence


def test_frame_past_the_limit_is_broken() -> None:
    client, server = pair(limits=Limits(max_frame_bytes=300))
    events = []
    for size in (100, 400):
        message = StoredMessage("/queue/a", b"", 2, b"x" * size, 1)
        events += client.receive(server.encode(Deliver(7, b"0", b"m", message, False)))
    assert [type(event) for event in events] == [Message, Broken]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=30), max_size=6), st.sampled_from(NAMES))
def test_no_bytes_make_receive_raise(pieces: list[bytes], version: str) -> None:
    client, _ = pair(version)
    for piece in pieces:
        client.receive(piece)
