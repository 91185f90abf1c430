"""When a lost connection is tried again, and when it is given up."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Reconnect:
    """All addresses are tried at once, then again after `first_s`, then after `factor` times as long, at most `most_s`.

    jitter: each delay is randomly up to this share shorter or longer, so that many clients do not return together.
    timeout_s: after so long without a connection the client gives up and is closed.
    resend: whether a SEND whose RECEIPT has not come is sent again; if not, ConnectionLost says its fate is unknown.
    """

    first_s: float = 0.1
    factor: float = 2.0
    most_s: float = 10.0
    jitter: float = 0.25
    timeout_s: float = 300.0
    resend: bool = True

    def __post_init__(self) -> None:
        """Raises ValueError if the numbers are not a possible policy."""
        if not (0 < self.first_s <= self.most_s and self.factor >= 1 and 0 <= self.jitter <= 1 and self.timeout_s >= 0):
            raise ValueError(
                f"{self} is not a policy: it needs 0 < first_s <= most_s, factor >= 1, 0 <= jitter <= 1, "
                "timeout_s >= 0."
            )

    def delay_s(self, rounds: int, chance: float) -> float:
        """Returns the delay after so many rounds without success; chance: from 0 to 1."""
        delay_s = self.first_s
        for _ in range(rounds - 1):
            if delay_s >= self.most_s:
                break
            delay_s *= self.factor
        return min(delay_s, self.most_s) * (1 + self.jitter * (2 * chance - 1))


class Attempts:
    """Decides where and when to try next. Time and chance are arguments.

    A connection is proven once all earlier subscriptions are restored on it. One that is lost before that counts as a
    failed attempt, so that a broker which refuses a subscription is not asked for it again without a pause.
    """

    def __init__(self, policy: Reconnect, addresses: int) -> None:
        self.policy = policy
        self.next_address = 0
        self.try_at_s = 0.0
        self._addresses = addresses
        self._vain = 0  # tries since the last success
        self._vain_since_s = 0.0
        self._is_proven = True

    def connected(self) -> None:
        """Called when there is a connection, which is not proven yet."""
        self._is_proven = False

    def proven(self) -> None:
        """Called when the connection is proven."""
        self._is_proven, self._vain = True, 0

    def lost(self, address: int, now_s: float, chance: float) -> bool:
        """Called when the connection to that address is lost. Returns False to give up."""
        self.next_address = address
        if not self._is_proven:
            return self.failed(now_s, chance)
        self.try_at_s = now_s
        return True

    def failed(self, now_s: float, chance: float) -> bool:
        """Called when a try has failed. False: give up."""
        self._vain_since_s = now_s if self._vain == 0 else self._vain_since_s
        self._vain += 1
        self.next_address = (self.next_address + 1) % self._addresses
        rounds, within = divmod(self._vain, self._addresses)
        self.try_at_s = now_s if within else now_s + self.policy.delay_s(rounds, chance)
        return now_s - self._vain_since_s < self.policy.timeout_s
