"""Which clock the broker goes by: the system's, but not over a jump that no clock makes; what is let go of by the time
of day; and records of a log from a clock that was ahead.
"""

import pytest

from radiator.core.clock import Clock
from radiator.core.logs.log import Partition
from radiator.model.commands import AUTO, TIME, Commit
from radiator.model.limits import CLOCK_JUMP_MAX_S, CLOCK_KEPT_IDLE_S, CLOCK_KEPT_S
from radiator.model.settings import Declarations, LogSettings, QueueSettings
from radiator.model.writes import KeepSegment, KeepTime
from tests.core.node import Node
from tests.core.words import begin, queue, send, subscribe

DAY_S = 86_400
YEAR_S = 365 * DAY_S
NOW_MS = 1_700_000_000_000


def jump(node: Node, seconds: float) -> None:
    """The system's clock is set, and a moment passes."""
    node.now_ms += int(seconds * 1000)
    node.wait(0.25)


def notes(node: Node, event: str) -> list[dict[str, object]]:
    return [dict(note.fields) for note in node.notes if note.event == event]


# ---- the rule -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [-170, -3, 0, 3, 31, 170])
def test_a_clock_that_is_set_or_a_machine_that_was_suspended_is_followed(days: int) -> None:
    clock = Clock(0, 100.0, NOW_MS)
    assert clock.at(101.0, NOW_MS + 1000) == NOW_MS + 1000
    system_ms = NOW_MS + days * DAY_S * 1000
    assert (clock.at(102.0, system_ms), clock.ahead_ms) == (system_ms, 0)
    assert clock.at(103.0, system_ms + 1000) == system_ms + 1000


@pytest.mark.parametrize("days", [-365, 365, 20_000])
def test_a_jump_that_no_clock_makes_is_not_followed_until_the_clock_is_near_again(days: int) -> None:
    clock, jump_ms = Clock(0, 100.0, NOW_MS), days * DAY_S * 1000
    assert (clock.at(110.0, NOW_MS + jump_ms), clock.ahead_ms) == (NOW_MS + 10_000, jump_ms - 10_000)
    assert clock.at(500.0, NOW_MS + jump_ms) == NOW_MS + 400_000
    assert (clock.at(600.0, NOW_MS + 499_000), clock.ahead_ms) == (NOW_MS + 499_000, 0)


@pytest.mark.parametrize("days", [0, 31, 170, -3])
def test_a_start_after_a_stop_of_some_months_follows_the_clock(days: int) -> None:
    system_ms = NOW_MS + days * DAY_S * 1000
    assert Clock(NOW_MS, 5.0, system_ms).at(5.0, system_ms) == system_ms


def test_a_machine_that_starts_in_1970_goes_on_where_it_stopped_and_follows_once_its_clock_is_set() -> None:
    clock = Clock(NOW_MS, 5.0, 60_000)
    assert (clock.at(5.0, 60_000), clock.at(15.0, 70_000)) == (NOW_MS, NOW_MS + 10_000)
    today_ms = NOW_MS + 40 * DAY_S * 1000
    assert (clock.at(20.0, today_ms), clock.ahead_ms) == (today_ms, 0)


def test_a_new_store_on_a_machine_that_starts_in_1970_follows_whatever_the_clock_is_set_to() -> None:
    clock = Clock(0, 0.0, 1000)
    assert clock.at(5.0, 6000) == 6000
    assert (clock.at(6.0, NOW_MS), clock.ahead_ms) == (NOW_MS, 0)
    # so does a later run, of which the store has kept a time of before the clock was set
    clock = Clock(6000, 0.0, NOW_MS)
    assert (clock.at(0.0, NOW_MS), clock.ahead_ms) == (NOW_MS, 0)


def test_a_store_that_has_kept_no_time_believes_the_system() -> None:
    assert Clock(0, 5.0, 60_000).at(5.0, 60_000) == 60_000


# ---- what a jump must not take --------------------------------------------------------------------------------------


def holding() -> Node:
    """Something of each kind that goes by the time of day."""
    declarations = Declarations(
        queues={
            "expiring": QueueSettings(message_ttl_ms=3_600_000),
            "delayed": QueueSettings(message_ttl_ms=7_200_000),
            "dedup": QueueSettings(dedup_window_s=3600),
        },
        logs={"l": LogSettings(retention_ms=3_600_000)},
    )
    node = Node(declarations)
    node.open(1, 2)
    node.say(send(1, "expiring", b"x"), send(1, "delayed", b"y", delay_ms=3_600_000))
    node.say(send(1, "dedup", b"z", dedup_id=b"id"), send(1, "/log/l", b"r"))
    node.wait(CLOCK_KEPT_S)
    return node


def is_whole(node: Node) -> bool:
    node.say(send(2, "dedup", b"again", dedup_id=b"id"))
    counts = {name: node.numbers(name)["messages"] for name in ("expiring", "delayed", "dedup")}
    log = node.broker.destinations.logs.all["l"]
    return counts == {"expiring": 1, "delayed": 1, "dedup": 1} and log.records == 1


@pytest.mark.parametrize("at_start", [False, True])
def test_a_jump_of_a_year_takes_nothing_and_is_told(at_start: bool) -> None:
    node = holding()
    assert is_whole(node)
    if at_start:
        node.now_ms += YEAR_S * 1000
        node = node.crashed()
        node.open(2)
    jump(node, 0 if at_start else YEAR_S)
    for _ in range(5):
        node.wait(60)
    assert is_whole(node)
    [noted] = notes(node, "clock_not_followed")
    assert isinstance(noted["ahead_s"], int) and abs(noted["ahead_s"] - YEAR_S) <= 61
    assert abs(node.stats()["clock_ahead_s"] - YEAR_S) <= 61
    jump(node, -YEAR_S)
    assert notes(node, "clock_followed") and node.stats()["clock_ahead_s"] == 0
    node.wait(2 * 3600)
    assert not is_whole(node)


def test_a_start_that_trusts_the_clock_follows_it_and_the_next_one_too() -> None:
    node = holding()
    node.now_ms += YEAR_S * 1000
    again = Node(node.declarations, platter=node.disk.platter, now_ms=node.now_ms, trust_clock=True)
    again.open(2)
    again.wait(1)
    assert not notes(again, "clock_not_followed") and not is_whole(again)
    third = again.crashed()
    third.wait(1)
    assert not notes(third, "clock_not_followed")


@pytest.mark.parametrize("at_start", [False, True])
def test_prepared_transactions_and_the_versions_of_apps_outlive_a_jump(at_start: bool) -> None:
    node = Node(queue())
    node.open(1)
    node.say(begin(1), send(1, "q", b"x", transaction=b"t"), Commit(1, b"t", b"prepared", "p"))
    node.wait(CLOCK_KEPT_S)
    if at_start:
        node.now_ms += YEAR_S * 1000
        node = node.crashed()
        node.open(1)
    jump(node, 0 if at_start else YEAR_S)
    node.wait(60)
    assert node.stats()["prepared"] == 1
    node.say(Commit(1, b"p", b"committed", None, "app", 1))
    node.wait(60)
    assert node.stored("q") == [b"x"]


# ---- what is kept of it ---------------------------------------------------------------------------------------------


def test_the_time_is_kept_at_the_start_and_then_as_long_as_anything_is_written_and_once_a_day() -> None:
    node = Node(queue())
    node.open(1)
    kept: list[int] = []
    commit = node.disk.commit

    def look(writes: list[object]) -> None:
        kept.extend(write.ms for write in writes if isinstance(write, KeepTime))
        commit(writes)  # type: ignore[arg-type]

    node.disk.commit = look  # type: ignore[method-assign,assignment]
    node.wait(0.25)
    assert kept == [node.now_ms]
    node.wait(CLOCK_KEPT_S)
    assert len(kept) == 1, "nothing was written"
    node.say(send(1, "q"))
    node.wait(0.25)
    assert len(kept) == 2
    node.wait(CLOCK_KEPT_IDLE_S)
    assert len(kept) == 3 and node.disk.platter.time_ms == node.now_ms
    assert node.crashed().disk.recovery.time_ms == node.now_ms


def test_bounds_are_such_that_a_broker_that_idles_is_never_too_far_behind() -> None:
    assert CLOCK_KEPT_S <= CLOCK_KEPT_IDLE_S < CLOCK_JUMP_MAX_S / 10


# ---- logs -----------------------------------------------------------------------------------------------------------


def a_log() -> Node:
    node = Node(Declarations(logs={"l": LogSettings(retention_ms=8000)}))
    node.open(1, 2)
    return node


def records(node: Node) -> int:
    return node.broker.destinations.logs.all["l"].records


@pytest.mark.parametrize("crash", [False, True])
def test_records_of_a_clock_that_was_ahead_go_when_those_behind_them_do(crash: bool) -> None:
    node = a_log()
    node.say(send(1, "/log/l", b"0"))
    jump(node, 100 * DAY_S)
    node.say(send(1, "/log/l", b"1"))
    node.wait(2)
    node.say(send(1, "/log/l", b"2"))
    jump(node, -100 * DAY_S)
    node.say(send(1, "/log/l", b"3"))
    node = node.crashed() if crash else node
    node.open(1)
    for number in range(3):
        node.wait(2)
        node.say(send(1, "/log/l", b"%d" % number))
    for _ in range(4):
        node.wait(4)
    assert records(node) == 0


@pytest.mark.parametrize("crash", [False, True])
def test_the_last_records_of_a_clock_that_was_ahead_go_after_the_retention(crash: bool) -> None:
    node = a_log()
    jump(node, 100 * DAY_S)
    node.say(send(1, "/log/l", b"1"))
    jump(node, -100 * DAY_S)
    node.wait(1)
    node = node.crashed() if crash else node
    node.wait(1)
    assert records(node) == 1
    for _ in range(3):
        node.wait(4)
    assert records(node) == 0


def test_a_reader_from_a_time_finds_what_was_accepted_after_a_clock_was_ahead() -> None:
    node = a_log()
    jump(node, 100 * DAY_S)
    node.say(send(1, "/log/l", b"ahead"))
    jump(node, -100 * DAY_S)
    start_ms = node.now_ms
    node.say(send(1, "/log/l", b"now"))
    node.say(subscribe(2, "/log/l", AUTO, start=(TIME, start_ms)))
    assert b"now" in node.bodies(2)


def test_segments_that_an_earlier_run_has_left_ahead_are_as_late_as_those_behind_them() -> None:
    partition = Partition(0)
    times = ((1, 5), (90, 100), (7, 9), (0, 0))
    partition.recover(KeepSegment(1, 0, 10 * n, 10 * n, 10 * (n < 3), 99, *time) for n, time in enumerate(times))
    assert [(one.first_ms, one.last_ms) for one in partition.segments] == [(1, 5), (9, 9), (7, 9), (0, 0)]


def test_a_batch_is_sealed_at_the_time_of_the_brokers_clock() -> None:
    node = holding()
    now_ms = node.now_ms
    node.now_ms += YEAR_S * 1000
    node.auto = False
    node.say(send(1, "delayed", b"later"))
    assert node.seal()
    batch = node.being_committed
    assert batch is not None and 0 <= batch.sealed_ms - now_ms < 60_000
