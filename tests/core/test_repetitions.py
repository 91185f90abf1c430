"""Numbers that are answered again and again: when, to whom, and until when."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radiator.core.rights import Rights
from radiator.model.commands import Administer, Closed, Open, Reread, Tick
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import REPEATED_AT_ONCE, TICK_S
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.replies import Answered, Refuse, Scope
from radiator.model.rights import Rules
from radiator.model.settings import Config
from radiator.model.users import User
from radiator.protocols.http.stats_events import TOTALS
from tests.core.node import Node

GIB = 1 << 30
ANN = Principal("ann", RecognisedBy.TOKEN)


def ask(connection: int, every_s: int = 5) -> Administer:
    return Administer(connection, b"", TOTALS, ESCAPING_ALL, b"r", is_answered=True, every_s=every_s)


def joined(*connections: int, **more: Any) -> Node:
    node = Node(**more)
    for number in connections:
        node.turn([Open(number, closes_at=Scope.CONNECTION, principal=ANN)])
        node.inbox[number], node.delivers[number] = [], 0
    return node


def wait(node: Node, seconds: float) -> None:
    for _ in range(round(seconds / TICK_S)):
        node.now_s += TICK_S
        node.turn([Tick(GIB, 0)])


def answers(node: Node, connection: int = 1) -> list[Answered]:
    found = node.inbox[connection]
    node.inbox[connection] = []
    return [one for one in found if isinstance(one, Answered)]


def test_it_is_answered_at_once_and_then_each_time() -> None:
    node = joined(1)
    node.say(ask(1, 2))
    (first,) = answers(node)
    assert not first.is_again and json.loads(first.body)["uptime_s"] == 0 and "queues" not in json.loads(first.body)
    wait(node, 2 - TICK_S)
    assert answers(node) == []
    wait(node, TICK_S)
    (again,) = answers(node)
    assert again.is_again and again.receipt == b"r" and json.loads(again.body)["uptime_s"] == 2
    wait(node, 20)
    assert [json.loads(one.body)["uptime_s"] for one in answers(node)] == [4, 6, 8, 10, 12, 14, 16, 18, 20, 22]


def test_what_is_asked_once_is_answered_once() -> None:
    node = joined(1)
    node.say(ask(1, 0))
    assert len(answers(node)) == 1
    wait(node, 20)
    assert answers(node) == [] and not node.broker.parts.repetitions.by_connection


def test_who_does_not_read_gets_the_newest_when_he_does_and_no_others() -> None:
    node = joined(1)
    node.say(ask(1, 1))
    answers(node)
    node.reads_slowly.add(1)
    wait(node, 30)
    assert [json.loads(one.body)["uptime_s"] for one in answers(node)] == [1], "one is on its way, and no more"
    assert node.broker.connections[1].outbox_bytes < 8192
    node.reads_slowly.discard(1)
    wait(node, 1)
    assert json.loads(answers(node)[0].body)["uptime_s"] == pytest.approx(30, abs=2 * TICK_S + 0.01)


def test_nothing_is_kept_of_who_has_gone() -> None:
    node = joined(1)
    node.say(ask(1, 3600))
    node.turn([Closed(1, "hung up")])
    repetitions = node.broker.parts.repetitions
    assert not repetitions.by_connection and not any(repetitions.due.buckets.values())


def test_a_connection_has_one_of_them() -> None:
    node = joined(1)
    node.say(ask(1, 1))
    node.say(ask(1, 2))
    answers(node)
    wait(node, 4)
    assert len(answers(node)) == 2


def test_so_many_are_answered_at_a_tick_and_the_others_at_the_next() -> None:
    numbers = [*range(1, REPEATED_AT_ONCE + 2)]
    node = joined(*numbers)
    for number in numbers:
        node.say(ask(number, 1))
        answers(node, number)
    wait(node, 1)
    assert sum(len(answers(node, number)) for number in numbers) == REPEATED_AT_ONCE
    wait(node, TICK_S)
    assert sum(len(answers(node, number)) for number in numbers) == 1


# ---- rights


def users(*see: str) -> dict[str, User]:
    return {"ann": User(name="ann", rules=Rules(see=see))}


def reload(node: Node, found: dict[str, User]) -> None:
    declarations = replace(node.broker.destinations.declarations)
    node.turn([Reread(Config(data_dir=Path("/d"), disk_free_min=0, declarations=declarations, users=found))])


def test_who_may_not_see_everything_gets_none() -> None:
    node = joined(1, authorizer=Rights(users("/queue/#"), 1000))
    node.say(ask(1, 1))
    assert [one.code for one in answers(node)] == ["forbidden"]
    wait(node, 5)
    assert answers(node) == [] and not node.broker.parts.repetitions.by_connection


def test_a_right_that_is_taken_away_ends_it() -> None:
    node = joined(1, authorizer=Rights(users("/#"), 1000))
    node.say(ask(1, 1))
    reload(node, {**users("/#"), "bob": User(name="bob", rules=Rules())})
    wait(node, 1)
    assert [one.code for one in answers(node)] == ["", ""], "what another user lost changes nothing"
    reload(node, users("/queue/#"))
    (refuse,) = [one for one in node.inbox[1] if isinstance(one, Refuse)]
    assert (refuse.code, refuse.scope) == ("forbidden", Scope.CHANNEL)
    node.inbox[1] = []
    wait(node, 5)
    assert node.inbox[1] == []
