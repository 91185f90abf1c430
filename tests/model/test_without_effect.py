"""Settings that are valid, and have no effect beside the others."""

from typing import Any

import pytest

from radiator.model.limits import GIB
from radiator.model.settings import LogSettings, QueueSettings
from radiator.model.without_effect import log_without_effect, without_effect


@pytest.mark.parametrize(
    "given, key, sentence",
    [
        ({"overflow": "reject"}, "overflow", 'is "reject", but the queue has no bound; give max_messages or max_bytes'),
        (
            {"max_redeliveries": 3},
            "max_redeliveries",
            "is 3, but without dead_letter a message comes back",
        ),
        ({"redelivery_delay_factor": 3}, "redelivery_delay_factor", "is 3, but redelivery_delay_ms is 0; set that"),
        ({"max_bytes": 2 * GIB}, "max_bytes", "is 2GiB, more than the store holds (1GiB), so that is the bound"),
        (
            {"max_bytes": 2 * GIB, "persistent": False},
            "max_bytes",
            "is 2GiB, more than max_memory_bytes holds (1GiB), so that is the bound",
        ),
    ],
)
def test_each_is_told_with_what_would_give_it_one(given: dict[str, Any], key: str, sentence: str) -> None:
    ((found, wrong),) = without_effect(QueueSettings(**given), GIB, GIB)
    assert found == key and wrong.startswith(sentence)


def test_a_bound_that_is_none_counts_nothing() -> None:
    found = dict(without_effect(QueueSettings(overflow="reject", bounds_count="ready"), GIB, GIB))
    assert found["bounds_count"] == 'is "ready", but the queue has no bound; give max_messages or max_bytes'
    assert without_effect(QueueSettings(overflow="reject", bounds_count="ready", max_bytes=1), GIB, GIB) == []


def test_what_has_its_default_is_not_told() -> None:
    assert without_effect(QueueSettings(), 0, 0) == [] and log_without_effect(LogSettings(), 0) == []


@pytest.mark.parametrize(
    "given, key", [({"partition_key": "/a"}, "partition_key"), ({"retention_bytes": 2 * GIB}, "retention_bytes")]
)
def test_the_same_of_a_log(given: dict[str, Any], key: str) -> None:
    ((found, _),) = log_without_effect(LogSettings(**given), GIB)
    assert found == key
