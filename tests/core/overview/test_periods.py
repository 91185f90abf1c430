"""When samples were taken, with the time as an argument."""

from radiator.core.overview.periods import FILLED, Periods, share_at

NOW_MS = 1_700_000_000_000


def taken(periods: Periods) -> list[tuple[int, bool]]:
    """Seconds since NOW_MS, and whether there is a sample."""
    places = periods.after(0)
    return [
        ((periods.time_ms(at) - NOW_MS) // 1000, bool(is_there))
        for at, is_there in zip(places, periods.there(places), strict=True)
    ]


def sampled(*times_ms: int, capacity: int = 10) -> Periods:
    periods = Periods(1000, capacity)
    for now_ms in times_ms:
        if periods.due(NOW_MS + now_ms):
            periods.take(NOW_MS + now_ms)
    return periods


def test_there_is_one_in_each_period() -> None:
    assert taken(sampled(0, 250, 999, 1000, 1250, 2100)) == [(0, True), (1, True), (2, True)]
    assert taken(sampled()) == []


def test_the_oldest_goes_where_there_is_no_place() -> None:
    periods = sampled(*range(0, 13_000, 1000))
    assert taken(periods) == [(second, True) for second in range(3, 13)]
    assert periods.there(range(3, 6)) == b"\0\1\1", "what was asked for before is no other sample"


def test_one_that_is_a_little_late_is_for_all_of_its_periods_and_behind_a_gap_for_its_own() -> None:
    late = FILLED * 1000
    assert taken(sampled(0, late)) == [(second, True) for second in range(FILLED + 1)]
    assert taken(sampled(0, late + 1000)) == [(0, True), *((second, False) for second in range(1, FILLED + 1)),
                                               (FILLED + 1, True)]  # fmt: skip


def test_a_gap_longer_than_all_leaves_one() -> None:
    hour_ms = 3_600_000
    assert taken(sampled(0, 1000, hour_ms)) == [*((second, False) for second in range(3591, 3600)), (3600, True)]
    assert taken(sampled(0, 1000, hour_ms, hour_ms + 1000))[-2:] == [(3600, True), (3601, True)]


def test_a_clock_that_is_corrected_a_little_back_is_waited_for() -> None:
    assert taken(sampled(0, 1000, 2000, 900, 1900, 2900, 3000)) == [(second, True) for second in range(4)]


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    assert taken(sampled(10_000, 11_000, 12_000, 0, 1000)) == [(second, True) for second in range(-3, 2)]


def test_only_what_is_later_is_asked_for() -> None:
    periods = sampled(0, 1000, 2000)
    assert [periods.time_ms(at) - NOW_MS for at in periods.after(NOW_MS)] == [1000, 2000]
    assert [periods.time_ms(at) - NOW_MS for at in periods.after(NOW_MS - 1)] == [0, 1000, 2000]
    assert not periods.after(NOW_MS + 2000) and not periods.after(NOW_MS + 10**9)
    assert len(periods.after(0, begun=3)) == 1


def test_what_came_in_a_gap_is_no_spike_and_nothing_else_is_lost() -> None:
    assert share_at(range(5, 6), 1000, 1.25) == 1.0 == share_at(range(1, 2), 1000, 0.0)
    assert share_at(range(5, 8), 1000, 3.0) == 1 / 3
    assert share_at(range(5, 6), 1000, 60.0) == 1 / 60
