"""One frame, and the bytes of frames: conversion between the escapes of the three versions, and what a server sends.

A frame's header lines are kept as they arrived (in their version's canonical form), beside a dictionary of decoded
values, so that a SEND's headers can be stored and sent on without being encoded again.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from radiator.model.addresses import queue_address
from radiator.model.amqp_properties import BEGINNING, expanded
from radiator.model.errors import Violation, shown
from radiator.model.headers import STANDS_FOR_BACKSLASH, escape, undone
from radiator.model.limits import ERROR_MESSAGE_CHARACTERS, HEADER_LINES_KEPT, PUBLISHED_BYTES, PUBLISHED_KEPT
from radiator.model.message import Message
from radiator.model.replies import EndOfLog, RecordPlace
from radiator.protocols.stomp.spec import ALL_VERSIONS, UNESCAPED, V1_0, V1_1, V1_2, VERSION_NAMES

# how a server's frame ends: some clients read by lines, and some skip the octet after the NUL
FRAME_END = b"\0\n"

_LF, _CR, _COLON, _BACKSLASH = b"\n\r:\\"
_ESCAPE = re.compile(rb"\\(?:.|\Z)", re.DOTALL)


@dataclass(slots=True)
class Frame:
    """One frame as it was read.

    headers: unescaped; the first of repeated names (1.2, "Repeated Header Entries").
    lines: every header line as it arrived, without line ends, escaped by the version's rules.
    """

    command: bytes
    headers: dict[bytes, bytes]
    lines: list[bytes]
    body: bytes


class BrokenFrame(Violation):
    """A Violation with the receipt id that the offending frame asked for, or None."""

    def __init__(self, sentence: str, receipt: bytes | None = None) -> None:
        super().__init__(sentence)
        self.receipt = receipt


def unescape(value: bytes, version: int) -> bytes:
    """Returns the decoded name or value; raises BrokenFrame for an escape the version lacks ("Value Encoding")."""
    if version == V1_0 or b"\\" not in value:
        return value
    plain = undone(value, version)
    if b"\\" in plain:
        table = UNESCAPED[version]
        wrong = next(escape for escape in _ESCAPE.findall(value) if escape not in table)
        raise BrokenFrame(
            f"The header {shown(value)} has the escape {shown(wrong)}, which STOMP {VERSION_NAMES[version]} does not "
            f"define; it has {', '.join(sequence.decode() for sequence in table)}."
        )
    return plain.replace(STANDS_FOR_BACKSLASH, b"\\")


def escaped(value: bytes, version: int) -> bytes:
    """Returns `value` escaped by that version's rules; most values need no escape."""
    if _COLON in value or _BACKSLASH in value or _LF in value or _CR in value:
        return escape(value, version)
    return value


def converted(block: bytes, sender: int, receiver: int) -> bytes:
    """Returns a stored header block as a receiver's version writes it, without what that version cannot express."""
    if sender == receiver or _reads_the_same(block, sender, receiver):
        return block
    lines = []
    for line in block.split(b"\n")[:-1]:
        raw_name, _, raw_value = line.partition(b":")
        name, value = unescape(raw_name, sender), unescape(raw_value, sender)
        # 1.0 has no escapes: it cannot express a line feed, or a colon within a name
        if receiver == V1_0 and (b"\n" in name or b":" in name or b"\n" in value):
            continue
        lines.append(b"%b:%b\n" % (escape(name, receiver), escape(value, receiver)))
    return b"".join(lines)


def _reads_the_same(block: bytes, sender: int, receiver: int) -> bool:
    """Returns whether both versions read the block as the same headers. May be False although they do."""
    if receiver == V1_2 and b"\r" in block:
        return False
    if sender == V1_1 and receiver == V1_2:
        return True
    if sender == V1_2 and receiver == V1_1:
        return b"\\r" not in block
    return b"\\" not in block and (sender != V1_0 or block.count(b":") == block.count(b"\n"))


def encode_message(
    message: Message,
    message_id: bytes,
    subscription: bytes | None,
    ack_due: bool,
    redelivered: bool,
    redeliveries: int,
    version: int,
    is_whole: bool = True,
    destination: str | None = None,
    log: RecordPlace | EndOfLog | None = None,
) -> bytes:
    """Returns MESSAGE: a head for this delivery, then the sender's block. `message_id` is the broker's, and needs no
    escaping. is_whole: False leaves out the body and FRAME_END. destination: replaces the message's own; None: its own,
    or the queue's address if that names a queue in its second form. log: as in Deliver.
    """
    body = message.body
    block, escaping = message.headers, message.escaping
    if block.startswith(BEGINNING):
        block, escaping = expanded(block, escaping)
    if escaping != version and block:
        block = converted(block, escaping, version)
    if log is not None:
        block = _log_lines(log) + block
    head = b"MESSAGE\n%bmessage-id:%b\n%b%bcontent-length:%d\ntimestamp:%d\nredelivered:%b\n%b%b\n" % (
        _queue_line(message.destination, version) if destination is None else _destination_line(destination, version),
        message_id,
        b"" if subscription is None else _subscription_line(subscription, version),
        b"ack:%b\n" % message_id if ack_due else b"",
        len(body),
        message.accepted_ms,
        b"true" if redelivered else b"false",
        b"redelivery-count:%d\n" % redeliveries if redeliveries else b"",
        block,
    )
    if not is_whole:
        return head
    # not by `%` as well: that over-allocates by a quarter and gives it back, so 8 MiB would cost twice the CPU
    return b"".join((head, body, FRAME_END))


def _log_lines(log: RecordPlace | EndOfLog) -> bytes:
    if isinstance(log, EndOfLog):
        return b"end:true\n"
    place = b"partition:%d\noffset:%d\n" % (log.partition, log.offset)
    return b"skipped:%d\n%b" % (log.skipped, place) if log.skipped else place


_published: dict[tuple[bytes, bytes | None, bool, int], bytes] = {}
_published_message: Message | None = None


def encode_published(
    message: Message, message_id: bytes, subscription: bytes | None, ack_due: bool, version: int
) -> bytes:
    """Returns MESSAGE for a topic's message, which is never a redelivery. Subscribers with the same subscription id
    share its bytes: 1,000 slow ones hold one copy. The frames of the last message are kept until the next one: at most
    PUBLISHED_KEPT, or a single one if the body exceeds PUBLISHED_BYTES.
    """
    global _published_message
    if message is not _published_message:
        _published_message = message
        _published.clear()
    key = (message_id, subscription, ack_due, version)
    encoded = _published.get(key)
    if encoded is None:
        if len(_published) >= PUBLISHED_KEPT or len(message.body) > PUBLISHED_BYTES:
            _published.clear()
        encoded = _published[key] = encode_message(message, message_id, subscription, ack_due, False, 0, version)
    return encoded


@lru_cache(HEADER_LINES_KEPT)
def _destination_line(destination: str, version: int) -> bytes:
    return b"destination:%b\n" % escaped(destination.encode(), version)


@lru_cache(HEADER_LINES_KEPT)
def _queue_line(destination: str, version: int) -> bytes:
    return _destination_line(queue_address(destination), version)


@lru_cache(HEADER_LINES_KEPT)
def _subscription_line(subscription: bytes, version: int) -> bytes:
    return b"subscription:%b\n" % escaped(subscription, version)


def encode_receipt(receipt: bytes, version: int) -> bytes:
    """Returns RECEIPT."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0\n" % escaped(receipt, version)


def encode_refused(receipt: bytes, version: int, code: str, sentence: str) -> bytes:
    """Returns a RECEIPT that reports a refusal."""
    fields = code.encode(), escaped(_short(sentence).encode(), version)
    return b"RECEIPT\nreceipt-id:%b\nrefused:%b\nmessage:%b\n\n\0\n" % (escaped(receipt, version), *fields)


def _short(sentence: str) -> str:
    """Returns as much of the sentence as fits a header."""
    return "".join(c if c.isprintable() else " " for c in sentence[:ERROR_MESSAGE_CHARACTERS])


def encode_error(code: str, sentence: str, receipt: bytes | None, version: int | None) -> bytes:
    """Returns ERROR: the sentence's beginning in `message`, all of it in the body. version None: not negotiated yet."""
    body = sentence.encode("utf-8", "backslashreplace")  # it may quote JSON, which can hold half a surrogate pair
    short = _short(sentence)
    if version is None:
        # reads the same in every version: it contains nothing that any of them would escape
        short = short.replace(":", " ").replace("\\", " ")
        version = V1_2
    lines = [
        b"ERROR",
        b"version:" + ALL_VERSIONS,
        b"content-type:text/plain",
        b"content-length:%d" % len(body),
        b"code:" + escaped(code.encode(), version),
        b"message:" + escaped(short.encode(), version),
    ]
    if receipt is not None:
        lines.append(b"receipt-id:" + escaped(receipt, version))
    return b"\n".join(lines) + b"\n\n" + body + FRAME_END


def encode_frame(command: bytes, headers: list[tuple[str, str]], body: bytes, version: int | None) -> bytes:
    """Returns any frame by that version's rules; None: CONNECT, which has no escapes. Raises Violation if it cannot."""
    lines = [command]
    for name, value in headers:
        _check_expressible(name, value, version)
        escaping = V1_0 if version is None else version
        lines.append(b"%b:%b" % (escaped(name.encode(), escaping), escaped(value.encode(), escaping)))
    return b"\n".join(lines) + b"\n\n" + body + b"\0"


def _check_expressible(name: str, value: str, version: int | None) -> None:
    if not name or "\0" in name or "\0" in value:
        raise Violation(f"The header {name!r} cannot be sent: a name must not be empty, and a NUL ends the frame.")
    if (version is None or version == V1_0) and (":" in name or "\n" in name or "\n" in value):
        raise Violation(
            f"The header {name!r} cannot be sent: its line feed, or the colon in its name, has no escape here."
        )
    if version is None and "\r" in name + value:
        raise Violation(f"The header {name!r} cannot be sent: CONNECT has no escape for its carriage return.")
