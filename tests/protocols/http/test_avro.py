"""Messages as Avro: what fastavro writes by the schema of docs/HTTP.md is read, and the other way round."""

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pytest

from radiator.model.limits import BODY_VALUES_MAX, HTTP_BATCH_MESSAGES
from radiator.protocols.http.avro import Envelope, decode, encode
from radiator.protocols.http.head import BadRequest
from tests.avro_bodies import long

PAGE = (Path(__file__).parents[3] / "docs/HTTP.md").read_text(encoding="utf-8")
(BLOCK,) = re.findall(r"```text\n(\{\n  \"type\": \"array\".*?)```", PAGE, re.DOTALL)
SCHEMA = fastavro.parse_schema(json.loads(BLOCK))
MESSAGES: list[Envelope] = [
    ("", {}, b""),
    ("/queue/\xe4", {"a": "b", "\xe9:\n": "x" * 200}, bytes(range(256))),
    ("/log/l", {"content-type": "avro/binary"}, b"x" * 100_000),
]


def written(messages: Sequence[Envelope]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, SCHEMA, [{"destination": to, "headers": headers, "body": body} for to, headers, body in messages]
    )
    return out.getvalue()


def read(data: bytes) -> list[Envelope]:
    stream = io.BytesIO(data)
    found: Any = fastavro.schemaless_reader(stream, SCHEMA)
    assert not stream.read()
    return [(one["destination"], one["headers"], one["body"]) for one in found]


def refused(data: bytes, max_headers: int = 10) -> str:
    with pytest.raises(BadRequest) as caught:
        decode(data, max_headers)
    assert caught.value.status == 400 and len(str(caught.value)) < 400
    return str(caught.value)


def test_what_fastavro_writes_is_read() -> None:
    assert decode(written(MESSAGES), 10) == MESSAGES


def test_what_is_written_fastavro_reads() -> None:
    assert read(encode(MESSAGES)) == MESSAGES and read(encode([])) == []


def test_blocks_may_be_several_and_say_their_sizes() -> None:
    one = b"\0\0\0"
    assert decode(long(-1) + long(3) + one + long(2) + one + one + b"\0", 0) == [("", {}, b"")] * 3


@pytest.mark.parametrize("count", [HTTP_BATCH_MESSAGES, HTTP_BATCH_MESSAGES + 1])
def test_there_are_so_many_messages(count: int) -> None:
    data = written([("", {}, b"")] * count)
    if count == HTTP_BATCH_MESSAGES:
        assert len(decode(data, 0)) == count
    else:
        assert f"has more than {HTTP_BATCH_MESSAGES} messages" in refused(data)
    assert "has no messages" in refused(b"\0")


@pytest.mark.parametrize("count", [10, 11])
def test_a_message_has_so_many_headers(count: int) -> None:
    data = written([("", {str(number): "" for number in range(count)}, b"")])
    if count == 10:
        assert len(decode(data, 10)[0][1]) == 10
    else:
        assert "messages[0].headers has more than 10 entries, which is max_headers" in refused(data)


def test_all_have_so_many_headers() -> None:
    headers = {str(number): "" for number in range(999)}
    assert "the most that a body may have" in refused(written([("", headers, b"")] * 17), 999)
    assert len(decode(written([("", headers, b"")] * 16), 999)) == 16 and BODY_VALUES_MAX < 17 * 999


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "messages is cut off by the end of the body"),
        (written(MESSAGES)[:-1], "messages is cut off"),
        (written(MESSAGES) + b"x", "goes on after its end"),
        (long(2**62), "the most that a body may have"),
        (long(-1) + long(99) + b"\0\0\0", "is cut off"),
        (
            long(1) + long(2**62) + b"x",
            "messages[0].destination is cut off by the end of the body; it must be a string",
        ),
        (long(1) + long(1) + b"\xff\0\0\0", "messages[0].destination is not valid UTF-8; it must be a string"),
        (long(1) + b"\0" + long(2) + b"\x02a\0\x02a\0\0\0\0", "messages[0].headers has one name twice"),
        (long(1) + b"\0\0" + long(-1), "messages[0].body has a length of -1; it must be bytes"),
    ],
)
def test_what_is_no_array_of_messages_is_told(data: bytes, why: str) -> None:
    assert why in refused(data)


def test_bytes_by_chance_are_read_or_refused() -> None:
    chance = Random(17)
    whole = written([("/queue/q", {"a": "b"}, b"xyz"), ("", {}, b"")])
    for _ in range(20_000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            found = decode(bytes(data), 10)
        except BadRequest:
            continue
        assert read(bytes(data)) == found
