"""The Avro schema of bodies, as the option valueSchema gives it: its type in Spark, and how a body becomes a value.

A body is judged as the broker judges it (model/avro.py), and only then read by fastavro, which is not made for
untrusted bytes.
"""

import io
import json
import stat
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from radiator.model.avro import JSON, body_schema, encoding_of, library, schema_text
from radiator.model.avro_reader import Wrong, shown_value
from radiator.model.limits import SCHEMA_MAX_BYTES

DECIMAL_DIGITS_MAX = 38  # of a decimal in Spark
VALUE_BYTES = 32  # about what one value in a body takes as a Python object, besides the body
_TEXT = ("{", "[", '"')  # the JSON of a schema begins so; a path that does needs ./ before it

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}
_TIMESTAMPS = {  # the unit in microseconds, and the type in Arrow
    "timestamp-millis": (1000, pa.timestamp("us", tz="UTC")),
    "timestamp-micros": (1, pa.timestamp("us", tz="UTC")),
    "local-timestamp-millis": (1000, pa.timestamp("us")),
    "local-timestamp-micros": (1, pa.timestamp("us")),
}


def given_text(value: str) -> str:
    """Returns the schema's JSON text, from a file's path or the text itself. Raises ValueError, a clause."""
    if value.lstrip().startswith(_TEXT):
        text = schema_text(value)
    else:
        found = _read(value)
        try:
            text = schema_text(found)
        except ValueError as wrong:
            raise ValueError(f"is {value!r}, and its content {wrong}") from None
    value_schema(text)
    return text


@lru_cache(maxsize=8)
def value_schema(text: str) -> "ValueSchema":
    """Returns the schema of a text that `given_text` has returned. Raises ValueError, a clause: fastavro is missing, or
    Spark has no type for one of its types.
    """
    judge, fastavro = body_schema(text), library()
    try:
        kind = _Kinds().of(fastavro.parse_schema(json.loads(text)))
    except Wrong as wrong:
        raise ValueError(f"has no types in Spark: {wrong.clause(judge.name)}") from None
    return ValueSchema(text, kind)


class ValueSchema:
    """arrow: the type of a value. All of it may be null, as in Spark's own readers of files."""

    def __init__(self, text: str, kind: "_Kind") -> None:
        fastavro = library()
        self.arrow = kind.arrow
        self._kind = kind
        self._judge = body_schema(text)
        self._plain = fastavro.parse_schema(_without_logical_types(json.loads(text)))
        self._read = fastavro.schemaless_reader

    def value(self, body: bytes, content_type: str | None) -> tuple[Any, int]:
        """Returns the value for Arrow, and how many values are in it. Raises ValueError, a clause: why the body does
        not fit.
        """
        encoded = None if content_type is None else content_type.encode()
        count = self._judge.check(body, encoded)
        is_json = encoding_of(encoded) == JSON
        try:
            if is_json:
                return self._kind.made(json.loads(body), True), count
            raw = self._read(io.BytesIO(body), self._plain, None)
            return (raw if self._kind.is_plain else self._kind.made(raw, False)), count
        except Wrong as wrong:
            raise ValueError(wrong.clause(self._judge.name)) from None


# ---- the types ------------------------------------------------------------------------------------------------------


class _Kind(Protocol):
    """A type. is_plain: Arrow takes what fastavro reads."""

    arrow: pa.DataType
    is_plain: bool

    def made(self, raw: Any, is_json: bool) -> Any:
        """Returns the value for Arrow, from one read from JSON, or by fastavro from the binary encoding. Raises
        Wrong.
        """


class _Same:
    is_plain = True

    def __init__(self, arrow: pa.DataType) -> None:
        self.arrow = arrow

    def made(self, raw: Any, is_json: bool) -> Any:
        return raw


class _Real(_Same):
    def made(self, raw: Any, is_json: bool) -> Any:
        return float(raw)  # JSON may have a whole number, which Arrow takes only where it is exact


class _Bytes(_Same):
    def __init__(self) -> None:
        super().__init__(pa.binary())

    def made(self, raw: Any, is_json: bool) -> Any:
        return raw.encode("latin-1") if is_json else raw


class _Timestamp:
    def __init__(self, name: str) -> None:
        self.unit_us, self.arrow = _TIMESTAMPS[name]
        self.is_plain = self.unit_us == 1
        self.name = name

    def made(self, raw: Any, is_json: bool) -> Any:
        time_us = raw * self.unit_us
        if not -(2**63) <= time_us < 2**63:
            raise Wrong(f"is {raw}, as a {self.name} more than Spark's 64 bits of microseconds have room for")
        return time_us


class _Decimal:
    is_plain = False

    def __init__(self, precision: int, scale: int) -> None:
        self.arrow = pa.decimal128(precision, scale)
        self.digits, self.scale = precision, scale

    def made(self, raw: Any, is_json: bool) -> Any:
        unscaled = int.from_bytes(raw.encode("latin-1") if is_json else raw, "big", signed=True)
        if abs(unscaled) >= 10**self.digits:
            raise Wrong(f"is a decimal of more than {self.digits} digits, which the schema has as its precision")
        return Decimal(f"{unscaled}E-{self.scale}")


class _Array:
    def __init__(self, item: _Kind) -> None:
        self.item = item
        self.arrow = pa.list_(pa.field("element", item.arrow))
        self.is_plain = item.is_plain

    def made(self, raw: Any, is_json: bool) -> Any:
        made, values = self.item.made, []
        for number, item in enumerate(raw):
            try:
                values.append(made(item, is_json))
            except Wrong as wrong:
                wrong.place.append(f"[{number}]")
                raise
        return values


class _Map:
    is_plain = False

    def __init__(self, item: _Kind) -> None:
        self.item = item
        self.arrow = pa.map_(pa.string(), item.arrow)

    def made(self, raw: Any, is_json: bool) -> Any:
        made, pairs = self.item.made, []
        for key, item in raw.items():
            try:
                pairs.append((key, made(item, is_json)))
            except Wrong as wrong:
                wrong.place.append(f"[{shown_value(key)}]")
                raise
        return pairs


class _Union:
    """A union of null and one type, or of one type."""

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind
        self.arrow = kind.arrow
        self.is_plain = kind.is_plain

    def made(self, raw: Any, is_json: bool) -> Any:
        if raw is None:
            return None
        if is_json:
            (raw,) = raw.values()
        return self.kind.made(raw, is_json)


class _Record:
    def __init__(self, fields: Mapping[str, _Kind]) -> None:
        self.fields = fields
        self.arrow = pa.struct([pa.field(name, kind.arrow) for name, kind in fields.items()])
        self.is_plain = all(kind.is_plain for kind in fields.values())

    def made(self, raw: Any, is_json: bool) -> Any:
        values = {}
        for name, kind in self.fields.items():
            try:
                values[name] = kind.made(raw[name], is_json)
            except Wrong as wrong:
                wrong.place.append(f".{name}")
                raise
        return values


class _Kinds:
    """Makes the types of a schema that fastavro has parsed and the broker accepts."""

    def __init__(self) -> None:
        self.named: dict[str, _Kind | None] = {}

    def of(self, schema: Any) -> _Kind:
        """Raises Wrong."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._called(schema)
        kind, logical = schema["type"], schema.get("logicalType")
        if kind == "array":
            return _Array(self.of(schema["items"]))
        if kind == "map":
            return _Map(self.of(schema["values"]))
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            return self._name(schema["name"], _Same(pa.string()))
        if kind == "fixed":
            return self._name(schema["name"], _decimal(schema) if logical == "decimal" else _Bytes())
        if kind == "bytes" and logical == "decimal":
            return _decimal(schema)
        if kind == "int" and logical == "date":
            return _Same(pa.date32())
        if kind == "long" and logical in _TIMESTAMPS:
            return _Timestamp(logical)
        return self.of(kind)

    def _called(self, name: str) -> _Kind:
        if name == "null":
            raise Wrong("is always null, which is not a type of column; remove it")
        if name == "bytes":
            return _Bytes()
        if name in ("float", "double"):
            return _Real(_PRIMITIVES[name])
        if name in _PRIMITIVES:
            return _Same(_PRIMITIVES[name])
        kind = self.named[name]
        if kind is None:
            raise Wrong(f"is the record {name} within itself; a type of Spark has an end")
        return kind

    def _union(self, branches: list[Any]) -> _Kind:
        others = [branch for branch in branches if (branch["type"] if isinstance(branch, dict) else branch) != "null"]
        if len(others) != 1:
            raise Wrong("is a union; it must be one of null and one other type")
        return _Union(self.of(others[0]))

    def _record(self, schema: Mapping[str, Any]) -> _Kind:
        self.named[schema["name"]] = None
        fields: dict[str, _Kind] = {}
        for field in schema["fields"]:
            try:
                fields[field["name"]] = self.of(field["type"])
            except Wrong as wrong:
                wrong.place.append(f".{field['name']}")
                raise
        if not fields:
            raise Wrong("is a record without fields, which is not a type of column; remove it")
        return self._name(schema["name"], _Record(fields))

    def _name(self, name: str, kind: _Kind) -> _Kind:
        self.named[name] = kind
        return kind


# ---- helpers --------------------------------------------------------------------------------------------------------


def _decimal(schema: Mapping[str, Any]) -> _Kind:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= DECIMAL_DIGITS_MAX:
        raise Wrong(
            f"is a decimal of the precision {shown_value(precision)} and the scale {shown_value(scale)}; Spark has at "
            f"most {DECIMAL_DIGITS_MAX} digits, and a scale from 0 to the precision"
        )
    return _Decimal(precision, scale)


def _without_logical_types(schema: Any) -> Any:
    """Returns the schema by which fastavro reads the underlying types. Defaults are removed too, since they are
    values.
    """
    if isinstance(schema, list):
        return [_without_logical_types(one) for one in schema]
    if isinstance(schema, dict):
        return {
            key: _without_logical_types(value) for key, value in schema.items() if key not in ("logicalType", "default")
        }
    return schema


def _read(path: str) -> str:
    right = "name a file with an Avro schema, or give its JSON"
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise ValueError(f"is {path!r}, which is not a file; {right}")
        with Path(path).open("rb") as file:
            return file.read(SCHEMA_MAX_BYTES + 1).decode()
    except OSError as error:
        raise ValueError(f"is {path!r}, which cannot be read ({error.strerror}); {right}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"is {path!r}, which is not UTF-8 at byte {error.start}; {right}") from error
