"""When a peer is taken for gone, by what its system says; time is an argument."""

import pytest

from radiator.model.limits import LOOKS_PER_TCP_TIMEOUT, RESET_LOOK_S
from radiator.server.liveness import Liveness, is_dead
from radiator.server.transport import PeerActivity

TIMEOUT_S = 60
LOOK_S = TIMEOUT_S / LOOKS_PER_TCP_TIMEOUT


@pytest.mark.parametrize(
    "answer, owing_s, dead",
    [
        (PeerActivity(0, 0, 0, 10**9), 10**6, False),  # idle for days: nothing is due
        (PeerActivity(5, 0, 0, 60_000), 60, True),
        (PeerActivity(5, 0, 0, 59_999), 60, False),  # it has answered
        (PeerActivity(5, 0, 0, 10**9), 59, False),  # idle for long, then written to: it has its time
        (PeerActivity(0, 9, 0, 60_000), 60, False),  # its window is zero, and it was not asked in vain
        (PeerActivity(0, 9, 2, 60_000), 60, False),
        (PeerActivity(0, 9, 3, 60_000), 60, True),
        (PeerActivity(0, 9, 3, 59_999), 60, False),
    ],
)
def test_peer_is_dead_only_if_it_owes_and_says_nothing(answer: PeerActivity, owing_s: float, dead: bool) -> None:
    assert is_dead(answer, owing_s, TIMEOUT_S) is dead


def never() -> PeerActivity:
    raise AssertionError("the system is not asked")


def test_the_system_is_not_asked_where_nothing_was_sent_since() -> None:
    live = Liveness(TIMEOUT_S)
    assert live.look(10.0, 0, False, never) == "" and live.due_s == 10.0 + LOOK_S
    assert live.look(20.0, 5, False, PeerActivity) == "", "all of it has arrived"
    assert live.look(30.0, 5, False, never) == ""


def test_who_owes_is_dead_within_the_timeout_and_no_sooner() -> None:
    live = Liveness(TIMEOUT_S)
    now_s, found_s = 0.0, None
    while found_s is None:
        now_s = live.due_s
        if live.look(now_s, 5, False, lambda: PeerActivity(unacked=1, silent_ms=10**9)):
            found_s = now_s
    assert TIMEOUT_S / 2 < found_s <= TIMEOUT_S


def test_an_answer_begins_the_time_anew() -> None:
    live = Liveness(TIMEOUT_S)
    owing = PeerActivity(unacked=1, silent_ms=10**9)
    assert live.look(1.0, 5, False, lambda: owing) == ""
    assert live.look(50.0, 5, False, PeerActivity) == ""
    assert live.look(51.0, 9, False, lambda: owing) == ""
    assert live.look(100.0, 9, False, lambda: owing) == "its TCP does not answer"


def test_while_nothing_is_read_a_reset_is_looked_for_soon() -> None:
    live = Liveness(TIMEOUT_S)
    assert live.look(10.0, 0, True, PeerActivity) == "" and live.due_s == 10.0 + RESET_LOOK_S
    assert live.look(11.0, 0, True, lambda: PeerActivity(is_reset=True)) == "the other end has reset the connection"


def test_a_socket_that_cannot_be_asked_is_lost() -> None:
    def lost() -> PeerActivity:
        raise OSError(9, "Bad file descriptor")

    assert Liveness(TIMEOUT_S).look(1.0, 5, False, lost) == "lost: Bad file descriptor"
