"""CONNECTED, MESSAGE and what becomes of a sender's headers (contract 3)."""

import time

import pytest

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Frame, Wire
from tests.broker_process import BrokerProcess

VERSIONS = ["1.0", "1.1", "1.2"]


def relayed(sender: Wire, receiver: Wire, queue: str, header_lines: bytes) -> Frame:
    """The MESSAGE that a SEND with these raw header lines becomes."""
    receiver.subscribe(queue, ack="auto")
    sender.send_raw(b"SEND\ndestination:" + queue.encode() + b"\n" + header_lines + b"\nbody\0")
    return receiver.message()


OWN = ("destination", "message-id", "subscription", "content-length", "timestamp", "redelivered")


def passed(message: Frame) -> list[bytes]:
    """The header lines that are not MESSAGE's own."""
    return [line for line in message.lines if line.partition(b":")[0].decode() not in OWN]


@pytest.mark.parametrize("version", VERSIONS)
def test_connected_carries_version_heart_beat_session_and_server(broker: BrokerProcess, version: str) -> None:
    with Wire((broker.host, broker.port), version) as wire:
        connected = wire.connect()
    assert connected["version"] == version
    assert connected["heart-beat"] == "0,0"
    assert connected["session"]
    assert connected["server"].startswith("radiator/")


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [("1.0", "1.0"), ("1.0,1.1", "1.1"), ("1.2,1.1,1.0", "1.2"), ("1.1,1.3,2.0", "1.1"), ("1.2", "1.2")],
)
def test_highest_common_version_is_chosen(broker: BrokerProcess, offered: str, chosen: str) -> None:
    with Wire((broker.host, broker.port), "1.2") as wire:
        assert wire.connect({"accept-version": offered})["version"] == chosen


def test_no_common_version_is_refused(broker: BrokerProcess) -> None:
    with Wire((broker.host, broker.port), "1.2") as wire:
        wire.send_raw(b"CONNECT\naccept-version:0.9,2.0\nhost:x\n\n\0")
        assert b"2.0" in wire.refusal().body


@pytest.mark.parametrize("host", ["/", "example.org", "", "any:thing"])
def test_any_host_and_the_stomp_command_are_accepted(broker: BrokerProcess, host: str) -> None:
    with Wire((broker.host, broker.port), "1.2") as wire:
        wire.send_raw(f"STOMP\naccept-version:1.2\nhost:{host}\nlogin:who\npasscode:ever\n\n\0".encode())
        wire.read("CONNECTED")


@pytest.mark.parametrize("version", VERSIONS)
def test_message_carries_its_own_headers(connect: Connect, queue: str, version: str) -> None:
    wire = connect(version)
    wire.subscribe(queue, id="the one", ack="client")
    before_ms = int(time.time() * 1000)
    wire.send(queue, b"12345")
    message = wire.message()
    after_ms = int(time.time() * 1000)
    assert message["destination"] == queue
    assert message["message-id"]
    assert message["subscription"] == "the one"
    assert message["content-length"] == "5"
    assert before_ms - 5 <= int(message["timestamp"]) <= after_ms + 5
    assert message["redelivered"] == "false"
    assert "redelivery-count" not in message
    if version == "1.2":
        assert message["ack"]
    wire.ack(message)


def test_ack_header_is_there_only_where_one_is_due(wire: Wire, queue: str) -> None:
    wire.subscribe(queue, ack="auto")
    wire.send(queue, "x")
    assert "ack" not in wire.message()


def test_subscription_of_1_0_without_id_is_named_by_its_destination(connect: Connect, queue: str) -> None:
    wire = connect("1.0")
    wire.ask("SUBSCRIBE", {"destination": queue, "ack": "client"})
    wire.send(queue, "one")
    message = wire.message()
    assert "subscription" not in message
    wire.ask("ACK", {"message-id": message["message-id"]})
    wire.ask("UNSUBSCRIBE", {"destination": queue})
    wire.send(queue, "two")
    assert wire.is_silent()
    other = connect()
    other.subscribe(queue, ack="auto")
    assert other.message().body == b"two"


@pytest.mark.parametrize("word", ["persistent:true", "activemq.subscriptionName:n", "x-queue-name:n"])
def test_words_for_durable_subscriptions_say_nothing_on_a_queue_nor_at_its_end(
    wire: Wire, queue: str, word: str
) -> None:
    named = dict([word.split(":")])
    wire.subscribe(queue, headers=named)
    wire.ask("UNSUBSCRIBE", {"id": "0", **named})
    wire.send(queue, "kept")
    assert wire.is_silent()
    wire.subscribe(queue)
    assert wire.message().body == b"kept"


def read_raw(wire: Wire, count: int) -> bytes:
    """So many bytes as they come, what was read before included."""
    data, wire.buffer = wire.buffer, b""
    while len(data) < count:
        data += wire.socket.recv(1 << 20)
    return data


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [5, 3_000_000])
def test_line_feed_stands_behind_each_frame(broker: BrokerProcess, queue: str, version: str, size: int) -> None:
    """Who reads by lines waits for it; who skips the octet behind the NUL loses the next frame's first letter else."""
    with Wire((broker.host, broker.port), version) as wire:
        wire.send_frame("CONNECT", {"accept-version": version, "host": "h"})
        frames = [read_raw(wire, 60)]
        wire.send_frame("SUBSCRIBE", {"destination": queue, "id": "0", "receipt": "r"})
        frames.append(read_raw(wire, 20))
        wire.send_frame("SEND", {"destination": queue}, b"x" * size)
        frames.append(read_raw(wire, size + 100))
        wire.send_frame("JUMP")
        frames.append(read_raw(wire, 100))
    for frame, command in zip(frames, (b"CONNECTED", b"RECEIPT", b"MESSAGE", b"ERROR"), strict=True):
        assert frame.startswith(command + b"\n") and frame.endswith(b"\0\n"), (frame[:100], frame[-9:])


@pytest.mark.parametrize("version", VERSIONS)
def test_sender_s_headers_pass_unchanged_and_in_order(connect: Connect, queue: str, version: str) -> None:
    lines = [
        b"zebra:1",
        b"content-type:text/plain;charset=utf-8",
        b"expiration:60000",
        b"persistent:true",
        b"priority:9",
        b"dedup-id:d",
        b"correlation-id:c",
        b"mandatory:false",
        b"reply-to:/queue/answers",
        b"empty:",
        b"repeated:first",
        b"repeated:second",
        "unicode:grüße €".encode(),
        b"alpha:2",
    ]
    message = relayed(connect(version), connect(version), queue, b"".join(line + b"\n" for line in lines))
    assert passed(message) == lines


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_spaces_and_escapes_pass_unchanged(connect: Connect, queue: str, version: str) -> None:
    lines = [b" name : value ", b"escaped:\\\\ \\c \\n", b"na\\cme:x"]
    message = relayed(connect(version), connect(version), queue, b"".join(line + b"\n" for line in lines))
    assert passed(message) == lines


def test_headers_of_the_hop_and_of_the_broker_are_set_by_the_broker_alone(connect: Connect, queue: str) -> None:
    forged = ["message-id", "subscription", "ack", "timestamp", "redelivered", "redelivery-count"]
    forged += [
        "dead-letter-reason",
        "original-destination",
        "original-message-id",
        "fanout-message-id",
        "x-death",
        "receipt",
    ]
    sender, receiver = connect(), connect()
    message = relayed(sender, receiver, queue, b"".join(b"%b:forged\n" % name.encode() for name in forged))
    assert all(b"forged" not in line for line in message.lines), message
    assert passed(message) == []
    sender.read("RECEIPT")


@pytest.mark.parametrize("sender", VERSIONS)
@pytest.mark.parametrize("receiver", VERSIONS)
def test_headers_pass_between_versions(connect: Connect, queue: str, sender: str, receiver: str) -> None:
    """What the receiver's version cannot express is left out; everything else means the same."""
    source, target = connect(sender), connect(receiver)
    found = [("plain", "value"), ("back\\slash", "a\\b"), ("clock", "12:30:00"), ("end", "last")]
    if sender != "1.0":
        found += [("line", "feed\nfeed"), ("co:lon", "in its name")]
    if sender == "1.2":
        found += [("carriage", "return\rreturn")]
    target.subscribe(queue, ack="auto")
    source.send(queue, "x", found)
    # a carriage return stands as it is in 1.0 and 1.1, where only LF ends a line
    inexpressible = {"line", "co:lon"} if receiver == "1.0" else set()
    got = [pair for pair in target.message().pairs if pair[0] not in OWN]
    assert got == [pair for pair in found if pair[0] not in inexpressible]


@pytest.mark.parametrize("body", [b"", b"\0", b"a\0b\0", b"\n\n", bytes(range(256)), b"x" * 1_000_000])
@pytest.mark.parametrize("version", VERSIONS)
def test_body_passes_unchanged(connect: Connect, queue: str, version: str, body: bytes) -> None:
    wire = connect(version)
    wire.subscribe(queue, ack="auto")
    wire.send(queue, body)
    message = wire.message()
    assert message.body == body
    assert message["content-length"] == str(len(body))


def test_body_without_content_length_ends_at_the_nul(wire: Wire, queue: str) -> None:
    wire.subscribe(queue, ack="auto")
    wire.send_raw(b"SEND\ndestination:" + queue.encode() + b"\n\nno length\0\n\n")
    assert wire.message().body == b"no length"


def test_crlf_ends_lines_in_1_2(wire: Wire, queue: str) -> None:
    wire.subscribe(queue, ack="auto")
    wire.send_raw(b"SEND\r\ndestination:" + queue.encode() + b"\r\nx:y\r\n\r\nbody\0\r\n")
    message = wire.message()
    assert message["x"] == "y"
    assert message.body == b"body"


@pytest.mark.parametrize("piece", [1, 7])
def test_frame_may_come_in_pieces(wire: Wire, queue: str, piece: int) -> None:
    wire.subscribe(queue, ack="auto")
    data = b"\n\n" + wire.frame("SEND", {"destination": queue, "a": "b"}, b"body\0body") + b"\n"
    for start in range(0, len(data), piece):
        wire.send_raw(data[start : start + piece])
    assert wire.message().body == b"body\0body"


def test_selector_is_refused_with_a_clear_sentence(wire: Wire, queue: str) -> None:
    wire.send_frame("SUBSCRIBE", {"id": "1", "destination": queue, "selector": "colour = 'red'"})
    assert b"selector" in wire.refusal().body


def test_expired_and_persistent_headers_do_not_change_the_queue_s_kind(wire: Wire, queue: str) -> None:
    wire.subscribe(queue)
    wire.send(queue, "x", {"persistent": "false"})
    message = wire.message()
    assert message["persistent"] == "false"
    wire.ack(message)
