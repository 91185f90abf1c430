"""When a lost connection is tried again: pure, so time and chance are arguments."""

import pytest

from radiator.client import Reconnect
from radiator.client.reconnect import Attempts

MIDDLE = 0.5  # no jitter


def test_delays_grow_to_the_most() -> None:
    policy = Reconnect(first_s=1, factor=3, most_s=10)
    assert [policy.delay_s(rounds, MIDDLE) for rounds in (1, 2, 3, 4, 5000)] == [1, 3, 9, 10, 10]


@pytest.mark.parametrize(("chance", "delay_s"), [(0.0, 7.5), (MIDDLE, 10.0), (1.0, 12.5)])
def test_jitter_makes_delays_shorter_and_longer(chance: float, delay_s: float) -> None:
    assert Reconnect(first_s=10, most_s=10, jitter=0.25).delay_s(1, chance) == delay_s


@pytest.mark.parametrize(
    "wrong",
    [
        {"first_s": 0},
        {"first_s": 2, "most_s": 1},
        {"factor": 0.9},
        {"jitter": 1.1},
        {"jitter": -0.1},
        {"timeout_s": -1},
    ],
)
def test_policy_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is not a policy"):
        Reconnect(**wrong)  # type: ignore[arg-type]


def test_all_addresses_are_tried_before_a_delay() -> None:
    attempts = Attempts(Reconnect(first_s=1, most_s=8), 3)
    assert attempts.lost(1, 100.0, MIDDLE)
    tried = []
    now_s = 100.0
    for _ in range(7):
        now_s = max(now_s, attempts.try_at_s)
        tried.append((attempts.next_address, now_s))
        assert attempts.failed(now_s, MIDDLE)
    assert tried == [(1, 100), (2, 100), (0, 100), (1, 101), (2, 101), (0, 101), (1, 103)]


def test_time_to_give_up_begins_with_the_first_failure() -> None:
    attempts = Attempts(Reconnect(first_s=1, most_s=1, timeout_s=5), 1)
    attempts.lost(0, 100.0, MIDDLE)
    assert attempts.failed(3600.0, MIDDLE), "nobody called for an hour: nothing was tried"
    assert attempts.failed(3604.9, MIDDLE)
    assert not attempts.failed(3605.0, MIDDLE)


def test_connection_that_did_not_prove_itself_was_in_vain() -> None:
    attempts = Attempts(Reconnect(first_s=1, most_s=4, timeout_s=100), 1)
    attempts.lost(0, 10.0, MIDDLE)
    assert attempts.try_at_s == 10.0
    for delay_s in (1, 2, 4, 4):
        attempts.connected()
        assert attempts.lost(0, 20.0, MIDDLE)
        assert attempts.try_at_s == 20.0 + delay_s
    attempts.connected()
    attempts.proven()
    assert attempts.lost(0, 30.0, MIDDLE)
    assert attempts.try_at_s == 30.0


def test_no_time_at_all_gives_up_at_the_first_failure() -> None:
    attempts = Attempts(Reconnect(timeout_s=0), 2)
    assert attempts.lost(0, 1.0, MIDDLE)
    assert not attempts.failed(1.0, MIDDLE)
