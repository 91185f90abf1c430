"""Offsets, ranges and limits: pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.integrations.spark.offsets import (
    DataLoss,
    LogState,
    Offsets,
    Range,
    SourceLog,
    at_most,
    begin,
    beyond,
    check_losses,
    from_json,
    lags,
    limited,
    ranges,
    report,
    split,
    still_there,
    to_json,
    unread,
    without,
)
from radiator.model.errors import RadiatorError

A, B, A2 = SourceLog("a", "1"), SourceLog("b", "1"), SourceLog("a", "2")


def state(log: SourceLog, *bounds: tuple[int, int]) -> LogState:
    first = {partition: one for partition, (one, _) in enumerate(bounds)}
    return LogState(log, first, {partition: one for partition, (_, one) in enumerate(bounds)}, len(bounds))


def test_offsets_are_json_in_one_order() -> None:
    offsets: Offsets = {B: {0: 7}, SourceLog("x@y", "1"): {1: 2, 0: 1}}
    assert list(to_json(offsets)) == ["b@1", "x@y@1"]
    assert to_json(offsets) == {"b@1": {"0": 7}, "x@y@1": {"0": 1, "1": 2}}
    assert from_json(to_json(offsets)) == offsets


@pytest.mark.parametrize("found", [{"a": {"0": 1}}, {"a@1": 5}])
def test_another_sources_checkpoint_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(RadiatorError, match="is not Radiator's: use another checkpoint"):
        from_json(found)


def test_ranges_lie_between_two_offsets() -> None:
    states = {A: state(A, (0, 9), (3, 9))}
    assert ranges({A: {0: 2, 1: 5}}, {A: {0: 4, 1: 5}}, states) == [Range(A, 0, 2, 4)]
    assert ranges({}, {A: {0: 4, 1: 9}}, states) == [Range(A, 0, 0, 4), Range(A, 1, 3, 9)]
    assert ranges({}, {A: {1: 2}}, states) == []
    assert ranges({A: {0: 5}}, {A: {0: 5}}, states) == []


@pytest.mark.parametrize(
    ("whole", "at_least", "counts"),
    [
        ([], 4, []),
        ([Range(A, 0, 0, 10)], 1, [10]),
        ([Range(A, 0, 0, 10)], 3, [3, 3, 4]),
        ([Range(A, 0, 0, 2)], 5, [1, 1]),
        ([Range(A, 0, 0, 90), Range(A, 1, 0, 10)], 4, [22, 23, 22, 23, 10]),
        ([Range(A, 0, 0, 5), Range(A, 1, 0, 5)], 2, [5, 5]),
    ],
)
def test_ranges_are_split(whole: list[Range], at_least: int, counts: list[int]) -> None:
    assert [one.count for one in split(whole, at_least)] == counts


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(1, 40))
def test_what_is_split_is_the_same(counts: list[int], at_least: int) -> None:
    whole = [Range(A, partition, 7, 7 + count) for partition, count in enumerate(counts)]
    parts = split(whole, at_least)
    assert [(one.partition, offset) for one in parts for offset in range(one.first, one.end)] == [
        (one.partition, offset) for one in whole for offset in range(one.first, one.end)
    ]
    assert len(parts) >= min(at_least, sum(counts))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5), st.integers(1, 100))
def test_a_limit_is_shared(lags: list[int], most: int) -> None:
    start: Offsets = {A: dict.fromkeys(range(len(lags)), 10)}
    latest: Offsets = {A: {partition: 10 + lag for partition, lag in enumerate(lags)}}
    end = limited(start, latest, most)
    shares = [end[A][partition] - 10 for partition in range(len(lags))]
    assert sum(shares) == min(most, sum(lags))
    assert all(0 <= share <= lag for share, lag in zip(shares, lags, strict=True))


def test_a_target_is_not_passed() -> None:
    assert at_most({A: {0: 9, 1: 9}, B: {0: 4}}, {A: {0: 5, 1: 20}}, {A: {0: 6, 1: 3}, B: {0: 2}}) == {
        A: {0: 6, 1: 9},
        B: {0: 2},
    }


def test_a_reader_goes_on_where_it_was() -> None:
    assert begin({A: {0: 5}}, {"a": state(A, (0, 9))}) == ({A: {0: 5}}, [])
    assert begin({A: {0: 5}}, {"a": state(A, (5, 5))}) == ({A: {0: 5}}, [])


def test_a_new_log_is_read_from_its_first_record() -> None:
    assert begin({A: {0: 5}}, {"a": state(A, (0, 9), (3, 9)), "b": state(B, (2, 9))}) == (
        {A: {0: 5, 1: 3}, B: {0: 2}},
        [],
    )


def test_what_is_not_read_any_more_keeps_its_offsets() -> None:
    start: Offsets = {A: {0: 5, 1: 7}, B: {0: 3}}
    only_a = {"a": state(A, (0, 9), (0, 9))}
    assert unread(start, only_a) == {B: {0: 3}}
    assert begin(start, only_a) == (start, [])
    only_one = {"a": LogState(A, {1: 0}, {1: 9}, 2), "b": state(B, (0, 9))}
    assert unread(start, only_one) == {A: {0: 5}}
    assert begin(start, only_one) == (start, [])
    # another log of that name is none that was left out
    assert unread(start, {"a": state(A2, (0, 9)), "b": state(B, (0, 9))}) == {}


def test_a_log_that_is_gone_is_told() -> None:
    left, [reported] = without({A: {0: 5, 1: 7}, B: {0: 3}}, {"a", "c"})
    assert left == {B: {0: 3}}
    assert reported.startswith(
        "/log/a is not there any more: whether it had records from 5 (partition 0), 7 (partition 1) on"
    )
    assert without({A: {0: 5}}, ()) == ({A: {0: 5}}, [])


def test_how_far_a_batch_is_behind() -> None:
    latest: Offsets = {A: {0: 10, 1: 4}, B: {0: 7}}
    assert lags({A: {0: 1, 1: 4}, A2: {0: 99}}, latest) == [9, 0, 0]
    assert report({A: {0: 1, 1: 4}, B: {0: 6}}, latest, "/log/a, /log/b at stomp://b:1") == {
        "a@1": {"0": 10, "1": 4},
        "b@1": {"0": 7},
        "radiator": {
            "source": "/log/a, /log/b at stomp://b:1",
            "offsetsBehindLatest": 10,
            "minOffsetsBehindLatest": 0,
            "maxOffsetsBehindLatest": 9,
            "avgOffsetsBehindLatest": 3.3,
        },
    }
    assert report({}, {}, "nothing")["radiator"]["maxOffsetsBehindLatest"] == 0


@pytest.mark.parametrize(
    ("now", "going", "sentence"),
    [
        (state(A, (6, 9)), {A: {0: 6}}, "the offsets 5 to 5 have gone before Spark has read them."),
        (state(A, (0, 4)), {A: {0: 4}}, "ends before offset 4, but offset 4 has been read"),
        (state(A2, (0, 9)), {A2: {0: 0}}, "is another log than the one that the checkpoint speaks of"),
    ],
)
def test_what_is_lost_is_told(now: LogState, going: Offsets, sentence: str) -> None:
    found, [reported] = begin({A: {0: 5}}, {"a": now})
    assert found == going
    assert sentence in reported


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        (state(A, (6, 9)), [Range(A, 0, 6, 8)]),
        (state(A, (0, 7)), [Range(A, 0, 5, 7)]),
        (state(A, (8, 9)), []),
        (state(A2, (0, 9)), []),
    ],
)
def test_a_batch_that_is_not_there_whole_is_told(now: LogState, kept: list[Range]) -> None:
    found, [reported] = still_there([Range(A, 0, 5, 8)], {now.log: now})
    assert found == kept
    assert reported == "Not all of offsets 5 to 7 of /log/a, partition 0 (incarnation 1) is there any more."


def test_a_batch_that_is_there_is_let_be() -> None:
    assert still_there([Range(A, 0, 5, 8)], {A: state(A, (5, 8))}) == ([Range(A, 0, 5, 8)], [])


def test_a_start_at_the_end_is_nothing_and_one_behind_it_is_told() -> None:
    assert beyond({A: {0: 9}}, {A: state(A, (5, 9))}) == []
    assert beyond({A: {0: 10}}, {A: state(A, (5, 9))}) == [
        "/log/a, partition 0, ends before offset 9: it cannot be read from 10 on."
    ]


def test_a_loss_is_a_failure_where_that_is_asked_for() -> None:
    assert check_losses([], True) == []
    assert check_losses(["One is gone."], False) == ["One is gone."]
    with pytest.raises(DataLoss, match="One is gone.\nTo go on .* failOnDataLoss to false"):
        check_losses(["One is gone."], True)
