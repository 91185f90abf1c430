"""A second opinion: pamqp reads what is written here, and what it writes is read here, with the same meaning."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pamqp import body as pamqp_body
from pamqp import commands, decode, header
from pamqp import encode as pamqp_encode
from pamqp import frame as pamqp_frame

from radiator.model.amqp_properties import Properties, encode, parse
from radiator.model.amqp_tables import LetteredInt, decode_table, encode_table
from radiator.model.errors import Violation
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.frame import decode_content_header, encode_deliver
from radiator.protocols.amqp.methods import (
    METHODS,
    NAMES,
    NUMBERS,
    AccessRequest,
    AccessRequestOk,
    BasicDeliver,
    ChannelOpen,
    ChannelOpenOk,
    Method,
)
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.spec import PROTOCOL_HEADER

NOT_COMPARED = (
    *(AccessRequest, AccessRequestOk),  # it has none of that class
    *(ChannelOpen, ChannelOpenOk),  # it wants "0" for what says nothing
)
KINDS = [kind for kind in METHODS.values() if kind not in NOT_COMPARED]
RESERVED = {"ticket", "insist", "capabilities", "known_hosts", "out_of_band", "channel_id", "cluster_id"}
"""Arguments for which it takes one value alone."""
THEIRS: dict[int, Any] = commands.INDEX_MAPPING


def texts(chance: random.Random) -> str:
    return "".join(chance.choices("aäß€0 -_.:\n", k=chance.randrange(12)))


def tables(chance: random.Random, depth: int = 3) -> dict[str, Any]:
    return {f"{nth}{texts(chance)}": values(chance, depth) for nth in range(chance.randrange(5))}


def values(chance: random.Random, depth: int) -> Any:
    kinds = [
        lambda: chance.random() < 0.5,
        lambda: chance.randint(-(2**31), 2**31 - 1),
        lambda: chance.choice((-1, 1)) * chance.randint(2**32, 2**63 - 1),
        lambda: chance.randint(-(10**5), 10**5) / 4,  # it writes a float in four bytes
        lambda: Decimal(chance.randint(-(10**6), 10**6)).scaleb(-chance.randrange(6)),
        lambda: texts(chance),
        lambda: None,
        lambda: datetime.fromtimestamp(chance.randrange(2**31), UTC),
    ]
    if depth:
        kinds += [
            lambda: tables(chance, depth - 1),
            lambda: [values(chance, depth - 1) for _ in range(chance.randrange(4))],
        ]
    return chance.choice(kinds)()


def ours(value: Any) -> Any:
    """Their value as it is here: a time is a number."""
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, dict):
        return {name: ours(one) for name, one in value.items()}
    return [ours(one) for one in value] if isinstance(value, list) else value


def times(value: Any) -> Iterator[int]:
    """All that are in it."""
    if isinstance(value, LetteredInt) and value.letter == "T":
        yield value
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from times(one)


def theirs(value: Any) -> Any:
    """Our value as it is there."""
    if isinstance(value, LetteredInt) and value.letter == "T":
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, dict):
        return {name: theirs(one) for name, one in value.items()}
    return [theirs(one) for one in value] if isinstance(value, list) else value


def test_what_it_writes_as_a_table_is_read_as_the_same() -> None:
    chance = random.Random(31)
    for _ in range(3000):
        table = tables(chance)
        data = pamqp_encode.field_table(table)
        found = decode_table(data, 4, len(data))
        assert found == ours(table)
        assert theirs(found) == table
        assert encode_table(found) == data, "every number has the letter that it came with"


def test_what_is_written_as_a_table_it_reads_as_the_same() -> None:
    chance = random.Random(32)
    for _ in range(3000):
        table = ours(tables(chance))
        data = encode_table(table)
        assert decode.field_table(data) == (len(data), table)


def test_what_is_read_as_a_table_it_reads_as_the_same() -> None:
    """What is refused here it may take: it looks at no bounds."""
    chance = random.Random(33)
    both = 0
    for _ in range(20_000):
        data = bytearray(pamqp_encode.field_table({**tables(chance), "a": 1, "b": "text", "c": [True, None]}))
        for _ in range(chance.randint(1, 2)):
            data[chance.randrange(4, len(data))] = chance.choice(
                (0, 1, 2, chance.randrange(256), *b"tbBsuIilLfdDSATFVx")
            )
        try:
            found = decode_table(bytes(data), 4, len(data))
        except Violation:
            continue
        try:
            size, other = decode.field_table(bytes(data))
        except (ValueError, OverflowError, OSError):  # a time that datetime does not have
            continue
        if "nan" in repr(other) or max(times(found), default=0) >= 2**32:  # it takes a far one for milliseconds
            continue
        assert (size, ours(other)) == (len(data), found)
        both += 1
    assert both > 2000


@pytest.mark.parametrize("kind", KINDS, ids=NAMES.get)
def test_a_method_is_read_by_both(kind: type[Method]) -> None:
    chance = random.Random(NAMES[kind])
    class_id, number = NUMBERS[kind]
    for _ in range(50):
        asked = {name: other(chance, value) for name, value in kind()._asdict().items() if name not in RESERVED}  # type: ignore[attr-defined]
        method = kind(**asked)
        data = encode_method(chance.randrange(65_536), method)
        size, channel, found = pamqp_frame.unmarshal(data)
        assert (size, channel) == (len(data), int.from_bytes(data[1:3], "big"))
        assert type(found) is THEIRS[class_id << 16 | number]
        values_there = [getattr(found, name) for name in found.attributes()]
        assert [as_bytes(value) for value in values_there] == [as_bytes(value) for value in method]
        if not any(isinstance(value, dict) for value in method):  # it writes small numbers with other letters
            assert pamqp_frame.marshal(found, channel) == data
        assert decode_method(data[7:-1]) == method


def other(chance: random.Random, value: Any) -> Any:
    """Another value of that type."""
    if isinstance(value, bool):
        return chance.random() < 0.5
    if isinstance(value, int):
        return chance.randrange(256)
    if isinstance(value, str):
        return "".join(chance.choices("abc.-", k=chance.randrange(9)))
    return b"some bytes" if isinstance(value, bytes) else {"a": 1, "b": {"c": ["d"]}}


def as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def test_properties_are_read_by_both() -> None:
    chance = random.Random(34)
    for _ in range(2000):
        some: dict[str, Any] = {
            name: texts(chance) or "x"
            for name in ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id")
            if chance.random() < 0.5
        }
        some |= {f"{name}_id": texts(chance) or "x" for name in ("user", "app") if chance.random() < 0.5}
        some |= {"delivery_mode": chance.choice((1, 2))} if chance.random() < 0.5 else {}
        some |= {"priority": chance.randrange(10)} if chance.random() < 0.5 else {}
        some |= {"timestamp": chance.randrange(2**31)} if chance.random() < 0.5 else {}
        headers = ours(tables(chance)) if chance.random() < 0.5 else {}
        data = encode(Properties(**some, table=encode_table(headers) if headers else None))
        there = {**some, "headers": headers} if headers else dict(some)
        if "timestamp" in there:
            there["timestamp"] = datetime.fromtimestamp(there["timestamp"], UTC)
        written = commands.Basic.Properties(**there)
        whole = pamqp_frame.marshal(header.ContentHeader(0, 5, written), 1)
        class_id, size, properties = decode_content_header(whole[7:-1])
        assert (class_id, size) == (60, 5) and (properties == data or headers)
        assert parse(data) == Properties(**some, table=encode_table(headers) if headers else None)
        found = parse(properties)
        assert {name: getattr(found, name) for name in some} == some and found.headers == headers


def test_a_delivery_is_read_by_it() -> None:
    data = encode_deliver(3, b"c", 7, True, b"e", b"k", encode(Properties(type="t")), b"x" * 5000, 4096)
    found: list[Any] = []
    while data:
        size, channel, one = pamqp_frame.unmarshal(data)
        assert channel == 3
        found.append(one)
        data = data[size:]
    method, head, *bodies = found
    assert [getattr(method, name) for name in method.attributes()] == [*BasicDeliver("c", 7, True, "e", "k")]
    assert (head.body_size, head.properties.message_type) == (5000, "t")
    assert b"".join(one.value for one in bodies) == b"x" * 5000 and len(bodies) == 2


def test_frames_are_cut_where_it_cuts_them() -> None:
    chance = random.Random(35)
    pieces = [
        pamqp_frame.marshal(pamqp_body.ContentBody(chance.randbytes(chance.randrange(200))), 1) for _ in range(50)
    ]
    frames = [*FrameParser().frames(PROTOCOL_HEADER + b"".join(pieces))][1:]
    assert [len(frame.payload) + 8 for frame in frames] == [len(piece) for piece in pieces]
