"""Makes glibc's malloc keep a little freed memory, and return more of it. Does nothing with other libraries.

By default malloc returns the end of the heap to the system whenever 128 KiB of it are free, and a frame of 64 KiB then
costs its page faults again and again: 16 producers with a window of 100 such frames reach 6,500 a second, and 10,700
with `keep_heap`. It returns the end only: one small block that stays there keeps all that was freed before it.
HeapTrimmer returns that as well.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from radiator.model.limits import (
    HEAP_FREED_BYTES,
    HEAP_KEPT_BYTES,
    HEAP_MAPPED_BYTES,
    HEAP_PAD_BYTES,
    HEAP_TRIM_AFTER_S,
    TICK_S,
)

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # from malloc.h


def keep_heap() -> None:
    """Sets malloc's thresholds. Called once, as the process starts."""
    with contextlib.suppress(OSError, AttributeError):  # no glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, HEAP_KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, HEAP_MAPPED_BYTES)
        mallopt(_M_TOP_PAD, HEAP_PAD_BYTES)


class HeapTrimmer:
    """Returns freed memory to the system once much of it was freed and stays unused.

    It compares what the process occupies with what the broker counts as used, since a peak of memory may lie between
    two looks: 64 MiB come and go within 0.3 s. What else the process needs is not counted and grows slowly: it is
    estimated by the least that the difference has ever been.
    """

    def __init__(self, loop: Any, used_bytes: Callable[[], int], occupied_bytes: Callable[[], int]) -> None:
        self._used_bytes = used_bytes
        self._occupied_bytes = occupied_bytes
        self._trim: Callable[[int], object] | None = None
        with contextlib.suppress(OSError, AttributeError):  # no glibc
            self._trim = ctypes.CDLL(None).malloc_trim
        self._needed_bytes = occupied_bytes() - used_bytes()  # what the process needs beyond what is counted
        self._freed_s = inf  # since when much more is occupied than needed
        self._timer = loop.timer(TICK_S, TICK_S)
        self._timer.start(lambda: self.look(time.monotonic()))

    def look(self, now_s: float) -> bool:
        """Trims the heap if that is due, and returns whether it did. It takes 1 ms for 64 MiB and 61 ms for 1 GiB, less
        than freeing all of that took.
        """
        occupied_bytes = self._occupied_bytes()
        if not occupied_bytes:  # not known now: the process may have no free file descriptor
            return False
        beside_bytes = occupied_bytes - self._used_bytes()
        self._needed_bytes = min(self._needed_bytes, beside_bytes)
        if beside_bytes - self._needed_bytes < HEAP_FREED_BYTES:
            self._freed_s = inf
            return False
        self._freed_s = min(self._freed_s, now_s)
        if now_s - self._freed_s < HEAP_TRIM_AFTER_S:
            return False
        if self._trim is not None:
            self._trim(0)
        # what the trim has left counts as needed, so that it is not tried again in vain
        self._freed_s, self._needed_bytes = inf, self._occupied_bytes() - self._used_bytes()
        return True


def occupied_bytes() -> int:
    """Returns the bytes that this process occupies, without mapped files; 0 if the system does not tell."""
    try:
        _, resident, shared, *_ = Path("/proc/self/statm").read_bytes().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES
