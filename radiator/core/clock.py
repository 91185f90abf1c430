"""The time of day, for all that depends on it: expiry, delays, dedup-ids, retention, prepared transactions.

It is the system clock's, unless that is more than CLOCK_JUMP_MAX_S from the broker's own time: a wrong clock would let
everything expire or fall due at once. The broker's own time is the last time that its store has kept, plus how long it
has run since. A stop of some months, a suspended machine and a clock without a battery that is set after the start are
within the bound. If its own time is before CLOCK_SET_MS it is not trusted: no clock had been set then.
"""

from radiator.model.limits import CLOCK_JUMP_MAX_S, CLOCK_SET_MS

_JUMP_MAX_MS = int(CLOCK_JUMP_MAX_S * 1000)


class Clock:
    """ahead_ms: how far the system's clock is ahead of the broker's own time, while that is used; 0: it is not used."""

    __slots__ = ("_known_ms", "_known_s", "ahead_ms")

    def __init__(self, known_ms: int, now_s: float, system_ms: int) -> None:
        """known_ms: the time that the store has kept; 0: none, so the system's clock is trusted."""
        self.ahead_ms = 0
        self._known_ms = known_ms or system_ms
        self._known_s = now_s

    def at(self, now_s: float, system_ms: int) -> int:
        """Returns the time, in milliseconds since the epoch. now_s: monotonic seconds; system_ms: the system's time."""
        here_ms = self._known_ms + int((now_s - self._known_s) * 1000)
        if here_ms < CLOCK_SET_MS or -_JUMP_MAX_MS <= system_ms - here_ms <= _JUMP_MAX_MS:
            self._known_ms, self._known_s = system_ms, now_s
            self.ahead_ms = 0
            return system_ms
        self.ahead_ms = system_ms - here_ms
        return here_ms
