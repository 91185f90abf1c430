"""Events of the journal as JSON. tests/house/test_journal.py holds them to docs/JOURNAL.md."""

import json

from radiator.model.journal import EVENTS, NUMBERS, CameFrom, JournalEvent, as_json
from radiator.model.message import position_of

AT = position_of(3, 7)


def test_what_is_empty_is_not_there() -> None:
    row = json.loads(as_json(JournalEvent("accepted", 5, "q", AT), 9, "s"))
    assert row == {
        "seq": 9,
        "event": "accepted",
        "ms": 5,
        "queue": "q",
        "message_id": "s-3-7",
        "attempt": 0,
        "bytes": 0,
    }


def test_an_event_of_a_whole_queue_has_no_message() -> None:
    row = json.loads(as_json(JournalEvent(EVENTS[0], 5, "q", 0), 0, "s"))
    assert "message_id" not in row and "attempt" not in row


def test_names_are_as_they_were_given() -> None:
    event = JournalEvent("acked", 5, 'ö"\n', AT, "1/ä", 2, 3, position_of(1, 2), "/log/l", "why", "/fanout/f", 4)
    row = json.loads(as_json(event, 0, "s"))
    assert (row["queue"], row["client"], row["other_id"]) == ('ö"\n', "1/ä", "s-1-2")
    assert (row["other_queue"], row["address"], row["reason"]) == ("/log/l", "/fanout/f", "why")
    assert b"\n" not in as_json(event, 0, "s")


def test_the_number_stands_under_the_name_that_its_event_has_for_it() -> None:
    for event in EVENTS:
        row = json.loads(as_json(JournalEvent(event, 1, "q", AT, number=8), 0, "s"))
        assert {key for key, value in row.items() if value == 8} == ({NUMBERS[event]} if event in NUMBERS else set())


def test_what_it_was_accepted_with_comes_last() -> None:
    row = json.loads(as_json(JournalEvent("accepted", 1, "q", AT, traceparent="00-1"), 0, "s"))
    assert [*row][-1] == "traceparent" and row["traceparent"] == "00-1"
    both = JournalEvent("accepted", 1, "q", AT, traceparent="00-1", correlation_id='"ö\n')
    assert [*json.loads(as_json(both, 0, "s")).items()][-2:] == [("traceparent", "00-1"), ("correlation_id", '"ö\n')]


def test_of_one_that_was_sent_nothing_is_known() -> None:
    assert not any(CameFrom())
