"""When samples were taken: at whole multiples of a period; and which of the last of these have one."""

FILLED = 3  # a sample that is up to so many periods late counts for all of them; a later one leaves a gap


class Periods:
    """The places of a ring of samples, numbered from 1 on; `newest` is the last one, 0: there is none. Several rings
    may share it.

    A sample that comes a few periods late counts for all of them. After a longer gap, in which the process did not run
    or its clock was set forward, the places between have none. If the clock was set back, the samples before get
    earlier times, so that none is lost.
    """

    __slots__ = ("capacity", "every_ms", "newest", "period", "taken")

    def __init__(self, every_ms: int, capacity: int) -> None:
        self.every_ms = every_ms
        self.capacity = capacity
        self.newest = 0
        self.period = 0  # of the newest, counted from the epoch
        self.taken = bytearray(capacity)

    def due(self, now_ms: int) -> int:
        """Returns how many places further the next sample is; 0: it is not due."""
        period = now_ms // self.every_ms
        if not self.newest:
            return 1
        if self.period - FILLED < period <= self.period:
            return 0  # at most the clock was corrected a little
        return max(1, period - self.period)

    def take(self, now_ms: int) -> range:
        """Returns the places that the sample taken now is for. Those between, if any, have none."""
        steps = self.due(now_ms)
        assert steps, "it is not due"
        for place in range(self.newest + 1, self.newest + 1 + min(steps, self.capacity)):
            self.taken[place % self.capacity] = 0
        first = self.newest + 1 if self.newest and steps <= FILLED else self.newest + steps
        self.newest += steps
        self.period = now_ms // self.every_ms
        for place in range(first, self.newest + 1):
            self.taken[place % self.capacity] = 1
        return range(first, self.newest + 1)

    def time_ms(self, place: int) -> int:
        """Returns when the sample at that place was taken, in milliseconds since the epoch."""
        return (self.period - self.newest + place) * self.every_ms

    def after(self, after_ms: int, begun: int = 1) -> range:
        """Returns the places, from `begun` on, that are still kept and whose time is later than that."""
        behind = after_ms // self.every_ms - self.period + self.newest + 1
        return range(max(1, begun, self.newest - self.capacity + 1, behind), self.newest + 1)

    def there(self, places: range) -> bytes:
        """Returns, for each of these places, 1 if it has a sample that no later one has replaced, else 0."""
        oldest, taken, capacity = self.newest - self.capacity, self.taken, self.capacity
        return bytes(taken[at % capacity] if at > oldest else 0 for at in places)


def share_at(places: range, every_ms: int, elapsed_s: float) -> float:
    """Returns the share of what has come since the last sample that each of these places shows: after a gap, only as
    much as comes in a period. Otherwise nothing is lost: the sum over all samples is what came.
    """
    if len(places) > 1:
        return 1 / len(places)
    return every_ms / 1000 / elapsed_s if elapsed_s * 1000 > FILLED * every_ms else 1.0
