"""Each MUST of STOMP 1.0, 1.1 and 1.2 that binds a client, its sentence above its test: the session of a client.

What it sends is read by the driver's own strict reader; where only a broker can judge, a whole broker does. Sentences
that are the same in 1.1 and 1.2 stand once.
"""

import pytest

from radiator.model.errors import Violation
from radiator.protocols.stomp.client import CLOSED, OPEN, Broken, ClientSession, Error, Message, Receipt, ServerEvent
from tests.conformance.driver import House, Peer, ReadFrame, read_frames

ALL = ["1.0", "1.1", "1.2"]
FROM_1_1 = ["1.1", "1.2"]


def connected(version: str) -> ClientSession:
    client = ClientSession()
    client.connect("h", versions=[version])
    client.receive(f"CONNECTED\nversion:{version}\n\n\0".encode())
    assert client.state == OPEN
    return client


def sent(wire: bytes, version: str) -> ReadFrame:
    (frame,) = read_frames(wire, version)
    return frame


class Pair:
    """A client that speaks with a whole broker."""

    def __init__(self, version: str) -> None:
        self.house = House()
        self.client = ClientSession()
        self.peer: Peer = self.house.peer(version)
        self.say(self.client.connect("h", versions=[version]))

    def say(self, wire: bytes) -> list[ServerEvent]:
        self.peer.send_wire(wire)
        answer = bytes(self.peer.wire)
        self.peer.wire.clear()
        return self.client.receive(answer)


# ---- Value Encoding -----------------------------------------------------------------------------------------------


# 1.1, 1.2: "When decoding frame headers, the following transformations MUST be applied"
@pytest.mark.parametrize(
    ("version", "escape", "plain"), [("1.1", "\\n\\c\\\\", "\n:\\"), ("1.2", "\\r\\n\\c\\\\", "\r\n:\\")]
)
def test_escapes_are_decoded(version: str, escape: str, plain: str) -> None:
    assert connected(version).receive(f"RECEIPT\nreceipt-id:{escape}\n\n\0".encode()) == [Receipt(plain)]


# 1.2: "Undefined escape sequences such as \t (octet 92 and 116) MUST be treated as a fatal protocol error."
# 1.1: "Undefined escape sequences such as \r (octet 92 and 114) MUST be treated as a fatal protocol error."
@pytest.mark.parametrize(("version", "escape"), [("1.1", "\\r"), ("1.1", "\\t"), ("1.2", "\\t"), ("1.2", "\\")])
def test_undefined_escape_is_fatal(version: str, escape: str) -> None:
    client = connected(version)
    (event,) = client.receive(f"RECEIPT\nreceipt-id:1{escape}\n\n\0".encode())
    assert isinstance(event, Broken) and client.state == CLOSED


# 1.1, 1.2: "Conversely when encoding frame headers, the reverse transformation MUST be applied."
@pytest.mark.parametrize("version", FROM_1_1)
def test_headers_are_encoded(version: str) -> None:
    value = "a:b\\c\nd" + ("\r" if version == "1.2" else "")
    frame = sent(connected(version).send("/queue/a", receipt=value, headers={"x:y": value}), version)
    assert (frame["receipt"], frame["x:y"]) == (value, value)


# 1.1, 1.2: CONNECT and CONNECTED are not escaped: what would need it cannot be sent.
def test_connect_is_not_escaped() -> None:
    assert b"\npasscode:a\\b:c\n" in ClientSession().connect("h", passcode="a\\b:c")
    with pytest.raises(Violation):
        ClientSession().connect("h", passcode="a\nb")


# 1.1, 1.2: "clients and servers MUST never trim or pad headers with spaces."
@pytest.mark.parametrize("version", FROM_1_1)
def test_headers_are_not_trimmed_nor_padded(version: str) -> None:
    client = connected(version)
    assert b"\nfoo: bar \n" in client.send("/queue/a", headers={"foo": " bar "})
    assert client.receive(b"RECEIPT\nreceipt-id: 1 \n\n\0") == [Receipt(" 1 ")]


# 1.1, 1.2: "All STOMP clients and servers MUST support UTF-8 encoding and decoding."
@pytest.mark.parametrize("version", FROM_1_1)
def test_utf8_is_read_and_written(version: str) -> None:
    client = connected(version)
    assert sent(client.send("/queue/\u4e2d"), version)["destination"] == "/queue/\u4e2d"
    assert client.receive("RECEIPT\nreceipt-id:\U0001f600\n\n\0".encode()) == [Receipt("\U0001f600")]


# ---- Body ---------------------------------------------------------------------------------------------------------


# 1.1, 1.2: "Only the SEND, MESSAGE, and ERROR frames MAY have a body. All other frames MUST NOT have a body."
@pytest.mark.parametrize("version", FROM_1_1)
def test_only_send_has_a_body_and_others_are_refused(version: str) -> None:
    client = connected(version)
    for wire in (client.begin("t"), client.subscribe("0", "/queue/a"), client.abort("t"), client.disconnect()):
        assert sent(wire, version).body == b""
    (event,) = connected(version).receive(b"RECEIPT\nreceipt-id:1\n\nbody\0")
    assert isinstance(event, Broken)


# 1.1, 1.2: "If the frame body contains NULL octets, the frame MUST include a content-length header."
@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("body", [b"", b"plain", b"\0", b"a\0\n\0"])
def test_send_says_its_content_length(version: str, body: bytes) -> None:
    frame = sent(connected(version).send("/queue/a", body), version)
    assert (frame["content-length"], frame.body) == (str(len(body)), body)


# 1.2: "If a content-length header is included, this number of octets MUST be read, regardless of whether or not there
# are NULL octets in the body. The frame still needs to be terminated with a NULL octet."
@pytest.mark.parametrize("version", ALL)
def test_content_length_octets_are_read(version: str) -> None:
    client = connected(version)
    wire = b"MESSAGE\ndestination:a\nmessage-id:1\nsubscription:0\ncontent-length:3\n\n"
    (message,) = client.receive(wire + b"\0a\0\0")
    assert isinstance(message, Message) and message.body == b"\0a\0"
    (event,) = client.receive(wire + b"abcd\0")
    assert isinstance(event, Broken)


# 1.2: "If the content-type header is set, its value MUST be a MIME type which describes the format of the body."
def test_content_type_is_a_mime_type() -> None:
    client = connected("1.2")
    assert sent(client.send("/queue/a", content_type="text/html;charset=utf-16"), "1.2")["content-type"]
    with pytest.raises(Violation):
        client.send("/queue/a", content_type="json")


# ---- Connecting, Heart-beating ------------------------------------------------------------------------------------


# 1.1, 1.2: "STOMP 1.2 clients MUST set the following headers: accept-version [..] host"
# 1.1, 1.2: "From STOMP 1.1 and onwards, the CONNECT frame MUST include the accept-version header."
@pytest.mark.parametrize("versions", [["1.0"], ["1.1"], ["1.2"], ["1.2", "1.0", "1.1"]])
def test_connect_says_versions_and_host(versions: list[str]) -> None:
    frame = sent(ClientSession().connect("broker.example", versions=versions), "1.0")
    assert frame.command == "CONNECT"
    assert (frame["accept-version"], frame["host"]) == (",".join(sorted(versions)), "broker.example")


# 1.1, 1.2: "When used, the heart-beat header MUST contain two positive integers separated by a comma."
def test_heart_beat_header_is_two_numbers() -> None:
    assert sent(ClientSession().connect("h", heart_beat_ms=(5000, 0)), "1.0")["heart-beat"] == "5000,0"
    client = ClientSession()
    client.connect("h")
    (event,) = client.receive(b"CONNECTED\nversion:1.2\nheart-beat:5000\n\n\0")
    assert isinstance(event, Broken)


# 1.1, 1.2: "A missing heart-beat header MUST be treated the same way as a "heart-beat:0,0" header"
@pytest.mark.parametrize("line", ["", "heart-beat:0,0\n"])
def test_missing_heart_beat_is_none_at_all(line: str) -> None:
    client = ClientSession()
    client.connect("h", heart_beat_ms=(1000, 1000))
    client.receive(f"CONNECTED\nversion:1.2\n{line}\n\0".encode())
    assert (client.heart_beat_send_s, client.heart_beat_expect_s) == (0, 0)


# 1.1, 1.2: "the sender MUST send new data over the network connection at least every <n> milliseconds", n being
# MAX(<cx>,<sy>)
# 1.2: "if the sender has no real STOMP frame to send, it MUST send an end-of-line (EOL)"
# 1.1: "if the sender has no real STOMP frame to send, it MUST send a single newline byte (0x0A)"
@pytest.mark.parametrize("version", FROM_1_1)
def test_heart_beat_is_one_newline_every_agreed_interval(version: str) -> None:
    client = ClientSession()
    client.connect("h", versions=[version], heart_beat_ms=(1000, 9000))
    client.receive(f"CONNECTED\nversion:{version}\nheart-beat:4000,3000\n\n\0".encode())
    assert (client.heart_beat_send_s, client.heart_beat_expect_s) == (3.0, 9.0)
    assert client.heart_beat() == b"\n"
    assert client.receive(b"\n\n") == []


# ---- frames of a client -------------------------------------------------------------------------------------------


# 1.1, 1.2: "[SEND] has one REQUIRED header, destination"
# 1.1, 1.2: "an id header MUST be included in the [SUBSCRIBE] frame to uniquely identify the subscription."
# 1.2: "an id header MUST be included in the [UNSUBSCRIBE] frame to uniquely identify the subscription to remove."
# all, BEGIN, COMMIT, ABORT: "The transaction header is REQUIRED"
@pytest.mark.parametrize("version", ALL)
def test_required_headers_are_always_sent(version: str) -> None:
    client = connected(version)
    assert sent(client.send("/queue/a"), version)["destination"] == "/queue/a"
    subscribe = sent(client.subscribe("0", "/queue/a"), version)
    assert (subscribe["id"], subscribe["destination"]) == ("0", "/queue/a")
    assert sent(client.unsubscribe("0"), version)["id"] == "0"
    for call in (client.begin, client.commit, client.begin, client.abort):
        assert sent(call("t"), version)["transaction"] == "t"


# 1.2: "Within the same connection, different subscriptions MUST use different subscription identifiers."
# 1.2: "This header MUST match the subscription identifier of an existing subscription." (UNSUBSCRIBE)
@pytest.mark.parametrize("version", ALL)
def test_subscription_ids_are_unique_and_known(version: str) -> None:
    client = connected(version)
    client.subscribe("0", "/queue/a")
    with pytest.raises(Violation):
        client.subscribe("0", "/queue/b")
    with pytest.raises(Violation):
        client.unsubscribe("1")
    client.unsubscribe("0")
    with pytest.raises(Violation):
        client.unsubscribe("0")
    assert client.subscribe("0", "/queue/b")


# 1.1, 1.2: "When the ack mode is client, then the client MUST send the server ACK frames for the messages it
# processes."
# 1.2: "The ACK frame MUST include an id header matching the ack header of the MESSAGE being acknowledged."
# 1.1: "message-id, which MUST contain a value matching the message-id for the MESSAGE being acknowledged and
# subscription, which MUST be set to match the value of the subscription's id header."
# 1.0: "ACK has one required header, message-id, which must contain a value matching the message-id"
@pytest.mark.parametrize("version", ALL)
def test_message_that_was_processed_can_be_acked_and_is_gone(version: str) -> None:
    pair = Pair(version)
    pair.say(pair.client.subscribe("s:1", "/queue/a", ack="client"))
    (message,) = pair.say(pair.client.send("/queue/a", b"body"))
    assert isinstance(message, Message)
    assert pair.say(pair.client.ack(message, receipt="1")) == [Receipt("1")]
    pair.peer.vanish()
    other = pair.house.connect(version)
    assert other.say("SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0") == []


# 1.2: "Within the same connection, different transactions MUST use different transaction identifiers."
# 1.1, 1.2: "The transaction header is REQUIRED and MUST specify the identifier of the transaction to commit."
@pytest.mark.parametrize("version", ALL)
def test_transaction_ids_are_unique_and_known(version: str) -> None:
    client = connected(version)
    client.begin("t")
    with pytest.raises(Violation):
        client.begin("t")
    for call in (client.commit, client.abort):
        with pytest.raises(Violation):
            call("u")
    with pytest.raises(Violation):
        client.send("/queue/a", transaction="u")
    client.commit("t")
    with pytest.raises(Violation):
        client.commit("t")
    assert client.begin("t")


# 1.1, 1.2: "Clients MUST NOT send any more frames after the DISCONNECT frame is sent."
@pytest.mark.parametrize("version", ALL)
def test_nothing_can_be_sent_after_disconnect(version: str) -> None:
    pair = Pair(version)
    pair.client.begin("t")
    assert pair.say(pair.client.disconnect(receipt="bye")) == [Receipt("bye")]
    for call in (
        lambda: pair.client.send("/queue/a"),
        lambda: pair.client.commit("t"),
        lambda: pair.client.disconnect(),
        lambda: pair.client.connect("h"),
        lambda: pair.client.heart_beat(),
    ):
        with pytest.raises(Violation):
            call()


# 1.1, 1.2: NACK is a frame of these versions; 1.0 has none.
def test_nack_is_not_sent_in_1_0() -> None:
    message = Message({"message-id": "1", "destination": "a", "subscription": "0", "ack": "1"}, b"")
    with pytest.raises(Violation):
        connected("1.0").nack(message)
    assert sent(connected("1.1").nack(message), "1.1")["subscription"] == "0"
    assert sent(connected("1.2").nack(message), "1.2")["id"] == "1"


# 1.2: "If a client or a server receives repeated frame header entries, only the first header entry SHOULD be used"
@pytest.mark.parametrize("version", ALL)
def test_first_of_repeated_headers_counts(version: str) -> None:
    wire = b"MESSAGE\ndestination:a\nmessage-id:1\nsubscription:0\nfoo:World\nfoo:Hello\n\n\0"
    (message,) = connected(version).receive(wire)
    assert isinstance(message, Message) and message.headers["foo"] == "World"


# 1.2: "The MESSAGE frame MUST include a destination header", "MUST also contain a message-id header [..] and a
# subscription header"; "A RECEIPT frame MUST include the header receipt-id": a server that breaks these is left.
@pytest.mark.parametrize("version", FROM_1_1)
@pytest.mark.parametrize("wire", [b"MESSAGE\nmessage-id:1\nsubscription:0\n\n\0", b"RECEIPT\n\n\0"])
def test_frame_without_its_required_headers_is_broken(version: str, wire: bytes) -> None:
    (event,) = connected(version).receive(wire)
    assert isinstance(event, Broken)


# 1.2: "In this case, it MUST then close the connection just after sending the ERROR frame."
@pytest.mark.parametrize("version", ALL)
def test_error_is_the_end(version: str) -> None:
    pair = Pair(version)
    (event,) = pair.say(pair.client.send("/foo/a", receipt="r"))
    assert isinstance(event, Error) and event.receipt == "r"
    assert pair.client.state == CLOSED
