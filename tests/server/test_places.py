"""Who has a place among the clients, and which half-open connection goes for one more; chance is an argument."""

import pytest

from radiator.model.limits import Limits
from radiator.server.log import EventLog
from radiator.server.places import Places


class Lines(EventLog):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))


def places(connections: int = 3, half_open: int = 6, each: int = 4, chosen: int = 0) -> tuple[Places, Lines]:
    log = Lines()
    return Places(connections, half_open, each, log, choose=lambda below: min(chosen, below - 1)), log


def test_half_open_connections_take_no_place_of_clients() -> None:
    some, _ = places(connections=1)
    for number in range(4):
        some.enter(number, "127.0.0.1")
    assert not some.is_full("x")
    some.connect(0)
    assert some.is_full("x") and not some.is_half_open(0) and some.is_half_open(1)
    some.leave(0)
    assert not some.is_full("x")


@pytest.mark.parametrize("chosen", range(4))
def test_one_of_the_same_network_goes_for_one_more(chosen: int) -> None:
    some, _ = places(chosen=chosen)
    some.enter(100, "10.0.0.2")
    for number in range(4):
        assert some.in_the_way("10.0.0.1") is None
        some.enter(number, "10.0.0.1")
    assert some.in_the_way("10.0.0.1") == chosen
    assert some.in_the_way("10.0.0.2") is None


def test_one_of_all_goes_where_all_are_too_many() -> None:
    some, _ = places(chosen=5)
    for number in range(6):
        some.enter(number, f"10.0.0.{number}")
    assert some.in_the_way("10.0.0.77") == 5
    some.leave(5)
    assert some.in_the_way("10.0.0.77") is None


def test_what_comes_from_no_address_has_the_bound_of_all_alone() -> None:
    some, _ = places()
    for number in range(6):
        assert some.in_the_way("") is None
        some.enter(number, "")
    assert some.in_the_way("") == 0


def test_log_is_told_of_each_crowd_once() -> None:
    some, log = places()
    for number in range(4):
        some.enter(number, "10.0.0.1")
    for _ in range(3):
        some.in_the_way("10.0.0.1")
    assert log.lines == [("half_open_full", {"connections": 4, "network": "10.0.0.1"})]
    some.enter(4, "10.0.0.2")
    some.enter(5, "10.0.0.2")
    for _ in range(3):
        some.in_the_way("10.0.0.3")
        some.in_the_way("10.0.0.1")
    assert log.lines[1:] == [("half_open_full", {"connections": 6, "networks": 2})]
    for number in range(6):
        some.leave(number)
    for number in range(4):
        some.enter(number, "10.0.0.1")
    some.in_the_way("10.0.0.1")
    assert len(log.lines) == 3, "they had gone, and are a new crowd"


def test_leaving_without_a_place_changes_nothing() -> None:
    some, _ = places()
    some.leave(9)
    some.enter(1, "10.0.0.1")
    some.leave(1)
    some.leave(1)
    assert some.in_the_way("10.0.0.1") is None


def test_one_address_has_a_part_of_all_half_open_ones() -> None:
    limits = Limits()
    assert limits.max_half_open_per_address < limits.max_half_open < limits.max_connections
