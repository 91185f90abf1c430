"""What is picked out of a queue, wherever it stands, while others read and take: `return` picks."""

import json
from random import Random

import pytest

from radiator.core.queues.entry import Entry
from radiator.core.queues.picking import InOneLine, Picker, take_out
from radiator.core.queues.queue import Queue
from radiator.core.states import State
from radiator.model.commands import CLIENT
from radiator.model.message import Message
from radiator.model.reads import ReadRequest
from radiator.model.settings import QueueSettings
from radiator.storage.contract import answer
from tests.core.backlogs import durable
from tests.core.keyed import KEY
from tests.core.node import Node
from tests.core.words import ack, nack, queues, send, subscribe

S = QueueSettings
GO, STAY = b"original-destination:/queue/a\n", b""


def entry(position: int) -> Entry:
    return Entry(position, Message("/queue/q", b"", 2, b"x", 1), State.READY, 1)


@pytest.mark.parametrize("picked", [{0}, {9}, {0, 9}, {3, 4, 5}, {1, 8}, {*range(10)}])
def test_those_that_are_picked_leave_a_line_and_the_others_keep_their_order(picked: set[int]) -> None:
    queue = queue_of(*range(10))
    take_out(queue.ready, picked, len(picked))
    assert [one.position for one in queue.ready] == [n for n in range(10) if n not in picked]


def queue_of(*positions: int) -> Queue:
    node = Node(queues(q=S(persistent=False)))
    queue = node.broker.destinations.queues.all["q"]
    queue.ready.extend(map(entry, positions))
    return queue


def test_what_came_back_is_a_heap_still() -> None:
    queue = queue_of(20, 21)
    queue.returned[:] = [(n, entry(n)) for n in (1, 5, 2, 9, 6, 3, 4)]
    lines = InOneLine(queue)
    lines.begin()
    for position in (1, 5, 21):
        found = lines.entry(position)
        assert found is not None
        lines.pick(found)
        assert lines.entry(position) is None, "it is picked once"
    lines.end()
    assert lines.entry(7) is None and lines.entry(99) is None
    order = []
    while (head := queue.peek_head()) is not None:
        order.append(head.position)
        queue.take_head()
    assert order == [2, 3, 4, 6, 9, 20]


def returning(node: Node) -> None:
    node.say(send(9, "/admin", b'{"do":"return","queue":"dead"}', reply_to="t"))


@pytest.mark.parametrize("luck", range(40))
@pytest.mark.parametrize(
    "dead", [S(), S(partition_key=KEY), S(persistent=False), S(persistent=False, partition_key=KEY)]
)
def test_nothing_is_lost_or_doubled_whatever_comes_between(small: None, luck: int, dead: QueueSettings) -> None:
    """The disk answers late; two returns, a consumer that takes and gives back, and SENDs go on at once."""
    random = Random(luck)
    node = Node(queues(a=S(persistent=dead.persistent), dead=dead))
    node.open(1, 2, 9)
    sent, got = 0, []

    def one_more() -> None:
        nonlocal sent
        key = b"key:%d\n" % random.randrange(12) if random.random() < 0.8 else b""
        node.say(send(1, "dead", b"%d" % sent, headers=key + random.choice([GO, GO, STAY])))
        sent += 1

    for _ in range(random.randrange(5, 60)):
        one_more()
    if random.random() < 0.7:
        node.say(subscribe(2, "dead", CLIENT, prefetch_count=random.randrange(1, 5)))
    node.auto = False
    for _ in range(150):
        does = random.choice(["read", "seal", "turn", "turn", "take", "send", "return"])
        if does == "read" and node.read_requests:
            node.answer()
        elif does == "seal" and node.being_committed is None:
            node.seal()
        elif does == "seal":
            node.commit()
        elif does == "turn":
            node.turn([])
        elif does == "send" and random.random() < 0.3:
            one_more()
        elif does == "return" and random.random() < 0.1:
            returning(node)
        elif does == "take":
            for deliver in node.messages(2):
                node.say(random.choice([ack, nack])(deliver))
                got += [] if deliver.message_id in unacked(node) else [deliver.message.body]
    node.auto = True
    node.turn([])
    node.close(2)
    node.open(2)
    assert all(json.loads(one)["ok"] for one in node.bodies(9))
    again = node.crashed() if dead.persistent else node
    again.open(3)
    left = []
    for name in ("a", "dead"):
        again.say(subscribe(3, name, prefetch_count=1, name=name.encode()))
        while out := again.messages(3):
            left += [one.message.body for one in out]
            again.say(*map(ack, out))
        assert again.numbers(name)["messages"] == node.numbers("a")["unacked"] == 0
    settled = {*(b"%d" % number for number in range(sent))} - {*left}
    assert len(left) == len({*left}) and settled <= {*got}, "in one of the queues, or acked"
    assert again.broker.destinations.windows.out == again.broker.destinations.windows.size == 0


def unacked(node: Node) -> set[bytes]:
    return {*node.broker.connections[2].unacked}


def backlog(node: Node, *words: str) -> None:
    for word in words:
        node.say(send(1, "dead", word.encode(), headers=GO if word.startswith("go") else STAY))


def test_bytes_in_memory_are_counted_of_the_window_of_stubs_and_of_what_is_behind(small: None) -> None:
    node = Node(queues(a=S(), dead=S()))
    node.open(1, 2, 9)
    backlog(node, *(f"go{n}" for n in range(4)), *(f"stay{n}" for n in range(6)), *(f"go{n}" for n in range(4, 9)))
    dead = durable(node, "dead")
    dead.window.shrink()
    assert dead.window.stubs == 6 and dead.window.beyond == 9
    returning(node)
    assert json.loads(node.message(9).message.body)["returned"] == 9
    windows = node.broker.destinations.windows
    assert windows.out == 0 and (dead.window.stubs, dead.window.beyond) == (2, 4)
    assert windows.size == dead.window.size + durable(node, "a").window.size
    assert not dead.in_doubt.taken_unread, "what is off the disk need not be remembered"


def test_how_old_the_first_one_behind_the_window_is_is_read_anew(small: None) -> None:
    node = Node(queues(a=S(), dead=S()))
    node.open(1, 2, 9)
    backlog(node, *(f"stay{n}" for n in range(6)), "go", "stay6")
    read_back = durable(node, "dead").read_back
    place = read_back.first_accepted = (read_back._first_place, 123)
    returning(node)
    assert read_back.first_accepted != place and read_back._first_place == place[0]


def asked(node: Node, picker: Picker) -> ReadRequest:
    """What a picker has read, which is not answered yet."""
    picker.ask()
    return node.broker.context.turn.read_requests.pop()


@pytest.mark.parametrize("is_loading", [False, True])
def test_what_was_read_before_others_were_picked_is_not_picked_again(small: None, is_loading: bool) -> None:
    node = Node(queues(dead=S()))
    node.open(1)
    backlog(node, *(f"stay{n}" for n in range(6)), "one", "two", "three")
    dead, through = durable(node, "dead"), node.broker.context.last_position
    first, other = dead.picker(through, None), dead.picker(through, None)
    for _ in range(2):
        for picker in (first, other):
            node.turn([answer(node.disk, asked(node, picker))])
    assert [len(one.found) for one in (first, other)] == [8, 8]
    dead.window.is_loading = is_loading
    first.begin()
    for stored in [*first.found][6:]:
        entry = first.entry(stored)
        assert entry is not None
        first.pick(entry, stored)
        assert first.entry(stored) is None
        dead.withdraw(entry)
    first.end()
    late = [*other.found][6:]
    assert [other.entry(stored) for stored in late] == [None, None]
    node.turn([])
    assert len(node.stored("dead")) == 7 and bool(dead.in_doubt.taken_unread) == is_loading
    other.begin()
    if is_loading:
        assert [other.entry(stored) for stored in late] == [None, None]
    else:
        assert not other.found and not other.is_over
        node.turn([answer(node.disk, asked(node, other))])
        assert [one.message.body for one in other.found][:1] == [b"stay0"]  # type: ignore[union-attr]


def test_only_what_is_not_newer_is_found(small: None) -> None:
    for persistent in (True, False):
        node = Node(queues(dead=S(persistent=persistent)))
        node.open(1)
        backlog(node, "one")
        dead, through = node.broker.destinations.queues.all["dead"], node.broker.context.last_position
        picker = dead.picker(through, None)
        backlog(node, "two")
        if persistent:
            node.turn([answer(node.disk, asked(node, picker))])
        else:
            picker.ask()
        assert [one.message.body for one in picker.found] == [b"one"]  # type: ignore[union-attr]
        assert picker.is_over


def test_chosen_ones_are_read_one_after_the_other(small: None) -> None:
    node = Node(queues(dead=S()))
    node.open(1)
    backlog(node, *map(str, range(5)))
    positions = sorted(position for _, position in node.disk.platter.messages)
    picker = durable(node, "dead").picker(node.broker.context.last_position, [positions[1], positions[4]])
    for body in (b"1", b"4"):
        assert not picker.is_over
        node.turn([answer(node.disk, asked(node, picker))])
        assert [picker.found.popleft().message.body] == [body] and not picker.found  # type: ignore[union-attr]
    assert picker.is_over and durable(node, "dead").picker(9, []).is_over
