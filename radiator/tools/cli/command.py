"""One command of the command line: its words for `--help`, its arguments, and what it does."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from radiator.model.errors import EXIT_REFUSED


@dataclass(slots=True, kw_only=True)
class Command:
    """summary: one line in the list of commands. description and example: what `--help` of this one shows.

    run: carries out the command and returns the exit status; `main` turns what it raises into a sentence. failed: the
    exit status then; EXIT_USAGE if EXIT_REFUSED is an answer, that something is wrong.
    """

    name: str
    summary: str
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    failed: int = EXIT_REFUSED
