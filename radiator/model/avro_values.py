"""The values of Avro types in a message's body: what a schema is compiled to, and what judges each value by its type.

Nothing is made of a body in binary encoding: it is passed over. Each wrong value is named by its place.
"""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from radiator.model.avro_reader import SHOWN, AvroReader, Wrong, shown_value
from radiator.model.limits import BODY_DEPTH_MAX

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_INT, _LONG = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_FLOAT_MAX, _DOUBLE_MAX = 3.4028234663852886e38, 1.7976931348623157e308


class AvroType(Protocol):
    """A type. a: what a value of it is, with its article. json_name: of a branch of a union."""

    a: str
    json_name: str

    def binary(self, reader: AvroReader, depth: int) -> None:
        """Passes over one value. depth: how many more may be within each other. Raises Wrong."""

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        """Judges what JSON has. Raises Wrong."""


# ---- the types ------------------------------------------------------------------------------------------------------


class _Null:
    a = json_name = "null"

    def binary(self, reader: AvroReader, depth: int) -> None:
        pass

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if value is not None:
            raise _mismatch(value, self.a)


class _Boolean:
    a, json_name = "a boolean", "boolean"

    def binary(self, reader: AvroReader, depth: int) -> None:
        byte = reader.data[reader.take(1, self.a)]
        if byte > 1:
            raise Wrong(f"is the byte {byte}; it must be a boolean, 0 or 1")

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, bool):
            raise _mismatch(value, self.a)


class _Whole:
    def __init__(self, json_name: str, a: str, bounds: tuple[int, int]) -> None:
        self.json_name = json_name
        self.a = a
        self.least, self.most = bounds
        self.range = f"{a}, from {self.least} to {self.most}"

    def binary(self, reader: AvroReader, depth: int) -> None:
        value = reader.long(self.a)
        if not self.least <= value <= self.most:
            raise _mismatch(value, self.range)

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise _mismatch(value, self.range)


class _Real:
    def __init__(self, json_name: str, size: int, most: float) -> None:
        self.json_name = json_name
        self.a = f"a {json_name}"
        self.size = size
        self.most = most

    def binary(self, reader: AvroReader, depth: int) -> None:
        reader.take(self.size, self.a)

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool) or not -self.most <= value <= self.most:
            raise _mismatch(value, self.a)


class _String:
    a, json_name = "a string", "string"

    def binary(self, reader: AvroReader, depth: int) -> None:
        reader.text(self.a)

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, str) or not _is_utf8(value):
            raise _mismatch(value, self.a)


class _Bytes:
    a, json_name = "bytes", "bytes"

    def binary(self, reader: AvroReader, depth: int) -> None:
        reader.take(reader.long(self.a), self.a)

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, str) or not _is_latin1(value):
            raise _mismatch(value, "bytes, as a text of characters from U+0000 to U+00FF")


class _Named:
    """A type that has a name of its own."""

    def __init__(self, name: str) -> None:
        self.name = self.json_name = name


def name_of(node: AvroType) -> str:
    """What the place of a value of it begins with: its name without the namespace, or `the body`."""
    return node.name.rpartition(".")[2] if isinstance(node, _Named) else "the body"


class _Fixed(_Named):
    def __init__(self, name: str, size: int) -> None:
        super().__init__(name)
        self.size = size
        self.a = f"a fixed of {size} bytes"

    def binary(self, reader: AvroReader, depth: int) -> None:
        reader.take(self.size, self.a)

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, str) or len(value) != self.size or not _is_latin1(value):
            raise _mismatch(value, f"{self.a}, as a text of characters from U+0000 to U+00FF")


class _Enum(_Named):
    def __init__(self, name: str, symbols: list[str]) -> None:
        super().__init__(name)
        self.symbols = symbols
        shown = ", ".join(map(shown_value, symbols[:SHOWN]))
        self.a = f"one of {shown}{', ...' if len(symbols) > SHOWN else ''}"

    def binary(self, reader: AvroReader, depth: int) -> None:
        number = reader.long(self.a)
        if not 0 <= number < len(self.symbols):
            raise Wrong(f"is the symbol number {number}, of {len(self.symbols)}; it must be {self.a}")

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if value not in self.symbols:
            raise _mismatch(value, self.a)


class _Array:
    a, json_name = "an array", "array"

    def __init__(self, item: AvroType) -> None:
        self.item = item

    def binary(self, reader: AvroReader, depth: int) -> None:
        first, depth, binary = 0, _deeper(depth), self.item.binary
        for count in reader.blocks(self.a):
            for number in range(first, first + count):
                try:
                    binary(reader, depth)
                except Wrong as wrong:
                    wrong.place.append(f"[{number}]")
                    raise
            first += count

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, list):
            raise _mismatch(value, self.a)
        reader.spend(len(value))
        depth = _deeper(depth)
        for number, item in enumerate(value):
            try:
                self.item.json(item, reader, depth)
            except Wrong as wrong:
                wrong.place.append(f"[{number}]")
                raise


class _Map:
    a, json_name = "a map", "map"

    def __init__(self, item: AvroType) -> None:
        self.item = item

    def binary(self, reader: AvroReader, depth: int) -> None:
        depth, key = _deeper(depth), (0, 0)
        for count in reader.blocks(self.a):
            reader.spend(count)
            for _ in range(count):
                key = reader.at, reader.at
                try:
                    reader.text("the key of a map")
                    key = key[0], reader.at
                    self.item.binary(reader, depth)
                except Wrong as wrong:
                    wrong.place.append(f"[{_key_shown(reader.data[slice(*key)])}]")
                    raise

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, dict):
            raise _mismatch(value, self.a)
        reader.spend(2 * len(value))
        depth = _deeper(depth)
        for key, item in value.items():
            try:
                if not _is_utf8(key):
                    raise _mismatch(key, "the key of a map, a string")
                self.item.json(item, reader, depth)
            except Wrong as wrong:
                wrong.place.append(f"[{shown_value(key)}]")
                raise


class _Union:
    json_name = "union"

    def __init__(self, branches: list[AvroType]) -> None:
        self.branches = branches
        self.by_name = {branch.json_name: branch for branch in branches}
        if len(self.by_name) < len(branches) or not branches or "union" in self.by_name:
            raise ValueError("a union has no branches, two of one type, or another union in it")
        names = ["null" if name == "null" else f'{{"{name}": ...}}' for name in self.by_name]
        self.a = f"{'one of ' * (len(names) > 1)}{', '.join(names[:SHOWN])}{', ...' * (len(names) > SHOWN)}"

    def binary(self, reader: AvroReader, depth: int) -> None:
        reader.spend(1)
        number = reader.long(self.a)
        if not 0 <= number < len(self.branches):
            raise Wrong(f"has the branch {number} of a union of {len(self.branches)}; it must be {self.a}")
        self.branches[number].binary(reader, _deeper(depth))

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        reader.spend(1)
        if value is None and "null" in self.by_name:
            return
        if not isinstance(value, dict) or len(value) != 1:
            raise _mismatch(value, self.a)
        ((name, item),) = value.items()
        branch = self.by_name.get(name)
        if branch is None or name == "null":
            raise _mismatch(value, self.a)
        branch.json(item, reader, _deeper(depth))


class _Record(_Named):
    fields: Mapping[str, AvroType]

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.fields = {}
        self.a = f"the record {name}"

    def binary(self, reader: AvroReader, depth: int) -> None:
        depth = _deeper(depth)
        reader.spend(len(self.fields))
        for name, node in self.fields.items():
            try:
                node.binary(reader, depth)
            except Wrong as wrong:
                wrong.place.append(f".{name}")
                raise

    def json(self, value: object, reader: AvroReader, depth: int) -> None:
        if not isinstance(value, dict):
            raise _mismatch(value, self.a)
        depth = _deeper(depth)
        reader.spend(len(self.fields))
        for name, node in self.fields.items():
            try:
                if name not in value:
                    raise Wrong(f"is missing; it must be {node.a}")
                node.json(value[name], reader, depth)
            except Wrong as wrong:
                wrong.place.append(f".{name}")
                raise
        if len(value) > len(self.fields):
            other = next(key for key in value if key not in self.fields)
            raise Wrong(f"has a field {shown_value(other)}, which is not in the schema; remove it")


_PRIMITIVES: dict[str, AvroType] = {
    node.json_name: node
    for node in (
        _Null(), _Boolean(), _Whole("int", "an int", _INT), _Whole("long", "a long", _LONG),
        _Real("float", 4, _FLOAT_MAX), _Real("double", 8, _DOUBLE_MAX), _String(), _Bytes(),
    )
}  # fmt: skip


def compiled(schema: Any) -> "AvroType":
    """What judges values of a schema that fastavro has parsed: names are whole, and known where they stand. Raises
    ValueError, a sentence, or KeyError, TypeError or AttributeError for what fastavro has not judged.
    """
    compiler = _Compiler()
    root = compiler.node(schema)
    if any(_takes_no_bytes(array.item) for array in compiler.arrays):
        raise ValueError("the items of an array take no bytes, so a short body could have any number of them")
    return root


class _Compiler:
    def __init__(self) -> None:
        self.named: dict[str, AvroType] = {}
        self.arrays: list[_Array] = []

    def node(self, schema: Any) -> AvroType:
        if isinstance(schema, list):
            return _Union([self.node(branch) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self.named[schema]
        kind = schema["type"]
        if kind == "array":
            array = _Array(self.node(schema["items"]))
            self.arrays.append(array)
            return array
        if kind == "map":
            return _Map(self.node(schema["values"]))
        if kind in ("record", "error"):
            return self.record(schema)
        if kind == "enum":
            symbols = schema["symbols"]
            if not symbols or len(set(symbols)) < len(symbols):
                raise ValueError("an enum has no symbols, or one twice")
            return self.called(_Enum(_checked_name(schema["name"]), [_checked_name(one) for one in symbols]))
        if kind == "fixed":
            size = schema["size"]
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise ValueError(f"a fixed has the size {shown_value(size)}")
            return self.called(_Fixed(_checked_name(schema["name"]), size))
        return self.node(kind)

    def record(self, schema: Mapping[str, Any]) -> AvroType:
        record = _Record(_checked_name(schema["name"]))
        self.called(record)
        fields: dict[str, AvroType] = {}
        for field in schema["fields"]:
            name = _checked_name(field["name"])
            if name in fields:
                raise ValueError(f"the record {record.name} has two fields {name}")
            fields[name] = self.node(field["type"])
        record.fields = fields
        return record

    def called(self, node: "_Fixed | _Enum | _Record") -> AvroType:
        self.named[node.name] = node
        return node


# ---- helpers --------------------------------------------------------------------------------------------------------


def _takes_no_bytes(node: AvroType) -> bool:
    """Raises RecursionError for a record that is directly within itself."""
    if isinstance(node, _Record):
        return all(map(_takes_no_bytes, node.fields.values()))
    return isinstance(node, _Null) or isinstance(node, _Fixed) and node.size == 0


def _deeper(depth: int) -> int:
    if not depth:
        raise Wrong(f"stands within {BODY_DEPTH_MAX} other values; it may not be deeper")
    return depth - 1


def _mismatch(value: object, a: str) -> Wrong:
    return Wrong(f"is {shown_value(value)}; it must be {a}")


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{shown_value(name)} is not a name: it must be of A-Z a-z 0-9 _, and begin with no digit")
    return name


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_latin1(text: str) -> bool:
    return text.isascii() or max(text) <= "\xff"


def _key_shown(encoded: bytes) -> str:
    """The key of a map, its length before it; as far as it is one."""
    reader = AvroReader(encoded)
    try:
        size = reader.long("")
        at = reader.take(size, "")
        return shown_value(encoded[at : at + size].decode())
    except (Wrong, UnicodeDecodeError):
        return "..."
