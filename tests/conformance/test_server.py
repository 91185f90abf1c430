"""Each MUST of STOMP 1.0, 1.1 and 1.2 that binds a server, its sentence above its test.

1.0 knows no capital MUST: its sentences that say what a server does stand here too. Sentences that are the same in 1.1
and 1.2 stand once, and the test runs for both.
"""

import pytest

from radiator.model.limits import Limits
from tests.conformance.driver import House, Peer, ReadFrame

ALL = ["1.0", "1.1", "1.2"]
FROM_1_1 = ["1.1", "1.2"]


def is_refused(peer: Peer, wire: bytes | str) -> ReadFrame:
    """The bytes get one ERROR, and the connection is closed behind it."""
    *_, error = peer.say(wire)
    assert error.command == "ERROR"
    assert peer.is_closed
    return error


def subscriber(house: House, version: str, ack: str = "client-individual") -> Peer:
    """A consumer of /queue/a; what was there already is among what it has heard."""
    peer = house.connect(version)
    peer.send_wire(f"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:{ack}\nprefetch-count:10\n\n\0")
    return peer


def acked(version: str, message: ReadFrame, more: str = "") -> str:
    named = f"id:{message['ack']}" if version == "1.2" else f"message-id:{message['message-id']}\nsubscription:0"
    return f"ACK\n{named}\n{more}\n\0"


# ---- STOMP Frames, Value Encoding ---------------------------------------------------------------------------------


# 1.2: "The NULL octet can be optionally followed by multiple EOLs." EOL = [CR] LF
def test_1_2_line_may_end_with_crlf() -> None:
    peer = House().connect()
    (receipt,) = peer.say(b"SEND\r\ndestination:/queue/a\r\nreceipt:1\r\n\r\nbody\0\r\n\n\r\n")
    assert receipt["receipt-id"] == "1"


# 1.1, 1.2: "All commands and header names referenced in this document are case sensitive."
@pytest.mark.parametrize("version", FROM_1_1)
@pytest.mark.parametrize("wire", ["send\ndestination:/queue/a\n\n\0", "SEND\nDestination:/queue/a\n\n\0"])
def test_case_counts(version: str, wire: str) -> None:
    is_refused(House().connect(version), wire)


# 1.1, 1.2: "When decoding frame headers, the following transformations MUST be applied" [1.1: \n \c \\; 1.2: \r too]
@pytest.mark.parametrize(("version", "escape", "plain"), [("1.1", "a\\nb\\cc\\\\d", "a\nb:c\\d")] + [
    ("1.2", "a\\nb\\cc\\\\d\\re", "a\nb:c\\d\re")
])  # fmt: skip
def test_escapes_are_decoded(version: str, escape: str, plain: str) -> None:
    (receipt,) = House().connect(version).say(f"SEND\ndestination:/queue/a\nreceipt:{escape}\n\n\0")
    assert receipt["receipt-id"] == plain


# 1.2: "Undefined escape sequences such as \t (octet 92 and 116) MUST be treated as a fatal protocol error."
# 1.1: "Undefined escape sequences such as \r (octet 92 and 114) MUST be treated as a fatal protocol error."
@pytest.mark.parametrize(
    ("version", "escape"), [("1.1", "\\r"), ("1.1", "\\t"), ("1.2", "\\t"), ("1.2", "\\"), ("1.2", "\\N")]
)
def test_undefined_escape_is_fatal(version: str, escape: str) -> None:
    for line in (f"foo:{escape}", f"fo{escape}o:bar"):
        is_refused(House().connect(version), f"SEND\ndestination:/queue/a\n{line}\n\n\0")


# 1.1, 1.2: "Conversely when encoding frame headers, the reverse transformation MUST be applied."
@pytest.mark.parametrize("version", FROM_1_1)
@pytest.mark.parametrize("sender", ALL)
def test_headers_are_encoded_for_the_receiver(version: str, sender: str) -> None:
    house = House()
    peer = subscriber(house, version)
    value = {"1.0": "a:b\\n", "1.1": "a\\cb\\\\n", "1.2": "a\\cb\\\\n"}[sender]
    house.connect(sender).say(f"SEND\ndestination:/queue/a\nfoo:{value}\nbare:a:b\n\nbody\0")
    (message,) = peer.heard()  # the reader refuses a raw colon
    assert (message["foo"], message["bare"]) == ("a:b\\n", "a:b")


# 1.1, 1.2: "All frames except the CONNECT and CONNECTED frames will also escape any [..] colon [..]": CONNECT has no
# escapes, "in order to remain backward compatible with STOMP 1.0".
def test_connect_has_no_escapes() -> None:
    (connected,) = House().peer().say("CONNECT\naccept-version:1.2\nhost:h\nlogin:a\\tb:c\n\n\0")
    assert connected.command == "CONNECTED"


# 1.1, 1.2: "In STOMP 1.2, clients and servers MUST never trim or pad headers with spaces."
@pytest.mark.parametrize("version", FROM_1_1)
def test_headers_are_not_trimmed_nor_padded(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    (receipt,) = house.connect(version).say("SEND\ndestination:/queue/a\nfoo: bar \nreceipt: 1 \n\n\0")
    assert receipt["receipt-id"] == " 1 "
    (message,) = peer.heard()
    assert message["foo"] == " bar "
    assert all(value == value.strip() for name, value in message.headers if name != "foo")


# 1.1, 1.2: "The commands and headers are encoded in UTF-8."
# 1.1, 1.2: "All STOMP clients and servers MUST support UTF-8 encoding and decoding."
@pytest.mark.parametrize("version", FROM_1_1)
def test_utf8_is_read_and_written(version: str) -> None:
    house = House()
    peer = house.connect(version)
    peer.say("SUBSCRIBE\nid:\u00fc\ndestination:/queue/\u4e2d\n\n\0")
    (message,) = peer.say("SEND\ndestination:/queue/\u4e2d\nh\u00e4:\U0001f600\n\n\u00df\0")
    assert (message["subscription"], message["destination"]) == ("\u00fc", "/queue/\u4e2d")
    assert (message["h\u00e4"], message.body.decode()) == ("\U0001f600", "\u00df")
    is_refused(peer, b"SEND\ndestination:/queue/a\nfoo:\xff\n\n\0")


# ---- Body ---------------------------------------------------------------------------------------------------------


# 1.1, 1.2: "Only the SEND, MESSAGE, and ERROR frames MAY have a body. All other frames MUST NOT have a body."
@pytest.mark.parametrize("version", FROM_1_1)
def test_body_where_none_may_be_is_refused_and_never_sent(version: str) -> None:
    for frame in ("BEGIN\ntransaction:t", "SUBSCRIBE\nid:0\ndestination:/queue/a", "DISCONNECT"):
        is_refused(House().connect(version), f"{frame}\n\nbody\0")
    peer = House().peer(version)
    (connected,) = peer.say(f"CONNECT\naccept-version:{version}\nhost:h\n\n\0")
    (receipt,) = peer.say("BEGIN\ntransaction:t\nreceipt:1\n\n\0")
    assert connected.body == receipt.body == b""
    is_refused(House().peer(version), f"CONNECT\naccept-version:{version}\nhost:h\n\nbody\0")


# 1.2: "If a content-length header is included, this number of octets MUST be read, regardless of whether or not there
# are NULL octets in the body. The frame still needs to be terminated with a NULL octet."
# 1.1: "If a content-length header is included, this number of bytes MUST be read, regardless of whether or not there
# are null characters in the body. The frame still needs to be terminated with a null byte."
# 1.0: the same with "should be read".
# 1.1, 1.2: "If the frame body contains NULL octets, the frame MUST include a content-length header."
@pytest.mark.parametrize("version", ALL)
def test_body_of_content_length_octets_is_read_with_its_nuls_and_sent_with_content_length(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    sender = house.connect(version)
    sender.say("SEND\ndestination:/queue/a\ncontent-length:5\n\n\0a\0b\0\0\nSEND\ndestination:/queue/a\n\nplain\0")
    first, second = peer.heard()
    assert (first.body, first["content-length"]) == (b"\0a\0b\0", "5")
    assert (second.body, second["content-length"]) == (b"plain", "5")
    is_refused(sender, "SEND\ndestination:/queue/a\ncontent-length:4\n\nplain\0")


# 1.2: "If the content-type header is set, its value MUST be a MIME type which describes the format of the body."
@pytest.mark.parametrize("version", ALL)
def test_error_has_a_mime_type(version: str) -> None:
    error = is_refused(House().connect(version), "FOO\n\n\0")
    assert error["content-type"] == "text/plain"
    error.body.decode()


# 1.2: "If a client or a server receives repeated frame header entries, only the first header entry SHOULD be used as
# the value of header entry."
@pytest.mark.parametrize("version", ALL)
def test_first_of_repeated_headers_counts(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    (receipt,) = house.connect(version).say(
        "SEND\ndestination:/queue/a\ndestination:/queue/b\nfoo:World\nfoo:Hello\nreceipt:1\nreceipt:2\n\n\0"
    )
    assert receipt["receipt-id"] == "1"
    (message,) = peer.heard()
    assert [value for name, value in message.headers if name == "foo"] == ["World", "Hello"]


# 1.1, 1.2: "If these limits are exceeded the server SHOULD send the client an ERROR frame and [..] close the
# connection."
@pytest.mark.parametrize("version", ALL)
def test_exceeded_limit_is_an_error_and_the_end(version: str) -> None:
    house = House(limits=Limits(max_frame_bytes=1000, max_headers=10))
    is_refused(house.connect(version), "SEND\ndestination:/queue/a\ncontent-length:1000\n\n")
    is_refused(house.connect(version), "SEND\ndestination:/queue/a\n" + "foo:bar\n" * 10 + "\n\0")


# ---- Connecting ---------------------------------------------------------------------------------------------------


# 1.0: "After the client sends the CONNECT frame, the server will always acknowledge the connection, by sending a frame
# which looks like: CONNECTED session: <session-id>"
def test_1_0_connect_is_acknowledged_with_a_session() -> None:
    house = House()
    (first,), (second,) = (house.peer("1.0").say("CONNECT\nlogin: me\npasscode:x\n\n\0") for _ in range(2))
    assert first.command == second.command == "CONNECTED"
    assert first["session"] != second["session"]


# 1.2: "STOMP servers MUST handle a STOMP frame in the same manner as a CONNECT frame."
@pytest.mark.parametrize("version", FROM_1_1)
def test_stomp_is_handled_as_connect(version: str) -> None:
    answers = []
    for command in ("CONNECT", "STOMP"):
        answers += House().peer(version).say(f"{command}\naccept-version:{version}\nhost:h\n\n\0")
    assert answers[0] == answers[1]


# 1.1, 1.2: "STOMP 1.2 servers MUST set the following headers: version"
# 1.1, 1.2: "The protocol that will be used for the rest of the session will be the highest protocol version that both
# the client and server have in common."
@pytest.mark.parametrize(
    ("accepted", "version"),
    [("1.0", "1.0"), ("1.1", "1.1"), ("1.2", "1.2"), ("1.0,1.1,2.0", "1.1"), ("1.2,1.0,1.1", "1.2")],
)
def test_connected_names_the_highest_common_version(accepted: str, version: str) -> None:
    (connected,) = House().peer(version).say(f"CONNECT\naccept-version:{accepted}\nhost:h\n\n\0")
    assert connected["version"] == version


# 1.1, 1.2: "The field [server] MUST contain a server-name field and MAY be followed by optional comment fields
# delimited by a space octet."
def test_server_header_begins_with_a_name_and_version() -> None:
    (connected,) = House().peer().say("CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    name, _, number = connected["server"].split(" ")[0].partition("/")
    assert name == "radiator" and number


# 1.1, 1.2: "If the accept-version header is missing, it means that the client only supports version 1.0 of the
# protocol."
def test_missing_accept_version_means_1_0() -> None:
    (connected,) = House().peer("1.0").say("CONNECT\nhost:h\n\n\0")
    assert connected["version"] == "1.0"


# 1.2: "If the client and server do not share any common protocol versions, then the server MUST respond with an ERROR
# frame similar to the following and then close the connection: ERROR version:1.2,2.1 content-type:text/plain"
@pytest.mark.parametrize("accepted", ["2.0", "", "1.3,9", "1"])
def test_no_common_version_is_an_error_with_ours(accepted: str) -> None:
    error = is_refused(House().peer(), f"CONNECT\naccept-version:{accepted}\nhost:h\n\n\0")
    assert (error["version"], error["content-type"]) == ("1.0,1.1,1.2", "text/plain")
    assert b"1.0,1.1,1.2" in error.body


# 1.1: "STOMP servers MUST support clients which rapidly connect and disconnect."
# 1.2: "STOMP servers must be able to support clients which rapidly connect and disconnect."
@pytest.mark.parametrize("version", FROM_1_1)
def test_clients_may_connect_and_disconnect_rapidly(version: str) -> None:
    house = House()
    for number in range(300):
        peer = subscriber(house, version)
        if number % 3 == 0:
            peer.vanish()
        else:
            peer.say("DISCONNECT\nreceipt:1\n\n\0")
            assert peer.is_closed
    assert not house.broker.connections
    (receipt,) = house.connect(version).say("SEND\ndestination:/queue/a\nreceipt:1\n\n\0")
    assert receipt["receipt-id"] == "1"


# ---- Heart-beating ------------------------------------------------------------------------------------------------


# 1.1, 1.2: "When used, the heart-beat header MUST contain two positive integers separated by a comma."
@pytest.mark.parametrize("version", FROM_1_1)
def test_heart_beat_header_is_two_numbers(version: str) -> None:
    (connected,) = House().peer(version).say(f"CONNECT\naccept-version:{version}\nhost:h\nheart-beat:0,50\n\n\0")
    ours = connected["heart-beat"].split(",")
    assert len(ours) == 2 and all(number.isdigit() for number in ours)
    for wrong in ("", "1", "1,2,3", "-1,0", "a,b", "1 ,2"):
        is_refused(House().peer(version), f"CONNECT\naccept-version:{version}\nhost:h\nheart-beat:{wrong}\n\n\0")


# 1.1, 1.2: "A missing heart-beat header MUST be treated the same way as a "heart-beat:0,0" header"
@pytest.mark.parametrize("line", ["", "heart-beat:0,0\n"])
def test_missing_heart_beat_is_none_at_all(line: str) -> None:
    peer = House().peer()
    peer.say(f"CONNECT\naccept-version:1.2\nhost:h\n{line}\n\0")
    assert (peer.session.heart_beat_send_s, peer.session.heart_beat_expect_s) == (0, 0)


# 1.1, 1.2: "the sender MUST send new data over the network connection at least every <n> milliseconds", n being
# MAX(<sx>,<cy>); the shell asks the session for n. (That it keeps to it: tests/server.)
# 1.2: "if the sender has no real STOMP frame to send, it MUST send an end-of-line (EOL)"
# 1.1: "if the sender has no real STOMP frame to send, it MUST send a single newline byte (0x0A)"
@pytest.mark.parametrize("version", FROM_1_1)
def test_heart_beat_is_one_newline_every_agreed_interval(version: str) -> None:
    for theirs, send_s, expect_s in (("0,1000", 1.0, 0.0), ("30000,40000", 40.0, 30.0), ("1,0", 0.0, 0.1)):
        peer = House(limits=Limits(heart_beat_ms=(10_000, 10_000))).peer(version)
        peer.say(f"CONNECT\naccept-version:{version}\nhost:h\nheart-beat:{theirs}\n\n\0")
        assert (peer.session.heart_beat_send_s, peer.session.heart_beat_expect_s) == (send_s, expect_s)
        assert peer.session.heart_beat() == b"\n"
        assert peer.say("\n") == []


# ---- SEND ---------------------------------------------------------------------------------------------------------


# 1.1, 1.2: "[SEND] has one REQUIRED header, destination"; 1.0: "It has one required header, destination"
# 1.1, 1.2: "If the server cannot successfully process the SEND frame for any reason, the server MUST send the client an
# ERROR frame and then close the connection."
@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize(
    "lines", ["", "destination:/foo/x\n", "destination:/queue/a.*\n", "destination:/queue/a\ntransaction:none\n"]
)
def test_send_that_cannot_be_processed_is_an_error(version: str, lines: str) -> None:
    error = is_refused(House().connect(version), f"SEND\n{lines}receipt:7\n\nbody\0")
    assert error["receipt-id"] == "7"


# 1.1, 1.2: "The user defined headers MUST be passed through in the MESSAGE frame."
@pytest.mark.parametrize("version", ALL)
def test_user_defined_headers_are_passed_through(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    house.connect(version).say("SEND\ndestination:/queue/a\nfoo:1\nBar:two words\ncontent-type:a/b\nfoo:2\n\n\0")
    (message,) = peer.heard()
    assert message.headers[-4:] == [("foo", "1"), ("Bar", "two words"), ("content-type", "a/b"), ("foo", "2")]


# 1.0: "if a content-length is not specified, the first null byte encountered signals the end of the frame."
def test_first_nul_ends_a_frame_without_content_length() -> None:
    house = House()
    peer = subscriber(house, "1.0")
    house.connect("1.0").say("SEND\ndestination:/queue/a\n\none\0SEND\ndestination:/queue/a\n\ntwo\0")
    assert [message.body for message in peer.heard()] == [b"one", b"two"]


# ---- SUBSCRIBE, UNSUBSCRIBE ---------------------------------------------------------------------------------------


# 1.1, 1.2: "If the server cannot successfully create the subscription, the server MUST send the client an ERROR frame
# and then close the connection."
@pytest.mark.parametrize("version", FROM_1_1)
@pytest.mark.parametrize(
    "lines", ["destination:/queue/a.*\n", "destination:/foo/x\n", "destination:/queue/a\nselector:a = 1\n", ""]
)
def test_subscription_that_cannot_be_made_is_an_error(version: str, lines: str) -> None:
    is_refused(House().connect(version), f"SUBSCRIBE\nid:0\n{lines}\n\0")


# 1.2: "an id header MUST be included in the frame to uniquely identify the subscription."
# 1.1: "An id header MUST be included in the frame to uniquely identify the subscription within the STOMP connection
# session."
# A duty of the client that not all have kept: here, as elsewhere, the destination stands for a missing id.
@pytest.mark.parametrize("version", FROM_1_1)
def test_subscription_without_id_has_its_destination_as_id(version: str) -> None:
    house = House()
    peer = house.connect(version)
    peer.say("SUBSCRIBE\ndestination:/queue/a\nack:client\n\n\0")
    house.connect(version).say("SEND\ndestination:/queue/a\n\n\0")
    (message,) = peer.heard()
    assert message["subscription"] == "/queue/a"
    assert peer.say(acked(version, message, "receipt:1\n"))[0]["receipt-id"] == "1"
    assert peer.say("UNSUBSCRIBE\ndestination:/queue/a\nreceipt:2\n\n\0")[0]["receipt-id"] == "2"
    peer.say("SUBSCRIBE\ndestination:/queue/a\n\n\0")
    is_refused(peer, "SUBSCRIBE\ndestination:/queue/a\n\n\0")


# 1.2: "Within the same connection, different subscriptions MUST use different subscription identifiers."
@pytest.mark.parametrize("version", ALL)
def test_second_subscription_of_one_id_is_refused(version: str) -> None:
    house = House()
    peer, other = subscriber(house, version), subscriber(house, version)
    is_refused(peer, "SUBSCRIBE\nid:0\ndestination:/queue/b\n\n\0")
    assert not other.is_closed


# 1.0: "The ack header is optional, and defaults to auto." 1.1, 1.2: "If the header is not set, it defaults to auto."
@pytest.mark.parametrize("version", ALL)
def test_ack_mode_is_auto_where_none_is_said(version: str) -> None:
    house = House()
    peer = house.connect(version)
    peer.say("SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0")
    for _ in range(3):
        house.connect(version).say("SEND\ndestination:/queue/a\n\n\0")
    messages = peer.heard()
    assert len(messages) == 3
    peer.vanish()
    assert subscriber(house, version).heard() == []


# 1.0: "The body of the SUBSCRIBE command is ignored."
def test_1_0_body_of_subscribe_is_ignored() -> None:
    peer = House().connect("1.0")
    (receipt,) = peer.say("SUBSCRIBE\ndestination: /queue/a\nack: client\nreceipt:1\n\nbody\0")
    assert receipt["receipt-id"] == "1"


# 1.0: "If an id header is supplied then Stomp brokers should append a subscription header to any MESSAGE commands which
# are sent to the client"
def test_1_0_message_names_the_subscription_where_it_has_an_id() -> None:
    house = House()
    peer = house.connect("1.0")
    peer.say("SUBSCRIBE\ndestination:/topic/a\n\n\0SUBSCRIBE\nid:x\ndestination:/topic/a\n\n\0")
    messages = peer.say("SEND\ndestination:/topic/a\n\n\0")
    assert sorted("subscription" in message for message in messages) == [False, True]
    assert [message["subscription"] for message in messages if "subscription" in message] == ["x"]


# 1.0: "[UNSUBSCRIBE] requires either a destination header or an id header (if the previous SUBSCRIBE operation passed
# an id value)."
# 1.2: "an id header MUST be included in the frame to uniquely identify the subscription to remove. This header MUST
# match the subscription identifier of an existing subscription."
# 1.1: "It requires that the id header matches the id value of previous SUBSCRIBE operation."
@pytest.mark.parametrize("version", ALL)
def test_unsubscribe_names_an_existing_subscription(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    (receipt,) = peer.say("UNSUBSCRIBE\nid:0\nreceipt:1\n\n\0")
    assert receipt.command == "RECEIPT"
    house.connect(version).say("SEND\ndestination:/queue/a\n\n\0")
    assert peer.heard() == []
    is_refused(peer, "UNSUBSCRIBE\nid:0\n\n\0")
    is_refused(House().connect(version), "UNSUBSCRIBE\n\n\0")


def test_1_0_unsubscribe_may_name_the_destination() -> None:
    house = House()
    peer = house.connect("1.0")
    peer.say("SUBSCRIBE\ndestination:/topic/a\n\n\0")
    (receipt,) = peer.say("UNSUBSCRIBE\ndestination:/topic/a\nreceipt:1\n\n\0")
    assert receipt.command == "RECEIPT"
    assert peer.say("SEND\ndestination:/topic/a\n\n\0") == []


# ---- ACK, NACK ----------------------------------------------------------------------------------------------------


# 1.1, 1.2: "Any messages received from such a subscription will not be considered to have been consumed until the
# message has been acknowledged via an ACK." (1.0 and 1.1 in their own words)
# 1.1, 1.2: "If the connection fails before a client sends an ACK frame for the message the server will assume the
# message has not been processed and MAY redeliver the message to another client."
@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_unacked_message_comes_back_and_acked_does_not(version: str, ack: str) -> None:
    house = House()
    peer = subscriber(house, version, ack)
    house.connect(version).say("SEND\ndestination:/queue/a\n\n1\0SEND\ndestination:/queue/a\n\n2\0")
    first, _ = peer.heard()
    peer.say(acked(version, first))
    peer.vanish()
    (again,) = subscriber(house, version, ack).heard()
    assert (again.body, again["redelivered"]) == (b"2", "true")


# 1.1, 1.2: "The ACK frames sent by the client will be treated as a cumulative acknowledgment. This means the
# acknowledgment operates on the message specified in the ACK frame and all messages sent to the subscription before
# the ACK'ed message."
# 1.1, 1.2: "[client-individual] This means that an ACK or NACK frame for a subsequent message MUST NOT cause a previous
# message to get acknowledged."
@pytest.mark.parametrize("version", FROM_1_1)
@pytest.mark.parametrize(("ack", "left"), [("client", []), ("client-individual", [b"1", b"2"])])
def test_ack_is_cumulative_in_client_mode_only(version: str, ack: str, left: list[bytes]) -> None:
    for command in ("ACK", "NACK"):
        house = House()
        peer = subscriber(house, version, ack)
        sender = house.connect(version)
        for body in "123":
            sender.say(f"SEND\ndestination:/queue/a\n\n{body}\0")
        *_, last = peer.heard()
        answer = acked(version, last)
        peer.say(answer if command == "ACK" else f"N{answer}".replace("\n\n", "\nrequeue:false\n\n"))
        peer.vanish()
        assert [message.body for message in subscriber(house, version).heard()] == left


# 1.2: "The ACK frame MUST include an id header matching the ack header of the MESSAGE being acknowledged."
# 1.1: "ACK has two REQUIRED headers: message-id, which MUST contain a value matching the message-id for the MESSAGE
# being acknowledged and subscription, which MUST be set to match the value of the subscription's id header."
# 1.0: "ACK has one required header, message-id, which must contain a value matching the message-id for the MESSAGE
# being acknowledged."
@pytest.mark.parametrize("version", ALL)
def test_ack_that_matches_no_message_is_refused(version: str) -> None:
    wrong = {
        "1.0": ["", "message-id:none\n"],
        "1.1": ["", "subscription:0\n", "message-id:none\nsubscription:0\n"],
        "1.2": ["", "message-id:{m}\nsubscription:0\n", "id:none\n"],
    }  # fmt: skip
    for lines in wrong[version]:
        house = House()
        peer = subscriber(house, version)
        house.connect(version).say("SEND\ndestination:/queue/a\n\n\0")
        (message,) = peer.heard()
        is_refused(peer, f"ACK\n{lines.format(m=message['message-id'])}\n\0")


# 1.2: "NACK takes the same headers as ACK: id (REQUIRED) and transaction (OPTIONAL)."
# 1.1: "NACK takes the same headers as ACK: message-id (mandatory), subscription (mandatory) and transaction
# (OPTIONAL)."
# 1.0 has no NACK; clients of it send one all the same.
@pytest.mark.parametrize("version", ALL)
def test_nack_takes_the_headers_of_ack(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    house.connect(version).say("SEND\ndestination:/queue/a\n\n\0")
    (message,) = peer.heard()
    (again,) = peer.say("N" + acked(version, message))
    assert (again["message-id"], again["redelivered"]) == (message["message-id"], "true")
    is_refused(peer, "NACK\n\n\0")


# 1.1: "subscription, which MUST be set to match the value of the subscription's id header": a client that names another
# subscription, or none, means the message all the same, which is unacked once on its connection.
@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize("subscription", ["subscription:other\n", "subscription:none\n", ""])
def test_message_id_alone_says_which_message_is_acked(command: str, subscription: str) -> None:
    house = House()
    peer = subscriber(house, "1.1")
    peer.say("SUBSCRIBE\nid:other\ndestination:/queue/b\nack:client-individual\n\n\0")
    house.connect("1.1").say("SEND\ndestination:/queue/a\n\nbody\0")
    (message,) = peer.heard()
    named = f"message-id:{message['message-id']}\n{subscription}"
    (answer, *_) = peer.say(f"{command}\n{named}receipt:1\nrequeue:false\n\n\0")
    assert answer["receipt-id"] == "1"
    is_refused(peer, f"{command}\n{named}\n\0")


# ---- transactions -------------------------------------------------------------------------------------------------


# all: "Transactions in this case apply to sending and acknowledging - any messages sent or acknowledged during a
# transaction will be processed atomically based on the transaction."
@pytest.mark.parametrize("version", ALL)
def test_transaction_happens_at_commit_and_whole(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    house.connect(version).say("SEND\ndestination:/queue/a\n\nold\0")
    (old,) = peer.heard()
    sender = subscriber(house, version)
    heard = peer.say(
        "BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/b\ntransaction:t\n\nnew\0"
        + acked(version, old, "transaction:t\n")
    )
    assert heard == []
    other = house.connect(version)
    assert other.say("SUBSCRIBE\nid:0\ndestination:/queue/b\n\n\0") == []
    (receipt,) = peer.say("COMMIT\ntransaction:t\nreceipt:1\n\n\0")
    assert receipt["receipt-id"] == "1"
    assert [message.body for message in other.heard()] == [b"new"]
    peer.vanish()
    assert sender.heard() == []


# 1.1, 1.2: "Any started transactions which have not been committed will be implicitly aborted if the client sends a
# DISCONNECT frame or if the TCP connection fails for any reason."
@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("end", ["ABORT\ntransaction:t\n\n\0", "DISCONNECT\n\n\0", None])
def test_transaction_that_is_not_committed_leaves_no_trace(version: str, end: str | None) -> None:
    house = House()
    peer = house.connect(version)
    peer.say("BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/a\ntransaction:t\n\nnew\0")
    if end is None:
        peer.vanish()
    else:
        peer.say(end)
    assert subscriber(house, version).heard() == []


# 1.2: "Within the same connection, different transactions MUST use different transaction identifiers."
@pytest.mark.parametrize("version", ALL)
def test_second_transaction_of_one_id_is_refused(version: str) -> None:
    house = House()
    other = house.connect(version)
    other.say("BEGIN\ntransaction:t\n\n\0")
    peer = house.connect(version)
    peer.say("BEGIN\ntransaction:t\n\n\0")
    is_refused(peer, "BEGIN\ntransaction:t\n\n\0")
    assert not other.is_closed


# 1.1, 1.2: "The transaction header is REQUIRED and MUST specify the identifier of the transaction to commit."
# 1.1, 1.2: "The transaction header is REQUIRED and MUST specify the identifier of the transaction to abort."
# 1.0: "The transaction header is required, you must specify which transaction to commit!" (and to abort)
# all, BEGIN: "The transaction header is REQUIRED"
@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("command", ["COMMIT", "ABORT", "BEGIN"])
def test_transaction_header_is_required_and_names_an_open_one(version: str, command: str) -> None:
    is_refused(House().connect(version), f"{command}\n\n\0")
    if command != "BEGIN":
        is_refused(House().connect(version), f"{command}\ntransaction:none\n\n\0")


# ---- DISCONNECT ---------------------------------------------------------------------------------------------------


# 1.1, 1.2: "Clients MUST NOT send any more frames after the DISCONNECT frame is sent.": what comes is not processed.
# 1.2: "the client is assured that all previous frames have been received by the server"
@pytest.mark.parametrize("version", ALL)
def test_disconnect_is_receipted_last_and_ends_everything(version: str) -> None:
    house = House()
    peer = house.connect(version)
    receipts = peer.say(
        "SEND\ndestination:/queue/a\nreceipt:1\n\nkept\0DISCONNECT\nreceipt:2\n\n\0"
        "SEND\ndestination:/queue/a\nreceipt:3\n\nlate\0"
    )
    assert [receipt["receipt-id"] for receipt in receipts] == ["1", "2"]
    assert peer.is_closed
    assert [message.body for message in subscriber(house, version).heard()] == [b"kept"]


# ---- MESSAGE ------------------------------------------------------------------------------------------------------


# 1.2: "The MESSAGE frame MUST include a destination header indicating the destination the message was sent to. If the
# message has been sent using STOMP, this destination header SHOULD be identical to the one used in the corresponding
# SEND frame."
# 1.2: "The MESSAGE frame MUST also contain a message-id header with a unique identifier for that message and a
# subscription header matching the identifier of the subscription that is receiving the message."
# 1.1, 1.0: "will include", "will also contain"
@pytest.mark.parametrize("version", ALL)
def test_message_says_where_from_and_what_it_is(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    for _ in range(3):
        house.connect(version).say("SEND\ndestination:/queue/a\n\n\0")
    messages = peer.heard()
    assert {(message["destination"], message["subscription"]) for message in messages} == {("/queue/a", "0")}
    assert len({message["message-id"] for message in messages}) == 3


# 1.2: "If the message is received from a subscription that requires explicit acknowledgment (either client or
# client-individual mode) then the MESSAGE frame MUST also contain an ack header with an arbitrary value."
@pytest.mark.parametrize(("ack", "has_ack"), [("auto", False), ("client", True), ("client-individual", True)])
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_message_has_ack_where_one_is_due(ack: str, has_ack: bool, destination: str) -> None:
    peer = House().connect()
    peer.say(f"SUBSCRIBE\nid:0\ndestination:{destination}\nack:{ack}\n\n\0")
    (message,) = peer.say(f"SEND\ndestination:{destination}\n\n\0")
    assert ("ack" in message) == has_ack
    if has_ack:
        (receipt,) = peer.say(acked("1.2", message, "receipt:1\n"))
        assert receipt.command == "RECEIPT"


# ---- RECEIPT, ERROR -----------------------------------------------------------------------------------------------


# all: "Any client frame other than CONNECT MAY specify a receipt header with an arbitrary value. This will cause the
# server to acknowledge the processing of the client frame with a RECEIPT frame"
# 1.2: "A RECEIPT frame MUST include the header receipt-id, where the value is the value of the receipt header in the
# frame which this is a receipt for." 1.0: "The receipt body will be empty."
@pytest.mark.parametrize("version", ALL)
def test_every_frame_is_receipted_with_its_own_receipt_id(version: str) -> None:
    house = House()
    peer = subscriber(house, version)
    house.connect(version).say("SEND\ndestination:/queue/a\n\n\0")
    (message,) = peer.heard()
    frames = [
        "SEND\ndestination:/queue/b\n", "SUBSCRIBE\nid:1\ndestination:/queue/c\n", "UNSUBSCRIBE\nid:1\n",
        "BEGIN\ntransaction:t\n", "COMMIT\ntransaction:t\n", "BEGIN\ntransaction:u\n", "ABORT\ntransaction:u\n",
        acked(version, message).removesuffix("\n\0"), "DISCONNECT\n",
    ]  # fmt: skip
    receipts = peer.say("".join(f"{frame}receipt:r{number}\n\n\0" for number, frame in enumerate(frames)))
    assert [receipt.headers for receipt in receipts] == [[("receipt-id", f"r{n}")] for n in range(len(frames))]
    assert all(receipt.command == "RECEIPT" and receipt.body == b"" for receipt in receipts)


# 1.2: "A RECEIPT frame is sent from the server to the client once a server has successfully processed a client frame
# that requests a receipt." For a persistent queue, processed is: on the disk.
@pytest.mark.parametrize("version", ALL)
def test_receipt_waits_for_the_disk(version: str) -> None:
    house = House()
    house.connect(version).say("SEND\ndestination:/queue/a\n\nthe queue is made\0")
    house.holds_commits = True
    peer = house.connect(version)
    assert peer.say("SEND\ndestination:/queue/a\nreceipt:1\n\n\0") == []
    house.commit()
    (receipt,) = peer.heard()
    assert receipt["receipt-id"] == "1"


# 1.2: "The server MAY send ERROR frames if something goes wrong. In this case, it MUST then close the connection just
# after sending the ERROR frame."
# 1.1, 1.2: "The ERROR frame SHOULD contain a message header with a short description of the error"
# 1.1, 1.2: "if the frame included a receipt header, the ERROR frame SHOULD set the receipt-id header to match"
@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize(
    "wire",
    ["FOO\nreceipt:r\n\n\0", "SEND\nreceipt:r\n\n\0", "ACK\nid:x\nmessage-id:x\nsubscription:x\nreceipt:r\n\n\0",
     "SUBSCRIBE\nid:0\ndestination:/foo/a\nreceipt:r\n\n\0", "COMMIT\ntransaction:x\nreceipt:r\n\n\0",
     "CONNECT\naccept-version:1.2\nreceipt:r\n\n\0"],
)  # fmt: skip
def test_error_closes_the_connection(version: str, wire: str) -> None:
    peer = House().connect(version)
    error = is_refused(peer, wire)
    assert error["message"] and error.body and error["receipt-id"] == "r"
    assert peer.say("SEND\ndestination:/queue/a\nreceipt:2\n\n\0") == []
