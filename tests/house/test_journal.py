"""docs/JOURNAL.md tells of every event, of every key of its JSON, and of the column that it belongs to."""

import json
import re
from pathlib import Path

from radiator.core.dead_letters import CYCLE, UNROUTED
from radiator.core.queues.queue import OVERFLOW, REDELIVERIES
from radiator.model.audit import ACTS
from radiator.model.deaths import REJECTED
from radiator.model.journal import COLUMNS, EVENTS, NUMBERS, JournalEvent, as_json
from radiator.model.principal import RecognisedBy

CHECKOUT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = (CHECKOUT / "docs/JOURNAL.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of each row of the table under a heading, the first as its words in backquotes."""
    section = DOCUMENT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line[:3] == "| `"
    ]


def test_every_event_stands_there_with_its_column() -> None:
    columns = {event: column for column, events in COLUMNS.items() for event in events}
    found = {row[0].strip("`"): row[2].strip("`") for row in rows("Events")}
    assert found == {event: columns.get(event, "") for event in EVENTS}


def test_every_reason_of_a_drop_stands_there() -> None:
    (drop,) = (row for row in rows("Events") if row[0] == "`dropped`")
    assert {REJECTED, OVERFLOW, REDELIVERIES, UNROUTED, CYCLE} <= set(re.findall(r"`(\w+)`", drop[3]))


def test_the_acts_of_the_audit_log_stand_there() -> None:
    sentence = " ".join(DOCUMENT.split()).partition("Acts are: ")[2].partition(". Requests")[0]
    assert set(re.findall(r"`([a-z-]+)`", sentence)) == {act.what for act in ACTS}


def test_every_way_to_be_recognised_stands_there() -> None:
    sentence = " ".join(DOCUMENT.split()).partition(" `by` (")[2].partition(")")[0]
    assert set(re.findall(r"`([a-z-]+)`", sentence)) == {*(one.value for one in RecognisedBy), "signal"}


def test_every_key_stands_there() -> None:
    found = [key for row in rows("A record") for key in re.findall(r"`(\w+)`", row[0])]
    entry = JournalEvent("acked", 1, "q", 1, "c", 1, 1, 1, "o", "r", "a", 1, "t", "i")
    keys = [key for event in EVENTS for key in json.loads(as_json(entry._replace(event=event), 0, "s"))]
    assert sorted(found) == sorted({*keys, *NUMBERS.values()})


def test_the_example_has_keys_that_are_there() -> None:
    example = json.loads(next(line for line in DOCUMENT.splitlines() if line.startswith("{")))
    assert set(example) <= {key for row in rows("A record") for key in re.findall(r"`(\w+)`", row[0])}
    assert list(example)[:4] == ["seq", "event", "ms", "queue"]
