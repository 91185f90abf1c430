"""Methods to bytes and back; and what is no method, with the code that AMQP has for it."""

import random
import struct
from typing import Any, get_type_hints

import pytest

from radiator.model.errors import Violation
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.connection_methods import ConnectionClose, ConnectionStartOk
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.methods import (
    METHODS,
    NAMES,
    NUMBERS,
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from radiator.protocols.amqp.spec import (
    BIT,
    COMMAND_INVALID,
    FRAME_ERROR,
    LONG,
    LONG_LONG,
    LONG_STRING,
    NOT_IMPLEMENTED,
    OCTET,
    SHORT,
    SHORT_STRING,
    SYNTAX_ERROR,
    TABLE,
)

KINDS = [*METHODS.values()]
MOST: dict[int, Any] = {
    BIT: True,
    OCTET: 255,
    SHORT: 65_535,
    LONG: 2**32 - 1,
    LONG_LONG: 2**64 - 1,
    SHORT_STRING: "ä" * 127 + "a",
    LONG_STRING: bytes(range(256)) * 4,
    TABLE: {"a": 1, "in": {"b": ["x", None, True]}},
}


def types_of(kind: type[Method]) -> list[int]:
    return [hint.__metadata__[0] for hint in get_type_hints(kind, include_extras=True).values()]


def payload(method: Method) -> bytes:
    return encode_method(1, method)[7:-1]


def refused(data: bytes) -> BrokenAmqp:
    with pytest.raises(BrokenAmqp) as caught:
        decode_method(data)
    return caught.value


def arbitrary(kind: type[Method], chance: random.Random) -> Method:
    """One with any arguments."""
    values = []
    for type_ in types_of(kind):
        most = MOST[type_]
        if isinstance(most, int):
            values.append(chance.randint(0, most) if type_ != BIT else chance.random() < 0.5)
        else:
            values.append(chance.choice([most, type(most)()]))
    return kind(*values)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES.get)
def test_a_method_is_read_as_it_was_written(kind: type[Method]) -> None:
    chance = random.Random(17)
    for method in [
        kind(),
        kind(*(MOST[type_] for type_ in types_of(kind))),
        *(arbitrary(kind, chance) for _ in range(30)),
    ]:
        found = decode_method(payload(method))
        assert type(found) is kind and found == method


@pytest.mark.parametrize("kind", KINDS, ids=NAMES.get)
def test_a_method_that_is_cut_off_or_has_more_is_refused(kind: type[Method]) -> None:
    whole = payload(kind(*(MOST[type_] for type_ in types_of(kind))))
    for size in range(4, len(whole)):
        broken = refused(whole[:size])
        assert (broken.code, broken.method) == (FRAME_ERROR, NUMBERS[kind]), whole[:size]
        assert NAMES[kind] in str(broken)
    for more in (b"\0", b"\0" * 300):
        broken = refused(whole + more)
        assert (broken.code, broken.method) == (FRAME_ERROR, NUMBERS[kind])


def test_the_bytes_of_a_method() -> None:
    """By hand, from the specification: 4.2.5 has bits packed into octets, low bit first."""
    method = QueueDeclare(0, "q", False, True, False, True, False, {"x-max-length": 5})
    assert encode_method(258, method) == (
        b"\x01\x01\x02\x00\x00\x00\x1f\x00\x32\x00\x0a\x00\x00\x01q\x0a"
        b"\x00\x00\x00\x12\x0cx-max-lengthI\x00\x00\x00\x05\xce"
    )
    assert payload(BasicPublish(0, "e", "key", True, False)) == b"\x00\x3c\x00\x28\x00\x00\x01e\x03key\x01"
    assert payload(BasicPublish(0, "e", "key", False, True)) == b"\x00\x3c\x00\x28\x00\x00\x01e\x03key\x02"
    assert payload(BasicAck(5, True)) == b"\x00\x3c\x00\x50\0\0\0\0\0\0\0\x05\x01"


def test_bits_that_say_nothing_are_not_looked_at() -> None:
    assert decode_method(payload(BasicAck(5, True))[:-1] + b"\xff") == BasicAck(5, True)
    assert decode_method(payload(BasicPublish(0, "e", "k"))[:-1] + b"\xfc") == BasicPublish(0, "e", "k")
    assert decode_method(payload(BasicDeliver("c", 1, False, "e", "k"))[:-5] + b"\xfe\x01e\x01k") == BasicDeliver(
        "c", 1, False, "e", "k"
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", FRAME_ERROR),
        (b"\0\x3c\0", FRAME_ERROR),
        (struct.pack(">HH", 60, 41), COMMAND_INVALID),
        (struct.pack(">HH", 61, 40), COMMAND_INVALID),
        (struct.pack(">HH", 0, 0), COMMAND_INVALID),
        (struct.pack(">HH", 65_535, 65_535), COMMAND_INVALID),
        (struct.pack(">HH", 80, 10), NOT_IMPLEMENTED),
        (struct.pack(">HH", 100, 10), NOT_IMPLEMENTED),
    ],
)
def test_what_is_no_method_is_refused(data: bytes, code: int) -> None:
    assert refused(data).code == code


@pytest.mark.parametrize("method", [BasicPublish(0, "e", "AAAA"), QueueDeclareOk("AAAA")])
def test_a_name_is_utf_8(method: Method) -> None:
    broken = refused(payload(method).replace(b"AAAA", b"A\xffAA"))
    assert broken.code == FRAME_ERROR
    assert "is not UTF-8" in str(broken)


def test_a_broken_table_is_refused_with_what_is_wrong() -> None:
    good = payload(ExchangeDeclare(0, "e", arguments={"AAAA": "b"}))
    broken = refused(good.replace(b"AAAAS", b"AAAA?"))
    assert (broken.code, broken.method) == (SYNTAX_ERROR, (40, 10))
    assert str(broken).startswith("exchange.declare is broken. The field 'AAAA' of a table has a value of the type '?'")


def test_tables_within_tables_do_no_harm() -> None:
    """900 arrays in each other made another reader raise RecursionError, before any password was asked for."""
    nested = b""
    for _ in range(900):
        nested = b"A" + struct.pack(">I", len(nested)) + nested
    table = b"\x01a" + nested
    data = struct.pack(">HHI", 10, 11, len(table)) + table + b"\x05PLAIN" + b"\0\0\0\0" + b"\x05en_US"
    assert "more than 8 deep" in str(refused(data))


def test_a_text_of_255_bytes_fits_and_no_longer_one() -> None:
    assert decode_method(payload(ConnectionClose(320, "ä" * 127 + "a"))) == ConnectionClose(320, "ä" * 127 + "a")
    with pytest.raises(Violation, match="256 bytes"):
        payload(ConnectionClose(320, "ä" * 128))


def test_a_response_may_be_no_text() -> None:
    method = ConnectionStartOk({}, "PLAIN", b"\0user\0\xff\xfe", "en_US")
    assert decode_method(payload(method)) == method


def test_any_bytes_give_a_method_or_a_code() -> None:
    chance = random.Random(23)
    wholes = [payload(arbitrary(kind, chance)) for kind in KINDS for _ in range(4)]
    codes = set()
    for _ in range(20_000):
        data = bytearray(chance.choice(wholes))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(data)) if data else 0
            kind = chance.randrange(3)
            if kind == 0 and data:
                data[place] = chance.choice((0, 1, 255, chance.randrange(256)))
            elif kind == 1:
                del data[place : place + chance.randint(1, 5)]
            else:
                data[place:place] = chance.randbytes(chance.randint(1, 5))
        try:
            method = decode_method(bytes(data))
        except BrokenAmqp as broken:
            codes.add(broken.code)
        else:
            assert decode_method(payload(method)) == method or "nan" in repr(method)
    assert codes == {FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID} or codes == {
        FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID, NOT_IMPLEMENTED,
    }  # fmt: skip
