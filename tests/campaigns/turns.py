"""`radiator`, which says in its log of each turn of its loop that took TOLD_MS or more when it ended (monotonic), and
how many milliseconds of CPU it took. What other programs take of the machine does not count.
"""

import sys
import time

import gevent

from radiator.tools.cli import main

TOLD_MS = 3.0


class Turns:
    """From now on, until the end of the process."""

    def __init__(self) -> None:
        loop = gevent.get_hub().loop
        self._began_s = time.thread_time()
        self._before, self._behind = loop.prepare(ref=False), loop.check(ref=False)  # of the loop's wait
        self._before.start(self._end)
        self._behind.start(self._begin)

    def _begin(self) -> None:
        self._began_s = time.thread_time()

    def _end(self) -> None:
        ms = (time.thread_time() - self._began_s) * 1000
        if ms >= TOLD_MS:
            sys.stderr.write(f"turn {time.monotonic()} {ms}\n")


if __name__ == "__main__":
    turns = Turns()
    sys.exit(main())
