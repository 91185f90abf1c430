"""Values of a link's words: each kind is read as it was written, at its bounds and not past them."""

import pytest

from radiator.model.amqp_properties import Properties, encode, stored_block
from radiator.model.errors import Violation
from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.limits import LINK_REFUSAL_BYTES, NAME_MAX_BYTES, PATTERN_WILDCARDS_MAX, TOPIC_WORDS_MAX, Limits
from radiator.model.message import Message
from radiator.protocols.peer import fields
from radiator.protocols.peer.fields import NUMBER_MAX, FieldCodec, FieldReader

LIMITS = Limits()


def read(field: FieldCodec, data: bytes, end: int | None = None) -> object:
    reader = FieldReader(data, 0, len(data) if end is None else end, LIMITS)
    value = field.read(reader)
    assert reader.at == reader.end
    return value


@pytest.mark.parametrize("value", [0, 1, NUMBER_MAX])
def test_a_number_at_its_bounds_comes_back(value: int) -> None:
    number = fields._number()
    assert read(number, number.write(value)) == value
    assert len(number.write(value)) == number.most_bytes(LIMITS)


def test_one_past_the_most_is_refused() -> None:
    assert read(fields._number(7), fields._number().write(7)) == 7
    with pytest.raises(Violation, match="The number 8 is too large: at most 7"):
        read(fields._number(7), fields._number().write(8))


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\5abc"])
def test_a_text_that_is_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(Violation, match="A frame ends within a field"):
        FieldReader(data, 0, len(data), LIMITS).short_text()


def test_a_number_that_is_cut_short_is_refused() -> None:
    with pytest.raises(Violation, match="8 bytes should follow, and 7 do"):
        read(fields._number(), bytes(7))


def test_nothing_behind_the_end_of_its_frame_is_read() -> None:
    with pytest.raises(Violation):
        FieldReader(b"\0\3abc", 0, 4, LIMITS).short_text()


def test_a_list_has_its_least_and_its_most() -> None:
    some = fields._list(fields._number(), lambda limits: 2, least=1)
    assert read(some, some.write([1, 2])) == [1, 2]
    for items in ([], [1, 2, 3]):
        with pytest.raises(Violation, match=f"A list has {len(items)} items"):
            read(some, some.write(items))
    assert some.most_bytes(LIMITS) == len(some.write([1, 2]))


@pytest.mark.parametrize("raw", [b"q", "ä€".encode(), b"n" * NAME_MAX_BYTES])
def test_a_name_comes_back(raw: bytes) -> None:
    assert fields._name(raw) == raw.decode()


@pytest.mark.parametrize("raw", [b"", b"\xff", b"a\nb", b"n" * (NAME_MAX_BYTES + 1)])
def test_what_is_no_name_is_refused(raw: bytes) -> None:
    with pytest.raises(Violation):
        fields._name(raw)
    assert fields._name_or_none(b"") == ""


def test_a_pattern_has_so_many_words_and_wildcards_and_a_topic_none() -> None:
    most = ".".join(["*"] * PATTERN_WILDCARDS_MAX + ["a"] * (TOPIC_WORDS_MAX - PATTERN_WILDCARDS_MAX))
    assert fields._pattern(most.encode()) == most
    for wrong in (most + ".a", ".".join("*" * (PATTERN_WILDCARDS_MAX + 1))):
        with pytest.raises(Violation, match="are allowed"):
            fields._pattern(wrong.encode())
    with pytest.raises(Violation, match="is a pattern, where a topic must stand"):
        fields._topic(b"a.*")


@pytest.mark.parametrize("raw", [b"", b"peer://h:1", b"peers://h:1", b"peer://a.b-c_d:65535", b"peers://[::1]:61614"])
def test_an_address_of_a_node_comes_back(raw: bytes) -> None:
    assert fields._address(raw) == raw.decode()


@pytest.mark.parametrize(
    "raw",
    [
        b"h:1",
        b"peerss://h:1",
        b"peer://h",
        b"peer://h:0",
        b"peer://h:65536",
        b"peer://[::g]:1",
        b"peer://a b:1",
        b"peer://h:1/",
    ],
)
def test_what_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(Violation, match="it is peer://HOST:PORT"):
        fields._address(raw)


def test_a_sentence_is_cut_and_cannot_break_a_line() -> None:
    assert fields._sentence(b"a\nb\x1b[0m\xff") == "a b [0m\ufffd"
    assert len(fields._sentence(b"x" * (LINK_REFUSAL_BYTES + 1))) == LINK_REFUSAL_BYTES
    assert len(fields._write_sentence("x" * (LINK_REFUSAL_BYTES + 1))) == 2 + LINK_REFUSAL_BYTES


@pytest.mark.parametrize(
    ("raw", "is_right"), [(b"a=1", True), (b"a", False), (b"a=\n", False), (b"=" + b"x" * 400, False)]
)
def test_a_setting_is_a_name_and_a_value_in_plain_text(raw: bytes, is_right: bool) -> None:
    if is_right:
        assert fields._setting(raw) == raw.decode()
        return
    with pytest.raises(Violation, match="it is NAME=VALUE"):
        fields._setting(raw)


@pytest.mark.parametrize("address", [b"/log/l", b"/exchange/x/k", b"/temp-queue/a", b"/topic/a.*", b"/admin"])
def test_a_message_is_handed_over_to_queues_fanouts_and_topics_alone(address: bytes) -> None:
    assert fields._working_destination(b"/topic/a.b") == "/topic/a.b"
    with pytest.raises(Violation):
        fields._working_destination(address)


def test_a_message_from_amqp_comes_back_and_one_that_only_looks_so_is_refused() -> None:
    block, _ = stored_block(encode(Properties(content_type="a")))
    message = Message("/queue/q", block, ESCAPING_ALL, b"body", 1)
    assert read(fields.MESSAGE, fields.MESSAGE.write(message)) == message
    for broken, escaping in ((block, ESCAPING_NONE), (b"amqp-properties:AAAA\n", ESCAPING_ALL)):
        with pytest.raises(Violation, match="no properties of AMQP"):
            read(fields.MESSAGE, fields.MESSAGE.write(Message("/queue/q", broken, escaping, b"", 1)))
