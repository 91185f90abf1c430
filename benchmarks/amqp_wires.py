"""AMQP 0-9-1 as the load must know it: of RabbitMQ and of Radiator the same frames, made beforehand.

A producer's channel is in confirm mode; a consumer's has a window of one message. A confirm may be for many messages,
and RabbitMQ's need not come in order, so they are counted by their tags.
"""

import copy
import re
import struct
from typing import Self

from benchmarks.amqp import FRAME_END, FRAME_MAX_BYTES, FRAME_ROUND_BYTES, HELLO, NO_TABLE, frame, method_frame, short
from radiator.tools.cli.load import BODY_BYTES, STAMP_BYTES, LoadFailed, body_tail

BODY_MAX_BYTES = FRAME_MAX_BYTES - FRAME_ROUND_BYTES  # of one frame: the load has no body in two

_QOS, _CONSUME, _CONSUME_OK, _PUBLISH, _DELIVER, _ACK = (60, 10), (60, 20), (60, 21), (60, 40), (60, 60), (60, 80)
_CONFIRM_SELECT, _CONFIRM_SELECT_OK = (85, 10), (85, 11)
_BASIC = 60
_DELIVERY_MODE = 0x1000  # the flag of the only property
_CONSUMER_TAG = b"c"
_METHOD = struct.Struct(">BHIHH")  # a frame's kind, channel and size, and the method's numbers
_TAG_FROM = _METHOD.size + len(short(_CONSUMER_TAG))
_DELIVERY_TAG_BYTES = 8
_ONE_ACK = struct.Struct(">BHIHHQBB")  # a whole frame of basic.ack: it has always this size
_ACK_HEAD = method_frame(1, _ACK, bytes(_DELIVERY_TAG_BYTES + 1))[: _METHOD.size]
# connection.close, channel.close, basic.return and basic.nack
_COMPLAINTS = re.compile(rb"\x01\0[\0\1]\0[\0\1][\0-\xff]{2}\0(?:\x0a\0\x32|\x14\0\x28|\x3c\0[\x32\x78])")


class Confirms:
    """Which messages of a channel are confirmed."""

    def __init__(self) -> None:
        self._until = 0  # all up to it are
        self._beyond: set[int] = set()

    def took(self, tag: int, is_multiple: bool) -> int:
        """How many messages this confirms that were not confirmed before."""
        if is_multiple:
            before = {one for one in self._beyond if one <= tag}
            count = max(0, tag - self._until) - len(before)
            self._beyond -= before
            self._until = max(tag, self._until)
        else:
            count = int(tag > self._until and tag not in self._beyond)
            self._beyond.add(tag)
        while self._beyond and self._until + 1 in self._beyond:
            self._until += 1
            self._beyond.remove(self._until)
        return count


class AmqpWire:
    """A queue of the default exchange, which was declared before. is_persistent: its messages' delivery mode is 2."""

    is_varied = False
    ack_answer = next_please = b""

    def __init__(self, queue: str, is_persistent: bool, body_bytes: int = BODY_BYTES) -> None:
        self.body_bytes = body_bytes
        self._queue = short(queue.encode())
        self._mode = bytes([2 if is_persistent else 1])
        self._confirms = Confirms()
        self._rest = b""

    def connection(self) -> Self:
        """One of its own: tags are counted for each channel."""
        one = copy.copy(self)
        one._confirms = Confirms()
        return one

    def hello(self, consumer: bool) -> tuple[bytes, bytes]:
        if not consumer:
            return HELLO + method_frame(1, _CONFIRM_SELECT, b"\0"), method_frame(1, _CONFIRM_SELECT_OK)
        window = method_frame(1, _QOS, struct.pack(">IHB", 0, 1, 0))
        tag = short(_CONSUMER_TAG)
        consume = method_frame(1, _CONSUME, b"\0\0" + self._queue + tag + b"\0" + NO_TABLE)
        return HELLO + window + consume, method_frame(1, _CONSUME_OK, tag)

    def send(self) -> tuple[bytes, bytes]:
        publish = method_frame(1, _PUBLISH, b"\0\0" + short(b"") + self._queue + b"\0")
        properties = struct.pack(">HHQH", _BASIC, 0, self.body_bytes, _DELIVERY_MODE) + self._mode
        head = publish + frame(2, 1, properties) + struct.pack(">BHI", 3, 1, self.body_bytes)
        return head, body_tail(self.body_bytes) + FRAME_END

    def answers(self, data: bytes) -> int:
        data = self._rest + data
        whole = len(data) // _ONE_ACK.size * _ONE_ACK.size
        self._rest = data[whole:]
        count = 0
        for kind, _, _, class_id, method_id, tag, bits, _ in _ONE_ACK.iter_unpack(data[:whole]):
            if (kind, class_id, method_id) != (1, *_ACK):
                raise LoadFailed(f"The broker said no basic.ack but {data[:300]!r}.")
            count += self._confirms.took(tag, bool(bits & 1))
        return count

    def after_answers(self, data: bytes) -> bytes:
        return b""

    def next_message(self, data: bytes) -> tuple[bytes, bytes, int] | None:
        """Of three frames: the method, the properties, and the body."""
        if len(data) < _METHOD.size:
            return None
        kind, _, size, class_id, method_id = _METHOD.unpack_from(data)
        if (kind, class_id, method_id) != (1, *_DELIVER):
            raise LoadFailed(f"The broker said no basic.deliver but {data[:300]!r}.")
        header = size + FRAME_ROUND_BYTES
        body = header + FRAME_ROUND_BYTES + int.from_bytes(data[header + 3 : header + 7])
        end = body + FRAME_ROUND_BYTES + self.body_bytes
        if len(data) < end:
            return None
        stamp = body + 7
        return data[_TAG_FROM : _TAG_FROM + _DELIVERY_TAG_BYTES], data[stamp : stamp + STAMP_BYTES], end

    def ack(self, key: bytes, receipt: bool) -> bytes:
        """AMQP has no answer to it."""
        return b"%b%b\0\xce" % (_ACK_HEAD, key)

    def complaint(self, data: bytes) -> bool:
        return _COMPLAINTS.search(data) is not None
