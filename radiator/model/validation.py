"""Checks of values that people and programs write: in config.toml, and in requests to /admin.

A check is as checks.py says, which has those of plain values. For each of queue, log, exchange, binding and fanout
there is a table of checks, and functions for what must hold between the settings of one thing. What must hold between
the tables of a file is in tools/config/rules.py.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from itertools import takewhile
from typing import Any

from radiator.model.addresses import CHECKOUT_LOGS, name_in
from radiator.model.addresses import EXCHANGE as EXCHANGE_KIND
from radiator.model.addresses import FANOUT as FANOUT_KIND
from radiator.model.avro import schema_text
from radiator.model.checks import DAY_S, TIB, Check, choice, flag, meant, number, seconds, shown, size, whole
from radiator.model.errors import Refusal
from radiator.model.exchange_bindings import EXCHANGE_PREFIX, check_binding_row
from radiator.model.exchange_bindings import KIND as BINDING_KIND
from radiator.model.header_bindings import canonical_key
from radiator.model.keys import as_written, json_pointer, key_sources
from radiator.model.limits import KEY_WORDS_MAX, PARTITION_WINDOW_MAX, PARTITIONS_MAX, PATTERN_WILDCARDS_MAX
from radiator.model.patterns import is_pattern, name_mistake
from radiator.model.priorities import PRIORITY_MAX
from radiator.model.settings import (
    BLOCK,
    BOUNDED,
    CLUSTER,
    DEAD_LETTER,
    EXCHANGE_TYPES,
    HEADERS,
    JOURNAL,
    MEMORY_BYTES_MAX,
    MEMORY_MESSAGES_MAX,
    OVERFLOWS,
    READY,
    SCOPES,
    STANDARD_EXCHANGES,
    TOPIC,
    UNLIMITED,
    ExchangeSettings,
    LogSettings,
    QueueSettings,
)

RESERVED_QUEUES = ("$outbox/", "$durable/")  # prefixes of the broker's own queues
RESERVED_LOGS = (CHECKOUT_LOGS,)  # prefixes of its own logs, besides JOURNAL
LOG_PREFIX = "/log/"  # a log, where a queue may be named too

Table = Mapping[str, Any]


# ---- checks of names and keys ---------------------------------------------------------------------------------------


def queue_name(value: object) -> str:
    """The NAME of one queue, which may be given as its address too. Raises ValueError, a clause."""
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}; it must be the name of a queue, as text")
    value = name_in("queue", value)
    mistake = name_mistake(value)
    if mistake:
        raise ValueError(f"has the name {shown(value)}, which {mistake}")
    if is_pattern(value):
        raise ValueError(f"has {shown(value)}, which is a pattern; name one queue")
    if value.startswith(RESERVED_QUEUES):
        raise ValueError(f"has {shown(value)}, which the broker keeps for itself; name another queue")
    return value


def log_name_mistake(name: str) -> str:
    """Why it is not a NAME of a log that may be declared, as text after "which"; "" where it is one."""
    if name == JOURNAL or name.startswith(RESERVED_LOGS):
        return "is kept for the broker itself"
    if is_pattern(name):
        return "has a wildcard, and a log has one name"
    return name_mistake(name)


def target_name(value: object) -> str:
    """What a fanout or a binding may lead to: the name of one queue, or `/log/NAME`. Raises ValueError, a clause."""
    if not isinstance(value, str) or not value.startswith(LOG_PREFIX):
        return queue_name(value)
    mistake = log_name_mistake(value.removeprefix(LOG_PREFIX))
    if mistake:
        raise ValueError(f"has {shown(value)}, a log which {mistake}; name another log")
    return value


def children(value: object) -> tuple[str, ...]:
    """The queues and logs of a fanout. Raises ValueError, a clause."""
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f'is {shown(value)}; it must be a list of at least one queue, such as ["audit", "mail"]')
    names = tuple(target_name(child) for child in value)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            kind = "" if name.startswith(LOG_PREFIX) else "the queue "
            raise ValueError(f"names {kind}{shown(name)} twice; name it once")
        seen.add(name)
    return names


def retention(value: object) -> int | None:
    """Milliseconds; 0: none."""
    kept_ms: int = whole(0, 10**12)(value)
    return kept_ms or None


def binding_key(value: object) -> str:
    """The key of a binding, for any type of exchange: it may be empty. Raises ValueError, a clause."""
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}; it must be a routing key, as text")
    mistake = name_mistake(value) if value else ""
    if mistake:
        raise ValueError(f"is {shown(value)}, which {mistake.replace('a name', 'a key')}")
    return value


def exchange_name_mistake(name: str) -> str:
    """Why it is not a NAME of an exchange, as text after "which"; "" where it is one."""
    if "/" in name:
        return "has a `/`; after the name of an exchange that begins its routing key"
    if is_pattern(name):
        return "has a wildcard; an exchange has one name"
    return name_mistake(name)


def bound_name(value: object) -> str:
    """What a binding may lead to: a `target_name`, or `/exchange/NAME`. Raises ValueError, a clause."""
    if not isinstance(value, str) or not value.startswith(EXCHANGE_PREFIX):
        return target_name(value)
    wrong = exchange_name_mistake(value.removeprefix(EXCHANGE_PREFIX))
    if wrong:
        raise ValueError(f"has {shown(value)}, an exchange which {wrong}")
    return value


def alternate(value: object) -> str:
    """The name of an exchange. Raises ValueError, a clause."""
    wrong = exchange_name_mistake(value) if isinstance(value, str) else "is not text"
    if not isinstance(value, str) or wrong:
        raise ValueError(f"is {shown(value)}, which {wrong}; name an exchange")
    return value


def dead_letter_exchange(value: object) -> str:
    """The NAME of an exchange, which may be given as its address too; "": the default one. Raises ValueError, a
    clause.
    """
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}; it must be the name of an exchange, as text")
    name = name_in(EXCHANGE_KIND, value)
    if name and (wrong := exchange_name_mistake(name)):
        raise ValueError(f"has the name {shown(name)}, which {wrong}")
    return name


def standard_type_mistake(name: str, type_: str) -> str:
    """Why an exchange of that name may not have that type, as text after `type`; "" where it may."""
    standard = STANDARD_EXCHANGES.get(name, type_)
    return "" if standard == type_ else f'is {shown(type_)}, but {name} is always of type "{standard}"'


def binding_mistake(type_: str, key: str) -> str:
    """Why an exchange of that type takes no binding with that key, as text after `key`; "" where it does."""
    if type_ == HEADERS:
        return "" if has_arguments(key) else f"is {shown(key)}; of type headers write arguments = {{}} in its place"
    if type_ != TOPIC:
        return ""
    words = key.split(".")
    in_front = len([*takewhile("*".__eq__, words)])
    wildcards = words.count("*") + words.count("#") - max(0, in_front - 1)
    if wildcards > PATTERN_WILDCARDS_MAX:
        at_most = f"at most {PATTERN_WILDCARDS_MAX}, and the * at its front count as one"
        return f"is {shown(key)}, which has {wildcards} wildcards; it may have {at_most}"
    return words_mistake(key)


def has_arguments(key: str) -> bool:
    """Whether a key is the arguments of a binding of type headers."""
    try:
        return canonical_key(key) == key
    except ValueError:
        return False


def words_mistake(key: str) -> str:
    """Why nothing with that key can be sent to a topic exchange, as text after `key`; "" where it can."""
    words = key.count(".") + 1
    if words <= KEY_WORDS_MAX:
        return ""
    return f"is {shown(key)}, which has {words} words; it may have at most {KEY_WORDS_MAX}"


# ---- the tables -----------------------------------------------------------------------------------------------------

QUEUE: dict[str, Check] = {
    "persistent": flag,
    "max_messages": whole(0, 10**12),
    "max_bytes": size(0, 64 * TIB),
    "overflow": choice(*OVERFLOWS),
    "dead_letter": queue_name,
    "dead_letter_exchange": dead_letter_exchange,
    "dead_letter_key": binding_key,
    "max_redeliveries": whole(UNLIMITED, 65_535),
    "message_ttl_ms": whole(0, 10**12),
    "ack_timeout_s": seconds(0.1, 365 * DAY_S),
    "dedup_window_s": seconds(0, 365 * DAY_S),
    "exclusive": flag,
    "auto_delete": flag,
    "expires_ms": whole(1, 10**12),
    "redelivery_delay_ms": whole(0, 365 * DAY_S * 1000),
    "redelivery_delay_factor": number(1, 1000),
    "redelivery_delay_max_ms": whole(1, 365 * DAY_S * 1000),
    "scope": choice(*SCOPES),
    "schema": schema_text,
    "partition_key": key_sources,
    "partition_window": whole(1, PARTITION_WINDOW_MAX),
    "max_priority": whole(1, PRIORITY_MAX),
    "single_active_consumer": flag,
    "drop_after_redeliveries": whole(0, 65_535),
    "bounds_count": choice(*BOUNDED),
}
LOG: dict[str, Check] = {
    "partitions": whole(1, PARTITIONS_MAX),
    "partition_key": json_pointer,
    "retention_ms": retention,
    "retention_bytes": size(1, 64 * TIB),
    "schema": schema_text,
}
FANOUT: dict[str, Check] = {"children": children}
EXCHANGE: dict[str, Check] = {
    "type": choice(*EXCHANGE_TYPES),
    "durable": flag,
    "auto_delete": flag,
    "alternate": alternate,
    "internal": flag,
}
MAY_BE_NONE = frozenset(field.name for field in fields(QueueSettings) if field.default is None)
LOG_MAY_BE_NONE = frozenset(LOG) - {"partitions"}
EXCHANGE_MAY_BE_NONE = frozenset({"alternate"})
# what no queue of the cluster may be
NOT_OF_CLUSTER: dict[str, Callable[[object], bool]] = {
    "persistent": lambda value: value is False,
    "exclusive": bool,
    "single_active_consumer": bool,
    "auto_delete": bool,
    "expires_ms": lambda value: value is not None,
}


# ---- what must hold between the settings of one queue ---------------------------------------------------------------


def contradictions(given: Table) -> list[tuple[str, str]]:
    """Settings of one queue that contradict each other: the key, and the text that follows it. What is not given has
    its default.
    """
    found = [*_dead_letter_contradictions(given)]
    if given.get("dedup_window_s") and not given.get("persistent", True):
        wrong = f"is {given['dedup_window_s']}, but the queue is not persistent"
        right = "remove it, or set persistent = true"
        found.append(("dedup_window_s", f"{wrong}, and only a persistent queue remembers dedup-ids; {right}"))
    defaults = QueueSettings()
    delay_ms = given.get("redelivery_delay_ms", defaults.redelivery_delay_ms)
    most_ms = given.get("redelivery_delay_max_ms", defaults.redelivery_delay_max_ms)
    if delay_ms > most_ms:
        wrong = f"is {delay_ms}, more than redelivery_delay_max_ms ({most_ms})"
        found.append(("redelivery_delay_ms", f"{wrong}; raise that, or lower this"))
    if given.get("scope") == CLUSTER:
        for key, is_wrong in NOT_OF_CLUSTER.items():
            if key in given and is_wrong(given[key]):
                wrong = f"the queue has {key} = {shown(given[key])}, which one node cannot keep for all"
                found.append(("scope", f'is "cluster", but {wrong}; remove one of the two'))
    for key in ("max_messages", "max_bytes"):
        if given.get(key) == 0 and given.get("overflow", BLOCK) == BLOCK:
            wrong = "is 0, so every producer would wait for ever"
            found.append((key, f'{wrong}; say what becomes of messages, with overflow = "drop-oldest", or raise it'))
    if given.get("bounds_count") == READY and given.get("overflow", BLOCK) == BLOCK:
        wrong = 'but the queue has overflow = "block", and a SEND that waits for room waits until messages are acked'
        found.append(("bounds_count", f'is "ready", {wrong}; give overflow = "reject", "drop-oldest" or "dead-letter"'))
    sources, window = given.get("partition_key"), given.get("partition_window", defaults.partition_window)
    if sources and given.get("scope") == CLUSTER:
        wrong = 'but the queue has scope = "cluster", and a key would have to be at one node at a time'
        found.append(("partition_key", f"is {shown(as_written(sources))}, {wrong}; remove one of the two"))
    if window != defaults.partition_window and not sources:
        wrong = "but the queue has no partition_key, and only messages with keys have such a window"
        found.append(("partition_window", f"is {window}, {wrong}; give that, or remove this"))
    highest = given.get("max_priority")
    if highest is not None and sources:
        wrong = f"but the queue has partition_key = {shown(as_written(sources))}, and a key has one order"
        found.append(("max_priority", f"is {highest}, {wrong}; remove one of the two"))
    if highest is not None and given.get("scope") == CLUSTER:
        wrong = 'but the queue has scope = "cluster", and each node knows only its own messages'
        found.append(("max_priority", f"is {highest}, {wrong}; remove one of the two"))
    if given.get("single_active_consumer"):
        if given.get("exclusive"):
            wrong = "is true, but the queue has exclusive = true, which refuses those that would stand by"
            found.append(("single_active_consumer", f"{wrong}; remove one of the two"))
        if sources:
            wrong = f"is true, but the queue has partition_key = {shown(as_written(sources))}"
            why = "which gives each consumer keys of its own"
            found.append(("single_active_consumer", f"{wrong}, {why}; remove one of the two"))
    return found


def _dead_letter_contradictions(given: Table) -> Iterator[tuple[str, str]]:
    """Contradictions of the settings that say where dead letters go."""
    target, exchange, key = (given.get(name) for name in ("dead_letter", "dead_letter_exchange", "dead_letter_key"))
    if given.get("overflow") == DEAD_LETTER and target is None and exchange is None:
        yield "overflow", 'is "dead-letter", but the queue has no dead_letter; name one'
    if target is not None and exchange is not None:
        wrong = f"is {shown(exchange)}, but the queue has dead_letter = {shown(target)} too"
        yield "dead_letter_exchange", f"{wrong}, and a dead letter goes one way; remove one of the two"
    most = given.get("drop_after_redeliveries")
    if most is not None and (target is not None or exchange is not None):
        wrong = f"is {most}, but what comes back too often is a dead letter of this queue"
        yield "drop_after_redeliveries", f"{wrong}; give max_redeliveries"
    if key is not None and exchange is None:
        yield (
            "dead_letter_key",
            f"is {shown(key)}, but the queue has no dead_letter_exchange; give one",
        )
    if key is not None and exchange == "":
        try:
            queue_name(key)
        except ValueError as wrong:
            yield "dead_letter_key", f'{wrong}: the exchange "" leads to the queue that the key names'


def cycle_from(name: str, dead_letter: str | None, dead_letter_of: Callable[[str], str | None]) -> list[str]:
    """The queues through which dead letters of this one could circulate for ever, the first of them again at the end;
    [] where there is no cycle. dead_letter_of: of any other queue.
    """
    way = [name]
    target = dead_letter
    while target is not None and target not in way:
        way.append(target)
        target = dead_letter_of(target)
    return [] if target is None else [*way[way.index(target) :], target]


def cycle_mistake(cycle: list[str]) -> str:
    """The text after the `dead_letter` that leads into the cycle."""
    right = "a message could go round for ever; give one of them settings of its own without dead_letter"
    return f"leads to a cycle: {' -> '.join(map(shown, cycle))}; {right}"


def not_persistent_mistake(target: str) -> str:
    """The text after the `dead_letter` of a persistent queue that names one that is not."""
    wrong = f"is {shown(target)}, which is not persistent, while this queue is"
    return f"{wrong}; name a persistent queue, or set persistent = false here"


# ---- settings -------------------------------------------------------------------------------------------------------


def with_bounds(settings: QueueSettings) -> QueueSettings:
    """The settings with bounds, which a queue in memory has, given or not."""
    if settings.persistent:
        return settings
    return replace(
        settings,
        max_messages=MEMORY_MESSAGES_MAX if settings.max_messages is None else settings.max_messages,
        max_bytes=MEMORY_BYTES_MAX if settings.max_bytes is None else settings.max_bytes,
    )


def queue_settings(given: Table, base: QueueSettings) -> QueueSettings:
    """The settings in force for a queue that is declared with these, over those of `base`.

    given: as JSON has it; null is "none" where a setting may have none. Raises Refusal `bad-request` for the first
    mistake. Whether its dead letters have a target is checked by `check_dead_letter`.
    """
    checked = _checked("a queue", given, QUEUE, MAY_BE_NONE)
    if checked.get("dead_letter_key") is not None and "dead_letter_exchange" not in checked:
        # rights are judged by what is given, so the exchange must not come from a pattern
        raise mistake("dead_letter_key", "is given without dead_letter_exchange; give both")
    settings = with_bounds(replace(base, **checked))
    for key, wrong in contradictions({name: getattr(settings, name) for name in QUEUE}):  # asdict takes 30 µs more
        raise mistake(key, wrong)
    return settings


def as_json(settings: QueueSettings) -> dict[str, Any]:
    """All settings of a queue, none left out: `queue_settings` makes the same of them, whatever its base."""
    return asdict(settings) | {"partition_key": as_written(settings.partition_key)}


def check_dead_letter(name: str, settings: QueueSettings, settings_of: Callable[[str], QueueSettings | None]) -> None:
    """Raises Refusal `bad-request` where the queue of that name may not have the dead_letter that its settings name.

    settings_of: what is, or would be, in force for another queue; None: there can be none of that name.
    """
    target = settings.dead_letter
    if target is None:
        return
    if target == name:
        raise mistake("dead_letter", cycle_mistake([name, name]))
    found = settings_of(target)
    if found is None:
        raise mistake("dead_letter", f"names {shown(target)}, which is not a queue; declare it first")
    if settings.persistent and not found.persistent:
        raise mistake("dead_letter", not_persistent_mistake(target))

    def dead_letter_of(queue: str) -> str | None:
        there = settings_of(queue)
        return None if there is None else there.dead_letter

    if cycle := cycle_from(name, target, dead_letter_of):
        raise mistake("dead_letter", cycle_mistake(cycle))


def log_settings(given: Table, base: LogSettings | None = None) -> LogSettings:
    """The settings of a log that is declared with these, over those of `base`. Raises Refusal `bad-request`."""
    return replace(base or LogSettings(), **_checked("a log", given, LOG, LOG_MAY_BE_NONE))


def exchange_settings(given: Table, base: ExchangeSettings | None = None) -> ExchangeSettings:
    """The settings of an exchange that is declared with these, over those of `base`. Raises Refusal `bad-request`."""
    return replace(base or ExchangeSettings(), **_checked("an exchange", given, EXCHANGE, EXCHANGE_MAY_BE_NONE))


def fanout_children(given: Table) -> tuple[str, ...]:
    """The queues of a fanout that is declared with these settings. Raises Refusal `bad-request`."""
    checked = _checked("a fanout", given, FANOUT)
    if "children" not in checked:
        raise mistake("children", 'is missing; name its queues, such as ["audit", "mail"]')
    names: tuple[str, ...] = checked["children"]
    return names


DECLARED: dict[str, Callable[[Table], object]] = {
    EXCHANGE_KIND: exchange_settings,
    BINDING_KIND: check_binding_row,
    FANOUT_KIND: fanout_children,
}
"""The stored settings of one that was declared at run time, by the kinds whose settings are a row of the store of their
own. The settings of queues and logs are stored with these.
"""


def _checked(
    what: str, given: Table, checks: Mapping[str, Check], may_be_none: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The settings that are given, each as its check has it."""
    right = {}
    for key, value in given.items():
        check = checks.get(key)
        if check is None:
            offer = meant(key, checks) or f"; {what} has {', '.join(checks)}"
            end = "" if offer.endswith("?") else "."
            raise Refusal("bad-request", f"{shown(key)} is not a setting of {what}{offer}{end}")
        try:
            right[key] = None if value is None and key in may_be_none else check(value)
        except ValueError as error:
            raise mistake(key, str(error)) from error
    return right


def mistake(key: str, wrong: str) -> Refusal:
    """The Refusal `bad-request` of a request whose `key` has this wrong."""
    return Refusal("bad-request", f"`{key}` {wrong}{'' if wrong.endswith('?') else '.'}")
