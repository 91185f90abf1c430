"""Events of the journal as a block on the disk has them: column by column, names as numbers. Pure; see FORMAT.md.

    count of names u16 | length of each u16 | names | columns: event, queue, client, other_queue, reason, address,
    attempt, size, number, ms, position, other, traceparent, correlation_id

A text is the number of its name, counted from 1; 0 is the empty one. The last column is there where any event has a
correlation-id, and the one before it where any has that or a traceparent: 0, 1 or 2 more columns than every block has.

A column is its width, one byte, and then that many bytes for each event: 0 where all are 0. Times count from the least
of them, which precedes the column. A position is always whole where it is not 0: 12 bytes that can be searched for.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

from radiator.model.journal import JournalEvent
from radiator.model.message import SEQUENCE_BITS

POSITION_BYTES = 12
CORRELATED = 2  # so many more columns has a block with a correlation-id
_WHOLE = bytes([POSITION_BYTES])
_NO_TEXT = ("",)
_FORMS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # bytes of a number, and struct's letter for it


def pack(written: Sequence[JournalEvent]) -> tuple[bytes, int]:
    """Returns the bytes of at least one event, some 18 of each in a full block; and how many more columns are among
    them.
    """
    (
        event, ms, queue, position, client, attempt, size, other, other_queue, reason, address, number,
        traceparent, correlation_id,
    ) = zip(*written, strict=True)  # fmt: skip
    texts = (event, queue, client, other_queue, reason, address)
    last = (traceparent, correlation_id) if any(correlation_id) else (traceparent,) if any(traceparent) else ()
    code_of = {name: code for code, name in enumerate(dict.fromkeys(chain(_NO_TEXT, *texts, *last)))}
    names = [name.encode() for name in code_of][1:]
    least = min(ms)
    block = b"".join(
        (
            struct.pack(f">H{len(names)}H", len(names), *map(len, names)),
            *names,
            *[_numbers([*map(code_of.__getitem__, column)]) if any(column) else b"\0" for column in texts],
            _numbers(attempt),
            _numbers(size),
            _numbers(number),
            least.to_bytes(8, "big"),
            _numbers([one - least for one in ms]),
            _positions(position),
            _positions(other),
            *[_numbers([*map(code_of.__getitem__, column)]) for column in last],
        )
    )
    return block, len(last)


def _numbers(column: Sequence[int]) -> bytes:
    most = max(column)
    if most < 1 << 8:
        return b"\1" + bytes(column) if most else b"\0"
    width = 2 if most < 1 << 16 else 4 if most < 1 << 32 else 8
    return struct.pack(f">B{len(column)}{_FORMS[width]}", width, *column)


def _positions(column: Sequence[int]) -> bytes:
    if not any(column):
        return b"\0"
    return b"".join((_WHOLE, *[position.to_bytes(POSITION_BYTES, "big") for position in column]))


def unpack(block: bytes | memoryview, count: int, more: int) -> list[JournalEvent]:
    """Undoes `pack`. more: so many more columns are there. Raises ValueError for bytes that it has not made."""
    columns = _Columns(block, count)
    try:
        name_of = columns.names().__getitem__
        event, queue, client, other_queue, reason, address = ([*map(name_of, columns.numbers())] for _ in range(6))
        attempt, size, number = columns.numbers(), columns.numbers(), columns.numbers()
        [least] = columns.take("Q")
        ms = [least + one for one in columns.numbers()]
        position, other = columns.positions(), columns.positions()
        last = [[*map(name_of, columns.numbers())] for _ in range(more)]
    except (struct.error, LookupError) as error:
        raise ValueError(f"this is not a block of events: {error}") from None
    if columns.at != len(block):
        raise ValueError(f"this is not a block of events: {len(block) - columns.at} bytes are left over")
    return [
        *map(
            JournalEvent,
            event,
            ms,
            queue,
            position,
            client,
            attempt,
            size,
            other,
            other_queue,
            reason,
            address,
            number,
            *last,
        )
    ]


def positions_of(block: bytes | memoryview, count: int) -> tuple[bytes, ...]:
    """Returns the bytes of all positions in a block, in about a seventh of the time that `unpack` takes. Raises
    ValueError for bytes that `pack` has not made, where it finds out.
    """
    columns = _Columns(block, count)
    try:
        [size] = columns.take("H")
        sizes = columns.take(f"{size}H")
        columns.at += sum(sizes)
        for _ in range(9):
            columns.pass_over()
        columns.take("Q")
        columns.pass_over()
        found: tuple[bytes, ...] = ()
        for _ in range(2):
            [form] = columns.take("B")
            found += struct.unpack_from("12s" * count, block, columns.at) if form else ()
            columns.at += form * count
    except (struct.error, LookupError) as error:
        raise ValueError(f"this is not a block of events: {error}") from None
    return found


class _Columns:
    """A block, read from its beginning. Methods raise struct.error, LookupError or ValueError for other bytes."""

    def __init__(self, block: bytes | memoryview, count: int) -> None:
        self.at = 0
        self._block = block
        self._count = count

    def take(self, layout: str) -> tuple[int, ...]:
        """Returns the next numbers, big-endian."""
        found = struct.unpack_from(f">{layout}", self._block, self.at)
        self.at += struct.calcsize(f">{layout}")
        return found

    def names(self) -> list[str]:
        """Returns the table of names, and the empty one before it."""
        [size] = self.take("H")
        sizes = self.take(f"{size}H")
        ends = [*accumulate(sizes, initial=self.at)]
        self.at = ends[-1]
        return ["", *[str(self._block[begin:end], "utf-8") for begin, end in pairwise(ends)]]

    def numbers(self) -> tuple[int, ...]:
        """Returns a column of numbers."""
        [form] = self.take("B")
        return self.take(f"{self._count}{_FORMS[form]}") if form else (0,) * self._count

    def pass_over(self) -> None:
        """Skips a column of numbers."""
        [form] = self.take("B")
        self.at += form * self._count

    def positions(self) -> Sequence[int]:
        """Returns a column of positions."""
        [form] = self.take("B")
        if form == 0:
            return (0,) * self._count
        if form != POSITION_BYTES:
            raise ValueError(f"this is not a block of events: a column of positions has form {form}")
        numbers = self.take("IQ" * self._count)
        return [boot << SEQUENCE_BITS | sequence for boot, sequence in zip(numbers[::2], numbers[1::2], strict=True)]
