"""`POST /v1/queues/NAME/receive` and `POST /v1/settle`: messages under leases, for clients without a connection."""

from typing import Any

from radiator.model.addresses import QUEUE, address_mistake
from radiator.model.errors import shown
from radiator.model.leases import Action, Leased, LeasedMessage, Receive, Settle, Settled, Settlement
from radiator.model.limits import (
    AWAIT_MAX_MS,
    HTTP_BATCH_BYTES,
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    LEASED_AT_ONCE_MAX,
    TIME_MAX_MS,
    Limits,
)
from radiator.model.replies import Reply
from radiator.protocols.http.administration import json_body
from radiator.protocols.http.avro import AVRO, encode
from radiator.protocols.http.exchange import HttpExchange, HttpRequest
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.members import headers_of, members
from radiator.protocols.http.responses import Response, as_json, status_of

LEASE_MS = 30_000  # if the request gives none
_OF_RECEIVE = ("max", "wait_ms", "lease_ms")
_OF_SETTLEMENT = ("lease", "action", "delay_ms", "lease_ms")


def receive(request: HttpRequest) -> HttpExchange:
    """Takes up to `max` messages of the queue, each under a lease. 204: none came. Raises BadRequest."""
    request.query()
    given = json_body(request) if request.body else {}
    _only(given, _OF_RECEIVE)
    address = f"/{QUEUE}/{request.names[0]}"
    if wrong := address_mistake(address):
        raise BadRequest(400, f"{shown(address.encode())} {wrong}.")
    command = Receive(
        request.connection,
        request.receipt,
        address,
        _number(given, "max", 1, LEASED_AT_ONCE_MAX, 1),
        _number(given, "wait_ms", 0, AWAIT_MAX_MS, 0),
        _number(given, "lease_ms", LEASE_MIN_MS, LEASE_MAX_MS, LEASE_MS),
    )
    is_avro = AVRO in [one.partition(b";")[0].rstrip(b" \t") for one in request.head.tokens(b"accept")]
    return HttpExchange([command], _leased_as_avro if is_avro else _leased)


def settle(request: HttpRequest) -> HttpExchange:
    """Settles leases, each on its own; answered once that is synced. Raises BadRequest."""
    request.query()
    given = json_body(request)
    _only(given, ("settlements",))
    asked = given.get("settlements")
    if not isinstance(asked, list) or not 1 <= len(asked) <= LEASED_AT_ONCE_MAX:
        raise BadRequest(400, f"`settlements` must be a list of 1 to {LEASED_AT_ONCE_MAX}.")
    return HttpExchange([Settle(request.connection, request.receipt, _settlements(asked))], _settled)


def body_max(head: RequestHead, limits: Limits) -> int:
    """Returns the most bytes of a request that settles leases."""
    return HTTP_BATCH_BYTES


def _settlements(asked: list[Any]) -> list[Settlement]:
    found: list[Settlement] = []
    for index, given in enumerate(asked):
        try:
            found.append(_settlement(given))
        except BadRequest as bad:
            raise BadRequest(400, f"Settlement {index} is wrong, so none was carried out. {bad}") from None
    return found


def _settlement(given: Any) -> Settlement:
    if not isinstance(given, dict) or not isinstance(given.get("lease"), str):
        raise BadRequest(400, 'A settlement is an object such as {"lease": "...", "action": "ack"}.')
    _only(given, _OF_SETTLEMENT)
    try:
        action = Action(str(given.get("action")))
    except ValueError:
        actions = ", ".join(Action)
        raise BadRequest(400, f"`action` is {given.get('action')!r:.80}; it must be one of {actions}.") from None
    delay_ms = _number(given, "delay_ms", 0, TIME_MAX_MS, 0) if "delay_ms" in given else None
    lease_ms = _number(given, "lease_ms", LEASE_MIN_MS, LEASE_MAX_MS, 0) if "lease_ms" in given else None
    if delay_ms is not None and action is not Action.RELEASE:
        raise BadRequest(400, f"`delay_ms` is for the action release; this action is {action}.")
    if lease_ms is not None and action is not Action.EXTEND:
        raise BadRequest(400, f"`lease_ms` is for the action extend; this action is {action}.")
    return Settlement(given["lease"].encode("utf-8", "replace"), action, delay_ms, lease_ms)


def _leased(reply: Reply) -> Response:
    assert isinstance(reply, Leased)
    if not reply.messages:
        return Response(204, content_type=b"")
    return as_json(200, {"messages": [*map(_message, reply.messages)]})


def _leased_as_avro(reply: Reply) -> Response:
    assert isinstance(reply, Leased)
    if not reply.messages:
        return Response(204, content_type=b"")
    return Response(200, encode([*map(_envelope, reply.messages)]), AVRO)


def _envelope(one: LeasedMessage) -> tuple[str, dict[str, str], bytes]:
    """Returns a leased message with headers of a MESSAGE, which no SEND can set."""
    headers = {
        "message-id": one.message_id.decode(),
        "ack": one.lease.decode(),
        "timestamp": str(one.message.accepted_ms),
        "redelivered": "true" if one.redelivered else "false",
        "redelivery-count": str(one.redeliveries),
    }
    return one.message.destination, headers_of(one.message, headers), one.message.body


def _message(one: LeasedMessage) -> dict[str, Any]:
    return {
        "id": one.message_id.decode(),
        "lease": one.lease.decode(),
        "redelivered": one.redelivered,
        "redeliveries": one.redeliveries,
        **members(one.message),
    }


def _settled(reply: Reply) -> Response:
    assert isinstance(reply, Settled)
    verdicts = [
        {"ok": True}
        if not one.code
        else {"ok": False, "status": status_of(one.code), "code": one.code, "detail": one.sentence}
        for one in reply.verdicts
    ]
    return as_json(200, {"verdicts": verdicts})


def _only(given: dict[str, Any], keys: tuple[str, ...]) -> None:
    wrong = next((key for key in given if key not in keys), None)
    if wrong is not None:
        raise BadRequest(400, f"{wrong!r:.80} is not a key of this object; its keys are {', '.join(keys)}.")


def _number(given: dict[str, Any], key: str, least: int, most: int, absent: int) -> int:
    value = given.get(key, absent)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadRequest(400, f"`{key}` is {value!r:.80}; it must be a whole number from {least} to {most}.")
    return value
