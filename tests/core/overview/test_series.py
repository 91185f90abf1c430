"""The samples of the broker, and quantiles of a second."""

import pytest

from radiator.core.overview.series import COLUMNS, COUNT_MAX, Series, quantile_ms
from radiator.model.limits import HISTORY_S

NOW_MS = 1_700_000_000_000
BUCKETS_MS = (1.0, 2.0, 10.0)


def put(series: Series, second: int, **more: float | None) -> None:
    series.put(series.periods.take(NOW_MS + second * 1000), {**dict.fromkeys(COLUMNS, 0), **more})


def test_each_number_is_a_column() -> None:
    series = Series()
    put(series, 0, **{"in": 7}, receipt_p50_ms=None, memory_bytes=2**40)
    put(series, 1, **{"in": COUNT_MAX + 1}, receipt_p50_ms=1.23456)
    places = series.periods.after(0)
    assert series.values("in", places) == [7, COUNT_MAX]
    assert series.values("receipt_p50_ms", places) == [None, 1.23]
    assert series.values("memory_bytes", places) == [2**40, 0]
    assert series.values("in", range(0)) == []


def test_an_hour_is_kept_in_order_and_gaps_are_none() -> None:
    series = Series()
    for second in [*range(4000), 4100]:
        put(series, second, stored=second)
    values = series.values("stored", series.periods.after(NOW_MS + 4100_000 - HISTORY_S * 1000))
    assert len(values) == HISTORY_S
    assert values == [*range(501, 4000), *[None] * 100, 4100]


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0, 0], 0.5, None),
        ([4, 0, 0, 0], 0.5, 0.5),
        ([4, 0, 0, 0], 0.99, 0.99),
        ([1, 1, 0, 0], 0.5, 1.0),
        ([0, 0, 2, 0], 0.5, 6.0),
        ([0, 0, 0, 3], 0.5, 10.0),
    ],
)
def test_a_quantile_lies_in_its_bucket(counts: list[int], share: float, expected: float | None) -> None:
    assert quantile_ms(BUCKETS_MS, counts, share) == expected
