"""`radiator audit`: is every accepted message accounted for?"""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from radiator.model.errors import EXIT_REFUSED, EXIT_USAGE, count_text
from radiator.tools.cli.broker import whole_number
from radiator.tools.cli.command import Command
from radiator.tools.cli.data import add_data, store_of, without_pyarrow
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json
from radiator.tools.cli.text import printable, table

if TYPE_CHECKING:
    from radiator.tools.audit.journal import Journal
    from radiator.tools.audit.verdicts import AuditReport

_SHOWN = 20
_MEANING = {
    "lost": "accepted, and neither gone nor there",
    "doubled": "came or ended twice, or ended and is still there",
    "ghost": "told of or stored, and never accepted",
    "half-fanned": "fanouts of which copies are missing",
    "open": "no end yet; without a snapshot it may be stored or lost",
    "unknown-beginning": "from before what the journal tells",
    "unknown-end": "may have ended where the journal does not tell",
    "stored": "still in their queues",
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser, archive=True)
    add_json(parser, "the whole result, as JSON on one line")
    parser.add_argument(
        "--show", metavar="N", type=whole_number, default=_SHOWN, help=f"list at most this many (default: {_SHOWN})"
    )


def _run(arguments: argparse.Namespace) -> int:
    from radiator.tools.audit.journal import ArchivedJournal, StoredJournal

    try:
        if arguments.archive is not None:
            return _print(arguments, ArchivedJournal(arguments.archive))
        with store_of(arguments) as (source, _):
            return _print(arguments, StoredJournal(source))
    except ModuleNotFoundError as missing:
        raise without_pyarrow(missing) from None


def _print(arguments: argparse.Namespace, journal: "Journal") -> int:
    from radiator.tools.audit.journal import audit

    with Progress("audit") as progress:
        report = audit(journal, progress)
    wrong = [
        {"verdict": verdict, "message_id": journal.text_of(one), "queue": queue}
        for verdict, those in report.wrong.items()
        for one, queue in those
    ]
    if arguments.json:
        print(json.dumps(_as_json(report, wrong)))
    else:
        print(_formed(report, wrong, arguments.show, progress.took))
    if wrong:
        sys.stdout.flush()
        print(f"radiator: {count_text(len(wrong), 'message')} not accounted for.", file=sys.stderr)
    return EXIT_REFUSED if wrong else 0


def _as_json(report: "AuditReport", wrong: list[dict[str, str]]) -> dict[str, object]:
    return {
        "events": report.events,
        "cut": report.cut,
        "has_snapshot": report.has_snapshot,
        "stretches": report.stretches,
        "counts": dict(sorted(report.counts.items())),
        "wrong": wrong,
    }


def _formed(report: "AuditReport", wrong: list[dict[str, str]], most: int, took: str) -> str:
    rows: list[list[str | int]] = [
        [verdict, count, _MEANING.get(verdict, "")] for verdict, count in sorted(report.counts.items())
    ]
    parts = [table(["verdict", "messages", ""], rows) if rows else "no messages"]
    lines = [
        f"{one['verdict']}: {printable(one['message_id'])}, {printable(one['queue']) or 'of no queue that is known'}"
        for one in wrong[:most]
    ]
    if len(wrong) > most:
        lines.append(f"and {len(wrong) - most} more: --show {len(wrong)} lists all")
    parts.append("\n".join(lines))
    parts.append(
        f"{count_text(report.events, 'event')} up to offset {report.cut}, in "
        f"{count_text(report.stretches, 'stretch', 'stretches')} without a gap; "
        + ("with" if report.has_snapshot else "WITHOUT")
        + f" what is stored ({took})."
    )
    return "\n\n".join(filter(None, parts))


AUDIT = Command(
    name="audit",
    summary="check by the journal that every accepted message is accounted for",
    description=(
        "Reads the journal, of a running or stopped broker's store or of an archive, beside what is stored, and "
        "judges every message: it was acked, dead-lettered, expired, moved, purged, dropped, checked out or deleted "
        "with its queue, or it is still there. Lists what is lost, doubled, a ghost (never accepted) or "
        "half-fanned; then the exit status is 1 (2: it could not be asked). Messages that were accepted or ended "
        "where the journal has a gap are counted separately."
    ),
    example="radiator audit --config /etc/radiator/config.toml\nradiator audit --archive /archive --json",
    add_arguments=_arguments,
    run=_run,
    failed=EXIT_USAGE,
)
