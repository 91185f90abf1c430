"""One open connection to another node: what is said on it goes into its outgoing buffer, until it is closed."""

import pytest

from radiator.core.cluster.link import WORD_COST_BYTES, Link
from radiator.core.connections import MESSAGE_COST_BYTES
from radiator.model.limits import LINK_OUTBOX_BYTES
from radiator.model.peer import Credit, Identity
from radiator.model.replies import SendToPeer
from tests.core.bare import connection, context

IDENTITY = Identity("b", "c" * 16, False)


def test_a_word_is_said_and_costs_the_outgoing_buffer() -> None:
    turns, of = context(), connection(7)
    link = Link(of, IDENTITY, turns)
    link.send(Credit("q", 5))
    link.send(Credit("q", 6), size=1000)
    assert turns.turn.replies == [SendToPeer(7, Credit("q", 5)), SendToPeer(7, Credit("q", 6))]
    assert of.outbox_bytes == WORD_COST_BYTES + 1000 + 2 * MESSAGE_COST_BYTES and link.name == "b"


def test_nothing_is_said_on_one_that_is_being_closed() -> None:
    turns, of = context(), connection(7)
    of.is_closing = True
    Link(of, IDENTITY, turns).send(Credit("q", 5))
    assert not turns.turn.replies and of.outbox_bytes == 0


@pytest.mark.parametrize(("waiting", "is_full"), [(LINK_OUTBOX_BYTES - 1, False), (LINK_OUTBOX_BYTES, True)])
def test_it_is_full_at_its_bound(waiting: int, is_full: bool) -> None:
    of = connection(7)
    of.outbox_bytes = waiting
    assert Link(of, IDENTITY, context()).is_full is is_full


def test_a_new_one_has_given_and_got_nothing() -> None:
    link = Link(connection(), IDENTITY, context())
    assert not any((link.given, link.arrived, link.allowed, link.declared_here, link.declared_there))
    assert link.gives[0] is not link.gives[1] and link.takes[0] is not link.gives[0]
