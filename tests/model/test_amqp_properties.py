"""The properties of AMQP: on the wire, in the block that is stored, as headers for others, and back for consumers."""

import json
import random
from binascii import b2a_base64
from decimal import Decimal
from typing import Any

import pytest

from radiator.model.amqp_limits import AMQP_PROPERTIES_KEPT_BYTES
from radiator.model.amqp_properties import (
    BEGINNING,
    X_DEATH,
    Properties,
    check_stored,
    encode,
    expanded,
    expanded_pairs,
    parse,
    properties_of,
    stored_block,
)
from radiator.model.amqp_tables import LetteredInt, RawString, encode_table
from radiator.model.errors import Violation
from radiator.model.headers import (
    ADDED,
    CONTENT_TYPE,
    CORRELATION_ID,
    DEAD_LETTER_REASON,
    ESCAPING_ALL,
    ESCAPING_NONE,
    ORIGINAL_DESTINATION,
    PARTITION_KEY,
    REDELIVERY_COUNT,
    REPLY_TO,
    block_of,
    check_block,
    pairs,
)
from radiator.model.limits import ID_MAX_BYTES, Limits
from radiator.model.traces import TRACEPARENT

ALL = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    table=encode_table({"a": 1, "ä": ["x", {"b": None}]}),
    delivery_mode=2,
    priority=255,
    correlation_id="c",
    reply_to="replies",
    expiration="60000",
    message_id="m",
    timestamp=2**64 - 1,
    type="t",
    user_id="guest",
    app_id="app",
    cluster_id="",
)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DEATHS = [
    {
        "queue": "retry",
        "reason": "expired",
        "count": 2,
        "exchange": "",
        "routing-keys": ["retry"],
        "time": 1_700_000_009,
    },
    {
        "queue": "work",
        "reason": "rejected",
        "count": 3,
        "exchange": "e",
        "routing-keys": ["a", "b"],
        "time": 1_700_000_001,
    },
]


def refused(data: bytes) -> str:
    with pytest.raises(Violation) as caught:
        parse(data)
    return str(caught.value)


def with_headers(headers: dict[str, Any], **others: Any) -> bytes:
    return encode(Properties(table=encode_table(headers), **others))


def shown(data: bytes, added: bytes = b"") -> dict[str, str]:
    """What a client of another protocol sees."""
    found = expanded_pairs(stored_block(data)[0] + added, ESCAPING_ALL)
    assert len(dict(found)) == len(found)
    return {name.decode(): value.decode() for name, value in found}


# ---- the wire -------------------------------------------------------------------------------------------------------


def test_all_of_them_are_read_as_they_were_written() -> None:
    data = encode(ALL)
    assert data[:2] == b"\xff\xfc"
    assert parse(data) == ALL
    assert parse(data).headers == {"a": 1, "ä": ["x", {"b": None}]}
    assert encode(parse(data)) == data


def test_any_of_them_are() -> None:
    names = list(vars(ALL))
    chance = random.Random(1)
    for _ in range(500):
        some = Properties(**{name: getattr(ALL, name) for name in chance.sample(names, chance.randrange(14))})
        assert parse(encode(some)) == some


def test_the_bytes_of_some() -> None:
    """By hand, from 4.2.6.1 of the specification."""
    assert encode(Properties()) == b"\0\0"
    assert encode(Properties(content_type="a", delivery_mode=2)) == b"\x90\x00\x01a\x02"
    assert encode(Properties(timestamp=1, cluster_id="c")) == b"\x00\x44\0\0\0\0\0\0\0\x01\x01c"
    assert parse(b"\0\0").headers == {}


def test_whatever_is_cut_off_or_left_over_is_refused() -> None:
    data = encode(ALL)
    for size in range(len(data)):
        refused(data[:size])
    assert "bytes after the last" in refused(data + b"\0")
    assert refused(b"") == "The properties of a message have 0 bytes: their flags alone are two."
    assert refused(b"\x80\0\x05abcd") == "The properties of a message end within content-type."


@pytest.mark.parametrize("flags", [b"\0\1", b"\0\2", b"\x80\x01"])
def test_flags_do_not_go_on(flags: bytes) -> None:
    assert "has" in refused(flags + b"\x01a") or "have a bit" in refused(flags + b"\x01a")


def test_a_text_is_utf_8_of_at_most_255_bytes() -> None:
    assert refused(b"\x80\0\x01\xff") == r"The property content-type is not UTF-8: '\xff'."
    assert parse(encode(Properties(type="t" * 255))).type == "t" * 255
    with pytest.raises(Violation, match="256 bytes"):
        encode(Properties(type="t" * 256))


def test_a_broken_table_is_refused_though_nobody_reads_it() -> None:
    good = with_headers({"AAAA": "b"})
    assert "type '?'" in refused(good.replace(b"AAAAS", b"AAAA?"))
    assert "end within headers" in refused(b"\x20\0\0\0\0\x09\x01aV")


# ---- what is stored -------------------------------------------------------------------------------------------------


def test_a_block_begins_with_the_bytes_that_came_and_they_come_out_again() -> None:
    for data in (b"\0\0", encode(ALL), with_headers({"partition-key": "k", "traceparent": TRACE})):
        block, properties = stored_block(data)
        assert block.startswith(BEGINNING + b2a_base64(data))
        assert properties == parse(data)
        assert properties_of(block, ESCAPING_ALL) == data
        check_block(block, ESCAPING_ALL, Limits())
        check_stored(block, ESCAPING_ALL)


def test_it_has_the_lines_that_the_broker_reads() -> None:
    data = with_headers(
        {"partition-key": "k:1", "traceparent": TRACE, "other": "x"},
        content_type="a/b",
        correlation_id="c\n",
        reply_to="r",
    )
    block, _ = stored_block(data)
    read = [
        field.value(block, ESCAPING_ALL)
        for field in (CONTENT_TYPE, CORRELATION_ID, REPLY_TO, PARTITION_KEY, TRACEPARENT)
    ]
    assert read == [b"a/b", b"c\n", b"/queue/r", b"k:1", TRACE.encode()]
    assert len(pairs(block, ESCAPING_ALL)) == 6


def test_it_has_no_line_of_what_is_no_text() -> None:
    block, _ = stored_block(
        with_headers(
            {"partition-key": 5, "traceparent": b"x", "a": "partition-key"}, content_type="a\0b", expiration="5"
        )
    )
    assert len(pairs(block, ESCAPING_ALL)) == 1


def test_an_address_that_is_none_is_no_line() -> None:
    block, _ = stored_block(encode(Properties(reply_to="amq.rabbitmq.reply-to")))
    assert REPLY_TO.value(block, ESCAPING_ALL) is None


def test_a_partition_key_has_a_bound() -> None:
    stored_block(with_headers({"partition-key": "k" * ID_MAX_BYTES}))
    with pytest.raises(Violation, match="partition-key of a message has 1025 bytes"):
        stored_block(with_headers({"partition-key": "k" * (ID_MAX_BYTES + 1)}))


@pytest.mark.parametrize("text", [b"", b"!", b"AA", b"AAA", b"AAAA", b"AAA=A", b"//8="])
def test_what_no_session_has_written_is_taken_for_a_header(text: bytes) -> None:
    block = BEGINNING + text + b"\na:b\n"
    with pytest.raises(Violation, match="no properties of AMQP"):
        check_stored(block, ESCAPING_ALL)
    assert expanded(block, ESCAPING_ALL) == (block, ESCAPING_ALL)


def test_properties_are_escaped_by_their_own_rules() -> None:
    block, _ = stored_block(b"\0\0")
    with pytest.raises(Violation, match="no properties of AMQP"):
        check_stored(block, ESCAPING_NONE)
    check_stored(b"a:b\n" + block, ESCAPING_NONE)


# ---- what others see ------------------------------------------------------------------------------------------------


def test_a_block_from_elsewhere_is_as_it_is() -> None:
    assert expanded(b"a:b\n", ESCAPING_NONE) == (b"a:b\n", ESCAPING_NONE)
    assert expanded(b"", ESCAPING_NONE) == (b"", ESCAPING_NONE)


def test_each_property_is_a_header() -> None:
    assert shown(encode(ALL)) == {
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "persistent": "true",
        "priority": "255",
        "correlation-id": "c",
        "reply-to": "/queue/replies",
        "expiration": "60000",
        "amqp-message-id": "m",
        "amqp-timestamp": str(2**64 - 1),
        "type": "t",
        "user-id": "guest",
        "app-id": "app",
        "cluster-id": "",
        "a": "1",
        "ä": '["x",{"b":null}]',
    }
    assert shown(encode(Properties(delivery_mode=1))) == {}
    assert shown(b"\0\0") == {}


def test_each_field_is_a_header_in_words() -> None:
    headers = {
        "text": "a:b\nc\r\\",
        "na:me\n": "x",
        "yes": True,
        "no": False,
        "none": None,
        "int": LetteredInt(5, "L"),
        "float": 1.5,
        "decimal": Decimal("3.14"),
        "bytes": b"\0\xff",
        "raw": RawString(b"\xff"),
        "list": [1, b"\0", Decimal("1.0"), {"ä": "ä"}],
    }
    assert shown(with_headers(headers)) == {
        "text": "a:b\nc\r\\",
        "na:me\n": "x",
        "yes": "true",
        "no": "false",
        "none": "",
        "int": "5",
        "float": "1.5",
        "decimal": "3.14",
        "bytes": "AP8=",
        "raw": "/w==",
        "list": '[1,"AA==","1.0",{"ä":"ä"}]',
    }


def test_what_a_header_cannot_be_is_left_out() -> None:
    assert shown(with_headers({"": "x", "a\0": "x", "b": "x\0", "c": "x"})) == {"c": "x"}


@pytest.mark.parametrize(
    "name",
    ["content-length", "destination", "message-id", "subscription", "ack", "timestamp", "redelivered", "content-type",
     "receipt", "transaction", "offset", "amqp-properties", "persistent", *(field.name.decode() for field in ADDED)],
)  # fmt: skip
def test_a_field_that_is_called_as_what_a_message_has_is_shown_beside_it(name: str) -> None:
    found = shown(with_headers({name: "x"}))
    assert found == {f"amqp-{name}": "x"}
    block = b"".join(b"%b:%b\n" % (key.encode(), value.encode()) for key, value in found.items())
    check_block(block, ESCAPING_ALL, Limits())


def test_what_the_broker_has_added_is_shown() -> None:
    added = block_of(ESCAPING_ALL, (DEAD_LETTER_REASON, b"expired"), (REDELIVERY_COUNT, b"2"), (X_DEATH, b"[1]"))
    found = shown(with_headers({"x-death": "mine"}, expiration="5", content_type="a"), added)
    assert found == {"content-type": "a", "dead-letter-reason": "expired", "redelivery-count": "2", "x-death": "[1]"}


def test_the_address_of_an_answer_is_there_once() -> None:
    added = block_of(ESCAPING_ALL, (REPLY_TO, b"/reply-queue/1"))
    assert shown(encode(Properties(reply_to="amq.rabbitmq.reply-to")), added) == {"reply-to": "/reply-queue/1"}
    assert shown(encode(Properties(reply_to="amq.rabbitmq.reply-to"))) == {}
    assert shown(encode(Properties(reply_to="r"))) == {"reply-to": "/queue/r"}


# ---- what an AMQP consumer gets -------------------------------------------------------------------------------------


def test_a_dead_letter_has_what_rabbitmqs_clients_know() -> None:
    data = with_headers({"mine": LetteredInt(1, "s"), "x-death": "old"}, content_type="a", expiration="5")
    added = block_of(
        ESCAPING_ALL,
        (DEAD_LETTER_REASON, b"expired"),
        (ORIGINAL_DESTINATION, b"/queue/retry"),
        (X_DEATH, json.dumps(DEATHS).encode()),
    )
    found = parse(properties_of(stored_block(data)[0] + added, ESCAPING_ALL))
    assert (found.content_type, found.expiration) == ("a", None)
    headers = found.headers
    deaths = headers.pop("x-death")
    assert headers == {
        "mine": 1,
        "dead-letter-reason": "expired",
        "original-destination": "/queue/retry",
        "x-first-death-queue": "work",
        "x-first-death-reason": "rejected",
        "x-first-death-exchange": "e",
        "x-last-death-queue": "retry",
        "x-last-death-reason": "expired",
        "x-last-death-exchange": "",
    }
    assert headers["mine"].letter == "s"
    assert deaths == [DEATHS[0], {**DEATHS[1], "original-expiration": "5"}]
    assert [deaths[0]["count"].letter, deaths[0]["time"].letter] == ["l", "T"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[1]", "null", '[{"queue":"q"}]', "[" * 5000, json.dumps([{**DEATHS[0], "count": 2**70}]),
     json.dumps([{**DEATHS[0], "count": "many"}]), json.dumps([{**DEATHS[0], "count": float("inf")}]),
     json.dumps([{**DEATHS[0], "queue": "\ud800"}])],
)  # fmt: skip
def test_deaths_that_no_broker_has_written_are_left_out(text: str) -> None:
    added = block_of(ESCAPING_ALL, (X_DEATH, text.encode()))
    assert parse(properties_of(stored_block(b"\0\0")[0] + added, ESCAPING_ALL)).headers == {}


def test_the_address_of_an_answer_takes_the_place_of_what_stood_for_it() -> None:
    data = encode(Properties(reply_to="amq.rabbitmq.reply-to", type="t"))
    added = block_of(ESCAPING_ALL, (REPLY_TO, b"/reply-queue/1"))
    assert parse(properties_of(stored_block(data)[0] + added, ESCAPING_ALL)) == Properties(
        reply_to="amq.rabbitmq.reply-to.1", type="t"
    )


@pytest.mark.parametrize(("length", "is_property"), [(233, True), (234, False), (242, False), (243, False)])
def test_an_address_that_is_too_long_as_a_routing_key_is_no_property(length: int, is_property: bool) -> None:
    address = b"/reply-queue/" + b"x" * length
    key = "amq.rabbitmq.reply-to." + "x" * length
    found = parse(properties_of(b"reply-to:%b\n" % address, ESCAPING_ALL))
    assert found.reply_to == (key if is_property else None)
    assert found.headers == ({} if is_property else {"reply-to": address.decode()})


@pytest.mark.parametrize(("length", "is_replaced"), [(233, True), (234, False), (242, False)])
def test_nor_does_it_take_the_place_of_one_in_a_dead_letter(length: int, is_replaced: bool) -> None:
    address = "/reply-queue/" + "x" * length
    block = stored_block(encode(Properties(reply_to=address)))[0]
    added = block_of(ESCAPING_ALL, (DEAD_LETTER_REASON, b"rejected"))
    key = "amq.rabbitmq.reply-to." + "x" * length
    assert parse(properties_of(block + added, ESCAPING_ALL)).reply_to == (key if is_replaced else address)


def test_a_name_that_is_no_utf_8_fits_once_it_is_replaced() -> None:
    block = b"%b:kept\n%b:left out\n" % (b"\xff" * 85, b"\xff" * 86)
    assert parse(properties_of(block, ESCAPING_ALL)).headers == {"\ufffd" * 85: "kept"}


def test_a_message_from_elsewhere_has_properties_of_its_headers() -> None:
    block = (
        b"content-type:a/b\ncontent-encoding:gzip\ncorrelation-id:c\\n\nreply-to:/queue/r\ntype:t\napp-id:p\nuser-id:u\n"
        b"priority:9\nexpiration:60000\npersistent:true\namqp-message-id:m\namqp-timestamp:17\nother:x\\cy\ncontent-type:second\nother:z\n"
        b"redelivery-count:2\n"
    )
    assert parse(properties_of(block, ESCAPING_ALL)) == Properties(
        content_type="a/b",
        content_encoding="gzip",
        correlation_id="c\n",
        reply_to="r",
        type="t",
        app_id="p",
        priority=9,
        expiration="60000",
        delivery_mode=2,
        message_id="m",
        timestamp=17,
        table=encode_table({"user-id": "u", "other": "x:y", "redelivery-count": "2"}),
    )
    assert properties_of(b"", ESCAPING_NONE) == b"\0\0"
    assert parse(properties_of(b"a:b\\c\n", ESCAPING_NONE)).headers == {"a": "b\\c"}


def test_what_does_not_fit_a_property_is_a_header() -> None:
    block = b"type:%b\npriority:256\namqp-timestamp:soon\n%b:x\n" % (b"t" * 256, b"n" * 256)
    found = parse(properties_of(block, ESCAPING_ALL))
    assert found.headers == {"type": "t" * 256, "priority": "256", "amqp-timestamp": "soon"}
    assert (found.type, found.priority, found.timestamp) == (None, None, None)


def test_any_message_comes_out_as_it_went_in_and_can_be_shown() -> None:
    chance = random.Random(9)
    base = encode(ALL)
    good = 0
    for _ in range(20_000):
        data = bytearray(base)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 10, 58, 255, chance.randrange(256)))
        try:
            block, _ = stored_block(bytes(data))
        except Violation:
            continue
        good += 1
        assert properties_of(block, ESCAPING_ALL) == data
        check_block(block, ESCAPING_ALL, Limits())
        check_block(expanded(block, ESCAPING_ALL)[0], ESCAPING_ALL, Limits())
        dead = block + block_of(ESCAPING_ALL, (DEAD_LETTER_REASON, b"expired"))
        assert parse(properties_of(dead, ESCAPING_ALL)).headers["dead-letter-reason"] == "expired"
    assert good > 2000


def test_properties_that_may_be_changed_are_nobody_elses() -> None:
    with_table = b"\x20\0\0\0\0\3\1aV"
    (_, first), (_, second) = stored_block(with_table), stored_block(with_table)
    assert first == second and first is not second
    first.table = b"\0\0\0\0"
    assert stored_block(with_table)[1].headers == {"a": None}


def test_short_properties_are_stored_as_long_ones_are() -> None:
    for size in range(AMQP_PROPERTIES_KEPT_BYTES + 2):
        data = b"\0\x08" + bytes((size,)) + b"x" * size  # app_id
        for _ in range(2):
            block, properties = stored_block(data)
            assert (properties.app_id, properties_of(block, ESCAPING_ALL)) == ("x" * size, data)
