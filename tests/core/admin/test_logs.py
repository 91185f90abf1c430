"""/admin of logs: declare, describe, delete, offsets, await and position, as docs/ADMINISTRATION.md has them."""

import json
from typing import Any

import pytest

from radiator.model.commands import CLIENT_INDIVIDUAL, Send, Tick
from radiator.model.limits import AWAIT_MAX_MS, AWAITED_LOGS_MAX, AWAITS_MAX, GIB, PARTITIONS_MAX, Limits
from radiator.model.replies import Deliver
from radiator.model.settings import JOURNAL, Declarations, LogSettings, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, send, subscribe

DECLARED = Declarations(queues={"q": QueueSettings()}, logs={"l": LogSettings(), "three": LogSettings(partitions=3)})
START_MS = 1_700_000_000_000


def node_of(declarations: Declarations = DECLARED, **more: Any) -> Node:
    node = Node(declarations, **more)
    node.open(1, 2, 9)
    return node


def code(node: Node, **request: Any) -> str:
    """Of a request that is refused: nothing is written, and the connection stays."""
    before = node.disk.platter.copy()
    answer = node.admin(9, **request)
    assert answer["ok"] is False and answer["error"].endswith((".", "?")), answer
    there = node.disk.platter
    assert (there.logs, there.positions, there.segments) == (before.logs, before.positions, before.segments)
    assert not node.is_refused(9)
    return str(answer["code"])


def append(node: Node, *bodies: bytes, to: str = "l", key: bytes | None = None) -> None:
    headers = b"" if key is None else b"partition-key:%b\n" % key
    node.say(*(send(1, f"/log/{to}", body, headers=headers) for body in bodies))


def ask(node: Node, connection: int, number: int, **request: Any) -> None:
    """Without waiting for the answer."""
    body = json.dumps(request).encode()
    node.say(Send(connection, "/admin", b"", 2, body, reply_to="admin", correlation_id=b"%d" % number))


def answers(node: Node, connection: int) -> list[dict[str, Any]]:
    replies = [r for r in node.take(connection) if isinstance(r, Deliver)]
    return [json.loads(deliver.message.body) for deliver in replies]


# ---- declare, describe, delete


def test_a_log_is_declared_and_described() -> None:
    node = node_of()
    given = {"partitions": 2, "partition_key": "/customer/id", "retention_ms": 5000, "retention_bytes": 1 << 20}
    assert node.admin(9, do="declare", log="new", **given) == {"ok": True, "created": True}
    assert node.admin(9, do="declare", log="/log/new", **given) == {"ok": True, "created": False}
    described = node.admin(9, do="describe", log="new")
    assert described["settings"] == given | {"schema": None}
    nothing = {"first": [0, 0], "next": [0, 0], "bytes": [0, 0], "first_ms": [None, None], "last_ms": [None, None]}
    assert described["partitions"] == nothing
    assert (described["readers"], described["groups"]) == (0, [])
    assert "new" in node.disk.platter.logs.values()


def test_what_is_declared_outlives_a_crash_with_its_settings_and_incarnation() -> None:
    node = node_of()
    node.admin(9, do="declare", log="new", partitions=4, retention_ms=None)
    append(node, b"1", to="new", key=b"k")
    before = node.admin(9, do="describe", log="new")
    node = node.crashed()
    node.open(9)
    assert node.admin(9, do="describe", log="new") == before
    assert before["settings"]["partitions"] == 4 and before["settings"]["retention_ms"] is None


def test_no_other_log_of_that_name_has_the_same_incarnation() -> None:
    node = node_of()
    seen = set()
    for _ in range(3):
        node.admin(9, do="declare", log="new")
        seen.add(node.admin(9, do="describe", log="new")["incarnation"])
        node.admin(9, do="delete", log="new")
    assert len(seen) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"partitions": 3},
        {"partition_key": "/a"},
        {"retention_ms": 1000},
        {"retention_bytes": 1000},
        {"retention_ms": None},
    ],
)
def test_declared_otherwise_is_refused(more: dict[str, Any]) -> None:
    node = node_of()
    node.admin(9, do="declare", log="new", partitions=2)
    assert code(node, do="declare", log="new", **more) == "declared-otherwise"
    assert code(node, do="declare", log="new", passive=True, **more) == "declared-otherwise"
    assert node.admin(9, do="declare", log="new", partitions=2, passive=True)["created"] is False


def test_passive_only_asks() -> None:
    node = node_of()
    assert code(node, do="declare", log="new", passive=True) == "no-such-destination"
    assert node.admin(9, do="declare", log="l", passive=True)["created"] is False


@pytest.mark.parametrize("name", ["", "a\nb", "journal", "$checkout/q/g", "x" * 256, 5])
def test_names_that_no_client_may_declare(name: object) -> None:
    assert code(node_of(), do="declare", log=name) in ("bad-request", "reserved")


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"partitions": PARTITIONS_MAX + 1},
        {"partitions": True},
        {"partition_key": "no-pointer"},
        {"partition_key": 5},
        {"retention_ms": -1},
        {"retention_bytes": "much"},
        {"max_messages": 5},
    ],
)
def test_settings_that_are_wrong(wrong: dict[str, Any]) -> None:
    assert code(node_of(), do="declare", log="new", **wrong) == "bad-request"


def test_as_many_partitions_as_there_may_be() -> None:
    node = node_of()
    node.admin(9, do="declare", log="new", partitions=PARTITIONS_MAX)
    assert len(node.admin(9, do="describe", log="new")["partitions"]["next"]) == PARTITIONS_MAX


def test_logs_count_as_destinations() -> None:
    node = node_of(limits=Limits(max_destinations=4))
    node.admin(9, do="declare", log="new")
    assert code(node, do="declare", log="another") == "too-many-destinations"


def test_numbers_of_a_partition() -> None:
    node = node_of()
    append(node, b"123")
    node.wait(2)
    append(node, b"4")
    partitions = node.admin(9, do="describe", log="l")["partitions"]
    assert partitions["first"] == [0] and partitions["next"] == [2]
    assert partitions["first_ms"] == [START_MS] and partitions["last_ms"] == [START_MS + 2000]
    assert partitions["bytes"][0] >= 4


def test_what_is_deleted_is_gone_and_its_name_free() -> None:
    node = node_of()
    node.admin(9, do="declare", log="new")
    append(node, b"1", b"2", to="new")
    assert node.admin(9, do="delete", log="new") == {"ok": True, "deleted": 2}
    node.wait(1)
    assert "new" not in node.disk.platter.logs.values()
    assert not any(node.disk.platter.records.values())
    assert code(node, do="describe", log="new") == "no-such-destination"
    node.admin(9, do="declare", log="new")
    assert node.admin(9, do="describe", log="new")["partitions"]["next"] == [0]


def test_what_is_declared_or_read_or_the_brokers_own_is_not_deleted() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(), JOURNAL: LogSettings()}, has_journal=True))
    assert code(node, do="delete", log="l") == "declared"
    node.admin(9, do="declare", log="new")
    node.say(subscribe(1, "/log/new"))
    assert code(node, do="delete", log="new") == "in-use"
    assert code(node, do="delete", log="none") == "no-such-destination"
    assert code(node, do="delete", log="journal") in ("declared", "reserved")


# ---- offsets


def test_offsets_at_a_time() -> None:
    node = node_of()
    for _ in range(4):
        append(node, b"x")
        node.wait(1)

    def at(ms: int) -> list[int]:
        found = node.admin(9, do="offsets", log="l", time_ms=ms)
        assert found["ok"], found
        return list(found["offsets"])

    assert at(0) == at(START_MS) == [0]
    assert at(START_MS + 1) == at(START_MS + 1000) == [1]
    assert at(START_MS + 3000) == [3]
    assert at(START_MS + 3001) == at(START_MS + 10**9) == [4]


def test_offsets_of_each_partition() -> None:
    node = node_of()
    append(node, b"x", b"y", to="three", key=b"k")
    found = node.admin(9, do="describe", log="three")["partitions"]["next"]
    assert sorted(found) == [0, 0, 2]
    assert node.admin(9, do="offsets", log="three", time_ms=START_MS)["offsets"] == [0, 0, 0]
    assert node.admin(9, do="offsets", log="three", time_ms=START_MS + 1)["offsets"] == found


@pytest.mark.parametrize(
    "wrong", [{}, {"time_ms": -1}, {"time_ms": "x"}, {"time_ms": 1.5}, {"time_ms": 10**15}, {"at": 1}]
)
def test_offsets_of_no_time(wrong: dict[str, Any]) -> None:
    assert code(node_of(), do="offsets", log="l", **wrong) == "bad-request"


# ---- await


def test_what_is_there_already_is_answered_at_once() -> None:
    node = node_of()
    append(node, b"1", b"2")
    assert node.admin(9, do="await", log="l", next=[1], timeout_ms=60000) == {"ok": True, "next": [2], "first": [0]}


def test_without_a_timeout_it_only_asks() -> None:
    node = node_of()
    assert node.admin(9, do="await", log="l", next=[0], timeout_ms=0) == {"ok": True, "next": [0], "first": [0]}


def test_an_append_is_heard_of_when_it_is_on_the_disk() -> None:
    node = node_of()
    ask(node, 9, 1, do="await", log="l", next=[0], timeout_ms=60000)
    node.auto = False
    append(node, b"1")
    assert answers(node, 9) == []
    node.seal()
    assert answers(node, 9) == []
    node.commit()
    assert answers(node, 9) == [{"ok": True, "next": [1], "first": [0]}]


def test_one_partition_is_enough() -> None:
    node = node_of()
    ask(node, 9, 1, do="await", log="three", next=[0, 0, 0], timeout_ms=60000)
    append(node, b"1", to="three")
    (answer,) = answers(node, 9)
    assert sorted(answer["next"]) == [0, 0, 1]


def test_one_of_several_logs_is_enough() -> None:
    node = node_of()
    ask(node, 9, 1, do="await", logs=["l", "/log/three"], next=[0] * 4, timeout_ms=60000)
    assert answers(node, 9) == []
    append(node, b"1", to="three")
    [answer] = answers(node, 9)
    assert list(answer["logs"]) == ["l", "three"] and answer["logs"]["l"] == {"next": [0], "first": [0]}
    assert sorted(answer["logs"]["three"]["next"]) == [0, 0, 1]
    node.wait(0.25)
    assert not any(log.waiting.all for log in node.broker.destinations.logs.all.values())
    append(node, b"2")
    assert answers(node, 9) == []


def test_several_logs_are_answered_at_once_or_after_their_time() -> None:
    node = node_of()
    append(node, b"1")
    both = ["three", "l"]
    assert node.admin(9, do="await", logs=both, next=[0] * 4, timeout_ms=60000)["logs"]["l"]["next"] == [1]
    ask(node, 9, 1, do="await", logs=both, next=[0, 0, 0, 1], timeout_ms=1000)
    node.wait(0.9)
    assert answers(node, 9) == []
    node.wait(0.2)
    assert len(answers(node, 9)) == 1
    for _ in range(AWAITS_MAX):  # whoever was answered waits no more
        assert node.admin(9, do="await", logs=both, next=[0] * 4, timeout_ms=0)["ok"]


def test_of_several_logs_one_that_is_deleted_is_told_of() -> None:
    node = node_of()
    node.admin(9, do="declare", log="new")
    ask(node, 9, 1, do="await", logs=["l", "new"], next=[0, 0], timeout_ms=60000)
    assert node.admin(2, do="delete", log="new")["deleted"] == 0
    [answer] = answers(node, 9)
    assert (answer["code"], "/log/new" in answer["error"]) == ("no-such-destination", True)


def test_so_many_logs_may_be_awaited_at_once_and_no_more() -> None:
    names = [f"l{nth}" for nth in range(AWAITED_LOGS_MAX + 1)]
    node = node_of(Declarations(logs={name: LogSettings() for name in names}))
    most = AWAITED_LOGS_MAX
    assert len(node.admin(9, do="await", logs=names[1:], next=[0] * most, timeout_ms=0)["logs"]) == most
    assert code(node, do="await", logs=names, next=[0] * (most + 1), timeout_ms=0) == "bad-request"


def test_after_its_time_it_is_answered_with_nothing_new() -> None:
    node = node_of()
    ask(node, 9, 1, do="await", log="l", next=[0], timeout_ms=1000)
    node.wait(0.9)
    assert answers(node, 9) == []
    node.wait(0.2)
    assert answers(node, 9) == [{"ok": True, "next": [0], "first": [0]}]
    append(node, b"1")
    assert answers(node, 9) == []


def test_who_waits_goes_with_its_connection_and_with_the_log() -> None:
    node = node_of()
    node.admin(9, do="declare", log="new")
    for connection in (2, 9):
        ask(node, connection, 1, do="await", log="new", next=[0], timeout_ms=60000)
    node.close(2)
    node.say(send(1, "/log/new"))
    assert len(answers(node, 9)) == 1
    ask(node, 9, 1, do="await", log="new", next=[1], timeout_ms=60000)
    node.admin_of_another = None  # type: ignore[attr-defined]
    node.open(3)
    assert node.admin(3, do="delete", log="new")["deleted"] == 1
    (answer,) = answers(node, 9)
    assert (answer["ok"], answer["code"]) == (False, "no-such-destination")


def test_so_many_may_wait_with_one_connection_and_no_more() -> None:
    node = node_of()
    for number in range(AWAITS_MAX):
        ask(node, 9, number, do="await", log="l", next=[0], timeout_ms=AWAIT_MAX_MS)
    assert answers(node, 9) == []
    ask(node, 9, 1, do="await", log="l", next=[0], timeout_ms=1000)
    (answer,) = answers(node, 9)
    assert (answer["ok"], answer["code"]) == (False, "bad-request")
    ask(node, 2, 1, do="await", log="l", next=[0], timeout_ms=1000)
    append(node, b"1")
    assert len(answers(node, 9)) == AWAITS_MAX and len(answers(node, 2)) == 1


def test_who_is_gone_waits_no_longer() -> None:
    node = node_of()
    ask(node, 9, 1, do="await", log="l", next=[0], timeout_ms=60_000)
    node.close(9)
    node.wait(0.25)
    assert not node.broker.destinations.logs.all["l"].waiting.all


def test_of_too_many_that_wait_for_a_log_the_oldest_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.log.AWAITS_OF_ONE_MAX", 2)
    node = node_of()
    for connection in (1, 2, 9):
        ask(node, connection, 1, do="await", log="l", next=[0], timeout_ms=60_000)
    assert [len(answers(node, connection)) for connection in (1, 2, 9)] == [1, 0, 0]


def test_of_who_waits_nothing_is_in_the_way_of_a_stop() -> None:
    node = node_of()
    ask(node, 9, 1, do="await", log="l", next=[0], timeout_ms=60000)
    node.stop()


@pytest.mark.parametrize(
    "wrong",
    [
        {"next": []},
        {"next": [0, 0]},
        {"next": 0},
        {"next": [-1]},
        {"next": [True]},
        {"next": ["0"]},
        {"timeout_ms": -1},
        {"timeout_ms": AWAIT_MAX_MS + 1},
        {"timeout_ms": "1"},
        {"more": 1},
        {"log": 5},
        {"logs": ["l"]},
    ],
)
def test_what_cannot_be_awaited(wrong: dict[str, Any]) -> None:
    request = {"log": "l", "next": [0], "timeout_ms": 10, **wrong}
    assert code(node_of(), do="await", **request) == "bad-request"


@pytest.mark.parametrize(
    ("logs", "known", "refused"),
    [
        ([], [], "bad-request"),
        ("l", [0], "bad-request"),
        ([5], [0], "bad-request"),
        (["l", "l"], [0, 0], "bad-request"),
        (["l"], [], "bad-request"),
        (["l", "three"], [0, 0, 0], "bad-request"),
        (["l"], [True], "bad-request"),
        (["l", "none"], [0, 0], "no-such-destination"),
    ],
)
def test_several_that_cannot_be_awaited(logs: object, known: list[int], refused: str) -> None:
    node = node_of()
    assert code(node, do="await", logs=logs, next=known, timeout_ms=10) == refused
    assert not any(log.waiting.all for log in node.broker.destinations.logs.all.values())


# ---- position


def group(node: Node, connection: int, log: str, group: str, **more: Any) -> None:
    node.say(
        subscribe(
            connection, f"/log/{log}", CLIENT_INDIVIDUAL, group=group, start=("earliest", 0), prefetch_count=100, **more
        )
    )


def position(node: Node, **more: Any) -> dict[str, Any]:
    return node.admin(9, do="position", **{"log": "l", "group": "g", **more})


def test_a_group_without_a_position_has_none() -> None:
    node = node_of()
    assert position(node) == {"ok": True, "offsets": None}


def test_a_position_is_what_is_not_acked() -> None:
    node = node_of()
    append(node, b"1", b"2", b"3")
    group(node, 1, "l", "g")
    first, second, _ = node.messages(1)
    node.say(ack(second, b"r"))
    assert position(node)["offsets"] in ([0], None)
    node.say(ack(first, b"r"))
    assert position(node)["offsets"] == [2]
    assert node.admin(9, do="describe", log="l")["groups"] == ["g"]
    assert node.admin(9, do="describe", log="l")["readers"] == 1


def test_a_position_is_set_and_forgotten_and_both_are_synced() -> None:
    node = node_of()
    append(node, b"1", b"2", b"3")
    assert position(node, offsets=[2]) == {"ok": True, "offsets": [2]}
    assert list(node.disk.platter.positions.values()) == [[2]]
    group(node, 1, "l", "g")
    assert node.bodies(1) == [b"3"]
    node.close(1)
    assert position(node, forget=True) == {"ok": True, "offsets": None}
    assert node.disk.platter.positions == {}
    assert position(node, forget=True) == {"ok": True, "offsets": None}


def test_a_position_is_not_set_while_the_group_reads() -> None:
    node = node_of()
    append(node, b"1", b"2")
    group(node, 1, "l", "g")
    group(node, 2, "l", "other")
    for more in ({"offsets": [1]}, {"forget": True}):
        assert code(node, do="position", log="l", group="g", **more) == "in-use"
    node.close(1)
    assert position(node, offsets=[1])["ok"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"offsets": [3]}, "no-such-offset"),
        ({"offsets": [-1]}, "bad-request"),
        ({"offsets": [0, 0]}, "bad-request"),
        ({"offsets": []}, "bad-request"),
        ({"offsets": [1.5]}, "bad-request"),
        ({"offsets": [0], "forget": True}, "bad-request"),
        ({"forget": "yes"}, "bad-request"),
        ({"group": ""}, "bad-request"),
        ({"group": "x" * 256}, "bad-request"),
        ({"group": 5}, "bad-request"),
        ({"log": "none"}, "no-such-destination"),
    ],
)
def test_positions_that_cannot_be(wrong: dict[str, Any], why: str) -> None:
    node = node_of()
    append(node, b"1", b"2")
    assert code(node, do="position", **{"log": "l", "group": "g", **wrong}) == why


def test_groups_of_the_longest_name_and_one_past_the_end() -> None:
    node = node_of()
    append(node, b"1", b"2")
    assert position(node, group="x" * 255, offsets=[2])["offsets"] == [2]


# ---- what is held until its commit


def test_answers_wait_for_the_disk() -> None:
    node = node_of()
    node.auto = False
    for number, request in enumerate(
        (
            {"do": "declare", "log": "new"},
            {"do": "position", "log": "l", "group": "g", "offsets": [0]},
            {"do": "delete", "log": "new"},
        )
    ):
        ask(node, 9, number, **request)
        assert answers(node, 9) == []
        node.seal()
        assert answers(node, 9) == []
        node.commit()
        (answer,) = answers(node, 9)
        assert answer["ok"], answer


def test_time_alone_answers_no_request_twice() -> None:
    node = node_of()
    ask(node, 9, 1, do="await", log="l", next=[0], timeout_ms=100)
    for _ in range(3):
        node.now_s += 1
        node.turn([Tick(GIB, 0)])
    assert len(answers(node, 9)) == 1


def test_a_position_is_told_as_it_is_on_the_disk() -> None:
    node = node_of(auto=False)

    def settle() -> None:
        while node.step():
            pass

    append(node, b"a", b"b")
    settle()
    node.say(subscribe(2, "/log/l", CLIENT_INDIVIDUAL, start=("earliest", 0), group="g", prefetch_count=2))
    settle()
    first, second = node.messages(2)
    node.say(ack(first))
    ask(node, 9, 1, do="position", log="l", group="g")
    assert node.seal()
    node.say(ack(second))
    node.commit()
    assert [one["offsets"] for one in answers(node, 9)] == [[1]]


def test_many_that_wait_for_many_partitions_are_answered_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.log.AWAITED_OFFSETS_MAX", 6)
    node = node_of()
    for number in range(3):
        ask(node, 9, number, do="await", log="three", next=[5, 5, 5], timeout_ms=1000)
    assert len(answers(node, 9)) == 1


def test_offsets_are_looked_for_in_one_partition_after_the_other() -> None:
    node = node_of(auto=False)
    for key in (b"1", b"2", b"3", b"4", b"5"):
        append(node, b"x", to="three", key=key)
    while node.step():
        pass
    for number in range(AWAITS_MAX + 1):
        ask(node, 9, number, do="offsets", log="three", time_ms=5)
    assert len(node.read_requests) == AWAITS_MAX
    while node.step():
        pass
    replies = answers(node, 9)
    assert [one["ok"] for one in replies] == [False] + [True] * AWAITS_MAX
    assert replies[1]["offsets"] == [0, 0, 0]
