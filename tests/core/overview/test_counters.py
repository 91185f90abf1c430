"""What moves in queues: by their ledgers alone, with the time as an argument."""

from typing import Any

from radiator.core.overview.counters import CANDIDATES, Counters, Totals, candidates_of
from radiator.core.overview.rings import Ring
from radiator.model.limits import HISTORY_QUEUES
from tests.core.bare import in_memory


def queue_with(accepted: int = 0, acked: int = 0) -> Any:
    queue = in_memory()
    move(queue, accepted, acked)
    return queue


def move(queue: Any, accepted: int = 0, acked: int = 0) -> None:
    queue.ledger.accepted += accepted
    queue.ledger.acked += acked
    queue.ledger.stored += accepted - acked


def look(counters: Counters, *queues: Any, now_s: float = 0.0) -> Totals:
    totals = Totals()
    counters.look(queues, totals, now_s)
    counters.has_looked = True
    return totals


def test_what_was_there_at_the_start_has_not_come() -> None:
    counters, old = Counters(0.0), queue_with(10, 4)
    totals = look(counters, old)
    assert (totals.came, totals.left, totals.stored) == (0, 0, 6)
    move(old, 3, 1)
    new = queue_with(2, 2)
    totals = look(counters, old, new)
    assert (totals.came, totals.left, totals.stored) == (5, 3, 8)
    totals = look(counters, old, new)
    assert (totals.came, totals.left) == (0, 0)


def test_a_column_that_goes_round_is_no_spike() -> None:
    counters, queue = Counters(0.0), queue_with(2**32 - 1)
    look(counters, queue)
    move(queue, 5)
    assert look(counters, queue).came == 5


def test_a_queue_that_is_gone_leaves_its_place_to_another_and_no_negative_rate() -> None:
    counters, gone = Counters(0.0), queue_with(100)
    look(counters, gone)
    gone.is_gone = True
    [*counters.let_go()]
    assert not counters.places and counters.free == [0]
    new = queue_with(1)
    totals = look(counters, new)
    assert totals.came == 1 and counters.places == {new: 0}
    assert counters.rates(new) == (None, None), "not those of the one before"


def rate(
    counters: Counters, *queues: Any, elapsed_s: float, rings: dict[Any, Ring] | None = None, most: int = 9
) -> Any:
    candidates: list[Any] = []
    counters.rate(queues, elapsed_s, rings or {}, range(1, 2), 1.0, candidates, most)
    return candidates


def test_rates_are_of_the_last_interval() -> None:
    counters, queue = Counters(0.0), queue_with(10)
    look(counters, queue)
    assert counters.rates(queue) == (None, None) == counters.rates(in_memory())
    rate(counters, queue, elapsed_s=0)
    assert counters.rates(queue) == (None, None), "there was none before"
    move(queue, 51, 10)
    rate(counters, queue, elapsed_s=5.0)
    assert counters.rates(queue) == (10.2, 2.0)
    rate(counters, queue, elapsed_s=5.0)
    assert counters.rates(queue) == (0.0, 0.0)


def test_the_busiest_are_candidates_and_who_has_a_ring_gets_a_sample() -> None:
    counters = Counters(0.0)
    queues = [queue_with() for _ in range(5)]
    look(counters, *queues)
    for number, queue in enumerate(queues):
        queue.name = f"q{number}"
        move(queue, number, number)
    ring = Ring(1, 0.0)
    candidates = rate(counters, *queues, elapsed_s=5, rings={queues[4]: ring}, most=2)
    assert sorted(name for _, name, _ in candidates) == ["q2", "q3"]
    assert ring.score == 8 and [*ring.values[4:8]] == [4, 4, 0, 0]


def test_one_that_holds_messages_comes_before_one_that_is_empty() -> None:
    counters, empty, full = Counters(0.0), queue_with(), queue_with(3)
    look(counters, empty, full)
    assert [queue for _, _, queue in rate(counters, empty, full, elapsed_s=5, most=1)] == [full]


def test_how_long_nothing_has_left_it() -> None:
    counters, queue = Counters(100.0), queue_with()
    look(counters, queue, now_s=160.0)
    assert counters.still_for_s(queue, 160.0) == 0, "it is empty"
    move(queue, 2)
    look(counters, queue, now_s=170.0)
    assert counters.still_for_s(queue, 200.0) == 40
    move(queue, 0, 1)
    look(counters, queue, now_s=210.0)
    assert counters.still_for_s(queue, 211.0) == 1 and counters.still_for_s(in_memory(), 211.0) == 0


def test_as_many_get_a_ring_as_are_free_and_a_few_always() -> None:
    assert candidates_of(0) == HISTORY_QUEUES and candidates_of(HISTORY_QUEUES) == CANDIDATES
