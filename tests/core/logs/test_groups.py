"""Groups: positions, members, and partitions that change hands."""

from typing import Any

import pytest

from radiator.core.turn import WRITE_COST_BYTES
from radiator.model.commands import CLIENT, CLIENT_INDIVIDUAL, END, OFFSET, TIME, Read
from radiator.model.limits import LOAD_MESSAGES, PARTITIONS_MAX
from radiator.model.replies import RecordPlace
from radiator.model.settings import Declarations, LogSettings
from tests.core.conftest import shrink
from tests.core.logs.reading import FROM_THE_FIRST, START_MS, append, is_empty, is_end, node_of, places, read
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, send, unsubscribe


def test_a_group_that_comes_back_too_late_hears_how_many_it_has_missed() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g"))
    node.say(ack(node.message(2)))
    node.close(2)
    node.wait(9)
    node.wait(1)
    append(node, b"3", b"4")
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=2))
    first, second = node.messages(3)
    assert first.log == RecordPlace(0, 3, skipped=2)
    assert second.log == RecordPlace(0, 4)
    again = node.crashed()  # it may not have heard of that
    again.open(3)
    again.say(read(3, ack=CLIENT_INDIVIDUAL, group="g"))
    assert (one := again.message(3)).log == RecordPlace(0, 3, skipped=2)
    again.say(ack(one))
    assert again.disk.platter.positions[1, "g"] == [4]


# ---- groups ---------------------------------------------------------------------------------------------------------


@pytest.mark.durability("D26")
def test_the_receipt_of_an_ack_means_that_the_position_is_synced() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT, group="g", prefetch_count=2))
    first, second = node.messages(2)
    node.auto = False
    node.say(ack(second, b"r"))
    assert node.receipts(2) == []
    node.seal()
    assert node.receipts(2) == [] and node.disk.platter.positions == {(1, "g"): [0]}
    node.commit()
    assert node.receipts(2) == [b"r"] and node.disk.platter.positions == {(1, "g"): [2]}
    again = node.crashed()
    again.open(2)
    again.say(read(2, ack=CLIENT, group="g", prefetch_count=2, start=FROM_THE_FIRST))
    assert again.bodies(2) == [b"2"]


@pytest.mark.durability("D26")
def test_a_new_groups_position_is_on_the_disk_with_the_receipt_of_its_subscribe() -> None:
    node = node_of()
    append(node, b"0")
    node.auto = False
    node.say(read(2, ack=CLIENT, group="g", start=None, receipt=b"r"))
    assert node.receipts(2) == []
    node.seal()
    node.commit()
    assert node.receipts(2) == [b"r"]
    again = node.crashed()
    again.open(1, 2)
    append(again, b"1")
    again.say(read(2, ack=CLIENT, group="g", start=None))
    assert again.bodies(2) == [b"1"]


def of_times(count: int, **more: Any) -> Node:
    """`three`, in each of whose partitions so many records lie, a second apart."""
    node = node_of(**more)
    for number in range(3 * count):
        append(node, b"%d" % number, to="three")
        if number % 3 == 2:
            node.wait(1)
    return node


@pytest.mark.durability("D26")
def test_a_new_group_begins_at_a_time_also_after_a_crash_right_behind_its_receipt() -> None:
    node = of_times(4)
    node.auto = False
    node.say(read(2, "three", ack=CLIENT, group="g", start=(TIME, START_MS + 2000), receipt=b"r"))
    while not node.receipts(2):
        assert node.step()
    assert node.disk.platter.positions == {(2, "g"): [2, 2, 2]}
    again = node.crashed()
    again.open(1, 2)
    again.say(read(2, "three", ack=CLIENT, group="g", prefetch_count=99))
    assert sorted(again.bodies(2), key=int) == [b"6", b"7", b"8", b"9", b"10", b"11"]


@pytest.mark.durability("D26")
def test_a_new_group_begins_at_a_time_in_the_partitions_that_nobody_reads_yet() -> None:
    node = of_times(4)
    node.say(read(2, "three", ack=CLIENT, group="g", start=(TIME, START_MS + 2000), partition=0))
    again = node.crashed()
    again.open(1, 2)
    again.say(read(2, "three", ack=CLIENT, group="g", prefetch_count=99, partition=1))
    assert again.bodies(2) == [b"7", b"10"]


def test_what_is_not_on_the_disk_yet_is_searched_too() -> None:
    node = node_of()
    append(node, b"0")
    node.auto = False
    append(node, b"1")
    node.seal()
    append(node, b"2")
    node.now_ms += 1
    append(node, b"3")
    node.say(read(2, ack=CLIENT, group="g", start=(TIME, START_MS + 1), receipt=b"r"))
    while not node.receipts(2):
        assert node.step()
    assert node.disk.platter.positions == {(1, "g"): [3]}


def test_several_new_groups_of_one_connection_begin_at_their_times_in_order() -> None:
    node = of_times(3)
    first, second = ({"to": "three", "ack": CLIENT, "group": name, "name": name.encode()} for name in "gh")
    one = read(2, **first, start=(TIME, START_MS + 1000), receipt=b"g", prefetch_count=9)
    other = read(2, **second, start=(TIME, START_MS + 2000), receipt=b"h")
    same = read(2, **{**first, "name": b"again"}, start=(TIME, START_MS), receipt=b"again")
    node.turn([Read(2, [one, other, same, send(2, "q", receipt=b"q")], 0)])
    assert node.receipts(2) == [b"g", b"h", b"again", b"q"] and not node.paused
    assert node.disk.platter.positions == {(2, "g"): [1, 1, 1], (2, "h"): [2, 2, 2]}


def test_two_that_make_the_same_group_at_once_begin_where_the_first_says() -> None:
    node = of_times(3)
    node.auto = False
    node.say(read(2, "three", ack=CLIENT, group="g", start=(TIME, START_MS + 1000), receipt=b"2"))
    node.say(read(3, "three", ack=CLIENT, group="g", start=(TIME, START_MS + 2000), receipt=b"3"))
    node.auto = True
    node.turn([])
    assert node.receipts(2) == [b"2"] and node.receipts(3) == [b"3"]
    assert node.disk.platter.positions == {(2, "g"): [1, 1, 1]}


def test_a_long_search_is_not_refused_as_a_send_without_room_is() -> None:
    node = of_times(3)
    node.auto = False
    node.say(read(2, "three", ack=CLIENT, group="g", start=(TIME, START_MS), receipt=b"r"))
    node.wait(node.limits.block_timeout_s + 1)
    node.auto = True
    node.turn([])
    assert node.receipts(2) == [b"r"]


def test_who_has_gone_is_searched_for_no_further_and_makes_no_group() -> None:
    node = of_times(3)
    node.auto = False
    wanted = read(2, "three", ack=CLIENT, group="g", start=(TIME, START_MS + 1000))
    node.say(wanted)
    node.close(2)
    while node.step():
        assert not node.read_requests
    node.open(2)
    node.say(wanted)
    while not node.read_requests:
        assert node.step()
    node.close(2)
    while node.step():
        assert not node.read_requests
    assert not node.broker.blocking.connections and not node.broker.destinations.logs.all["three"].groups


@pytest.mark.parametrize("is_declared_again", [False, True])
def test_a_log_that_is_deleted_while_a_time_is_searched(is_declared_again: bool) -> None:
    node = Node(Declarations(create_queues=True, create_topics=True))
    node.open(1, 2, 3)
    node.admin(3, do="declare", log="m", partitions=2)
    append(node, b"0", b"1", b"2", b"3", to="m")
    node.auto = False
    node.say(read(2, "m", ack=CLIENT, group="g", start=(TIME, START_MS), receipt=b"r"))
    while not node.read_requests:
        assert node.step()
    node.say(send(3, "/admin", b'{"do": "delete", "log": "m"}', reply_to="admin"))
    if is_declared_again:
        node.say(send(3, "/admin", b'{"do": "declare", "log": "m", "partitions": 3}', reply_to="admin"))
    node.auto = True
    node.turn([])
    if not is_declared_again:
        assert node.refusal(2).code == "no-such-destination"
        assert not node.disk.platter.positions
    else:
        assert node.receipts(2) == [b"r"]
        assert [*node.disk.platter.positions.values()] == [[0, 0, 0]]
    assert not node.broker.blocking.connections


@pytest.mark.durability("D26")
def test_the_position_is_the_first_that_is_not_acked() -> None:
    node = node_of()
    append(node, *[b"%d" % n for n in range(5)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=5))
    got = node.messages(2)
    for index, position in ((1, 0), (3, 0), (0, 2), (2, 4), (4, 5)):
        node.say(ack(got[index]))
        assert node.disk.platter.positions == {(1, "g"): [position]}


def test_what_was_acked_beyond_the_position_comes_not_again_but_after_a_restart() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=2))
    node.say(ack(node.messages(2)[1], b"r"))
    node.take(2)
    node.close(2)
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9))
    assert [(m.message.body, m.redelivered) for m in node.messages(3)] == [(b"0", True), (b"2", True)]
    again = node.crashed()
    again.open(1, 2)
    append(again, b"3")
    again.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9))
    got = [(m.message.body, m.redelivered) for m in again.messages(2)]
    assert got == [(b"0", True), (b"1", True), (b"2", True), (b"3", False)]


def test_from_counts_only_where_the_group_has_no_position() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT, group="g", start=(OFFSET, 2)))
    assert node.bodies(2) == [b"2"]
    node.close(2)
    node.say(read(3, ack=CLIENT, group="g", start=FROM_THE_FIRST, prefetch_count=9))
    assert node.bodies(3) == [b"2"]
    node.say(read(3, ack=CLIENT, group="g", start=(OFFSET, 77), name=b"too far, and no matter"))
    assert not node.is_refused(3)


def test_groups_know_nothing_of_each_other() -> None:
    node = node_of()
    append(node, b"0", b"1")
    node.say(read(2, ack=CLIENT, group="g", prefetch_count=9), read(3, ack=CLIENT, group="h", prefetch_count=9))
    node.say(ack(node.messages(2)[1]), ack(node.messages(3)[0]))
    assert node.disk.platter.positions == {(1, "g"): [2], (1, "h"): [1]}


def test_an_ack_in_a_transaction_moves_the_position_with_it() -> None:
    node = node_of()
    append(node, b"0", b"1")
    node.say(read(2, ack=CLIENT, group="g", prefetch_count=9))
    got = node.messages(2)
    node.say(begin(2), ack(got[0], transaction=b"t"), send(2, "q", b"out", transaction=b"t"))
    assert node.disk.platter.positions == {(1, "g"): [0]} and node.stored("q") == []
    node.say(commit(2, receipt=b"r"))
    assert node.disk.platter.positions == {(1, "g"): [1]} and node.stored("q") == [b"out"]
    node.say(begin(2), ack(got[1], transaction=b"t"))
    node.close(2)
    assert node.disk.platter.positions == {(1, "g"): [1]}


def owners(node: Node, log: str = "three", group: str = "g") -> dict[int, int]:
    """By partition the connection that has it."""
    found = node.broker.destinations.logs.all[log].groups[group].owners
    return {index: cursor.reader.subscription.connection.number for index, cursor in sorted(found.items())}


def test_members_share_the_partitions() -> None:
    node = node_of()
    node.open(4)
    node.say(read(1, "three", ack=CLIENT, group="g"))
    assert owners(node) == {0: 1, 1: 1, 2: 1}
    node.say(read(2, "three", ack=CLIENT, group="g"))
    assert sorted(owners(node).values()) == [1, 1, 2]
    node.say(read(3, "three", ack=CLIENT, group="g"))
    assert sorted(owners(node).values()) == [1, 2, 3]
    node.say(read(4, "three", ack=CLIENT, group="g"))
    assert sorted(owners(node).values()) == [1, 2, 3]  # one has nothing, and waits
    node.close(1)
    assert sorted(owners(node).values()) == [2, 3, 4]
    node.say(unsubscribe(2, "/log/three"))
    node.close(3)
    assert owners(node) == {0: 4, 1: 4, 2: 4}
    node.say(read(2, "three", ack=CLIENT, group="g", partition=1), unsubscribe(2, "/log/three"))
    node.close(4)
    node.close(2)
    assert is_empty(node)


def test_each_record_goes_to_one_member_in_order_within_its_partition() -> None:
    node = node_of()
    node.say(read(2, "three", ack=CLIENT, group="g", prefetch_count=99))
    node.say(read(3, "three", ack=CLIENT, group="g", prefetch_count=99))
    node.say(*[send(1, "/log/three", b"%d" % n) for n in range(30)])
    two, three = places(node.messages(2)), places(node.messages(3))
    assert sorted(two + three) == [(p, o) for p in range(3) for o in range(10)]
    assert not {p for p, _ in two} & {p for p, _ in three}
    for got in (two, three):
        for index in range(3):
            assert [o for p, o in got if p == index] in ([], list(range(10)))


def test_a_partition_changes_hands_only_when_nothing_of_it_is_unacked() -> None:
    node = node_of()
    node.say(*[send(1, "/log/three", b"%d" % n) for n in range(9)])
    node.say(read(2, "three", ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9))
    unacked = dict(zip(places(got := node.messages(2)), got, strict=True))
    assert len(unacked) == 9
    node.say(read(3, "three", ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9))
    assert owners(node) == {0: 2, 1: 2, 2: 2}
    node.say(*[send(1, "/log/three", b"%d" % n) for n in range(9)])
    for place in sorted(unacked):
        node.say(ack(unacked.pop(place)))
        moved = {p for p, _ in places(node.messages(3))}
        assert not moved & {p for p, _ in unacked}
    assert sorted(owners(node).values()) == [2, 2, 3]


def test_unacked_records_of_a_lost_member_come_to_another_in_order() -> None:
    node = node_of()
    append(node, *[b"%d" % n for n in range(6)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=3))
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9))
    got = node.messages(2)
    assert node.messages(3) == []
    node.say(ack(got[0]))
    node.close(2)
    again = node.messages(3)
    assert [m.message.body for m in again] == [b"1", b"2", b"3", b"4", b"5"]
    assert [m.redelivered for m in again] == [True, True, True, False, False]


def test_a_member_may_want_one_partition_only() -> None:
    node = node_of()
    node.say(read(2, "three", ack=CLIENT, group="g", partition=1))
    assert owners(node) == {1: 2}
    node.say(read(3, "three", ack=CLIENT, group="g"))
    assert owners(node) == {0: 3, 1: 2, 2: 3}
    node.close(2)
    assert owners(node) == {0: 3, 1: 3, 2: 3}


def test_until_in_a_group_waits_for_the_partitions_of_others_too() -> None:
    node = node_of()
    node.say(*[send(1, "/log/three", b"%d" % n) for n in range(3)])
    node.say(read(2, "three", ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9, until=(END, 0)))
    *got, end = node.messages(2)
    assert is_end(end)
    node.say(read(3, "three", ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9, until=(END, 0)))
    node.say(*(ack(one) for one in got[:2]))
    node.wait(0.25)
    assert node.messages(3) == []
    node.say(ack(got[2]))
    node.wait(0.25)
    assert is_end(node.message(3))


def test_a_group_reads_only_so_far_ahead_of_what_it_has_not_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.groups.GROUP_AHEAD_MAX", 20)
    node = node_of()
    append(node, *[b"%d" % n for n in range(LOAD_MESSAGES + 100)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=10))
    first, *others = node.messages(2)
    for _ in range(100):
        node.say(*(ack(one) for one in others))
        others = node.messages(2)
    assert not others and len(node.broker.destinations.logs.all["l"].groups["g"].acked[0]) < LOAD_MESSAGES
    node.say(ack(first))
    assert len(node.messages(2)) == 10


def test_readers_of_a_group_leave_nothing_behind() -> None:
    node = node_of()
    node.say(*[send(1, "/log/three", b"%d" % n) for n in range(30)])
    for number in (2, 3):
        node.say(read(number, "three", ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=4))
    got = node.messages(2)
    node.say(nack(got[0]), ack(got[1]), unsubscribe(2, "/log/three"))
    node.close(3)
    node.close(2)
    assert is_empty(node)
    group = node.broker.destinations.logs.all["three"].groups["g"]
    assert not group.members and not group.owners


@pytest.mark.parametrize("is_over", [False, True])
def test_positions_count_in_their_batch(monkeypatch: pytest.MonkeyPatch, is_over: bool) -> None:
    """Of two groups in 1024 partitions; each once in a batch, however often it is moved."""
    node = node_of(Declarations(logs={"wide": LogSettings(partitions=PARTITIONS_MAX)}, create_queues=True))
    append(node, b"0", b"1", to="wide", key=b"k")
    node.say(send(1, "q"))
    node.say(read(2, "wide", ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=9))
    node.say(read(3, "wide", ack=CLIENT_INDIVIDUAL, group="h", prefetch_count=9))
    node.auto = False
    before = node.broker.context.open.size
    node.say(*(ack(got) for number in (2, 3) for got in node.messages(number)))
    cost = 2 * (WRITE_COST_BYTES + 8 * PARTITIONS_MAX)
    assert node.broker.context.open.size == before + cost
    sent = send(1, "q", b"four", receipt=b"r")
    shrink(monkeypatch, {"BATCH_BYTES": before + cost + 4 - is_over})
    node.say(sent)
    assert (1 in node.paused) == is_over
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"r"] and not node.paused
