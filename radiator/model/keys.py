"""The key of a message: where it stands, as settings say it, and what it is.

A source is `header:NAME`, or a JSON pointer into the body (RFC 6901). Of several, the first that is found counts. The
stored messages of a queue are found by their keys: so what those were taken from is kept with what the store has of a
queue's settings.
"""

import json
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from radiator.model.amqp_properties import expanded
from radiator.model.checks import shown
from radiator.model.headers import ESCAPING_ALL, ESCAPING_BUT_CR, ESCAPING_NONE, Field, escape
from radiator.model.limits import KEY_HASH_BYTES, KEY_SOURCES_MAX, KEYED_BODY_MAX_BYTES, NAME_MAX_BYTES
from radiator.model.message import Message
from radiator.model.patterns import name_mistake

HEADER = "header:"
"""What a source begins with that names a header."""
KEYED_BY = "keyed_by"
"""In what the store keeps of a queue's settings: the sources of the keys that its messages are stored by."""
_RIGHT = 'it must be "header:NAME", a JSON pointer such as "/customer/id", or a list of these'
_NO_JSON = object()


# ---- sources, as people write them ----------------------------------------------------------------------------------


def json_pointer(value: object) -> str:
    """Where the key is in a body (RFC 6901). Raises ValueError, a clause."""
    right = 'a JSON pointer such as "/customer/id", in which ~ is ~0 and a / of a name ~1'
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise ValueError(f"is {shown(value)}; it must be {right}")
    if re.search(r"~(?![01])", value):
        raise ValueError(f"is {shown(value)}, with a ~ that is alone; it must be {right}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"is {shown(value)}, which is not UTF-8; it must be {right}") from None
    if size > NAME_MAX_BYTES:
        raise ValueError(f"is {shown(value)}; it may have at most {NAME_MAX_BYTES} bytes")
    return value


def key_sources(value: object) -> tuple[str, ...]:
    """Where the keys of a queue's messages stand: one source, or a list of them; None: nowhere. Raises ValueError, a
    clause.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (_source(value),)
    if not isinstance(value, list | tuple):
        raise ValueError(f"is {shown(value)}; {_RIGHT}")
    if not value:
        raise ValueError("is an empty list; name what the keys are taken from, or leave it out")
    if len(value) > KEY_SOURCES_MAX:
        raise ValueError(f"is a list of {len(value)}; it may have at most {KEY_SOURCES_MAX}")
    sources = tuple(_source(one) for one in value)
    for place, source in enumerate(sources):
        if source in sources[:place]:
            raise ValueError(f"names {shown(source)} twice; name it once")
    return sources


def _source(value: object) -> str:
    if not isinstance(value, str) or (value and not value.startswith(("/", HEADER))):
        raise ValueError(f"is {shown(value)}; {_RIGHT}")
    if not value.startswith(HEADER):
        return json_pointer(value)
    mistake = name_mistake(value.removeprefix(HEADER))
    if mistake:
        raise ValueError(f"is {shown(value)}, whose name {mistake}")
    return value


def as_written(sources: tuple[str, ...]) -> str | list[str] | None:
    """Sources as a file or JSON has them: one is a text, several are a list; None: there are none."""
    if len(sources) > 1:
        return [*sources]
    return sources[0] if sources else None


# ---- what the store keeps -------------------------------------------------------------------------------------------


def with_keys(kept: Mapping[str, Any], sources: tuple[str, ...]) -> dict[str, Any]:
    """Settings as the store keeps them, with what the keys of the messages stored are taken from."""
    return {**kept, KEYED_BY: [*sources]} if sources else {**kept}


def without_keys(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the store keeps them, without that."""
    return {key: value for key, value in kept.items() if key != KEYED_BY}


def keys_of(kept: Mapping[str, Any]) -> tuple[str, ...]:
    """What the keys of the messages stored are taken from; (): they are stored by none."""
    sources = kept.get(KEYED_BY)
    return tuple(sources) if isinstance(sources, list) and all(isinstance(one, str) for one in sources) else ()


# ---- the key of a message -------------------------------------------------------------------------------------------


class KeySource:
    """Finds the keys of messages: made once for a queue or log, from checked sources."""

    __slots__ = ("_places",)

    def __init__(self, sources: tuple[str, ...]) -> None:
        self._places = tuple(_place(source) for source in sources)

    @property
    def finder(self) -> Callable[[Message], bytes | None]:
        """A function that does the same as `key_of`, faster if the only source is a header."""
        (fields, _), *others = self._places or ((None, []),)
        if fields is None or others:
            return self.key_of

        def of_header(message: Message) -> bytes | None:
            block, escaping = expanded(message.headers, message.escaping)
            field = fields.get(escaping)
            return None if field is None else field.value(block, escaping)

        return of_header

    def key_of(self, message: Message) -> bytes | None:
        """The key; None: the message has none. A body is read at most once, and one of more than KEYED_BODY_MAX_BYTES
        is not.
        """
        body: Any = None
        is_read = False
        for fields, steps in self._places:
            if fields is not None:
                block, escaping = expanded(message.headers, message.escaping)
                field = fields.get(escaping)
                key = None if field is None else field.value(block, escaping)
            else:
                if not is_read:
                    body, is_read = _json_in(message.body), True
                key = _key_at(body, steps)
            if key is not None:
                return key
        return None


def hash_of(key: bytes) -> bytes:
    """What stands for a key in the store."""
    return blake2b(key, digest_size=KEY_HASH_BYTES).digest()


def _place(source: str) -> tuple[dict[int, Field] | None, list[str]]:
    """Where to look: the header as each escaping has its name, or the steps into the body."""
    if not source.startswith(HEADER):
        return None, [step.replace("~1", "/").replace("~0", "~") for step in source.split("/")[1:]]
    name = source.removeprefix(HEADER)
    fields = {escaping: Field(escape(name.encode(), escaping)) for escaping in (ESCAPING_BUT_CR, ESCAPING_ALL)}
    if ":" not in name:  # without escapes a name ends at its first colon
        fields[ESCAPING_NONE] = Field(name.encode())
    return fields, []


def _json_in(body: bytes) -> Any:
    """What the body says; _NO_JSON where it is too long, or not JSON."""
    if len(body) > KEYED_BODY_MAX_BYTES:
        return _NO_JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _NO_JSON


def _key_at(found: Any, steps: list[str]) -> bytes | None:
    """What is there, unless it is an array or an object."""
    try:
        for step in steps:
            if isinstance(found, list):
                found = found[_index(step)]
            elif isinstance(found, dict):
                found = found[step]
            else:
                return None
    except (ValueError, KeyError, IndexError):
        return None
    if found is _NO_JSON or isinstance(found, list | dict):
        return None
    text = found if isinstance(found, str) else json.dumps(found)
    return text.encode("utf-8", "surrogatepass")


def _index(step: str) -> int:
    """Returns an index of RFC 6901: digits, of which the first is 0 only where it is the only one."""
    if not (step.isascii() and step.isdigit()) or (step[0] == "0" and step != "0"):
        raise ValueError(step)
    return int(step)
