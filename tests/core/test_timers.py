"""What time brings beside the rounds: the time that the store keeps, and dedup-ids that are forgotten."""

import pytest

from radiator.core.timers import Timers
from radiator.model.limits import CLOCK_KEPT_IDLE_S, CLOCK_KEPT_S, FORGET_BUSY_S, FORGET_IDLE_S, FORGET_MESSAGES
from radiator.model.writes import Forget, KeepTime, Write
from tests.core.node import Node
from tests.core.words import queue, send


def timers() -> tuple[Node, Timers]:
    """As a broker's, on which nothing has happened since the time was kept."""
    node = Node(queue(dedup_window_s=60))
    made = node.broker.parts.timers
    made.watch_clock()
    node.turn([])
    return node, made


def written(made: Timers) -> list[Write]:
    """Since the last time."""
    writes, made.context.open.writes = made.context.open.writes, []
    return writes


@pytest.mark.parametrize(
    ("later_s", "is_idle", "is_kept"),
    [
        (CLOCK_KEPT_S - 0.1, False, False),
        (CLOCK_KEPT_S, False, True),
        (CLOCK_KEPT_S, True, False),
        (CLOCK_KEPT_IDLE_S - 0.1, True, False),
        (CLOCK_KEPT_IDLE_S, True, True),
    ],
)
def test_the_time_is_kept_now_and_then_and_seldom_where_nothing_is_written(
    later_s: float, is_idle: bool, is_kept: bool
) -> None:
    node, made = timers()
    written(made)
    made.time_kept_in = made.context.batches - (not is_idle)
    made.time_kept_s = made.context.now_s - later_s
    made.watch_clock()
    assert [type(write) for write in written(made)] == [KeepTime] * is_kept


def test_a_clock_that_is_not_followed_is_told_once_and_so_is_its_end() -> None:
    node, made = timers()
    for ahead_ms in (5000, 6000, 0, 0):
        made.clock.ahead_ms = ahead_ms
        made.watch_clock()
    notes = [note.event for note in made.context.turn.notes]
    assert notes == ["clock_not_followed", "clock_followed"]


def test_dedup_ids_are_forgotten_sooner_where_they_come_and_faster_than_they_come() -> None:
    node, made = timers()
    written(made)
    made.forget_s = made.context.now_s + 0.1
    made.forget_dedup_ids()
    assert written(made) == []
    for remembered, pause_s in ((7, FORGET_BUSY_S), (0, FORGET_IDLE_S)):
        made.forget_s = made.context.now_s
        made.admission.remembered = remembered
        made.forget_dedup_ids()
        assert written(made) == [Forget(made.context.now_ms, FORGET_MESSAGES + 2 * remembered)]
        assert made.forget_s == made.context.now_s + pause_s and made.admission.remembered == 0


def test_only_where_a_queue_has_a_window_are_ids_forgotten() -> None:
    for window_s, is_asked in ((0, False), (60, True)):
        node = Node(queue(dedup_window_s=window_s), auto=False)
        node.open(1)
        node.say(send(1, "q", dedup_id=b"i"))
        node.broker.parts.timers.forget_s = 0
        node.wait(1)
        while node.step():
            pass
        assert (node.broker.parts.timers.forget_s > 0) is is_asked
