"""The JSON object that the body of a request is. How many values it may have is compared before they are made: they are
what reading it costs, more than its bytes.
"""

import json
from collections import Counter
from typing import Any

from radiator.model.errors import shown
from radiator.model.limits import HTTP_JSON_VALUES
from radiator.protocols.http.head import BadRequest

_QUOTES = 4  # of one value: those of its name and its own


def parsed(body: bytes) -> dict[str, Any]:
    """Raises BadRequest for what is no JSON object, and for more than HTTP_JSON_VALUES values."""
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
    # commas of texts are no values: without what is escaped each quote begins or ends a text, and these are left out
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > _QUOTES * HTTP_JSON_VALUES:
        return True
    return _values(b"".join(plain.split(b'"')[::2])) > HTTP_JSON_VALUES


def _values(text: bytes) -> int:
    """How many members, elements, arrays and objects it has at most, where no text in it holds such a sign."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]  # in one pass: there may be very many
        raise ValueError(f"an object has {twice!r:.80} twice")
    return found
