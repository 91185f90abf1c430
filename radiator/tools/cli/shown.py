"""`--json` and `--watch`, wherever something is shown."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

WATCH_S = 2.0
CLEAR_SCREEN = "\x1b[H\x1b[2J"


def add_json(parser: argparse._ActionsContainer, what: str = "the broker's whole answer, as JSON on one line") -> None:
    """Adds the `--json` of a command."""
    parser.add_argument("--json", action="store_true", help=what)


def add_watch(parser: argparse._ActionsContainer) -> None:
    """Adds the `--watch` of a command."""
    parser.add_argument("--watch", action="store_true", help=f"again every {WATCH_S:.0f} seconds, until interrupted")


def print_answer(arguments: argparse.Namespace, answer: object, text: str) -> None:
    """Prints the answer as JSON on one line where `--json` asks for it, or else the text."""
    print(json.dumps(answer) if arguments.json else text, flush=True)


def show(arguments: argparse.Namespace, look: Callable[[], Any], formed: Callable[[Any], str]) -> Any:
    """Looks, prints what is seen, and returns it; with `--watch` again and again, until interrupted."""
    clear = CLEAR_SCREEN if arguments.watch and sys.stdout.isatty() and not arguments.json else ""
    while True:
        seen = look()
        print_answer(arguments, seen, "" if arguments.json else clear + formed(seen))
        if not arguments.watch:
            return seen
        time.sleep(WATCH_S)
