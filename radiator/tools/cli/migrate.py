"""`radiator migrate`: queues, exchanges, bindings and messages of another AMQP broker, RabbitMQ above all."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from radiator.client.password_file import checked, from_file
from radiator.model.errors import EXIT_REFUSED, ConfigError, count_text
from radiator.model.settings import Address as ListenAt
from radiator.model.settings import UnixAddress
from radiator.tools.cli.command import Command
from radiator.tools.cli.login import PASSWORD_ENVIRONMENT
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.secret_input import asked
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import bytes_text, printable, table
from radiator.tools.cli.things import ArgumentWord, add_words
from radiator.tools.config import load, render_table
from radiator.tools.migrate.definitions import read_definitions
from radiator.tools.migrate.link import AmqpLink
from radiator.tools.migrate.migration import INTERRUPTED, Migration, MigrationWishes
from radiator.tools.migrate.place import UNIX, AmqpPlace
from radiator.tools.migrate.plan import MigrationPlan, as_json, plan_of
from radiator.tools.migrate.queue_move import QueueMoved
from radiator.tools.migrate.tables import tables_of

DEFAULT_TO = "amqp://127.0.0.1:5672"
EXIT_INTERRUPTED = 130  # as an interrupt ends other commands
OLD_PASSWORD_ENVIRONMENT = "RADIATOR_OLD_PASSWORD"
WINDOW, WINDOW_MAX = 500, 65535
_HEAD_OF_TABLES = """\
# From policies of RabbitMQ. Put these tables into config.toml, run `radiator reload`, then run `radiator migrate`
# without --dry-run and --tables.
"""
_HEADS = ("queue", "moved", "size", "left", "why")
_NOTES = {
    "expiration": "{} had an expiration, which starts again in the new broker.",
    "user-id": "{} had the user_id of somebody else than this login: it is the header x-migrated-user-id now.",
    "CC": "{} had a header CC, which has had its effect: it is x-migrated-cc now.",
    "BCC": "{} had a header BCC, which has had its effect: it is x-migrated-bcc now.",
}


def _window(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= WINDOW_MAX):
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number from 1 to {WINDOW_MAX}")
    return int(text)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_words(
        parser,
        ArgumentWord("old", "OLD", "the old broker, as amqp://USER@HOST:PORT/VHOST or amqps://... (user: guest)"),
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--to", metavar="ADDRESS", help=f"the new broker, in the same form or as amqp+unix:PATH (default: {DEFAULT_TO})"
    )
    where.add_argument("--config", metavar="FILE", type=Path, help="its config.toml: where it listens for AMQP")
    parser.add_argument(
        "--definitions",
        metavar="FILE",
        type=Path,
        help="what the old broker has, from `rabbitmqctl export_definitions FILE` or GET /api/definitions",
    )
    parser.add_argument(
        "--queue", metavar="NAME", action="append", default=[], help="this queue alone; may be repeated. Without "
        "--definitions it must be in the new broker already",
    )  # fmt: skip
    parser.add_argument("--vhost", metavar="NAME", help="of the definitions, and of the old broker (default: /)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--tables", metavar="FILE", type=Path, help="with --dry-run: write the queues that policies apply to as "
                                                    "tables for config.toml. With these in force, programs declare "
                                                    "such queues as before"
    )  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="go on with messages that still come, until interrupted")
    parser.add_argument(
        "--window",
        metavar="N",
        type=_window,
        default=WINDOW,
        help=f"at most this many messages on their way (default {WINDOW})",
    )
    parser.add_argument("--ca", metavar="FILE", help="with amqps://: the CAs in PEM that a certificate must come from")
    for option, dest, environment, which in (
        ("--password-file", "old_password_file", OLD_PASSWORD_ENVIRONMENT, "old"),
        ("--to-password-file", "new_password_file", PASSWORD_ENVIRONMENT, "new"),
    ):
        parser.add_argument(
            option,
            dest=dest,
            metavar="FILE",
            type=Path,
            help=f"its first line is the password of the user of the {which} broker (default: ${environment} if set, "
            "or else the terminal is asked)",
        )
    add_json(parser, "what was done, as JSON on one line")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.definitions is None and not arguments.queue:
        ways = "say --definitions FILE, which `rabbitmqctl export_definitions FILE` makes, or --queue NAME"
        raise ConfigError([f"AMQP cannot list what a broker has: {ways}."])
    old = AmqpPlace.parse(arguments.old)
    if arguments.vhost is not None:
        old = replace(old, vhost=arguments.vhost)
    new = _new_place(arguments)
    definitions = None if arguments.definitions is None else read_definitions(arguments.definitions, old.vhost)
    plan = plan_of(definitions, arguments.queue)
    if arguments.tables is not None:
        _write_tables(arguments.tables, plan, arguments.dry_run)
    old = _with_login(old, arguments.ca, arguments.old_password_file, OLD_PASSWORD_ENVIRONMENT)
    new = _with_login(new, arguments.ca, arguments.new_password_file, PASSWORD_ENVIRONMENT)
    if (old.host, old.port, old.path) == (new.host, new.port, new.path):
        raise ConfigError([f"{old} is the old broker and the new one: --to names the new one."])
    with (
        closing(AmqpLink("the old broker", old)) as old_link,
        closing(AmqpLink("the new broker", new)) as new_link,
        _stopping(arguments.window) as stop,
        Progress("migrate") as progress,
    ):
        return _migrated(arguments, old_link, new_link, plan, stop, progress)


def _migrated(
    arguments: argparse.Namespace,
    old: AmqpLink,
    new: AmqpLink,
    plan: MigrationPlan,
    stop: threading.Event,
    progress: Progress,
) -> int:
    def note(sentence: str) -> None:
        progress.clear()
        print(f"radiator: {printable(sentence)}", file=sys.stderr, flush=True)

    def go_on(state: QueueMoved, whole: int) -> None:
        progress(printable(state.queue), "messages", state.moved, whole)

    wishes = MigrationWishes(arguments.window, arguments.follow, stop.is_set, note, go_on)
    migration = Migration(old, new, plan, wishes)
    migration.check()
    if arguments.dry_run:
        ready = migration.ready()
        answer = {"from": str(old.place), "to": str(new.place), "dry_run": True, **as_json(plan), "queues": ready}
        print_answer(arguments, answer, "\n".join([*_plan_lines(plan), *_ready_lines(ready)]))
        return 0
    migration.declare()
    if not arguments.json and (lines := _plan_lines(plan)):
        print("\n".join(lines), flush=True)
    migration.move()
    progress.clear()
    found = list(migration.moved.values())
    is_whole = not migration.lost and not plan.left and all(_is_whole(one) for one in found)
    answer = {
        "from": str(old.place),
        "to": str(new.place),
        "dry_run": False,
        **as_json(plan),
        "queues": [_row_json(one) for one in found],
        "is_whole": is_whole,
        "lost_connection": migration.lost,
    }
    print_answer(arguments, answer, "\n".join(_moved_lines(found)))
    if migration.lost:
        note(f"{migration.lost} Run it again: it goes on where it was.")
    if stop.is_set() and not migration.lost:
        has_ended = all(one.why in ("", INTERRUPTED) for one in found) and not plan.left
        return (0 if has_ended else EXIT_REFUSED) if arguments.follow else EXIT_INTERRUPTED
    return 0 if is_whole else EXIT_REFUSED


def _write_tables(file: Path, plan: MigrationPlan, is_dry_run: bool) -> None:
    if not is_dry_run:
        order = "say it with --dry-run, put the tables into config.toml, reload, and migrate without both options"
        raise ConfigError([f"--tables is for before the queues are declared: {order}."])
    tables = [render_table("queue", name, table) for name, table in tables_of(plan).items()]
    if not tables:
        raise ConfigError(["No policy gives a queue anything that a table could say: --tables has nothing to write."])
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write("\n".join([_HEAD_OF_TABLES, *tables]))
    except OSError as error:
        raise ConfigError([f"--tables: {file} cannot be written: {error.strerror}."]) from None


def _is_whole(one: QueueMoved) -> bool:
    return not (one.why or one.refused or one.left)


# ---- where, and as whom ---------------------------------------------------------------------------------------------


def _new_place(arguments: argparse.Namespace) -> AmqpPlace:
    if arguments.config is None:
        return AmqpPlace.parse(arguments.to or DEFAULT_TO)
    for one in load(arguments.config).listen:
        if isinstance(one, UnixAddress) and one.scheme == "amqp+unix":
            return AmqpPlace.parse(f"{UNIX}{one.path}")
        if isinstance(one, ListenAt) and one.scheme in ("amqp", "amqps") and one.port:
            loopback = "::1" if ":" in one.host else "127.0.0.1"
            host = loopback if one.is_wildcard else one.host
            return AmqpPlace(host, one.port, is_tls=one.scheme == "amqps")
    raise ConfigError([f'{arguments.config} has no address of AMQP: put "{DEFAULT_TO}" into `listen` of [server].'])


def _with_login(place: AmqpPlace, ca: str | None, file: Path | None, environment: str) -> AmqpPlace:
    if place.is_tls and ca:
        place = replace(place, ca_file=ca)
    if place.password:
        return place
    if file is not None:
        return replace(place, password=from_file(file))
    if not place.user:
        return place
    if given := os.environ.get(environment):
        return replace(place, password=checked(given, f"The password in ${environment}"))
    if sys.stdin.isatty():
        return replace(place, password=asked(f"Password of {printable(place.user)} at {place}: "))
    option = "--password-file" if environment == OLD_PASSWORD_ENVIRONMENT else "--to-password-file"
    ways = f"say {option} FILE, set {environment}, or run the command at a terminal"
    raise ConfigError([f"There is no password for the user {printable(place.user)} at {place}: {ways}."])


@contextmanager
def _stopping(window: int) -> Iterator[threading.Event]:
    """Yields what the first interrupt sets: what is on its way is finished. The second one ends the process."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def interrupted(number: int, frame: object) -> None:
        stop.set()
        # not as it was before: a shell may have had them ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        again = f"a second interrupt ends it at once, and at most {count_text(window, 'message')} can be doubled then"
        print(f"\nradiator: Interrupted. What is on its way comes to its end; {again}.", file=sys.stderr, flush=True)

    before: dict[int, Any] = {}
    try:
        before |= {one: signal.signal(one, interrupted) for one in (signal.SIGINT, signal.SIGTERM)}
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


# ---- what it says ---------------------------------------------------------------------------------------------------


def _plan_lines(plan: MigrationPlan) -> list[str]:
    lines = []
    for head, pairs in (
        ("Not taken:", plan.left),
        ("Of policies, now arguments of the queue itself:", plan.applied),
        ("Of policies, and not taken:", plan.lost),
    ):
        if pairs:
            lines += [head, *(f"  {printable(what)}: {printable(why)}" for what, why in pairs)]
    if plan.others:
        lines += ["Not taken at all:", *(f"  {printable(sentence)}" for sentence in plan.others)]
    return lines


def _ready_lines(ready: dict[str, int | str]) -> list[str]:
    if not ready:
        return ["No queue would be moved."]
    return ["Would be moved:", table(("queue", "messages"), list(ready.items()))]


def _row_json(one: QueueMoved) -> dict[str, Any]:
    return {
        "queue": one.queue,
        "moved": one.moved,
        "moved_bytes": one.moved_bytes,
        "left": one.left,
        "why": one.why,
        "refused": one.refused,
        "redelivered": one.redelivered,
        "twice_at_most": one.twice_at_most,
        "notes": dict(one.notes),
    }


def _moved_lines(found: list[QueueMoved]) -> list[str]:
    if not found:
        return ["No queue was moved."]
    rows = [
        (one.queue, one.moved, bytes_text(one.moved_bytes), "?" if one.left is None else str(one.left), one.why)
        for one in found
    ]
    lines = [table(_HEADS, rows)]
    for one in found:
        name = printable(one.queue)
        lines += [f"{name}: {printable(sentence)}" for sentence in one.refused]
        for note, sentence in _NOTES.items():
            if count := one.notes[note]:
                lines.append(f"{name}: {sentence.format(count_text(count, 'message'))}")
        if one.twice_at_most:
            many = count_text(one.twice_at_most, "message")
            lines.append(
                f"{name}: at most {many} will be in the new broker twice, not counting those whose ack the old broker "
                "forgets, if it was killed."
            )
        if one.redelivered:
            many = count_text(one.redelivered, "message")
            lines.append(
                f"{name}: {many} had been delivered before, to whomever. Where a migration was killed in this queue, "
                f"so many at most are here twice, and no more than its window ({WINDOW}, or --window) has."
            )
    return lines


MIGRATE = Command(
    name="migrate",
    summary="move queues and messages here from RabbitMQ, or another AMQP broker",
    description=(
        "Declares the exchanges, queues and bindings of the old broker in the new one, and moves the messages: each "
        "is acked in the old one after the new one has confirmed it. So nothing is lost, whatever is interrupted; "
        "run again, it goes on. What cannot be taken stays where it is, and is listed before anything moves, and at "
        "the end. AMQP cannot list what a broker has: --definitions or --queue says it. Begin with --dry-run. See "
        "docs/AMQP.md, From RabbitMQ."
    ),
    example=(
        "radiator migrate amqp://rabbit.example --definitions definitions.json --dry-run\n"
        "radiator migrate amqp://ann@rabbit.example --definitions definitions.json --follow\n"
        "radiator migrate amqp://rabbit.example --queue orders --to amqps://radiator.example"
    ),
    add_arguments=_arguments,
    run=_run,
)
