"""What kombu publishes and what its programs get, without a broker between."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from radiator.client import Message as Received
from radiator.integrations.kombu.failures import OperationRefused
from radiator.integrations.kombu.message import HEADER_MAX_BYTES, Message, PreparedMessage


def sent(prepared: PreparedMessage) -> Received:
    """As it comes from the broker, which adds its own headers before those of the sender."""
    lines, body = prepared.frame()
    headers: dict[str, str] = {"destination": "/queue/q", "message-id": "m1", "ack": "m1", "redelivered": "false"}
    for name, value in lines:
        headers.setdefault(name, value)
    return Received(headers, body)


def got(prepared: PreparedMessage) -> Message:
    return Message(sent(prepared), None, 1, "tag")


def test_everything_comes_as_it_was_published() -> None:
    headers = {"task": "add", "retries": 0, "none": None, "list": [1, [2]], "text": "a:b\nc\\d\0é"}
    properties = {
        "correlation_id": "c-1",
        "reply_to": "r-1",
        "expiration": "5000",
        "delivery_mode": 1,
        "message_id": "m-1",
        "type": "kind",
        "app_id": "me",
    }
    message = got(PreparedMessage(b"\0\x01body", "application/json", "utf-8", headers, dict(properties)))
    assert message.errors == []
    assert (message.body, message.content_type, message.content_encoding) == (
        b"\0\x01body",
        "application/json",
        "utf-8",
    )
    assert message.headers == headers
    assert message.properties == {**properties, "priority": 0}


def test_a_time_and_bytes_survive_in_headers() -> None:
    headers = {"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "raw": b"\0\xff"}
    assert got(PreparedMessage(b"", "text/plain", "utf-8", headers)).headers == headers


@pytest.mark.parametrize("value", ["", "a\nb", "a\0b", "é", "x" * 1025, 7])
def test_a_property_that_stomp_would_change_travels_in_the_json(value: Any) -> None:
    prepared = PreparedMessage(b"", "text/plain", "utf-8", {}, {"correlation_id": value})
    assert "correlation-id" not in dict(prepared.frame()[0])
    assert got(prepared).properties["correlation_id"] == value


@pytest.mark.parametrize(
    "content_type", ["application/x-python-serialize", "text/plain; charset=utf-8", "pickle", "", None]
)
def test_any_content_type_survives(content_type: str | None) -> None:
    assert (got(PreparedMessage(b"", content_type, "binary")).content_type or None) == (content_type or None)


def json_bytes(prepared: PreparedMessage) -> int:
    lines = dict(prepared.frame()[0])
    return int(lines["kombu-length"]) if "kombu-length" in lines else len(lines["kombu"])


@pytest.mark.parametrize("beyond", [0, 1])
def test_at_the_bound_the_json_is_a_header_and_past_it_an_envelope(beyond: int) -> None:
    empty = json_bytes(PreparedMessage(b"", "text/plain", "utf-8", {"x": ""}))
    headers = {"x": "y" * (HEADER_MAX_BYTES - empty + beyond)}
    prepared = PreparedMessage(b"the body", "text/plain", "utf-8", headers)
    assert json_bytes(prepared) == HEADER_MAX_BYTES + beyond
    assert ("kombu-length" in dict(prepared.frame()[0])) is bool(beyond)
    message = got(prepared)
    assert (message.headers, message.body, message.errors) == (headers, b"the body", [])


@pytest.mark.parametrize(
    ("changes", "body"),
    [
        ({"kombu": "no json"}, b""),
        ({"kombu": "[]"}, b""),
        ({"kombu": '{"headers": []}'}, b""),
        ({"kombu": '{"headers": {}, "properties": 1}'}, b""),
        ({"kombu": "[" * 100_000}, b""),
        ({"kombu-length": "5"}, b"four"),
        ({"kombu-length": "-1"}, b"four"),
        ({"kombu-length": "9" * 30}, b"four"),
        ({"kombu-length": "x"}, b"four"),
        ({"kombu-length": "4"}, b"\xff\xff\xff\xff"),
        ({"kombu-length": "²"}, b"four"),
    ],
)
def test_what_nobody_of_kombu_has_sent_is_an_error_of_the_message(changes: dict[str, str], body: bytes) -> None:
    headers = {"destination": "/queue/q", "message-id": "m1", **changes}
    message = Message(Received(headers, body), None, 1, "tag")
    assert isinstance(message.errors[0][1], ValueError)
    with pytest.raises(ValueError):
        message._reraise_error()


def test_a_message_of_any_stomp_client_has_its_headers() -> None:
    headers = {
        "destination": "/queue/q",
        "message-id": "m1",
        "task": "add",
        "id": "7",
        "content-type": "application/json",
    }
    message = Message(Received(headers, b"[[1, 2], {}, {}]"), None, 1, "tag")
    assert (message.headers["task"], message.headers["id"]) == ("add", "7")
    assert message.decode() == [[1, 2], {}, {}]


@pytest.mark.parametrize(
    ("destination", "way"),
    [
        ("/queue/q", ("", "q")),
        ("/queue/a/b", ("", "a/b")),
        ("/exchange/x/a.b", ("x", "a.b")),
        ("/exchange/x/", ("x", "")),
        ("/exchange/x/a/b", ("x", "a/b")),
        ("/amq/queue/q", ("", "q")),
        ("/topic/t", ("", "/topic/t")),
    ],
)
def test_exchange_and_routing_key_are_those_of_the_publish(destination: str, way: tuple[str, str]) -> None:
    message = Message(Received({"destination": destination, "message-id": "m"}, b""), None, 1, "tag")
    assert (message.delivery_info["exchange"], message.delivery_info["routing_key"]) == way


# ---- when it is due


def due_ms(headers: dict[str, Any]) -> int | None:
    text = dict(PreparedMessage(b"", "text/plain", "utf-8", headers).frame()[0]).get("deliver-at")
    return None if text is None else int(text)


def test_a_task_with_an_eta_is_held_by_the_broker_until_then() -> None:
    eta = datetime.fromtimestamp(round(time.time()) + 60, UTC)
    assert due_ms({"task": "t", "eta": eta.isoformat()}) == int(eta.timestamp() * 1000)
    assert due_ms({"task": "t", "eta": eta.isoformat().replace("+00:00", "Z")}) == int(eta.timestamp() * 1000)


@pytest.mark.parametrize(
    "headers",
    [
        {"task": "t"},
        {"task": "t", "eta": None},
        {"task": "t", "eta": "soon"},
        {"task": "t", "eta": (datetime.now(UTC) - timedelta(seconds=5)).isoformat()},
        {"task": "t", "eta": "2999-01-01T00:00:00"},  # of no time zone: the worker knows which is meant
        {"eta": "2999-01-01T00:00:00+00:00"},  # of no task: somebody else's word
    ],
)
def test_what_has_no_eta_is_sent_at_once(headers: dict[str, Any]) -> None:
    assert due_ms(headers) is None


def test_a_task_with_an_eta_is_not_expired_by_the_broker_before_its_worker_has_seen_it() -> None:
    eta = datetime.fromtimestamp(time.time() + 60, UTC).isoformat()
    prepared = PreparedMessage(b"", "text/plain", "utf-8", {"task": "t", "eta": eta}, {"expiration": "100"})
    assert "expiration" not in dict(prepared.frame()[0])
    assert got(prepared).properties["expiration"] == "100"


def test_each_try_of_one_publish_has_the_same_dedup_id_and_each_publish_its_own() -> None:
    def ids(properties: dict[str, Any]) -> str:
        return dict(PreparedMessage(b"", "text/plain", "utf-8", {}, properties).frame()[0])["dedup-id"]

    assert ids({"message_id": "m-1"}) == ids({"message_id": "m-1"}) == "m-1"
    assert ids({}) != ids({})


# ---- the key of a partitioned queue


@pytest.mark.parametrize(("key", "written"), [
    ("customer-7", "customer-7"), ("a: b\n\\\u00e9 ", "a: b\n\\\u00e9 "), ("", ""), (7, "7"), ("x" * 1024, "x" * 1024),
])  # fmt: skip
@pytest.mark.parametrize("place", ["headers", "properties"])
def test_a_key_is_a_header_of_its_own_and_comes_among_the_headers(key: Any, written: str, place: str) -> None:
    """Among the headers, wherever it was given: Celery gives these to a task that is tried again."""
    prepared = PreparedMessage(b"", "text/plain", "utf-8", **{place: {"radiator_key": key}})
    headers = dict(prepared.frame()[0])
    assert headers["partition-key"] == written and "radiator_key" not in headers["kombu"]
    message = got(prepared)
    assert message.headers == {"radiator_key": written}
    assert "radiator_key" not in message.properties
    again = PreparedMessage(b"", "text/plain", "utf-8", message.headers)
    assert dict(again.frame()[0])["partition-key"] == written


def test_the_key_that_is_given_now_counts_before_that_of_an_earlier_try() -> None:
    prepared = PreparedMessage(b"", "text/plain", "utf-8", {"radiator_key": "old"}, {"radiator_key": "new"})
    assert dict(prepared.frame()[0])["partition-key"] == "new"


@pytest.mark.parametrize("place", ["headers", "properties"])
def test_without_a_key_there_is_no_header(place: str) -> None:
    prepared = PreparedMessage(b"", "text/plain", "utf-8", **{place: {"radiator_key": None}})
    assert "partition-key" not in dict(prepared.frame()[0])
    assert "radiator_key" not in got(prepared).headers


def test_a_key_of_any_stomp_client_is_one() -> None:
    message = Message(
        Received({"destination": "/queue/q", "message-id": "m", "partition-key": "7"}, b""), None, 1, "tag"
    )
    assert message.headers["radiator_key"] == "7"


@pytest.mark.parametrize(("key", "wrong"), [
    (True, "of type bool"), (1.5, "of type float"), (["a"], "of type list"), (b"a", "of type bytes"),
    ("a\0b", "no NUL"), ("\ud800", "no NUL"), ("x" * 1025, "1024 characters"),
])  # fmt: skip
def test_what_cannot_be_a_key_is_refused(key: Any, wrong: str) -> None:
    with pytest.raises(OperationRefused, match=wrong):
        PreparedMessage(b"", "text/plain", "utf-8", {}, {"radiator_key": key}).frame()
