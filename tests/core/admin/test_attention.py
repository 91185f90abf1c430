"""What needs somebody: each verdict, for whom, how long after, and in which order."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radiator.core.admin.attention import REST_S
from radiator.core.overview.attention import FINE, NEEDS, STILL_S, UNACKED_STILL_S
from radiator.core.rights import Rights
from radiator.model.commands import CLIENT_INDIVIDUAL, Open, Tick
from radiator.model.limits import ATTENTION_EVERY_S, ATTENTION_ITEMS, GIB
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.settings import Node as NodeSettings
from radiator.model.users import User
from tests.core.node import Node
from tests.core.words import ack, send, subscribe

CORE = Path(__file__).resolve().parents[3] / "radiator/core"


def node_of(**queues: QueueSettings) -> Node:
    node = Node(Declarations(queues=queues, create_queues=True, create_topics=True))
    node.open(1, 2, 9)
    node.wait(0.25)
    return node


def items(node: Node, connection: int = 9) -> list[tuple[str, str, str]]:
    """Kind, name and verdict, of a look that is made now."""
    node.broker.parts.overview.attention.forget()
    found = node.admin(connection, do="attention")
    assert found["ok"] and found["age_ms"] == 0
    assert all(one["sentence"].endswith((".", "?", ")")) for one in found["items"]), found
    return [(one["kind"], one["name"], one["verdict"]) for one in found["items"]]


def seconds(node: Node, count: float) -> None:
    for _ in range(int(count)):
        node.wait(1)


def verdicts_of_why() -> set[str]:
    """Those that the code gives a queue."""
    words: set[str] = set()
    for file in ("admin/why.py", "why_keys.py", "why_single.py"):
        text = (CORE / file).read_text().partition("# ---- a log")[0]
        words |= {*re.findall(r'return \(?\s*"([a-z-]+)",', text)}
    return words


def test_each_verdict_of_why_needs_somebody_or_is_said_to_be_fine() -> None:
    """A verdict that is added is added there."""
    words = verdicts_of_why()
    assert len(words) > 20 and words <= {*NEEDS, *FINE}, words - {*NEEDS, *FINE}
    assert not {*NEEDS} & FINE


def test_the_page_about_why_has_each_verdict_on_a_queue() -> None:
    page = (CORE.parents[1] / "docs/ARCHIVE.md").read_text()
    text = page.partition("| verdict | of a queue |")[2].partition("\n\n")[0]
    listed = re.findall("`([a-z-]+)`", "".join(line.split("|")[1] for line in text.splitlines() if line[:3] == "| `"))
    assert set(listed) == verdicts_of_why() and len(listed) == len(set(listed))


def test_the_table_for_operators_has_each_in_its_order() -> None:
    text = (CORE.parents[1] / "docs/OPERATING.md").read_text().partition("### What needs you")[2].partition("\n### ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert re.findall("`([a-z-]+)`", "".join(rows)) == [*NEEDS]


def test_nothing_needs_somebody_where_all_is_well() -> None:
    node = node_of(q=QueueSettings())
    node.say(send(1, "q"), subscribe(2, "q", CLIENT_INDIVIDUAL))
    assert items(node) == []
    assert node.admin(9, do="attention")["counts"] == {}


def test_a_queue_that_nobody_has_ever_taken_from_is_named_at_once_and_another_after_a_while() -> None:
    node = node_of()
    node.say(send(1, "never"), send(1, "served"), subscribe(2, "served"), *map(ack, node.messages(2)))
    node.say(*map(ack, node.messages(2)))
    node.close(2)
    node.say(send(1, "served"))
    seconds(node, STILL_S - 2)
    assert items(node) == [("queue", "never", "no-consumer")]
    seconds(node, 4)
    assert items(node) == [("queue", "never", "no-consumer"), ("queue", "served", "no-consumer")]


def test_a_window_that_is_full_for_a_minute() -> None:
    node = node_of()
    node.say(subscribe(2, "q", CLIENT_INDIVIDUAL, prefetch_count=1), send(1, "q"), send(1, "q"))
    (first,) = node.messages(2)
    seconds(node, STILL_S - 2)
    assert items(node) == []
    node.say(ack(first), send(1, "q"))
    seconds(node, STILL_S - 2)
    assert items(node) == [], "one was acked meanwhile"
    seconds(node, 4)
    assert items(node) == [("queue", "q", "window")]


def test_unacked_messages_after_ten_minutes_but_not_where_they_come_back() -> None:
    node = node_of(timed=QueueSettings(ack_timeout_s=10_000))
    node.say(
        *(subscribe(2, name, CLIENT_INDIVIDUAL, prefetch_count=5) for name in ("q", "timed")),
        send(1, "q"),
        send(1, "timed"),
    )
    seconds(node, UNACKED_STILL_S - 2)
    assert items(node) == []
    seconds(node, 4)
    assert items(node) == [("queue", "q", "unacked")]


def test_full_queues_and_producers_that_wait() -> None:
    node = node_of(
        q=QueueSettings(max_messages=1), refusing=QueueSettings(max_messages=1, overflow="reject"),
        dropping=QueueSettings(max_messages=1, overflow="drop-oldest"),
    )  # fmt: skip
    node.say(send(1, "refusing"), send(1, "dropping"), send(1, "q"), subscribe(2, "dropping"))
    assert items(node) == [("queue", "q", "full"), ("queue", "refusing", "full")]
    node.say(send(1, "q"))
    assert items(node)[0] == ("broker", "connections", "blocked")


def test_dead_letters_are_named_as_such() -> None:
    node = node_of(q=QueueSettings(dead_letter="dead"), dead=QueueSettings())
    node.say(send(1, "dead"), subscribe(2, "dead", CLIENT_INDIVIDUAL))
    assert items(node) == [("queue", "dead", "dead-letters")], "whoever reads them"


def test_what_cannot_be_read_and_what_does_not_add_up_come_first() -> None:
    node = node_of()
    node.say(send(1, "a"), send(1, "b"), send(1, "c"), send(1, "c"))
    queues = node.broker.destinations.queues.all
    queues["a"].damaged = 1
    queues["b"].ledger.accepted += 1
    assert items(node) == [("queue", "b", "does-not-add-up"), ("queue", "a", "damaged"), ("queue", "c", "no-consumer")]


def tick(node: Node, **more: Any) -> None:
    node.turn([replace(Tick(GIB, node.disk.used_bytes()), **more)])


def test_the_disk_and_certificates() -> None:
    node = node_of()
    day_s = 86_400
    tick(node, certificates_left_s={"": 30 * day_s - 1, "a:1": 30 * day_s, "b:2": -1})
    assert items(node) == [("certificate", "[tls]", "certificate"), ("certificate", "b:2", "certificate")]
    node.turn([Tick(0, GIB)])
    assert items(node) == [("broker", "disk", "disk")]


def test_nodes_that_are_not_linked() -> None:
    node = Node(node=NodeSettings(name="a", secret=b"s" * 16, peers={"b": None}))
    node.open(9)
    assert items(node) == [("peer", "b", "not-linked")]


def test_a_group_of_a_log_that_stands_still() -> None:
    node = node_of()
    node.admin(9, do="declare", log="l")
    node.admin(9, do="position", log="l", group="g", offsets=[0])
    node.say(send(1, "/log/l"))
    assert items(node) == []
    seconds(node, STILL_S)
    assert items(node) == [("log", "l", "group-still")]
    node.admin(9, do="position", log="l", group="g", offsets=[1])
    assert items(node) == []


def test_the_worst_first_and_all_are_counted() -> None:
    node = node_of(z=QueueSettings(max_messages=1))
    for number in range(ATTENTION_ITEMS + 10):
        node.say(*(send(1, f"q{number:03}") for _ in range(1 + number % 2)))
    node.say(send(1, "z"))
    found = items(node)
    assert len(found) == ATTENTION_ITEMS and found[0] == ("queue", "z", "full")
    assert [name for _, name, _ in found[1:31]] == [f"q{number:03}" for number in range(1, 60, 2)]
    assert node.admin(9, do="attention")["counts"] == {"full": 1, "no-consumer": ATTENTION_ITEMS + 10}


def test_one_look_is_for_all_and_the_next_comes_later_the_more_there_was() -> None:
    node = node_of()
    count = 1000
    for number in range(count):
        node.say(send(1, f"q{number}"))
    assert node.admin(9, do="attention")["age_ms"] == 0
    node.wait(ATTENTION_EVERY_S)
    seen = node.admin(1, do="attention")
    assert seen["age_ms"] == 5000 and seen["counts"] == {"no-consumer": count}
    node.wait(count * REST_S)
    assert node.admin(1, do="attention")["age_ms"] == 9000, "it is looked for anew, and the last is given meanwhile"
    assert node.admin(9, do="attention")["age_ms"] == 0


def with_users() -> Node:
    users = {"ann": Rules(role=OPERATOR), "bob": Rules(see=("/queue/mine", "/log/mine")), "eve": Rules()}
    node = Node(authorizer=Rights({name: User(name=name, rules=rules) for name, rules in users.items()}, 1000))
    for number, name in enumerate(users, 1):
        node.inbox[number], node.delivers[number] = [], 0
        node.turn([Open(number, principal=Principal(name, RecognisedBy.PASSWORD))])
    return node


def test_who_sees_some_gets_the_items_of_those_and_no_counts() -> None:
    node = with_users()
    node.say(send(1, "mine"), *(send(1, f"other{number}") for number in range(ATTENTION_ITEMS + 1) for _ in range(2)))
    tick(node, certificates_left_s={"": 1})
    assert len(items(node, 1)) == ATTENTION_ITEMS
    assert items(node, 2) == [("queue", "mine", "no-consumer")], "however many others come before it"
    assert node.admin(2, do="attention")["counts"] is None
    assert node.admin(1, do="attention")["counts"] == {"no-consumer": ATTENTION_ITEMS + 2, "certificate": 1}
    assert node.admin(3, do="attention")["code"] == "forbidden"


@pytest.mark.parametrize("verdict", sorted(NEEDS))
def test_how_long_each_must_last_is_one_of_three(verdict: str) -> None:
    assert NEEDS[verdict] in (0.0, STILL_S, UNACKED_STILL_S)
