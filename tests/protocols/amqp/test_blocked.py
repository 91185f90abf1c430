"""connection.blocked and unblocked: at the first channel that waits, and after the last."""

import pytest

from radiator.protocols.amqp.blocked import BlockedChannels
from radiator.protocols.amqp.connection_methods import ConnectionBlocked, ConnectionUnblocked
from tests.protocols.amqp.talking import methods_in


def test_the_first_that_waits_is_told_and_the_last_that_goes_on() -> None:
    blocked = BlockedChannels()
    blocked.is_wanted = True
    assert methods_in(blocked.pause(1, "No room.")) == [(0, ConnectionBlocked("No room."))]
    assert blocked.pause(2, "No room.") == blocked.pause(1, "No room.") == blocked.resume(1) == blocked.resume(1) == b""
    assert methods_in(blocked.resume(2)) == [(0, ConnectionUnblocked())]
    assert blocked.resume(2) == b""
    assert methods_in(blocked.pause(1, "No room.")) == [(0, ConnectionBlocked("No room."))], "again"


def test_a_moment_is_not_worth_a_word() -> None:
    blocked = BlockedChannels()
    blocked.is_wanted = True
    assert blocked.pause(1, "") == blocked.resume(1) == b""
    blocked.is_wanted = False
    assert blocked.pause(1, "No room.") == blocked.resume(1) == b"", "nor is who does not ask word"


@pytest.mark.parametrize("letter", ["a", "ä", "€"])
def test_a_cause_is_cut_between_letters_at_255_bytes(letter: str) -> None:
    blocked = BlockedChannels()
    blocked.is_wanted = True
    ((_, word),) = methods_in(blocked.pause(1, letter * 300))
    assert isinstance(word, ConnectionBlocked) and 253 <= len(word.reason.encode()) <= 255
