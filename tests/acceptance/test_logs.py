"""Logs from outside: a real process, its disk, and clients that say what docs/PROTOCOL.md says."""

import json
import time
import zlib
from typing import Any

import pytest

from tests.acceptance.conftest import Connect, stats
from tests.acceptance.wire import Frame, Wire
from tests.broker_process import BrokerProcess

CONFIG = """\
[create]
queues = true
[log."events"]
[log."three"]
partitions = 3
[log."keyed"]
partitions = 8
partition_key = "/customer/id"
[log."restarted"]
partitions = 2
[log."small"]
retention_bytes = "64KiB"
[log."tapped"]
[fanout."orders"]
children = ["work", "/log/tapped"]
[exchange."x"]
type = "topic"
bindings = [{ key = "#", queue = "/log/tapped" }]
"""


def read(wire: Wire, log: str, ack: str = "auto", id: str = "0", **headers: str) -> None:
    named = {name.replace("_", "-").replace("from-", "from"): value for name, value in headers.items()}
    wire.send_frame("SUBSCRIBE", {"id": id, "destination": f"/log/{log}", "ack": ack, **named})


def until_the_end(wire: Wire) -> list[Frame]:
    """All MESSAGEs before the one with `end:true`."""
    got = []
    while (message := wire.message()).get("end") != "true":
        got.append(message)
    assert message.body == b"" and "ack" not in message
    return got


def whole(connect: Connect, log: str) -> list[Frame]:
    wire = connect()
    read(wire, log, from_="earliest", until="end")
    return until_the_end(wire)


def places(messages: list[Frame]) -> list[tuple[int, int]]:
    return [(int(one["partition"]), int(one["offset"])) for one in messages]


def test_what_is_receipted_is_read_from_the_first_and_again(connect: Connect) -> None:
    wire = connect()
    for number in range(300):
        wire.send_frame("SEND", {"destination": "/log/events", "n": str(number)}, b"%d" % number)
    wire.fence()
    wire.send("/log/events", "last", {"n": "300"})
    for _ in range(2):
        got = whole(connect, "events")
        assert [one["n"] for one in got] == [str(n) for n in range(301)]
        assert places(got) == [(0, n) for n in range(301)]
        assert all(one["destination"] == "/log/events" and one["redelivered"] == "false" for one in got)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_in_every_version(connect: Connect, version: str) -> None:
    wire = connect(version)
    read(wire, "three", "client")
    wire.fence()
    sender = connect()
    sender.send("/log/three", "a", {"partition-key": "k:1"})
    message = wire.message()
    assert int(message["partition"]) == zlib.crc32(b"k:1") % 3
    assert [name for name, _ in message.pairs].index("partition") < [n for n, _ in message.pairs].index("partition-key")
    wire.nack(message) if version != "1.0" else wire.ack(message)
    if version != "1.0":
        again = wire.message()
        assert again["redelivered"] == "true" and again["message-id"] != message["message-id"]
        wire.ack(again)


def test_a_key_of_the_body(connect: Connect) -> None:
    wire = connect()
    for number in range(40):
        wire.send("/log/keyed", json.dumps({"customer": {"id": f"c{number % 10}"}, "n": number}))
    by_key: dict[str, list[tuple[int, int]]] = {}
    for message in whole(connect, "keyed"):
        body = json.loads(message.body)
        by_key.setdefault(body["customer"]["id"], []).append((int(message["partition"]), body["n"]))
    for key, found in by_key.items():
        assert {partition for partition, _ in found} == {zlib.crc32(key.encode()) % 8}
        assert [n for _, n in found] == sorted(n for _, n in found)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_over_a_restart(broker: BrokerProcess, connect: Connect, how: str) -> None:
    wire = connect()
    before = places(whole(connect, "restarted"))
    for number in range(50):
        wire.send_frame("SEND", {"destination": "/log/restarted"}, b"%d" % number)
    wire.send("/log/restarted", "last")
    broker.stop() if how == "stop" else broker.kill()
    broker.start()
    got = places(whole(connect, "restarted"))
    assert len(got) == len(before) + 51
    for partition in (0, 1):
        offsets = [offset for at, offset in got if at == partition]
        assert offsets == list(range(len(offsets)))
    connect().send("/log/restarted", "after")
    assert len(whole(connect, "restarted")) == len(got) + 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_group_goes_on_where_its_acks_were(broker: BrokerProcess, connect: Connect, how: str) -> None:
    group = f"group-{how}"
    sender = connect()
    for number in range(10):
        sender.send("/log/events", f"{how}{number}")
    wire = connect()
    start = str(len(whole(connect, "events")) - 10)
    headers = {"group": group, "from": f"offset:{start}", "prefetch-count": "8"}
    wire.subscribe("/log/events", ack="client", headers=headers)
    got = wire.messages(8)
    wire.ack(got[4])
    broker.stop() if how == "stop" else broker.kill()
    broker.start()
    connect().send("/log/events", "after")
    wire = connect()
    wire.subscribe("/log/events", ack="client", headers={"group": group, "prefetch-count": "99"})
    messages = wire.messages(6)
    assert [one.body.decode() for one in messages] == [f"{how}{n}" for n in range(5, 10)] + ["after"]
    assert [one["redelivered"] for one in messages] == ["true"] * 5 + ["false"]


@pytest.mark.slow
def test_a_group_that_begins_at_a_time_begins_there_after_a_kill_behind_its_receipt(
    broker: BrokerProcess, connect: Connect
) -> None:
    sender = connect()
    sender.send("/log/three", "before")
    last_ms = int(time.time() * 1000)
    while (since_ms := int(time.time() * 1000)) <= last_ms:
        pass
    for number in range(4):
        sender.send("/log/three", str(number))
    connect().subscribe("/log/three", ack="client", headers={"group": "since", "from": f"time:{since_ms}"})
    broker.kill()
    broker.start()
    wire = connect()
    wire.subscribe("/log/three", ack="client", headers={"group": "since", "prefetch-count": "99"})
    assert sorted(wire.bodies(4)) == ["0", "1", "2", "3"]
    assert wire.is_silent()


def test_a_lost_connections_records_come_to_another_of_the_group(connect: Connect) -> None:
    first, second = connect(), connect()
    for wire in (first, second):
        wire.subscribe("/log/three", headers={"group": "shared", "from": "latest", "prefetch-count": "10"})
    sender = connect()
    for number in range(12):
        sender.send("/log/three", str(number))
    first.fence()
    got = list(first.early)
    assert 0 < len(got) < 12
    first.close()
    bodies = sorted(int(one.body) for one in second.messages(10))
    assert len(set(bodies)) == 10
    for _ in range(2):
        second.fence()
    assert stats_of_log(connect(), "three")["readers"] == 1


def stats_of_log(wire: Wire, log: str) -> dict[str, Any]:
    return dict(json.loads(wire.admin(b'{"do": "stats"}'))["logs"][log])


def test_taps_see_what_queues_get_and_disturb_nobody(connect: Connect) -> None:
    tap, worker, sender = connect(), connect(), connect()
    read(tap, "tapped")
    tap.fence()
    worker.subscribe("/queue/work")
    sender.send("/fanout/orders", "order", {"expiration": "60000"})
    sender.send("/exchange/x/a.b", "event")
    seen = tap.messages(2)
    assert [one.body for one in seen] == [b"order", b"event"]
    assert [one["destination"] for one in seen] == ["/fanout/orders", "/exchange/x/a.b"]
    work = worker.message()
    assert work.body == b"order" and work["fanout-message-id"] == seen[0]["fanout-message-id"]
    worker.ack(work)


def test_a_transaction_with_a_log_and_a_queue(connect: Connect, queue: str) -> None:
    wire, reader = connect(), connect()
    read(reader, "events")
    reader.fence()
    wire.ask("BEGIN", {"transaction": "t"})
    wire.ask("SEND", {"destination": "/log/events", "transaction": "t"}, b"in a transaction")
    wire.ask("SEND", {"destination": queue, "transaction": "t"}, b"too")
    assert reader.is_silent()
    wire.ask("COMMIT", {"transaction": "t"})
    assert reader.message().body == b"in a transaction"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"from": "offset:999999"}, "no-such-offset"),
        ({"partition": "1"}, "no-such-offset"),
        ({"group": "g"}, "protocol"),
        ({"exclusive": "true"}, "protocol"),
        ({"from": "yesterday"}, "protocol"),
        ({"until": "never"}, "protocol"),
        ({"partition": "-1"}, "protocol"),
        ({"group": "", "ack": "client"}, "protocol"),
    ],
)
def test_a_subscribe_that_cannot_be(wire: Wire, headers: dict[str, str], code: str) -> None:
    wire.send_frame("SUBSCRIBE", {"id": "0", "destination": "/log/events", **headers})
    assert wire.refusal()["code"] == code


@pytest.mark.parametrize(
    ("destination", "headers", "code"),
    [
        ("/log/events", {"expiration": "1"}, "no-delay"),
        ("/log/events", {"delay": "1"}, "no-delay"),
        ("/log/nowhere", {}, "no-such-destination"),
        ("/log/journal", {}, "reserved"),
        ("/log/$checkout/q/g", {}, "reserved"),
    ],
)
def test_a_send_that_cannot_be(wire: Wire, destination: str, headers: dict[str, str], code: str) -> None:
    wire.send_frame("SEND", {"destination": destination, **headers}, b"x")
    assert wire.refusal()["code"] == code


@pytest.mark.slow
def test_retention_takes_the_oldest_and_a_late_reader_is_told(broker: BrokerProcess, connect: Connect) -> None:
    wire = connect()
    wire.subscribe("/log/small", ack="client", headers={"group": "late", "from": "earliest"})
    first = wire.message() if not wire.is_silent() else None
    assert first is None
    wire.close()
    sender = connect()
    for _ in range(400):
        sender.send_frame("SEND", {"destination": "/log/small"}, b"x" * 1000)
    sender.fence()
    sender.send("/log/small", "last")
    while stats(broker)["logs"]["small"]["bytes"] > 65_536:
        pass
    got = whole(connect, "small")
    first_kept = int(got[0]["offset"])
    assert 300 < first_kept < 401 and [int(one["offset"]) for one in got] == list(range(first_kept, 401))
    wire = connect()
    read(wire, "small", from_=f"offset:{first_kept - 1}")
    assert wire.refusal()["code"] == "no-such-offset"
    wire = connect()
    wire.subscribe("/log/small", ack="client", headers={"group": "late", "prefetch-count": "2"})
    one, two = wire.messages(2)
    assert one["skipped"] == str(first_kept) and one["offset"] == str(first_kept) and "skipped" not in two
