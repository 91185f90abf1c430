"""Cables between simulated nodes: order in each direction, loss, and words of an old one that come after the new."""

import pytest

from radiator.model.commands import Closed, Event, Open, PeerMessage, Read
from radiator.model.limits import Limits
from radiator.model.peer import Taken
from radiator.model.replies import Refuse, SendToPeer
from radiator.model.settings import Declarations
from tests.sim.cable import Cable, Dialler, End
from tests.sim.disk import Platter
from tests.sim.simulation import Scheduler, SimNode


class Ear(SimNode):
    """A node that only writes down what its broker would be told."""

    def turn(self, *events: Event) -> None:
        self.events = [*getattr(self, "events", []), *events]

    def words(self, number: int) -> list[int]:
        reads = [event for event in self.events if isinstance(event, Read) and event.connection == number]
        return [word.word.last for read in reads for word in read.commands if isinstance(word, PeerMessage)]

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


class Bench:
    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler(seed)
        self.a, self.b = (
            Ear(self.scheduler, name, Declarations(), Limits(), None, Platter(name * 16)) for name in ("a", "b")
        )
        self.cables: list[Cable] = []

    def lay(self, dialler: SimNode, acceptor: SimNode) -> Cable:
        self.cables.append(Cable(self.scheduler, dialler, acceptor, 0.01, lambda end, word: word))
        return self.cables[-1]

    def opened(self) -> tuple[Cable, End, End]:
        cable = self.lay(self.a, self.b)
        self.run()
        return cable, *cable.ends

    def say(self, end: End, *numbers: int) -> None:
        for number in numbers:
            end.reply(SendToPeer(end.number, Taken(number)))

    def run(self, for_s: float = 1.0) -> None:
        self.scheduler.run(self.scheduler.now_s + for_s)


def test_both_sides_learn_who_is_there() -> None:
    bench = Bench()
    _, near, far = bench.opened()
    (ours,) = [event for event in bench.a.events if isinstance(event, Open)]
    (theirs,) = [event for event in bench.b.events if isinstance(event, Open)]
    assert (ours.connection, theirs.connection) == (near.number, far.number)
    assert ours.peer is not None and (ours.peer.name, ours.peer.store_id, ours.peer.is_dialled) == ("b", "b" * 16, True)
    assert theirs.peer is not None and (theirs.peer.name, theirs.peer.is_dialled) == ("a", False)


@pytest.mark.parametrize("seed", range(5))
def test_words_come_in_order_each_way(seed: int) -> None:
    bench = Bench(seed)
    _, near, far = bench.opened()
    bench.say(near, *range(20))
    bench.say(far, *range(100, 120))
    bench.run()
    assert bench.b.words(far.number) == [*range(20)] and bench.a.words(near.number) == [*range(100, 120)]


def test_a_cut_is_found_out_by_both_and_carries_nothing_more() -> None:
    bench = Bench()
    cable, near, far = bench.opened()
    cable.cut()
    bench.say(near, 1)
    bench.run()
    assert bench.b.words(far.number) == [] and cable.is_over
    assert bench.a.count(Closed) == bench.b.count(Closed) == 1


def test_words_of_an_old_cable_come_after_the_new_one_is_up() -> None:
    bench = Bench()
    old, near, far = bench.opened()
    bench.say(near, 1, 2)
    old.half_open(deaf=1, for_s=0.5)
    bench.run(0.3)
    assert near.is_over and not far.is_over and bench.b.words(far.number) == []
    new, near_new, far_new = bench.opened()
    assert bench.b.words(far.number) == [1, 2], "at the door until then"
    opens = [event.connection for event in bench.b.events if isinstance(event, Open)]
    assert opens == [far.number, far_new.number]
    kinds = [(type(event), event.connection) for event in bench.b.events if isinstance(event, Open | Read)]
    assert kinds.index((Open, far_new.number)) < kinds.index((Read, far.number))
    bench.run()
    assert far.is_over and not new.is_over and not near_new.is_over


def test_a_mute_side_is_taken_for_dead() -> None:
    bench = Bench()
    cable, near, far = bench.opened()
    cable.silence(mute=0, for_s=0.3)
    bench.say(near, 1)
    bench.say(far, 2)
    bench.run(0.2)
    assert bench.b.words(far.number) == [] and bench.a.words(near.number) == [2] and not far.is_over
    bench.run()
    assert cable.is_over


def test_a_refusal_ends_it_behind_what_was_said_before() -> None:
    bench = Bench()
    cable, near, far = bench.opened()
    bench.say(near, 1)
    near.reply(Refuse(near.number, "duplicate-link", "."))
    bench.run()
    assert bench.b.words(far.number) == [1] and far.is_over and cable.is_over


def test_a_node_without_power_says_nothing_and_the_other_finds_out() -> None:
    bench = Bench()
    cable, _, far = bench.opened()
    bench.a.down()
    bench.run(2.0)
    assert cable.is_over and far.is_over and bench.b.count(Closed) == 1


@pytest.mark.parametrize(("is_blind", "cables"), [(False, 1), (True, 2)])
def test_a_dialler_lays_one_where_it_knows_of_none(is_blind: bool, cables: int) -> None:
    bench = Bench()
    for node, to in ((bench.a, bench.b), (bench.b, bench.a)):
        Dialler(bench.scheduler, node, to, 0.2, is_blind, bench.lay, bench.cables)
        bench.run(3.0)  # one after the other: who dials while a cable is being opened knows of none
    assert len(bench.cables) == cables
    bench.cables[0].cut()
    bench.run(3.0)
    assert len(bench.cables) == cables + 1
