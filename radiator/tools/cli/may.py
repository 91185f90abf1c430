"""`radiator may`: whether a user has a right somewhere."""

import argparse

from radiator.model.addresses import QUEUE
from radiator.model.checks import meant
from radiator.model.errors import EXIT_REFUSED, ConfigError
from radiator.model.rights import ADMIN, EVERYTHING, RIGHTS
from radiator.tools.cli.broker import add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ArgumentWord, add_words


def _right(text: str) -> str:
    if text not in RIGHTS:
        raise ValueError(f"it cannot be {text!r}" + (meant(text, RIGHTS) or f"; it is one of {', '.join(RIGHTS)}"))
    return text


def _address(text: str) -> str:
    """Returns the address: a bare NAME is of a queue, as everywhere."""
    return text if text.startswith("/") else f"/{QUEUE}/{text}"


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_words(
        parser,
        ArgumentWord("whom", "USER", help="a user of the broker, or `anonymous`"),
        ArgumentWord("right", "RIGHT", help=", ".join(RIGHTS), read=_right),
        ArgumentWord(
            "destination",
            "DESTINATION",
            help=f"NAME of a queue, an address, or {EVERYTHING}; not for `{ADMIN}`",
            read=_address,
            is_needed=False,
        ),
    )


def _run(arguments: argparse.Namespace) -> int:
    request = {"do": "may", "user": arguments.whom, "right": arguments.right}
    if arguments.destination is not None:
        request["destination"] = arguments.destination
    elif arguments.right != ADMIN:
        raise ConfigError([f"Where? Say DESTINATION, such as orders or /topic/news, or {EVERYTHING} for everything."])
    answer = ask(arguments, request)
    is_allowed = field(answer, "allowed") is True
    print_answer(arguments, answer, printable(str(field(answer, "sentence"))))
    return 0 if is_allowed else EXIT_REFUSED


MAY = Command(
    name="may",
    summary="say whether a user may read, write, declare or see something, and by which rule",
    description=(
        "Says what a user may do by the rights that are in force, as the broker judges that user's commands: `read` "
        "as a SUBSCRIBE, `write` as a SEND, `declare` and `see` as requests about it; `admin` is for the broker as "
        "a whole. Names the rule that gives the right, or says that there is none. Exits with 1 if not allowed. "
        "Users may ask about themselves; asking about others needs the right `see` on everything."
    ),
    example="radiator may ann write orders\nradiator may ann read '/topic/news.#'\nradiator may ops admin",
    add_arguments=_arguments,
    run=_run,
)
