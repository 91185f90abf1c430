"""The properties of an AMQP message: as the wire has them, in the header block that is stored, and as headers.

They are stored as the bytes that came, in the first line of the block, so that an AMQP consumer gets these very bytes.
After it come the lines that the broker reads itself, and those that it adds. Whatever shows headers shows them
`expanded`.
"""

import json
import re
import struct
from binascii import Error, a2b_base64, b2a_base64
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from radiator.model.amqp_limits import AMQP_PROPERTIES_KEPT, AMQP_PROPERTIES_KEPT_BYTES
from radiator.model.amqp_tables import TABLE_NAME_BYTES, LetteredInt, Value, check_table, decode_table, encode_table
from radiator.model.errors import Violation, count_text, shown
from radiator.model.headers import (
    ADDED,
    AMQP_PROPERTIES,
    CONTENT_TYPE,
    CORRELATION_ID,
    DEAD_LETTER_REASON,
    ESCAPING_ALL,
    PARTITION_KEY,
    PRIORITY,
    REPLY_TO,
    Field,
    escape,
    pairs,
)
from radiator.model.limits import ID_MAX_BYTES, NUMBER_DIGITS_MAX
from radiator.model.traces import TRACEPARENT

BEGINNING = AMQP_PROPERTIES.name + b":"
"""What a block of a message from AMQP begins with."""
DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
_REPLY_QUEUE, _QUEUE = "/reply-queue/", "/queue/"
"""A reply_to that begins so is not an address: the broker puts that of the client's own queue in its place."""
X_DEATH = Field(b"x-death")

_TEXT, _OCTET, _TIME, _HEADERS = range(4)
_LIST: tuple[tuple[str, int], ...] = (
    ("content_type", _TEXT),
    ("content_encoding", _TEXT),
    ("headers", _HEADERS),
    ("delivery_mode", _OCTET),
    ("priority", _OCTET),
    ("correlation_id", _TEXT),
    ("reply_to", _TEXT),
    ("expiration", _TEXT),
    ("message_id", _TEXT),
    ("timestamp", _TIME),
    ("type", _TEXT),
    ("user_id", _TEXT),
    ("app_id", _TEXT),
    ("cluster_id", _TEXT),
)
"""In the order of the wire: the first has the highest of sixteen bits."""
_HAS_TABLE = 0x20  # in the first byte of the flags
_NAMES = {
    "message_id": b"amqp-message-id",
    "timestamp": b"amqp-timestamp",
    **{
        name: name.replace("_", "-").encode() for name, _ in _LIST if name not in ("headers", "message_id", "timestamp")
    },
}
"""The header of each property."""
_TAKEN = frozenset(
    (
        AMQP_PROPERTIES.name, b"ack", b"content-length", b"destination", b"end", b"message-id", b"offset",
        b"on-refusal", b"partition", b"persistent", b"receipt", b"redelivered", b"skipped", b"subscription",
        b"timestamp", b"transaction", *(field.name for field in ADDED), *_NAMES.values(),
    )
)  # fmt: skip
"""Headers that a MESSAGE, or a property, has itself: a field of the table with such a name is shown with amqp- before
it.
"""
_ADDED = re.compile(
    b"^(?:" + b"|".join([field.name for field in (*ADDED, X_DEATH, REPLY_TO)]) + b"):.*\n", re.MULTILINE
)
_ADDED_NAMES = frozenset((*(field.name for field in ADDED), X_DEATH.name))
_REPLY_TO_LINE = REPLY_TO.name + b":"
_PERSISTENT = b"persistent"
_PROPERTIES = {header: name for name, header in _NAMES.items() if name not in ("delivery_mode", "user_id")}
"""The property of each header of a message from elsewhere. A user_id says who has published, which only AMQP checks."""
_FLAGS, _SIZE, _SECONDS = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")
_new = object.__new__


@dataclass
class Properties:
    """What a content header says. None: it does not. table: the headers as the wire has them, behind their length;
    `headers` decodes them.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    table: bytes | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    @property
    def headers(self) -> dict[str, Value]:
        """The table as a dictionary of its own."""
        return {} if self.table is None else decode_table(self.table, 4, len(self.table))


# ---- the wire -------------------------------------------------------------------------------------------------------


def parse(data: bytes) -> Properties:
    """The properties in flags and list. Violation for whatever is broken or left over; the table is checked, too."""
    if len(data) < 2:
        raise Violation(f"The properties of a message have {count_text(len(data), 'byte')}: their flags alone are two.")
    (flags,) = _FLAGS.unpack_from(data)
    if flags & 3:
        raise Violation(
            f"The property flags {flags:#06x} have a bit that AMQP 0-9-1 does not use, or go on: neither may be."
        )
    made = _new(Properties)  # a dataclass has its defaults in its class: what is absent costs nothing
    values = made.__dict__
    at = 2
    name = ""
    try:
        for name, kind in _present(flags):
            if kind == _TEXT:
                start = at + 1
                at = start + data[at]
                values[name] = data[start:at].decode()
            elif kind == _OCTET:
                values[name] = data[at]
                at += 1
            elif kind == _TIME:
                (values[name],) = _SECONDS.unpack_from(data, at)
                at += 8
            else:
                start = at
                at = start + 4 + _SIZE.unpack_from(data, start)[0]
                if at > len(data):
                    raise IndexError
                check_table(data, start + 4, at)
                values["table"] = data[start:at]
        if at > len(data):
            raise IndexError
    except (IndexError, struct.error):
        raise Violation(f"The properties of a message end within {_header(name)}.") from None
    except UnicodeDecodeError:
        raise Violation(f"The property {_header(name)} is not UTF-8: {shown(data[start:at])}.") from None
    if at != len(data):
        raise Violation(f"The properties of a message have bytes after the last: {shown(data[at:])}.")
    return made


def encode(properties: Properties) -> bytes:
    """Flags and list. Violation for a text of more than 255 bytes."""
    flags, parts = 0, [b""]
    for nth, (name, kind) in enumerate(_LIST):
        value: Any = properties.table if kind == _HEADERS else getattr(properties, name)
        if value is None:
            continue
        flags |= 1 << 15 - nth
        if kind == _TEXT:
            raw = value.encode()
            if len(raw) > 255:
                raise Violation(f"The property {_header(name)} has {len(raw)} bytes: at most 255 fit.")
            value = bytes((len(raw),)) + raw
        elif kind == _OCTET:
            value = bytes((value,))
        elif kind == _TIME:
            value = _SECONDS.pack(value)
        parts.append(value)
    parts[0] = _FLAGS.pack(flags)
    return b"".join(parts)


@lru_cache(256)
def _present(flags: int) -> tuple[tuple[str, int], ...]:
    return tuple(one for nth, one in enumerate(_LIST) if flags & 1 << 15 - nth)


def _header(name: str) -> str:
    return name.replace("_", "-")


# ---- the stored block -----------------------------------------------------------------------------------------------


def stored_block(data: bytes) -> tuple[bytes, Properties]:
    """The header block of a message with these properties, escaped as ESCAPING_ALL says, and what they are, which may
    be changed where they have a table. Violation as `parse` has it.
    """
    is_kept = 2 <= len(data) <= AMQP_PROPERTIES_KEPT_BYTES and not data[0] & _HAS_TABLE
    return _kept_block(data) if is_kept else _stored_block(data)


def _stored_block(data: bytes) -> tuple[bytes, Properties]:
    properties = parse(data)
    parts = [BEGINNING, b2a_base64(data)]
    for field, value in (
        (CONTENT_TYPE, properties.content_type),
        (CORRELATION_ID, properties.correlation_id),
        (REPLY_TO, reply_address(properties.reply_to)),
    ):
        if value is not None and "\0" not in value and not (field is REPLY_TO and _is_direct(value)):
            parts.append(field.line(value.encode(), ESCAPING_ALL))
    if properties.priority is not None:
        parts.append(PRIORITY.line(b"%d" % properties.priority, ESCAPING_ALL))
    table = properties.table
    if table is not None and (PARTITION_KEY.name in table or TRACEPARENT.name in table):
        headers = properties.headers
        for field in (PARTITION_KEY, TRACEPARENT):
            value = headers.get(field.name.decode())
            if isinstance(value, str) and "\0" not in value:
                raw = value.encode()
                if len(raw) > ID_MAX_BYTES:
                    name = field.name.decode()
                    raise Violation(
                        f"The header {name} of a message has {len(raw)} bytes: at most {ID_MAX_BYTES} may be."
                    )
                parts.append(field.line(raw, ESCAPING_ALL))
    return b"".join(parts), properties


_kept_block = lru_cache(AMQP_PROPERTIES_KEPT)(_stored_block)


def check_stored(block: bytes, escaping: int) -> None:
    """Raises Violation for a block from another node that begins as one of AMQP and has no properties there."""
    if block.startswith(BEGINNING) and (escaping != ESCAPING_ALL or _carried(block) is None):
        raise Violation(f"The header block {shown(block)} of a message has no properties of AMQP in its first line.")


def expanded(block: bytes, escaping: int) -> tuple[bytes, int]:
    """The block as everybody but an AMQP consumer sees it, and how that is escaped: each property, and each field of
    the table, as a header. Another block is returned as it is.
    """
    if not block.startswith(BEGINNING):
        return block, escaping
    properties = _carried(block)
    if properties is None:
        return block, escaping
    added = _ADDED.findall(block, block.index(b"\n"))
    own = {line.partition(b":")[0] for line in added}
    if DEAD_LETTER_REASON.name in own:
        properties.expiration = None
    lines: list[tuple[bytes, bytes]] = []
    for name, header in _NAMES.items():
        value = getattr(properties, name)
        if name == "delivery_mode":
            if value == 2:
                lines.append((b"persistent", b"true"))
        elif value is not None and not (name == "reply_to" and (REPLY_TO.name in own or _is_direct(value))):
            lines.append((header, str(reply_address(value) if name == "reply_to" else value).encode()))
    for text, value in properties.headers.items():
        raw = text.encode()
        if raw and raw not in own:
            lines.append((b"amqp-" + raw if raw in _TAKEN else raw, _text(value).encode()))
    shown_ones = [b"%b:%b\n" % (_escaped(name), _escaped(value)) for name, value in lines if 0 not in name + value]
    return b"".join((*shown_ones, *added)), ESCAPING_ALL


def expanded_pairs(block: bytes, escaping: int) -> list[tuple[bytes, bytes]]:
    """All names and values of the block, unescaped, in order, as `expanded` shows them."""
    return pairs(*expanded(block, escaping))


def properties_of(block: bytes, escaping: int) -> bytes:
    """The property flags and list that an AMQP consumer gets: those that came, and with what the broker has added among
    their headers. A message from elsewhere has them made of its headers.
    """
    return _kept_properties(block, escaping) if len(block) <= _KEPT_BLOCK_BYTES else _properties_of(block, escaping)


def _properties_of(block: bytes, escaping: int) -> bytes:
    if not block.startswith(BEGINNING):
        return encode(_of_headers(pairs(block, escaping))) if block else b"\0\0"
    end = block.index(b"\n")
    added = _ADDED.findall(block, end)
    if not added or (len(added) == 1 and added[0].startswith(_REPLY_TO_LINE)):
        data = _data(block)
        # the broker adds a reply-to only in the place of this one
        if data is not None and (not added or DIRECT_REPLY_TO.encode() not in data):
            return data
    properties = _carried(block)
    if properties is None:
        return encode(_of_headers(pairs(block, escaping)))
    _merge(properties, pairs(b"".join(added), ESCAPING_ALL))
    return encode(properties)


_kept_properties = lru_cache(AMQP_PROPERTIES_KEPT)(_properties_of)
_KEPT_BLOCK_BYTES = len(BEGINNING + b2a_base64(bytes(AMQP_PROPERTIES_KEPT_BYTES)))

# ---- what stands in a block -----------------------------------------------------------------------------------------


def _data(block: bytes) -> bytes | None:
    """The flags and list in the first line; None: it has none."""
    try:
        return a2b_base64(block[len(BEGINNING) : block.index(b"\n")], strict_mode=True)
    except (Error, ValueError):
        return None


def _carried(block: bytes) -> Properties | None:
    """The properties in the first line; None: it has none, since no session wrote it."""
    data = _data(block)
    try:
        return None if data is None else parse(data)
    except Violation:
        return None


def _is_direct(reply_to: str) -> bool:
    return reply_to.startswith(DIRECT_REPLY_TO)


def _escaped(text: bytes) -> bytes:
    return escape(text, ESCAPING_ALL)


# ---- values as headers ----------------------------------------------------------------------------------------------


def _text(value: Value) -> str:
    """A value as a header has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, default=_in_json, ensure_ascii=False, separators=(",", ":"))
    return _in_json(value) if isinstance(value, bytes) else str(value)


def _in_json(value: bytes | Decimal) -> str:
    """The text of what JSON cannot express."""
    return b2a_base64(value, newline=False).decode() if isinstance(value, bytes) else str(value)


# ---- headers as values ----------------------------------------------------------------------------------------------


def _of_headers(found: list[tuple[bytes, bytes]]) -> Properties:
    """The properties of a message whose sender does not speak AMQP."""
    properties = Properties()
    headers: dict[str, Value] = {}
    added: list[tuple[bytes, bytes]] = []
    for name, raw in found:
        value = raw.decode("utf-8", "replace")
        if name in _ADDED_NAMES:
            added.append((name, raw))
        elif name == _PERSISTENT:
            properties.delivery_mode = 2 if value == "true" else 1
        elif not _set(properties, _PROPERTIES.get(name, ""), raw, value):
            text = name.decode("utf-8", "replace")
            if len(text.encode()) <= TABLE_NAME_BYTES:  # what is not UTF-8 is longer by now
                headers.setdefault(text, value)
    if headers:
        properties.table = encode_table(headers)
    if added:
        _merge(properties, added)
    return properties


def _set(properties: Properties, name: str, raw: bytes, value: str) -> bool:
    """Sets the property of that name, unless it has a value. Returns whether it can have this one."""
    new: int | str = value
    if name in ("priority", "timestamp"):
        most = 255 if name == "priority" else 2**63 - 1
        if not (raw.isdigit() and len(raw) <= NUMBER_DIGITS_MAX and int(raw) <= most):
            return False
        new = int(raw)
    elif name == "reply_to":
        new = reply_key(value)  # which may be longer
    if not name or (isinstance(new, str) and len(new.encode()) > 255):
        return False
    if getattr(properties, name) is None:
        setattr(properties, name, new)
    return True


def reply_key(address: str) -> str:
    """The routing key by which an AMQP client answers to that address, on the default exchange: the name of a queue, or
    of what stands for the queue of replies of a connection (RabbitMQ, "Direct Reply-to").
    """
    if address.startswith(_REPLY_QUEUE):
        return f"{DIRECT_REPLY_TO}.{address.removeprefix(_REPLY_QUEUE)}"
    return address.removeprefix(_QUEUE)


def reply_address(key: str | None) -> str | None:
    """Returns the address by which a client of another protocol answers, for AMQP's `reply_to`."""
    return key if key is None or key.startswith("/") or _is_direct(key) else _QUEUE + key


def _merge(properties: Properties, added: list[tuple[bytes, bytes]]) -> None:
    """Puts what the broker has added among the headers."""
    headers, expiration = properties.headers, properties.expiration
    for name, raw in added:
        value = raw.decode("utf-8", "replace")
        if name == REPLY_TO.name:
            key = reply_key(value)
            properties.reply_to = key if len(key.encode()) <= 255 else properties.reply_to
        elif name == X_DEATH.name:
            _with_deaths(headers, value, expiration)
        else:
            headers[name.decode()] = value
        if name == DEAD_LETTER_REASON.name:
            properties.expiration = None
    if headers:
        properties.table = encode_table(headers)


def _with_deaths(headers: dict[str, Value], text: str, expiration: str | None) -> None:
    """Adds what RabbitMQ's clients know of dead letters. text: JSON, the newest death first."""
    try:
        deaths = [
            {
                "count": LetteredInt(death["count"], "l"),
                "reason": str(death["reason"]),
                "queue": str(death["queue"]),
                "time": LetteredInt(death["time"], "T"),
                "exchange": str(death["exchange"]),
                "routing-keys": [str(key) for key in death["routing-keys"]],
            }
            for death in json.loads(text)
        ]
        newest, oldest = deaths[0], deaths[-1]
        encode_table({"x-death": deaths})
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError, Violation):
        return  # no broker writes it so
    if expiration is not None:
        oldest["original-expiration"] = expiration
    headers["x-death"] = deaths
    for kind, death in (("first", oldest), ("last", newest)):
        for name in ("reason", "queue", "exchange"):
            headers[f"x-{kind}-death-{name}"] = death[name]
