"""What queues with priorities have in common; most of it is in test_priority_queues.py."""

import pytest

from radiator.core.queues.prioritized import Prioritized
from radiator.model.errors import StoreError
from radiator.model.settings import QueueSettings
from tests.core.node import Node
from tests.core.prior import consume, drained, is_clean, names, say, urgent
from tests.core.words import queues

BOTH = pytest.mark.parametrize("persistent", [True, False])


@BOTH
def test_a_queue_has_priorities_where_it_is_declared_so(persistent: bool) -> None:
    node = Node()
    node.open(1, 9)
    assert node.admin(9, do="declare", queue="q", persistent=persistent, max_priority=2)["created"]
    assert isinstance(node.broker.destinations.queues.all["q"], Prioritized)
    say(node, "0a 2a 1a")
    node.say(consume(1, prefetch_count=1))
    assert drained(node) == "2a 1a 0a"


@BOTH
def test_two_consumers_get_the_most_urgent_by_turns(persistent: bool) -> None:
    node = urgent(persistent)
    node.say(consume(1, prefetch_count=2), consume(2, prefetch_count=2))
    say(node, "0a 5a 5b 0b")
    assert (names(node, 1), names(node, 2)) == ("0a 5b", "5a 0b")


@BOTH
def test_what_is_deleted_is_forgotten(persistent: bool) -> None:
    node = urgent(persistent)
    queue = node.broker.destinations.queues.all["q"]
    say(node, "0a 5a")
    assert isinstance(queue, Prioritized)
    queue.end()
    assert not queue.priorities.entries and is_clean(node)


def test_another_max_priority_is_refused_while_messages_are_stored() -> None:
    node = urgent(highest=5)
    say(node, "5a")
    refused = (
        "/queue/q is declared {}, but 1 message of it is stored with max_priority = 5: start with max_priority = 5 "
    )
    for other, sentence in (
        (QueueSettings(max_priority=4), "with max_priority = 4"),
        (QueueSettings(), "without max_priority"),
        (QueueSettings(partition_key=("/a",)), 'with partition_key = "/a"'),
    ):
        with pytest.raises(StoreError) as error:
            node.crashed(declarations=queues(q=other))
        assert str(error.value).startswith(refused.format(sentence))
    again = node.crashed()
    again.open(1, 9)
    assert again.admin(9, do="declare", queue="q", max_priority=4)["code"] == "declared-otherwise"
    again.say(consume(1))
    assert drained(again) == "5a"
    now = again.crashed(declarations=queues(q=QueueSettings(max_priority=4)))
    now.open(1, 9)
    say(now, "0a 4a 5a")
    now.say(consume(1, prefetch_count=1))
    assert drained(now) == "4a 5a 0a"


def test_a_queue_without_priorities_that_gets_some_is_refused_while_messages_are_stored() -> None:
    node = Node(queues(q=QueueSettings()))
    node.open(9)
    say(node, "5a")
    with pytest.raises(StoreError, match="with max_priority = 4, but 1 message of it is stored without max_priority"):
        node.crashed(declarations=queues(q=QueueSettings(max_priority=4)))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_priority": 0}, "from 1 to 10"),
        ({"max_priority": 11}, "from 1 to 10"),
        ({"max_priority": 5, "partition_key": "/a"}, "remove one of the two"),
        ({"max_priority": 5, "scope": "cluster"}, "remove one of the two"),
    ],
)
def test_what_does_not_go_with_it_is_refused(settings: dict[str, object], sentence: str) -> None:
    node = Node()
    node.open(9)
    answer = node.admin(9, do="declare", queue="q", **settings)
    assert answer["code"] == "bad-request" and sentence in answer["error"]


def test_the_limits_are_taken() -> None:
    node = Node()
    node.open(9)
    for highest in (1, 10):
        assert node.admin(9, do="declare", queue=f"q{highest}", max_priority=highest)["created"]
