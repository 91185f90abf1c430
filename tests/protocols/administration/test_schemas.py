"""The schemas of answers are those of what answers.py writes."""

import json
from dataclasses import fields, replace
from typing import Any

import jsonschema
import pytest

from radiator.model import (
    answers,
    bounds,
    configuration,
    connections,
    consumers,
    disk,
    log_lines,
    numbers,
    overview,
    peeking,
    questions,
    returning,
    unacked,
)
from radiator.model.addresses import EXCHANGE, FANOUT, LOG, QUEUE
from radiator.model.numbers import Later, NamedRows, Rows
from radiator.model.settings import QueueSettings
from radiator.model.story import Happened
from radiator.model.validation import EXCHANGE as EXCHANGE_CHECKS
from radiator.model.validation import FANOUT as FANOUT_CHECKS
from radiator.model.validation import LOG as LOG_CHECKS
from radiator.model.validation import QUEUE as QUEUE_CHECKS
from radiator.protocols.administration import JSON, schemas
from radiator.protocols.administration.requests import REQUESTS

QUEUE_NUMBERS = numbers.QueueNumbers(**dict.fromkeys((one.name for one in fields(numbers.QueueNumbers)), 1))  # type: ignore[arg-type]
OF_KEYS = ("active_keys", "key_moves", "hot_key")  # where a queue is partitioned
PEEKED = peeking.PeekedMessage("1-2", "/queue/a", 1, 0, False, 0, "ready", 3, [(b"a", b"b")], 1, b"x")
EVENT = Happened(3, 1, "acked", "q", "s-1-2", "1/a", 0, 9, "", "", "", "", 0, "n1")
NUMBERS = connections.ConnectionNumbers(
    7, "127.0.0.1:9", "ann", "token", "HTTP", "TLSv1.3", None, 9, 1, 2, 3, 0, 4, None, 6, 0
)
SUBSCRIPTION = connections.SubscriptionNumbers("1", "/queue/a", "client", None, 1, 1, "window")
OUT = unacked.UnackedMessage("s-1-2", None, None, "ann", None, None, 9, 10, 0, 5, is_leased=True)
ANSWERS: list[tuple[str, str | None, str | None, Any]] = [
    ("purge", None, None, answers.Purged(3)),
    ("ready", None, None, answers.Readiness(False, [answers.NotReady("disk", "The disk is full.")])),
    ("configuration", None, None, configuration.Configuration(Rows(iter([
        configuration.Setting("server", None, "unix", True, True, True),
        configuration.Setting("user", "a", "read", ["/#"], None, False),
    ])), "/c")),
    ("configuration", None, None, configuration.Configuration(Rows(iter([])), None)),
    ("bounds", None, None, bounds.BoundsInForce(Rows(iter([
        bounds.BrokerBound("a", None, None, "bytes", False, "It waits."),
        bounds.BrokerBound("b", 5, 0, "bytes", True, "It waits."),
    ])))),
    ("disk", None, None, disk.DiskStands("/d", *range(15), None, None)),
    ("disk", None, None, disk.DiskStands("/d", *range(15), 4, 5)),
    ("log", None, None, log_lines.LogLines(Rows(iter([
        log_lines.LogLine(7, 1, "info", "start", {"a": "x", "b": 1, "c": 0.5, "d": True}),
    ])), 3, 7)),
    ("declare", QUEUE, None, answers.QueueDeclared(0, 0, 0, True)),
    ("declare", EXCHANGE, None, answers.Declared(False, ("It does nothing.",))),
    ("peek", None, None, peeking.Peeked(Rows(iter([PEEKED])))),
    ("peek", None, None, peeking.Peeked(Rows(iter([replace(PEEKED, body=b"\xff")])))),
    ("explain", None, None, answers.StoryExplained(Rows(iter([EVENT])), has_more=False, is_cut=True)),
    ("position", None, None, answers.Position(None)),
    ("position", None, None, answers.Position([1, 2])),
    ("describe", QUEUE, None, answers.QueueDescribed(QueueSettings(), Rows(iter([answers.BindingOfQueue("x", "k")])), 1,
                                                     0, 0, 0, 0, 0, 0, 0, None, None, None, None)),
    ("describe", QUEUE, None, answers.QueueDescribed(QueueSettings(partition_key=("/a",)), Rows(iter([])), 0,
                                                     0, 0, 0, 0, 0, 0, 0, None, None, None, None)),
    ("describe", QUEUE, None, answers.QueueDescribed(QueueSettings(partition_key=("/a", "/b")), Rows(iter([])), 0,
                                                     0, 0, 0, 0, 0, 0, 0, None, None, None, None)),
    ("describe", QUEUE, None, answers.QueueDescribed(QueueSettings(), Rows(iter([])), 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3,
                                                     consumers.HotKey("k", 9), 7, consumers.ActiveConsumer(8, "s"))),
    ("return", None, None, returning.MessagesReturned(1, 1, {"a": 1}, {"not-ready": 1},
                                                      [returning.NotReturned("s-1-2", "not-ready")], "It did.")),
    ("route", None, None,
     questions.RouteFound(Rows(iter([questions.RouteTarget("/queue/a", "k", ["/exchange/x"])])), 1, "It does.")),
    ("may", None, None, questions.RightJudged(False, None, "He may not.")),
    ("may", None, None, questions.RightJudged(True, "/#", "He may.")),
    ("consumers", None, None, consumers.Consumers(Rows(iter([
        consumers.NamedConsumer("pod-3", None, True, False, False, 0, None, 900, None),
        consumers.NamedConsumer("pod-4", 7, False, True, True, 2, 4, None, "held"),
    ])))),
    ("consumer-register", None, None, consumers.ConsumerRegistered("pod-3", True, False, 30_000, {
        "destination": "/queue/q", "consumer-name": "pod-3"}, 0.5, 2, True)),
    ("consumer-drain", None, None, consumers.ConsumerDrained(False, 2)),
    ("connections", None, None, connections.ConnectionsListed(Rows(iter([NUMBERS])), Later(iter([1])))),
    ("connection", None, None, connections.ConnectionDescribed(NUMBERS, Rows(iter([SUBSCRIPTION])), Rows(iter([8])))),
    ("disconnect", None, None, connections.ConnectionClosed(7, "ann", "127.0.0.1:9")),
    ("unacked", None, None, unacked.Unacked(Rows(iter([OUT])), 1, "7-8")),
    ("unacked", None, None, unacked.Unacked(Rows(iter([])), 0, None)),
    ("extend-unacked", None, None, unacked.UnackedExtended("s-1-2", 9)),
    ("scale", None, None, consumers.Scale(9, None, None, 0, 9)),
    ("history", None, None, overview.Samples(1000, None, ("in",), Rows(iter([[]])))),
    ("history", None, None, overview.Samples(1000, 5000, ("in", "p"), Rows(iter([[1, None], [None, 2.5]])))),
    ("queue-table", None, None, overview.QueueTable(Rows(iter([
        overview.QueueOfTable("q", 1, 0, 0, 0, True, None, 2.5, 0, None, 1, 9, "moving", "It moves.", True, False, 0),
    ])), 1, 2)),
    ("attention", None, None, overview.Attention(Rows(iter([
        overview.NeedsAttention("queue", "q", "no-consumer", "Nobody is subscribed.")])), {"no-consumer": 1}, 9)),
    ("attention", None, None, overview.Attention(Rows(iter([])), None, 0)),
    ("scale", None, None, consumers.Scale(9, 70, 3, 1, 3)),
    ("describe", LOG, None, answers.LogDescribed(schemas.LogSettings(), "1", answers.PartitionsDescribed([0], [1], [9],
                                                 [None], [5]), Later(iter([0])), Rows(iter(["g"])))),
    ("stats", None, "topics", answers.SectionNumbers("topics", NamedRows(iter([("a", numbers.TopicNumbers(1))])))),
    ("stats", None, None, answers.SectionNumbers("topics", NamedRows(iter([("a", numbers.TopicNumbers(1))])))),
    ("why", LOG, None, answers.LogExplained("moving", "It moves.", 1, 1, 1, {"g": 1},
                                            answers.Pressure(0, 0, False, False, [numbers.Holder("a", 1)]),
                                            [consumers.Consumer(1, "s", "", "has-room", 0, None, 0, 0)])),
]  # fmt: skip


def strict(part: Any) -> Any:
    """With nothing that is not named."""
    if isinstance(part, list):
        return [strict(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: strict(one) for key, one in part.items()}
    return {"additionalProperties": False, **found} if "properties" in found else found


def is_right(schema: Any, value: Any) -> bool:
    whole = {**strict(schema), "components": {"schemas": strict(dict(schemas.components()))}}
    jsonschema.Draft202012Validator.check_schema(whole)
    return bool(jsonschema.Draft202012Validator(whole).is_valid(value))


@pytest.mark.parametrize(("do", "kind", "section", "answer"), ANSWERS)
def test_an_answer_is_as_its_schema_says(do: str, kind: str | None, section: str | None, answer: Any) -> None:
    found = json.loads("".join(JSON.pieces(answer)))
    schema = schemas.answer(do, kind, section)
    assert is_right(schema, found)
    assert not is_right(schema, {**found, "more": 1}) and not is_right(schema, {**found, "ok": False})
    for name in found.keys() - {"warnings", *(OF_KEYS if do == "describe" else ())}:
        assert not is_right(schema, {key: one for key, one in found.items() if key != name})


def test_a_value_of_another_type_is_found() -> None:
    assert is_right(schemas.of(int), 1) and not is_right(schemas.of(int), "1")
    assert is_right(schemas.of(list[int | None]), [1, None]) and not is_right(schemas.of(list[int]), [None])
    assert is_right(schemas.of(dict[str, int]), {"a": 1}) and not is_right(schemas.of(dict[str, int]), {"a": "b"})
    with pytest.raises(AssertionError, match="answers.py does not write"):
        schemas.of(object)


def test_what_answers_each_request_is_known() -> None:
    """But for what belongs to a connection of STOMP, or is asked by the programs that come with the broker."""
    others = {"await", "checkout", "checkout-ack", "checkout-release", "extend", "prefetch"}
    assert schemas.ANSWERS.keys() == REQUESTS.keys() - others - {"stats"}
    for do, found in schemas.ANSWERS.items():
        for kind in [None] if isinstance(found, type) else found:
            assert is_right(schemas.answer(do, kind), {}) is False


def test_each_section_has_its_rows() -> None:
    for section in schemas.SECTIONS:
        assert is_right(schemas.answer("stats", section=section), {"ok": True, section: {}})


@pytest.mark.parametrize(("kind", "checks"), [
    (QUEUE, QUEUE_CHECKS), (LOG, LOG_CHECKS), (EXCHANGE, EXCHANGE_CHECKS), (FANOUT, FANOUT_CHECKS),
])  # fmt: skip
def test_settings_are_those_that_there_are(kind: str, checks: dict[str, Any]) -> None:
    schema = schemas.settings(kind)
    assert schema["properties"].keys() == checks.keys()
    assert is_right(schema, {}) and not is_right(schema, {"x": 1})
    if "max_bytes" in checks:
        assert is_right(schema, {"max_bytes": "64MiB", "overflow": "block"}) and not is_right(schema, {"overflow": "x"})


def test_a_key_of_a_queue_is_a_text_or_a_list_of_some() -> None:
    schema = schemas.settings(QUEUE)
    for right in ("header:a", ["/a", "/b"], [str(number) for number in range(8)], None):
        assert is_right(schema, {"partition_key": right, "partition_window": 2})
    for wrong in (5, [], [5], [str(number) for number in range(9)], {}):
        assert not is_right(schema, {"partition_key": wrong})
