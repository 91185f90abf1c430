"""Requests to /admin as JSON: which command each is, and what wrong ones are refused with."""

import json
from itertools import combinations
from typing import Any, get_args

import pytest

from radiator.model.administration import (
    AddBinding,
    AdminCommand,
    AwaitLog,
    AwaitLogs,
    CommitPrepared,
    DeclareExchange,
    DeclareFanout,
    DeclareLog,
    DeclareQueue,
    DeleteQueue,
    DrainNode,
    ForgetPosition,
    MoveMessages,
    PeekQueue,
    PurgeQueue,
    ReadPosition,
    ReadSection,
    ReadStats,
    RemoveBinding,
    SetPosition,
    SetPrefetch,
)
from radiator.model.errors import Refusal
from radiator.protocols.administration import JSON
from radiator.protocols.administration.requests import REQUESTS


def read(do: str, **asked: Any) -> AdminCommand:
    return JSON.read(json.dumps({"do": do, **asked}).encode())


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ({"do": "stats"}, ReadStats()),
        ({"do": "stats", "section": "logs", "limit": 2, "after": "a"}, ReadSection("logs", "a", 2)),
        ({"do": "peek", "queue": "q"}, PeekQueue("q", 10)),
        ({"do": "purge", "queue": "/queue/q"}, PurgeQueue("q")),
        ({"do": "declare", "queue": "q", "max_bytes": "1MiB"}, DeclareQueue("q", {"max_bytes": "1MiB"})),
        ({"do": "declare", "queue": "q", "passive": True}, DeclareQueue("q", {}, passive=True)),
        (
            {"do": "declare", "queue": "q", "dead_letter": "d", "create": False},
            DeclareQueue("q", {"dead_letter": "d"}, create=False),
        ),
        ({"do": "declare", "exchange": "x", "type": "topic"}, DeclareExchange("x", {"type": "topic"})),
        ({"do": "declare", "fanout": "f", "children": ["q"]}, DeclareFanout("f", {"children": ["q"]})),
        ({"do": "declare", "log": "l", "partitions": 2}, DeclareLog("l", {"partitions": 2})),
        ({"do": "bind", "exchange": "x", "queue": "/log/l"}, AddBinding("x", "", "/log/l")),
        ({"do": "unbind", "exchange": "x", "key": "k", "queue": "/queue/q"}, RemoveBinding("x", "k", "q")),
        ({"do": "delete", "queue": "q", "if_unused": False}, DeleteQueue("q", if_unused=False)),
        ({"do": "move", "from": "a", "to": "b", "count": 3}, MoveMessages("a", "b", 3)),
        ({"do": "await", "log": "l", "next": [1], "timeout_ms": 5}, AwaitLog("l", [1], 5)),
        ({"do": "await", "logs": ["a", "/log/b"], "next": [1, 2], "timeout_ms": 5}, AwaitLogs(("a", "b"), [1, 2], 5)),
        ({"do": "position", "log": "l", "group": "g"}, ReadPosition("l", "g")),
        ({"do": "position", "log": "l", "group": "g", "offsets": [7]}, SetPosition("l", "g", [7])),
        ({"do": "position", "log": "l", "group": "g", "forget": True}, ForgetPosition("l", "g")),
        ({"do": "prefetch", "count": 3}, SetPrefetch(None, 3)),
        ({"do": "prefetch", "subscription": "\ud800", "count": 3}, SetPrefetch(b"\xed\xa0\x80", 3)),
        (
            {"do": "commit", "prepared": ["a", "b"], "prefix": "p-", "app": "x", "version": 0},
            CommitPrepared(("p-a", "p-b"), "x", 0),
        ),
        ({"do": "drain", "stop": True}, DrainNode(stop=True)),
    ],
)
def test_a_request_is_this_command(asked: dict[str, Any], command: AdminCommand) -> None:
    assert JSON.read(json.dumps(asked).encode()) == command


WHOLE: dict[str, Any] = {
    "queue": "q", "exchange": "x", "fanout": "f", "log": "l", "logs": ["l"], "key": "k", "group": "g", "count": 1,
    "from": "a", "to": "b", "time_ms": 1, "timeout_ms": 1, "next": [0], "max_messages": 1, "before": 1, "app": "a",
    "version": 1, "prepared": ["p"], "prefix": "p", "id": "i", "peer": "n", "force": True,
}  # fmt: skip


def test_every_command_of_the_model_is_a_request() -> None:
    """Found by trying each request with each set of up to five of its keys that are right."""
    found: set[type] = set()
    more = {**WHOLE, "section": "queues", "offsets": [0], "forget": True}
    for do in REQUESTS:
        for size in range(5):
            for keys in combinations(more, size):
                try:
                    found.add(type(read(do, **{key: more[key] for key in keys})))
                except Refusal:
                    continue
    assert found == {*get_args(AdminCommand)}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"do": "nothing"}, "'nothing' is no request: `do` would be one of stats, queues, peek,"),
        ({"do": "queues", "limit": 0}, "`limit` must be a whole number from 1 to"),
        ({"do": "queues", "all": True}, "`queues` has no 'all' here; it has limit, after."),
        ({"do": "describe"}, "`describe` names one of queue, exchange, fanout, log; this has none."),
        ({"do": "describe", "queue": "q", "log": "l"}, "this has 'queue', 'log'."),
        ({"do": "purge", "queue": 7}, "`queue` must be the name of a queue; it is 7."),
        ({"do": "delete", "queue": "q", "if_empty": 1}, "`if_empty` must be true or false; it is 1."),
        ({"do": "await", "logs": ["l", "l"], "next": [], "timeout_ms": 0}, "`logs` must be 1 to 256 names, each once"),
        ({"do": "extend", "id": "i", "seconds": "1"}, '`seconds` is "1"; it must be a number of seconds'),
        ({"do": "version", "app": "\ud800"}, "`app` must be a name of 1 to"),
        ({"do": "peer-drop", "peer": "n"}, "A drop names a `peer` and says `force`: true"),
    ],
)
def test_a_wrong_request_is_refused_with_what_would_be_right(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        JSON.read(json.dumps(asked).encode())
    assert sentence in str(refused.value)
    assert refused.value.code == ("unknown-request" if asked["do"] == "nothing" else "bad-request")
