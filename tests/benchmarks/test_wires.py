"""The peers' protocols as the load speaks them: what is sent is whole, and what comes is taken only once it is."""

import re

import pytest

from benchmarks.wires import (
    BeanstalkRequestWire,
    BeanstalkWire,
    CoilRequestWire,
    CoilWire,
    NatsRequestWire,
    NatsStreamWire,
    NatsTopicWire,
    RedisRequestWire,
    RedisStreamWire,
    RedisTopicWire,
    StompRequestWire,
    StompTopicWire,
    StompTransientWire,
)
from radiator.tools.cli.load import BODY_BYTES, BODY_END, StompWire, Wire, body_tail

STAMP = b"%020d" % 7
BODY = STAMP + body_tail(BODY_BYTES)
FROM_3 = STAMP + b"000003" + body_tail(BODY_BYTES)[6:]
MESSAGES: list[tuple[Wire, bytes, bytes]] = [
    (BeanstalkWire(), b"DELETED\r\nRESERVED 12 %d\r\n%b\r\n" % (BODY_BYTES, BODY), b"12"),
    (
        BeanstalkRequestWire(),
        b"INSERTED 2\r\nDELETED\r\nRESERVED 12 %d\r\n%b\r\n" % (BODY_BYTES, FROM_3),
        b"12\n000003",
    ),
    (
        RedisStreamWire(),
        b":1\r\n*1\r\n*2\r\n$5\r\nbench\r\n*1\r\n*2\r\n$15\r\n1700000000000-3\r\n*2\r\n$1\r\nb\r\n$1024\r\n%b\r\n"
        % BODY,
        b"1700000000000-3",
    ),
    (RedisRequestWire(), b":1\r\n*2\r\n$8\r\nrequests\r\n$1024\r\n%b\r\n" % FROM_3, b"000003"),
    (
        NatsStreamWire(),
        b"PING\r\nMSG bench 1 $JS.ACK.bench.c.1.1.1.17.2 1024\r\n%b\r\n" % BODY,
        b"$JS.ACK.bench.c.1.1.1.17.2",
    ),
    (NatsRequestWire(), b"MSG q 1 i.3.r 1024\r\n%b\r\n" % BODY, b"i.3.r"),
    (
        StompRequestWire("/queue/q"),
        b"\nMESSAGE\nack:k1\nreply-to:/reply-queue/9\nx:y\n\n%b\0" % BODY,
        b"k1\n/reply-queue/9",
    ),
    (CoilWire("/queue/q"), b"MESSAGE\nmessage-id:k1\nx:y\n\n%b\0" % BODY, b"k1"),
    (
        CoilRequestWire("/queue/q"),
        b"MESSAGE\nreply-to:/queue/reply3\nmessage-id:k1\n\n%b\0" % BODY,
        b"k1\n/queue/reply3",
    ),
]


def name_of(value: object) -> str:
    return type(value).__name__ if not isinstance(value, bytes) else ""


@pytest.mark.parametrize(("wire", "data", "key"), MESSAGES, ids=name_of)
def test_a_message_is_found_only_once_it_is_whole(wire: Wire, data: bytes, key: bytes) -> None:
    assert wire.next_message(data + b"rest") == (key, STAMP, len(data))
    for cut in range(len(data) - 1):
        assert wire.next_message(data[:cut]) is None, f"cut at {cut}"
    assert not wire.complaint(data)


@pytest.mark.parametrize("body_bytes", [100, BODY_BYTES, 64 * 1024])
@pytest.mark.parametrize(
    "kind",
    [BeanstalkWire, BeanstalkRequestWire, RedisStreamWire, RedisTopicWire, RedisRequestWire, NatsStreamWire,
     NatsTopicWire, NatsRequestWire],
)  # fmt: skip
def test_a_send_announces_its_body_and_no_more(kind: type[Wire], body_bytes: int) -> None:
    head, tail = kind(body_bytes=body_bytes).connection().send()
    whole = b"%b%020d%b" % (head, 7, tail)
    assert re.findall(rb"[ $](\d+)\r\n$", head) == [b"%d" % body_bytes]
    body, _, rest = whole[len(head) :].partition(BODY_END)
    assert len(body) + 1 == body_bytes and rest.startswith(b"\r\n")
    assert BODY_END not in head and whole.count(BODY_END) == 1, "it is what deliveries are counted by"


@pytest.mark.parametrize("kind", [StompTopicWire, StompRequestWire, CoilWire, StompTransientWire])
def test_a_stomp_send_is_one_frame(kind: type[StompWire]) -> None:
    head, tail = kind("/queue/q", body_bytes=100).connection().send()
    headers, _, body = (head + STAMP + tail).partition(b"\n\n")
    assert headers.startswith(b"SEND\ndestination:/queue/q\n")
    assert len(body) == 101 and body.endswith(BODY_END + b"\0")


def test_only_a_send_to_a_queue_asks_for_a_receipt_and_for_the_disk() -> None:
    def headers(wire: Wire) -> bytes:
        return wire.send()[0]

    assert b"persistent:true\nreceipt:s\n" in headers(StompWire("/queue/q"))
    assert b"persistent" not in headers(StompTransientWire("/queue/q"))
    assert b"receipt:s\n" in headers(StompTransientWire("/queue/q"))
    for wire in (StompTopicWire("/topic/t"), StompRequestWire("/queue/q")):
        assert b"receipt" not in headers(wire) and b"persistent" not in headers(wire)
    assert b"reply-to:/temp-queue/r\n" in headers(StompRequestWire("/queue/q"))


def test_each_connection_has_an_inbox_of_its_own() -> None:
    for kind in (NatsStreamWire, NatsRequestWire, BeanstalkRequestWire, RedisRequestWire):
        wire = kind()
        assert len({wire.connection().hello(consumer=False) + wire.connection().send() for _ in range(5)}) == 5
    wire = CoilRequestWire("/queue/q")
    assert b"reply-to:/queue/reply1\n" in wire.connection().send()[0]
    assert b"destination:/queue/reply2\n" in wire.connection().hello(consumer=False)[0]


@pytest.mark.parametrize(
    ("wire", "answers", "count"),
    [
        (StompWire("/queue/q"), b"RECEIPT\nreceipt-id:s\n\n\0" * 3, 3),
        (BeanstalkWire(), b"INSERTED 7\r\nINSERTED 8\r\n", 2),
        (RedisStreamWire(), b"$15\r\n1700000000000-0\r\n$15\r\n1700000000000-1\r\n", 2),
        (NatsStreamWire(), b'MSG i.1.a 1 27\r\n{"stream":"bench", "seq":1}\r\nPING\r\n', 1),
        (NatsRequestWire(), b"MSG i.1.r 1 1024\r\n%b\r\n" % BODY, 1),
        (RedisRequestWire(), b":1\r\n*2\r\n$11\r\nreply000001\r\n$1024\r\n%b\r\n" % BODY, 1),
        (BeanstalkRequestWire(), b"INSERTED 7\r\nRESERVED 12 1024\r\n%b\r\nDELETED\r\n" % BODY, 1),
        (StompRequestWire("/queue/q"), b"MESSAGE\nack:k\n\n%b\0\n" % BODY, 1),
    ],
    ids=name_of,
)
def test_answers_are_counted_however_reads_split_them(wire: Wire, answers: bytes, count: int) -> None:
    for cut in range(len(answers)):
        parts = (answers[:cut], answers[cut:])
        assert sum(wire.answers(part) for part in parts) == count
    assert not wire.complaint(answers)


@pytest.mark.parametrize(
    ("wire", "commands"),
    [
        (BeanstalkWire(), b"INSERTED 4\r\nOUT_OF_MEMORY\r\n"),
        (RedisStreamWire(), b"-NOGROUP No such key\r\n"),
        (RedisTopicWire(), b"-ERR unknown command\r\n"),
        (NatsStreamWire(), b'MSG i.1.a 1 90\r\n{"error":{"code":503}}\r\n'),
        (NatsRequestWire(), b"HMSG i.1.r 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"),
        (CoilWire("/queue/q"), b"ERROR\nmessage:no\n\n\0"),
    ],
    ids=name_of,
)
def test_complaints_are_noticed(wire: Wire, commands: bytes) -> None:
    assert wire.complaint(commands)


def test_an_ack_makes_the_next_message_come() -> None:
    assert BeanstalkWire().ack(b"12", False) == b"delete 12\r\nreserve\r\n"
    assert BeanstalkWire(is_pipelined=False).ack(b"12", True) == b"delete 12\r\n"
    redis = RedisStreamWire().connection()
    xack = b"*4\r\n$4\r\nXACK\r\n$5\r\nbench\r\n$1\r\ng\r\n$3\r\n1-1\r\n"
    assert redis.ack(b"1-1", False) == xack + redis.next_please
    assert RedisStreamWire(is_pipelined=False).connection().ack(b"1-1", True) == xack
    assert NatsStreamWire().connection().ack(b"$JS.ACK.1", False) == b"PUB $JS.ACK.1 i.1.m 4\r\n+NXT\r\n"
    assert (
        NatsStreamWire(is_pipelined=False).connection().ack(b"$JS.ACK.1", True) == b"PUB $JS.ACK.1 i.1.a 4\r\n+ACK\r\n"
    )
    assert CoilWire("/queue/q").ack(b"k1", True) == b"ACK\nmessage-id:k1\nreceipt:a\n\n\0"


def test_a_reply_goes_to_the_requester_and_ends_the_request() -> None:
    reply = b"%020d" % 0 + body_tail(BODY_BYTES)
    assert StompRequestWire("/queue/q").ack(b"k1\n/reply-queue/9", False) == (
        b"SEND\ndestination:/reply-queue/9\ncontent-length:1024\n\n%b\0ACK\nid:k1\n\n\0" % reply
    )
    assert BeanstalkRequestWire().ack(b"12\n000003", False) == (
        b"use reply000003\r\nput 0 0 3600 1024\r\n%b\r\ndelete 12\r\nreserve\r\n" % reply
    )
    assert BeanstalkRequestWire().after_answers(b"INSERTED 1\r\nRESERVED 12 1024\r\n") == b"delete 12\r\n"
    assert NatsRequestWire().ack(b"i.3.r", False) == b"PUB i.3.r 1024\r\n%b\r\n" % reply
    assert RedisRequestWire().ack(b"000003", False).startswith(b"*3\r\n$5\r\nRPUSH\r\n$11\r\nreply000003\r\n$1024\r\n")
