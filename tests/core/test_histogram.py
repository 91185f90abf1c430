"""Times are counted in buckets, also those that come again and again."""

import pytest

from radiator.core.histogram import COMMIT_BUCKETS_MS, DELIVERY_BUCKETS_MS, Histogram
from radiator.model.numbers import LatencyNumbers


def test_times_that_come_again_count_as_others_do() -> None:
    plain, repeated = Histogram((1, 10)), Histogram((1, 10))
    for ms, times in ((0, 2), (7, 3), (10, 1), (11, 4), (-5, 2), (7, 1)):
        for _ in range(times):
            plain.add(ms)
            if ms == repeated.last_ms:
                repeated.repeats += 1
            else:
                repeated.add(ms)
    expected = LatencyNumbers([1, 10], [4, 5, 4], 82.0)
    assert repeated.numbers() == plain.numbers() == expected
    assert repeated.numbers() == expected, "what was told is not told twice"


def test_repeats_count_for_the_time_that_they_repeat_and_not_for_the_next() -> None:
    histogram = Histogram((1, 10))
    histogram.add(5)
    histogram.repeats += 3
    histogram.add(100)
    histogram.repeats += 1
    assert histogram.numbers() == LatencyNumbers([1, 10], [0, 4, 2], 220.0)
    histogram.repeats += 1  # behind what was told
    assert histogram.numbers() == LatencyNumbers([1, 10], [0, 4, 3], 320.0)


def test_what_was_told_stays_as_it_was_told() -> None:
    histogram = Histogram((1, 10))
    histogram.add(5)
    reported = histogram.numbers()
    histogram.add(5)
    assert reported.counts == [0, 1, 0]


@pytest.mark.parametrize("buckets_ms", [COMMIT_BUCKETS_MS, DELIVERY_BUCKETS_MS])
def test_buckets_ascend(buckets_ms: tuple[float, ...]) -> None:
    assert list(buckets_ms) == sorted(set(buckets_ms)) and buckets_ms[0] > 0
