"""/admin: every request, and what wrong ones get."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from radiator.model.validation import QUEUE
from radiator.protocols.administration.requests import REQUESTS
from tests.core.admin.asking import node_with
from tests.core.words import send


@pytest.mark.parametrize(
    "body, code",
    [
        (b"", "bad-request"),
        (b"{", "bad-request"),
        (b"[]", "bad-request"),
        (b'"stats"', "bad-request"),
        (b"\xff", "bad-request"),
        (b"[" * 60_000, "bad-request"),
        (b'{"do":"stats","more":{}}', "bad-request"),
        (b'{"do":"stats","more":[[]]}', "bad-request"),
        (b'{"do":"stats","more":[{}]}', "bad-request"),
        (b'{"do":"stats"}' + b" " * 70_000, "bad-request"),
        (b"{}", "unknown-request"),
        (b'{"do":"nothing"}', "unknown-request"),
        (b'{"do":["stats"]}', "unknown-request"),
        (b'{"do":"peek"}', "bad-request"),
        (b'{"do":"peek","queue":7}', "bad-request"),
        (b'{"do":"peek","queue":"none"}', "no-such-destination"),
        (b'{"do":"peek","queue":"\\ud800"}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":0}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":1001}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":true}', "bad-request"),
        (b'{"do":"peek","queue":"q","count":"1"}', "bad-request"),
        (b'{"do":"purge","queue":"none"}', "no-such-destination"),
        (b'{"do":"delete","queue":"none"}', "no-such-destination"),
        (b'{"do":"move","from":"none","to":"x"}', "no-such-destination"),
        (b'{"do":"move","from":"q"}', "bad-request"),
        (b'{"do":"move","from":"q","to":""}', "bad-request"),
        (b'{"do":"move","from":"q","to":"q"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"a\\u0000b"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"\\ud800"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"' + b"x" * 256 + b'"}', "bad-request"),
        (b'{"do":"move","from":"q","to":"a.*"}', "wildcard"),
        (b'{"do":"move","from":"q","to":"r","count":-1}', "bad-request"),
    ],
)
def test_wrong_request_is_answered_and_not_fatal(body: bytes, code: str) -> None:
    node = node_with(1)
    node.say(send(9, "/admin", body, b"r", reply_to="t"))
    answer = json.loads(node.message(9).message.body)
    assert answer["ok"] is False and answer["code"] == code and answer["error"].endswith(".")
    assert node.receipts(9) == [b"r"] and not node.is_refused(9)
    assert node.stored("q") == [b"0"]


@pytest.mark.parametrize("key", ["do", "queue", "count", "max_messages", "children", "seconds"])
def test_no_depth_of_a_value_ends_the_broker(key: str) -> None:
    node = node_with(1)
    for depth in (*range(2, 30_000, 2000), *range(900, 1000)):
        for do in ("peek", "declare", "extend"):
            body = b'{"do":"%b","queue":"q","%b":%b%b}' % (do.encode(), key.encode(), b"[" * depth, b"]" * depth)
            node.say(send(9, "/admin", body, reply_to="t"))
            assert json.loads(node.message(9).message.body)["code"] == "bad-request"


NAMES = ["q", "r", "x", "amq.topic", "f", "", "a.*", "/queue/q", "$outbox/b", "\ud800", "x" * 256]
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=3) | some.sampled_from(NAMES),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = some.sampled_from(
    ["queue", "exchange", "fanout", "key", "type", "durable", "passive", "children", "count", "subscription", "id",
     "seconds", "from", "to", "if_unused", "if_empty", "create", "peer", "force", "stop", *QUEUE]
)  # fmt: skip


@given(some.lists(some.tuples(some.sampled_from(sorted(REQUESTS)), some.dictionaries(KEYS, VALUES)), max_size=5))
def test_no_request_does_worse_than_a_refusal(requests: list[tuple[str, dict[str, object]]]) -> None:
    node = node_with(2)
    node.admin(9, do="declare", exchange="x", type="topic")
    for do, asked in requests:
        answer = node.admin(9, **{"do": do, **asked})
        assert answer["ok"] is True or (answer["code"] and answer["error"].endswith((".", "?")))
    assert not node.is_refused(9)
    node.crashed()
