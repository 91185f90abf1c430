"""Shares are even, few keys move when a consumer comes or goes, and nobody has to remember anything."""

import time

import pytest

from radiator.core.connections import Subscription
from radiator.core.queues.assignments import Assignee, Assignments
from radiator.model.keys import hash_of
from tests.core import bare

Keys = dict[bytes, Assignee | None]


def leave(assignments: Assignments, subscription: Subscription) -> Assignee:
    """For good."""
    assignee = assignments.go_away(subscription)
    assignments.forget(assignee.name)
    return assignee


HASHES = [hash_of(b"key %d" % number) for number in range(2000)]


def of(consumers: int) -> Assignments:
    assignments = Assignments()
    for number in range(consumers):
        join(assignments, number)
    return assignments


def join(assignments: Assignments, number: int) -> Assignee:
    queue = bare.in_memory()
    subscription = bare.consumer(queue, bare.connection(number))
    return assignments.join(f"{number} 0", subscription)


def look(assignments: Assignments, keys: Keys) -> int:
    """Each key becomes free once. Returns how many have moved."""
    moves = 0
    for key_hash, before in keys.items():
        after = assignments.assign(key_hash, before)
        if after is not before:
            assignments.moved(before, after)
            moves += before is not None
            keys[key_hash] = after
    return moves


def assigned(assignments: Assignments, count: int) -> Keys:
    keys: Keys = dict.fromkeys(HASHES[:count])
    look(assignments, keys)
    return keys


def shares(assignments: Assignments, keys: Keys) -> list[int]:
    """How many keys each has; the books say the same."""
    owners = list(keys.values())
    counts = [owners.count(one) for one in assignments.of.values()]
    assert counts == [one.load for one in assignments.of.values()] and sum(counts) == assignments.total
    return counts


def test_without_consumers_a_key_is_assigned_to_nobody() -> None:
    assignments = Assignments()
    assert assignments.assign(HASHES[0], None) is None and assignments.known == 0


def test_one_consumer_has_all_keys() -> None:
    assignments = of(1)
    assert shares(assignments, assigned(assignments, 50)) == [50]


@pytest.mark.parametrize("per_consumer", [10, 11, 37, 100])
@pytest.mark.parametrize("consumers", [2, 3, 7, 16, 20])
def test_shares_are_equal_within_a_tenth(consumers: int, per_consumer: int) -> None:
    assignments = of(consumers)
    counts = shares(assignments, assigned(assignments, consumers * per_consumer))
    assert min(counts) >= 0.9 * per_consumer and max(counts) <= 1.1 * per_consumer


@pytest.mark.parametrize(("consumers", "keys"), [(3, 1), (3, 3), (10, 3), (10, 10)])
def test_with_fewer_keys_than_consumers_nobody_has_two(consumers: int, keys: int) -> None:
    assignments = of(consumers)
    assert max(shares(assignments, assigned(assignments, keys))) == 1


def test_what_is_even_stays() -> None:
    assignments = of(7)
    keys = assigned(assignments, 700)
    assert look(assignments, keys) == look(assignments, keys) == 0


@pytest.mark.parametrize("consumers", [1, 2, 4, 9, 19])
def test_who_comes_gets_a_share_and_few_keys_move(consumers: int) -> None:
    assignments = of(consumers)
    count = 100 * consumers
    keys = assigned(assignments, count)
    newcomer = join(assignments, consumers)
    moves = look(assignments, keys)
    moves += look(assignments, keys)
    share = count / (consumers + 1)
    counts = shares(assignments, keys)
    assert 0.9 * share <= min(counts) <= max(counts) <= 1.1 * share and moves <= 1.2 * share
    assert newcomer.load <= share + 1


@pytest.mark.parametrize("consumers", [2, 5, 20])
def test_who_goes_gives_away_little_but_what_it_had(consumers: int) -> None:
    assignments = of(consumers)
    keys = assigned(assignments, 100 * consumers)
    before = dict(keys)
    gone = leave(assignments, next(iter(assignments.of)))
    assert not gone.is_there and assignments.total == 100 * consumers - gone.load
    look(assignments, keys)
    assert sum(keys[key] is not owner for key, owner in before.items() if owner is not gone) <= consumers // 2
    share = 100 * consumers / (consumers - 1)
    counts = shares(assignments, keys)
    assert 0.9 * share <= min(counts) and max(counts) <= 1.1 * share


def test_a_newcomer_is_not_starved_though_each_key_is_free_but_now_and_then() -> None:
    assignments = of(2)
    keys = assigned(assignments, 40)
    newcomer = join(assignments, 2)
    for key_hash in list(keys)[::2]:
        part: Keys = {key_hash: keys[key_hash]}
        look(assignments, part)
        keys |= part
    assert newcomer.load >= 9


def test_a_consumer_without_room_gets_no_more_keys_of_others() -> None:
    assignments = of(2)
    keys = assigned(assignments, 40)
    newcomer = join(assignments, 2)
    newcomer.subscription.is_listed = False
    assert look(assignments, keys) == 0 and newcomer.load == 0


def test_the_same_names_give_the_same_assignment() -> None:
    def names(order: list[int]) -> list[str]:
        assignments = Assignments()
        for number in order:
            join(assignments, number)
        found = [assignments.assign(key_hash, None) for key_hash in HASHES[:200]]
        return [one.name for one in found if one is not None]

    first = names([0, 1, 2, 3, 4])
    assert len(first) == 200 and names([4, 2, 0, 1, 3]) == first != names([0, 1, 2, 3, 5])


def test_most_keys_that_come_again_find_their_consumer() -> None:
    assignments = of(5)
    keys = assigned(assignments, 500)
    before = dict(keys)
    for key_hash, owner in keys.items():
        assignments.moved(owner, None)
        keys[key_hash] = None
    assert assignments.total == 0
    look(assignments, keys)
    assert sum(keys[key] is owner for key, owner in before.items()) > 250


@pytest.mark.parametrize("key_hash", [bytes(8), b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7)])
def test_the_ring_has_no_end(key_hash: bytes) -> None:
    for consumers in (1, 2, 300):
        assignments = of(consumers)
        points = sorted((point, one.name) for point, one in assignments._owners.items())
        name = next((name for point, name in points if point >= key_hash), points[0][1])
        found = assignments.assign(key_hash, None)
        assert found is not None and found.name == name


def test_two_of_the_same_name_share_one_place_and_one_may_go() -> None:
    assignments = Assignments()
    first, second = join(assignments, 1), join(assignments, 1)
    keys = assigned(assignments, 20)
    assert abs(first.load - second.load) <= 2
    leave(assignments, second.subscription)
    look(assignments, keys)
    assert first.load == 20


def test_of_two_of_the_same_name_the_first_may_go() -> None:
    assignments = Assignments()
    first, second = join(assignments, 1), join(assignments, 1)
    keys = assigned(assignments, 20)
    leave(assignments, first.subscription)
    look(assignments, keys)
    assert second.load == 20


def test_ten_thousand_consumers_come_and_go_in_bounded_time() -> None:
    subscriptions = [bare.consumer(bare.in_memory(), bare.connection(number)) for number in range(10_000)]

    def took_s(count: int) -> float:
        assignments = Assignments()
        began_s = time.process_time()
        for number, subscription in enumerate(subscriptions[:count]):
            assignments.join(f"{number} 0", subscription)
            assignments.assign(HASHES[number % len(HASHES)], None)
        for subscription in subscriptions[:count]:
            leave(assignments, subscription)
        assert assignments.known == 0
        return time.process_time() - began_s

    few_s = min(took_s(1000) for _ in range(3))
    assert took_s(10_000) < 100 * few_s


def test_keys_that_all_consumers_get_at_once_cost_no_more_for_the_later_ones() -> None:
    assignments = of(3000)
    began_s = time.process_time()
    keys = assigned(assignments, 2000)
    assert max(shares_of(keys)) == 1 and time.process_time() - began_s < 2


def shares_of(keys: Keys) -> list[int]:
    return [one.load for one in keys.values() if one is not None]
