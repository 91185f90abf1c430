"""The OpenAPI 3.1 operation of each resource (openapi.py): its parameters, bodies and answers."""

from collections.abc import Mapping
from dataclasses import dataclass

from radiator.model.addresses import EXCHANGE, KINDS
from radiator.model.administration import REASONS
from radiator.model.commands import EARLIEST, LATEST
from radiator.model.leases import Action
from radiator.model.limits import (
    ACK_TIMEOUT_MAX_S,
    AWAIT_MAX_MS,
    CONSUMER_NAME_MAX_BYTES,
    CORRELATION_MAX_BYTES,
    DRAIN_WAIT_MAX_MS,
    EXPLAINED_EVENTS_MAX,
    EXTEND_MIN_S,
    HTTP_BATCH_MESSAGES,
    HTTP_STATS_EVERY_MAX_S,
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    LEASED_AT_ONCE_MAX,
    LOG_KEPT_LINES,
    NAME_MAX_BYTES,
    PARTITIONS_MAX,
    PEEK_MESSAGES_MAX,
    QUEUE_TABLE_ROWS_MAX,
    REFUSE_MAX_S,
    REGISTERED_MAX_MS,
    REGISTERED_MIN_MS,
    RETURNED_IDS_MAX,
    SETTLED_AT_ONCE_MAX,
    SIZE_MAX,
    TIME_MAX_MS,
    UNACKED_PAGE_MAX,
)
from radiator.model.overview import NEEDS, SORTS
from radiator.model.principal import RecognisedBy
from radiator.model.rights import RIGHTS, ROLES
from radiator.model.settings import LOG_LEVELS
from radiator.protocols.administration import schemas
from radiator.protocols.administration.requests import REQUESTS
from radiator.protocols.administration.schemas import Schema
from radiator.protocols.http.binding_schemas import OF_BINDING
from radiator.protocols.prometheus.exposition import ALL_SECTIONS

JSON, TEXT, BYTES = "application/json", "text/plain", "application/octet-stream"
EVENTS, JAVASCRIPT = "text/event-stream", "text/javascript"
AVRO = "avro/binary"


@dataclass(slots=True, frozen=True)
class Operation:
    """summary: what the resource does. names: the variable parts of its path, in order. query, headers: parameters, by
    name. bodies: what may be sent, by media type. needed: parameters, or members of the body, that are required.
    answers: by status, a description and the bodies by media type. Refusals are problem documents, and not listed.
    """

    summary: str
    names: tuple[str, ...] = ()
    query: Mapping[str, Schema] | None = None
    headers: Mapping[str, Schema] | None = None
    bodies: Mapping[str, Schema] | None = None
    needed: tuple[str, ...] = ()
    answers: Mapping[int, tuple[str, Mapping[str, Schema]]] | None = None


_STRING: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_STRINGS: Schema = {"type": "array", "items": _STRING}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_FIELDS: Mapping[str, Schema] = {
    "after": {**_STRING, "description": "The last name of the page before."},
    "after_ms": {**_COUNT, "maximum": TIME_MAX_MS, "description": "Only what is later; since the epoch."},
    "app": _STRING,
    "correlation_id": {
        **_STRING,
        "minLength": 1,
        "maxLength": CORRELATION_MAX_BYTES,
        "description": "The whole header; this, or `message`, or `trace`.",
    },
    "count": {"type": "integer", "minimum": 1},
    "create": _FLAG,
    "destination": {**_STRING, "description": "An address, or /# for everything."},
    "dry_run": _FLAG,
    "filter": {"const": NEEDS, "description": "Only queues that need attention."},
    "first": {**_COUNT, "maximum": SIZE_MAX, "description": "How many rows come before the page."},
    "force": {"const": True},
    "from": {**_COUNT, "maximum": SIZE_MAX, "description": "Of `message`: the byte of its body to begin at."},
    "if_empty": _FLAG,
    "if_unused": _FLAG,
    "key": {**_STRING, "maxLength": NAME_MAX_BYTES},
    "message_id": {**_STRING, "description": "As `unacked` shows it."},
    "lease_ms": {"type": "integer", "minimum": REGISTERED_MIN_MS, "maximum": REGISTERED_MAX_MS},
    "limit": {"type": "integer", "minimum": 1, "maximum": SIZE_MAX},
    "match": {
        **_STRING,
        "minLength": 1,
        "maxLength": NAME_MAX_BYTES,
        "description": "Only names of that pattern: * is one word between dots, # is zero or more.",
    },
    "message": {**_STRING, "description": "A message-id; of `explain` this, or `trace`, or `correlation_id`."},
    "message_ids": {**_STRINGS, "minItems": 1, "maxItems": RETURNED_IDS_MAX},
    "name": {**_STRING, "minLength": 1, "maxLength": CONSUMER_NAME_MAX_BYTES},
    "offsets": {"type": "array", "items": _COUNT, "description": "One for each partition."},
    "passive": _FLAG,
    "prefix": _STRING,
    "prepared": {**_STRINGS, "minItems": 1},
    "queue": {**_STRING, "description": "Its name; for a binding also /log/NAME or /exchange/NAME."},
    "ready": _FLAG,
    "right": {"enum": list(RIGHTS)},
    "refuse_s": {**_COUNT, "maximum": REFUSE_MAX_S},
    "seconds": {"type": "number", "minimum": EXTEND_MIN_S, "maximum": ACK_TIMEOUT_MAX_S},
    "section": {"enum": list(schemas.SECTIONS)},
    "sort": {"enum": [sign + one for one in SORTS for sign in ("", "-")], "description": "With - descending."},
    "stop": _FLAG,
    "text": {**_STRING, "description": "A part of the names, in upper or lower case; at most 255 bytes."},
    "time_ms": {**_COUNT, "maximum": TIME_MAX_MS},
    "to": _STRING,
    "trace": {**_STRING, "description": "A trace id, or a whole traceparent; this, or `message`, or `correlation_id`."},
    "user": {**_STRING, "description": "Only those of this user."},
    "version": {**_COUNT, "maximum": TIME_MAX_MS},
    "wait_ms": {**_COUNT, "maximum": DRAIN_WAIT_MAX_MS},
}
"""The fields of requests to /admin that may be parameters of a resource, or members of its body."""

_OTHERWISE: Mapping[str, Mapping[str, Schema]] = {
    **OF_BINDING,
    "connections": {"after": {**_COUNT, "maximum": SIZE_MAX, "description": "The last number of the previous page."}},
    "explain": {
        "after": {**_COUNT, "maximum": SIZE_MAX, "description": "The `seq` of the last event of the previous page."},
        "limit": {"type": "integer", "minimum": 1, "maximum": EXPLAINED_EVENTS_MAX},
    },
    "log": {
        "after": {**_COUNT, "maximum": SIZE_MAX, "description": "The `next` of the previous answer."},
        "limit": {"type": "integer", "minimum": 1, "maximum": LOG_KEPT_LINES},
        "level": {"enum": list(LOG_LEVELS), "description": "The lowest level."},
    },
    "peek": {"count": {"type": "integer", "minimum": 1, "maximum": PEEK_MESSAGES_MAX}},
    "unacked": {
        "after": {**_STRING, "description": "The `next` of the previous page."},
        "limit": {"type": "integer", "minimum": 1, "maximum": UNACKED_PAGE_MAX},
    },
    "queue-table": {"count": {"type": "integer", "minimum": 1, "maximum": QUEUE_TABLE_ROWS_MAX}},
}
_NEEDED = {
    "bind": ("queue",),
    "commit": ("prepared", "app", "version"),
    "consumer-register": ("name",),
    "extend-unacked": ("message_id", "seconds"),
    "may": ("right",),
    "move": ("to",),
    "offsets": ("time_ms",),
    "peer-drop": ("force",),
    "peer-release": ("force",),
    "unbind": ("queue",),
}
"""Fields without which a request is refused."""

_SUMMARIES = {
    "stats": "The numbers of the broker, or of one section of it",
    "configuration": "The settings in force, except those of declared things",
    "bounds": "The bounds of the whole broker, and how much of each is in use",
    "disk": "The disk's space, and what takes it",
    "log": "The last lines of the broker's log, or those after one",
    "queues": "All queues with their numbers, or a page of them",
    "queue-table": "A page of the queues in any order, with rates, and why each is in its state",
    "history": "The last hour, in samples",
    "attention": "What needs attention, the worst first",
    "describe": "Its settings and numbers",
    "declare": "Declares it; if it exists with the same settings, nothing changes",
    "delete": "Deletes it",
    "why": "Why nothing moves there, in a sentence",
    "explain": "What became of a message, or of those of a trace or a correlation-id",
    "peek": "The oldest messages, or one with its whole body, part by part: all stay as they are",
    "purge": "Deletes all messages that are ready",
    "return": "Returns dead letters, each to the queue that it came from",
    "move": "Moves messages that are ready to another queue",
    "consumers": "The consumers that have names, or a page of them",
    "consumer-register": "Registers a consumer, or renews its registration",
    "consumer-drain": "Drains a consumer; answered once it has nothing left, or after a while",
    "scale": "How many consumers there are, and how many could be busy",
    "connections": "Who is connected, or a page of them",
    "connection": "One connection, with its subscriptions",
    "disconnect": "Closes a connection; its unacked messages are redelivered",
    "unacked": "The unacked messages, and who has them, the longest first",
    "extend-unacked": "Gives a message's consumer more time",
    "offsets": "For each partition the offset of the first record that is not older than a time",
    "position": "The position of a group",
    "PUT position": "Sets the position of a group",
    "DELETE position": "Forgets the position of a group",
    "bind": "Binds a queue to the exchange",
    "route": "Where a message that is sent to the exchange with a key goes",
    "may": "Whether the user has a right on an address, and by which rule",
    "unbind": "Removes a binding",
    "prepared": "The prepared transactions",
    "commit": "Commits prepared transactions, as a version of an app",
    "abort": "Aborts prepared transactions",
    "version": "The last version of an app that was committed",
    "DELETE version": "Forgets an app",
    "peers": "The other nodes",
    "peer-release": "Makes ready again what is in doubt with a node",
    "peer-drop": "Drops the copies that wait for a node, and keeps none for it",
    "peer-keep": "Keeps copies for a node again",
    "drain": "Hands messages over to other nodes",
    "reload": "Makes the broker read its configuration again",
}


def of_request(
    method: str,
    do: str,
    names: tuple[str, ...],
    query: tuple[str, ...],
    body: tuple[str, ...] | None,
    section: str | None = None,
    needed: str = "",
) -> Operation:
    """Returns the operation of a resource that makes this request to /admin. body: the keys that it may have, or `*`
    for any settings; None: no body. section: the one it always asks for. needed: a key without which it is another
    request.
    """
    kind = names[0] if names and names[0] in KINDS else None
    fields = {**_FIELDS, **_OTHERWISE.get(do, {})}
    all_needed = (needed,) if needed else _NEEDED.get(do, ())
    bodies: Mapping[str, Schema] | None = None
    if body is not None:
        bodies = {JSON: schemas.settings(kind or "") if "*" in body else _object(fields, body, all_needed)}
    answer = {JSON: schemas.answer(do, kind, section)}
    answers = {200: ("It is as requested.", answer)}
    if do in ("declare", "consumer-register"):
        answers[201] = ("It did not exist before.", answer)
    return Operation(
        _SUMMARIES.get(f"{method} {do}") or _SUMMARIES[do],
        names,
        {name: fields[name] for name in query},
        bodies=bodies,
        needed=all_needed,
        answers=answers,
    )


def _object(fields: Mapping[str, Schema], keys: tuple[str, ...], needed: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": {key: fields[key] for key in keys},
        "required": [key for key in keys if key in needed],
        "additionalProperties": False,
    }


# ---- not requests to /admin -----------------------------------------------------------------------------------------

_TIME: Schema = {**_COUNT, "maximum": TIME_MAX_MS}
_HEADERS: Mapping[str, Schema] = {
    "Correlation-Id": _STRING,
    "Deliver-At": {**_TIME, "description": "Deliver not before this time, in milliseconds since the epoch."},
    "Delay": {**_TIME, "description": "Deliver not before this many milliseconds from now."},
    "Expiration": {**_TIME, "description": "Milliseconds to live."},
    "Expires": {
        **_TIME,
        "description": "The time, in milliseconds since the epoch, until which it lives; 0: for ever.",
    },
    "Idempotency-Key": {**_STRING, "minLength": 1, "maxLength": 255},
    "Immediate": _FLAG,
    "Mandatory": _FLAG,
    "Message-Content-Type": {**_STRING, "description": "Of one message that is JSON or Avro: its own."},
    "Partition-Key": _STRING,
    "Reply-To": _STRING,
    "Traceparent": _STRING,
    "Tracestate": _STRING,
}
_TEXTS: Schema = {"type": "object", "additionalProperties": _STRING}
_BODIES = {"body": _STRING, "body_base64": {**_STRING, "contentEncoding": "base64"}, "json": {}}
_BATCH: Schema = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "minItems": 1,
            "maxItems": HTTP_BATCH_MESSAGES,
            "items": {
                "type": "object",
                "properties": {**_BODIES, "headers": _TEXTS},
                "additionalProperties": False,
                "oneOf": [{"required": [name]} for name in _BODIES],
            },
        }
    },
    "required": ["messages"],
    "additionalProperties": False,
}
_PUBLISHED = {JSON: schemas.record(False, {"ids": _STRINGS, "duplicates": _COUNT})}


def publish(kind: str) -> Operation:
    """Returns the operation of a resource that publishes to this kind of destination."""
    return Operation(
        f"Publishes one message, or a batch, to {'an' if kind == EXCHANGE else 'a'} {kind}; answered once it is synced",
        (kind,),
        {"key": {**_STRING, "maxLength": NAME_MAX_BYTES}} if kind == EXCHANGE else None,
        _HEADERS,
        {JSON: _BATCH, TEXT: _STRING, BYTES: {}, AVRO: {}},
        answers={
            200: ("Nothing had to be stored: all are duplicates, or nothing is bound.", _PUBLISHED),
            201: ("All are stored, and persistent ones are synced.", _PUBLISHED),
        },
    )


_LEASE_MS: Schema = {"type": "integer", "minimum": LEASE_MIN_MS, "maximum": LEASE_MAX_MS}
_RECEIVE: Mapping[str, Schema] = {
    "max": {"type": "integer", "minimum": 1, "maximum": LEASED_AT_ONCE_MAX},
    "wait_ms": {**_COUNT, "maximum": AWAIT_MAX_MS},
    "lease_ms": _LEASE_MS,
}
_LEASED = schemas.record(
    False,
    {
        "id": _STRING,
        "lease": _STRING,
        "destination": _STRING,
        "timestamp": _COUNT,
        "redelivered": _FLAG,
        "redeliveries": _COUNT,
        "headers": _TEXTS,
        "body": _STRING,
        "body_base64": _STRING,
    },
    optional=("body",),
)
RECEIVE = Operation(
    "Takes messages of the queue, each under a lease",
    ("queue",),
    bodies={JSON: _object(_RECEIVE, tuple(_RECEIVE))},
    answers={
        200: (
            "One message at least.",
            {JSON: schemas.record(False, {"messages": {"type": "array", "items": _LEASED}}), AVRO: {}},
        ),
        204: ("None came in time.", {}),
    },
)
_SETTLEMENT: Mapping[str, Schema] = {
    "lease": _STRING,
    "action": {"enum": [str(action) for action in Action]},
    "delay_ms": {**_TIME, "description": "Of a release."},
    "lease_ms": {**_LEASE_MS, "description": "Of an extend."},
}
_SETTLEMENTS: Mapping[str, Schema] = {
    "settlements": {
        "type": "array",
        "minItems": 1,
        "maxItems": SETTLED_AT_ONCE_MAX,
        "items": _object(_SETTLEMENT, tuple(_SETTLEMENT), ("lease", "action")),
    }
}
_VERDICT = schemas.record(
    False,
    {"ok": _FLAG, "status": {"type": "integer"}, "code": _STRING, "detail": _STRING},
    optional=("status", "code", "detail"),
)
SETTLE = Operation(
    "Settles leases, each for itself; answered once that is synced",
    bodies={JSON: _object(_SETTLEMENTS, ("settlements",), ("settlements",))},
    needed=("settlements",),
    answers={
        200: (
            "A verdict for each settlement, in order.",
            {JSON: schemas.record(False, {"verdicts": {"type": "array", "items": _VERDICT}})},
        )
    },
)
_ENDS_MS: Schema = {**_TIME, "description": "When it ends in any case, in milliseconds since the epoch."}
_NAME_OR_NULL: Schema = {"type": ["string", "null"]}
_PASSWORD: Mapping[str, Schema] = {"user": _STRING, "password": {**_STRING, "format": "password"}}
_TOKEN: Mapping[str, Schema] = {"token": {**_STRING, "minLength": 1, "format": "password"}}
LOG_IN = Operation(
    "Logs a page of this broker in, by a cookie that its browser keeps",
    bodies={JSON: {"oneOf": [_object(one, tuple(one), tuple(one)) for one in (_PASSWORD, _TOKEN)]}},
    needed=("user", "password", "token"),
    answers={
        200: (
            "The login succeeded; Set-Cookie has the cookie.",
            {JSON: schemas.record(True, {"user": _STRING, "until_ms": _ENDS_MS})},
        )
    },
)
LOG_OUT = Operation("Ends the session of the cookie", answers={204: ("There is no session any more.", {})})
IDENTITY = Operation(
    "The current user and the user's rights; without a login, only that one is needed",
    answers={
        200: (
            "To a client without a login, if there are users, only `ok`, `user` (null) and `users` (true).",
            {
                JSON: schemas.record(
                    True,
                    {
                        "user": _NAME_OR_NULL,
                        "users": {**_FLAG, "description": "Whether there are users, so that one can log in."},
                        "recognised_by": {"enum": [str(one) for one in RecognisedBy]},
                        "rights": _object(dict.fromkeys(RIGHTS, _STRINGS), RIGHTS, RIGHTS),
                        "role": {"enum": ["", *ROLES]},
                        "until_ms": {"type": ["integer", "null"]},
                        "node": _NAME_OR_NULL,
                        "version": _STRING,
                    },
                    optional=("recognised_by", "rights", "role", "until_ms", "node", "version"),
                )
            },
        )
    },
)
_OFFSET: Schema = {**_COUNT, "maximum": SIZE_MAX}
OPEN_SESSION = Operation(
    "Opens a session of STOMP over HTTP",
    answers={201: ("It is open, under that name.", {JSON: schemas.record(False, {"session": _STRING})})},
)
SEND_BYTES = Operation(
    "Sends bytes of STOMP to the session",
    ("session",),
    query={"at": {**_OFFSET, "description": "The place of the body's first byte among all that are sent."}},
    bodies={BYTES: {}},
    needed=("at",),
    answers={
        200: (
            "How many bytes the session has taken in all: send again what follows in the body.",
            {JSON: schemas.record(False, {"at": _COUNT})},
        )
    },
)
POLL_BYTES = Operation(
    "Fetches bytes of STOMP from the session",
    ("session",),
    query={
        "from": {**_OFFSET, "description": "The place of the first byte among all fetched; those before it are gone."},
        "wait_ms": {**_COUNT, "maximum": AWAIT_MAX_MS},
    },
    needed=("from",),
    answers={200: ("The bytes from that one on.", {BYTES: {}}), 204: ("None came in time.", {})},
)
CLOSE_SESSION = Operation("Closes the session", ("session",), answers={204: ("It is closed.", {})})
_PLACES: Schema = {**_STRING, "pattern": r"^\d{1,4}:\d{1,15}(,\d{1,4}:\d{1,15})*$"}
EVENTS_OF_LOG = Operation(
    "The records of a log as server-sent events, until one side closes",
    ("log",),
    query={
        "from": {"anyOf": [{"enum": [EARLIEST, LATEST]}, _PLACES]},
        "partition": {**_COUNT, "maximum": PARTITIONS_MAX - 1},
    },
    headers={"Last-Event-ID": {**_PLACES, "description": "The `id` of the last event, instead of `from`."}},
    answers={200: ("An event for each record.", {EVENTS: _STRING})},
)
EVENTS_OF_TOPICS = Operation(
    "The messages of matching topics as server-sent events, until one side closes",
    ("pattern",),
    answers={200: ("An event for each message.", {EVENTS: _STRING})},
)
EVENTS_OF_STATS = Operation(
    "The broker's own numbers as server-sent events, until one side closes",
    query={"every_s": {"type": "integer", "minimum": 1, "maximum": HTTP_STATS_EVERY_MAX_S}},
    answers={200: ("An event at once, and one every `every_s` seconds.", {EVENTS: _STRING})},
)
ANY_REQUEST = Operation(
    "Any request of docs/ADMINISTRATION.md",
    bodies={JSON: {"type": "object", "properties": {"do": {"enum": list(REQUESTS)}}, "required": ["do"]}},
    needed=("do",),
    answers={200: ("The answer to that request.", {JSON: {**schemas.record(True, {}), "additionalProperties": True}})},
)
HEALTH = Operation("Whether the process answers", answers={200: ("It does.", {TEXT: {"const": "ok\n"}})})
READINESS = Operation(
    "Whether clients should be sent here now",
    query={"exclude": {"type": "array", "items": {"enum": list(REASONS)}}},
    answers={200: ("They should; otherwise 503.", {TEXT: {"const": "ready\n"}})},
)
CLIENT = Operation("The client for pages, an ES module", answers={200: ("The module.", {JAVASCRIPT: _STRING})})
CLIENT_TYPES = Operation("Its types, for TypeScript", answers={200: ("The types.", {TEXT: _STRING})})
METRICS = Operation(
    "The numbers of the broker, for Prometheus",
    query={
        "section": {"type": "array", "items": {"enum": list(ALL_SECTIONS)}},
        "name": {**_STRINGS, "description": "Patterns of names, with `*` and `#`."},
    },
    answers={200: ("Prometheus's text format, version 0.0.4.", {TEXT: _STRING})},
)
WEBSOCKET = Operation(
    "STOMP over a WebSocket (RFC 6455), with the subprotocols v12.stomp, v11.stomp and v10.stomp",
    answers={101: ("It is open.", {})},
)
DOCUMENT = Operation("This document", answers={200: ("OpenAPI 3.1.", {JSON: {"type": "object"}})})
INDEX = Operation(
    "What is here, and where",
    answers={
        200: (
            "Where this document is, and what else needs no login.",
            {JSON: schemas.record(False, dict.fromkeys(("name", "api", "health", "stomp_over_websocket"), _STRING))},
        )
    },
)
