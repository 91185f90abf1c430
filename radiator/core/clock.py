"""What time it is for all that goes by the time of day: expiry, delays, dedup-ids, retention, prepared transactions.

It is the system's, unless that is further from the time that the broker knows than it can have become by itself: then a
wrong clock would let go of everything at once. What the broker knows is the last time that its store has kept, and how
long it has run since. A stop of some months, a suspended machine and a clock without a battery that is set after the
start are within the bound. A time before CLOCK_SET_MS is none that the broker could know: no clock had been set then.
"""

from radiator.model.limits import CLOCK_JUMP_MAX_S, CLOCK_SET_MS

_JUMP_MAX_MS = int(CLOCK_JUMP_MAX_S * 1000)


class Clock:
    """ahead_ms: how far the system's clock is ahead of the broker's, which goes on by itself then; 0: they agree."""

    __slots__ = ("_known_ms", "_known_s", "ahead_ms")

    def __init__(self, known_ms: int, now_s: float, system_ms: int) -> None:
        """known_ms: what the store has kept; 0: nothing, so that the system's clock is believed."""
        self.ahead_ms = 0
        self._known_ms = known_ms or system_ms
        self._known_s = now_s

    def at(self, now_s: float, system_ms: int) -> int:
        """The time in milliseconds since the epoch. now_s: monotonic seconds; system_ms: what the system says."""
        here_ms = self._known_ms + int((now_s - self._known_s) * 1000)
        if here_ms < CLOCK_SET_MS or -_JUMP_MAX_MS <= system_ms - here_ms <= _JUMP_MAX_MS:
            self._known_ms, self._known_s = system_ms, now_s
            self.ahead_ms = 0
            return system_ms
        self.ahead_ms = system_ms - here_ms
        return here_ms
