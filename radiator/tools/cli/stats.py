"""`radiator stats`: the broker's numbers, and each queue's ledger."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from radiator.model.addresses import EXCHANGE, FANOUT, KINDS, LOG, QUEUE, TOPIC
from radiator.model.errors import EXIT_REFUSED, count_text
from radiator.protocols.prometheus.exposition import exposition
from radiator.tools.cli.broker import add_broker, ask
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, duration_text, printable, table

LEDGER = ("accepted", "stored", "acked", "expired", "dropped", "purged", "dead_lettered")
EXCHANGE_COLUMNS = ("accepted", "unrouted", "bindings")
LOG_COLUMNS = ("partitions", "accepted", "records", "readers")


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--prometheus", action="store_true", help="the numbers in Prometheus's text format")
    add_watch(parser)


def _run(arguments: argparse.Namespace) -> int:
    formed = _prometheus if arguments.prometheus else _formed
    answer = show(arguments, lambda: ask(arguments, {"do": "stats"}), formed)
    return EXIT_REFUSED if _wrong_queues(answer) else 0


def _prometheus(answer: dict[str, Any]) -> str:
    return exposition(answer).rstrip("\n")


def _formed(answer: dict[str, Any]) -> str:
    return "\n\n".join(filter(None, [_summary(answer), _ledgers(answer), _alarms(answer), _others(answer)]))


def _summary(answer: dict[str, Any]) -> str:

    def size(numbers: dict[str, Any], name: str) -> str:
        return bytes_text(int(numbers.get(name, 0)))

    store = answer.get("store", {})
    held = [count_text(int(answer.get(name + "s", 0)), name) for name in ("connection", "subscription", "transaction")]
    lines = [
        f"radiator {printable(str(answer.get('version', '?')))}, up {duration_text(answer.get('uptime_s', 0))}, "
        f"store {printable(str(answer.get('store_id', '?')))}, boot {answer.get('boot', '?')}",
        f"{', '.join(held)}; {answer.get('parked', 0)} waiting for room; {size(answer, 'memory_bytes')} held in memory",
        f"store: {size(store, 'used_bytes')} used, SENDs wait above {size(store, 'high_water_bytes')}; "
        f"disk: {size(store, 'disk_free_bytes')} free on the file system, {size(store, 'reusable_bytes')} reusable in "
        f"the store's file; room for {size(store, 'disk_room_bytes')}, SENDs wait below {size(store, 'disk_free_min')}",
        f"write-ahead log: {size(store, 'wal_bytes')}, of which {size(store, 'wal_kept_bytes')} kept (log_keep)",
    ]
    left_s = answer.get("certificate_left_s")
    if left_s is not None:
        is_over = int(left_s) < 0
        lines.append(
            f"THE CERTIFICATE EXPIRED {duration_text(-int(left_s))} AGO: clients refuse it"
            if is_over
            else f"certificate: valid for {duration_text(int(left_s))} more"
        )
    ahead_s = int(answer.get("clock_ahead_s", 0))
    if ahead_s:
        where = "ahead" if ahead_s > 0 else "behind"
        lines.append(f"THE SYSTEM'S CLOCK IS NOT FOLLOWED: it is {duration_text(abs(ahead_s))} {where}")
    if holders := answer.get("memory_holders", []):
        most = ", ".join(f"{printable(str(one['name']))} {size(one, 'bytes')}" for one in holders)
        lines.insert(2, f"memory: the largest holders are {most}")
    return "\n".join(lines)


def _ledgers(answer: dict[str, Any]) -> str:
    """Returns each queue's ledger: accepted = the sum of the columns after it."""
    queues = answer.get("queues", {})
    if not queues:
        return "no queues"
    heads = ["queue", "accepted", *LEDGER[1:]]
    rows = [[name, *(int(queue.get(column, 0)) for column in LEDGER)] for name, queue in sorted(queues.items())]
    return table([head.replace("_", "-") for head in heads], rows)


def _wrong_queues(answer: dict[str, Any]) -> list[str]:
    return sorted(name for name, queue in answer.get("queues", {}).items() if queue.get("adds_up") is False)


def _alarms(answer: dict[str, Any]) -> str:
    return "\n".join(
        f"!!! The ledger of queue {printable(name)} does not add up: this is a bug. Please report it, with this output."
        for name in _wrong_queues(answer)
    )


def _unread(log: dict[str, Any]) -> str:
    """Returns for each group, how many records it has not acked."""
    return ", ".join(f"{name} {count}" for name, count in sorted(log.get("unread", {}).items()))


def _exchange(name: str, one: dict[str, Any]) -> list[str | int]:
    return [name, str(one.get("type", "")), *(int(one.get(column, 0)) for column in EXCHANGE_COLUMNS)]


def _fanout(name: str, one: dict[str, Any]) -> list[str | int]:
    return [name, int(one.get("accepted", 0)), " ".join(one.get("children", []))]


def _topic(name: str, one: dict[str, Any]) -> list[str | int]:
    return [name, int(one.get("subscribers", 0))]


def _log(name: str, one: dict[str, Any]) -> list[str | int]:
    numbers = (int(one.get(column, 0)) for column in LOG_COLUMNS)
    return [name, *numbers, bytes_text(int(one.get("bytes", 0))), _unread(one)]


# heads and rows of the table of each kind, in the order in which they are shown; all others have their numbers
_TABLES: dict[str, tuple[Sequence[str], Callable[[str, dict[str, Any]], list[str | int]]]] = {
    EXCHANGE: (("type", *EXCHANGE_COLUMNS), _exchange),
    FANOUT: (("accepted", "children"), _fanout),
    TOPIC: (("subscribers",), _topic),
    LOG: ((*LOG_COLUMNS, "size", "unread"), _log),
}


def _of_kind(kind: str, things: dict[str, dict[str, Any]]) -> str:
    """Returns a table of all of that kind."""
    if kind in _TABLES:
        heads, row = _TABLES[kind]
        return table([kind, *heads], [row(name, one) for name, one in sorted(things.items())])
    heads = [*next(iter(things.values()))]
    rows = [[name, *(str(one.get(head, "")) for head in heads)] for name, one in sorted(things.items())]
    return table([kind, *(head.replace("_", " ") for head in heads)], rows)


def _others(answer: dict[str, Any]) -> str:
    """Returns all but queues, and the broker's counters, where there are any."""
    kinds = [kind for kind in dict.fromkeys((*_TABLES, *KINDS)) if kind != QUEUE]
    parts = [_of_kind(kind, things) for kind in kinds if (things := answer.get(KINDS[kind].section, {}))]
    counters = [[name.replace("_", " "), int(count)] for name, count in sorted(answer.get("counters", {}).items())]
    return "\n\n".join([*parts, *([table(["counter", ""], counters)] if counters else [])])


STATS = Command(
    name="stats",
    summary="show the numbers of a running broker",
    description=(
        "Shows what the broker holds and each queue's ledger: accepted = stored + acked + expired + dropped + "
        "purged + dead-lettered. A ledger that does not add up is a bug: the output says so, and the exit status is "
        "1."
    ),
    example=(
        "radiator stats --watch\nradiator stats --prometheus > radiator.prom.new && mv radiator.prom.new radiator.prom"
    ),
    add_arguments=_arguments,
    run=_run,
)
