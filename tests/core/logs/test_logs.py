"""Logs: what is appended, which partition it goes to, what refuses it, and what is declared."""

import json
import zlib
from typing import Any

import pytest

from radiator.model.commands import CLIENT, OFFSET, TIME, Fail, Tick
from radiator.model.errors import StoreError
from radiator.model.headers import ESCAPING_ALL, ESCAPING_NONE
from radiator.model.limits import GIB, Limits
from radiator.model.replies import RecordPlace, Refuse
from radiator.model.settings import Binding, Declarations, ExchangeSettings, LogSettings
from tests.core.logs.reading import START_MS, append, declared, is_empty, node_of, places, read
from tests.core.node import Node
from tests.core.words import abort, begin, commit, header, send, subscribe, unsubscribe
from tests.sim.disk import Platter

# ---- in -------------------------------------------------------------------------------------------------------------


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
    node.say(read(2), send(1, "/log/l", b"uncommitted"))
    node.seal()
    node.say(send(1, "/log/l", b"open"))
    node.commit()
    assert node.bodies(2) == [b"uncommitted"]
    node.say(read(3, until=(OFFSET, 1)))
    while node.read_requests:
        node.answer()
    assert [one.message.body for one in node.messages(3)] == [b"uncommitted", b""]
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
    assert "g" not in node.broker.destinations.fanouts.all


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


# ---- what is declared -----------------------------------------------------------------------------------------------


def test_settings_follow_the_configuration_and_outlive_it() -> None:
    node = node_of(Declarations(logs={"l": LogSettings(partitions=2, retention_ms=5000)}))
    append(node, b"0", b"1")
    changed = node.again_on(node.disk.platter, declarations=Declarations(logs={"l": LogSettings(partitions=2)}))
    assert changed.broker.destinations.logs.all["l"].log_settings == LogSettings(partitions=2)
    without = changed.again_on(changed.disk.platter, declarations=Declarations())
    log = without.broker.destinations.logs.all["l"]
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
    assert Node(Declarations(), platter=Platter()).broker.destinations.logs.all == {}


def test_a_tick_looks_at_some_logs_and_the_next_at_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.retention.PARTITIONS_PER_TICK", 2)
    node = node_of(Declarations(logs={f"l{n}": LogSettings(retention_ms=8000) for n in range(5)}))
    for number in range(5):
        append(node, b"x", to=f"l{number}")
    node.wait(10)
    assert sum(log.records for log in node.broker.destinations.logs.all.values()) == 3
    node.wait(1)
    node.wait(1)
    assert sum(log.records for log in node.broker.destinations.logs.all.values()) == 0


def test_nothing_is_said_behind_an_error() -> None:
    node = node_of()
    node.say(read(2, until=(TIME, START_MS + 1000)), Fail(2, "protocol", "That is wrong.", None))
    node.wait(5)
    assert [type(reply) for reply in node.inbox[2]] == [Refuse]
