"""POST to a destination's `messages`: stores the body as one message, or the messages in it; answered once that is
synced.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from radiator.model.addresses import EXCHANGE, address_mistake
from radiator.model.commands import Command, PublishAll, Send
from radiator.model.errors import Violation, shown
from radiator.model.headers import ESCAPING_ALL, escape
from radiator.model.limits import HTTP_BATCH_BYTES, HTTP_BATCH_MESSAGES, TIME_MAX_MS, Limits
from radiator.model.replies import Published, Reply
from radiator.protocols.http.avro import AVRO, decode
from radiator.protocols.http.exchange import HttpExchange, HttpRequest
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.json_body import parsed
from radiator.protocols.http.responses import JSON, Response
from radiator.protocols.stomp.options import dedup_id
from radiator.protocols.stomp.spec import HOP_HEADERS
from radiator.protocols.stomp.values import flag, number

HEADER_PREFIX = b"message-"
"""A request's header with this prefix is a header of the message, without the prefix."""

_AS_THEY_ARE = (
    b"content-type",
    b"correlation-id",
    b"deliver-at",
    b"delay",
    b"expiration",
    b"expires",
    b"immediate",
    b"mandatory",
    b"partition-key",
    b"reply-to",
    b"traceparent",
    b"tracestate",
)
_IDEMPOTENCY_KEY = b"idempotency-key"
_DEDUP_ID = b"dedup-id"
_CONTENT_TYPE = b"content-type"
_OF_MESSAGE = HEADER_PREFIX + _CONTENT_TYPE
# these three describe the request as well: its content, and its trace
_OF_ONE = {_IDEMPOTENCY_KEY, _DEDUP_ID, *_AS_THEY_ARE} - {b"content-type", b"traceparent", b"tracestate"}
_NOT_HERE = HOP_HEADERS | {
    _IDEMPOTENCY_KEY,
    b"transaction",
    b"receipt",
    b"on-refusal",
    b"destination",
    b"content-length",
}
_OF_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data")
_KEYS = {"body", "body_base64", "headers", "json"}
_PLAIN = b"text/plain; charset=utf-8"


def body_max(head: RequestHead, limits: Limits) -> int:
    """Returns the most bytes of a body: those of a frame for one message, fewer for a batch, which is read in one
    step.
    """
    return HTTP_BATCH_BYTES if is_batch(head) else limits.max_frame_bytes


def is_batch(head: RequestHead) -> bool:
    """Whether the body holds messages, rather than being one."""
    return head.content_type in (JSON, AVRO) and head.headers.get(_OF_MESSAGE) is None


def to_kind(kind: str) -> "Any":
    """Returns the resource that publishes to a destination of that kind, named in the path."""

    def publish(request: HttpRequest) -> HttpExchange:
        address = f"/{kind}/{request.names[0]}"
        key = request.query("key").get("key", "") if kind == EXCHANGE else request.query().get("", "")
        if key:
            address += f"/{key}"
        if wrong := address_mistake(address):
            raise BadRequest(400, f"{shown(address.encode())} {wrong}.")
        return _publish(request, address)

    return publish


def _publish(request: HttpRequest, address: str) -> HttpExchange:
    head = request.head
    if head.content_type in _OF_FORMS:
        kind = head.content_type.decode()
        raise BadRequest(415, f"A body of {kind} is a form's; name what it is, such as content-type: text/plain.")
    sends = _batch(request, address) if is_batch(head) else [_raw(request, address)]
    commands: list[Command] = [PublishAll(request.connection, request.receipt, sends)]
    return HttpExchange(commands, _published, is_alone=False)


def _published(reply: Reply) -> Response:
    assert isinstance(reply, Published)
    # ids need no escape: they have letters, digits, `-` and `:` only
    ids = b",".join([b'"%b"' % one for one in reply.ids])
    return Response(201 if ids else 200, b'{"ids":[%b],"duplicates":%d}\n' % (ids, reply.duplicates), JSON)


def _raw(request: HttpRequest, address: str) -> Send:
    """Returns a message whose body is that of the request, with the message's headers among the request's."""
    headers: dict[bytes, bytes] = {}
    for name, value in request.head.headers.items():
        if name == _DEDUP_ID:
            raise BadRequest(400, "The dedup-id of one message is the header Idempotency-Key over HTTP: send that.")
        if name not in _AS_THEY_ARE and name != _IDEMPOTENCY_KEY and not name.startswith(HEADER_PREFIX):
            continue
        of_message = _DEDUP_ID if name == _IDEMPOTENCY_KEY else name.removeprefix(HEADER_PREFIX)
        if of_message in headers and of_message != _CONTENT_TYPE:
            raise BadRequest(400, f"The request says the message's header {shown(of_message)} twice, in two ways.")
        headers[of_message] = value
    if _OF_MESSAGE in request.head.headers:
        headers[_CONTENT_TYPE] = request.head.headers[_OF_MESSAGE]
    return send_of(request.connection, request.limits, address, headers, request.body)


def _batch(request: HttpRequest, address: str) -> list[Send]:
    """Returns the messages of `{"messages": [...]}`, or of an array of Avro."""
    for name in request.head.headers:
        if name in _OF_ONE or name.startswith(HEADER_PREFIX):
            raise BadRequest(400, f"The header {name.decode()} is of one message: a batch has it in each `headers`.")
    if request.head.content_type == AVRO:
        envelopes = decode(request.body, request.limits.max_headers)
        return [_of_envelope(request, address, index, *envelope) for index, envelope in enumerate(envelopes)]
    given = parsed(request.body)
    messages = given.get("messages")
    if len(given) != 1 or not isinstance(messages, list) or not 1 <= len(messages) <= HTTP_BATCH_MESSAGES:
        what = f'{{"messages": [...]}} with 1 to {HTTP_BATCH_MESSAGES} of them'
        raise BadRequest(400, f"A body of application/json is {what}; to publish the body itself as one "
                              "message, add the header message-content-type: application/json.")  # fmt: skip
    return [_of_batch(request, address, index, message) for index, message in enumerate(messages)]


def _of_envelope(
    request: HttpRequest, address: str, index: int, destination: str, headers: Mapping[str, str], body: bytes
) -> Send:
    if destination not in ("", address):
        raise _wrong(index, f"has the destination {shown(destination.encode())}; it must be empty, or {address:.600}")
    return _of_one(request, address, index, headers, body)


def _of_batch(request: HttpRequest, address: str, index: int, message: Any) -> Send:
    if not isinstance(message, dict) or not message.keys() <= _KEYS:
        raise _wrong(index, "must be an object with `headers`, and one of `body`, `body_base64`, `json`")
    given = message.get("headers", {})
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise _wrong(index, "has `headers` that are not an object of strings")
    try:
        body, content_type = _body(index, message)
    except UnicodeEncodeError:
        raise _no_text(index) from None
    return _of_one(request, address, index, given, body, content_type)


def _of_one(
    request: HttpRequest, address: str, index: int, given: Mapping[str, str], body: bytes, content_type: bytes = b""
) -> Send:
    """Returns one message of a batch. content_type: used if its headers give none."""
    try:
        headers = {name.encode().lower(): value.encode() for name, value in given.items()}
        if len(headers) < len(given) or (_IDEMPOTENCY_KEY in headers and _DEDUP_ID in headers):
            raise _wrong(index, "has one header twice, in two ways of writing it")
        if content_type:
            headers.setdefault(_CONTENT_TYPE, content_type)
        if _IDEMPOTENCY_KEY in headers:
            headers[_DEDUP_ID] = headers.pop(_IDEMPOTENCY_KEY)
        return send_of(request.connection, request.limits, address, headers, body)
    except UnicodeEncodeError:
        raise _no_text(index) from None
    except BadRequest:
        raise
    except Violation as broken:
        raise BadRequest(400, f"Message {index} of the batch: {broken}") from None


def _body(index: int, message: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Returns the body of one message of a batch, and its content type."""
    given = [key for key in ("body", "body_base64", "json") if key in message]
    if len(given) != 1:
        raise _wrong(index, f"has {' and '.join(given) or 'no body'}; it has one of `body`, `body_base64`, `json`")
    value = message[given[0]]
    if given[0] == "json":
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(), JSON
        except ValueError:
            raise _wrong(index, "has a `json` with a number that is too large") from None
    if not isinstance(value, str):
        raise _wrong(index, f"has a `{given[0]}` that is not a string")
    if given[0] == "body":
        return value.encode(), _PLAIN
    try:
        return base64.b64decode(value, validate=True), b""
    except (binascii.Error, ValueError):
        raise _wrong(index, "has a `body_base64` that is not base64") from None


def _no_text(index: int) -> BadRequest:
    return _wrong(index, "has half of a surrogate pair, which is not text")


def _wrong(index: int, what: str) -> BadRequest:
    return BadRequest(400, f"Message {index} of the batch {what}.")


def send_of(connection: int, limits: Limits, address: str, headers: dict[bytes, bytes], body: bytes) -> Send:
    """Returns a Send with these headers, which are checked as those of a SEND of STOMP are. Raises Violation."""
    if len(headers) > limits.max_headers:
        raise BadRequest(400, f"A message has {len(headers)} headers: max_headers is {limits.max_headers}.")
    lines = []
    for name, value in headers.items():
        if name in _NOT_HERE or not name:
            raise BadRequest(400, f"A message over HTTP has no header {shown(name)}.")
        if b"\0" in name or b"\0" in value or not _is_utf8(name) or not _is_utf8(value):
            raise BadRequest(400, f"The header {shown(name)} is {shown(value)}; it must be UTF-8 without a NUL.")
        lines.append(b"%b:%b\n" % (escape(name, ESCAPING_ALL), escape(value, ESCAPING_ALL)))
    block = b"".join(lines)
    if len(block) > limits.max_header_bytes:
        raise BadRequest(431, f"The headers of a message have {len(block)} bytes: max_header_bytes is "
                              f"{limits.max_header_bytes}.")  # fmt: skip
    if headers.get(b"reply-to", b"").startswith(b"/temp-queue/"):
        raise BadRequest(400, "reply-to is a temp queue, which only a connection of STOMP has: name a queue.")
    return Send(
        connection,
        address,
        block,
        ESCAPING_ALL,
        body,
        expiration_ms=number(headers, b"expiration", 0, TIME_MAX_MS),
        expires_ms=number(headers, b"expires", 0, TIME_MAX_MS),
        mandatory=flag(headers, b"mandatory", absent=False),
        dedup_id=dedup_id(headers),
        correlation_id=headers.get(b"correlation-id"),
        delay_ms=number(headers, b"delay", 0, TIME_MAX_MS),
        deliver_at_ms=number(headers, b"deliver-at", 0, TIME_MAX_MS),
        immediate=flag(headers, b"immediate", absent=False),
    )


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
