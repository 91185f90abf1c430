"""Answers as JSON: a key for each field, and what differs from that."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from radiator.model.answers import (
    AdminAnswer,
    Consumer,
    Declared,
    FanoutDescribed,
    LogEnds,
    LogExplained,
    LogsEnds,
    Named,
    Pressure,
    Purged,
    Queues,
    SectionNumbers,
)
from radiator.model.errors import Refusal
from radiator.model.numbers import PAUSE, Holder, Later, LogNumbers, NamedRows, Rows, TopicNumbers
from radiator.model.peeking import Peeked, PeekedMessage
from radiator.protocols.administration import JSON


def peeked(body: bytes) -> PeekedMessage:
    return PeekedMessage("id", "/queue/q", 1, 0, False, 0, "ready", 3, [(b"k", b"\xff")], len(body), body)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Purged(3), '{"ok": true, "purged": 3}'),
        (Declared(True), '{"ok": true, "created": true}'),
        (Declared(False, ("No.",)), '{"ok": true, "created": false, "warnings": ["No."]}'),
        (
            FanoutDescribed(Rows(iter(["a", "b"])), [], 1),
            '{"ok": true, "children": ["a", "b"], "outboxes": [], "accepted": 1}',
        ),
        (Queues(Rows(iter([]))), '{"ok": true, "queues": []}'),
        (LogsEnds(NamedRows(iter([]))), '{"ok": true, "logs": {}}'),
        (
            LogsEnds(NamedRows(iter([("l", LogEnds([1], [0]))]))),
            '{"ok": true, "logs": {"l": {"next": [1], "first": [0]}}}',
        ),
        (
            Queues(Rows(iter([Named("t", TopicNumbers(2))]))),  # type: ignore[list-item]
            '{"ok": true, "queues": [{"name": "t", "subscribers": 2}]}',
        ),
        (
            SectionNumbers("topics", NamedRows(iter([("t", TopicNumbers(2))]))),
            '{"ok": true, "topics": {"t": {"subscribers": 2}}}',
        ),
    ],
)
def test_an_answer_is_this_text(answer: AdminAnswer, text: str) -> None:
    assert JSON.whole(answer).decode() == text


def test_a_refusal_is_this_text() -> None:
    assert JSON.refusal(Refusal("in-use", "No.")) == b'{"ok": false, "code": "in-use", "error": "No."}'


def test_a_body_that_is_no_utf8_is_in_base64() -> None:
    text, raw = json.loads(JSON.whole(Peeked(Rows(iter([peeked("ä".encode()), peeked(b"\xff")])))))["messages"]
    assert text["body"] == "ä" and "body_base64" not in text and text["headers"] == [["k", "\ufffd"]]
    assert raw["body"] is None and raw["body_base64"] == "/w=="


def test_numbers_and_pressure_stand_beside_the_sentence() -> None:
    pressure = Pressure(1, 0, True, False, [Holder("c", 9)])
    consumer = Consumer(1, "s", "a", "window", 2, None, 0, 5)
    answer = LogExplained("empty", "It has no record.", 0, 1, 0, {}, pressure, [consumer])
    found = json.loads(JSON.whole(answer))
    assert [*found] == [
        "ok", "verdict", "sentence", "records", "readers", "groups", "unread", "blocked_by_disk", "blocked_by_memory",
        "is_disk_tight", "is_memory_tight", "memory_holders", "consumer_list",
    ]  # fmt: skip
    assert found["memory_holders"] == [{"name": "c", "bytes": 9}] and found["consumer_list"][0]["window"] is None


def test_each_pause_ends_a_slice_and_says_nothing() -> None:
    def readers() -> Iterator[Any]:
        yield PAUSE
        yield 4

    log = LogNumbers(1, 2, 3, None, 4, 5, Later(readers()), NamedRows(iter([PAUSE, ("g", 1), PAUSE])), 0)
    pieces = [*JSON.pieces(SectionNumbers("logs", NamedRows(iter([PAUSE, ("l", log)]))))]
    assert pieces.count("") == 4
    row = json.loads("".join(pieces))["logs"]["l"]
    assert row["readers"] == 4 and row["unread"] == {"g": 1}
