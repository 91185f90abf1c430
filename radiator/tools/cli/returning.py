"""`radiator return`: dead letters go back to where they came from."""

import argparse
from typing import Any

from radiator.model.addresses import QUEUE
from radiator.model.errors import ConfigError
from radiator.model.limits import RETURNED_IDS_MAX
from radiator.model.returning import WHY_THEY_STAY
from radiator.model.story import message_id_in
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field, whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable, table
from radiator.tools.cli.things import ArgumentWord, add_words


def _message_id(text: str) -> str:
    try:
        return message_id_in(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(parser, ArgumentWord("queue", "QUEUE", kinds=(QUEUE,)))
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--message",
        metavar="ID",
        action="append",
        type=_message_id,
        help=f"only this one, as `peek` shows its id; up to {RETURNED_IDS_MAX} times",
    )
    which.add_argument("--count", metavar="N", type=whole_number, help="how many at most (default: all ready now)")


def _run(arguments: argparse.Namespace) -> int:
    request: dict[str, Any] = {"do": "return", "queue": arguments.queue.address}
    if arguments.message is not None:
        ids = [*dict.fromkeys(arguments.message)]
        if len(ids) > RETURNED_IDS_MAX:
            raise ConfigError([f"--message is there {len(ids)} times: {RETURNED_IDS_MAX} messages go back at once."])
        request["message_ids"] = ids
    if arguments.count is not None:
        request["count"] = arguments.count
    answer = ask(arguments, request, CHANGE_TIMEOUT_S)
    print_answer(arguments, answer, _formed(answer))
    return 0


def _formed(answer: dict[str, Any]) -> str:
    parts = [printable(str(field(answer, "sentence")))]
    to = field(answer, "to")
    if len(to) > 1:
        parts.append(table(["queue", "messages"], [[str(name), int(count)] for name, count in to.items()]))
    stay = field(answer, "not_returned")
    if stay:
        words = [[str(one["message_id"]), WHY_THEY_STAY.get(str(one["why"]), str(one["why"]))] for one in stay]
        parts.append(table(["message", "stays, because it is"], words))
    return "\n\n".join(parts)


RETURN = Command(
    name="return",
    summary="return dead letters, each to the queue that it came from",
    description=(
        "Moves messages that are ready, oldest first, each back to the queue that its header original-destination "
        "names, without the headers that it got as a dead letter, as if it were new there. A message without that "
        "header stays, and so does one from a queue that is gone or full, or that you may not write to: these are "
        "counted, with the reason. Each message is always in exactly one of the two queues, whatever happens "
        "meanwhile."
    ),
    example="radiator return orders.dead\nradiator return orders.dead --message 4f0c2a91b7d3e865-3-17",
    add_arguments=_arguments,
    run=_run,
)
