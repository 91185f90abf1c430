"""The broker: turns in order, stopping, starting."""

import pytest

from radiator.model.commands import AUTO, CLIENT, Ack, Closed, Committed, Disconnect, Read, Stop, Written
from radiator.model.limits import COMMANDS_PER_TURN, PREFETCH_COUNT_MAX
from radiator.model.replies import Bye, Receipt
from radiator.model.settings import Declarations, QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queue, queues, send, subscribe


def turn(node: Node, *events: object) -> list[object]:
    return list(node.broker.turn(list(events), node.now_s, node.now_ms).replies)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_at_sea", [False, True])
def test_stop_commits_what_was_accepted_and_sends_its_receipts(is_at_sea: bool) -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(send(1, "q", b"1", b"1"))
    if is_at_sea:
        node.seal()
        node.say(send(1, "q", b"2", b"2"))
    node.stop()
    assert node.receipts(1) == ([b"1", b"2"] if is_at_sea else [b"1"])
    assert isinstance(node.take(1)[-1], Bye) and node.got_bye(2)
    assert node.disk.platter.is_clean


@pytest.mark.durability("D13")
def test_stop_marks_exactly_what_was_out_and_does_not_raise_its_count() -> None:
    node = Node()
    node.open(1, 2)
    for number in range(5):
        node.say(send(2, "q", b"%d" % number))
    node.say(subscribe(1, "q", prefetch_count=3))
    out = node.messages(1)
    node.say(nack(out[0]))
    node.messages(1)
    node.say(ack(out[1]))
    node.messages(1)
    node.stop()
    again = node.again_on(node.disk.platter)
    again.open(1)
    again.say(subscribe(1, "q", prefetch_count=9))
    assert [(d.message.body, d.redelivered, d.redeliveries) for d in again.messages(1)] == [
        (b"0", True, 1),
        (b"2", True, 0),
        (b"3", True, 0),
        (b"4", False, 0),
    ]


@pytest.mark.durability("D13")
def test_unclean_start_marks_every_message_stored_before_it() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q", b"old"))
    again = node.crashed()
    again.open(1)
    again.say(send(1, "q", b"new"), subscribe(1, "q", prefetch_count=9))
    assert [(d.message.body, d.redelivered, d.redeliveries) for d in again.messages(1)] == [
        (b"old", True, 0),
        (b"new", False, 0),
    ]


def test_marks_of_an_unclean_stop_outlive_a_clean_one() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "q", b"old"))
    again = node.crashed()
    again.stop()
    third = again.again_on(again.disk.platter)
    third.open(1)
    third.say(subscribe(1, "q"))
    assert third.message(1).redelivered


def test_stop_of_an_idle_broker_is_at_once() -> None:
    node = Node()
    node.stop()
    assert node.stopped and node.disk.platter.is_clean
    node.stop()


def test_stop_with_parked_senders_ends_and_does_not_take_their_messages() -> None:
    node = Node(queue(max_messages=1), auto=False)
    node.open(1, 2)
    node.say(send(1, "q", b"1", b"1"), send(1, "q", b"2", b"2"), send(2, "q", b"3", b"3"))
    node.seal()
    node.stop()
    assert node.receipts(1) == [b"1"] and node.receipts(2) == []
    assert node.stored("q") == [b"1"]


def test_stop_while_a_batch_is_full_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"BATCH_BYTES": 1000})
    node = Node(auto=False)
    node.open(1)
    for number in range(10):
        node.say(send(1, "q", bytes(300), b"%d" % number))
    node.seal()
    node.stop()
    accepted = len(node.stored("q"))
    assert node.receipts(1) == [b"%d" % n for n in range(accepted)] and 0 < accepted < 10


def test_stop_with_a_dedup_question_open_ends() -> None:
    node = Node(queue(dedup_window_s=9), auto=False)
    node.open(1)
    node.say(send(1, "q", b"1", b"1", dedup_id=b"i"))
    node.stop()
    assert node.stored("q") == [] and node.receipts(1) == []


def test_stop_with_a_transaction_whose_memory_part_waits_writes_nothing_after_the_clean_mark() -> None:
    declared = queues(m=QueueSettings(persistent=False, dead_letter="dead", max_redeliveries=0), dead=QueueSettings())
    node = Node(declared)
    node.open(1)
    node.say(send(1, "m"), subscribe(1, "m"))
    deliver = node.message(1)
    node.auto = False
    node.say(begin(1), nack(deliver, transaction=b"t"), send(1, "q", transaction=b"t"), commit(1, receipt=b"c"))
    node.stop()
    assert node.receipts(1) == [b"c"] and node.disk.platter.is_clean and node.stored("q") == [b"x"]


def test_nothing_is_read_or_delivered_after_stop() -> None:
    node = Node(auto=False)
    node.open(1, 2)
    node.say(send(1, "q", b"1"), subscribe(2, "q"))
    node.turn([Stop()])
    node.say(send(1, "q", b"2", b"2"))
    node.auto = True
    node.turn([])
    assert node.messages(2) == [] and node.receipts(1) == [] and node.stored("q") == [b"1"]


def test_stop_during_a_long_work_ends(small: None) -> None:
    node = Node()
    node.open(1, 2)
    for number in range(30):
        node.say(send(1, "q", b"%d" % number))
    node.say(subscribe(2, "q", CLIENT, prefetch_count=30))
    node.auto = False
    node.turn([Closed(2)])
    node.say(send(1, "/admin", b'{"do":"move","from":"q","to":"r"}', reply_to="t"))
    node.stop()
    again = node.again_on(node.disk.platter)
    again.open(1)
    assert again.numbers("q")["messages"] + again.numbers("r")["messages"] == 30
    again.say(subscribe(1, "q", AUTO), subscribe(1, "r", AUTO))
    out = again.messages(1)
    assert len(out) == 30 and all(d.redelivered for d in out if d.message.destination == "/queue/q")


def flushed(node: Node) -> None:
    """A turn that ended early because of a topic burst, with more behind it."""
    node.open(1, 2)
    node.say(subscribe(1, "/topic/t", buffer_max_messages=1))
    node.auto = False


BURST = [send(2, "/topic/t", b"1"), send(2, "/topic/t", b"2")]


def test_frames_read_before_the_connection_closed_are_carried_out_behind_a_flush() -> None:
    node = Node()
    flushed(node)
    turn(node, Read(2, [*BURST, send(2, "q", b"last"), Disconnect(2)]))
    turn(node, Written(1, 1), Closed(2))
    node.delivers[1] = 2
    node.auto = True
    node.turn([])
    assert node.stored("q") == [b"last"]


def test_turn_again_ends() -> None:
    node = Node()
    node.open(1)
    for number in range(5):
        node.say(send(1, "q", b"%d" % number, expiration_ms=10))
    node.wait(1)
    assert not node.again and not node.broker.wants_turn


def test_refusal_closes_its_connection_and_no_other() -> None:
    node = Node(Declarations())
    node.open(1, 2)
    node.say(subscribe(2, "/topic/t"))
    node.open(3)
    node.say(send(1, "q", receipt=b"r"), send(1, "q", receipt=b"s"))
    refuse = node.refusal(1)
    assert (refuse.code, refuse.receipt) == ("no-such-destination", b"r")
    assert node.take(3) == []


def test_connection_that_is_refused_gets_no_more_messages() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "q", prefetch_count=9), send(2, "q", b"1"), subscribe(1, "q"))
    assert node.is_refused(1) and node.bodies(1) == [b"1"]
    node.say(send(2, "q", b"2"))
    assert node.messages(1) == []
    node.close(1)
    node.say(subscribe(2, "q", AUTO))
    assert node.bodies(2) == [b"1", b"2"]


def test_commit_must_answer_the_batch_that_is_at_sea() -> None:
    node = Node(auto=False)
    with pytest.raises(AssertionError):
        turn(node, Committed(1))


def test_receipt_is_given_for_every_kind_of_frame() -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, "/topic/t", receipt=b"1"))
    assert node.take(1) == [Receipt(1, b"1")]


def test_none_waits_for_ever_behind_clients_whose_commands_fill_a_turn_each() -> None:
    """Three that ack as many at once as a turn settles, each the next as soon as its last command is done."""
    clients = (1, 2, 3)
    node = Node(queues(**{str(number): QueueSettings(persistent=False) for number in clients}))
    node.open(*clients, 9)
    ids: dict[int, list[bytes]] = {}
    for number in clients:
        node.say(subscribe(number, str(number), prefetch_count=PREFETCH_COUNT_MAX))
        node.turn([Read(9, [send(9, str(number)) for _ in range(4 * COMMANDS_PER_TURN)])])
        ids[number] = [deliver.message_id for deliver in node.messages(number)]
    node.auto = False
    for _ in range(9):
        idle = [number for number in clients if number not in node.broker.behind]
        some = {number: ids[number][:COMMANDS_PER_TURN] for number in idle}
        for number in idle:
            del ids[number][:COMMANDS_PER_TURN]
        node.turn([Read(number, [Ack(number, first, more=(*more,))]) for number, (first, *more) in some.items()])
    assert [node.numbers(str(number))["acked"] for number in clients] == [3 * COMMANDS_PER_TURN] * 3


def waiting(node: Node) -> list[int]:
    """Whose Reads come first in the next turn, in order."""
    return [event.connection for event in node.broker.backlog if isinstance(event, Read)]


def test_the_rest_of_a_long_command_comes_behind_what_others_have_said() -> None:
    """Unless others have used up the turn before it was reached: it comes first then, and behind them again."""
    node = Node(queue(persistent=False))
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=PREFETCH_COUNT_MAX))
    node.turn([Read(9, [send(9, "q") for _ in range(3 * COMMANDS_PER_TURN)])])
    first, *more = (deliver.message_id for deliver in node.messages(1))
    node.auto = False
    node.turn([Read(2, [send(2, "other")]), Read(1, [Ack(1, first, more=(*more,))]), Read(9, [send(9, "other")])])
    assert waiting(node) == [9, 1]
    out_of_time(node)
    assert waiting(node) == [1]
    out_of_time(node, left=1)
    assert waiting(node) == [1] and node.numbers("q")["acked"] == COMMANDS_PER_TURN + 1
    out_of_time(node, Read(9, [send(9, "other")]))
    assert waiting(node) == [9, 1]  # if it went first each time, it would end each turn before others have had one


def out_of_time(node: Node, *events: Read, left: int = 0) -> None:
    """The next turn, in which others have left no time, or so little, for commands that ack several."""
    acks = node.broker.parts.acks
    acks.turn_number, acks.turn_left = node.broker.context.turn_number + 1, left
    node.turn([*events])
