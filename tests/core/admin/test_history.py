"""Requests for the last hour."""

import json

from radiator.core.overview.series import COLUMNS
from radiator.model.commands import Administer
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import HISTORY_S
from radiator.model.replies import Answered
from radiator.protocols.administration import JSON
from tests.core.admin.asking import code, node_with
from tests.core.node import Node
from tests.core.words import send


def seconds(node: Node, count: int) -> None:
    for _ in range(count):
        node.wait(1)


def test_all_and_then_what_is_new() -> None:
    node = node_with(3)
    seconds(node, 3)
    found = node.admin(9, do="history")
    assert found["ok"] and found["every_ms"] == 1000 and found["names"] == [*COLUMNS]
    assert [len(column) for column in found["samples"]] == [3] * len(COLUMNS)
    last_ms = found["first_ms"] + 2 * 1000
    assert node.admin(9, do="history", after_ms=last_ms)["samples"] == [[]] * len(COLUMNS)
    node.say(send(1, "q"))
    seconds(node, 1)
    new = node.admin(9, do="history", after_ms=last_ms)
    assert new["first_ms"] == last_ms + 1000 == node.now_ms // 1000 * 1000
    assert new["samples"][found["names"].index("in")] == [1]


def test_before_the_first_sample_there_is_none() -> None:
    node = node_with(0)
    found = node.admin(9, do="history")
    assert found["first_ms"] is None and found["samples"] == [[]] * len(COLUMNS)


def test_of_a_queue() -> None:
    node = node_with(3)
    seconds(node, 7)
    node.say(send(1, "q"))
    seconds(node, 5)
    found = node.admin(9, do="history", queue="q")
    assert found["every_ms"] == 5000 and found["names"] == ["in", "out", "ready", "unacked"]
    assert found["samples"][0][-1] == 1 and found["samples"][2][-1] == 4
    assert found["first_ms"] % 5000 == 0
    assert node.admin(9, do="history", queue="q", after_ms=node.now_ms)["samples"] == [[]] * 4


def test_a_queue_without_one_is_refused() -> None:
    node = node_with(0)
    node.say(send(1, "new"))
    assert code(node, do="history", queue="new") == "no-history"
    assert code(node, do="history", queue="nowhere") == "no-such-destination"


def asked(node: Node) -> Answered:
    node.say(Administer(9, b'{"do": "history"}', JSON, ESCAPING_ALL, b"r", is_answered=True))
    (answer,) = [one for one in node.take(9) if isinstance(one, Answered)]
    return answer


def test_an_hour_of_a_busy_broker_has_some_200_kb_and_is_made_in_slices() -> None:
    node = node_with(0)
    series = node.broker.parts.overview.history.series
    busy = {"in": 12_345, "out": 12_345, "delivered": 12_345, "ready": 543, "stored": 777, "unacked": 222}
    sample = {**dict.fromkeys(COLUMNS, 0), **busy, "connections": 64, "receipt_p50_ms": 2.31, "receipt_p99_ms": 4.87}
    for second in range(HISTORY_S):
        series.put(series.periods.take(node.now_ms + second * 1000), {**sample, "memory_bytes": 123_456_789})
    node.auto = False
    turns = 0
    node.say(Administer(9, b'{"do": "history"}', JSON, ESCAPING_ALL, b"r", is_answered=True))
    while not node.inbox[9]:
        node.turn([])
        turns += 1
    (answer,) = node.take(9)
    assert isinstance(answer, Answered) and turns >= len(COLUMNS) - 1
    text = b"".join((answer.body, *answer.more))
    assert 200_000 < len(text) < 220_000, "with 12,000 messages a second"
    assert [len(column) for column in json.loads(text)["samples"]] == [HISTORY_S] * len(COLUMNS)


def test_an_answer_that_takes_a_while_is_of_one_moment() -> None:
    node = node_with(0)
    seconds(node, 1000)
    node.auto = False
    node.say(Administer(9, b'{"do": "history"}', JSON, ESCAPING_ALL, b"r", is_answered=True))
    while not node.inbox[9]:
        node.wait(1)
    (answer,) = node.take(9)
    assert isinstance(answer, Answered)
    assert [len(column) for column in json.loads(answer.body)["samples"]] == [1000] * len(COLUMNS)
