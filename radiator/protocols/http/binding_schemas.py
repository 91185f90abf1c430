"""JSON Schemas of the fields of a binding, for the OpenAPI document."""

from typing import Any

from radiator.model.header_bindings import ARGUMENTS_MAX, ARGUMENTS_MAX_BYTES
from radiator.model.limits import NAME_MAX_BYTES

BOUND_KEY: dict[str, Any] = {
    "type": "string",
    "maxLength": ARGUMENTS_MAX_BYTES,
    "description": f"At most {NAME_MAX_BYTES} bytes; of an exchange of type headers its arguments, as JSON.",
}
ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "maxProperties": ARGUMENTS_MAX,
    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    "description": "Of a binding of an exchange of type headers, which has no key.",
}
OF_BINDING: dict[str, dict[str, Any]] = dict.fromkeys(("bind", "unbind"), {"key": BOUND_KEY, "arguments": ARGUMENTS})
