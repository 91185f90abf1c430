"""What a request to /admin asks: JSON to a command of model/administration.py.

A request is an object with `do`, which names it, and a key for each field of its command. What is wrong with it in
itself is a `bad-request` here. Settings and offsets pass as they are: what is right depends on what is there, so the
core checks them.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from radiator.model import administration as commands
from radiator.model.addresses import name_in
from radiator.model.administration import SECTIONS, AdminCommand, Settings
from radiator.model.errors import Refusal
from radiator.model.limits import (
    ACK_TIMEOUT_MAX_S,
    ADMIN_BODY_MAX_BYTES,
    AWAIT_MAX_MS,
    AWAITED_LOGS_MAX,
    CHECKOUT_MESSAGES_MAX,
    NAME_MAX_BYTES,
    PEEK_MESSAGES_MAX,
    PREFETCH_COUNT_MAX,
    REFUSE_MAX_S,
    SIZE_MAX,
    TIME_MAX_MS,
)
from radiator.model.patterns import name_mistake
from radiator.model.validation import LOG_PREFIX, mistake, number

PEEK_COUNT = 10  # where none is asked for
EXTEND_MIN_S = 0.001

_seconds = number(EXTEND_MIN_S, ACK_TIMEOUT_MAX_S, "of seconds ")


# ---- a request ------------------------------------------------------------------------------------------------------


class Asked:
    """The JSON object of a request without its `do`. What a getter refuses is a `bad-request`."""

    __slots__ = ("do", "given")

    def __init__(self, do: str, given: dict[str, Any]) -> None:
        self.do = do
        self.given = given

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def has_only(self, *keys: str) -> None:
        """Refuses what has another key: a slip of the pen would silently mean something else."""
        for key in self.given:
            if key not in keys:
                raise Refusal("bad-request", f"`{self.do}` has no {key!r:.80} here; it has {', '.join(keys)}.")

    def declaration(self, kind: str) -> tuple[str, Settings, bool]:
        """Of a `declare`: the name, the settings that are given, and whether it only asks (`passive`)."""
        given = {key: value for key, value in self.given.items() if key not in (kind, "passive", "create")}
        return self.name(kind), given, self.flag("passive", False)

    def name(self, kind: str, key: str | None = None) -> str:
        """The NAME of a queue, exchange, fanout or log, also where it is given with the kind before it."""
        key = key or kind
        what = f"the name of {'an' if kind == 'exchange' else 'a'} {kind}"
        try:
            name = name_in(kind, self.text(key, what))
        except ValueError as error:
            raise mistake(key, str(error)) from error
        wrong = name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"`{key}` must be {what}; it is {name!r:.80}, which {wrong}.")
        return name

    def text(self, key: str, what: str, default: str | None = None) -> str:
        """what: that the text must be."""
        text = self.given.get(key, default)
        if not isinstance(text, str):
            raise Refusal("bad-request", f"`{key}` must be {what}; it is {text!r:.80}.")
        return text

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        flag = self.given.get(key, default)
        if not isinstance(flag, bool):
            raise Refusal("bad-request", f"`{key}` must be true or false; it is {flag!r:.80}.")
        return flag

    def page(self) -> tuple[str | None, int | None]:
        """Names after which one, and at most how many: None where it does not say."""
        after = self.text("after", "the last name of the page before") if "after" in self else None
        return after, self.whole("limit", None, SIZE_MAX) if "limit" in self else None

    def whole(self, key: str, default: int | None, most: int | None = None) -> int:
        """A whole number from 1."""
        count = self.given.get(key, default)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1 or (most is not None and count > most):
            bound = f"from 1 to {most}" if most is not None else "from 1"
            raise Refusal("bad-request", f"`{key}` must be a whole number {bound}; it is {count!r:.80}.")
        return count

    def number(self, key: str, most: int, default: int | None = None) -> int:
        """A whole number from 0 to `most`; without a default it must be there."""
        number = self.given.get(key, default)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
            raise Refusal("bad-request", f"`{key}` must be a whole number from 0 to {most}; it is {number!r:.80}.")
        return number

    def label(self, key: str) -> str:
        """The name of a prepared transaction, an app, or a group of a checkout: text of 1 to NAME_MAX_BYTES."""
        return _label(key, self.given.get(key))

    def labels(self) -> tuple[str, ...]:
        """Those of prepared transactions, each behind `prefix`."""
        given = self.given.get("prepared")
        if not isinstance(given, list) or not given:
            raise Refusal("bad-request", f"`prepared` must be a list of names; it is {given!r:.80}.")
        prefix = self.label("prefix") if "prefix" in self else ""
        return tuple(_label("prepared", prefix + name if isinstance(name, str) else name) for name in given)

    def group(self) -> str:
        """Of a log: what SUBSCRIBE may say, so control characters too, but nothing that is no UTF-8."""
        group = self.text("group", "the name of a group")
        if not 1 <= _utf8_size(group) <= NAME_MAX_BYTES:
            raise mistake("group", f"must be a name of 1 to {NAME_MAX_BYTES} bytes of UTF-8; it is {group!r:.80}")
        return group

    def offsets(self, key: str) -> Any:
        """As they are: the core refuses what is not one for each partition."""
        return self.given.get(key)

    def forced(self, why: str) -> str:
        """The name of a peer, where `force` says that the asker knows what comes of it."""
        name = self.given.get("peer")
        if not isinstance(name, str) or self.given.get("force") is not True:
            raise Refusal("bad-request", why)
        return name


def _utf8_size(text: str) -> int:
    """In bytes; 0 for half of a pair, as JSON can write it."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def _label(key: str, value: Any) -> str:
    if isinstance(value, str) and 1 <= _utf8_size(value) <= NAME_MAX_BYTES:
        return value
    raise Refusal("bad-request", f"`{key}` must be a name of 1 to {NAME_MAX_BYTES} bytes; it is {value!r:.80}.")


def read(body: bytes) -> AdminCommand:
    """What a request asks. Raises Refusal `bad-request` or `unknown-request`."""
    given = _parsed(body)
    do = given.pop("do", None)
    reader = REQUESTS.get(do) if isinstance(do, str) else None
    if reader is None:
        raise Refusal("unknown-request", f"{do!r:.80} is no request: `do` would be one of {', '.join(REQUESTS)}.")
    return reader(Asked(do, given))


def _parsed(body: bytes) -> dict[str, Any]:
    if len(body) > ADMIN_BODY_MAX_BYTES:
        raise Refusal(
            "bad-request", f"A request to /admin has at most {ADMIN_BODY_MAX_BYTES} bytes; this has {len(body)}."
        )
    try:
        asked = json.loads(body)
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


# ---- each request ---------------------------------------------------------------------------------------------------

Reader = Callable[[Asked], AdminCommand]


def _by_kind(readers: Mapping[str, Reader]) -> Reader:
    """Of a request that names one thing, of one of these kinds."""

    def reader(asked: Asked) -> AdminCommand:
        kinds = [kind for kind in readers if kind in asked]
        if len(kinds) != 1:
            found = ", ".join(map(repr, kinds)) or "none"
            raise Refusal("bad-request", f"`{asked.do}` names one of {', '.join(readers)}; this has {found}.")
        return readers[kinds[0]](asked)

    return reader


def _of(command: Callable[[str], AdminCommand], kind: str) -> Reader:
    """Of a command that has a name and nothing else."""

    def reader(asked: Asked) -> AdminCommand:
        asked.has_only(kind)
        return command(asked.name(kind))

    return reader


def _plain(command: Callable[[], AdminCommand]) -> Reader:
    """Of a command that has nothing."""

    def reader(asked: Asked) -> AdminCommand:
        asked.has_only()
        return command()

    return reader


def _stats(asked: Asked) -> AdminCommand:
    asked.has_only("section", "limit", "after")
    if "section" not in asked:
        asked.has_only()
        return commands.ReadStats()
    section = asked.text("section", f"one of {', '.join(SECTIONS)}")
    if section not in SECTIONS:
        raise Refusal("bad-request", f"`section` must be one of {', '.join(SECTIONS)}; it is {section!r:.80}.")
    return commands.ReadSection(section, *asked.page())


def _queues(asked: Asked) -> AdminCommand:
    asked.has_only("limit", "after")
    return commands.ListQueues(*asked.page())


def _peek(asked: Asked) -> AdminCommand:
    return commands.PeekQueue(asked.name("queue"), asked.whole("count", PEEK_COUNT, PEEK_MESSAGES_MAX))


def _declare_queue(asked: Asked) -> AdminCommand:
    name, settings, passive = asked.declaration("queue")
    create = settings.get("dead_letter") is None or asked.flag("create", True)
    return commands.DeclareQueue(name, settings, passive, create)


def _declare_fanout(asked: Asked) -> AdminCommand:
    name, settings, passive = asked.declaration("fanout")
    return commands.DeclareFanout(name, settings, passive, asked.flag("create", True))


def _delete_queue(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "if_unused", "if_empty")
    return commands.DeleteQueue(asked.name("queue"), asked.flag("if_unused", True), asked.flag("if_empty", False))


def _binding(command: Callable[[str, str, str], AdminCommand]) -> Reader:
    def reader(asked: Asked) -> AdminCommand:
        asked.has_only("exchange", "key", "queue")
        queue = asked.text("queue", "the name of a queue, or /log/NAME")
        target = queue if queue.startswith(LOG_PREFIX) else asked.name("queue")
        return command(asked.name("exchange"), asked.text("key", "a routing key", ""), target)

    return reader


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
    if "logs" not in asked:
        return commands.AwaitLog(asked.name("log"), asked.offsets("next"), asked.number("timeout_ms", AWAIT_MAX_MS))
    names = asked.given["logs"]
    if "log" in asked:
        raise mistake("logs", "stands instead of `log`: one request has either")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise mistake("logs", f"must be a list of names; it is {names!r:.80}")
    if not 1 <= len(set(names)) == len(names) <= AWAITED_LOGS_MAX:
        raise mistake("logs", f"must be 1 to {AWAITED_LOGS_MAX} names, each once; it has {len(names)}")
    logs = tuple(name.removeprefix(LOG_PREFIX) for name in names)
    return commands.AwaitLogs(logs, asked.offsets("next"), asked.number("timeout_ms", AWAIT_MAX_MS))


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
    why = "A release names a `peer` and says `force`: true, because what is in doubt may then be processed twice."
    return commands.ReleasePeer(asked.forced(why))


def _peer_drop(asked: Asked) -> AdminCommand:
    return commands.DropCopies(
        asked.forced("A drop names a `peer` and says `force`: true, because it misses what is sent meanwhile.")
    )


def _reload(asked: Asked) -> AdminCommand:
    asked.has_only("dry_run")
    return commands.ReloadConfiguration(asked.flag("dry_run", False))


REQUESTS: dict[str, Reader] = {
    "stats": _stats,
    "queues": _queues,
    "peek": _peek,
    "purge": lambda asked: commands.PurgeQueue(asked.name("queue")),
    "declare": _by_kind(
        {
            "queue": _declare_queue,
            "exchange": lambda asked: commands.DeclareExchange(*asked.declaration("exchange")),
            "fanout": _declare_fanout,
            "log": lambda asked: commands.DeclareLog(*asked.declaration("log")),
        }
    ),
    "bind": _binding(commands.AddBinding),
    "unbind": _binding(commands.RemoveBinding),
    "describe": _by_kind(
        {
            "queue": _of(commands.DescribeQueue, "queue"),
            "exchange": _of(commands.DescribeExchange, "exchange"),
            "fanout": _of(commands.DescribeFanout, "fanout"),
            "log": _of(commands.DescribeLog, "log"),
        }
    ),
    "delete": _by_kind(
        {
            "queue": _delete_queue,
            "exchange": _of(commands.DeleteExchange, "exchange"),
            "fanout": _of(commands.DeleteFanout, "fanout"),
            "log": _of(commands.DeleteLog, "log"),
        }
    ),
    "offsets": _offsets,
    "await": _by_kind({"queue": _await_queue, "log": _await_logs, "logs": _await_logs}),
    "position": _position,
    "prefetch": _prefetch,
    "extend": _extend,
    "move": _move,
    "checkout": _checkout,
    "checkout-ack": _checkout_ack,
    "checkout-release": _checkout_release,
    "commit": _commit,
    "abort": _abort,
    "prepared": _plain(commands.ListPrepared),
    "version": _version,
    "why": _by_kind({"queue": _of(commands.ExplainQueue, "queue"), "log": _of(commands.ExplainLog, "log")}),
    "peers": lambda asked: commands.ListPeers(),
    "peer-release": _peer_release,
    "peer-drop": _peer_drop,
    "peer-keep": lambda asked: commands.KeepCopies(asked.text("peer", "the name of a node")),
    "drain": lambda asked: commands.DrainNode(stop=asked.given.get("stop") is True),
    "reload": _reload,
}
