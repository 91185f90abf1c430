"""What comes in, waits or is refused: bounds, overflow, fanout, transactions, dedup-id, rooms."""

import pytest

from radiator.model.commands import AUTO, Send, Tick
from radiator.model.limits import MIB
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, queue, queues, send, subscribe


def fill(node: Node, count: int, first: int = 0, connection: int = 9, **more: object) -> None:
    for number in range(first, first + count):
        node.say(send(connection, "q", b"%d" % number, **more))


@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_commit_waits_for_what_it_must_drop_to_reach_the_disk(overflow: str) -> None:
    before = Node(queue(overflow=overflow, max_messages=3, dead_letter="dead"))
    before.open(9)
    fill(before, 1)
    node = before.crashed()
    node.auto = False
    node.open(1, 8, 9)
    fill(node, 2, 1)  # behind what is not read back yet, so not in memory
    node.say(begin(9))
    fill(node, 2, 3, transaction=b"t")
    node.say(commit(9, receipt=b"r"), send(8, "q", b"5", b"s"))
    node.seal()
    while node.read_requests:
        node.answer()
    assert node.paused == {8, 9} and node.numbers("q")["accepted"] == 3, "nothing of it has happened"
    node.say(send(1, "/topic/t", b"x", b"t"))
    assert node.receipts(1) == [b"t"], "nobody else waits"
    node.auto = True
    node.commit()
    node.turn([])
    assert node.paused == set() and (node.receipts(9), node.receipts(8)) == ([b"r"], [b"s"])
    assert node.stored("q") == [b"3", b"4", b"5"]


def test_who_sends_many_copies_lets_others_go_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its SENDs fills a batch; whoever came behind the first has one of the next batches."""
    shrink(monkeypatch, {"BATCH_WRITES": 4})
    children = {f"c{number}": QueueSettings() for number in range(6)}
    node = Node(Declarations(queues=children, fanouts={"f": tuple(children)}, create_queues=True), auto=False)
    node.open(1, 2)
    node.say(*(send(1, "/fanout/f", b"%d" % number) for number in range(5)))
    node.say(send(2, "q", b"small", b"r"))
    batches = 0
    while not node.receipts(2):
        if node.being_committed is not None:
            node.commit()
            batches += 1
        node.turn([])
        node.seal()
        assert batches <= 4, "behind one batch of the other's at most"
    node.auto = True
    node.turn([])
    assert node.stored("c0") == [b"%d" % number for number in range(5)]


def test_open_batch_takes_no_further_send_past_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 10_000})
    node = Node(auto=False)
    node.open(1, 2, 9)
    node.say(subscribe(1, "other"))
    for number in range(9):
        node.say(send(9, "q", bytes(1000), b"%d" % number))
    assert node.paused == set()
    node.say(send(9, "q", bytes(1000), b"9"), send(2, "q", b"small", b"s"))
    assert node.paused == {9, 2}, "the small one waits behind the one that came first"
    node.seal()
    node.turn([])
    assert node.paused == set()
    node.commit()
    assert node.receipts(9) == [b"%d" % n for n in range(9)]
    node.seal()
    node.commit()
    assert node.receipts(9)[-1] == b"9" and node.receipts(2) == [b"s"]


def test_open_batch_takes_no_further_send_past_its_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_WRITES": 3})
    node = Node(auto=False)
    node.open(1)
    node.say(subscribe(1, "q"))
    node.seal()
    node.commit()
    for number in range(3):
        node.say(send(1, "q", b"x", b"%d" % number))
    assert node.paused == set()
    node.say(send(1, "q", b"x", b"3"))
    assert node.paused == {1}
    node.seal()
    node.turn([])
    assert node.paused == set()
    node.commit()
    assert node.receipts(1) == [b"0", b"1", b"2"]


def test_whole_line_moves_into_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 10_000})
    node = Node(auto=False)
    node.open(1)
    for number in range(27):
        node.say(send(1, "q", bytes(1000), b"%d" % number))
    commits = 0
    while node.seal():
        node.turn([])
        node.commit()
        commits += 1
    assert node.receipts(1) == [b"%d" % n for n in range(27)] and commits <= 4


def test_single_send_larger_than_a_batch_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 10_000})
    node = Node(auto=False)
    node.open(1, 2, 9)
    node.say(subscribe(1, "acked", prefetch_count=100))
    for _ in range(10):
        node.say(send(2, "acked"))
    node.seal()
    node.commit()
    out = node.messages(1)
    node.say(ack(out[0]), send(9, "q", bytes(50_000), b"large"))
    assert node.paused == set(), "acks in the batch do not keep it out"
    node.seal()
    node.commit()
    assert node.receipts(9) == [b"large"]


@pytest.mark.durability("D10")
def test_acks_and_dead_letters_go_on_while_sends_wait_for_the_disk() -> None:
    node = Node(queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0), memory=QueueSettings(persistent=False)))
    node.open(1, 2, 3, 9)
    node.say(subscribe(1, "q", prefetch_count=9))
    fill(node, 3)
    out = node.messages(1)
    node.turn([Tick(0, node.broker.parts.disk.high_water_bytes + 1)])
    node.say(send(9, "q", b"late", b"r"))
    assert node.paused == {9}
    node.say(ack(out[0], b"1"))
    node.say(Send(2, "/queue/memory", b"", 2, b"m", b"m"), Send(3, "/topic/t", b"", 2, b"t", b"t"))
    assert (node.receipts(1), node.receipts(2), node.receipts(3)) == ([b"1"], [b"m"], [b"t"])
    node.close(1)
    assert node.numbers("dead")["messages"] == 2
    node.turn([Tick(10**12, 0)])
    assert node.paused == set() and node.receipts(9) == [b"r"]
    assert [n.event for n in node.notes if n.event.startswith("disk")] == ["disk_tight", "disk_has_room"]


def fanout(**settings: QueueSettings) -> Node:
    children = {"a": QueueSettings(), "b": QueueSettings(), **settings}
    return Node(Declarations(queues=children, fanouts={"f": tuple(children)}, create_queues=True), auto=False)


def test_frames_up_to_the_largest_size_come_in() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), send(9, "q", bytes(16 * MIB), b"r"))
    assert node.receipts(9) == [b"r"] and len(node.message(1).message.body) == 16 * MIB


@pytest.mark.parametrize("children", [("a", "b"), ("b", "a")])
def test_a_copy_waits_behind_others_in_whichever_of_its_queues_they_wait(children: tuple[str, ...]) -> None:
    bounded = QueueSettings(max_bytes=100, overflow="block")
    node = Node(Declarations(queues={"a": QueueSettings(), "b": bounded}, fanouts={"f": children}))
    node.open(1, 2, 3)
    node.say(send(1, "b", b"x" * 50), send(2, "b", b"x" * 80))
    assert node.paused == {2}
    node.say(send(3, "/fanout/f", b"y"))
    assert node.paused == {2, 3} and node.stored("a") == [], "there is room for it, and who came first is not overtaken"
    node.say(subscribe(1, "b", AUTO))
    assert node.paused == set() and node.bodies(1) == [b"x" * 50, b"x" * 80, b"y"] and node.stored("a") == [b"y"]
