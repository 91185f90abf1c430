"""The binding of an exchange to another one, as the store keeps it: a row of what is declared at run time, whose name
is a digest, since names and keys together are longer than a key of the store may be.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from radiator.model.errors import Refusal

KIND = "exchange-binding"
EXCHANGE_PREFIX = "/exchange/"  # of an exchange as the target of a binding
_FIELDS = ("source", "key", "destination")


def binding_name(source: str, key: str, destination: str) -> str:
    """The name of its row. Names of exchanges have no NUL."""
    return sha256(f"{source}\0{destination}\0{key}".encode()).hexdigest()


def binding_text(source: str, key: str, destination: str) -> str:
    """The text of its row."""
    return json.dumps(dict(zip(_FIELDS, (source, key, destination), strict=True)))


def binding_of(text: str) -> tuple[str, str, str]:
    """Source, key and destination in the text of a row. Raises Refusal for any other text."""
    given = json.loads(text)
    return check_binding_row(given if isinstance(given, Mapping) else {})


def check_binding_row(given: Mapping[str, Any]) -> tuple[str, str, str]:
    """Source, key and destination in a row's JSON object. Raises Refusal for any other."""
    if set(given) != set(_FIELDS) or not all(isinstance(value, str) for value in given.values()):
        raise Refusal("bad-request", f"it has {', '.join(map(repr, sorted(given)))} and not {', '.join(_FIELDS)}.")
    return given["source"], given["key"], given["destination"]
