"""Where a subscription to a log begins, and where it ends."""

from typing import Any

import pytest

from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL, EARLIEST, END, LATEST, OFFSET, TIME
from radiator.model.replies import Deliver, Receipt
from radiator.model.settings import Declarations, LogSettings
from tests.core.logs.reading import START_MS, append, is_empty, is_end, node_of, places, read
from tests.core.words import ack, nack, send, unsubscribe

# ---- where a subscription begins ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "bodies"),
    [
        (None, [b"new"]),
        ((LATEST, 0), [b"new"]),
        ((EARLIEST, 0), [b"0", b"1", b"2", b"3", b"new"]),
        ((OFFSET, 0), [b"0", b"1", b"2", b"3", b"new"]),
        ((OFFSET, 2), [b"2", b"3", b"new"]),
        ((OFFSET, 4), [b"new"]),
        ((TIME, 0), [b"0", b"1", b"2", b"3", b"new"]),
        ((TIME, START_MS + 1000), [b"1", b"2", b"3", b"new"]),
        ((TIME, START_MS + 1001), [b"2", b"3", b"new"]),
        ((TIME, START_MS + 3000), [b"3", b"new"]),
        ((TIME, START_MS + 3001), [b"new"]),
        ((TIME, START_MS + 99_000), []),
    ],
)
@pytest.mark.parametrize("ack_mode", [AUTO, CLIENT])
@pytest.mark.parametrize("group", [None, "g"])
def test_from(start: Any, bodies: list[bytes], ack_mode: str, group: str | None) -> None:
    if group and ack_mode == AUTO:
        return
    node = node_of()
    for number in range(4):
        append(node, b"%d" % number)
        node.wait(1)
    node.say(read(2, ack=ack_mode, start=start, prefetch_count=100, group=group))
    append(node, b"new")
    assert node.bodies(2) == bodies


@pytest.mark.parametrize("offset", [5, 6, 10**12])
def test_from_an_offset_that_is_not_there_is_refused(offset: int) -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    node.say(read(2, start=(OFFSET, offset)))
    assert node.refusal(2).code == "no-such-offset"
    node.close(2)
    assert is_empty(node)


@pytest.mark.parametrize(("offsets", "found"), [
    ({}, [0, 1, 2, 3]), ({0: 0}, [0, 1, 2, 3]), ({0: 3}, [3]), ({0: 4}, []),
])  # fmt: skip
def test_from_places_by_partition(offsets: dict[int, int], found: list[int]) -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    node.say(read(2, offsets=offsets), read(3, "three", offsets={1: 0}))
    assert [offset for _, offset in places(node.messages(2))] == found
    append(node, b"new")
    assert node.bodies(2)[-1] == b"new" and not node.is_refused(3)


def test_a_partition_that_is_not_named_is_read_from_its_first_record_ever() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", to="three")
    node.say(read(2, "three", offsets={2: 0}), read(3, "three", offsets={0: 0}, partition=0))
    assert sorted(node.bodies(2)) == [b"0", b"1", b"2"]
    assert all(partition == 0 for partition, _ in places(node.messages(3)))


@pytest.mark.parametrize(("offsets", "sentence"), [
    ({0: 5}, "cannot be read from 5 on"), ({1: 0}, "has 1 partition, numbered from 0, and no partition 1"),
    ({0: 0, 9: 0}, "no partition 9"),
])  # fmt: skip
def test_from_a_place_that_is_not_there_is_refused(offsets: dict[int, int], sentence: str) -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    node.say(read(2, offsets=offsets))
    refusal = node.refusal(2)
    assert refusal.code == "no-such-offset" and sentence in refusal.sentence
    node.close(2)
    assert is_empty(node)


def test_so_many_partitions_are_read_together_and_no_more() -> None:
    node = node_of()
    node.say(read(1, "three", offsets_max=3), read(2, "three", offsets_max=2, partition=2))
    assert not node.is_refused(1) and not node.is_refused(2)
    node.say(read(3, "three", offsets_max=2))
    refusal = node.refusal(3)
    assert refusal.code == "protocol" and "at most 2 are read together" in refusal.sentence


def test_time_is_looked_for_within_a_segment_and_by_what_each_segment_has() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=None, retention_bytes=10**9)}))
    log = node.broker.destinations.logs.all["l"]
    log.segment_bytes = 3  # so that there are some
    for number in range(10):
        append(node, b"%d" % number)
        node.wait(1)
    assert len(log.partitions[0].segments) == 4
    for number in range(10):
        node.say(read(2, start=(TIME, START_MS + 1000 * number), name=b"%d" % number))
        assert node.bodies(2) == [b"%d" % n for n in range(number, 10)]


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    node = node_of()
    append(node, b"0")
    node.now_ms -= 50_000
    append(node, b"1")
    node.now_ms += 10_000
    append(node, b"2")
    node.say(read(2, start=(TIME, START_MS - 40_000)))
    assert node.bodies(2) == [b"0", b"1", b"2"]  # the first accepted then or later, and all behind it
    node.say(read(3, start=(TIME, START_MS + 1)))
    assert node.bodies(3) == []


def test_one_partition_or_all() -> None:
    node = node_of()
    node.say(*[send(1, "/log/three", b"%d" % number) for number in range(9)])
    node.say(read(2, "three", partition=1), read(3, "three"))
    assert places(node.messages(2)) == [(1, 0), (1, 1), (1, 2)]
    got = places(node.messages(3))
    assert sorted(got) == [(p, o) for p in range(3) for o in range(3)]
    assert [[o for p, o in got if p == index] for index in range(3)] == [[0, 1, 2]] * 3
    node.say(*[send(1, "/log/three", b"%d" % number) for number in range(3)])
    assert places(node.messages(2)) == [(1, 3)] and sorted(places(node.messages(3))) == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"partition": 3}, "no-such-offset"),
        ({"start": (OFFSET, 0)}, "protocol"),
        ({"until": (OFFSET, 0)}, "protocol"),
        ({"exclusive": True}, "protocol"),
        ({"consumer_priority": 1}, "protocol"),
        ({"group": "g", "ack": AUTO}, "protocol"),
    ],
)
def test_what_cannot_be_subscribed_to_is_refused(more: dict[str, Any], code: str) -> None:
    node = node_of()
    node.say(read(2, "three", **more))
    assert node.refusal(2).code == code
    node.close(2)
    assert is_empty(node) and not node.broker.destinations.logs.all["three"].groups


def test_a_subscription_to_no_log_is_refused() -> None:
    node = node_of()
    node.say(read(2, "none"))
    assert node.refusal(2).code == "no-such-destination"


# ---- where it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "bodies"),
    [
        ((END, 0), [b"0", b"1", b"2", b"3"]),
        ((OFFSET, 0), []),
        ((OFFSET, 2), [b"0", b"1"]),
        ((OFFSET, 4), [b"0", b"1", b"2", b"3"]),
        ((TIME, START_MS), []),
        ((TIME, START_MS + 2000), [b"0", b"1"]),
        ((TIME, START_MS + 2001), [b"0", b"1", b"2"]),
        ((TIME, START_MS + 3500), [b"0", b"1", b"2", b"3"]),
    ],
)
@pytest.mark.parametrize(
    "how", [{}, {"ack": CLIENT, "prefetch_count": 4}, {"ack": CLIENT, "prefetch_count": 4, "group": "g"}]
)
def test_until(until: Any, bodies: list[bytes], how: dict[str, Any]) -> None:
    node = node_of()
    for number in range(4):
        append(node, b"%d" % number)
        node.wait(1)
    node.say(read(2, until=until, **how))
    *got, last = node.messages(2)
    assert [one.message.body for one in got] == bodies
    assert is_end(last) and last.message.body == b"" and not last.ack_due and last.message_id
    append(node, b"new")
    node.wait(100)
    assert node.messages(2) == []
    node.say(unsubscribe(2, "/log/l", b"r"))
    assert node.receipts(2) == [b"r"]


def test_until_an_offset_that_is_still_to_come() -> None:
    node = node_of()
    append(node, b"0")
    node.say(read(2, until=(OFFSET, 2)))
    assert node.bodies(2) == [b"0"]
    append(node, b"1", b"2")
    got = node.messages(2)
    assert [one.message.body for one in got] == [b"1", b""] and is_end(got[1])


def test_until_a_time_that_is_still_to_come_ends_when_that_has_come() -> None:
    node = node_of()
    append(node, b"0")
    node.say(read(2, until=(TIME, START_MS + 2000)))
    node.wait(1)
    append(node, b"1")
    assert node.bodies(2) == [b"0", b"1"]
    node.wait(0.9)
    assert node.messages(2) == []
    node.wait(0.1)
    assert is_end(node.message(2))
    append(node, b"2")
    assert node.messages(2) == []


def test_the_end_of_an_empty_log_comes_at_once_behind_the_receipt() -> None:
    node = node_of()
    node.say(read(2, "three", until=(END, 0), receipt=b"r"))
    replies = node.take(2)
    assert isinstance(replies[0], Receipt) and isinstance(replies[1], Deliver) and is_end(replies[1])


def test_end_is_what_was_there_at_the_subscribe_though_not_yet_committed() -> None:
    node = node_of(auto=False)
    node.say(send(1, "/log/l", b"0"), read(2, until=(END, 0)), send(1, "/log/l", b"1"))
    assert node.messages(2) == []
    while node.step():
        pass
    assert [one.message.body for one in node.messages(2)] == [b"0", b""]


def test_what_came_back_is_sent_again_before_the_end() -> None:
    node = node_of()
    append(node, b"0", b"1")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, prefetch_count=1, until=(END, 0)))
    node.say(nack(node.message(2)))
    again = node.message(2)
    assert again.message.body == b"0" and again.redelivered
    node.say(ack(again))
    first, end = node.messages(2)
    assert first.message.body == b"1" and is_end(end)
