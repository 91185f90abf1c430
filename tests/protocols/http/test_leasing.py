"""Receive and settle, as they are asked for and answered."""

import json
from typing import Any

import pytest

from radiator.model.headers import ESCAPING_ALL
from radiator.model.leases import Action, Leased, LeasedMessage, Receive, Settle, Settled, Settlement, Verdict
from radiator.model.limits import AWAIT_MAX_MS, LEASE_MAX_MS, LEASE_MIN_MS, LEASED_AT_ONCE_MAX, TIME_MAX_MS
from radiator.model.message import Message
from radiator.protocols.http.avro import decode
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.leasing import receive, settle
from radiator.protocols.http.responses import Response
from tests.protocols.http.asking import a_request

AS_JSON = {"Content_Type": "application/json"}


def received(body: bytes = b"", name: str = "q", path: str = "/x", **headers: str | None) -> Receive:
    found = receive(a_request("POST", path, body, (name,), **{**AS_JSON, **headers}))
    assert isinstance(found, HttpExchange) and found.is_alone
    (command,) = found.commands
    assert isinstance(command, Receive)
    return command


def settled(*settlements: Any) -> list[Settlement]:
    body = json.dumps({"settlements": settlements}).encode()
    found = settle(a_request("POST", "/v1/settle", body, **AS_JSON))
    (command,) = found.commands
    assert isinstance(command, Settle)
    return command.settlements


# ---- receive


def test_one_message_at_once_for_half_a_minute_where_nothing_is_said() -> None:
    assert received() == received(b"{}") == Receive(7, b"1", "/queue/q", 1, 0, 30_000)


def test_how_many_how_long_it_waits_and_for_how_long_they_are_leased() -> None:
    body = b'{"max": 5, "wait_ms": 20000, "lease_ms": 60000}'
    assert received(body, "a/b") == Receive(7, b"1", "/queue/a/b", 5, 20_000, 60_000)


@pytest.mark.parametrize(("key", "least", "most"), [
    ("max", 1, LEASED_AT_ONCE_MAX), ("wait_ms", 0, AWAIT_MAX_MS), ("lease_ms", LEASE_MIN_MS, LEASE_MAX_MS),
])  # fmt: skip
def test_each_number_has_bounds(key: str, least: int, most: int) -> None:
    for right in (least, most):
        assert received(json.dumps({key: right}).encode())
    for wrong in (least - 1, most + 1, "1", 1.5, True, None, [1]):
        with pytest.raises(BadRequest, match=f"`{key}` is .*; it must be a whole number from {least} to {most}"):
            received(json.dumps({key: wrong}).encode())


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"max":1,"max":2}', b'{"wait":1}', b"1"])
def test_what_is_no_receive_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        received(body)


def test_a_body_is_json_and_says_so() -> None:
    with pytest.raises(BadRequest, match="must be application/json") as refused:
        received(b"{}", Content_Type="text/plain")
    assert refused.value.status == 415
    with pytest.raises(BadRequest):
        received(path="/x?max=1")
    with pytest.raises(BadRequest):
        received(name="")


def test_messages_come_with_what_they_are() -> None:
    message = Message("/queue/q", b"a\\cb:c\\nd\nn:1\nn:2\n", ESCAPING_ALL, b"hello", 1234, 0)
    answer = receive(a_request("POST", "/x", b"", ("q",))).answer
    found = answer(Leased(7, b"1", [LeasedMessage(b"token", b"n-1-1", message, True, 2)]))
    assert isinstance(found, Response) and found.status == 200
    assert json.loads(found.body) == {"messages": [{
        "id": "n-1-1", "lease": "token", "destination": "/queue/q", "timestamp": 1234, "redelivered": True,
        "redeliveries": 2, "headers": {"a:b": "c\nd", "n": "1"}, "body": "hello",
    }]}  # fmt: skip
    binary = Message("/queue/q", b"", ESCAPING_ALL, b"\xff\0", 1, 0)
    found = answer(Leased(7, b"1", [LeasedMessage(b"t", b"1", binary, False, 0)]))
    assert isinstance(found, Response)
    assert json.loads(found.body)["messages"][0]["body_base64"] == "/wA="
    assert answer(Leased(7, b"1")) == Response(204, content_type=b"")


@pytest.mark.parametrize("accept", ["avro/binary", "text/html, AVRO/binary ;q=0.5"])
def test_who_accepts_avro_gets_it(accept: str) -> None:
    message = Message("/queue/q", b"a:b\nn:1\nn:2\n", ESCAPING_ALL, b"\xff", 1234, 0)
    answer = receive(a_request("POST", "/x", b"", ("q",), Accept=accept)).answer
    found = answer(Leased(7, b"1", [LeasedMessage(b"token", b"n-1-1", message, True, 2)]))
    assert isinstance(found, Response) and (found.status, found.content_type) == (200, b"avro/binary")
    headers = {"message-id": "n-1-1", "ack": "token", "timestamp": "1234", "redelivered": "true"}
    headers |= {"redelivery-count": "2", "a": "b", "n": "1"}
    assert decode(found.body, 10) == [("/queue/q", headers, b"\xff")]
    assert answer(Leased(7, b"1")) == Response(204, content_type=b"")


# ---- settle


def test_each_action_with_what_it_may_have() -> None:
    assert settled(
        {"lease": "a", "action": "ack"},
        {"lease": "b", "action": "release"},
        {"lease": "c", "action": "release", "delay_ms": 5},
        {"lease": "d", "action": "reject"},
        {"lease": "e", "action": "extend", "lease_ms": 60_000},
    ) == [
        Settlement(b"a", Action.ACK),
        Settlement(b"b", Action.RELEASE),
        Settlement(b"c", Action.RELEASE, 5),
        Settlement(b"d", Action.REJECT),
        Settlement(b"e", Action.EXTEND, None, 60_000),
    ]


@pytest.mark.parametrize("wrong", [
    {}, {"lease": "a"}, {"action": "ack"}, {"lease": 1, "action": "ack"}, {"lease": "a", "action": "nack"},
    {"lease": "a", "action": "ack", "delay_ms": 1}, {"lease": "a", "action": "release", "lease_ms": 1000}, [], "a",
    {"lease": "a", "action": "release", "delay_ms": TIME_MAX_MS + 1}, {"lease": "a", "action": ["ack"]},
    {"lease": "a", "action": "extend", "lease_ms": LEASE_MIN_MS - 1}, {"lease": "a", "action": "ack", "x": 1},
])  # fmt: skip
def test_a_settlement_that_is_none_refuses_all(wrong: Any) -> None:
    with pytest.raises(BadRequest, match="^Settlement 1 is wrong, so none was carried out. "):
        settled({"lease": "a", "action": "ack"}, wrong)


def test_so_many_at_once_at_most() -> None:
    one = {"lease": "a", "action": "ack"}
    assert len(settled(*[one] * LEASED_AT_ONCE_MAX)) == LEASED_AT_ONCE_MAX
    for count in (0, LEASED_AT_ONCE_MAX + 1):
        with pytest.raises(BadRequest, match=f"1 to {LEASED_AT_ONCE_MAX}"):
            settled(*[one] * count)


def test_each_has_a_verdict() -> None:
    body = b'{"settlements":[{"lease":"a","action":"ack"}]}'
    answer = settle(a_request("POST", "/v1/settle", body, **AS_JSON)).answer
    found = answer(Settled(7, b"1", [Verdict(), Verdict("lease-over", "It is over.")]))
    assert isinstance(found, Response) and found.status == 200
    assert json.loads(found.body) == {
        "verdicts": [{"ok": True}, {"ok": False, "status": 410, "code": "lease-over", "detail": "It is over."}]
    }
