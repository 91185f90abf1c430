"""Schemas and bodies for tests: made by fastavro, which knows nothing of how the broker judges them."""

import io
import json
from typing import Any

import fastavro

ORDER = {
    "type": "record",
    "name": "shop.order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "item",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "price", "type": "double"}],
                },
            },
        },
    ],
}
ORDER_TEXT = json.dumps(ORDER, separators=(",", ":"))
NEST_TEXT = '{"type":"record","name":"nest","fields":[{"name":"inner","type":["null","nest"]}]}'
VALUE: dict[str, Any] = {"id": 7, "note": "x", "items": [{"sku": "a", "price": 1.5}, {"sku": "b", "price": 2.0}]}

BINARY, JSON = b"content-type:avro/binary\n", b"content-type:application/json\n"
"""Header blocks."""


def binary(schema: Any, value: Any) -> bytes:
    """The value in binary encoding. schema: as Python has JSON."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def as_json(schema: Any, value: Any) -> bytes:
    """The same in JSON encoding."""
    out = io.StringIO()
    fastavro.json_writer(out, fastavro.parse_schema(schema), [value])
    return out.getvalue().encode()


def long(value: int) -> bytes:
    """A number in binary encoding."""
    left, out = value << 1 ^ value >> 63, bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


GOOD = binary(ORDER, VALUE)
