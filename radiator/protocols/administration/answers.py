"""The JSON of an answer: {"ok": true, ...} with a key for each field of a record of model/answers.py, or {"ok": false,
"code": ..., "error": sentence}.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from radiator.model.answers import (
    AdminAnswer,
    Declared,
    DestinationDescribed,
    LogExplained,
    Named,
    QueueDeclared,
    QueueDescribed,
    QueueExplained,
    SectionNumbers,
)
from radiator.model.connections import ConnectionDescribed
from radiator.model.errors import Refusal
from radiator.model.numbers import PAUSE, BrokerNumbers, Later, LogNumbers, NamedRows, Rows
from radiator.model.peeking import PeekedMessage
from radiator.model.settings import QueueSettings
from radiator.model.validation import as_json


def refusal_text(refusal: Refusal) -> str:
    """Returns the JSON text of the answer that refuses a request."""
    return _text({"ok": False, "code": refusal.code, "error": str(refusal)})


def pieces(answer: AdminAnswer) -> Iterator[str]:
    """Yields the JSON text of an answer in pieces; "" where a row is not ready yet, so that the turn may end there."""
    return _object({"ok": True, **_members(answer)})


def _object(members: Mapping[str, Any]) -> Iterator[str]:
    between = "{"
    for name, value in members.items():
        yield f"{between}{_text(name)}: "
        between = ", "
        if isinstance(value, Rows):
            yield from _list(value)
        elif isinstance(value, NamedRows):
            yield from _table(value)
        elif isinstance(value, Later):
            yield from _later(value)
        else:
            yield _text(value)
    yield "}"


def _list(value: Rows[Any]) -> Iterator[str]:
    between = "["
    for row in value.rows:
        if row is PAUSE:
            yield ""
        else:
            yield between + (_column(row) if type(row) is list else _text(row))
            between = ", "
    yield "[]" if between == "[" else "]"


def _table(value: NamedRows[Any]) -> Iterator[str]:
    between = "{"
    for named in value.rows:
        if named is PAUSE:
            yield ""
            continue
        name, row = named
        if type(row) is LogNumbers:
            yield f"{between}{_text(name)}: "
            yield from _object(_members(row))
        else:
            yield f"{between}{_text(name)}: {_text(row)}"
        between = ", "
    yield "{}" if between == "{" else "}"


def _later(value: Later[Any]) -> Iterator[str]:
    last: Any = None
    for row in value.rows:
        if row is PAUSE:
            yield ""
        else:
            last = row
    yield _text(last)


def _members(record: Any) -> Mapping[str, Any]:
    """Returns the JSON members of a record of model/answers.py: a name and a value for each field."""
    shape = _SHAPES.get(type(record))
    return _fields(record) if shape is None else shape(record)


def _fields(record: Any) -> dict[str, Any]:
    kind = type(record)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind))
    return {name: getattr(record, name) for name in names}


_NAMES: dict[type, tuple[str, ...]] = {}  # the fields of each record that was answered: as many as there are classes


def _plain_value(value: Any) -> Any:
    """Converts a record within an answer; any other value that JSON does not have is a bug."""
    if is_dataclass(value):
        return _members(value)
    raise TypeError(f"{value!r:.80} cannot be answered")


_text = json.JSONEncoder(default=_plain_value).encode
_column = json.JSONEncoder(separators=(",", ":")).encode  # of thousands of numbers


def _broker(answer: BrokerNumbers) -> Mapping[str, Any]:
    members = _fields(answer)
    sections: Mapping[str, Any] = members.pop("sections")
    return {**members, **sections}


def _declared(answer: Declared | QueueDeclared) -> Mapping[str, Any]:
    """Leaves `warnings` out if there are none."""
    members = _fields(answer)
    if not members["warnings"]:
        del members["warnings"]
    return members


def _queue_described(answer: QueueDescribed) -> Mapping[str, Any]:
    """Leaves out, for a queue without partitions, the members that only a partitioned queue has."""
    members = _fields(answer)
    if answer.active_keys is None:
        del members["active_keys"], members["key_moves"], members["hot_key"]
    return members


def _queue_explained(answer: QueueExplained) -> Mapping[str, Any]:
    return {
        "verdict": answer.verdict,
        "sentence": answer.sentence,
        **_fields(answer.numbers),
        **_fields(answer.pressure),
        "is_full": answer.is_full,
        "next_due_ms": answer.next_due_ms,
        "consumer_list": answer.consumer_list,
    }


def _log_explained(answer: LogExplained) -> Mapping[str, Any]:
    members = _fields(answer)
    consumers = members.pop("consumer_list")
    pressure = members.pop("pressure")
    return {**members, **_fields(pressure), "consumer_list": consumers}


def _connection(answer: ConnectionDescribed) -> Mapping[str, Any]:
    lists = {"subscription_list": answer.subscription_list, "channel_list": answer.channel_list}
    return {**_fields(answer.numbers), **lists}


def _peeked(answer: PeekedMessage) -> Mapping[str, Any]:
    """Gives a body that is not UTF-8 in base64."""
    members = _fields(answer)
    members["headers"] = [[part.decode("utf-8", "replace") for part in pair] for pair in answer.headers]
    try:
        members["body"] = answer.body.decode()
    except UnicodeDecodeError:
        members["body"] = None
        members["body_base64"] = base64.b64encode(answer.body).decode()
    return members


_SHAPES: dict[type, Callable[[Any], Mapping[str, Any]]] = {
    Declared: _declared,
    QueueDeclared: _declared,
    BrokerNumbers: _broker,
    DestinationDescribed: lambda answer: _members(answer.numbers),
    SectionNumbers: lambda answer: {answer.section: answer.rows},
    Named: lambda row: {"name": row.name, **_fields(row.numbers)},
    QueueDescribed: _queue_described,
    QueueExplained: _queue_explained,
    LogExplained: _log_explained,
    ConnectionDescribed: _connection,
    PeekedMessage: _peeked,
    QueueSettings: as_json,
}
"""Records whose JSON differs from their fields."""
