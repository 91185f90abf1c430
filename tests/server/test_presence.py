"""One connection as the rest of the server counts it: it takes a place once, and gives it back in any case."""

from radiator.model.commands import NotLinked, Open
from radiator.model.limits import Limits
from radiator.model.peer import Identity
from radiator.model.settings import Node
from radiator.protocols.schemes import SCHEMES
from radiator.server.links import LinkRegistry
from radiator.server.places import Places
from radiator.server.presence import ClientPresence, LinkPresence
from tests.server.shell import KeptLog


def test_a_client_takes_a_place_with_its_connect_and_leaves_it_at_the_end() -> None:
    log = KeptLog()
    places = Places(1, 5, 5, log)
    first, second = (ClientPresence(number, "p", places, log) for number in (1, 2))
    for number in (1, 2):
        places.enter(number, "n")
    assert not first.is_full() and second.is_full()
    first.opened(Open(1))
    first.closed("hung up")
    first.gone()
    assert not second.is_full()
    assert log.events[-2:] == ["connected", "disconnected"]
    assert log.lines[-1][2] == {"connection": 1, "peer": "p", "cause": "hung up"}


def test_a_client_that_never_connected_is_told_of_and_leaves_no_place_behind() -> None:
    log = KeptLog()
    places = Places(1, 5, 5, log)
    places.enter(1, "n")
    one = ClientPresence(1, "p", places, log)
    make = SCHEMES["stomp"].session
    assert make is not None and "All 1 connections" in one.full_sentence
    one.not_opened(make(1, "s", Limits()), "no CONNECT")
    one.gone()
    assert log.events == ["not_connected"] and places.half_open == 0


def links(reports: list[NotLinked], log: KeptLog) -> LinkRegistry:
    return LinkRegistry(Node(name="a", secret=b"s" * 16, peers={"b": None}), "s", Limits(), log, reports.append)


def test_a_link_takes_a_socket_from_its_beginning_to_its_end() -> None:
    log, reports = KeptLog(), []
    some = links(reports, log)
    one = LinkPresence(7, "p", "n", some, log, "b")
    assert some.sockets == 1 and not one.is_full()
    one.opened(Open(7, Identity("b", "c" * 16, False)))
    one.closed("hung up")
    one.gone()
    assert some.sockets == 0 and reports == []
    assert log.events == ["linked", "unlinked"] and log.lines[0][2]["node"] == "b"


def test_a_link_that_was_not_opened_is_told_to_the_broker() -> None:
    log, reports = KeptLog(), []
    some = links(reports, log)
    one = LinkPresence(7, "p", "n", some, log, "b")
    one.not_opened(some.session(7, "b"), "hung up")
    one.gone()
    assert [report.peer for report in reports] == ["b"] and some.sockets == 0
