"""A head that another message leaves behind has its time at once, whichever way the other went: before a Tick, and
before the batch of the other is on the disk.
"""

from typing import Any

import pytest

from radiator.model.commands import AUTO, Read
from radiator.model.limits import STEP_MESSAGES
from radiator.model.settings import DROP_OLDEST, QueueSettings
from tests.core.node import Node
from tests.core.queue_kinds import KINDS
from tests.core.words import begin, commit, queues, send, subscribe

EACH = pytest.mark.parametrize("kind", KINDS)


def made(kind: str, **more: Any) -> Node:
    """The queue `q`; 9 sends and asks. What is asked for from now on is not on the disk before the test says so."""
    node = Node(queues(q=QueueSettings(**(KINDS[kind] | more)), other=QueueSettings()))
    node.open(1, 2, 9)
    return node


def two(node: Node, headers: bytes = b"") -> None:
    """The first one stays for ever, the second one expires in 500 ms; the second is not the head."""
    node.say(send(9, "q", b"first", headers=headers))
    node.say(send(9, "q", b"second", headers=b"key:k\n", expires_ms=node.now_ms + 500))
    assert node.wake_in_s is None
    node.auto = False


def ask(node: Node, **request: object) -> None:
    """What /admin is asked for has begun, and nothing of it is on the disk."""
    body = str(request).replace("'", '"').encode()
    node.say(send(9, "/admin", body, reply_to="t"))
    for _ in range(5):
        node.turn([])
        while node.read_requests:
            node.answer()


def is_handled_at_its_time(node: Node) -> bool:
    """Without a Tick and without a commit."""
    assert node.wake_in_s == pytest.approx(0.5), node.wake_in_s
    node.wake()
    node.turn([])
    return node.broker.destinations.queues.all["q"].ledger.expired == 1


@EACH
def test_what_is_moved_leaves_one_behind(kind: str) -> None:
    node = made(kind)
    two(node)
    ask(node, **{"do": "move", "from": "q", "to": "other", "count": 1})
    assert is_handled_at_its_time(node)


@EACH
def test_so_does_a_dead_letter_that_goes_back(kind: str) -> None:
    node = made(kind)
    two(node, b"original-destination:/queue/other\n")
    ask(node, do="return", queue="q", count=1)
    assert is_handled_at_its_time(node)


@pytest.mark.parametrize("kind", ["durable", "keys"])  # others cannot be checked out
def test_so_does_what_is_checked_out(kind: str) -> None:
    node = made(kind)
    two(node)
    ask(node, do="checkout", queue="q", group="g", max_messages=1)
    assert is_handled_at_its_time(node)


@EACH
def test_so_does_the_oldest_that_makes_room_for_another(kind: str) -> None:
    node = made(kind, max_messages=2, overflow=DROP_OLDEST)
    two(node)
    node.say(send(9, "q", b"third"))
    assert is_handled_at_its_time(node)


def test_so_does_one_that_may_not_wait_and_came_behind_it() -> None:
    node = made("priorities-memory")
    low = send(9, "q", b"low", expires_ms=node.now_ms)
    high = send(9, "q", b"high", headers=b"priority:5\n", expires_ms=node.now_ms)
    node.turn([Read(9, [low, high])])
    ledger = node.broker.destinations.queues.all["q"].ledger
    assert (ledger.expired, ledger.stored, node.wake_in_s) == (2, 0, None)


def test_a_dead_letter_in_memory_has_its_time_before_its_batch_is_on_the_disk() -> None:
    dead = QueueSettings(persistent=False, message_ttl_ms=500)
    node = Node(queues(q=QueueSettings(dead_letter_exchange="", dead_letter_key="dead"), dead=dead))
    node.open(1, 2, 9)
    node.say(send(9, "q", b"x", expires_ms=node.now_ms + 200))
    node.auto = False
    node.wake()
    node.turn([])
    assert node.now_ms % 1000 == 200 and node.wake_in_s == pytest.approx(0.5)
    node.wake()
    node.turn([])
    assert node.broker.destinations.queues.all["dead"].ledger.expired == 1


def test_a_head_that_came_before_expired_ones_in_a_full_turn_has_its_time(small: None) -> None:
    node = made("priorities-memory")
    for number in range(3):
        node.say(send(9, "q", b"due", headers=b"priority:5\n", delay_ms=102 + number, expires_ms=node.now_ms + 900))
    node.say(send(9, "q", b"over", expires_ms=node.now_ms + 101))
    node.wake()
    queue = node.broker.destinations.queues.all["q"]
    assert node.now_ms % 1000 == 110 and not queue.is_expiring and node.wake_in_s == pytest.approx(0.79)
    node.wake()
    assert queue.ledger.expired == 4 and node.bodies(1) == []
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == []


@pytest.mark.parametrize("persistent", [True, False])
def test_so_does_what_a_transaction_pushes_out(persistent: bool) -> None:
    bounds = {"max_messages": 3, "bounds_count": "ready", "overflow": DROP_OLDEST}
    node = Node(queues(q=QueueSettings(persistent=persistent, **bounds)))  # type: ignore[arg-type]
    node.open(9)
    sends = [send(9, "q", transaction=b"t") for _ in range(STEP_MESSAGES // 2)]
    last = [send(9, "q", transaction=b"t", expires_ms=node.now_ms + 500) for _ in range(3)]
    node.say(begin(9, b"t"), *sends, *last, commit(9, b"t"))
    assert node.numbers("q")["dropped"] == STEP_MESSAGES // 2
    assert node.wake_in_s == pytest.approx(0.5)
