"""The `radiator` command. Each command is an object in a file here, and a row in COMMANDS.

Exit statuses: 0; 1 for a refusal; 2 for a usage or configuration error; 74 for a failed disk. A command that checks
whether something is wrong ends with 1 where it is, and with 2 where it cannot check. An error is one sentence on
stderr, never a traceback; only a bug shows a traceback.
"""

import argparse
import errno
import os
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from radiator import __version__
from radiator.model.checks import meant
from radiator.model.errors import EXIT_DISK_FAILED, EXIT_USAGE, ConfigError, DiskFailed, RadiatorError, Refusal
from radiator.tools.cli.command import Command
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ByKind, Formatter, read_config

# by name, in the order of --help: the file of each, in which it is called as the command is, in capitals
COMMANDS: dict[str, str] = {
    "serve": "serve", "config": "config", "reload": "reload", "password": "password", "token": "token",
    "context": "context",
    "check": "check", "backup": "backup",
    "restore": "backup", "compact": "compact", "rename": "rename", "ready": "ready", "stats": "stats", "top": "top",
    "settings": "settings", "bounds": "bounds", "disk": "disk_use", "broker-log": "broker_log",
    "history": "history", "attention": "attention", "queues": "queues",
    "describe": "describe", "peek": "peek", "why": "why", "declare": "declare", "bind": "bind", "unbind": "bind",
    "connections": "connections", "disconnect": "connections", "unacked": "unacked", "extend": "unacked",
    "delete": "delete", "purge": "queues", "move": "queues", "return": "returning", "route": "route", "may": "may",
    "position": "position", "release": "release",
    "prepared": "prepared", "peers": "peers", "peer": "peers", "drain": "peers", "send": "send", "receive": "receive",
    "archive": "archive", "audit": "audit", "explain": "explain", "bench": "bench", "migrate": "migrate",
    "certificates": "certificates", "install-service": "service", "uninstall-service": "service",
    "completion": "completion",
}  # fmt: skip

HELP_COLUMNS = 96
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell has it
_DISK_ERRORS = frozenset({errno.EIO, errno.ENODATA, errno.EREMOTEIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Prints one sentence instead of argparse's usage lines, and exits with status 2."""
        text = message[:1].upper() + message[1:]
        end = "" if text.endswith((".", "?")) else "."
        self.exit(EXIT_USAGE, f"{self.prog}: {printable(text)}{end} Try `{self.prog} --help`.\n")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Raises ArgumentError for a word that is not among the choices."""
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, ByKind) and action.kind_of(str(value)):
            return
        words = [str(word) for word in action.choices]
        hint = meant(value, words) or f"; it is one of {', '.join(words)}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"there is no {str(action.metavar).lower()} {printable(str(value))!r}{hint}")
        raise argparse.ArgumentError(action, f"it cannot be {printable(str(value))!r}{hint}")


class _CommandParser(_Parser):
    """The parser of one command: its options may be before, between and after its arguments."""

    _is_within = False

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        # within: argparse's own call, out of the one below; with commands of its own, they do it
        if self._is_within or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_within = True
        try:
            # mixed, argparse forgets that what comes after `--` is not an option
            parse = super().parse_known_args if "--" in args else self.parse_known_intermixed_args
            known, unknown = parse(args, namespace)
        finally:
            self._is_within = False
        if unknown:
            is_file = unknown[0].endswith(".toml") and "--config" in self._option_string_actions
            hint = f"; did you mean --config {unknown[0]}?" * is_file
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return known, unknown


def command_called(name: str) -> Command:
    """Returns the command of that name. Its file is imported now: all together take 30 ms."""
    found: Command = getattr(import_module(f"{__name__}.{COMMANDS[name]}"), name.upper().replace("-", "_"))
    return found


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Returns the parser of the whole command line. only: the first argument; if it names a command, the parser knows
    no other, as all together cost every command 25 ms.
    """
    top = _Parser(
        prog="radiator",
        description="A durable message broker for STOMP and AMQP 0-9-1, and the tools to look after it.",
        epilog="`radiator COMMAND --help` explains each command, with an example.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"radiator {__version__}")
    commands = top.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, parser_class=_CommandParser
    )
    for command in map(command_called, [only] if only in COMMANDS else COMMANDS):
        one = commands.add_parser(
            command.name,
            help=command.summary,
            description=textwrap.fill(command.description, HELP_COLUMNS),
            epilog="example:\n" + "\n".join("  " + line for line in command.example.splitlines()),
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        command.add_arguments(one)
        one.set_defaults(run=command.run, failed=command.failed)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (default: that of this process) and returns its exit status."""
    try:
        given = _command_first(sys.argv[1:] if argv is None else argv)
        arguments = parser(next(iter(given), None)).parse_args(given)
    except SystemExit as ended:  # --help, --version and usage errors
        return _flushed(ended.code if isinstance(ended.code, int) else EXIT_USAGE)
    except ConfigError as wrong:
        return _say(wrong.mistakes, EXIT_USAGE)
    try:
        arguments.parser = parser  # which completion writes down
        read_config(arguments)
        _log_in(arguments)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except ConfigError as wrong:
        return _say(wrong.mistakes, EXIT_USAGE)
    except DiskFailed as failed:
        return _say([str(failed)], EXIT_DISK_FAILED)
    except RadiatorError as refused:
        return _say([f"{refused} {_hint(arguments, refused)}".rstrip()], arguments.failed)
    except KeyboardInterrupt:
        return 0 if getattr(arguments, "watch", False) else EXIT_INTERRUPTED  # it is the way to end a watch
    except BrokenPipeError:
        return _reader_gone(arguments.failed)
    except OSError as failed:
        status = EXIT_DISK_FAILED if failed.errno in _DISK_ERRORS else arguments.failed
        return _say([_sentence(failed)], status)


def _command_first(given: Sequence[str]) -> Sequence[str]:
    """`radiator --context NAME COMMAND ...` is the same as with it after the command."""
    if len(given) > 2 and given[0] == "--context":
        return [given[2], *given[:2], *given[3:]]
    if len(given) > 1 and given[0].startswith("--context="):
        return [given[1], given[0], *given[2:]]
    return given


def _log_in(arguments: argparse.Namespace) -> None:
    if hasattr(arguments, "password_file"):
        from radiator.tools.cli.login import log_in  # with getpass, which most commands do not need

        log_in(arguments)


def _hint(arguments: argparse.Namespace, refused: RadiatorError) -> str:
    if not isinstance(refused, Refusal):
        return ""
    from radiator.tools.cli.broker import hint  # with the client, which `serve` does not need

    return hint(arguments, refused)


def _say(sentences: list[str], status: int) -> int:
    try:
        for sentence in sentences:
            print(f"radiator: {printable(sentence)}", file=sys.stderr)
    except BrokenPipeError:
        pass  # nobody listens; the status says it
    return _flushed(status)


def _flushed(status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _let_go_of_stdout()
    return status


def _reader_gone(status: int) -> int:
    """`radiator queues | head -1`: the reader has all that it wanted. What it did not read counts as not done."""
    _let_go_of_stdout()
    return status


def _let_go_of_stdout() -> None:
    """Python flushes stdout once more at its end: let that go nowhere instead of into a traceback."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _sentence(failed: OSError) -> str:
    where = f"{failed.filename}: " if failed.filename is not None else ""
    return f"{where}{failed.strerror or type(failed).__name__}."
