"""How many failures are answered: at the bound, one past it, and as time goes on."""

from radiator.auth.failures import Failures


def spent(failures: Failures, key: str, now_s: float, count: int) -> None:
    for _ in range(count):
        failures.add(key, now_s)


def test_as_many_as_may_be_and_one_more() -> None:
    failures = Failures(3, 10.0, 100)
    spent(failures, "a", 100.0, 2)
    assert not failures.is_full("a", 100.0)
    failures.add("a", 100.0)
    assert failures.is_full("a", 100.0) and failures.is_full("a", 109.9)
    assert not failures.is_full("a", 110.0)
    failures.add("a", 110.0)
    assert failures.is_full("a", 110.0)


def test_all_are_forgotten_in_time_and_no_more_than_all() -> None:
    failures = Failures(3, 10.0, 100)
    spent(failures, "a", 0.0, 3)
    spent(failures, "a", 1000.0, 2)
    assert not failures.is_full("a", 1000.0)
    failures.add("a", 1000.0)
    assert failures.is_full("a", 1000.0)


def test_those_of_one_key_are_not_those_of_another() -> None:
    failures = Failures(1, 10.0, 100)
    failures.add("a", 0.0)
    assert failures.is_full("a", 0.0) and not failures.is_full("b", 0.0)


def test_one_is_taken_back() -> None:
    failures = Failures(2, 10.0, 100)
    spent(failures, "a", 5.0, 2)
    failures.take_back("a")
    failures.take_back("never")
    assert not failures.is_full("a", 5.0)
    failures.add("a", 5.0)
    assert failures.is_full("a", 5.0)


def test_the_oldest_key_makes_way() -> None:
    failures = Failures(1, 10.0, 2)
    for key in ("a", "b", "a", "c"):
        failures.add(key, 0.0)
    assert len(failures) == 2
    assert failures.is_full("a", 0.0) and failures.is_full("c", 0.0) and not failures.is_full("b", 0.0)
