"""The codec of header blocks: what it reads is what was written, whatever stands around it."""

import time
from itertools import product

import pytest

from radiator.model.headers import (
    ADDED,
    CONTENT_TYPE,
    ESCAPING_ALL,
    ESCAPING_BUT_CR,
    ESCAPING_NONE,
    NODE_PATH,
    PARTITION_KEY,
    block_of,
    escape,
    node_path,
    pairs,
    unescape,
    with_node_path,
    without,
)
from radiator.model.message import TOPIC_MARK, Message, is_id_of, is_topic_id, message_id, position_in, position_of

ESCAPINGS = (ESCAPING_NONE, ESCAPING_BUT_CR, ESCAPING_ALL)


@pytest.mark.parametrize(
    ("block", "value"),
    [
        (b"", None),
        (b"partition-key:k\n", b"k"),
        (b"a:b\npartition-key:k\nc:d\n", b"k"),
        (b"partition-key:1\npartition-key:2\n", b"1"),
        (b"partition-key:\n", b""),
        (b"x-partition-key:no\n", None),
        (b"partition-keys:no\n", None),
        (b"a:partition-key:no\n", None),
        (b"x-partition-key:no\npartition-key:k\n", b"k"),
        (b"partition-key:a\\cb\\n\n", b"a:b\n"),
    ],
)
def test_a_field_is_found_by_its_whole_name(block: bytes, value: bytes | None) -> None:
    assert Message("/log/l", block, ESCAPING_ALL, b"", 0).field(PARTITION_KEY) == value


def test_padding_belongs_to_a_value_unless_nothing_is_escaped() -> None:
    assert [PARTITION_KEY.value(b"partition-key: k \n", escaping) for escaping in ESCAPINGS] == [b"k", b" k ", b" k "]


@pytest.mark.parametrize("escaping", ESCAPINGS)
def test_what_is_escaped_is_read_as_it_was(escaping: int) -> None:
    alphabet = (b"a", b"\\", b":", *((b"\n",) if escaping else ()), *((b"\r",) if escaping == ESCAPING_ALL else ()))
    for value in map(b"".join, product(alphabet, repeat=4)):
        assert unescape(escape(value, escaping), escaping) == value
        block = block_of(escaping, (CONTENT_TYPE, value), (PARTITION_KEY, b"k"))
        assert (CONTENT_TYPE.value(block, escaping), PARTITION_KEY.value(block, escaping)) == (value, b"k")
        if escaping:
            assert pairs(block, escaping) == [(b"content-type", value), (b"partition-key", b"k")]


def one_by_one(value: bytes, escaping: int) -> bytes:
    """What `unescape` returns, the slow way."""
    table = {b"\\": b"\\", b"n": b"\n", b"c": b":", **({b"r": b"\r"} if escaping == ESCAPING_ALL else {})}
    plain, at = b"", 0
    while at < len(value):
        letter, escape = value[at : at + 1], value[at + 1 : at + 2]
        is_escape = letter == b"\\" and escape in table
        plain += table[escape] if is_escape else letter
        at += 1 + is_escape
    return plain


@pytest.mark.parametrize("escaping", [ESCAPING_BUT_CR, ESCAPING_ALL])
def test_escapes_beside_each_other_are_undone_from_the_left_and_undefined_ones_stay(escaping: int) -> None:
    for value in map(b"".join, product((b"\\", b"n", b"c", b"r", b"x"), repeat=6)):
        assert unescape(value, escaping) == one_by_one(value, escaping)


@pytest.mark.parametrize("escape", [b"\\\\", b"\\n", b"\\c", b"\\r"])
def test_a_header_full_of_escapes_takes_no_longer_than_others(escape: bytes) -> None:
    """One escape after the other took 7 to 8 ms for each of these."""
    value = escape * 30_000
    began_s = time.process_time()
    for _ in range(10):
        assert len(unescape(value, ESCAPING_ALL)) == 30_000
    assert time.process_time() - began_s < 0.025


def test_fields_are_left_out_and_nothing_else() -> None:
    added = b"".join(field.name + b":1\n" for field in ADDED)
    block = b"x-node-path:1\n" + added + b"a:node-path\n" + added
    assert without(block, ADDED) == b"x-node-path:1\na:node-path\n"
    assert without(block, ()) is block and without(b"", ADDED) == b""


def test_a_path_stands_once_behind_the_headers_of_the_application() -> None:
    assert node_path(b"a:b\n") == [] and with_node_path(b"", ["a"]) == b"node-path:a\n"
    block = with_node_path(with_node_path(b"x-node-path:no\na:b\n", ["a"]), ["a", "b"])
    assert block == b"x-node-path:no\na:b\nnode-path:a,b\n"
    assert node_path(block) == Message("/queue/q", block, ESCAPING_ALL, b"", 0).node_path == ["a", "b"]
    assert NODE_PATH.value(block, ESCAPING_ALL) == b"a,b"


def test_an_id_says_its_store_its_position_and_whether_it_is_of_a_topic() -> None:
    position = position_of(7, 2**63)
    one = message_id("abc", position)
    assert position_in(one) == position and is_id_of(one, "abc") and not is_topic_id(one)
    assert not is_id_of(one, "ab") and not is_id_of(b"", "abc")
    assert is_topic_id(one + TOPIC_MARK) and not is_topic_id(b"of-a-client-t") and not is_topic_id(b"")
