"""The date and time as HTTP writes them."""

import time
from collections.abc import Callable
from email.utils import formatdate


class HttpDate:
    """A call returns the value of Date for a response sent now (RFC 9110, section 5.6.7). now_s: returns seconds since
    the epoch.
    """

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._second = -1
        self._date = b""

    def __call__(self) -> bytes:
        second = int(self._now_s())
        if second != self._second:
            self._second = second
            self._date = formatdate(second, usegmt=True).encode()
        return self._date
