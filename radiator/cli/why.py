"""`radiator why`: why nothing moves."""

import argparse
import json
from typing import Any

from radiator.cli.broker import add_broker, ask, field, name_of
from radiator.cli.command import Command
from radiator.cli.text import bytes_text, printable, table
from radiator.client import Client
from radiator.errors import count_text

_NUMBERS = (
    "messages", "ready", "in_flight", "storing", "delayed", "in_doubt", "set_aside", "checked_out", "damaged",
    "consumers", "blocked", "records", "readers", "groups", "blocked_by_disk", "blocked_by_memory",
)  # fmt: skip
_NOUNS = frozenset({"messages", "consumers", "records", "readers", "groups"})
_LED_TO_SHOWN = 20  # queues and logs that a fanout or an exchange leads to


def _what(text: str) -> tuple[str, str]:
    if text.startswith("/topic/"):
        raise argparse.ArgumentTypeError(
            f"{text!r} keeps nothing: who is subscribed gets a message then, or never. What a durable subscription has "
            "not got yet is in a queue, $durable/..., that `radiator queues` lists"
        )
    if text.startswith(("/temp-queue/", "/reply-queue/")):
        raise argparse.ArgumentTypeError(f"{text!r} is one connection's own, and goes with it: nobody else can ask")
    kind = next((kind for kind in ("log", "fanout", "exchange") if text.startswith(f"/{kind}/")), "queue")
    return kind, name_of(kind)(text)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    parser.add_argument(
        "what", metavar="QUEUE", type=_what, help="name of the queue, or /log/NAME, /fanout/NAME, /exchange/NAME"
    )
    parser.add_argument("--json", action="store_true", help="the broker's whole answer, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    kind, name = arguments.what
    if kind in ("fanout", "exchange"):
        return _led_to(arguments, kind, name)
    answer = ask(arguments, {"do": "why", kind: name})
    print(json.dumps(answer) if arguments.json else _formed(answer))
    return 0


def _led_to(arguments: argparse.Namespace, kind: str, name: str) -> int:
    """A fanout or an exchange keeps nothing itself: the verdict of each queue and log that it leads to."""
    with Client(arguments.broker) as client:
        described = client.admin({"do": "describe", kind: name})
        if kind == "fanout":
            targets = [str(one) for one in (*field(described, "children"), *described.get("outboxes", ()))]
        else:
            targets = sorted({str(one["queue"]) for one in field(described, "bindings")})
        # a subscriber of an exchange is no queue that can be asked for: it gets a message at once, or is closed
        own = [one for one in targets if one.startswith("$own/")]
        targets = [one for one in targets if not one.startswith("$own/")]
        answers = {}
        for one in targets[:_LED_TO_SHOWN]:
            answers[one] = client.admin({"do": "why", "log" if one.startswith("/log/") else "queue": one})
    if arguments.json:
        print(json.dumps({"leads_to": answers, "count": len(targets), "subscribers": len(own)}))
        return 0
    address = printable(f"/{kind}/{name}")
    if not targets and not own:
        print(f"{address} keeps nothing itself, and leads to no queue: what is sent to it is dropped.")
        return 0
    how = "a copy goes" if kind == "fanout" else "what matches a binding goes"
    where = [count_text(len(targets), "destination")] if targets else []
    where += [count_text(len(own), "subscriber")] if own else []
    print(f"{address} keeps nothing itself: {how} to {' and '.join(where)}.")
    for one, answer in answers.items():
        print(f"\n{printable(one)}\n  {_verdict(answer)}")
    if len(targets) > len(answers):
        print(f"\nand {len(targets) - len(answers)} more: `radiator describe {kind} {printable(name)}` lists them")
    return 0


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
