"""Get, SetWindow and FindAsker: what they say where little is given."""

from typing import get_args

from radiator.model.ack_modes import CLIENT_INDIVIDUAL
from radiator.model.commands import Command
from radiator.model.getting import FindAsker, Get, SetWindow, TakingCommand


def test_what_is_got_is_acked_by_its_client_unless_it_says_otherwise() -> None:
    assert Get(1, "/queue/q", b"1").ack == CLIENT_INDIVIDUAL


def test_a_window_is_set_without_a_receipt_unless_one_is_asked_for() -> None:
    assert SetWindow(1, 0).receipt is None


def test_each_is_a_command() -> None:
    assert {Get, SetWindow, FindAsker} == {*get_args(TakingCommand)} <= {*get_args(Command)}
