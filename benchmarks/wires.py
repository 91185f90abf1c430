"""The peers' protocols, as far as the load must know them (radiator/tools/cli/load.py: Wire).

For each there is the wire of a queue; of a topic, where SENDs ask for no answer; and of request and reply, where a
producer's answer is what a consumer sent back. Bodies hold no byte that a wire counts answers by.
"""

import copy
import re
from typing import Self

from radiator.tools.cli.load import BODY_BYTES, BODY_END, STAMP_BYTES, StompWire, body_tail

NAME = "bench"  # of every queue, stream and topic


class _PlainWire:
    """What most protocols have in common."""

    is_varied = False
    ack_answer = next_please = b""
    answer_mark = BODY_END  # a byte that occurs once in every answer to a SEND: its last one, if that can be
    complaints: re.Pattern[bytes]

    def __init__(self, body_bytes: int = BODY_BYTES) -> None:
        self.body_bytes = body_bytes
        self.number = 0
        self._connections = [0]

    def connection(self) -> Self:
        """One of its own: inboxes and consumers have names, made from its number."""
        self._connections[0] += 1
        one = copy.copy(self)
        one.number = self._connections[0]
        return one

    def answers(self, data: bytes) -> int:
        return data.count(self.answer_mark)

    def after_answers(self, data: bytes) -> bytes:
        return b""

    def complaint(self, data: bytes) -> bool:
        return self.complaints.search(data) is not None

    def _message(self, data: bytes, head: bytes, ends: bytes, key_from: int, key_to: int) -> (
        tuple[bytes, bytes, int] | None
    ):  # fmt: skip
        """A message whose first line, from `head` to `ends`, has the key between two blanks, counted from 0."""
        start = data.find(head)
        body = data.find(ends, start) + len(ends)
        end = body + self.body_bytes + 2
        if start < 0 or body < start + len(ends) or len(data) < end:
            return None
        words = data[start:body].split()
        return b" ".join(words[key_from:key_to]), data[body : body + STAMP_BYTES], end


# ---- STOMP: RabbitMQ, CoilMQ, and Radiator


class StompTransientWire(StompWire):
    """For a broker that stores what the sender wants stored; ours goes by the queue. `persistent:false` would make an
    exclusive queue of it in RabbitMQ, so the header is left out."""

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        return head.replace(b"persistent:true\n", b""), tail


class StompTopicWire(StompWire):
    """SENDs without a receipt to subscribers that ack nothing."""

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if not consumer:
            return self._connect, b"\0"
        return self._connect + self.subscribe("auto"), b"subscribed\n\n\0"

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        return head.replace(b"persistent:true\nreceipt:s\n", b""), tail


class StompRequestWire(StompWire):
    """A request without a receipt, with `reply-to:/temp-queue/r`; the reply goes to the address that the consumer
    sees there, and ends the request. Each consumer has one request unacked."""

    answer_mark = BODY_END

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        return head.replace(b"persistent:true\nreceipt:s\n", b"reply-to:/temp-queue/r\n"), tail

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        found = super().next_message(data)
        if found is None:
            return None
        ack, stamp, end = found
        reply_to = data.rindex(b"\nreply-to:", 0, end) + 10
        return ack + b"\n" + data[reply_to : data.index(b"\n", reply_to)], stamp, end

    def ack(self, key: bytes, receipt: bool) -> bytes:
        ack, _, reply_to = key.partition(b"\n")
        head = b"SEND\ndestination:%b\ncontent-length:%d\n\n" % (reply_to, self.body_bytes)
        return b"%b%020d%b\0%b" % (head, 0, body_tail(self.body_bytes), super().ack(ack, receipt))


class CoilWire(StompWire):
    """STOMP 1.0: CoilMQ's 1.2 wants the host's name in CONNECT, and a header in ACK that 1.2 does not have."""

    def __init__(self, destination: str, body_bytes: int = BODY_BYTES) -> None:
        super().__init__(destination, body_bytes=body_bytes)
        self._connect = b"CONNECT\n\n\0"

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        """Without a receipt for SUBSCRIBE: the first message may come before it."""
        return super().hello(consumer)[0], b"\0"

    def subscribe(self, ack: str, headers: bytes = b"") -> bytes:
        return b"SUBSCRIBE\n%back:%b\n\n\0" % (self._address, b"client" if ack == "client-individual" else b"auto")

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        start = data.find(b"MESSAGE\n")
        end = data.find(b"\0", start)
        if start < 0 or end < 0:
            return None
        key = data.index(b"\nmessage-id:", start) + 12
        body = data.index(b"\n\n", start) + 2
        return data[key : data.index(b"\n", key)], data[body : body + STAMP_BYTES], end + 1

    def ack(self, key: bytes, receipt: bool) -> bytes:
        return b"ACK\nmessage-id:%b\n%b\n\0" % (key, b"receipt:a\n" if receipt else b"")


class CoilTopicWire(CoilWire, StompTopicWire):
    """As STOMP's, in 1.0."""


class CoilRequestWire(StompRequestWire, CoilWire):
    """CoilMQ has no temporary queues: each requester subscribes to a queue of its own."""

    def __init__(self, destination: str, body_bytes: int = BODY_BYTES) -> None:
        super().__init__(destination, body_bytes)
        self._connections = [0]
        self._reply_to = b""

    def connection(self) -> Self:
        self._connections[0] += 1
        one = copy.copy(self)
        one._reply_to = b"/queue/reply%d" % self._connections[0]
        return one

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if consumer:
            return super().hello(True)
        return self._connect + b"SUBSCRIBE\ndestination:%b\nack:auto\n\n\0" % self._reply_to, b"\0"

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        return head.replace(b"/temp-queue/r", self._reply_to), tail


_BEANSTALK_COMPLAINT = rb"OUT_OF|INTERNAL|DRAINING|BAD_FORMAT|JOB_TOO|NOT_FOUND|EXPECTED|BURIED"


class BeanstalkWire(_PlainWire):
    """beanstalkd's protocol. is_pipelined: a delete and the next reserve go in one write, which saves a round trip;
    otherwise the consumer waits for DELETED first, as client libraries do."""

    answer_mark = b"\n"
    next_please = b"reserve\r\n"
    complaints = re.compile(_BEANSTALK_COMPLAINT)

    def __init__(self, is_pipelined: bool = True, body_bytes: int = BODY_BYTES) -> None:
        super().__init__(body_bytes)
        self.ack_answer = b"" if is_pipelined else b"DELETED\r\n"
        self._ack = b"delete %b\r\n" + (self.next_please if is_pipelined else b"")

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        return (self.next_please if consumer else b""), b""

    def send(self) -> tuple[bytes, bytes]:
        return b"put 0 0 3600 %d\r\n" % self.body_bytes, body_tail(self.body_bytes) + b"\r\n"

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        return self._message(data, b"RESERVED ", b"\r\n", 1, 2)

    def ack(self, key: bytes, receipt: bool) -> bytes:
        return self._ack % key


class BeanstalkRequestWire(BeanstalkWire):
    """Two tubes: the requests' one, and one for each requester, which is named in the body behind the stamp."""

    answer_mark = BODY_END

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if consumer:
            return b"watch requests\r\nignore default\r\nreserve\r\n", b"WATCHING 1\r\n"
        return b"use requests\r\nwatch reply%06d\r\nignore default\r\n" % self.number, b"WATCHING 1\r\n"

    def send(self) -> tuple[bytes, bytes]:
        head, tail = super().send()
        return head, b"%06d" % self.number + tail[6:] + self.next_please

    def after_answers(self, data: bytes) -> bytes:
        return b"".join(b"delete %b\r\n" % key for key in re.findall(rb"RESERVED (\d+)", data))

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        found = super().next_message(data)
        if found is None:
            return None
        key, stamp, end = found
        body = end - 2 - self.body_bytes
        return key + b"\n" + data[body + STAMP_BYTES : body + STAMP_BYTES + 6], stamp, end

    def ack(self, key: bytes, receipt: bool) -> bytes:
        job, _, number = key.partition(b"\n")
        head, tail = BeanstalkWire.send(self)
        reply = b"%b%020d%b" % (head, 0, tail)
        return b"use reply%b\r\n%bdelete %b\r\nreserve\r\n" % (number, reply, job)


# ---- Redis


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class RedisStreamWire(_PlainWire):
    """XADD, and XREADGROUP of one message with XACK. is_pipelined: XACK and the next XREADGROUP go in one write."""

    answer_mark = b"-"  # in the middle of an entry's id, whose last bytes come with it
    complaints = re.compile(rb"-[A-Z]+ ")

    def __init__(self, is_pipelined: bool = True, body_bytes: int = BODY_BYTES) -> None:
        super().__init__(body_bytes)
        self.ack_answer = b"" if is_pipelined else b":1\r\n"
        self.is_pipelined = is_pipelined

    def prepare(self) -> bytes:
        """Said once, before the load: the group begins at the stream's end."""
        return _command(b"XGROUP", b"CREATE", NAME.encode(), b"g", b"$", b"MKSTREAM")

    def connection(self) -> Self:
        one = super().connection()
        one.next_please = _command(
            b"XREADGROUP", b"GROUP", b"g", b"c%d" % one.number, b"COUNT", b"1", b"BLOCK", b"0",
            b"STREAMS", NAME.encode(), b">",
        )  # fmt: skip
        return one

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        return (self.next_please if consumer else b""), b""

    def send(self) -> tuple[bytes, bytes]:
        whole = _command(b"XADD", NAME.encode(), b"*", b"b", b"?" * self.body_bytes)
        return whole[: -self.body_bytes - 2], body_tail(self.body_bytes) + b"\r\n"

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        # ... $15 ID *2 $1 b $1024 BODY
        body_head = b"$%d\r\n" % self.body_bytes
        body = data.find(body_head) + len(body_head)
        end = body + self.body_bytes + 2
        if body < len(body_head) or len(data) < end:
            return None
        return data[:body].split(b"\r\n")[-6], data[body : body + STAMP_BYTES], end

    def ack(self, key: bytes, receipt: bool) -> bytes:
        ack = _command(b"XACK", NAME.encode(), b"g", key)
        return ack + self.next_please if self.is_pipelined else ack


class RedisTopicWire(_PlainWire):
    """PUBLISH and SUBSCRIBE."""

    complaints = re.compile(rb"-[A-Z]+ ")

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        return (_command(b"SUBSCRIBE", NAME.encode()), b":1\r\n") if consumer else (b"", b"")

    def send(self) -> tuple[bytes, bytes]:
        whole = _command(b"PUBLISH", NAME.encode(), b"?" * self.body_bytes)
        return whole[: -self.body_bytes - 2], body_tail(self.body_bytes) + b"\r\n"


class RedisRequestWire(_PlainWire):
    """Lists: RPUSH and BLPOP, and a list for each requester, which is named in the body behind the stamp."""

    complaints = re.compile(rb"-[A-Z]+ ")
    take = _command(b"BLPOP", b"requests", b"0")

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        return (self.take if consumer else b""), b""

    def send(self) -> tuple[bytes, bytes]:
        whole = _command(b"RPUSH", b"requests", b"?" * self.body_bytes)
        tail = b"%06d" % self.number + body_tail(self.body_bytes)[6:] + b"\r\n"
        return whole[: -self.body_bytes - 2], tail + _command(b"BLPOP", b"reply%06d" % self.number, b"0")

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        body_head = b"$%d\r\n" % self.body_bytes
        body = data.find(body_head) + len(body_head)
        end = body + self.body_bytes + 2
        if body < len(body_head) or len(data) < end:
            return None
        stamp_end = body + STAMP_BYTES
        return data[stamp_end : stamp_end + 6], data[body:stamp_end], end

    def ack(self, key: bytes, receipt: bool) -> bytes:
        return _command(b"RPUSH", b"reply%b" % key, b"%020d%b" % (0, body_tail(self.body_bytes))) + self.take


# ---- NATS

_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
_NATS_COMPLAINT = re.compile(rb'-ERR |"error"|NATS/1.0 ')


class NatsStreamWire(_PlainWire):
    """JetStream: a publish with its acknowledgement; a pull consumer that holds one message.

    is_pipelined: the acknowledgement asks for the next message in the same breath (+NXT); otherwise it asks for an
    answer of its own (a double acknowledgement), and the next pull waits for it.
    """

    answer_mark = b"}"  # the end of the JSON of a publish acknowledgement
    complaints = _NATS_COMPLAINT

    def __init__(self, is_pipelined: bool = True, body_bytes: int = BODY_BYTES) -> None:
        super().__init__(body_bytes)
        self.is_pipelined = is_pipelined
        self.ack_answer = b"" if is_pipelined else b" 0\r\n\r\n"

    def connection(self) -> Self:
        one = super().connection()
        one.next_please = b"PUB $JS.API.CONSUMER.MSG.NEXT.%b.c i.%d.m 0\r\n\r\n" % (NAME.encode(), one.number)
        return one

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        sent = _CONNECT + b"SUB i.%d.* 1\r\nPING\r\n" % self.number
        return sent + (self.next_please if consumer else b""), b"PONG\r\n"

    def send(self) -> tuple[bytes, bytes]:
        head = b"PUB %b i.%d.a %d\r\n" % (NAME.encode(), self.number, self.body_bytes)
        return head, body_tail(self.body_bytes) + b"\r\n"

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        return self._message(data, b"MSG %b " % NAME.encode(), b"\r\n", 3, 4)

    def ack(self, key: bytes, receipt: bool) -> bytes:
        if self.is_pipelined:
            return b"PUB %b i.%d.m 4\r\n+NXT\r\n" % (key, self.number)
        return b"PUB %b i.%d.a 4\r\n+ACK\r\n" % (key, self.number)


class NatsTopicWire(_PlainWire):
    """Core NATS: a subject and its subscribers."""

    complaints = _NATS_COMPLAINT

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        return _CONNECT + (b"SUB t 1\r\n" if consumer else b"") + b"PING\r\n", b"PONG\r\n"

    def send(self) -> tuple[bytes, bytes]:
        return b"PUB t %d\r\n" % self.body_bytes, body_tail(self.body_bytes) + b"\r\n"


class NatsRequestWire(_PlainWire):
    """Core NATS: requests to a queue group, each with an inbox for its reply. There is no ack, so no bound either."""

    complaints = _NATS_COMPLAINT

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        subscribe = b"SUB q group 1\r\n" if consumer else b"SUB i.%d.* 1\r\n" % self.number
        return _CONNECT + subscribe + b"PING\r\n", b"PONG\r\n"

    def send(self) -> tuple[bytes, bytes]:
        head = b"PUB q i.%d.r %d\r\n" % (self.number, self.body_bytes)
        return head, body_tail(self.body_bytes) + b"\r\n"

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        return self._message(data, b"MSG q ", b"\r\n", 3, 4)

    def ack(self, key: bytes, receipt: bool) -> bytes:
        return b"PUB %b %d\r\n%020d%b\r\n" % (key, self.body_bytes, 0, body_tail(self.body_bytes))
