"""Times are counted in buckets, also those that come again and again."""

from radiator.core.histogram import Histogram
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
