"""Counts the failed logins against a name or a network: a bounded number, which falls with time."""


class Failures:
    """most: how many at once; for each further one `every_s` must pass. kept: how many keys; the oldest are
    forgotten.
    """

    __slots__ = ("_every_s", "_kept", "_most", "_spent")

    def __init__(self, most: int, every_s: float, kept: int) -> None:
        self._most = most
        self._every_s = every_s
        self._kept = kept
        self._spent: dict[str, float] = {}  # by key, the time at which all its failures are forgotten

    def is_full(self, key: str, now_s: float) -> bool:
        """Whether a further attempt is not answered now."""
        forgotten_s = self._spent.get(key, 0.0)
        return forgotten_s - now_s > (self._most - 1) * self._every_s

    def add(self, key: str, now_s: float) -> None:
        """Adds a failure."""
        forgotten_s = max(self._spent.pop(key, 0.0), now_s)
        self._spent[key] = forgotten_s + self._every_s
        if len(self._spent) > self._kept:
            del self._spent[next(iter(self._spent))]

    def take_back(self, key: str) -> None:
        """Removes the last failure, which was not one."""
        if key in self._spent:
            self._spent[key] -= self._every_s

    def __len__(self) -> int:
        return len(self._spent)
