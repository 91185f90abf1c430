"""Bodies for queues and logs with a schema: judged by every way that leads into one, and not when they only move on."""

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from radiator.model.avro import body_schema
from radiator.model.commands import Open, PublishAll, Send
from radiator.model.errors import StoreError
from radiator.model.limits import BODY_VALUES_MAX, JUDGED_VALUES_MAX
from radiator.model.replies import Published, Refuse, Scope
from radiator.model.settings import Binding, Declarations, ExchangeSettings, LogSettings, QueueSettings
from tests.avro_bodies import BINARY, GOOD, JSON, ORDER, ORDER_TEXT, VALUE, as_json, long
from tests.core.node import Node
from tests.core.words import begin, commit, nack, send, subscribe

BAD = GOOD + b"\0"
GOES_ON = "has a schema: the body goes on for 1 byte after the end of order; it must end there."
WAYS = ["/queue/q", "/log/l", "/exchange/x/k", "/fanout/f", "/exchange/tap/k"]


def declared(**more: Any) -> Declarations:
    judged = QueueSettings(schema=ORDER_TEXT)
    return Declarations(
        queues={
            "q": judged,
            "bound": judged,
            "child": judged,
            "ttl": replace(judged, message_ttl_ms=1000, dead_letter="dead", max_messages=9),
            "plain": QueueSettings(dead_letter="dead", max_redeliveries=1),
            "dead": judged,
        }
        | more,
        logs={"l": LogSettings(schema=ORDER_TEXT)},
        exchanges={"x": ExchangeSettings(type="topic"), "tap": ExchangeSettings(type="topic")},
        bindings=[Binding("x", "#", "bound"), Binding("x", "#", "plain"), Binding("tap", "#", "/log/l")],
        fanouts={"f": ("plain", "child")},
    )


def node_of(**more: Any) -> Node:
    node = Node(declared(**more))
    node.open(9)
    return node


def records(node: Node) -> int:
    (one,) = [entry for entry in node.stats()["logs"] if entry["log"] == "l"]
    return sum(part["next"] for part in one["partitions"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("body", "headers"), [(GOOD, BINARY), (as_json(ORDER, VALUE), JSON)])
def test_what_is_a_value_of_the_schema_goes_in(way: str, body: bytes, headers: bytes) -> None:
    node = node_of()
    node.say(send(9, way, body, b"r", headers=headers))
    assert node.receipts(9) == [b"r"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (BAD, BINARY, GOES_ON),
        (GOOD, b"", "the body has no content-type; it must be avro/binary or application/json."),
        (as_json(ORDER, VALUE).replace(b"2.0", b'"abc"'), JSON, 'order.items[1].price is "abc"; it must be a double.'),
    ],
)
def test_anything_else_is_refused_and_goes_nowhere(way: str, body: bytes, headers: bytes, why: str) -> None:
    node = node_of()
    node.say(send(9, way, body, b"r", headers=headers))
    refused = node.refusal(9)
    assert refused.code == "bad-body" and refused.sentence.endswith(why)
    assert refused.sentence.startswith(("/queue/", "/log/"))
    for name in ("q", "bound", "child", "plain"):
        assert node.stored(name) == []


@pytest.mark.parametrize("more", [{"delay_ms": 5}, {"expiration_ms": 5}, {"mandatory": True}])
def test_no_other_header_leads_past_it(more: dict[str, Any]) -> None:
    node = node_of()
    node.say(send(9, "q", BAD, b"r", headers=BINARY, **more))
    assert node.refusal(9).code == "bad-body" and node.stored("q") == []


def test_a_transaction_is_refused_as_a_whole() -> None:
    node = node_of()
    node.say(begin(9), *(send(9, to, body, headers=BINARY, transaction=b"t") for to, body in (("q", GOOD), ("q", BAD))))
    node.say(commit(9, receipt=b"r"))
    assert node.refusal(9).code == "bad-body" and node.stored("q") == []


def test_a_publish_of_many_is_refused_as_a_whole() -> None:
    node = Node(declared())
    node.inbox[1], node.delivers[1] = [], 0
    node.turn([Open(1, closes_at=Scope.CONNECTION)])
    sends = [send(1, "q", body, headers=BINARY) for body in (GOOD, BAD)]
    node.say(PublishAll(1, b"1", sends), PublishAll(1, b"2", sends[:1]))
    refused, published = [one for one in node.take(1) if isinstance(one, Refuse | Published)]
    assert isinstance(refused, Refuse) and refused.code == "bad-body" and isinstance(published, Published)
    assert node.stored("q") == [GOOD]


@pytest.mark.parametrize("values", [JUDGED_VALUES_MAX, JUDGED_VALUES_MAX + 1])
def test_a_transaction_has_so_many_values(values: int) -> None:
    node = node_of(q=QueueSettings(schema='{"type":"array","items":"int"}'))
    counts = [BODY_VALUES_MAX] * (values // BODY_VALUES_MAX) + [values % BODY_VALUES_MAX] * (values % BODY_VALUES_MAX)
    bodies = [long(count) + bytes(count) + b"\0" for count in counts]
    node.say(begin(9), *(send(9, "q", body, headers=BINARY, transaction=b"t") for body in bodies))
    node.say(commit(9, receipt=b"r"))
    if values == JUDGED_VALUES_MAX:
        assert node.receipts(9) == [b"r"]
    else:
        assert node.refusal(9).code == "too-large"


def test_a_body_for_many_with_one_schema_is_judged_once() -> None:
    children = {f"c{number}": QueueSettings(schema='{"type":"array","items":"int"}') for number in range(100)}
    node = Node(Declarations(queues=children, fanouts={"f": tuple(children)}))
    node.open(9)
    node.say(send(9, "/fanout/f", long(BODY_VALUES_MAX) + bytes(BODY_VALUES_MAX + 1), b"r", headers=BINARY))
    assert node.receipts(9) == [b"r"]


def test_a_prepared_transaction_is_judged_as_it_is_prepared() -> None:
    node = node_of()
    for name, body in (("good", GOOD), ("bad", BAD)):
        node.say(begin(9), send(9, "/exchange/x/k", body, headers=BINARY, transaction=b"t"))
        node.say(replace(commit(9, receipt=name.encode()), prepare=name))
    assert node.receipts(9) == [b"good"] and node.refusal(9).code == "bad-body"


def test_dead_letters_and_moves_are_not_judged() -> None:
    node = node_of()
    node.open(1)
    node.say(send(9, "plain", b"any", b"r"), subscribe(1, "plain"))
    node.say(nack(node.message(1), requeue=False))
    assert node.stored("dead") == [b"any"]
    node.close(1)
    node.say(send(9, "plain", b"moved", b"s"))
    assert node.admin(9, do="move", **{"from": "plain", "to": "q"})["ok"] and node.stored("q") == [b"moved"]


def test_a_schema_is_declared_at_run_time_and_outlives_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of()
    assert node.admin(9, do="declare", queue="new", schema=json.dumps(ORDER))["created"]
    assert node.admin(9, do="declare", log="new", schema=ORDER_TEXT)["created"]
    assert node.admin(9, do="describe", queue="new")["settings"]["schema"] == ORDER_TEXT
    assert node.admin(9, do="describe", log="new")["settings"]["schema"] == ORDER_TEXT
    assert node.admin(9, do="declare", queue="new", schema='"int"')["code"] == "declared-otherwise"
    assert "is not an Avro schema" in node.admin(9, do="declare", queue="other", schema='{"type":"int3"}')["error"]
    again = node.crashed()
    for number, name in enumerate(("/queue/new", "/log/new"), 20):
        again.open(number)
        again.say(send(number, name, BAD, b"r", headers=BINARY))
        assert again.refusal(number).code == "bad-body"
    monkeypatch.setitem(sys.modules, "fastavro", None)
    body_schema.cache_clear()
    with pytest.raises(StoreError, match="needs fastavro"):
        again.crashed()


def test_a_durable_subscription_takes_no_schema_of_a_pattern() -> None:
    node = Node(Declarations(queue_patterns=[("#", QueueSettings(schema='"int"'))], create_topics=True))
    node.open(1, 9)
    node.say(subscribe(1, "/topic/t", durable=True), send(9, "/topic/t", b"any", b"r"))
    assert node.receipts(9) == [b"r"]


def test_only_what_names_a_schema_has_one() -> None:
    node = node_of()
    node.say(Send(9, "/queue/plain", b"", 0, b"any", receipt=b"r"))
    assert node.receipts(9) == [b"r"]
