"""Readers of header values: destinations, numbers, flags, versions, heart-beats; and the header block that is stored.
Each returns the value, or raises a Violation that names the header, the value, and what would be right. Nothing here
depends on frames.
"""

import re

from radiator.model.addresses import address_mistake
from radiator.model.commands import EARLIEST, END, LATEST, OFFSET, TIME, Place
from radiator.model.errors import Violation, shown
from radiator.model.limits import HEART_BEAT_MIN_MS, NAME_MAX_BYTES, NUMBER_DIGITS_MAX, TIME_MAX_MS
from radiator.protocols.stomp.spec import HOP_HEADERS, VERSIONS

TEMP_QUEUE = b"/temp-queue/"
_HOP_HEADERS_AND_REPLY_TO = HOP_HEADERS | {b"reply-to"}

LOG = "/log/"
_PLACES: dict[bytes, dict[bytes, Place]] = {
    b"from": {b"earliest": (EARLIEST, 0), b"latest": (LATEST, 0)},
    b"until": {b"end": (END, 0)},
}
_COUNTED_PLACES = {b"offset": OFFSET, b"time": TIME}
_NUMBERS = re.compile(rb"([0-9]{1,10}),([0-9]{1,10})", re.ASCII)


def address(value: bytes, header: str = "destination") -> str:
    """Returns the full address: a NAME without a leading `/` is a queue's. Whether it exists the broker checks."""
    text = value.decode()  # the parser has checked that headers are UTF-8; escapes cannot break that
    if not text.startswith("/"):
        text = f"/queue/{text}"
    if wrong := address_mistake(text):
        raise Violation(f"{header} {shown(value)} {wrong}.")
    return text


def stored_block(headers: dict[bytes, bytes], lines: list[bytes], replies_to_temp_queue: bool) -> bytes:
    """Returns the header lines of a SEND that are to be stored, unchanged and in order: all but those of the hop."""
    dropped = _HOP_HEADERS_AND_REPLY_TO if replies_to_temp_queue else HOP_HEADERS
    kept = []
    if len(lines) == len(headers):
        for name, line in zip(headers, lines):  # noqa: B905 - `strict` costs each SEND 0.2 µs
            if name not in dropped:
                kept.append(line)
    else:
        kept = [line for line in lines if not _is_dropped(line, dropped)]
    return b"\n".join(kept) + b"\n" if kept else b""


def _is_dropped(line: bytes, dropped: frozenset[bytes]) -> bool:
    """For a frame with repeated headers: a temp queue in a later `reply-to` is not passed on either."""
    name, _, value = line.partition(b":")
    return name in dropped or (name == b"reply-to" and value.lstrip(b" ").startswith(TEMP_QUEUE))


def number(headers: dict[bytes, bytes], header: bytes, least: int, most: int) -> int | None:
    """Returns a whole number written in ASCII digits, or None if the header is absent."""
    value = headers.get(header)
    if value is None:
        return None
    if value.isdigit() and len(value) <= NUMBER_DIGITS_MAX and least <= int(value) <= most:
        return int(value)
    raise Violation(f"{header.decode()} {shown(value)} is not a whole number from {least} to {most}.")


def name(headers: dict[bytes, bytes], header: bytes) -> str | None:
    """Returns a name of 1 to NAME_MAX_BYTES bytes, or None if the header is absent."""
    value = headers.get(header)
    if value is None:
        return None
    if not 1 <= len(value) <= NAME_MAX_BYTES:
        raise Violation(
            f"{header.decode()} {shown(value)} has {len(value)} bytes: a name has 1 to {NAME_MAX_BYTES} of them."
        )
    return value.decode()


def producer_id(headers: dict[bytes, bytes]) -> str | None:
    """Returns the `producer-id` of a COMMIT, formerly `txn-app-id`, or None if it has neither."""
    found, earlier = name(headers, b"producer-id"), name(headers, b"txn-app-id")
    if found is not None and earlier is not None and found != earlier:
        raise Violation(
            f"COMMIT with producer-id {shown(headers[b'producer-id'])} and txn-app-id {shown(headers[b'txn-app-id'])}: "
            "they are two names of one header, and must have one value."
        )
    return earlier if found is None else found


def place(headers: dict[bytes, bytes], header: bytes) -> Place | None:
    """Returns the place in a log that `from` or `until` names, or None if the header is absent."""
    value = headers.get(header)
    if value is None:
        return None
    words = _PLACES[header]
    if value in words:
        return words[value]
    kind, _, count = value.partition(b":")
    if kind in _COUNTED_PLACES and count.isdigit() and len(count) <= NUMBER_DIGITS_MAX and int(count) <= TIME_MAX_MS:
        return _COUNTED_PLACES[kind], int(count)
    named = ", ".join(word.decode() for word in words)
    raise Violation(
        f"{header.decode()} {shown(value)} must be one of {named}, offset:N and time:MS, with a whole number from 0 to "
        f"{TIME_MAX_MS}."
    )


def flag(headers: dict[bytes, bytes], header: bytes, absent: bool) -> bool:
    """Returns a flag, written `true` or `false`, or as Python's str() writes them; `absent` if there is no header."""
    value = headers.get(header)
    if value is None:
        return absent
    if value in (b"true", b"True"):
        return True
    if value in (b"false", b"False"):
        return False
    raise Violation(f"{header.decode()} {shown(value)} is neither true nor false.")


def highest_version(accept_version: bytes | None) -> int | None:
    """Returns the highest version that both sides speak, or None (1.2, "Protocol Negotiation"). No header means 1.0."""
    if accept_version is None:
        return VERSIONS[b"1.0"]
    return max((VERSIONS[name] for name in accept_version.split(b",") if name in VERSIONS), default=None)


def heart_beats(value: bytes | None) -> tuple[int, int]:
    """Returns how often the peer can send and wants to receive, in ms. No header means 0,0 (1.2, "Heart-beating")."""
    if value is None:
        return 0, 0
    match = _NUMBERS.fullmatch(value)
    if match is None:
        raise Violation(
            f"heart-beat {shown(value)} is not two numbers of milliseconds with a comma between, as in 10000,0."
        )
    return int(match[1]), int(match[2])


def offered_heart_beats(ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int]:
    """Returns the heart-beats to offer a peer that can send and wants `theirs`, in ms: for each direction the shorter
    of the two intervals, but at least HEART_BEAT_MIN_MS. If either is 0, so is the offer.
    """
    (our_can, our_want), (can, want) = ours, theirs
    return _offered_ms(our_can, want), _offered_ms(our_want, can)


def _offered_ms(ours_ms: int, theirs_ms: int) -> int:
    return max(HEART_BEAT_MIN_MS, min(ours_ms, theirs_ms)) if ours_ms and theirs_ms else 0


def agreed_s(can_ms: int, want_ms: int) -> float:
    """Returns the interval of one direction in seconds; 0: no heart-beats (1.2, "Heart-beating": MAX(cx, sy))."""
    return max(can_ms, want_ms) / 1000 if can_ms and want_ms else 0.0
