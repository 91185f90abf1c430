"""The one codec of a header block: the encoding in which headers are stored, handed to other nodes, and kept in memory.

A block is bytes: a line `name:value` with its LF for each header, in order; docs/FORMAT.md describes it. The
application's headers are in it as they were sent and pass through untouched. What the broker itself sets or reads of a
stored message is a line too, so that it is stored with it. Code outside the protocols reads and writes them by their
Field here: it knows no header names, and splits no lines.

*escaping* says which characters are escaped within names and values.
"""

import re
from collections.abc import Iterable

from radiator.model.errors import Violation, shown
from radiator.model.limits import (
    DEATHS_BYTES,
    LINK_ADDED_LINE_BYTES,
    LINK_ADDED_LINES,
    LINK_HEADERS_GROWTH,
    PATH_HOPS_MAX,
    Limits,
)
from radiator.model.patterns import NODE_NAME

# Which characters are escaped. The numbers are on the disk and on links; they are those of the minor versions of STOMP
# whose clients write so. 3 is reserved (docs/FORMAT.md).
ESCAPING_NONE = 0  # none
ESCAPING_BUT_CR = 1  # \\ \n \c
ESCAPING_ALL = 2  # \\ \n \c \r


class Field:
    """A header that the broker sets or reads: its name has no character that is ever escaped."""

    __slots__ = ("_first", "_later", "name")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self._first = name + b":"
        self._later = b"\n" + self._first

    def value(self, block: bytes, escaping: int) -> bytes | None:
        """Its value, unescaped, the first of several; None: the block has none."""
        at = block.find(self._first)
        if at < 0:  # of most fields: one search and no more
            return None
        start = at + len(self._first)
        if at:
            start = block.find(self._later) + len(self._later)
            if start < len(self._later):
                return None
        value = block[start : block.index(b"\n", start)]
        if escaping == ESCAPING_NONE:
            return value.strip(b" ")  # clients of STOMP 1.0 pad their values
        return unescape(value, escaping) if b"\\" in value else value

    def line(self, value: bytes, escaping: int) -> bytes:
        """One line of a block."""
        return b"%b:%b\n" % (self.name, escape(value, escaping))


# What a message that came as AMQP begins with (amqp_properties.py); no client can send it.
AMQP_PROPERTIES = Field(b"amqp-properties")
# What the application sends to the broker, and to the message's consumers.
CONTENT_TYPE = Field(b"content-type")
CORRELATION_ID = Field(b"correlation-id")
EXPIRATION = Field(b"expiration")
EXPIRES = Field(b"expires")
PARTITION_KEY = Field(b"partition-key")
PRIORITY = Field(b"priority")
REPLY_TO = Field(b"reply-to")
# What brokers add to a stored block, and no client can send.
DEAD_LETTER_REASON = Field(b"dead-letter-reason")
FANOUT_MESSAGE_ID = Field(b"fanout-message-id")
NODE_PATH = Field(b"node-path")
ORIGINAL_DESTINATION = Field(b"original-destination")
ORIGINAL_MESSAGE_ID = Field(b"original-message-id")
REDELIVERY_COUNT = Field(b"redelivery-count")
X_DEATH = Field(b"x-death")
ADDED = (
    DEAD_LETTER_REASON,
    FANOUT_MESSAGE_ID,
    NODE_PATH,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
    REDELIVERY_COUNT,
    X_DEATH,
)
assert len(ADDED) == LINK_ADDED_LINES, "limits.py counts them"

JSON = b"application/json"


# ---- what stands in a block -----------------------------------------------------------------------------------------


def pairs(block: bytes, escaping: int) -> list[tuple[bytes, bytes]]:
    """All names and values, unescaped, in order."""
    found = []
    for line in block.split(b"\n")[:-1]:
        name, _, value = line.partition(b":")
        if b"\\" in line:
            name, value = unescape(name, escaping), unescape(value, escaping)
        found.append((name, value))
    return found


def block_of(escaping: int, *fields: tuple[Field, bytes]) -> bytes:
    """A block of those fields, or the lines to append to one."""
    return b"".join([field.line(value, escaping) for field, value in fields])


def without(block: bytes, fields: Iterable[Field]) -> bytes:
    """The block without the lines of those fields."""
    names = {field.name for field in fields}
    lines = block.split(b"\n")[:-1]
    kept = [line for line in lines if line.partition(b":")[0] not in names]
    return block if len(kept) == len(lines) else b"".join([line + b"\n" for line in kept])


def node_path(block: bytes) -> list[str]:
    """The names of the nodes that the message has been on, as brokers wrote them."""
    value = NODE_PATH.value(block, ESCAPING_ALL)
    return [] if value is None else value.decode("utf-8", "replace").split(",")


def with_node_path(block: bytes, nodes: list[str]) -> bytes:
    """The block with those instead."""
    # a node's name has no character that is ever escaped
    return without(block, (NODE_PATH,)) + block_of(ESCAPING_ALL, (NODE_PATH, ",".join(nodes).encode()))


# ---- escaping -------------------------------------------------------------------------------------------------------

_ESCAPES_1_1 = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b":", b"\\c"))
_ESCAPES = {ESCAPING_NONE: (), ESCAPING_BUT_CR: _ESCAPES_1_1, ESCAPING_ALL: (*_ESCAPES_1_1, (b"\r", b"\\r"))}


def escape(value: bytes, escaping: int) -> bytes:
    """`value` as a block has it. ESCAPING_NONE cannot express a line feed: the caller leaves such a header out."""
    for plain, escaped in _ESCAPES[escaping]:
        value = value.replace(plain, escaped)
    return value


def unescape(value: bytes, escaping: int) -> bytes:
    """What `escape` undoes; an undefined escape stays as it is (a session has refused it before)."""
    if b"\\" not in value or escaping == ESCAPING_NONE:
        return value
    return undone(value, escaping).replace(STANDS_FOR_BACKSLASH, b"\\")


# No text in UTF-8 has this byte, and all headers are that: sessions and links refuse others.
STANDS_FOR_BACKSLASH = b"\xff"


def undone(value: bytes, escaping: int) -> bytes:
    """`value` without its escapes, where STANDS_FOR_BACKSLASH is each escaped backslash: one that is left begins an
    undefined escape. The whole value is replaced a few times, since it may have 30,000 escapes: one by one they took
    8 ms, in which nobody else was served.
    """
    (_, escaped_backslash), *others = _ESCAPES[escaping]
    value = value.replace(escaped_backslash, STANDS_FOR_BACKSLASH)
    for plain, escaped in others:
        value = value.replace(escaped, plain)
    return value


# ---- what another node may hand over --------------------------------------------------------------------------------

# What MESSAGE sets itself, only once, or what belongs to another hop: never stored, so none may come this way.
_HOP = rb"(?!(?:content-length|message-id|subscription|ack|destination|timestamp|redelivered|receipt|transaction):)"
# A line is what its version's parser makes of it: another colon is escaped where that is possible, so that every reader
# splits a line in the same place. An escape that the version does not define could not be sent on. No two parts of a
# pattern can begin with the same byte, so it takes linear time; a group is never possessive, which CPython before
# 3.11.5 gets wrong.
_LINES = {
    ESCAPING_NONE: rb"[^\n\0:]++:[^\n\0]*+\n",
    ESCAPING_BUT_CR: rb"(?:[^\n\0:\\]++|\\[\\nc])+:(?:[^\n\0:\\]++|\\[\\nc])*\n",
    ESCAPING_ALL: rb"(?:[^\r\n\0:\\]++|\\[\\ncr])+:(?:[^\r\n\0:\\]++|\\[\\ncr])*\n",
}
_BLOCKS = {escaping: re.compile(rb"(?:" + _HOP + line + rb")*") for escaping, line in _LINES.items()}
_ADDED = re.compile(rb"^(" + b"|".join(field.name for field in ADDED) + rb"):.*\n", re.MULTILINE)
_PATH_LINE = re.compile(rb"node-path:%b(?:,%b){0,%d}\n" % (NODE_NAME.pattern, NODE_NAME.pattern, PATH_HOPS_MAX - 1))


def check_block(block: bytes, escaping: int, limits: Limits) -> None:
    """Raises Violation for a header block with anything that no client could have sent, nor a node added."""
    pattern = _BLOCKS.get(escaping)
    if pattern is None:
        raise Violation(f"A message is escaped by rules number {escaping}: there are 0, 1 and 2.")
    if pattern.fullmatch(block) is None:
        raise Violation(f"The header block {shown(block)} of a message is none of STOMP 1.{escaping}.")
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            raise Violation(f"The header block {shown(block)} of a message is not UTF-8.") from None
    added: dict[bytes, int] = {}
    for found in _ADDED.finditer(block):
        line, name = found.group(0, 1)
        is_path = name == NODE_PATH.name
        most_bytes = DEATHS_BYTES if name == X_DEATH.name else LINK_ADDED_LINE_BYTES
        if name in added or len(line) > most_bytes or (is_path and not _PATH_LINE.match(line)):
            raise Violation(f"The header {shown(line)} of a message is not one that nodes add, or occurs twice.")
        added[name] = len(line)
    count, size = block.count(b"\n") - len(added), len(block) - sum(added.values())
    most, most_bytes = limits.max_headers, LINK_HEADERS_GROWTH * limits.max_header_bytes
    if count > most or size > most_bytes:
        raise Violation(
            f"A message has {count} headers of {size} bytes, without those that nodes add: at most {most} "
            f"(max_headers) and {most_bytes} ({LINK_HEADERS_GROWTH} x max_header_bytes) are taken here."
        )
