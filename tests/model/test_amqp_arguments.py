"""AMQP's arguments of a queue, in a table. What each becomes: tests/protocols/amqp, tests/integrations/kombu."""

from dataclasses import fields
from typing import Any

import pytest

from radiator.model.amqp_arguments import LONGEST, SETTINGS, UNLIMITED, WITHOUT_EFFECT, flag, settle, text, whole
from radiator.model.amqp_tables import LetteredInt
from radiator.model.checks import Check
from radiator.model.settings import QueueSettings


def test_each_is_a_setting_that_queues_have_and_no_two_are_the_same_one() -> None:
    settings = [setting for setting, _ in SETTINGS.values()]
    assert set(settings) <= {field.name for field in fields(QueueSettings)} and len(set(settings)) == len(settings)
    assert not SETTINGS.keys() & WITHOUT_EFFECT.keys()
    assert all(name.startswith("x-") for name in [*SETTINGS, *WITHOUT_EFFECT])


@pytest.mark.parametrize(("check", "good", "wrong", "clause"), [
    (whole(1), LONGEST, LONGEST + 1, "is out of range: 1 to 2147483647"),
    (whole(1, 5), 1, 0, "is out of range: 1 to 5"),
    (whole(1), 2, True, "is not a whole number"),
    (whole(1), LetteredInt(2, "l"), LetteredInt(2, "T"), "is not a whole number"),
    (text, "", b"", "is not text"),
    (flag, False, 0, "is neither true nor false"),
    (WITHOUT_EFFECT["x-queue-type"], "quorum", "stream", "must be one of classic, quorum"),
    (SETTINGS["x-max-priority"][1], 10, 11, "is more than 10, the most priorities that a queue has here"),
    (SETTINGS["x-overflow"][1], "drop-head", "block", "must be one of drop-head, reject-publish"),
])  # fmt: skip
def test_a_check_says_what_is_wrong(check: Check, good: object, wrong: object, clause: str) -> None:
    check(good)
    with pytest.raises(ValueError) as raised:
        check(wrong)
    assert str(raised.value) == clause


@pytest.mark.parametrize(("name", "value", "wanted"), [
    ("x-overflow", "drop-head", "drop-oldest"), ("x-overflow", "reject-publish", "reject"),
    ("x-consumer-timeout", 1500, 1.5), ("x-max-length", 7, 7),
])  # fmt: skip
def test_a_check_gives_the_value_of_the_setting(name: str, value: object, wanted: object) -> None:
    assert SETTINGS[name][1](value) == wanted


@pytest.mark.parametrize(("arguments", "settings", "wanted"), [
    ({"x-delivery-limit": UNLIMITED}, {"max_redeliveries": UNLIMITED}, {}),
    ({"x-delivery-limit": 5}, {"max_redeliveries": 5}, {"drop_after_redeliveries": 5}),
    ({"x-delivery-limit": 5}, {"max_redeliveries": 5, "dead_letter": "d"}, {"max_redeliveries": 5, "dead_letter": "d"}),
    ({"x-delivery-limit": 5}, {"max_redeliveries": 5, "dead_letter_exchange": ""},
     {"max_redeliveries": 5, "dead_letter_exchange": ""}),
    ({"x-max-priority": 0}, {"max_priority": 0}, {}),
    ({"x-max-priority": 1}, {"max_priority": 1}, {"max_priority": 1}),
    # by the broker's own names: they are what they say
    ({}, {"max_redeliveries": UNLIMITED, "max_priority": 0}, {"max_redeliveries": UNLIMITED, "max_priority": 0}),
])  # fmt: skip
def test_some_mean_something_else_beside_others(
    arguments: dict[str, Any], settings: dict[str, Any], wanted: dict[str, Any]
) -> None:
    settle(settings, arguments)
    assert settings == wanted
