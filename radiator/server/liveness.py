"""Whether the other end still answers, by what its system has acknowledged. Pure: the time is an argument."""

from collections.abc import Callable

from radiator.model.limits import LOOKS_PER_TCP_TIMEOUT, RESET_LOOK_S
from radiator.server.transport import PeerActivity

_ZERO_WINDOW_PROBES = 3  # so many unanswered probes mean a dead peer: a live one answers each at once


def is_dead(answer: PeerActivity, owing_s: float, tcp_timeout_s: float) -> bool:
    """Whether the peer must be taken for dead. owing_s: how long it has acknowledged nothing of what was sent."""
    if not answer.is_owing or owing_s < tcp_timeout_s or answer.silent_ms < tcp_timeout_s * 1000:
        return False
    return answer.unacked > 0 or answer.probes >= _ZERO_WINDOW_PROBES


class Liveness:
    """The liveness of one connection. due_s: when to look again."""

    __slots__ = ("_owing_since_s", "_settled_bytes", "_tcp_timeout_s", "due_s")

    def __init__(self, tcp_timeout_s: float) -> None:
        self.due_s = 0.0
        self._tcp_timeout_s = tcp_timeout_s
        self._settled_bytes = 0  # how many sent bytes are known to have arrived
        self._owing_since_s = 0.0

    def is_settled(self, sent_bytes: int) -> bool:
        """Whether all that was sent is known to have arrived."""
        return self._settled_bytes == sent_bytes

    def look(self, now_s: float, sent_bytes: int, is_held: bool, ask: Callable[[], PeerActivity]) -> str:
        """Returns why the connection must be closed; "": it need not be. Asks the system only if sent bytes may not
        have arrived, or if nothing is read (is_held), so that no read would report a lost connection.
        """
        self.due_s = now_s + (RESET_LOOK_S if is_held else self._tcp_timeout_s / LOOKS_PER_TCP_TIMEOUT)
        if self.is_settled(sent_bytes) and not is_held:
            return ""
        try:
            answer = ask()
        except OSError as error:
            return f"lost: {error.strerror}"
        if answer.is_reset:
            return "the other end has reset the connection"
        if not answer.is_owing:
            self._settled_bytes = sent_bytes
            self._owing_since_s = 0.0
            return ""
        self._owing_since_s = self._owing_since_s or now_s
        # two looks less, so that a dead peer is found within tcp_timeout_s
        patience_s = self._tcp_timeout_s * (LOOKS_PER_TCP_TIMEOUT - 2) / LOOKS_PER_TCP_TIMEOUT
        return "its TCP does not answer" if is_dead(answer, now_s - self._owing_since_s, patience_s) else ""
