"""The window of a persistent queue, and the disk behind it: every edge of paging, with small bounds."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from radiator.core.queues.durable_queue import DurableQueue
from radiator.model.commands import AUTO, CLIENT, Committed, Loaded, StoredMessage
from radiator.model.errors import StoreError
from radiator.model.reads import ReadQueue
from radiator.model.settings import QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queue, queues, send, subscribe, unsubscribe


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def fill(node: Node, end: int, first: int = 0) -> None:
    for body in numbered(first, end):
        node.say(send(9, "q", body))


def durable(node: Node, name: str = "q") -> DurableQueue:
    found = node.broker.destinations.queues[name]
    assert isinstance(found, DurableQueue)
    return found


def drained(node: Node, connection: int = 1) -> list[bytes]:
    """What a consumer gets that acks one after another."""
    seen = []
    while out := node.messages(connection):
        for deliver in out:
            seen.append(deliver.message.body)
            node.say(ack(deliver))
    return seen


@pytest.mark.durability("D2")
def test_unsynced_message_is_not_delivered() -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO), send(9, "q"))
    node.seal()
    assert node.messages(1) == []
    node.commit()
    assert node.bodies(1) == [b"x"]


def test_unsynced_message_is_not_delivered_beyond_the_window_either(small: None) -> None:
    node = Node(auto=False)
    node.open(1, 9)
    fill(node, 20)
    node.say(subscribe(1, "q", AUTO))
    while node.read_requests:
        node.answer()
    assert node.messages(1) == []
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(0, 20)


@pytest.mark.parametrize("mode", [AUTO, CLIENT])
def test_messages_far_beyond_the_window_come_in_order(small: None, mode: str) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 100)
    assert len(durable(node).ready) <= 6 and durable(node).window.beyond == 94
    node.say(subscribe(1, "q", mode))
    assert (node.bodies(1) if mode == AUTO else drained(node)) == numbered(0, 100)
    assert node.stored("q") == [] and node.numbers("q")["acked"] == 100


def test_new_messages_line_up_behind_what_is_beyond(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 10)
    node.say(subscribe(1, "q"))
    seen = []
    for number in range(10, 40):
        fill(node, number + 1, number)
        (deliver,) = node.messages(1)
        seen.append(deliver.message.body)
        node.say(ack(deliver))
    assert seen + drained(node) == numbered(0, 40)


def test_bodies_in_memory_are_bounded_whatever_the_backlog(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_MESSAGES": 1000, "WINDOW_BYTES": 2500, "LOAD_BYTES": 1200})
    node = Node()
    node.open(1, 9)
    for number in range(50):
        node.say(send(9, "q", b"%d" % number + bytes(500)))
    assert node.broker.destinations.windows.size <= 2500
    node.say(subscribe(1, "q"))
    seen = []
    while out := node.messages(1):
        seen.append(out[0].message.body.rstrip(b"\0"))
        assert node.broker.destinations.windows.size <= 2500 + 1200
        node.say(ack(out[0]))
    assert seen == numbered(0, 50)
    assert node.broker.destinations.windows.size == node.broker.destinations.windows.out == 0


def test_empty_window_takes_one_message_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_BYTES": 100, "LOAD_BYTES": 100})
    node = Node()
    node.open(1, 9)
    for number in range(3):
        node.say(send(9, "q", b"%d" % number + bytes(1000)))
    assert len(durable(node).ready) == 1
    node.say(subscribe(1, "q"))
    assert [body[:1] for body in drained(node)] == numbered(0, 3)


def test_all_windows_together_are_bounded(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOWS_BYTES": 3000, "LOAD_BYTES": 1000})
    node = Node()
    node.open(1, 9)
    for number in range(20):
        for name in "abcdefgh":
            node.say(send(9, name, b"%d" % number + bytes(500)))
    windows = node.broker.destinations.windows
    assert windows.size <= 3000 + 8 * 502
    for name in "abcdefgh":
        node.say(subscribe(1, name, name=name.encode()))
        assert [body.rstrip(b"\0") for body in drained(node)] == numbered(0, 20)
        node.say(unsubscribe(1, name))
    assert windows.size == windows.out == 0


def test_returned_message_goes_out_before_what_follows_it(small: None) -> None:
    node = Node()
    node.open(1, 2, 9)
    fill(node, 30)
    node.say(subscribe(2, "q", prefetch_count=3))
    node.messages(2)
    node.say(subscribe(1, "q"))
    seen = []
    for _ in range(10):
        (deliver,) = node.messages(1)
        seen.append(deliver.message.body)
        node.say(ack(deliver))
    assert seen == numbered(3, 13)
    (held,) = node.messages(1)
    node.close(2)
    node.say(ack(held))
    assert [held.message.body, *drained(node)] == [b"13", *numbered(0, 3), *numbered(14, 30)]


def test_nacks_and_acks_between_loads_keep_the_order(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 40)
    node.say(subscribe(1, "q", prefetch_count=3))
    acked = []
    times: dict[bytes, int] = {}
    while out := node.messages(1):
        for deliver in reversed(out):
            body = deliver.message.body
            times[body] = times.get(body, 0) + 1
            assert deliver.redeliveries == times[body] - 1
            if int(body) % 3 == 0 and times[body] == 1:
                node.say(nack(deliver))
            else:
                acked.append(body)
                node.say(ack(deliver))
    assert sorted(acked, key=int) == numbered(0, 40) and node.stored("q") == []


def test_restart_finds_a_backlog_whole_and_in_order(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 30)
    node.say(subscribe(1, "q"))
    for _ in range(7):
        node.say(ack(node.message(1)))
    again = node.crashed()
    again.open(1, 9)
    fill(again, 35, 30)
    again.say(subscribe(1, "q"))
    assert drained(again) == numbered(7, 35)


def test_message_ids_of_an_earlier_run_stay(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(send(9, "q"), subscribe(1, "q"))
    before = node.message(1).message_id
    again = node.crashed()
    again.open(1)
    again.say(subscribe(1, "q"))
    deliver = again.message(1)
    assert deliver.message_id == before == b"feedfacecafebeef-1-%d" % int(before.split(b"-")[2])
    again.say(ack(deliver, b"r"))
    assert again.receipts(1) == [b"r"]


def uncommitted_beyond(node: Node) -> ReadQueue:
    """The window is drained while what is beyond it is at sea, and a load has been asked for."""
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


def test_put_keeps_its_place_behind_an_entry_that_is_still_storing(small: None) -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO))
    fill(node, 4)
    node.seal()
    fill(node, 20, 4)
    node.commit()
    assert node.bodies(1) == numbered(0, 4)
    node.auto = True
    node.turn([])
    assert node.bodies(1) == numbered(4, 20)


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


# ---- purge ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 6, 7, 10, 11, 50])
def test_purge_lets_go_of_all_but_what_is_in_flight(small: None, count: int) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=2))
    fill(node, 2)
    out = node.messages(1)
    fill(node, 2 + count, 2)
    assert node.admin(9, do="purge", queue="q") == {"ok": True, "purged": count}
    assert node.stored("q") == [b"0", b"1"] and node.numbers("q")["purged"] == count
    node.say(nack(out[0]))
    assert node.bodies(1) == [b"0"]


def test_purge_spares_what_is_accepted_after_it(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 20)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
    fill(node, 25, 20)
    node.auto = True
    node.turn([])
    assert node.stored("q") == numbered(20, 25)
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(20, 25)


def test_purge_reaches_messages_that_are_still_storing(small: None) -> None:
    node = Node(auto=False)
    node.open(1, 9)
    fill(node, 3)
    node.seal()
    fill(node, 5, 3)
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
    node.auto = True
    node.turn([])
    assert node.stored("q") == [] and node.numbers("q")["purged"] == 5


def test_two_purges_at_once_are_both_answered(small: None) -> None:
    node = Node()
    node.open(8, 9)
    fill(node, 30)
    node.auto = False
    for connection in (8, 9):
        node.say(send(connection, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
    node.auto = True
    node.turn([])
    assert len(node.messages(8)) == len(node.messages(9)) == 1 and node.stored("q") == []


def test_long_purge_goes_in_batches(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.open(9)
    fill(node, 100)
    shrink(monkeypatch, {"BATCH_BYTES": 640})
    node.disk.commits = 0
    assert node.admin(9, do="purge", queue="q")["purged"] == 100
    assert node.disk.commits >= 5


# ---- with transactions and restarts ---------------------------------------------------------------------------------


def test_transaction_larger_than_the_window_arrives_whole_and_in_order(small: None) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q"), begin(9))
    for body in numbered(0, 20):
        node.say(send(9, "q", body, transaction=b"t"))
    node.say(commit(9, receipt=b"c"))
    assert node.receipts(9) == [b"c"] and drained(node) == numbered(0, 20)


def test_ledger_survives_restarts_and_adds_up(small: None) -> None:
    node = Node(
        queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0, max_messages=20, overflow="drop-oldest"))
    )
    node.open(1, 9)
    fill(node, 22)
    node.say(subscribe(1, "q", prefetch_count=3))
    out = node.messages(1)
    node.say(ack(out[0]), nack(out[1]))
    before = node.numbers("q")
    again = node.crashed()
    after = again.numbers("q")
    columns = ("accepted", "stored", "acked", "expired", "dropped", "purged", "dead_lettered", "stored_bytes")
    assert {c: before[c] for c in columns} == {c: after[c] for c in columns}
    assert (after["accepted"], after["acked"], after["dropped"], after["dead_lettered"]) == (22, 1, 2, 1)


def test_stored_queue_that_is_now_a_memory_queue_and_empty_goes() -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 1)
    node.say(subscribe(1, "q", AUTO))
    again = node.again_on(node.disk.platter, declarations=queue(persistent=False))
    assert again.disk.platter.queues == {} and not again.broker.destinations.queues["q"].is_persistent


# ---- what was read back cannot be what was written ------------------------------------------------------------------


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
        (lambda rows: rows[:3] + rows[5:], "ends behind message .*, but its ledger has 2 further messages"),
        (lambda rows: rows[:-1], "ends behind message .*, but its ledger has 1 further message"),
        (lambda rows: [], "ends behind message 0, but its ledger has 20 further messages"),
        (lambda rows: moved(rows, 4, 2), "has message .* behind message"),
        (lambda rows: moved(rows, 2, 15), "has message .* behind message|ends behind message"),
        (lambda rows: twice(rows, 3, 5), "has message .* behind message|more messages than its ledger"),
        (lambda rows: twice(rows, 3, 4), "has message .* behind message"),
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
