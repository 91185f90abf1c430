"""Requests about the broker itself: its settings, its bounds, its disk, its log."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from radiator.core.bounds import BOUNDS
from radiator.core.server_view import ServerView
from radiator.model.commands import Tick
from radiator.model.disk import WalNumbers
from radiator.model.limits import ANSWER_ROWS
from radiator.model.log_lines import KeptLines, LogLine, ReadLogLines
from radiator.model.settings import AUDIT, JOURNAL, Config, Declarations, LogSettings
from radiator.model.users import User
from tests.core.admin.asking import code
from tests.core.node import Node
from tests.core.words import send

CONFIG = Config(data_dir=Path("/d/data"), unix=False)


def node_of(**more: Any) -> Node:
    """With that server around it."""
    declared = more.pop("declarations", None)
    node = Node(declared, view=ServerView(**more))
    node.open(1, 9)
    return node


def test_the_configuration_is_the_servers_at_the_time_of_the_question() -> None:
    configs: list[tuple[Config, Path | None]] = [(CONFIG, Path("/d/config.toml"))]
    node = node_of(configuration=lambda: configs[-1])
    answer = node.admin(9, do="configuration")
    assert answer["ok"] and answer["path"] == "/d/config.toml"
    assert [(row["name"], row["value"]) for row in answer["configuration"] if not row["is_default"]] == [
        ("unix", False)
    ]
    assert answer["configuration"][0] == {
        "section": "server",
        "of": None,
        "name": "listen",
        "value": ["stomp://127.0.0.1:61613"],
        "default": ["stomp://127.0.0.1:61613"],
        "is_default": True,
    }
    configs.append((replace(CONFIG, unix=True, sync_interval_ms=5), None))
    answer = node.admin(9, do="configuration")
    assert answer["path"] is None
    assert {row["name"]: row["value"] for row in answer["configuration"]}["sync_interval_ms"] == 5


def test_many_users_are_told_in_slices() -> None:
    users = {f"u{number}": User(name=f"u{number}", certificate=f"CN=u{number}") for number in range(2000)}
    node = node_of(configuration=lambda: (replace(CONFIG, users=users), None))
    turns = node.broker.context.turn_number
    rows = [row for row in node.admin(9, do="configuration")["configuration"] if row["section"] == "user"]
    assert [(row["of"], row["value"]) for row in rows] == [(name, f"CN={name}") for name in users]
    assert node.broker.context.turn_number - turns > len(users) // ANSWER_ROWS


def test_the_bounds_are_all_there() -> None:
    node = node_of(uses=lambda: {"max_connections": (77, 2)})
    answer = node.admin(9, do="bounds")
    assert [one["name"] for one in answer["bounds"]] == [one.name for one in BOUNDS]
    assert answer["bounds"][0] == {
        "name": "max_connections",
        "limit": 77,
        "used": 2,
        "unit": "connections",
        "is_least": False,
        "reached": BOUNDS[0].reached,
    }


def test_lines_are_the_servers() -> None:
    asked: list[ReadLogLines] = []
    lines = [LogLine(number, number, "info", "came", {"of": "x\0\u202e", "n": 1.5}) for number in range(3, 203)]

    def read(command: ReadLogLines) -> KeptLines:
        asked.append(command)
        return KeptLines(lines, 2, 202)

    node = node_of(lines=read)
    answer = node.admin(9, do="log", after=2, limit=300, level="info")
    assert asked == [ReadLogLines(2, 300, "info")]
    assert (answer["first"], answer["next"], len(answer["lines"])) == (2, 202, 200)
    assert answer["lines"][0] == {
        "number": 3,
        "time_ms": 3,
        "level": "info",
        "event": "came",
        "fields": {"of": "x\0\u202e", "n": 1.5},
    }


def test_a_wrong_question_is_refused() -> None:
    node = node_of()
    for more in (
        {"limit": 0},
        {"limit": 501},
        {"limit": "1"},
        {"after": -1},
        {"level": "loud"},
        {"level": 1},
        {"x": 1},
    ):
        assert code(node, do="log", **more) == "bad-request"
    for do in ("configuration", "bounds", "disk"):
        assert code(node, do=do, after="a") == "bad-request"


def test_the_disk_is_as_the_last_tick_has_measured_it() -> None:
    node = node_of(configuration=lambda: (CONFIG, None))
    node.turn([Tick(70, 5, 90, 60, 10, 0, 8, 3, wal=WalNumbers(4, 1, 2, 9, 11), disk_total_bytes=99)])
    answer = node.admin(9, do="disk")
    disk = node.broker.parts.disk
    assert answer == {
        "ok": True,
        "data_dir": "/d/data",
        "disk_total_bytes": 99,
        "disk_free_bytes": 60,
        "disk_for_messages_bytes": 70,
        "disk_free_min": 0,
        "map_size": disk.map_size,
        "high_water_bytes": disk.high_water_bytes,
        "used_bytes": 5,
        "reusable_bytes": 10,
        "checked_percent": 90,
        "wal_bytes": 8,
        "wal_kept_bytes": 3,
        "wal_segments": 4,
        "wal_spare_segments": 1,
        "wal_unapplied_entries": 2,
        "wal_unapplied_bytes": 9,
        "journal_bytes": None,
        "audit_bytes": None,
    }


def test_of_the_journal_it_has_what_is_stored() -> None:
    logs = {JOURNAL: LogSettings(), AUDIT: LogSettings()}
    node = node_of(declarations=Declarations(create_queues=True, logs=logs, has_journal=True))
    before = node.admin(9, do="disk")["journal_bytes"]
    node.say(send(1, "q"))
    answer = node.admin(9, do="disk")
    assert answer["journal_bytes"] > before and answer["audit_bytes"] == 0
