"""Avro schemas, and whether the body of a message is one whole value of such a schema.

fastavro reads schemas; bodies are judged here, since its reader is not made for untrusted bytes: it recurses as deep as
they say (100 KB of them end the process), accepts the number of a symbol or an `int` out of range, and makes as many
items as a count says, even if no byte stands for them. Here nothing is made of a body, each wrong value is named by its
place, and what a body may cost is bounded: BODY_VALUES_MAX values, BODY_DEPTH_MAX within each other.

Logical types are judged as what is beneath them, aliases and defaults not at all: nothing is resolved.
"""

import json
from functools import lru_cache
from typing import Any

from radiator.model.avro_reader import AvroReader, Wrong, shown_value
from radiator.model.avro_values import AvroType, compiled, name_of
from radiator.model.errors import count_text
from radiator.model.errors import shown as shown_bytes
from radiator.model.limits import BODY_DEPTH_MAX, BODY_VALUES_MAX, JSON_BODY_MAX_BYTES, SCHEMA_MAX_BYTES, SCHEMAS_KEPT

BINARY, JSON = b"avro/binary", b"application/json"
"""The content-types of a body in Avro's binary encoding, and in its JSON encoding."""

NOT_INSTALLED = 'needs fastavro: `pip install "fastavro>=1.9,<2"` into the Python that radiator runs with'

_OWN_KEYS = "__fastavro_parsed", "__named_schemas"  # by which fastavro knows what it need not judge again


def library() -> Any:
    """fastavro. Raises ValueError, a clause, where it is not installed: the extra `avro` has it."""
    try:
        import fastavro  # noqa: PLC0415  # only who uses a schema needs it
    except ImportError:
        raise ValueError(NOT_INSTALLED) from None
    return fastavro


def encoding_of(content_type: bytes | None) -> bytes:
    """What a content-type says without its parameters, in small letters; empty where there is none."""
    return (content_type or b"").partition(b";")[0].strip().lower()


def schema_text(value: object) -> str:
    """The JSON text of an Avro schema, without the spaces between. Raises ValueError, a clause."""
    right = 'it must be an Avro schema as JSON, such as {"type": "record", "name": "order", "fields": [...]}'
    if not isinstance(value, str):
        raise ValueError(f"is {shown_value(value)}; {right}")
    if (
        len(value) > SCHEMA_MAX_BYTES
        or not value.isascii()
        and len(value.encode("utf-8", "replace")) > SCHEMA_MAX_BYTES
    ):
        raise ValueError(f"is a schema of more than {SCHEMA_MAX_BYTES} bytes; it may have so many")
    try:
        text = json.dumps(_loaded(value), separators=(",", ":"), ensure_ascii=True)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is {shown_value(value)}, which is not JSON ({error}); {right}") from None
    body_schema(text)
    return text


@lru_cache(maxsize=SCHEMAS_KEPT)
def body_schema(text: str) -> "BodySchema":
    """The schema of that text, which `schema_text` has returned. Raises ValueError, a clause."""
    fastavro = library()
    try:
        parsed = fastavro.parse_schema(json.loads(text))
        root = compiled(parsed)
    except KeyError as error:
        raise ValueError(f"is not an Avro schema: {shown_value(error.args[0])} is missing") from None
    except fastavro.schema.UnknownType as error:
        raise ValueError(f"is not an Avro schema: there is no type {shown_value(error.name)}") from None
    except (TypeError, AttributeError):
        raise ValueError("is not an Avro schema: a type, name or list in it is something else") from None
    except (fastavro.schema.SchemaParseException, ValueError, RecursionError) as error:
        raise ValueError(f"is not an Avro schema: {_sentence(error)}") from None
    return BodySchema(name_of(root), root)


class BodySchema:
    """What bodies must be. name: what a wrong place begins with."""

    __slots__ = ("name", "root")

    def __init__(self, name: str, root: AvroType) -> None:
        self.name = name
        self.root = root

    def check(self, body: bytes, content_type: bytes | None) -> int:
        """Checks that the body is one whole value of the schema, in the encoding of its content-type. Returns how many
        values it has. Raises ValueError, a clause: what is wrong, and what would be right.
        """
        kind = encoding_of(content_type)
        if kind == JSON:
            return self._check_json(body)
        if kind == BINARY:
            return self._check_binary(body)
        given = "no content-type" if content_type is None else f"the content-type {shown_bytes(content_type)}"
        raise ValueError(f"the body has {given}; it must be avro/binary or application/json")

    def _check_binary(self, body: bytes) -> int:
        reader = AvroReader(body)
        try:
            self.root.binary(reader, BODY_DEPTH_MAX)
        except Wrong as wrong:
            raise ValueError(wrong.clause(self.name)) from None
        if reader.at < len(body):
            left = count_text(len(body) - reader.at, "byte")
            raise ValueError(f"the body goes on for {left} after the end of {self.name}; it must end there")
        return BODY_VALUES_MAX - reader.left

    def _check_json(self, body: bytes) -> int:
        if len(body) > JSON_BODY_MAX_BYTES:
            most = f"at most {JSON_BODY_MAX_BYTES} where there is a schema, in avro/binary more"
            raise ValueError(f"the body has {len(body)} bytes of JSON; it may have {most}")
        try:
            value = _loaded(body.decode())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the body is not JSON: {_sentence(error)}") from None
        reader = AvroReader(b"")
        try:
            self.root.json(value, reader, BODY_DEPTH_MAX)
        except Wrong as wrong:
            raise ValueError(wrong.clause(self.name)) from None
        return BODY_VALUES_MAX - reader.left


def _loaded(text: str) -> Any:
    """JSON in which no name stands twice. Raises ValueError."""
    return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has one name twice")
    if not found.keys().isdisjoint(_OWN_KEYS):
        raise ValueError("an object has a name that fastavro keeps for itself")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _sentence(error: Exception) -> str:
    """What another library says is wrong, on one line of bounded length."""
    text = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
    return (text if len(text) <= 160 else f"{text[:157]}...").rstrip(".") or type(error).__name__
