"""The bounds of AMQP beside those of all protocols."""

from radiator.model import amqp_limits
from radiator.model.limits import Limits


def test_each_is_there_and_more_than_nothing() -> None:
    bounds = {name: value for name, value in vars(amqp_limits).items() if name.isupper() and name != "KIB"}
    assert len(bounds) == 12 and all(value > 0 for value in bounds.values())


def test_a_frame_is_smaller_than_a_message_and_what_is_held_is_a_part_of_it() -> None:
    assert amqp_limits.AMQP_HELD_BYTES <= amqp_limits.AMQP_FRAME_BYTES <= Limits().max_frame_bytes
    assert amqp_limits.AMQP_CHANNELS_MAX < 1 << 16, "the number of a channel has two bytes on the wire"
