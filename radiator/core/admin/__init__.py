"""/admin: a JSON request in a SEND, answered as JSON to its reply-to. The command line speaks to a broker through
this alone.

An answer is {"ok": true, ...}, or {"ok": false, "code": ..., "error": sentence}; what changes the disk is answered
when it is synced. docs/ADMINISTRATION.md lists the requests.
"""

import json
from collections.abc import Callable

from radiator.core import stats
from radiator.core.admin import checkouts, exchanges, fanouts, logs, nodes, prepared, queues, reload, subscriptions, why
from radiator.core.admin.peek import peek
from radiator.core.admin.request import Handler, Request, by_kind, refused
from radiator.core.answers import Answer
from radiator.core.connections import Connection
from radiator.core.parts import Parts
from radiator.core.queues.queue import Queue
from radiator.core.routing.waiting import FLUSH, Waitable
from radiator.model.commands import Send
from radiator.model.errors import Refusal
from radiator.model.headers import CONTENT_TYPE, CORRELATION_ID, JSON, block_of
from radiator.model.limits import ADMIN_BODY_MAX_BYTES, ADMIN_BYTES_PER_COPY, ADMIN_COPIES
from radiator.model.message import Message


def request(parts: Parts, connection: Connection, command: Send) -> Waitable | None:
    """Carry out one request, or say what it must wait for. A wrong one is answered, not fatal; without a reply-to
    nobody hears the answer.

    Every request comes through here and nowhere else: whoever may do less than everything is told so here.
    """
    parts.context.turn.is_background = True
    turnstile = parts.answers.full(connection)
    if turnstile is not None:
        return turnstile
    if parts.admission.is_turn_full(ADMIN_COPIES + len(command.body) // ADMIN_BYTES_PER_COPY):
        return FLUSH
    queue = None if command.reply_to is None else parts.admission.incoming.asker(connection, command.reply_to)
    give = _given(parts, queue, command)
    try:
        asked = _parsed(command)
        do = asked.pop("do", None)
        handler = _REQUESTS.get(do) if isinstance(do, str) else None
        if handler is None:
            raise Refusal("unknown-request", f"{do!r:.80} is no request: `do` would be one of {', '.join(_REQUESTS)}.")
        handler(Request(parts, connection, do, asked, queue, give))
    except Refusal as refusal:
        give(refused(refusal))
    return None


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
    for value in asked.values():
        # what is nested deeply enough to be read, but not to be repeated in a sentence, would be the end of the broker
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value)):
            raise Refusal(
                "bad-request", "No value of a request to /admin has others within it, but a list of plain ones."
            )
    return asked


def _given(parts: Parts, queue: Queue | None, command: Send) -> Callable[[bytes], None]:
    """What an answer is given to."""
    if queue is None:
        return lambda body: None

    def give(body: bytes) -> None:
        headers = block_of(command.escaping, (CONTENT_TYPE, JSON))
        if command.correlation_id is not None:
            headers += block_of(command.escaping, (CORRELATION_ID, command.correlation_id))
        message = Message(f"/reply-queue/{queue.reply_id}", headers, command.escaping, body, parts.context.now_ms)
        if not queue.is_gone and queue.has_room(1, message.size):
            queue.put(message)
            queue.pump()
        else:
            parts.context.count("replies_dropped")

    return give


def _stats(asked: Request) -> None:
    """The broker's numbers with all sections, or some rows of one section."""
    asked.has_only("section", "limit", "after")
    parts = asked.parts
    if "section" not in asked.asked:
        asked.has_only()
        asked.answer_in_slices(lambda: stats.of(parts))
        return
    section = asked.text("section", f"one of {', '.join(stats.SECTIONS)}")
    if section not in stats.SECTIONS:
        raise Refusal("bad-request", f"`section` must be one of {', '.join(stats.SECTIONS)}; it is {section!r:.80}.")
    after, limit = asked.page()
    asked.answer_in_slices(lambda: {section: stats.section(parts, section, after, limit)})


_REQUESTS: dict[str, Handler] = {
    "stats": _stats,
    "queues": queues.queues,
    "peek": peek,
    "purge": queues.purge,
    "declare": by_kind(
        {"queue": queues.declare, "exchange": exchanges.declare, "fanout": fanouts.declare, "log": logs.declare}
    ),
    "bind": exchanges.bind,
    "unbind": exchanges.unbind,
    "describe": by_kind(
        {"queue": queues.describe, "exchange": exchanges.describe, "fanout": fanouts.describe, "log": logs.describe}
    ),
    "delete": by_kind(
        {"queue": queues.delete, "exchange": exchanges.delete, "fanout": fanouts.delete, "log": logs.delete}
    ),
    "offsets": logs.offsets,
    "await": by_kind({"queue": checkouts.wait, "log": logs.wait, "logs": logs.wait}),
    "position": logs.position,
    "prefetch": subscriptions.prefetch,
    "extend": subscriptions.extend,
    "move": queues.move,
    "checkout": checkouts.checkout,
    "checkout-ack": checkouts.acknowledge,
    "checkout-release": checkouts.release,
    "commit": prepared.commit,
    "abort": prepared.abort,
    "prepared": prepared.prepared,
    "version": prepared.version,
    "why": by_kind({"queue": why.queue, "log": why.log}),
    "peers": nodes.peers,
    "peer-release": nodes.release,
    "peer-drop": nodes.drop,
    "peer-keep": nodes.keep,
    "drain": nodes.drain,
    "reload": reload.reload,
}
