"""Requests about connections, and about what is out: each is read, at its limits and one past them."""

import json
from typing import Any

import pytest

from radiator.model.administration import (
    AdminCommand,
    CloseConnection,
    DescribeConnection,
    ExtendUnacked,
    ListConnections,
    ListUnacked,
)
from radiator.model.errors import Refusal
from radiator.model.limits import ACK_TIMEOUT_MAX_S, EXTEND_MIN_S, SIZE_MAX, UNACKED_PAGE, UNACKED_PAGE_MAX
from radiator.model.unacked import OutPlace
from radiator.protocols.administration import JSON
from radiator.protocols.administration.connections import READERS

EXTEND = {"do": "extend-unacked", "queue": "q", "message_id": "s-1-2"}
EXAMPLES: list[tuple[dict[str, Any], AdminCommand]] = [
    ({"do": "connections"}, ListConnections()),
    ({"do": "connections", "user": "ann", "after": 0, "limit": 1}, ListConnections("ann", 0, 1)),
    ({"do": "connections", "after": SIZE_MAX, "limit": SIZE_MAX}, ListConnections(None, SIZE_MAX, SIZE_MAX)),
    ({"do": "connection", "number": 1}, DescribeConnection(1)),
    ({"do": "disconnect", "number": SIZE_MAX}, CloseConnection(SIZE_MAX)),
    ({"do": "unacked", "queue": "/queue/q"}, ListUnacked("q", None, UNACKED_PAGE)),
    (
        {"do": "unacked", "queue": "q", "after": "7-8", "limit": UNACKED_PAGE_MAX},
        ListUnacked("q", OutPlace(7, 8), UNACKED_PAGE_MAX),
    ),
    ({**EXTEND, "seconds": EXTEND_MIN_S}, ExtendUnacked("q", "s-1-2", EXTEND_MIN_S)),
    ({**EXTEND, "seconds": ACK_TIMEOUT_MAX_S}, ExtendUnacked("q", "s-1-2", ACK_TIMEOUT_MAX_S)),
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"do": "connections", "user": 7}, "`user` must be the name of a user; it is 7"),
    ({"do": "connections", "after": -1}, "`after` must be a whole number from 0"),
    ({"do": "connections", "after": SIZE_MAX + 1}, "`after` must be a whole number from 0"),
    ({"do": "connections", "after": "1"}, "`after` must be a whole number"),
    ({"do": "connections", "limit": 0}, "`limit` must be a whole number from 1"),
    ({"do": "connections", "match": "a"}, 'has no key "match"; its keys are user, after, limit'),
    ({"do": "connection"}, "`number` must be a whole number from 1"),
    ({"do": "connection", "number": 0}, "`number` must be a whole number from 1"),
    ({"do": "connection", "number": 1, "user": "a"}, 'has no key "user"'),
    ({"do": "disconnect", "number": SIZE_MAX + 1}, "`number` must be a whole number from 1"),
    ({"do": "disconnect", "number": True}, "`number` must be a whole number from 1"),
    ({"do": "disconnect", "number": 1.5}, "`number` must be a whole number from 1"),
    ({"do": "disconnect", "number": "\u202e1"}, "`number` must be a whole number from 1"),
    ({"do": "disconnect", "number": 1, "force": True}, 'has no key "force"'),
    ({"do": "unacked"}, "`queue` must be the name of a queue"),
    ({"do": "unacked", "queue": "q", "limit": 0}, f"`limit` must be a whole number from 1 to {UNACKED_PAGE_MAX}"),
    ({"do": "unacked", "queue": "q", "limit": UNACKED_PAGE_MAX + 1}, "`limit` must be a whole number from 1"),
    ({"do": "unacked", "queue": "q", "after": 7}, "`after` must be the `next` of the page before"),
    ({"do": "unacked", "queue": "q", "after": "s-1-2"}, "`after` must be the `next` of the page before; it is 's-1-2'"),
    ({"do": "unacked", "queue": "q", "match": "a"}, 'has no key "match"'),
    ({**EXTEND, "seconds": 0}, "`seconds` is 0; it must be a number of seconds from 0.001"),
    ({**EXTEND, "seconds": ACK_TIMEOUT_MAX_S + 1}, "it must be a number of seconds from"),
    ({**EXTEND, "seconds": "5"}, "it must be a number of seconds from"),
    (EXTEND, "`seconds` is"),
    ({**EXTEND, "seconds": 1, "message_id": 7}, "`message_id` must be a message-id"),
    ({**EXTEND, "seconds": 1, "message_id": "x\u202e"}, "`message_id` 'x\\u202e' is not a message-id"),
    ({**EXTEND, "seconds": 1, "id": "x"}, 'has no key "id"'),
]


def test_each_request_has_an_example() -> None:
    assert {asked["do"] for asked, _ in EXAMPLES} == READERS.keys() == {asked["do"] for asked, _ in WRONG}


@pytest.mark.parametrize(("asked", "command"), EXAMPLES)
def test_a_request_is_a_command(asked: dict[str, Any], command: AdminCommand) -> None:
    assert JSON.read(json.dumps(asked).encode()) == command


@pytest.mark.parametrize(("asked", "sentence"), WRONG)
def test_a_wrong_one_is_refused_with_what_would_be_right(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        JSON.read(json.dumps(asked).encode())
    assert refused.value.code == "bad-request" and sentence in str(refused.value)


@pytest.mark.parametrize("key", ["user", "after", "number", "message_id", "seconds"])
def test_a_long_value_is_not_repeated_at_length(key: str) -> None:
    whose = next(asked for asked, _ in EXAMPLES if key in asked)
    wrong = {**whose, "queue": "q"} if "queue" in whose else whose
    try:
        JSON.read(json.dumps({**wrong, key: "x" * 60_000}).encode())
    except Refusal as refusal:
        assert len(str(refusal)) < 400
    else:
        assert key == "user"


def test_not_a_number_is_no_time() -> None:
    for text in (b"NaN", b"Infinity", b"-Infinity"):
        with pytest.raises(Refusal) as refused:
            JSON.read(b'{"do":"extend-unacked","queue":"q","message_id":"s-1-2","seconds":%b}' % text)
        assert refused.value.code == "bad-request"
