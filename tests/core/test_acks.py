"""ACK and NACK: when they happen, what their RECEIPTs wait for, and in a transaction."""

from itertools import pairwise
from typing import Any

import pytest

from radiator.core import deliveries
from radiator.core.connections import Delivery
from radiator.core.states import Event
from radiator.model.commands import CLIENT, CLIENT_INDIVIDUAL, Ack, Nack, Read
from radiator.model.limits import (
    ACKED_PER_BATCH,
    COMMANDS_PER_TURN,
    PREFETCH_COUNT_MAX,
    SETTLED_PER_TRANSACTION,
    STEP_MESSAGES,
)
from radiator.model.replies import Deliver, Refuse
from radiator.model.settings import QueueSettings
from tests.core.backlogs import durable
from tests.core.node import Node
from tests.core.words import abort, ack, begin, commit, nack, queue, queues, send, subscribe


def node_with(mode: str, count: int, persistent: bool = True) -> Node:
    node = Node(queue(persistent=persistent))
    node.open(1, 2)
    node.say(subscribe(1, "q", mode, prefetch_count=100))
    for number in range(count):
        node.say(send(2, "q", b"%d" % number))
    return node


@pytest.mark.durability("D4")
def test_receipt_of_an_ack_or_nack_waits_for_the_disk() -> None:
    for answer in (ack, nack):
        node = node_with(CLIENT_INDIVIDUAL, 1)
        (deliver,) = node.messages(1)
        node.auto = False
        node.say(answer(deliver, b"r"))
        node.seal()
        assert node.receipts(1) == []
        node.commit()
        assert node.receipts(1) == [b"r"]


def test_receipt_of_an_ack_on_a_memory_queue_leaves_at_once() -> None:
    node = node_with(CLIENT_INDIVIDUAL, 1, persistent=False)
    (deliver,) = node.messages(1)
    node.auto = False
    node.say(ack(deliver, b"r"))
    assert node.receipts(1) == [b"r"]


@pytest.mark.durability("D4")
def test_nack_is_counted_and_the_count_is_kept_on_the_disk() -> None:
    node = node_with(CLIENT_INDIVIDUAL, 1)
    for count in range(3):
        (deliver,) = node.messages(1)
        assert (deliver.redeliveries, deliver.redelivered) == (count, count > 0)
        node.say(nack(deliver))
    again = node.crashed()
    again.open(1)
    again.say(subscribe(1, "q"))
    deliver = again.message(1)
    assert (deliver.redeliveries, deliver.redelivered) == (3, True)


def test_ack_in_a_transaction_happens_at_commit() -> None:
    node = node_with(CLIENT_INDIVIDUAL, 1)
    (deliver,) = node.messages(1)
    node.say(begin(1), ack(deliver, b"r", b"t"))
    assert node.receipts(1) == [b"r"], "it says only that it was taken into the transaction"
    assert node.stored("q") == [b"0"]
    node.say(commit(1, receipt=b"c"))
    assert node.receipts(1) == [b"r", b"c"] and node.stored("q") == []


def test_ack_in_a_transaction_opens_the_window_at_commit() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q"), send(2, "q", b"1"), send(2, "q", b"2"))
    deliver = node.message(1)
    node.say(begin(1), ack(deliver, transaction=b"t"))
    assert node.bodies(1) == []
    node.say(commit(1))
    assert node.bodies(1) == [b"2"]


@pytest.mark.parametrize("again", [None, b"t", b"other"])
def test_second_ack_of_a_message_in_an_open_transaction_is_refused(again: bytes | None) -> None:
    node = node_with(CLIENT_INDIVIDUAL, 1)
    (deliver,) = node.messages(1)
    node.say(begin(1), begin(1, b"other"), ack(deliver, transaction=b"t"), ack(deliver, transaction=again))
    assert node.refusal(1).code == "in-transaction"


def test_message_is_unacked_as_before_after_abort() -> None:
    node = node_with(CLIENT_INDIVIDUAL, 2)
    first, second = node.messages(1)
    node.say(begin(1), ack(first, transaction=b"t"), abort(1))
    node.say(ack(first, b"1"), nack(second, b"2"))
    assert node.receipts(1) == [b"1", b"2"] and node.stored("q") == [b"1"]


def test_cumulative_ack_passes_over_what_waits_in_a_transaction() -> None:
    node = node_with(CLIENT, 4)
    out = node.messages(1)
    node.say(begin(1), ack(out[1], transaction=b"t"))
    node.say(ack(out[3]))
    assert node.stored("q") == [b"0", b"1"]
    node.say(abort(1), ack(out[1]))
    assert node.stored("q") == []


def test_ack_in_an_unknown_transaction_is_refused() -> None:
    node = node_with(CLIENT, 1)
    (deliver,) = node.messages(1)
    node.say(ack(deliver, transaction=b"t"))
    assert node.refusal(1).code == "transaction"


def node_with_many(count: int) -> tuple[Node, list[Deliver]]:
    node = Node(queue())
    node.open(1, 2)
    node.say(subscribe(1, "q", CLIENT, prefetch_count=65_535))
    for begin_at in range(0, count, 1000):
        node.say(*(send(2, "q", b"%d" % number) for number in range(begin_at, min(count, begin_at + 1000))))
    delivers = node.messages(1)
    assert len(delivers) == count
    return node, delivers


@pytest.mark.durability("D10")
def test_a_cumulative_ack_of_many_goes_in_slices_and_no_batch_has_more_than_its_bound() -> None:
    """Each may copy a page of the tables: a batch of 65,535 needed more than a full store has left."""
    count = ACKED_PER_BATCH + STEP_MESSAGES + 10
    node, delivers = node_with_many(count)
    node.auto = False
    node.say(ack(delivers[-1], b"r"))
    writes = [len(node.broker.context.open.writes)]
    while not node.receipts(1):
        node.turn([])
        writes.append(len(node.broker.context.open.writes))
        if node.broker.has_batch and node.broker.context.being_committed is None and writes[-1] == writes[-2]:
            node.seal()
            node.commit()
        assert len(writes) < 1000
    assert max(writes) == ACKED_PER_BATCH
    assert max(after - before for before, after in zip(writes, writes[1:], strict=False)) <= COMMANDS_PER_TURN
    node.auto = True
    assert node.stored("q") == []


@pytest.mark.durability("D10")
def test_single_acks_wait_while_the_open_batch_is_full() -> None:
    node, delivers = node_with_many(ACKED_PER_BATCH + 2)
    node.auto = False
    node.say(ack(delivers[ACKED_PER_BATCH - 1]))
    while len(node.broker.context.open.writes) < ACKED_PER_BATCH:
        node.turn([])
    node.say(ack(delivers[-1], b"r"))
    assert node.paused == {1} and node.broker.is_batch_awaited
    node.seal()
    node.turn([])
    node.commit()
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"r"] and node.paused == set() and node.stored("q") == []


def test_a_transaction_acks_so_many_messages_at_most() -> None:
    node, delivers = node_with_many(SETTLED_PER_TRANSACTION + 1)
    node.say(begin(1), ack(delivers[SETTLED_PER_TRANSACTION - 1], None, b"t"), commit(1, receipt=b"c"))
    assert node.receipts(1) == [b"c"] and node.stored("q") == [delivers[-1].message.body]
    node, delivers = node_with_many(SETTLED_PER_TRANSACTION + 1)
    node.say(begin(1), ack(delivers[-1], None, b"t"))
    refused = node.inbox[1][-1]
    assert isinstance(refused, Refuse) and refused.code == "too-large"
    assert refused.sentence == "8193 messages would be acked in the transaction: one has at most 8192."


# ---- several in one command -----------------------------------------------------------------------------------------


def several(count: int, **settings: object) -> tuple[Node, list[Deliver]]:
    """So many unacked with connection 1."""
    node = Node(queue(**settings))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=PREFETCH_COUNT_MAX))
    node.turn([Read(9, [send(9, "q", b"%d" % number) for number in range(count)])])
    return node, node.messages(1)


def all_of(out: list[Deliver], kind: type[Ack] | type[Nack] = Ack, **more: Any) -> Ack | Nack:
    first, *others = (one.message_id for one in out)
    return kind(1, first, more=tuple(others), **more)


@pytest.mark.parametrize("persistent", [True, False])
def test_several_are_acked_by_one_command_and_no_other(persistent: bool) -> None:
    node, out = several(5, persistent=persistent)
    node.say(all_of([out[3], out[1]], receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    assert [*node.broker.connections[1].unacked] == [out[0].message_id, out[2].message_id, out[4].message_id]
    assert node.numbers("q")["messages"] == 3 and node.broker.parts.acks.begun == {}


def test_several_are_given_back_by_one_command() -> None:
    node, out = several(3)
    node.say(all_of(out, Nack, receipt=b"r"))
    assert node.receipts(1) == [b"r"]
    assert [(one.message.body, one.redeliveries) for one in node.messages(1)] == [(b"0", 1), (b"1", 1), (b"2", 1)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_where_one_is_not_unacked_none_is_settled(place: int) -> None:
    node, out = several(4)
    node.say(ack(out[place]))
    node.say(all_of(out))
    assert node.refusal(1).code == "not-unacked" and node.numbers("q")["messages"] == 3
    assert len(node.broker.connections[1].unacked) == 3


def test_one_that_is_named_twice_counts_once() -> None:
    node, out = several(2)
    node.say(all_of([*out, *out], receipt=b"r"))
    assert node.receipts(1) == [b"r"] and node.numbers("q")["messages"] == 0


@pytest.mark.parametrize("kind", [Ack, Nack])
def test_very_many_are_settled_a_slice_in_a_turn_and_each_is_judged_once(
    monkeypatch: pytest.MonkeyPatch, kind: type[Ack] | type[Nack]
) -> None:
    count = 3 * STEP_MESSAGES + 1
    node, out = several(count)
    judged = []

    def named(*given: Any) -> list[Delivery]:
        judged.append(1)
        return deliveries.named_by(*given)

    monkeypatch.setattr("radiator.core.acks.named_by", named)
    node.auto = False
    node.say(all_of(out, kind, receipt=b"r"))
    connection = node.broker.connections[1]
    assert node.numbers("q")["messages"] == (count - COMMANDS_PER_TURN if kind is Ack else count)
    assert connection in node.broker.parts.acks.begun and node.receipts(1) == []
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"r"] and judged == [1] and node.broker.parts.acks.begun == {}
    assert node.numbers("q")["messages"] == (0 if kind is Ack else count)
    assert node.numbers("q")["redelivered"] == (0 if kind is Ack else count)


def dying(count: int) -> tuple[Node, list[Deliver]]:
    """So many unacked with connection 1, of a queue whose dead letters go by an exchange."""
    node = Node(queues(q=QueueSettings(dead_letter_exchange="", dead_letter_key="dead"), dead=QueueSettings()))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=PREFETCH_COUNT_MAX))
    node.turn([Read(9, [send(9, "q", b"%d" % number) for number in range(count)])])
    return node, node.messages(1)


@pytest.mark.parametrize("at_once", [True, False])
def test_what_becomes_a_dead_letter_takes_more_of_a_turn(at_once: bool) -> None:
    count = COMMANDS_PER_TURN
    node, out = dying(count)
    node.auto = False
    receipt = b"r"
    if at_once:
        node.turn([Read(1, [all_of(out, Nack, receipt=receipt, requeue=False)])])
    else:
        *others, last = out
        node.turn([Read(1, [*(nack(one, requeue=False) for one in others), nack(last, receipt, requeue=False)])])
    made = [0, node.numbers("q")["dead_lettered"]]
    while made[-1] < count:
        node.turn([])
        made.append(node.numbers("q")["dead_lettered"])
    assert max(after - before for before, after in pairwise(made)) == -(-COMMANDS_PER_TURN // 3)
    assert node.receipts(1) == []
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"r"] and node.stored("dead") == [b"%d" % number for number in range(count)]


def test_acks_do_not_wait_for_dead_letters_of_others() -> None:
    node, out = dying(COMMANDS_PER_TURN)
    node.auto = False
    node.say(all_of(out[:-1], Nack, requeue=False))
    before = node.numbers("q")["acked"]
    node.broker.context.dead_letters_cost = COMMANDS_PER_TURN
    assert node.broker.parts.acks.ack(node.broker.connections[1], ack(out[-1])) is None
    assert node.numbers("q")["acked"] == before + 1


@pytest.mark.parametrize("way", ["nack", "several", "acks"])
def test_none_waits_for_dead_letters_that_others_make(way: str) -> None:
    """They would go on for as long as SENDs push messages out of a full queue, whose clients have their turns first."""
    node, out = dying(3)
    node.admin(9, do="declare", queue="full", max_messages=1, overflow="dead-letter", dead_letter_exchange="")
    flood = [send(9, "full") for _ in range(COMMANDS_PER_TURN + 1)]
    command = {
        "nack": nack(out[0], requeue=False),
        "several": all_of(out, Nack, requeue=False),
        "acks": all_of(out),
    }[way]
    node.auto = False
    node.turn([Read(9, flood), Read(1, [command])])
    numbers = node.numbers("q")
    assert node.broker.context.dead_letters_cost >= COMMANDS_PER_TURN
    assert numbers["unacked"] == (2 if way == "nack" else 0) and not node.broker.backlog


def test_commands_that_settle_several_share_the_time_of_a_turn() -> None:
    node = Node()
    node.open(1, 2, 3)
    asked: list[Ack] = []
    for number in (1, 2):
        name = f"/queue/{number}"
        node.say(subscribe(number, name, CLIENT_INDIVIDUAL, prefetch_count=COMMANDS_PER_TURN))
        node.say(*(send(3, name, b"x") for _ in range(COMMANDS_PER_TURN - 1)))
        first, *others = (one.message_id for one in node.messages(number))
        asked.append(Ack(number, first, more=tuple(others), receipt=b"r"))
    node.auto = False
    node.turn([Read(one.connection, [one]) for one in asked])
    assert node.numbers("1")["messages"] == 0 and node.numbers("2")["messages"] == COMMANDS_PER_TURN - 2
    node.auto = True
    node.turn([])
    assert node.receipts(1) == node.receipts(2) == [b"r"] and node.numbers("2")["messages"] == 0


def test_what_comes_back_between_two_slices_is_passed_over() -> None:
    node, out = several(STEP_MESSAGES + 2)
    node.auto = False
    node.say(all_of(out, receipt=b"r"))
    last = node.broker.connections[1].unacked[out[-1].message_id]
    last.leave_window()
    last.subscription.queue.give_back(last, Event.LOST)
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"r"] and node.numbers("q")["messages"] == 1
    assert node.bodies(1) == [out[-1].message.body]


def test_several_wait_for_what_must_be_read_back_first() -> None:
    node, out = several(3, dead_letter="dead")
    node.broker.destinations.windows.out_max = 0
    durable(node).let_go_of_bytes(1000)
    node.auto = False
    node.say(all_of(out, Nack, receipt=b"r", requeue=False))
    assert node.read_requests and node.receipts(1) == []
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"r"] and node.stored("dead") == [b"0", b"1", b"2"]


def test_several_in_a_transaction_wait_for_its_commit() -> None:
    node, out = several(3)
    node.say(begin(1), all_of(out, transaction=b"t", receipt=b"a"))
    assert node.receipts(1) == [b"a"] and node.numbers("q")["messages"] == 3
    node.say(commit(1))
    assert node.numbers("q")["messages"] == 0


def test_one_that_waits_in_a_transaction_keeps_all_from_being_settled() -> None:
    node, out = several(3)
    node.say(begin(1), ack(out[2], transaction=b"t"), all_of(out))
    assert node.refusal(1).code == "in-transaction" and node.numbers("q")["messages"] == 3
