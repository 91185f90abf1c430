"""Requests to /admin as JSON: which command each is, and what wrong ones are refused with."""

import json
from typing import Any, get_args

import pytest

from radiator.model.administration import (
    AbortPrefix,
    AbortPrepared,
    AckCheckout,
    AddBinding,
    AdminCommand,
    AskRight,
    AwaitLog,
    AwaitLogs,
    AwaitQueue,
    CommitPrepared,
    DeclareDestination,
    DeleteDestination,
    DescribeDestination,
    DrainConsumer,
    DrainNode,
    DropCopies,
    ExplainCorrelation,
    ExplainLog,
    ExplainMessage,
    ExplainQueue,
    ExplainTrace,
    ExtendAckTimeout,
    FindOffsets,
    FindRoute,
    ForgetPosition,
    KeepCopies,
    ListConsumers,
    ListPeers,
    ListPrepared,
    ListQueues,
    MoveMessages,
    PeekQueue,
    PurgeQueue,
    ReadAppVersion,
    ReadBounds,
    ReadConfiguration,
    ReadDisk,
    ReadLogLines,
    ReadPosition,
    ReadReadiness,
    ReadScale,
    ReadSection,
    ReadStats,
    RegisterConsumer,
    ReleaseCheckout,
    ReleasePeer,
    ReloadConfiguration,
    RemoveBinding,
    ReturnMessages,
    SetPosition,
    SetPrefetch,
    TakeCheckout,
)
from radiator.model.errors import Refusal
from radiator.model.limits import (
    CONSUMER_NAME_MAX_BYTES,
    DRAIN_WAIT_MAX_MS,
    EXPLAINED_EVENTS_MAX,
    LOG_KEPT_LINES,
    NAME_MAX_BYTES,
    REGISTERED_MAX_MS,
    REGISTERED_MIN_MS,
    REGISTERED_MS,
    SIZE_MAX,
)
from radiator.model.overview import ReadAttention, ReadHistory, ReadQueueHistory, ReadQueueTable
from radiator.protocols.administration import JSON
from radiator.protocols.administration.requests import REQUESTS
from tests.protocols.administration.test_connections import EXAMPLES as OF_CONNECTIONS

EXAMPLES: list[tuple[dict[str, Any], AdminCommand]] = [
    ({"do": "stats"}, ReadStats()),
    ({"do": "stats", "section": "logs", "limit": 2, "after": "a"}, ReadSection("logs", "a", 2)),
    ({"do": "ready", "exclude": ["links", "disk"]}, ReadReadiness(("links", "disk"))),
    ({"do": "stats", "section": "logs", "match": "/log/a.*"}, ReadSection("logs", match="a.*")),
    ({"do": "stats", "section": "users", "match": "/log/a"}, ReadSection("users", match="/log/a")),
    ({"do": "queues", "match": "*.a.#"}, ListQueues(match="*.a.#")),
    ({"do": "queue-table"}, ReadQueueTable(None, "", "ready", True, 0, 50, False)),
    (
        {
            "do": "queue-table",
            "match": "a.#",
            "text": "t" * 255,
            "sort": "name",
            "first": 200,
            "count": 200,
            "filter": "needs",
        },
        ReadQueueTable("a.#", "t" * 255, "name", False, 200, 200, True),
    ),
    ({"do": "history"}, ReadHistory(0)),
    ({"do": "history", "after_ms": 10**15 - 1}, ReadHistory(10**15 - 1)),
    ({"do": "history", "queue": "/queue/q", "after_ms": 7}, ReadQueueHistory("q", 7)),
    ({"do": "attention"}, ReadAttention()),
    ({"do": "queues", "match": ".".join([*"*#*", *"a" * 13])}, ListQueues(match="*.#.*" + ".a" * 13)),
    ({"do": "configuration"}, ReadConfiguration()),
    ({"do": "bounds"}, ReadBounds()),
    ({"do": "disk"}, ReadDisk()),
    ({"do": "log"}, ReadLogLines(None, 100, "debug")),
    ({"do": "log", "after": 0, "limit": 1, "level": "error"}, ReadLogLines(0, 1, "error")),
    (
        {"do": "log", "after": SIZE_MAX, "limit": LOG_KEPT_LINES, "level": "info"},
        ReadLogLines(SIZE_MAX, LOG_KEPT_LINES, "info"),
    ),
    ({"do": "peek", "queue": "q"}, PeekQueue("q", 10)),
    ({"do": "peek", "queue": "q", "message": "a-1-2"}, PeekQueue("q", 1, "a-1-2", 0)),
    ({"do": "peek", "queue": "q", "message": "a-1-2", "from": SIZE_MAX}, PeekQueue("q", 1, "a-1-2", SIZE_MAX)),
    ({"do": "consumers", "queue": "q"}, ListConsumers("q")),
    (
        {"do": "consumers", "queue": "q", "after": "a", "limit": 5, "match": "pod.*"},
        ListConsumers("q", "a", 5, "pod.*"),
    ),
    (
        {"do": "consumer-register", "queue": "q", "name": "n" * CONSUMER_NAME_MAX_BYTES},
        RegisterConsumer("q", "n" * CONSUMER_NAME_MAX_BYTES, True, REGISTERED_MS),
    ),
    (
        {"do": "consumer-register", "queue": "/queue/q", "name": "p", "ready": False, "lease_ms": REGISTERED_MIN_MS},
        RegisterConsumer("q", "p", False, REGISTERED_MIN_MS),
    ),
    (
        {"do": "consumer-register", "queue": "q", "name": "p", "lease_ms": REGISTERED_MAX_MS},
        RegisterConsumer("q", "p", True, REGISTERED_MAX_MS),
    ),
    ({"do": "consumer-drain", "queue": "q", "name": "p"}, DrainConsumer("q", "p", 0)),
    (
        {"do": "consumer-drain", "queue": "q", "name": "p", "wait_ms": DRAIN_WAIT_MAX_MS},
        DrainConsumer("q", "p", DRAIN_WAIT_MAX_MS),
    ),
    ({"do": "scale", "queue": "q"}, ReadScale("q")),
    ({"do": "explain", "message": "4f.-1-2"}, ExplainMessage("4f.-1-2", -1, EXPLAINED_EVENTS_MAX)),
    ({"do": "explain", "message": "s-1-2", "after": 0, "limit": 1}, ExplainMessage("s-1-2", 0, 1)),
    (
        {"do": "explain", "trace": "A" * 32, "limit": EXPLAINED_EVENTS_MAX},
        ExplainTrace("a" * 32, -1, EXPLAINED_EVENTS_MAX),
    ),
    ({"do": "explain", "trace": f"00-{'1' * 32}-{'2' * 16}-01"}, ExplainTrace("1" * 32, -1, EXPLAINED_EVENTS_MAX)),
    ({"do": "explain", "correlation_id": "ä b"}, ExplainCorrelation("ä b", -1, EXPLAINED_EVENTS_MAX)),
    ({"do": "explain", "correlation_id": "x" * 255, "after": 7, "limit": 1}, ExplainCorrelation("x" * 255, 7, 1)),
    ({"do": "purge", "queue": "/queue/q"}, PurgeQueue("q")),
    ({"do": "declare", "queue": "q", "max_bytes": "1MiB"}, DeclareDestination("queue", "q", {"max_bytes": "1MiB"})),
    ({"do": "declare", "queue": "q", "passive": True}, DeclareDestination("queue", "q", {}, passive=True)),
    (
        {"do": "declare", "queue": "q", "dead_letter": "d", "create": False},
        DeclareDestination("queue", "q", {"dead_letter": "d"}, create=False),
    ),
    ({"do": "declare", "exchange": "x", "type": "topic"}, DeclareDestination("exchange", "x", {"type": "topic"})),
    ({"do": "declare", "fanout": "f", "children": ["q"]}, DeclareDestination("fanout", "f", {"children": ["q"]})),
    ({"do": "declare", "log": "l", "partitions": 2}, DeclareDestination("log", "l", {"partitions": 2})),
    ({"do": "bind", "exchange": "x", "queue": "/log/l"}, AddBinding("x", "", "/log/l")),
    ({"do": "unbind", "exchange": "x", "key": "k", "queue": "/queue/q"}, RemoveBinding("x", "k", "q")),
    ({"do": "delete", "queue": "q", "if_unused": False}, DeleteDestination("queue", "q", if_unused=False)),
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
]


@pytest.mark.parametrize(("asked", "command"), EXAMPLES)
def test_a_request_is_this_command(asked: dict[str, Any], command: AdminCommand) -> None:
    assert JSON.read(json.dumps(asked).encode()) == command


OTHERS: list[tuple[type, dict[str, Any]]] = [
    (ReadStats, {"do": "stats"}),
    (ReadSection, {"do": "stats", "section": "queues"}),
    (ListQueues, {"do": "queues"}),
    (ListPrepared, {"do": "prepared"}),
    (ListPeers, {"do": "peers"}),
    *((type(command), asked) for asked, command in OF_CONNECTIONS),
    (ReloadConfiguration, {"do": "reload"}),
    (DescribeDestination, {"do": "describe", "queue": "q"}),
    (ExtendAckTimeout, {"do": "extend", "id": "i"}),
    (AbortPrepared, {"do": "abort", "prepared": ["p"]}),
    (AbortPrefix, {"do": "abort", "prefix": "p"}),
    (ReadAppVersion, {"do": "version", "app": "a"}),
    (ExplainQueue, {"do": "why", "queue": "q"}),
    (ExplainLog, {"do": "why", "log": "l"}),
    (FindOffsets, {"do": "offsets", "log": "l", "time_ms": 1}),
    (AwaitQueue, {"do": "await", "queue": "q", "timeout_ms": 1}),
    (TakeCheckout, {"do": "checkout", "queue": "q", "group": "g", "max_messages": 1}),
    (AckCheckout, {"do": "checkout-ack", "queue": "q", "group": "g", "before": 1}),
    (ReleaseCheckout, {"do": "checkout-release", "queue": "q", "group": "g"}),
    (KeepCopies, {"do": "peer-keep", "peer": "n"}),
    (ReleasePeer, {"do": "peer-release", "peer": "n", "force": True}),
    (ReturnMessages, {"do": "return", "queue": "q"}),
    (FindRoute, {"do": "route", "exchange": "x"}),
    (AskRight, {"do": "may", "user": "u", "right": "admin"}),
    (DropCopies, {"do": "peer-drop", "peer": "n", "force": True}),
]
"""The least that is a request for each of the commands that EXAMPLES do not have."""


@pytest.mark.parametrize(("command", "asked"), OTHERS)
def test_the_least_that_is_asked_is_this_command(command: type, asked: dict[str, Any]) -> None:
    assert type(JSON.read(json.dumps(asked).encode())) is command


@pytest.mark.parametrize("asked", [asked for asked, _ in EXAMPLES] + [asked for _, asked in OTHERS])
def test_a_request_with_one_key_more_is_refused_with_its_name(asked: dict[str, Any]) -> None:
    body = json.dumps({**asked, "nobody_has_this": 1}).encode()
    if asked["do"] == "declare":
        read = JSON.read(body)  # settings of a kind: the core refuses those that it has not
        assert isinstance(read, DeclareDestination) and "nobody_has_this" in read.settings
    else:
        with pytest.raises(Refusal, match='has no key "nobody_has_this"'):
            JSON.read(body)


def test_every_command_of_the_model_is_a_request_and_every_request_one() -> None:
    assert {*(type(command) for _, command in EXAMPLES), *(command for command, _ in OTHERS)} == {
        *get_args(AdminCommand)
    }
    assert {asked["do"] for asked, _ in EXAMPLES} | {asked["do"] for _, asked in OTHERS} == set(REQUESTS)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {"do": "nothing"},
            '"nothing" is not a request: `do` must be one of stats, ready, queues, queue-table,',
        ),
        ({"do": "queues", "limit": 0}, "`limit` must be a whole number from 1 to"),
        ({"do": "queues", "all": True}, '`queues` has no key "all"; its keys are limit, after, match.'),
        ({"do": "queues", "match": 1}, "`match` must be a pattern of names, such as orders.*; it is 1."),
        ({"do": "queues", "match": ""}, "`match` must be a pattern of names with at most 16 words between dots"),
        ({"do": "queues", "match": "a." * 15 + "a.a"}, "at most 16 words between dots, of which at most 3 are * or #"),
        ({"do": "queues", "match": "*.*.*.*"}, 'of which at most 3 are * or #; it is "*.*.*.*".'),
        ({"do": "queues", "match": "x" * (NAME_MAX_BYTES + 1)}, "`match` must be a pattern of names"),
        ({"do": "queues", "match": "/log/a.*"}, "`match` is '/log/a.*', the address of something else"),
        ({"do": "stats", "match": "a"}, '`stats` has no key "match"'),
        ({"do": "describe"}, "`describe` names one of queue, exchange, fanout, log; this has none."),
        ({"do": "describe", "queue": "q", "log": "l"}, 'this has "queue", "log".'),
        ({"do": "purge", "queue": 7}, "`queue` must be the name of a queue; it is 7."),
        ({"do": "delete", "queue": "q", "if_empty": 1}, "`if_empty` must be true or false; it is 1."),
        ({"do": "await", "logs": ["l", "l"], "next": [], "timeout_ms": 0}, "`logs` must be 1 to 256 names, each once"),
        ({"do": "extend", "id": "i", "seconds": "1"}, '`seconds` is "1"; it must be a number of seconds'),
        ({"do": "version", "app": "\ud800"}, "`app` must be a name of 1 to"),
        ({"do": "version", "app": "\ud800"}, 'bytes; it is "\\ud800".'),
        ({"do": "drain", "stop": None}, "`stop` must be true or false; it is null."),
        ({"do": "purge", "queue": True}, "`queue` must be the name of a queue; it is true."),
        (
            {"do": "purge", "queue": {"name": "q"}},
            '"queue" is an object; in a request to /admin it must be a plain value',
        ),
        ({"do": "purge", "queue": [["q"]]}, '"queue" is a list with lists or objects in it; in a request to /admin it'),
        ({"do": "drain", "stop": "yes"}, '`stop` must be true or false; it is "yes".'),
        ({"do": "peers", "all": True}, '`peers` has no key "all"; it has no key besides `do`.'),
        (
            {"do": "peer-drop", "peer": "n"},
            "`force` must be true, because that node then misses what is sent",
        ),
        ({"do": "peer-release", "peer": "n", "force": 1}, "may then be processed twice; it is 1."),
        ({"do": "peer-drop", "peer": 3, "force": True}, "`peer` must be the name of a node; it is 3."),
        ({"do": "await", "logs": ["a", "/log/a"], "timeout_ms": 0}, 'names, each once; it has "a" more than once.'),
        ({"do": "await", "logs": [], "timeout_ms": 0}, "`logs` must be 1 to 256 names, each once; it has 0."),
        (
            {"do": "await", "logs": ["/queue/q"], "timeout_ms": 0},
            "`logs` is '/queue/q', the address of something else",
        ),
        ({"do": "await", "logs": [""], "timeout_ms": 0}, '`logs` must be the name of a log; it is "", which is empty;'),
        ({"do": "await", "logs": ["l"], "log": "l"}, '`await` names one of queue, log, logs; this has "log", "logs".'),
    ],
)
def test_a_wrong_request_is_refused_with_what_would_be_right(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        JSON.read(json.dumps(asked).encode())
    assert sentence in str(refused.value)
    assert refused.value.code == ("unknown-request" if asked["do"] == "nothing" else "bad-request")


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (b"", "not '', in which JSON ends at character 0: Expecting value."),
        (b'{"do" "stats"}', "in which JSON ends at character 6: Expecting ':' delimiter."),
        (b"stats\n", "not 'stats\\n', in which JSON ends at character 0: Expecting value."),
        (b"[]", "not '[]'."),
        (b"null", "not 'null'."),
        (b'{"do": "\xff"}', "which is not UTF-8."),
        (b'{"do": ' + b"7" * 5000 + b"}", "in which a number has too many digits."),
        (b"[" * 60_000, "which is nested too deeply."),
        (b"[" * 300 + b"]" * 300, "'..."),
        (b'{"do": ' + b"[" * 300 + b"]" * 300 + b"}", '"do" is a list with lists or objects in it'),
        (b'{"' + b"k" * 9000 + b'": {}}', "kkk... is an object;"),
    ],
)
def test_a_body_that_is_no_object_is_refused_with_the_body_and_why(body: bytes, end: str) -> None:
    with pytest.raises(Refusal) as refused:
        JSON.read(body)
    assert refused.value.code == "bad-request" and end in str(refused.value) and len(str(refused.value)) < 500


@pytest.mark.parametrize("do", ("bind", "unbind"))
def test_a_binding_is_no_longer_than_its_names_may_be(do: str) -> None:
    most = NAME_MAX_BYTES
    for right in ({"key": "k" * most, "queue": "q"}, {"queue": "/log/" + "l" * most}):
        JSON.read(json.dumps({"do": do, "exchange": "x", **right}).encode())
    for given, key in (
        ({"exchange": "x", "key": "k" * (most + 1), "queue": "q"}, "key"),
        ({"exchange": "x", "key": "\u00e9" * (most // 2 + 1), "queue": "q"}, "key"),
        ({"exchange": "x", "queue": "/log/" + "l" * (NAME_MAX_BYTES + 1)}, "queue"),
    ):
        with pytest.raises(Refusal, match=f"`{key}` has at most {NAME_MAX_BYTES} bytes; it has"):
            JSON.read(json.dumps({"do": do, **given}).encode())


@pytest.mark.parametrize(("asked", "sentence"), [
    ({}, "`explain` names one of message, trace, correlation_id; this has none"),
    ({"message": "s-1-1", "trace": "1" * 32}, "names one of message, trace, correlation_id; this has"),
    ({"message": "s-1-1", "correlation_id": "c"}, "names one of message, trace, correlation_id; this has"),
    ({"correlation_id": ""}, "`correlation_id` '' has 0 bytes; the journal keeps a correlation-id of 1 to 255 bytes"),
    ({"correlation_id": "x" * 256}, "has 256 bytes; the journal keeps"),
    ({"correlation_id": "\ud800"}, "is not a correlation-id: that is UTF-8, and this has bytes of something else"),
    ({"correlation_id": 7}, "`correlation_id` must be a correlation-id, as MESSAGE has it; it is 7"),
    ({"correlation_id": "c", "limit": 0}, "`limit` must be a whole number from 1 to 1000"),
    ({"message": "s-1"}, "`message` 's-1' is not a message-id; one looks like 4f0c2a91b7d3e865-3-17"),
    ({"message": "s-1-" + "9" * 21}, "is not a message-id"),
    ({"message": 7}, "`message` must be a message-id"),
    ({"trace": "0" * 32}, "is not a trace id"),
    ({"trace": "1" * 31}, "is not a trace id"),
    ({"trace": None}, "`trace` must be a trace id"),
    ({"message": "s-1-1", "limit": 0}, "`limit` must be a whole number from 1 to 1000"),
    ({"message": "s-1-1", "limit": EXPLAINED_EVENTS_MAX + 1}, "`limit` must be"),
    ({"message": "s-1-1", "after": -1}, "`after` must be a whole number from 0"),
    ({"message": "s-1-1", "after": SIZE_MAX + 1}, "`after` must be"),
])  # fmt: skip
def test_a_wrong_explain_is_refused_with_what_would_be_right(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        JSON.read(json.dumps({"do": "explain", **asked}).encode())
    assert refused.value.code == "bad-request" and sentence in str(refused.value)


@pytest.mark.parametrize("key", ["message", "trace"])
def test_what_is_no_id_is_not_repeated_at_length(key: str) -> None:
    with pytest.raises(Refusal) as refused:
        JSON.read(json.dumps({"do": "explain", key: "x" * 60_000}).encode())
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"do": "consumer-register"}, "`name` must be the name of a consumer"),
    ({"do": "consumer-register", "name": ""}, "has 0 bytes: the name of a consumer has 1 to 128"),
    ({"do": "consumer-register", "name": "n" * (CONSUMER_NAME_MAX_BYTES + 1)}, "has 129 bytes"),
    ({"do": "consumer-register", "name": "a\nb"}, "has the control character U+000A"),
    ({"do": "consumer-register", "name": "\ud800"}, "has the control character U+D800"),
    ({"do": "consumer-register", "name": "p", "ready": 1}, "`ready` must be true or false"),
    ({"do": "consumer-register", "name": "p", "lease_ms": REGISTERED_MIN_MS - 1}, "whole number from 1000 to 3600000"),
    ({"do": "consumer-register", "name": "p", "lease_ms": REGISTERED_MAX_MS + 1}, "`lease_ms` must be"),
    ({"do": "consumer-register", "name": "p", "lease_ms": 0}, "whole number from 1000 to 3600000"),
    ({"do": "consumer-drain", "name": "p", "wait_ms": DRAIN_WAIT_MAX_MS + 1}, "`wait_ms` must be"),
    ({"do": "consumer-drain", "name": "p", "force": True}, 'has no key "force"'),
    ({"do": "scale", "name": "p"}, 'has no key "name"'),
    ({"do": "consumers", "limit": 0}, "`limit` must be a whole number from 1"),
])  # fmt: skip
def test_a_wrong_request_about_consumers_is_refused_with_what_would_be_right(
    asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Refusal) as refused:
        JSON.read(json.dumps({"queue": "q", **asked}).encode())
    assert refused.value.code == "bad-request" and sentence in str(refused.value)
