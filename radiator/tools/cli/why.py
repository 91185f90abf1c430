"""`radiator why`: why nothing moves."""

import argparse
from typing import Any

from radiator.client import Client
from radiator.model.addresses import EXCHANGE, FANOUT, LOG, REPLY, TEMP, TOPIC, declared_kinds
from radiator.model.errors import ConfigError, count_text
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, show
from radiator.tools.cli.text import bytes_text, printable, table
from radiator.tools.cli.things import ArgumentWord, Thing, add_words

_NUMBERS = (
    "messages", "ready", "unacked", "storing", "delayed", "in_doubt", "set_aside", "checked_out", "damaged",
    "consumers", "blocked", "records", "readers", "groups", "blocked_by_disk", "blocked_by_memory",
)  # fmt: skip
_NOUNS = frozenset({"messages", "consumers", "records", "readers", "groups"})
_LED_TO_SHOWN = 20  # queues and logs that a fanout or an exchange leads to


_NOT_ASKED = {
    TOPIC: "keeps nothing: who is subscribed gets a message then, or never. What a durable subscription has not got "
    "yet is in a queue, $durable/..., that `radiator queues` lists",
    TEMP: "is one connection's own, and goes with it: nobody else can ask",
    REPLY: "is one connection's own, and goes with it: nobody else can ask",
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)
    add_words(parser, ArgumentWord("what", "WHAT", kinds=(*declared_kinds(), *_NOT_ASKED)))


def _run(arguments: argparse.Namespace) -> int:
    what: Thing = arguments.what
    if what.kind in _NOT_ASKED:
        raise ConfigError([f"{what.address!r} {_NOT_ASKED[what.kind]}."])
    if what.kind in (FANOUT, EXCHANGE):
        show(arguments, lambda: _led_to(arguments, what), lambda answer: _formed_led_to(what, answer))
    else:
        show(arguments, lambda: ask(arguments, {"do": "why", what.kind: what.address}), _formed)
    return 0


def _led_to(arguments: argparse.Namespace, what: Thing) -> dict[str, Any]:
    """Returns the verdict of each queue and log that a fanout or an exchange leads to: it keeps nothing itself."""
    with Client(arguments.broker) as client:
        described = client.admin({"do": "describe", what.kind: what.address})
        if what.kind == FANOUT:
            targets = [str(one) for one in (*field(described, "children"), *described.get("outboxes", ()))]
        else:
            targets = sorted({str(one["queue"]) for one in field(described, "bindings")})
        # a subscriber of an exchange is not a queue that can be asked for: it gets a message at once, or is closed
        own = [one for one in targets if one.startswith("$own/")]
        targets = [one for one in targets if not one.startswith("$own/")]
        answers = {}
        for one in targets[:_LED_TO_SHOWN]:
            answers[one] = client.admin({"do": "why", LOG if one.startswith("/log/") else "queue": one})
    return {"leads_to": answers, "count": len(targets), "subscribers": len(own)}


def _formed_led_to(what: Thing, answer: dict[str, Any]) -> str:
    address, answers = printable(what.address), answer["leads_to"]
    count, subscribers = answer["count"], answer["subscribers"]
    if not count and not subscribers:
        return f"{address} keeps nothing itself, and leads to no queue: what is sent to it is dropped."
    how = "a copy goes" if what.kind == FANOUT else "what matches a binding goes"
    where = [count_text(count, "destination")] if count else []
    where += [count_text(subscribers, "subscriber")] if subscribers else []
    lines = [f"{address} keeps nothing itself: {how} to {' and '.join(where)}."]
    lines += [f"\n{printable(one)}\n  {_verdict(answer)}" for one, answer in answers.items()]
    if count > len(answers):
        lines.append(f"\nand {count - len(answers)} more: `radiator describe {printable(what.address)}` lists them")
    return "\n".join(lines)


def _verdict(answer: dict[str, Any]) -> str:
    return f"{field(answer, 'verdict')}: {printable(str(field(answer, 'sentence')))}"


def _number(name: str, count: int) -> str:
    if name in _NOUNS:
        return count_text(count, name[:-1])
    return f"{count} {name.replace('_', ' ')}"


def _formed(answer: dict[str, Any]) -> str:
    numbers = [_number(name, answer[name]) for name in _NUMBERS if answer.get(name)]
    lines = [_verdict(answer), ", ".join(numbers)]
    unread = answer.get("unread", {})
    if unread:
        lines.append("behind: " + ", ".join(f"{printable(name)} {count}" for name, count in sorted(unread.items())))
    consumers = answer.get("consumer_list", [])
    if consumers:
        lines += ["", table(("connection", "subscription", "stands", "unacked", "window", "outbox"), _rows(consumers))]
    return "\n".join(lines).rstrip("\n")


def _rows(consumers: list[dict[str, Any]]) -> list[list[str | int]]:
    return [
        [
            int(one["connection"]),
            str(one["subscription"]),
            str(one["stands"]),
            int(one["unacked"]),
            "none" if one["window"] is None else str(one["window"]),
            bytes_text(int(one["outbox_bytes"])),
        ]
        for one in consumers
    ]


WHY = Command(
    name="why",
    summary="say why nothing moves in a queue or a log",
    description=(
        "Says in one word and one sentence why messages of a queue are not delivered: nobody is subscribed, all "
        "consumers are at their window (who), they do not read, messages are delayed, in doubt with another node, "
        "checked out, being loaded; or that the queue is empty, or that the disk is nearly full. Where the queue is "
        "full, what becomes of a SEND. Then the numbers, and where each of the first 20 consumers stands. Of a log: "
        "its readers, and how far its groups are behind. Of a fanout or an exchange: the same of each queue that it "
        "leads to."
    ),
    example="radiator why orders\nradiator why /log/clicks\nradiator why /exchange/events",
    add_arguments=_arguments,
    run=_run,
)
