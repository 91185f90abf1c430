"""The JSON object in the body of a request. Its values are counted before it is parsed: they cost more than its bytes
do.
"""

import json
from collections import Counter
from typing import Any

from radiator.model.errors import shown
from radiator.model.limits import HTTP_JSON_VALUES
from radiator.protocols.http.head import BadRequest

_QUOTES = 4  # the most quotes of a value: two for its name and two for a text


def parsed(body: bytes) -> dict[str, Any]:
    """Returns the object. Raises BadRequest if the body is no JSON object, or has more than HTTP_JSON_VALUES values."""
    if _has_too_many_values(body):
        raise BadRequest(413, f"The body has more than {HTTP_JSON_VALUES} values; send them in several requests.")
    try:
        found = json.loads(body.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise BadRequest(400, "The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        raise BadRequest(400, f"The body is not JSON: at character {error.pos}: {error.msg}.") from None
    except RecursionError:
        raise BadRequest(400, "The body is nested too deeply.") from None
    except ValueError as error:
        raise BadRequest(400, f"The body is JSON that is refused: {error}.") from None
    if not isinstance(found, dict):
        raise BadRequest(400, f"The body must be a JSON object; it begins with {shown(body[:40])}.")
    return found


def _has_too_many_values(body: bytes) -> bool:
    if _values(body) <= HTTP_JSON_VALUES:
        return False
    # commas within strings are not counted: once escapes are removed, each quote begins or ends a string
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > _QUOTES * HTTP_JSON_VALUES:
        return True
    return _values(b"".join(plain.split(b'"')[::2])) > HTTP_JSON_VALUES


def _values(text: bytes) -> int:
    """Returns an upper bound of the members, elements, arrays and objects, if no string contains such a sign."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        # one pass over the names: there may be very many
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"an object has {twice!r:.80} twice")
    return found
