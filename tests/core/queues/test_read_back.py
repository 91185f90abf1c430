"""What of a queue is on the disk alone is read back in stretches, in order, and never twice."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from radiator.model.commands import AUTO, CLIENT, Committed
from radiator.model.errors import StoreError
from radiator.model.reads import Loaded, ReadQueue, StoredMessage
from tests.core.backlogs import drained, durable, fill, numbered
from tests.core.node import Node
from tests.core.words import ack, send, subscribe, unsubscribe


def in_a_turn(node: Node, do: Callable[[], None]) -> None:
    """As an answer to a request would."""
    node.broker.context.open.then.append(do)
    node.turn([])


def oldest_ms(node: Node) -> int | None:
    answer: list[int | None] = []
    in_a_turn(node, lambda: node.broker.destinations.queues.all["q"].read_oldest_age(answer.append))
    (age_ms,) = answer
    return age_ms


def test_age_is_read_back_where_nothing_of_the_queue_is_in_memory() -> None:
    node = Node()
    node.open(9)
    node.say(send(9, "q"), send(9, "q"))
    node.wait(3)
    again = node.crashed()
    assert oldest_ms(again) == 3000


@pytest.mark.parametrize("mode", [AUTO, CLIENT])
def test_messages_far_beyond_the_window_come_in_order(small: None, mode: str) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 100)
    assert len(durable(node).ready) <= 6 and durable(node).window.beyond == 94
    node.say(subscribe(1, "q", mode))
    assert (node.bodies(1) if mode == AUTO else drained(node)) == numbered(0, 100)
    assert node.stored("q") == [] and node.numbers("q")["acked"] == 100


def uncommitted_beyond(node: Node) -> ReadQueue:
    """The window is drained while what is beyond it is being committed, and a load has been asked for."""
    node.open(1, 9)
    fill(node, 6)
    node.say(subscribe(1, "q", AUTO))
    node.say(unsubscribe(1, "q"))
    assert node.bodies(1) == numbered(0, 6)
    fill(node, 12, 6)
    node.auto = False
    fill(node, 15, 12)
    node.seal()
    node.say(subscribe(1, "q", CLIENT, prefetch_count=100))
    (load,) = node.read_requests
    assert isinstance(load, ReadQueue)
    return load


def test_load_that_finds_nothing_waits_for_the_commit(small: None) -> None:
    node = Node()
    load = uncommitted_beyond(node)
    node.answer()
    assert node.bodies(1) == numbered(6, 12)
    node.turn([])
    assert load.after and not node.read_requests
    node.commit()
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(12, 15)


def test_load_that_finds_nothing_and_is_answered_after_the_commit_is_asked_again(small: None) -> None:
    node = Node()
    uncommitted_beyond(node)
    load = node.read_requests.pop(0)
    assert isinstance(load, ReadQueue)
    found = node.disk.load(load)
    batch, node.being_committed = node.being_committed, None
    assert batch is not None
    node.disk.commit(batch.writes)
    node.turn([Committed(batch.number)])
    node.turn([found])
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(6, 15), "nothing may be left behind when no further commit comes"


def test_damaged_record_is_reported_stays_and_is_never_delivered(small: None) -> None:
    node = Node()
    node.open(9)
    fill(node, 8)
    again = node.crashed()
    real = again.disk.load

    def load(asked: ReadQueue) -> Loaded:
        stored = real(asked)
        for one in stored.messages:
            if one.message is not None and one.message.body in (b"2", b"3"):
                one.message = None
        return stored

    again.disk.load = load  # type: ignore[method-assign]
    again.open(1)
    again.say(subscribe(1, "q"))
    assert drained(again) == [b"0", b"1", *numbered(4, 8)]
    assert again.stored("q") == [b"2", b"3"] and again.numbers("q")["damaged"] == 2
    assert [n.fields["queue"] for n in again.notes if n.event == "damaged_record"] == ["q", "q"]


def backlog(change: Callable[[list[StoredMessage]], list[StoredMessage]]) -> Node:
    """20 messages on the disk, in a store whose rows come as `change` makes them."""
    node = Node()
    node.open(9)
    fill(node, 20)
    again = node.crashed()
    real = again.disk.load

    def load(asked: ReadQueue) -> Loaded:
        rows = change(real(replace(asked, after=0, messages_max=99, bytes_max=1 << 30)).messages)
        start = next((at for at, row in enumerate(rows) if row.position > asked.after), len(rows))
        found = rows[start : start + asked.messages_max]
        return Loaded(asked.request, found, has_more=start + len(found) < len(rows))

    again.disk.load = load  # type: ignore[method-assign]
    again.open(1, 9)
    return again


def moved(rows: list[StoredMessage], source: int, target: int) -> list[StoredMessage]:
    rows.insert(target, rows.pop(source))
    return rows


def twice(rows: list[StoredMessage], source: int, target: int) -> list[StoredMessage]:
    rows.insert(target, rows[source])
    return rows


def one_more(rows: list[StoredMessage]) -> list[StoredMessage]:
    return [*rows, replace(rows[-1], position=rows[-1].position + 1)]


@pytest.mark.durability("D32")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows[:3] + rows[5:], "ends after message .*, but its ledger has 2 further messages"),
        (lambda rows: rows[:-1], "ends after message .*, but its ledger has 1 further message"),
        (lambda rows: [], "ends after message 0, but its ledger has 20 further messages"),
        (lambda rows: moved(rows, 4, 2), "has message .* after message"),
        (lambda rows: moved(rows, 2, 15), "has message .* after message|ends after message"),
        (lambda rows: twice(rows, 3, 5), "has message .* after message|more messages than its ledger"),
        (lambda rows: twice(rows, 3, 4), "has message .* after message"),
        (one_more, "has more messages than its ledger"),
    ],
)
def test_messages_that_are_missing_double_or_out_of_order_end_the_broker(
    small: None, change: Callable[[list[StoredMessage]], list[StoredMessage]], sentence: str
) -> None:
    node = backlog(change)
    with pytest.raises(StoreError, match=f"^/queue/q ({sentence})"):
        node.say(subscribe(1, "q"))
        drained(node)


@pytest.mark.parametrize("what", ["purge", "evict"])
def test_missing_messages_are_not_counted_as_gone(small: None, what: str) -> None:
    node = backlog(lambda rows: rows[:3] + rows[5:])
    with pytest.raises(StoreError, match="further message"):
        node.admin(9, do="purge", queue="q") if what == "purge" else (node.say(subscribe(1, "q")), drained(node))


def test_a_sound_backlog_that_is_consumed_filled_purged_and_filled_again_never_ends_the_broker(small: None) -> None:
    node = backlog(lambda rows: rows)
    node.say(subscribe(1, "q", prefetch_count=3))
    for number in range(20, 60):
        fill(node, number + 1, number)
        for deliver in node.messages(1)[:2]:
            node.say(ack(deliver))
    node.admin(9, do="purge", queue="q")
    fill(node, 90, 60)
    drained(node)
    assert node.numbers("q")["adds_up"]
