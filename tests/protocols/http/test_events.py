"""Server-sent events: what is asked of the broker, and what its replies become."""

import json
from typing import Any

import pytest

from radiator.model.commands import AUTO, EARLIEST, LATEST, Subscribe
from radiator.model.errors import FORBIDDEN
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import HTTP_EVENTS_BEAT_S, HTTP_EVENTS_PARTITIONS, PARTITIONS_MAX
from radiator.model.message import Message
from radiator.model.replies import MESSAGE_COST_BYTES, Bye, Deliver, LogReceipt, Receipt, RecordPlace, Refuse, Scope
from radiator.protocols.http.events import EventStream, event_bytes, of_log, of_topics
from radiator.protocols.http.exchange import HttpExchange
from radiator.protocols.http.head import BadRequest
from tests.protocols.http.asking import Asking, a_request, request

LOG = "/v1/logs/l/events"


def asked(query: str = "", name: str = "l", **headers: str | None) -> Subscribe:
    found = of_log(a_request("GET", LOG + query, b"", (name,), **headers))
    assert isinstance(found, HttpExchange) and found.is_alone
    (command,) = found.commands
    assert isinstance(command, Subscribe)
    assert (command.ack, command.receipt, command.offsets_max) == (AUTO, b"1", HTTP_EVENTS_PARTITIONS)
    return command


def where(query: str = "", **headers: str | None) -> tuple[Any, Any, Any]:
    command = asked(query, **headers)
    return command.start, command.offsets, command.partition


def deliver(body: bytes = b"hello", place: RecordPlace | None = None, headers: bytes = b"") -> Deliver:
    message = Message("/log/l", headers, ESCAPING_ALL, body, 1234, 0)
    return Deliver(7, b"events", b"n-1-1", message, False, log=place)


def parts(event: bytes) -> list[tuple[str, str]]:
    assert event.endswith(b"\n\n") and b"\n\n" not in event[:-2]
    return [(name, value) for name, _, value in (line.partition(": ") for line in event[:-2].decode().split("\n"))]


# ---- what is asked


def test_a_log_is_read_from_where_it_is_asked_for() -> None:
    assert asked("", "a/b").destination == "/log/a/b"
    assert where() == where("?from=latest") == ((LATEST, 0), None, None)
    assert where("?from=earliest") == ((EARLIEST, 0), None, None)
    assert where("?from=3:7") == where("?from=3%3A7") == (None, {3: 7}, None)
    assert where("?from=1:0,0:999999999999999") == (None, {1: 0, 0: 999_999_999_999_999}, None)
    assert where("?from=earliest&partition=2") == ((EARLIEST, 0), None, 2)
    assert where("?from=2:5&partition=2") == (None, {2: 5}, 2)


def test_who_comes_back_goes_on_behind_what_it_has() -> None:
    assert where("?from=earliest", Last_Event_ID="0:17,1:5") == (None, {0: 17, 1: 5}, None)
    assert where("?partition=1", Last_Event_ID="1:5") == (None, {1: 5}, 1)
    assert where("?from=earliest", Last_Event_ID="") == ((EARLIEST, 0), None, None)


@pytest.mark.parametrize("value", [
    "", "first", "0", "0:", ":0", "0:1,", ",0:1", "0:1,0:2", "-1:0", "0:-1", "0:1 ", "\u0661:1", "0:1;1:2", "0:x",
    "10000:1", "0:1234567890123456", "Latest",
])  # fmt: skip
def test_a_place_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(BadRequest, match="from is .*; it must be earliest, latest, or PARTITION:OFFSET"):
        asked("?from=" + value.encode().hex("%").join(("%", "")) if value else "?from=")
    if value and value.isascii():
        with pytest.raises(BadRequest, match="Last-Event-ID is .*; it must be PARTITION:OFFSET") as refused:
            asked(Last_Event_ID=value + ("x" if value.endswith(" ") else ""))
        assert refused.value.status == 400


def test_there_are_so_many_places_at_most() -> None:
    most = ",".join(f"{index}:1" for index in range(HTTP_EVENTS_PARTITIONS))
    assert len(asked(f"?from={most}").offsets or ()) == HTTP_EVENTS_PARTITIONS
    with pytest.raises(BadRequest, match=f"at most {HTTP_EVENTS_PARTITIONS}"):
        asked(f"?from={most},999:1")


@pytest.mark.parametrize("partition", ["", "-1", "x", "1.0", str(PARTITIONS_MAX), "00000", "\u0661"])
def test_a_partition_is_a_number(partition: str) -> None:
    assert where(f"?partition={PARTITIONS_MAX - 1}")[2] == PARTITIONS_MAX - 1
    with pytest.raises(BadRequest, match=f"must be a whole number from 0 to {PARTITIONS_MAX - 1}"):
        asked("?partition=" + "".join(f"%{byte:02x}" for byte in partition.encode()))


@pytest.mark.parametrize("place", ["0:1", "0:1,1:2"])
def test_where_one_partition_is_read_the_place_is_its_own(place: str) -> None:
    with pytest.raises(BadRequest, match="must be 1:OFFSET"):
        asked(f"?partition=1&from={place}")


def test_topics_have_no_parameters() -> None:
    (command,) = of_topics(a_request("GET", "/x", b"", ("a.*.#",))).commands
    assert command == Subscribe(7, b"events", "/topic/a.*.#", receipt=b"1")
    with pytest.raises(BadRequest, match="is not a parameter"):
        of_topics(a_request("GET", "/x?from=latest", b"", ("a",)))


@pytest.mark.parametrize("resource", [of_log, of_topics])
def test_a_name_must_be_one_and_a_head_has_no_events(resource: Any) -> None:
    with pytest.raises(BadRequest, match="names nothing"):
        resource(a_request("GET", "/x", b"", ("",)))
    with pytest.raises(BadRequest) as refused:
        resource(a_request("HEAD", "/x", b"", ("a",)))
    assert refused.value.status == 405 and refused.value.headers == ((b"Allow", b"GET"),)


# ---- what comes


def test_each_event_of_a_log_has_the_place_in_all_partitions() -> None:
    stream = EventStream(LogReceipt(7, b"1", {0: 4, 1: 0, 2: 9}))
    assert stream.opening == b"id: 0:4,1:0,2:9\n\n"
    found = parts(stream.encode(deliver(b"hello", RecordPlace(1, 0), b"colour:blue\n")))
    assert found[:2] == [("id", "0:4,1:1,2:9"), ("event", "message")]
    assert json.loads(found[2][1]) == {
        "id": "1:0", "partition": 1, "offset": 0, "destination": "/log/l", "timestamp": 1234,
        "headers": {"colour": "blue"}, "body": "hello",
    }  # fmt: skip
    assert parts(stream.encode(deliver(place=RecordPlace(0, 7))))[0] == ("id", "0:8,1:1,2:9")


def test_an_event_of_a_topic_has_no_place() -> None:
    stream = EventStream(Receipt(7, b"1"))
    assert stream.opening == b""
    event, data = parts(stream.encode(deliver()))
    assert event == ("event", "message") and json.loads(data[1])["id"] == "n-1-1"


@pytest.mark.parametrize("body", [b"a\nb", b"a\r\nb", b"\n\nid: 9:9\n", b"\0", b"\xff\n", "\u2028\u0085".encode(), b""])
def test_whatever_a_body_is_it_is_one_line(body: bytes) -> None:
    found = EventStream(Receipt(7, b"1")).encode(deliver(body, headers=b"a:\\nid\\c 1\n"))
    assert found.count(b"\n") == 3 and b"\r" not in found and len(found.decode().splitlines()) >= 3


def test_streams_of_a_topic_share_the_bytes_of_a_message() -> None:
    reply, other = deliver(b"x" * 1000), deliver(b"x" * 1000)
    one, two = (EventStream(Receipt(7, b"1")) for _ in range(2))
    assert one.encode(reply) is two.encode(reply)
    assert two.encode(other) is not one.encode(reply), "as it would be for one that is only equal"


def test_records_of_two_logs_that_share_a_message_have_their_own_places() -> None:
    stream = EventStream(Receipt(7, b"1"))
    one = deliver(place=RecordPlace(0, 7))
    other = Deliver(7, b"events", b"n-1-1", one.message, False, log=RecordPlace(1, 7))
    found = [json.loads(dict(parts(stream.encode(reply)))["data"]) for reply in (one, other, one)]
    assert [(data["id"], data["partition"], data["offset"]) for data in found] == [
        ("0:7", 0, 7),
        ("1:7", 1, 7),
        ("0:7", 0, 7),
    ]


def test_a_stream_begins_with_the_receipt_and_is_told_what_ends_it() -> None:
    asking = Asking()
    (_, command) = asking.send(request("GET", LOG, Connection="close"))
    assert isinstance(command, Subscribe) and asking.sent == b""
    asking.reply(LogReceipt(7, b"1", {0: 0}))
    head, _, rest = asking.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n") and rest == b"id: 0:0\n\n"
    assert not asking.session.is_closing and asking.session.heart_beat_send_s == HTTP_EVENTS_BEAT_S
    assert asking.session.heart_beat() == b":\n\n"
    asking.reply(deliver(place=RecordPlace(0, 0)))
    assert b"id: 0:1\n" in asking.sent and not asking.session.is_closing
    asking.sent = b""
    asking.reply(Refuse(7, FORBIDDEN, "Taken away.", None, Scope.CHANNEL))
    event, data = parts(asking.sent)
    assert event == ("event", "refused") and asking.session.is_closing
    assert json.loads(data[1]) == {"status": 403, "code": "forbidden", "detail": "Taken away."}


def test_what_is_refused_before_it_begins_is_a_problem() -> None:
    asking = Asking()
    asking.send(request("GET", LOG))
    asking.reply(Refuse(7, "no-such-destination", "It is not there.", b"1", Scope.COMMAND))
    (answer,) = asking.answers()
    assert answer.status == 404 and answer.headers["Content-Type"] == "application/problem+json"
    assert not asking.session.is_closing and asking.send(request("GET", LOG))


def test_a_stream_has_its_connection_for_itself() -> None:
    asking = Asking()
    asking.send(request("GET", "/v1/topics/a/events") + request("GET", "/v1/stats"))
    assert len(asking.of_broker) == 1
    asking.reply(Receipt(7, b"1"))
    for _ in range(3):
        assert asking.send(request("GET", "/v1/topics/a/events") * 5) == []
    assert asking.session.buffered_bytes == 0 and len(asking.of_broker) == 1
    asking.reply(Bye(7))
    assert asking.session.is_closing


# ---- what it costs


@pytest.mark.parametrize("partitions", [1, HTTP_EVENTS_PARTITIONS])
@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"hello" * 1000, b"\0" * 5000, b'"' * 5000, b"\x1f\\" * 999, "€".encode() * 3000, b"\xff" * 5001],
)
@pytest.mark.parametrize("headers", [b"", b"a:b\n", b"a:\x01\xff\n" * 50, b'"\\:""\n' * 50])
def test_no_event_takes_more_than_is_counted(body: bytes, headers: bytes, partitions: int) -> None:
    stream = EventStream(LogReceipt(7, b"1", dict.fromkeys(range(partitions), 10**15 - 1)))
    of_record = deliver(body, RecordPlace(partitions - 1, 10**15 - 2), headers)
    message = of_record.message
    assert asked().encoded_bytes is event_bytes
    counted = event_bytes(message, partitions) + MESSAGE_COST_BYTES
    assert len(stream.encode(of_record)) <= counted <= 6 * message.size + 2 * MESSAGE_COST_BYTES + 21 * partitions
