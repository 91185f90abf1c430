"""A large message on its way in pieces, as either end has it at first."""

from radiator.core.cluster.parcel import IncomingParcel, OutgoingParcel
from tests.core.bare import entry


def test_nothing_goes_before_the_other_node_has_said_so() -> None:
    one = entry(7, size=100)
    out = OutgoingParcel(1, "/queue/q", one, one.message.body, print, begun_s=5.0)
    assert (out.at, out.may_go, out.carried_s, out.is_offered) == (0, False, None, False)
    assert out.body is one.message.body, "it is kept though a consumer takes the message meanwhile"


def test_nothing_has_come_and_two_share_no_pieces() -> None:
    some = [IncomingParcel(number, ("a", "s", 1, 1, number), "/queue/q", 100) for number in range(2)]
    some[0].pieces.append(b"x")
    assert (some[1].pieces, some[1].have, some[1].may_come) == ([], 0, False)
    assert some[0] != IncomingParcel(0, some[0].key, "/queue/q", 100), "each is itself"
