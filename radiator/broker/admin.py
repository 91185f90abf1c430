"""/admin: a JSON request in a SEND, answered as JSON to its reply-to. The command line speaks to a broker through
this alone.

An answer is {"ok": true, ...}, or {"ok": false, "code": ..., "error": sentence}; what changes the disk is answered
when it is synced. docs/OPERATING.md lists the requests.
"""

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from radiator.broker.chores import Moving
from radiator.broker.cluster.cluster import Cluster
from radiator.broker.consumers import Connection
from radiator.broker.entry import Entry
from radiator.broker.kinds.durable_queue import DurableQueue
from radiator.broker.kinds.queue import Queue
from radiator.broker.states import State
from radiator.broker.stats import of_queue
from radiator.commands import Loaded, Send
from radiator.errors import Refusal
from radiator.limits import ADMIN_BODY_MAX_BYTES, LOAD_BYTES, PEEK_BODIES_BYTES, PEEK_BODY_BYTES, PEEK_MESSAGES_MAX
from radiator.message import Message, header_line, unescape
from radiator.patterns import name_mistake
from radiator.reads import Load

if TYPE_CHECKING:
    from radiator.broker.broker import Broker

Answer = dict[str, Any]
Reply = Callable[[Answer], None]

PEEK_COUNT = 10  # where none is asked for


def request(broker: "Broker", connection: Connection, command: Send) -> None:
    """Carry out one request. A wrong one is answered, not fatal; without a reply-to nobody hears the answer."""
    reply = _reply_to(broker, connection, command)
    try:
        asked = _parsed(command)
        do = asked.pop("do", None)
        handler = _REQUESTS.get(do) if isinstance(do, str) else None
        if handler is None:
            raise Refusal("unknown-request", f"{do!r:.80} is no request: `do` would be one of {', '.join(_REQUESTS)}.")
        handler(broker, asked, reply)
    except Refusal as refusal:
        reply({"ok": False, "code": refusal.code, "error": str(refusal)})


def _parsed(command: Send) -> Answer:
    if len(command.body) > ADMIN_BODY_MAX_BYTES:
        raise Refusal(
            "bad-request",
            f"A request to /admin has at most {ADMIN_BODY_MAX_BYTES} bytes; this has {len(command.body)}.",
        )
    try:
        asked = json.loads(command.body)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise Refusal("bad-request", 'A request to /admin is a JSON object such as {"do": "stats"}.')
    return asked


def _reply_to(broker: "Broker", connection: Connection, command: Send) -> Reply:
    if command.reply_to is None:
        return lambda answer: None
    queue = broker.intake.asker(connection, command.reply_to)

    def reply(answer: Answer) -> None:
        body = json.dumps(answer).encode()
        headers = header_line(b"content-type", b"application/json", command.escaping)
        if command.correlation_id is not None:
            headers += header_line(b"correlation-id", command.correlation_id, command.escaping)
        message = Message(f"/reply-queue/{queue.reply_id}", headers, command.escaping, body, broker.desk.now_ms)
        if not queue.is_gone and queue.has_room(1, message.size):
            queue.put(message)
            queue.pump()
        else:
            broker.desk.count("replies_dropped")

    return reply


def _queue(broker: "Broker", asked: Answer, key: str = "queue") -> Queue:
    name = asked.get(key)
    if not isinstance(name, str):
        raise Refusal("bad-request", f"`{key}` must be the name of a queue; it is {name!r:.80}.")
    found = broker.destinations.find(name.removeprefix("/queue/"))
    if found is None:
        raise Refusal("no-such-destination", f"There is no /queue/{name.removeprefix('/queue/'):.255}.")
    return found


def _count(asked: Answer, default: int, most: int | None = None) -> int:
    count = asked.get("count", default)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1 or (most is not None and count > most):
        bound = f"from 1 to {most}" if most is not None else "from 1"
        raise Refusal("bad-request", f"`count` must be a whole number {bound}; it is {count!r:.80}.")
    return count


def _stats(broker: "Broker", asked: Answer, reply: Reply) -> None:
    reply({"ok": True, **broker.stats()})


def _queues(broker: "Broker", asked: Answer, reply: Reply) -> None:
    queues = sorted(broker.destinations.everything(), key=lambda queue: queue.name)
    reply({"ok": True, "queues": [{"name": queue.name, **of_queue(queue)} for queue in queues]})


def _peek(broker: "Broker", asked: Answer, reply: Reply) -> None:
    """The oldest messages of a queue, in order, in flight or not; nothing changes."""
    queue = _queue(broker, asked)
    count = _count(asked, PEEK_COUNT, PEEK_MESSAGES_MAX)
    entries = sorted(queue.in_memory(), key=lambda entry: entry.position)[:count]
    body_bytes_max = min(PEEK_BODY_BYTES, PEEK_BODIES_BYTES // count)
    shown = [_shown(broker, entry, body_bytes_max) for entry in entries]
    if not isinstance(queue, DurableQueue) or len(shown) == count or queue.beyond == 0:
        reply({"ok": True, "messages": shown})
        return

    def loaded(answer: Loaded) -> None:
        known = {entry.position for entry in entries}
        for stored in answer.messages:
            if stored.message is not None and stored.position not in known:
                size = stored.message.size
                entry = Entry(
                    stored.position, stored.message, State.READY, size, stored.redeliveries, stored.redelivered
                )
                shown.append(_shown(broker, entry, body_bytes_max))
        reply({"ok": True, "messages": shown})

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


def _shown(broker: "Broker", entry: Entry, body_bytes_max: int) -> Answer:
    """One message as `peek` shows it."""
    message = entry.message
    headers = []
    for line in message.headers.split(b"\n")[:-1]:
        name, _, value = line.partition(b":")
        headers.append([unescape(part, message.escaping).decode("utf-8", "replace") for part in (name, value)])
    body = _cut(message.body, body_bytes_max)
    answer: Answer = {
        "message_id": broker.desk.message_id(entry.position).decode(),
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


def _purge(broker: "Broker", asked: Answer, reply: Reply) -> None:
    queue = _queue(broker, asked)

    def done(count: int) -> None:
        broker.desk.note("info", "purged", queue=queue.name, messages=count)
        broker.desk.open.then.append(lambda: reply({"ok": True, "purged": count}))

    queue.purge(done)


def _delete(broker: "Broker", asked: Answer, reply: Reply) -> None:
    queue = _queue(broker, asked)
    if queue.doubt_count:
        raise Refusal(
            "in-use",
            f"{queue.doubt_count} messages of /queue/{queue.name} are in doubt with another node: a link settles them, "
            "or `radiator peer release` frees them.",
        )
    if queue.is_declared:
        raise Refusal(
            "declared", f"/queue/{queue.name} is declared in the configuration: take it out there, or purge it."
        )
    if not queue.is_idle:
        raise Refusal(
            "in-use",
            f"/queue/{queue.name} has {len(queue.subscriptions)} consumers and {len(queue.entries_out)} unacked "
            "messages: stop them first.",
        )
    count = queue.ledger.stored
    broker.delete(queue)
    broker.desk.open.then.append(lambda: reply({"ok": True, "deleted": count}))


def _move(broker: "Broker", asked: Answer, reply: Reply) -> None:
    source = _queue(broker, asked, "from")
    name = asked.get("to")
    if not isinstance(name, str) or not name.removeprefix("/queue/"):
        raise Refusal("bad-request", f"`to` must be the name of a queue; it is {name!r:.80}.")
    mistake = name_mistake(name.removeprefix("/queue/"))
    if name.startswith("/") and not name.startswith("/queue/"):
        mistake = "is the address of something else"
    if mistake:
        raise Refusal("bad-request", f"`to` must be the name of a queue; it is {name!r:.80}, which {mistake}.")
    target = broker.destinations.queue(name.removeprefix("/queue/"))
    if target is source:
        raise Refusal("bad-request", f"/queue/{source.name} cannot be moved into itself.")
    count = _count(asked, max(1, source.ready_count))

    def done(moved: int) -> None:
        broker.desk.note("info", "moved", source=source.name, target=target.name, messages=moved)
        reply({"ok": True, "moved": moved})

    broker.chores.append(Moving(broker.desk, source, target, count, broker.moved, done))


def _cluster(broker: "Broker", may_be_alone: bool = False) -> Cluster:
    if broker.cluster is None or (broker.cluster.node is None and not may_be_alone):
        raise Refusal("no-node", "This broker has no [node] in its configuration: it is alone.")
    return broker.cluster


def _peers(broker: "Broker", asked: Answer, reply: Reply) -> None:
    cluster = _cluster(broker, may_be_alone=True)
    reply(
        {
            "ok": True,
            "node": cluster.name,
            "draining": cluster.is_draining,
            "peers": cluster.numbers(),
            "nodes": cluster.spreading.nodes(),
        }
    )


def _release(broker: "Broker", asked: Answer, reply: Reply) -> None:
    cluster = _cluster(broker, may_be_alone=True)
    name = asked.get("peer")
    if not isinstance(name, str) or asked.get("force") is not True:
        raise Refusal(
            "bad-request",
            "A release names a `peer` and says `force`: true, because what is in doubt may then be processed twice.",
        )
    count = cluster.release(name)
    broker.desk.note("warning", "released", node=name, messages=count)
    broker.desk.open.then.append(lambda: reply({"ok": True, "released": count}))


def _drain(broker: "Broker", asked: Answer, reply: Reply) -> None:
    left, stays = _cluster(broker).drain(asked.get("stop") is not True)
    reply({"ok": True, "draining": _cluster(broker).is_draining, "left": left, "stays": stays})


_REQUESTS: dict[str, Callable[["Broker", Answer, Reply], None]] = {
    "stats": _stats,
    "queues": _queues,
    "peek": _peek,
    "purge": _purge,
    "delete": _delete,
    "move": _move,
    "peers": _peers,
    "peer-release": _release,
    "drain": _drain,
}
