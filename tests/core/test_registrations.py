"""Registrations: leases, their bound, and who waits for a drain. Who gets what: queues/test_registered.py."""

import pytest

from radiator.core import registrations
from radiator.core.queues.queue import Queue
from radiator.core.registrations import Registrations
from radiator.model.errors import Refusal
from radiator.model.limits import REGISTERED_STEP_S
from tests.core.node import Node
from tests.core.words import ack, queue, send, subscribe, unsubscribe

LEASE_MS = 5000


@pytest.fixture
def node() -> Node:
    node = Node(queue())
    node.open(1, 2, 9)
    return node


def all_of(node: Node) -> Registrations:
    return node.broker.parts.registrations


def q(node: Node) -> Queue:
    found = node.broker.destinations.queues.find("q")
    assert found is not None
    return found


def pass_s(node: Node, seconds: float) -> None:
    node.wait(seconds)


def is_known(node: Node, name: str = "a") -> bool:
    named = q(node).named
    return named is not None and name in named.registered


def test_one_that_never_comes_is_forgotten_after_its_lease(node: Node) -> None:
    assert all_of(node).register(q(node), "a", True, LEASE_MS)
    assert not all_of(node).register(q(node), "a", True, LEASE_MS) and all_of(node).count == 1
    pass_s(node, LEASE_MS / 1000 - 0.1)
    assert is_known(node)
    assert not all_of(node).register(q(node), "a", True, LEASE_MS)  # its heart-beat
    pass_s(node, LEASE_MS / 1000 - 0.1)
    assert is_known(node)
    pass_s(node, 0.1 + REGISTERED_STEP_S)
    assert not is_known(node) and all_of(node).count == 0 and not any(all_of(node).deadlines.buckets.values())


def test_the_lease_of_one_that_is_subscribed_does_not_run(node: Node) -> None:
    all_of(node).register(q(node), "a", True, LEASE_MS)
    node.say(subscribe(1, "q", consumer_name="a"))
    pass_s(node, 10 * LEASE_MS / 1000)
    assert is_known(node)
    node.say(unsubscribe(1, "q"))
    pass_s(node, LEASE_MS / 1000 - 0.1)
    assert is_known(node)
    node.say(subscribe(2, "q", consumer_name="a"))
    pass_s(node, 10.0)
    assert is_known(node)
    node.close(2)
    pass_s(node, LEASE_MS / 1000 + REGISTERED_STEP_S)
    assert not is_known(node)


def test_there_are_at_most_so_many(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "REGISTRATIONS_MAX", 2)
    for name in ("a", "b"):
        all_of(node).register(q(node), name, True, LEASE_MS)
    with pytest.raises(Refusal, match="2 registered consumers of all queues are away") as refused:
        all_of(node).register(q(node), "c", True, LEASE_MS)
    assert refused.value.code == "too-many-registrations"
    assert not all_of(node).register(q(node), "a", False, LEASE_MS)  # a heart-beat is none more
    all_of(node).drain(q(node), "a", 0, lambda unacked: None, lambda: False)
    assert all_of(node).register(q(node), "c", True, LEASE_MS)


def test_who_is_subscribed_registers_and_drains_however_many_are_away(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrations, "REGISTRATIONS_MAX", 1)
    all_of(node).register(q(node), "away", True, LEASE_MS)
    node.say(subscribe(1, "q", consumer_name="a"), subscribe(2, "q", consumer_name="b"))
    assert all_of(node).register(q(node), "a", True, LEASE_MS)
    answers: list[int] = []
    all_of(node).drain(q(node), "b", 0, answers.append, lambda: False)
    assert answers == [0] and (all_of(node).count, all_of(node).away_count) == (3, 1)
    node.say(unsubscribe(1, "q"))  # nobody more is waited for
    assert not is_known(node, "a") and is_known(node, "away")
    node.say(subscribe(1, "q", consumer_name="away"))
    assert all_of(node).away_count == 0 and all_of(node).register(q(node), "c", True, LEASE_MS)


def test_leases_that_are_over_together_end_some_at_a_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes the points of its keys with it: thousands in one turn would keep everybody waiting."""
    monkeypatch.setattr(registrations, "REGISTERED_ENDS_AT_ONCE", 2)
    for name in "abcde":
        all_of(node).register(q(node), name, True, LEASE_MS)
    pass_s(node, LEASE_MS / 1000 + REGISTERED_STEP_S)
    left = all_of(node).count
    assert 0 < left < 5
    all_of(node).ticked()
    assert all_of(node).count == max(0, left - 2)


def test_a_drain_is_answered_when_nothing_is_left_or_when_its_time_is_over(node: Node) -> None:
    node.say(subscribe(1, "q", prefetch_count=9, consumer_name="a"), send(9, "q", b"1"), send(9, "q", b"2"))
    first, second = node.messages(1)
    answers: list[int] = []

    def drain(wait_ms: int) -> None:
        all_of(node).drain(q(node), "a", wait_ms, answers.append, lambda: False)

    drain(0)
    assert answers == [2] and all_of(node).count == 1  # it is registered for that
    drain(1000)
    pass_s(node, 0.5)
    assert answers == [2]
    node.say(ack(first))
    pass_s(node, 0.5)
    assert answers == [2, 1]
    drain(1000)
    node.say(ack(second), send(9, "q", b"3"))
    pass_s(node, 0.25)
    assert answers == [2, 1, 0] and node.bodies(1) == [] and not all_of(node).waiting
    drain(1000)
    assert answers == [2, 1, 0, 0]
    node.say(unsubscribe(1, "q"))
    assert all_of(node).count == 0
    drain(1000)
    assert answers[-1] == 0 and all_of(node).count == 0


def test_what_it_has_counts_behind_its_unsubscribe_too(node: Node) -> None:
    """It is still at work: who ends it now has these messages delivered again."""
    node.say(subscribe(1, "q", prefetch_count=9, consumer_name="a"), send(9, "q"))
    (message,) = node.messages(1)
    answers: list[int] = []
    all_of(node).drain(q(node), "a", 60_000, answers.append, lambda: False)
    node.say(unsubscribe(1, "q"))
    pass_s(node, 1.0)
    assert answers == []
    node.say(ack(message))
    pass_s(node, 0.25)
    assert answers == [0]


def test_a_drain_does_not_wait_for_messages_of_a_queue_that_was_deleted(node: Node) -> None:
    node.say(send(9, "new"), subscribe(1, "new", consumer_name="a"))
    new = node.broker.destinations.queues.find("new")
    assert new is not None and len(node.messages(1)) == 1
    answers: list[int] = []
    all_of(node).drain(new, "a", 60_000, answers.append, lambda: False)
    pass_s(node, 0.25)
    assert answers == []
    assert node.admin(9, do="delete", queue="new", if_unused=False)["ok"]
    pass_s(node, 0.25)
    assert answers == [0]


def test_of_very_many_that_wait_for_a_drain_the_oldest_is_answered_early(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrations, "DRAINS_MAX", 2)
    node.say(subscribe(1, "q", consumer_name="a"), send(9, "q"))
    answered: list[str] = []

    def drain(name: str) -> None:
        all_of(node).drain(q(node), "a", 60_000, lambda unacked: answered.append(f"{name} {unacked}"), lambda: False)

    drain("first")
    drain("second")
    assert answered == []
    drain("third")
    assert answered == ["first 1"]
    node.say(ack(node.messages(1)[0]))
    pass_s(node, 0.25)
    assert answered == ["first 1", "second 0", "third 0"] and not all_of(node).waiting


def test_who_has_gone_waits_no_longer(node: Node) -> None:
    node.say(subscribe(1, "q", consumer_name="a"), send(9, "q"))
    all_of(node).drain(q(node), "a", 60_000, lambda unacked: None, lambda: True)
    assert len(all_of(node).waiting) == 1
    pass_s(node, 0.25)
    assert not all_of(node).waiting


def test_one_whose_queue_was_deleted_is_forgotten_with_its_lease(node: Node) -> None:
    node.say(send(9, "new"))
    new = node.broker.destinations.queues.find("new")
    assert new is not None
    all_of(node).register(new, "a", True, LEASE_MS)
    node.admin(9, do="delete", queue="new")
    assert new.is_gone
    pass_s(node, LEASE_MS / 1000 + REGISTERED_STEP_S)
    assert all_of(node).count == 0
