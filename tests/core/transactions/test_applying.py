"""What is committed after it was prepared, on its way into its destinations: slices, room, and which producer it is."""

import pytest

from radiator.core.connections import Connection
from radiator.core.producer import Producer
from radiator.core.transactions import applying
from radiator.core.transactions.applying import PreparedDelivery, StoredTransaction
from radiator.model import limits
from radiator.model.commands import LoadedPrepared, Read
from radiator.model.errors import StoreError
from radiator.model.limits import LOAD_MESSAGES
from radiator.model.settings import Binding, Declarations, ExchangeSettings, QueueSettings
from tests.core.node import Node
from tests.core.transactions.preparing import MEMORY, SMALL, bodies, committed, consume, names, node, prepare, sends
from tests.core.words import ack, send, subscribe

# ---- into the destinations ------------------------------------------------------------------------------------------


def test_many_are_applied_in_slices_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "LOAD_MESSAGES", 10)
    count = 37
    broker = node()
    prepare(broker, "p", *sends("a", count))
    broker.auto = False
    broker.say(committed("p"))
    seen = set()
    while broker.step():
        there = broker.stored("a")
        assert there == bodies(len(there))
        seen.add(len(there))
    assert seen == {0, 10, 20, 30, count}


@pytest.mark.durability("D30")
def test_each_message_once_wherever_the_power_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "LOAD_MESSAGES", 10)
    count = 27
    declarations = Declarations(queues={"a": QueueSettings(dedup_window_s=60)}, create_queues=True)
    first = Node(declarations)
    first.open(1, 2)
    prepare(first, "p", *[send(1, "a", body, dedup_id=body) for body in bodies(count)])
    first.auto = False
    first.say(committed("p"))
    steps = 0
    while first.step():
        steps += 1
        again = first.crashed()
        if not again.disk.platter.apps:
            assert again.stored("a") == [] and names(again) == ["p"]
        else:
            assert again.stored("a") == bodies(count) and names(again) == []
    assert steps > 8


def test_those_of_several_are_applied_by_turns() -> None:
    broker = node()
    for name in "pqrstu":
        prepare(broker, name, *sends(name, LOAD_MESSAGES + 7))
    for version, name in enumerate("pqrstu"):
        broker.say(committed(name, version))
    for name in "pqrstu":
        assert broker.stored(name) == bodies(LOAD_MESSAGES + 7)
    assert broker.broker.parts.prepared.applying.in_memory == 0 and broker.broker.parts.memory.waiting_bytes == 0
    assert broker.broker.background == type(broker.broker.background)()


def test_a_full_queue_is_waited_for_and_nothing_is_lost() -> None:
    broker = node(a=SMALL)
    prepare(broker, "p", *sends("a", 10))
    broker.say(committed("p"))
    assert broker.receipts(2) == [b"committed"] and broker.stored("a") == bodies(3)
    (described,) = broker.broker.parts.prepared.described(10)
    assert described.is_committed and described.applied == 3 and described.waits == "/queue/a has no room."
    assert broker.broker.parts.prepared.applying.in_memory == 0 and broker.broker.parts.memory.waiting_bytes == 0
    broker = broker.crashed()
    assert broker.stored("a") == bodies(3)
    broker.open(2)
    assert list(consume(broker, "a")) == bodies(10) and names(broker) == []


def test_who_waits_for_room_gets_it_in_the_order_of_coming() -> None:
    broker = node(a=SMALL)
    broker.open(3)
    prepare(broker, "p", *sends("a", 5))
    broker.say(committed("p"), send(3, "a", b"late"))
    assert 3 in broker.paused
    assert list(consume(broker, "a")) == [*bodies(4), b"late", b"4"]


def test_one_that_waits_does_not_keep_others_waiting() -> None:
    broker = node(a=SMALL)
    for number in range(2 * limits.APPLIES_AT_ONCE):
        prepare(broker, f"p{number}", *sends("a", 5))
        broker.say(committed(f"p{number}", number))
    prepare(broker, "q", *sends("b", 5))
    broker.say(committed("q", 100))
    assert broker.stored("b") == bodies(5) and broker.stored("a") == bodies(3)
    assert len(list(consume(broker, "a"))) == 5 * 2 * limits.APPLIES_AT_ONCE
    assert names(broker) == []


def test_those_that_get_room_all_at_once_come_all() -> None:
    count = limits.APPLIES_AT_ONCE + 2
    queues = [f"a{number}" for number in range(count)]
    broker = node(**{queue: QueueSettings(max_messages=1) for queue in queues})
    for number, queue in enumerate(queues):
        broker.say(subscribe(2, queue, prefetch_count=10), send(1, queue, b"first"))
        prepare(broker, queue, send(1, queue, b"second"))
        broker.say(committed(queue, number))
    broker.turn([Read(2, [ack(deliver) for deliver in broker.messages(2)])])
    assert broker.bodies(2) == [b"second"] * count and names(broker) == []


def test_what_is_refused_is_tried_again_and_told_once() -> None:
    broker = node(a=QueueSettings(max_messages=3, overflow="reject"))
    prepare(broker, "p", *sends("a", 5))
    broker.say(committed("p"))
    assert broker.stored("a") == bodies(3)
    (described,) = broker.broker.parts.prepared.described(10)
    assert described.waits is not None and described.waits.startswith("/queue/a is full")
    for _ in range(10):
        broker.wait(0.5)
    (noted,) = [note for note in broker.notes if note.event == "prepared_waits"]
    assert noted.fields == {"name": "p", "messages": 2, "cause": described.waits}
    assert list(consume(broker, "a")) == bodies(3)
    broker.wait(1)
    assert [d.message.body for d in broker.messages(2)] == [b"3"]  # the shared window of one
    assert names(broker) == []


def test_a_destination_that_was_deleted_is_waited_for() -> None:
    broker = node()
    assert broker.admin(1, do="declare", fanout="f", children=["a", "b"])["created"]
    prepare(broker, "p", *sends("/fanout/f", 3))
    broker.admin(1, do="delete", fanout="f")
    broker.say(committed("p"))
    assert broker.stored("a") == []
    (described,) = broker.broker.parts.prepared.described(10)
    assert described.waits is not None and "/fanout/f is not declared" in described.waits
    broker.admin(1, do="declare", fanout="f", children=["a", "b"])
    broker.wait(1)
    assert broker.stored("a") == broker.stored("b") == bodies(3) and names(broker) == []


def test_slices_of_a_fanout_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "STEP_MESSAGES", 20)
    children = [f"c{number}" for number in range(10)]
    broker = node()
    broker.admin(1, do="declare", fanout="f", children=children)
    prepare(broker, "p", *sends("/fanout/f", 9))
    broker.auto = False
    broker.say(committed("p"))
    steps = set()
    while broker.step():
        steps.add(len(broker.stored("c0")))
        assert broker.stored("c0") == broker.stored("c9")
    assert broker.stored("c5") == bodies(9) and len(steps) > 1


def test_one_send_with_many_copies_is_never_split() -> None:
    broker = node(a=SMALL, b=QueueSettings())
    broker.admin(1, do="declare", fanout="f", children=["a", "b"])
    prepare(broker, "p", *sends("/fanout/f", 5))
    broker.say(committed("p"))
    assert broker.stored("a") == broker.stored("b") == bodies(3)


def test_an_exchange_counts_what_comes_through_it() -> None:
    declarations = Declarations(
        exchanges={"x": ExchangeSettings()}, bindings=[Binding("x", "k", "a")], create_queues=True
    )
    broker = Node(declarations)
    broker.open(1, 2)
    prepare(broker, "p", send(1, "/exchange/x/k"), send(1, "/exchange/x/nothing"))
    exchange = broker.broker.destinations.exchanges.all["x"]
    assert exchange.accepted == 0
    broker.say(committed("p"))
    assert broker.stored("a") == [b"x"] and exchange.accepted == 2 and exchange.unrouted == 1


def test_memory_queues_get_theirs_when_the_disk_has_let_go_of_it() -> None:
    broker = node(m=MEMORY)
    broker.say(subscribe(2, "m", prefetch_count=10))
    prepare(broker, "p", send(1, "m", b"0"), send(1, "m", b"1"))
    broker.auto = False
    broker.say(committed("p"))
    while broker.step():
        if broker.messages(2):
            assert broker.disk.platter.transactions == {}
            return
    raise AssertionError("nothing came")


def test_dedup_ids_count_when_it_is_applied() -> None:
    broker = node(a=QueueSettings(dedup_window_s=60))
    broker.say(send(2, "a", b"first", dedup_id=b"0"))
    prepare(broker, "p", *[send(1, "a", body, dedup_id=b"%d" % (number % 3)) for number, body in enumerate(bodies(6))])
    broker = broker.crashed()
    broker.open(2)
    broker.say(committed("p"))
    assert broker.stored("a") == [b"first", b"1", b"2"]
    assert broker.broker.context.counters["duplicates"] == 4
    assert not broker.broker.destinations.queues.all["a"].dedup.lookups  # type: ignore[attr-defined]


def test_times_count_from_when_it_was_prepared() -> None:
    broker = node()
    prepare(
        broker,
        "p",
        send(1, "a", b"first", expires_ms=broker.now_ms + 10_000, expiration_ms=70_000),
        send(1, "a", b"soon", expiration_ms=60_000),
        send(1, "a", b"late", delay_ms=60_000),
        send(1, "a", b"stays", expires_ms=0),
    )
    prepared_ms = broker.now_ms
    broker.wait(30)
    broker.say(committed("p"))
    found = {m.body: m.expires_ms for m in broker.disk.platter.messages.values()}
    assert found[b"soon"] == prepared_ms + 60_000 and found[b"stays"] == 0
    (late,) = broker.disk.platter.delayed.values()
    assert late.message.body == b"late" and late.due_ms == prepared_ms + 60_000
    broker.wait(1)
    assert broker.stored("a") == [b"soon", b"stays"]


def test_a_damaged_send_is_passed_over_and_the_others_come_once() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 6))
    broker.disk.damaged_sends |= {(1, 0), (1, 3), (1, 5)}
    broker.say(committed("p"))
    assert broker.stored("a") == [b"1", b"2", b"4"] and names(broker) == []
    assert broker.broker.context.counters["damaged_sends"] == 3
    assert [note.fields["number"] for note in broker.notes if note.event == "damaged_send"] == [0, 3, 5]


def test_a_send_that_is_missing_is_not_counted_as_damaged() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 2))
    broker.disk.load_prepared = lambda load: LoadedPrepared(load.request)  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="^the prepared transaction 'p' has no SEND 0"):
        broker.say(committed("p"))


def test_one_that_ends_with_damage_lets_those_behind_it_go_on() -> None:
    broker = node(a=QueueSettings(max_messages=2))
    broker.open(3)
    prepare(broker, "p", *sends("a", 3))
    broker.say(committed("p"), send(3, "a", b"late"))
    assert 3 in broker.paused
    broker.disk.damaged_sends.add((1, 2))
    broker.say(subscribe(2, "a"))
    broker.say(ack(broker.message(2)))
    assert 3 not in broker.paused and names(broker) == [] and broker.stored("a") == [b"1", b"late"]


# ---- among the producers -------------------------------------------------------------------------------------------


def test_a_prepared_delivery_has_what_a_send_needs_of_a_producer_and_no_connection() -> None:
    delivery = PreparedDelivery(StoredTransaction(1, "p", 1, 1, 0))
    assert isinstance(delivery, Producer) and not isinstance(delivery, Connection)
    for name in ("number", "outbox_max_bytes", "transactions", "queue_subscriptions", "unacked", "is_closing"):
        assert not hasattr(delivery, name), f"{name} means something of a connection alone"


def test_it_waits_for_room_among_connections_in_the_order_of_coming() -> None:
    broker = node(a=SMALL)
    prepare(broker, "p", *sends("a", 4))
    broker.say(committed("p"))
    queue = broker.broker.destinations.queues.all["a"]
    assert [type(waiter) for waiter in queue.waiters] == [PreparedDelivery] and broker.stored("a") == bodies(3)
    broker.take(1)
    broker.say(send(1, "a", b"later", b"stored"))
    assert [type(waiter) for waiter in queue.waiters] == [PreparedDelivery, Connection] and broker.receipts(1) == []
    assert [*consume(broker, "a")] == [*bodies(4), b"later"] and not queue.waiters
    assert broker.receipts(1) == [b"stored"]
