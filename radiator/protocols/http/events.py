"""`GET /v1/logs/NAME/events` and `GET /v1/topics/PATTERN/events`: server-sent events, until one side closes.

The `id` of a record's event is the place of its reader in all partitions, as `PARTITION:OFFSET,...`: the offset that is
to be read next in each. A client that reconnects with it (Last-Event-ID) misses no record, and gets none twice.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from radiator.model.addresses import LOG, TOPIC, address_mistake
from radiator.model.commands import EARLIEST, LATEST, Place, Subscribe
from radiator.model.errors import shown
from radiator.model.limits import HTTP_EVENTS_PARTITIONS, PARTITIONS_MAX
from radiator.model.message import Message
from radiator.model.replies import Deliver, LogReceipt, RecordPlace, Refuse, Reply
from radiator.protocols.http.exchange import HttpExchange, HttpRequest
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.members import members
from radiator.protocols.http.responses import status_of

_SUBSCRIPTION = b"events"  # the connection has no other subscription
_PLACE = re.compile("([0-9]{1,4}):([0-9]{1,15})", re.ASCII)
# writes one line, whatever the value; made once: json.dumps makes an encoder for each call, as long as an event takes
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_STARTS: Mapping[str, Place] = {EARLIEST: (EARLIEST, 0), LATEST: (LATEST, 0)}


def of_log(request: HttpRequest) -> HttpExchange:
    """Subscribes to the records of a log, from Last-Event-ID on, or from `from`. Raises BadRequest."""
    address = _address(request, LOG)
    query = request.query("from", "partition")
    partition = _partition(query["partition"]) if "partition" in query else None
    start, offsets = _start(request, query.get("from", LATEST))
    if partition is not None and offsets is not None and offsets.keys() != {partition}:
        raise BadRequest(400, f"Partition {partition} alone is read, so the place must be {partition}:OFFSET.")
    command = Subscribe(
        request.connection,
        _SUBSCRIPTION,
        address,
        receipt=request.receipt,
        start=start,
        partition=partition,
        offsets=offsets,
        offsets_max=HTTP_EVENTS_PARTITIONS,
        encoded_bytes=event_bytes,
    )
    return HttpExchange([command], EventStream)


def of_topics(request: HttpRequest) -> HttpExchange:
    """Subscribes to what is sent to the topics that match, from now on. Raises BadRequest."""
    address = _address(request, TOPIC)
    request.query()
    return HttpExchange([Subscribe(request.connection, _SUBSCRIPTION, address, receipt=request.receipt)], EventStream)


class EventStream:
    """The events of a subscription. receipt: the reply to its Subscribe; that of a log has the reader's place."""

    __slots__ = ("_offsets", "opening")

    def __init__(self, receipt: Reply) -> None:
        self._offsets = dict(receipt.offsets) if isinstance(receipt, LogReceipt) else {}
        # a client that loses the connection before the first event reconnects with this id
        self.opening = b"id: %b\n\n" % self._id() if self._offsets else b""

    def encode(self, reply: Reply) -> bytes:
        if isinstance(reply, Deliver):
            return self._message(reply)
        return refused_event(reply) if isinstance(reply, Refuse) else b""

    def _message(self, reply: Deliver) -> bytes:
        place = reply.log
        if not isinstance(place, RecordPlace):
            return _event_of(reply.message, reply.message_id.decode(), {})
        self._offsets[place.partition] = place.offset + 1
        where = {"partition": place.partition, "offset": place.offset}
        return b"id: %b\n%b" % (self._id(), _event_of(reply.message, f"{place.partition}:{place.offset}", where))

    def _id(self) -> bytes:
        return b",".join(b"%d:%d" % place for place in self._offsets.items())


_last: tuple[Message | None, str, bytes] = (None, "", b"")


def _event_of(message: Message, name: str, where: Mapping[str, int]) -> bytes:
    """Returns the event of a message, without the `id` of a reader. Streams that get the same message one after another
    share its bytes: 1,000 slow readers of a topic hold one copy.
    """
    global _last
    if message is not _last[0] or name != _last[1]:
        _last = (message, name, _event(b"message", {"id": name, **where, **members(message)}))
    return _last[2]


_LONGER = bytes(range(32)) + b'"\\'  # in a JSON string each of these becomes two to six bytes
_ESCAPED_BYTES = 6
_PLACE_BYTES = 21  # `PARTITION:OFFSET,`
_AROUND_BYTES = 64  # the names and numbers in an event, beyond what every message is counted for


def event_bytes(message: Message, partitions: int) -> int:
    """Returns the most bytes that the event of a record can take. Memory is counted by it, so that no record makes
    events that take more than is counted.
    """
    body = message.body
    as_text = len(body) + (_ESCAPED_BYTES - 1) * (len(body) - len(body.translate(None, _LONGER)))
    as_base64 = 4 * len(body) // 3 + 4
    around = len(message.destination) + _PLACE_BYTES * partitions + _AROUND_BYTES
    return max(as_text, as_base64) + _ESCAPED_BYTES * len(message.headers) + around


def refused_event(refuse: Refuse) -> bytes:
    """Returns the last event of a stream that the broker ends."""
    return _event(b"refused", {"status": status_of(refuse.code), "code": refuse.code, "detail": refuse.sentence})


def event_of(name: bytes, data: bytes) -> bytes:
    """Returns an event. data: one line."""
    return b"event: %b\ndata: %b\n\n" % (name, data)


def _event(name: bytes, data: Mapping[str, Any]) -> bytes:
    return event_of(name, _as_json(data).encode())


def no_head(request: HttpRequest) -> None:
    """Raises BadRequest for a HEAD."""
    if request.head.method == "HEAD":
        sentence = "Events have no end, so a HEAD is not for them; ask with GET."
        raise BadRequest(405, sentence, ((b"Allow", b"GET"),))


def _address(request: HttpRequest, kind: str) -> str:
    no_head(request)
    address = f"/{kind}/{request.names[0]}"
    if wrong := address_mistake(address):
        raise BadRequest(400, f"{shown(address.encode())} {wrong}.")
    return address


def _partition(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 4 and int(value) < PARTITIONS_MAX):  # noqa: PLR2004
        raise BadRequest(400, f"partition is {value!r:.80}; it must be a whole number from 0 to {PARTITIONS_MAX - 1}.")
    return int(value)


def _start(request: HttpRequest, asked: str) -> tuple[Place | None, Mapping[int, int] | None]:
    """Returns `start` and `offsets` of the Subscribe. Raises BadRequest."""
    last = request.head.headers.get(b"last-event-id")
    if last:
        return None, _offsets("Last-Event-ID", last.decode("utf-8", "replace"))
    if asked in _STARTS:
        return _STARTS[asked], None
    return None, _offsets("from", asked)


def _offsets(name: str, value: str) -> Mapping[int, int]:
    """Returns the offset of each partition. Raises BadRequest."""
    found: dict[int, int] = {}
    for one in value.split(",", HTTP_EVENTS_PARTITIONS):
        match = _PLACE.fullmatch(one)
        if match is None or int(match[1]) in found or len(found) == HTTP_EVENTS_PARTITIONS:
            words = "earliest, latest, or " if name == "from" else ""
            what = f"{words}PARTITION:OFFSET for each partition, with `,` between and at most {HTTP_EVENTS_PARTITIONS}"
            raise BadRequest(400, f"{name} is {value!r:.80}; it must be {what}.")
        found[int(match[1])] = int(match[2])
    return found
