"""The values of headers: destinations, numbers, flags, versions, heart-beats; and the header block that is stored. Each
reader returns the value or raises a Violation that names the header, the value, and what would be right. Nothing here
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
    """The full address: a NAME without a leading `/` is a queue's. Whether it exists is for the broker to decide."""
    text = value.decode()  # the parser has checked that headers are UTF-8; escapes cannot break that
    if not text.startswith("/"):
        text = f"/queue/{text}"
    if wrong := address_mistake(text):
        raise Violation(f"{header} {shown(value)} {wrong}.")
    return text


def stored_block(headers: dict[bytes, bytes], lines: list[bytes], replies_to_temp_queue: bool) -> bytes:
    """The lines of a SEND's headers that are not of the hop, bytes unchanged and in order."""
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
    """For a frame with repeated headers: a temp queue in a later `reply-to` does not travel either."""
    name, _, value = line.partition(b":")
    return name in dropped or (name == b"reply-to" and value.lstrip(b" ").startswith(TEMP_QUEUE))


def number(headers: dict[bytes, bytes], header: bytes, least: int, most: int) -> int | None:
    """A whole number in ASCII digits, or None where the header is absent."""
    value = headers.get(header)
    if value is None:
        return None
    if value.isdigit() and len(value) <= NUMBER_DIGITS_MAX and least <= int(value) <= most:
        return int(value)
    raise Violation(f"{header.decode()} {shown(value)} is not a whole number from {least} to {most}.")


def name(headers: dict[bytes, bytes], header: bytes) -> str | None:
    """A name of 1 to NAME_MAX_BYTES bytes, or None where the header is absent."""
    value = headers.get(header)
    if value is None:
        return None
    if not 1 <= len(value) <= NAME_MAX_BYTES:
        raise Violation(
            f"{header.decode()} {shown(value)} has {len(value)} bytes: a name has 1 to {NAME_MAX_BYTES} of them."
        )
    return value.decode()


def producer_id(headers: dict[bytes, bytes]) -> str | None:
    """The `producer-id` of a COMMIT, formerly `txn-app-id`, or None where it has neither."""
    found, earlier = name(headers, b"producer-id"), name(headers, b"txn-app-id")
    if found is not None and earlier is not None and found != earlier:
        raise Violation(
            f"COMMIT with producer-id {shown(headers[b'producer-id'])} and txn-app-id {shown(headers[b'txn-app-id'])}: "
            "they are two names of one header, and must have one value."
        )
    return earlier if found is None else found


def place(headers: dict[bytes, bytes], header: bytes) -> Place | None:
    """A place in a log, as `from` or `until` names it, or None where the header is absent."""
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
        f"{header.decode()} {shown(value)} is none of {named}, offset:N and time:MS, with a whole number from 0 to "
        f"{TIME_MAX_MS}."
    )


def flag(headers: dict[bytes, bytes], header: bytes, absent: bool) -> bool:
    """`true` or `false`, or as Python's str() writes it; `absent` where there is no such header."""
    value = headers.get(header)
    if value is None:
        return absent
    if value in (b"true", b"True"):
        return True
    if value in (b"false", b"False"):
        return False
    raise Violation(f"{header.decode()} {shown(value)} is neither true nor false.")


def highest_version(accept_version: bytes | None) -> int | None:
    """The highest version that both sides have, or None (1.2, "Protocol Negotiation"). Absent means 1.0."""
    if accept_version is None:
        return VERSIONS[b"1.0"]
    return max((VERSIONS[name] for name in accept_version.split(b",") if name in VERSIONS), default=None)


def heart_beats(value: bytes | None) -> tuple[int, int]:
    """How often the peer can send and wants to receive, in ms. A missing header is 0,0 (1.2, "Heart-beating")."""
    if value is None:
        return 0, 0
    match = _NUMBERS.fullmatch(value)
    if match is None:
        raise Violation(
            f"heart-beat {shown(value)} is not two numbers of milliseconds with a comma between, as in 10000,0."
        )
    return int(match[1]), int(match[2])


def offered_heart_beats(ours: tuple[int, int], theirs: tuple[int, int]) -> tuple[int, int]:
    """The heart-beats to offer a peer that can send and wants `theirs`, in ms: in each direction as often as asked for,
    if not more seldom than `ours`, and never more often than HEART_BEAT_MIN_MS. 0 of either side is 0.
    """
    (our_can, our_want), (can, want) = ours, theirs
    return _offered_ms(our_can, want), _offered_ms(our_want, can)


def _offered_ms(ours_ms: int, theirs_ms: int) -> int:
    return max(HEART_BEAT_MIN_MS, min(ours_ms, theirs_ms)) if ours_ms and theirs_ms else 0


def agreed_s(can_ms: int, want_ms: int) -> float:
    """The interval of one direction in seconds; 0: none (1.2, "Heart-beating": MAX(cx, sy))."""
    return max(can_ms, want_ms) / 1000 if can_ms and want_ms else 0.0
