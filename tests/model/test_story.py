"""The story of a message: which messages are looked for, and which events are of it."""

import pytest

from radiator.model.journal import ACCEPTED, ACKED, COPIED, DEAD_LETTERED, DELIVERED, MOVED, JournalEvent
from radiator.model.message import position_of
from radiator.model.story import (
    RELATIVES_MAX,
    TRACED_MAX,
    Happened,
    Story,
    TracedMessages,
    happened,
    message_id_in,
    nothing_of_message,
    nothing_of_trace,
    positions_in,
)


def one(seq: int, event: str, message: int, other: int = 0) -> Happened:
    return happened(
        seq, JournalEvent(event, 1, "q", position_of(1, message), other=other and position_of(1, other)), "s"
    )


def ids(*numbers: int) -> set[str]:
    return {f"s-1-{number}" for number in numbers}


def looked_for(story: Story, journal: list[Happened]) -> list[set[str]]:
    """Round by round, until it is whole; all that names one of them is found."""
    rounds: list[set[str]] = []
    while asking := story.next_ids():
        rounds.append(set(asking))
        for event in journal:
            if asking & {event.message_id, event.other_id}:
                story.take(event)
    return rounds


def seqs(story: Story) -> list[int]:
    return [event.seq for event in story.events()[0]]


CHAIN = [
    one(0, ACCEPTED, 1),
    one(1, ACCEPTED, 9),
    one(2, ACCEPTED, 2, 1),
    one(3, DEAD_LETTERED, 1, 2),
    one(4, ACCEPTED, 3, 2),
    one(5, MOVED, 2, 3),
    one(6, ACKED, 3),
    one(7, ACKED, 9),
]


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_whichever_relative_is_asked_for_all_of_them_are_told_of(asked: int) -> None:
    story = Story(ids(asked))
    rounds = looked_for(story, CHAIN)
    assert rounds[0] == ids(asked) and set().union(*rounds) == ids(1, 2, 3) and sum(map(len, rounds)) == 3
    assert seqs(story) == [0, 2, 3, 4, 5, 6] and not story.is_cut and not story.is_empty


def test_a_copys_story_is_not_that_of_the_other_copies_but_the_fanouts_is() -> None:
    journal = [one(0, ACCEPTED, 2), one(1, COPIED, 2, 1), one(2, ACCEPTED, 3), one(3, COPIED, 3, 1), one(4, ACKED, 3)]
    copy, fanout = Story(ids(3)), Story(ids(1))
    looked_for(copy, journal)
    looked_for(fanout, journal)
    assert seqs(copy) == [2, 3, 4] and seqs(fanout) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("relatives", "is_cut"), [(RELATIVES_MAX - 1, False), (RELATIVES_MAX, True)])
def test_a_story_has_so_many_relatives(relatives: int, is_cut: bool) -> None:
    journal = [one(number, ACCEPTED, number + 1, number) for number in range(1, relatives + 1)]
    story = Story(ids(1))
    looked_for(story, journal)
    assert story.is_cut == is_cut and story.ids_count == relatives + 1
    assert seqs(story) == [*range(1, relatives + 1)]


@pytest.mark.parametrize(("count", "has_more"), [(3, False), (4, True), (50, True)])
def test_a_page_has_the_first_events_whatever_the_order_in_which_they_are_found(count: int, has_more: bool) -> None:
    story = Story(ids(1), events_max=3)
    for seq in reversed(range(count)):
        story.take(one(seq, DELIVERED, 1))
        assert story.kept_count <= 6
    events, there_are_more = story.events()
    assert [event.seq for event in events] == [0, 1, 2] and there_are_more == has_more


def test_pages_have_every_event_once_and_the_first_needs_none_before_it() -> None:
    journal = [one(seq, DELIVERED, 1) for seq in range(0, 70, 7)]
    found: list[int] = []
    after, has_more = -1, True
    while has_more:
        story = Story(ids(1), after, 4)
        looked_for(story, journal)
        events, has_more = story.events()
        found += [event.seq for event in events]
        after = found[-1]
    assert found == [event.seq for event in journal]


def test_what_stands_before_a_page_shows_relatives_and_that_there_is_a_story() -> None:
    story = Story(ids(1), after=5)
    looked_for(story, CHAIN)
    assert seqs(story) == [6]
    story = Story(ids(1), after=6)
    looked_for(story, CHAIN)
    assert story.events() == ([], False) and not story.is_empty


def test_a_story_of_nothing_is_empty() -> None:
    story = Story(ids(7))
    assert looked_for(story, CHAIN) == [ids(7)] and story.is_empty and story.events() == ([], False)
    assert not Story(()).next_ids() and not Story(()).is_cut


@pytest.mark.parametrize(("most", "is_cut"), [(3, False), (2, True)])
def test_a_story_knows_no_more_messages_than_it_may(most: int, is_cut: bool) -> None:
    story = Story(ids(1), ids_max=most)
    looked_for(story, CHAIN)
    assert story.ids_count == most and story.is_cut == is_cut


@pytest.mark.parametrize(("count", "are_more"), [(TRACED_MAX, False), (TRACED_MAX + 1, True)])
def test_a_trace_has_so_many_messages(count: int, are_more: bool) -> None:
    messages = TracedMessages()
    taken = [messages.add(f"s-1-{number}") for number in range(count)]
    assert messages.are_more == are_more and len(messages.ids) == TRACED_MAX and taken.count(False) == are_more
    assert messages.add("s-1-0")  # it is one of them


def test_positions_are_those_of_messages_that_this_store_can_have() -> None:
    of_it = {f"s-1-{2**64 - 1}": position_of(1, 2**64 - 1), f"s-{2**32 - 1}-0": position_of(2**32 - 1, 0)}
    others = {
        "s-01-1",
        "s-1-01",
        "t-1-1",
        "s-0-1",
        "s-0-0",
        f"s-{2**32}-1",
        f"s-1-{2**64}",
        "s-9999999999-99999999999999999999",
    }
    assert positions_in({*of_it, *others}, "s") == set(of_it.values())


def test_an_id_may_be_one() -> None:
    for text in ("4f0c2a91b7d3e865-3-17", "a_b.c-1-1", "s-9999999999-99999999999999999999"):
        assert message_id_in(text) == text
    for text in ("", "s-1", "s-1-", "s-1-1t", "s-1-1\n", " s-1-1", "s/-1-1", "s-99999999999-1", "ä-1-1"):
        with pytest.raises(ValueError, match="is not a message-id; one looks like 4f0c2a91b7d3e865-3-17"):
            message_id_in(text)


def test_an_event_is_told_with_ids_as_text() -> None:
    event = JournalEvent(
        ACCEPTED, 5, "q", position_of(1, 2), "c", 3, 4, position_of(1, 1), "d", "moved", "/a", 6, "00-"
    )
    assert happened(7, event, "s", "n") == Happened(
        7, 5, ACCEPTED, "q", "s-1-2", "c", 3, 4, "s-1-1", "d", "moved", "/a", 6, "n", "00-"
    )
    assert happened(7, JournalEvent(ACKED, 5, "q", 0), "s").message_id == ""


def test_it_is_said_why_nothing_may_be_told() -> None:
    assert nothing_of_message("s-1-1", "s").startswith("The journal tells nothing of s-1-1. It may be in memory only")
    assert "It is of store t, and this is store s: " in nothing_of_message("t-1-1", "s")
    assert nothing_of_trace("1" * 32).startswith(f"The journal tells nothing of trace {'1' * 32}. Its messages may be")
