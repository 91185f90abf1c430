"""Get and SetWindow: what they say where little is given."""

from radiator.model.ack_modes import CLIENT_INDIVIDUAL
from radiator.model.getting import Get, SetWindow


def test_what_is_got_is_acked_by_its_client_unless_it_says_otherwise() -> None:
    assert Get(1, "/queue/q", b"1").ack == CLIENT_INDIVIDUAL


def test_a_window_is_set_without_a_receipt_unless_one_is_asked_for() -> None:
    assert SetWindow(1, 0).receipt is None
