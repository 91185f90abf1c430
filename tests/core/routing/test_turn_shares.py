"""Large COMMITs and batches go one a turn, first come, first served; everybody else is answered in between."""

import pytest

from radiator.model.commands import CLIENT, Closed, PublishAll, Read
from radiator.model.limits import COMMITTED_PER_TURN
from radiator.model.replies import Published
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import abort, ack, begin, commit, queue, send, subscribe

FAST = Declarations(queues={"m": QueueSettings(persistent=False), "q": QueueSettings()}, create_queues=True)


@pytest.fixture(autouse=True)
def few_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is small: a turn has more commands than COMMITs may bring messages."""
    shrink(monkeypatch, {"COMMITTED_PER_TURN": 10})


def begun(node: Node, count: int, *connections: int, to: str = "m") -> None:
    """Each has that many messages in a transaction."""
    for number in connections:
        node.say(begin(number), *(send(number, to, b"%d" % number, transaction=b"t") for _ in range(count)))


def committed(node: Node) -> list[int]:
    """Whose COMMIT is carried out."""
    return [number for number in node.inbox if node.receipts(number) == [b"c"]]


def at_once(node: Node, *connections: int) -> None:
    """One turn that begins with a COMMIT of each of them."""
    node.turn([Read(number, [commit(number, receipt=b"c")]) for number in connections])


def test_large_commits_go_one_a_turn_in_their_order_and_others_go_with_the_first() -> None:
    node = Node(FAST, auto=False)
    node.open(1, 2, 3, 4, 5)
    begun(node, 11, 3, 1, 2)
    begun(node, 1, 5)
    node.turn([*(Read(one, [commit(one, receipt=b"c")]) for one in (3, 1, 2)), Read(4, [send(4, "m", b"4", b"r")])])
    assert committed(node) == [3] and node.receipts(4) == [b"r"], "who comes behind them does not wait for them"
    assert node.again and node.paused == {1, 2}
    node.turn([])
    assert committed(node) == [1, 3] and node.again
    at_once(node, 5)
    assert committed(node) == [1, 2, 3], "one that comes later is behind them"
    node.turn([])
    assert committed(node) == [1, 2, 3, 5] and not node.again and node.paused == set()
    assert node.numbers("m")["messages"] == 35


@pytest.mark.parametrize(("counts", "first"), [((5, 5), [1, 2]), ((5, 6), [1]), ((30, 1), [1]), ((0, 30), [1, 2])])
def test_so_many_messages_of_commits_go_in_one_turn(counts: tuple[int, int], first: list[int]) -> None:
    node = Node(FAST, auto=False)
    node.open(1, 2)
    for number, count in zip((1, 2), counts, strict=True):
        begun(node, count, number)
    at_once(node, 1, 2)
    assert committed(node) == first
    node.turn([])
    assert committed(node) == [1, 2]


def test_what_it_settles_counts_too() -> None:
    node = Node(FAST, auto=False)
    node.open(1, 2)
    begun(node, 6, 1)
    node.broker.connections[1].transactions[b"t"].settled = 5
    begun(node, 1, 2)
    at_once(node, 1, 2)
    assert committed(node) == [1]


def test_the_commit_of_a_connection_that_closes_lets_the_next_go() -> None:
    node = Node(FAST, auto=False)
    node.open(1, 2, 3)
    begun(node, 11, 1, 2, 3)
    at_once(node, 1, 2, 3)
    node.turn([Closed(2)])
    assert committed(node) == [1, 3] and node.numbers("m")["messages"] == 22


def test_one_that_waits_for_room_keeps_its_place_in_that_line() -> None:
    """It goes beside another that has filled the turn: else others would take the room that it has waited for."""
    full = QueueSettings(persistent=False, max_messages=12, overflow="block")
    node = Node(Declarations(queues={"full": full, "m": QueueSettings(persistent=False)}), auto=False)
    node.open(1, 2, 3, 8, 9)
    node.say(*(send(9, "full", b"9") for _ in range(12)))
    begun(node, 11, 1, to="full")
    at_once(node, 1)
    node.say(send(3, "full", receipt=b"r"))
    assert node.paused == {1, 3}
    begun(node, 11, 2)
    node.say(subscribe(8, "full", CLIENT, prefetch_count=12))
    last = node.messages(8)[-1]
    node.turn([Read(2, [commit(2, receipt=b"c")]), Read(8, [ack(last)])])
    assert committed(node) == [1, 2]
    node.turn([])
    assert node.receipts(3) == [b"r"], "behind it"


def test_of_those_that_have_waited_for_room_too_one_goes_in_a_turn() -> None:
    full = QueueSettings(persistent=False, max_messages=12, overflow="block")
    node = Node(Declarations(queues={"a": full, "b": full}), auto=False)
    node.open(1, 2, 7, 8, 9)
    lasts = []
    for name, number, consumer in (("a", 1, 7), ("b", 2, 8)):
        node.say(*(send(9, name) for _ in range(12)), subscribe(consumer, name, CLIENT, prefetch_count=12))
        lasts.append(node.messages(consumer)[-1])
        begun(node, 11, number, to=name)
    at_once(node, 1)
    at_once(node, 2)
    assert node.paused == {1, 2}
    node.turn([Read(last.connection, [ack(last)]) for last in lasts])
    assert committed(node) == [1] and node.again
    node.turn([])
    assert committed(node) == [1, 2]


def test_one_that_waits_for_the_disk_asks_for_no_turn_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"COMMITTED_PER_TURN": 1, "BATCH_BYTES": 200})
    node = Node(queue())
    node.open(1, 2)
    node.auto = False
    node.say(send(2, "q", bytes(200)))
    node.seal()
    node.say(send(2, "q", bytes(200)))
    begun(node, 1, 1, to="q")
    at_once(node, 1)
    node.broker.wake_batch_lines()
    node.turn([])
    assert node.paused == {1} and not node.again
    node.auto = True
    node.turn([])
    assert node.paused == set() and committed(node) == [1]


@pytest.mark.parametrize(("count", "goes"), [(16, True), (17, False)])
def test_a_small_one_does_not_wait_for_large_ones(monkeypatch: pytest.MonkeyPatch, count: int, goes: bool) -> None:
    shrink(monkeypatch, {"COMMITTED_PER_TURN": COMMITTED_PER_TURN})
    node = Node(FAST, auto=False)
    node.open(1, 2, 3)
    begun(node, COMMITTED_PER_TURN, 1, 2)
    begun(node, count, 3)
    at_once(node, 1, 2, 3)
    assert committed(node) == ([1, 3] if goes else [1])


def test_batches_of_http_share_turns_with_commits() -> None:
    node = Node(FAST, auto=False)
    node.open(1, 2, 3)
    begun(node, 11, 1)
    batch = PublishAll(2, b"c", [send(2, "m") for _ in range(11)])
    single = PublishAll(3, b"c", [send(3, "m")])
    node.turn([Read(1, [commit(1, receipt=b"c")]), Read(2, [batch]), Read(3, [single])])
    assert committed(node) == [1] and node.paused == {2}
    assert [type(reply) for reply in node.take(3)] == [Published] and node.take(2) == []
    node.turn([])
    assert [type(reply) for reply in node.take(2)] == [Published] and node.numbers("m")["messages"] == 23


def test_an_abort_and_a_commit_of_nothing_never_wait() -> None:
    node = Node(FAST, auto=False)
    node.open(1, 2, 3)
    begun(node, 11, 1, 2)
    node.turn([Read(1, [commit(1, receipt=b"c")]), Read(2, [abort(2)]), Read(3, [commit(3, b"never", b"c")])])
    assert committed(node) == [1] and node.paused == set()
    assert node.refusal(3).code == "transaction"
    assert node.numbers("m")["messages"] == 11


def test_a_commit_for_the_disk_goes_once_its_turn_and_its_batch_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_WRITES": 11})
    node = Node(FAST, auto=False)
    node.open(1, 2, 3)
    begun(node, 11, 1, 2, 3, to="q")
    at_once(node, 1, 2, 3)
    seen = []
    while len(committed(node)) < 3:
        node.seal()
        node.turn([])
        node.commit()
        seen.append(committed(node))
        assert len(seen) < 6, seen
    assert [1] in seen and [1, 2] in seen
    assert node.stored("q") == [b"1"] * 11 + [b"2"] * 11 + [b"3"] * 11
