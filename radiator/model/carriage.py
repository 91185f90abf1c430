"""What a link can carry of a message: whoever hands one over asks the very rules by which the other side reads it.

What a node has accepted passes them. What does not was accepted under other limits, or is damaged: it is set aside
where it is, and the link goes on with all else.
"""

import re
from functools import lru_cache

from radiator.model.addresses import ADMIN, address_mistake, split
from radiator.model.errors import Refusal, Violation, shown
from radiator.model.limits import (
    LINK_ADDED_LINE_BYTES,
    LINK_ADDED_LINES,
    LINK_HEADERS_GROWTH,
    LINK_TEXTS_KEPT,
    NODE_NAME_MAX_BYTES,
    PATH_HOPS_MAX,
    TIME_MAX_MS,
    Limits,
    largest_message_bytes,
)
from radiator.model.message import ESCAPING_1_0, ESCAPING_1_1, ESCAPING_1_2, Message

NODE_NAME = re.compile(rb"[A-Za-z0-9_-][A-Za-z0-9._-]{0,%d}" % (NODE_NAME_MAX_BYTES - 1))

# What MESSAGE says itself, and only once, or what belongs to another hop: never stored, so none may come this way.
_HOP = rb"(?!(?:content-length|message-id|subscription|ack|destination|timestamp|redelivered|receipt|transaction):)"
# A line is what its version's parser makes of it: another colon is escaped where that can be, so that every reader cuts
# a line in the same place. An escape that the version does not define could not be sent on. No two parts of a pattern
# can begin with the same byte, so it takes linear time; a group is never possessive, which CPython before 3.11.5 gets
# wrong.
_LINES = {
    ESCAPING_1_0: rb"[^\n\0:]++:[^\n\0]*+\n",
    ESCAPING_1_1: rb"(?:[^\n\0:\\]++|\\[\\nc])+:(?:[^\n\0:\\]++|\\[\\nc])*\n",
    ESCAPING_1_2: rb"(?:[^\r\n\0:\\]++|\\[\\ncr])+:(?:[^\r\n\0:\\]++|\\[\\ncr])*\n",
}
_BLOCKS = {escaping: re.compile(rb"(?:" + _HOP + line + rb")*") for escaping, line in _LINES.items()}


# What brokers add to a stored block, and no client can say: each once, and short, so that no block can grow on its way
# past what the next node takes.
_ADDED_NAMES = (
    b"dead-letter-reason",
    b"fanout-message-id",
    b"node-path",
    b"original-destination",
    b"original-message-id",
    b"redelivery-count",
)
assert len(_ADDED_NAMES) == LINK_ADDED_LINES, "limits.py counts them"
_ADDED = re.compile(rb"^(" + b"|".join(_ADDED_NAMES) + rb"):.*\n", re.MULTILINE)
_PATH_LINE = re.compile(rb"node-path:%b(?:,%b){0,%d}\n" % (NODE_NAME.pattern, NODE_NAME.pattern, PATH_HOPS_MAX - 1))


def block_bytes(limits: Limits) -> int:
    """Of the largest header block."""
    return largest_message_bytes(limits) - limits.max_frame_bytes


def check_headers(block: bytes, escaping: int, limits: Limits) -> None:
    """Raises Violation for a header block that says what no client could have said, nor a node added."""
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
        if name in added or len(line) > LINK_ADDED_LINE_BYTES or (name == b"node-path" and not _PATH_LINE.match(line)):
            raise Violation(f"The header {shown(line)} of a message is none that a node adds, or stands there twice.")
        added[name] = len(line)
    count, size = block.count(b"\n") - len(added), len(block) - sum(added.values())
    most, most_bytes = limits.max_headers, LINK_HEADERS_GROWTH * limits.max_header_bytes
    if count > most or size > most_bytes:
        raise Violation(
            f"A message has {count} headers of {size} bytes, beside those that nodes add: at most {most} (max_headers) "
            f"and {most_bytes} ({LINK_HEADERS_GROWTH} x max_header_bytes) are taken here."
        )


@lru_cache(LINK_TEXTS_KEPT)
def carried_address(raw: bytes) -> str:
    """Any address that a client may send to. Raises Violation for what is none."""
    try:
        address = raw.decode()
        split(address)
    except (UnicodeDecodeError, Refusal) as error:
        raise Violation(f"{shown(raw)} is no address: {error}") from None
    if wrong := address_mistake(address):
        raise Violation(f"{shown(raw)} is no address: it {wrong}.")
    if address == ADMIN:
        raise Violation(f"{ADMIN} is no address of a message: nothing that was sent there is stored.")
    return address


def check_sizes(headers_bytes: int, body_bytes: int, accepted_ms: int, expires_ms: int, limits: Limits) -> None:
    """Raises Violation for what is larger than a link takes, or too far in the future."""
    if headers_bytes > block_bytes(limits) or body_bytes > limits.max_frame_bytes:
        raise Violation(
            f"A message has {headers_bytes} bytes of headers and {body_bytes} of body: at most {block_bytes(limits)} "
            f"({LINK_HEADERS_GROWTH} x max_header_bytes, and some for nodes) and {limits.max_frame_bytes} "
            "(max_frame_bytes) are taken here."
        )
    if accepted_ms > TIME_MAX_MS or expires_ms > 2 * TIME_MAX_MS:
        raise Violation(f"A message of the time {accepted_ms}, to expire at {expires_ms}: both are too far away.")


def carriage_mistake(message: Message, limits: Limits) -> str:
    """Why no link can carry it; "" where links can."""
    try:
        check_sizes(len(message.headers), len(message.body), message.accepted_ms, message.expires_ms, limits)
        check_headers(message.headers, message.escaping, limits)
        carried_address(message.destination.encode())
    except Violation as mistake:
        return str(mistake)
    return ""
