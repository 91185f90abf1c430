"""What Celery means by headers that are text, without a broker between."""

from typing import Any

import pytest

from radiator.client import Message as Received
from radiator.integrations.kombu.message import Message
from radiator.integrations.kombu.tasks import LIMIT_MAX_S, task_headers


def read(**headers: str) -> dict[str, Any]:
    """What becomes of these, beside its name and id."""
    found = task_headers({"task": "add", "id": "7", **headers}, "m1")
    assert (found.pop("task"), found.pop("id")) == ("add", "7")
    return found


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retries", "0", 0),
        ("retries", "12", 12),
        ("group_index", "3", 3),
        ("replaced_task_nesting", "1", 1),
        ("timelimit", "[null,null]", [None, None]),
        ("timelimit", "[60, 1.5]", [60, 1.5]),
        ("ignore_result", "true", True),
        ("ignore_result", "False", False),
        ("stamped_headers", '["a"]', ["a"]),
        ("stamps", '{"a":[1]}', {"a": [1]}),
        ("expires", "1795614751370", "2026-11-25T13:52:31.370000+00:00"),
        ("expires", "20991231", "20991231"),
        ("expires", "2099-12-31T00:00:00+00:00", "2099-12-31T00:00:00+00:00"),
        ("eta", "2099-12-31T00:00:00Z", "2099-12-31T00:00:00Z"),
        ("shadow", "0", "0"),
        ("colour", "", ""),
        ("colour", "1", "1"),
    ],
)
def test_what_celery_means(name: str, text: str, value: Any) -> None:
    assert read(**{name: text}) == {name: value}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, "") for name in ("eta", "expires", "retries", "timelimit", "group", "shadow", "root_id", "stamps")),
        *((name, "null") for name in ("timelimit", "stamped_headers", "stamps")),
        ("expires", "0"),
    ],
)
def test_none_is_left_out(name: str, text: str) -> None:
    assert read(**{name: text}) == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("retries", text) for text in ("many", "-1", "1.0", "\u0662", " 1", "1" * 10, "true")),
        *(("timelimit", text) for text in ("60", "[]", "[1]", "[1,2,3]", "[true,1]", "[-1,1]", "[NaN,1]", "no", "[1")),
        *(("timelimit", text) for text in (f"[{LIMIT_MAX_S + 1},1]", "[Infinity,1]", "[" * 100_000, "[" + "1" * 5000)),
        *(("ignore_result", text) for text in ("1", "yes", "null")),
        *(("stamped_headers", text) for text in ("{}", "[1]", "a")),
        *(("stamps", text) for text in ("[]", "1", "a")),
    ],
)
def test_what_cannot_be_read_is_an_error_of_the_message(name: str, text: str) -> None:
    headers = {"destination": "/queue/q", "message-id": "m1", "task": "add", "id": "7", name: text}
    message = Message(Received(headers, b"[[], {}, {}]"), None, 1, "tag")
    assert "as a task has it" in str(message.errors[0][1]) or "of a task" in str(message.errors[0][1])
    assert "task" not in message.headers
    with pytest.raises(ValueError):
        message._reraise_error()


@pytest.mark.parametrize("given", [{}, {"id": ""}])
def test_a_task_without_an_id_has_that_of_its_message(given: dict[str, str]) -> None:
    assert task_headers({"task": "add", **given}, "m1") == {"task": "add", "id": "m1"}


def test_what_is_no_task_comes_as_it_is() -> None:
    headers = {"retries": "many", "eta": "", "timelimit": "x"}
    assert task_headers(headers, "m1") == headers


@pytest.mark.parametrize(
    ("reply_to", "queue"), [("/queue/results", "results"), ("/temp-queue/mine", "/temp-queue/mine"), ("q", "q")]
)
def test_an_answer_goes_to_the_queue_that_a_program_of_amqp_has_named(reply_to: str, queue: str) -> None:
    headers = {"destination": "/queue/q", "message-id": "m1", "reply-to": reply_to}
    assert Message(Received(headers, b""), None, 1, "tag").properties["reply_to"] == queue
