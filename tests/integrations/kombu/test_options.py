"""broker_transport_options: what is none of them is told."""

import logging
from collections.abc import Iterator

import pytest

from radiator.integrations.kombu import options
from radiator.integrations.kombu.failures import OperationRefused


@pytest.fixture(autouse=True)
def nothing_warned_of() -> Iterator[None]:
    options._warned_of.clear()
    yield
    options._warned_of.clear()


def test_own_options_are_read_and_kombus_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    given = {"confirm_publish": False, "answer_timeout_s": 5, "max_retries": 3, "interval_start": 0}
    assert options.read(given) == options.Options(False, False, 5) and options.read({}) == options.Options()
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("confirm_publishs", "there is no 'confirm_publishs'; did you mean"),
        ("xyzzy", "there is no 'xyzzy'."),
        ("visibility_timeout", "a task belongs to the connection of its worker"),
        ("priority_steps", "a queue with x-max-priority has them all"),
    ],
)
def test_any_other_is_told_once(name: str, sentence: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        options.read({name: 1})
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and sentence in record.getMessage()


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("confirm_publish", "no", "True or False"),
        ("persistent_replies", 1, "True or False"),
        ("answer_timeout_s", "90", "seconds above 0"),
        ("answer_timeout_s", True, "seconds above 0"),
        ("answer_timeout_s", 0, "seconds above 0"),
        ("answer_timeout_s", float("nan"), "seconds above 0"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: object, wanted: str) -> None:
    with pytest.raises(OperationRefused, match=f"{name}' cannot be {value!r}: .*{wanted}"):
        options.read({name: value})
