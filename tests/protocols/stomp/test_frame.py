"""Frames as bytes: what each version can say, for every pair of a sender's and a receiver's version."""

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radiator.model.amqp_properties import Properties, encode, stored_block
from radiator.model.amqp_tables import encode_table
from radiator.model.errors import Violation
from radiator.model.headers import ESCAPING_ALL, escape
from radiator.model.limits import CLIENT_LIMITS, PUBLISHED_BYTES, PUBLISHED_KEPT, Limits
from radiator.model.message import Message
from radiator.model.replies import EndOfLog, RecordPlace
from radiator.protocols.stomp import frame
from radiator.protocols.stomp.frame import (
    BrokenFrame,
    Frame,
    converted,
    encode_error,
    encode_frame,
    encode_message,
    encode_published,
    encode_receipt,
    shown,
    unescape,
)
from radiator.protocols.stomp.parser import Parser
from radiator.protocols.stomp.spec import ANSWER_COMMANDS, SERVER_COMMANDS, V1_0, V1_1, V1_2

VERSIONS = (V1_0, V1_1, V1_2)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TRICKY = st.text(st.sampled_from("ab\\:\n\rcnr \u00e4"), max_size=12)


def read(wire: bytes, version: int) -> Frame:
    parser = Parser(CLIENT_LIMITS, ANSWER_COMMANDS)
    parser.speak(version, SERVER_COMMANDS[version])
    (frame,) = parser.frames(wire)
    return frame


def block_of(headers: list[tuple[bytes, bytes]], version: int) -> bytes:
    return b"".join(escape(name, version) + b":" + escape(value, version) + b"\n" for name, value in headers)


def expressible(name: bytes, value: bytes, version: int) -> bool:
    return version != V1_0 or not (b"\n" in name or b":" in name or b"\n" in value)


@pytest.mark.parametrize("sender", VERSIONS)
@pytest.mark.parametrize("receiver", VERSIONS)
@settings(max_examples=150, deadline=None)
@given(pairs=st.lists(st.tuples(st.one_of(TEXT, TRICKY), st.one_of(TEXT, TRICKY)), max_size=5))
def test_header_travels_unchanged_between_every_pair_of_versions(
    sender: int, receiver: int, pairs: list[tuple[str, str]]
) -> None:
    found = [(b"x" + name.encode(), value.encode()) for name, value in pairs]
    found = [(name, value) for name, value in found if expressible(name, value, sender)]
    message = Message("/queue/a", block_of(found, sender), sender, b"a\0b", 1)
    wire = encode_message(message, b"s-1-2", b"0", True, False, 0, receiver)
    frame = read(wire, receiver)
    wanted: dict[bytes, bytes] = {}
    for name, value in found:
        if expressible(name, value, receiver):
            wanted.setdefault(name, value.strip(b" ") if receiver == V1_0 else value)
    assert {name: value for name, value in frame.headers.items() if name.startswith(b"x")} == wanted
    assert frame.body == b"a\0b"


@pytest.mark.parametrize("version", VERSIONS)
def test_block_of_the_same_version_is_not_touched(version: int) -> None:
    block = b"foo:a\\cb\nfoo:again\nbar: padded \n"
    assert converted(block, version, version) is block


def test_block_that_reads_the_same_in_both_versions_is_not_touched() -> None:
    for sender, receiver, block in (
        (V1_0, V1_2, b"foo:bar\n"),
        (V1_1, V1_0, b"foo:bar\n"),
        (V1_1, V1_2, b"foo:a\\cb\\n\\\\\n"),
        (V1_2, V1_1, b"foo:a\\cb\\n\\\\\n"),
    ):
        assert converted(block, sender, receiver) is block


@pytest.mark.parametrize(
    ("sender", "receiver", "block", "wanted"),
    [
        (V1_0, V1_1, b"foo:a:b\n", b"foo:a\\cb\n"),
        (V1_0, V1_1, b"foo:a:b\\n\r\n", b"foo:a\\cb\\\\n\r\n"),
        (V1_0, V1_2, b"foo:a:b\\n\r\n", b"foo:a\\cb\\\\n\\r\n"),
        (V1_1, V1_0, b"foo:a\\cb\\\\\nx\\cy:1\nz:1\\n2\n", b"foo:a:b\\\n"),
        (V1_1, V1_2, b"foo:a\rb\\n\n", b"foo:a\\rb\\n\n"),
        (V1_2, V1_0, b"foo:a\\rb\n", b"foo:a\rb\n"),
        (V1_2, V1_1, b"foo:a\\rb\\n\n", b"foo:a\rb\\n\n"),
        (V1_2, V1_1, b"foo:a\\\\rb\n", b"foo:a\\\\rb\n"),
    ],
)
def test_block_is_written_anew_where_the_versions_differ(
    sender: int, receiver: int, block: bytes, wanted: bytes
) -> None:
    assert converted(block, sender, receiver) == wanted


def test_a_frame_full_of_escapes_takes_no_longer_than_others() -> None:
    began_s = time.process_time()
    for _ in range(10):
        assert unescape(b"\\c" * 30_000, V1_2) == b":" * 30_000
    assert time.process_time() - began_s < 0.025


@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_undefined_escape_is_refused(version: int) -> None:
    for value in (b"\\t", b"a\\", b"\\x", b"\\\\\\", b"\\C", b"\\\n", *([b"\\r"] if version == V1_1 else [])):
        with pytest.raises(BrokenFrame, match="does not define"):
            unescape(value, version)
    with pytest.raises(BrokenFrame, match="has the escape '\\\\\\\\t', which"):
        unescape(b"\\n\\\\\\t\\c\\x", version)
    assert unescape(b"\\\\n", version) == b"\\n"
    assert unescape(b"\\\\", V1_0) == b"\\\\"


def test_message_carries_what_the_broker_sets_before_what_the_sender_said() -> None:
    message = Message("/queue/a:b", b"foo:bar\n", V1_2, b"body", 1234)
    assert encode_message(message, b"s-1-2", b"a:b", True, True, 3, V1_2) == (
        b"MESSAGE\ndestination:/queue/a\\cb\nmessage-id:s-1-2\nsubscription:a\\cb\nack:s-1-2\ncontent-length:4\n"
        b"timestamp:1234\nredelivered:true\nredelivery-count:3\nfoo:bar\n\nbody\0\n"
    )
    assert encode_message(message, b"s-1-2", None, False, False, 0, V1_0) == (
        b"MESSAGE\ndestination:/queue/a:b\nmessage-id:s-1-2\ncontent-length:4\n"
        b"timestamp:1234\nredelivered:false\nfoo:bar\n\nbody\0\n"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_message_from_amqp_has_its_properties_as_headers(version: int) -> None:
    block, _ = stored_block(encode(Properties(content_type="a", delivery_mode=2, table=encode_table({"n": 5}))))
    message = Message("/queue/a", block, ESCAPING_ALL, b"body", 1234)
    wanted = b"MESSAGE\ndestination:/queue/a\nmessage-id:m\nsubscription:s\ncontent-length:4\ntimestamp:1234\n"
    wanted += b"redelivered:false\npersistent:true\nn:5\ncontent-type:a\n\nbody\0\n"
    encoded = encode_message(message, b"m", b"s", False, False, 0, version)
    assert sorted(encoded.split(b"\n")) == sorted(wanted.split(b"\n"))
    assert encode_published(message, b"m", b"s", False, version) == encoded


@pytest.mark.parametrize("version", VERSIONS)
def test_message_of_a_log_carries_its_place_right_before_what_the_sender_said(version: int) -> None:
    message = Message("/log/l", b"offset:mine\n", V1_2, b"", 1)
    head = (
        b"MESSAGE\ndestination:/log/l\nmessage-id:m\ncontent-length:0\n"
        b"timestamp:1\nredelivered:true\nredelivery-count:1\n"
    )
    for log, lines in (
        (RecordPlace(2, 7), b"partition:2\noffset:7\n"),
        (RecordPlace(2, 7, skipped=3), b"skipped:3\npartition:2\noffset:7\n"),
        (EndOfLog(), b"end:true\n"),
    ):
        encoded = encode_message(message, b"m", None, False, True, 1, version, log=log)
        assert encoded == head + lines + b"offset:mine\n\n\0\n"


def test_receipt_is_escaped_by_version() -> None:
    assert encode_receipt(b"a:b\\\n", V1_1) == b"RECEIPT\nreceipt-id:a\\cb\\\\\\n\n\n\0\n"
    assert encode_receipt(b"a:b\\", V1_0) == b"RECEIPT\nreceipt-id:a:b\\\n\n\0\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_error_has_the_whole_sentence_in_its_body(version: int) -> None:
    sentence = "The queue: \u00e4 is\nfull\0. " * 50
    frame = read(encode_error("queue-full", sentence, b"r:1", version), version)
    assert frame.body.decode() == sentence
    assert frame.headers[b"code"] == b"queue-full"
    assert frame.headers[b"version"] == b"1.0,1.1,1.2"
    assert frame.headers[b"receipt-id"] == b"r:1"
    assert frame.headers[b"content-type"] == b"text/plain"
    assert 150 < len(frame.headers[b"message"].decode()) <= 200
    assert b"\n" not in frame.headers[b"message"]


def test_error_before_the_version_is_known_reads_the_same_in_every_version() -> None:
    wire = encode_error("protocol", "No: '\\x16'\r\n here", None, None)
    read_as = [read(wire, version).headers for version in VERSIONS]
    assert read_as[0] == read_as[1] == read_as[2]
    parser = Parser(Limits(), ANSWER_COMMANDS)
    assert [frame.headers for frame in parser.frames(wire)] == read_as[:1]


@pytest.mark.parametrize("version", [None, *VERSIONS])
def test_header_that_cannot_be_said_is_refused(version: int | None) -> None:
    for name, value in (("", "x"), ("a\0", "x"), ("a", "\0")):
        with pytest.raises(Violation, match="cannot be sent"):
            encode_frame(b"SEND", [(name, value)], b"", version)
    for name, value in (("a:b", "x"), ("a\nb", "x"), ("a", "x\ny")):
        if version in (None, V1_0):
            with pytest.raises(Violation, match="has no escape"):
                encode_frame(b"SEND", [(name, value)], b"", version)
        else:
            assert encode_frame(b"SEND", [(name, value)], b"", version).count(b":") == 1


def test_connect_cannot_say_a_carriage_return() -> None:
    with pytest.raises(Violation, match="carriage return"):
        encode_frame(b"CONNECT", [("login", "a\r")], b"", None)


def test_shown_value_is_printable_and_short() -> None:
    assert shown(b"a\x1b[31m") == "'a\\x1b[31m'"
    assert shown(b"\xff\xfe") == "'\\xff\\xfe'"
    assert len(shown(b"\x00" * 100_000)) < 300


def test_body_of_a_message_is_copied_once() -> None:
    """And no room is made for more than that: it doubled what a message of 8 MiB costs the broker."""
    message = Message("/queue/a", b"", ESCAPING_ALL, b"x" * 4_000_000, 1)
    tracemalloc.start()
    try:
        encode_message(message, b"s-1-1", b"0", True, False, 0, V1_2)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.1 * len(message.body)


def published(message: Message, subscription: bytes = b"0") -> bytes:
    return encode_published(message, b"s-1-7t", subscription, False, V1_2)


def topic_message(body: bytes = b"x") -> Message:
    return Message("/topic/t", b"", ESCAPING_ALL, body, 1)


def test_published_message_is_what_encode_message_makes_for_each_message_and_subscription() -> None:
    for message in [topic_message(b"body %d" % number) for number in range(3)]:
        for subscription in [b"%d" % n for n in range(PUBLISHED_KEPT + 1)] * 2:
            made = encode_message(message, b"s-1-7t", subscription, False, False, 0, V1_2)
            assert published(message, subscription) == made


def test_subscribers_of_a_topic_share_the_bytes_of_a_message() -> None:
    for body in (b"x", b"x" * (PUBLISHED_BYTES + 1)):
        message = topic_message(body)
        assert published(message, b"a") is published(message, b"a")
        assert published(topic_message(body), b"a") is not published(message, b"a")


def test_frames_kept_of_a_published_message_are_few_or_one_large_one() -> None:
    message = topic_message()
    for subscription in range(3 * PUBLISHED_KEPT):
        published(message, b"%d" % subscription)
        assert len(frame._published) <= PUBLISHED_KEPT
    message = topic_message(b"x" * (PUBLISHED_BYTES + 1))
    for subscription in range(3):
        published(message, b"%d" % subscription)
        assert len(frame._published) == 1
