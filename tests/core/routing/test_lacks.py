"""What waits with thousands of messages is not planned again for each message that leaves, and yet misses nothing."""

from radiator.core.routing.lacks import TRUSTED_S, Lack
from radiator.model.commands import AUTO, Closed
from radiator.model.limits import MIB, Limits
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, begin, commit, queue, queues, send, subscribe

FULL = {"max_messages": 4, "overflow": "block"}


def lack_of(node: Node, connection: int) -> Lack | None:
    return node.broker.admission.lacks.all.get(node.broker.connections[connection])


def waiting(node: Node, to: str = "q", count: int = 4) -> Lack:
    """Connection 1 waits with a COMMIT of so many messages; connection 9 has filled `q`. Its plan is that."""
    node.open(1, 2, 9)
    for number in range(4):
        node.say(send(9, "q", b"%d" % number))
    node.say(begin(1), *(send(1, to, b"t", transaction=b"t") for _ in range(count)), commit(1, receipt=b"c"))
    assert node.paused == {1} and node.receipts(1) == []
    lack = lack_of(node, 1)
    assert lack is not None and lack.queue.name == "q"
    return lack


def consume(node: Node, count: int) -> None:
    """Connection 2 takes and acks so many, one after another."""
    for _ in range(count):
        node.say(ack(node.message(2)))


def test_a_commit_is_not_planned_again_until_all_of_it_has_room() -> None:
    for persistent in (True, False):
        node = Node(queue(persistent=persistent, **FULL))
        first = waiting(node)
        assert (first.count, first.size, first.is_commit) == (4, 4, True)
        node.say(subscribe(2, "q"))
        consume(node, 3)
        assert lack_of(node, 1) is first, "planned once"
        consume(node, 1)
        assert node.receipts(1) == [b"c"] and lack_of(node, 1) is None and node.paused == set()
        assert node.numbers("q")["messages"] == 4


def test_a_send_to_a_fanout_is_not_either() -> None:
    children = {name: QueueSettings(persistent=False, **FULL) for name in ("a", "q")}
    node = Node(Declarations(queues=children, fanouts={"f": ("a", "q")}))
    node.open(1, 2, 9)
    for number in range(4):
        node.say(send(9, "q", b"%d" % number))
    node.say(send(1, "/fanout/f", b"f", b"r"))
    first = lack_of(node, 1)
    assert first is not None and node.paused == {1}
    node.broker.blocking.wake_waiters(first.queue)
    node.turn([])
    assert lack_of(node, 1) is first
    node.say(subscribe(2, "q", AUTO))
    assert node.receipts(1) == [b"r"] and node.numbers("a")["messages"] == 1


def test_one_message_is_simply_tried_again() -> None:
    node = Node(queue(**FULL))
    node.open(1, 2, 9)
    for number in range(5):
        node.say(send(9, "q", b"%d" % number))
    node.say(begin(1), send(1, "q", b"t", transaction=b"t"), commit(1))
    assert node.paused == {1, 9} and node.broker.admission.lacks.all == {}


def test_it_is_planned_again_after_a_while_as_it_may_go_elsewhere_now() -> None:
    node = Node(queues(q=QueueSettings(persistent=False, **FULL), other=QueueSettings(persistent=False)))
    node.open(8)
    node.admin(8, do="declare", exchange="x", type="direct")
    node.admin(8, do="bind", exchange="x", queue="q", key="k")
    first = waiting(node, "/exchange/x/k")
    node.admin(8, do="unbind", exchange="x", queue="q", key="k")
    node.admin(8, do="bind", exchange="x", queue="other", key="k")
    node.say(subscribe(2, "q"))
    consume(node, 1)
    assert lack_of(node, 1) is first, "nobody has told it"
    node.now_s += TRUSTED_S
    consume(node, 1)
    assert node.receipts(1) == [b"c"] and node.numbers("other")["messages"] == 4


def test_the_queue_that_was_full_is_gone() -> None:
    node = Node(Declarations(create_queues=True))
    node.open(8)
    node.admin(8, do="declare", queue="q", max_messages=4, overflow="block")
    waiting(node)
    node.admin(8, do="delete", queue="q")
    assert node.receipts(1) == [b"c"] and node.numbers("q")["messages"] == 4, "created again by its first use"


def test_what_refuses_now_refuses_the_plan() -> None:
    node = Node(queue(persistent=False, **FULL))
    first = waiting(node)
    settings = first.queue.settings
    first.queue.settings = QueueSettings(persistent=False, max_messages=3, overflow="block")
    node.broker.blocking.wake_waiters(first.queue)
    node.turn([])
    assert settings.max_messages == 4 and node.refusal(1).code == "queue-full"


def test_it_waits_for_the_open_batch_without_being_planned_again() -> None:
    node = Node(queue(), auto=False)
    node.open(1, 2)
    node.say(begin(1), *(send(1, "q", bytes(MIB), transaction=b"t") for _ in range(3)))
    node.say(*(send(2, "q", bytes(MIB)) for _ in range(2)), commit(1, receipt=b"c"))
    first = lack_of(node, 1)
    assert first is not None and first.batch_bytes > 3 * MIB
    node.seal()
    node.say(send(2, "/topic/t"))
    assert lack_of(node, 1) is None, "the next batch has room for it"
    node.commit()
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"c"] and len(node.stored("q")) == 5


def test_it_waits_for_memory_without_being_planned_again() -> None:
    node = Node(queue(persistent=False))
    node.open(1, 2, 9)
    node.say(send(9, "q"), send(9, "q"))
    node.say(begin(1), *(send(1, "q", transaction=b"t") for _ in range(3)))
    memory = node.broker.admission.memory
    memory.tight_bytes = memory.least_bytes = memory.bound_bytes = 0
    node.say(commit(1, receipt=b"c"))
    first = lack_of(node, 1)
    assert first is not None and node.paused == {1}
    node.say(subscribe(2, "q"))
    consume(node, 1)
    assert lack_of(node, 1) is first
    memory.least_bytes = 100
    consume(node, 1)
    assert node.receipts(1) == [b"c"] and lack_of(node, 1) is None


def test_it_is_forgotten_with_its_connection() -> None:
    node = Node(queue(persistent=False, **FULL))
    waiting(node)
    node.turn([Closed(1)])
    assert node.broker.admission.lacks.all == {}


def test_it_is_forgotten_when_it_has_waited_for_too_long() -> None:
    node = Node(queue(persistent=False, **FULL), Limits(block_timeout_s=5))
    waiting(node)
    node.wait(5.1)
    assert node.refusal(1).code == "blocked" and node.broker.admission.lacks.all == {}
