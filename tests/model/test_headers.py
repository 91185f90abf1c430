"""The codec of header blocks: what it reads is what was written, whatever stands around it."""

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
