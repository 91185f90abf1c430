"""What Spark calls in its own processes, called here: readers and their requests, with a real broker, without Java."""

import json
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from radiator.client import Client, ConnectionLost, Message, NoAnswer
from radiator.integrations.spark import read
from radiator.integrations.spark.ask import AWAITED_MAX, BrokerRequests, lasting
from radiator.integrations.spark.connect import Connect
from radiator.integrations.spark.offsets import DataLoss, Json, Range, SourceLog
from radiator.integrations.spark.options import SourceOptions, source_options
from radiator.integrations.spark.read import _records, read_range
from radiator.integrations.spark.source import CheckoutReader, LogReader
from radiator.model.errors import RadiatorError, Refusal
from radiator.model.limits import PARTITIONS_MAX
from tests.avro_bodies import ORDER, ORDER_TEXT, VALUE, binary
from tests.broker_process import SERVER, BrokerProcess
from tests.ports import free_port

NUMBERS = count()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address) as one:
        yield one


@pytest.fixture
def log(client: Client) -> str:
    name = f"log{next(NUMBERS)}"
    client.admin({"do": "declare", "log": name})
    return name


def options(broker: BrokerProcess, name: str, **given: Any) -> SourceOptions:
    reported = {"url": broker.address, "subscribe": name, "startingOffsets": "earliest", **given}
    return source_options({key: str(value) for key, value in reported.items() if value is not None}, is_stream=True)


def checkout_options(broker: BrokerProcess, queue: str, **given: Any) -> SourceOptions:
    return options(broker, queue, startingOffsets=None, mode="checkout", group="g", **given)


def fill(client: Client, destination: str, how_many: int, begin: int = 0) -> None:
    client.send_many(destination, [f"m{number}" for number in range(begin, begin + how_many)])


def values(read: SourceOptions, *wanted: Range) -> list[str]:
    return [
        bytes(one).decode() for part in wanted for rows in read_range(read, part) for one in rows["value"].to_pylist()
    ]


def offset(place: Json) -> int:
    [by_partition] = place.values()
    return by_partition["0"]


# ---- logs


def test_an_idle_stream_waits_at_the_broker(broker: BrokerProcess, client: Client, log: str) -> None:
    reader = LogReader(options(broker, log, pollTimeoutMs=300))
    start = reader.initialOffset()
    begin_s = time.monotonic()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert time.monotonic() - begin_s >= 0.25


def test_a_stream_that_waits_is_told_at_once(broker: BrokerProcess, client: Client, log: str) -> None:
    reader = LogReader(options(broker, log, pollTimeoutMs=20_000))
    start = reader.initialOffset()
    later = threading.Timer(0.3, lambda: fill(client, f"/log/{log}", 3))
    later.start()
    begin_s = time.monotonic()
    end = reader.latestOffset(start, ReadAllAvailable())
    later.join()
    assert offset(end) >= 1
    assert time.monotonic() - begin_s < 10


def test_of_several_logs_the_last_is_told_of_as_soon(broker: BrokerProcess, client: Client, log: str) -> None:
    """The quiet one is not waited for as long as it may take."""
    other = f"{log}-other"
    client.admin({"do": "declare", "log": other})
    reader = LogReader(options(broker, log, subscribe=f"{log},{other}", pollTimeoutMs=20_000))
    start = reader.initialOffset()
    later = threading.Timer(0.3, lambda: fill(client, f"/log/{other}", 3))
    later.start()
    begin_s = time.monotonic()
    end = reader.latestOffset(start, ReadAllAvailable())
    later.join()
    assert sum(by_partition["0"] for by_partition in end.values()) >= 1
    assert time.monotonic() - begin_s < 5


def test_more_logs_than_one_request_has_room_for_are_all_read(broker: BrokerProcess, client: Client, log: str) -> None:
    """News of those that are not waited for are as late as the time is long."""
    names = [f"{log}-{nth}" for nth in range(AWAITED_MAX + 1)]
    for name in names:
        client.admin({"do": "declare", "log": name, "partitions": 3})
    reader = LogReader(options(broker, log, subscribe=",".join(names), pollTimeoutMs=300))
    start = reader.initialOffset()
    later = threading.Timer(0.1, lambda: fill(client, f"/log/{names[-1]}", 1))
    later.start()
    end = reader.latestOffset(start, ReadAllAvailable())
    later.join()
    assert [sum(by_partition.values()) for by_partition in end.values()].count(1) == 1


def test_more_partitions_than_one_request_has_room_for_are_all_read(
    broker: BrokerProcess, client: Client, log: str
) -> None:
    """Those that are not read take the most room: a request names all of a log."""
    names = [f"{log}-{nth}" for nth in range(4)]
    for name in names:
        client.admin({"do": "declare", "log": name, "partitions": PARTITIONS_MAX})
    assign = json.dumps({name: [0] for name in names})
    reader = LogReader(options(broker, log, subscribe=None, assign=assign, pollTimeoutMs=300))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    fill(client, f"/log/{names[-1]}", 5000)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert [by_partition["0"] > 0 for by_partition in end.values()] == [False, False, False, True]


def test_what_is_available_now_is_a_target(broker: BrokerProcess, client: Client, log: str) -> None:
    reader = LogReader(options(broker, log, pollTimeoutMs=20_000))
    fill(client, f"/log/{log}", 5)
    reader.prepareForTriggerAvailableNow()
    fill(client, f"/log/{log}", 5)
    start = reader.initialOffset()
    places = [offset(start)]
    while True:
        end = reader.latestOffset(start, ReadMaxRows(2))
        if end == start:
            break
        places.append(offset(end))
        start = end
    assert places == [0, 2, 4, 5]


def test_a_bound_of_bytes(broker: BrokerProcess, client: Client, log: str) -> None:
    client.send_many(f"/log/{log}", [bytes(1000)] * 50)
    reader = LogReader(options(broker, log, maxBytesPerTrigger=10_000))
    assert reader.getDefaultReadLimit() == ReadMaxBytes(10_000)
    end = offset(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()))
    assert 5 <= end <= 10
    assert offset(reader.latestOffset(reader.initialOffset(), ReadAllAvailable())) == 50
    assert reader.reportLatestOffset()["radiator"]["offsetsBehindLatest"] == 0


def test_where_nothing_is_new_there_is_nothing_to_do(broker: BrokerProcess, log: str) -> None:
    reader = LogReader(options(broker, log))
    start = reader.initialOffset()
    assert reader.partitions(start, start) == []


def test_a_reader_is_pickled_without_its_connection(broker: BrokerProcess, client: Client, log: str) -> None:
    fill(client, f"/log/{log}", 5)
    reader = LogReader(options(broker, log))
    start = reader.initialOffset()
    other = pickle.loads(pickle.dumps(reader))
    assert offset(other.latestOffset(start, ReadAllAvailable())) == 5


def test_a_part_of_a_log(broker: BrokerProcess, client: Client, log: str) -> None:
    fill(client, f"/log/{log}", 10)
    place = SourceLog(log, client.admin({"do": "describe", "log": log})["incarnation"])
    small = options(broker, log, batchRows=3)
    assert values(small, Range(place, 0, 2, 9)) == [f"m{number}" for number in range(2, 9)]
    assert [rows.num_rows for rows in read_range(small, Range(place, 0, 2, 9))] == [3, 3, 1]


def test_a_part_that_is_not_there(broker: BrokerProcess, client: Client, log: str) -> None:
    fill(client, f"/log/{log}", 10)
    place = SourceLog(log, client.admin({"do": "describe", "log": log})["incarnation"])
    beyond = Range(place, 0, 1000, 1010)
    with pytest.raises(DataLoss, match="what begins at offset 1000 is gone"):
        values(options(broker, log), beyond)
    assert values(options(broker, log, failOnDataLoss="false"), beyond) == []
    nowhere = Range(SourceLog("nowhere", "1"), 0, 0, 1)
    with pytest.raises(DataLoss, match="what begins at offset 0 is gone"):
        values(options(broker, log), nowhere)


class Scripted:
    """Says what a broker would that has passed over records; the offsets of what it delivers are given."""

    def __init__(self, *offsets: str) -> None:
        self._messages = [Message({"offset": one, "timestamp": "0", "destination": "/log/a"}, b"") for one in offsets]

    def subscribe(self, destination: str, headers: Any) -> None:
        self.asked = dict(headers)

    def receive(self, timeout_s: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None


def test_a_record_that_is_not_the_next_is_seen() -> None:
    client = Scripted("5", "7")
    found = _records(client, Range(SourceLog("a", "1"), 0, 5, 9), 5)  # type: ignore[arg-type]
    assert [one if isinstance(one, int) else one.headers["offset"] for one in found] == ["5", 7]
    assert client.asked == {"from": "offset:5", "until": "offset:9", "partition": "0"}


def test_what_is_behind_a_gap_is_read_where_losses_are_passed_over(
    broker: BrokerProcess, client: Client, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, f"/log/{log}", 10)
    place = SourceLog(log, client.admin({"do": "describe", "log": log})["incarnation"])
    whole = read._records

    def damaged(client: Client, wanted: Range, first: int) -> Iterator[Message | int]:
        for offset, message in enumerate(whole(client, wanted, first), first):
            if offset == 4:  # as where the broker has passed over 4 and 5
                yield 6
                return
            yield message

    monkeypatch.setattr(read, "_records", damaged)
    given = options(broker, log, failOnDataLoss="false")
    assert values(given, Range(place, 0, 2, 9)) == ["m2", "m3", "m6", "m7", "m8"]
    with pytest.raises(DataLoss, match="what begins at offset 4 is gone"):
        values(options(broker, log), Range(place, 0, 2, 9))


def test_a_header_that_says_end_is_no_end(broker: BrokerProcess, client: Client, log: str) -> None:
    client.send(f"/log/{log}", "m0", [("end", "true")])
    place = SourceLog(log, client.admin({"do": "describe", "log": log})["incarnation"])
    assert values(options(broker, log), Range(place, 0, 0, 1)) == ["m0"]


def test_a_log_that_was_made_anew_is_not_read_as_the_old_one(broker: BrokerProcess, client: Client, log: str) -> None:
    fill(client, f"/log/{log}", 3)
    place = SourceLog(log, client.admin({"do": "describe", "log": log})["incarnation"])
    client.admin({"do": "delete", "log": log})
    client.admin({"do": "declare", "log": log})
    fill(client, f"/log/{log}", 3)
    with pytest.raises(DataLoss, match="what begins at offset 0 is gone"):
        values(options(broker, log), Range(place, 0, 0, 3))
    assert values(options(broker, log, failOnDataLoss="false"), Range(place, 0, 0, 3)) == []


def test_silence_is_no_end() -> None:
    with pytest.raises(NoAnswer, match="though offset 6 should"):
        list(_records(Scripted("5"), Range(SourceLog("a", "1"), 0, 5, 9), 5))  # type: ignore[arg-type]


def test_a_partition_that_a_log_has_not(broker: BrokerProcess, log: str) -> None:
    reader = LogReader(options(broker, log, subscribe=None, assign=f'{{"{log}": [0, 1]}}'))
    with pytest.raises(RadiatorError, match="has 1 partitions, from 0 on: there is no partition 1"):
        reader.initialOffset()


# ---- a batch waits for enough


class Clock:
    """Seconds, as a test says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_batch_waits_until_enough_is_there_or_the_delay_is_over(
    broker: BrokerProcess, client: Client, log: str
) -> None:
    clock = Clock()
    given = options(broker, log, minOffsetsPerTrigger=5, maxTriggerDelay="60s", pollTimeoutMs=0)
    reader = LogReader(given, clock)
    start = reader.initialOffset()
    fill(client, f"/log/{log}", 1)
    first = reader.latestOffset(start, ReadMaxRows(100))
    assert offset(first) == 1  # the first of a run does not wait
    fill(client, f"/log/{log}", 4)
    assert reader.latestOffset(first, ReadMaxRows(100)) == first
    assert reader.reportLatestOffset()["radiator"]["offsetsBehindLatest"] == 4
    clock.now_s = 59
    assert reader.latestOffset(first, ReadMaxRows(100)) == first
    clock.now_s = 60
    second = reader.latestOffset(first, ReadMaxRows(3))
    assert offset(second) == 4
    assert reader.reportLatestOffset()["radiator"]["offsetsBehindLatest"] == 1
    fill(client, f"/log/{log}", 3)
    assert reader.latestOffset(second, ReadMaxRows(100)) == second
    fill(client, f"/log/{log}", 1)
    third = reader.latestOffset(second, ReadMaxRows(100))
    assert offset(third) == 9
    # nothing has come when the delay is over: what comes next does not wait for more
    clock.now_s = 120
    assert reader.latestOffset(third, ReadMaxRows(100)) == third
    fill(client, f"/log/{log}", 1)
    assert offset(reader.latestOffset(third, ReadMaxRows(100))) == 10


def test_who_waits_for_enough_asks_no_more_often_than_it_takes(
    broker: BrokerProcess, client: Client, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two partitions: enough are there no earlier than one of them has half of what is missing."""
    client.admin({"do": "declare", "log": f"{log}-two", "partitions": 2})
    reader = LogReader(options(broker, f"{log}-two", minOffsetsPerTrigger=101, pollTimeoutMs=200))
    fill(client, f"/log/{log}-two", 1)
    start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1000))
    fill(client, f"/log/{log}-two", 1)
    asked = []
    ask = BrokerRequests.ask

    def remembered(broker: BrokerRequests, request: Any, timeout_s: float = 30.0) -> dict[str, Any]:
        asked.append(dict(request))
        return ask(broker, request, timeout_s)

    monkeypatch.setattr(BrokerRequests, "ask", remembered)
    assert reader.latestOffset(start, ReadMaxRows(1000)) == start
    [waited] = [one for one in asked if one["do"] == "await"]
    assert sum(waited["next"]) == 2 + 2 * 49
    assert waited["timeout_ms"] == 200 and len(asked) == 3


def test_all_that_is_available_now_is_read_however_little(broker: BrokerProcess, client: Client, log: str) -> None:
    fill(client, f"/log/{log}", 5)
    reader = LogReader(options(broker, log, minOffsetsPerTrigger=100), Clock())
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(start, ReadMaxRows(3))
    assert (offset(first), offset(reader.latestOffset(first, ReadMaxRows(3)))) == (3, 5)
    other = LogReader(options(broker, log, minOffsetsPerTrigger=100), Clock())
    assert offset(other.latestOffset(first, ReadAllAvailable())) == 5  # trigger(once=True)
    fill(client, f"/log/{log}", 1)
    assert offset(other.latestOffset(first, ReadAllAvailable())) == 6


def test_a_loss_while_it_waits_is_told(
    broker: BrokerProcess, client: Client, log: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def made_anew(broker: BrokerRequests, states: Any, timeout_ms: int, more: int) -> None:
        client.admin({"do": "delete", "log": log})
        client.admin({"do": "declare", "log": log})

    fill(client, f"/log/{log}", 3)
    strict, lenient = (LogReader(options(broker, log, failOnDataLoss=reported)) for reported in ("true", "false"))
    end = strict.latestOffset(strict.initialOffset(), ReadMaxRows(100))
    monkeypatch.setattr(BrokerRequests, "wait", made_anew)
    with pytest.raises(DataLoss, match="is another log than the one that the checkpoint speaks of"):
        strict.latestOffset(end, ReadMaxRows(100))
    # the loss is news of itself: it is not waited for more
    assert offset(lenient.latestOffset(end, ReadMaxRows(100))) == 0
    assert [record.getMessage() for record in caplog.records if "another log" in record.getMessage()] != []


# ---- logs by a pattern


def matched(broker: BrokerProcess, pattern: str, **given: Any) -> LogReader:
    reported = {"subscribe": None, "subscribePattern": pattern, "pollTimeoutMs": 50, **given}
    return LogReader(options(broker, "", **reported))


def names(place: Json) -> list[str]:
    return [key.rpartition("@")[0] for key in place]


def test_logs_that_match_are_read_and_new_ones_from_their_first_record(
    broker: BrokerProcess, client: Client, log: str
) -> None:
    reader = matched(broker, rf"{log}[.](eu|us)", startingOffsets="latest")
    start = reader.initialOffset()
    assert start == {}
    assert reader.latestOffset(start, ReadMaxRows(100)) == {}
    for name in (f"{log}.us", f"{log}.uk", f"{log}.usa", f"my.{log}.eu"):
        client.admin({"do": "declare", "log": name})
        fill(client, f"/log/{name}", 2)
    first = reader.latestOffset(start, ReadMaxRows(100))
    assert (names(first), offset(first)) == ([f"{log}.us"], 2)
    client.admin({"do": "declare", "log": f"{log}.eu"})
    second = reader.latestOffset(first, ReadMaxRows(100))
    fill(client, f"/log/{log}.eu", 3)
    third = reader.latestOffset(second, ReadMaxRows(100))
    assert (names(third), [by_partition["0"] for by_partition in third.values()]) == (
        [f"{log}.eu", f"{log}.us"],
        [3, 2],
    )
    parts = [part.value for part in reader.partitions(second, third)]
    assert values(reader._options, *parts) == ["m0", "m1", "m2"]
    # a query that is started again, also one that names logs, goes on with the same offsets
    again = matched(broker, rf"{log}[.](eu|us)")
    assert again.latestOffset(third, ReadMaxRows(100)) == third
    named = LogReader(options(broker, f"{log}.eu,{log}.us", pollTimeoutMs=0))
    assert named.latestOffset(third, ReadMaxRows(100)) == third


def test_the_brokers_own_logs_match_no_pattern(broker: BrokerProcess, client: Client, log: str) -> None:
    queue = f"queue{next(NUMBERS)}"
    fill(client, f"/queue/{queue}", 1)
    client.admin({"do": "checkout", "queue": queue, "group": "g", "max_messages": 1})
    found = names(matched(broker, ".*").initialOffset())
    assert log in found
    assert [name for name in found if name == "journal" or name.startswith("$")] == []


def test_a_matched_log_that_is_gone_is_a_loss(broker: BrokerProcess, client: Client, log: str) -> None:
    other = f"{log}.other"
    client.admin({"do": "declare", "log": other})
    fill(client, f"/log/{log}", 3)
    fill(client, f"/log/{other}", 3)
    reader = matched(broker, f"{log}.*")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(100))
    client.admin({"do": "delete", "log": other})
    for strict in (reader, matched(broker, f"{log}.*")):
        with pytest.raises(DataLoss, match=f"/log/{other} is not there any more: whether it had records from 3"):
            strict.latestOffset(end, ReadMaxRows(100))
        with pytest.raises(DataLoss, match="Not all of .*/log/.*other.* is there any more"):
            strict.partitions(start, end)
    lenient = matched(broker, f"{log}.*", failOnDataLoss="false")
    parts = [part.value for part in lenient.partitions(start, end)]
    assert values(lenient._options, *parts) == ["m0", "m1", "m2"]
    going = lenient.latestOffset(end, ReadMaxRows(100))
    assert names(going) == [log]
    # one of that name that is declared later is read from its first record
    client.admin({"do": "declare", "log": other})
    fill(client, f"/log/{other}", 1)
    assert [by_partition["0"] for by_partition in lenient.latestOffset(going, ReadMaxRows(100)).values()] == [3, 1]


def test_a_log_that_goes_while_it_is_read_is_passed_over_where_losses_are(
    broker: BrokerProcess, client: Client, log: str
) -> None:
    gone = Range(SourceLog(f"{log}.gone", "1"), 0, 0, 3)
    assert values(options(broker, log, failOnDataLoss="false"), gone) == []


# ---- how far behind


def test_the_progress_says_what_is_read_and_how_far_behind(broker: BrokerProcess, client: Client, log: str) -> None:
    fill(client, f"/log/{log}", 10)
    reader = LogReader(options(broker, log))
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(4))
    answer = reader.reportLatestOffset()
    assert answer["radiator"]["source"] == f"/log/{log} at {broker.address}"
    assert answer["radiator"]["maxOffsetsBehindLatest"] == answer["radiator"]["offsetsBehindLatest"] == 6
    assert [place["0"] for key, place in answer.items() if key != "radiator"] == [10]


def test_the_progress_of_a_checkout_says_so_too(broker: BrokerProcess, client: Client) -> None:
    queue = f"queue{next(NUMBERS)}"
    fill(client, f"/queue/{queue}", 10)
    reader = CheckoutReader(checkout_options(broker, queue))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(4))
    answer = reader.reportLatestOffset()
    assert answer["radiator"]["source"] == f"/queue/{queue} by checkout of group g at {broker.address}"
    assert answer["radiator"]["offsetsBehindLatest"] == 6
    assert reader.latestOffset(end, ReadMaxRows(100)) == {
        key: place for key, place in answer.items() if key != "radiator"
    }


# ---- bodies with a schema


def test_the_file_of_a_schema_is_for_the_driver_alone(
    broker: BrokerProcess, client: Client, log: str, tmp_path: Path
) -> None:
    """By checkout as well."""
    file = tmp_path / "order.avsc"
    file.write_text(ORDER_TEXT)
    queue = f"queue{next(NUMBERS)}"
    for destination in (f"/log/{log}", f"/queue/{queue}"):
        client.send(destination, binary(ORDER, VALUE), {"content-type": "avro/binary"})
    of_log = options(broker, log, valueSchema=file)
    of_queue = checkout_options(broker, queue, valueSchema=file)
    file.unlink()
    for reader in (LogReader(of_log), CheckoutReader(of_queue)):
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(10))
        [part] = reader.partitions(start, end)
        [rows] = pickle.loads(pickle.dumps(reader)).read(part)
        assert rows.column("value").to_pylist() == [VALUE]


# ---- checkouts


def test_a_checkout_is_bounded_and_acked(broker: BrokerProcess, client: Client) -> None:
    queue = f"queue{next(NUMBERS)}"
    fill(client, f"/queue/{queue}", 10)
    read = checkout_options(broker, queue)
    reader = CheckoutReader(read)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(4))
    assert offset(first) == offset(start) + 4
    # a query that was started again, before its first batch: the same, and no more
    assert CheckoutReader(read).latestOffset(start, ReadMaxRows(4)) == first
    parts = [part.value for part in reader.partitions(start, first)]
    assert values(read, *parts) == values(read, *parts) == ["m0", "m1", "m2", "m3"]
    second = reader.latestOffset(first, ReadMaxRows(100))
    assert offset(second) == offset(start) + 10
    with pytest.raises(DataLoss, match="is there any more"):
        reader.partitions(start, first)
    reader.commit(second)
    taken = client.admin({"do": "checkout", "queue": queue, "group": "g", "max_messages": 0})
    assert taken["first"] == taken["next"] == offset(second)


def test_an_empty_queue_is_waited_for(broker: BrokerProcess, client: Client) -> None:
    queue = f"queue{next(NUMBERS)}"
    client.admin({"do": "declare", "queue": queue})
    reader = CheckoutReader(checkout_options(broker, queue, pollTimeoutMs=10_000))
    start = reader.initialOffset()
    later = threading.Timer(0.3, lambda: fill(client, f"/queue/{queue}", 1))
    later.start()
    begin_s = time.monotonic()
    assert offset(reader.latestOffset(start, ReadMaxRows(4))) == offset(start) + 1
    assert time.monotonic() - begin_s < 5
    later.join()


@pytest.mark.parametrize("ready", [0, 1])
def test_an_empty_queue_is_waited_for_at_the_broker(
    broker: BrokerProcess, client: Client, monkeypatch: pytest.MonkeyPatch, ready: int
) -> None:
    """Also one of which others always take what is ready: that is not asked all the time."""
    queue = f"queue{next(NUMBERS)}"
    client.admin({"do": "declare", "queue": queue})
    reader = CheckoutReader(checkout_options(broker, queue, pollTimeoutMs=500))
    start = reader.initialOffset()
    asked: list[int] = []
    checkout = BrokerRequests.checkout

    def counted(
        broker: BrokerRequests, queue: str, group: str, most: int, max_bytes: int | None
    ) -> tuple[SourceLog, int, int]:
        asked.append(most)
        return checkout(broker, queue, group, most, max_bytes)

    if ready:
        monkeypatch.setattr(BrokerRequests, "ready", lambda broker, queue, timeout_ms: ready)
    monkeypatch.setattr(BrokerRequests, "checkout", counted)
    assert reader.latestOffset(start, ReadMaxRows(4)) == start
    assert asked[0] == 0 and set(asked[1:]) == {4}
    assert 4 <= len(asked) <= 9 if ready else len(asked) == 3


def test_offsets_of_another_group_are_told(broker: BrokerProcess, client: Client) -> None:
    queue = f"queue{next(NUMBERS)}"
    fill(client, f"/queue/{queue}", 3)
    reader = CheckoutReader(checkout_options(broker, queue))
    reader.initialOffset()
    with pytest.raises(DataLoss, match="is another log than the one that the checkpoint speaks of"):
        reader.commit({f"$checkout/{queue}/g@other": {"0": 3}})
    taken = client.admin({"do": "checkout", "queue": queue, "group": "g", "max_messages": 3})
    assert taken["next"] - taken["first"] == 3


# ---- a broker that is away


def test_a_broker_that_is_not_there_is_asked_so_many_times() -> None:
    absent = Connect((f"stomp://127.0.0.1:{free_port()}",), 2, 0.01)
    with pytest.raises(ConnectionLost, match="It was tried 3 times"), BrokerRequests(absent) as one:
        one.ready("orders")


def test_a_broker_that_was_never_reached_is_given_up_sooner() -> None:
    absent = Connect((f"stomp://127.0.0.1:{free_port()}",), 100, 0.1, unreached_s=0.25)
    for connection in (lambda: BrokerRequests(absent).ready("orders"), lambda: lasting(absent, 5)):
        with pytest.raises(ConnectionLost, match="It was tried 3 times, and given up after 0.25 s, since it was never"):
            connection()


def test_one_that_gives_no_answer_is_given_up_as_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"stomp://127.0.0.1:{silent.getsockname()[1]}"
        begin_s = time.monotonic()
        with pytest.raises(ConnectionLost, match="given up after 0.5 s"):
            BrokerRequests(Connect((address,), 100, 0.01, unreached_s=0.5)).ready("orders")
        assert time.monotonic() - begin_s < 5


def test_a_broker_that_was_reached_is_tried_as_often_as_the_options_say(tmp_path: Path) -> None:
    server = SERVER.replace("127.0.0.1:0", f"127.0.0.1:{free_port()}")
    with BrokerProcess(tmp_path, server) as broker:
        connect = Connect((broker.address,), 5, 0.05, unreached_s=0.1)
        with BrokerRequests(connect) as one:
            one.logs()
        with lasting(connect, 5):
            pass
    begin_s = time.monotonic()
    with pytest.raises(ConnectionLost, match="It was tried 6 times[.]"):
        one.logs()
    with pytest.raises(ConnectionLost):
        lasting(connect, 5)
    other = Connect((f"stomp://127.0.0.1:{free_port()}",), 5, 0.01, unreached_s=0.02)
    with pytest.raises(ConnectionLost, match="It was tried 6 times[.]"):
        BrokerRequests(other.reached).logs()  # where another process of the query has reached it
    assert time.monotonic() - begin_s < 5


def test_a_refusal_is_no_reason_to_ask_again(broker: BrokerProcess) -> None:
    begin_s = time.monotonic()
    with BrokerRequests(Connect((broker.address,), 100, 1.0)) as one, pytest.raises(Refusal):
        one.state("nowhere")
    assert time.monotonic() - begin_s < 5


def test_a_read_goes_on_after_a_crash_of_the_broker(tmp_path: Path) -> None:
    server = SERVER.replace("127.0.0.1:0", f"127.0.0.1:{free_port()}")
    with BrokerProcess(tmp_path, f'{server}\n[log."events"]\n') as broker:
        with Client(broker.address) as client:
            client.send_many("/log/events", [b"%d" % number + bytes(10_000) for number in range(3000)])
        reader = LogReader(options(broker, "events", batchRows=100))
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        [part] = reader.partitions(start, end)
        found = []
        for number, rows in enumerate(reader.read(part)):
            found += rows["offset"].to_pylist()
            if number == 3:
                broker.kill()
                threading.Thread(target=broker.start).start()
        assert found == list(range(3000))
        assert reader.latestOffset(end, ReadAllAvailable()) == end
