"""What may be declared: settings as JSON has them, to and fro; right, wrong, at the limits and one past them."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from radiator.model.errors import Refusal
from radiator.model.limits import MIB
from radiator.model.settings import MEMORY_BYTES_MAX, MEMORY_MESSAGES_MAX, LogSettings, QueueSettings
from radiator.model.validation import (
    EXCHANGE,
    QUEUE,
    as_json,
    binding_key,
    binding_mistake,
    check_dead_letter,
    cycle_from,
    exchange_name_mistake,
    exchange_settings,
    fanout_children,
    log_settings,
    queue_name,
    queue_settings,
    standard_type_mistake,
)

BASE = QueueSettings(max_messages=10, dead_letter="dead", message_ttl_ms=5)
EVERY: dict[str, Any] = {
    "persistent": True,
    "max_messages": 7,
    "max_bytes": 2 * MIB,
    "overflow": "drop-oldest",
    "dead_letter": None,
    "dead_letter_exchange": "x",
    "dead_letter_key": "k",
    "max_redeliveries": 0,
    "message_ttl_ms": 1,
    "ack_timeout_s": 0.5,
    "dedup_window_s": 3,
    "exclusive": True,
    "auto_delete": True,
    "expires_ms": 1000,
    "redelivery_delay_ms": 10,
    "redelivery_delay_factor": 1.5,
    "redelivery_delay_max_ms": 100,
    "scope": "node",
    "schema": '"int"',
    "partition_key": ["header:customer", "/customer/id"],
    "partition_window": 3,
    "max_priority": None,  # not with a partition_key
    "single_active_consumer": False,  # nor this
    "drop_after_redeliveries": None,  # not with dead letters
    "bounds_count": "ready",
}
EVERY_SETTING = QueueSettings(**EVERY | {"partition_key": ("header:customer", "/customer/id")})


def refused(given: dict[str, Any], base: QueueSettings | None = None) -> str:
    with pytest.raises(Refusal) as caught:
        queue_settings(given, base or QueueSettings())
    assert caught.value.code == "bad-request"
    assert str(caught.value)[-1] in ".?"
    return str(caught.value)


# ---- settings of a queue


def test_nothing_given_is_what_would_be_there_anyway() -> None:
    assert queue_settings({}, BASE) == BASE


def test_every_setting_may_be_given_and_comes_back_as_json() -> None:
    assert set(EVERY) == set(QUEUE)
    settings = queue_settings(EVERY, BASE)
    assert settings == EVERY_SETTING
    assert json.loads(json.dumps(as_json(settings))) == EVERY


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(),
        BASE,
        QueueSettings(persistent=False, max_messages=1, max_bytes=2),
        QueueSettings(partition_key=("/a",), partition_window=1000),
        QueueSettings(max_priority=10),
        EVERY_SETTING,
    ],
)
def test_what_is_said_as_json_is_the_same_whatever_the_base(settings: QueueSettings) -> None:
    for base in (QueueSettings(), BASE, EVERY_SETTING):
        assert queue_settings(as_json(settings), base) == settings


def test_null_takes_back_what_the_base_has() -> None:
    assert queue_settings({"max_messages": None, "dead_letter": None}, BASE) == QueueSettings(message_ttl_ms=5)


def test_a_queue_in_memory_has_bounds_whatever_is_given() -> None:
    bounded = QueueSettings(persistent=False, max_messages=MEMORY_MESSAGES_MAX, max_bytes=MEMORY_BYTES_MAX)
    assert queue_settings({"persistent": False}, QueueSettings()) == bounded
    assert queue_settings({"persistent": False, "max_messages": None}, BASE).max_messages == MEMORY_MESSAGES_MAX


def test_a_key_is_one_text_or_a_list_and_null_takes_it_back() -> None:
    assert queue_settings({"partition_key": "header:a"}, BASE).partition_key == ("header:a",)
    assert queue_settings({"partition_key": ["/b"]}, BASE).partition_key == ("/b",)
    keyed = QueueSettings(partition_key=("/b",))
    assert queue_settings({"partition_key": None}, keyed) == QueueSettings()
    assert queue_settings({"partition_window": 1}, BASE) == BASE, "the default, written"
    assert [as_json(one)["partition_key"] for one in (QueueSettings(), keyed)] == [None, "/b"]
    assert queue_settings({"persistent": False, "partition_key": "/b"}, BASE).partition_key == ("/b",)


def test_a_size_may_have_a_unit() -> None:
    assert queue_settings({"max_bytes": "2MiB"}, QueueSettings()).max_bytes == 2 * MIB


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_message": 1}, '"max_message" is not a setting of a queue; did you mean "max_messages"?'),
        ({"\n\x1b[31m": 1}, '"\\n\\u001b[31m" is not a setting of a queue; a queue has persistent, max_messages,'),
        ({"x" * 10_000: 1}, "... is not a setting"),
        ({"max_messages": -1}, "`max_messages` is -1; it must be a whole number from 0 to 1000000000000."),
        ({"max_messages": True}, "`max_messages` is true; it must be a whole number"),
        ({"persistent": None}, "`persistent` is null; it must be true or false."),
        ({"overflow": "drop"}, '`overflow` is "drop"; it must be one of'),
        ({"overflow": "x" * 60_000}, "..."),
        ({"dead_letter": "a.*"}, '`dead_letter` has "a.*", which is a pattern; name one queue.'),
        ({"dead_letter": "\ud800"}, "`dead_letter` has the name"),
        ({"dead_letter": "$durable/topic/a/b"}, "which the broker keeps for itself"),
        (
            {"dead_letter": "d", "dead_letter_exchange": "x"},
            '`dead_letter_exchange` is "x", but the queue has dead_letter = "d" too, and a dead letter goes one way; '
            "remove one of the two.",
        ),
        ({"dead_letter_key": "k"}, "`dead_letter_key` is given without dead_letter_exchange; give both."),
        (
            {"dead_letter_exchange": None, "dead_letter_key": "k"},
            '`dead_letter_key` is "k", but the queue has no dead_letter_exchange; give one.',
        ),
        ({"dead_letter_exchange": 7}, "`dead_letter_exchange` is 7; it must be the name of an exchange, as text."),
        ({"dead_letter_exchange": "a/b"}, '`dead_letter_exchange` has the name "a/b", which has a `/`'),
        ({"dead_letter_exchange": "/queue/a"}, "the address of something else; write NAME or /exchange/NAME."),
        ({"dead_letter_exchange": "x" * 256}, "`dead_letter_exchange` has the name"),
        ({"dead_letter_exchange": "x", "dead_letter_key": "k" * 256}, "`dead_letter_key` is"),
        ({"dead_letter_exchange": "", "dead_letter_key": ""}, "leads to the queue that the key names"),
        ({"dead_letter_exchange": "", "dead_letter_key": "a.*"}, "which is a pattern; name one queue"),
        ({"overflow": "dead-letter"}, '`overflow` is "dead-letter", but the queue has no dead_letter; name one.'),
        ({"persistent": False, "dedup_window_s": 1}, "only a persistent queue remembers dedup-ids"),
        ({"redelivery_delay_ms": 3_600_001}, "more than redelivery_delay_max_ms (3600000); raise that, or lower this."),
        ({"redelivery_delay_factor": 0.99}, "`redelivery_delay_factor` is 0.99; it must be a number from 1 to 1000."),
        ({"expires_ms": 0}, "`expires_ms` is 0; it must be a whole number from 1 to"),
        (
            {"partition_key": "customer"},
            '`partition_key` is "customer"; it must be "header:NAME", a JSON pointer such',
        ),
        (
            {"partition_key": []},
            "`partition_key` is an empty list; name what the keys are taken from, or leave it out.",
        ),
        ({"partition_key": ["/a", "/a"]}, '`partition_key` names "/a" twice; name it once.'),
        (
            {"partition_key": "/a", "partition_window": 0},
            "`partition_window` is 0; it must be a whole number from 1 to",
        ),
        ({"partition_key": "/a", "partition_window": 1001}, "it must be a whole number from 1 to 1000."),
        ({"partition_window": 2}, "`partition_window` is 2, but the queue has no partition_key, and only messages"),
        (
            {"scope": "cluster", "partition_key": "/a"},
            '`partition_key` is "/a", but the queue has scope = "cluster", and a key would have to be at one node at a '
            "time; remove one of the two.",
        ),
        ({"max_priority": 0}, "`max_priority` is 0; it must be a whole number from 1 to 10."),
        ({"max_priority": 11}, "`max_priority` is 11; it must be a whole number from 1 to 10."),
        ({"max_priority": True}, "`max_priority` is true; it must be a whole number from 1 to 10."),
        (
            {"max_priority": 5, "partition_key": "/a"},
            '`max_priority` is 5, but the queue has partition_key = "/a", and a key has one order; remove one of the '
            "two.",
        ),
        (
            {"max_priority": 5, "scope": "cluster"},
            '`max_priority` is 5, but the queue has scope = "cluster", and each node knows only its own messages; '
            "remove one of the two.",
        ),
        (
            {"single_active_consumer": True, "exclusive": True},
            "`single_active_consumer` is true, but the queue has exclusive = true, which refuses those that would "
            "stand by; remove one of the two.",
        ),
        (
            {"single_active_consumer": True, "partition_key": "/a"},
            '`single_active_consumer` is true, but the queue has partition_key = "/a", which gives each consumer keys '
            "of its own; remove one of the two.",
        ),
        (
            {"dead_letter": "d", "drop_after_redeliveries": 5},
            "`drop_after_redeliveries` is 5, but what comes back too often is a dead letter of this queue; give "
            "max_redeliveries.",
        ),
        ({"bounds_count": "unacked", "overflow": "reject"}, "`bounds_count`"),
        (
            {"bounds_count": "ready", "max_messages": 5},
            '`bounds_count` is "ready", but the queue has overflow = "block", and a SEND that waits for room waits '
            'until messages are acked; give overflow = "reject", "drop-oldest" or "dead-letter".',
        ),
        (
            {"max_messages": 0},
            "is 0, so every producer would wait for ever; say what becomes of messages, with overflow",
        ),
        ({"max_bytes": 0, "overflow": "block"}, "`max_bytes` is 0, so every producer would wait for ever"),
        ({"scope": "cluster", "single_active_consumer": True}, "the queue has single_active_consumer = true"),
        ({"scope": "cluster", "persistent": False}, "which one node cannot keep for all"),
        ({"scope": "cluster", "exclusive": True}, "the queue has exclusive = true"),
        ({"scope": "cluster", "auto_delete": True}, "the queue has auto_delete = true"),
        ({"scope": "cluster", "expires_ms": 1}, "the queue has expires_ms = 1"),
    ],
)
def test_a_mistake_is_one_sentence_of_bounded_length(given: dict[str, Any], expected: str) -> None:
    sentence = refused(given)
    assert expected in sentence
    assert len(sentence) < 550
    assert "\n" not in sentence and "\x1b" not in sentence


def test_what_is_given_must_go_with_what_the_base_has() -> None:
    assert "dedup" in refused({"persistent": False}, QueueSettings(dedup_window_s=1))
    assert "overflow" in refused({"dead_letter": None}, QueueSettings(overflow="dead-letter", dead_letter="d"))
    assert queue_settings({"overflow": "dead-letter"}, QueueSettings(dead_letter="d")).overflow == "dead-letter"


@pytest.mark.parametrize(
    "given",
    [
        {"dead_letter_exchange": "x"},
        {"dead_letter_exchange": "/exchange/x", "dead_letter_key": ""},
        {"dead_letter_exchange": ""},
        {"dead_letter_exchange": "x" * 255, "dead_letter_key": "k" * 255},
        {"dead_letter_exchange": "x", "overflow": "dead-letter", "max_redeliveries": 2},
    ],
)
def test_dead_letters_may_go_to_an_exchange(given: dict[str, Any]) -> None:
    settings = queue_settings(given, QueueSettings())
    assert settings.has_dead_letters and settings.dead_letter_exchange in ("x", "", "x" * 255)
    assert settings == queue_settings(as_json(settings), QueueSettings())


def test_what_an_older_store_has_of_a_queue_is_as_it_was() -> None:
    older = {key: value for key, value in as_json(QueueSettings(dead_letter="d")).items() if "letter_" not in key}
    assert queue_settings(older, QueueSettings()) == QueueSettings(dead_letter="d")


# ---- dead letters

THERE = {
    "memory": QueueSettings(persistent=False),
    "end": QueueSettings(),
    "chain": QueueSettings(dead_letter="end"),
    "to-new": QueueSettings(dead_letter="new"),
    "one": QueueSettings(dead_letter="other"),
    "other": QueueSettings(dead_letter="one"),
}


@pytest.mark.parametrize(
    "settings",
    [
        QueueSettings(),
        QueueSettings(dead_letter="end"),
        QueueSettings(dead_letter="chain"),
        QueueSettings(persistent=False, dead_letter="memory"),
        QueueSettings(persistent=False, dead_letter="end"),
    ],
)
def test_a_dead_letter_that_has_where_to_go_is_right(settings: QueueSettings) -> None:
    check_dead_letter("new", settings, THERE.get)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("new", '`dead_letter` leads to a cycle: "new" -> "new"; a message could go round for ever'),
        ("to-new", '`dead_letter` leads to a cycle: "new" -> "to-new" -> "new"'),
        ("one", '`dead_letter` leads to a cycle: "one" -> "other" -> "one"'),
        ("nowhere", '`dead_letter` names "nowhere", which is not a queue; declare it first.'),
        ("memory", '`dead_letter` is "memory", which is not persistent, while this queue is'),
    ],
)
def test_a_dead_letter_that_has_not_is_refused(target: str, sentence: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_dead_letter("new", QueueSettings(dead_letter=target), THERE.get)
    assert caught.value.code == "bad-request"
    assert sentence in str(caught.value)


def test_no_cycle_is_none() -> None:
    assert cycle_from("a", None, lambda name: None) == []
    assert cycle_from("a", "b", {"b": "c"}.get) == []


# ---- exchanges, bindings, fanouts


def test_an_exchange_is_direct_durable_and_stays_unless_it_is_said() -> None:
    settings = exchange_settings({})
    assert (settings.type, settings.durable, settings.auto_delete) == ("direct", True, False)
    settings = exchange_settings({"type": "topic", "durable": False, "auto_delete": True})
    assert (settings.type, settings.durable, settings.auto_delete) == ("topic", False, True)
    assert set(EXCHANGE) == {"type", "durable", "auto_delete", "alternate", "internal"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"type": "header"}, '`type` is "header"; it must be one of "direct", "topic", "fanout", "headers"'),
        ({"type": None}, "`type` is null"),
        ({"durable": 1}, "`durable` is 1; it must be true or false."),
        ({"auto_delete": "no"}, "`auto_delete` is"),
        ({"auto-delete": True}, '"auto-delete" is not a setting of an exchange; did you mean "auto_delete"?'),
    ],
)
def test_what_is_no_exchange_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal, match='^[`"]') as caught:
        exchange_settings(given)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("name", ["x", "a.b", "ä b", "x" * 255, "amq.topic"])
def test_a_name_of_an_exchange(name: str) -> None:
    assert exchange_name_mistake(name) == ""


@pytest.mark.parametrize("name", ["", "a/b", "a.*", "#", "x" * 256, "a\n"])
def test_no_name_of_an_exchange(name: str) -> None:
    assert exchange_name_mistake(name)


def test_those_that_are_always_there_have_their_type() -> None:
    assert standard_type_mistake("amq.topic", "topic") == standard_type_mistake("x", "fanout") == ""
    assert standard_type_mistake("amq.topic", "direct") == 'is "direct", but amq.topic is always of type "topic"'


@pytest.mark.parametrize("key", ["", "a", "a/b c.*", "x" * 255, "ä" * 127])
def test_a_key_of_a_binding(key: str) -> None:
    assert binding_key(key) == key


@pytest.mark.parametrize("key", [None, 1, "x" * 256, "ä" * 128, "a\n", "\x7f", "\ud800"])
def test_no_key_of_a_binding(key: object) -> None:
    with pytest.raises(ValueError, match="^is .*key"):
        binding_key(key)


def test_only_a_topic_exchange_counts_words_and_wildcards() -> None:
    for key, wrong in ((".".join("w" * 49), "49 words"), ("#.*.*.#", "4 wildcards")):
        assert binding_mistake("direct", key) == binding_mistake("fanout", key) == ""
        assert wrong in binding_mistake("topic", key)
    assert binding_mistake("topic", ".".join("w" * 45) + ".*.#.*") == binding_mistake("topic", "") == ""
    assert binding_mistake("topic", "*." * 45 + "a.#.*") == "" and "4 wildcards" in binding_mistake(
        "topic", "*.*.a.*.#.#"
    )


def test_a_fanout_has_children() -> None:
    assert fanout_children({"children": ["a", "b"]}) == ("a", "b")
    wrong: list[dict[str, Any]] = [
        {},
        {"children": []},
        {"children": "a"},
        {"children": ["a", "a"]},
        {"children": ["a.*"]},
        {"child": 1},
    ]
    for given in wrong:
        with pytest.raises(Refusal) as caught:
            fanout_children(given)
        assert caught.value.code == "bad-request"


def test_a_log_has_partitions_and_retention() -> None:
    assert log_settings({}) == LogSettings()
    given = {"partitions": 2, "partition_key": "/a", "retention_ms": None, "retention_bytes": "1MiB"}
    settings = log_settings(given)
    assert settings == LogSettings(partitions=2, partition_key="/a", retention_ms=None, retention_bytes=2**20)
    assert log_settings({"retention_ms": 0, "partition_key": None}, settings) == replace(settings, partition_key=None)
    assert log_settings(asdict(settings)) == settings


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"partitions": 0}, "`partitions` is 0; it must be a whole number from 1 to 1024."),
        ({"partitions": None}, "`partitions` is null; it must be"),
        ({"partition_key": "a"}, '`partition_key` is "a"; it must be a JSON pointer such as'),
        ({"partition_key": "/\ud800"}, '`partition_key` is "/\\ud800", which is not UTF-8; it must be a JSON pointer'),
        ({"retention_ms": -1}, "`retention_ms` is -1; it must be a whole number from 0 to 1000000000000."),
        ({"retention": 1}, '"retention" is not a setting of a log; did you mean "retention_'),
    ],
)
def test_what_is_no_log_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as caught:
        log_settings(given)
    assert caught.value.code == "bad-request" and str(caught.value).startswith(sentence)


def test_a_child_may_be_a_log() -> None:
    assert fanout_children({"children": ["/log/a", "a"]}) == ("/log/a", "a")
    for child in ("/log/journal", "/log/", "/log/$checkout/q/g", "/log/a.#"):
        with pytest.raises(Refusal, match="a log which"):
            fanout_children({"children": [child]})


def test_many_children_take_no_time() -> None:
    assert len(fanout_children({"children": [str(n) for n in range(20_000)]})) == 20_000


@pytest.mark.parametrize("name", ["", "a.*", "$outbox/b", "$durable/topic/a/b", 3, None, "x" * 256])
def test_no_name_of_a_queue(name: object) -> None:
    with pytest.raises(ValueError, match="^(is|has) "):
        queue_name(name)
