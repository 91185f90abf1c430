"""The reader of Avro's binary encoding, and what is wrong with a value, by its place."""

import json
from collections.abc import Iterator

from radiator.model.limits import BODY_PLACE_CHARACTERS, BODY_TEXT_BYTES, BODY_VALUES_MAX

SHOWN = 8  # of symbols, branches and parts, as a sentence has them


class Wrong(Exception):
    """A value that is wrong. place: the steps that lead to it, the last first."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.place: list[str] = []

    def clause(self, root: str) -> str:
        """Place, and what is wrong there."""
        place = root + "".join(reversed(self.place))
        if len(place) > BODY_PLACE_CHARACTERS:
            half = BODY_PLACE_CHARACTERS // 2
            place = f"{place[:half]}...{place[-half:]}"
        return f"{place} {self.what}"


class AvroReader:
    """data: a body in binary encoding, read as far as `at`. left: how many more values there may be."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.left = BODY_VALUES_MAX

    def spend(self, values: int) -> None:
        """So many values more. Raises Wrong."""
        self.left -= values
        if self.left < 0:
            raise Wrong(f"comes after {BODY_VALUES_MAX} values, the most that a body may have; send several messages")

    def take(self, size: int, a: str) -> int:
        """Where so many bytes begin, which are passed over. Raises Wrong."""
        if size < 0:
            raise Wrong(f"has a length of {size}; it must be {a}")
        at = self.at
        if size > len(self.data) - at:
            raise Wrong(f"is cut off by the end of the body; it must be {a}")
        self.at = at + size
        return at

    def text(self, a: str) -> None:
        """A string. Raises Wrong."""
        size = self.long(a)
        at = self.take(size, a)
        self.spend(size // BODY_TEXT_BYTES)
        try:
            self.data[at : at + size].decode()
        except UnicodeDecodeError:
            raise Wrong("is not valid UTF-8; it must be a string") from None

    def long(self, a: str) -> int:
        """A number. Raises Wrong."""
        data, at, value, shift = self.data, self.at, 0, 0
        try:
            while (byte := data[at]) > 127:
                value |= (byte & 127) << shift
                shift += 7
                at += 1
                if shift > 63:
                    break
        except IndexError:
            raise Wrong(f"is cut off by the end of the body; it must be {a}") from None
        value |= byte << shift
        if value >> 64:
            raise Wrong(f"is a number of more than 64 bits; it must be {a}")
        self.at = at + 1
        if shift > 14:
            self.spend(shift // 21)
        return value >> 1 ^ -(value & 1)

    def blocks(self, a: str) -> Iterator[int]:
        """How many items each block has. Raises Wrong."""
        while count := self.long(a):
            end = None
            if count < 0:
                size = self.long(a)
                end = self.take(size, a) + size
                self.at = end - size
            self.spend(abs(count))
            yield abs(count)
            if end is not None and self.at != end:
                raise Wrong(f"has a block of {size} bytes whose items take {size + self.at - end}; it must be {a}")


def shown_value(value: object) -> str:
    """Returns a value as JSON, on one line of bounded length; for a large one only what kind of value it is."""
    if isinstance(value, dict | list) and len(value) > SHOWN:
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    if isinstance(value, str):
        value = value[:80]
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
