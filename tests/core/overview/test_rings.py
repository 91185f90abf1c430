"""The samples of the busiest queues."""

from typing import Any

from radiator.core.overview.rings import BUSIER, EVERY_MS, PLACES, Ring, Rings
from radiator.model.limits import HISTORY_QUEUES
from tests.core.bare import in_memory

NOW_MS = 1_700_000_000_000


def named(name: str) -> Any:
    queue = in_memory()
    queue.name = name
    return queue


def take(rings: Rings, nth: int) -> range:
    return rings.periods.take(NOW_MS + nth * EVERY_MS)


def test_a_ring_has_the_samples_since_it_began() -> None:
    rings, queue = Rings(), named("a")
    take(rings, 0)
    rings.choose([(1.0, queue)])
    assert rings.samples(rings.all[queue], 0) == (range(2, 2), [[], [], [], []])
    for nth in (1, 2):
        rings.all[queue].put(take(rings, nth), (nth, 10 * nth, 2**40, 0))
    places, columns = rings.samples(rings.all[queue], 0)
    assert rings.periods.time_ms(places[0]) == NOW_MS + EVERY_MS
    assert columns == [[1, 2], [10, 20], [2**32 - 1] * 2, [0, 0]]
    assert rings.samples(rings.all[queue], NOW_MS + EVERY_MS)[1][0] == [2]


def test_it_keeps_an_hour() -> None:
    rings, ring = Rings(), Ring(1, 0.0)
    for nth in range(PLACES + 30):
        ring.put(take(rings, nth), (nth, 0, 0, 0))
    assert rings.samples(ring, 0)[1][0] == [*range(30, PLACES + 30)]


def test_the_least_busy_one_makes_place_for_one_that_is_much_busier() -> None:
    rings = Rings()
    queues = [named(f"q{number}") for number in range(HISTORY_QUEUES)]
    rings.choose([(10.0 + number, queue) for number, queue in enumerate(queues)])
    assert len(rings.all) == HISTORY_QUEUES
    a_little, much = named("little"), named("much")
    rings.choose([(10.0 * BUSIER, a_little)])
    assert a_little not in rings.all and queues[0] in rings.all
    rings.choose([(10.0 * BUSIER + 1, much), (10.0 * BUSIER, a_little)])
    assert much in rings.all and queues[0] not in rings.all
    assert a_little not in rings.all and queues[1] in rings.all and len(rings.all) == HISTORY_QUEUES


def test_a_queue_that_is_gone_is_let_go() -> None:
    rings, gone, there = Rings(), named("gone"), named("there")
    rings.choose([(1.0, gone), (1.0, there)])
    gone.is_gone = True
    rings.let_go()
    assert [*rings.all] == [there]
