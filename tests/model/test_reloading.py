"""What of a configuration that is read again is in force at once, and what waits for a restart."""

from dataclasses import replace
from pathlib import Path

import pytest

from radiator.model.limits import Limits
from radiator.model.reloading import NOW, RESTART, Difference, declarations_of, differences, merged, tables_of
from radiator.model.rights import Rules
from radiator.model.settings import (
    AUDIT,
    JOURNAL,
    Binding,
    Config,
    Declarations,
    ExchangeSettings,
    LogSettings,
    QueueSettings,
)
from radiator.model.users import Token, User, UserBounds

CONFIG = Config(data_dir=Path("/d"), disk_free_min=0, declarations=Declarations(), limits=Limits())


def with_queues(**queues: QueueSettings) -> Config:
    return replace(CONFIG, declarations=Declarations(queues=queues))


def found(read: Config, running: Config = CONFIG) -> list[Difference]:
    return differences(running, read, ".".join)


def test_the_same_differs_in_nothing() -> None:
    assert found(replace(CONFIG)) == []
    assert merged(CONFIG, replace(CONFIG)) == CONFIG


@pytest.mark.parametrize(
    ("read", "setting", "effect"),
    [
        (replace(CONFIG, limits=Limits(max_connections=7)), "limits.max_connections", NOW),
        (replace(CONFIG, limits=Limits(max_headers=7)), "limits.max_headers", RESTART),
        (replace(CONFIG, disk_free_min=5), "server.disk_free_min", NOW),
        (replace(CONFIG, data_dir=Path("/e")), "server.data_dir", RESTART),
        (with_queues(q=QueueSettings(max_messages=5)), "queue.q", NOW),
        (with_queues(q=QueueSettings(partition_key=("/a",))), "queue.q", NOW),
    ],
)
def test_each_setting_takes_effect_when_the_table_says(read: Config, setting: str, effect: str) -> None:
    (difference,) = found(read)
    assert (difference.setting, difference.takes_effect) == (setting, effect)
    in_force = merged(CONFIG, read)
    assert (in_force == read) is (effect == NOW)
    assert bool(found(read, in_force)) is (effect == RESTART)


def test_what_needs_a_restart_keeps_what_it_leads_to() -> None:
    """A queue cannot become one in memory while the broker runs, so its dead-letter queue stays declared."""
    running = with_queues(q=QueueSettings(dead_letter="dead"), dead=QueueSettings())
    read = with_queues(q=QueueSettings(persistent=False, max_messages=5))
    in_force = merged(running, read).declarations.queues
    assert in_force["q"].persistent and "dead" in in_force
    assert {one.takes_effect for one in found(read, running) if one.setting == "queue.q.persistent"} == {RESTART}


def test_a_queue_that_the_file_names_no_more_is_taken_back() -> None:
    running = with_queues(q=QueueSettings(), r=QueueSettings())
    assert [*merged(running, with_queues(r=QueueSettings())).declarations.queues] == ["r"]
    (difference,) = found(with_queues(r=QueueSettings()), running)
    assert (difference.setting, difference.new, difference.takes_effect) == ("queue.q", None, NOW)


@pytest.mark.parametrize(
    ("old", "new", "was", "will_be"),
    [((), ("/a",), None, "/a"), (("/a", "/b"), ("/b", "/a"), ["/a", "/b"], ["/b", "/a"]), (("/a",), (), "/a", None)],
)
def test_another_key_of_a_queue_waits_for_a_restart_with_its_whole_table(
    old: tuple[str, ...], new: tuple[str, ...], was: object, will_be: object
) -> None:
    running = with_queues(q=QueueSettings(partition_key=old))
    read = with_queues(q=QueueSettings(partition_key=new, max_messages=5))
    assert found(read, running) == [
        Difference("queue.q.max_messages", None, 5, RESTART),
        Difference("queue.q.partition_key", was, will_be, RESTART),
    ]
    assert merged(running, read) == running


def test_a_partition_window_changes_at_once() -> None:
    running, read = (with_queues(q=QueueSettings(partition_key=("/a",), partition_window=n)) for n in (1, 7))
    assert found(read, running) == [Difference("queue.q.partition_window", 1, 7, NOW)]
    assert merged(running, read) == read


def test_what_is_declared_is_the_same_when_it_has_been_tables() -> None:
    audit = LogSettings(retention_ms=5, retention_bytes=9)
    declared = Declarations(
        queues={"q": QueueSettings(max_bytes=5, partition_key=("/a", "header:b")), "dead": QueueSettings()},
        queue_patterns=[("a.b.*", QueueSettings(dead_letter="dead")), ("a.#", QueueSettings())],
        fanouts={"f": ("q", "/log/l"), "g": ("q",)},
        topics=["t", "u.*"],
        cluster_fanouts=frozenset("f"),
        cluster_topics=frozenset("t"),
        exchanges={"e": ExchangeSettings(type="topic"), "empty": ExchangeSettings()},
        bindings=[Binding("e", "k.*", "q"), Binding("amq.direct", "k", "/log/l")],
        logs={"l": LogSettings(partitions=3), JOURNAL: LogSettings(retention_ms=7), AUDIT: audit},
        has_journal=True,
        create_queues=True,
    )
    named: dict[str, dict[str, dict[str, object]]] = {}
    for (kind, name), table in tables_of(replace(CONFIG, declarations=declared)).items():
        named.setdefault(kind, {})[name] = table
    assert declarations_of(named) == declared


def test_what_a_table_does_not_give_is_as_the_default() -> None:
    named: dict[str, dict[str, dict[str, object]]] = {
        kind: {kind[0]: {}} for kind in ("queue", "log", "exchange", "fanout", "topic")
    }
    named["exchange"]["amq.topic"] = {}
    assert declarations_of(named | {"journal": {"": {}}, "create": {"": {}}}) == Declarations(
        queues={"q": QueueSettings()},
        logs={"l": LogSettings()},
        exchanges={"e": ExchangeSettings()},
        fanouts={"f": ()},
        topics=["t"],
    )


# ---- users ----------------------------------------------------------------------------------------------------------

ANN = User(
    name="ann", password="$scrypt$secret", tokens=(Token("0123abc"),), rules=Rules(read=("/queue/a",), role="viewer")
)


SHOWN = {"password": "a secret", "tokens": "a secret", "role": "viewer", "read": ("/queue/a",)}


def with_users(*users: User) -> Config:
    return replace(CONFIG, users={user.name: user for user in users})


@pytest.mark.parametrize(
    ("changed", "setting", "old", "new"),
    [
        (replace(ANN, rules=Rules(read=("/queue/b",), role="viewer")), "user.ann.read", ("/queue/a",), ("/queue/b",)),
        (replace(ANN, rules=Rules(read=("/queue/a",))), "user.ann.role", "viewer", None),
        (replace(ANN, unix="ann"), "user.ann.unix", None, "ann"),
        (replace(ANN, bounds=UserBounds(max_destinations=0)), "user.ann.max_destinations", None, 0),
        (replace(ANN, password=None), "user.ann.password", "a secret", None),
        (replace(ANN, password="$scrypt$other"), "user.ann.password", "a secret", "another secret"),
        (replace(ANN, tokens=()), "user.ann.tokens", "a secret", None),
        (replace(ANN, tokens=(*ANN.tokens, Token("4"))), "user.ann.tokens", "a secret", "another secret"),
        (replace(ANN, tokens=(Token("4"),)), "user.ann.tokens", "a secret", "another secret"),
    ],
)
def test_a_user_changes_at_once(changed: User, setting: str, old: object, new: object) -> None:
    running, read = with_users(ANN), with_users(changed)
    assert found(read, running) == [Difference(setting, old, new, NOW)]
    assert merged(running, read).users == read.users


def test_a_user_comes_and_goes_without_his_secrets() -> None:
    bob = replace(ANN, name="bob")
    assert found(with_users(ANN, bob), with_users(ANN)) == [Difference("user.bob", None, SHOWN, NOW)]
    assert found(with_users(ANN), with_users(ANN, bob)) == [Difference("user.bob", SHOWN, None, NOW)]
    assert found(with_users(ANN), with_users(ANN)) == []


def test_the_first_user_and_the_end_of_the_last_one_wait_for_a_restart() -> None:
    assert found(with_users(ANN)) == [Difference("user.ann", None, SHOWN, RESTART)]
    assert found(CONFIG, with_users(ANN)) == [Difference("user.ann", SHOWN, None, RESTART)]
    assert merged(CONFIG, with_users(ANN)).users == {}
    assert merged(with_users(ANN), CONFIG).users == with_users(ANN).users
