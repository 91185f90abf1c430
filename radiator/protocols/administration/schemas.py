"""JSON Schemas of the answers that answers.py writes, made from the records of model/answers.py. openapi.py uses
them.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from radiator.model import (
    answers,
    bounds,
    configuration,
    connections,
    consumers,
    disk,
    log_lines,
    numbers,
    overview,
    peeking,
    questions,
    returning,
    unacked,
)
from radiator.model.addresses import EXCHANGE, FANOUT, LOG, QUEUE
from radiator.model.administration import sections
from radiator.model.limits import KEY_SOURCES_MAX
from radiator.model.settings import (
    EXCHANGE_TYPES,
    OVERFLOWS,
    SCOPES,
    ExchangeSettings,
    LogSettings,
    QueueSettings,
)
from radiator.model.story import Happened

Schema = dict[str, Any]

_PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null", bytes: "string"}
_ROWS = {
    "exchanges": numbers.ExchangeNumbers,
    "fanouts": numbers.FanoutNumbers,
    "logs": numbers.LogNumbers,
    "peers": numbers.PeerNumbers,
    "queues": numbers.QueueNumbers,
    "topics": numbers.TopicNumbers,
    "users": numbers.UserNumbers,
}
"""The record that each section of the numbers has for one thing."""

SECTIONS = sections()

ANSWERS: dict[str, type | Mapping[str, type]] = {
    "queues": answers.Queues,
    "queue-table": overview.QueueTable,
    "history": overview.Samples,
    "attention": overview.Attention,
    "ready": answers.Readiness,
    "configuration": configuration.Configuration,
    "bounds": bounds.BoundsInForce,
    "disk": disk.DiskStands,
    "log": log_lines.LogLines,
    "peek": peeking.Peeked,
    "purge": answers.Purged,
    "declare": {
        QUEUE: answers.QueueDeclared,
        EXCHANGE: answers.Declared,
        FANOUT: answers.Declared,
        LOG: answers.Declared,
    },
    "bind": answers.Declared,
    "unbind": answers.Deleted,
    "route": questions.RouteFound,
    "may": questions.RightJudged,
    "describe": {
        QUEUE: answers.QueueDescribed,
        EXCHANGE: answers.ExchangeDescribed,
        FANOUT: answers.FanoutDescribed,
        LOG: answers.LogDescribed,
    },
    "delete": answers.Deleted,
    "offsets": answers.Offsets,
    "position": answers.Position,
    "move": answers.Moved,
    "return": returning.MessagesReturned,
    "consumers": consumers.Consumers,
    "consumer-register": consumers.ConsumerRegistered,
    "consumer-drain": consumers.ConsumerDrained,
    "scale": consumers.Scale,
    "connections": connections.ConnectionsListed,
    "connection": connections.ConnectionDescribed,
    "disconnect": connections.ConnectionClosed,
    "unacked": unacked.Unacked,
    "extend-unacked": unacked.UnackedExtended,
    "commit": answers.PreparedCommitted,
    "abort": answers.PreparedAborted,
    "prepared": answers.Prepared,
    "version": answers.AppVersion,
    "why": {QUEUE: answers.QueueExplained, LOG: answers.LogExplained},
    "explain": answers.StoryExplained,
    "peers": answers.Peers,
    "peer-release": answers.PeerReleased,
    "peer-drop": answers.CopiesDropped,
    "peer-keep": answers.CopiesKept,
    "drain": answers.Draining,
    "reload": answers.ConfigurationReloaded,
}
"""The record that answers each request but `stats`; by kind, if that depends on the kind of thing that is named."""


def answer(do: str, kind: str | None = None, section: str | None = None) -> Schema:
    """Returns the schema of the answer to a request that is not refused. kind: that of the thing named; section: the
    one that this `stats` always asks for.
    """
    if section is not None:
        return record(True, {section: _by_name(_ROWS[section])})
    if do == "stats":
        whole = record(True, _members(numbers.BrokerNumbers))
        return {"anyOf": [whole, *(answer(do, section=one) for one in SECTIONS)]}
    found = ANSWERS[do]
    kind_of_answer = found if isinstance(found, type) else found[kind or ""]
    return record(True, _members(kind_of_answer), _SOMETIMES.get(kind_of_answer, ()))


def record(is_answer: bool, members: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """Returns the schema of an object with these members. is_answer: it begins with `"ok": true`."""
    ok: Mapping[str, Schema] = {"ok": {"const": True}} if is_answer else {}
    properties = {**ok, **members}
    required = [name for name in properties if name not in optional and name not in _OPTIONAL]
    return {"type": "object", "properties": properties, "required": required}


_OPTIONAL = ("warnings", "body_base64")
"""Members that an answer has only where there is something to tell."""

_SOMETIMES: Mapping[type, tuple[str, ...]] = {answers.QueueDescribed: ("active_keys", "key_moves", "hot_key")}
"""Further optional members of single records: those of a partitioned queue."""


def of(kind: Any) -> Schema:
    """Returns the schema of a value of that type, as answers.py writes it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin in (Union, UnionType):
        return {"anyOf": [of(one) for one in arguments]}
    if origin is numbers.NamedRows or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return {"type": "object", "additionalProperties": of(arguments[-1])}
    if origin in (numbers.Rows, list, tuple):
        return {"type": "array", "items": of(arguments[0])}
    if origin is numbers.Later:
        return of(arguments[0])
    if origin is answers.Named:
        return record(False, {"name": {"type": "string"}, **_members(arguments[0])})
    assert kind in _NAMED, f"answers.py does not write {kind}"
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _by_name(kind: type) -> Schema:
    return {"type": "object", "additionalProperties": of(kind)}


@cache
def _members(kind: Any) -> Mapping[str, Schema]:
    """Returns the schema of each member that a record becomes."""
    shape = _SHAPES.get(kind)
    types = get_type_hints(kind)
    found = {field.name: types[field.name] for field in fields(kind)}
    return {name: of(one) for name, one in found.items()} if shape is None else shape(found)


def _broker(types: Mapping[str, Any]) -> Mapping[str, Schema]:
    own = {name: of(one) for name, one in types.items() if name != "sections"}
    return {**own, **{section: _by_name(_ROWS[section]) for section in SECTIONS}}


def _explained(types: Mapping[str, Any]) -> Mapping[str, Schema]:
    """Puts the members of the numbers among the record's other members."""
    found: dict[str, Schema] = {}
    for name, one in types.items():
        found.update(_members(one) if name in ("numbers", "pressure") else {name: of(one)})
    return found


def _peeked(types: Mapping[str, Any]) -> Mapping[str, Schema]:
    pair = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    body: dict[str, Schema] = {"body": {"type": ["string", "null"]}, "body_base64": {"type": "string"}}
    return {**{name: of(one) for name, one in types.items()}, "headers": {"type": "array", "items": pair}, **body}


_NAMED = (
    *_ROWS.values(),
    answers.BindingOfExchange,
    answers.BindingOfQueue,
    connections.ConnectionNumbers,
    connections.SubscriptionNumbers,
    bounds.BrokerBound,
    configuration.Setting,
    consumers.Consumer,
    consumers.ActiveConsumer,
    consumers.HotKey,
    consumers.NamedConsumer,
    log_lines.LogLine,
    answers.NotReady,
    answers.PartitionsDescribed,
    peeking.PeekedMessage,
    answers.PreparedTransaction,
    questions.RouteTarget,
    returning.NotReturned,
    numbers.Holder,
    numbers.LatencyNumbers,
    unacked.UnackedMessage,
    overview.NeedsAttention,
    overview.QueueOfTable,
    Happened,
    LogSettings,
    QueueSettings,
)
"""Records that answers refer to by name, among the components of the OpenAPI document."""


def _queue_settings(types: Mapping[str, Any]) -> Mapping[str, Schema]:
    return {name: _sources() if name == "partition_key" else of(one) for name, one in types.items()}


def _sources() -> Schema:
    """Returns the schema of `partition_key`: what the keys of a queue's messages are taken from."""
    several = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": KEY_SOURCES_MAX}
    return {"anyOf": [{"type": "string"}, several, {"type": "null"}]}


_SHAPES: Mapping[Any, Any] = {
    numbers.BrokerNumbers: _broker,
    answers.QueueExplained: _explained,
    answers.LogExplained: _explained,
    connections.ConnectionDescribed: _explained,
    peeking.PeekedMessage: _peeked,
    QueueSettings: _queue_settings,
}
"""Records whose JSON differs from their fields."""


def components() -> Mapping[str, Schema]:
    """Returns the schemas that others refer to, by name."""
    return {kind.__name__: record(False, _members(kind)) for kind in sorted(_NAMED, key=lambda kind: kind.__name__)}


_SIZE: Schema = {"type": ["integer", "string", "null"], "description": 'Bytes, or a size such as "64MiB".'}
_CHOICES = {"overflow": OVERFLOWS, "scope": SCOPES, "type": EXCHANGE_TYPES}
_SETTINGS = {QUEUE: QueueSettings, EXCHANGE: ExchangeSettings, LOG: LogSettings}


def settings(kind: str) -> Schema:
    """Returns the schema of the settings by which one thing of that kind is declared. docs/OPERATING.md has their
    bounds.
    """
    if kind == FANOUT:
        found: Mapping[str, Schema] = {"children": {"type": "array", "items": {"type": "string"}}}
    else:
        found = {name: _setting(name, one) for name, one in get_type_hints(_SETTINGS[kind]).items()}
    return {"type": "object", "properties": found, "additionalProperties": False}


def _setting(name: str, kind: Any) -> Schema:
    if name in _CHOICES:
        return {"enum": list(_CHOICES[name])}
    if get_origin(kind) is tuple:
        return _sources()
    return _SIZE if name in ("max_bytes", "retention_bytes") else of(kind)
