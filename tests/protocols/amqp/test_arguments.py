"""Arguments of declares as settings: each at its value, one past it, of another type, and one that nobody knows."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from radiator.model.amqp_tables import LetteredInt, RawString
from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST, EXCHANGE_TYPES, REJECT, QueueSettings
from radiator.model.validation import queue_settings as validated_settings
from radiator.protocols.amqp.arguments import consumer_settings, exchange_settings, queue_settings, settings_if_new
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.spec import NOT_IMPLEMENTED
from radiator.protocols.amqp.spec import PRECONDITION_FAILED as WRONG

PLAIN = {"persistent": True, "auto_delete": False}
LONGEST = 2**31 - 1
TEN_YEARS_MS = 315_360_000_000
# what RabbitMQ 3.10 to 4.1, its plug-ins and LavinMQ know, with a value, and the code of a refusal; None: it is taken
QUEUE_ARGUMENTS: dict[str, tuple[object, int | None]] = {
    "x-message-ttl": (0, None),
    "x-expires": (1, None),
    "x-max-length": (0, None),
    "x-max-length-bytes": (0, None),
    "x-overflow": ("reject-publish", None),
    "x-dead-letter-exchange": ("", None),
    "x-dead-letter-routing-key": ("k", WRONG),  # alone
    "x-dead-letter-strategy": ("at-least-once", None),
    "x-delivery-limit": (20, None),
    "x-max-priority": (10, None),
    "x-consumer-timeout": (100, None),
    "x-queue-type": ("quorum", None),
    "x-single-active-consumer": (True, None),
    "x-queue-mode": ("lazy", None),
    "x-queue-version": (2, None),
    "x-queue-master-locator": ("min-masters", None),
    "x-queue-leader-locator": ("balanced", None),
    "x-quorum-initial-group-size": (3, None),
    "x-quorum-target-group-size": (3, None),
    "x-max-in-memory-length": (0, None),
    "x-max-in-memory-bytes": (0, None),
    "x-ha-policy": ("all", None),
    "x-max-age": ("1h", NOT_IMPLEMENTED),
    "x-stream-max-segment-size-bytes": (1000, NOT_IMPLEMENTED),
    "x-stream-filter-size-bytes": (16, NOT_IMPLEMENTED),
    "x-initial-cluster-size": (3, NOT_IMPLEMENTED),
    "x-message-deduplication": (True, NOT_IMPLEMENTED),
    "x-cache-size": (1, NOT_IMPLEMENTED),
}
CONSUMER_ARGUMENTS: dict[str, tuple[object, int | None]] = {
    "x-priority": (1, None),
    "x-cancel-on-ha-failover": (True, None),
    "x-stream-offset": ("first", NOT_IMPLEMENTED),
    "x-stream-filter": ("a", NOT_IMPLEMENTED),
    "x-stream-match-unfiltered": (True, NOT_IMPLEMENTED),
}
NUMBERS = (
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-delivery-limit", "x-max-priority",
    "x-consumer-timeout", "x-queue-version", "x-quorum-initial-group-size", "x-quorum-target-group-size",
    "x-max-in-memory-length", "x-max-in-memory-bytes",
)  # fmt: skip
PAGE = (Path(__file__).parents[3] / "docs" / "AMQP.md").read_text()


def settings(**arguments: Any) -> dict[str, Any]:
    """What they add, with `_` for `-`."""
    found = queue_settings({name.replace("_", "-"): value for name, value in arguments.items()}, True, False)
    assert found.items() >= PLAIN.items()
    return {name: value for name, value in found.items() if name not in PLAIN}


def validated(given: dict[str, Any]) -> bool:
    """Whether the administration takes what the arguments have become."""
    return isinstance(validated_settings(given, QueueSettings()), QueueSettings)


def rows(heading: str) -> dict[str, str]:
    """The rows of a table of the page, each by every argument that its first column names."""
    table = PAGE.split(f"### {heading}\n")[1].split("\n###")[0]
    found = {}
    for row in table.splitlines():
        for name in re.findall(r"`(x-[a-z-]+)`", row.split(" | ")[0]) if row.startswith("| ") else ():
            found[name] = row
    return found


def code_of(call: Any, *arguments: Any) -> int:
    with pytest.raises(BrokenAmqp) as broken:
        call(*arguments)
    return broken.value.code


@pytest.mark.parametrize(("is_persistent", "auto_delete"), [(True, False), (False, True)])
def test_durable_and_auto_delete_are_settings(is_persistent: bool, auto_delete: bool) -> None:
    assert queue_settings({}, is_persistent, auto_delete) == {"persistent": is_persistent, "auto_delete": auto_delete}


@pytest.mark.parametrize(("argument", "setting", "least", "most"), [
    ("x-message-ttl", "message_ttl_ms", 0, TEN_YEARS_MS),
    ("x-expires", "expires_ms", 1, TEN_YEARS_MS),
    ("x-max-length", "max_messages", 0, 10**12),
    ("x-max-length-bytes", "max_bytes", 0, 64 * 2**40),
])  # fmt: skip
def test_a_number_becomes_a_setting_within_its_bounds(argument: str, setting: str, least: int, most: int) -> None:
    for value in (least, most):
        assert queue_settings({argument: value}, True, False)[setting] == value
        assert validated({setting: value, "overflow": "reject"})
    for wrong in (least - 1, most + 1, True, "1", 1.0, None, [1], {"a": 1}):
        assert code_of(queue_settings, {argument: wrong}, True, False) == WRONG


def test_after_the_delivery_limit_a_message_is_a_dead_letter_or_dropped() -> None:
    letters = {"dead_letter_exchange": "dlx"}
    assert settings(x_delivery_limit=0, x_dead_letter_exchange="dlx") == {"max_redeliveries": 0, **letters}
    assert settings(x_delivery_limit=5) == {"drop_after_redeliveries": 5}
    assert settings(x_delivery_limit=0) == {"drop_after_redeliveries": 0}
    assert settings(x_delivery_limit=-1) == {}, "there is no limit"
    assert code_of(queue_settings, {"x-delivery-limit": -2, "x-dead-letter-exchange": ""}, True, False) == WRONG


def test_dead_letters_go_by_an_exchange_with_a_key_or_with_their_own() -> None:
    assert settings(x_dead_letter_exchange="") == {"dead_letter_exchange": ""}
    both = settings(x_dead_letter_exchange="dlx", x_dead_letter_routing_key="k")
    assert both == {"dead_letter_exchange": "dlx", "dead_letter_key": "k"}
    assert code_of(queue_settings, {"x-dead-letter-routing-key": "k"}, True, False) == WRONG
    assert code_of(queue_settings, {"x-dead-letter-exchange": 1}, True, False) == WRONG


def test_priorities_are_ten_at_most_and_none_where_there_is_one() -> None:
    assert settings(x_max_priority=10) == {"max_priority": 10} and settings(x_max_priority=0) == {}
    assert code_of(queue_settings, {"x-max-priority": 11}, True, False) == WRONG


def test_a_queue_may_have_a_single_active_consumer() -> None:
    for value in (True, False):
        assert settings(x_single_active_consumer=value) == {"single_active_consumer": value}
    assert code_of(queue_settings, {"x-single-active-consumer": 1}, True, False) == WRONG


def test_a_consumer_timeout_is_in_seconds() -> None:
    assert settings(x_consumer_timeout=1500) == {"ack_timeout_s": 1.5}
    assert code_of(queue_settings, {"x-consumer-timeout": 0}, True, False) == WRONG


def test_a_bound_is_for_what_is_ready_in_a_queue_that_is_made_now() -> None:
    for bound in ("x_max_length", "x_max_length_bytes"):
        given = settings(**{bound: 5})
        assert "bounds_count" not in given and settings_if_new(given) == {"bounds_count": "ready"}
    assert settings_if_new(settings(x_expires=5)) == {}


def test_a_queue_with_dead_letters_has_no_delivery_limit_that_it_was_not_given() -> None:
    unlimited = {"max_redeliveries": -1}
    assert settings_if_new(settings(x_dead_letter_exchange="dlx")) == unlimited
    assert settings_if_new(settings(x_dead_letter_exchange="dlx", x_delivery_limit=-1)) == unlimited
    assert settings_if_new(settings(x_dead_letter_exchange="dlx", x_delivery_limit=5)) == {}
    assert settings_if_new(settings(x_delivery_limit=5)) == {}


@pytest.mark.parametrize(("word", "overflow"), [
    ("drop-head", DROP_OLDEST), ("reject-publish", REJECT),
])  # fmt: skip
def test_a_full_queue_does_what_it_was_told_and_drops_its_oldest_where_nothing_was(word: str, overflow: str) -> None:
    assert settings(x_max_length=5, x_overflow=word) == {"max_messages": 5, "overflow": overflow}
    assert settings(x_max_length_bytes=5)["overflow"] == DROP_OLDEST
    assert settings(x_overflow=word) == {}, "nothing overflows without a bound"
    assert BLOCK not in (DROP_OLDEST, REJECT, DEAD_LETTER)
    letters = settings(x_max_length=5, x_overflow=word, x_dead_letter_exchange="dlx")
    assert letters["overflow"] == (REJECT if overflow == REJECT else DEAD_LETTER), "what is pushed out goes there"
    assert settings(x_max_length=5, x_dead_letter_exchange="dlx")["overflow"] == DEAD_LETTER
    assert code_of(queue_settings, {"x-overflow": "reject-publish-dlx"}, True, False) == NOT_IMPLEMENTED
    assert code_of(queue_settings, {"x-overflow": "block"}, True, False) == WRONG


@pytest.mark.parametrize(("argument", "good", "wrong"), [
    ("x-queue-type", "classic", "log"),
    ("x-queue-type", "quorum", 1),
    ("x-queue-mode", "lazy", "eager"),
    ("x-queue-mode", "default", None),
    ("x-queue-version", 2, 0),
    ("x-queue-master-locator", "min-masters", 1),
    ("x-queue-leader-locator", "balanced", 1),
    ("x-quorum-initial-group-size", 3, 0),
    ("x-max-in-memory-length", 0, -1),
    ("x-max-in-memory-bytes", 0, -1),
    ("x-dead-letter-strategy", "at-least-once", "never"),
    ("x-dead-letter-strategy", "at-most-once", True),
])  # fmt: skip
def test_what_has_no_effect_is_checked_all_the_same(argument: str, good: object, wrong: object) -> None:
    assert queue_settings({argument: good}, True, False) == PLAIN
    assert code_of(queue_settings, {argument: wrong}, True, False) == WRONG


def test_what_is_not_known_is_refused_and_the_applications_own_notes_are_not() -> None:
    assert code_of(queue_settings, {"x-queue-type": "stream"}, True, False) == NOT_IMPLEMENTED
    assert code_of(queue_settings, {"x-what": 1}, True, False) == NOT_IMPLEMENTED
    assert settings(owner="shop") == {}


@pytest.mark.parametrize("kind", EXCHANGE_TYPES)
def test_an_exchange_has_its_type(kind: str) -> None:
    wanted = {"type": kind, "durable": True, "auto_delete": False, "internal": False}
    assert exchange_settings(kind, True, False, False, {"note": 1}) == wanted
    led = exchange_settings(kind, True, False, True, {"alternate-exchange": "x"})
    assert led == {**wanted, "internal": True, "alternate": "x"}
    for name in ("alternate-exchange", "x-alternate-exchange"):
        assert exchange_settings(kind, True, False, False, {name: ""}) == {**wanted, "alternate": None}


@pytest.mark.parametrize(("arguments", "code"), [
    (("x-delayed-message", True, False, False, {}), WRONG),
    (("", True, False, False, {}), WRONG),
    (("Direct", True, False, False, {}), WRONG),
    (("direct", True, False, False, {"alternate-exchange": 1}), WRONG),
    (("direct", True, False, False, {"x-what": "x"}), NOT_IMPLEMENTED),
])  # fmt: skip
def test_what_no_exchange_can_be_is_refused(arguments: tuple[Any, ...], code: int) -> None:
    assert code_of(exchange_settings, *arguments) == code


def test_a_consumer_has_a_priority() -> None:
    assert consumer_settings({}) == consumer_settings({"note": 1}) == 0
    assert consumer_settings({"x-priority": 5, "x-cancel-on-ha-failover": True}) == 5
    assert consumer_settings({"x-priority": -LONGEST - 1}) == -LONGEST - 1
    assert code_of(consumer_settings, {"x-priority": -LONGEST - 2}) == WRONG
    assert code_of(consumer_settings, {"x-priority": "5"}) == WRONG
    assert code_of(consumer_settings, {"x-priority": LONGEST + 1}) == WRONG
    assert code_of(consumer_settings, {"x-cancel-on-ha-failover": 1}) == WRONG
    assert code_of(consumer_settings, {"x-stream-offset": "first"}) == NOT_IMPLEMENTED
    assert code_of(consumer_settings, {"x-what": 1}) == NOT_IMPLEMENTED


@pytest.mark.parametrize("argument", QUEUE_ARGUMENTS)
def test_each_argument_of_a_queue_that_others_know_is_meant_or_refused_and_has_a_row(argument: str) -> None:
    value, code = QUEUE_ARGUMENTS[argument]
    row = rows("Arguments of queues")[argument]
    if code is None:
        given = queue_settings({argument: value}, True, False)
        assert validated({"overflow": "reject", **given} if "max" in argument else given)
        return
    assert code_of(queue_settings, {argument: value}, True, False) == code
    assert ("540" if code == NOT_IMPLEMENTED else "406") in row


@pytest.mark.parametrize("argument", CONSUMER_ARGUMENTS)
def test_each_argument_of_a_consumer_that_others_know_is_meant_or_refused_and_has_a_row(argument: str) -> None:
    value, code = CONSUMER_ARGUMENTS[argument]
    row = rows("Arguments of exchanges, bindings and consumers")[argument]
    if code is None:
        consumer_settings({argument: value})
        return
    assert code_of(consumer_settings, {argument: value}) == code and "540" in row


def test_the_page_has_no_row_of_an_argument_that_nobody_tries() -> None:
    assert rows("Arguments of queues").keys() - {"x-"} <= QUEUE_ARGUMENTS.keys()
    of_exchanges = {"x-delayed-message", "x-consistent-hash", "x-alternate-exchange"}
    rest = rows("Arguments of exchanges, bindings and consumers").keys() - of_exchanges
    assert rest <= CONSUMER_ARGUMENTS.keys()


def test_what_is_of_streams_says_so() -> None:
    with pytest.raises(BrokenAmqp, match="x-max-age is of streams, and streams are not spoken over AMQP"):
        queue_settings({"x-max-age": "1h"}, True, False)


@pytest.mark.parametrize(("call", "name", "wrong"), [
    *((lambda given: queue_settings(given, True, False), name, "is not a whole number") for name in NUMBERS),
    (lambda given: queue_settings(given, True, False), "x-overflow", "must be one of drop-head, reject-publish"),
    (lambda given: queue_settings(given, True, False), "x-dead-letter-exchange", "is not text"),
    (lambda given: queue_settings(given, True, False), "x-single-active-consumer", "is neither true nor false"),
    (lambda given: exchange_settings("direct", True, False, False, given), "alternate-exchange", "is not text"),
    (consumer_settings, "x-priority", "is not a whole number"),
    (consumer_settings, "x-cancel-on-ha-failover", "is neither true nor false"),
])  # fmt: skip
@pytest.mark.parametrize(("value", "text"), [
    (b"drop-head", '"drop-head" (a byte array)'),
    (b"\xff\xfe", '"0xfffe" (a byte array)'),
    (RawString(b"\xff"), '"0xff" (a text that is not UTF-8)'),
    (LetteredInt(5, "T"), "5 (a timestamp)"),
    (Decimal("5"), "5.0 (a decimal)"),
    (1.0, "1.0"),
    (None, "null"),
    ({"a": b"x", "b": True}, '{"a": "x", "b": true}'),
    ([None, Decimal("0.5")], "[null, 0.5]"),
])  # fmt: skip
def test_a_value_of_another_type_is_told_as_a_person_reads_it(
    call: Any, name: str, wrong: str, value: object, text: str
) -> None:
    with pytest.raises(BrokenAmqp) as broken:
        call({name: value})
    assert broken.value.code == WRONG and str(broken.value) == f'invalid arg "{name}": {text} {wrong}'
