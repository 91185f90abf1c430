"""Keys of messages: what settings say of them, and what is found in a message, whatever it holds."""

import gc
import time
from typing import Any

import pytest

from radiator.model.amqp_properties import Properties, encode, stored_block
from radiator.model.amqp_tables import encode_table
from radiator.model.headers import ESCAPING_ALL, ESCAPING_BUT_CR, ESCAPING_NONE
from radiator.model.keys import KeySource, as_written, hash_of, key_sources, keys_of, with_keys, without_keys
from radiator.model.limits import KEY_SOURCES_MAX, KEYED_BODY_MAX_BYTES, NAME_MAX_BYTES
from radiator.model.message import Message

# ---- what settings say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "sources"),
    [
        (None, ()),
        ("header:customer", ("header:customer",)),
        ("header:a:b c/ä", ("header:a:b c/ä",)),
        ("header:" + "x" * NAME_MAX_BYTES, ("header:" + "x" * NAME_MAX_BYTES,)),
        ("/customer/id", ("/customer/id",)),
        ("", ("",)),
        (["header:a"], ("header:a",)),
        (["header:a", "/a", "header:A"], ("header:a", "/a", "header:A")),
        (("/a", "/b"), ("/a", "/b")),
        ([f"/{n}" for n in range(KEY_SOURCES_MAX)], tuple(f"/{n}" for n in range(KEY_SOURCES_MAX))),
    ],
)
def test_sources_are_a_tuple_and_written_again_as_they_were(value: Any, sources: tuple[str, ...]) -> None:
    assert key_sources(value) == sources
    assert key_sources(as_written(sources)) == sources


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (5, 'is 5; it must be "header:NAME", a JSON pointer such as "/customer/id", or a list of these'),
        (True, "is true; it must be"),
        ({"header": "a"}, "it must be"),
        ("customer", 'is "customer"; it must be "header:NAME"'),
        ("Header:a", 'is "Header:a"; it must be "header:NAME"'),
        ("header:", 'is "header:", whose name is empty; a name has 1 to 255 bytes'),
        ("header:a\nb", "whose name has the control character U+000A"),
        ("header:\x7f", "whose name has the control character U+007F"),
        ("header:\ud800", "whose name has the control character U+D800"),
        ("header:" + "x" * (NAME_MAX_BYTES + 1), "whose name has 256 bytes of UTF-8"),
        ("/a~", 'is "/a~", with a ~ that is alone; it must be a JSON pointer'),
        ("/\ud800", "which is not UTF-8"),
        ("/" + "x" * NAME_MAX_BYTES, "it may have at most 255 bytes"),
        ([], "is an empty list; name what the keys are taken from, or leave it out"),
        ([""] * (KEY_SOURCES_MAX + 1), "is a list of 9; it may have at most 8"),
        (["/a", "header:b", "/a"], 'names "/a" twice; name it once'),
        (["/a", None], "is null; it must be"),
        (["/a", ["/b"]], 'is ["/b"]; it must be'),
    ],
)
def test_what_is_no_source_is_told_with_what_would_be_right(value: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match="^(is|names) ") as caught:
        key_sources(value)
    assert sentence in str(caught.value) and len(str(caught.value)) < 300


# ---- what the store keeps -------------------------------------------------------------------------------------------


def test_what_the_store_keeps_says_what_messages_are_stored_by() -> None:
    kept = with_keys({"max_messages": 5}, ("header:a", "/b"))
    assert kept == {"max_messages": 5, "keyed_by": ["header:a", "/b"]}
    assert keys_of(kept) == ("header:a", "/b") and without_keys(kept) == {"max_messages": 5}
    assert with_keys({"max_messages": 5}, ()) == {"max_messages": 5} and keys_of({"max_messages": 5}) == ()


@pytest.mark.parametrize("found", ["header:a", {"a": 1}, None, 5, [1], ["a", None]])
def test_what_is_no_list_of_texts_says_nothing(found: object) -> None:
    assert keys_of({"keyed_by": found}) == ()


# ---- a key in the headers -------------------------------------------------------------------------------------------


def message(headers: bytes = b"", body: bytes = b"", escaping: int = ESCAPING_ALL) -> Message:
    return Message("/queue/q", headers, escaping, body, 1)


def key(sources: str | tuple[str, ...], one: Message) -> bytes | None:
    return KeySource((sources,) if isinstance(sources, str) else sources).key_of(one)


@pytest.mark.parametrize(
    ("headers", "escaping", "expected"),
    [
        (b"customer:7\n", ESCAPING_ALL, b"7"),
        (b"a:b\ncustomer:k\n", ESCAPING_ALL, b"k"),
        (b"customer:first\ncustomer:second\n", ESCAPING_ALL, b"first"),
        (b"customer:a\\cb\\n\\r\n", ESCAPING_ALL, b"a:b\n\r"),
        (b"customer:a\\cb\n", ESCAPING_BUT_CR, b"a:b"),
        (b"customer: k \n", ESCAPING_ALL, b" k "),
        (b"customer: k \n", ESCAPING_NONE, b"k"),
        (b"customer:\n", ESCAPING_ALL, b""),
        (b"customer:x\n", 3, None),
        (b"Customer:7\n", ESCAPING_ALL, None),
        (b"customers:7\n", ESCAPING_ALL, None),
        (b"x-customer:7\n", ESCAPING_ALL, None),
        (b"a:customer:7\n", ESCAPING_NONE, None),
        (b"", ESCAPING_ALL, None),
    ],
)
def test_a_header_is_the_key(headers: bytes, escaping: int, expected: bytes | None) -> None:
    assert key("header:customer", message(headers, escaping=escaping)) == expected


def test_a_name_is_found_as_each_version_escapes_it() -> None:
    assert key("header:a:b\\", message(b"a\\cb\\\\:k\n")) == b"k"
    assert key("header:a:b\\", message(b"a\\cb\\\\:k\n", escaping=ESCAPING_BUT_CR)) == b"k"
    assert key("header:b\\", message(b"b\\:k\n", escaping=ESCAPING_NONE)) == b"k"
    assert key("header:a:b", message(b"a:b:k\n", escaping=ESCAPING_NONE)) is None, "there its name is a"
    assert key("header:ä", message("ä:é\n".encode())) == "é".encode()


def test_a_header_of_a_message_from_amqp_is_the_key() -> None:
    table = encode_table({"customer": 7, "partition-key": "k", "a:b": "x"})
    block, _ = stored_block(encode(Properties(table=table, message_id="m")))
    found = message(block)
    for name, value in (
        ("customer", b"7"),
        ("partition-key", b"k"),
        ("a:b", b"x"),
        ("amqp-message-id", b"m"),
        ("c", None),
    ):
        assert key(f"header:{name}", found) == value
        assert KeySource((f"header:{name}", "/c")).key_of(found) == value
        assert KeySource((f"header:{name}",)).finder(found) == value
    assert key("header:amqp-properties", found) is None


# ---- a key in the body ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pointer", "body", "expected"),
    [
        ("/customer/id", b'{"customer": {"id": "c7"}}', b"c7"),
        ("/customer/id", b'{"customer": {"id": 7}}', b"7"),
        ("/a/1/b", b'{"a": [1, {"b": "c"}]}', b"c"),
        ("/a/10", b'{"a": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}', b"10"),
        ("/a~1b/c~0d", b'{"a/b": {"c~d": true}}', b"true"),
        ("/~01", b'{"~1": "x"}', b"x"),
        ("/a", b'{"a": null}', b"null"),
        ("", b'"whole"', b"whole"),
        ("", b"7", b"7"),
        ("/", b'{"": "empty"}', b"empty"),
        ("/a", b'{"a": ""}', b""),
        ("/a", '{"a": "é"}'.encode(), "é".encode()),
        ("/a", b'{"a": "\\ud800"}', b"\xed\xa0\x80"),
        ("/a", b'{"a": 1.50}', b"1.5"),
        ("/a", b'{"a": Infinity}', b"Infinity"),
        ("/a", b'{"a": 1, "a": 2}', b"2"),
        ("/0", b"[5]", b"5"),
    ],
)
def test_what_stands_there_in_the_body_is_the_key(pointer: str, body: bytes, expected: bytes) -> None:
    assert key(pointer, message(b"customer:other\n", body)) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"7",
        b"{}",
        b'{"a": 1}',
        b'{"k": []}',
        b'{"k": {"a": 1}}',
        b'{"k": ["x", "y"]}',
        b'{"k": {"01": ["an array is no key"]}}',
        b'{"k": {"01": {"nor": "an object"}}}',
        b'{"k": "text"}',
        b'{"k": {"01": "x"}',
        b"[" * 10_000,
        b'{"k":' * 2_000,
        b"\xff\xfe",
        b'{"k": ' + b"9" * 5000 + b"}",
        b'{"k": {"01": "x"}, "pad": "' + b"x" * KEYED_BODY_MAX_BYTES + b'"}',
    ],
)
def test_a_body_without_it_has_no_key(body: bytes) -> None:
    assert key("/k/01", message(body=body)) is None


@pytest.mark.parametrize("pointer", ["/k/-1", "/k/-", "/k/+1", "/k/1 ", "/k/\u0661", "/k/" + "9" * 200, "/k/2", "/k/"])
def test_only_an_index_that_is_there_finds_something_in_an_array(pointer: str) -> None:
    assert key(pointer, message(body=b'{"k": ["a", "b"]}')) is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"[" * 10_000, b"x" * (KEYED_BODY_MAX_BYTES + 1)])
def test_the_whole_of_a_body_is_no_key_either_where_it_is_none(body: bytes) -> None:
    assert key("", message(body=body)) is None


def test_a_body_at_the_bound_has_a_key_and_one_byte_more_has_none() -> None:
    fits = b'{"k":"a","x":"' + b"x" * (KEYED_BODY_MAX_BYTES - 16) + b'"}'
    assert len(fits) == KEYED_BODY_MAX_BYTES
    assert key("/k", message(body=fits)) == b"a" and key("/k", message(body=fits + b" ")) is None


# ---- several --------------------------------------------------------------------------------------------------------

SEVERAL = ("header:a", "/b", "/c", "header:d")


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        (b"a:1\nd:4\n", b'{"b": 2, "c": 3}', b"1"),
        (b"d:4\n", b'{"b": 2, "c": 3}', b"2"),
        (b"d:4\n", b'{"b": [], "c": 3}', b"3"),
        (b"d:4\n", b"no json", b"4"),
        (b"a:\nd:4\n", b'{"b": 2}', b""),
        (b"", b'{"x": 1}', None),
    ],
)
def test_the_first_that_is_found_counts(headers: bytes, body: bytes, expected: bytes | None) -> None:
    assert key(SEVERAL, message(headers, body)) == expected


def test_a_body_is_read_once_and_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def loads(body: bytes) -> Any:
        read.append(body)
        return {"c": "k"}

    monkeypatch.setattr("json.loads", loads)
    assert key(SEVERAL, message(b"a:1\n", b"body")) == b"1" and read == []
    assert key(SEVERAL, message(b"", b"body")) == b"k" and read == [b"body"]


def test_nowhere_is_no_key() -> None:
    assert KeySource(()).key_of(message(b"a:b\n", b'"x"')) is None


def test_a_hostile_body_takes_no_time() -> None:
    source = KeySource(tuple(f"/{n}/k" for n in range(KEY_SOURCES_MAX)))
    bodies = [b"[" * KEYED_BODY_MAX_BYTES, b'{"a":' * 3000, (b"[" + b"{}," * 5000)[:KEYED_BODY_MAX_BYTES]]
    gc.disable()  # a collection of all that other tests have left takes most of a second
    try:
        began_s = time.process_time()
        for body in bodies:
            assert source.key_of(message(body=body)) is None
        assert time.process_time() - began_s < 0.1
    finally:
        gc.enable()


def test_a_hash_is_8_bytes_and_never_changes() -> None:
    """It is on the disk."""
    assert hash_of(b"customer 7").hex() == "1d2679353531630c"
    assert hash_of(b"").hex() == "e4a6a0577479b2b4"
    assert len(hash_of(b"x" * 10_000)) == 8
