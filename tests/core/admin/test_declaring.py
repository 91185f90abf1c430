"""/admin at run time: declare, bind, unbind, describe and delete of queues, exchanges and fanouts; prefetch and extend.

What is declared is there after a power cut if it was answered, and as it was before if it was not.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from radiator.model import settings
from radiator.model.errors import StoreError
from radiator.model.limits import Limits
from radiator.model.settings import Address, Declarations, QueueSettings
from radiator.model.validation import as_json
from tests.core.admin.asking import DECLARED, code, node_of
from tests.core.node import Node
from tests.core.words import ack, queue, send, subscribe, unsubscribe

NOTHING = Declarations()  # first use creates nothing


def settings_of(node: Node, name: str) -> QueueSettings:
    found = node.broker.destinations.queues.all[name].settings
    assert isinstance(found, QueueSettings)
    return found


def test_what_a_declaration_leads_to_is_made_unless_it_is_told_not_to() -> None:
    node = node_of(Declarations(create_queues=True))
    assert code(node, do="declare", queue="a", dead_letter="typo", create=False) == "no-such-destination"
    node.admin(9, do="declare", queue="a")
    assert code(node, do="declare", fanout="f", children=["a", "typo"], create=False) == "no-such-destination"
    node.admin(9, do="declare", queue="b")
    assert node.admin(9, do="declare", queue="c", dead_letter="/queue/b", create=False)["created"]
    assert node.admin(9, do="declare", fanout="f", children=["a", "b"], create=False)["created"]
    assert "typo" not in node.broker.destinations.queues.all
    assert node.admin(9, do="declare", queue="d", dead_letter="typo", create=True)["created"]
    assert "typo" in node.broker.destinations.queues.all
    assert code(node, do="declare", queue="e", dead_letter="a", create="no") == "bad-request"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"queue": "new", "create": False},
            "`create` is false, and there is no `dead_letter` with it: leave it out.",
        ),
        ({"queue": "new", "dead_letter": None, "create": True}, "`create` is true, and there is no `dead_letter`"),
        ({"queue": "q", "passive": True, "create": False}, "there is no `dead_letter` with it"),
        ({"fanout": "f", "create": False}, "there is no `children` with it"),
        ({"exchange": "new", "create": False}, "an exchange leads to no queue by its settings: leave it out."),
        ({"log": "new", "create": True}, "`create` is true, and a log leads to no queue by its settings"),
        ({"queue": "new", "create": "banana"}, '`create` must be true or false; it is "banana".'),
        ({"log": "new", "create": None}, "`create` must be true or false; it is null."),
    ],
)
def test_create_beside_nothing_that_it_could_be_about_is_refused(given: dict[str, Any], sentence: str) -> None:
    node = node_of()
    answer = node.admin(9, do="declare", **given)
    assert answer["code"] == "bad-request" and sentence in answer["error"]
    assert not node.has("new") and "new" not in node.stats()["logs"] | node.stats()["exchanges"]


def test_a_queue_is_declared_whatever_first_use_may_create() -> None:
    node = node_of(NOTHING)
    assert node.admin(9, do="declare", queue="new") == {
        "ok": True,
        "messages": 0,
        "ready": 0,
        "consumers": 0,
        "created": True,
    }
    node.say(send(1, "new", b"1", b"r"))
    assert node.receipts(1) == [b"r"] and node.stored("new") == [b"1"]
    assert node.admin(9, do="declare", queue="/queue/new")["created"] is False


@pytest.mark.parametrize(
    "given, key",
    [
        ({"queue": "new", "overflow": "reject"}, "overflow"),
        ({"queue": "new", "max_redeliveries": 3}, "max_redeliveries"),
        ({"queue": "new", "max_bytes": 2**40}, "max_bytes"),
        ({"log": "new", "partition_key": "/id"}, "partition_key"),
        ({"log": "new", "retention_bytes": 2**40}, "retention_bytes"),
    ],
)
def test_a_declared_setting_without_effect_is_told_in_the_answer(given: dict[str, Any], key: str) -> None:
    node = node_of(NOTHING)
    for created in (True, False):
        answer = node.admin(9, do="declare", **given)
        (sentence,) = answer["warnings"]
        assert answer["created"] is created and sentence.startswith(f"`{key}` has no effect: ") and sentence[-1] == "."


def test_a_setting_that_nobody_has_given_is_not_told() -> None:
    node = node_of(Declarations(queue_patterns=[("p.*", QueueSettings(overflow="reject"))]))
    assert "warnings" not in node.admin(9, do="declare", queue="p.a", max_redeliveries=16, dedup_window_s=5)


def test_every_setting_may_be_given_and_is_described() -> None:
    given = {
        "persistent": True,
        "max_messages": 5,
        "max_bytes": 100,
        "overflow": "reject",
        "dead_letter": None,
        "dead_letter_exchange": "failed",
        "dead_letter_key": "orders",
        "max_redeliveries": 1,
        "message_ttl_ms": 5000,
        "ack_timeout_s": 2.5,
        "dedup_window_s": 1,
        "exclusive": True,
        "auto_delete": True,
        "expires_ms": 60_000,
        "redelivery_delay_ms": 10,
        "redelivery_delay_factor": 3,
        "redelivery_delay_max_ms": 1000,
        "scope": "node",
        "schema": '{"type":"string"}',
        "partition_key": ["header:customer", "/customer/id"],
        "partition_window": 7,
        "max_priority": None,  # not with a partition_key
        "single_active_consumer": False,  # nor this
        "drop_after_redeliveries": None,  # not with dead letters
        "bounds_count": "ready",
    }
    assert set(given) == set(as_json(QueueSettings()))
    node = node_of()
    assert node.admin(9, do="declare", queue="new", **given)["created"]
    assert node.admin(9, do="describe", queue="new")["settings"] == given


def test_what_is_not_given_is_what_a_pattern_says() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="p.1", max_bytes="1KiB", dead_letter=None)
    assert settings_of(node, "p.1") == QueueSettings(max_messages=7, max_bytes=1024)


def test_declared_again_the_same_is_no_mistake_and_says_what_is_there() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new", max_messages=5)
    node.say(send(1, "new"), send(1, "new"), subscribe(1, "new"))
    for again in ({}, {"max_messages": 5}, {"persistent": True, "dead_letter": None}, {"passive": True}):
        answer = node.admin(9, do="declare", queue="new", **again)
        assert answer == {"ok": True, "messages": 2, "ready": 1, "consumers": 1, "created": False}


@pytest.mark.parametrize("more", [{"max_messages": 6}, {"max_messages": None}, {"exclusive": True}])
def test_declared_otherwise_is_refused(more: dict[str, Any]) -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new", max_messages=5)
    assert code(node, do="declare", queue="new", **more) == "declared-otherwise"
    assert code(node, do="declare", queue="new", passive=True, **more) == "declared-otherwise"
    assert code(node, do="declare", queue="q", max_messages=5) == "declared-otherwise"
    assert settings_of(node, "new").max_messages == 5


def test_passive_only_asks() -> None:
    node = node_of()
    for kind in ("queue", "exchange", "fanout"):
        assert code(node, do="declare", passive=True, **{kind: "new"}) == "no-such-destination"
    assert not node.has("new")
    for kind, name in (("queue", "q"), ("exchange", "x"), ("exchange", "amq.topic"), ("fanout", "f")):
        assert node.admin(9, do="declare", passive=True, **{kind: name})["created"] is False


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"queue": 7}, "bad-request"),
        ({"queue": ""}, "bad-request"),
        ({"queue": "x" * 256}, "bad-request"),
        ({"queue": "a\nb"}, "bad-request"),
        ({"queue": "a.*"}, "wildcard"),
        ({"queue": "$outbox/b"}, "reserved"),
        ({"queue": "$durable/topic/a/b"}, "reserved"),
        ({"queue": "new", "passive": 1}, "bad-request"),
        ({"queue": "new", "colour": "red"}, "bad-request"),
        ({"queue": "new", "max_messages": 0}, "bad-request"),
        ({"queue": "new", "overflow": "dead-letter"}, "bad-request"),
        ({"queue": "new", "dead_letter": "new"}, "bad-request"),
        ({"queue": "new", "dead_letter": "nowhere"}, "bad-request"),
        ({"queue": "new", "dead_letter": "mem"}, "bad-request"),
        ({"queue": "new", "dead_letter": "a.*"}, "bad-request"),
        ({"queue": "new", "dead_letter": "$outbox/b"}, "bad-request"),
        ({"queue": "new", "scope": "cluster"}, "bad-request"),
        ({"queue": "p.1", "persistent": False, "dedup_window_s": 1}, "bad-request"),
        ({"queue": "new", "exchange": "y"}, "bad-request"),
        ({}, "bad-request"),
        ({"topic": "t"}, "bad-request"),
    ],
)
def test_what_may_not_be_declared_is_refused(more: dict[str, Any], sentence: str) -> None:
    node = node_of()
    assert code(node, do="declare", **more) == sentence
    assert not node.has("new") and not node.has("p.1") and not node.has("nowhere")


def test_a_cycle_of_dead_letters_over_several_requests_is_refused() -> None:
    node = node_of(Declarations(create_queues=True))
    assert node.admin(9, do="declare", queue="a", dead_letter="b")["created"]
    assert node.has("b")  # made with it, with what config.toml says for it
    assert node.admin(9, do="declare", queue="c", dead_letter="a")["created"]
    assert code(node, do="declare", queue="b", dead_letter="a") == "declared-otherwise"
    node.admin(9, do="delete", queue="b")
    assert code(node, do="declare", queue="b", dead_letter="c") == "bad-request"
    assert not node.has("b")


def test_the_last_destination_and_one_past_it() -> None:
    node = node_of(NOTHING, limits=Limits(max_destinations=3))
    assert node.admin(9, do="declare", queue="a")["created"]
    assert node.admin(9, do="declare", exchange="x")["created"]
    assert node.admin(9, do="declare", fanout="f", children=["a"])["created"]
    for more in ({"queue": "b"}, {"exchange": "y"}, {"fanout": "g", "children": ["a"]}):
        assert code(node, do="declare", **more) == "too-many-destinations"
    assert node.admin(9, do="declare", queue="a")["created"] is False


def test_a_queue_of_the_cluster_needs_other_nodes() -> None:
    alone = settings.Node(name="a", secret=b"x" * 16, peers={"b": Address("peer", "127.0.0.1", 1)})
    node = node_of(NOTHING, node=alone)
    assert node.admin(9, do="declare", queue="shared", scope="cluster")["created"]
    assert code(node, do="declare", queue="other", scope="cluster", expires_ms=1000) == "bad-request"


def test_a_queue_in_memory_is_declared_with_bounds_and_gone_after_a_restart() -> None:
    node = node_of(NOTHING)
    node.admin(9, do="declare", queue="new", persistent=False, max_messages=2)
    described = node.admin(9, do="describe", queue="new")["settings"]
    assert (described["persistent"], described["max_messages"], described["max_bytes"]) == (False, 2, 64 * 1024 * 1024)
    assert not node.crashed().has("new")


def test_declaring_counts_as_use() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new", expires_ms=10_000)
    for _ in range(3):
        node.wait(9)
        assert node.admin(9, do="declare", queue="new", passive=True)["ok"]
    node.wait(9.9)
    assert node.has("new")
    node.wait(0.2)
    assert not node.has("new")


def test_an_answer_comes_when_what_it_tells_is_synced() -> None:
    requests = [
        {"do": "declare", "queue": "new", "max_messages": 5},
        {"do": "declare", "exchange": "y", "type": "direct"},
        {"do": "declare", "fanout": "g", "children": ["new"]},
        {"do": "bind", "exchange": "y", "key": "k", "queue": "new"},
        {"do": "describe", "queue": "new"},
        {"do": "describe", "exchange": "y"},
        {"do": "describe", "fanout": "g"},
        {"do": "unbind", "exchange": "y", "key": "k", "queue": "new"},
        {"do": "delete", "exchange": "y"},
        {"do": "delete", "fanout": "g"},
        {"do": "delete", "queue": "new"},
    ]
    node = node_of()
    node.auto = False
    for request in requests:
        node.say(send(9, "/admin", json.dumps(request).encode(), reply_to="t"))
        assert node.messages(9) == [], request
        assert node.seal()
        assert node.messages(9) == [], request
        node.commit()
        (answer,) = node.messages(9)
        assert json.loads(answer.message.body)["ok"] is True, request


def test_a_purge_is_answered_though_its_queue_is_deleted_meanwhile() -> None:
    node = node_of(queue())
    node.open(8)
    node.say(send(1, "new", delay_ms=1000))
    node.auto = False
    for connection, do in ((8, "purge"), (9, "delete")):
        node.say(send(connection, "/admin", json.dumps({"do": do, "queue": "new"}).encode(), reply_to="t"))
    node.auto = True
    node.turn([])
    assert [json.loads(node.message(connection).message.body)["ok"] for connection in (8, 9)] == [True, True]


def test_what_was_answered_is_there_after_a_power_cut_and_nothing_else() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new", max_messages=5)
    node.admin(9, do="declare", exchange="y", type="topic")
    node.admin(9, do="declare", exchange="brief", type="topic", durable=False)
    node.admin(9, do="declare", fanout="g", children=["new", "q"])
    for exchange, key, to in (
        ("y", "k.*", "new"),
        ("y", "k.*", "mem"),
        ("brief", "k", "new"),
        ("amq.direct", "k", "q"),
    ):
        assert node.admin(9, do="bind", exchange=exchange, key=key, queue=to)["created"]
    node.auto = False
    for request in ({"do": "declare", "queue": "late"}, {"do": "delete", "exchange": "y"}):
        node.say(send(9, "/admin", json.dumps(request).encode(), reply_to="t"))
    again = node.crashed()
    again.open(9, 1)
    assert settings_of(again, "new") == QueueSettings(max_messages=5) and not again.has("late")
    described = again.admin(9, do="describe", exchange="y")
    assert described["bindings"] == [{"key": "k.*", "queue": "new"}]
    assert described | {"ok": True, "type": "topic", "durable": True, "auto_delete": False} == described
    assert again.admin(9, do="describe", exchange="brief")["code"] == "no-such-destination"
    assert again.admin(9, do="describe", fanout="g")["children"] == ["new", "q"]
    assert again.admin(9, do="describe", exchange="amq.direct")["bindings"] == [{"key": "k", "queue": "q"}]
    again.say(send(1, "/exchange/y/k.1", b"1", b"r"))
    assert again.stored("new") == [b"1"] and again.receipts(1) == [b"r"]


def test_what_was_taken_back_stays_so_after_a_power_cut() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new", max_messages=5)
    node.admin(9, do="declare", exchange="y")
    node.admin(9, do="declare", fanout="g", children=["new"])
    node.admin(9, do="bind", exchange="y", key="k", queue="new")
    node.admin(9, do="bind", exchange="amq.topic", key="k", queue="new")
    node.admin(9, do="unbind", exchange="amq.topic", key="k", queue="new")
    for kind, name in (("exchange", "y"), ("fanout", "g"), ("queue", "new")):
        node.admin(9, do="delete", **{kind: name})
    again = node.crashed()
    again.open(9)
    assert not again.has("new")
    for kind, name in (("exchange", "y"), ("fanout", "g"), ("queue", "new")):
        assert again.admin(9, do="describe", **{kind: name})["code"] == "no-such-destination"
    assert again.admin(9, do="describe", exchange="amq.topic")["bindings"] == []
    assert again.admin(9, do="declare", queue="new")["created"]
    assert settings_of(again, "new") == QueueSettings()


def test_what_was_given_wins_over_a_pattern_and_an_own_table_over_it() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="p.1", max_bytes=50)
    pattern = [("p.*", QueueSettings(max_messages=3, max_bytes=4))]
    by_pattern = node.crashed(declarations=replace(DECLARED, queue_patterns=pattern))
    assert settings_of(by_pattern, "p.1") == QueueSettings(max_messages=3, max_bytes=50)
    table = {**DECLARED.queues, "p.1": QueueSettings(max_redeliveries=2)}
    by_name = node.crashed(declarations=replace(DECLARED, queues=table))
    assert settings_of(by_name, "p.1") == QueueSettings(max_redeliveries=2)


def test_what_no_longer_goes_with_the_configuration_refuses_the_start() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="p.1", dedup_window_s=5)
    pattern = [("p.*", QueueSettings(persistent=False))]
    with pytest.raises(StoreError, match="/queue/p.1 was declared at run time .* does not go with config.toml"):
        node.crashed(declarations=replace(DECLARED, queue_patterns=pattern))


@pytest.mark.parametrize("dead", [QueueSettings(persistent=False), QueueSettings(dead_letter="new")])
def test_dead_letters_that_no_longer_go_with_the_configuration_refuse_the_start(dead: QueueSettings) -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new", dead_letter="dead")
    with pytest.raises(StoreError, match="/queue/new was declared at run time .* `dead_letter`"):
        node.crashed(declarations=replace(DECLARED, queues={**DECLARED.queues, "dead": dead}))
    assert node.crashed(
        declarations=replace(DECLARED, queues={**DECLARED.queues, "new": QueueSettings(), "dead": dead})
    )


def test_a_queue_of_the_configuration_that_has_gone_comes_back_only_as_that_says() -> None:
    node = node_of(queue("q", auto_delete=True))
    node.say(subscribe(1, "q"), unsubscribe(1, "q"))
    assert not node.has("q")
    assert code(node, do="declare", queue="q", max_messages=5) == "declared-otherwise"
    assert node.admin(9, do="declare", queue="q")["created"]
    assert code(node, do="delete", queue="q") == "declared"


def test_a_queue_is_described_with_its_numbers() -> None:
    node = node_of()
    for body in (b"1", b"22", b"333"):
        node.say(send(1, "q", body))
        node.wait(1)
    node.say(subscribe(1, "q"), send(1, "q", b"later", delay_ms=60_000))
    described = node.admin(9, do="describe", queue="/queue/q")
    assert described.pop("settings") == as_json(QueueSettings())
    assert described == {
        "ok": True,
        "bindings": [{"exchange": "x", "key": "a.#"}],
        "bindings_count": 1,
        "messages": 4,
        "bytes": 11,
        "ready": 2,
        "unacked": 1,
        "delayed": 1,
        "checked_out": 0,
        "consumers": 1,
        "oldest_ms": 2000,
        "exclusive_to": None,
        "active_consumer": None,
    }


def test_nothing_ready_has_no_age() -> None:
    node = node_of()
    assert node.admin(9, do="describe", queue="q")["oldest_ms"] is None
    node.say(send(1, "q", delay_ms=60_000))
    assert node.admin(9, do="describe", queue="q")["oldest_ms"] is None


def test_the_oldest_is_told_of_a_backlog_that_is_not_in_memory() -> None:
    node = node_of()
    node.say(send(1, "q"))
    again = node.crashed()
    again.open(9)
    again.wait(7)
    before = again.numbers("q")
    assert again.admin(9, do="describe", queue="q")["oldest_ms"] == 7000
    assert again.numbers("q") == before | {"oldest_ms": 7000}


@pytest.mark.parametrize(
    "more", [{}, {"queue": 1}, {"queue": "q", "fanout": "f"}, {"queue": "q", "count": 1}, {"topic": "t"}]
)
def test_what_cannot_be_described_is_refused(more: dict[str, Any]) -> None:
    assert code(node_of(), do="describe", **more) == "bad-request"


def test_what_is_not_there_cannot_be_described_or_deleted() -> None:
    node = node_of()
    for kind in ("queue", "exchange", "fanout"):
        for do in ("describe", "delete"):
            assert code(node, do=do, **{kind: "none"}) == "no-such-destination"


def test_a_queue_goes_only_if_it_may() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new")
    node.say(subscribe(1, "new"))
    assert code(node, do="delete", queue="new") == "in-use"
    node.say(send(1, "new", b"1"))
    node.say(ack(node.message(1)), unsubscribe(1, "new"), send(1, "new", b"2"))
    assert code(node, do="delete", queue="new", if_empty=True) == "not-empty"
    assert node.stored("new") == [b"2"]
    assert node.admin(9, do="delete", queue="new") == {"ok": True, "deleted": 1}
    assert not node.has("new") and node.stored("new") == []


def test_an_empty_queue_goes_if_empty() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new")
    assert node.admin(9, do="delete", queue="new", if_empty=True) == {"ok": True, "deleted": 0}


def test_a_queue_with_consumers_goes_if_it_is_said_and_they_get_no_more() -> None:
    node = node_of(Declarations(create_queues=True))
    node.say(subscribe(1, "new"), send(9, "new", b"1"))
    node.say(ack(node.message(1)))
    assert node.admin(9, do="delete", queue="new", if_unused=False) == {"ok": True, "deleted": 0}
    node.say(send(9, "new", b"2"))
    assert node.messages(1) == [] and node.stored("new") == [b"2"]
    node.say(unsubscribe(1, "new", b"r"))
    assert node.receipts(1) == [b"r"] and node.has("new")
    node.close(1)


@pytest.mark.parametrize("more", [{"if_unused": 0}, {"if_empty": "yes"}, {"if_unsed": False}])
def test_a_slip_does_not_delete(more: dict[str, Any]) -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new")
    assert code(node, do="delete", queue="new", **more) == "bad-request"
    assert node.has("new")


def test_what_the_configuration_declares_stays() -> None:
    node = node_of()
    for kind, name in (("queue", "q"), ("exchange", "x"), ("fanout", "f")):
        assert code(node, do="delete", **{kind: name}) == "declared"
    assert code(node, do="delete", exchange="amq.topic") == "reserved"


def test_what_is_declared_and_taken_back_is_logged() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new")
    node.admin(9, do="declare", queue="new")
    node.admin(9, do="declare", exchange="y", type="topic")
    node.admin(9, do="declare", fanout="g", children=["q"])
    node.admin(9, do="bind", exchange="y", key="k", queue="new")
    node.admin(9, do="bind", exchange="y", key="k", queue="new")
    node.admin(9, do="unbind", exchange="y", key="k", queue="new")
    node.admin(9, do="unbind", exchange="y", key="k", queue="new")
    for kind, name in (("fanout", "g"), ("exchange", "y"), ("queue", "new")):
        node.admin(9, do="delete", **{kind: name})
    assert [(note.event, note.fields) for note in node.notes if note.event != "administered"] == [
        ("declared", {"queue": "new"}),
        ("declared", {"exchange": "y", "type": "topic"}),
        ("declared", {"fanout": "g"}),
        ("bound", {"exchange": "y", "key": "k", "queue": "new"}),
        ("unbound", {"exchange": "y", "key": "k", "queue": "new"}),
        ("deleted", {"fanout": "g"}),
        ("deleted", {"exchange": "y"}),
        ("queue_deleted", {"queue": "new", "messages": 0}),
    ]


def test_what_is_declared_by_address_is_what_has_that_name() -> None:
    node = node_of()
    assert node.admin(9, do="declare", queue="/queue/new", dead_letter="/queue/dead")["created"]
    assert settings_of(node, "new").dead_letter == "dead" and not node.has("/queue/new")
    assert node.admin(9, do="declare", queue="/amq/queue/new", dead_letter="dead") == {
        "ok": True, "created": False, "messages": 0, "ready": 0, "consumers": 0,
    }  # fmt: skip
    assert node.admin(9, do="declare", fanout="/fanout/new", children=["/queue/q", "/queue/new"])["created"]
    assert node.broker.destinations.fanouts.all["new"].children == ("q", "new")
    assert node.admin(9, do="bind", exchange="/exchange/x", key="k", queue="/queue/new")["created"]
    node.say(send(1, "/fanout/new"), send(1, "/exchange/x/k"))
    assert node.stored("new") == [b"x", b"x"] and node.stored("q") == [b"x"]


@pytest.mark.parametrize(
    "address", ["/topic/a", "/log/a", "/exchange/a/k", "/fanout/a", "/temp-queue/a", "/reply-queue/a"]
)
def test_address_of_something_else_is_no_name_of_a_queue(address: str) -> None:
    node = node_of()
    for request in (
        {"do": "declare", "queue": address},
        {"do": "declare", "queue": "a", "dead_letter": address},
        {"do": "bind", "exchange": "x", "key": "k", "queue": address},
        {"do": "move", "from": "q", "to": address},
        *([] if address == "/log/a" else [{"do": "declare", "fanout": "f", "children": [address]}]),
    ):
        assert code(node, **request) in ("bad-request", "no-such-destination"), request
