"""The requests `route`, `may` and `return`: JSON to commands."""

import json
from typing import Any

import pytest

from radiator.model.administration import AskRight, FindRoute, ReturnMessages
from radiator.model.errors import Refusal
from radiator.protocols.administration.requests import read


@pytest.mark.parametrize(
    "given, command",
    [
        ({"do": "route", "exchange": "x", "key": "a.b"}, FindRoute("x", "a.b")),
        ({"do": "route", "exchange": "/exchange/x"}, FindRoute("x", "")),
        ({"do": "route", "exchange": "x", "key": "k" * 255}, FindRoute("x", "k" * 255)),
        (
            {"do": "may", "user": "ann", "right": "write", "destination": "/queue/q"},
            AskRight("ann", "write", "/queue/q"),
        ),
        ({"do": "may", "user": "ann", "right": "admin"}, AskRight("ann", "admin", "/#")),
        ({"do": "may", "user": "ann", "right": "see", "destination": "/#"}, AskRight("ann", "see", "/#")),
        (
            {"do": "may", "user": "ann", "right": "write", "destination": "/app/a"},
            AskRight("ann", "write", "/app/a"),
        ),
        ({"do": "return", "queue": "/queue/q"}, ReturnMessages("q")),
        ({"do": "return", "queue": "q", "count": 1}, ReturnMessages("q", None, 1)),
        ({"do": "return", "queue": "q", "message_ids": ["s-1-2"]}, ReturnMessages("q", ("s-1-2",))),
        (
            {"do": "return", "queue": "q", "message_ids": [f"s-1-{n}" for n in range(100)]},
            ReturnMessages("q", tuple(f"s-1-{n}" for n in range(100))),
        ),
    ],
)
def test_each_is_read(given: dict[str, Any], command: object) -> None:
    assert read(json.dumps(given).encode()) == command


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"do": "route"}, "`exchange` must be the name of an exchange"),
        ({"do": "route", "exchange": "x", "key": 1}, "`key` must be a routing key; it is 1"),
        ({"do": "route", "exchange": "x", "key": "k" * 256}, "a routing key of more than 255 bytes"),
        ({"do": "route", "exchange": "x", "key": "a\nb"}, "control character"),
        ({"do": "route", "exchange": "x", "key": "\ud800"}, "surrogate"),
        ({"do": "may", "user": "a/b", "right": "see", "destination": "/#"}, "is not 1 to 64"),
        ({"do": "may", "user": "ann", "right": "own", "destination": "/#"}, "must be one of read, write, declare"),
        ({"do": "may", "user": "ann", "right": "see"}, "`destination` must be an address"),
        ({"do": "may", "user": "ann", "right": "see", "destination": "orders"}, "begins with no `/`"),
        ({"do": "may", "user": "ann", "right": "admin", "destination": "/queue/q"}, "leave it out"),
        ({"do": "may", "user": "ann", "right": "see", "destination": "/app/a"}, "take `write`, not `see`"),
        ({"do": "return", "queue": "q", "message_ids": []}, "must be 1 to 100"),
        ({"do": "return", "queue": "q", "message_ids": [f"s-1-{n}" for n in range(101)]}, "it has 101"),
        ({"do": "return", "queue": "q", "message_ids": [7]}, "must be a list of message-ids"),
        ({"do": "return", "queue": "q", "message_ids": ["s-1-1", "s-1-1"]}, '"s-1-1" more than once'),
        ({"do": "return", "queue": "q", "message_ids": ["s-1-1"], "count": 2}, "this has both"),
        ({"do": "return", "queue": "q", "count": 0}, "must be a whole number from 1"),
        ({"do": "return", "queue": "q", "to": "r"}, "`return` has no"),
    ],
)
def test_a_wrong_one_is_refused_with_what_would_be_right(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        read(json.dumps(given).encode())
    assert refused.value.code == "bad-request" and sentence in str(refused.value), str(refused.value)
