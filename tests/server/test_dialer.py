"""When a node is dialled, and what is remembered of links: without a network."""

import os
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from radiator.model.commands import NotLinked
from radiator.model.limits import DIAL_AGAIN_MAX_S, DIAL_AGAIN_MIN_S, LINK_REFUSALS_KEPT, NODE_NEIGHBOURS_MAX, Limits
from radiator.model.settings import Address, Node, TlsSettings
from radiator.server.dialer import Dialer, back_off_s
from radiator.server.links import LinkRegistry
from radiator.server.log import EventLog
from radiator.server.tls import TlsListeners
from radiator.server.tls_pair import load_pair
from tests.certificates import Authority

B = Address("peer", "127.0.0.1", 61614)


class Logged:
    """A log in a file, and Links that write to it."""

    def __init__(self, file: Path, node: Node | None) -> None:
        self.file = file
        self.number = os.open(file, os.O_WRONLY | os.O_CREAT)
        self.log = EventLog(self.number)
        self.reports: list[NotLinked] = []
        self.links = LinkRegistry(node, "s1", Limits(), self.log, self.reports.append)

    def lines(self) -> list[str]:
        """What was logged, without the times; the end of the log."""
        self.log.close()
        return [line.partition(" ")[2] for line in self.file.read_text().splitlines()]


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    logged = Logged(tmp_path / "log", Node(name="a", secret=b"s" * 16, peers={"b": B, "c": None}))
    yield logged
    logged.log.close()
    os.close(logged.number)


def test_back_off_doubles_up_to_its_most() -> None:
    assert [back_off_s(tries, 1.0) for tries in range(9)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert back_off_s(10**9, 1.0) == DIAL_AGAIN_MAX_S


def test_back_off_has_jitter_and_is_never_short() -> None:
    assert back_off_s(0, 0.0) == DIAL_AGAIN_MIN_S / 2
    assert back_off_s(0, 0.0) < back_off_s(0, 0.5) < back_off_s(0, 1.0)
    assert back_off_s(100, 0.0) == DIAL_AGAIN_MAX_S / 2


def test_nodes_of_the_list_are_known(logged: Logged) -> None:
    assert [name for name in ("a", "b", "c", "d") if logged.links.is_known(name)] == ["b", "c"]
    assert logged.links.sockets_max == 4 * 3


def test_a_node_alone_knows_nobody(tmp_path: Path) -> None:
    links = Logged(tmp_path / "log", None).links
    assert not links.is_known("b")
    assert links.sockets_max == 0


def test_a_node_that_was_learned_is_known_as_long_as_there_is_room(logged: Logged) -> None:
    links = logged.links
    links.know("b", None)
    assert links.neighbours["b"].address == B, "the list says where it is"
    for number in range(NODE_NEIGHBOURS_MAX):
        links.know(f"n{number}", B)
    assert len(links.neighbours) == NODE_NEIGHBOURS_MAX
    assert links.is_known(f"n{NODE_NEIGHBOURS_MAX - 3}") and not links.is_known(f"n{NODE_NEIGHBOURS_MAX - 2}")


def test_with_discover_a_node_is_known_that_proves_itself_and_dialled_once_it_is_learned(tmp_path: Path) -> None:
    logged = Logged(tmp_path / "log", Node(name="a", secret=b"s" * 16, peers={"b": B}, discover=True))
    links = logged.links
    assert links.is_known("c") and "c" not in links.neighbours, "nothing is kept of who only says a name"
    links.opened(1, "c", "10.0.0.3:1")
    assert links.neighbours["c"].address is None and links.neighbours["c"].links == 1
    for number in range(NODE_NEIGHBOURS_MAX - 3):
        links.know(f"n{number}", B)
    assert links.is_known("last")
    links.know("last", B)
    assert links.is_known("last") and not links.is_known("one too many")
    links.opened(1, "one too many", "10.0.0.3:1")  # was asked for before the last one came
    links.closed("one too many")


def test_a_link_is_wanted_while_there_is_none_and_nobody_tries(logged: Logged) -> None:
    b = logged.links.neighbours["b"]
    assert b.is_wanting.is_set()
    logged.links.began(1, "b", "")
    assert not b.is_wanting.is_set()
    logged.links.opened(1, "b", "127.0.0.1:1")  # it has dialled us meanwhile
    logged.links.hung_up(1, "b")
    assert not b.is_wanting.is_set()
    logged.links.opened(1, "b", "127.0.0.1:2")
    logged.links.closed("b")
    assert not b.is_wanting.is_set(), "of two links one is left"
    logged.links.closed("b")
    assert b.is_wanting.is_set()
    assert 0 <= b.lasted_s < 5


def test_who_has_proved_nothing_gives_way_to_one_more(logged: Logged) -> None:
    links = logged.links
    for number in range(12):
        assert links.in_the_way("n") is None
        links.began(number, "b" if number == 0 else "", f"n{number}")
    assert links.in_the_way("n11") == 11, "of the same network, if there is one"
    assert {links.in_the_way("n") for _ in range(500)} == {*range(1, 12)}, "what was dialled stays"
    links.opened(1, "c", "10.0.0.3:1")
    assert not links.is_stranger(1) and links.in_the_way("n1") in range(2, 12)
    for number in range(2, 12):
        links.hung_up(number, "")
    assert links.in_the_way("n") is None
    for number in range(12, 22):
        links.began(number, "b", "")
    assert links.in_the_way("n") is None, "nobody is there who might go"


def test_a_refusal_is_told_once_until_there_is_a_link(logged: Logged) -> None:
    refused = logged.links.refused
    for port in range(3):
        refused("", f"10.0.0.2:{port}", "wrong")
        refused("b", "10.0.0.3:1", "wrong")
    refused("b", "10.0.0.3:1", "worse")
    logged.links.opened(1, "b", "10.0.0.9:1")
    refused("b", "10.0.0.3:1", "wrong")
    refused("", "10.0.0.2:9", "wrong")
    assert logged.lines() == [
        "warning link_refused peer=10.0.0.2:0 cause=wrong",
        "warning link_refused node=b peer=10.0.0.3:1 cause=wrong",
        "warning link_refused node=b peer=10.0.0.3:1 cause=worse",
        "warning link_refused node=b peer=10.0.0.3:1 cause=wrong",
    ]


def test_a_host_that_has_been_linked_is_told_of_again(logged: Logged) -> None:
    logged.links.refused("", "10.0.0.2:1", "wrong")
    logged.links.opened(1, "b", "10.0.0.2:2")
    logged.links.refused("", "10.0.0.2:3", "wrong")
    assert len(logged.lines()) == 2


def test_what_has_been_logged_is_bounded(logged: Logged) -> None:
    for number in range(LINK_REFUSALS_KEPT + 1):
        logged.links.refused("", f"10.0.0.2:{number}", f"claims to be {number}")
    assert len(logged.links._logged) == 1


def test_the_broker_is_told_each_time_why_there_is_no_link(logged: Logged) -> None:
    refused = logged.links.refused
    refused("b", "10.0.0.2:1", "it does not answer")
    refused("b", "10.0.0.2:1", "it does not answer")
    refused("b", "10.0.0.2:1", "refused: wrong-node: No.", other="b", is_refused=True)
    refused("", "10.0.0.3:1", "refused: wrong-secret: No.", other="c", is_refused=True)
    refused("", "10.0.0.4:1", "hung up")  # nobody knows who that was
    assert logged.reports == [
        NotLinked("b", "it does not answer", False),
        NotLinked("b", "it does not answer", False),
        NotLinked("b", "refused: wrong-node: No.", True),
        NotLinked("c", "refused: wrong-secret: No.", True),
    ]
    assert len(logged.lines()) == 4


@pytest.mark.parametrize(
    ("with_ca", "address", "is_dialled"),
    [
        (False, "peer://127.0.0.1:1", True),
        (False, "peers://127.0.0.1:1", False),
        (True, "peer://127.0.0.1:1", False),
        (True, "peers://127.0.0.1:1", True),
        (True, "", False),
    ],
)
def test_what_others_tell_is_dialled_over_tls_by_who_has_a_ca_to_judge_by(
    logged: Logged, tmp_path: Path, with_ca: bool, address: str, is_dialled: bool
) -> None:
    dialer = Dialer(logged.links, None, Limits())  # type: ignore[arg-type]  # nothing is dialled yet
    if with_ca:
        authority = Authority(tmp_path)
        made = authority.pair("server")
        given = TlsSettings(certificate=made.certificate, key=made.key, peer_ca=authority.certificate)
        dialer.tls = TlsListeners(gevent.get_hub().loop, load_pair(given), [], logged.log)
    dialer.add("d", address)
    dialer.stop()
    assert logged.links.is_known("d") is is_dialled
    if address and not is_dialled:
        why = "over TLS only, since [tls] has peer_ca" if with_ca else "without TLS, for want of peer_ca"
        assert logged.reports == [NotLinked("d", f"is not dialled: what others tell is dialled {why}", False)]
