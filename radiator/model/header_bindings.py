"""The bindings of an exchange of type `headers`: their arguments, and which messages they match.

Such a binding has no routing key; its arguments, as canonical JSON, take the key's place and are its identity. Each is
the name of a header and its value, as text; None: the header is there, with any value. `x-match` says how many of them
must match: `all` (where it is not given) or `any` of those whose names do not begin with `x-`; `all-with-x` and
`any-with-x` look at these too.
"""

import json
from binascii import b2a_base64
from collections.abc import Mapping
from typing import NamedTuple

from radiator.model.amqp_properties import expanded_pairs
from radiator.model.amqp_tables import described
from radiator.model.checks import shown

X_MATCH = "x-match"
ALL, ANY, ALL_WITH_X, ANY_WITH_X = "all", "any", "all-with-x", "any-with-x"
MATCHES = (ALL, ANY, ALL_WITH_X, ANY_WITH_X)
HEADERS_BINDINGS_MAX = 1000  # refuse: of one exchange of type headers; each costs every message some 0.2 µs
NO_ARGUMENTS = "{}"
ARGUMENTS_MAX = 64  # refuse: arguments of one binding
ARGUMENTS_MAX_BYTES = 2048  # refuse: of all of them, as canonical JSON; each binding keeps some 4 times as much


class HeaderMatch(NamedTuple):
    """What a binding asks of a message. wanted: as `words_of` has them."""

    is_any: bool
    wanted: frozenset[str]

    def matches(self, words: frozenset[str]) -> bool:
        """Whether a message with those words matches."""
        return not self.wanted.isdisjoint(words) if self.is_any else self.wanted <= words


def arguments_key(arguments: object) -> str:
    """The key of the binding with these arguments: canonical JSON. Numbers, truth values and byte arrays become the
    text that STOMP has for them. Raises ValueError, a clause.
    """
    if not isinstance(arguments, Mapping):
        raise ValueError(f'is {shown(arguments)}; it must be a table of names and values, such as {{"format": "pdf"}}')
    if len(arguments) > ARGUMENTS_MAX:
        raise ValueError(f"has {len(arguments)} arguments; there may be at most {ARGUMENTS_MAX}")
    texts = {name: _text(name, value) for name, value in arguments.items()}
    match = texts.get(X_MATCH, ALL)
    if match not in MATCHES:
        raise ValueError(f"has {X_MATCH} = {shown(match)}; it is one of {', '.join(MATCHES)}")
    key = json.dumps(texts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if not _is_utf8(key):
        raise ValueError("has half of a surrogate pair in it; write text that UTF-8 has")
    if len(key.encode()) > ARGUMENTS_MAX_BYTES:
        raise ValueError(f"has {len(key.encode())} bytes of arguments; there may be at most {ARGUMENTS_MAX_BYTES}")
    return key


def canonical_key(key: str) -> str:
    """The key for arguments written as JSON; no text means no arguments. Raises ValueError, a clause."""
    if len(key) > ARGUMENTS_MAX_BYTES:
        raise ValueError(f"has {len(key)} characters of arguments; there may be at most {ARGUMENTS_MAX_BYTES} bytes")
    try:
        given = json.loads(key or NO_ARGUMENTS) if key[:1] in ("", "{") else None
    except (ValueError, RecursionError):
        given = None
    if given is None:
        right = 'its arguments stand there as a JSON object, such as {"format":"pdf","x-match":"all"}'
        raise ValueError(f"is {shown(key)}; of an exchange of type headers {right}")
    return arguments_key(given)


def match_of(key: str) -> HeaderMatch:
    """What the binding of that canonical key asks for."""
    arguments = json.loads(key)
    match = arguments.pop(X_MATCH, ALL)
    names = [name for name in arguments if match in (ALL_WITH_X, ANY_WITH_X) or not name.startswith("x-")]
    wanted = frozenset(_there(name) if arguments[name] is None else _equal(name, arguments[name]) for name in names)
    return HeaderMatch(match in (ANY, ANY_WITH_X), wanted)


def words_of(block: bytes, escaping: int) -> frozenset[str]:
    """What a message has to offer: each of its headers with its value, and that it is there at all. Of several with one
    name the first counts, as in STOMP.
    """
    headers: dict[bytes, bytes] = {}
    for name, value in expanded_pairs(block, escaping):
        headers.setdefault(name, value)
    words = set()
    for name, value in headers.items():
        text = name.decode("utf-8", "replace")
        words.add(_there(text))
        words.add(_equal(text, value.decode("utf-8", "replace")))
    return frozenset(words)


def readable(key: str) -> str:
    """The arguments as people read them: `format=pdf, type=*, x-match=any`."""
    arguments = json.loads(key)
    return ", ".join(f"{name}={'*' if value is None else value}" for name, value in arguments.items()) or "no arguments"


def _there(name: str) -> str:
    return f"?{name}"


def _equal(name: str, value: str) -> str:
    return f"={len(name)}:{name}{value}"


def _text(name: object, value: object) -> str | None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"has the name {shown(name)}; each argument has the name of a header")
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, bytes) and name != X_MATCH:
        return b2a_base64(value, newline=False).decode()  # Perl's client sends all text as byte arrays
    raise ValueError(f"has {shown(name)} = {described(value)}; a value is text, a number, true, false or null")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
