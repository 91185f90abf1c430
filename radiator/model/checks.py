"""Checks of plain values that people and programs write: numbers, sizes, words.

A check returns the value as the program wants it, or raises ValueError with the text that follows the key's name in the
sentence about it: what is wrong, and what would be right.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from radiator.model.limits import GIB, KIB, MIB, NAME_MAX_BYTES

TIB = 1024 * GIB
SIZE_UNITS = {"KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
DAY_S = 86_400
SHOWN_MAX = 80  # characters of a value in a sentence

Check = Callable[[object], Any]


def parse_size(value: object) -> int:
    """Bytes: a whole number, or text such as "64MiB". ValueError as a check."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = re.fullmatch(r"([0-9]{1,18}) ?(KiB|MiB|GiB|TiB)", value) if isinstance(value, str) else None
    if found is None:
        right = 'a size such as "64MiB" (KiB, MiB, GiB, TiB), or bytes as a whole number'
        raise ValueError(f"is {shown(value)}; it must be {right}")
    return int(found[1]) * SIZE_UNITS[found[2]]


def size_text(size: int) -> str | int:
    """The size as a person writes it: in the largest unit that divides it, or in bytes."""
    for unit, factor in reversed(SIZE_UNITS.items()):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return size


def shown(value: object) -> str:
    """A value as JSON, on one line of bounded length. What UTF-8 cannot say (half of a surrogate pair) is escaped."""
    text = json.dumps(value, ensure_ascii=False, default=_as_json).encode(errors="backslashreplace").decode()
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."


def _as_json(value: object) -> str | float:
    """What JSON does not have, as a person reads it: bytes are text if they are UTF-8, else their digits."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value[:SHOWN_MAX].hex()}"
    return float(value) if isinstance(value, Decimal) and value.is_finite() else str(value)


def meant(word: object, words: Iterable[str]) -> str:
    """`; did you mean ...?` where one of the words is close, else nothing."""
    close = difflib.get_close_matches(str(word)[:NAME_MAX_BYTES], list(words), n=1)
    return f"; did you mean {shown(close[0])}?" if close else ""


def one_of(words: Iterable[str]) -> str:
    """What would be right where the value must be one of these."""
    return "it must be one of " + ", ".join(map(shown, words))


def flag(value: object) -> bool:
    """true or false. Raises ValueError, a clause."""
    if not isinstance(value, bool):
        raise ValueError(f"is {shown(value)}; it must be true or false")
    return value


def whole(least: int, most: int) -> Check:
    """A whole number within bounds. What it returns raises ValueError."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"is {shown(value)}; it must be a whole number from {least} to {most}")
        return value

    return check


def number(least: float, most: float, of_what: str = "") -> Check:
    """A number within bounds, whole or not. What it returns raises ValueError."""

    def check(value: object) -> float:
        # a nan is in no range
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"is {shown(value)}; it must be a number {of_what}from {least} to {most}")
        return value

    return check


def seconds(least: float, most: float) -> Check:
    """A duration in seconds."""
    return number(least, most, "of seconds ")


def size(least: int, most: int) -> Check:
    """A size within bounds, as `parse_size` takes it. What it returns raises ValueError."""

    def check(value: object) -> int:
        count = parse_size(value)
        if not least <= count <= most:
            raise ValueError(f"is {shown(value)}; it must be a size from {size_text(least)} to {size_text(most)}")
        return count

    return check


def choice(*words: str) -> Check:
    """One of these words. What it returns raises ValueError."""

    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"is {shown(value)}; {one_of(words)}{meant(value, words)}")
        return str(value)

    return check
