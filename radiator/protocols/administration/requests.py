"""Reads a request to /admin: JSON to a command of model/administration.py.

A request is an object with `do`, which names it, and a key for each field of its command. A mistake in the request
itself is a `bad-request` here. Settings and offsets pass unchanged: which are right depends on the broker's state, so
the core checks them.
"""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from radiator.model import administration as commands
from radiator.model.addresses import KINDS, QUEUE, declared_kinds
from radiator.model.administration import REASONS, AdminCommand, sections
from radiator.model.checks import number, shown
from radiator.model.correlations import correlation_id_in
from radiator.model.errors import Refusal
from radiator.model.errors import shown as shown_bytes
from radiator.model.limits import (
    ACK_TIMEOUT_MAX_S,
    ADMIN_BODY_MAX_BYTES,
    AWAIT_MAX_MS,
    AWAITED_LOGS_MAX,
    CHECKOUT_MESSAGES_MAX,
    DRAIN_WAIT_MAX_MS,
    EXPLAINED_EVENTS_MAX,
    EXTEND_MIN_S,
    LOG_KEPT_LINES,
    PEEK_MESSAGES_MAX,
    PREFETCH_COUNT_MAX,
    REFUSE_MAX_S,
    REGISTERED_MAX_MS,
    REGISTERED_MIN_MS,
    REGISTERED_MS,
    SIZE_MAX,
    TIME_MAX_MS,
)
from radiator.model.settings import LOG_LEVELS
from radiator.model.story import message_id_in
from radiator.model.traces import trace_id_in
from radiator.model.validation import mistake
from radiator.protocols.administration import connections, overview, questions
from radiator.protocols.administration.asked import Asked
from radiator.protocols.administration.bindings import binding

PEEK_COUNT = 10  # if the request gives no count
LOG_LINES_COUNT = 100  # likewise

_LEVELS = f"one of {', '.join(LOG_LEVELS)}"
_seconds = number(EXTEND_MIN_S, ACK_TIMEOUT_MAX_S, "of seconds ")


def read(body: bytes) -> AdminCommand:
    """Returns the command that a request asks for. Raises Refusal `bad-request` or `unknown-request`."""
    given = _parsed(body)
    do = given.pop("do", None)
    reader = REQUESTS.get(do) if isinstance(do, str) else None
    if reader is None:
        raise Refusal("unknown-request", f"{shown(do)} is not a request: `do` must be one of {', '.join(REQUESTS)}.")
    return reader(Asked(do, given))


_OBJECTS = ("arguments", "headers")  # keys whose value may be an object of plain values


def _parsed(body: bytes) -> dict[str, Any]:
    if len(body) > ADMIN_BODY_MAX_BYTES:
        raise Refusal(
            "bad-request", f"A request to /admin has at most {ADMIN_BODY_MAX_BYTES} bytes; this has {len(body)}."
        )
    why = ""
    try:
        asked = json.loads(body)
    except UnicodeDecodeError:
        why = ", which is not UTF-8"
    except json.JSONDecodeError as error:
        why = f", in which JSON ends at character {error.pos}: {error.msg}"
    except RecursionError:
        why = ", which is nested too deeply"
    except ValueError:
        why = ", in which a number has too many digits"
    if why or not isinstance(asked, dict):
        raise Refusal(
            "bad-request",
            f'A request to /admin is a JSON object such as {{"do": "stats"}}, not {shown_bytes(body)}{why}.',
        )
    for key, value in asked.items():
        # a value nested deeply enough to be read, but too deeply to be shown in a sentence, would end the broker
        if (
            isinstance(value, dict)
            and key in _OBJECTS
            and not any(isinstance(one, dict | list) for one in value.values())
        ):
            continue
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value)):
            has = "an object" if isinstance(value, dict) else "a list with lists or objects in it"
            right = "in a request to /admin it must be a plain value, or a list of those"
            raise Refusal("bad-request", f"{shown(key)} is {has}; {right}.")
    return asked


# ---- each request ---------------------------------------------------------------------------------------------------

Reader = Callable[[Asked], AdminCommand]


def _by_kind(readers: Mapping[str, Reader]) -> Reader:
    """Returns a reader for a request that names one thing, of one of these kinds."""

    return lambda asked: readers[_one_of(readers, asked)](asked)


def _one_of(kinds: Collection[str], asked: Asked) -> str:
    """Returns the kind of the one thing that the request names."""
    found = [kind for kind in kinds if kind in asked]
    if len(found) != 1:
        has = ", ".join(map(shown, found)) or "none"
        raise Refusal("bad-request", f"`{asked.do}` names one of {', '.join(kinds)}; this has {has}.")
    return found[0]


def _of(command: Callable[[str], AdminCommand], kind: str) -> Reader:
    """Returns a reader for a command whose only argument is a name of that kind."""

    def reader(asked: Asked) -> AdminCommand:
        asked.has_only(kind)
        return command(asked.name(kind))

    return reader


def _plain(command: Callable[[], AdminCommand]) -> Reader:
    """Returns a reader for a command without arguments."""

    def reader(asked: Asked) -> AdminCommand:
        asked.has_only()
        return command()

    return reader


def _stats(asked: Asked) -> AdminCommand:
    asked.has_only("section", "limit", "after", "match")
    if "section" not in asked:
        asked.has_only()
        return commands.ReadStats()
    names = sections()
    section = asked.text("section", f"one of {', '.join(names)}")
    if section not in names:
        raise Refusal("bad-request", f"`section` must be one of {', '.join(names)}; it is {shown(section)}.")
    kind = next((kind for kind, known in KINDS.items() if known.section == section), "")
    return commands.ReadSection(section, *asked.page(kind))


def _ready(asked: Asked) -> AdminCommand:
    asked.has_only("exclude")
    exclude = asked.given.get("exclude", [])
    if not isinstance(exclude, list) or not all(one in REASONS for one in exclude):
        raise mistake("exclude", f"must be a list of {', '.join(REASONS)}; it is {shown(exclude)}")
    return commands.ReadReadiness(tuple(exclude))


def _log_lines(asked: Asked) -> AdminCommand:
    asked.has_only("after", "limit", "level")
    after = asked.number("after", SIZE_MAX) if "after" in asked else None
    limit, level = asked.whole("limit", LOG_LINES_COUNT, LOG_KEPT_LINES), asked.text("level", _LEVELS, LOG_LEVELS[0])
    if level not in LOG_LEVELS:
        raise Refusal("bad-request", f"`level` must be {_LEVELS}; it is {shown(level)}.")
    return commands.ReadLogLines(after, limit, level)


def _queues(asked: Asked) -> AdminCommand:
    asked.has_only("limit", "after", "match")
    return commands.ListQueues(*asked.page(QUEUE))


def _peek(asked: Asked) -> AdminCommand:
    if "message" not in asked:
        asked.has_only("queue", "count")
        return commands.PeekQueue(asked.name("queue"), asked.whole("count", PEEK_COUNT, PEEK_MESSAGES_MAX))
    asked.has_only("queue", "message", "from")
    try:
        message_id = message_id_in(asked.text("message", "a message-id"))
    except ValueError as error:
        raise mistake("message", str(error)) from error
    return commands.PeekQueue(asked.name("queue"), 1, message_id, asked.number("from", SIZE_MAX, 0))


def _explain(
    key: str, what: str, read: Callable[[str], str], command: Callable[[str, int, int], AdminCommand]
) -> Reader:
    """Returns a reader for `explain` by that key. read: parses its text, and raises ValueError with a sentence."""

    def reader(asked: Asked) -> AdminCommand:
        asked.has_only(key, "after", "limit")
        text = asked.text(key, what)
        try:
            return command(read(text), *_page_of_events(asked))
        except ValueError as error:
            raise mistake(key, str(error)) from error

    return reader


def _page_of_events(asked: Asked) -> tuple[int, int]:
    """Returns the number of the event that the page begins behind, and the most events that it has."""
    after = asked.number("after", SIZE_MAX) if "after" in asked else -1
    return after, asked.whole("limit", EXPLAINED_EVENTS_MAX, EXPLAINED_EVENTS_MAX)


def _declare(asked: Asked) -> AdminCommand:
    kind = _one_of(declared_kinds(), asked)
    name, settings, passive = asked.declaration(kind)
    return commands.DeclareDestination(kind, name, settings, passive, asked.may_create(kind, settings))


def _describe(asked: Asked) -> AdminCommand:
    kind = _one_of(declared_kinds(), asked)
    asked.has_only(kind)
    return commands.DescribeDestination(kind, asked.name(kind))


def _delete(asked: Asked) -> AdminCommand:
    kind = _one_of(declared_kinds(), asked)
    if not KINDS[kind].has_contents:
        asked.has_only(kind)
        return commands.DeleteDestination(kind, asked.name(kind))
    asked.has_only(kind, "if_unused", "if_empty")
    if_unused, if_empty = asked.flag("if_unused", True), asked.flag("if_empty", False)
    return commands.DeleteDestination(kind, asked.name(kind), if_unused, if_empty)


def _move(asked: Asked) -> AdminCommand:
    asked.has_only("from", "to", "count", "create")
    source, target = asked.name("queue", "from"), asked.name("queue", "to")
    count = asked.whole("count", None) if "count" in asked else None
    return commands.MoveMessages(source, target, count, asked.flag("create", True))


def _offsets(asked: Asked) -> AdminCommand:
    asked.has_only("log", "time_ms")
    return commands.FindOffsets(asked.name("log"), asked.number("time_ms", TIME_MAX_MS))


def _await_queue(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "timeout_ms")
    return commands.AwaitQueue(asked.name("queue"), asked.number("timeout_ms", AWAIT_MAX_MS))


def _await_logs(asked: Asked) -> AdminCommand:
    asked.has_only("log", "next", "logs", "timeout_ms")
    known, timeout_ms = asked.offsets("next"), asked.number("timeout_ms", AWAIT_MAX_MS)
    if "log" in asked:
        return commands.AwaitLog(asked.name("log"), known, timeout_ms)
    return commands.AwaitLogs(asked.names("log", "logs", AWAITED_LOGS_MAX), known, timeout_ms)


def _position(asked: Asked) -> AdminCommand:
    asked.has_only("log", "group", "offsets", "forget")
    log, group, is_forgotten = asked.name("log"), asked.group(), asked.flag("forget", False)
    if "offsets" not in asked:
        return commands.ForgetPosition(log, group) if is_forgotten else commands.ReadPosition(log, group)
    if is_forgotten:
        raise mistake("forget", "is true, and `offsets` sets the position; one request does one of them")
    return commands.SetPosition(log, group, asked.offsets("offsets"))


def _prefetch(asked: Asked) -> AdminCommand:
    asked.has_only("subscription", "count")
    count = asked.whole("count", None, PREFETCH_COUNT_MAX)
    if "subscription" not in asked:
        return commands.SetPrefetch(None, count)
    name = asked.text("subscription", "the id of a subscription of this connection")
    return commands.SetPrefetch(name.encode("utf-8", "surrogatepass"), count)


def _extend(asked: Asked) -> AdminCommand:
    asked.has_only("id", "seconds")
    name = asked.text("id", "the `ack` of a message that is unacked on this connection")
    seconds = asked.given.get("seconds")
    if seconds is not None:
        try:
            _seconds(seconds)
        except ValueError as error:
            raise mistake("seconds", str(error)) from error
    return commands.ExtendAckTimeout(name.encode("utf-8", "surrogatepass"), seconds)


def _checkout(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "group", "max_messages", "max_bytes")
    group, most = asked.label("group"), asked.number("max_messages", CHECKOUT_MESSAGES_MAX)
    bytes_max = asked.number("max_bytes", SIZE_MAX) if "max_bytes" in asked else None
    return commands.TakeCheckout(asked.name("queue"), group, most, bytes_max)


def _checkout_ack(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "group", "before")
    return commands.AckCheckout(asked.name("queue"), asked.label("group"), asked.number("before", SIZE_MAX))


def _checkout_release(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "group")
    return commands.ReleaseCheckout(asked.name("queue"), asked.label("group"))


def _consumers(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "limit", "after", "match")
    return commands.ListConsumers(asked.name("queue"), *asked.page(""))


def _consumer_register(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "name", "ready", "lease_ms")
    lease_ms = asked.whole("lease_ms", REGISTERED_MS, REGISTERED_MAX_MS, REGISTERED_MIN_MS)
    return commands.RegisterConsumer(asked.name("queue"), asked.consumer(), asked.flag("ready", True), lease_ms)


def _consumer_drain(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "name", "wait_ms")
    wait_ms = asked.number("wait_ms", DRAIN_WAIT_MAX_MS, 0)
    return commands.DrainConsumer(asked.name("queue"), asked.consumer(), wait_ms)


def _commit(asked: Asked) -> AdminCommand:
    asked.has_only("prepared", "prefix", "app", "version")
    return commands.CommitPrepared(asked.labels(), asked.label("app"), asked.number("version", TIME_MAX_MS))


def _abort(asked: Asked) -> AdminCommand:
    if "prepared" in asked:
        asked.has_only("prepared", "prefix")
        return commands.AbortPrepared(asked.labels())
    asked.has_only("prefix", "refuse_s")
    return commands.AbortPrefix(asked.label("prefix"), asked.number("refuse_s", REFUSE_MAX_S, 0))


def _version(asked: Asked) -> AdminCommand:
    asked.has_only("app", "forget")
    return commands.ReadAppVersion(asked.label("app"), asked.flag("forget", False))


def _peer_release(asked: Asked) -> AdminCommand:
    return commands.ReleasePeer(asked.forced("what is in doubt with that node may then be processed twice"))


def _peer_drop(asked: Asked) -> AdminCommand:
    return commands.DropCopies(asked.forced("that node then misses what is sent meanwhile"))


def _peer_keep(asked: Asked) -> AdminCommand:
    asked.has_only("peer")
    return commands.KeepCopies(asked.text("peer", "the name of a node"))


def _drain(asked: Asked) -> AdminCommand:
    asked.has_only("stop")
    return commands.DrainNode(stop=asked.flag("stop", False))


def _reload(asked: Asked) -> AdminCommand:
    asked.has_only("dry_run")
    return commands.ReloadConfiguration(asked.flag("dry_run", False))


REQUESTS: dict[str, Reader] = {
    "stats": _stats,
    "ready": _ready,
    "queues": _queues,
    "queue-table": overview.queue_table,
    "history": overview.history,
    "attention": overview.attention,
    "peek": _peek,
    "purge": _of(commands.PurgeQueue, "queue"),
    "declare": _declare,
    "bind": binding(commands.AddBinding),
    "unbind": binding(commands.RemoveBinding),
    "route": questions.route,
    "may": questions.may,
    "describe": _describe,
    "delete": _delete,
    "offsets": _offsets,
    "await": _by_kind({"queue": _await_queue, "log": _await_logs, "logs": _await_logs}),
    "position": _position,
    "prefetch": _prefetch,
    "extend": _extend,
    "move": _move,
    "return": questions.give_back,
    "checkout": _checkout,
    "checkout-ack": _checkout_ack,
    "checkout-release": _checkout_release,
    "consumers": _consumers,
    "consumer-register": _consumer_register,
    "consumer-drain": _consumer_drain,
    "scale": _of(commands.ReadScale, "queue"),
    **connections.READERS,
    "commit": _commit,
    "abort": _abort,
    "prepared": _plain(commands.ListPrepared),
    "version": _version,
    "why": _by_kind({"queue": _of(commands.ExplainQueue, "queue"), "log": _of(commands.ExplainLog, "log")}),
    "explain": _by_kind(
        {
            "message": _explain("message", "a message-id, as MESSAGE has it", message_id_in, commands.ExplainMessage),
            "trace": _explain("trace", "a trace id, or a whole traceparent", trace_id_in, commands.ExplainTrace),
            "correlation_id": _explain(
                "correlation_id", "a correlation-id, as MESSAGE has it", correlation_id_in, commands.ExplainCorrelation
            ),
        }
    ),
    "configuration": _plain(commands.ReadConfiguration),
    "bounds": _plain(commands.ReadBounds),
    "disk": _plain(commands.ReadDisk),
    "log": _log_lines,
    "peers": _plain(commands.ListPeers),
    "peer-release": _peer_release,
    "peer-drop": _peer_drop,
    "peer-keep": _peer_keep,
    "drain": _drain,
    "reload": _reload,
}
