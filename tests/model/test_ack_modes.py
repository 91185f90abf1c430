"""The words of the header `ack`, as clients write them."""

from radiator.model import ack_modes, commands


def test_the_modes_are_those_of_stomp_and_have_one_home() -> None:
    modes = (ack_modes.AUTO, ack_modes.CLIENT, ack_modes.CLIENT_INDIVIDUAL)
    assert modes == ("auto", "client", "client-individual")
    assert modes == (commands.AUTO, commands.CLIENT, commands.CLIENT_INDIVIDUAL)
