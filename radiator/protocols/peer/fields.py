"""How each kind of value is encoded in a frame of a link, and which values are refused.

Each field has a largest size in bytes, so a frame that claims more is refused before any of it is held. A reader
returns checked values: lengths, counts, UTF-8, names, and header blocks that contain nothing for a client which a
client could not have sent itself.
"""

import ipaddress
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from radiator.model.addresses import ADDRESS_MAX_BYTES
from radiator.model.amqp_properties import check_stored
from radiator.model.carriage import block_bytes, carried_address, check_sizes
from radiator.model.errors import Violation, shown
from radiator.model.headers import check_block
from radiator.model.limits import (
    LINK_CHILDREN_MAX,
    LINK_REFUSAL_BYTES,
    LINK_SETTINGS_MAX,
    LINK_TEXTS_KEPT,
    NAME_MAX_BYTES,
    NODE_ADDRESS_MAX_BYTES,
    NODE_NAME_MAX_BYTES,
    NODE_NEIGHBOURS_MAX,
    NODE_PATTERNS_MAX,
    NODES_MAX,
    NONCE_BYTES,
    PATH_HOPS_MAX,
    PATTERN_WILDCARDS_MAX,
    PIECE_BYTES,
    REDELIVERIES_MAX,
    STORE_ID_MAX_BYTES,
    TOPIC_WORDS_MAX,
    Limits,
)
from radiator.model.message import Message
from radiator.model.patterns import NODE_NAME, is_pattern, name_mistake
from radiator.model.peer import Version

# ---- reading --------------------------------------------------------------------------------------------------------

_NUMBER = struct.Struct(">Q")
_SHORT = struct.Struct(">H")
_LONG = struct.Struct(">I")
_MESSAGE_HEAD = struct.Struct(">BQQHII")  # escaping, accepted, expires, bytes of destination, header block, body

NUMBER_MAX = 2**63 - 1


class FieldReader:
    """Reads the fields of one frame in order, from `data[at:end]`. Raises Violation if the frame ends within a
    field.
    """

    __slots__ = ("at", "data", "end", "limits")

    def __init__(self, data: bytes, at: int, end: int, limits: Limits) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.limits = limits

    def skip(self, size: int) -> int:
        """Skips `size` bytes, and returns where they begin."""
        at = self.at
        if at + size > self.end:
            raise Violation(f"A frame ends within a field: {size} bytes should follow, and {self.end - at} do.")
        self.at = at + size
        return at

    def short_text(self) -> bytes:
        """Reads two bytes of length, then as many bytes."""
        size: int = _SHORT.unpack_from(self.data, self.skip(2))[0]
        at = self.skip(size)
        return self.data[at : at + size]


@dataclass(slots=True, frozen=True)
class FieldCodec:
    """How one kind of value is encoded. most_bytes: the most bytes that it takes under these limits."""

    read: Callable[[FieldReader], Any]
    write: Callable[[Any], bytes]
    most_bytes: Callable[[Limits], int]


def _number(most: int = NUMBER_MAX) -> FieldCodec:
    def read(reader: FieldReader) -> int:
        value: int = _NUMBER.unpack_from(reader.data, reader.skip(8))[0]
        if value > most:
            raise Violation(f"The number {value} is too large: at most {most} is allowed.")
        return value

    return FieldCodec(read, _NUMBER.pack, lambda limits: 8)


def _read_flag(reader: FieldReader) -> bool:
    value = reader.data[reader.skip(1)]
    if value > 1:
        raise Violation(f"A flag is {value}: it must be 0 or 1.")
    return value == 1


def _text(checked: Callable[[bytes], str], most: int) -> FieldCodec:
    """Returns the codec of a text of at most `most` bytes. checked: converts the bytes or raises Violation; it must
    itself check that they are at most `most`.
    """
    return FieldCodec(lambda reader: checked(reader.short_text()), _write_text, lambda limits: 2 + most)


def _write_text(text: str) -> bytes:
    raw = text.encode()
    return _SHORT.pack(len(raw)) + raw


def _list(item: FieldCodec, most: Callable[[Limits], int], least: int = 0) -> FieldCodec:
    def read(reader: FieldReader) -> list[Any]:
        count: int = _LONG.unpack_from(reader.data, reader.skip(4))[0]
        if count > most(reader.limits):
            raise Violation(f"A list has {count} items: at most {most(reader.limits)} are taken here.")
        if count < least:
            raise Violation(f"A list has {count} items: it must have at least {least}.")
        return [item.read(reader) for _ in range(count)]

    def write(items: list[Any]) -> bytes:
        return _LONG.pack(len(items)) + b"".join([item.write(one) for one in items])

    return FieldCodec(read, write, lambda limits: 4 + most(limits) * item.most_bytes(limits))


# ---- texts ----------------------------------------------------------------------------------------------------------

_STORE_ID = re.compile(rb"[A-Za-z0-9]++")
_ADDRESS = re.compile(rb"peers?://(?:[A-Za-z0-9._-]++|\[([0-9A-Fa-f:.]++)\]):([0-9]{1,5})")
_CODE = re.compile(rb"[a-z0-9-]{1,64}")
_MESSAGE_ID = re.compile(rb"[A-Za-z0-9]++-[0-9]{1,20}-[0-9]{1,20}t")  # as Topics.new_id makes them
_MESSAGE_ID_MAX_BYTES = STORE_ID_MAX_BYTES + 43
_SETTING_NAME_BYTES = 64


@lru_cache(LINK_TEXTS_KEPT)
def _node(raw: bytes) -> str:
    if NODE_NAME.fullmatch(raw) is None:
        raise Violation(
            f"{shown(raw)} is not a valid name for a node: it has 1 to {NODE_NAME_MAX_BYTES} of A-Z a-z 0-9 . _ -, and "
            "does not begin with a dot."
        )
    return raw.decode()


def _name(raw: bytes) -> str:
    """Checks the NAME of a queue, fanout or topic."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise Violation(f"The name {shown(raw)} is not UTF-8.") from None
    if mistake := name_mistake(name):
        raise Violation(f"{shown(raw)} is a name which {mistake}.")
    return name


def _name_or_none(raw: bytes) -> str:
    return _name(raw) if raw else ""


def _topic(raw: bytes) -> str:
    name = _pattern(raw)
    if is_pattern(name):
        raise Violation(f"{shown(raw)} is a pattern, where a topic must stand.")
    return name


def _pattern(raw: bytes) -> str:
    name = _name(raw)
    words = name.split(".")
    wildcards = words.count("*") + words.count("#")
    if len(words) > TOPIC_WORDS_MAX or wildcards > PATTERN_WILDCARDS_MAX:
        raise Violation(
            f"{shown(raw)} has {len(words)} words and {wildcards} wildcards: at most {TOPIC_WORDS_MAX} and "
            f"{PATTERN_WILDCARDS_MAX} are allowed."
        )
    return name


@lru_cache(LINK_TEXTS_KEPT)
def _check_topic(address: str) -> None:
    """Raises Violation for a topic to which no client can send."""
    _topic(address.removeprefix("/topic/").encode())


def _working_destination(raw: bytes) -> str:
    """Checks the destination that a message is handed over to."""
    destination = carried_address(raw)
    if not destination.startswith(("/queue/", "/fanout/", "/topic/")):
        raise Violation(f"{shown(raw)} takes no message of another node: only queues, fanouts and topics do.")
    if destination.startswith("/topic/"):
        _check_topic(destination)
    return destination


def _matching(pattern: re.Pattern[bytes], most: int, what: str) -> Callable[[bytes], str]:
    def checked(raw: bytes) -> str:
        if len(raw) > most or pattern.fullmatch(raw) is None:
            raise Violation(f"{shown(raw)} is not {what}.")
        return raw.decode()

    return checked


def _address(raw: bytes) -> str:
    """Checks an address at which a node can be dialled; "": there is none."""
    if not raw:
        return ""
    found = _ADDRESS.fullmatch(raw) if len(raw) <= NODE_ADDRESS_MAX_BYTES else None
    try:
        if found is None or not 1 <= int(found[2]) <= 65_535:
            raise ValueError
        if found[1]:
            ipaddress.IPv6Address(found[1].decode())
    except ValueError:
        raise Violation(
            f"{shown(raw)} is not an address of a node: it is peer://HOST:PORT, or peers://HOST:PORT."
        ) from None
    return raw.decode()


def _setting(raw: bytes) -> str:
    """Checks a setting of a queue, `NAME=VALUE`. Another version of Radiator may have settings that this one lacks."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    is_plain = not any(c < " " or "\x7f" <= c < "\xa0" for c in text)  # it is shown to operators
    if "=" not in text or len(raw) > NAME_MAX_BYTES + _SETTING_NAME_BYTES or not is_plain:
        raise Violation(f"{shown(raw)} is not a setting of a queue: it is NAME=VALUE.")
    return text


def _sentence(raw: bytes) -> str:
    """Returns a sentence for a person or a log: without control characters, cut at LINK_REFUSAL_BYTES."""
    text = raw[:LINK_REFUSAL_BYTES].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text)


def _write_sentence(sentence: str) -> bytes:
    raw = sentence.encode()[:LINK_REFUSAL_BYTES]
    return _SHORT.pack(len(raw)) + raw


def _octets(pattern: re.Pattern[bytes], most: int, what: str) -> FieldCodec:
    def read(reader: FieldReader) -> bytes:
        raw = reader.short_text()
        if len(raw) > most or pattern.fullmatch(raw) is None:
            raise Violation(f"{shown(raw)} is not {what}.")
        return raw

    return FieldCodec(read, lambda raw: _SHORT.pack(len(raw)) + raw, lambda limits: 2 + most)


# ---- messages -------------------------------------------------------------------------------------------------------


def _read_message(reader: FieldReader) -> Message:
    data, limits = reader.data, reader.limits
    escaping, accepted_ms, expires_ms, destination_bytes, headers_bytes, body_bytes = _MESSAGE_HEAD.unpack_from(
        data, reader.skip(_MESSAGE_HEAD.size)
    )
    check_sizes(headers_bytes, body_bytes, accepted_ms, expires_ms, limits)
    destination_at = reader.skip(destination_bytes + headers_bytes + body_bytes)
    headers_at = destination_at + destination_bytes
    body_at = headers_at + headers_bytes
    headers = data[headers_at:body_at]
    check_block(headers, escaping, limits)
    check_stored(headers, escaping)
    return Message(
        carried_address(data[destination_at:headers_at]),
        headers,
        escaping,
        data[body_at : body_at + body_bytes],
        accepted_ms,
        expires_ms,
    )


def _write_message(message: Message) -> bytes:
    destination = message.destination.encode()
    headers, body = message.headers, message.body
    head = _MESSAGE_HEAD.pack(
        message.escaping, message.accepted_ms, message.expires_ms, len(destination), len(headers), len(body)
    )
    return b"".join((head, destination, headers, body))


def _read_published(reader: FieldReader) -> Message:
    message = _read_message(reader)
    if not message.destination.startswith("/topic/"):
        raise Violation(f"{shown(message.destination.encode())} cannot be published: only topics can.")
    _check_topic(message.destination)
    return message


def _read_answer(reader: FieldReader) -> Message:
    message = _read_message(reader)
    if not message.destination.startswith("/reply-queue/"):
        named = shown(message.destination.encode())
        raise Violation(f"{named} is not the address of who has asked: /reply-queue/ID is.")
    return message


def _message_bytes(limits: Limits) -> int:
    return _MESSAGE_HEAD.size + ADDRESS_MAX_BYTES + block_bytes(limits) + limits.max_frame_bytes


_WORKING_MAX_BYTES = len("/fanout/") + NAME_MAX_BYTES


# ---- fields ---------------------------------------------------------------------------------------------------------

NUMBER = _number()
REDELIVERIES = _number(REDELIVERIES_MAX)
FLAG = FieldCodec(_read_flag, lambda flag: b"\1" if flag else b"\0", lambda limits: 1)
NODE = _text(_node, NODE_NAME_MAX_BYTES)
COUNTS = _list(_number(LINK_CHILDREN_MAX), lambda limits: NODE_PATTERNS_MAX)
PIECE = FieldCodec(FieldReader.short_text, lambda raw: _SHORT.pack(len(raw)) + raw, lambda limits: 2 + PIECE_BYTES)
CHILDREN = _list(_number(LINK_CHILDREN_MAX), lambda limits: limits.max_destinations)
NAME = _text(_name, NAME_MAX_BYTES)
NAME_OR_NONE = _text(_name_or_none, NAME_MAX_BYTES)
PATTERN = _text(_pattern, NAME_MAX_BYTES)
DESTINATION = _text(_working_destination, _WORKING_MAX_BYTES)
STORE_ID = _text(_matching(_STORE_ID, STORE_ID_MAX_BYTES, "the id of a store"), STORE_ID_MAX_BYTES)
ADDRESS = _text(_address, NODE_ADDRESS_MAX_BYTES)
CODE = _text(_matching(_CODE, 64, "the code of a refusal"), 64)
SENTENCE = FieldCodec(
    lambda reader: _sentence(reader.short_text()), _write_sentence, lambda limits: 2 + LINK_REFUSAL_BYTES
)
NONCE = _octets(re.compile(rb".{%d}" % NONCE_BYTES, re.DOTALL), NONCE_BYTES, f"a nonce: it has {NONCE_BYTES} bytes")
MAC = _octets(re.compile(rb".{32}", re.DOTALL), 32, "a proof: it has 32 bytes")
MESSAGE_ID = _octets(_MESSAGE_ID, _MESSAGE_ID_MAX_BYTES, "the id of a message")
MESSAGE = FieldCodec(_read_message, _write_message, _message_bytes)
ANSWER = FieldCodec(_read_answer, _write_message, _message_bytes)
PUBLISHED = FieldCodec(_read_published, _write_message, _message_bytes)
SETTINGS = _list(_text(_setting, NAME_MAX_BYTES + _SETTING_NAME_BYTES), lambda limits: LINK_SETTINGS_MAX)
NAMES = _list(NAME, lambda limits: limits.max_destinations)
PATH = _list(NODE, lambda limits: PATH_HOPS_MAX, least=1)
NEIGHBOURS = _list(NODE, lambda limits: NODE_NEIGHBOURS_MAX)
PATTERNS = _list(PATTERN, lambda limits: NODE_PATTERNS_MAX)
VERSION = FieldCodec(
    lambda reader: Version(NODE.read(reader), NUMBER.read(reader), NUMBER.read(reader)),
    lambda version: NODE.write(version.origin) + _NUMBER.pack(version.incarnation) + _NUMBER.pack(version.number),
    lambda limits: NODE.most_bytes(limits) + 16,
)
VERSIONS = _list(VERSION, lambda limits: NODES_MAX)
