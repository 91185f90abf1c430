"""Field tables of AMQP 0-9-1, with the letters of types that RabbitMQ and qpid agree on.

A table is a name and a value again and again; an array is values alone. What is decoded and encoded again has its bytes
again, whichever client wrote it: an int that is neither `I`, nor `l` because it must be, keeps its letter. Everything
takes linear time, and no more than TABLE_DEPTH_MAX calls deep.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from radiator.model import checks
from radiator.model.amqp_limits import TABLE_DEPTH_MAX, TABLE_FIELDS_MAX
from radiator.model.errors import Violation, shown

TABLE_NAME_BYTES = 255  # a field's name has its length in one byte before it

Value: TypeAlias = Any
"""bool, int, float, Decimal, str, bytes, list, dict or None; a time is an int of seconds whose letter is T."""

_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_INTS = {
    "b": struct.Struct(">b"),
    "B": struct.Struct(">B"),
    "s": struct.Struct(">h"),
    "u": struct.Struct(">H"),
    "i": struct.Struct(">I"),
    "I": struct.Struct(">i"),
    "l": struct.Struct(">q"),
    "L": struct.Struct(">q"),
    "T": struct.Struct(">Q"),
}
_SINGLE, _DOUBLE = struct.Struct(">f"), struct.Struct(">d")
_DECIMAL = struct.Struct(">Bi")
_SIZE = struct.Struct(">I")
_FIXED = {ord(letter): number.size for letter, number in _INTS.items()} | {
    ord("t"): 1,
    ord("f"): 4,
    ord("d"): 8,
    ord("D"): 5,
    ord("V"): 0,
}
"""The bytes of a value whose letter says how many it has."""
_STRING, _BYTES, _ARRAY, _TABLE = b"SxAF"


class LetteredInt(int):
    """An int that is written with that letter. T is a time, in seconds since the epoch."""

    letter: str

    def __new__(cls, value: int, letter: str) -> "LetteredInt":
        """letter: one of b B s u i I l L T."""
        made = super().__new__(cls, value)
        made.letter = letter
        return made

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # of an int it is a tuple of one
        """What a copy of it is made from."""
        return int(self), self.letter


class SingleFloat(float):
    """A float that is written in four bytes."""


class RawString(bytes):
    """A text that is not UTF-8."""


def is_time(value: Value) -> bool:
    """Whether it is a timestamp, which RabbitMQ does not take for a number."""
    return isinstance(value, LetteredInt) and value.letter == "T"


def described(value: Value) -> str:
    """A value in a sentence, with its type if it looks like a value of another type."""
    text = checks.shown(value)
    if is_time(value):
        return f"{text} (a timestamp)"
    if isinstance(value, bytes):
        return f"{text} ({'a text that is not UTF-8' if isinstance(value, RawString) else 'a byte array'})"
    return f"{text} (a decimal)" if isinstance(value, Decimal) else text


# ---- decoding -------------------------------------------------------------------------------------------------------


def check_table(data: bytes, start: int, end: int) -> None:
    """Raises Violation where `decode_table` would, and makes no values."""
    _Walk(data, end).table(start, end, TABLE_DEPTH_MAX)


def decode_table(data: bytes, start: int, end: int) -> dict[str, Value]:
    """The table between start and end, which its length in front of it says. Violation for whatever is broken."""
    check_table(data, start, end)
    return _table(data, start, end)


class _Walk:
    """One table, looked at once from its beginning to its end."""

    __slots__ = ("_data", "_fields", "_is_ascii")

    def __init__(self, data: bytes, end: int) -> None:
        self._data = data
        self._fields = 0
        self._is_ascii = data.isascii()

    def table(self, at: int, end: int, depth: int) -> None:
        data = self._data
        names = set()
        count = 0
        while at < end:
            start = at + 1
            at = start + data[at]
            if at >= end:
                raise Violation(f"A table ends within the name or before the value of its field {count + 1}.")
            name = data[start:at]
            if not self._is_ascii:
                _utf8(name)
            names.add(name)
            count += 1
            if len(names) != count:
                raise Violation(f"A table has two fields of the name {shown(name)}: each may occur once.")
            size = _FIXED.get(data[at])
            if size is not None:
                at += 1 + size
                if at > end:
                    raise _cut_off(name)
            else:
                at = self._long(at, end, depth, name)
        self._count(count)

    def _array(self, at: int, end: int, depth: int) -> None:
        data = self._data
        count = 0
        while at < end:
            count += 1
            size = _FIXED.get(data[at])
            if size is not None:
                at += 1 + size
                if at > end:
                    raise _cut_off(b"%d" % count)
            else:
                at = self._long(at, end, depth, b"%d" % count)
        self._count(count)

    def _long(self, at: int, end: int, depth: int, name: bytes) -> int:
        """Where the value ends whose letter is there, and which has its length before it."""
        letter = self._data[at]
        start = at + 5
        if letter not in b"SxAF":
            raise Violation(
                f"The field {shown(name)} of a table has a value of the type {shown(bytes((letter,)))}: one of "
                "t b B s u I i l L f d D S A T F V x is right."
            )
        if start > end:
            raise _cut_off(name)
        stop: int = start + _SIZE.unpack_from(self._data, at + 1)[0]
        if stop > end:
            raise _cut_off(name)
        if letter in b"AF":
            if depth == 1:
                raise Violation(
                    f"Tables and arrays stand within each other more than {TABLE_DEPTH_MAX} deep at the field "
                    f"{shown(name)}: that many are allowed."
                )
            (self._array if letter == _ARRAY else self.table)(start, stop, depth - 1)
        return stop

    def _count(self, count: int) -> None:
        self._fields += count
        if self._fields > TABLE_FIELDS_MAX:
            raise Violation(
                f"A table has more than {TABLE_FIELDS_MAX} fields, with those of the tables and arrays in it: that "
                "many are allowed."
            )


def _utf8(name: bytes) -> None:
    try:
        name.decode()
    except UnicodeDecodeError:
        raise Violation(f"The name {shown(name)} of a field of a table is not UTF-8.") from None


def _cut_off(name: bytes) -> Violation:
    return Violation(f"The value of the field {shown(name)} goes beyond the end of its table.")


def _table(data: bytes, at: int, end: int) -> dict[str, Value]:
    found = {}
    while at < end:
        start = at + 1
        at = start + data[at]
        found[data[start:at].decode()], at = _value(data, at)
    return found


def _value(data: bytes, at: int) -> tuple[Value, int]:
    """The value whose letter is there, and where it ends. The walk has been before."""
    letter, start = data[at], at + 1
    size = _FIXED.get(letter)
    if size is not None:
        return _READERS[letter](data, start), start + size
    start += 4
    end = start + _SIZE.unpack_from(data, at + 1)[0]
    if letter == _TABLE:
        return _table(data, start, end), end
    if letter == _ARRAY:
        values, at = [], start
        while at < end:
            value, at = _value(data, at)
            values.append(value)
        return values, end
    text = data[start:end]
    if letter == _STRING:
        try:
            return text.decode(), end
        except UnicodeDecodeError:
            return RawString(text), end
    return text, end


def _int(letter: str) -> Callable[[bytes, int], int]:
    unpack = _INTS[letter].unpack_from

    def read(data: bytes, at: int) -> int:
        value: int = unpack(data, at)[0]
        return value if _letter_of(value) == letter else LetteredInt(value, letter)

    return read


def _decimal(data: bytes, at: int) -> Decimal:
    scale, value = _DECIMAL.unpack_from(data, at)
    return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -scale))


_READERS: dict[int, Callable[[bytes, int], Value]] = {
    **{ord(letter): _int(letter) for letter in _INTS},
    ord("t"): lambda data, at: data[at] != 0,
    ord("f"): lambda data, at: SingleFloat(_SINGLE.unpack_from(data, at)[0]),
    ord("d"): lambda data, at: _DOUBLE.unpack_from(data, at)[0],
    ord("D"): _decimal,
    ord("V"): lambda data, at: None,
}


# ---- encoding -------------------------------------------------------------------------------------------------------


def encode_table(table: Mapping[str, Value]) -> bytes:
    """The table behind its length. Violation for what no table can hold."""
    parts: list[bytes] = []
    for name, value in table.items():
        raw = name.encode()
        if len(raw) > TABLE_NAME_BYTES:
            raise Violation(f"The name {shown(raw)} of a field has {len(raw)} bytes: at most {TABLE_NAME_BYTES} fit.")
        parts += (bytes((len(raw),)), raw, _encoded(value))
    return _sized(b"".join(parts))


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def _letter_of(value: int) -> str:
    """The letter of an int that says none."""
    return "I" if -_INT_MAX - 1 <= value <= _INT_MAX else "l"


def _encoded(value: Value) -> bytes:
    """The letter and the value."""
    if isinstance(value, str):
        return b"S" + _sized(value.encode())
    if isinstance(value, bool):
        return b"t\1" if value else b"t\0"
    if isinstance(value, int):
        letter = value.letter if isinstance(value, LetteredInt) else _letter_of(value)
        try:
            return letter.encode() + _INTS[letter].pack(value)
        except struct.error:
            raise Violation(f"{value} is not a number that fits a field of a table of the type {letter!r}.") from None
    if isinstance(value, Mapping):
        return b"F" + encode_table(value)
    if isinstance(value, bytes):
        return (b"S" if isinstance(value, RawString) else b"x") + _sized(value)
    if isinstance(value, SingleFloat):
        return b"f" + _SINGLE.pack(value)
    if isinstance(value, float):
        return b"d" + _DOUBLE.pack(value)
    if isinstance(value, Decimal):
        return b"D" + _encoded_decimal(value)
    if isinstance(value, Sequence):
        return b"A" + _sized(b"".join([_encoded(one) for one in value]))
    assert value is None, f"{type(value).__name__} is not a value of a table"
    return b"V"


def _encoded_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and -255 <= exponent <= 0:
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        if -_INT_MAX - 1 <= number <= _INT_MAX:
            return _DECIMAL.pack(-exponent, number)
    raise Violation(
        f"{str(value)[:100]} is not a decimal that fits a field of a table: one of 32 bits, with up to 255 of its "
        "digits after the point, does."
    )
