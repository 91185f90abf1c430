"""Deadlines: each thing is found at its time, by steps, once, and never before."""

from random import Random

from radiator.core.deadlines import Deadlines


def test_a_thing_is_found_at_its_time_and_not_before() -> None:
    times: Deadlines[str] = Deadlines(1.0)
    times.add("a", 10.0)
    times.add("b", 10.2)
    assert times.take_due(9.999, 10) == []
    assert times.take_due(10.0, 10) == ["a"], "b is over within this second"
    assert times.take_due(10.999, 10) == []
    assert times.take_due(11.0, 10) == ["b"]
    assert times.take_due(100.0, 10) == []


def test_what_has_ended_otherwise_is_not_found() -> None:
    times: Deadlines[str] = Deadlines(0.25)
    times.add("a", 1.1)
    times.remove("a", 1.1)
    times.remove("a", 1.1)
    times.remove("b", 7.0)
    assert times.take_due(9.0, 10) == []
    times.add("a", 1.1)
    assert times.take_due(9.0, 10) == ["a"]


def test_at_most_so_many_are_taken_and_the_rest_the_next_time() -> None:
    times: Deadlines[int] = Deadlines(1.0)
    for number in range(5):
        times.add(number, 1.0 + number // 3)
    found = [times.take_due(5.0, 2) for _ in range(4)]
    assert [len(some) for some in found] == [2, 2, 1, 0]
    assert sorted(sum(found, [])) == [0, 1, 2, 3, 4]


def test_what_comes_and_goes_leaves_nothing_behind_its_time() -> None:
    times: Deadlines[int] = Deadlines(1.0)
    for number in range(10_000):
        times.add(number, 5.0)
        times.remove(number, 5.0)
    assert len(times.keys) == len(times.buckets) == 1
    assert times.take_due(5.0, 1) == []
    assert not times.keys and not times.buckets


def test_the_first_is_known_and_what_has_left_is_not_it() -> None:
    times: Deadlines[str] = Deadlines(10)
    assert times.first is None
    times.add("a", 1_700_000_000_001)
    times.add("b", 1_700_000_000_020)
    assert times.first == 1_700_000_000_010
    times.remove("a", 1_700_000_000_001)
    assert times.first == 1_700_000_000_020
    times.add("a", 1_700_000_000_010)
    assert times.first == 1_700_000_000_010 and times.take_due(1_700_000_000_009, 1) == []
    assert times.take_due(1_700_000_000_010, 9) == ["a"] and times.first == 1_700_000_000_020
    times.remove("b", 1_700_000_000_020)
    assert times.first is None and not times.buckets


def test_as_a_list_that_is_searched() -> None:
    random = Random(1)
    times, known = Deadlines[int](1.0), dict[int, float]()
    now_s = 0.0
    for number in range(3000):
        known[number] = now_s + random.random() * 20
        times.add(number, known[number])
        if random.random() < 0.5:
            gone = random.choice([*known])
            times.remove(gone, known.pop(gone))
        now_s += random.random() * 0.1
        for found in times.take_due(now_s, random.choice([1, 3, 1000])):
            assert known.pop(found) <= now_s
    times.take_due(now_s, 1000)
    assert all(due_s > now_s - 1 for due_s in known.values()), "none is found more than a step late"
