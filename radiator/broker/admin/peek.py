"""`peek`: messages of a queue, as they are."""

import base64

from radiator.broker.admin.queues import named
from radiator.broker.admin.request import Answer, Request
from radiator.broker.entry import Entry
from radiator.broker.kinds.durable_queue import DurableQueue
from radiator.broker.states import State
from radiator.broker.turn import Desk
from radiator.commands import Loaded
from radiator.limits import LOAD_BYTES, PEEK_BODIES_BYTES, PEEK_BODY_BYTES, PEEK_MESSAGES_MAX
from radiator.message import unescape
from radiator.reads import Load

PEEK_COUNT = 10  # where none is asked for


def peek(request: Request) -> None:
    """The oldest messages of a queue, in order, in flight or not; nothing changes."""
    broker = request.broker
    queue = named(request)
    count = request.whole("count", PEEK_COUNT, PEEK_MESSAGES_MAX)
    entries = sorted(queue.in_memory(), key=lambda entry: entry.position)[:count]
    body_bytes_max = min(PEEK_BODY_BYTES, PEEK_BODIES_BYTES // count)
    shown = [_shown(broker.desk, entry, body_bytes_max) for entry in entries]
    if not isinstance(queue, DurableQueue) or len(shown) == count or queue.beyond == 0:
        request.answer(messages=shown)
        return

    def loaded(answer: Loaded) -> None:
        known = {entry.position for entry in entries}
        for stored in answer.messages:
            if stored.message is not None and stored.position not in known:
                size = stored.message.size
                entry = Entry(
                    stored.position, stored.message, State.READY, size, stored.redeliveries, stored.redelivered
                )
                shown.append(_shown(broker.desk, entry, body_bytes_max))
        request.answer(messages=shown)

    load = Load(broker.desk.next_position(), queue.number, queue.window_end, count - len(shown), 4 * LOAD_BYTES)
    broker.destinations.windows.ask(broker.desk, load, loaded)


def _cut(body: bytes, most: int) -> bytes:
    """At most so many bytes of it, without the beginning of a character that would be cut in two."""
    if len(body) <= most:
        return body
    end = most
    while end and end > most - 4 and body[end] & 0xC0 == 0x80:
        end -= 1
    return body[:end]


def _shown(desk: Desk, entry: Entry, body_bytes_max: int) -> Answer:
    """One message as `peek` shows it."""
    message = entry.message
    headers = []
    for line in message.headers.split(b"\n")[:-1]:
        name, _, value = line.partition(b":")
        headers.append([unescape(part, message.escaping).decode("utf-8", "replace") for part in (name, value)])
    body = _cut(message.body, body_bytes_max)
    answer: Answer = {
        "message_id": desk.message_id(entry.position).decode(),
        "destination": message.destination,
        "timestamp": message.accepted_ms,
        "expires": message.expires_ms,
        "redelivered": entry.redelivered,
        "redelivery_count": entry.redeliveries,
        "state": entry.state.name.lower(),
        "size": entry.size,
        "headers": headers,
        "body_bytes": len(message.body),
    }
    try:
        answer["body"] = body.decode()
    except UnicodeDecodeError:
        answer["body"] = None
        answer["body_base64"] = base64.b64encode(body).decode()
    return answer
