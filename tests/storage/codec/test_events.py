"""Events of the journal as a block has them."""

from pathlib import Path

import pytest

from radiator.model.headers import ESCAPING_ALL
from radiator.model.journal import ACCEPTED, ACKED, EVENTS, JournalEvent, as_json
from radiator.model.limits import BLOCK_RECORDS, EVENT_BYTES
from radiator.model.message import Message, position_of
from radiator.storage.codec import events
from tests.storage.journalist import NOW_MS, Journalist, event_of


def test_events_are_read_as_the_json_of_the_journal(tmp_path: Path) -> None:
    journal = Journalist(tmp_path / "data", name="journal")
    journal.add(1)
    journal.add(BLOCK_RECORDS + 20)
    for offset in (0, 1, 2, BLOCK_RECORDS, BLOCK_RECORDS + 1, BLOCK_RECORDS + 20):
        found = journal.load(offset, most=3).records
        assert [one.offset for one in found] == [*range(offset, min(offset + 3, BLOCK_RECORDS + 21))]
        for one in found:
            assert one.message == Message(
                "/log/journal",
                b"content-type:application/json\n",
                ESCAPING_ALL,
                as_json(event_of(one.offset), one.offset, journal.store.recovery.store_id),
                NOW_MS + one.offset,
            )


TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LARGEST = JournalEvent(
    ACCEPTED, 2**63, "ö" * 127, position_of(2**32 - 1, 2**64 - 1), "c" * 64, 2**31, 2**40, position_of(1, 0), "q" * 255,
    "r" * 64, "/exchange/" + "x" * 520, 2**60,
)  # fmt: skip


@pytest.mark.parametrize(
    "run",
    [
        [JournalEvent(ACKED, 0, "", 0)],
        [LARGEST],
        [
            JournalEvent(ACKED, 5, "q", 1),
            LARGEST,
            JournalEvent(ACKED, 2**63, "q", 2, "", 255),
            JournalEvent(ACCEPTED, 1, "", 3, "", 256),
        ],
        [
            JournalEvent(EVENTS[nth % 16], 9, f"q{nth}", nth, f"c{nth}", 65_535 + nth, 2**32 - 2 + nth)
            for nth in range(256)
        ],
        [JournalEvent(ACCEPTED, 0, "q", 1, traceparent=TRACEPARENT)],
        [JournalEvent(ACCEPTED, nth, "q", nth, traceparent=TRACEPARENT * (nth % 3 == 1)) for nth in range(256)],
        [JournalEvent(ACCEPTED, nth, "q", nth, traceparent=f"00-{nth:032x}-{nth:016x}-00") for nth in range(1, 257)],
        [LARGEST._replace(traceparent=TRACEPARENT), LARGEST],
        [JournalEvent(ACCEPTED, 0, "q", 1, correlation_id="c")],
        [JournalEvent(ACCEPTED, nth, "q", nth, correlation_id="ö" * (nth % 3 == 1)) for nth in range(256)],
        [JournalEvent(ACCEPTED, nth, "q", nth, correlation_id=f"{nth:0255}") for nth in range(256)],
        [
            JournalEvent(ACCEPTED, nth, "q", nth, traceparent=TRACEPARENT * (nth % 2), correlation_id="c" * (nth % 3))
            for nth in range(6)
        ],
        [LARGEST._replace(traceparent=TRACEPARENT, correlation_id="q" * 255), LARGEST],
    ],
)
def test_events_come_back_as_they_were_told(run: list[JournalEvent]) -> None:
    block, more = events.pack(run)
    is_correlated = any(event.correlation_id for event in run)
    assert more == (2 if is_correlated else any(event.traceparent for event in run))
    assert events.unpack(block, len(run), more) == run
    positions = {position for event in run for position in (event.position, event.other) if position}
    found = {int.from_bytes(one, "big") for one in events.positions_of(block, len(run))}
    assert found - {0} == positions
    with pytest.raises(ValueError):
        events.positions_of(block[: len(block) // 2], len(run) + 200)
    for count in (len(run) - 1, len(run) + 1):
        with pytest.raises(ValueError):
            events.unpack(block, count, more)
    for cut in (0, 1, len(block) - 1):
        with pytest.raises(ValueError):
            events.unpack(block[:cut], len(run), more)
    with pytest.raises(ValueError):
        events.unpack(block + b"\0", len(run), more)
    for other in {0, 1, 2, 3} - {more}:
        with pytest.raises(ValueError):
            events.unpack(block, len(run), other)


def test_a_traceparent_of_no_name_is_refused() -> None:
    block, _ = events.pack([JournalEvent(ACCEPTED, 1, "q", 1, traceparent=TRACEPARENT)])
    with pytest.raises(ValueError):
        events.unpack(block[:-1] + b"\4", 1, 1)


def test_a_traceparent_takes_some_60_bytes_and_one_that_comes_again_takes_two() -> None:
    run = [JournalEvent(ACCEPTED, NOW_MS, "q", position_of(7, nth)) for nth in range(256)]

    def more(*traceparents: str) -> float:
        traced = [event._replace(traceparent=one) for event, one in zip(run, traceparents, strict=True)]
        return (len(events.pack(traced)[0]) - len(events.pack(run)[0])) / 256

    assert 57 < more(*(f"00-{nth:032x}-{nth:016x}-00" for nth in range(1, 257))) < 61
    assert more(*[TRACEPARENT] * 256) < 2


def test_a_correlation_id_of_no_name_is_refused() -> None:
    block, _ = events.pack([JournalEvent(ACCEPTED, 1, "q", 1, correlation_id="c")])
    with pytest.raises(ValueError):
        events.unpack(block[:-1] + b"\4", 1, 2)


def test_a_correlation_id_takes_its_bytes_and_some_more() -> None:
    run = [JournalEvent(ACCEPTED, NOW_MS, "q", position_of(7, nth)) for nth in range(256)]
    named = [event._replace(correlation_id=f"{nth:036}") for nth, event in enumerate(run)]
    more = (len(events.pack(named)[0]) - len(events.pack(run)[0])) / 256
    assert 36 + 2 < more < 36 + 6


def test_an_event_takes_about_what_it_counts_for() -> None:
    run = [
        JournalEvent(
            EVENTS[nth % 3], NOW_MS + nth // 9, f"orders.{nth % 4}", position_of(7, nth), f"{nth % 16}/sub", 0, 200
        )
        for nth in range(256)
    ]
    assert len(events.pack(run)[0]) < 256 * EVENT_BYTES
