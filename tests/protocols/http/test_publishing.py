"""What is posted to a destination, as the SENDs that it becomes."""

import base64
import json
from typing import Any

import pytest

from radiator.model.addresses import EXCHANGE, LOG, QUEUE, TOPIC
from radiator.model.commands import PublishAll, Send
from radiator.model.errors import Violation
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import HTTP_BATCH_BYTES, HTTP_BATCH_MESSAGES, Limits
from radiator.model.replies import Published
from radiator.protocols.http.avro import encode
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.publishing import body_max, send_of, to_kind
from radiator.protocols.http.responses import Response
from tests.protocols.http.asking import LIMITS, a_request, head_of

TEXT = {"Content_Type": "text/plain"}


def exchange(
    body: bytes = b"x", kind: str = QUEUE, name: str = "a", query: str = "", **headers: str | None
) -> HttpExchange:
    path = f"/v1/{kind}s/x/messages{query}"
    found = to_kind(kind)(a_request("POST", path, body, (name,), **{**TEXT, **headers}))
    assert isinstance(found, HttpExchange)
    return found


def sends(*given: Any, **more: Any) -> list[Send]:
    (command,) = exchange(*given, **more).commands
    assert isinstance(command, PublishAll) and (command.connection, command.receipt) == (7, b"1")
    return command.sends


def batch(*messages: Any) -> list[Send]:
    return sends(json.dumps({"messages": messages}).encode(), Content_Type="application/json")


def refused(*given: Any, **more: Any) -> BadRequest:
    with pytest.raises(BadRequest) as found:
        exchange(*given, **more)
    assert len(str(found.value)) < 1000
    return found.value


# ---- one message


def test_a_body_is_a_message_and_its_headers_are_those_of_the_message() -> None:
    (send,) = sends(
        b"\0\xff", message_colour="blue", Correlation_Id="c", X_Trace="no", User_Agent="curl", Traceparent="00-1-2-01"
    )
    assert send.destination == "/queue/a" and send.body == b"\0\xff" and send.escaping == ESCAPING_ALL
    assert sorted(send.headers.splitlines()) == [
        b"colour:blue", b"content-type:text/plain", b"correlation-id:c", b"traceparent:00-1-2-01",
    ]  # fmt: skip
    assert send.correlation_id == b"c"


def test_an_empty_body_is_an_empty_message() -> None:
    (send,) = sends(b"", Content_Type=None)
    assert (send.body, send.headers) == (b"", b"")


def test_options_of_a_send_are_headers() -> None:
    (send,) = sends(Expiration="5", Delay="7", Mandatory="true", Immediate="true", Idempotency_Key="k")
    assert (send.expiration_ms, send.delay_ms, send.mandatory, send.immediate) == (5, 7, True, True)
    assert send.dedup_id == b"k" and b"dedup-id:k\n" in send.headers and b"idempotency" not in send.headers
    (send,) = sends(Expires="9", Deliver_At="11", message_dedup_id="k")
    assert (send.expires_ms, send.deliver_at_ms, send.dedup_id) == (9, 11, b"k")


@pytest.mark.parametrize("wrong", [
    {"Expiration": "-1"}, {"Delay": "1.5"}, {"Mandatory": "maybe"}, {"Expires": "x"}, {"message_transaction": "t"},
    {"message_receipt": "r"}, {"message_destination": "/queue/b"}, {"message_content_length": "1"},
    {"message_message_id": "1"}, {"message_subscription": "1"}, {"message_": "x"}, {"Reply_To": "/temp-queue/x"},
    {"Idempotency_Key": "k", "message_dedup_id": "k"}, {"Delay": "1", "message_delay": "1"},
])  # fmt: skip
def test_a_header_that_is_wrong_or_of_a_connection_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(Violation):
        exchange(**wrong)


@pytest.mark.parametrize("names", [("Content_Type", "message_content_type"), ("message_content_type", "Content_Type")])
def test_the_type_of_a_message_is_its_own_wherever_it_stands(names: tuple[str, str]) -> None:
    types = {"Content_Type": "application/json", "message_content_type": "text/csv"}
    (send,) = sends(b"{}", **{name: types[name] for name in names})
    assert send.headers == b"content-type:text/csv\n"


@pytest.mark.parametrize("headers", [
    {"Colour": "a", "colour": "b"}, {"idempotency-key": "a", "dedup-id": "b"},
    {"Dedup-Id": "a", "Idempotency-Key": "a"}, {"content-type": "a", "Content-Type": "b"},
])  # fmt: skip
def test_a_batch_with_one_header_twice_is_refused_whole(headers: dict[str, str]) -> None:
    body = json.dumps({"messages": [{"body": "x"}, {"body": "x", "headers": headers}]}).encode()
    assert "Message 1 of the batch has one header twice" in str(refused(body, Content_Type="application/json"))


def test_a_key_against_duplicates_is_never_ignored() -> None:
    assert sends(Idempotency_Key="k")[0].dedup_id == sends(message_dedup_id="k")[0].dedup_id == b"k"
    assert batch({"body": "x", "headers": {"Idempotency-Key": "k"}})[0].dedup_id == b"k"
    assert "Idempotency-Key" in str(refused(dedup_id="k"))
    assert "no header 'idempotency-key'" in str(refused(message_idempotency_key="k"))
    body = b'{"messages": [{"body": "x"}]}'
    assert "dedup-id is of one message" in str(refused(body, Content_Type="application/json", dedup_id="k"))


def test_a_header_that_would_be_another_line_of_a_frame_is_escaped() -> None:
    """A head has no line ends within; a header in JSON may have anything."""
    (send,) = batch({"body": "x", "headers": {"a\nb": "c\r\nd:e\\", "n:": ":"}})
    assert send.headers.splitlines() == [
        b"a\\nb:c\\r\\nd\\ce\\\\",
        b"n\\c:\\c",
        b"content-type:text/plain; charset=utf-8",
    ]


@pytest.mark.parametrize(("kind", "name", "query", "address"), [
    (QUEUE, "a/b", "", "/queue/a/b"), (TOPIC, "a.b", "", "/topic/a.b"), (LOG, "l", "", "/log/l"),
    (EXCHANGE, "x", "?key=a.b", "/exchange/x/a.b"), (EXCHANGE, "x", "", "/exchange/x"),
    (EXCHANGE, "x", "?key=a%2Fb", "/exchange/x/a/b"),
])  # fmt: skip
def test_where_it_goes(kind: str, name: str, query: str, address: str) -> None:
    (send,) = sends(kind=kind, name=name, query=query)
    assert send.destination == address


@pytest.mark.parametrize("name", ["", "\0", "a\n", "x" * 300])
def test_what_is_no_name_is_refused(name: str) -> None:
    assert refused(name=name).status == 400


def test_only_an_exchange_has_a_key() -> None:
    assert "is not a parameter" in str(refused(query="?key=a"))


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_what_a_form_sends_is_refused(kind: str) -> None:
    """A page of another site can have a browser send it, and curl -d does without being asked."""
    wrong = refused(Content_Type=kind)
    assert wrong.status == 415 and "text/plain" in str(wrong)


# ---- a batch


def test_a_batch_is_its_messages_in_order() -> None:
    found = batch(
        {"body": "ä"},
        {"body_base64": base64.b64encode(b"\0\xff").decode(), "headers": {"Colour": "blue"}},
        {"json": {"a": [1, "ä"]}, "headers": {"idempotency-key": "k"}},
    )
    assert [send.body for send in found] == ["ä".encode(), b"\0\xff", '{"a":[1,"ä"]}'.encode()]
    assert [send.headers for send in found] == [
        b"content-type:text/plain; charset=utf-8\n", b"colour:blue\n", b"content-type:application/json\ndedup-id:k\n",
    ]  # fmt: skip
    assert found[2].dedup_id == b"k"


def test_a_message_that_is_json_is_no_batch() -> None:
    (send,) = sends(b'{"a":1}', Content_Type="application/json", message_content_type="application/json")
    assert send.body == b'{"a":1}' and send.headers == b"content-type:application/json\n"


def test_a_batch_has_so_many_messages_at_most() -> None:
    assert len(batch(*[{"body": ""}] * HTTP_BATCH_MESSAGES)) == HTTP_BATCH_MESSAGES
    for count in (0, HTTP_BATCH_MESSAGES + 1):
        body = json.dumps({"messages": [{"body": ""}] * count}).encode()
        assert f"1 to {HTTP_BATCH_MESSAGES}" in str(refused(body, Content_Type="application/json"))


def test_a_batch_is_bounded_more_narrowly_than_a_message() -> None:
    assert body_max(head_of("POST", Content_Type="application/json"), LIMITS) == HTTP_BATCH_BYTES
    assert body_max(head_of("POST", Content_Type="text/plain"), LIMITS) == LIMITS.max_frame_bytes


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"1", b'{"messages":1}', b'{"messages":[1]}', b'{"messages":[{}]}',
    b'{"messages":[{"body":"a","json":1}]}', b'{"messages":[{"body":1}]}', b'{"messages":[{"body":"a","x":1}]}',
    b'{"messages":[{"body":"a","headers":[]}]}', b'{"messages":[{"body":"a","headers":{"a":1}}]}',
    b'{"messages":[{"body":"a"}],"x":1}', b'{"messages":[{"body_base64":"*"}]}', b'{"messages":[{"body":"\\ud800"}]}',
    b'{"messages":[{"body":"a","headers":{"\\ud800":"x"}}]}', b'{"messages":[{"body":"a","body":"b"}]}',
    b'{"messages":[{"json":NaN}]}', b'{"messages":[{"json":[1e999]}]}', b'{"messages":[{"json":-Infinity}]}',
    b'{"messages":[{"json":' + b"9" * 5000 + b"}]}",
    b'{"messages":[{"json":' + b"[" * 20_000 + b"]" * 20_000 + b"}]}", b'{"messages":[{"body":"\xff"}]}',
    b'{"messages":[{"body":"a","headers":{"a":"\\u0000"}}]}', b'{"messages":[{"body":"a","headers":{"":"x"}}]}',
    b'{"messages":[{"body":"a","headers":{"delay":"x"}}]}', b'{"messages":[{"body":"a","headers":{"receipt":"x"}}]}',
])  # fmt: skip
def test_a_batch_that_is_none_is_refused_whole(body: bytes) -> None:
    assert refused(body, Content_Type="application/json").status == 400


def test_a_batch_may_be_avro() -> None:
    data = encode([("", {"Colour": "blue", "idempotency-key": "k"}, b"\xff"), ("/queue/a", {}, b"")])
    one, other = sends(data, Content_Type="avro/binary")
    assert (one.destination, one.headers, one.body, one.dedup_id) == (
        "/queue/a", b"colour:blue\ndedup-id:k\n", b"\xff", b"k",
    )  # fmt: skip
    assert (other.destination, other.headers, other.body) == ("/queue/a", b"", b"")
    (single,) = sends(data, Content_Type="avro/binary", message_content_type="avro/binary")
    assert single.body == data and single.headers == b"content-type:avro/binary\n"
    assert body_max(head_of("POST", Content_Type="avro/binary"), LIMITS) == HTTP_BATCH_BYTES


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (("/queue/b", {}, b""), "has the destination '/queue/b'; it must be empty, or /queue/a"),
        (("", {"ack": "x"}, b""), "has no header 'ack'"),
        (("", {"a": "\0"}, b""), "it must be UTF-8 without a NUL"),
        (("", {"delay": "x"}, b""), "delay"),
    ],
)
def test_a_batch_of_avro_is_refused_whole(message: Any, why: str) -> None:
    assert why in str(refused(encode([("", {}, b"x"), message]), Content_Type="avro/binary"))
    assert refused(b"{}", Content_Type="avro/binary").status == 400


def test_headers_of_one_message_are_not_of_a_batch() -> None:
    body = b'{"messages":[{"body":"a"}]}'
    for header in ("Idempotency_Key", "message_colour", "Delay", "Mandatory", "Reply_To"):
        assert "of one message" in str(refused(body, Content_Type="application/json", **{header: "1"}))


def test_a_batch_may_come_through_what_marks_requests_with_their_trace() -> None:
    body = b'{"messages":[{"body":"a"}]}'
    (send,) = sends(body, Content_Type="application/json", traceparent="00-1-2-01", tracestate="a=b")
    assert send.headers == b"content-type:text/plain; charset=utf-8\n"


# ---- bounds


def test_headers_are_bounded_in_number_and_in_bytes_as_those_of_a_frame() -> None:
    limits = Limits(max_headers=3, max_header_bytes=30)
    three = {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert send_of(7, limits, "/queue/a", three, b"").headers == b"a:1\nb:2\nc:3\n"
    with pytest.raises(BadRequest, match="has 4 headers: max_headers is 3"):
        send_of(7, limits, "/queue/a", three | {b"d": b"4"}, b"")
    assert len(send_of(7, limits, "/queue/a", {b"a": b"x" * 27}, b"").headers) == 30
    with pytest.raises(BadRequest, match="have 31 bytes: max_header_bytes is 30") as refused:
        send_of(7, limits, "/queue/a", {b"a": b"x" * 28}, b"")
    assert refused.value.status == 431


# ---- the answer


def test_what_was_stored_is_created_and_a_duplicate_is_not() -> None:
    def answer(*ids: bytes, duplicates: int = 0) -> Response:
        found = exchange().answer(Published(7, b"1", [*ids], duplicates))
        assert isinstance(found, Response)
        return found

    assert answer(b"n-1-1", b"n-1-2") == Response(
        201, b'{"ids":["n-1-1","n-1-2"],"duplicates":0}\n', b"application/json"
    )
    assert answer(duplicates=1) == Response(200, b'{"ids":[],"duplicates":1}\n', b"application/json")
    assert answer(b"0:7", duplicates=1).status == 201
