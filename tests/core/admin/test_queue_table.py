"""The table of queues: pages of it in any order, and who sees which queues."""

from typing import Any

import pytest

from radiator.core.admin.queue_table import ORDERED
from radiator.core.rights import Rights
from radiator.model.commands import CLIENT_INDIVIDUAL, Open
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.users import User
from tests.core.admin.asking import code, node_of, node_with
from tests.core.node import Node
from tests.core.words import send, subscribe


def names(node: Node, connection: int = 9, **asked: Any) -> list[str]:
    return [row["name"] for row in node.admin(connection, do="queue-table", **asked)["queues"]]


def with_queues(**messages: int) -> Node:
    node = node_with(0)
    for name, count in messages.items():
        node.say(*(send(1, name) for _ in range(count)))
    return node


def test_a_row_has_the_numbers_the_rates_and_why() -> None:
    node = node_of(
        Declarations(queues={"q": QueueSettings(max_messages=3, dead_letter="dead"), "dead": QueueSettings()})
    )
    node.say(send(1, "q"), send(1, "q"), send(1, "q"))
    (row,) = node.admin(9, do="queue-table", text="q")["queues"]
    assert row == {
        "name": "q", "ready": 3, "unacked": 0, "delayed": 0, "checked_out": 0, "dead": False, "in_per_s": None,
        "out_per_s": None, "consumers": 0, "oldest_ms": 0, "messages": 3, "bytes": 3, "verdict": "no-consumer",
        "sentence": node.admin(9, do="why", queue="q")["sentence"], "persistent": True, "is_full": True, "blocked": 0,
    }  # fmt: skip
    assert node.admin(9, do="queue-table", text="dead")["queues"][0]["dead"] is True


def test_rates_are_of_the_last_five_seconds() -> None:
    node = with_queues(q=0)
    node.say(subscribe(1, "q", "auto"))
    for _ in range(10):
        node.wait(1)
    node.say(*(send(1, "q") for _ in range(50)))
    for _ in range(5):
        node.wait(1)
    (row,) = node.admin(9, do="queue-table")["queues"]
    assert (row["in_per_s"], row["out_per_s"], row["verdict"]) == (10.0, 10.0, "empty")


def test_pages_by_number_with_counts() -> None:
    node = with_queues(a=1, b=3, c=2, d=3)
    page = node.admin(9, do="queue-table", sort="-ready", first=1, count=2)
    assert [row["name"] for row in page["queues"]] == ["d", "c"] and (page["count"], page["all"]) == (4, 4)
    page = node.admin(9, do="queue-table", text="A")
    assert [row["name"] for row in page["queues"]] == ["a"] and (page["count"], page["all"]) == (1, 4)
    assert names(node, first=4) == [] and names(node, match="c") == ["c"] and names(node, sort="name") == [*"abcd"]


def test_a_page_far_behind_is_there() -> None:
    node = node_with(0)
    for number in range(ORDERED + 2):
        node.broker.destinations.queues.get(f"q{number:05}")
    assert names(node, sort="name", first=ORDERED - 1, count=2) == [f"q{ORDERED - 1:05}", f"q{ORDERED:05}"]
    assert names(node, sort="-name", first=ORDERED + 1) == ["q00000"]


def test_only_those_that_need_somebody() -> None:
    node = with_queues(lonely=1, served=1)
    node.say(subscribe(1, "served", CLIENT_INDIVIDUAL))
    page = node.admin(9, do="queue-table", filter="needs")
    assert [row["name"] for row in page["queues"]] == ["lonely"] and (page["count"], page["all"]) == (1, 2)
    assert names(node, filter="needs", text="served") == []


@pytest.mark.parametrize("asked", [
    {"sort": "size"}, {"sort": "--ready"}, {"count": 0}, {"count": 201}, {"first": -1}, {"text": "t" * 256},
    {"filter": "all"}, {"limit": 1},
])  # fmt: skip
def test_a_wrong_page_is_refused(asked: dict[str, Any]) -> None:
    assert code(node_with(0), do="queue-table", **asked) == "bad-request"


def with_users() -> Node:
    users = {
        "ann": Rules(role=OPERATOR),
        "bob": Rules(see=("/queue/mine.#",), read=("/queue/#",)),
        "eve": Rules(read=("/queue/#",)),
    }
    node = Node(authorizer=Rights({name: User(name=name, rules=rules) for name, rules in users.items()}, 1000))
    for number, name in enumerate(users, 1):
        node.inbox[number], node.delivers[number] = [], 0
        node.turn([Open(number, principal=Principal(name, RecognisedBy.PASSWORD))])
    node.say(*(send(1, name) for name in ("mine.a", "mine.b", "other", "other")))
    return node


def test_who_sees_some_gets_those_and_they_are_counted() -> None:
    node = with_users()
    assert names(node, 1) == ["other", "mine.a", "mine.b"]
    page = node.admin(2, do="queue-table", sort="-name", count=1)
    assert [row["name"] for row in page["queues"]] == ["mine.b"] and (page["count"], page["all"]) == (2, 2)
    assert names(node, 2, text="other") == [] and names(node, 2, filter="needs") == ["mine.a", "mine.b"]
    assert node.admin(3, do="queue-table")["code"] == "forbidden"


def test_one_that_goes_meanwhile_has_no_row() -> None:
    node = with_queues(a=1, b=1)
    assert names(node) == ["a", "b"]
    node.admin(9, do="delete", queue="a")
    assert names(node) == ["b"]
