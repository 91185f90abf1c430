"""Logs: what is appended, who reads what, where a subscription begins and ends, and what refuses it."""

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from radiator.core.logs import log_consumer, log_consumers
from radiator.core.turn import WRITE_COST_BYTES
from radiator.model.commands import (
    AUTO,
    CLIENT,
    CLIENT_INDIVIDUAL,
    EARLIEST,
    END,
    LATEST,
    OFFSET,
    TIME,
    Fail,
    Read,
    StoredRecord,
    Subscribe,
    Tick,
)
from radiator.model.errors import StoreError
from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.limits import GIB, LOAD_MESSAGES, PARTITIONS_MAX, SEGMENT_RECORDS, Limits
from radiator.model.reads import ReadLog
from radiator.model.replies import Deliver, EndOfLog, Receipt, RecordPlace, Refuse
from radiator.model.settings import Binding, Declarations, ExchangeSettings, LogSettings
from radiator.model.writes import DropSegment, Write
from tests.core.node import Node
from tests.core.words import abort, ack, begin, commit, header, nack, send, subscribe, unsubscribe
from tests.sim.disk import Platter

START_MS = 1_700_000_000_000
FROM_THE_FIRST = (EARLIEST, 0)


def declared(**more: Any) -> Declarations:
    """Two logs: `l` has one partition, `three` has three."""
    logs = {"l": LogSettings(), "three": LogSettings(partitions=3)}
    return Declarations(logs=logs, create_queues=True, create_topics=True, **more)


def node_of(declarations: Declarations | None = None, **more: Any) -> Node:
    node = Node(declarations or declared(), **more)
    node.open(1, 2, 3)
    return node


def read(connection: int, to: str = "l", ack: str = AUTO, start: Any = FROM_THE_FIRST, **more: Any) -> Subscribe:
    return subscribe(connection, f"/log/{to}", ack, start=start, **more)


def append(node: Node, *bodies: bytes, to: str = "l", key: bytes | None = None) -> None:
    headers = b"" if key is None else b"partition-key:%b\n" % key
    node.say(*(send(1, f"/log/{to}", body, headers=headers) for body in bodies))


def places(delivers: list[Deliver]) -> list[tuple[int, int]]:
    """Partition and offset of each."""
    return [(place.partition, place.offset) for one in delivers if isinstance(place := one.log, RecordPlace)]


def is_end(deliver: Deliver) -> bool:
    return isinstance(deliver.log, EndOfLog)


def is_empty(node: Node) -> bool:
    """Nothing is left in memory of any reader."""
    readers = node.broker.destinations.readers
    cursors = [c for log in node.broker.destinations.logs.values() for p in log.partitions for c in p.cursors]
    return not (readers.all or readers.due or readers.timed or readers.memory_bytes or cursors)


# ---- in ---------------------------------------------------------------------------------------------------------


@pytest.mark.durability("D25")
def test_a_receipt_means_that_the_record_is_on_the_disk() -> None:
    node = node_of(auto=False)
    node.say(send(1, "/log/l", b"a", b"r"))
    assert node.receipts(1) == []
    assert node.seal()
    assert node.receipts(1) == []
    lost = node.crashed()
    lost.open(2)
    lost.say(read(2))
    assert lost.bodies(2) == []
    node.commit()
    assert node.receipts(1) == [b"r"]
    again = node.crashed()
    again.open(2)
    again.say(read(2))
    assert again.bodies(2) == [b"a"]


@pytest.mark.durability("D25")
def test_a_reader_gets_nothing_that_is_not_committed() -> None:
    node = node_of(auto=False)
    node.say(read(2))
    node.say(send(1, "/log/l", b"a"))
    assert node.messages(2) == []
    node.seal()
    assert node.messages(2) == []
    node.commit()
    assert node.bodies(2) == [b"a"]


@pytest.mark.durability("D25")
def test_a_reader_of_the_tail_gets_nothing_of_the_next_batch() -> None:
    node = node_of(auto=False)
    node.say(read(2), send(1, "/log/l", b"at sea"))
    node.seal()
    node.say(send(1, "/log/l", b"open"))
    node.commit()
    assert node.bodies(2) == [b"at sea"]
    node.say(read(3, until=(OFFSET, 1)))
    while node.read_requests:
        node.answer()
    assert [one.message.body for one in node.messages(3)] == [b"at sea", b""]
    node.seal()
    node.commit()
    assert node.bodies(2) == [b"open"] and node.messages(3) == []


@pytest.mark.durability("D25")
def test_offsets_go_on_after_a_restart_without_a_gap() -> None:
    node = node_of()
    append(node, b"0", b"1")
    again = node.crashed()
    again.open(1, 2)
    append(again, b"2", b"3")
    again.say(read(2))
    assert places(got := again.messages(2)) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert [one.message.body for one in got] == [b"0", b"1", b"2", b"3"]


def test_a_message_has_its_place_before_the_senders_headers() -> None:
    node = node_of()
    append(node, b"a", key=b"k")
    node.say(send(1, "/log/l", b"b", headers=b"offset:99\n"), read(2))
    first, second = node.messages(2)
    assert (first.log, first.message.headers) == (RecordPlace(0, 0), b"partition-key:k\n")
    assert (second.log, second.message.headers) == (RecordPlace(0, 1), b"offset:99\n")
    assert first.message.destination == "/log/l" and not first.redelivered and first.message_id != second.message_id
    node.say(send(1, "/log/l", b"c", headers=b"x:y\n"))  # from the tail
    third = node.message(2)
    assert (third.log, third.message.headers) == (RecordPlace(0, 2), b"x:y\n")


def test_reading_takes_nothing_away() -> None:
    node = node_of()
    append(node, b"a", b"b")
    for turn in range(3):
        node.say(read(2, name=b"%d" % turn))
        assert node.bodies(2) == [b"a", b"b"]
        node.say(unsubscribe(2, str(turn)))
    assert is_empty(node)


@pytest.mark.parametrize(
    ("headers", "escaping", "key"),
    [
        (b"partition-key:customer 7\n", ESCAPING_ALL, b"customer 7"),
        (b"a:b\npartition-key:k\n", ESCAPING_ALL, b"k"),
        (b"partition-key:first\npartition-key:second\n", ESCAPING_ALL, b"first"),
        (b"partition-key:a\\cb\\n\n", ESCAPING_ALL, b"a:b\n"),
        (b"partition-key: k \n", ESCAPING_ALL, b" k "),
        (b"partition-key: k \n", ESCAPING_NONE, b"k"),
        (b"partition-key:\n", ESCAPING_ALL, b""),
        ("partition-key:é\n".encode(), ESCAPING_ALL, "é".encode()),
    ],
)
def test_the_header_says_the_partition(headers: bytes, escaping: int, key: bytes) -> None:
    node = node_of()
    node.say(*[send(1, "/log/three", b"x", headers=headers)] * 2, read(2, "three"))
    for one in (sent := send(1, "/log/three", b"x", headers=headers)), sent:
        one.escaping = escaping
        node.say(one)
    assert {partition for partition, _ in places(node.messages(2)[2:])} == {zlib.crc32(key) % 3}


@pytest.mark.parametrize("headers", [b"", b"x-partition-key:k\n", b"partition-keys:k\n", b"x:partition-key:k\n"])
def test_without_a_key_the_partitions_take_turns(headers: bytes) -> None:
    node = node_of()
    node.say(*[send(1, "/log/three", b"x", headers=headers)] * 6, read(2, "three"))
    assert sorted(places(node.messages(2))) == [(p, o) for p in range(3) for o in range(2)]


@pytest.mark.parametrize(
    ("pointer", "body", "key"),
    [
        ("/customer/id", b'{"customer": {"id": "c7"}}', b"c7"),
        ("/customer/id", b'{"customer": {"id": 7}}', b"7"),
        ("/a/1/b", b'{"a": [1, {"b": "c"}]}', b"c"),
        ("/a~1b/c~0d", b'{"a/b": {"c~d": true}}', b"true"),
        ("/a", b'{"a": null}', b"null"),
        ("", b'"whole"', b"whole"),
        ("/", b'{"": "empty"}', b"empty"),
        ("/a", '{"a": "é"}'.encode(), "é".encode()),
        ("/a", b'{"a": "\\ud800"}', b"\xed\xa0\x80"),
        ("/a", b'{"a": 1.50}', b"1.5"),
    ],
)
def test_the_body_says_the_partition_where_the_log_has_a_pointer(pointer: str, body: bytes, key: bytes) -> None:
    node = node_of(Declarations(logs={"l": LogSettings(partitions=1021, partition_key=pointer)}))
    node.say(send(1, "/log/l", body, headers=b"partition-key:other\n"), read(2))
    assert places(node.messages(2)) == [(zlib.crc32(key) % 1021, 0)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"{}",
        b'{"a": 1}',
        b'{"k": []}',
        b'{"k": {"a": 1}}',
        b'{"k": ["x"]}',
        b'{"k": {"01": ["an array is no key"]}}',
        b'{"k": {"01": {"nor": "an object"}}}',
        b'{"k": "text"}',
        b"[" * 10_000,
        b"\xff\xfe",
        b'{"k": {"01": "x"}, "pad": "' + b"x" * 16_384 + b'"}',
        b'{"k": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_body_without_the_key_goes_by_turns(body: bytes) -> None:
    node = node_of(Declarations(logs={"l": LogSettings(partitions=3, partition_key="/k/01")}))
    node.say(*[send(1, "/log/l", body)] * 3, read(2))
    assert sorted(places(node.messages(2))) == [(0, 0), (1, 0), (2, 0)]


def test_a_body_of_16_kib_has_a_key_and_one_byte_more_has_none() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(partitions=1021, partition_key="/k")}))
    fits = b'{"k":"a","x":"' + b"x" * (16_384 - 16) + b'"}'
    assert len(fits) == 16_384
    node.say(*[send(1, "/log/l", fits)] * 2, *[send(1, "/log/l", fits + b" ")] * 2, read(2))
    at = zlib.crc32(b"a") % 1021
    assert sorted(places(node.messages(2))) == sorted([(at, 0), (at, 1), (0, 0), (1, 0)])


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"expiration_ms": 1000}, "no-delay"),
        ({"expires_ms": START_MS + 1000}, "no-delay"),
        ({"delay_ms": 1000}, "no-delay"),
        ({"deliver_at_ms": START_MS + 1000}, "no-delay"),
        ({"immediate": True}, "no-consumer"),
    ],
)
def test_what_a_log_does_not_do_is_refused(more: dict[str, Any], code: str) -> None:
    node = node_of()
    node.say(send(1, "/log/l", b"a", **more))
    assert node.refusal(1).code == code
    node.say(read(2))
    assert node.messages(2) == []


def test_expires_0_and_mandatory_are_no_matter() -> None:
    node = node_of()
    node.say(send(1, "/log/l", b"a", b"r", expires_ms=0, mandatory=True))
    assert node.receipts(1) == [b"r"]


@pytest.mark.parametrize(
    ("to", "code"),
    [("/log/none", "no-such-destination"), ("/log/journal", "reserved"), ("/log/", "unknown-destination")],
)
def test_only_a_declared_log_is_appended_to(to: str, code: str) -> None:
    logs = {"l": LogSettings(), "journal": LogSettings()}
    node = node_of(Declarations(logs=logs, create_queues=True, has_journal=True))
    node.say(send(1, to, b"a"))
    assert node.refusal(1).code == code


def test_a_transaction_appends_all_or_nothing() -> None:
    node = node_of()
    node.say(begin(1), send(1, "/log/l", b"a", transaction=b"t"), send(1, "q", b"b", transaction=b"t"))
    node.say(send(1, "/log/three", b"c", transaction=b"t"), read(2), read(2, "three"))
    assert node.messages(2) == [] and node.stored("q") == []
    node.say(commit(1, receipt=b"r"))
    assert node.bodies(2) == [b"a", b"c"] and node.stored("q") == [b"b"] and node.receipts(1) == [b"r"]
    node.say(begin(1), send(1, "/log/l", b"d", transaction=b"t"), abort(1))
    assert node.messages(2) == []


def test_children_of_a_fanout_and_bindings_may_be_logs() -> None:
    node = node_of(
        declared(
            fanouts={"f": ("q", "/log/l")},
            exchanges={"x": ExchangeSettings(type="topic")},
            bindings=[Binding("x", "a.#", "/log/l"), Binding("x", "a.b", "p")],
        )
    )
    node.say(read(2))
    node.say(send(1, "/fanout/f", b"1", b"r1", expiration_ms=10_000, delay_ms=500))
    got = node.message(2)  # at once, though the queue keeps its copy
    assert got.message.destination == "/fanout/f" and header(got.message, b"fanout-message-id")
    assert node.numbers("q")["delayed"] == 1
    node.say(send(1, "/exchange/x/a.b", b"2", b"r2"), send(1, "/exchange/x/a.c", b"3", b"r3"))
    assert node.bodies(2) == [b"2", b"3"] and node.stored("p") == [b"2"]
    assert node.receipts(1) == [b"r1", b"r2", b"r3"]
    node.say(subscribe(3, "/queue/p", prefetch_count=9), send(1, "/exchange/x/a.b", b"4", immediate=True))
    assert not node.is_refused(1) and node.bodies(2) == [b"4"]


def test_a_binding_to_a_log_outlives_a_restart_and_goes_with_the_log() -> None:
    node = node_of()
    node.admin(1, do="declare", log="tap")
    assert node.admin(1, do="bind", exchange="amq.fanout", key="", queue="/log/tap") == {"ok": True, "created": True}
    node.say(send(1, "/exchange/amq.fanout/k", b"1"))
    again = node.crashed()
    again.open(1, 2)
    again.say(send(1, "/exchange/amq.fanout/k", b"2"), read(2, "tap"))
    assert again.bodies(2) == [b"1", b"2"]
    assert again.admin(1, do="delete", log="tap")["code"] == "in-use"
    again.say(unsubscribe(2, "/log/tap"))
    assert again.admin(1, do="delete", log="tap") == {"ok": True, "deleted": 2}
    assert not again.disk.platter.bindings and not again.broker.destinations.exchanges.bound
    again.wait(1)
    assert not again.disk.platter.records and not again.disk.platter.segments


def test_a_log_that_a_fanout_needs_is_not_deleted() -> None:
    node = node_of()
    node.admin(1, do="declare", log="tap")
    assert node.admin(1, do="declare", fanout="f", children=["q", "/log/tap"])["ok"]
    assert node.admin(1, do="delete", log="tap")["code"] == "in-use"
    assert node.admin(1, do="declare", fanout="g", children=["/log/none"])["code"] == "bad-request"
    assert "g" not in node.broker.destinations.fanouts


def test_sends_to_logs_wait_for_the_disk_as_others_do() -> None:
    node = node_of()
    node.turn([Tick(GIB, 2 * GIB)])
    node.say(send(1, "/log/l", b"a", b"r"))
    assert 1 in node.paused and node.receipts(1) == []
    node.wait(1)
    assert 1 not in node.paused and node.receipts(1) == [b"r"]


def test_partitions_of_logs_count_among_the_destinations() -> None:
    node = node_of(limits=Limits(max_destinations=6))
    assert node.admin(1, do="declare", log="too", partitions=3)["code"] == "too-many-destinations"
    assert node.admin(1, do="declare", log="two", partitions=1)["ok"]
    assert node.admin(1, do="declare", log="new")["ok"]
    assert node.admin(1, do="declare", log="newer")["code"] == "too-many-destinations"


# ---- where a subscription begins --------------------------------------------------------------------------------


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


def test_time_is_looked_for_within_a_segment_and_by_what_each_segment_has() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=None, retention_bytes=10**9)}))
    log = node.broker.destinations.logs["l"]
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
        ({"group": "g", "ack": AUTO}, "protocol"),
    ],
)
def test_what_cannot_be_subscribed_to_is_refused(more: dict[str, Any], code: str) -> None:
    node = node_of()
    node.say(read(2, "three", **more))
    assert node.refusal(2).code == code
    node.close(2)
    assert is_empty(node) and not node.broker.destinations.logs["three"].groups


def test_a_subscription_to_no_log_is_refused() -> None:
    node = node_of()
    node.say(read(2, "none"))
    assert node.refusal(2).code == "no-such-destination"


# ---- where it ends ----------------------------------------------------------------------------------------------


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
    told = node.take(2)
    assert isinstance(told[0], Receipt) and isinstance(told[1], Deliver) and is_end(told[1])


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


# ---- windows, ACK and NACK --------------------------------------------------------------------------------------


def test_the_window_is_that_of_any_subscription() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    node.say(read(2, ack=CLIENT_INDIVIDUAL))
    one = node.message(2)  # the connection's shared window
    assert one.ack_due
    node.say(ack(one, b"r"))
    assert node.receipts(2) == [b"r"]
    assert node.bodies(2) == [b"1"]
    node.say(read(3, ack=CLIENT, prefetch_count=3))
    got = node.messages(3)
    assert [m.message.body for m in got] == [b"0", b"1", b"2"]
    node.say(ack(got[1]))
    assert node.bodies(3) == [b"3"]


def test_a_nack_brings_it_again_to_the_same_subscription_with_a_new_id() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT, prefetch_count=3), read(3, ack=CLIENT, prefetch_count=3))
    first = node.messages(2)
    assert len(node.messages(3)) == 3
    node.say(nack(first[1]))
    again = node.messages(2)
    assert [m.message.body for m in again] == [b"0", b"1"] and all(m.redelivered for m in again)
    assert {m.message_id for m in again}.isdisjoint(m.message_id for m in first)
    assert node.messages(3) == []


def test_what_came_back_comes_in_the_order_of_its_offsets() -> None:
    node = node_of()
    append(node, *[b"%d" % n for n in range(6)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, prefetch_count=3))
    got = node.messages(2)
    node.auto = False
    node.say(nack(got[2]), begin(2), nack(got[1], transaction=b"t"), nack(got[0], transaction=b"t"))
    assert node.bodies(2) == [b"2"]
    node.say(commit(2))
    assert node.bodies(2) == [b"0", b"1"]
    node.close(2)


def test_nack_without_requeue_is_an_ack_and_a_delay_is_refused() -> None:
    node = node_of()
    append(node, b"0", b"1")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g"))
    node.say(nack(node.message(2), requeue=False))
    assert node.disk.platter.positions == {(1, "g"): [1]}
    node.say(nack(node.message(2), delay_ms=0))
    assert node.refusal(2).code == "no-delay"


def test_nack_with_a_delay_is_refused_in_a_transaction_too() -> None:
    node = node_of()
    append(node, b"0")
    node.say(read(2, ack=CLIENT_INDIVIDUAL), begin(2))
    node.say(nack(node.message(2), transaction=b"t", delay_ms=5))
    assert node.refusal(2).code == "no-delay"


def test_an_ack_timeout_closes_the_connection_and_the_group_gets_it_again() -> None:
    node = node_of()
    append(node, b"0")
    node.say(read(2, ack=CLIENT, group="g", ack_timeout_s=2.0), read(3, ack=CLIENT, group="g"))
    assert node.bodies(2) == [b"0"] and node.messages(3) == []
    node.wait(3)
    refusal = node.refusal(2)
    assert refusal.code == "ack-timeout" and "of /log/l was not acked" in refusal.sentence
    node.close(2)
    again = node.message(3)
    assert again.message.body == b"0" and again.redelivered


def test_after_unsubscribe_what_is_unacked_may_still_be_acked() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, prefetch_count=2, group="g"))
    first, second = node.messages(2)
    node.say(unsubscribe(2, "/log/l"), ack(first, b"r"))
    assert node.receipts(2) == [b"r"] and node.disk.platter.positions == {(1, "g"): [1]}
    node.say(read(3, ack=CLIENT_INDIVIDUAL, prefetch_count=9, group="g"))
    assert node.messages(3) == []  # the partition has something unacked still
    node.say(nack(second))
    assert [(m.message.body, m.redelivered) for m in node.messages(3)] == [(b"1", True), (b"2", False)]
    node.close(2)
    node.close(3)
    assert is_empty(node)


def test_what_is_out_without_a_group_is_forgotten_with_the_subscription() -> None:
    node = node_of()
    append(node, b"0", b"1")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, prefetch_count=2))
    first, second = node.messages(2)
    node.say(unsubscribe(2, "/log/l"), ack(first, b"r"), nack(second, b"s"))
    assert node.receipts(2) == [b"r", b"s"] and node.messages(2) == []
    assert is_empty(node)


def test_slow_readers_get_no_more_than_their_buffer_takes() -> None:
    node = node_of(limits=Limits(outbox_max_bytes=4096))
    append(node, *[b"x" * 1000] * 50)
    node.reads_slowly.add(2)
    node.say(read(2))
    taken = len(node.messages(2))
    assert taken < 10
    node.reads_slowly.clear()
    node.turn([])
    assert taken + len(node.messages(2)) == 50


def test_a_reader_holds_a_window_and_it_is_weighed() -> None:
    node = node_of(limits=Limits(outbox_max_bytes=4096))
    append(node, *[b"x" * 1000] * (2 * LOAD_MESSAGES))
    node.reads_slowly.add(2)
    node.say(read(2))
    readers = node.broker.destinations.readers
    assert 0 < readers.memory_bytes <= LOAD_MESSAGES * 1100
    assert node.broker.parts.memory_pressure.in_use() >= readers.memory_bytes
    node.close(2)
    assert is_empty(node)


def test_a_turn_hands_out_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_consumers, "RECORDS_PER_TURN", 10)
    node = node_of(auto=False)
    for number in range(30):
        node.say(send(1, "/log/l", b"%d" % number))
    while node.step():
        pass
    node.say(read(2), read(3))
    most = 0
    while node.step():
        most = max(most, sum(isinstance(r, Deliver) for r in node.log[-40:]))
        node.log.clear()
    assert most <= 20
    assert node.bodies(2) == node.bodies(3) == [b"%d" % n for n in range(30)]


def test_many_readers_of_one_log_all_get_all() -> None:
    node = node_of()
    node.open(*range(10, 60))
    node.say(*(read(number) for number in range(10, 60)))
    append(node, *[b"%d" % n for n in range(100)])
    for number in range(10, 60):
        assert node.bodies(number) == [b"%d" % n for n in range(100)]


def test_a_live_tail_needs_no_disk() -> None:
    node = node_of(auto=False)
    node.say(read(2, start=None), read(3, ack=CLIENT, start=None, prefetch_count=99))
    for number in range(5):
        node.say(send(1, "/log/l", b"%d" % number))
        node.seal()
        node.commit()
        assert not node.read_requests
    assert node.bodies(2) == node.bodies(3) == [b"%d" % n for n in range(5)]


def test_damaged_records_are_passed_over_and_told() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    there = node.disk.load_log

    def damaged(load: ReadLog) -> Any:
        answer = there(load)
        answer.records = [StoredRecord(r.offset, None if r.offset in (1, 2) else r.message) for r in answer.records]
        return answer

    node.disk.load_log = damaged  # type: ignore[method-assign]
    node.say(read(2, ack=CLIENT, prefetch_count=9, group="g"))
    got = node.messages(2)
    assert [m.message.body for m in got] == [b"0", b"3"]
    node.say(ack(got[-1]))
    assert node.disk.platter.positions[1, "g"] == [4]
    assert [note.fields["offset"] for note in node.notes if note.event == "damaged_log"] == [1, 2]
    assert node.stats()["logs"]["l"]["damaged"] == 2


def test_records_that_are_missing_are_not_passed_over() -> None:
    node = node_of()
    append(node, b"0", b"1", b"2", b"3")
    there = node.disk.load_log
    node.disk.load_log = lambda load: there(replace(load, offset=load.offset + 1))  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="^partition 0 of /log/l has no record 0, but later ones"):
        node.say(read(2, ack=CLIENT, prefetch_count=9, group="g"))


# ---- retention --------------------------------------------------------------------------------------------------


def aged(node: Node, log: str = "l") -> list[int]:
    return [partition.first for partition in node.broker.destinations.logs[log].partitions]


def test_what_is_too_old_goes_in_stretches() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    for number in range(20):
        append(node, b"%d" % number)
        node.wait(1)
    first = aged(node)[0]
    assert 10 <= first <= 12  # younger than 8 s, and at most one segment more
    node.say(read(2))
    assert [m.message.body for m in node.messages(2)] == [b"%d" % n for n in range(first, 20)]
    assert node.disk.platter.records[1, 0].keys() == set(range(first, 20))
    node.say(read(3, start=(OFFSET, first - 1)))
    assert node.refusal(3).code == "no-such-offset"


def test_a_log_that_nobody_appends_to_is_empty_in_the_end_and_its_offsets_go_on() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0", b"1", b"2")
    node.wait(8.1)
    node.wait(1)
    assert aged(node) == [3] and not node.disk.platter.records[1, 0]
    again = node.crashed()
    again.open(1, 2)
    append(again, b"3")
    again.say(read(2))
    assert places(again.messages(2)) == [(0, 3)]


def test_what_is_too_much_goes() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=None, retention_bytes=8000)}))
    append(node, *[b"x" * 100] * 200)
    node.wait(1)
    node.wait(1)
    log = node.broker.destinations.logs["l"]
    assert 7000 <= log.size <= 8000 and log.records * 100 == log.size
    assert sum(m.size for m in node.disk.platter.records[1, 0].values()) == log.size  # type: ignore[union-attr]


def test_of_several_partitions_the_oldest_segment_goes() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(partitions=2, retention_ms=None, retention_bytes=3200)}))
    zero = next(b"%d" % n for n in range(9) if zlib.crc32(b"%d" % n) % 2 == 0)
    one = next(b"%d" % n for n in range(9) if zlib.crc32(b"%d" % n) % 2 == 1)
    append(node, *[b"x" * 100] * 16, key=zero)
    node.wait(1)
    append(node, *[b"x" * 100] * 40, key=one)
    node.wait(1)
    assert aged(node) == [14, 10] or aged(node)[0] >= 14, aged(node)


def test_nothing_goes_without_retention() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=None)}))
    append(node, *[b"x" * 1000] * 100)
    node.wait(10**7)
    assert aged(node) == [0]


def test_segments_go_so_many_records_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.retention.SEGMENT_RECORDS", 4)
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    for _ in range(8):
        append(node, b"x")
        node.wait(0.9)
    drops: list[int] = []
    commit_them = node.disk.commit

    def counted(writes: list[Write]) -> None:
        drops.append(sum(isinstance(write, DropSegment) for write in writes))
        commit_them(writes)

    node.disk.commit = counted  # type: ignore[method-assign]
    node.wait(100)
    assert max(drops) == 1 and sum(drops) > 1 and not node.disk.platter.records[1, 0]


def test_as_many_small_segments_go_as_come() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_bytes=1)}), auto=False)
    for _ in range(40):
        node.turn([Read(1, [send(1, "/log/l", b"x") for _ in range(100)]), Tick(GIB, 0)])
        if node.seal():
            node.commit()
    # one a batch would leave nearly all of 4000
    assert 0 < len(node.disk.platter.segments) <= 300 and not node.broker.destinations.retention.leaving


def test_what_all_readers_read_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_consumer, "WATCHED_MAX", 7)
    node = node_of()
    node.say(read(1, "three", name=b"1"), read(2, "three", ack=CLIENT, group="g"), read(3, "three", partition=0))
    assert not any(node.is_refused(number) for number in (1, 2, 3))
    node.open(4)
    node.say(read(4, "l"))
    assert node.refusal(4).code == "too-many-subscriptions"
    node.close(4)
    node.close(2)
    node.open(4)
    node.say(read(4, "three"))
    assert not node.is_refused(4)
    for number in (1, 3, 4):
        node.close(number)
    assert is_empty(node) and node.broker.destinations.readers.watched == 0


def test_a_segment_has_so_many_records_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.log.SEGMENT_RECORDS", 10)
    node = node_of()
    append(node, *[b"x"] * 25)
    segments = node.broker.destinations.logs["l"].partitions[0].segments
    assert [(s.first, s.count) for s in segments] == [(0, 10), (10, 10), (20, 5)]
    assert SEGMENT_RECORDS > 10


def test_a_reader_that_is_overtaken_is_closed() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}), limits=Limits(outbox_max_bytes=2000))
    append(node, *[b"x" * 1000] * 3 * LOAD_MESSAGES)
    node.reads_slowly.add(2)
    node.say(read(2))
    node.wait(10)
    node.wait(1)
    node.reads_slowly.clear()
    node.turn([])
    assert node.refusal(2).code == "no-such-offset"
    assert any(note.event == "log_reader_overtaken" for note in node.notes)
    node.close(2)
    assert is_empty(node)


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


def test_a_group_whose_first_records_go_while_they_are_read_back_hears_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("radiator.core.logs.log.SEGMENT_RECORDS", 1)
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0", b"1", b"2")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g"))
    node.say(ack(node.message(2)))
    node.close(2)
    node.wait(5)
    append(node, b"3", b"4")
    node.auto = False
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=2))
    node.now_s += 5
    node.now_ms += 5000
    node.turn([Tick(GIB, 0)])
    while node.seal():
        node.commit()  # before the loader has answered
    assert node.broker.destinations.logs["l"].partitions[0].first == 3
    node.auto = True
    node.turn([])
    first, second = node.messages(3)
    assert first.log == RecordPlace(0, 3, skipped=2)
    assert second.log == RecordPlace(0, 4)
    assert not any(note.event == "log_reader_overtaken" for note in node.notes)
    node.say(ack(first), ack(second))
    assert node.disk.platter.positions == {(1, "g"): [5]}


@pytest.mark.parametrize("ack_mode", [AUTO, CLIENT_INDIVIDUAL])
def test_who_reads_without_a_group_is_closed_where_its_first_records_go_while_they_are_read_back(ack_mode: str) -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0", b"1", b"2")
    node.auto = False
    node.say(read(2, ack=ack_mode))
    node.now_s += 10
    node.now_ms += 10_000
    node.turn([Tick(GIB, 0)])
    while node.seal():
        node.commit()
    node.auto = True
    node.turn([])
    assert node.refusal(2).code == "no-such-offset"


def test_a_group_that_may_not_read_ahead_goes_on_behind_what_retention_has_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = node_of(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    append(node, b"0")
    node.wait(5)
    append(node, b"1", b"2", b"3")
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=3))
    got = node.messages(2)
    node.say(ack(got[1]), ack(got[2]))
    node.close(2)
    monkeypatch.setattr("radiator.core.logs.groups.AHEAD_MAX", 1)
    monkeypatch.setattr(log_consumer, "LOAD_MESSAGES", 1)
    node.wait(5)
    node.say(read(3, ack=CLIENT_INDIVIDUAL, group="g"))
    assert (third := node.message(3)).log == RecordPlace(0, 3, skipped=1)
    node.say(ack(third))
    assert node.disk.platter.positions == {(1, "g"): [4]} and node.broker.destinations.readers.ahead == 0


# ---- groups -----------------------------------------------------------------------------------------------------


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
    assert not node.broker.blocking.connections and not node.broker.destinations.logs["three"].groups


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
    found = node.broker.destinations.logs[log].groups[group].owners
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
    assert not others and len(node.broker.destinations.logs["l"].groups["g"].acked[0]) < LOAD_MESSAGES
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
    group = node.broker.destinations.logs["three"].groups["g"]
    assert not group.members and not group.owners


# ---- what is declared -------------------------------------------------------------------------------------------


def test_settings_follow_the_configuration_and_outlive_it() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(partitions=2, retention_ms=5000)}))
    append(node, b"0", b"1")
    changed = node.again_on(node.disk.platter, declarations=Declarations(logs={"l": LogSettings(partitions=2)}))
    assert changed.broker.destinations.logs["l"].log_settings == LogSettings(partitions=2)
    without = changed.again_on(changed.disk.platter, declarations=Declarations())
    log = without.broker.destinations.logs["l"]
    assert log.log_settings == LogSettings(partitions=2) and log.records == 2 and not log.is_declared


def test_the_number_of_partitions_is_fixed() -> None:
    node = node_of()
    with pytest.raises(StoreError, match="partitions = 4, but it has 3"):
        node.again_on(node.disk.platter, declarations=Declarations(logs={"three": LogSettings(partitions=4)}))


def test_a_deleted_log_is_swept_after_a_crash_too_and_its_name_is_free() -> None:
    node = node_of()
    node.admin(1, do="declare", log="new", retention_bytes=8000)
    append(node, *[b"x" * 100] * 50, to="new")
    incarnation = node.admin(1, do="describe", log="new")["incarnation"]
    node.auto = False
    body = json.dumps({"do": "delete", "log": "new"}).encode()
    node.say(send(1, "/admin", body))
    node.seal()
    node.commit()
    again = node.crashed()
    assert again.disk.platter.records
    again.open(1, 2)
    assert again.admin(1, do="declare", log="new")["created"]
    append(again, b"fresh", to="new")
    for _ in range(20):
        again.wait(1)
    assert again.admin(1, do="describe", log="new")["incarnation"] != incarnation
    again.say(read(2, "new"))
    assert again.bodies(2) == [b"fresh"]
    assert sum(len(rows) for rows in again.disk.platter.records.values()) == 1


def test_stats_tell_of_logs() -> None:
    node = node_of()
    append(node, b"abc", b"d")
    node.say(read(2, ack=CLIENT, group="g"))
    assert node.stats()["logs"]["l"] == {
        "partitions": 1,
        "records": 2,
        "bytes": 4,
        "retention_bytes": None,
        "accepted": 2,
        "accepted_bytes": 4,
        "readers": 1,
        "unread": {"g": 2},
        "damaged": 0,
    }


def test_a_store_of_nothing_has_no_logs() -> None:
    assert Node(Declarations(), platter=Platter()).broker.destinations.logs == {}


def test_a_tick_looks_at_some_logs_and_the_next_at_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.retention.PARTITIONS_PER_TICK", 2)
    node = node_of(Declarations(logs={f"l{n}": LogSettings(retention_ms=8000) for n in range(5)}))
    for number in range(5):
        append(node, b"x", to=f"l{number}")
    node.wait(10)
    assert sum(log.records for log in node.broker.destinations.logs.values()) == 3
    node.wait(1)
    node.wait(1)
    assert sum(log.records for log in node.broker.destinations.logs.values()) == 0


def test_nothing_is_said_behind_an_error() -> None:
    node = node_of()
    node.say(read(2, until=(TIME, START_MS + 1000)), Fail(2, "protocol", "That is wrong.", None))
    node.wait(5)
    assert [type(reply) for reply in node.inbox[2]] == [Refuse]


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
    monkeypatch.setattr("radiator.core.routing.admission.BATCH_BYTES", before + cost + 4 - is_over)
    node.say(sent)
    assert (1 in node.paused) == is_over
    node.auto = True
    node.turn([])
    assert node.receipts(1) == [b"r"] and not node.paused


def test_what_groups_have_acked_beyond_their_positions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.groups.AHEAD_MAX", 50)
    node = node_of()
    readers = node.broker.destinations.readers
    append(node, *[b"%d" % number for number in range(3 * LOAD_MESSAGES)])
    node.say(read(2, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=100))
    first = node.messages(2)
    behind = first[1:]
    while behind:
        node.say(*(ack(one) for one in behind))
        behind = node.messages(2)
    assert 50 <= readers.ahead <= 2 * LOAD_MESSAGES
    node.close(2)
    node.open(4)
    node.say(read(4, ack=CLIENT_INDIVIDUAL, group="g", prefetch_count=100))
    told: list[bytes] = []
    while new := node.messages(4):
        told += [one.message.body for one in new]
        node.say(*(ack(one) for one in new))
    assert told[0] == b"0" and told[-1] == b"%d" % (3 * LOAD_MESSAGES - 1) and len(told) == len(set(told))
    assert readers.ahead == 0 and node.disk.platter.positions[1, "g"] == [3 * LOAD_MESSAGES]
