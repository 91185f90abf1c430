"""`radiator release`: what a group has checked out of a queue goes back to it."""

import argparse

from radiator.model.addresses import QUEUE
from radiator.model.errors import count_text
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(
        parser,
        ArgumentWord("queue", "QUEUE", kinds=(QUEUE,)),
        ArgumentWord("group", "GROUP", "the group that has checked it out"),
    )


def _run(arguments: argparse.Namespace) -> int:
    request = {"do": "checkout-release", "queue": arguments.queue.address, "group": arguments.group}
    answer = ask(arguments, request, CHANGE_TIMEOUT_S)
    released = count_text(field(answer, "released"), "message")
    queue, group = printable(arguments.queue.name), printable(arguments.group)
    print_answer(arguments, answer, f"{released} of the group {group} went back to {queue}; the group has ended.")
    return 0


RELEASE = Command(
    name="release",
    summary="return to a queue what a group has checked out of it",
    description=(
        "A group that has checked messages out of a queue (a Spark query that reads it, for example) keeps them "
        "until it acks them: nothing times out. If the group is gone for good, this puts them back at the end of "
        "the queue, each once, and ends the group. What the group has read and not acked will be processed again. "
        "This is refused while a consumer reads them."
    ),
    example="radiator release orders spark-etl",
    add_arguments=_arguments,
    run=_run,
)
