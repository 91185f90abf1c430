"""What a queue with priorities reads back: one lane at a time, the highest first."""

from collections.abc import Callable

import pytest

from radiator.model.errors import StoreError
from radiator.model.reads import KeyMessages, LoadedKeys, ReadKeys, StoredMessage
from radiator.model.settings import QueueSettings
from tests.core.backlogs import durable
from tests.core.node import Node
from tests.core.prior import back, consume, drained, is_clean, say, urgent
from tests.core.words import ack, nack, queues, send


def backlog(count: int = 12) -> Node:
    """So many of each of three priorities, after a restart."""
    node = urgent(highest=2)
    say(node, " ".join(f"{n % 3}{n:02}" for n in range(3 * count)))
    return back(node)


def counted(node: Node) -> list[ReadKeys]:
    """The reads of lanes from now on."""
    asked: list[ReadKeys] = []
    load = node.disk.load_keys

    def loaded(read: ReadKeys) -> LoadedKeys:
        asked.append(read)
        return load(read)

    node.disk.load_keys = loaded  # type: ignore[method-assign]
    return asked


def test_the_first_delivery_reads_no_more_than_it_needs(small: None) -> None:
    node = backlog()
    asked = counted(node)
    node.say(consume(1, prefetch_count=1))
    (first,) = node.messages(1)
    assert first.message.body == b"202" and len(asked) <= 2
    assert all(key[0][-1] == 2 for read in asked for key in read.keys)


def test_an_empty_lane_takes_one_read(small: None) -> None:
    node = urgent(highest=10)
    say(node, " ".join(f"0{n}" for n in range(20)))
    node = back(node)
    asked = counted(node)
    node.say(consume(1, prefetch_count=1))
    assert [read.keys[0][0][-1] for read in asked[:11]] == [*range(10, -1, -1)]
    assert drained(node).split() == [f"0{n}" for n in range(20)] and is_clean(node)


@pytest.mark.parametrize("count", [1, 4])
def test_what_comes_while_a_read_is_under_way_comes_once_and_in_order(count: int, small: None) -> None:
    node = backlog(count)
    node.auto = False
    node.say(consume(1, prefetch_count=1))
    (read,) = node.read_requests
    assert isinstance(read, ReadKeys)
    node.read_requests.clear()
    found = node.disk.load_keys(read)
    say(node, "2new 0new")
    node.turn([found])
    node.auto = True
    node.turn([])
    seen = drained(node).split()
    assert seen[: count + 1] == ["202", "205", "208", "211"][:count] + ["2new"] and seen[-1] == "0new"
    assert len(seen) == len({*seen}) == 3 * count + 2 and is_clean(node)


def test_what_is_returned_from_the_disk_comes_nowhere_else(small: None) -> None:
    node = Node(
        queues(
            q=QueueSettings(dead_letter="dead", max_redeliveries=0),
            dead=QueueSettings(max_priority=2),
        )
    )
    node.open(1, 2, 9)
    node.say(consume(1))
    say(node, " ".join(f"{n % 3}{n:02}" for n in range(18)))
    node.say(*map(nack, node.messages(1)))
    node = back(node)
    ids = [one["message_id"] for one in node.admin(9, do="peek", queue="dead", count=18)["messages"]]
    node.say(consume(2, "dead", prefetch_count=1))
    (first,) = node.messages(2)
    assert first.message.body == b"202"
    assert node.admin(9, do="return", queue="dead", message_ids=ids[-6:])["returned"] == 6
    node.say(ack(first))
    rest = drained(node, 2).split()
    assert rest == [f"{n % 3}{n:02}" for k in (2, 1, 0) for n in range(k, 12, 3)][1:]
    assert len(node.stored("q")) == 6 and is_clean(node, "dead")
    assert not durable(node, "dead").in_doubt.taken_unread


def test_a_purge_while_a_read_is_under_way(small: None) -> None:
    node = backlog()
    node.auto = False
    node.say(consume(1))
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin", correlation_id=b"1"))
    node.auto = True
    node.turn([])
    say(node, "0z")
    assert drained(node).split()[-1] == "0z" and node.numbers("q")["messages"] == 0 and is_clean(node)
    assert durable(node).window.size == 0


def test_a_damaged_one_is_reported_and_passed_over(small: None) -> None:
    node = backlog(3)
    changed(node, lambda rows: [StoredMessage(r.position, None, 0, False) if n == 1 else r for n, r in enumerate(rows)])
    node.say(consume(1, prefetch_count=1))
    seen = drained(node).split()
    assert seen[0] == "202" and "205" not in seen
    assert durable(node).damaged > 0


@pytest.mark.durability("D32")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows[:-1], "ends, but its ledger has .* further message"),
        (lambda rows: [], "ends, but its ledger has .* further message"),
        (lambda rows: rows + rows, "has message .* after message"),
        (lambda rows: rows[::-1], "has message .* after message"),
        (lambda rows: [*rows, *invented(rows)], "has more messages than its ledger"),
    ],
)
def test_messages_that_are_missing_or_double_end_the_broker(
    small: None, change: Callable[[list[StoredMessage]], list[StoredMessage]], sentence: str
) -> None:
    node = backlog()
    changed(node, change)
    with pytest.raises(StoreError, match=f"^/queue/q {sentence}"):
        node.say(consume(1, prefetch_count=1))
        drained(node)


def invented(rows: list[StoredMessage]) -> list[StoredMessage]:
    return [StoredMessage(rows[-1].position + n, rows[-1].message, 0, False) for n in range(1, 40)] if rows else []


def changed(node: Node, change: Callable[[list[StoredMessage]], list[StoredMessage]]) -> None:
    """Answers of the disk are changed, each the same way."""
    load = node.disk.load_keys

    def loaded(read: ReadKeys) -> LoadedKeys:
        answer = load(read)
        found = [change(one.messages) for one in answer.found]
        ends = [one.is_complete for one in answer.found]
        return LoadedKeys(
            answer.request, [KeyMessages(one, end or not one) for one, end in zip(found, ends, strict=True)]
        )

    node.disk.load_keys = loaded  # type: ignore[method-assign]
