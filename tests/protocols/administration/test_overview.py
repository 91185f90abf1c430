"""Requests for the overview: what is wrong is refused with what would be right."""

import json
from typing import Any

import pytest

from radiator.model.errors import Refusal
from radiator.model.limits import NAME_MAX_BYTES, QUEUE_TABLE_ROWS_MAX, TIME_MAX_MS
from radiator.model.overview import SORTS, ReadQueueTable
from radiator.protocols.administration import JSON


def read(**asked: Any) -> Any:
    return JSON.read(json.dumps(asked).encode())


@pytest.mark.parametrize("by", SORTS)
def test_each_sort_goes_up_and_down(by: str) -> None:
    up, down = read(do="queue-table", sort=by), read(do="queue-table", sort=f"-{by}")
    assert isinstance(up, ReadQueueTable) and (up.by, up.is_descending) == (by, False)
    assert (down.by, down.is_descending) == (by, True)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"do": "queue-table", "sort": "verdict"}, '`sort` must be one of name, ready, .* it is "verdict"'),
        ({"do": "queue-table", "sort": 7}, "`sort` must be one of name"),
        ({"do": "queue-table", "text": "ü" * 127 + "xx"}, f"at most {NAME_MAX_BYTES} bytes; it has 256"),
        ({"do": "queue-table", "text": None}, "`text` must be a part of the names"),
        ({"do": "queue-table", "filter": "needs-you"}, '`filter` must be needs, or left out; it is "needs-you"'),
        ({"do": "queue-table", "count": QUEUE_TABLE_ROWS_MAX + 1}, "`count` must be a whole number from 1 to 200"),
        ({"do": "queue-table", "first": -1}, "`first` must be a whole number from 0"),
        ({"do": "queue-table", "match": ""}, "`match` must be a pattern"),
        ({"do": "queue-table", "after": "a"}, 'has no key "after"'),
        ({"do": "history", "after_ms": TIME_MAX_MS + 1}, "`after_ms` must be a whole number from 0"),
        ({"do": "history", "after_ms": "now"}, "`after_ms` must be a whole number from 0"),
        ({"do": "history", "queue": ""}, "`queue` must be the name of a queue"),
        ({"do": "attention", "queue": "q"}, 'has no key "queue"'),
    ],
)
def test_what_is_wrong_is_refused(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence) as refused:
        read(**asked)
    assert refused.value.code == "bad-request"


def test_the_longest_text_is_taken() -> None:
    assert read(do="queue-table", text="ü" * 127 + "x").text == "ü" * 127 + "x"
